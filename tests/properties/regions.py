"""Random statements at kernel level: loops, numbers, and the control flow around them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tests.properties.loops import Loops, Scalar
from tests.properties.scope import Array, Counter, Extent, Scope, Window
from tests.properties.slices import Slices
from tests.properties.state import State, indented
from tests.properties.values import BITS, FLOATS, GRAIN, UNSIGNED, WEAK, Kind, Value, domain, kind_of, literal, settled, within


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel-level statement stands. ``leave``: what may end an iteration of the loop around it."""

    scope: Scope
    scalars: tuple[Scalar, ...] = ()
    executions: int = 1
    depth: int = 2
    leave: tuple[str, ...] = ()

    @property
    def sees(self) -> Scope:
        return replace(self.scope, values=(*self.scope.values, *(scalar.value for scalar in self.scalars)))


class Regions:
    """Writes blocks of kernel-level statements."""

    def __init__(self, state: State, flags: tuple[Array, ...], partly: frozenset[int]) -> None:
        self.state = state
        self.choices = state.choices
        self.expressions = state.expressions
        self.features = state.features
        self.loops = Loops(state, partly)
        self.slices = Slices(state)
        self.flags = list(flags)

    def block(self, place: Place, least: int = 1, most: int = 4) -> tuple[list[str], Place]:
        """Some statements, and what is known after them."""
        lines: list[str] = []
        for _ in self.choices.some(least, most, 70):
            written, place = self._statement(place)
            lines += written
        return lines, place

    def _inner(self, place: Place, least: int = 1) -> list[str]:
        """A block of its own: names that it makes are not known after it."""
        return self.block(replace(place, depth=place.depth - 1), least, 3)[0]

    def _statement(self, place: Place) -> tuple[list[str], Place]:
        self.state.tasks_left -= 1
        if self.state.tasks_left < 0:
            return self._store(place)
        features = self.features
        options = [self._loop] * 5 + [self._store]
        if features.scalars:
            options += [self._new_scalar, self._new_scalar, self._assign_scalar]
        if features.slices:
            options += [self._slices, self._slices]
        if features.views:
            options += [self._view, self._view]
        if features.temporaries:
            options.append(self._temporary)
        if features.rebinding:
            options.append(self._swap)
        if features.calls and place.depth > 0:
            options.append(self._call)
        if place.depth > 0:
            options += [way for way, there in self._control(features).items() if there]
        if place.leave and features.exits:
            options.append(self._leave)
        return self.choices.pick(options)(place)

    def _control(self, features: object) -> dict[object, bool]:
        on = self.features
        return {
            self._serial: on.serial,
            self._if: on.branches,
            self._while: on.whiles,
            self._do_while: on.do_while and bool(self.flags),
            self._match: on.matches,
        }

    # --- what it is all about ---

    def _loop(self, place: Place) -> tuple[list[str], Place]:
        if self.features.neighbours and self.choices.maybe(70):
            return self._neighbours(place)
        lines = self.loops.write(place.sees, place.scalars, place.executions)
        return (lines, place) if lines is not None else self._store(place)

    def _neighbours(self, place: Place) -> tuple[list[str], Place]:
        """Loops over one range, with a statement for one thread between them now and then."""
        header = self.loops.header(place.sees)
        lines: list[str] = []
        for _ in self.choices.some(2, 4, 50):
            self.state.tasks_left -= 1
            lines += self.loops.write(place.sees, place.scalars, place.executions, header) or []
            if place.scalars and self.choices.maybe(15):
                lines += self._assign_scalar(place)[0]
        return (lines, place) if lines else self._store(place)

    def _store(self, place: Place) -> tuple[list[str], Place]:
        scope = place.sees
        windows = [w for w in scope.windows if w.array.writable and all(map(scope.nonempty, w.array.shape))]
        if not windows:
            return self._new_scalar(place) if self.features.scalars else (["pass"], place)
        window = self.choices.pick(windows)
        array = window.array
        target = f"{array.name}[{self.expressions.index(window, scope)}]"
        if kind_of(array.dtype) != "bool" and self.choices.maybe(40):
            step = self.state.spend(array.room, place.executions)
            if step:
                low = 0 if array.dtype in UNSIGNED else -step
                value = self.expressions.within(kind_of(array.dtype), scope, low, step)
                # NumPy makes a float64 of a uint64 and a signed element, which is refused.
                mixed = "uint64" in value.dtypes and array.dtype not in UNSIGNED
                mixed |= array.dtype == "uint64" and bool(value.dtypes - {WEAK, *UNSIGNED})
                return [f"{target} += {step if mixed else settled(value, frozenset([array.dtype])).text}"], place
        lines = [f"{target} = {self.expressions.for_array(array.dtype, scope).text}"]
        if self.choices.maybe(20):
            lines = [f"if {self.expressions.boolean(scope, 1).text}:", *indented(lines)]
        return lines, place

    def _slices(self, place: Place) -> tuple[list[str], Place]:
        lines = self._in_place(place) if self.choices.maybe(15) else None
        if lines is not None:
            return lines, place
        lines = self.slices.assignment(place.sees)
        return (lines, place) if lines is not None else self._store(place)

    def _in_place(self, place: Place) -> list[str] | None:
        """A number is added to all elements of an array; None where there is no such array, or no room in it."""
        windows = [w for w in place.scope.windows if w.array.shape and w.array.writable and kind_of(w.array.dtype) != "bool"]
        if not windows:
            return None
        array = self.choices.pick(windows).array
        step = self.state.spend(array.room, place.executions)
        if not step:
            return None
        if array.dtype in UNSIGNED:
            # NumPy refuses to add a signed number, which a scalar may be.
            return [f"{array.name} += {step}"]
        value = self.expressions.within(kind_of(array.dtype), place.sees, -step, step)
        # Nor does it add a uint64, with which the sum is a float64, to signed integers.
        return [f"{array.name} += {step if 'uint64' in value.dtypes else settled(value, frozenset([array.dtype])).text}"]

    def _view(self, place: Place) -> tuple[list[str], Place]:
        """A name for a part of an array."""
        scope = place.scope
        windows = [window for window in scope.windows if window.array.shape]
        if not windows:
            return self._loop(place)
        array = self.choices.pick(windows).array
        name = self.state.name("w")
        text, shape = self.slices.part(array)
        scope, memory = self._in_one_memory(scope, array)
        known = dict(scope.extents)
        for axis, extent in enumerate(shape):
            known[extent] = (*known.get(extent, ()), f"{name}.shape[{axis}]")
        view = Array(name, array.dtype, shape, memory, array.writable, of=array.room)
        scope = replace(scope, windows=(*scope.windows, Window(view)), extents=known)
        return [f"{name} = {text}"], replace(place, scope=scope)

    def _in_one_memory(self, scope: Scope, array: Array) -> tuple[Scope, int]:
        """A scope in which all that a part of ``array`` may overlap, whatever changes places, has one memory."""
        memory = array.memory
        members = {memory}
        if array.movable:
            arrays = [window.array for window in scope.windows]
            members |= {a.memory for a in arrays if a.room == array.room and a.movable == array.movable}
            memory = 100 + self.state.number()
        self.loops.partly.add(memory)
        windows = tuple(
            replace(w, array=replace(w.array, memory=memory)) if w.array.memory in members else w for w in scope.windows
        )
        return replace(scope, windows=windows), memory

    # --- numbers ---

    def _new_scalar(self, place: Place) -> tuple[list[str], Place]:
        kind = self.choices.pick(("int", "float", "bool"))
        known = self.slices.number(place.sees) if self.features.slices and self.choices.maybe(25) else None
        scalar, value = self._scalar(known.kind if known is not None else kind, place.sees, known)
        return [f"{scalar.name} = {value.text}"], replace(place, scalars=(*place.scalars, scalar))

    def _scalar(self, kind: Kind, scope: Scope, value: Value | None = None) -> tuple[Scalar, Value]:
        name = self.state.name("s")
        value = value or self.expressions.of(kind, scope)
        if kind == "int":
            dtypes = value.dtypes | {WEAK}
            dtype = min(sorted(dtypes), key=lambda t: BITS.get(t, 99))
            low, high = domain(dtype)
            low = 0 if dtypes & set(UNSIGNED) else low
            value = within(value, low // 2, high // 2)
            known = Value(name, "int", low, high, dtypes, atom=True)
        else:
            dtype = "bool" if kind == "bool" else "float64"
            value = self._bounded(value, dtype)
            known = Value(name, kind, *domain(dtype), grain=GRAIN if kind == "float" else 0, atom=True)
        self.state.set_room(name, dtype)
        return Scalar(known, dtype), value

    def _bounded(self, value: Value, dtype: str) -> Value:
        return value if self.features.real and dtype in FLOATS else within(value, *domain(dtype, spare=1))

    def _assign_scalar(self, place: Place) -> tuple[list[str], Place]:
        if not place.scalars:
            return self._new_scalar(place)
        scalar = self.choices.pick(place.scalars)
        known = scalar.value
        if known.kind == "int" and self.choices.maybe(40):
            step = self.state.spend(scalar.name, place.executions)
            if step:
                low = 0 if known.low == 0 else -step
                value = settled(self._as_scalar(self.expressions.within("int", place.sees, low, step), scalar))
                return [f"{scalar.name} += {value.text}"], place
        value = self.expressions.of(known.kind, place.sees)
        if known.kind == "int":
            value = self._as_scalar(within(value, known.low // 2, known.high // 2), scalar)
        else:
            value = self._bounded(value, scalar.dtype)
        return [f"{scalar.name} = {value.text}"], place

    @staticmethod
    def _as_scalar(value: Value, scalar: Scalar) -> Value:
        """``value`` as a number of a type that the scalar has already."""
        if value.dtypes <= scalar.value.dtypes:
            return value
        return replace(value, text=f"int({value.text})", dtypes=frozenset([WEAK]), atom=True)

    def _swap(self, place: Place) -> tuple[list[str], Place]:
        arrays = [window.array for window in place.scope.windows if window.array.movable]
        pairs = [(a, b) for at, a in enumerate(arrays) for b in arrays[at + 1 :] if a.room == b.room and a.movable == b.movable]
        if not pairs:
            return self._loop(place)
        a, b = self.choices.pick(pairs)
        return [f"{a.name}, {b.name} = {b.name}, {a.name}"], place

    # --- arrays of the kernel's own ---

    def _temporary(self, place: Place) -> tuple[list[str], Place]:
        """An array that is gone with the launch; two of them at times, that may change places."""
        choices = self.choices
        scope = place.scope
        level = self.state.name("level")
        extents = list(scope.extents)
        windows = [window for window in scope.windows if window.array.shape]
        lines: list[str] = []
        dtype = choices.pick(("float64", "int64", "int32", "float32", "bool", "uint8"))
        shape = tuple(choices.pick(extents) for _ in choices.some(1, 2, 25)) if extents else ()
        if math.prod(extent.most for extent in shape) > 1000:
            shape = shape[:1]
        like = choices.pick(windows) if windows and choices.maybe(30) else None
        if like is not None:
            dtype, shape = like.array.dtype, like.array.shape
        for _ in choices.some(1, 2, 30):
            name = self.state.name("v")
            made = self._made(name, dtype, shape, like, scope)
            lines += made
            array = Array(name, dtype, shape, 100 + self.state.number(), movable=level)
            self.state.set_room(array.room, dtype)
            known = dict(scope.extents)
            for axis, extent in enumerate(shape):
                known[extent] = (*known[extent], f"{name}.shape[{axis}]")
            scope = replace(scope, windows=(*scope.windows, Window(array)), extents=known)
        return lines, replace(place, scope=scope)

    def _made(self, name: str, dtype: str, shape: tuple[Extent, ...], like: Window | None, scope: Scope) -> list[str]:
        sizes = [self.expressions.size(extent, scope) for extent in shape]
        size = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
        element = f"np.{dtype}" if dtype != "bool" else "np.bool_"
        word = self.choices.pick(("zeros", "full", "empty"))
        size = size if like is None else f"{like.array.name}.shape"
        given = f"{size}, {element}"
        match word:
            case "zeros" if like is not None and self.choices.maybe():
                return [f"{name} = qgraph.zeros_like({like.array.name})"]
            case "full":
                values = {"bool": "True", "float64": "1.5", "float32": "-0.25"}
                return [f"{name} = qgraph.full({size}, {values.get(dtype, 3)}, {element})"]
            case "empty" if len(shape) == 1:
                index = self.state.name("i")
                value = {"bool": f"{index} > 1", "float64": f"{index} * 0.5"}.get(dtype, f"{index} % 5")
                return [
                    f"{name} = qgraph.empty({given})",
                    f"for {index} in range({name}.shape[0]):",
                    f"    {name}[{index}] = {value}",
                ]
            case _:
                return [f"{name} = qgraph.zeros({given})"]

    # --- control flow ---

    def _around(self, head: list[str], place: Place, times: int, first: list[str], counter: Counter | None) -> list[str]:
        """A loop with its block, which starts with ``first``; empty where it would run too often."""
        executions = place.executions * max(1, times)
        if executions * 8 > self.features.most_executions:
            return []
        counters = place.scope.counters if counter is None else (*place.scope.counters, counter)
        scope = replace(place.scope, counters=counters)
        inner = replace(place, scope=scope, executions=executions, leave=("break", "continue"))
        lines = [*head, *indented([*first, *self._inner(inner)])]
        if any("break" in line for line in lines) and self.choices.maybe(30):
            lines += ["else:", *indented(self._inner(replace(place, depth=1)))]
        return lines

    def _serial(self, place: Place) -> tuple[list[str], Place]:
        name = self.state.name("n")
        times = self.choices.integer(1, 3)
        header = str(times)
        counter = Counter(name, 0, times - 1)
        if self.choices.maybe(30):
            bound = within(self.expressions.integer(place.sees, 1), 0, 3)
            counter, times, header = Counter(name, 0, 3), 3, bound.text
        elif self.choices.maybe(20):
            header = f"{times - 1}, -1, -1"
        word = "range"
        if self.features.ndrange and "," not in header and self.choices.maybe(15):
            word = "qgraph.ndrange"
        lines = self._around([f"for {name} in qgraph.serial({word}({header})):"], place, times, [], counter)
        return (lines, place) if lines else self._store(place)

    def _while(self, place: Place) -> tuple[list[str], Place]:
        name = self.state.name("k")
        times = self.choices.integer(1, 3)
        counter = Counter(name, 0, times + 1)
        if self.choices.maybe(25) and self.features.exits:
            head, first = "while True:", [f"if {name} >= {times}:", "    break", f"{name} += 1"]
        else:
            test = f" and {self.expressions.boolean(place.sees, 1).inner}" if self.choices.maybe(50) else ""
            head, first = f"while {name} < {times}{test}:", [f"{name} += 1"]
        lines = self._around([f"{name} = 0", head], place, times, first, counter)
        return (lines, place) if lines else self._store(place)

    def _do_while(self, place: Place) -> tuple[list[str], Place]:
        if not self.flags:
            return self._loop(place)
        flag = self.flags.pop()
        at = f"{flag.name}[{'0' if flag.shape else '()'}]"
        times = self.choices.integer(1, 3)
        limit = f", {self.choices.integer(1, 3)}" if self.choices.maybe(25) else ""
        head = [f"{at} = {times}", f"while qgraph.graph_do_while({flag.name}{limit}):"]
        lines = self._around(head, place, times, [f"{at} -= 1"], None)
        self.flags.append(flag)
        return (lines, place) if lines else self._store(place)

    def _if(self, place: Place) -> tuple[list[str], Place]:
        test = self.expressions.boolean(place.sees, 2)
        lines = [f"if {test.text}:", *indented(self._inner(place))]
        if self.choices.maybe(20):
            lines += [f"elif {self.expressions.boolean(place.sees, 1).text}:", *indented(self._inner(place))]
        if self.choices.maybe(40):
            lines += ["else:", *indented(self._inner(place))]
        return lines, place

    def _match(self, place: Place) -> tuple[list[str], Place]:
        subject = within(self.expressions.integer(place.sees, 2), 0, 4)
        lines = [f"match {subject.text}:"]
        patterns = ["0", self.choices.pick(("1", "1 | 2", "2"))]
        if self.choices.maybe(50):
            patterns.append("_")
        for pattern in patterns:
            lines += indented([f"case {pattern}:", *indented(self._inner(place))])
        return lines, place

    def _leave(self, place: Place) -> tuple[list[str], Place]:
        test = self.expressions.boolean(place.sees, 1)
        return [f"if {test.text}:", f"    {self.choices.pick(place.leave)}"], place

    # --- functions with loops ---

    def _call(self, place: Place) -> tuple[list[str], Place]:
        """A function that is written for the arrays that it is given here, and maybe its value."""
        given: list[Window] = []
        for _ in self.choices.some(1, 3):
            given.append(self.choices.pick(place.scope.windows))
        given = list(dict.fromkeys(given))
        name = self.state.name("g")
        parameters = [self.state.name("q") for _ in given]
        windows = tuple(
            Window(replace(window.array, name=parameter, movable=""))
            for window, parameter in zip(given, parameters, strict=True)
        )
        number, argument = self.state.name("m"), within(self.expressions.integer(place.sees, 1), -9, 9)
        values = (replace(argument, text=number, atom=True),)
        scope = Scope(values, (), windows, extents_of(w.array for w in windows))
        flags, self.flags = self.flags, []
        inner, after = self.block(Place(scope, (), place.executions, 1), 1, 2)
        self.flags = flags
        result: Value | None = None
        if self.features.scalars and self.choices.maybe(60):
            scalar, value = self._scalar(self.choices.pick(("int", "float", "bool")), after.sees)
            result = scalar.value
            inner.append(f"return {value.text}")
        self.state.functions.sources.append(
            ["@qgraph.func", f"def {name}({', '.join([*parameters, number])}):", *indented(inner)]
        )
        memories = [window.array.memory for window in given]
        passed = [self._passed(window.array, memories.count(window.array.memory) == 1) for window in given]
        call = f"{name}({', '.join([*passed, argument.text])})"
        if result is None:
            return [call], place
        known = Scalar(result, dtype_of(result))
        return [f"{result.text} = {call}"], replace(place, scalars=(*place.scalars, known))

    def _passed(self, array: Array, alone: bool) -> str:
        """An array, or at times the same elements in another order."""
        if not (alone and array.shape and self.features.views and self.choices.maybe(20)):
            return array.name
        transposed = ".T" if array.shape == array.shape[::-1] and self.choices.maybe(30) else ""
        return f"{array.name}[{', '.join(self.choices.pick((':', '::-1')) for _ in array.shape)}]{transposed}"


def dtype_of(value: Value) -> str:
    """The type that bounds a scalar."""
    if value.kind != "int":
        return "bool" if value.kind == "bool" else "float64"
    return min(sorted(value.dtypes), key=lambda t: BITS.get(t, 99))


def extents_of(arrays: object) -> dict[Extent, tuple[str, ...]]:
    """How to write each extent by the shapes of arrays."""
    found: dict[Extent, list[str]] = {}
    for array in arrays:  # type: ignore[attr-defined]
        for axis, extent in enumerate(array.shape):
            found.setdefault(extent, []).append(f"{array.name}.shape[{axis}]")
    return {extent: tuple(texts) for extent, texts in found.items()}


def result_of(place: Place, regions: Regions) -> str:
    """What a kernel may return: one or more of its numbers."""
    names = [scalar.name for scalar in place.scalars] or [literal(1).text]
    count = regions.choices.integer(1, min(3, len(names)))
    return ", ".join(names[-count:])
