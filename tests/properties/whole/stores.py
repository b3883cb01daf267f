"""Random stores by masks and by arrays of indices, and names for what they select."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.properties.state import State
from tests.properties.values import UNSIGNED, WEAK, fits
from tests.properties.whole.expressions import Expressions, Scope, changing, is_changed
from tests.properties.whole.selections import index_of, mask_of, new_index
from tests.properties.whole.values import Dim, Whole, valued

_Lines = list[str]


@dataclass(frozen=True, slots=True)
class Stores:
    """Writes statements that store into an array, or name what a mask selects of it."""

    state: State
    expressions: Expressions

    def masked(self, target: Whole, scope: Scope) -> _Lines | None:
        """``x[m] = v``."""
        choices = self.state.choices
        rows = len(target.shape) > 1 and choices.maybe(30)
        place = f"{target.text}[{self._mask(target, scope, target.shape[:1] if rows else target.shape)}]"
        other = self.expressions.stored(scope, target, 1)
        if not rows and other.shape == target.shape and choices.maybe(50):
            return self._assigned(target, place, other, place.removeprefix(target.text))
        if not rows and len(target.shape) == 1 and choices.maybe(20):
            return [f"{place} = {choices.pick((f'{place}[::-1]', f'{place}.copy()'))}"]
        return self._assigned(target, place, self._number(target, scope), "")

    def indexed(self, target: Whole, scope: Scope) -> _Lines | None:
        """``x[k] = v``, of which the last one stays."""
        choices = self.state.choices
        found = self._index(target, scope)
        if found is None:
            return None
        index, shape = found
        place = f"{target.text}[{', '.join(index)}]"
        other = self.expressions.stored(scope, target, 1, shape) if choices.maybe(60) else self._number(target, scope)
        if choices.maybe(40):
            return self._assigned(target, place, other, "")
        return self._added(target, index, other) if choices.maybe(40) else [f"{place} = {other.text}"]

    def selected(self, target: Whole, scope: Scope) -> _Lines | None:
        """``c = x[m]``, whose length only the device knows."""
        choices, name = self.state.choices, self.state.name("c")
        if len(target.shape) != 1:
            return None
        mask = self._mask(target, scope, target.shape)
        words = (f"np.flatnonzero({mask})", f"np.nonzero({mask})[0]", f"np.where({mask})[0]")
        if choices.maybe(40):
            lines = [f"{name} = {choices.pick(words)}"]
            return [*lines, f"{target.text}[{name}] = {self._number(target, scope).text}"]
        others = [a for a in scope.arrays if a.shape == target.shape and a.dtype == target.dtype]
        first = choices.pick(others)
        if not self._holds(target, first):
            return None
        lines = [f"{name} = {choices.pick((f'{first.text}[{mask}]', f'np.extract({mask}, {first.text})'))}"]
        if choices.maybe(30):
            lines.append(f"{name} = {choices.pick((f'{name}[1:]', f'{name}[::-1]', f'{name} * 1'))}")
        return [*lines, f"{target.text}[:{choices.pick((f'len({name})', f'{name}.size'))}] = {name}"]

    def called(self, target: Whole, scope: Scope) -> _Lines | None:
        """``x[c[0] : f(c)] = v``, where ``f`` changes ``c``: Python takes the value first, then the bounds in order."""
        choices = self.state.choices
        arrays = [a for a in scope.arrays if is_changed(a)]
        if not arrays:
            return None
        array = choices.pick(arrays)
        first, call = f"{array.text}[{', '.join('0' * len(array.shape))}] % 3", changing(choices, array)
        part = choices.pick((f"{first} : {first} + {call}", f"{call} - {first} :", f"{first} : {call} + {first}"))
        place = f"{target.text}[{part}]"
        if choices.maybe(30):
            place = f"{target.text}[{choices.pick((f'{first} :', f'{call} - 1 :'))}][{part}]"
        return self._assigned(target, place, self._number(target, scope), "")

    # --- parts ---

    def _mask(self, target: Whole, scope: Scope, shape: tuple[Dim, ...]) -> str:
        # Of the array that is assigned no other part may be read.
        names = [a for a in scope.arrays if a.shape == shape and a.root != target.root]
        if shape == target.shape:
            names.append(target)
        if not names:
            return f"np.arange({target.text}.shape[0]) % 3 == 1" if len(shape) == 1 else mask_of(self.state.choices, target)
        return mask_of(self.state.choices, self.state.choices.pick(names))

    def _index(self, target: Whole, scope: Scope) -> tuple[tuple[str, ...], tuple[Dim, ...]] | None:
        choices = self.state.choices
        axis = choices.integer(0, min(1, len(target.shape) - 1))
        least, calls = target.shape[axis].least, len(target.shape[0].sizes)
        arrays = [a for a in scope.arrays if a.kind == "int" and a.shape]
        index = (
            index_of(choices, choices.pick(arrays), least) if arrays and choices.maybe(60) else new_index(choices, least, calls)
        )
        if index is None:
            return None
        if len(target.shape) == 2 and len(index.shape) == 1 and choices.maybe(30):
            other = index_of(choices, index, target.shape[1 - axis].least)
            if other is not None:
                first, second = (index, other) if axis == 0 else (other, index)
                return (first.text, second.text), index.shape
        shape = (*target.shape[:axis], *index.shape, *target.shape[axis + 1 :])
        return (*(":",) * axis, index.text), tuple(replace(dim, one=False) for dim in shape)

    def _number(self, target: Whole, scope: Scope) -> Whole:
        return self.expressions.cast(self.expressions.scalar(scope), target)

    def _holds(self, target: Whole, value: Whole) -> bool:
        return (
            target.value.low <= value.value.low
            and value.value.high <= target.value.high
            and value.value.grain <= target.value.grain
        )

    def _small(self, target: Whole, other: Whole) -> Whole | None:
        """What can be added to an array; None for booleans and where a type would not do."""
        if target.kind == "bool":
            return None
        other = self.expressions.cast(other, valued("", target.dtype, 0, 3, target.value.grain))
        alike = other.dtype in (WEAK, target.dtype, "bool") and (other.kind != "float" or target.kind == "float")
        return other if alike and target.value.high >= 8 and other.value.magnitude <= 3 else None

    def _assigned(self, target: Whole, place: str, other: Whole, mask: str) -> _Lines | None:
        """``place = other[mask]``, or an update, after which all is as small as before."""
        choices = self.state.choices
        text = f"{other.inner}{mask}" if mask else other.text
        small = self._small(target, other)
        if small is None or choices.maybe(50):
            return [f"{place} = {text}"]
        text = f"{small.inner}{mask}" if mask else small.text
        operator = "+" if target.dtype in UNSIGNED else choices.pick("+-")
        return [f"{place} {operator}= {text}", _bounded(target)]

    def _added(self, target: Whole, index: tuple[str, ...], other: Whole) -> _Lines | None:
        """``np.add.at``."""
        small = self._small(target, other)
        if small is None or target.dtype not in ("int64", "int32", "uint32", "uint64", "float32", "float64"):
            return None
        if not fits(replace(target.value, high=target.value.high + 4000, low=min(0, target.value.low - 4000))):
            return None
        word = "add" if target.dtype in UNSIGNED else self.state.choices.pick(("add", "subtract"))
        text = f"({', '.join(index).replace(':', 'slice(None)')})" if len(index) > 1 else index[0]
        return [f"np.{word}.at({target.text}, {text}, {small.text})", _bounded(target)]


def _bounded(target: Whole) -> str:
    modulus = 1 << target.value.high.bit_length() >> 1
    return f"{target.text} %= {modulus}" + (".0" if target.kind == "float" else "")
