"""Random loop nests as text, with the constructs that each is made of."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from random import Random

from tests.dependence.facts import function

FUNCTIONS = {
    "put": function("def put(r, k, e):\n  r[k] = e", 1000),
    "get": function("def get(r, k):\n  return r[k] + r[k + 1]", 2000),
    "add": function("def add(r, k, e):\n  r[k] += e", 3000),
    "left": function("def left(r, k):\n  if k > 0:\n    return r[k - 1]\n  return r[k]", 4000),
}


@dataclass(frozen=True)
class Nest:
    """A loop: ``source``; ``same``: which arrays are one; ``made_of``: words for what is in it."""

    source: str
    same: str
    made_of: frozenset[str]


class Maker:
    """Draws a loop nest."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.made_of: set[str] = set()
        # How many more statements and special terms there may be.
        self.inner = 0

    # --- choices ---

    def pick(self, *items: str) -> str:
        return self.random.choice(items)

    def one_in(self, number: int) -> bool:
        return self.random.randrange(number) == 0

    def note(self, word: str, text: str) -> str:
        """``text``, in which there is a ``word``."""
        self.made_of.add(word)
        return text

    # --- integers ---

    def bound(self) -> str:
        kind = self.random.randrange(12)
        if kind < 3:
            return self.pick("n", "n", "m")
        if kind < 6:
            return self.pick("x.shape[0]", "x.shape[0]", "a.shape[0]", "a.shape[1]", "y.shape[0]", "len(x)")
        if kind == 6:
            return self.pick("n - 1", "n + 1", "x.shape[0] - 1", "a.shape[1] - 1", "n + m", "2 * n")
        if kind == 7 and self.one_in(2):
            return self.note(
                "bounds by //, min, max", self.pick("n // 2", "min(n, m)", "max(n, 1)", "x.shape[0] // 2", "min(n, 3)")
            )
        return str(self.random.randint(0, 7))

    def range(self, outer: list[str]) -> str:
        """The arguments of a range."""
        start, stop = self.pick("0", "0", "0", "1", "1", "2", "-1", "m", "n"), self.bound()
        if outer and self.one_in(2):
            i = self.random.choice(outer)
            self.made_of.add("triangular")
            start, stop = self.random.choice(
                [
                    ("0", i),
                    ("0", f"{i} + 1"),
                    (i, stop),
                    (f"{i} + 1", stop),
                    (i, f"{i} + 2"),
                    (f"2 * {i}", f"2 * {i} + 2"),
                    ("1", i),
                ]
                + ([(f"max(0, {i} - 1)", f"min({stop}, {i} + 2)")] if self.one_in(2) else [])
            )
        step = self.random.randrange(12)
        if step < 2:
            return self.note("a step", f"{start}, {stop}, {self.pick('2', '3', '4')}")
        if step < 4:
            return self.note("counting down", f"{stop} - 1, {start} - 1, {self.pick('-1', '-1', '-2')}")
        if step == 4 and self.one_in(2):
            return self.note("a symbolic step", f"{start}, {stop}, q")
        return stop if start == "0" and self.one_in(2) else f"{start}, {stop}"

    def affine(self, names: list[str]) -> str:
        """A sum of variables, a constant and parameters."""
        words = []
        main = self.random.choice(names)
        for name in names:
            if name == main or self.one_in(3):
                words.append(self.pick(name, name, name, name, f"2 * {name}", f"3 * {name}", f"-{name}"))
        if self.one_in(2):
            words.append(str(self.random.randint(-2, 4)))
        if self.one_in(6):
            words.append(self.pick("n", "m", "-n", "x.shape[0]", "-1 + x.shape[0]", "n - 1"))
        if self.one_in(12):
            words = [self.pick("0", "1", "-1", "n", "n - 1", "-2")]
        return " + ".join(words).replace("+ -", "- ")

    def index(self, names: list[str]) -> str:
        """An index: affine, or with one of the operations that are decided as well."""
        text = self.affine(names)
        kind = self.random.randrange(40)
        if kind == 0:
            return self.note("// by a constant", f"({text}) // {self.pick('2', '3', '4', '-2')}")
        if kind in (1, 2):
            return self.note("% by a constant", f"({text}) % {self.pick('2', '3', '4', '7')}")
        if kind in (3, 4):
            return self.note("% by a size", f"({text}) % {self.pick('n', 'x.shape[0]', 'a.shape[1]')}")
        if kind == 5:
            return self.note("// by a size", f"({text}) // {self.pick('n', 'x.shape[0]')}")
        if kind == 6:
            return self.note(
                "min or max", f"{self.pick('min', 'max')}({text}, {self.pick('0', '3', 'n', 'x.shape[0] - 1', 'm')})"
            )
        if kind == 7:
            return self.note("min or max", f"min(max({text}, 0), x.shape[0] - 1)")
        if kind == 8:
            return self.note("abs", f"abs({text})")
        if kind == 9:
            return self.note("conditional index", f"({text} if {self.test(names)} else {self.affine(names)})")
        if kind == 10:
            return self.note(
                "products", f"{self.random.choice(names)} * {self.pick('n', 'm', 'a.shape[1]', 'q')} + {self.affine(names)}"
            )
        if kind == 11 and self.one_in(2):
            return self.note("cast", f"{self.pick('int', 'int64', 'int8')}({text})")
        if kind == 12 and self.one_in(3):
            return self.note("data as an index", f"d[{text}]")
        if kind == 13 and self.one_in(2):
            return self.note("a flag in an index", f"{text} + {self.pick('f', '(2 if f else 1)')}")
        return text

    # --- conditions ---

    def test(self, names: list[str], depth: int = 0) -> str:
        i = self.random.choice(names)
        kind = self.random.randrange(11 if depth < 2 else 7)
        if kind < 3:
            word = self.pick("<", "<=", ">", ">=", "==", "!=")
            return f"{self.affine(names)} {word} {self.pick('0', '1', '2', 'n', 'n - 1', 'm')}"
        if kind == 3:
            return f"{i} {self.pick('<', '==', '!=', '>=')} {self.pick('0', '1', '2', 'n - 1', 'x.shape[0] - 1')}"
        if kind == 4:
            return self.note("% in a guard", f"{i} % {self.pick('2', '3')} {self.pick('==', '!=')} {self.pick('0', '1')}")
        if kind == 5:
            return self.note(
                "chained comparison",
                f"{self.pick('0', '1')} <= {self.affine(names)} < {self.pick('n', 'm', '4', 'x.shape[0]')}",
            )
        if kind == 6:
            if self.one_in(6):
                return self.note("guard on data", f"d[{i}] > 0")
            return self.note("a flag", self.pick("f", "f", "not f"))
        if kind == 7:
            return self.note("not", f"not ({self.test(names, depth + 1)})")
        return self.note("and, or", f"({self.test(names, depth + 1)} {self.pick('and', 'or')} {self.test(names, depth + 1)})")

    # --- places and statements ---

    def place(self, names: list[str]) -> str:
        kind = self.random.randrange(20)
        if kind < 5:
            first, second = self.index(names), self.index(names)
            if self.one_in(2) and len(names) > 1:
                first, second = names[0], names[1]
            return f"a[{first}, {second}]"
        if kind == 5:
            return self.note("chained subscripts", f"a[{self.index(names)}][{self.index(names)}]")
        if kind == 6:
            return self.note("a name for a row", f"r[{self.index(names)}]")
        if kind == 7:
            return self.note("a name for a slice", f"w[{self.index(names)}]")
        if kind == 8:
            return self.note("flattened", f"x[{names[0]} * {self.pick('n', 'm', 'a.shape[1]')} + {self.affine(names[-1:])}]")
        if kind == 9 and len(names) > 1:
            return self.note("flattened", f"x[{names[0]} * m + {names[1]}]")
        return f"{self.pick('x', 'x', 'x', 'y')}[{self.index(names)}]"

    def whole(self, names: list[str]) -> str:
        """Part of an array."""
        start, stop = self.affine(names), self.affine(names)
        cuts = [":", "1:-1", "2:", ":-2", "1:", "::2", f"{start}:{start} + 2", f"{start}:{stop}", f":{start}", f"{start}:"]
        cut = self.random.choice(cuts)
        self.made_of.add("slices")
        return self.random.choice(
            [f"x[{cut}]", f"x[{cut}]", f"y[{cut}]", f"a[{self.index(names)}, {cut}]", f"a[{cut}, {self.index(names)}]"]
        )

    def value(self, names: list[str]) -> str:
        """What a statement stores; it changes with the iteration."""
        kind = self.random.randrange(12)
        i = names[0]
        if kind < 5:
            return f"{self.place(names)} + {i}"
        if kind == 5:
            return f"{self.place(names)} + {self.place(names)} + {i}"
        if kind == 6:
            other = self.place(names)
            return self.note("conditional expression", f"({other} if {self.test(names)} else 0) + {i}")
        if kind == 7:
            return self.note("a func reads", f"{self.pick('get', 'left')}({self.pick('x', 'y')}, {self.index(names)}) + {i}")
        if kind == 8 and self.one_in(2):
            part = self.pick(f"a[{self.index(names)}]", f"x[{self.affine(names)}:]")
            return self.note("a func reads", f"get({part}, {self.index(names)}) + {i}")
        return i

    def simple(self, names: list[str]) -> str:
        place = self.place(names)
        kind = self.random.randrange(26)
        if kind < 10:
            return f"{place} = {self.value(names)}"
        if kind < 12:
            return f"{place} = {place} + {names[0]}"
        if kind == 12:
            return self.note("constant store", f"{place} = {self.pick('1', '1', '2', 'n')}")
        if kind < 17:
            operator = self.pick("+", "+", "+", "-", "*", "|")
            return self.note("update", f"{place} {operator}= {self.pick('1', self.value(names))}")
        if kind == 17:
            return self.note("update", f"{place} = {self.pick('max', 'min')}({place}, {self.value(names)})")
        if kind == 18:
            target, index = place.split("[", 1)
            if place.startswith("a["):
                return f"{place} = {self.value(names)}"
            return self.note("a func writes", f"{self.pick('put', 'put', 'add')}({target}, {index[:-1]}, {names[0]})")
        if kind == 19:
            part = self.pick(f"a[{self.index(names)}]", f"x[{self.affine(names)}:]", "x[1:]", f"x[:{self.affine(names)}]")
            return self.note("a func writes a part", f"{self.pick('put', 'add')}({part}, {self.index(names)}, {names[0]})")
        if kind == 20:
            return self.note(
                "slices are stored",
                f"{self.whole(names)} = {self.pick('1', names[0], names[0], self.whole(names) + ' + ' + names[0])}",
            )
        if kind == 21:
            return self.note(
                "a name for an integer",
                f"k = {self.index(names)}\n{self.pick('x', 'y')}[k] = x[k{self.pick('', ' + 1', ' - 1')}] + {names[0]}",
            )
        if kind == 22:
            return self.note(
                "a swap",
                f"{place}, x[0] = {self.place(names)} + {names[0]}, {names[0]}"
                if self.one_in(3)
                else f"{place} = {self.value(names)}",
            )
        return f"{place} = {self.value(names)}"

    def statements(self, names: list[str], depth: int = 0) -> list[str]:
        kind = self.random.randrange(16)
        if kind < 4 and depth < 2:
            self.made_of.add("guard")
            lines = [f"if {self.test(names)}:", *_inside(self.statements(names, depth + 1))]
            if self.one_in(3):
                lines += ["else:", *_inside(self.statements(names, depth + 1))]
            return lines
        if kind < 7 and depth < 2 and self.inner < 2:
            self.inner += 1
            variable = "pq"[self.inner - 1]
            self.made_of.add("inner loop")
            before = []
            lines = [f"for {variable} in range({self.range(names)}):"]
            body = [*self.statements([*names, variable], depth + 1)]
            if self.one_in(6):
                body.insert(0, self.note("continue", f"if {self.test([*names, variable])}: continue"))
            if self.one_in(6):
                before = [self.note("counted", f"at = {self.affine(names)}")]
                body += self.counted(names, variable)
            return [*before, *lines, *_inside(body)]
        if kind == 7 and depth == 0:
            return [self.note("continue", f"if {self.test(names)}: continue"), *self.simple(names).split("\n")]
        return self.simple(names).split("\n")

    def counted(self, names: list[str], variable: str) -> list[str]:
        """Statements of an inner loop that store where `at` is, and move it."""
        store = [f"x[at] = {names[0]}"]
        move = self.pick("at += 1", "at += 2", "at = at + n", "at -= 1", f"at += {variable}")
        if self.one_in(3):
            self.made_of.add("counted by two loops")
            # The inner loop may change the variable of the outer one.
            header = f"for {self.pick('t', 't', variable)} in range({self.pick('2', '3', 'm', names[-1])}):"
            return [header, *_inside([*store, move]), self.pick("at += 1", "at -= 2", "pass")]
        return [*store, move, *(self.pick([*store, "at += 1"], ["k = at"]) if self.one_in(3) else [])]

    def nest(self) -> Nest:
        if self.one_in(4):
            names = ["i", "j"]
            axes = ", ".join(self.axis() for _ in names)
            header = f"for i, j in ndrange({axes}):"
            self.made_of.add("two axes")
        else:
            names = ["i"]
            header = f"for i in range({self.range([])}):"
        body = []
        for _ in range(self.random.choice([1, 1, 1, 2, 2, 3])):
            body += self.statements(names)
        text = "\n".join(body)
        if re.search(r"\br\b", text):
            row = self.pick(*(f"a[{at}]" for at in (self.index(names), names[0], names[-1], f":, {names[0]}")))
            body.insert(0, f"r = {row}")
        if re.search(r"\bw\b", text):
            start = self.affine(names)
            part = self.pick(f"x[{start}:]", "x[1:]", "x[::2]", f"x[:{start}]", "x[::-1]", f"a[{names[0]}, 1:]")
            body.insert(0, f"w = {part}")
        lines = [header, *_inside(body)]
        if self.one_in(12):
            lines = [f"for t in serial(range({self.pick('3', 'm', '1, n')})):", *_inside(lines)]
            self.made_of.add("serial loop around")
            lines = [line.replace(" + 1]", " + t]") if self.one_in(2) else line for line in lines]
        same = "y=x" if self.one_in(8) else ""
        if same:
            self.made_of.add("identical arrays")
        return Nest("\n".join(lines) + "\n", same, frozenset(self.made_of))

    def axis(self) -> str:
        start = self.pick("0", "0", "1", "-1", "n")
        stop = self.bound()
        return stop if start == "0" else f"({start}, {stop})"


def _inside(lines: list[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), "  ").split("\n")


def nest(seed: object) -> Nest:
    """The nest of a seed."""
    return Maker(Random(str(seed))).nest()
