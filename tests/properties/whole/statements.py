"""Random statements of whole arrays at kernel level: new arrays, slices, names, branches, loops, calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.properties.choices import Choices
from tests.properties.state import State, indented
from tests.properties.values import UNSIGNED, WEAK, Value
from tests.properties.whole.expressions import Expressions, Scope, weak
from tests.properties.whole.iterations import Iterations
from tests.properties.whole.stores import Stores
from tests.properties.whole.values import Dim, Whole, nameable, sound, storable, valued
from tests.properties.whole.words import BOUNDS

Written = tuple[list[str], Scope]
_DTYPES = ("int64", "float64", "int32", "bool", "float32", "uint8", "int16")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands. ``loops``: device loops and branches around it."""

    scope: Scope
    loops: int = 0
    func: bool = False


@dataclass(slots=True)
class Function:
    """A func of arrays that was written: what it was given, and what it gives."""

    name: str
    parameters: tuple[Whole, ...]
    results: tuple[Whole, ...]


@dataclass(slots=True)
class Statements:
    """Writes the statements of one program."""

    state: State
    sources: list[list[str]] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    depth: int = 0
    # Statements that may still be written: compilation is what a program costs.
    left: int = 15

    @property
    def choices(self) -> Choices:
        return self.state.choices

    @property
    def expressions(self) -> Expressions:
        return Expressions(self.choices)

    def block(self, place: Place, least: int, most: int) -> Written:
        """Statements one after another."""
        lines: list[str] = []
        for _ in self.choices.some(least, most, 75):
            if self.left <= 0 and lines:
                break
            self.left -= 1
            written, scope = self._statement(place)
            place = replace(place, scope=scope)
            lines += written
        return lines, place.scope

    def _statement(self, place: Place) -> Written:
        options: list[Callable[[Place], Written | None]] = [
            *(self._new,) * 4,
            *(self._worded,) * 2,
            *(self._stored,) * 3,
            *(self._updated,) * 2,
            *(self._selected,) * 4,
            self._number,
            self._made,
            self._again,
            self._again,
            self._called,
            self._named_part,
            self._swapped,
            self._row_loop,
            *(self._iterations,) * 2,
        ]
        if place.loops < 2 and not place.func and self.left > 2:
            options += [self._branch, self._serial, self._while]
        for _ in range(4):
            written = self.choices.pick(options)(place)
            if written is not None:
                return written
        return self._new(place)

    # --- new names ---

    def _new(self, place: Place) -> Written:
        """``t = x + y``."""
        made = nameable(self.expressions.array(place.scope))
        if not made.shape:
            made = valued("np.arange(3)", "int64", 0, 2, 0, (Dim((3, 3)),))
        return self._named(place, made)

    def _worded(self, place: Place) -> Written | None:
        """``t = np.roll(x, 1)``: one of the words."""
        made = self.expressions.worded(place.scope)
        return None if made is None else self._named(place, nameable(made))

    def _named(self, place: Place, made: Whole) -> Written:
        if made.root:
            made = made.moved(f"{made.inner}.copy()", *made.shape)
        return self._name(place, made)

    def _name(self, place: Place, made: Whole) -> Written:
        name = self.state.name("t")
        return [f"{name} = {made.text}"], _with_array(place.scope, _owned(name, made))

    def _made(self, place: Place) -> Written:
        """``np.zeros(n)`` and the like."""
        choices, scope = self.choices, place.scope
        text, dim = choices.pick([size for size in scope.sizes if max(size[1].sizes) <= 40] or [("3", Dim((3, 3)))])
        dtype = choices.pick(_DTYPES)
        typed = f", np.{'bool_' if dtype == 'bool' else dtype}"
        low, high = storable(weak(0), dtype)
        end = max(dim.sizes) - 1
        match choices.pick(("zeros", "ones", "full", "arange", "linspace", "eye", "array", "square", "column")):
            case ("zeros" | "ones") as word:
                default = choices.maybe(50)
                made = valued(f"np.{word}({text}{'' if default else typed})", "float64" if default else dtype, 0, 1, 0, (dim,))
            case "full":
                number = choices.integer(0, 3) if dtype != "bool" else "True"
                made = valued(f"np.full({text}, {number}{typed})", dtype, 0, min(3, high), 0, (dim,))
            case "arange":
                made = valued(f"np.arange({text})", "int64", 0, max(0, end), 0, (dim,))
            case "linspace":
                made = valued(
                    f"np.linspace(0, {text}, {text} + 1)",
                    "float64",
                    0,
                    max(1, end + 1),
                    0,
                    (dim.changed(lambda size: size + 1),),
                )
                made = replace(made, value=replace(made.value, text=f"np.rint({made.text})"))
            case "eye":
                made = valued(f"np.eye({text})", "float64", 0, 1, 0, (dim, dim))
            case "array":
                items = [choices.integer(0, 5) for _ in range(choices.integer(2, 4))]
                made = valued(f"np.array({items})", "int64", 0, 5, 0, (Dim((len(items),) * 2),))
            case "column":
                made = valued(f"np.ones(({text}, 1){typed})", dtype, 0, 1, 0, (dim, dim.single()))
            case _:
                rows = choices.integer(2, 3)
                made = valued(f"np.zeros(({rows}, {text}){typed})", dtype, low, high, 0, (Dim((rows, rows)), dim))
        if not sound(made):
            return self._new(place)
        return self._name(place, made)

    def _number(self, place: Place) -> Written | None:
        made = self.expressions.number(place.scope)
        if made.kind == "bool" or made.dtype == WEAK or made.shape:
            return None
        name = self.state.name("s")
        number = replace(made, value=replace(made.value, text=name, atom=True), root="", writable=False)
        scope = place.scope
        return [f"{name} = {made.text}"], replace(scope, numbers=(*scope.numbers, number))

    def _named_part(self, place: Place) -> Written | None:
        """A view with a name: its array gets no other one afterwards."""
        arrays = [a for a in place.scope.arrays if a.writable and a.shape]
        if not arrays:
            return None
        array = self.choices.pick(arrays)
        text, bounds = self.choices.pick(BOUNDS)
        part = array.seen(f"{array.text}[{text}]", array.shape[0].part(bounds), *array.shape[1:])
        name = self.state.name("v")
        arrays = [replace(a, alone=False) if a.root == array.root else a for a in place.scope.arrays]
        part = replace(part, alone=False)
        named = replace(part, value=replace(part.value, text=name, atom=True))
        return [f"{name} = {part.text}"], replace(place.scope, arrays=(*arrays, named))

    # --- names that there are ---

    def _target(self, place: Place) -> tuple[Whole, str, tuple[Dim, ...]] | None:
        arrays = [a for a in place.scope.arrays if a.writable and a.shape]
        if not arrays:
            return None
        array = self.choices.pick(arrays)
        texts, shape = [], []
        for dim in array.shape:
            text, bounds = self.choices.pick(BOUNDS)
            if len(array.shape) > 1 and dim.least > 0 and shape and self.choices.maybe(20):
                texts.append("-1")
                continue
            texts.append(text)
            shape.append(dim if text in (":", "::-1") else dim.part(bounds))
        place_text = ", ".join(texts) if self.choices.maybe(60) else self.choices.pick((":", "..."))
        if place_text in (":", "..."):
            shape = list(array.shape)
        return array, f"{array.text}[{place_text}]", tuple(replace(dim, one=False) for dim in shape)

    def _stored(self, place: Place) -> Written | None:
        found = self._target(place)
        if found is None:
            return None
        array, target, shape = found
        made = self.expressions.stored(place.scope, array, 2, shape)
        return [f"{target} = {made.text}"], place.scope

    def _updated(self, place: Place) -> Written | None:
        """``x[1:] += e``, and then within what the array holds."""
        found = self._target(place)
        if found is None:
            return None
        array, target, shape = found
        if array.kind == "bool":
            made = self.expressions.stored(place.scope, array, 1, shape)
            return [f"{target} {self.choices.pick('&|^')}= {made.text}"], place.scope
        if self.choices.maybe(25):
            return [f"{target} {self.choices.pick(('//= 2', '%= 4', '%= 3', '-= 0'))}"], place.scope
        made = self.expressions.like(place.scope, shape, 1)
        small = valued("", array.dtype, 0, 3, array.value.grain)
        made = self.expressions.cast(made, small)
        if made.kind == "float" and array.kind != "float" or made.dtype not in (WEAK, array.dtype, "bool"):
            return None
        high = max(0, array.value.high)
        if high < 8:
            return None
        modulus = 1 << high.bit_length() >> 1
        operator = "+" if array.dtype in UNSIGNED else self.choices.pick("+-")
        if self.choices.maybe(30) and array.shape == shape and target.endswith(("[:]", "[...]")):
            target = array.text
        bounded = f"{array.text} %= {modulus}" + (".0" if array.kind == "float" else "")
        return [f"{target} {operator}= {made.text}", bounded], place.scope

    def _selected(self, place: Place) -> Written | None:
        """``x[x > 0] = 0``, ``x[k] += 1``, ``c = x[m]``."""
        arrays = [a for a in place.scope.arrays if a.writable and a.shape]
        if not arrays:
            return None
        writer = Stores(self.state, self.expressions)
        write = self.choices.pick((writer.masked, writer.indexed, writer.indexed, writer.selected, writer.called))
        lines = write(self.choices.pick(arrays), place.scope)
        return None if lines is None else (lines, place.scope)

    def _again(self, place: Place) -> Written | None:
        """``t = t + 1``: another array of the same shape and type under a name."""
        arrays = [a for a in place.scope.arrays if a.alone and a.shape]
        if not arrays:
            return None
        array = self.choices.pick(arrays)
        made = self.expressions.typed(place.scope, array)
        if made is None or not sound(made) or made.shape != array.shape:
            return None
        return [f"{array.text} = {made.text}"], place.scope

    def _swapped(self, place: Place) -> Written | None:
        arrays = [a for a in place.scope.arrays if a.alone and a.shape]
        pairs = [(a, b) for a in arrays for b in arrays if a is not b and (a.dtype, a.shape) == (b.dtype, b.shape)]
        if not pairs:
            return None
        a, b = self.choices.pick(pairs)
        low, high = min(a.value.low, b.value.low), max(a.value.high, b.value.high)
        if (a.value.low, a.value.high, a.value.grain) != (b.value.low, b.value.high, b.value.grain):
            if place.loops:
                return None
            wide = {"low": low, "high": high, "grain": max(a.value.grain, b.value.grain)}
            scope = replace(
                place.scope,
                arrays=tuple(replace(c, value=replace(c.value, **wide)) if c in (a, b) else c for c in place.scope.arrays),
            )
            return [f"{a.text}, {b.text} = {b.text}, {a.text}"], scope
        return [f"{a.text}, {b.text} = {b.text}, {a.text}"], place.scope

    # --- control flow ---

    def _branch(self, place: Place) -> Written:
        inner = replace(place, loops=place.loops + 1)
        test = self.expressions.test(place.scope)
        lines = [f"if {test}:", *indented(self.block(inner, 1, 2)[0])]
        if self.choices.maybe(40):
            lines += ["else:", *indented(self.block(inner, 1, 2)[0])]
        return lines, place.scope

    def _serial(self, place: Place) -> Written:
        name = self.state.name("k")
        times = self.choices.integer(1, 3)
        number = valued(name, WEAK, 0, times - 1)
        scope = replace(place.scope, numbers=(*place.scope.numbers, number))
        inner = replace(place, scope=scope, loops=place.loops + 1)
        return [f"for {name} in qgraph.serial(range({times})):", *indented(self.block(inner, 1, 3)[0])], place.scope

    def _while(self, place: Place) -> Written:
        name = self.state.name("n")
        times = self.choices.integer(1, 3)
        test = f" and {self.expressions.test(place.scope)}" if self.choices.maybe(30) else ""
        inner = replace(place, loops=place.loops + 1)
        body = self.block(inner, 1, 3)[0]
        lines = [f"{name} = 0", f"while {name} < {times}{test}:", f"    {name} += 1", *indented(body)]
        if self.choices.maybe(20):
            lines += [f"    if {self.expressions.test(place.scope)}:", "        break"]
        return lines, place.scope

    # --- loops over elements ---

    def _row_loop(self, place: Place) -> Written | None:
        return self._of_loop(place, rows=True)

    def _iterations(self, place: Place) -> Written | None:
        return self._of_loop(place, rows=False)

    def _of_loop(self, place: Place, rows: bool) -> Written | None:
        # Arguments may share memory, so that a loop over one may depend on itself.
        arrays = [a for a in place.scope.arrays if a.alone and a.kind != "bool" and len(a.shape) == 1 + rows]
        if not arrays:
            return None
        array = self.choices.pick(arrays)
        writer = Iterations(self.state, self.expressions)
        lines = writer.rows(array, place.scope) if rows else writer.elements(array, place.scope)
        return None if lines is None else (lines, place.scope)

    # --- functions ---

    def _called(self, place: Place) -> Written | None:
        if place.func and self.depth > 1:
            return None
        arrays = [a for a in place.scope.arrays if a.shape]
        if not arrays:
            return None
        chosen = [self.choices.pick(arrays) for _ in self.choices.some(1, 2, 60)]
        known = [f for f in self.functions if [_type(p) for p in f.parameters] == [_type(a) for a in chosen]]
        if known and self.choices.maybe(60):
            function = self.choices.pick(known)
            if any(not _holds(p, a) for p, a in zip(function.parameters, chosen, strict=True)):
                return None
        elif len(self.sources) < 3:
            function = self._function(chosen)
        else:
            return None
        names, scope = [], place.scope
        for result in function.results:
            name = self.state.name("r")
            names.append(name)
            named = _owned(name, result)
            scope = (
                _with_array(scope, named) if result.shape else replace(scope, numbers=(*scope.numbers, replace(named, root="")))
            )
        return [f"{', '.join(names)} = {function.name}({', '.join(a.text for a in chosen)})"], scope

    def _function(self, chosen: list[Whole]) -> Function:
        name = self.state.name("f")
        parameters = []
        for at, a in enumerate(chosen):
            text = f"p{at}"
            # Two of them may be one array.
            parameters.append(replace(a, value=replace(a.value, text=text, atom=True), root=f"#{text}", alone=False))
        sizes = [(f"{p.text}.shape[{axis}]", dim) for p in parameters for axis, dim in enumerate(p.shape)]
        self.depth += 1
        lines, scope = self.block(Place(Scope(tuple(parameters), (), tuple(sizes)), func=True), 1, 3)
        self.depth -= 1
        results = [nameable(self.expressions.array(scope))]
        if results[0].root:
            results = [results[0].moved(f"{results[0].inner}.copy()", *results[0].shape)]
        if self.choices.maybe(40):
            number = self.expressions.number(scope)
            if not number.shape and number.kind != "bool" and number.dtype != WEAK:
                results.append(replace(number, root=""))
        lines.append(f"return {', '.join(result.text for result in results)}")
        self.sources.append(["@qgraph.func", f"def {name}({', '.join(p.text for p in parameters)}):", *indented(lines)])
        function = Function(name, tuple(parameters), tuple(results))
        self.functions.append(function)
        return function


def _type(a: Whole) -> tuple[object, ...]:
    return a.dtype, a.shape, a.writable


def _holds(parameter: Whole, argument: Whole) -> bool:
    mine, theirs = parameter.value, argument.value
    return (mine.low, mine.high, mine.grain) == (theirs.low, theirs.high, theirs.grain)


def _owned(name: str, made: Whole) -> Whole:
    """A name for a new array, with some room for what is stored in it."""
    low, high = made.value.low, made.value.high
    if made.kind != "bool":
        least, most = storable(made, made.dtype)
        low, high = min(low, least), max(high, most)
    grain = max(made.value.grain, 2) if made.kind == "float" else 0
    value = Value(name, made.kind, low, high, made.value.dtypes, grain, atom=True)
    return Whole(value, made.dtype, made.shape, name, writable=bool(made.shape), alone=bool(made.shape))


def _with_array(scope: Scope, array: Whole) -> Scope:
    return replace(scope, arrays=(*scope.arrays, array))
