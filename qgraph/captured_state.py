"""What was compiled into a kernel, and a function that tells whether Python would still find the same.

It is a Python function with the globals of the user's module and the cells of his closures: names are looked up in it as they
are in his functions, at the speed at which Python does that.
"""

from __future__ import annotations

import dataclasses
import dis
from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from enum import EnumMeta
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from qgraph.records import dataclass

Holds = Callable[[], bool]
# What is something else each time.
CHANGING = object()


class Attributes:
    """The attributes of an object as a namespace: what ``getattr`` finds, whoever computes it."""

    __slots__ = ("get", "owner")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.get: Callable[[str, Any], Any] = partial(getattr, owner)

    def home(self, _key: str) -> object:
        """What tells the variable from others of this name."""
        return self.owner


@dataclass(slots=True)
class _Found:
    """What names stand for in functions with the same globals."""

    globals: dict[str, Any]
    values: dict[str, object] = field(default_factory=dict)
    cells: dict[int, tuple[CellType, object]] = field(default_factory=dict)


class CompiledIn:
    """Everything that a program holds and Python can change: names, attributes, and values that Python computed."""

    def __init__(self) -> None:
        self._found: dict[int, _Found] = {}
        self._attributes: dict[tuple[int, str], tuple[object, str, object]] = {}
        self._checks: dict[Hashable, Holds] = {}
        self._holds: Holds | None = None

    def name(self, function: FunctionType, key: str, value: object) -> None:
        """``value`` is what ``key`` stands for in ``function``: a free variable, a global, or a builtin."""
        code = function.__code__
        found = self._found.setdefault(id(function.__globals__), _Found(function.__globals__))
        if key in code.co_freevars:
            cell = (function.__closure__ or ())[code.co_freevars.index(key)]
            found.cells.setdefault(id(cell), (cell, value))
        else:
            found.values.setdefault(key, value)

    def attribute(self, owner: object, key: str, value: object) -> bool:
        """``value`` is what ``owner.key`` is. False where that is something else each time."""
        if getattr(owner, key) is value:
            self._attributes.setdefault((id(owner), key), (owner, key, value))
            return True
        return self.computed(("attribute", id(owner), key), partial(getattr, owner, key), value)

    def computed(self, place: Hashable, compute: Callable[[], object], value: object) -> bool:
        """``value`` is what ``compute`` gives. False where that is something else each time."""
        if place not in self._checks:
            then = snapshot(value)
            if snapshot(compute()) != then:
                return False
            self._checks[place] = lambda: snapshot(compute()) == then
        return True

    def python(self, function: FunctionType) -> list[tuple[str, object]]:
        """Everything that a function looks at which Numba compiles, all the way down: how it is written, and what it is.

        That is ``CHANGING`` where it is something else each time.
        """
        result: list[tuple[str, object]] = []
        self._python(function, result, set())
        return result

    def _python(self, function: FunctionType, result: list[tuple[str, object]], seen: set[object]) -> None:
        if id(function) in seen:
            return
        seen.add(id(function))
        keywords = function.__kwdefaults__ or {}
        self.attribute(function, "__code__", function.__code__)
        self.attribute(function, "__defaults__", function.__defaults__)
        self.computed(("keywords", id(function)), lambda: function.__kwdefaults__, function.__kwdefaults__)
        own = (function.__code__, *(function.__defaults__ or ()), *keywords.values())
        result += [(f"{function.__name__}()", value) for value in own]
        attributes = attributes_of(function.__code__)
        for name, value in looked_up(function):
            self.name(function, name, value)
            self._member(name, value, attributes, result, seen)

    def _member(
        self, text: str, value: Any, attributes: frozenset[str], result: list[tuple[str, object]], seen: set[object]
    ) -> None:
        result.append((text, value))
        inner = numba_function(value)
        if inner is not None:
            self._python(inner, result, seen)
        if not isinstance(value, (ModuleType, EnumMeta)) or (id(value), attributes) in seen:
            return
        seen.add((id(value), attributes))
        for name in sorted(attributes):
            if name in vars(value) or (not is_known(value) and hasattr(value, name)):
                member = getattr(value, name)
                settled = self.attribute(value, name, member)
                self._member(f"{text}.{name}", member if settled else CHANGING, attributes, result, seen)

    @property
    def holds(self) -> Holds:
        """Tells whether all is as it was."""
        if self._holds is None:
            self._holds = self._compile()
        return self._holds

    def _compile(self) -> Holds:
        first, *others = self._found.values() or [_Found({})]
        checks = [_function(found, (), ()) for found in others]
        return _function(first, [*self._attributes.values()], [*checks, *self._checks.values()])


def _function(found: _Found, attributes: Iterable[tuple[object, str, object]], checks: Iterable[Holds]) -> Holds:
    """A function of these globals and cells: whether names and attributes are the very objects, and ``checks`` say so."""
    prefix = "_k"
    while any(name.startswith(prefix) for name in found.values):
        prefix += "_"
    constants: dict[str, object] = {f"{prefix}error": Exception}

    def constant(value: object) -> str:
        name = f"{prefix}{len(constants)}"
        constants[name] = value
        return name

    cells = {f"{prefix}c{number}": cell for number, (cell, _) in enumerate(found.cells.values())}
    free = zip(cells, (value for _, value in found.cells.values()), strict=True)
    conditions = [f"{name} is {constant(value)}" for name, value in (*found.values.items(), *free)]
    conditions += [f"{constant(owner)}.{key} is {constant(value)}" for owner, key, value in attributes]
    conditions += [f"{constant(check)}()" for check in checks]
    lines = [
        f"def make({', '.join(cells)}):",
        f" def holds({', '.join(constants)}):",
        f"  try: return {' and '.join(conditions) or 'True'}",
        # What the user's own code raises now is told where the kernel is compiled anew.
        f"  except {prefix}error: return False",
    ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join([*lines, " return holds"]), "<qgraph holds>", "exec"), namespace)
    made = namespace["make"](*cells)
    closure = tuple(cells[name] for name in made.__code__.co_freevars)
    holds: Holds = FunctionType(made.__code__, found.globals, "holds", tuple(constants.values()), closure)
    return holds


def snapshot(value: Any) -> Hashable:
    """What tells ``value``, and all that it contains, from what it may become: numbers by value, others by identity."""
    kind = type(value)
    if isinstance(value, (float, complex)):
        return kind, repr(value)
    if kind in (int, bool, str, bytes, range) or isinstance(value, np.dtype):
        return kind, value
    if isinstance(value, (np.generic, np.ndarray)):
        return kind, value.dtype, value.shape, value.tobytes()
    if isinstance(value, (tuple, list)):
        return kind, *map(snapshot, value)
    if isinstance(value, dict):
        return kind, *map(snapshot, value.items())
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(map(snapshot, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, *(snapshot(getattr(value, each.name, None)) for each in dataclasses.fields(value))
    if isinstance(value, MethodType):
        return kind, Identity(value.__self__), Identity(value.__func__)
    return Identity(value)


def numba_function(value: Any) -> FunctionType | None:
    """The Python function of one that Numba compiles; None for anything else, as what wraps one."""
    if type(value).__module__.split(".")[0] != "numba":
        return None
    function = getattr(value, "py_func", None)
    return function if isinstance(function, FunctionType) else None


def looked_up(function: FunctionType) -> Iterator[tuple[str, object]]:
    """The free variables, globals and builtins that a function looks at, by name; what has no value is left out."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            yield name, cell.cell_contents
    instructions = (each for code in _codes(function.__code__) for each in dis.get_instructions(code))
    names = {str(each.argval) for each in instructions if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    known = ChainMap(function.__globals__, cast("Any", function).__builtins__)
    yield from ((name, known[name]) for name in sorted(names) if name in known)


def attributes_of(code: CodeType) -> frozenset[str]:
    """Every name that code may look up in an object."""
    return frozenset(name for part in _codes(code) for name in part.co_names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


# Packages whose objects are the same under the same name, as long as the version is.
PACKAGES = frozenset({"builtins", "math", "cmath", "operator", "_operator", "numpy", "numba"})


def is_known(value: Any) -> bool:
    """Whether a module, or what is defined in one, is of ``PACKAGES``."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    return str(name).split(".")[0] in PACKAGES


class Identity:
    """Stands for one object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
