"""What a checked kernel runs at each access: bounds, and who touched an element before, in shadow memory.

These functions are compiled, and never called as Python. All that they know is in one int64 array, ``check``:

- the words below, and ``FINDING_WORDS`` for each finding, in the order in which they were made;
- from ``FIRST_REGION`` on, ``REGION_WORDS`` for each region of memory: its first address, its end, by how many bits an
  address is shifted for the number of its element, and where the shadow of the first element begins;
- ``SHADOW_WORDS`` for each element: in the loop that runs, the first access that writes it, the first that reads it, the first
  atomic, the first one of another group, and these groups; and whether nobody has written it yet.

Iterations run one after the other, so the first access decides: it is of another iteration if any access before this
iteration was. An entry is ``iteration << SITE_BITS | site``; iterations are numbered through the whole run, so that those of
earlier loops are told by their numbers alone.
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
SHADOW_WORDS = 6
WRITER, READER, ATOMIC, OTHER, GROUPS, NOBODY = range(SHADOW_WORDS)
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


def commute(known: Any, group: Any) -> Any:
    """Whether atomics of two groups are no race."""
    both = (known & AUTHORS) != 0 and (group & AUTHORS) != 0
    return both or known % AUTHORS == group % AUTHORS


def accessed(address: Any, check: Any) -> Any:
    """``place`` of an element that is accessed; -1, too, where iterations are in another order than the program's."""
    check[ACCESSES] += 1
    at = place(address, check)
    return at if check[ORDER] == IN_ORDER else -1


def parts(at: Any, size: Any, check: Any) -> Any:
    """How many elements of the region of ``at`` one of ``size`` bytes is; none of a region that nobody watches."""
    return max(1, size >> check[check[LAST] + 2]) if at >= 0 else 0


def read(address: Any, size: Any, site: Any, check: Any) -> None:
    """An element is read."""
    at, mine = accessed(address, check), check[ITERATION] << SITE_BITS | site
    for _ in range(parts(at, size, check)):
        if check[at + NOBODY] != 0:
            note(UNWRITTEN, 0, mine, address, (0, 0, 0), check)
        if check[ITERATION] > 0:
            conflict(check[at + WRITER], mine, address, check)
            conflict(check[at + ATOMIC], mine, address, check)
            if check[at + READER] >> SITE_BITS < check[FIRST]:
                check[at + READER] = mine
        at += SHADOW_WORDS


def write(address: Any, size: Any, same: Any, site: Any, check: Any) -> None:
    """An element was written; ``same``: with the bits that it had."""
    at, mine = accessed(address, check), check[ITERATION] << SITE_BITS | site
    for _ in range(parts(at, size, check)):
        check[at + NOBODY] = 0
        if check[ITERATION] > 0:
            if not same:
                conflict(check[at + WRITER], mine, address, check)
            conflict(check[at + READER], mine, address, check)
            conflict(check[at + ATOMIC], mine, address, check)
            if check[at + WRITER] >> SITE_BITS < check[FIRST]:
                check[at + WRITER] = mine
        at += SHADOW_WORDS


def update(address: Any, size: Any, group: Any, site: Any, check: Any) -> None:
    """An atomic, or a part of a reduction: those of one group are in any order."""
    at, mine = accessed(address, check), check[ITERATION] << SITE_BITS | site
    for _ in range(parts(at, size, check)):
        if check[at + NOBODY] != 0:
            note(UNWRITTEN, 0, mine, address, (0, 0, 0), check)
        if check[ITERATION] > 0:
            conflict(check[at + WRITER], mine, address, check)
            conflict(check[at + READER], mine, address, check)
            first, second = check[at + GROUPS] % (1 << SITE_BITS), check[at + GROUPS] >> SITE_BITS
            if check[at + ATOMIC] >> SITE_BITS < check[FIRST]:
                check[at + ATOMIC] = mine
                check[at + OTHER] = 0
                check[at + GROUPS] = group
            else:
                if not commute(first, group):
                    conflict(check[at + ATOMIC], mine, address, check)
                if not commute(second, group):
                    conflict(check[at + OTHER], mine, address, check)
                if first != group and check[at + OTHER] >> SITE_BITS < check[FIRST]:
                    check[at + OTHER] = mine
                    check[at + GROUPS] = first + (group << SITE_BITS)
        at += SHADOW_WORDS


def forget(address: Any, size: Any, check: Any) -> None:
    """Somebody may have written an element."""
    at = place(address, check)
    for _ in range(parts(at, size, check)):
        check[at + NOBODY] = 0
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
_PARTS = _made(parts)
_TOUCHED = {
    "note": NOTE,
    "accessed": _made(accessed, place=PLACE),
    "parts": _PARTS,
    "conflict": _CONFLICT,
    "commute": _made(commute),
}
READ = SeparateFunction(_made(read, **_TOUCHED))
WRITE = SeparateFunction(_made(write, **_TOUCHED))
UPDATE = SeparateFunction(_made(update, **_TOUCHED))
FORGET = SeparateFunction(_made(forget, place=PLACE, parts=_PARTS))
BEGIN = SeparateFunction(_made(begin))
SAME_BITS, ADDRESS_OF, INTP = intrinsics.same_bits, intrinsics.address_of, np.intp
