"""What a checked kernel runs at each access: bounds, and who touched an element before, in shadow memory.

These functions are compiled, and never called as Python. All that they know is in one int64 array, ``check``:

- the words below, and ``FINDING_WORDS`` for each finding, in the order in which they were made;
- from ``FIRST_REGION`` on, ``REGION_WORDS`` for each region of memory: its first address, its end, by how many bits an
  address is shifted for the number of its element, and where the shadow of the first element begins;
- ``SHADOW_WORDS`` for each element: two writers, two readers and two atomics, each of different iterations of the loop that
  runs, the groups of these atomics, and whether the element was never written. Two of each decide exactly whether an iteration
  conflicts with any other one. An entry is ``iteration << SITE_BITS | site``; iterations are numbered through the whole run, so
  that those of earlier loops are told by their numbers alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qgraph.ir.functions import Function, SeparateFunction
from qgraph.lowering.codegen.task_codegen import own_function
from qgraph.operations import intrinsics

CHECK = "_check"
STATE: tuple[str, ...] = (CHECK,)

# The words of ``check``: the iteration that runs, 0 outside of parallel loops; the first one of its loop, and the number of
# that loop; the latest iteration; accesses so far; in which order iterations run; findings so far; how many regions there are,
# and where that of the last access is.
ITERATION, FIRST, LOOP, LATEST, ACCESSES, ORDER, FOUND, REGIONS, LAST = range(9)
# Of an order that is a permutation: position p is iteration (p * FACTOR + SHIFT) % count.
FACTOR, SHIFT = 9, 10
# Start, step and count of each axis of the loop.
AXES, MOST_AXES = 11, 8
FIRST_FINDING = AXES + 3 * MOST_AXES
REGION_WORDS = 4
SHADOW_WORDS = 8
SITE_BITS = 20
# The words of a finding: what it is, the entry of the other access, that of this one, the address, the first iteration of the
# loop, its number, three integers of its kind, and the axes.
FINDING_AXES = 9
FINDING_WORDS = FINDING_AXES + 3 * MOST_AXES
MOST_FINDINGS = 256
FIRST_REGION = FIRST_FINDING + MOST_FINDINGS * FINDING_WORDS
RACE, BOUNDS, UNWRITTEN = 1, 2, 3
IN_ORDER, REVERSED, PERMUTED = 0, 1, 2
# Groups of atomics: those that an author wrote have this bit, and are no race among themselves.
AUTHORS = 1 << 16

_WORDS = {name: value for name, value in vars().items() if name.isupper() and isinstance(value, int)}


def note(kind: Any, other: Any, mine: Any, address: Any, more: Any, check: Any) -> None:
    """Keep a finding, unless one of its kind is known at these two sites."""
    sites = (1 << SITE_BITS) - 1
    known = False
    for number in range(check[FOUND]):
        at = FIRST_FINDING + number * FINDING_WORDS
        first, second = check[at + 1] & sites, check[at + 2] & sites
        same = (first == other & sites and second == mine & sites) or (first == mine & sites and second == other & sites)
        if check[at] == kind and same:
            known = True
    if not known and check[FOUND] < MOST_FINDINGS:
        at = FIRST_FINDING + check[FOUND] * FINDING_WORDS
        check[FOUND] += 1
        check[at] = kind
        check[at + 1] = other
        check[at + 2] = mine
        check[at + 3] = address
        check[at + 4] = check[FIRST]
        check[at + 5] = check[LOOP] if check[ITERATION] > 0 else -1
        check[at + 6] = more[0]
        check[at + 7] = more[1]
        check[at + 8] = more[2]
        for axis in range(3 * MOST_AXES):
            check[at + FINDING_AXES + axis] = check[AXES + axis]


def outside(index: Any, extent: Any, axis: Any, site: Any, check: Any) -> None:
    """An index is out of bounds: the run ends here, as in Python."""
    note(BOUNDS, 0, check[ITERATION] << SITE_BITS | site, 0, (axis, index, extent), check)
    raise IndexError("an index is out of bounds")


def inside(index: Any, extent: Any, axis: Any, site: Any, check: Any) -> Any:
    """``index`` counted from the start of an axis; negative ones count from its end."""
    place = int(index)
    if place < 0:
        place += extent
    if place < 0 or place >= extent:
        outside(int(index), extent, axis, site, check)
    return place


def place(address: Any, check: Any) -> Any:
    """Where the shadow of the element at an address begins; -1 for memory that nobody watches."""
    region = check[LAST]
    if address < check[region] or address >= check[region + 1]:
        found = -1
        for number in range(check[REGIONS]):
            region = FIRST_REGION + number * REGION_WORDS
            if check[region] <= address < check[region + 1]:
                found = region
        if found < 0:
            return -1
        check[LAST] = found
        region = found
    return check[region + 3] + ((address - check[region]) >> check[region + 2]) * SHADOW_WORDS


def conflict(entry: Any, mine: Any, address: Any, check: Any) -> None:
    """Keep a race with the access ``entry``, if that is of another iteration of this loop."""
    iteration = entry >> SITE_BITS
    if iteration >= check[FIRST] and iteration != check[ITERATION]:
        note(RACE, entry, mine, address, (0, 0, 0), check)


def enter(at: Any, mine: Any, check: Any) -> None:
    """Take note of an access in the first of two entries, or in the second where the first is of another iteration."""
    first = check[at] >> SITE_BITS
    if first < check[FIRST]:
        check[at] = mine
        check[at + 1] = 0
    elif first != check[ITERATION] and check[at + 1] >> SITE_BITS < check[FIRST]:
        check[at + 1] = mine


def commute(known: Any, group: Any) -> Any:
    """Whether atomics of two groups are no race."""
    both = (known & AUTHORS) != 0 and (group & AUTHORS) != 0
    return both or known % AUTHORS == group % AUTHORS


def enter_group(at: Any, mine: Any, group: Any, check: Any) -> None:
    """As ``enter``, of atomics: the second differs from the first in iteration or in group."""
    first, known = check[at] >> SITE_BITS, check[at + 2] & (2 * AUTHORS - 1)
    if first < check[FIRST]:
        check[at] = mine
        check[at + 1] = 0
        check[at + 2] = group
    elif check[at + 1] >> SITE_BITS < check[FIRST] and (first != check[ITERATION] or known != group):
        check[at + 1] = mine
        check[at + 2] = known | group << SITE_BITS


def read(address: Any, size: Any, site: Any, check: Any) -> None:
    """An element is read."""
    check[ACCESSES] += 1
    at = place(address, check)
    if at < 0 or check[ORDER] != IN_ORDER:
        return
    mine = check[ITERATION] << SITE_BITS | site
    for _ in range(max(1, size >> check[check[LAST] + 2])):
        if check[at + 7] != 0:
            note(UNWRITTEN, 0, mine, address, (0, 0, 0), check)
        if check[ITERATION] > 0:
            conflict(check[at], mine, address, check)
            conflict(check[at + 1], mine, address, check)
            conflict(check[at + 4], mine, address, check)
            conflict(check[at + 5], mine, address, check)
            enter(at + 2, mine, check)
        at += SHADOW_WORDS


def write(address: Any, size: Any, same: Any, site: Any, check: Any) -> None:
    """An element was written; ``same``: with the bits that it had."""
    check[ACCESSES] += 1
    at = place(address, check)
    if at < 0 or check[ORDER] != IN_ORDER:
        return
    mine = check[ITERATION] << SITE_BITS | site
    for _ in range(max(1, size >> check[check[LAST] + 2])):
        check[at + 7] = 0
        if check[ITERATION] > 0:
            if not same:
                conflict(check[at], mine, address, check)
                conflict(check[at + 1], mine, address, check)
            conflict(check[at + 2], mine, address, check)
            conflict(check[at + 3], mine, address, check)
            conflict(check[at + 4], mine, address, check)
            conflict(check[at + 5], mine, address, check)
            enter(at, mine, check)
        at += SHADOW_WORDS


def update(address: Any, size: Any, group: Any, site: Any, check: Any) -> None:
    """An atomic, or a part of a reduction: those of one group are in any order."""
    check[ACCESSES] += 1
    at = place(address, check)
    if at < 0 or check[ORDER] != IN_ORDER:
        return
    mine = check[ITERATION] << SITE_BITS | site
    for _ in range(max(1, size >> check[check[LAST] + 2])):
        if check[at + 7] != 0:
            note(UNWRITTEN, 0, mine, address, (0, 0, 0), check)
        if check[ITERATION] > 0:
            for other in range(4):
                conflict(check[at + other], mine, address, check)
            for other in range(2):
                if not commute(check[at + 6] >> (SITE_BITS * other) & (2 * AUTHORS - 1), group):
                    conflict(check[at + 4 + other], mine, address, check)
            enter_group(at + 4, mine, group, check)
        at += SHADOW_WORDS


def forget(address: Any, size: Any, check: Any) -> None:
    """Somebody may have written an element."""
    at = place(address, check)
    if at >= 0:
        for _ in range(max(1, size >> check[check[LAST] + 2])):
            check[at + 7] = 0
            at += SHADOW_WORDS


def begin(position: Any, total: Any, loop: Any, check: Any) -> Any:
    """The next iteration of a loop begins; gives which one that is."""
    check[LATEST] += 1
    if position == 0:
        check[FIRST] = check[LATEST]
        check[LOOP] = loop
        if check[ORDER] >= PERMUTED:
            factor = max(1, total * 618 // 1000) + check[ORDER]
            common, rest = total, factor % total
            while common != 1:
                common, rest = total, factor % total
                while rest != 0:
                    common, rest = rest, common % rest
                if common != 1:
                    factor += 1
            check[FACTOR] = factor % total
            check[SHIFT] = total // 3 + check[ORDER]
    check[ITERATION] = check[LATEST]
    if check[ORDER] == IN_ORDER:
        return position
    if check[ORDER] == REVERSED:
        return total - 1 - position
    return (position * check[FACTOR] + check[SHIFT]) % total


def _made(python: Any, **names: Any) -> Function:
    return own_function(python, {**_WORDS, "range": range, "max": max, "int": int, "IndexError": IndexError, **names})


NOTE = SeparateFunction(_made(note))
OUTSIDE = SeparateFunction(_made(outside, note=NOTE))
INSIDE = _made(inside, outside=OUTSIDE)
PLACE = _made(place)
_CONFLICT = _made(conflict, note=NOTE)
_ENTER = _made(enter)
_TOUCHED = {"note": NOTE, "place": PLACE, "conflict": _CONFLICT, "enter": _ENTER}
_TOUCHED |= {"commute": _made(commute), "enter_group": _made(enter_group)}
READ = SeparateFunction(_made(read, **_TOUCHED))
WRITE = SeparateFunction(_made(write, **_TOUCHED))
UPDATE = SeparateFunction(_made(update, **_TOUCHED))
FORGET = SeparateFunction(_made(forget, place=PLACE))
BEGIN = SeparateFunction(_made(begin))
SAME_BITS, ADDRESS_OF, INTP = intrinsics.same_bits, intrinsics.address_of, np.intp
