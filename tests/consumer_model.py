"""A model of reductions that the next kernel finishes: copies in turns, blocks in any order, kernels that start early.

Blocks are generators that pause at each access to memory, and a schedule says which goes on. A kernel starts when all blocks
of the one before it have started, and is past its wait when they have ended. ``FAULTS`` are errors that somebody could make;
``test_consumer_model.py`` wants each of them to be found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

FAULTS = (
    "the end is not kept",
    "one place for scalars",
    "one place for partial results",
    "returns before the wait",
    "looks before the wait",
    "the end is not taken back",
    "scalars of the last copy, not of the end",
    "the last epilogue is left out",
    "a block stores what others still read",
)


Before = Callable[[], bool]
Choose = Callable[[list[tuple[int, int]]], tuple[int, int]]


@dataclass(frozen=True)
class Body:
    """A loop: ``kernels`` has for each kernel of the body whether it reduces, ``deciding`` is the one with the condition."""

    kernels: tuple[bool, ...]
    deciding: int
    copies: int
    blocks: int
    # The number of iterations.
    most: int
    fault: str = ""

    @property
    def wraps(self) -> bool:
        """Whether the next copy's first kernel evaluates the last epilogue."""
        return self.kernels[-1]


@dataclass
class Memory:
    """Scalars in three places (0: as other kernels know them), partial results in two, what ended, and an array."""

    scalars: list[tuple[int, int] | None] = field(default_factory=lambda: [(0, 0), None, None])
    partials: dict[tuple[int, int, int], int] = field(default_factory=dict)
    # The copy from which on none runs, 0 where none has ended.
    over: int = 0
    going: bool = True
    array: list[int] = field(default_factory=list)
    sweeps: int = 0


def wanted(body: Body) -> tuple[tuple[int, int], list[int]]:
    """The scalars and the array at the end, in plain Python: a loop that tests last."""
    array, scalars = list(range(body.blocks)), (0, 0)
    while True:
        for kernel, reduces in enumerate(body.kernels):
            array = [worked(value, kernel, scalars) for value in array]
            if reduces:
                scalars = epilogue(body, kernel, scalars, sum(array))
        if scalars[0] >= body.most:
            return scalars, array


def worked(value: int, kernel: int, scalars: tuple[int, int]) -> int:
    """What a kernel makes of an element: in no other order the same."""
    return (value * 3 + kernel * 5 + scalars[1]) % 10_007


def epilogue(body: Body, kernel: int, scalars: tuple[int, int], total: int) -> tuple[int, int]:
    """The scalars behind a kernel that reduces: how many iterations are done, and a number that depends on all before."""
    return scalars[0] + (kernel == body.deciding), (scalars[1] * 7 + total + kernel) % 10_007


def place(body: Body, done: int) -> int:
    """Where the scalars are when ``done`` epilogues of a turn were evaluated."""
    if done <= 0:
        return 0
    return 1 if body.fault == "one place for scalars" else 1 + done % 2


def kernel_block(body: Body, memory: Memory, copy: int, kernel: int, block: int, before: Before) -> Iterator[Before | None]:
    """A block of a kernel in a copy; ``before`` says whether all earlier kernels have ended."""
    fault = body.fault
    seen = None
    if fault in ("looks before the wait", "returns before the wait"):
        seen = memory.over
        yield
        if fault == "returns before the wait" and 0 < seen <= copy:
            return
    yield before
    over = memory.over if fault != "looks before the wait" or seen is None else seen
    yield
    previous = kernel - 1 if kernel else len(body.kernels) - 1
    combines = body.kernels[previous] and (kernel > 0 or copy > 0)
    done = epilogues_before(body, copy, kernel)
    scalars = memory.scalars[place(body, done)]
    yield
    if combines:
        parity = (copy - (kernel == 0)) % 2 if fault != "one place for partial results" else 0
        total = 0
        for each in range(body.blocks):
            total += memory.partials.get((previous, parity, each), 0)
            yield
        scalars = epilogue(body, previous, scalars or (0, 0), total)
    if fault != "the end is not kept" and (0 < over <= copy):
        return
    scalars = scalars or (0, 0)
    if combines:
        first = block == 0
        to = place(body, done + 1)
        if fault == "a block stores what others still read":
            to = place(body, done)
        if first:
            memory.scalars[to] = scalars
            yield
        if previous == body.deciding and scalars[0] >= body.most:
            if first:
                memory.over = copy if kernel == 0 else copy + 1
                yield
            if kernel == 0:
                return
    memory.array[block] = worked(memory.array[block], kernel, scalars)
    yield
    if body.kernels[kernel]:
        parity = copy % 2 if fault != "one place for partial results" else 0
        memory.partials[kernel, parity, block] = memory.array[block]
        yield


def epilogues_before(body: Body, copy: int, kernel: int) -> int:
    """How many were evaluated in a turn before a kernel of a copy begins."""
    reducing = sum(body.kernels)
    behind = sum(body.kernels[: max(0, kernel - 1)])
    return copy * reducing + behind - (body.wraps and kernel == 0)


def finishing(body: Body, memory: Memory, _block: int, before: Before) -> Iterator[Before | None]:
    """The block behind all copies of a turn: other kernels find the scalars where they always are."""
    yield before
    over = memory.over
    # Of the last copy that ran.
    ran = body.copies if not over or body.fault == "scalars of the last copy, not of the end" else over
    scalars = memory.scalars[place(body, epilogues_before(body, ran, 0))]
    if body.wraps and not (over and body.fault == "the last epilogue is left out"):
        parity = (ran - 1) % 2 if body.fault != "one place for partial results" else 0
        last = len(body.kernels) - 1
        total = sum(memory.partials.get((last, parity, each), 0) for each in range(body.blocks))
        scalars = epilogue(body, last, scalars or (0, 0), total)
    yield
    memory.scalars[0] = scalars
    memory.going = not over and (scalars or (0, 0))[0] < body.most
    if body.fault != "the end is not taken back":
        memory.over = 0


@dataclass
class Running:
    """A kernel of a turn: its blocks that have not ended, which of them have started, and how many there are."""

    blocks: dict[int, Iterator[Before | None]]
    count: int
    started: set[int] = field(default_factory=set)
    waiting: dict[int, Before | None] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether all blocks have."""
        return not self.blocks


def turn(body: Body, memory: Memory, choose: Choose) -> None:
    """All copies of the body, and the finishing kernel."""
    kernels: list[Running] = []

    def ended(number: int) -> Before:
        # Of the kernel before alone: that one has waited for those before it.
        return lambda: number == 0 or kernels[number - 1].ended

    for copy in range(body.copies):
        for kernel in range(len(body.kernels)):
            before = ended(len(kernels))
            blocks = {n: kernel_block(body, memory, copy, kernel, n, before) for n in range(body.blocks)}
            kernels.append(Running(blocks, body.blocks))
    kernels.append(Running({0: finishing(body, memory, 0, ended(len(kernels)))}, 1))
    while not all(each.ended for each in kernels):
        able = [
            (number, block)
            for number, each in enumerate(kernels)
            if number == 0 or len(kernels[number - 1].started) == kernels[number - 1].count
            for block in each.blocks
            if (waiting := each.waiting.get(block)) is None or waiting()
        ]
        number, block = choose(able)
        each = kernels[number]
        each.started.add(block)
        try:
            each.waiting[block] = next(each.blocks[block])
        except StopIteration:
            del each.blocks[block]


def run(body: Body, choose: Choose) -> tuple[object, list[int]]:
    """Two entries of the loop, one after the other: the scalars and the array at the end of the second."""
    memory = Memory()
    for _ in range(2):
        memory.array, memory.scalars[0], memory.going = list(range(body.blocks)), (0, 0), True
        turns = 0
        while memory.going:
            turn(body, memory, choose)
            turns += 1
            if turns > body.most + 2:
                return "no end", memory.array
    return memory.scalars[0], memory.array


def schedules(seeds: int) -> Iterator[Choose]:
    """Orders of blocks: the latest kernel first, or the earliest, block 0 first or last, or any."""
    yield lambda able: max(able)
    yield lambda able: min(able)
    yield lambda able: max(able, key=lambda each: (each[0], -each[1]))
    yield lambda able: min(able, key=lambda each: (each[0], -each[1]))
    for seed in range(seeds):
        generator = random.Random(seed)
        # Some blocks are slow.
        slow = generator.randrange(3)
        yield lambda able, generator=generator, slow=slow: generator.choice([e for e in able if e[1] != slow] or able)
        yield generator.choice


def agrees(body: Body, seeds: int = 6) -> bool:
    """Whether all schedules give what plain Python does."""
    expected = wanted(replace(body, fault=""))
    return all(run(body, choose) == expected for choose in schedules(seeds))


def bodies() -> Iterator[Body]:
    """Loops of one kernel and of several, that end in each copy of a turn and after each number of turns up to two."""
    for kernels in ((True,), (True, True), (True, True, False), (True, False), (False, True)):
        for deciding in (number for number, reduces in enumerate(kernels) if reduces):
            for copies in (2, 3):
                for most in range(1, 2 * copies + 2):
                    yield Body(kernels, deciding, copies, 3, most)
