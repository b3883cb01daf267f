"""Random expressions that mean the same in plain Python and in a kernel: no overflow, no division by zero, no rounding."""

from __future__ import annotations

from dataclasses import replace

from tests.properties.choices import Choices
from tests.properties.features import Features
from tests.properties.functions import Functions
from tests.properties.scope import Counter, Extent, Scope, Window
from tests.properties.values import (
    GRAIN,
    WEAK,
    Kind,
    Value,
    binary,
    call,
    domain,
    fits,
    kind_of,
    literal,
    of_one_narrow_type,
    promoted,
    settled,
    within,
)

COMPARISONS = ("<", "==", ">", "!=", "<=", ">=")
REAL_BOUND = 4


class Expressions:
    """Draws expressions of a kind. ``depth`` is how many operations may be nested."""

    def __init__(self, choices: Choices, features: Features, functions: Functions) -> None:
        self.choices = choices
        self.features = features
        self.functions = functions

    def of(self, kind: Kind, scope: Scope, depth: int = 2) -> Value:
        """An expression of a kind."""
        match kind:
            case "int":
                return self.integer(scope, depth)
            case "float":
                return self.real(scope, depth) if self.features.real else self.floating(scope, depth)
            case _:
                return self.boolean(scope, depth)

    def within(self, kind: Kind, scope: Scope, low: int, high: int, depth: int = 2) -> Value:
        """An expression of a kind that stays between two bounds."""
        value = self.of(kind, scope, depth)
        if kind == "float" and self.features.real:
            return value
        return within(value, low, high)

    def for_array(self, dtype: str, scope: Scope, depth: int = 2) -> Value:
        """An expression that an array of a type may be given."""
        kind = kind_of(dtype)
        if kind == "float" and self.choices.maybe(15):
            kind = "int"
        return self.within(kind, scope, *domain(dtype, spare=1), depth=depth)

    # --- what can be named ---

    def read(self, kind: Kind, scope: Scope, depth: int) -> Value | None:
        """A name or an element of a kind, or None where there is none."""
        values = [value for value in scope.values if value.kind == kind]
        if kind == "int":
            values += [_counted(counter) for counter in scope.counters]
        windows = [window for window in scope.windows if kind_of(window.array.dtype) == kind and self._reachable(window, scope)]
        options = [*windows, *values]
        if not options:
            return None
        chosen = self.choices.pick(options)
        return chosen if isinstance(chosen, Value) else self.element(chosen, scope, depth)

    def _reachable(self, window: Window, scope: Scope) -> bool:
        return all(scope.nonempty(extent) for extent in window.rest)

    def element(self, window: Window, scope: Scope, depth: int = 1) -> Value:
        """An element of an array."""
        array = window.array
        index = self.index(window, scope, depth)
        text = f"{array.name}[{index}]"
        if array.shape and not window.whole and self.features.functions and self.features.views and self.choices.maybe(8):
            text = f"{self.functions.element(len(array.shape))}({array.name}, {index})"
        low, high = domain(array.dtype)
        kind = kind_of(array.dtype)
        return Value(text, kind, low, high, frozenset([array.dtype]), GRAIN if kind == "float" else 0, atom=True)

    def index(self, window: Window, scope: Scope, depth: int = 1) -> str:
        """What to write in the brackets."""
        return ", ".join([*window.own, *(self.position(extent, scope, depth) for extent in window.rest)]) or "()"

    def position(self, extent: Extent, scope: Scope, depth: int) -> str:
        """An index that an array of this extent has; negative ones count from the end."""
        choices = self.choices
        own = [counter for counter in scope.counters if counter.extent is extent]
        options: list[str] = [counter.name for counter in own]
        for counter in own:
            options += [f"{counter.name} - {number}" for number in range(1, counter.below + 2)]
            options += [f"{counter.name} + {number}" for number in range(1, counter.above + 1)]
            options += [f"-1 - {counter.name}", f"{self.size(extent, scope)} - 1 - {counter.name}"]
            options.append(f"({counter.name} + 1) % {self.size(extent, scope)}")
        options += [counter.name for counter in scope.counters if 0 <= counter.low and counter.high < extent.least]
        options += [str(number) for number in range(min(extent.least, 2))]
        options.append("-1")
        if depth > 0:
            options.append("%")
        chosen = choices.pick(options)
        if chosen != "%":
            return chosen
        number = self.integer(scope, depth - 1)
        if number.dtypes & {"uint64"}:
            number = Value(f"int({number.text})", "int", number.low, number.high, frozenset([WEAK]), atom=True)
        if not all(fits(replace(literal(size), dtypes=number.dtypes)) for size in extent.sizes):
            number = Value(f"int({number.text})", "int", number.low, number.high, frozenset([WEAK]), atom=True)
        return f"{number.inner} % {self.size(extent, scope)}"

    def size(self, extent: Extent, scope: Scope) -> str:
        """An extent as a kernel writes it: the shape of an array, or an argument."""
        return self.choices.pick(scope.extents[extent])

    # --- integers ---

    def integer(self, scope: Scope, depth: int) -> Value:
        """An integer."""
        choices = self.choices
        if depth <= 0 or not choices.maybe(65):
            found = self.read("int", scope, depth) if choices.maybe(88) else None
            return found or literal(choices.pick((0, 1, 2, 3, -1, 5, 7)))
        way = choices.pick(("arithmetic", "arithmetic", "divide", "bits", "choose", "extreme", "sign", "convert", "call"))
        made = getattr(self, f"_integer_{way}")(scope, depth - 1)
        return made if made is not None and fits(made) else self.integer(scope, depth - 1)

    def _operands(self, scope: Scope, depth: int) -> tuple[Value, Value]:
        return _settled_together(self.integer(scope, depth), self.integer(scope, depth))

    def _integer_arithmetic(self, scope: Scope, depth: int) -> Value | None:
        a, b = self._operands(scope, depth)
        operator = self.choices.pick(("+", "-", "*"))
        return binary(operator, a, b) or binary(operator, within(a, -8, 7), within(b, -8, 7))

    def _integer_divide(self, scope: Scope, depth: int) -> Value | None:
        a = self.integer(scope, depth)
        operator = self.choices.pick(("//", "%", "divmod"))
        if self.choices.maybe(30):
            a, b = _settled_together(a, within(self.integer(scope, depth), 0, 9))
            divisor = binary("+", b, literal(1 - b.low)) if b.low <= 0 else b
            if divisor is None:
                return None
        else:
            divisor = literal(self.choices.pick((2, 3, 1, 7, -2, -3)))
        if operator == "divmod":
            return binary("%", a, divisor)
        return binary(operator, a, divisor)

    def _integer_bits(self, scope: Scope, depth: int) -> Value | None:
        a, b = self._operands(scope, depth)
        operator = self.choices.pick(("&", "|", "^", "<<", ">>"))
        if operator in ("<<", ">>"):
            count = literal(self.choices.integer(0, 3))
            if self.choices.maybe(30):
                a, count = _settled_together(a, within(b, 0, 3))
            return binary(operator, within(a, -64, 63), count)
        return binary(operator, a, b)

    def _integer_choose(self, scope: Scope, depth: int) -> Value:
        a, b, test = self.integer(scope, depth), self.integer(scope, depth), self.boolean(scope, depth)
        if not promoted(a.dtypes, b.dtypes):
            # Numbers that no type of integers holds.
            return a
        text = f"{a.inner} if {test.text} else {b.inner}"
        return of_one_narrow_type(Value(text, "int", min(a.low, b.low), max(a.high, b.high), a.dtypes | b.dtypes))

    def _integer_extreme(self, scope: Scope, depth: int) -> Value:
        a, b = self.integer(scope, depth), self.integer(scope, depth)
        # Numbers that one type does not hold are compared by NumPy, and refused by a kernel.
        common = promoted(a.dtypes, b.dtypes)
        if not common or not all(fits(replace(part, dtypes=common)) for part in (a, b)):
            return a
        word = self.choices.pick(("min", "max"))
        choose = min if word == "min" else max
        low, high = choose(a.low, b.low), choose(a.high, b.high)
        return of_one_narrow_type(Value(call(word, a, b), "int", low, high, a.dtypes | b.dtypes, atom=True))

    def _integer_sign(self, scope: Scope, depth: int) -> Value:
        a = settled(self.integer(scope, depth))
        match self.choices.pick(("-", "abs", "~", "**")):
            case "-":
                return Value(f"-{a.inner}", "int", -a.high, -a.low, a.dtypes)
            case "abs":
                low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
                return Value(call("abs", a), "int", low, a.magnitude, a.dtypes, atom=True)
            case "~":
                return Value(f"~{a.inner}", "int", ~a.high, ~a.low, a.dtypes)
            case _:
                return Value(f"{a.inner} ** 2", "int", 0, a.magnitude**2, a.dtypes)

    def _integer_convert(self, scope: Scope, depth: int) -> Value:
        if self.choices.maybe(40) and not self.features.real:
            a = self.floating(scope, depth)
            word = self.choices.pick(("int", "math.floor", "math.ceil", "round"))
            return Value(call(word, a), "int", a.low - 1, a.high + 1, frozenset([WEAK]), atom=True)
        if self.choices.maybe(50):
            test = self.boolean(scope, depth)
            return Value(call("int", test), "int", 0, 1, frozenset([WEAK]), atom=True)
        a = self.integer(scope, depth)
        dtype = self.choices.pick(("int64", "int32", "int16", "int8", "uint8"))
        low, high = domain(dtype)
        a = within(a, max(low, -64), min(high, 63))
        return Value(call(f"np.{dtype}", a), "int", a.low, a.high, frozenset([dtype]), atom=True)

    def _integer_call(self, scope: Scope, depth: int) -> Value | None:
        return self._call("int", scope, depth)

    # --- conditions ---

    def boolean(self, scope: Scope, depth: int) -> Value:
        """A condition."""
        choices = self.choices
        if depth <= 0 or not choices.maybe(80):
            found = self.read("bool", scope, depth) if choices.maybe(75) else None
            if found is not None:
                return found
            if depth <= 0:
                return Value(choices.pick(("True", "False")), "bool", atom=True)
        way = choices.pick(("compare", "compare", "join", "not", "chain", "call"))
        if way == "compare":
            return self._comparison(scope, depth - 1)
        if way == "chain":
            a, b, c = (self.integer(scope, depth - 1) for _ in range(3))
            first, second = choices.pick(COMPARISONS), choices.pick(COMPARISONS)
            return Value(f"{a.inner} {first} {b.inner} {second} {c.inner}", "bool")
        if way == "call":
            found = self._call("bool", scope, depth - 1)
            return found or self._comparison(scope, depth - 1)
        a = self.boolean(scope, depth - 1)
        if way == "not":
            return Value(f"not {a.inner}", "bool")
        b = self.boolean(scope, depth - 1)
        return Value(f"{a.inner} {choices.pick(('and', 'or', '&', '|', '^', '==', '!='))} {b.inner}", "bool")

    def _comparison(self, scope: Scope, depth: int) -> Value:
        kind: Kind = "float" if self.choices.maybe(30) and not self.features.real else "int"
        a, b = self.of(kind, scope, depth), self.of(kind, scope, depth)
        return Value(f"{a.inner} {self.choices.pick(COMPARISONS)} {b.inner}", "bool")

    # --- floats that are exact ---

    def floating(self, scope: Scope, depth: int) -> Value:
        """A float, a small multiple of a power of two."""
        choices = self.choices
        if depth <= 0 or not choices.maybe(65):
            found = self.read("float", scope, depth) if choices.maybe(88) else None
            return found or _float_literal(choices.pick((0, 1, 2, 3, -1, 0.5, 1.5, -0.25)))
        way = choices.pick(("arithmetic", "arithmetic", "mixed", "divide", "choose", "extreme", "one", "call"))
        made = getattr(self, f"_floating_{way}")(scope, depth - 1)
        return made if made is not None and fits(made) else self.floating(scope, depth - 1)

    def _floating_arithmetic(self, scope: Scope, depth: int) -> Value | None:
        a, b = self.floating(scope, depth), self.floating(scope, depth)
        operator = self.choices.pick(("+", "-", "*"))
        return binary(operator, a, b) or binary(operator, within(a, -8, 8), within(b, -8, 8))

    def _floating_mixed(self, scope: Scope, depth: int) -> Value | None:
        a, b = self.floating(scope, depth), self.integer(scope, depth)
        operator = self.choices.pick(("+", "-", "*"))
        if self.choices.maybe():
            return binary(operator, b, a)
        return binary(operator, a, b)

    def _floating_divide(self, scope: Scope, depth: int) -> Value | None:
        a = self.floating(scope, depth) if self.choices.maybe(70) else self.integer(scope, depth)
        match self.choices.pick(("/", "//", "%")):
            case "/":
                shift = self.choices.integer(1, 2)
                text = f"{a.inner} / {self.choices.pick((str(1 << shift), f'{float(1 << shift)}'))}"
                return Value(text, "float", a.low - 1, a.high + 1, grain=a.grain + shift)
            case operator:
                divisor = _float_literal(self.choices.pick((2.0, 1.0, 4.0, 0.5, -2.0)))
                if abs(float(divisor.inner.strip("()"))) < 1:
                    return None
                return binary(operator, a, divisor)

    def _floating_choose(self, scope: Scope, depth: int) -> Value:
        a, b, test = self.floating(scope, depth), self.floating(scope, depth), self.boolean(scope, depth)
        text = f"{a.inner} if {test.text} else {b.inner}"
        return Value(text, "float", min(a.low, b.low), max(a.high, b.high), grain=max(a.grain, b.grain))

    def _floating_extreme(self, scope: Scope, depth: int) -> Value:
        a, b = self.floating(scope, depth), self.floating(scope, depth)
        word = self.choices.pick(("min", "max"))
        choose = min if word == "min" else max
        low, high = choose(a.low, b.low), choose(a.high, b.high)
        return Value(call(word, a, b), "float", low, high, grain=max(a.grain, b.grain), atom=True)

    def _floating_one(self, scope: Scope, depth: int) -> Value:
        a = self.floating(scope, depth)
        match self.choices.pick(("-", "abs", "np.floor", "math.fabs", "np.float32", "float")):
            case "-":
                return Value(f"-{a.inner}", "float", -a.high, -a.low, grain=a.grain)
            case "np.floor" as word:
                return Value(call(word, a), "float", a.low - 1, a.high, atom=True)
            case ("abs" | "math.fabs") as word:
                return Value(call(word, a), "float", 0, a.magnitude, grain=a.grain, atom=True)
            case word:
                return Value(call(word, a), "float", a.low, a.high, grain=a.grain, atom=True)

    def _floating_call(self, scope: Scope, depth: int) -> Value | None:
        return self._call("float", scope, depth)

    # --- floats that are not ---

    def real(self, scope: Scope, depth: int) -> Value:
        """A real number of a moderate size, which no error makes much larger."""
        choices = self.choices
        if depth <= 0 or not choices.maybe(70):
            found = self.read("float", scope, depth) if choices.maybe(88) else None
            return found or _float_literal(choices.pick((1.0, 0.1, 0.3, -0.7, 2.0)))
        a = self.real(scope, depth - 1)
        way = choices.pick(
            (
                "{a} * 0.7",
                "0.5 * ({a} + {b})",
                "0.3 * ({a} - {b})",
                "math.sin({a})",
                "{a} / (1.0 + abs({b}))",
                "min({a}, {b})",
                "max({a}, {b})",
                "math.sqrt(abs({a}) + 0.1)",
                "math.exp(-abs({a}))",
                "math.tanh({a}) * math.cos({b})",
                "{a} if {t} else {b}",
                "{a} + 0.1 * {i}",
                "np.sin({a})",
            )
        )
        parts = {"a": a.inner}
        if "{b}" in way:
            parts["b"] = self.real(scope, depth - 1).inner
        if "{t}" in way:
            parts["t"] = self.boolean(scope, depth - 1).text
        if "{i}" in way:
            parts["i"] = within(self.integer(scope, depth - 1), -3, 3).inner
        return Value(way.format(**parts), "float", -REAL_BOUND, REAL_BOUND)

    # --- calls ---

    def _call(self, kind: Kind, scope: Scope, depth: int) -> Value | None:
        if not self.features.functions:
            return None
        arguments = [self.of(self.choices.pick(("int", "float", "bool")), scope, depth - 1) for _ in self.choices.some(1, 2)]
        return self.functions.call(self, kind, arguments)


def _float_literal(number: float) -> Value:
    number = float(number)
    low = int(number // 1)
    return Value(str(number), "float", low, -int(-number // 1), grain=GRAIN if number % 1 else 0, atom=number >= 0)


def _counted(counter: Counter) -> Value:
    return Value(counter.name, "int", counter.low, counter.high, frozenset([WEAK]), atom=True)


def _settled_together(a: Value, b: Value) -> tuple[Value, Value]:
    a = settled(a, b.dtypes)
    return a, settled(b, a.dtypes)
