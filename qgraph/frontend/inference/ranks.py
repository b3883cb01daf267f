"""Which kernel-level expressions are arrays, and of how many dimensions: known before anything is laid out."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.inference.axes_reduced import ALONG_AXES, OPTIONS, Reduced, axes_of, kind_of_norm, option
from qgraph.frontend.inference.selecting_words import Selecting, selecting, selecting_method
from qgraph.frontend.inference.view_words import order_of, order_of_method
from qgraph.frontend.names.bindings import Binding, LeafRef, Private, Ranked, StructRef, Value, ViewRef
from qgraph.frontend.names.foreign_calls import looks_up_number
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax import unsupported_functions
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.trees import MEMBERSHIP, at_place, constants_of, operands_of, parts_of
from qgraph.language import Func
from qgraph.operations.library_functions import LibraryFunction, library_function
from qgraph.operations.table import OPERATIONS, operation
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of


def known(scope: Scope, node: ast.expr) -> Binding | None:
    """What ``node`` stands for, None too where it is wrong: that is said where it is used."""
    try:
        return scope.static(node)
    except KernelSyntaxError:
        return None


def known_object(scope: Scope, node: ast.expr) -> object:
    """The object that ``node`` stands for at compile time; None where it stands for none."""
    bound = known(scope, node)
    return bound.value if isinstance(bound, Value) else None


def rank(scope: Scope, node: ast.expr, found: dict[ast.expr, int] | None = None) -> int:
    """The number of dimensions of an expression; 0 for numbers, and for what is no array that is followed.

    ``found`` has the ranks of expressions that were asked for before, while no name meant anything else, and gets more.
    """
    found = {} if found is None else found
    if node not in found:
        found[node] = _rank(scope, node, found)
    return found[node]


def _rank(scope: Scope, node: ast.expr, found: dict[ast.expr, int]) -> int:
    bound = known(scope, node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
    if bound is not None:
        return _rank_of(bound)
    match node:
        case ast.Attribute(value=value, attr=attr) if attr == "T" or unsupported_functions.of_attribute(attr):
            return rank(scope, value, found)
        case ast.Subscript(value=ast.Call()) if places_of_true(scope, node) or histogram_part_of(scope, node):
            return 1
        case ast.Subscript(value=value):
            return _selected(scope, node, rank(scope, value, found))
        case ast.BinOp(left=left, right=right):
            ranks = rank(scope, left, found), rank(scope, right, found)
            # Of stacks of matrices, a vector takes one dimension away.
            return max(0, max(ranks) - ranks.count(1)) if isinstance(node.op, ast.MatMult) and 0 not in ranks else max(ranks)
        case ast.Compare(ops=ops) if isinstance(ops[0], MEMBERSHIP):
            return 0
        case ast.UnaryOp() | ast.Compare() | ast.BoolOp():
            return max(rank(scope, part, found) for part in operands_of(node))
        case ast.IfExp(body=body, orelse=orelse):
            return max(rank(scope, body, found), rank(scope, orelse, found))
        case ast.Call():
            return _rank_of_call(scope, node, found)
    return 0


def _makes_array(scope: Scope, node: ast.Call) -> bool:
    """Whether a function or method of NumPy's gives a new array."""
    if isinstance(bound := known(scope, node.func), Value):
        ranks = [rank(scope, argument) for argument in node.args]
        number = reduction(scope, node) or looks_up_number(bound.value, ranks)
        return not number and unsupported_functions.of_function(bound.value, of_arrays=any(ranks))
    if bound is not None or not isinstance(node.func, ast.Attribute) or reduction(scope, node):
        return False
    return unsupported_functions.of_method(node.func.attr) and rank(scope, node.func.value) > 0


def new_array(scope: Scope, node: ast.expr) -> KernelSyntaxError:
    """The error that says of ``node``, which is an array, that it is a new one, and what to write instead."""
    hint = unsupported_functions.instead(node, known_object(scope, node.func) if isinstance(node, ast.Call) else None)
    if reduced_along(scope, node) is not None:
        hint = "in a loop reduce to one number at a time, np.sum(u[i, :, k]); along axes outside of it, of whole arrays"
    return scope.error(f"`{as_written(node)}` is a new array", node, hint, in_order=True)


def _rank_of_call(scope: Scope, node: ast.Call, found: dict[ast.expr, int]) -> int:
    if (mask := nonzero_of(scope, node)) is not None:
        # A tuple of arrays, which as an index is what the mask is.
        return rank(scope, mask, found)
    if places_of_true(scope, node) is not None:
        return 1
    if (selection := as_selection(scope, node)) is not None:
        return rank(scope, selection, found)
    if node.args and is_elementwise(scope, node.func):
        return max(rank(scope, argument, found) for argument in node.args)
    if (record := library_call(scope, node, found)) is not None:
        ranks = [rank(scope, each, found) for each in library_operands(record, node)]
        return _rank_of_result(record, ranks, constants_of(node))
    if (view := view_word(scope, node, found)) is not None:
        return len(view.order)
    if (shape := _shape_given(scope, node)) is not None:
        return shape
    if (reduced := reduced_along(scope, node, found)) is not None:
        return reduced.rank
    # A new array is refused where it is laid out.
    operands = [node.func.value, *node.args] if isinstance(node.func, ast.Attribute) else node.args
    return max([1, *(rank(scope, operand, found) for operand in operands)]) if _makes_array(scope, node) else 0


def library_call(scope: Scope, node: ast.AST, found: dict[ast.expr, int] | None = None) -> LibraryFunction | None:
    """The record of the library's function that ``node`` calls, which makes one array of arrays; None for anything else.

    ``found`` as in ``rank``.
    """
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            ranks = {rank(scope, left, found), rank(scope, right, found)}
            return library_function(np.matmul) if 0 not in ranks and ranks != {1} else None
        case ast.Call(func=func, args=[_, *_] as args):
            function = known_object(scope, func)
            if function is np.dot:
                # The same of vectors and matrices.
                ranks = {rank(scope, each, found) for each in args}
                return library_function(np.matmul) if len(args) == 2 and ranks in ({2}, {1, 2}) else None
            record = library_function(function)
            if record is None or record.results > 1 or record.name == "det":
                return None
            several = [rank(scope, each, found) for each in library_operands(record, node)]
            # Products of vectors and places of numbers are numbers.
            of_numbers = (record.name, several[:2]) in (("matmul", [1, 1]), ("searchsorted", [1, 0]))
            return record if any(several) and not of_numbers else None
    return None


def library_operands(record: LibraryFunction, node: ast.expr) -> list[ast.expr]:
    """The arrays that a library's function is given, as written."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    assert isinstance(node, ast.Call)
    first = node.args[0]
    return [*first.elts, *node.args[1:]] if record.packed and isinstance(first, ast.Tuple) else list(node.args)


@dataclass(frozen=True, slots=True)
class ViewWord:
    """``array`` in another order: for each dimension that of the array, -1 for a new one, and which run backwards."""

    array: ast.expr
    order: tuple[int, ...]
    backwards: frozenset[int]


def view_word(scope: Scope, node: ast.AST, found: dict[ast.expr, int] | None = None) -> ViewWord | None:
    """What `np.flip(x)` and its kin mean; None for anything else, and where axes are no constants. ``found`` as in ``rank``."""
    if not isinstance(node, ast.Call):
        return None
    bound = known(scope, node.func)
    is_method = bound is None and isinstance(node.func, ast.Attribute)
    arguments = [node.func.value, *node.args] if isinstance(node.func, ast.Attribute) and is_method else node.args
    if not arguments or not (isinstance(bound, Value) or is_method):
        return None
    ndim = rank(scope, arguments[0], found)
    given = [_constant(scope, each) for each in arguments[1:]]
    named = {str(each.arg): _constant(scope, each.value) for each in node.keywords}
    if ndim == 0 or None in (*given, *named.values()):
        return None
    if isinstance(bound, Value):
        order = order_of(bound.value, ndim, *given, **named)
    else:
        assert isinstance(node.func, ast.Attribute)
        order = order_of_method(node.func.attr, ndim, *given, **named)
    return None if order is None else ViewWord(arguments[0], *order)


def _constant(scope: Scope, node: ast.expr) -> int | tuple[int, ...] | None:
    """An integer, or a tuple of them, that is known at compile time."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = known_object(scope, node)
    return value if isinstance(value, (int, tuple)) else None


def is_place(scope: Scope, node: ast.AST) -> bool:
    """Whether an expression of arrays names a part of one, and computes nothing."""
    named = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not is_component(scope, node)
    return named or view_word(scope, node) is not None


def is_component(scope: Scope, node: ast.AST) -> bool:
    """Whether it is the real or imaginary part of an array, as an attribute."""
    if not isinstance(node, ast.Attribute) or not unsupported_functions.of_attribute(node.attr):
        return False
    return known(scope, node) is None and rank(scope, node.value) > 0


def _rank_of_result(record: LibraryFunction, ranks: Sequence[int], keywords: Mapping[str, object]) -> int:
    try:
        shape = record.shape([(2,) * ndim for ndim in ranks], keywords)
    except (ValueError, IndexError, TypeError):
        # Refused where it is laid out.
        return max(1, *ranks)
    return len(shape)


def _shape_given(scope: Scope, node: ast.Call) -> int | None:
    """The number of dimensions of what NumPy's or this package's ``zeros`` and its kin make; None for other calls."""
    maker = language.array_maker(known_object(scope, node.func))
    if maker is None or not node.args:
        return None
    first = node.args[0]
    if maker.endswith("_like"):
        return rank(scope, first)
    if (extents := extents_of(scope, first)) is not None:
        return len(extents)
    bound = known(scope, first)
    if isinstance(bound, StructRef):
        return len(bound.children)
    known_shape = bound.value if isinstance(bound, Value) else None
    parts = first.elts if isinstance(first, (ast.Tuple, ast.List)) else known_shape
    return len(parts) if isinstance(parts, (tuple, list)) else 1


def extents_of(scope: Scope, node: ast.expr) -> list[ast.expr] | None:
    """The extents in `x.shape` and `x.shape[1:]`, one by one; None for anything else."""
    shape = node.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) else node
    axes = range(rank(scope, shape.value) if isinstance(shape, ast.Attribute) and shape.attr == "shape" else 0)
    if axes and isinstance(node, ast.Subscript) and isinstance(part := node.slice, ast.Slice):
        try:
            bounds = (None if each is None else ast.literal_eval(each) for each in (part.lower, part.upper, part.step))
            axes = axes[slice(*bounds)]
        except (ValueError, TypeError):
            return None
    return [at_place(ast.Subscript(copied(shape), ast.Constant(axis), ast.Load()), node) for axis in axes] or None


def _rank_of(bound: Binding) -> int:
    match bound:
        case LeafRef():
            return bound.leaf.type.ndim if isinstance(bound.leaf.type, ArrayType) else 0
        case ViewRef():
            return len(bound.along)
        case Ranked():
            return bound.ndim
        case Private(array=ArrayType(ndim=ndim)):
            return ndim
    return 0


def is_elementwise(scope: Scope, func: ast.expr) -> bool:
    """Whether a function of numbers is one of arrays too, element by element."""
    return bool(operation(known_object(scope, func)).elementwise)


def is_new_axis(scope: Scope, part: ast.expr) -> bool:
    """Whether an index is None, ``np.newaxis``."""
    if isinstance(part, ast.Constant):
        return part.value is None
    bound = known(scope, part) if isinstance(part, (ast.Name, ast.Attribute)) else None
    return isinstance(bound, Value) and bound.value is None


def is_ellipsis(part: ast.expr) -> bool:
    """Whether an index is ``...``."""
    return isinstance(part, ast.Constant) and part.value is ...


def _selected(scope: Scope, node: ast.Subscript, ndim: int) -> int:
    """The rank of ``base[...]``, where the base has ``ndim`` dimensions."""
    if ndim == 0:
        return 0
    parts = parts_of(node)
    if len(parts) == 1 and _may_be_tuple(scope, parts[0]):
        return 0
    chosen = [part for part in parts if not isinstance(part, ast.Slice) and rank(scope, part)]
    # A mask takes as many dimensions as it has, and gives one.
    extra = sum(rank(scope, part) - 1 for part in chosen if is_mask(scope, part))
    shared = max((1 if is_mask(scope, part) else rank(scope, part) for part in chosen), default=0)
    kept = sum(isinstance(part, ast.Slice) or is_new_axis(scope, part) for part in parts)
    taken = extra + sum(not is_new_axis(scope, part) and not is_ellipsis(part) for part in parts)
    # Of too many indices the error is told where it is laid out.
    return max(1 if chosen else 0, kept + ndim - taken + shared)


def is_selection(scope: Scope, node: ast.AST) -> bool:
    """Whether ``node`` is the elements that arrays of indices, or of booleans, select: `x[k]`, `x[x > 0]`."""
    if not isinstance(node, ast.Subscript) or not rank(scope, node.value) or known(scope, node) is not None:
        return False
    parts = parts_of(node)
    if len(parts) == 1 and _may_be_tuple(scope, parts[0]):
        return False
    return any(not isinstance(part, ast.Slice) and rank(scope, part) for part in parts)


def as_selection(scope: Scope, node: ast.AST) -> ast.Subscript | None:
    """``node`` as the selection that it is or means: `x[k]` for `np.take(x, k)`, `x[m]` for `np.extract(m, x)`."""
    if isinstance(node, ast.Subscript):
        return node if is_selection(scope, node) else None
    found = _selecting_call(scope, node) if isinstance(node, ast.Call) else None
    if found is None:
        return None
    position, ndim = 0 if found.axis is None else _constant(scope, found.axis), rank(scope, found.array)
    if not ndim or not rank(scope, found.index) or not isinstance(position, int):
        return None
    parts: list[ast.expr] = [ast.Slice() for _ in range(position % ndim)]
    inside: ast.expr = ast.Tuple([*parts, found.index], ast.Load()) if parts else found.index
    return at_place(ast.Subscript(found.array, inside, ast.Load()), node)


def _selecting_call(scope: Scope, node: ast.Call) -> Selecting | None:
    """The array, the index and the axis that a function or method of NumPy's selects by."""
    function, given = known_object(scope, node.func), [*node.args]
    options = {str(each.arg): each.value for each in node.keywords}
    if function is None and isinstance(node.func, ast.Attribute) and known(scope, node.func) is None:
        found = selecting_method(node.func.attr, node.func.value, *given, **options)
    else:
        found = selecting(function, *given, **options)
    if found is None:
        return None
    # Without an axis these are of the elements in C order.
    most = rank(scope, found.index) if found.of_all else 1
    if found.axis is None and rank(scope, found.array) > most:
        return None
    return found if not found.by_mask or is_mask(scope, found.index) else None


def places_of_true(scope: Scope, node: ast.AST) -> tuple[ast.expr, int | None] | None:
    """The mask of `np.nonzero(m)[0]`, `np.where(m)[0]` and `np.flatnonzero(m)`, and the dimension, None for all in one."""
    match node:
        case ast.Call(args=[mask], keywords=[]) if known_object(scope, node.func) is np.flatnonzero and rank(scope, mask):
            return mask, None
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int() as axis)):
            found = nonzero_of(scope, call)
            return None if found is None or not 0 <= axis < rank(scope, found) else (found, axis)
    return None


def histogram_part_of(scope: Scope, node: ast.AST) -> tuple[ast.Call, ast.expr] | None:
    """The call, and the number of the part, of `np.histogram(x)[0]`; None for anything else."""
    match node:
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0 | 1) as part):
            return (call, part) if known_object(scope, call.func) is np.histogram else None
    return None


def nonzero_of(scope: Scope, node: ast.AST) -> ast.expr | None:
    """The array of `np.nonzero(m)`, of `m.nonzero()` and of `np.where(m)`, which is the same; None for anything else."""
    match node:
        case ast.Call(args=[mask], keywords=[]) if known_object(scope, node.func) in (np.nonzero, np.where):
            return mask if rank(scope, mask) else None
        case ast.Call(func=ast.Attribute(value=mask, attr="nonzero"), args=[], keywords=[]):
            return mask if rank(scope, mask) and known(scope, node.func) is None else None
    return None


def index_of(scope: Scope, part: ast.expr) -> ast.expr:
    """An index, and for `np.nonzero(m)` the mask, which selects the same."""
    mask = nonzero_of(scope, part)
    if mask is None or is_mask(scope, mask):
        return mask or part
    return at_place(ast.Compare(mask, [ast.NotEq()], [ast.Constant(0)]), part)


def is_mask(scope: Scope, node: ast.expr) -> bool:
    """Whether an array is surely one of booleans, as far as that is known before anything is laid out."""
    bound = known(scope, node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
    match bound:
        case LeafRef() | ViewRef():
            return bound.leaf.type.dtype == "bool" if isinstance(bound.leaf.type, ArrayType) else False
        case Private(array=ArrayType(dtype=dtype)):
            return dtype == "bool"
    match node:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return is_mask(scope, operand)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
            return is_mask(scope, left) and is_mask(scope, right)
        case ast.Subscript(value=value) | ast.Attribute(value=value, attr="T"):
            return is_mask(scope, value)
        case ast.Call():
            if nonzero_of(scope, node) is not None:
                return True
            if (view := view_word(scope, node)) is not None:
                return is_mask(scope, view.array)
            function = known_object(scope, node.func)
            return isinstance(function, np.ufunc) and all(types.endswith("?") for types in function.types)
    return False


def _may_be_tuple(scope: Scope, part: ast.expr) -> bool:
    """Whether one index may stand for several: a tuple argument, or a name that only a loop's body knows."""
    if isinstance(part, ast.Tuple):
        return True
    if not isinstance(part, ast.Name):
        return isinstance(known(scope, part), StructRef)
    if part.id not in scope.names and part.id in scope.source.function.__code__.co_varnames:
        return True
    bound = known(scope, part)
    if isinstance(bound, Private):
        return bound.is_tuple
    return isinstance(bound, StructRef) or (isinstance(bound, Value) and isinstance(bound.value, tuple))


def may_be_tuple(scope: Scope, value: ast.expr) -> bool:
    """Whether a local name that is bound to ``value`` may be a tuple."""
    match value:
        case ast.Name():
            return _may_be_tuple(scope, value)
        case ast.IfExp(body=body, orelse=orelse):
            return may_be_tuple(scope, body) or may_be_tuple(scope, orelse)
        case ast.Call(func=func):
            function = known_object(scope, func)
            if isinstance(function, Func):
                returned = [node.value for node in nodes_of(function.source.tree) if isinstance(node, ast.Return)]
                return any(isinstance(each, (ast.Tuple, ast.Name, ast.Call, ast.IfExp)) for each in returned)
            return not (operation(function).pure or isinstance(function, type) or reduction(scope, value))
        case ast.Attribute(attr=attr):
            return attr in ("shape", "strides") or isinstance(known(scope, value), StructRef)
    return isinstance(value, ast.Tuple) or isinstance(known(scope, value), StructRef)


def reduced_along(scope: Scope, node: ast.AST, found: dict[ast.expr, int] | None = None) -> Reduced | None:
    """The reduction of an array that has axes, along all or some of them; None for others, and for options it does not take.

    ``found`` as in ``rank``.
    """
    if not isinstance(node, ast.Call):
        return None
    bound, arguments = known(scope, node.func), [*node.args]
    if isinstance(bound, Value):
        kind = operation(bound.value).reduces
    elif bound is None and isinstance(node.func, ast.Attribute) and node.func.attr in OPERATIONS.methods:
        kind, arguments = node.func.attr, [node.func.value, *arguments]
    else:
        return None
    if kind not in ALONG_AXES or not arguments or (ndim := rank(scope, arguments[0], found)) == 0:
        return None
    options = {str(each.arg): each.value for each in node.keywords}
    array, *more = arguments
    order = options.pop("ord", None) if kind == "norm" else None
    if more and kind == "norm" and order is None:
        order = more.pop(0)
    if more and "axis" not in options:
        options["axis"] = more.pop(0)
    axis, keepdims = option(scope, options.get("axis"), None), option(scope, options.get("keepdims"), False)
    axes, power = axes_of(kind, ndim, axis), 2.0
    if kind == "norm" and axes is not None:
        kind, power = kind_of_norm(ndim, axes, option(scope, order, None), axis_given=axis is not None)
    if (
        not kind
        or more
        or axes is None
        or type(keepdims) is not bool
        or not options.keys() <= {"axis", "keepdims", *OPTIONS.get(kind, ())}
    ):
        return None
    return Reduced(kind, array, ndim, axes, keepdims, options.get("ddof"), power)


def reduction(scope: Scope, node: ast.AST) -> str:
    """The reduction of arrays to one number that ``node`` is, or ""."""
    if (reduced := reduced_along(scope, node)) is not None:
        return "" if reduced.rank else reduced.kind
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right) if rank(scope, left) == rank(scope, right) == 1:
            return "dot"
        case ast.Call(func=func, args=args) if isinstance(bound := known(scope, func), Value):
            name = operation(bound.value).reduces
            if bound.value is len and len(args) == 1:
                return "len" if _counts(scope, args[0]) else ""
            if bound.value is np.dot and library_call(scope, node) is not None:
                return ""
            return name if name and any(rank(scope, argument) for argument in args) else ""
        case ast.Call(func=ast.Attribute(value=array, attr=name)) if name in OPERATIONS.methods and rank(scope, array):
            return name
        case ast.Attribute(value=array, attr="size") if _counts(scope, array):
            return "len"
    return ""


def _counts(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` has as many elements as its mask has True: a selection of one dimension."""
    selection = as_selection(scope, node)
    if selection is None or rank(scope, node) != 1:
        return False
    parts = parts_of(selection)
    return len(parts) == 1 and is_mask(scope, parts[0])
