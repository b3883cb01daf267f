"""Random expressions of whole arrays, and numbers of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.properties.choices import Choices
from tests.properties.values import FLOATS, UNSIGNED, WEAK, Value, fits, literal, promoted
from tests.properties.whole.values import Dim, Whole, combined, joined, numeric, settled, sound, valued
from tests.properties.whole.words import PAIRS, PARTS, REDUCTIONS, WORDS

Step = Callable[["Scope", Whole], Whole | None]


@dataclass(frozen=True, slots=True)
class Scope:
    """What can be named at a place: arrays, numbers, and ways to write sizes, with the size in each call."""

    arrays: tuple[Whole, ...] = ()
    numbers: tuple[Whole, ...] = ()
    sizes: tuple[tuple[str, Dim], ...] = ()


class Expressions:
    """Writes expressions."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.steps: list[Step] = [
            *(self._arithmetic,) * 5,
            self._compared,
            self._chosen,
            self._extremes,
            self._unary,
            self._of_constants,
            self._logical,
        ]

    def array(self, scope: Scope, depth: int = 3) -> Whole:
        """An array of any shape."""
        made = self._operand(scope)
        made = made if made.shape else self._operand(scope)
        for _ in self.choices.some(0, depth, 60):
            made = self._step(scope, made)
        if self.choices.maybe(20):
            made = self._word(PAIRS, made, self._operand(scope))
        return made

    def worded(self, scope: Scope) -> Whole | None:
        """One of the words of arrays, or of two; None where the one that was drawn does not fit."""
        made = self._operand(scope)
        if self.choices.maybe(70):
            new = self.choices.pick(WORDS)(self.choices, made)
        else:
            new = self.choices.pick(PAIRS)(self.choices, made, self._operand(scope))
        return new if new is not None and new.shape and sound(new) else None

    def like(self, scope: Scope, shape: tuple[Dim, ...], depth: int = 2) -> Whole:
        """An array that is of a shape, or repeated to it."""
        made = self._partner(scope, shape)
        for _ in self.choices.some(0, depth, 55):
            new = self._step(scope, made)
            made = new if _repeats(new.shape, shape) else made
        return made

    def stored(self, scope: Scope, target: Whole, depth: int = 2, shape: tuple[Dim, ...] | None = None) -> Whole:
        """What can be assigned to an array."""
        return self.cast(self.like(scope, target.shape if shape is None else shape, depth), target)

    def cast(self, made: Whole, target: Whole) -> Whole:
        """An expression within what an array holds, for its elements."""
        if target.kind == "bool":
            return made if made.kind == "bool" else valued(f"{made.inner} > 1", "bool", 0, 1, 0, made.shape, atom=False)
        if made.kind == "bool":
            return made
        made = settled(made, min(0, target.value.low), max(0, target.value.high), target.value.grain)
        if made.kind == "float" and target.kind == "int" and target.dtype in UNSIGNED and made.value.low < 0:
            return settled(replace(made, value=replace(made.value, low=-(10**6))), 0, target.value.high, target.value.grain)
        return made

    def typed(self, scope: Scope, target: Whole) -> Whole | None:
        """A new array of exactly the shape and the type of another; None where none was found."""
        made = self.stored(scope, target)
        if made.kind == "float" and target.kind == "int" and made.value.low < 0 and target.dtype in UNSIGNED:
            return None
        if made.dtype == WEAK or made.shape != target.shape:
            other = combined("+", replace(target, alone=False), made, target.shape)
            if target.kind == "bool" or other is None:
                return None
            made = self.cast(other, target)
        if made.dtype == target.dtype:
            return replace(made, root="") if not made.root else made.moved(f"{made.inner}.copy()", *made.shape)
        if target.kind == "int" and not fits(replace(numeric(made, target.dtype), dtypes=frozenset([target.dtype]))):
            return None
        dtype = "bool_" if target.dtype == "bool" else target.dtype
        return replace(made.moved(f"{made.inner}.astype(np.{dtype})", *made.shape), dtype=target.dtype)

    def number(self, scope: Scope) -> Whole:
        """A number of what there is: a reduction, an element, a scalar."""
        for _ in range(3):
            made = self.choices.pick(REDUCTIONS)(self.choices, self.array(scope, 2))
            if made is not None and fits(made.value):
                return made
        return self.scalar(scope)

    def scalar(self, scope: Scope) -> Whole:
        """A literal, a name, or an element."""
        options = [weak(self.choices.integer(0, 3)), *scope.numbers]
        options += [self._element(a) for a in scope.arrays if not a.empty and a.kind != "bool" and self.choices.maybe(20)]
        options += [self._changing(a) for a in scope.arrays if is_changed(a) and self.choices.maybe(30)]
        if self.choices.maybe(15):
            options.append(Whole(Value("0.5", "float", 0, 1, grain=1, atom=True), WEAK))
        return self.choices.pick(options)

    def test(self, scope: Scope) -> str:
        """A condition."""
        if self.choices.maybe(30):
            text, dim = self.choices.pick(scope.sizes)
            return f"{text} > {self.choices.integer(0, max(dim.sizes))}"
        made = self.number(scope)
        if made.kind == "bool":
            return made.text
        return f"{made.inner} {self.choices.pick(('>', '<', '>=', '==', '!='))} {self.choices.integer(0, 4)}"

    # --- operands ---

    def _element(self, a: Whole) -> Whole:
        return a.moved(f"{a.text}[{', '.join(self.choices.pick(('0', '-1')) for _ in a.shape) or '()'}]")

    def _changing(self, a: Whole) -> Whole:
        """A call that changes an element of an array, and is 2."""
        return Whole(Value(changing(self.choices, a), "int", 2, 2, atom=True), WEAK)

    def _operand(self, scope: Scope) -> Whole:
        made = self.choices.pick([a for a in scope.arrays if a.shape] or scope.arrays)
        if self.choices.maybe(30):
            made = self._word(PARTS, made)
        if self.choices.maybe(25):
            made = self._word(WORDS, made)
        return made

    def _word(self, words: Sequence[Callable[..., Whole | None]], made: Whole, *others: Whole) -> Whole:
        new = self.choices.pick(words)(self.choices, made, *others)
        return new if new is not None and sound(new) and new.shape else made

    def _partner(self, scope: Scope, shape: tuple[Dim, ...]) -> Whole:
        """An operand that is repeated to a shape, at most."""
        found: list[Whole] = []
        for a in scope.arrays:
            if not a.shape:
                found.append(a)
            elif _repeats(a.shape, shape):
                found += [a, a]
                if len(a.shape) == 1:
                    found += [a.seen(f"{a.inner}[::-1]", *a.shape), a.moved(f"np.roll({a.text}, 1)", *a.shape)]
            elif _repeats(a.shape[::-1], shape):
                found.append(a.seen(f"{a.inner}.T", *a.shape[::-1]))
            elif len(a.shape) == 1 and len(shape) == 2 and a.shape[0] == shape[0]:
                found.append(a.seen(f"{a.inner}[:, None]", *a.shape, a.shape[0].single()))
            elif len(a.shape) == len(shape):
                found += _cut(a, shape)
            elif len(a.shape) == len(shape) + 1 and a.shape[1:] == shape and a.shape[0].least > 0:
                found.append(a.seen(f"{a.inner}[-1]", *a.shape[1:]))
        if not found or self.choices.maybe(20):
            return self.scalar(scope)
        return self.choices.pick(found)

    # --- steps ---

    def _step(self, scope: Scope, a: Whole) -> Whole:
        new = self.choices.pick(self.steps)(scope, a)
        if new is not None and self.choices.maybe(8):
            new = self._word(WORDS, new) if sound(new) else None
        return new if new is not None and sound(new) else a

    def _arithmetic(self, scope: Scope, a: Whole) -> Whole | None:
        b = self._partner(scope, a.shape)
        first, second = (a, b) if self.choices.maybe(70) else (b, a)
        return combined(self.choices.pick("+-*"), first, second, _wider(a.shape, b.shape))

    def _compared(self, scope: Scope, a: Whole) -> Whole | None:
        b = self._partner(scope, a.shape)
        if "bool" in (a.kind, b.kind) or not joined(a, b) or not _alike(a, b):
            return None
        text = f"{a.inner} {self.choices.pick(('>', '<', '>=', '<=', '==', '!='))} {b.inner}"
        return valued(text, "bool", 0, 1, 0, _wider(a.shape, b.shape), atom=False)

    def _chosen(self, scope: Scope, a: Whole) -> Whole | None:
        b = self._partner(scope, a.shape)
        test = self._compared(scope, a) if a.kind != "bool" else a
        dtype = joined(a, b)
        if (
            test is None
            or not dtype
            or dtype == WEAK
            or not a.shape
            or a.kind == "bool"
            or test.shape != a.shape
            or not _alike(a, b)
        ):
            return None
        return self._either(f"np.where({test.text}, {a.text}, {b.text})", a, b, dtype)

    def _extremes(self, scope: Scope, a: Whole) -> Whole | None:
        b = self._partner(scope, a.shape)
        dtype = joined(a, b)
        if not dtype or dtype == WEAK or "bool" in (a.kind, b.kind) or not _alike(a, b):
            return None
        return self._either(f"np.{self.choices.pick(('minimum', 'maximum'))}({a.text}, {b.text})", a, b, dtype)

    def _either(self, text: str, a: Whole, b: Whole, dtype: str) -> Whole | None:
        first, second = numeric(a, dtype), numeric(b, dtype)
        low, high = min(first.low, second.low), max(first.high, second.high)
        made = valued(text, dtype, low, high, max(first.grain, second.grain), _wider(a.shape, b.shape))
        return made if fits(made.value) else None

    def _unary(self, scope: Scope, a: Whole) -> Whole | None:
        value = a.value
        if a.kind == "bool":
            return (
                replace(a.moved(f"~{a.inner}", *a.shape), value=replace(value, text=f"~{a.inner}", atom=False))
                if a.shape
                else None
            )
        word = self.choices.pick(("-", "abs", "square", "floor", "sign"))
        if word == "-":
            return combined("*", a, weak(-1), a.shape) and self._negated(a)
        if word == "abs":
            most = value.magnitude
            # NumPy makes a scalar of its own of a number.
            text = self.choices.pick((f"abs({a.text})", f"np.abs({a.text})")) if a.shape else f"abs({a.text})"
            return replace(a.moved(text, *a.shape), value=replace(value, text=text, low=0, high=most, atom=True))
        if word == "square":
            made = combined("*", a, a, a.shape)
            if made is None or made.text != f"{a.inner} * {a.inner}":
                return None
            return replace(made, value=replace(made.value, text=f"{a.inner} ** 2"))
        if word == "floor" and a.kind == "float" and a.shape:
            text = f"np.{self.choices.pick(('floor', 'ceil', 'trunc'))}({a.text})"
            return replace(
                a.moved(text, *a.shape),
                value=replace(value, text=text, low=value.low - 1, high=value.high + 1, grain=0, atom=True),
            )
        if word == "sign" and a.shape:
            return valued(f"np.sign({a.text})", a.dtype, 0 if a.dtype in UNSIGNED else -1, 1, 0, a.shape)
        return None

    def _negated(self, a: Whole) -> Whole | None:
        if a.dtype in UNSIGNED:
            return None
        value = replace(a.value, text=f"-{a.inner}", low=-a.value.high, high=-a.value.low, atom=False)
        return replace(a.moved("", *a.shape), value=value)

    def _of_constants(self, scope: Scope, a: Whole) -> Whole | None:
        operator, number = self.choices.pick((("//", 2), ("%", 4), ("%", 3), ("*", 2), ("+", 1), ("/", 2)))
        if operator != "/":
            return combined(operator, a, weak(number), a.shape)
        value = numeric(a, "int64")
        made = valued(
            f"{a.inner} / 2",
            a.dtype if a.dtype in FLOATS else "float64",
            value.low,
            value.high,
            value.grain + 1,
            a.shape,
            atom=False,
        )
        return made if a.shape and a.kind != "bool" and fits(made.value) else None

    def _logical(self, scope: Scope, a: Whole) -> Whole | None:
        b = self._partner(scope, a.shape)
        operator = self.choices.pick("&|^")
        shape = _wider(a.shape, b.shape)
        if a.kind == b.kind == "bool":
            return valued(f"{a.inner} {operator} {b.inner}", "bool", 0, 1, 0, shape, atom=False)
        if a.kind == b.kind == "int" and promoted(a.value.dtypes, b.value.dtypes):
            return combined(operator, a, b, shape)
        return None


def weak(number: int) -> Whole:
    """A Python int."""
    return Whole(literal(number), WEAK)


def _alike(a: Whole, b: Whole) -> bool:
    """Whether a Python int among the two fits the type of the other."""
    weak, other = (a, b) if a.dtype == WEAK else (b, a)
    return (
        weak.dtype != WEAK
        or other.kind != "int"
        or weak.kind == "float"
        or fits(replace(weak.value, dtypes=other.value.dtypes))
    )


def _repeats(shape: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """Whether NumPy repeats a shape to another one."""
    if len(shape) > len(target):
        return False
    return all(mine.repeats(theirs) for mine, theirs in zip(shape[::-1], target[::-1], strict=False))


def _wider(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of both together, of which one is repeated to the other."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    shape = list(longer)
    for at in range(1, len(shorter) + 1):
        if shape[-at].one or shorter[-at].one:
            shape[-at] = shape[-at].beside(shorter[-at])
    return tuple(shape)


def _cut(a: Whole, shape: tuple[Dim, ...]) -> list[Whole]:
    """Parts of an array that is longer by one or two along some axes."""
    texts: list[tuple[str, ...]] = []
    for mine, wanted in zip(a.shape, shape, strict=True):
        if mine == wanted:
            texts.append((":", ":"))
        elif mine.part(slice(1, None)) == wanted:
            texts.append(("1:", ":-1"))
        elif mine.part(slice(2, None)) == wanted:
            texts.append(("2:", "1:-1"))
        else:
            return []
    parts = [replace(wanted, one=mine.one and mine == wanted) for mine, wanted in zip(a.shape, shape, strict=True)]
    return [a.seen(f"{a.inner}[{', '.join(text[way] for text in texts)}]", *parts) for way in range(2)]


# Funcs that change an element, in a loop or without one, for arrays of as many axes.
CHANGING = {
    f"{word}{axes}": f"""\
@qgraph.func
def {word}{axes}(v):
    {loop}v[{", ".join("0" * axes)}] = (v[{", ".join("0" * axes)}] + 3) % 8
    return 2
"""
    for word, loop in (("bump", ""), ("bumps", "for _ in range(1): "))
    for axes in (1, 2)
}


def changing(choices: Choices, a: Whole) -> str:
    """A call that changes an element of an array, and is 2."""
    return f"{choices.pick(('bump', 'bumps'))}{len(a.shape)}({a.text})"


def is_changed(a: Whole) -> bool:
    """Whether ``CHANGING`` takes an array: it is an argument or has a name, and holds what they store."""
    named = a.writable and a.text.isidentifier() and not a.empty
    return (
        named and len(a.shape) in (1, 2) and a.kind == "int" and a.value.low <= 0 and a.value.high >= 8 and a.value.grain == 0
    )
