"""A call's arguments -> their types and leaves: arrays and scalars, out of tuples and dataclasses nested in any way.

``describe`` looks at everything and explains what it refuses. What it found is the key of the specialisation, and makes the
short cuts of later calls: a ``Reader`` re-reads the leaves of arguments of the same types, and ``Unchanged`` tells that
nothing changed at all; ``key_maker`` finds the one to ask. They are generated functions: straight-line checks, without loops
or look-ups.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
import operator
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy

from qgraph.errors import ArgumentError
from qgraph.program import ArrayType, ConstantType, Leaf, ScalarType, StructType, Type
from qgraph.runtime.adopt import DTYPE_NAMES, adopt, adopter_of, refuse, watch_of
from qgraph.runtime.array_view import ArrayView, host_pointer
from qgraph.runtime.call import Value
from qgraph.runtime.events import event_handle, is_event_class

MAX_LEAVES = 512
_MAX_DEPTH = 64
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

# Subclasses first: a bool is an int.
_WEAK: tuple[tuple[type, str], ...] = ((bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128"))
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
) -> Arguments:
    """Flatten the arguments of one call.

    Args:
        parameters: the kernel's parameter names, and how those of global arrays are written.
        values: what the call passed, one for each.
        reserved: identifiers that no leaf may be named, such as the kernel's local variables.
        static: parameters whose values are part of the types.

    Raises:
        ArgumentError: something that is no argument, named by its path.
    """
    describer = _Describer(parameters, reserved)
    types = tuple(
        (name, _static(name, value) if name in static else describer.visit(name, _identifier(name), value))
        for name, value in zip(parameters, values, strict=True)
    )
    return Arguments(types, tuple(describer.leaves), tuple(describer.values))


def _identifier(path: str) -> str:
    return path if path.isidentifier() else re.sub(r"\W", "_", path)


class _Describer:
    """Visits arguments depth first, in the order of parameters and fields, so that names depend on structure alone."""

    def __init__(self, parameters: Sequence[str], reserved: frozenset[str]) -> None:
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
        return self._add(path, stem, array_type(view), view)

    def _add(self, path: str, stem: str, type_: ArrayType | ScalarType, value: Value) -> ArrayType | ScalarType:
        if len(self.leaves) == MAX_LEAVES:
            raise ArgumentError(
                f"the arguments hold more than {MAX_LEAVES} arrays and scalars (argument `{path}` is one too many)",
                hint="pack scalars into an array, or pass only what the kernel uses",
            )
        # Only a parameter's own path is an identifier among the parameters.
        name = stem if path == stem and stem in self._parameters else self._unique(stem)
        self.leaves.append(Leaf(name, path, type_))
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
        fields = []
        for field in dataclasses.fields(value):
            try:
                item = getattr(value, field.name)
            except AttributeError:
                refuse(f"{path}.{field.name}", f"this field of {type(value).__name__} was never set", "set it before the call")
            fields.append((field.name, self.visit(f"{path}.{field.name}", f"{stem}_{field.name}", item)))
        self._open.pop()
        return StructType(type(value), tuple(fields))


def array_type(view: ArrayView) -> ArrayType:
    """The type of an array argument, as it enters the specialisation."""
    return ArrayType(view.dtype.name, len(view.shape), view.layout, view.readonly)


def kind_of(value: object) -> Kind:
    """What ``value`` is as an argument."""
    kind = _kind_of_type(type(value))
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
        ("dataclass", dataclasses.is_dataclass(cls)),
        ("event", is_event_class(cls)),
        ("callable", any("__call__" in vars(base) for base in cls.__mro__)),
    )
    return next((kind for kind, holds in kinds if holds), "other")


_kind_of_type: Callable[[type], Kind] = lru_cache(maxsize=1024)(_find_kind)


def _number(value: Any, path: str) -> tuple[ScalarType, Value]:
    # An int enumeration, or another class that derives from a number, counts as that number.
    base, dtype = next(row for row in _WEAK if isinstance(value, row[0]))
    number: Any = value if type(value) is base else base(value)
    if base is int and not _LOWEST <= number <= _HIGHEST:
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
    elif kind == "dataclass" and type(value).__dataclass_params__.frozen:
        for field in dataclasses.fields(value):
            _check_static(f"{path}.{field.name}", getattr(value, field.name))
    else:
        what = f"a {type(value).__name__}{', which is not frozen,' if kind == 'dataclass' else ''}"
        hint = (
            "a Static argument is a number, an enumeration member, a string, None, a function, or a frozen dataclass of these"
        )
        refuse(path, f"{what} cannot be Static", hint)


def _unsupported(path: str, value: object) -> ArgumentError:
    hint = "pass arrays, numbers, and tuples or dataclasses of these"
    for classes, words in _INSTEAD:
        if isinstance(value, classes):
            hint = words
            break
    else:
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            hint = "pass numpy.asarray(x)"
        elif hasattr(value, "__dict__"):
            hint = f"make {type(value).__name__} a dataclass, or pass its arrays and numbers"
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return ArgumentError(f"argument `{path}`: an object of type {name} cannot be passed to a kernel", hint=hint)


# --- short cuts for later calls ----------------------------------------------------------------------------------------


class _Source:
    """Builds a function ``f(values)`` of straight-line checks; each returns ``failed`` where it does not hold.

    So does an exception of the kinds in ``lapses``: by default that of a field which is not set any more.
    """

    def __init__(self, failed: str, lapses: str = "AttributeError") -> None:
        self._failed = failed
        self._lapses = lapses
        self._lines: list[str] = []
        self._names = 0
        self.namespace: dict[str, Any] = {}

    def constant(self, value: object) -> str:
        """A name for ``value`` in the function."""
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def local(self) -> str:
        """A fresh local name."""
        self._names += 1
        return f"v{self._names}"

    def line(self, text: str) -> None:
        """Add a statement."""
        self._lines.append(f"    {text}")

    def require(self, *conditions: str) -> None:
        """Return where not all conditions hold; they are tried in order."""
        self.line(f"if not ({' and '.join(conditions)}): return {self._failed}")

    def compile(self, name: str) -> Callable[[Sequence[object]], Any]:
        """The function."""
        head, tail = [f"def {name}(values):", "  try:"], [f"  except {self._lapses}:", f"    return {self._failed}"]
        text = "\n".join([*head, *self._lines, *tail])
        exec(compile(text, f"<qgraph {name}>", "exec"), self.namespace)
        function: Callable[[Sequence[object]], Any] = self.namespace[name]
        return function

    def unpack(self, expression: str, count: int) -> list[str]:
        """Names for the items of a sequence of known length; another one is a ValueError."""
        names = [self.local() for _ in range(count)]
        self.line(f"({''.join(f'{name}, ' for name in names)}) = {expression}")
        return names

    def open_struct(self, name: str, value: Any) -> list[tuple[str, str, Any]]:
        """Check that ``name`` is of the same class as the struct ``value``; (local, path suffix, value) for its parts."""
        cls = self.constant(type(value))
        if isinstance(value, tuple):
            self.require(f"type({name}) is {cls}", f"len({name}) == {len(value)}")
            names = self.unpack(name, len(value))
            labels = getattr(value, "_fields", None)
            suffixes = [f"[{k}]" if labels is None else f".{labels[k]}" for k in range(len(value))]
            return list(zip(names, suffixes, value, strict=True))
        self.require(f"type({name}) is {cls}")
        parts = []
        for field in dataclasses.fields(value):
            part = self.local()
            self.line(f"{part} = {name}.{field.name}")
            parts.append((part, f".{field.name}", getattr(value, field.name)))
        return parts


class Reader:
    """Re-reads the leaves of calls whose arguments have the types of one that ``describe`` saw, on the same devices.

    Args:
        parameters: the kernel's parameter names.
        values: the arguments of that call; nothing of them is kept but their types and constants.
        arguments: what ``describe`` said of them.
        written: the leaves that are arrays which the kernel writes.
        single: the leaves that must be arrays of one element.
    """

    __slots__ = ("read",)

    def __init__(
        self,
        parameters: Sequence[str],
        values: Sequence[object],
        arguments: Arguments,
        written: frozenset[int] = frozenset(),
        single: frozenset[int] = frozenset(),
    ) -> None:
        source = _Source("None")
        source.namespace.update(
            View=ArrayView, ndarray=numpy.ndarray, pointer=host_pointer, adopt=adopt, LOWEST=_LOWEST, HIGHEST=_HIGHEST
        )
        leaves = iter(zip(arguments.leaves, arguments.values, strict=True))
        results: list[str] = []

        def visit(name: str, path: str, value: Any, type_: Type) -> None:
            kind = kind_of(value)
            if isinstance(type_, ConstantType):
                _require_constant(source, name, value)
            elif kind in ("tuple", "dataclass"):
                assert isinstance(type_, StructType)
                for (part, suffix, item), (_, inner) in zip(source.open_struct(name, value), type_.fields, strict=True):
                    visit(part, path + suffix, item, inner)
            elif kind == "array":
                leaf, view = next(leaves)
                assert isinstance(view, ArrayView)
                results.append(_read_array(source, name, path, value, leaf.type, view.device))
            elif kind == "event":
                next(leaves)
                results.append(_read_event(source, name, value))
            else:
                next(leaves)
                results.append(_read_scalar(source, name, value))

        names = source.unpack("values", len(values))
        for parameter, name, value, (_, type_) in zip(parameters, names, values, arguments.types, strict=True):
            visit(name, parameter, value, type_)
        simple = _simple(source, results, arguments.leaves, written, single)
        source.line(f"return ({''.join(f'{result}, ' for result in results)}), {simple}")
        self.read: Callable[[Sequence[object]], tuple[tuple[Value, ...], bool] | None] = source.compile("read")
        """``read(values)`` gives the leaves, and True where a glance tells that no written array shares memory with
        another or with itself and single ones are; then nobody needs to look. It raises as calling this object does."""

    def __call__(self, values: Sequence[object]) -> tuple[Value, ...] | None:
        """The values of all leaves, in order; None where some type or device differs, then ``describe`` must look.

        Raises:
            ArgumentError: an array that a kernel cannot use.
        """
        found = self.read(values)
        return None if found is None else found[0]


# So many pairs of arrays are compared one by one; more are sorted.
_MAX_PAIRS = 6


def _simple(
    source: _Source, results: Sequence[str], leaves: Sequence[Leaf], written: frozenset[int], single: frozenset[int]
) -> str:
    # An expression: whether aliases need no further look. It says True of spans that do not meet only, never wrongly.
    types = {index: leaf.type for index, leaf in enumerate(leaves) if isinstance(leaf.type, ArrayType)}
    if any(types[index].layout == "A" for index in written):
        return "False"
    conditions = [f"{results[index]}.size == 1" for index in sorted(single)]
    pairs = [(a, b) for a, b in itertools.combinations(types, 2) if a in written or b in written]
    spans = {index: _span(source, results[index], types[index]) for index in types} if pairs else {}
    if len(pairs) <= _MAX_PAIRS:
        for a, b in pairs:
            (low, high), (other_low, other_high) = spans[a], spans[b]
            conditions.append(f"({high} <= {other_low} or {other_high} <= {low})")
    else:
        lows, highs = (", ".join(ends) for ends in zip(*spans.values(), strict=True))
        conditions.append(f"{source.constant(_apart)}([{lows}], [{highs}])")
    return " and ".join(conditions) or "True"


def _span(source: _Source, view: str, type_: ArrayType) -> tuple[str, str]:
    low, high = source.local(), source.local()
    if type_.layout == "A":
        source.line(f"{low}, {high} = {view}.span()")
    else:
        extents = [f"{view}.shape[{axis}]" for axis in range(type_.ndim)]
        source.line(f"{low} = {view}.pointer")
        source.line(f"{high} = {low} + {' * '.join([*extents, str(numpy.dtype(type_.dtype).itemsize)])}")
    return low, high


def _apart(lows: list[int], highs: list[int]) -> bool:
    # Where each end comes before the next start, no span ends behind the start of a later one.
    lows.sort()
    highs.sort()
    return all(map(operator.le, highs, lows[1:]))


def _require_constant(source: _Source, name: str, value: Any) -> None:
    kind = kind_of(value)
    if kind in ("tuple", "dataclass"):
        for part, _, item in source.open_struct(name, value):
            _require_constant(source, part, item)
        return
    if kind == "number" and not isinstance(value, enum.Enum):
        _watch_scalar(source, name, value)
        return
    constant = source.constant(value)
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        source.require(f"type({name}) is {source.constant(type(value))}", f"{name} == {constant}")
    elif kind == "callable":
        # Bound methods are made anew each time they are looked up.
        source.require(f"({name} is {constant} or type({name}) is type({constant}) and {name} == {constant})")
    else:
        source.require(f"{name} is {constant}")


# NumPy's flags: C and F contiguous, aligned, writeable.
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400


def _flags_of(type_: ArrayType) -> tuple[int, int]:
    # (mask, value) of the flags of a NumPy array of this type. A C array may be F contiguous too.
    contiguity = _C if type_.layout == "C" else _C | _F
    expected = {"C": _C, "F": _F, "A": 0}[type_.layout] | _ALIGNED | (0 if type_.readonly else _WRITEABLE)
    return contiguity | _ALIGNED | _WRITEABLE, expected


def _read_array(source: _Source, name: str, path: str, value: object, type_: ArrayType | ScalarType, device: int | None) -> str:
    assert isinstance(type_, ArrayType)
    dtype = source.constant(numpy.dtype(type_.dtype))
    result = source.local()
    if type(value) is numpy.ndarray:
        mask, flags = _flags_of(type_)
        shape = source.local()
        source.require(
            f"type({name}) is ndarray",
            f"({name}.dtype is {dtype} or {name}.dtype == {dtype})",
            f"{name}.flags.num & {mask} == {flags}",
        )
        source.line(f"{shape} = {name}.shape")
        source.require(f"len({shape}) == {type_.ndim}")
        rest = f"{type_.readonly}, None, {name}, None, {type_.layout!r}, {name}"
        source.line(f"{result} = View(pointer({name}), {shape}, {name}.strides, {dtype}, {rest})")
        return result
    adopter = adopter_of(type(value))
    source.require(f"type({name}) is {source.constant(type(value))}")
    if hasattr(type(value), "__qgraph_place__"):
        source.line(f"{result} = {name}.__qgraph_place__()")
    else:
        source.line(f"{result} = {'adopt' if adopter is None else source.constant(adopter)}({name}, {path!r})")
    source.require(
        f"{result} is not None",
        f"{result}.device == {device}",
        f"{result}.dtype is {dtype}",
        f"len({result}.shape) == {type_.ndim}",
        f"{result}.layout == {type_.layout!r}",
        f"{result}.readonly == {type_.readonly}",
    )
    return result


def _read_scalar(source: _Source, name: str, value: object) -> str:
    cls = type(value)
    source.require(f"type({name}) is {source.constant(cls)}")
    if isinstance(value, numpy.generic):
        return name
    base = next(base for base, _ in _WEAK if isinstance(value, base))
    result = name
    if cls is not base:
        result = source.local()
        source.line(f"{result} = {base.__name__}({name})")
    if base is int:
        source.require(f"LOWEST <= {result} <= HIGHEST")
    return result


# Numbers are the same where type and value are; arrays where the object is.
_NUMBERS = frozenset({bool, int, float, complex, *(numpy.dtype(name).type for name in DTYPE_NAMES)})


def numbers_among(values: Sequence[object]) -> tuple[int, ...]:
    """The positions of plain numbers."""
    return tuple(index for index, value in enumerate(values) if type(value) in _NUMBERS)


def key_maker(count: int, numbers: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
    """A function of ``count`` values that gives a key: equal for equal numbers at ``numbers``, and for the same objects.

    Other values may have the same key (0.0 and -0.0, or an object made in the place of another): ``Unchanged`` can tell.
    """
    names = [f"v{index}" for index in range(count)]
    parts = [
        f"{name} if type({name}) in NUMBERS else id({name})" if index in numbers else f"id({name})"
        for index, name in enumerate(names)
    ]
    source = f"lambda {', '.join(names)}: ({''.join(f'{part}, ' for part in parts)})"
    function: Callable[..., tuple[Any, ...]] = eval(source, {"NUMBERS": _NUMBERS})
    return function


def _read_event(source: _Source, name: str, value: object) -> str:
    source.require(f"type({name}) is {source.constant(type(value))}")
    return f"{source.constant(numpy.uint64)}({source.constant(event_handle)}({name}))"


class Unchanged:
    """Tells whether a later call passes the very arrays and scalars of this one, and nothing about them changed.

    Holds arrays, and everything that may hold one, weakly. Arrays it cannot hold weakly or watch are never unchanged.

    Args:
        values: the arguments of a call, one for each parameter; another number of values is never the same.
    """

    __slots__ = ("check",)

    def __init__(self, values: Sequence[object]) -> None:
        # Who asks need not have counted them.
        source = _Source("False", "(AttributeError, ValueError)")
        names = source.unpack("values", len(values))
        self.check: Callable[[Sequence[object]], bool]
        """``check(values)`` is what calling this object does, without the detour of a method call."""
        try:
            for name, value in zip(names, values, strict=True):
                _watch(source, name, value)
        except _CannotWatch:
            self.check = _never
            return
        source.line("return True")
        self.check = source.compile("unchanged")

    def __call__(self, values: Sequence[object]) -> bool:
        """Whether ``values`` are what they were."""
        return self.check(values)


class _CannotWatch(Exception):  # noqa: N818 - an answer, never an error
    """Some value can change without being seen to, or cannot be held weakly."""


def _never(values: Sequence[object]) -> bool:
    return False


def _watch(source: _Source, name: str, value: Any) -> None:
    kind = kind_of(value)
    if kind in ("tuple", "dataclass"):
        for part, _, item in source.open_struct(name, value):
            _watch(source, part, item)
    elif kind == "array":
        _watch_array(source, name, value)
    elif kind == "event":
        held, handle = source.constant(_weakly(value)), source.constant(event_handle)
        source.require(f"{held}() is {name}", f"{handle}({name}) == {event_handle(value)}")
    elif kind == "callable":
        # A function may hold arrays in its closure.
        source.require(f"{source.constant(_weakly(value))}() is {name}")
    elif kind == "constant":
        _require_constant(source, name, value)
    elif kind == "other":
        raise _CannotWatch
    else:
        _watch_scalar(source, name, value)


def _watch_array(source: _Source, name: str, value: Any) -> None:
    attributes = watch_of(value)
    if attributes is None:
        raise _CannotWatch
    conditions = [f"{source.constant(_weakly(value))}() is {name}"]
    for read in attributes:
        found = eval(f"value{read}", {"value": value})
        if isinstance(found, dict):
            # The interface of an array, which may be one that it keeps and changes.
            found = copy.deepcopy(found)
        same = "is" if read == ".dtype" else "=="
        conditions.append(f"{name}{read} {same} {source.constant(found)}")
    source.require(*conditions)


def _weakly(value: object) -> weakref.ref[Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        raise _CannotWatch from None


def _watch_scalar(source: _Source, name: str, value: Any) -> None:
    conditions = [f"type({name}) is {source.constant(type(value))}", f"{name} == {source.constant(value)}"]
    # 0.0 == -0.0, and so inside of complex numbers. A NaN equals nothing, not itself either.
    parts = (value.real, value.imag) if isinstance(value, complex | numpy.complexfloating) else (value,)
    if isinstance(value, float | complex | numpy.inexact) and 0 in parts:
        conditions.append(f"repr({name}) == {source.constant(repr(value))}")
    source.require(*conditions)
