"""Why qgraph is behind a peer where it is, and what the limit is: the README says it below the figures."""

from __future__ import annotations

from collections.abc import Iterable

# By question, how the names of its targets begin, and peer.
_WHY = {
    ("programs", "fdtd", "CuPy"): (
        "its graph has the number of steps built in, and is built again for another one. In qgraph's, which runs any number, "
        "each kernel looks whether a step is left for it, and a turn of the while node has 64 steps, 32 or 8 on large grids"
    ),
    ("programs", "boltzmann", "CuPy"): (
        "as for fdtd; and places in an array of three axes are computed in 64 bits, which takes 38 registers in place of 32: "
        "6 blocks of 256 threads run on a multiprocessor, not 8, and 512^2 cells take two rounds"
    ),
    ("memory_bound", "csr, varied", "CuPy"): "a row belongs to one thread; cuSPARSE shares out long rows",
    ("ladders", "chain, 1:", "CuPy"): "with one node the call counts, and a replay of CuPy's looks at no arguments",
    ("ladders", "chain, 1:", "raw C"): "with one node the call counts, which comes from Python and looks at its arguments",
    ("ladders", "changed", "CuPy"): "it launches its one kernel anew, and has no graph to patch",
    ("ladders", "changed", "raw C"): (
        "a call comes from Python, which looks at each array and patches each node through cuda.bindings"
    ),
    ("ladders", "branches", "CuPy"): "it records them as a chain, and such kernels gain nothing beside each other",
    ("ladders", "branches", "raw C"): (
        "such kernels take less time than it takes to start them beside each other; `fuse=True` puts them in one"
    ),
}


def reasons(question: str, missed: Iterable[str]) -> list[str]:
    """For the names of missed targets, each reason that is known, once."""
    found: dict[str, None] = {}
    for name in missed:
        for (asked, part, peer), why in _WHY.items():
            if asked == question and name.startswith(part) and f"time of {peer} over" in name:
                found[f"{part.rstrip(':')} against {peer}: {why}."] = None
    return list(found)
