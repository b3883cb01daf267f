"""What hundreds of specialisations leave when they are dropped: ``python -m tests.lowering.specialisations [HOW_MANY]``."""

from __future__ import annotations

import gc
import os
import sys

os.environ.setdefault("QGRAPH_BACKEND", "cpu")

import numpy as np

import qgraph
from qgraph.dispatch import specialisation_cache
from qgraph.lowering.numba_backend import cpu

KEPT = 3


@qgraph.kernel
def add(x, m: qgraph.Static):
    s = 0.0
    for i in range(x.shape[0]):
        x[i] += m
        s += x[i]
    for i in range(x.shape[0]):
        x[i] = np.sqrt(x[i]) + s


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def left(first: int, count: int, *, clear: bool) -> tuple[float, float]:
    """Objects and bytes that each of ``count`` specialisations leaves, by number from ``first`` on."""
    x = np.ones(4)
    gc.collect()
    objects, memory = len(gc.get_objects()), resident()
    for number in range(first, first + count):
        add(x, number)
        if clear:
            add.clear_cache()
    gc.collect()
    return (len(gc.get_objects()) - objects) / count, (resident() - memory) / count


def main(count: int) -> None:
    """Drop specialisations in both ways, and print what is left of each."""
    specialisation_cache.MAX_SPECIALISATIONS = cpu.MAX_LATELY = KEPT
    left(0, 2 * KEPT, clear=False)
    for way, clear in (("evicted", False), ("clear_cache", True)):
        objects, memory = left(1000 * (1 + clear), count, clear=clear)
        print(f"{way} {objects:.1f} {memory / 1e6:.2f}")
    assert len(add._cache.variants) == len(add._cache.specialisations) == 0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
