"""Random parallel loops among whole-array statements: small arrays, vectors, rows and random numbers of an iteration."""

from __future__ import annotations

from dataclasses import replace

from tests.properties.state import State, indented
from tests.properties.values import WEAK, Value, binary, within
from tests.properties.whole.expressions import Expressions, Scope
from tests.properties.whole.values import Whole


class Iterations:
    """Writes loops over the elements, or rows, of an array of the kernel's own."""

    def __init__(self, state: State, expressions: Expressions) -> None:
        self.state = state
        self.choices = state.choices
        self.expressions = expressions

    def elements(self, target: Whole, scope: Scope) -> list[str] | None:
        """``for i in range(len(t)): t[i] = ...``."""
        index = self.state.name("i")
        others = [a for a in scope.arrays if len(a.shape) == 1 and a.shape == target.shape and a.kind != "bool"]
        terms = [self._element(self.choices.pick(others), index) for _ in range(3)]
        lines, value = self.choices.pick((self._plain, self._local, self._vector, self._drawn, self._drawn))(index, terms)
        stored = self._stored(value, target)
        if stored is None:
            return None
        sign = self.choices.pick(("=", "="))
        return [
            f"for {index} in range({target.text}.shape[0]):",
            *indented([*lines, f"{target.text}[{index}] {sign} {stored.text}"]),
        ]

    def rows(self, target: Whole, scope: Scope) -> list[str] | None:
        """``for i in range(len(t)): t[i] = ...`` of rows."""
        index = self.state.name("i")
        others = [a for a in scope.arrays if a.shape in (target.shape, target.shape[1:]) and a.kind != "bool"]
        rows = [self._row(self.choices.pick(others), target, index) for _ in range(2)]
        made = binary(self.choices.pick("+-*"), rows[0], rows[1]) or rows[0]
        # `int` takes no row.
        if np_result(rows) is None or (made.kind == "float" and target.kind != "float"):
            return None
        stored = self._stored(made, target)
        if stored is None:
            return None
        column = self.choices.maybe(20)
        place = f"{index}, 1:" if column else index
        if column:
            if rows[0].text.startswith(f"{target.text}[") or rows[1].text.startswith(f"{target.text}["):
                place = index
            else:
                return None
        return [f"for {index} in range({target.text}.shape[0]):", f"    {target.text}[{place}] = {stored.text}"]

    def _stored(self, value: Value, target: Whole) -> Value | None:
        if value.kind == "float" and target.kind != "float":
            value = within(value, 0, 31, 0)
            value = Value(f"int({value.text})", "int", 0, 32, frozenset([WEAK]), atom=True)
        low, high = min(0, target.value.low), max(0, target.value.high)
        stored = within(value, low, high, target.value.grain)
        return stored if low <= stored.low and stored.high <= high else None

    def _element(self, a: Whole, index: str) -> Value:
        return replace(a.value, text=f"{a.text}[{index}]", atom=True)

    def _row(self, a: Whole, target: Whole, index: str) -> Value:
        text = f"{a.text}[{index}]" if len(a.shape) == 2 else a.text
        return replace(a.value, text=text, atom=True)

    def _plain(self, index: str, terms: list[Value]) -> tuple[list[str], Value]:
        return [], binary(self.choices.pick("+-*"), terms[0], terms[1]) or terms[0]

    def _local(self, index: str, terms: list[Value]) -> tuple[list[str], Value]:
        """A small array of the iteration."""
        name = self.state.name("q")
        a, b = (_real(within(term, -31, 31)) for term in terms[:2])
        lines = [f"{name} = np.zeros(3)", f"{name}[0] = {a.text}", f"{name}[1:] = {b.text}"]
        if self.choices.maybe(50):
            lines = [f"{name} = np.array(({a.text}, {b.text}, 2.0))"]
        if self.choices.maybe(50):
            lines.append(f"{name}[::-1] *= 2" if self.choices.maybe(30) else f"{name}[1:] += 1")
        grain = max(a.grain, b.grain, 1)
        text = self.choices.pick((f"np.sum({name})", f"{name}[0] - {name}[2]", f"np.max({name})", f"np.sum({name}[:2] * 2)"))
        return lines, Value(text, "float", -400, 400, grain=grain, atom=False)

    def _vector(self, index: str, terms: list[Value]) -> tuple[list[str], Value]:
        name = self.state.name("w")
        a, b, c = (_real(within(term, -31, 31)) for term in terms)
        lines = [f"{name} = qgraph.vec({a.text}, {b.text}, {c.text})"]
        grain = max(a.grain, b.grain, c.grain)
        if self.choices.maybe(30):
            lines.append(f"m{name} = qgraph.mat((1, 0, 2), (0, 1, 0), (1, 1, 1))")
            lines.append(f"{name} = m{name} @ {name}")
            return lines, Value(f"{name}.x + {name}[1] - {name}.z", "float", -400, 400, grain=grain)
        if self.choices.maybe(40):
            lines.append(f"{name} = {name} * 2 + qgraph.vec(1, 2, 3)")
            return lines, Value(f"{name}[0] - {name}.y", "float", -400, 400, grain=grain)
        other = f"{name}.cross(qgraph.vec(1, 0, 2))" if self.choices.maybe(40) else f"{name} - qgraph.vec(1, 0, 2)"
        text = self.choices.pick((f"{name} @ ({other})", f"{name}.dot({other})"))
        return lines, Value(text, "float", -10000, 10000, grain=2 * grain, atom=False)

    def _drawn(self, index: str, terms: list[Value]) -> tuple[list[str], Value]:
        """Random numbers, the same in plain Python."""
        if self.choices.maybe(50):
            text = f"qgraph.random.integers({self.choices.integer(0, 9)}, {index}, low=0, high=6)"
            drawn = Value(text, "int", 0, 5, frozenset([WEAK]), atom=True)
        else:
            text = f"math.floor(qgraph.random.uniform({self.choices.integer(0, 9)}, {index}) * 8)"
            drawn = Value(text, "int", 0, 8, frozenset([WEAK]), atom=True)
        return [], binary("+", drawn, _real(terms[0])) or drawn


def _real(value: Value) -> Value:
    """As a Python float, whatever it was."""
    return Value(f"float({value.text})", "float", value.low, value.high, grain=value.grain, atom=True)


def np_result(rows: list[Value]) -> str | None:
    """Whether all of some rows are integers of one type, or floats."""
    kinds = {row.kind for row in rows}
    return None if len(kinds) > 1 else kinds.pop()
