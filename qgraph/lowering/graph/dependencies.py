"""Edges from effects: a statement comes after those that wrote what it touches, and those that read what it writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from qgraph.ir.program import Effects, Program
from qgraph.polyhedral.array_sections import Section, apart
from qgraph.records import dataclass

Sections = Mapping[str, tuple[Section, ...]]

# Parts of one place that are compared; from then on it counts as a whole.
_MOST_PARTS = 16
# How the places of memory begin that temporaries have one after the other.
_MEMORY = "memory of "


@dataclass(frozen=True, slots=True)
class _Touch:
    """What one statement does to a place, of which it knows ``leaf``: to ``parts`` of it, or anywhere where these are None."""

    position: int
    leaf: str
    writes: bool
    parts: tuple[Section, ...] | None


def edges_of(
    nodes: Sequence[tuple[int, Effects]],
    places: Mapping[str, frozenset[str]],
    sections: Mapping[int, Sections] | None = None,
    unordered: list[tuple[int, int, Section, Section]] | None = None,
) -> list[tuple[int, int]]:
    """The reduced edges between ``nodes`` (in program order); a name that ``places`` does not have is a place of its own.

    ``sections``: by node, the parts of arrays that it touches; between parts that are apart there is no edge. An edge that
    follows from others is left out: with a -> b and b -> c, a -> c says nothing new. ``unordered`` is told of nodes that touch
    one array, and have no order for it since their sections are apart.
    """
    live: dict[str, list[_Touch]] = {}
    direct: set[tuple[int, int]] = set()
    compared: dict[tuple[str, str], bool] = {}
    for position, (node, effects) in enumerate(nodes):
        parts = (sections or {}).get(node, {})
        writes = touched_places(effects.writes, places)
        leaves = {place: leaf for leaf in effects.touched for place in places.get(leaf, ()) if place.startswith(_MEMORY)}
        for name in touched_places(effects.reads, places) | writes:
            before = live.setdefault(name, [])
            leaf = leaves.get(name, name)
            touch = _Touch(position, leaf, name in writes, parts.get(leaf))
            if touch.parts is not None and sum(each.parts is not None for each in before) >= _MOST_PARTS:
                touch = replace(touch, parts=None)
            for each in before:
                if _ordered(each, touch, compared):
                    direct.add((each.position, position))
                elif unordered is not None:
                    unordered += _told(nodes[each.position][0], node, each, touch)
            if touch.writes and touch.parts is None:
                # Whatever comes later comes after this, and so after all before it.
                before.clear()
            before.append(touch)
    return [(nodes[before][0], nodes[after][0]) for before, after in reduced(direct)]


def _ordered(first: _Touch, second: _Touch, compared: dict[tuple[str, str], bool]) -> bool:
    """Whether one of two statements may write what the other touches."""
    if not (first.writes or second.writes):
        return False
    if first.parts is None or second.parts is None or first.leaf != second.leaf:
        return True
    return any(
        (one.writes or other.writes) and not _apart(one, other, compared) for one in first.parts for other in second.parts
    )


def _told(before: int, after: int, first: _Touch, second: _Touch) -> list[tuple[int, int, Section, Section]]:
    pairs = ((one, other) for one in first.parts or () for other in second.parts or () if one.writes or other.writes)
    return [(before, after, *pair) for pair in itertools.islice(pairs, 1)]


def _apart(first: Section, second: Section, compared: dict[tuple[str, str], bool]) -> bool:
    key = (first.key, second.key)
    if key not in compared:
        compared[key] = apart(first, second)
    return compared[key]


def places_of(program: Program) -> dict[str, frozenset[str]]:
    """The places that leaves which share memory touch: each its own, and one for what it shares with each other leaf.

    So two disjoint parts of one array have no order between them, though both have one with the whole.
    """
    places = {name: {name} for pair in program.aliases for name in pair}
    for first, second in program.aliases:
        for name in (first, second):
            places[name].add(f"{first}&{second}")
    for first, second in temporaries_together(program):
        # One after the other: there is no part of the memory that only one of them has.
        for name in (first, second):
            places.setdefault(name, {f"{_MEMORY}{first}"})
    return {name: frozenset(found) for name, found in places.items()}


def temporaries_together(program: Program) -> Iterator[tuple[str, str]]:
    """Pairs of temporaries, or of one and an array that is returned, that have one memory."""
    memories = {each.leaf.name: each.memory or each.leaf.name for each in (*program.returned, *program.temporaries)}
    return (pair for pair in itertools.combinations(memories, 2) if memories[pair[0]] == memories[pair[1]])


def touched_places(names: Iterable[str], places: Mapping[str, frozenset[str]]) -> set[str]:
    """The places that ``names`` touch."""
    return {place for name in names for place in places.get(name, (name,))}


def reduced(edges: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The edges between different nodes that do not follow from others; each leads to a higher index."""
    waits: dict[int, list[int]] = {}
    for before, after in edges:
        if before != after:
            waits.setdefault(after, []).append(before)
    ancestors: dict[int, int] = {}
    kept = []
    for after in sorted(waits):
        # A bit set of all that come before `after`, so the reduction is a few integer operations.
        found = 0
        for before in sorted(waits[after], reverse=True):
            if not found >> before & 1:
                kept.append((before, after))
                found |= ancestors.get(before, 0) | 1 << before
        ancestors[after] = found
    return tuple(sorted(kept))
