"""``kernel.profile``: the same answer, exact counts, totals that add up, slices that lie in each other."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.ir.profile_places import CAPACITY
from qgraph.profiling.profile import Profile
from tests.conftest import thorough


def halving(x: Any, tol: float) -> int:
    it = 0
    delta = tol + 1.0
    while delta > tol:
        delta = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            delta = max(delta, x[i])
        for i in range(x.shape[0]):
            x[i] = x[i] + 0.0
        it += 1
    return it


def nested(x: Any, n: int, flag: Any) -> tuple[float, Any]:
    for step in qgraph.serial(range(n)):
        for _ in qgraph.serial(range(2)):
            for i in range(x.shape[0]):
                x[i] += step
        if flag[0] > step:
            for i in range(x.shape[0]):
                x[i] *= 2
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    return total, x


def profiled(rig: Any, function: Any, *args: Any, gaps: bool = False, **options: Any) -> tuple[Profile, float]:
    """The profile of a call, and the nanoseconds that it took; its results are those of plain Python."""
    kernel = rig.kernel(function, **options)
    plain = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
    given = [rig.device(each) if isinstance(each, np.ndarray) else each for each in args]
    wanted = kernel.reference(*plain)
    began = time.perf_counter_ns()
    profile = (kernel.profile_gaps if gaps else kernel.profile)(*given)
    wall = time.perf_counter_ns() - began
    for mine, theirs in zip(given, plain, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(mine), theirs)
    np.testing.assert_equal(_on_host(profile.result), wanted)
    return profile, wall


def _on_host(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_on_host, value))
    return qgraph.to_numpy(value) if hasattr(value, "shape") else value


def lie_in_each_other(profile: Profile) -> None:
    """Slices of statements at one level follow each other, iterations one another; what is in a loop lies inside of it."""
    for each in profile.slices:
        assert each.start <= each.stop
    assert all(0 <= row.gap <= row.total for row in profile.rows)
    for number in range(len(profile.rows)):
        mine = [each for each in profile.slices if each.row == number and each.iteration is not None]
        for one, following in zip(mine, mine[1:], strict=False):
            assert following.iteration == 0 or following.start == one.stop
    parents: dict[int, int] = {}
    path: list[int] = []
    for number, row in enumerate(profile.rows):
        path = [*path[: row.depth], number]
        if row.depth:
            parents[number] = path[-2]
    for number, parent in parents.items():
        around = [each for each in profile.slices if each.row == parent]
        for each in profile.slices:
            if each.row == number and each.iteration is None:
                assert any(other.start <= each.start and each.stop <= other.stop for other in around)
    top = sorted(
        (each for each in profile.slices if profile.rows[each.row].depth == 0 and each.iteration is None),
        key=lambda each: each.stop,
    )
    assert all(one.stop <= next_.start for one, next_ in zip(top, top[1:], strict=False))
    assert sum(each.stop - each.start for each in top) == profile.total


@pytest.mark.parametrize("options", [{}, *thorough({"fuse": True})])
@pytest.mark.parametrize("gaps", [False, True])
def test_counts_are_exact_and_parts_add_up(rig: Any, options: dict[str, bool], gaps: bool) -> None:
    profile, wall = profiled(rig, halving, np.ones(8), 0.1, gaps=gaps, **options)
    assert profile.result == 4
    (loop,) = [row for row in profile.rows if row.kind == "loop"]
    assert loop.count == 4
    inside = [row for row in profile.rows if row.depth == 1]
    assert len(inside) >= 2
    assert {row.count for row in inside} == {4}
    assert 0 < sum(row.total for row in inside) <= loop.total <= profile.total
    if rig.backend != "cuda":
        assert profile.total <= wall
    if not gaps or rig.backend == "cpu" or "in one block" in loop.form:
        assert not any(row.gap for row in profile.rows)
    else:
        assert all(row.gap > 0 for row in inside)
        assert loop.gap >= sum(row.gap for row in inside)
    lie_in_each_other(profile)
    assert [each.iteration for each in profile.slices if profile.rows[each.row] is loop] == [0, 1, 2, 3, None]


def test_loops_in_loops_and_branches(rig: Any) -> None:
    profile, _ = profiled(rig, nested, np.arange(5.0), 3, np.array([2]))
    assert [row.count for row in profile.rows if row.kind == "loop"] == [3, 6]
    (branch,) = [number for number, row in enumerate(profile.rows) if row.kind == "branch"]
    assert (profile.rows[branch].count, profile.rows[branch + 1].count) == (3, 2)
    lie_in_each_other(profile)


def test_what_it_looks_like(rig: Any, tmp_path: Any) -> None:
    profile, _ = profiled(rig, nested, np.arange(5.0), 3, np.array([2]))
    assert repr(profile) == str(profile)
    text = str(profile).splitlines()
    first, last = profile.source[1:]
    assert len(text) >= 2 + last - first + 1
    (line,) = [each for each in text if each.endswith("for step in qgraph.serial(range(n)):")]
    total, count, *_ = line.split()
    loop = next(row for row in profile.rows if row.kind == "loop")
    assert (float(total), int(count)) == (pytest.approx(loop.total / 1e3, abs=0.06), 3)
    assert profile.to_dict()["rows"][profile.rows.index(loop)]["count"] == 3
    trace = json.loads(profile.to_perfetto(tmp_path / "trace.json"))
    assert trace == json.loads((tmp_path / "trace.json").read_text())
    events = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    assert len(events) == len(profile.slices)
    assert {"iteration 0", "iteration 1", "iteration 2"} <= {each["name"] for each in events}


def test_a_timeline(rig: Any) -> None:
    pytest.importorskip("matplotlib")
    profile, _ = profiled(rig, nested, np.arange(5.0), 3, np.array([2]))
    (axes,) = profile.plot().axes
    assert len(axes.collections) == len(profile.rows)


@pytest.mark.parametrize("n", [0, 3])
def test_a_kernel_that_returns_nothing(rig: Any, n: int) -> None:
    def twice(x: Any) -> None:
        for i in range(x.shape[0]):
            x[i] = 2.0 * x[i]

    profile, _ = profiled(rig, twice, np.ones(n))
    assert profile.result is None
    assert [row.count for row in profile.rows if row.kind == "task"] == [1]


# So many that some are copies in one turn of the loop.
@pytest.mark.parametrize("n", [3, 19])
def test_what_a_graph_runs_side_by_side_has_one_row(rig: Any, n: int) -> None:
    def waves(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any, n: int) -> None:
        for _ in qgraph.serial(range(n)):
            for i in range(a.shape[0]):
                a[i] = a[i] + i
            x[:] = np.fft.fft(a)
            y[:] = np.fft.fft(b)
            z[:] = np.fft.fft(y)
            for i in range(a.shape[0]):
                b[i] = z[i].real / 16
            for i in range(a.shape[0]):
                c[i] = z[i].imag / 16

    arrays = [np.ones(8, dtype=complex) for _ in range(6)]
    kernel = rig.kernel(waves)
    plain = [each.copy() for each in arrays]
    given = [rig.device(each) for each in arrays]
    kernel.reference(*plain, n)
    profile = kernel.profile(*given, n)
    for mine, theirs in zip(given, plain, strict=True):
        np.testing.assert_allclose(qgraph.to_numpy(mine), theirs, rtol=1e-9)
    lie_in_each_other(profile)
    loop, *tasks = profile.rows
    assert [row.count for row in profile.rows] == [n] * (1 + len(tasks))
    first = loop.spans[0].line
    lines = [[span.line - first for span in row.spans] for row in tasks]
    assert (f"with line {first + 3}  {first + 4:4d}" in str(profile)) == (rig.backend != "cpu")
    assert lines == ([[1], [3], [4], [5], [6], [8]] if rig.backend == "cpu" else [[1], [3, 4], [5], [6, 8]])


@pytest.mark.needs("compiler")
def test_the_last_stamps_are_kept(rig: Any) -> None:
    def many(x: Any, n: int) -> None:
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                x[i] += 1

    n = CAPACITY
    profile, _ = profiled(rig, many, np.ones(1), n)
    loop = next(row for row in profile.rows if row.kind == "loop")
    assert loop.count == n
    iterations = [each for each in profile.slices if each.iteration is not None]
    assert CAPACITY - 4 <= len(iterations) <= CAPACITY
    assert sum(each.stop - each.start for each in iterations) <= profile.total


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("what", ["times", "gaps"])
def test_kernels_of_the_gpu_read_its_global_timer(what: Any) -> None:
    kernel = qgraph.kernel(backend="cuda")(halving)
    plain = "".join(kernel.ptx(np.ones(8), 0.1).values())
    assert "%globaltimer" not in plain
    nodes = len(kernel.plan(np.ones(8), 0.1).nodes)
    kernel._profiles = what
    kernel.clear_cache()
    texts = kernel.ptx(np.ones(8), 0.1)
    stamped = [text for text in texts.values() if "%globaltimer" in text]
    # Not by the one that clears the array, nor by the one behind copies of a loop that hands its results on.
    assert len(stamped) == len(texts) - 2
    for text in stamped:
        assert text.index("griddepcontrol.wait") < text.index("%globaltimer")
    # For launch gaps all of them, but for the last stamp, tell when their blocks end.
    ends = sum("max.s64" in text[text.index("%globaltimer") :] for text in stamped)
    assert ends == (len(stamped) - 1 if what == "gaps" else 0)
    # Those that the graph has anyway: besides them what clears the array, and the last stamp.
    assert len(kernel.plan(np.ones(8), 0.1).nodes) == nodes + 2


def test_bandwidth(rig: Any) -> None:
    """Of loops whose bytes follow from their code: two neighbours that are read are one element of memory an iteration."""
    given = [rig.device(np.ones(rig.size(1000))) for _ in range(2)]
    profile = rig.kernel(neighbours).profile(*given, 3)
    outer, inner, least = profile.rows
    assert (outer.moved, outer.bandwidth) == (None, None)
    assert inner.moved == 16 * (len(given[0]) - 2)
    assert inner.bandwidth == inner.moved * 3 / inner.total
    assert least.moved is None
    assert f"{inner.bandwidth:.1f}  " in str(profile)
    assert [row["bytes"] for row in profile.to_dict()["rows"]] == [None, inner.moved, None]


def test_share_of_a_copy(rig: Any) -> None:
    """Of loops of which the bytes are known; a copy is not measured on the simulator, nor where no loop is one of them."""
    given = [rig.device(np.ones(rig.size(100_000))) for _ in range(2)]
    profile = rig.kernel(neighbours).profile(*given, 3)
    shares = [row["share of a copy"] for row in profile.to_dict()["rows"]]
    if rig.backend == "sim":
        assert (profile.copied, *shares) == (None,) * 4
        return
    assert profile.copied is not None
    assert profile.copied > 0.1
    assert shares == [None, profile.rows[1].bandwidth / profile.copied, None]
    assert f" {100 * shares[1]:.0f}%  " in str(profile)


def telling(x: Any, n: int) -> None:
    for it in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1.0
        qgraph.progress(it, x[0] if it != 2 else np.inf)


def test_counters_of_what_is_told(rig: Any) -> None:
    """In a block that watches the kernel a trace has its rows, each when it was told; outside of one there are none."""
    kernel = rig.kernel(telling)
    assert len(kernel.profile(rig.device(np.zeros(4)), 3).history) == 0
    with qgraph.watch(kernel, show=False):
        kernel.profile(rig.device(np.zeros(4)), 3)
        profile = kernel.profile(rig.device(np.zeros(4)), 5)
    assert profile.history["iteration"].tolist() == [0, 1, 2, 3, 4]
    assert profile.history["residual"].tolist() == [1.0, 2.0, np.inf, 4.0, 5.0]
    counters = [each for each in json.loads(profile.to_perfetto())["traceEvents"] if each["ph"] == "C"]
    assert [each["args"] for each in counters] == [{"residual": each} for each in (1.0, 2.0, 4.0, 5.0)]
    turns = [each for each in profile.slices if each.iteration is not None]
    for told, turn in zip(profile.history["time"].tolist(), turns, strict=True):
        assert turn.start <= told <= turns[-1].stop + profile.total


def neighbours(x: Any, y: Any, n: int) -> None:
    for _ in qgraph.serial(range(n)):
        for i in range(1, x.shape[0] - 1):
            y[i] = x[i - 1] + x[i + 1]
    y[0] = 1.0


def in_many_forms(x: Any, y: Any, z: Any, n: int, most: int) -> tuple[float, int]:
    """A counted loop of sweeps, a loop in a loop that a reduction decides, a fill, an empty loop, a copy."""
    for _ in qgraph.serial(range(n)):
        for i in range(1, x.shape[0] - 1):
            y[i] = 0.5 * (x[i - 1] + x[i + 1])
        x, y = y, x
    left = most
    change = 1.0
    for _ in qgraph.serial(range(2)):
        change = 1.0
        while change > 1e-9 and left > 0:
            change = 0.0
            for i in range(1, x.shape[0] - 1):
                y[i] = 0.5 * (x[i - 1] + x[i + 1])
                change = max(change, abs(y[i] - x[i]))
            x, y = y, x
            left -= 1
    for i in range(z.shape[0]):
        z[i] = 0.0
    for i in range(z.shape[0], z.shape[0]):
        z[i] = 1.0
    for i in range(1):
        z[i] = 2.0
    return change, left


@pytest.mark.parametrize("options", [{}, {"graph": False}, *thorough({"fuse": True}, {"fuse": True, "conditional": "host"})])
def test_every_form_has_exact_counts(rig: Any, options: dict[str, bool]) -> None:
    x = np.zeros(rig.size(300))
    x[0] = 1.0
    profile, _ = profiled(rig, in_many_forms, x, x.copy(), x.copy(), 5, 7, **options)
    loops = [row for row in profile.rows if row.kind == "loop"]
    assert [row.count for row in loops] == [5, 2, 7]
    assert {row.count for row in profile.rows if row.depth == 2} == {7}
    assert profile.rows[-1].count == 1
    assert profile.total == sum(row.total for row in profile.rows if row.depth == 0)
    lie_in_each_other(profile)
    mine = profile.rows.index(loops[2])
    iterations = [each.iteration for each in profile.slices if each.row == mine and each.iteration is not None]
    assert iterations == [*range(7)]
    assert {each.row for each in profile.slices} == set(range(len(profile.rows)))


def products(a: Any, x: Any, y: Any, n: int) -> None:
    for _ in qgraph.serial(range(n)):
        y[:] = a @ x
        for i in range(x.shape[0]):
            x[i] = y[i] / 8.0


@pytest.mark.parametrize("n", [1, 3, 21])
def test_nodes_that_are_no_kernels_in_several_iterations_a_turn(rig: Any, n: int) -> None:
    pytest.importorskip("torch" if rig.backend == "cuda" else "scipy")
    profile, _ = profiled(rig, products, np.eye(4) * 8.0, np.arange(4.0), np.zeros(4), n)
    assert [(row.kind, row.count) for row in profile.rows] == [("loop", n), ("task", n), ("task", n)]
    lie_in_each_other(profile)


def test_the_form_of_each_loop(rig: Any) -> None:
    x = np.zeros(rig.size(300))
    given = [rig.device(x.copy()) for _ in range(3)]
    profile = rig.kernel(in_many_forms).profile(*given, 5, 7)
    forms = [row.form for row in profile.rows if row.kind == "loop"]
    if rig.backend != "cpu":
        assert forms[0].startswith("unrolled")
        assert forms[1].startswith("not unrolled: there is a loop")
        assert f": {forms[2]}" in str(profile)
    assert [row["form"] for row in profile.to_dict()["rows"] if row["kind"] == "loop"] == forms
    assert not any(row.form for row in profile.rows if row.kind != "loop")


def many_beside(x: Any, y: Any, n: int) -> float:
    """Loops that have no order, in a device loop and outside of it."""
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1.0
        for i in range(y.shape[0]):
            y[i] *= 2.0
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    other = 0.0
    for i in range(y.shape[0]):
        other += y[i]
    return total - other


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("function", [halving, nested, in_many_forms, many_beside])
def test_the_plan_is_the_one_without_a_profile(function: Any, fuse: bool) -> None:
    """The same kernels in the same forms; those that have stamps come one after another."""
    made = {halving: (np.ones(8), 0.1), nested: (np.arange(5.0), 3, np.array([2])), many_beside: (np.ones(8), np.ones(8), 3)}
    args = made.get(function, (*(np.ones(9) for _ in range(3)), 5, 7))
    kernel = qgraph.kernel(backend="cuda", fuse=fuse)(function)
    plain = kernel.plan(*args)
    kernel._profiles = "gaps"
    stamped = kernel.plan(*args)
    new = [node for node in stamped.nodes if node.task is not None and node.task.role == "start"]
    kept = [node for node in stamped.nodes if node not in new]
    names = [[[task.name for task in node.tasks] for node in nodes] for nodes in (kept, plain.nodes)]
    assert names[0] == names[1]
    for mine, theirs in zip(kept, plain.nodes, strict=True):
        assert (mine.kind, mine.copies, mine.note) == (theirs.kind, theirs.copies, theirs.note)
    after: dict[int, set[int]] = {}
    for index in reversed(range(len(stamped.nodes))):
        following = {late for early, late in stamped.edges if early == index}
        after[index] = following.union(*(after[each] for each in following))
    for region in stamped.regions:
        in_order = [index for index in region.nodes if stamped.nodes[index].stamp or stamped.nodes[index].control is not None]
        assert all(late in after[early] for early, late in itertools.pairwise(in_order))
    assert all(late > early for early, late in stamped.edges)
