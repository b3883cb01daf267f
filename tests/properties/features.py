"""What random programs may use. Each switch is a feature of the language; a test or a command line turns them on and off."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """Switches and sizes of the generator.

    ``real``: floats are real numbers, compared within a tolerance, and decide nothing; otherwise they are small multiples of a
    power of two, on which every operation that is generated is exact in float32.
    """

    ndrange: bool = True
    serial: bool = True
    do_while: bool = True
    functions: bool = True
    aliasing: bool = True
    atomics: bool = True
    layouts: bool = True
    # Numbers assigned at kernel level.
    scalars: bool = True
    reductions: bool = True
    # Around parallel loops.
    branches: bool = True
    matches: bool = True
    whiles: bool = True
    exits: bool = True
    rebinding: bool = True
    returns: bool = True
    # `x[1:] = y[:-1]`, and `np.sum(x)`.
    slices: bool = True
    # `w = x[1:]`.
    views: bool = True
    # `x[i:j] = y[k:l]`, where only the device knows the bounds.
    lengths: bool = True
    # Arrays that a kernel makes for itself.
    temporaries: bool = True
    # Functions whose loops become the kernel's, and their values.
    calls: bool = True
    # Loops over the same range one after another, most of which touch what they touch at the same index.
    neighbours: bool = False
    real: bool = False
    # Programs of whole arrays, of which `whole/` is the generator.
    arrays: bool = False
    extents: tuple[int, ...] = (3, 4, 2, 1, 0, 5, 8, 33, 300)
    # Parallel loops and runs of statements in one kernel: compilation is what a program costs.
    most_tasks: int = 6
    # Executions of one statement.
    most_executions: int = 4000

    def without(self, *names: str) -> Features:
        """These features with some switched off."""
        return dataclasses.replace(self, **dict.fromkeys(names, False))


EVERYTHING = Features()
# On the simulator each thread is plain Python.
SIMULATED = Features(extents=(3, 2, 1, 0, 4, 5), most_executions=120)


def features_for(backend: str, *, real: bool = False, neighbours: bool = False, arrays: bool = False) -> Features:
    """What a backend can afford."""
    return dataclasses.replace(SIMULATED if backend == "sim" else EVERYTHING, real=real, neighbours=neighbours, arrays=arrays)
