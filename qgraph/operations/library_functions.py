"""Functions of whole arrays that libraries compute: linear algebra, Fourier transforms, sorting and scans.

Each has one record: how Python spells it, the shape of its result, and what PyTorch calls it. CuPy has NumPy's names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from qgraph.records import dataclass

# Who computes on the device, in the order in which they are asked.
LIBRARIES = ("torch", "cupy")
Shape = tuple[int, ...]
Keywords = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A function of arrays that makes one array.

    Attributes:
        module: where Python has it.
        name: what it is called there.
        arrays: how many arrays it takes.
        shape: the shape of the result, from the shapes of the arrays; raises ValueError where they do not fit.
        torch: the same in PyTorch, whose module is the first argument; no function of it may wait for the device.
        keywords: the keyword arguments that may be given, as constants.
        computes: in which type: that of each array, their common one, or that with float64 for integers.
        gives: whether the result is complex.
        fails: what is wrong with arrays that it has no answer for, for which Python raises ``LinAlgError``; empty where there
            are none. In PyTorch it then gives, beside the result, a tensor that is 0 where there is one.
        results: how many arrays it gives; ``shape`` then gives as many shapes.
        integers: how many of the last of them hold integers, whatever the arrays hold.
        packed: how many of its first arrays Python passes in a tuple.
        fills: whether ``torch`` takes ``out=``, the array that its result is written to.
    """

    module: str
    name: str
    arrays: int
    shape: Callable[[Sequence[Shape], Keywords], Any]
    torch: Callable[..., Any]
    keywords: tuple[str, ...] = ()
    computes: Literal["each", "joined", "floats"] = "floats"
    gives: Literal["complex", "real", "as given"] = "as given"
    fails: str = ""
    results: int = 1
    integers: int = 0
    packed: int = 0
    fills: bool = False

    @property
    def as_first(self) -> bool:
        """Whether the result has the shape of the first array."""
        return self.shape in (_matrix, _scan, _transformed, _along) or (self.module == "numpy.fft" and "r" not in self.name)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Who can compute it: CuPy refuses that cuBLAS and cuSOLVER are captured, and seeks a nan behind all nans."""
        return (
            ("torch",)
            if self.name in ("matmul", "leading_matmul", "searchsorted") or self.module.endswith("linalg")
            else LIBRARIES
        )

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, where its module is loaded."""
        return getattr(sys.modules.get(self.module), self.name, None)

    @property
    def cupy(self) -> tuple[str, str]:
        """The module and name that CuPy has it under."""
        return (
            "cupy" + self.module.removeprefix("numpy") if self.module.startswith("numpy") else f"cupyx.{self.module}"
        ), self.name

    def dtype(self, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any] | None:
        """The type that the arrays are converted to; None where each keeps its own."""
        if self.computes == "each":
            return None
        if self.computes == "floats":
            # NumPy's linear algebra takes any integer for a float64, also beside a float32.
            dtypes = [np.dtype(np.float64) if each.kind in "biu" else each for each in dtypes]
        joined = np.result_type(*dtypes)
        return np.dtype(np.float32) if joined == np.float16 and self.module == "numpy.fft" else joined


def library_function(function: object) -> LibraryFunction | None:
    """The record of a function; None for any other."""
    return next((each for each in _FUNCTIONS if each.function is not None and each.function is function), None)


# --- shapes ------------------------------------------------------------------------------------------------------------


def _square(shape: Shape) -> Shape:
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"{_text(shape)} is no square matrix")
    return shape


def _product(shapes: Sequence[Shape], _: Keywords) -> Shape:
    first, second = shapes
    left = first if len(first) > 1 else (1, *first)
    right = second if len(second) > 1 else (*second, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"{_text(first)} and {_text(second)} do not fit: {left[-1]} is not {right[-2]}")
    # Of matrices there is nothing to ask, which takes NumPy a few us.
    outer = np.broadcast_shapes(left[:-2], right[:-2]) if len(left) + len(right) > 4 else ()
    return (*outer, *left[-2 : -1 if len(first) > 1 else -2], *(right[-1:] if len(second) > 1 else ()))


def leading_matmul(x: Any, y: Any) -> Any:
    """The product of a matrix and as many rows of another one as it has columns."""
    return x @ y[: x.shape[1]]


def _leading_product(shapes: Sequence[Shape], keywords: Keywords) -> Shape:
    first, second = shapes
    return _product([first, (min(first[1], second[0]), second[1])], keywords)


def _solution(shapes: Sequence[Shape], _: Keywords) -> Shape:
    matrix, right = shapes
    rows = right[-1] if len(right) == 1 else right[-2]
    if _square(matrix)[-1] != rows:
        raise ValueError(f"{_text(matrix)} and {_text(right)} do not fit: {matrix[-1]} is not {rows}")
    return (*matrix[:-2], *right) if len(right) == 1 else (*np.broadcast_shapes(matrix[:-2], right[:-2]), *right[-2:])


def _matrix(shapes: Sequence[Shape], _: Keywords) -> Shape:
    return _square(shapes[0])


def _number(shapes: Sequence[Shape], _: Keywords) -> Shape:
    if len(_square(shapes[0])) > 2:
        raise ValueError(f"{_text(shapes[0])} are several matrices")
    return (1,)


def _factors(shapes: Sequence[Shape], _: Keywords) -> tuple[Shape, Shape]:
    if len(shapes[0]) < 2:
        raise ValueError(f"{_text(shapes[0])} is no matrix")
    *several, rows, columns = shapes[0]
    least = min(rows, columns)
    return (*several, rows, least), (*several, least, columns)


def _pivoted(shapes: Sequence[Shape], _: Keywords) -> tuple[Shape, Shape]:
    return _square(shapes[0]), shapes[0][:-1]


def _solution_of_factors(shapes: Sequence[Shape], keywords: Keywords) -> Shape:
    matrix, pivots, right = shapes
    if pivots != matrix[:-1]:
        raise ValueError(f"{_text(matrix)} and the pivots {_text(pivots)} do not fit")
    return _solution((matrix, right), keywords)


def _along(shapes: Sequence[Shape], keywords: Keywords, *, default: int | None = -1, named: bool = False) -> Shape:
    axis = keywords.get("axis", default)
    if axis is None and (named or len(shapes[0]) != 1):
        raise ValueError("no axis is named" if named else f"{_text(shapes[0])} has several axes, and none is named")
    if axis is not None and not -len(shapes[0]) <= axis < len(shapes[0]):
        raise ValueError(f"{_text(shapes[0])} has no axis {axis}")
    return shapes[0]


def _scan(shapes: Sequence[Shape], keywords: Keywords) -> Shape:
    return _along(shapes, keywords, default=None)


def _transformed(shapes: Sequence[Shape], keywords: Keywords) -> Shape:
    shape = _along(shapes, keywords, named=True)
    return _with_elements(shape, shape[keywords.get("axis", -1)])


def _of_last(axes: int) -> Callable[[Sequence[Shape], Keywords], Shape]:
    """Of the last ``axes`` axes, 0 for all."""

    def shape(shapes: Sequence[Shape], _: Keywords) -> Shape:
        if len(shapes[0]) < axes:
            raise ValueError(f"{_text(shapes[0])} has less than {axes} axes")
        return _with_elements(shapes[0], *shapes[0][-axes:])

    return shape


def _with_elements(shape: Shape, *lengths: int) -> Shape:
    if min(lengths, default=1) < 1:
        raise ValueError(f"{_text(shape)} has no elements to transform")
    return shape


def _changed(length: Callable[[int], int]) -> Callable[[Sequence[Shape], Keywords], Shape]:
    def shape(shapes: Sequence[Shape], keywords: Keywords) -> Shape:
        found = list(_transformed(shapes, keywords))
        axis = keywords.get("axis", -1)
        found[axis] = length(found[axis])
        return _with_elements(tuple(found), found[axis])

    return shape


def _places(shapes: Sequence[Shape], _: Keywords) -> Shape:
    if len(shapes[0]) != 1:
        raise ValueError(f"{_text(shapes[0])} has several axes, and places are sought along one")
    return shapes[1]


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "a number"


# Rows of a matrix that cuSOLVER factors without memory of its own, which no device loop may hold. For more of them it needs
# none of float64 where they are a multiple of so many; and matrices of a stack are factored together, where PyTorch does not
# wait for the device, while they have few rows. Seen with PyTorch 2.11 for CUDA 13 on an H200.
_MOST_ROWS, _ROWS_AT_ONCE, _MOST_ROWS_OF_STACK = 512, 128, 128


# --- functions ---------------------------------------------------------------------------------------------------------


def _dim(keywords: Mapping[str, Any], default: int = -1) -> dict[str, Any]:
    found = dict(keywords)
    axis = found.pop("axis", default)
    return {**found, "dim": default if axis is None else axis}


def _of_columns(solve: Callable[[Any], Any], right: Any) -> Any:
    # PyTorch takes matrices of right sides for stacks of vectors where that fits; NumPy never does.
    return solve(right.unsqueeze(-1)).squeeze(-1) if right.ndim == 1 else solve(right)


def _triangular(torch: Any, matrix: Any, right: Any, *, lower: bool = False, unit_diagonal: bool = False) -> Any:
    solve = partial(torch.linalg.solve_triangular, matrix, upper=not lower, unitriangular=unit_diagonal)
    return _of_columns(solve, right), (matrix.diagonal(dim1=-2, dim2=-1) == 0) & (not unit_diagonal)


def _solve(torch: Any, matrix: Any, right: Any) -> Any:
    if right.ndim > 1:
        return _solved(torch, matrix, right)
    found, failed = _solved(torch, matrix, right.unsqueeze(-1))
    return found.squeeze(-1), failed


def _inv(torch: Any, matrix: Any) -> Any:
    rows = matrix.shape[-1]
    if rows <= (_MOST_ROWS if matrix.ndim == 2 else _MOST_ROWS_OF_STACK):
        return torch.linalg.inv_ex(matrix)
    return _solved(torch, matrix, torch.eye(rows, dtype=matrix.dtype, device=matrix.device))


def _solved(torch: Any, matrix: Any, columns: Any) -> Any:
    """What solves ``matrix @ x == columns``, and what is not 0 where nothing does."""
    rows = matrix.shape[-1]
    if matrix.ndim > 2 and rows > _MOST_ROWS_OF_STACK and matrix.numel() and columns.numel():
        stack = torch.broadcast_shapes(matrix.shape[:-2], columns.shape[:-2])
        operands = [each.expand(*stack, *each.shape[-2:]).reshape(-1, *each.shape[-2:]) for each in (matrix, columns)]
        found, failed = zip(*(_solved(torch, *pair) for pair in zip(*operands, strict=True)), strict=True)
        return torch.stack(found).reshape(*stack, *columns.shape[-2:]), torch.stack(failed)
    if rows > _MOST_ROWS and matrix.ndim == 2:
        return _solved_in_float64(torch, matrix, columns)
    # Not torch.linalg.solve, by which cuSOLVER may allocate for a captured stream.
    factors, pivots, failed = torch.linalg.lu_factor_ex(matrix)
    return _substituted(torch, factors, pivots, columns), failed


def _solved_in_float64(torch: Any, matrix: Any, columns: Any) -> Any:
    """The same by numbers of float64, those of [[re, -im], [im, re]] for complex ones, with rows of the identity behind."""
    dtype = columns.dtype
    if dtype.is_complex:
        re, im = matrix.real, matrix.imag
        matrix = torch.cat((torch.cat((re, -im), 1), torch.cat((im, re), 1)), 0)
        columns = torch.cat((columns.real, columns.imag), 0)
    rows = matrix.shape[0]
    more = -rows % _ROWS_AT_ONCE
    matrix, columns = matrix.to(torch.float64), columns.to(torch.float64)
    matrix = torch.nn.functional.pad(matrix, (0, more, 0, more))
    matrix.diagonal()[rows:].fill_(1.0)
    factors, pivots, failed = torch.linalg.lu_factor_ex(matrix)
    found = _substituted(torch, factors, pivots, torch.nn.functional.pad(columns, (0, 0, 0, more)))[:rows]
    return (torch.complex(*found.chunk(2, 0)) if dtype.is_complex else found).to(dtype), failed


def _lu_factor(torch: Any, matrix: Any) -> Any:
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    return factors, pivots - 1


def _lu_solve(torch: Any, factors: Any, pivots: Any, right: Any) -> Any:
    floats = right.dtype.is_floating_point or right.dtype.is_complex
    common = torch.promote_types(factors.dtype, right.dtype if floats else torch.float64)
    solve = partial(_substituted, torch, factors.to(common), (pivots + 1).to(torch.int32))
    return _of_columns(solve, right.to(common))


def _substituted(torch: Any, factors: Any, pivots: Any, columns: Any) -> Any:
    stack = torch.broadcast_shapes(factors.shape[:-2], columns.shape[:-2])
    columns = columns.expand(*stack, *columns.shape[-2:])
    if not columns.numel():
        return columns
    # Of each column of the permutation the row that has the one: a product with 0, 1, ..., exact in float64.
    ones = torch.lu_unpack(factors, pivots, unpack_data=False)[0].real.to(torch.float64)
    rows = torch.matmul(torch.arange(ones.shape[-2], dtype=ones.dtype, device=ones.device), ones).long().unsqueeze(-1)
    rows = rows.expand(*stack, *rows.shape[-2:])
    found = torch.linalg.solve_triangular(factors, torch.take_along_dim(columns, rows, -2), upper=False, unitriangular=True)
    return torch.linalg.solve_triangular(factors, found, upper=True)


def _searched(torch: Any, x: Any, v: Any, *, side: str = "left") -> Any:
    right = side == "right"
    if not x.dtype.is_floating_point:
        return torch.searchsorted(x, v, right=right)
    # PyTorch compares with nans on its way, which NumPy has behind all numbers.
    numbers = (x == x).sum()  # noqa: PLR0124 - it is not, of nans
    places = torch.searchsorted(torch.where(x == x, x, torch.inf), v, right=right)  # noqa: PLR0124
    return torch.where(v == v, torch.minimum(places, numbers), x.shape[0] if right else numbers)  # noqa: PLR0124


def _multiplied(torch: Any, x: Any, y: Any, *, out: Any = None) -> Any:
    alike = x.ndim == y.ndim == 3 and x.shape[0] == y.shape[0]
    if out is None or not (alike or max(x.ndim, y.ndim) <= 2):
        # Other stacks PyTorch multiplies in another shape, to which it would bring ``out``.
        found = torch.matmul(x, y)
        return found if out is None else out.copy_(found)
    # A vector on the left is a matrix of one row to it, also when it looks at ``out``.
    return torch.matmul(x, y, out=out.unsqueeze(0) if x.ndim == 1 < y.ndim else out)


def _leading_multiplied(torch: Any, x: Any, y: Any, *, out: Any = None) -> Any:
    return _multiplied(torch, x, y[: x.shape[1]], out=out)


def _scanned(name: str) -> Callable[..., Any]:
    return lambda torch, x, **keywords: getattr(torch, name)(x, **_dim(keywords, 0))


def sort_keys(torch: Any, x: Any) -> Any:
    """The numbers of ``x`` as sorts compare them, by their bits: a nan with a sign would come first, and NumPy has all last."""
    return torch.nan_to_num(x, torch.nan, torch.inf, -torch.inf) if x.dtype.is_floating_point else x


def _sorted(torch: Any, x: Any, *, out: Any = None, **keywords: Any) -> Any:
    found = torch.sort(sort_keys(torch, x), stable=True, **_dim(keywords))[0]
    return found if out is None else out.copy_(found)


def _fft(name: str) -> Callable[..., Any]:
    return lambda torch, x, **keywords: getattr(torch.fft, name)(x, **_dim(keywords))


def _fft_of_all(name: str) -> Callable[..., Any]:
    return lambda torch, x, **keywords: getattr(torch.fft, name)(x, **keywords)


_AXIS = ("axis", "norm")
_SINGULAR = "a singular matrix"
_FUNCTIONS = (
    LibraryFunction("numpy", "matmul", 2, _product, _multiplied, computes="joined", fills=True),
    LibraryFunction(__name__, "leading_matmul", 2, _leading_product, _leading_multiplied, computes="joined", fills=True),
    LibraryFunction("numpy.linalg", "solve", 2, _solution, _solve, fails=_SINGULAR),
    LibraryFunction("numpy.linalg", "inv", 1, _matrix, _inv, fails=_SINGULAR),
    LibraryFunction(
        "numpy.linalg",
        "cholesky",
        1,
        _matrix,
        lambda torch, x: torch.linalg.cholesky_ex(x),
        fails="a matrix that is not positive definite",
    ),
    LibraryFunction("numpy.linalg", "det", 1, _number, lambda torch, x: torch.linalg.det(x)),
    LibraryFunction("numpy.linalg", "qr", 1, _factors, lambda torch, x: torch.linalg.qr(x), results=2),
    LibraryFunction("scipy.linalg", "lu_factor", 1, _pivoted, _lu_factor, results=2, integers=1),
    LibraryFunction("scipy.linalg", "lu_solve", 3, _solution_of_factors, _lu_solve, computes="each", packed=2),
    LibraryFunction("scipy.linalg", "solve_triangular", 2, _solution, _triangular, ("lower", "unit_diagonal"), fails=_SINGULAR),
    *(LibraryFunction("numpy.fft", each, 1, _transformed, _fft(each), _AXIS, gives="complex") for each in ("fft", "ifft")),
    LibraryFunction("numpy.fft", "rfft", 1, _changed(lambda n: n // 2 + 1), _fft("rfft"), _AXIS, gives="complex"),
    LibraryFunction("numpy.fft", "irfft", 1, _changed(lambda n: 2 * (n - 1)), _fft("irfft"), _AXIS, gives="real"),
    *(
        LibraryFunction("numpy.fft", each, 1, _of_last(axes), _fft_of_all(each), ("norm",), gives="complex")
        for each, axes in (("fft2", 2), ("ifft2", 2), ("fftn", 0), ("ifftn", 0))
    ),
    LibraryFunction("numpy", "sort", 1, _along, _sorted, ("axis",), "each", fills=True),
    LibraryFunction(
        "numpy",
        "argsort",
        1,
        _along,
        lambda torch, x, **more: torch.argsort(sort_keys(torch, x), stable=True, **_dim(more)),
        ("axis",),
        "each",
        "real",
    ),
    *(
        LibraryFunction("numpy", name, 1, _scan, _scanned(name), ("axis",), "each", fills=True)
        for name in ("cumsum", "cumprod")
    ),
    LibraryFunction(
        "numpy",
        "searchsorted",
        2,
        _places,
        _searched,
        ("side",),
        "joined",
        "real",
    ),
)
