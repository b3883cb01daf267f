"""Random parallel loops: over what they run, and which arrays their iterations own, combine values in, or only read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.properties.body import Body, Combined, Roles, Update, updatable
from tests.properties.scope import Array, Counter, Extent, Scope, Window
from tests.properties.state import State, indented
from tests.properties.values import BITS, Value, within


@dataclass(frozen=True, slots=True)
class Scalar:
    """A kernel scalar: what it may hold, and the type that bounds it."""

    value: Value
    dtype: str

    @property
    def name(self) -> str:
        return self.value.text


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a loop, what its variables are, and how many iterations it has at most."""

    text: str
    counters: tuple[Counter, ...]
    times: int
    # The name of the tuple of all axes.
    tuple_name: str = ""
    # Starts at a number that the analysis cannot know: below 0, an index would mean an element of another iteration.
    unsure: bool = False
    # Of a nest: the loop inside this one, then the one inside that.
    inside: tuple[str, ...] = ()

    def around(self, body: list[str]) -> list[str]:
        """The loop, or the nest of loops, with a body."""
        for text in self.inside[::-1]:
            body = [text, *indented(body)]
        return [self.text, *indented(body)]


_FORMS = {
    "int": (
        "{s} += {e}",
        "{s} -= {e}",
        "{s} = {s} + {e}",
        "{s} = {e} + {s}",
        "{s} *= {e}",
        "{s} = min({s}, {e})",
        "{s} = max({e}, {s})",
        "if {e} < {s}:\n    {s} = {e}",
        "if {e} > {s}:\n    {s}, {c} = {e}, {w}",
        "if {s} >= {e}:\n    {s} = {e}\n    {c} = {w}",
        "{s} &= {e}",
        "{s} |= {e}",
        "{s} = {s} ^ {e}",
        "{s} = 3",
    ),
    "float": (
        "{s} += {e}",
        "{s} -= {e}",
        "{s} = {e} + {s}",
        "{s} *= {e}",
        "{s} = min({s}, {e})",
        "{s} = max({s}, {e})",
        "if {s} < {e}:\n    {s} = {e}",
        "if {e} < {s}:\n    {s}, {c} = {e}, {w}",
        "{s} = 1.5",
    ),
    "bool": ("{s} = {s} and {e}", "{s} = {s} or {e}", "{s} = False", "{s} = True"),
}
# Of real numbers: what does not amplify their errors.
_REAL_FORMS = ("{s} += {e}", "{s} = min({s}, {e})", "{s} = max({e}, {s})", "if {e} > {s}:\n    {s} = {e}")


class Loops:
    """Writes parallel loops."""

    def __init__(self, state: State, partly: frozenset[int]) -> None:
        """``partly``: memories whose arrays overlap without being the same."""
        self.state = state
        self.choices = state.choices
        self.expressions = state.expressions
        self.partly = set(partly)

    def write(
        self, scope: Scope, scalars: tuple[Scalar, ...], executions: int, header: Header | None = None
    ) -> list[str] | None:
        """A loop, or None where nothing could be written in one. With a ``header``, one of several with that."""
        neighbour = header is not None
        header = header or self.header(scope)
        executions *= max(1, header.times)
        if executions > self.state.features.most_executions:
            return None
        arrays = tuple(window.array for window in scope.windows)
        inside = replace(scope, counters=(*scope.counters, *header.counters), windows=())
        roles, inside = self._roles(header, inside, arrays, scalars, neighbour)
        if roles.nothing:
            return None
        body = Body(self.state, roles).write(inside, executions)
        if self.choices.maybe(15):
            body = [f"if {self.expressions.boolean(inside, 2).text}:", *indented(body)]
        return header.around(body)

    # --- over what ---

    def header(self, scope: Scope) -> Header:
        """The first line of a loop."""
        count = len(self.choices.pick(((1,), (1,), (1, 1), (1, 1, 1)))) if self.state.features.ndrange else 1
        if count == 1 and not (self.state.features.ndrange and self.choices.maybe(15)):
            return self._range(scope)
        return self._ndrange(scope, count)

    def _range(self, scope: Scope) -> Header:
        name = self.state.name("i")
        extents = list(scope.extents)
        ways = ["literal", "between", "down"]
        if extents:
            ways = ["all", "all", "all", "inner", "back", "strided", "shifted", *ways]
        way = self.choices.pick(ways)
        if way in ("literal", "between", "down"):
            return self._numbers(way, name, scope)
        extent = self.choices.pick(extents)
        size = self.expressions.size(extent, scope)
        most = extent.most
        text, below, above = {
            "all": (size, 0, 0),
            "inner": (f"1, {size} - 1", 1, 1),
            "back": (f"{size} - 1, -1, -1", 0, 0),
            "strided": (f"0, {size}, 2", 0, 0),
            "shifted": (f"1, {size}", 1, 0),
        }[way]
        return Header(f"for {name} in range({text}):", (Counter(name, 0, max(0, most - 1), extent, below, above),), most)

    def _numbers(self, way: str, name: str, scope: Scope) -> Header:
        if way == "literal":
            count = self.choices.integer(1, 7)
            return Header(f"for {name} in range({count}):", (Counter(name, 0, count - 1),), count)
        stop = within(self.expressions.integer(scope, 1), 0, 7)
        if way == "between":
            start = within(self.expressions.integer(scope, 1), 0, 3)
            low, high = min(0, start.low), max(0, stop.high)
            line = f"for {name} in range({start.text}, {stop.text}):"
            return Header(line, (Counter(name, low, high),), high - low + 1, unsure=not start.text.isdigit())
        step = self.choices.integer(1, 3)
        high = max(0, stop.high)
        return Header(f"for {name} in range({stop.text}, -1, -{step}):", (Counter(name, 0, high),), high + 1)

    def _ndrange(self, scope: Scope, count: int) -> Header:
        arrays = [w.array for w in scope.windows if len(w.array.shape) == count and len(set(w.array.shape)) <= count]
        if arrays and count > 1 and self.choices.maybe(25):
            array = self.choices.pick(arrays)
            name = self.state.name("I")
            counters = tuple(Counter(f"{name}[{at}]", 0, max(0, e.most - 1), e) for at, e in enumerate(array.shape))
            return Header(f"for {name} in qgraph.ndrange(*{array.name}.shape):", counters, _product(array.shape), name)
        counters, texts, times = [], [], 1
        for _ in range(count):
            name = self.state.name("i")
            extents = [extent for extent in scope.extents if extent.most <= 40 or count == 1]
            if extents and self.choices.maybe(80):
                extent = self.choices.pick(extents)
                size = self.expressions.size(extent, scope)
                inner = self.choices.maybe(20)
                texts.append(f"(1, {size})" if inner else size)
                counters.append(Counter(name, 0, max(0, extent.most - 1), extent, int(inner)))
                times *= extent.most
            else:
                number = self.choices.integer(1, 3)
                texts.append(str(number))
                counters.append(Counter(name, 0, number - 1))
                times *= number
        if count > 1 and self.choices.maybe(40):
            ranges = [text.strip("()") if text.startswith("(1, ") else text for text in texts]
            first, *inside = [f"for {each.name} in range({text}):" for each, text in zip(counters, ranges, strict=True)]
            return Header(first, tuple(counters), times, inside=tuple(inside))
        names = ", ".join(counter.name for counter in counters)
        return Header(f"for {names} in qgraph.ndrange({', '.join(texts)}):", tuple(counters), times)

    # --- who does what ---

    def _roles(
        self, header: Header, scope: Scope, arrays: tuple[Array, ...], scalars: tuple[Scalar, ...], neighbour: bool
    ) -> tuple[Roles, Scope]:
        owned: list[Window] = []
        updates: list[Update] = []
        readable: list[Window] = []
        for memory in dict.fromkeys(array.memory for array in arrays):
            members = [array for array in arrays if array.memory == memory]
            # Of those that overlap in part one is written, and the others are not even read.
            written = [self.choices.pick(members)] if memory in self.partly else members
            role = self._role(header, written, neighbour)
            members = written if role else members
            if not role:
                readable += [Window(array) for array in members]
            elif isinstance(role, tuple):
                windows = [Window(array, role, bool(header.tuple_name)) for array in members]
                owned += [window for window in windows if all(map(scope.nonempty, window.rest))]
                readable += windows
            else:
                updates += self._updates(role, members, scope)
        combined, values = self._combined(scope, scalars)
        roles = Roles(tuple(owned), tuple(updates), combined)
        return roles, replace(scope, windows=tuple(readable), values=values)

    def _role(self, header: Header, members: list[Array], neighbour: bool) -> tuple[str, ...] | str | None:
        """None to read, the operation to combine by, or the indices that an iteration owns."""
        if not all(array.writable for array in members):
            return None
        if neighbour and self.choices.maybe(85) and _owning(header, members[0]):
            return _owning(header, members[0])[0]
        options: list[tuple[str, ...] | str | None] = [*_owning(header, members[0]), None]
        if self.state.features.atomics:
            options += updatable(members[0].dtype)[:3]
        if self.state.features.atomics and self.choices.maybe(20):
            options += updatable(members[0].dtype)
        return self.choices.pick(options)

    def _updates(self, group: str, members: list[Array], scope: Scope) -> list[Update]:
        members = [array for array in members if all(map(scope.nonempty, array.shape))]
        at = ""
        shape = members[0].shape if members else ()
        if self.choices.maybe(40) and all(extent.least > 0 for extent in shape):
            at = ", ".join("0" for _ in shape) or "()"
        return [Update(array, group, at) for array in members]  # type: ignore[arg-type]

    def _combined(self, scope: Scope, scalars: tuple[Scalar, ...]) -> tuple[tuple[Combined, ...], tuple[Value, ...]]:
        found: list[Combined] = []
        taken: set[str] = set()
        if self.state.features.reductions:
            for scalar in scalars:
                if scalar.name in taken or not self.choices.maybe(40):
                    continue
                taken.add(scalar.name)
                others = [s for s in scalars if s.name not in taken and s.value.kind == "int"]
                forms = _FORMS[scalar.value.kind]
                if self.state.features.real and scalar.value.kind == "float":
                    forms = _REAL_FORMS
                # An unsigned number cannot go below 0.
                forms = tuple(form for form in forms if "-=" not in form or scalar.value.low < 0)
                form = self.choices.pick([form for form in forms if others or "{c}" not in form])
                companion = self.choices.pick(others) if "{c}" in form else None
                if companion is not None:
                    taken.add(companion.name)
                found.append(Combined(scalar.value, form, companion and companion.value))
        return tuple(found), tuple(value for value in scope.values if value.text not in taken)


def _owning(header: Header, array: Array) -> list[tuple[str, ...]]:
    """Indices, as text, that no two iterations share; each exists in every call."""
    counters = list(header.counters)
    if header.unsure and array.dtype in BITS:
        return []
    if header.tuple_name:
        same = tuple(counter.extent for counter in counters) == array.shape
        return [(header.tuple_name,)] if same else []
    if len(counters) > len(array.shape):
        return []
    found: list[tuple[str, ...]] = []
    orders = [counters] if len(counters) == 1 else [counters, counters[::-1]]
    for order in orders:
        if all(_reaches(counter, extent) for counter, extent in zip(order, array.shape, strict=False)):
            found.append(tuple(counter.name for counter in order))
    if len(counters) == 1 and array.shape and counters[0].extent is array.shape[0]:
        (counter,) = counters
        found.append((f"-1 - {counter.name}",))
        found += [(f"{counter.name} - {number}",) for number in range(1, counter.below + 1)]
        found += [(f"{counter.name} + {number}",) for number in range(1, counter.above + 1)]
    return found


def _reaches(counter: Counter, extent: Extent) -> bool:
    return counter.extent is extent or (counter.extent is None and 0 <= counter.low and counter.high < extent.least)


def _product(shape: tuple[Extent, ...]) -> int:
    times = 1
    for extent in shape:
        times *= extent.most
    return times
