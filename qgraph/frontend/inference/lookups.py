"""Calls of NumPy that look one number up in a table, as `np.interp(x[i], xp, fp)`: they are those of funcs."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import known_object, rank
from qgraph.frontend.names.foreign_calls import looks_up_number
from qgraph.frontend.names.scope import Scope
from qgraph.ir.trees import at_place


def lookup_of(scope: Scope, node: ast.AST) -> ast.Call | None:
    """The call of a func that ``node`` is; None for anything else."""
    found = _lookup(scope, node)
    if found is None or not isinstance(node, ast.Call):
        return None
    assert scope.frame is not None
    call = word(scope, scope.frame.unit.funcs[found[0]], *node.args)
    call.keywords = list(node.keywords)
    return at_place(call, node)


def number_looked_up(scope: Scope, node: ast.AST) -> np.generic | None:
    """A number of the type of what such a call gives; None for anything else."""
    found = _lookup(scope, node)
    return None if found is None else found[1]


def _lookup(scope: Scope, node: ast.AST) -> tuple[str, np.generic] | None:
    if not isinstance(node, ast.Call):
        return None
    return looks_up_number(known_object(scope, node.func), [rank(scope, each) for each in node.args])
