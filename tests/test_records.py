"""``qgraph.records.dataclass`` against that of the standard library: the same classes, made by both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
from dataclasses import field

import pytest

from qgraph import records

DECORATORS = (dataclasses.dataclass, records.dataclass)
OPTIONS = [
    {"frozen": frozen, "eq": eq, "repr": shown, "slots": slots, "kw_only": kw_only}
    for frozen, eq, shown, slots, kw_only in itertools.product((False, True), repeat=5)
]


def plain(dataclass, **options):
    @dataclass(**options)
    class Plain:
        """Of each kind of field."""

        a: int
        b: str = "b"
        c: list = field(default_factory=list)
        d: float = field(default=2.0, compare=False, repr=False)
        e: list = field(init=False, default_factory=list, compare=False)

    return Plain


def derived(dataclass, **options):
    @dataclass(**options)
    class Base:
        a: int
        b: int = 1

        def twice(self):
            return 2 * self.a

    @dataclass(**options)
    class Derived(Base):
        b: int = 5
        c: int = field(default=3, kw_only=True)

        def __post_init__(self):
            object.__setattr__(self, "a", self.a + 1)

        def twice(self):
            return super().twice() + self.c

    return Derived


def of_one(dataclass, **options):
    @dataclass(**options)
    class OfOne:
        a: object

    return OfOne


def of_none(dataclass, **options):
    @dataclass(**options)
    class OfNone:
        pass

    return OfNone


def with_methods(dataclass, **options):
    @dataclass(**options)
    class WithMethods:
        a: int

        def __eq__(self, other):
            return self.a % 7 == other.a % 7

        def __repr__(self):
            return "mine"

    return WithMethods


MADE = (plain, derived, of_one, of_none, with_methods)
CALLS = [
    ((), {}),
    ((1,), {}),
    ((1, "c"), {}),
    ((), {"a": 1}),
    ((), {"a": 8}),
    ((1, 2, 3, 4), {}),
    ((1,), {"c": 4}),
    ((1,), {"z": 1}),
]


def outcome(run):
    """What a call gives, or the kind of its error."""
    try:
        return run()
    except (AttributeError, TypeError) as error:
        return type(error)


def seen(cls):
    """Everything about a class that its users can see."""
    found = [(each.name, str(each.type), each.compare, each.kw_only) for each in dataclasses.fields(cls)]
    found += [cls.__name__, cls.__doc__ if cls.__doc__ and "(" not in cls.__doc__ else "", getattr(cls, "__match_args__", None)]
    found.append([(each.name, each.kind) for each in inspect.signature(cls).parameters.values()])
    values = [value for args, kwargs in CALLS if not isinstance(value := outcome(lambda a=args, k=kwargs: cls(*a, **k)), type)]
    found += [outcome(lambda a=args, k=kwargs: type(cls(*a, **k)).__name__) for args, kwargs in CALLS]
    plainly = "__repr__" in vars(cls) and not repr(values[0]).startswith("<")
    found += [repr(each).replace("<locals>", "") for each in values] if plainly else [plainly]
    found += [first == second for first in values for second in values]
    found += [outcome(lambda v=value: hash(v) == hash(copy.copy(v)) if "__eq__" in vars(cls) else True) for value in values]
    found += [outcome(lambda: values[0] == 3), outcome(lambda: values[0] != 3)]
    for value in values:
        again, deep = copy.copy(value), copy.deepcopy(value)
        found += [vars_of(again), vars_of(deep), outcome(lambda v=value: vars_of(dataclasses.replace(v)))]
        found += [dataclasses.asdict(value), hasattr(value, "__dict__")]
        # The error for what is no field is a TypeError in the standard library of 3.11, where there are slots.
        found += [isinstance(outcome(lambda v=value, n=name: setattr(v, n, 3)), type) for name in ("a", "other")]
        found += [isinstance(outcome(lambda v=value: delattr(v, "a")), type)]
        found += [outcome(value.twice) if hasattr(value, "twice") else None]
    return found


def vars_of(value):
    return [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]


@pytest.mark.parametrize("made", MADE, ids=lambda each: each.__name__)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(name for name, on in each.items() if on) or "none")
def test_the_same_class(made, options):
    theirs, ours = (seen(made(decorator, **options)) for decorator in DECORATORS)
    assert ours == theirs


@pytest.mark.parametrize("slots", [False, True])
def test_frozen_ones_say_so(slots):
    value = plain(records.dataclass, frozen=True, slots=slots)(1)
    for name in ("a", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(value, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(value, name)


def test_objects_equal_themselves():
    nan = float("nan")
    first, second = (of_one(records.dataclass, frozen=True)(nan) for _ in range(2))
    cls = of_one(records.dataclass, frozen=True)
    assert cls(nan) == cls(nan)
    assert cls(nan) != cls(float("nan"))
    assert first != second, "of two classes"


def test_one_that_holds_itself():
    cls = of_one(records.dataclass)
    value = cls(None)
    value.a = value
    assert repr(value).endswith("(a=...)")


@records.dataclass(frozen=True, slots=True)
class Kept:
    """Found by its name."""

    a: int
    b: tuple[int, ...] = ()


def test_pickled():
    value = Kept(3, (1, 2))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value


def test_without_options():
    @records.dataclass
    class Bare:
        a: int = 1

    assert Bare() == Bare(1)
    assert Bare().__class__.__hash__ is None
