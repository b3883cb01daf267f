"""What is a tuple at kernel level: named tuples, dataclasses, vectors, `divmod(n, m)`, one tuple or another."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import numpy as np

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import known_object, rank
from qgraph.frontend.names.bindings import Value
from qgraph.frontend.names.foreign_calls import fields_of, given_fields
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import known_test
from qgraph.ir.trees import at_place, load, stored
from qgraph.operations import vectors
from qgraph.operations.table import is_one_of
from qgraph.source import as_written, standing_for

_DIVMODS = (divmod, np.divmod)


def makes_tuple(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value`` is written as a tuple, or makes a named tuple or a dataclass."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Tuple)
    if not isinstance(value.func, (ast.Name, ast.Attribute)):
        return False
    try:
        bound = scope.static(value.func)
    except KernelSyntaxError:  # a name of the function itself: said where it is used
        return False
    cls = bound.value if isinstance(bound, Value) else None
    if is_one_of(cls, (vectors.vec, vectors.mat)):
        return True
    return isinstance(cls, type) and (issubclass(cls, tuple) or dataclasses.is_dataclass(cls))


def is_divmod(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value`` is `divmod(n, m)` of numbers, Python's or NumPy's."""
    return isinstance(value, ast.Call) and is_one_of(known_object(scope, value.func), _DIVMODS) and not rank(scope, value)


def made_structure(scope: Scope, value: ast.expr) -> tuple[type, dict[str, ast.expr]] | None:
    """The class, and its fields with their values, where ``value`` makes a named tuple or a dataclass.

    Raises:
        KernelSyntaxError: a field is given twice, or not at all.
    """
    if not isinstance(value, ast.Call) or not makes_tuple(scope, value):
        return None
    bound = scope.static(value.func)
    cls = bound.value if isinstance(bound, Value) else None
    if is_one_of(cls, (vectors.vec, vectors.mat)):
        return _made_vector(scope, value, is_matrix=cls is vectors.mat)
    assert isinstance(cls, type)
    fields = fields_of(cls)
    if fields is None:
        return None
    given = given_fields(scope, cls, fields, value)
    return cls, {field: given[field] for field in fields}


def _made_vector(scope: Scope, value: ast.Call, *, is_matrix: bool) -> tuple[type, dict[str, ast.expr]]:
    """The class and the components of ``vec(a, b, c)``, the rows of ``mat((a, b), (c, d))``."""
    parts = value.args
    if is_matrix:
        parts = [word(scope, vectors.vec, *each.elts) if isinstance(each, ast.Tuple) else each for each in parts]
    if any(rank(scope, each) for each in parts):
        raise scope.error(
            f"`{as_written(value)}` is made of an array at kernel level",
            value,
            "write its components, qgraph.vec(x[0], x[1]), or make it in a loop",
        )
    lengths = {len(each.args) if isinstance(each, ast.Call) else 0 for each in parts} if is_matrix else {1}
    if value.keywords or not 1 <= len(parts) <= vectors.MOST or len(lengths) != 1 or lengths == {0}:
        raise scope.error(
            f"`{as_written(value)}` is no vector or matrix at kernel level",
            value,
            "write its components out, as in qgraph.vec(0.0, 1.0) or qgraph.mat((1, 0), (0, 1)), or make it in a loop",
        )
    cls: Any = vectors.class_of((len(parts), *(lengths if is_matrix else ())))
    placed = parts if is_matrix else [_as_float(each) for each in parts]
    return cls, {field: at_place(part, value) for field, part in zip(cls._fields, placed, strict=True)}


def _as_float(node: ast.expr) -> ast.expr:
    """``node`` as a component, which is a float."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return standing_for(ast.copy_location(ast.Constant(float(node.value)), node), node)
    return standing_for(ast.copy_location(ast.BinOp(node, ast.Mult(), ast.Constant(1.0)), node), node)


def gives_tuple(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value`` is of this kind, and needs statements of its own."""
    return is_divmod(scope, value) or _chooses(scope, value)


def in_tuple(scope: Scope, value: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
    """``value`` as a part of a tuple: what gives one takes statements, and is then a name, or the tuple of two names."""
    if not _chooses(scope, value):
        return divided(scope, value)
    name = f"{ADDED}chosen_{value.lineno}_{value.col_offset}"
    target = standing_for(stored(name), value)
    return [at_place(ast.Assign([target], value), value)], at_place(standing_for(load(name), value), value)


def divided(scope: Scope, value: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
    """``value``; of `divmod(n, m)` a statement, and the tuple of names for its two numbers."""
    if not is_divmod(scope, value):
        return [], value
    names = [f"{ADDED}divided{k}_{value.lineno}_{value.col_offset}" for k in range(2)]
    target = ast.Tuple([standing_for(stored(name), value) for name in names], ast.Store())
    whole = ast.Tuple([standing_for(load(name), value) for name in names], ast.Load())
    return [at_place(ast.Assign([target], value), value)], at_place(whole, value)


def choice_of_tuples(scope: Scope, target: ast.Name, value: ast.IfExp) -> list[ast.stmt]:
    """``t = (1, 2) if c else (3, 4)``: an `if` that assigns each part, and the tuple of them; nothing for other choices."""
    if known_test(scope, value.test) is not None:
        return []
    both = (value.body, value.orelse)
    if any(made_structure(scope, each) is not None for each in both):
        raise scope.error(
            f"`{as_written(value)}` chooses between named tuples or dataclasses",
            value,
            "write an `if` that makes one on each path",
        )
    if not _chooses(scope, value):
        return []
    length, other = (_length(scope, each) for each in both)
    if length is None or length != other:
        raise scope.error(
            f"`{as_written(value)}` is not a tuple of one length",
            value,
            "write as many values for both cases: t = (1, 2) if c else (3, 4)",
        )
    names = [f"{ADDED}choice{k}_{value.lineno}_{value.col_offset}" for k in range(length)]
    branches: list[list[ast.stmt]] = []
    for each in both:
        stores = [standing_for(stored(name), part) for name, part in zip(names, _parts(each, length), strict=True)]
        branches.append([at_place(ast.Assign([ast.Tuple([*stores], ast.Store())], each), each)])
    loads = [standing_for(load(name), target, f"{target.id}[{k}]") for k, name in enumerate(names)]
    whole = ast.Tuple([*loads], ast.Load())
    return [at_place(ast.If(value.test, *branches), value), at_place(ast.Assign([target], whole), target)]


def _chooses(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value`` is one tuple or another, or a tuple or something else."""
    if not isinstance(value, ast.IfExp):
        return False
    return any(_length(scope, each) is not None or _chooses(scope, each) for each in (value.body, value.orelse))


def _length(scope: Scope, value: ast.expr) -> int | None:
    """How many parts ``value`` has; None for what is no tuple, or may be one of several."""
    if isinstance(value, ast.Tuple):
        return len(value.elts)
    if isinstance(value, ast.IfExp):
        length, other = _length(scope, value.body), _length(scope, value.orelse)
        return length if length == other else None
    return 2 if is_divmod(scope, value) else None


def _parts(value: ast.expr, length: int) -> list[ast.expr]:
    """What stands in the source for each of the parts of ``value``."""
    return value.elts if isinstance(value, ast.Tuple) else [value] * length
