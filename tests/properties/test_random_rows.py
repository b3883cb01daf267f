"""Random loops over rows whose iterations have loops of their own: where lanes share these, and where they may not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conftest import thorough
from tests.properties.written import check_integers, first_that_runs, fused_plan

# More rows than a block of the simulator has lanes, and rows that are long enough to be shared.
ROWS, COLUMNS = 11, 19
# Texts of the plan, so that the generator is seen to make all kinds.
KINDS = ("stores in elements of its own", "only combines values", "share them where", "share it where", "joined")


class Writer:
    """Writes one program; whatever iteration i stores is in row i."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self._numbers: list[str] = []
        self._count = 0

    def program(self) -> str:
        lines = ["import numpy as np", "import qgraph", "", "def kernel(a, b, x, y):", "    n, m = a.shape"]
        for _ in range(self._random.choice([1, 1, 1, 2])):
            self._numbers = []
            lines.append(f"    for i in range({self._random.choice(['n', 'n', 'n', 'n - 2'])}):")
            for _ in range(self._random.randint(2, 5)):
                lines += ["        " + line for line in self._statement(0)]
        if self._random.random() < 0.3:
            lines += self._random.choice(
                [
                    ["    for i in range(n):", "        for k in range(m):", "            a[i, k] = a[i, k] + y[i]"],
                    ["    b[:] = a - b"],
                ]
            )
        return "\n".join(lines) + "\n"

    def _new(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def _row(self) -> str:
        return self._random.choice("ab")

    def _number(self) -> str:
        own = f"{self._row()}[i, {self._random.choice(['0', '3', '-1', 'm - 1', 'y[i] % m'])}]"
        return self._random.choice([*self._numbers, *self._numbers, "y[i]", "i", "x[2]", own, own])

    def _element(self, k: str) -> str:
        place = self._random.choice([k, k, k, k, f"{k} + 1", f"m - 1 - {k}", f"{k} - 1"])
        return self._random.choice(
            [f"a[i, {place}]", f"b[i, {place}]", f"x[{place}]", f"{self._row()}[i, {k}]", self._number()]
        )

    def _value(self, k: str) -> str:
        return f"({self._element(k)} {self._random.choice('+-')} {self._random.choice([self._element(k), '1', k])}) % 64"

    def _statement(self, deep: int) -> list[str]:
        kinds = [self._assign, self._sum, self._extreme, self._store, self._row_store, self._one, self._store, self._choice]
        return self._random.choice([*kinds, *[self._nested] * (2 - 2 * deep)])()

    def _assign(self) -> list[str]:
        name = self._new()
        line = f"{name} = ({self._number()} + {self._number()}) % 64"
        self._numbers.append(name)
        return [line]

    def _choice(self) -> list[str]:
        name = self._new()
        lines = [f"{name} = {self._number()}", f"if {self._number()} % 2 == 0:", f"    {name} = {self._number()}"]
        self._numbers.append(name)
        return lines

    def _one(self) -> list[str]:
        place = self._random.choice(["y[i]", "y[i]", "a[i, 2]", "b[i, m - 1]", "a[i, y[i] % m]"])
        return [f"{place} {self._random.choice(['=', '+='])} {self._number()} % 64"]

    def _range(self) -> str:
        return self._random.choice(["m - 1", "m - 1", "1, m - 1", "m - 1", "i", "1, m - 1, 2", "y[i] % (m - 1)", "-3, m - 1"])

    def _sum(self) -> list[str]:
        if self._random.random() < 0.4:
            name = self._new()
            line = f"{name} = {self._random.choice(['a[i] @ x', 'np.sum(b[i, 1:])', 'np.dot(a[i, :i], b[i, :i])'])} % 64"
            self._numbers.append(name)
            return [line]
        name = self._new()
        lines = [f"{name} = {self._number()}", f"for k in range({self._range()}):", f"    {name} += {self._value('k')}"]
        self._numbers.append(name)
        return lines

    def _extreme(self) -> list[str]:
        name, word = self._new(), self._random.choice(["max", "min"])
        lines = [f"{name} = {self._number()}", f"for k in range({self._range()}):"]
        lines.append(f"    {name} = {word}({name}, {self._value('k')})")
        self._numbers.append(name)
        return lines

    def _store(self) -> list[str]:
        place = self._random.choice(["k", "k", "k", "k", "k + 1", "k // 2", "3"])
        lines = [f"for k in range({self._range()}):"]
        if self._random.random() < 0.3:
            lines += [f"    if {self._element('k')} % 3 == 0:", f"        {self._row()}[i, {place}] = {self._value('k')}"]
        else:
            lines.append(f"    {self._row()}[i, {place}] = {self._value('k')}")
        if self._random.random() < 0.2:
            lines.append(f"    {self._row()}[i, {place}] = {self._value('k')}")
        return lines

    def _row_store(self) -> list[str]:
        part = self._random.choice([":", "1:", ":i + 1", "2:i + 3", ":-1"])
        other = f"{self._row()}[i, {part}]" if self._random.random() < 0.6 else f"x[{part}]"
        operator = self._random.choice(["=", "+=", "-="])
        return [f"{self._row()}[i, {part}] {operator} {other} * ({self._number()} % 4)"]

    def _nested(self) -> list[str]:
        bound = self._random.choice(["3", "3", "x.shape[0] - 16", "i % 3", "y[i] % 2"])
        before = list(self._numbers)
        lines = [f"for q in range({bound}):", *("    " + line for line in self._statement(1))]
        lines += ["    " + line for line in self._statement(1)] if self._random.random() < 0.5 else []
        # What is assigned in the loop may have no value behind it.
        self._numbers = before
        return lines


def program(seed: int) -> str:
    """The first one of this seed that plain Python runs: others have an index too large."""
    rng = random.Random(seed)
    return first_that_runs(lambda: Writer(rng).program(), lambda: arguments(seed), IndexError)


def arguments(seed: int):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 64, shape) for shape in ((ROWS, COLUMNS), (ROWS, COLUMNS), (COLUMNS,), (ROWS,))]


@pytest.mark.parametrize("seed", [*range(16), *thorough(*range(16, 160))])
@pytest.mark.parametrize("fuse", [False, True])
def test_random_rows(rig, tmp_path, seed, fuse):
    """Integers, bit for bit; what is refused is refused before anything ran."""
    check_integers(rig, tmp_path / f"rows{seed}.py", program(seed), lambda: arguments(seed), fuse=fuse)


def test_the_generator_makes_all_kinds(tmp_path):
    plans = (fused_plan(tmp_path / f"rows{seed}.py", program(seed), lambda: arguments(seed)) for seed in range(60))
    made = [plan for plan in plans if plan != "refused"]
    assert len(made) > 30
    assert all(any(kind in text for text in made) for kind in KINDS)
