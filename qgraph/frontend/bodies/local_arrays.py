"""Arrays of constant shape that an iteration makes for itself: `t = np.zeros(3)`, `t = np.array((a, b, c))` in a loop body.

`d = x[i] - y[j]` is one, too, where rows are short and their length is known: its elements are computed one by one.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.row_elements import column, item, last_axes, row_length
from qgraph.frontend.bodies.row_overlaps import origin
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.elementwise import Elementwise, array_operands
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import is_elementwise, is_place, known, known_object, rank
from qgraph.frontend.inference.stores import may_change
from qgraph.frontend.names.bindings import LeafRef, Private, ViewRef
from qgraph.frontend.names.definite_assignment import names_bound_again
from qgraph.frontend.names.program_builder import ADDED, ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.frontend.syntax.written_arrays import WrittenArray, written_out
from qgraph.ir.argument_types import ArrayType, TailFound
from qgraph.ir.slots import SCALAR_DTYPES
from qgraph.ir.trees import assign, at_place, load, operands_of
from qgraph.operations import intrinsics, vectors
from qgraph.operations.table import is_one_of
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of, standing_for

# What the ``origin`` of such an array begins with; after it, its name.
_LOCAL = f"{ADDED}local "
# Elements of the rows that a cross product takes.
_CROSSED = 3
# Each thread has so much memory for one of them.
_MOST_BYTES = 16384
_PARAMETERS = {
    "empty": ("shape", "dtype"),
    "zeros": ("shape", "dtype"),
    "ones": ("shape", "dtype"),
    "full": ("shape", "fill_value", "dtype"),
    "array": ("object", "dtype"),
}


@dataclass(frozen=True, slots=True)
class LocalArray:
    """The statements that make an array, and the type of it."""

    statements: list[ast.stmt]
    type: ArrayType

    def bound(self, name: str, *, sure: bool) -> Private:
        """What the name of the array stands for, which generated code spells ``name``; ``sure``: it is never another array."""
        return Private(name, self.type, f"{_LOCAL}{name if sure else ''}")


def local_array(scope: Scope, unit: ProgramBuilder, node: ast.Assign) -> LocalArray | None:
    """What stands for ``t = np.zeros(3)``; None for any other statement.

    Raises:
        KernelSyntaxError: its shape or type is no constant, or it is large.
        TailFound: how long rows are will be known when the kernel is compiled for that.
    """
    call, target = node.value, node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name):
        return None
    computed = row_values(scope, unit, call, target.id)
    if computed is not None:
        places: list[ast.expr] = [*map(ast.Constant, range(len(computed.elements)))]
        converted = _converted(scope, call)
        found = element_type(scope, _source(scope, call)) if converted is None else converted[1]
        made = _made(scope, node, target.id, (len(places),), found, [*zip(places, computed.elements, strict=True)])
        return replace(made, statements=[*(at_place(each, node) for each in computed.before), *made.statements])
    if not isinstance(call, ast.Call):
        return None
    maker = _maker(known_object(scope, call.func))
    if maker is None:
        return None
    names = _PARAMETERS[maker]
    given = dict(zip(names, call.args, strict=False)) | {str(each.arg): each.value for each in call.keywords}
    if len(given) != len(call.args) + len(call.keywords) or not set(names[:-1]) <= given.keys() <= set(names):
        raise _refused(
            scope, call, f"`{as_written(call)}` is not understood in a loop", f"its arguments are {', '.join(names)}"
        )
    rows = _elements(scope, call, given["object"]) if maker == "array" else None
    shape = rows.shape if rows is not None else _shape(scope, call, given["shape"])
    values = rows.values if rows is not None else [given[name] for name in ("fill_value",) if name in given]
    dtype = _dtype(scope, call, given.get("dtype"), values)
    if math.prod(shape) * dtype.itemsize > _MOST_BYTES:
        raise _refused(scope, call, f"`{as_written(call)}` takes more than {_MOST_BYTES} bytes in each iteration of a loop")
    whole: ast.expr = ast.Slice() if len(shape) == 1 else ast.Tuple([ast.Slice() for _ in shape], ast.Load())
    fill = {"zeros": ast.Constant(0), "ones": ast.Constant(1), "full": given.get("fill_value")}.get(maker)
    places = [_place(at) for at in np.ndindex(shape)] if rows is not None else []
    return _made(
        scope, node, target.id, shape, dtype, [(whole, fill)] if fill is not None else [*zip(places, values, strict=False)]
    )


def _made(
    scope: Scope,
    node: ast.Assign,
    target: str,
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic] | None,
    stores: Sequence[tuple[ast.expr, ast.expr]],
) -> LocalArray:
    sizes = [ast.Constant(size) for size in shape]
    name = load(target)
    # The values first: the name may have stood for another array.
    held = [f"_{target}{at}" for at in range(len(stores))]
    like = load(held[0]) if dtype is None else word_of(scope, dtype)
    made: ast.stmt = ast.Assign(node.targets, word(scope, intrinsics.local_array, like, *sizes))
    before: list[ast.stmt] = [assign(each, copied(value)) for each, (_, value) in zip(held, stores, strict=True)]
    after: list[ast.stmt] = [
        ast.Assign([ast.Subscript(name, place, ast.Store())], load(each)) for each, (place, _) in zip(held, stores, strict=True)
    ]
    statements = [at_place(each, node) for each in (*before, made, *after)]
    return LocalArray(statements, ArrayType("" if dtype is None else dtype.name, len(shape), "C", tail=shape))


@dataclass(frozen=True, slots=True)
class RowValues:
    """The elements of a row that an expression makes, and the statements before them: numbers, and checks of lengths."""

    before: list[ast.stmt]
    elements: list[ast.expr]


def row_values(scope: Scope, unit: ProgramBuilder, node: ast.expr, stem: str) -> RowValues | None:
    """What an expression computes of short rows, or copies; None of any other expression. Numbers get names with ``stem``.

    Raises:
        TailFound: how many elements there are will be known when the kernel is compiled for that.
    """
    if (converted := _converted(scope, node)) is not None:
        source, dtype = converted
        found = _computed(scope, unit, [source], stem)
        return found and replace(found, elements=[word(scope, dtype.type, each) for each in found.elements])
    if crossed := _crossed(scope, node):
        found = _computed(scope, unit, crossed, stem, length=_CROSSED)
        return found and replace(found, elements=_cross(found.elements[:_CROSSED], found.elements[_CROSSED:]))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _product(scope, unit, node)
    source = _source(scope, node)
    return None if source is node and is_place(scope, node) else _computed(scope, unit, [source], stem)


def _computed(scope: Scope, unit: ProgramBuilder, parts: list[ast.expr], stem: str, length: int = 0) -> RowValues | None:
    """The elements of rows of one ``length``, which must be that where it is given, one row behind the other."""
    ranks: dict[ast.expr, int] = {}
    if any(rank(scope, each, ranks) != 1 or not _computes(scope, each, ranks) or may_change(scope, each) for each in parts):
        return None
    lengths = {each: row_length(scope, unit, each) for part in parts for each in array_operands(scope, part, ranks)}
    known_lengths = {each for each in lengths.values() if each is not None}
    found = known_lengths.pop() if len(known_lengths) == 1 else 0
    if not 0 < found <= vectors.MOST or found != (length or found):
        return None
    places = [_AtPlace(scope, place, stem) for place in range(found)]
    for each in places:
        # A number has one name in all elements.
        each.numbers, each.names = places[0].numbers, places[0].names
    elements = [each.visit(part) for part in parts for each in places]
    unknown = (each for each, length in lengths.items() if length is None)
    numbers = map(assign, places[0].names.values(), places[0].numbers)
    return RowValues([*numbers, *(_of_length(scope, each, found) for each in unknown)], elements)


def _product(scope: Scope, unit: ProgramBuilder, node: ast.BinOp) -> RowValues | None:
    """A matrix of an array times a row, one dot product for each row of the matrix; or a row times one, for each column."""
    ranks = dict[ast.expr, int]()
    both = rank(scope, node.left, ranks), rank(scope, node.right, ranks)
    matrix, row = (node.left, node.right) if both == (2, 1) else (node.right, node.left)
    found = last_axes(scope, unit, matrix) if both in ((2, 1), (1, 2)) else None
    # A sum of booleans is another one.
    if found is None or not is_place(scope, matrix) or element_type(scope, matrix) == np.bool_:
        return None
    if not _computes(scope, row, ranks) or may_change(scope, node):
        return None
    if len(found.tail) < 2 and found.path:
        raise TailFound(found.path, 2)
    lengths = {row_length(scope, unit, each) for each in array_operands(scope, row, ranks)}
    along = -1 if matrix is node.left else -2
    if len(found.tail) < 2 or lengths != {found.tail[along]} or max(found.tail[-2:]) > vectors.MOST:
        return None
    if matrix is node.left:
        return RowValues([], [word(scope, np.dot, item(matrix, (k,)), row) for k in range(found.tail[-2])])
    return RowValues([], [word(scope, np.dot, row, column(matrix, k)) for k in range(found.tail[-1])])


def _converted(scope: Scope, node: ast.expr) -> tuple[ast.expr, np.dtype[np.generic]] | None:
    """What ``node`` converts, and to which type, where it is ``x.astype(...)`` of what is computed."""
    match node:
        case ast.Call(func=ast.Attribute(value=source, attr="astype"), args=[to], keywords=[]) if rank(scope, source) == 1:
            return source, _dtype(scope, node, to, [])
    return None


def _of_length(scope: Scope, node: ast.expr, length: int) -> ast.stmt:
    text = f"{as_written(node)} is computed with rows of {length} elements, and has another length"
    error = word(scope, ValueError, ast.Constant(text))
    wrong = ast.Compare(word(scope, len, node), [ast.NotEq()], [ast.Constant(length)])
    return at_place(ast.If(wrong, [ast.Raise(error, None)], []), node)


def _crossed(scope: Scope, node: ast.expr) -> list[ast.expr]:
    """The operands of a cross product."""
    match node:
        case ast.Call(func=func, args=[_, _], keywords=[]) if known_object(scope, func) is np.cross:
            return node.args
    return []


def _cross(a: Sequence[ast.expr], b: Sequence[ast.expr]) -> list[ast.expr]:
    def product(left: int, right: int) -> ast.expr:
        return ast.BinOp(copied(a[left]), ast.Mult(), copied(b[right]))

    return [ast.BinOp(product(i, j), ast.Sub(), product(j, i)) for i, j in ((1, 2), (2, 0), (0, 1))]


def _source(scope: Scope, node: ast.expr) -> ast.expr:
    """What ``node`` is a copy of, where it is one."""
    match node:
        case ast.Call(func=ast.Attribute(value=source, attr="copy"), args=[], keywords=[]) if rank(scope, source) == 1:
            return source
        case ast.Call(func=func, args=[source], keywords=[]) if known_object(scope, func) is np.copy:
            return source
    return node


def _computes(scope: Scope, node: ast.expr, ranks: dict[ast.expr, int]) -> bool:
    """Whether an expression is made of rows, numbers, operators and functions of numbers."""
    if rank(scope, node, ranks) == 0 or is_place(scope, node):
        return True
    match node:
        case ast.BinOp(op=op) if not isinstance(op, ast.MatMult):
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()) | ast.Compare(ops=[_]):
            pass
        case ast.Call(func=func, keywords=[]) if is_elementwise(scope, func):
            pass
        case _:
            return False
    return all(_computes(scope, each, ranks) for each in operands_of(node))


class _AtPlace(Elementwise):
    """One element of a row that an expression computes."""

    def __init__(self, scope: Scope, place: int, stem: str) -> None:
        super().__init__(scope)
        self._place, self._stem = place, stem
        self.numbers: list[ast.expr] = []
        # By the node.
        self.names: dict[ast.expr, str] = {}

    def _element(self, node: ast.expr) -> ast.expr:
        return item(node, (self._place,))

    def _number(self, node: ast.expr) -> ast.expr:
        if not any(isinstance(child, ast.Call) for child in nodes_of(node)):
            return copied(node)
        if node not in self.names:
            self.names[node] = f"_{self._stem}_{len(self.numbers)}"
            self.numbers.append(node)
        return at_place(standing_for(load(self.names[node]), node), node)


def _place(at: tuple[int, ...]) -> ast.expr:
    numbers: list[ast.expr] = [ast.Constant(each) for each in at]
    return numbers[0] if len(numbers) == 1 else ast.Tuple(numbers, ast.Load())


def rebound(scope: Scope, nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are bound in more than one place, unless each place makes a new array."""
    assigned = (child for node in nodes for child in nodes_of(node) if isinstance(child, ast.Assign))
    made = {node.targets[0] for node in assigned if _makes(scope, node.value)}
    return names_bound_again(nodes, more_than=1) & names_bound_again(nodes, but=made)


def _makes(scope: Scope, value: ast.expr) -> bool:
    """Whether ``value``, if it is an array, is a new one."""
    if not isinstance(value, ast.Call):
        return isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare))
    if isinstance(value.func, ast.Attribute) and value.func.attr in ("copy", "astype"):
        return True
    function = known_object(scope, value.func)
    return is_one_of(function, (np.copy, np.cross)) or _maker(function) is not None or is_elementwise(scope, value.func)


def word_of(scope: Scope, dtype: np.dtype[np.generic]) -> ast.expr:
    """The type of NumPy's numbers of ``dtype``, whatever names the user has."""
    call = word(scope, dtype.type)
    return call.func


def refuse_leaving(scope: Scope, node: ast.Return) -> None:
    """Raise ``KernelSyntaxError`` where a function returns an array that an iteration has made: its memory is gone by then."""
    for part in node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]:
        if part is not None and is_local(scope, part):
            raise scope.error(
                f"`{as_written(part)}` is an array that an iteration has made, and cannot be returned",
                part,
                "make it where it is used, pass it to the function, and let that fill it",
            )


def is_local(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression is such an array, or a part of one."""
    return rank(scope, node) > 0 and (origin(scope, node) or "").startswith(_LOCAL)


def _maker(function: object) -> str | None:
    if function is np.array:
        return "array"
    if function is np.ones:
        return "ones"
    maker = language.array_maker(function)
    return maker if maker in _PARAMETERS else None


def _shape(scope: Scope, call: ast.Call, node: ast.expr) -> tuple[int, ...]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    value = known_object(scope, node)
    found = [_constant(scope, part) for part in parts] if not isinstance(value, tuple) else [*value]
    sizes = [size for size in found if isinstance(size, int) and size > 0]
    if not sizes or len(sizes) < len(found):
        raise _refused(scope, call, f"`{as_written(call)}` makes an array in an iteration of a loop whose shape is no constant")
    return tuple(sizes)


def _constant(scope: Scope, node: ast.expr) -> object:
    constant = constant_of(node)
    return constant if constant is not None else known_object(scope, node)


def _elements(scope: Scope, call: ast.Call, node: ast.expr) -> WrittenArray:
    found = written_out(node)
    if found is None or any(isinstance(each, ast.Starred) for each in found.values):
        raise _refused(
            scope,
            call,
            f"`{as_written(call)}` makes an array in an iteration of a loop of what is not written out",
            "write its numbers: np.array((a, b, c)), np.array(((a, b), (c, d)))",
        )
    if any(rank(scope, part) for part in found.values):
        raise _refused(scope, call, f"`{as_written(call)}` makes an array of arrays in an iteration of a loop")
    return found


def _dtype(scope: Scope, call: ast.Call, node: ast.expr | None, values: Sequence[ast.expr]) -> np.dtype[np.generic]:
    if node is not None:
        bound = known(scope, node.value) if isinstance(node, ast.Attribute) and node.attr == "dtype" else None
        of_array = bound.leaf.type.dtype if isinstance(bound, (LeafRef, ViewRef)) else None
        value = node.value if isinstance(node, ast.Constant) else of_array or known_object(scope, node)
        if isinstance(value, (str, type, np.dtype)) and np.dtype(value).name in SCALAR_DTYPES:
            return np.dtype(value)
        raise _refused(
            scope, node, f"`{as_written(node)}` is no dtype of an array in a kernel", "write numpy.float32, float, int or bool"
        )
    if not values:
        return np.dtype(np.float64)
    dtypes = [element_type(scope, each) for each in values]
    found = [dtype for dtype in dtypes if dtype is not None]
    if len(found) < len(dtypes):
        raise _refused(
            scope,
            call,
            f"the dtype of `{as_written(call)}` is not known before types are inferred",
            f"give its dtype, np.float64, or np.int64 of integers: {as_written(call)[:-1]}, dtype=np.float64)",
        )
    return np.result_type(*found)


def _refused(scope: Scope, node: ast.expr, found: str, hint: str = "") -> KernelSyntaxError:
    instead = "give it a small constant shape, or name it at kernel level, with a row for each iteration: "
    return scope.error(found, node, hint or f"{instead}t = qgraph.empty((n, 3)), then t[i, 0] = ...", in_order=True)
