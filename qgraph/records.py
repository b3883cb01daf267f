"""``dataclass`` as the standard library has it, made in less than half of the time.

That of Python 3.11 and 3.12 compiles each method of each class by itself, and frozen ones have six; a first call needs some 185
classes. Here ``__init__`` is compiled, and what is the same for all classes is written once. Type checkers see the standard
library's. One thing is not as there: a frozen class and one that is not may derive from each other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, slots=False, kw_only=False):
        """``dataclasses.dataclass`` with these options; methods that the class has of its own are kept."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, repr=repr, slots=slots, kw_only=kw_only)
        own = {name for name, value in vars(cls).items() if value is not None}
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        methods = {"__init__": _init(made, frozen)}
        methods |= {"__repr__": _repr} if repr else {}
        methods |= _comparing(made, hashed=frozen) if eq else {}
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete} if frozen else {}
        # Frozen ones with slots are copied and pickled past ``__setattr__``.
        methods |= {"__getstate__": _state, "__setstate__": _set_state} if frozen and slots else {}
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made


def _init(cls: Any, frozen: bool) -> Any:
    """``__init__`` of the fields in their order, those that are for keywords alone last."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        known = field.default is not MISSING or field.default_factory is not MISSING
        if field.default is not MISSING:
            names[f"_{name}"] = field.default
        if field.default_factory is not MISSING:
            names[f"_{name}"] = MISSING
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _missing else {name}" if field.init else f"_make_{name}()"
        if field.init:
            (keywords if field.kw_only else parameters).append(f"{name}=_{name}" if known else name)
        elif not known:
            continue
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    head = ", ".join(["self", *parameters, *(["*", *keywords] if keywords else [])])
    # Defaults are found when the function is made: the names around it are those of the arguments of this one.
    text = f"def make({', '.join(names)}):\n def __init__({head}):\n  " + "\n  ".join(lines or ["pass"]) + "\n return __init__"
    made: dict[str, Any] = {}
    exec(text, {}, made)
    init = made["make"](**names)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _comparing(cls: Any, *, hashed: bool) -> dict[str, Any]:
    """Equality of what the fields hold, and the hash that goes with it."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    # A tuple in any case, which takes an object to equal itself.
    values: Any = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": (lambda self: hash(values(self))) if hashed else None}


@recursive_repr()
def _repr(self: Any) -> str:
    fields = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(fields)})"


def _refuse_to_set(self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
