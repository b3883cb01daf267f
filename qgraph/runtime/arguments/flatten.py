"""A call's arguments -> their types and leaves: arrays and scalars, out of tuples and dataclasses nested in any way.

``describe`` looks at everything and explains what it refuses. What it found is the key of the specialisation;
``guards.py`` has the short cuts of later calls.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy

from qgraph.errors import ArgumentError
from qgraph.ir.argument_types import (
    ArrayType,
    ConstantType,
    Leaf,
    ScalarType,
    StructType,
    Type,
    field_names,
    is_csr,
    names_its_fields,
)
from qgraph.language import Func
from qgraph.nodes.event import event_handle, is_event_class
from qgraph.records import dataclass
from qgraph.runtime.arguments.array_adapters import DTYPE_NAMES, adopt, adopter_of, refuse
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.prepared_call import Value

MAX_LEAVES = 512
_MAX_DEPTH = 64
LOWEST, HIGHEST = -(2**63), 2**63 - 1

# Subclasses first: a bool is an int.
WEAK: tuple[tuple[type, str], ...] = ((bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128"))
_INSTEAD: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (list, "pass a tuple of arrays and scalars, or numpy.array(x)"),
    (dict, "pass a dataclass or a named tuple with these fields"),
    ((set, frozenset), "pass a tuple or an array"),
    ((bytes, bytearray), "pass numpy.frombuffer(x, numpy.uint8)"),
    (memoryview, "pass numpy.asarray(x)"),
)

Kind = Literal["number", "numpy scalar", "constant", "array", "tuple", "dataclass", "event", "callable", "other"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What ``describe`` found. ``types`` is hashable and decides the specialisation; ``values`` are in ``leaves``' order."""

    types: tuple[tuple[str, Type], ...]
    leaves: tuple[Leaf, ...]
    values: tuple[Value, ...]


def describe(
    parameters: Sequence[str],
    values: Sequence[object],
    reserved: frozenset[str] = frozenset(),
    static: frozenset[str] = frozenset(),
    tails: Mapping[str, int] = MappingProxyType({}),
    *,
    ones: bool = False,
) -> Arguments:
    """Flatten the arguments of one call.

    Args:
        parameters: the kernel's parameter names, and how those of global arrays are written.
        values: what the call passed, one for each.
        reserved: identifiers that no leaf may be named, such as the kernel's local variables.
        static: parameters whose values are part of the types.
        tails: by path, of how many last axes the extents are part of an array's type.
        ones: whether it is part of the types of arrays which axes are of extent 1.

    Raises:
        ArgumentError: something that is no argument, named by its path.
    """
    describer = _Describer(parameters, reserved, tails, ones=ones)
    types = tuple(
        (name, _static(name, value) if name in static else describer.visit(name, _identifier(name), value))
        for name, value in zip(parameters, values, strict=True)
    )
    return Arguments(types, tuple(describer.leaves), tuple(describer.values))


def _identifier(path: str) -> str:
    return path if path.isidentifier() else re.sub(r"\W", "_", path)


class _Describer:
    """Visits arguments depth first, in the order of parameters and fields, so that names depend on structure alone."""

    def __init__(self, parameters: Sequence[str], reserved: frozenset[str], tails: Mapping[str, int], *, ones: bool) -> None:
        self._tails, self._ones = tails, ones
        self._parameters = frozenset(parameters)
        self._used = set(parameters) | reserved
        self._open: list[int] = []
        self.leaves: list[Leaf] = []
        self.values: list[Value] = []

    def visit(self, path: str, stem: str, value: Any) -> Type:
        """The type of the value at ``path``; its leaves are added. ``stem`` is the path as an identifier."""
        kind = kind_of(value)
        if kind == "array":
            return self._array(path, stem, value)
        if kind == "number":
            return self._add(path, stem, *_number(value, path))
        if kind == "numpy scalar":
            return self._add(path, stem, *_numpy_scalar(value, path))
        if kind == "event":
            return self._add(path, stem, *_event(value, path))
        if kind == "tuple":
            return self._tuple(path, stem, value)
        if kind == "dataclass":
            return self._dataclass(path, stem, value)
        if kind in ("constant", "callable"):
            return _constant(path, value)
        raise _unsupported(path, value)

    def _array(self, path: str, stem: str, value: object) -> Type:
        view = adopt(value, path)
        if view is None:
            raise _unsupported(path, value)
        return self._add(path, stem, array_type(view, self._tails.get(path, 0), ones=self._ones), view)

    def _add(self, path: str, stem: str, type_: ArrayType | ScalarType, value: Value) -> ArrayType | ScalarType:
        if len(self.leaves) == MAX_LEAVES:
            raise ArgumentError(
                f"the arguments hold more than {MAX_LEAVES} arrays and scalars (argument `{path}` is one too many)",
                hint="pack scalars into an array, or pass only what the kernel uses",
            )
        # Only a parameter's own path is an identifier among the parameters. Names that begin with an underscore are those of
        # generated code.
        if stem.startswith("_"):
            name = self._unique(f"arg{stem}")
        else:
            name = stem if path == stem and stem in self._parameters else self._unique(stem)
        extents = value.shape if isinstance(value, ArrayView) else ()
        # Another library may have numbers of its own there, which it keeps open.
        self.leaves.append(Leaf(name, path, type_, extents if all(type(each) is int for each in extents) else ()))
        self.values.append(value)
        return type_

    def _unique(self, stem: str) -> str:
        name = stem
        number = 2
        while name in self._used:
            name = f"{stem}_{number}"
            number += 1
        self._used.add(name)
        return name

    def _enter(self, path: str, value: object) -> None:
        if id(value) in self._open:
            refuse(path, f"this {type(value).__name__} contains itself", "pass the parts that the kernel needs")
        if len(self._open) == _MAX_DEPTH:
            refuse(path, f"arguments are nested more than {_MAX_DEPTH} deep", "pass a flatter structure")
        self._open.append(id(value))

    def _tuple(self, path: str, stem: str, value: tuple[object, ...]) -> StructType:
        self._enter(path, value)
        names = getattr(value, "_fields", None)
        fields = []
        for index, item in enumerate(value):
            if names is None:
                fields.append((str(index), self.visit(f"{path}[{index}]", f"{stem}_{index}", item)))
            else:
                fields.append((names[index], self.visit(f"{path}.{names[index]}", f"{stem}_{names[index]}", item)))
        self._open.pop()
        return StructType(type(value), tuple(fields))

    def _dataclass(self, path: str, stem: str, value: Any) -> StructType:
        self._enter(path, value)
        for name in funcs_of(value):
            if name in vars(value):
                found = f"it has a `{name}` of its own, which hides the func of {type(value).__name__}"
                refuse(path, found, f"delete the attribute, or give it another name than `{name}`")
        fields = []
        for name in field_names(type(value)):
            try:
                item = getattr(value, name)
            except AttributeError:
                refuse(f"{path}.{name}", f"this field of {type(value).__name__} was never set", "set it before the call")
            fields.append((name, self.visit(f"{path}.{name}", f"{stem}_{name}", item)))
        self._open.pop()
        return StructType(type(value), tuple(fields))


def funcs_of(value: object) -> tuple[str, ...]:
    """The funcs of an object's class, where attributes of its own may hide them."""
    if not hasattr(value, "__dict__"):
        return ()
    members = {name: member for base in reversed(type(value).__mro__) for name, member in vars(base).items()}
    return tuple(name for name, member in members.items() if isinstance(member, Func))


def array_type(view: ArrayView, tail: int = 0, *, ones: bool = False) -> ArrayType:
    """The type of an array argument, as it enters the specialisation, with the extents of the last ``tail`` axes.

    ``ones``: which axes are of extent 1, too.
    """
    shape = view.shape
    known = tuple(axis for axis, extent in enumerate(shape) if extent == 1) if ones else None
    return ArrayType(view.dtype.name, len(shape), view.layout, view.readonly, tuple(shape[len(shape) - tail :]), known)


def kind_of(value: object) -> Kind:
    """What ``value`` is as an argument."""
    kind = _KINDS.get(type(value))
    if kind is None:
        kind = _find_kind(type(value))
        # A class may be made a dataclass, and somebody may say how its arrays are adopted.
        if kind not in ("callable", "other"):
            _KINDS[type(value)] = kind
    # An object may carry the interface as an attribute of its own.
    if kind in ("callable", "other") and not isinstance(value, type) and hasattr(value, "__cuda_array_interface__"):
        return "array"
    return kind


def _find_kind(cls: type) -> Kind:
    kinds: tuple[tuple[Kind, bool], ...] = (
        ("numpy scalar", issubclass(cls, numpy.generic)),
        ("number", issubclass(cls, bool | int | float | complex)),
        ("constant", issubclass(cls, str | enum.Enum | type(None))),
        ("array", adopter_of(cls) is not None),
        ("tuple", issubclass(cls, tuple)),
        ("dataclass", dataclasses.is_dataclass(cls) or is_csr(cls) or names_its_fields(cls)),
        ("event", is_event_class(cls)),
        ("callable", any("__call__" in vars(base) for base in cls.__mro__)),
    )
    return next((kind for kind, holds in kinds if holds), "other")


_KINDS: weakref.WeakKeyDictionary[type, Kind] = weakref.WeakKeyDictionary()


def _number(value: Any, path: str) -> tuple[ScalarType, Value]:
    # An int enumeration, or another class that derives from a number, counts as that number.
    base, dtype = next(row for row in WEAK if isinstance(value, row[0]))
    number: Any = value if type(value) is base else base(value)
    if base is int and not LOWEST <= number <= HIGHEST:
        refuse(path, f"the integer {number} does not fit into 64 bits", "pass numpy.uint64(x), or a float")
    return ScalarType(dtype, weak=True), number


def _numpy_scalar(value: numpy.generic, path: str) -> tuple[ScalarType, Value]:
    name = value.dtype.name
    if name not in DTYPE_NAMES:
        refuse(path, f"a NumPy scalar of type {type(value).__name__} is not supported", "pass a number: float(x) or int(x)")
    return ScalarType(name, weak=False), value


def _event(value: object, path: str) -> tuple[ScalarType, Value]:
    try:
        return ScalarType("uint64", weak=False), numpy.uint64(event_handle(value))
    except ArgumentError as error:
        refuse(path, error.found, error.hint or "")


def _constant(path: str, value: object) -> ConstantType:
    try:
        hash(ConstantType(value))
    except TypeError:
        refuse(path, f"this {type(value).__name__} cannot be hashed, so it cannot be a constant", "pass a plain function")
    return ConstantType(value)


def _static(path: str, value: Any) -> ConstantType:
    """The type of a ``Static`` argument, which is its value."""
    _check_static(path, value)
    return _constant(path, value)


def _check_static(path: str, value: Any) -> None:
    kind = kind_of(value)
    if isinstance(value, enum.Enum) or kind in ("number", "constant", "callable"):
        return
    if kind == "tuple":
        for index, part in enumerate(value):
            _check_static(f"{path}[{index}]", part)
    elif (
        kind == "dataclass"
        and not is_csr(type(value))
        and not names_its_fields(type(value))
        and type(value).__dataclass_params__.frozen
    ):
        for field in dataclasses.fields(value):
            _check_static(f"{path}.{field.name}", getattr(value, field.name))
    else:
        what = f"a {type(value).__name__}{', which is not frozen,' if kind == 'dataclass' else ''}"
        hint = (
            "a Static argument is a number, an enumeration member, a string, None, a function, or a frozen dataclass of these"
        )
        refuse(path, f"{what} cannot be Static", hint)


def _is_frozen(cls: type) -> bool:
    return bool(getattr(getattr(cls, "__dataclass_params__", None), "frozen", False))


def _unsupported(path: str, value: object) -> ArgumentError:
    hint = "pass arrays, numbers, and tuples or dataclasses of these"
    for classes, words in _INSTEAD:
        if isinstance(value, classes):
            hint = words
            break
    else:
        if hasattr(value, "tocsr"):
            hint = "pass a CSR matrix: A.tocsr()"
        elif hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            hint = "pass numpy.asarray(x)"
        elif hasattr(value, "__dict__"):
            hint = f"make {type(value).__name__} a dataclass, or pass its arrays and numbers"
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return ArgumentError(f"argument `{path}`: an object of type {name} cannot be passed to a kernel", hint=hint)
