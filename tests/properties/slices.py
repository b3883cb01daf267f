"""Random statements on arrays as wholes: fills, copies, expressions of slices, and what NumPy makes of all elements."""

from __future__ import annotations

from dataclasses import dataclass

from tests.properties.scope import Array, Extent, Scope
from tests.properties.state import State
from tests.properties.values import (
    GRAIN,
    UNSIGNED,
    WEAK,
    Value,
    binary,
    domain,
    fits,
    kind_of,
    limits,
    literal,
    within,
)

# Ways to take as many elements of an axis, whatever its size.
_ALIKE = ((":", "::-1"), ("1:", ":-1"), ("1:-1", ":-2", "2:"), ("::2",), ("-1:", ":1"))


# The same for parts that get a name, with the arguments of a slice that tell their length.
_PARTS = (
    ((":", "::-1"), ""),
    (("1:", ":-1", "-2::-1"), "1, None"),
    (("1:-1", "2:", ":-2"), "2, None"),
    (("::2",), "0, None, 2"),
)


@dataclass(frozen=True, slots=True)
class _Part:
    """For each axis, which of the ways to take elements are alike."""

    ways: tuple[tuple[str, ...], ...]


class Slices:
    """Writes statements on slices."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.choices = state.choices
        self.expressions = state.expressions
        # The extents of parts, by that of the whole and what is left out.
        self._extents: dict[tuple[Extent, str], Extent] = {}

    def assignment(self, scope: Scope) -> list[str] | None:
        """A slice gets a value; None where there is no array with axes."""
        arrays = [window.array for window in scope.windows if window.array.shape and window.array.writable]
        if not arrays:
            return None
        if self.state.features.lengths and self.choices.maybe(15):
            statement = self._of_the_device(scope, [array for array in arrays if array.shape[0].least > 0])
            if statement is not None:
                return [statement]
        array = self.choices.pick(arrays)
        part = _Part(tuple(self.choices.pick(_ALIKE) for _ in array.shape))
        target = self._slice(array, part)
        kind = kind_of(array.dtype)
        if self.state.features.views and self.choices.maybe(10):
            bounds = [within(self.expressions.integer(scope, 1), -4, 6).text for _ in range(2)]
            place = ", ".join(
                [self.choices.pick((f"{bounds[0]}:", f":{bounds[0]}", ":".join(bounds))), *[":"] * 9][: len(array.shape)]
            )
            return [f"{array.name}[{place}] = {self.expressions.for_array(array.dtype, scope, depth=1).text}"]
        if self.choices.maybe(35):
            return [f"{target} = {self.expressions.for_array(array.dtype, scope, depth=1).text}"]
        if kind == "bool":
            others = self._alike(array, scope, ("int", "float"))
            if not others or self.state.features.real:
                return [f"{target} = {self.choices.pick(('True', 'False'))}"]
            return [f"{target} = {self._slice(self.choices.pick(others), part)} > 2"]
        if self.state.features.real and kind == "float":
            return [f"{target} = {self._real(array, part, scope)}"]
        return [f"{target} = {within(self._value(array, part, scope), *domain(array.dtype, spare=1)).text}"]

    def _of_the_device(self, scope: Scope, arrays: list[Array]) -> str | None:
        """``x[i : i + 2] = y[j : j + 2]``, or of one element, or of a length that NumPy may refuse."""
        if not arrays:
            return None
        array = self.choices.pick(arrays)
        kind = kind_of(array.dtype)
        others = [window.array for window in scope.windows if window.array.shape[1:] == array.shape[1:] and window.array.shape]
        others = [other for other in others if other.dtype == array.dtype and other.shape[0].least > 0]
        if not others:
            return None
        other = self.choices.pick(others)
        whole = length = self.choices.integer(1, min(3, array.shape[0].least, other.shape[0].least))
        target = self._stretch(array, scope, length)
        if self.choices.maybe(25):
            length = 1
        if self.choices.maybe(10):
            length += 1
            self.state.may_fail = True
        text = self._stretch(other, scope, length)
        # Behind the name of the array: a number that is read in a kernel is an element.
        if length != whole and not any("[" in each.partition("[")[2] for each in (target, text)):
            # The host may know both, and repeats no length of 1 that is not written so.
            text = self._stretch(other, scope, whole)
        if self.state.features.real and kind == "float":
            return f"{target} = {text}"
        grain = GRAIN if kind == "float" else 0
        value = Value(text, kind, *domain(other.dtype), frozenset([other.dtype]), grain, atom=True)
        return f"{target} = {within(value, *domain(array.dtype, spare=1)).text}"

    def _stretch(self, array: Array, scope: Scope, length: int) -> str:
        """So many elements of an array, from a place on that may be known to the device only."""
        value = self.expressions.integer(scope, 1)
        # The end is a number of the start's type.
        last = min(array.shape[0].least, *(limits(dtype)[1] for dtype in value.dtypes)) - length
        start = within(value, 0, max(0, last)).inner
        return f"{array.name}[{start}:{start} + {length}]"

    def part(self, array: Array) -> tuple[str, tuple[Extent, ...]]:
        """A part of an array that has at least one axis, and its shape."""
        parts: list[str] = []
        shape: list[Extent] = []
        for axis, extent in enumerate(array.shape):
            droppable = extent.least > 0 and (shape or axis < len(array.shape) - 1)
            if droppable and self.choices.maybe(25):
                parts.append(self.choices.pick(("0", "-1")))
                continue
            ways, left = self.choices.pick(_PARTS)
            parts.append(self.choices.pick(ways))
            shape.append(self._part_of(extent, left))
        text = f"{array.name}[{', '.join(parts)}]"
        if self.choices.maybe(20):
            return f"{text}.T", tuple(reversed(shape))
        return text, tuple(shape)

    def _part_of(self, extent: Extent, left: str) -> Extent:
        if not left:
            return extent
        sizes = tuple(len(range(size)[eval(f"slice({left})")]) for size in extent.sizes)
        return self._extents.setdefault((extent, left), Extent(100 + self.state.number(), sizes))

    def _alike(self, array: Array, scope: Scope, kinds: tuple[str, ...]) -> list[Array]:
        arrays = [window.array for window in scope.windows if window.array.shape == array.shape]
        return [other for other in arrays if kind_of(other.dtype) in kinds]

    def _slice(self, array: Array, part: _Part) -> str:
        return f"{array.name}[{', '.join(self.choices.pick(ways) for ways in part.ways)}]"

    def _operand(self, array: Array, part: _Part, scope: Scope) -> Value:
        kind = kind_of(array.dtype)
        others = self._alike(array, scope, ("int", "float") if kind == "float" else ("int",))
        if not others or self.choices.maybe(15):
            return literal(self.choices.integer(0, 3))
        other = self.choices.pick(others)
        found = kind_of(other.dtype)
        low, high = domain(other.dtype)
        grain = GRAIN if found == "float" else 0
        return Value(self._slice(other, part), found, low, high, frozenset([other.dtype]), grain, atom=True)

    def _value(self, array: Array, part: _Part, scope: Scope) -> Value:
        value = self._operand(array, part, scope)
        for _ in self.choices.some(0, 2):
            other = self._operand(array, part, scope)
            operator = self.choices.pick(("+", "-", "*"))
            value = binary(operator, value, other) or binary(operator, within(value, -8, 7), within(other, -8, 7)) or value
        # An unsigned array takes no negative numbers, which `within` sees to.
        return value

    def _real(self, array: Array, part: _Part, scope: Scope) -> str:
        others = self._alike(array, scope, ("float",))
        terms = [self._slice(self.choices.pick(others), part) for _ in range(2)]
        return f"0.5 * {terms[0]} - 0.3 * {terms[1]}"

    # --- numbers ---

    def number(self, scope: Scope) -> Value | None:
        """What NumPy makes of all elements of an array, or None where there is none that fits."""
        guarded = self._guarded(scope) if self.choices.maybe(20) else None
        if guarded is not None:
            return guarded
        windows = [w for w in scope.windows if w.array.shape and all(map(scope.nonempty, w.array.shape))]
        if not windows:
            return None
        array = self.choices.pick(windows).array
        kind = kind_of(array.dtype)
        if kind == "bool":
            if len(array.shape) == 1 and self.choices.maybe(30):
                return Value(f"np.dot({array.name}, {array.name}[::-1])", "bool", atom=True)
            return Value(f"np.{self.choices.pick(('any', 'all'))}({array.name})", "bool", atom=True)
        low, high = domain(array.dtype)
        grain = GRAIN if kind == "float" else 0
        match self.choices.pick(("sum", "min", "max", "any")):
            case "any" if not self.state.features.real:
                test = f"{array.name}{self.choices.pick(('', '[1:]', '[::2]'))} > 3"
                return Value(f"np.{self.choices.pick(('any', 'all'))}({test})", "bool", atom=True)
            case ("min" | "max") as word:
                return Value(f"np.{word}({array.name})", kind, low, high, frozenset([array.dtype]), grain, atom=True)
            case _:
                size = 1
                for extent in array.shape:
                    size *= extent.most
                dtype = "uint64" if array.dtype in UNSIGNED else "int64"
                text = f"np.sum({array.name}{self.choices.pick(('', '[1:]', '[::-1]'))})"
                value = Value(text, kind, low * size, high * size, frozenset([dtype]), grain, atom=True)
                if self.state.features.real and kind == "float":
                    return Value(f"{text} * 0.01", "float", -4, 4)
                return value if fits(value) else None

    def _guarded(self, scope: Scope) -> Value | None:
        """The extreme of a part that may have no elements, where it has some."""
        arrays = [window.array for window in scope.windows if window.array.shape]
        arrays = [array for array in arrays if all(map(scope.nonempty, array.shape[1:])) and kind_of(array.dtype) != "bool"]
        if not arrays:
            return None
        array = self.choices.pick(arrays)
        least = self.choices.integer(0, 1)
        size = self.expressions.size(array.shape[0], scope)
        test = self.choices.pick((f"{size} > {least}", f"{array.name}.shape[0] >= {least + 1}"))
        kind = kind_of(array.dtype)
        other = "0" if kind == "int" else "0.0"
        text = f"np.{self.choices.pick(('min', 'max'))}({array.name}{'[1:]' if least else ''}) if {test} else {other}"
        dtypes = frozenset([array.dtype, WEAK]) if kind == "int" else frozenset([array.dtype])
        return Value(text, kind, *domain(array.dtype), dtypes, GRAIN if kind == "float" else 0)
