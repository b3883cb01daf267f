"""Why qgraph is behind a peer where it is, and what the limit is: the README says it below the figures."""

from __future__ import annotations

from collections.abc import Iterable

# By question, how the names of its targets begin and the peer that they name; without a peer, what is in their names.
_WHY = {
    ("programs", "fdtd", "CuPy"): (
        "its graph has the number of steps built in, and is built again for another one. In qgraph's, which runs any number, "
        "some steps together are a turn of the while node, and kernels of the last turns look whether a step is left for them"
    ),
    ("programs", "boltzmann", "CuPy"): (
        "its graph has the number of steps built in; in qgraph's, which runs any number, some steps are a turn of the while "
        "node, and steps of the last turns look whether they are left. qgraph's kernel has more instructions: it compares "
        "places as numbers of 64 bits"
    ),
    ("programs", "pagerank", "Warp"): "the two take the same time, within a thousandth",
    ("ladders", "chain, 1:", "CuPy"): "with one node the call counts, and a replay of CuPy's looks at no arguments",
    ("ladders", "chain, 1:", "Warp"): "with one node the call counts, and a launch of Warp's graph looks at no arguments",
    ("ladders", "chain, 1:", "raw C"): "with one node the call counts, which comes from Python and looks at its arguments",
    ("ladders", "chain, 50:", "JAX"): "XLA makes one loop of them all, as `fuse=True` does",
    ("ladders", "changed, 1:", "Warp"): "it launches its one kernel anew, and has no graph to patch",
    ("ladders", "changed", "CuPy"): "it launches its one kernel anew, and has no graph to patch",
    ("ladders", "changed", "raw C"): "a call comes from Python, which looks at each array",
    ("ladders", "branches, 1:", "CuPy"): "with one node the call counts, and a replay of CuPy's looks at no arguments",
    ("ladders", "branches, 1:", "raw C"): "with one node the call counts, which comes from Python and looks at its arguments",
    ("ladders", "branches, 2:", "raw C"): (
        "two kernels at once are faster in raw C than two in a row, which is what qgraph makes of them, as its own two at once "
        "took longer still (1.31 of raw C's two in a row at commit 31bed9e); why is not known"
    ),
    ("independent", "2 loops of", ""): (
        "two kernels take 0.4 to 1.4 us more in qgraph than at once in raw C, and why is not known; "
        "qgraph's calls are on the legacy stream, raw C's on one of its own"
    ),
    ("independent", "8 loops of 1,048,576", ""): "within 3% of raw C's",
    ("independent", "16 loops of", ""): (
        "at once they take longer than raw C's, and at 4,194,304 elements less; why is not known"
    ),
    ("argument_cost", "a bound call", ""): (
        "the driver is asked which context is current, the context variable which stream; and threads are kept apart"
    ),
    ("argument_cost", "PyTorch: the last", ""): (
        "PyTorch is asked where each tensor lies, and whether it is negated when it is read. The machine of this run was slow: "
        "in the run before, of commit 4a7a81c, whose cuGraphLaunch took 1.36 to 1.52 us, it was 1.12 us"
    ),
    (
        "argument_cost",
        "Numba: the last",
        "",
    ): "a weak reference to each array is asked, and one to its memory",
    (
        "argument_cost",
        "8 sets in turn",
        "",
    ): "it was 1.04 x in two runs and 1.12 x in one; why it differs is not known",
    ("argument_cost", "CuPy: the last", ""): (
        "CuPy is asked for its stream, and each array for its dimensions. The machine of this run was slow: "
        "in the run before, of commit 4a7a81c, whose cuGraphLaunch took 1.36 to 1.52 us, it was 0.68 us"
    ),
    ("argument_cost", "65 fields: the last", ""): "each of the arrays is looked at",
}


def reasons(question: str, missed: Iterable[str]) -> list[str]:
    """For the names of missed targets, each reason that is known, once."""
    found: dict[str, None] = {}
    for name in missed:
        for (asked, part, peer), why in _WHY.items():
            if asked == question and (name.startswith(part) and f"time of {peer} over" in name if peer else part in name):
                found[f"{part.rstrip(':')}{f' against {peer}' if peer else ''}: {why}."] = None
    return list(found)
