"""Random kernels whose statements do not commute, and what they do by a model of their own that knows nothing of qgraph.

Every statement is ``a[i] = a[i] * m + ...`` with an odd ``m``, on integers that wrap: two statements in the wrong order give
another number. A topology is a random program over views of a few arrays, which overlap as they like; a batch is several of
them merged into one kernel, statement by statement, each on arrays of its own. The factors are arguments of the kernel, so
that statements that differ in nothing else are compiled once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BASES, LENGTH, VIEWS = 4, 9, 8
# A view has at least as many elements as a statement reads of it.
SHORTEST = 4
FACTORS = 5


@dataclass(frozen=True)
class View:
    """``stop - start`` elements of array ``base`` of topology ``owner``; ``name`` is the argument of the kernel."""

    name: str
    owner: int
    base: int
    start: int
    stop: int

    def shares(self, other: View) -> bool:
        """Whether some element is in both."""
        same = (self.owner, self.base) == (other.owner, other.base)
        return same and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class Update:
    """``target[i] = target[i] * m + b + (sources[0][i % 4] ^ ...)`` for each i, or for one element."""

    target: View
    sources: tuple[View, ...]
    factor: int
    term: int
    element: int | None = None


@dataclass(frozen=True)
class Repeat:
    """A body that runs ``times`` times; ``word`` is how the loop is written."""

    word: str
    times: int
    owner: int
    number: int
    body: tuple[Statement, ...]

    @property
    def name(self) -> str:
        """What its counter or flag is called, after a letter."""
        return f"{self.owner}_{self.number}"


@dataclass(frozen=True)
class Choice:
    """One of two bodies, by whether an element is even; the second may be empty, and then there is no `else`."""

    view: View
    first: tuple[Statement, ...]
    second: tuple[Statement, ...]


Statement = Update | Repeat | Choice


@dataclass(frozen=True)
class Batch:
    """One kernel."""

    views: tuple[View, ...]
    owners: int
    statements: tuple[Statement, ...]


# --- writing them ------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, rng: random.Random, owner: int, statements: int, depth: int) -> None:
        self.rng = rng
        self.owner = owner
        self.views = [self._view(k) for k in range(VIEWS)]
        self.numbers = 0
        self.statements = self.block(statements, depth)

    def _view(self, number: int) -> View:
        start = self.rng.randrange(LENGTH - SHORTEST + 1)
        stop = self.rng.randint(start + SHORTEST, LENGTH)
        return View(f"a{self.owner}_{number}", self.owner, self.rng.randrange(BASES), start, stop)

    def block(self, count: int, depth: int) -> list[Statement]:
        found: list[Statement] = []
        while len(found) < count:
            if depth and self.rng.random() < 0.3:
                found.append(self._control(depth))
            elif self.rng.random() < 0.15:
                found += self._fan()
            else:
                found.append(self._update(element=depth > 0 and self.rng.random() < 0.2))
        return found

    def _update(self, *, element: bool = False, target: View | None = None, sources: Any = None) -> Update:
        target = target or self.rng.choice(self.views)
        if sources is None:
            # What a loop writes, it may read at its own index only.
            others = [view for view in self.views if not view.shares(target)]
            sources = self.rng.sample(others, min(len(others), self.rng.choice((0, 0, 0, 1, 1, 2))))
        where = self.rng.randrange(SHORTEST) if element else None
        return Update(target, tuple(sources), self.rng.randrange(FACTORS), self.rng.randrange(FACTORS), where)

    def _fan(self) -> list[Statement]:
        """Several that are written, then several that read all of them: many edges."""
        views = self.rng.sample(self.views, len(self.views))
        sources, targets = views[: self.rng.randint(2, 5)], []
        for view in views[len(sources) :]:
            if not any(view.shares(source) for source in sources):
                targets.append(view)
        return [self._update(target=view) for view in sources] + [
            self._update(target=view, sources=sources) for view in targets
        ]

    def _control(self, depth: int) -> Statement:
        body = tuple(self.block(self.rng.randint(1, 3), depth - 1))
        if self.rng.random() < 0.4:
            other = tuple(self.block(self.rng.randint(1, 2), depth - 1)) if self.rng.random() < 0.5 else ()
            return Choice(self.rng.choice(self.views), body, other)
        self.numbers += 1
        word = self.rng.choice(("while", "serial", "do"))
        return Repeat(word, self.rng.randint(1 if word == "do" else 0, 3), self.owner, self.numbers, body)


def make_batch(seed: int, topologies: int, statements: int, depth: int) -> Batch:
    """``topologies`` random programs of about ``statements`` statements in one kernel; ``depth`` of loops and branches."""
    rng = random.Random(seed)
    writers = [_Writer(rng, owner, statements, depth) for owner in range(topologies)]
    left = [list(writer.statements) for writer in writers]
    merged: list[Statement] = []
    while any(left):
        merged.append(rng.choice([each for each in left if each]).pop(0))
    return Batch(tuple(view for writer in writers for view in writer.views), topologies, tuple(merged))


# --- as Python ---------------------------------------------------------------------------------------------------------


def _repeats(statements: tuple[Statement, ...]) -> Iterator[Repeat]:
    for statement in statements:
        match statement:
            case Repeat():
                yield statement
                yield from _repeats(statement.body)
            case Choice():
                yield from _repeats((*statement.first, *statement.second))


def flags_of(batch: Batch) -> list[str]:
    """The names of the flags of the do-whiles."""
    return [f"f{loop.name}" for loop in _repeats(batch.statements) if loop.word == "do"]


def source_of(batch: Batch) -> tuple[str, dict[int, Statement]]:
    """The kernel, and which statement begins on which of its lines (from 1)."""
    numbers = [f"{letter}{k}" for letter in "mb" for k in range(FACTORS)]
    names = [*(view.name for view in batch.views), *flags_of(batch), *numbers]
    text = _Text(["import qgraph", "", "", f"def kernel({', '.join(names)}):"])
    text.block(batch.statements, 1)
    return "\n".join(text.lines) + "\n", text.places


class _Text:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.places: dict[int, Statement] = {}

    def block(self, statements: tuple[Statement, ...], depth: int) -> None:
        pad = "    " * depth
        for statement in statements:
            match statement:
                case Update():
                    self.update(statement, pad)
                case Choice():
                    self.head(statement, f"{pad}if {statement.view.name}[1] % 2 == 0:")
                    self.block(statement.first, depth + 1)
                    if statement.second:
                        self.lines.append(f"{pad}else:")
                        self.block(statement.second, depth + 1)
                case Repeat():
                    self.repeat(statement, depth, pad)

    def head(self, statement: Statement, line: str) -> None:
        self.lines.append(line)
        self.places[len(self.lines)] = statement

    def update(self, statement: Update, pad: str) -> None:
        name = statement.target.name
        index, at = ("i", "i % 4") if statement.element is None else (str(statement.element),) * 2
        value = f"{name}[{index}] * m{statement.factor} + b{statement.term}"
        if statement.sources:
            value += f" + ({' ^ '.join(f'{view.name}[{at}]' for view in statement.sources)})"
        if statement.element is None:
            self.head(statement, f"{pad}for i in range({name}.shape[0]):")
            self.lines.append(f"{pad}    {name}[i] = {value}")
        else:
            self.head(statement, f"{pad}{name}[{index}] = {value}")

    def repeat(self, loop: Repeat, depth: int, pad: str) -> None:
        name = loop.name
        match loop.word:
            case "serial":
                self.head(loop, f"{pad}for t{name} in qgraph.serial(range({loop.times})):")
                self.block(loop.body, depth + 1)
            case "while":
                self.lines.append(f"{pad}k{name} = 0")
                self.head(loop, f"{pad}while k{name} < {loop.times}:")
                self.block(loop.body, depth + 1)
                self.lines.append(f"{pad}    k{name} += 1")
            case _:
                self.lines.append(f"{pad}f{name}[()] = {loop.times}")
                self.head(loop, f"{pad}while qgraph.graph_do_while(f{name}):")
                self.block(loop.body, depth + 1)
                self.lines.append(f"{pad}    f{name}[()] -= 1")


def function_of(batch: Batch, folder: Path) -> tuple[Callable[..., Any], dict[int, Statement]]:
    """The kernel as a function, written to a file of ``folder``, and its statements by line."""
    text, places = source_of(batch)
    file = folder / f"topologies_{abs(hash(text))}.py"
    file.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), names)
    return names["kernel"], places


def arguments_of(batch: Batch, seed: int) -> tuple[Any, ...]:
    """New arrays with the views of the batch on them, flags, and factors."""
    rng = np.random.default_rng(seed)
    bases = rng.integers(-(2**62), 2**62, (batch.owners, BASES, LENGTH))
    views = [bases[view.owner, view.base][view.start : view.stop] for view in batch.views]
    flags = [np.array(0) for _ in flags_of(batch)]
    factors = [int(number) | 1 for number in rng.integers(3, 2**31, FACTORS)]
    return (*views, *flags, *factors, *(int(number) for number in rng.integers(1, 2**62, FACTORS)))


# --- the model ---------------------------------------------------------------------------------------------------------


def expected(batch: Batch, arguments: tuple[Any, ...]) -> list[list[int]]:
    """What the kernel leaves in each view, computed with Python's integers."""
    memory: dict[tuple[int, int, int], int] = {}
    for view, array in zip(batch.views, arguments, strict=False):
        for k, value in enumerate(array):
            memory[view.owner, view.base, view.start + k] = int(value)
    _Model(memory, arguments[-2 * FACTORS : -FACTORS], arguments[-FACTORS:]).block(batch.statements)
    return [[memory[view.owner, view.base, place] for place in range(view.start, view.stop)] for view in batch.views]


class _Model:
    def __init__(self, memory: dict[tuple[int, int, int], int], factors: Any, terms: Any) -> None:
        self.memory, self.factors, self.terms = memory, factors, terms

    def get(self, view: View, index: int) -> int:
        return self.memory[view.owner, view.base, view.start + index]

    def block(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            match statement:
                case Update(element=None):
                    for index in range(statement.target.stop - statement.target.start):
                        self.update(statement, index, index % 4)
                case Update():
                    assert statement.element is not None
                    self.update(statement, statement.element, statement.element)
                case Repeat():
                    for _ in range(statement.times):
                        self.block(statement.body)
                case Choice():
                    self.block(statement.first if self.get(statement.view, 1) % 2 == 0 else statement.second)

    def update(self, statement: Update, index: int, at: int) -> None:
        view = statement.target
        mixed = 0
        for source in statement.sources:
            mixed ^= self.get(source, at)
        value = self.get(view, index) * self.factors[statement.factor] + self.terms[statement.term] + mixed
        # As 64 bits with a sign.
        self.memory[view.owner, view.base, view.start + index] = (value + 2**63) % 2**64 - 2**63


# --- which statements have an order ------------------------------------------------------------------------------------


def touched(statement: Statement) -> tuple[set[View], set[View]]:
    """The views that a statement reads, and those that it writes; what is in it included."""
    match statement:
        case Update():
            return {statement.target, *statement.sources}, {statement.target}
        case Repeat():
            parts, reads = statement.body, set()
        case Choice():
            parts, reads = (*statement.first, *statement.second), {statement.view}
    writes: set[View] = set()
    for part in parts:
        more_reads, more_writes = touched(part)
        reads |= more_reads
        writes |= more_writes
    return reads, writes


def conflict(first: Statement, second: Statement) -> bool:
    """Whether two statements touch an array in common, which one of them writes; or both are loops or branches."""
    if not isinstance(first, Update) and not isinstance(second, Update):
        return True
    (reads, writes), (other_reads, other_writes) = touched(first), touched(second)
    pairs = [(a, b) for a in writes for b in other_reads | other_writes] + [(a, b) for a in reads for b in other_writes]
    return any(a.shares(b) for a, b in pairs)


def reduced_order(statements: tuple[Statement, ...]) -> set[tuple[int, int]]:
    """The transitive reduction of the order of conflicting statements, by their positions."""
    count = len(statements)
    before = [[a < b and conflict(statements[a], statements[b]) for b in range(count)] for a in range(count)]
    for middle in range(count):
        for a in range(middle):
            if before[a][middle]:
                before[a] = [known or further for known, further in zip(before[a], before[middle], strict=True)]
    return {
        (a, b)
        for a in range(count)
        for b in range(a + 1, count)
        if before[a][b] and not any(before[a][c] and before[c][b] for c in range(a + 1, b))
    }


def reachable(edges, start):
    """What comes after node ``start``."""
    found, todo = set(), [start]
    while todo:
        here = todo.pop()
        following = {after for before, after in edges if before == here} - found
        found |= following
        todo += following
    return found
