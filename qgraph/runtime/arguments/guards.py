"""Argument guards: generated straight-line functions that recognise the arguments of earlier calls.

A ``reader`` re-reads the leaves of arguments that have the types of those that ``describe`` saw, and a
``repeater`` runs a call again if nothing changed at all; ``key_maker`` finds the one to ask.
"""

from __future__ import annotations

import copy
import enum
import itertools
import operator
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy

from qgraph.compat.numpy import host_pointer
from qgraph.errors import NothingRan
from qgraph.ir.argument_types import ArrayType, ConstantType, Leaf, ScalarType, StructType, Type, field_names
from qgraph.nodes.event import event_handle
from qgraph.runtime.arguments.array_adapters import DTYPE_NAMES, adopt, adopter_of, are_seen_together, watch_of
from qgraph.runtime.arguments.flatten import HIGHEST, LOWEST, WEAK, Arguments, funcs_of, kind_of
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.prepared_call import CHANGED, ReplayCode, Value


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
        self._lines.append(f"  {text}")

    def require(self, *conditions: str) -> None:
        """Return where not all conditions hold; they are tried in order."""
        self.line(f"if not ({' and '.join(conditions)}): return {self._failed}")

    def compile(self, name: str, then: Sequence[str] = ()) -> Callable[[Sequence[object]], Any]:
        """The function. ``then`` are statements behind the checks, whose exceptions are the caller's to see."""
        taken = ", ".join(["values", *(f"{each}={each}" for each in self.namespace)])
        checks = ["try:", *self._lines, f"except {self._lapses}:", f"  return {self._failed}"]
        text = "\n   ".join([f" def {name}({taken}):", *checks, *then])
        return _maker(name, tuple(self.namespace), text)(*self.namespace.values())

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
        self.require(f"type({name}) is {cls}", *(f"{func!r} not in {name}.__dict__" for func in funcs_of(value)))
        parts = []
        for field in field_names(type(value)):
            part = self.local()
            self.line(f"{part} = {name}.{field}")
            parts.append((part, f".{field}", getattr(value, field)))
        return parts


@lru_cache(maxsize=256)
def _maker(name: str, names: tuple[str, ...], text: str) -> Callable[..., Callable[[Sequence[object]], Any]]:
    """A function of what ``names`` stand for in ``text``, the definition of a function ``name``, that gives this function.

    Functions of one text share their code: it is compiled once, and stays in the caches where they take turns.
    """
    namespace: dict[str, Any] = {}
    exec(compile(f"def make({', '.join(names)}):\n{text}\n return {name}", f"<qgraph {name}>", "exec"), namespace)
    made: Callable[..., Callable[[Sequence[object]], Any]] = namespace["make"]
    return made


def reader(
    parameters: Sequence[str],
    values: Sequence[object],
    arguments: Arguments,
    written: frozenset[int] = frozenset(),
    single: frozenset[int] = frozenset(),
    *,
    owned: bool = False,
    conditions: Sequence[str] = (),
    names: Mapping[str, object] = MappingProxyType({}),
) -> Callable[[Sequence[object]], tuple[tuple[Value, ...], bool] | None]:
    """A function that reads the leaves of calls whose arguments have the types of one that ``describe`` saw, on its devices.

    ``read(values)`` gives the leaves in order, and True where a glance tells that no written array shares memory with another
    or with itself and single ones are: then nobody needs to look. It gives None where some type or device differs: then
    ``describe`` must look. It raises an ArgumentError where a kernel cannot use an array.

    Args:
        parameters: the kernel's parameter names.
        values: the arguments of that call; nothing of them is kept but their types and constants.
        arguments: what ``describe`` said of them.
        written: the leaves that are arrays which the kernel writes.
        single: the leaves that must be arrays of one element.
        owned: whether the owner of each array must be what was passed, since the kernel may return it.
        conditions: expressions that must hold besides, of ``names``.
        names: what they stand for.
    """
    source = _Source("None")
    source.namespace.update(
        names, View=ArrayView, ndarray=numpy.ndarray, pointer=host_pointer, adopt=adopt, LOWEST=LOWEST, HIGHEST=HIGHEST
    )
    source.require(f"len(values) == {len(values)}", *conditions)
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
            results.append(_read_array(source, name, path, value, leaf.type, view.device, owned=owned))
        elif kind == "event":
            next(leaves)
            results.append(_read_event(source, name, value))
        else:
            next(leaves)
            results.append(_read_scalar(source, name, value))

    unpacked = source.unpack("values", len(values))
    for parameter, name, value, (_, type_) in zip(parameters, unpacked, values, arguments.types, strict=True):
        visit(name, parameter, value, type_)
    simple = _simple(source, results, arguments.leaves, written, single)
    source.line(f"return ({''.join(f'{result}, ' for result in results)}), {simple}")
    return source.compile("read")


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


def _read_array(
    source: _Source,
    name: str,
    path: str,
    value: object,
    type_: ArrayType | ScalarType,
    device: int | None,
    *,
    owned: bool,
) -> str:
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
        source.require(f"len({shape}) == {type_.ndim}", *_tail(shape, type_))
        rest = f"{type_.readonly}, None, {name}, None, {type_.layout!r}, {name}"
        source.line(f"{result} = View(pointer({name}), {shape}, {name}.strides, {dtype}, {rest})")
        return result
    adopter = adopter_of(type(value))
    source.require(f"type({name}) is {source.constant(type(value))}")
    if hasattr(type(value), "__qgraph_place__") and not owned:
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
        *_tail(f"{result}.shape", type_),
    )
    return result


def _tail(shape: str, type_: ArrayType) -> list[str]:
    """Conditions on the extents that are part of a type."""
    ones = range(type_.ndim) if type_.ones is not None else ()
    conditions = [f"{shape}[{axis}] {'==' if axis in (type_.ones or ()) else '!='} 1" for axis in ones]
    return [f"{shape}[{-len(type_.tail)}:] == {type_.tail}", *conditions] if type_.tail else conditions


def _read_scalar(source: _Source, name: str, value: object) -> str:
    cls = type(value)
    source.require(f"type({name}) is {source.constant(cls)}")
    if isinstance(value, numpy.generic):
        return name
    base = next(base for base, _ in WEAK if isinstance(value, base))
    result = name
    if cls is not base:
        result = source.local()
        source.line(f"{result} = {base.__name__}({name})")
    if base is int:
        source.require(f"LOWEST <= {result} <= HIGHEST")
    return result


# Numbers are the same where type and value are, any other value where the object is.
_NUMBERS = frozenset({bool, int, float, complex, *(numpy.dtype(name).type for name in DTYPE_NAMES)})


def numbers_among(values: Sequence[object]) -> tuple[int, ...]:
    """The positions of plain numbers."""
    return tuple(index for index, value in enumerate(values) if type(value) in _NUMBERS)


def key_maker(count: int, numbers: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
    """A function of ``count`` values that gives a key: equal for equal numbers at ``numbers``, and for the same objects.

    Other values may have the same key (0.0 and -0.0, or an object made in the place of another): a ``repeater`` can tell.
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


def repeater(
    values: Sequence[object],
    call: ReplayCode,
    *,
    conditions: Sequence[str],
    done: Sequence[str],
    names: Mapping[str, object],
) -> Callable[[Sequence[object]], Any] | None:
    """A function of later values that runs a call again, or returns ``CHANGED`` where that would be another call.

    It holds no array, and everything that may hold one weakly. An array must be the same object, of which nothing but elements
    changed, or a tensor with the elements in the same place. None where nobody could tell.

    Args:
        values: the arguments of the call.
        call: runs it again; it looks at the arrays that it takes itself.
        conditions: expressions that must hold besides.
        done: what to do then: statements with the ``numbers`` that ``run`` returned, of which the last one returns.
        names: what the names in ``conditions`` and ``done`` stand for.
    """
    source = _Source("CHANGED", "(AttributeError, ValueError)")
    source.namespace |= {**call.names, **names, "CHANGED": CHANGED, "NothingRan": NothingRan}
    if conditions:
        source.require(*conditions)
    left = Counter(map(id, call.arrays))
    given: dict[int, list[str]] = {}
    # One look tells of all of these, behind everything else. Another tensor in the same place is as good.
    together: dict[str, Any] = {}

    def watch_array(name: str, value: Any) -> None:
        if left[id(value)]:
            left[id(value)] -= 1
            given.setdefault(id(value), []).append(name)
        elif are_seen_together(value):
            together[name] = value
        else:
            _watch_array(source, name, value)

    try:
        for name, value in zip(source.unpack("values", len(values)), values, strict=True):
            _watch(source, name, value, watch_array)
    except _CannotWatch:
        return None
    if together:
        from qgraph.runtime.driver.native import look_at

        source.require(f"{source.constant(look_at([*together.values()]))}({', '.join(together)})")
    run = call.statements([given[id(array)].pop(0) for array in call.arrays])
    # Whoever is told that it is another call finds the other way, too.
    return source.compile("again", ["try:", *(f"  {line}" for line in run), "except NothingRan: return CHANGED", *done])


class _CannotWatch(Exception):  # noqa: N818 - an answer, never an error
    """Some value can change without being seen to, or cannot be held weakly."""


def _watch_array(source: _Source, name: str, value: Any) -> None:
    attributes = watch_of(value)
    if attributes is None:
        raise _CannotWatch
    if hasattr(type(value), "__qgraph_identity__"):
        # It tells as much as a weak reference does, and may be held.
        conditions = [f"{name}.__qgraph_identity__ is {source.constant(value.__qgraph_identity__)}"]
    else:
        conditions = [_is_very(source, name, value)]
    for read, how in attributes.items():
        found = eval(f"value{read}", {"value": value})
        if how == "weakly":
            conditions.append(_is_very(source, f"{name}{read}", found))
            continue
        if isinstance(found, dict):
            # The interface of an array, which may be one that it keeps and changes.
            found = copy.deepcopy(found)
        conditions.append(f"{name}{read} {how} {source.constant(found)}")
    source.require(*conditions)


def _watch(source: _Source, name: str, value: Any, watch_array: Callable[[str, Any], None]) -> None:
    kind = kind_of(value)
    if kind in ("tuple", "dataclass"):
        for part, _, item in source.open_struct(name, value):
            _watch(source, part, item, watch_array)
    elif kind == "array":
        watch_array(name, value)
    elif kind == "event":
        handle = source.constant(event_handle)
        source.require(_is_very(source, name, value), f"{handle}({name}) == {source.constant(event_handle(value))}")
    elif kind == "callable":
        # A function may hold arrays in its closure.
        source.require(_is_very(source, name, value))
    elif kind == "constant":
        _require_constant(source, name, value)
    elif kind == "other":
        raise _CannotWatch
    else:
        _watch_scalar(source, name, value)


def _is_very(source: _Source, name: str, value: object) -> str:
    """A condition: ``name`` is this very object, which is not held."""
    try:
        return f"{source.constant(weakref.ref(value))}() is {name} is not None"
    except TypeError:
        raise _CannotWatch from None


def _watch_scalar(source: _Source, name: str, value: Any) -> None:
    conditions = [f"type({name}) is {source.constant(type(value))}", f"{name} == {source.constant(value)}"]
    # 0.0 == -0.0, and so inside of complex numbers. A NaN equals nothing, not itself either.
    parts = (value.real, value.imag) if isinstance(value, complex | numpy.complexfloating) else (value,)
    if isinstance(value, float | complex | numpy.inexact) and 0 in parts:
        conditions.append(f"repr({name}) == {source.constant(repr(value))}")
    source.require(*conditions)
