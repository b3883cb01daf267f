"""Edges from effects: a statement comes after those that wrote what it touches, and those that read what it writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from qgraph.program import Effects, Program


def edges_of(nodes: Sequence[tuple[int, Effects]], places: Mapping[str, frozenset[str]]) -> list[tuple[int, int]]:
    """The reduced edges between ``nodes`` (in program order); a name that ``places`` does not have is a place of its own.

    An edge that follows from others is left out: with a -> b and b -> c, a -> c says nothing new.
    """
    last_write: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    direct: set[tuple[int, int]] = set()
    for position, (_, effects) in enumerate(nodes):
        reads = touched_places(effects.reads, places)
        writes = touched_places(effects.writes, places)
        direct.update((last_write[name], position) for name in reads | writes if name in last_write)
        for name in writes:
            direct.update((reader, position) for reader in readers.get(name, ()))
            last_write[name] = position
            readers[name] = []
        for name in reads - writes:
            readers.setdefault(name, []).append(position)
    return [(nodes[before][0], nodes[after][0]) for before, after in reduced(direct)]


def places_of(program: Program) -> dict[str, frozenset[str]]:
    """The places that leaves which share memory touch: each its own, and one for what it shares with each other leaf.

    So two disjoint parts of one array have no order between them, though both have one with the whole.
    """
    places = {name: {name} for pair in program.aliases for name in pair}
    for first, second in program.aliases:
        for name in (first, second):
            places[name].add(f"{first}&{second}")
    return {name: frozenset(found) for name, found in places.items()}


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
