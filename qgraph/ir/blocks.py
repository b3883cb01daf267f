"""Blocks of threads that do an iteration together, and tiles of which each is one."""

from __future__ import annotations

from qgraph.records import dataclass

# Bytes of shared memory that a block has for the asking; more than those a kernel must be launched with.
STATIC_SHARED = 48 * 1024
# The most that it may have from compute capability 9.0 on.
MOST_SHARED = 227 * 1024
# What lies in shared memory begins at a multiple of so many bytes.
SHARED_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The block of threads that does an iteration of a task: its body has barriers, and finds its threads itself.

    ``threads``: along x and y. ``shared``: bytes of shared memory that a launch must ask for. ``where``: the host value that is
    not 0 where the task runs at all.
    """

    threads: tuple[int, int]
    shared: int
    where: str


def shared_place(first: int) -> int:
    """Where an array in shared memory may begin that comes behind ``first`` bytes."""
    return -(-first // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


@dataclass(frozen=True, slots=True)
class TileCost:
    """What one tile takes in a pass over memory that does many iterations of a loop, and why these may run so.

    ``loads``, ``stores``: bytes. ``operations``: on numbers, those in halos among them, 0 where they cannot be counted.
    ``reasons``: for people, where the halo is from and what proves the form legal.
    """

    loads: int
    stores: int
    operations: int
    reasons: tuple[str, ...]
