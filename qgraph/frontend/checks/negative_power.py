"""Integer powers whose exponent may be negative on the device, where Python gives a float."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.errors import ArgumentError
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import is_natural
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.faults import Fault
from qgraph.source import as_written


def may_fail(scope: Scope, base: ast.expr, exponent: ast.expr) -> bool:
    """Whether ``base ** exponent`` may be an integer to a negative power. A literal exponent is judged where types are."""
    if constant_of(exponent) is not None or is_natural(scope, exponent):
        return False
    kinds = ((element_type(scope, base), "fc"), (element_type(scope, exponent), "fcu"))
    return not any(dtype is not None and dtype.kind in fine for dtype, fine in kinds)


def is_power(scope: Scope, callee: object, node: ast.Call) -> bool:
    """Whether a call means ``base ** exponent`` of what may be an integer to a negative power."""
    is_pair = len(node.args) == 2 and not node.keywords
    return is_pair and (callee is pow or callee is np.power) and may_fail(scope, node.args[0], node.args[1])


def negative_power(scope: Scope, node: ast.expr) -> Fault:
    """What ``node``, a power, then did wrong."""
    found = f"`{as_written(node)}` is an integer to a negative power, which is not an integer"
    return Fault(ArgumentError, scope.span(node), found, "convert one of them to a float, as in `float(a) ** k`")
