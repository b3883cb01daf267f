"""What is an array expression inside a loop body, which of them loops have, and which local names are parts of arrays."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.row_overlaps import origin
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.ranks import known, known_object, may_be_tuple, new_array, rank, reduction
from qgraph.frontend.inference.stores import is_in_place, is_slice
from qgraph.frontend.names.bindings import Private, Value
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax import unsupported_functions
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.trees import MEMBERSHIP, parts_of
from qgraph.language import Func
from qgraph.operations.table import OPERATIONS, operation
from qgraph.operations.vectors import MOST
from qgraph.source import as_written, nodes_of

# Expressions that may be computed of whole arrays.
ARRAY_EXPRESSIONS = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare)
# NumPy's functions and methods of arrays that all backends compile as they are: of floats and complex numbers, of some types
# besides, of all.
_OF_FLOATS = frozenset({"nansum", "nanmean", "nanprod", "nanstd", "nanvar", "trace"})
_OF_NUMBERS = frozenset({"average", *_OF_FLOATS})
_OF_ALL = frozenset({"size", "shape", "asarray", "reshape", "fill", "item"})


def conditions_in(node: ast.expr) -> Iterator[ast.expr]:
    """``node``, a condition, and those that it is made of."""
    yield node
    if isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        for operand in node.values if isinstance(node, ast.BoolOp) else [node.operand]:
            yield from conditions_in(operand)


def is_reduced(scope: Scope, node: ast.expr, ranks: dict[ast.expr, int], conditions: Collection[ast.expr]) -> bool:
    """Whether ``node`` is a reduction of arrays. ``ranks`` as in ``rank``; an array as one of ``conditions`` is no matter here.

    Raises:
        KernelSyntaxError: it makes a new array, or NumPy alone computes such a thing.
    """
    if reduction(scope, node):
        return True
    if isinstance(node, ast.Call):
        _refuse_uncertain(scope, node)
        instead = unsupported_functions.of_numbers(known_object(scope, node.func))
        array = next((each for each in node.args if rank(scope, each, ranks)), None) if instead else None
        if array is not None:
            raise scope.error(f"`{as_written(node)}` is of numbers, and `{as_written(array)}` an array", node, instead)
        if _takes_arrays(scope, node, ranks):
            if not rank(scope, node, ranks):
                raise _not_in_loops(scope, node)
            if node not in conditions:
                raise new_array(scope, node)
        return False
    told = node in conditions or (isinstance(node, ast.Compare) and isinstance(node.ops[0], MEMBERSHIP))
    if not told and rank(scope, node, ranks):
        error = new_array(scope, node)
        whole = not any(isinstance(child, ast.Slice) for child in nodes_of(node))
        if isinstance(node, ast.BinOp) and rank(scope, node) == 1 and whole:
            error.hint = f"a name can stand for whole rows of up to {MOST} numbers, `d = {as_written(node)}`; else {error.hint}"
        raise error
    return False


def _refuse_uncertain(scope: Scope, node: ast.Call) -> None:
    """Raise ``KernelSyntaxError`` for a reduction of what may be an array, and for the truth of a number."""
    bound = known(scope, node.func)
    kind = operation(bound.value).reduces if isinstance(bound, Value) else ""
    for argument in node.args if kind else []:
        base = argument.value if isinstance(argument, ast.Subscript) else argument
        index = parts_of(argument)[0] if isinstance(argument, ast.Subscript) else argument
        of_tuple = any(isinstance(part, ast.Name) and may_be_tuple(scope, part) for part in (base, index))
        if of_tuple or kind in ("any", "all"):
            raise scope.error(
                f"`{as_written(node)}` is of {'what may be no array' if of_tuple else 'a number'}",
                node,
                "give it an array, a part of one, or a name for a part: row = a[i]",
            )


def _not_in_loops(scope: Scope, node: ast.Call) -> KernelSyntaxError:
    bound = known(scope, node.func)
    if getattr(getattr(bound, "value", None), "__name__", "") in ("median", "quantile", "percentile"):
        middle = "the median is (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2"
        hint = f"at kernel level sort the elements, s = np.sort(x), and take some of them: {middle}"
        raise scope.error(f"`{as_written(node)}` is none of the functions of arrays that kernels have", node, hint)
    return scope.error(
        f"`{as_written(node)}` is a function of arrays that loops do not have",
        node,
        "write a loop over the elements, or use np.sum, np.dot, np.min, np.max and the other reductions",
    )


def _takes_arrays(scope: Scope, node: ast.Call, ranks: dict[ast.expr, int]) -> bool:
    """Whether NumPy is called with arrays, or a method of one, and not every backend compiles that."""
    bound = known(scope, node.func)
    if isinstance(bound, Value):
        name = getattr(bound.value, "__name__", "")
        of_numpy = isinstance(bound.value, np.ufunc) or (getattr(bound.value, "__module__", "") or "").startswith("numpy")
        # Of what makes arrays of numbers the callee tells what is wrong.
        if not of_numpy or language.array_maker(bound.value) is not None:
            return False
        if not any(rank(scope, argument, ranks) for argument in node.args):
            return rank(scope, node, ranks) > 0
    elif bound is None and isinstance(node.func, ast.Attribute) and rank(scope, node.func.value, ranks):
        name = node.func.attr
    else:
        return False
    if name in _OF_NUMBERS and isinstance(bound, Value):
        dtype = element_type(scope, node.args[0])
        return dtype == np.float16 or (name in _OF_FLOATS and (dtype is None or dtype.kind not in "fc"))
    return name not in _OF_ALL


def array_target(scope: Scope, node: ast.Assign | ast.AugAssign, targets: Sequence[ast.expr]) -> ast.expr | None:
    """The part of an array to which ``node`` assigns arrays, or which it updates; None for a statement of numbers.

    Raises:
        KernelSyntaxError: several places are assigned, or what an array selects.
    """
    if is_in_place(scope, node):
        return targets[0]
    places = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    slices = [place for place in places if is_slice(scope, place)]
    for place in slices:
        refuse_masks(scope, place)
    if isinstance(node, ast.AugAssign):
        return slices[0] if slices else None
    value = node.value
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    if not slices or not any(rank(scope, part) for part in values):
        return None
    if len(places) == 1 and not isinstance(value, ast.Tuple):
        return slices[0]
    raise scope.error(
        f"`{as_written(slices[0])}` is assigned together with others",
        slices[0],
        "write one statement for each part of an array",
        in_order=not isinstance(value, ast.Tuple),
    )


def array_of(scope: Scope, name: str, value: ast.expr) -> Private:
    """What a local name is that is bound to ``value``: a part of an array, or anything else."""
    if not isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) or not rank(scope, value):
        return Private(name, is_tuple=may_be_tuple(scope, value))
    dtype = element_type(scope, value)
    return Private(name, ArrayType("" if dtype is None else dtype.name, rank(scope, value), "A"), origin(scope, value) or "")


def looks_at_arrays(source: SourceFunction, seen: frozenset[object] = frozenset()) -> bool:
    """Whether a function, or one that it calls, may do something with whole arrays, so that it matters what it is given."""
    for node in nodes_of(source.tree):
        match node:
            case ast.Attribute(attr=attr) if attr in OPERATIONS.methods or attr in ("dot", "vdot", "norm", "count_nonzero"):
                return True
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign() | ast.Slice():
                return True
            case ast.Assign(targets=targets, value=ast.Tuple() | ast.Name() | ast.IfExp() | ast.Call()) if any(
                isinstance(each, (ast.Subscript, ast.Tuple)) for each in targets
            ):
                # A tuple may be assigned to a row.
                return True
            case ast.Call(func=ast.Name(id=name)):
                called = source.closure.get(name, source.globals.get(name))
                if isinstance(called, Func) and called not in seen and looks_at_arrays(called.source, seen | {called}):
                    return True
    return False


def refuse_masks(scope: Scope, node: ast.expr) -> None:
    """Raise ``KernelSyntaxError`` for what an array selects."""
    for part in indices_in(scope, node):
        if not isinstance(part, ast.Slice) and rank(scope, part):
            raise scope.error(
                f"the index `{as_written(part)}` is no integer and no slice",
                part,
                "to select by an array, write a loop over its elements",
                in_order=True,
            )


def indices_in(scope: Scope, node: ast.expr) -> Iterator[ast.expr]:
    """All indices of arrays in ``node``."""
    for child in nodes_of(node):
        if isinstance(child, ast.Subscript) and rank(scope, child.value):
            yield from parts_of(child)
