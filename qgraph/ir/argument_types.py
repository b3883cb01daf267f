"""Types of arguments and of the plain values in them."""

from __future__ import annotations

import dataclasses
from typing import Literal

from qgraph.compat import cpython
from qgraph.errors import ArgumentError
from qgraph.language import ArrayAnnotation
from qgraph.records import dataclass
from qgraph.source import Span


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array argument: ``dtype`` is a NumPy dtype name, ``layout`` one of C, F, A as in Numba.

    ``tail``: the extents of the last axes, where the kernel is compiled for them; ``ones``: the axes of extent 1, where it is
    compiled for these. Types of arrays that change places need not agree in them, since their shapes do.
    """

    dtype: str
    ndim: int
    layout: Literal["C", "F", "A"]
    readonly: bool = False
    tail: tuple[int, ...] = ()
    ones: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(':' * self.ndim)}]"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A scalar argument. ``weak``: a Python number, which takes the kernel's float type where it meets floats."""

    dtype: str
    weak: bool

    def __str__(self) -> str:
        return f"{'Python ' if self.weak else ''}{self.dtype}"


@dataclass(frozen=True, slots=True, eq=False)
class ConstantType:
    """An argument whose value is part of the specialisation (None, a string, a function, anything that is ``Static``).

    Two of them are equal where the values are, and their types too: 1, 1.0 and True are three constants.
    """

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantType) and _identity(self.value) == _identity(other.value)

    def __hash__(self) -> int:
        return hash(_identity(self.value))


def _identity(value: object) -> object:
    """What tells a constant from another."""
    parts: object = value
    if isinstance(value, (float, complex)):
        parts = repr(value)
    elif isinstance(value, tuple):
        parts = tuple(map(_identity, value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = tuple(_identity(getattr(value, each.name)) for each in dataclasses.fields(value))
    elif isinstance(value, cpython.CFuncPtr):
        # Compared by identity anyway, and without a hash.
        parts = id(value)
    return type(value), parts


@dataclass(frozen=True, slots=True)
class StructType:
    """A tuple, named tuple, dataclass or CSR matrix: ``fields`` are (name, type) pairs; names in a tuple are indices."""

    cls: type
    fields: tuple[tuple[str, Type], ...]


Type = ArrayType | ScalarType | ConstantType | StructType


def check_annotation(name: str, annotation: ArrayAnnotation, found: Type, span: Span) -> None:
    """Refuse an argument ``name`` that is not what ``annotation`` says, which stands at ``span``."""
    if isinstance(found, ConstantType) and found.value is None and annotation.optional:
        return
    if not isinstance(found, ArrayType):
        kinds = {ConstantType: type(getattr(found, "value", None)).__name__, StructType: getattr(found, "cls", object).__name__}
        what, hint = kinds.get(type(found), str(found)), "pass an array"
    elif annotation.ndim not in (None, found.ndim):
        what, hint = str(found), f"pass an array with {annotation.ndim} dimension{'' if annotation.ndim == 1 else 's'}"
    elif not annotation.takes_dtype(found.dtype):
        what, hint = str(found), f"pass an array of {getattr(annotation.element, '__name__', 'them')}"
    else:
        return
    told = f"`{name}` is annotated as {annotation}, and was passed {what}"
    raise ArgumentError(told, span, hint=f"{hint}; or annotate it otherwise")


class TailFound(Exception):  # noqa: N818 - no error: the kernel is compiled for these extents
    """A kernel takes the elements of an argument along its last ``axes`` one by one: its type is to have their extents."""

    def __init__(self, path: str, axes: int) -> None:
        super().__init__(path)
        self.path, self.axes = path, axes


class LengthOfOne(ArgumentError):  # noqa: N818 - told as what it is of
    """Arrays have lengths that differ, and one of them is perhaps 1: the kernel is compiled for the extents that are."""


class TracedArray(ArgumentError):  # noqa: N818 - told as what it is of
    """An array that a compiler of another library, torch or jax, follows through the program: it has no memory."""

    library = ""


def is_csr(cls: type) -> bool:
    """Whether it is SciPy's or CuPy's class of sparse matrices that keep their rows (CSR)."""
    names, homes = ("csr_matrix", "csr_array"), ("scipy.sparse", "cupyx.scipy.sparse")
    return any(base.__name__ in names and base.__module__.startswith(homes) for base in cls.__mro__)


def names_its_fields(cls: type) -> bool:
    """Whether it is a class of this package, and no dataclass, that says which attributes of its objects are arguments."""
    return hasattr(cls, "__qgraph_fields__")


def field_names(cls: type) -> tuple[str, ...]:
    """The parts of a dataclass, or of a CSR matrix, that are arguments."""
    if is_csr(cls):
        return ("data", "indices", "indptr", "shape")
    if names_its_fields(cls):
        return tuple(cls.__qgraph_fields__)  # type: ignore[attr-defined]
    return tuple(field.name for field in dataclasses.fields(cls))


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array or scalar inside the arguments.

    ``path`` is how the user writes it (``state.grid.x``), ``name`` the identifier that stands for it in every body.
    ``extents`` are those of an array in the call that it was described for: a hint of what to specialise for, which is no part
    of keys and comparisons.
    """

    name: str
    path: str
    type: ArrayType | ScalarType
    extents: tuple[int, ...] = dataclasses.field(default=(), compare=False, repr=False)
