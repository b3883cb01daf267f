"""``qgraph.vec`` and ``qgraph.mat``: small vectors and matrices of numbers, which kernels keep in registers.

Each is a named tuple of a class of its shape. What an operator or method computes is a function of the components, made for the
shapes at hand: plain Python calls it, and compilers compile it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

# Of a number (), of a vector its length, of a matrix its rows and columns.
Shape = tuple[int, ...]
# Components of a vector.
MOST = 16
_LARGEST_INVERSE = 4


class Components(tuple[Any, ...]):
    """What vectors and matrices do: ``+ - * /`` element by element and with numbers, ``@``, and methods. They do not change."""

    __slots__ = ()
    shape_: Shape = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Operators of NumPy's arrays and numbers with vectors: those in place change arrays, others give vectors."""
        if method != "__call__" or options:
            return NotImplemented
        if out is not None:
            return ufunc(*(np.array(each) if isinstance(each, Components) else each for each in inputs), out=out)
        return _operated(_UFUNCS[ufunc], *inputs) if ufunc in _UFUNCS else NotImplemented

    def dot(self, other: Any) -> Any:
        """The sum of products of components, ``self @ other``."""
        return dot(self, other)

    def cross(self, other: Any) -> Any:
        """The cross product of vectors of three components."""
        return cross(self, other)

    def norm(self) -> Any:
        """The square root of the sum of squares."""
        return norm(self)

    def inv(self) -> Any:
        """The inverse of a matrix of up to four rows, by its adjugate; of a singular one the division fails."""
        return inv(self)

    @property
    def T(self) -> Any:
        """The transpose of a matrix; a vector is its own."""
        return transposed(self)

    def __add__(self, other: Any) -> Any:
        return _operated("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _operated("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _operated("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operated("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _operated("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _operated("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _operated("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _operated("/", other, self)

    def __matmul__(self, other: Any) -> Any:
        return _operated("@", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _operated("@", other, self)

    def __neg__(self) -> Any:
        return function("-", self.shape_)(self)

    def __pos__(self) -> Any:
        return self

    def _no_order(self, _other: Any) -> Any:
        raise TypeError("vectors and matrices have no order: compare their components, or norms")

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == len(self.shape_) == 2:
            return super().__getitem__(index[0])[index[1]]
        if isinstance(index, slice):
            raise TypeError("a part of a vector is written out: qgraph.vec(v[0], v[1])")
        return super().__getitem__(index)

    def __reduce__(self) -> Any:
        return (vec if len(self.shape_) == 1 else mat), tuple(self)

    def __repr__(self) -> str:
        is_vector = len(self.shape_) == 1
        return f"{'vec' if is_vector else 'mat'}({', '.join(repr(each if is_vector else tuple(each)) for each in self)})"


@functools.cache
def class_of(shape: Shape) -> Any:
    """The class of vectors or matrices of a shape."""
    length = shape[0]
    fields = [*"xyzw"][:length] if len(shape) == 1 and length <= 4 else [f"c{k}" for k in range(length)]
    name = f"vec{length}" if len(shape) == 1 else f"mat{length}x{shape[1]}"
    return type(name, (Components, namedtuple(name, fields)), {"__slots__": (), "shape_": shape})


def vec(*components: Any) -> Any:
    """A vector of numbers: ``vec(1, 0, 0)``, or of the elements of a row or tuple, ``vec(x[i])``. Integers become floats.

    Raises:
        TypeError: there are no components, more than 16, or some that are no numbers.
    """
    if len(components) == 1 and _is_sequence(components[0]):
        components = tuple(components[0])
    if not 1 <= len(components) <= MOST:
        raise TypeError(f"a vector has 1 to {MOST} components, not {len(components)}")
    return class_of((len(components),))(*map(_component, components))


def mat(*rows: Any) -> Any:
    """A matrix of its rows (vectors, tuples, rows of arrays), ``mat((1, 0), (0, 1))``, or of a part of an array, ``mat(a[i])``.

    Raises:
        TypeError: rows are no vectors of one length.
    """
    if len(rows) == 1 and getattr(rows[0], "ndim", 1) == 2:
        rows = tuple(rows[0])
    made = tuple(row if shape_of(row) is not None and len(shape_of(row) or ()) == 1 else vec(*row) for row in rows)
    lengths = {len(row) for row in made}
    if len(lengths) != 1:
        raise TypeError("the rows of a matrix have one length")
    return class_of((len(made), *lengths))(*made)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1) or hasattr(value, "shape_")


def _component(value: Any) -> Any:
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return float(value)
    if isinstance(value, (float, np.floating)):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _component(value[()])
    raise TypeError(f"a component is a real number, not {type(value).__name__}")


def shape_of(value: Any) -> Shape | None:
    """The shape of a vector or matrix; None of anything else."""
    return value.shape_ if isinstance(value, Components) else None


def dot(a: Any, b: Any) -> Any:
    """``a.dot(b)`` of vectors."""
    return _operated("dot", a, b)


def cross(a: Any, b: Any) -> Any:
    """``a.cross(b)``."""
    return _operated("cross", a, b)


def norm(a: Any) -> Any:
    """``a.norm()``."""
    return _operated("norm", a)


def inv(a: Any) -> Any:
    """``a.inv()``."""
    return _operated("inv", a)


def transposed(a: Any) -> Any:
    """``a.T``."""
    return _operated("T", a)


def matmul(a: Any, b: Any) -> Any:
    """``a @ b``."""
    return _operated("@", a, b)


_UFUNCS = {np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/", np.matmul: "@"}
# By the name of a method; each may be a word in generated code.
METHODS = {"dot": dot, "cross": cross, "norm": norm, "inv": inv}


def _operated(name: str, *operands: Any) -> Any:
    known = [_operand(each) for each in operands]
    if NotImplemented in known:
        return NotImplemented
    shapes = [shape_of(each) or () for each in known]
    return function(name, *shapes)(*known)


def _operand(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return mat(value) if value.ndim == 2 else vec(value) if value.ndim == 1 else NotImplemented
    if isinstance(value, np.ndarray):
        return value[()]
    known = isinstance(value, (Components, bool, int, float, np.number, np.bool_))
    return value if known else NotImplemented


# --- what is computed -----------------------------------------------------------------------------------------------------


class ShapeError(TypeError):
    """Operands of shapes that do not fit."""


def _texts(name: str, shape: Shape) -> Any:
    """How the components of an operand are written: a text, a list of them, or a list of lists."""
    if not shape:
        return name
    return [_texts(f"{name}[{k}]", shape[1:]) for k in range(shape[0])]


def result_shape(name: str, *shapes: Shape) -> Shape:
    """The shape of what an operation gives.

    Raises:
        ShapeError: there is no such operation.
    """
    first, *others = shapes
    match name, *map(len, shapes):
        case (("+" | "-" | "*" | "/"), _, _) if first == others[0] or () in shapes:
            return first or others[0]
        case "-" | "T", _:
            return first[::-1] if name == "T" else first
        case (("dot" | "@"), 1, 1) if first == others[0]:
            return ()
        case "@", 2, (1 | 2) if first[1] == others[0][0]:
            return (first[0], *others[0][1:])
        case "@", 1, 2 if first[0] == others[0][0]:
            return (others[0][1],)
        case "cross", 1, 1 if first == others[0] == (3,):
            return (3,)
        case "norm", 1 | 2:
            return ()
        case "inv", 2 if first[0] == first[1] <= _LARGEST_INVERSE:
            return first
    raise ShapeError(f"{_written(name)} of {' and '.join(map(_named, shapes))}")


def _written(name: str) -> str:
    return f"`{name}`" if not name.isidentifier() else "`.T`" if name == "T" else f"`{name}()`"


def _named(shape: Shape) -> str:
    kinds = {0: "a number", 1: "a vector of {}", 2: "a matrix of {} by {}"}
    return kinds[len(shape)].format(*shape)


@functools.cache
def function(name: str, *shapes: Shape) -> Callable[..., Any]:
    """The function of operands of these shapes that an operator, or a method, computes.

    Raises:
        ShapeError: there is no such operation.
    """
    shape = result_shape(name, *shapes)
    operands = [_texts(each, shape_) for each, shape_ in zip("ab", shapes, strict=False)]
    lines: list[str] = []
    result = _COMPUTED.get(name, _elementwise)(name, operands, shapes, lines)
    classes = {each.__name__: each for each in map(class_of, filter(None, {shape, shape[1:]}))}
    head = f"def vector_{_NAMES.get(name, name)}({', '.join('ab'[: len(shapes)])}):"
    body = [*lines, f"return {_made(result, shape)}"]
    namespace: dict[str, Any] = {**classes, "_sqrt": math.sqrt}
    exec("\n    ".join([head, *body]), namespace)
    found: Callable[..., Any] = namespace[f"vector_{_NAMES.get(name, name)}"]
    return found


_NAMES = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "@": "matmul"}


def _made(texts: Any, shape: Shape) -> str:
    if not shape:
        return str(texts)
    return f"{class_of(shape).__name__}({', '.join(_made(each, shape[1:]) for each in texts)})"


def _elementwise(name: str, operands: Sequence[Any], shapes: Sequence[Shape], lines: list[str]) -> Any:
    if len(operands) == 1:
        (only,) = operands
        return f"-{only}" if isinstance(only, str) else [_elementwise(name, [each], shapes, lines) for each in only]
    left, right = operands
    if isinstance(left, str) and isinstance(right, str):
        return f"{left} {name} {right}"
    count = len(right if isinstance(left, str) else left)
    pairs = zip(*([each] * count if isinstance(each, str) else each for each in operands), strict=True)
    return [_elementwise(name, pair, shapes, lines) for pair in pairs]


def _sum(products: Iterable[str]) -> str:
    return " + ".join(products)


def _product(left: Sequence[str], right: Sequence[str]) -> str:
    return _sum(f"{a} * {b}" for a, b in zip(left, right, strict=True))


def _matmul(_name: str, operands: Sequence[Any], shapes: Sequence[Shape], _lines: list[str]) -> Any:
    left, right = operands
    columns = [*zip(*right, strict=True)] if len(shapes[1]) == 2 else right
    if len(shapes[0]) == 1:
        return [_product(left, column) for column in columns] if len(shapes[1]) == 2 else _product(left, right)
    if len(shapes[1]) == 1:
        return [_product(row, right) for row in left]
    return [[_product(row, column) for column in columns] for row in left]


def _cross(_name: str, operands: Sequence[Any], _shapes: Sequence[Shape], _lines: list[str]) -> Any:
    (a, b, c), (d, e, f) = operands
    return [f"{b} * {f} - {c} * {e}", f"{c} * {d} - {a} * {f}", f"{a} * {e} - {b} * {d}"]


def _norm(_name: str, operands: Sequence[Any], shapes: Sequence[Shape], _lines: list[str]) -> str:
    (only,) = operands
    every = only if len(shapes[0]) == 1 else itertools.chain(*only)
    return f"_sqrt({_sum(f'{each} * {each}' for each in every)})"


def _transpose(_name: str, operands: Sequence[Any], shapes: Sequence[Shape], _lines: list[str]) -> Any:
    (only,) = operands
    return only if len(shapes[0]) == 1 else [list(column) for column in zip(*only, strict=True)]


def _inverse(_name: str, operands: Sequence[Any], shapes: Sequence[Shape], lines: list[str]) -> Any:
    """The adjugate over the determinant; minors of rows and columns have a name each."""
    (a,) = operands
    every = tuple(range(shapes[0][0]))
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}

    def minor(rows: tuple[int, ...], columns: tuple[int, ...]) -> str:
        if not rows:
            return "1.0"
        if len(rows) == 1:
            return str(a[rows[0]][columns[0]])
        if (rows, columns) not in known:
            parts = [f"{a[rows[0]][column]} * {minor(rows[1:], _without(columns, column))}" for column in columns]
            text = "".join(f"{' - ' if at % 2 else ' + '}{part}" for at, part in enumerate(parts)).removeprefix(" + ")
            known[rows, columns] = f"m{len(known)}"
            lines.append(f"{known[rows, columns]} = {text}")
        return known[rows, columns]

    lines.append(f"scale = 1.0 / {minor(every, every)}")
    found = [[minor(_without(every, column), _without(every, row)) for column in every] for row in every]
    return [[f"{'-' if (row + column) % 2 else ''}{found[row][column]} * scale" for column in every] for row in every]


def _without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(each for each in numbers if each != number)


_COMPUTED: dict[str, Callable[[str, Sequence[Any], Sequence[Shape], list[str]], Any]] = {
    "@": _matmul,
    "dot": _matmul,
    "cross": _cross,
    "norm": _norm,
    "T": _transpose,
    "inv": _inverse,
}
