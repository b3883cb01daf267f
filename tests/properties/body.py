"""Random statements of one iteration of a parallel loop.

What an iteration owns it may read and write; what iterations combine it may only update; anything else it only reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from tests.properties.scope import Array, Counter, Scope, Window
from tests.properties.state import State, indented
from tests.properties.values import BITS, GRAIN, WEAK, Value, domain, kind_of, named, promoted, settled, within

Group = Literal["+", "min", "max", "&", "|", "^"]
_ATOMICS = {
    "+": "atomic_add",
    "min": "atomic_min",
    "max": "atomic_max",
    "&": "atomic_and_",
    "|": "atomic_or_",
    "^": "atomic_xor",
}


@dataclass(frozen=True, slots=True)
class Update:
    """An array that iterations combine values in, by one operation. ``at``: always that element, or "" for any."""

    array: Array
    group: Group
    at: str = ""


@dataclass(frozen=True, slots=True)
class Combined:
    """A kernel scalar that iterations combine values in. ``companion``: a scalar that says where the value came from."""

    value: Value
    form: str
    companion: Value | None = None


@dataclass(frozen=True, slots=True)
class Roles:
    """What the statements of a loop may do, besides reading what their scope has."""

    owned: tuple[Window, ...] = ()
    updates: tuple[Update, ...] = ()
    combined: tuple[Combined, ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.owned or self.updates or self.combined)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands: what it sees, how often it runs at most, and what encloses it."""

    scope: Scope
    locals: tuple[Value, ...]
    executions: int
    depth: int
    leave: tuple[str, ...] = ("continue",)
    # Those locals that may be assigned again.
    mutable: frozenset[str] = frozenset()

    @property
    def sees(self) -> Scope:
        return replace(self.scope, values=(*self.scope.values, *self.locals))


class Body:
    """Writes the statements of one loop."""

    def __init__(self, state: State, roles: Roles) -> None:
        self.state = state
        self.choices = state.choices
        self.expressions = state.expressions
        self.roles = roles

    def write(self, scope: Scope, executions: int) -> list[str]:
        """The block."""
        return self._block(_Place(scope, (), executions, 2), least=1)

    def _block(self, place: _Place, least: int = 1) -> list[str]:
        lines: list[str] = []
        for _ in self.choices.some(least, 4, 40):
            written, place = self._statement(place)
            lines += written
        return lines

    def _statement(self, place: _Place) -> tuple[list[str], _Place]:
        options = [self._effect_only, self._effect_only, self._effect_only, self._new_local]
        if place.depth > 0:
            options += [self._if, self._for, self._while]
        if place.mutable:
            options.append(self._assign_local)
        if self.state.features.exits and place.depth < 2:
            options.append(self._leave)
        return self.choices.pick(options)(place)

    # --- what a loop is for ---

    def _effect_only(self, place: _Place) -> tuple[list[str], _Place]:
        return self._effect(place), place

    def _effect(self, place: _Place) -> list[str]:
        roles = self.roles
        options = [partial(self._store, window) for window in roles.owned]
        options += [partial(self._update, update) for update in roles.updates]
        options += [partial(self._combine, combined) for combined in roles.combined]
        return self.choices.pick(options)(place)

    def _store(self, window: Window, place: _Place) -> list[str]:
        array = window.array
        scope = place.sees
        target = f"{array.name}[{self.expressions.index(window, scope)}]"
        kind = kind_of(array.dtype)
        if kind != "bool" and self.choices.maybe(30):
            step = self.state.spend(array.room, place.executions)
            if step:
                value = self.expressions.within(kind, scope, 0 if domain(array.dtype)[0] == 0 else -step, step)
                sign = "+" if value.low < 0 or domain(array.dtype)[0] == 0 else self.choices.pick("+-")
                return [f"{target} {sign}= {settled(value, frozenset([array.dtype])).text}"]
        return [f"{target} = {self.expressions.for_array(array.dtype, scope).text}"]

    def _update(self, update: Update, place: _Place) -> list[str]:
        array = update.array
        scope = place.sees
        at = update.at or self.expressions.index(Window(array), scope)
        target = f"{array.name}[{at}]"
        kind = kind_of(array.dtype)
        group = update.group
        low, high = domain(array.dtype, spare=1)
        if group == "+":
            step = self.state.spend(array.room, place.executions)
            low, high = (0 if low == 0 else -step), step
        value = self.expressions.within(kind, scope, low, high)
        if kind == "int" and not promoted(frozenset([array.dtype]), value.dtypes):
            value = _typed(value, frozenset())
        if group not in ("min", "max"):
            value = settled(value, frozenset([array.dtype]))
        if group == "min" and low == 0 and value.dtypes & {"int8", "int16", "int32", "int64"}:
            # What has a sign by its type is refused, whatever its value is.
            value = Value(f"np.{array.dtype}({value.text})", "int", value.low, value.high, frozenset([array.dtype]), atom=True)
        if group in _ATOMICS and self.state.features.atomics and not update.at and self.choices.maybe(25):
            index = f"({at})" if "," in at else at
            return [f"qgraph.{_ATOMICS[group]}({array.name}, {index}, {value.text})"]
        if group in ("min", "max"):
            return [f"{target} = {group}({target}, {value.text})"]
        if group == "+" and low < 0 and self.choices.maybe(30):
            return [f"{target} -= {value.text}"]
        return [f"{target} {group}= {value.text}"]

    def _combine(self, combined: Combined, place: _Place) -> list[str]:
        name, kind = combined.value.text, combined.value.kind
        scope = place.sees
        form = combined.form
        low, high = combined.value.low, combined.value.high
        if "{c}" in form or "min" in form or "max" in form or "{t}" in form:
            low, high = int(low / 2), int(high / 2)
        elif kind != "bool" and ("+" in form or "-" in form):
            high = self.state.spend(name, place.executions)
            low = 0 if low == 0 else -high
        elif "*" in form:
            low, high = (0 if low == 0 else -1), 1
        elif kind == "int":
            low, high = int(low / 2), int(high / 2)
        value = self.expressions.within(kind, scope, low, high)
        value = settled(_typed(value, combined.value.dtypes))
        if kind == "float" and "*" in form:
            value = Value("-1.0" if value.text.startswith("-") else "1.0", "float")
        first, companion = "", ""
        if "{c}" in form:
            assert combined.companion is not None
            companion = combined.companion.text
            where = self.expressions.within("int", scope, int(combined.companion.low / 2), int(combined.companion.high / 2))
            first = _typed(where, combined.companion.dtypes).text
        return form.format(s=name, e=value.inner, c=companion, w=first).split("\n")

    # --- names of the iteration ---

    def _new_local(self, place: _Place) -> tuple[list[str], _Place]:
        kind = self.choices.pick(("int", "float", "bool"))
        value = self.expressions.of(kind, place.sees)
        if kind == "int":
            value = within(value, -1000, 1000)
        name = self.state.name("t")
        mutable = place.mutable
        text = value.text
        if self.choices.maybe(40):
            value = _mutable(value)
            text = value.text
            value = replace(value, low=_lowest(value), high=_HIGHEST, grain=GRAIN)
            mutable |= {name}
        return [f"{name} = {text}"], replace(place, locals=(*place.locals, named(name, value)), mutable=mutable)

    def _assign_local(self, place: _Place) -> tuple[list[str], _Place]:
        local = self.choices.pick([local for local in place.locals if local.text in place.mutable])
        value = self.expressions.within(local.kind, place.sees, local.low, local.high)
        return [f"{local.text} = {_typed(value, local.dtypes).text}"], place

    # --- control flow ---

    def _if(self, place: _Place) -> tuple[list[str], _Place]:
        test = self.expressions.boolean(place.sees, 2)
        inner = replace(place, depth=place.depth - 1)
        lines = [f"if {test.text}:", *indented(self._block(inner, 1))]
        if self.choices.maybe(20):
            lines += [f"elif {self.expressions.boolean(place.sees, 1).text}:", *indented(self._block(inner, 1))]
        if self.choices.maybe(40):
            lines += ["else:", *indented(self._block(inner, 1))]
        return lines, place

    def _for(self, place: _Place) -> tuple[list[str], _Place]:
        extents = [extent for extent in place.scope.extents if extent.most <= 8]
        name = self.state.name("j")
        if extents and self.choices.maybe(40):
            extent = self.choices.pick(extents)
            header, counter = self.expressions.size(extent, place.scope), Counter(name, 0, max(0, extent.most - 1), extent)
            times = extent.most
        else:
            times = self.choices.integer(1, 3)
            header, counter = str(times), Counter(name, 0, times - 1)
            if self.choices.maybe(20):
                header = f"{times - 1}, -1, -1"
        return self._loop(f"for {name} in range({header}):", counter, place, times)

    def _loop(self, head: str, counter: Counter | None, place: _Place, times: int) -> tuple[list[str], _Place]:
        executions = place.executions * max(1, times)
        if executions > self.state.features.most_executions:
            return self._effect(place), place
        counters = place.scope.counters if counter is None else (*place.scope.counters, counter)
        scope = replace(place.scope, counters=counters)
        inner = replace(place, scope=scope, depth=place.depth - 1, executions=executions, leave=("break", "continue"))
        lines = [head, *indented(self._block(inner, 1))]
        if any("break" in line for line in lines) and self.choices.maybe(30):
            lines += ["else:", *indented(self._block(replace(place, depth=0), 1))]
        return lines, place

    def _while(self, place: _Place) -> tuple[list[str], _Place]:
        name = self.state.name("k")
        times = self.choices.integer(1, 3)
        test = f" and {self.expressions.boolean(place.sees, 1).inner}" if self.choices.maybe(40) else ""
        counter = Counter(name, 0, times)
        lines, place = self._loop(f"while {name} < {times}{test}:", counter, place, times)
        if not lines[0].startswith("while"):
            return lines, place
        return [f"{name} = 0", lines[0], f"    {name} += 1", *lines[1:]], place

    def _leave(self, place: _Place) -> tuple[list[str], _Place]:
        test = self.expressions.boolean(place.sees, 1)
        return [f"if {test.text}:", f"    {self.choices.pick(place.leave)}"], place


# What a local that is assigned more than once may hold: every integer type has these.
_HIGHEST = 127


def _lowest(value: Value) -> int:
    return 0 if value.low >= 0 else -_HIGHEST - 1


def _mutable(value: Value) -> Value:
    """A local's first value, where others may follow: Python ints among them."""
    if value.kind != "bool":
        value = within(value, _lowest(value), _HIGHEST)
    return replace(value, dtypes=value.dtypes | {WEAK}) if value.kind == "int" else value


def _typed(value: Value, allowed: frozenset[str]) -> Value:
    """``value`` as one that a name of some types may be given."""
    if value.kind != "int" or value.dtypes <= allowed:
        return value
    return Value(f"int({value.text})", "int", value.low, value.high, frozenset([WEAK]), atom=True)


def updatable(dtype: str) -> tuple[Group, ...]:
    """The operations by which iterations may combine values in elements of a type."""
    if dtype in BITS or dtype == "bool":
        return ()
    return ("+", "min", "max") if kind_of(dtype) == "float" else ("+", "min", "max", "&", "|", "^")
