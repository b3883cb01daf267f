"""The programs that are measured beside qgraph's peers give the right answer, and a wrong one would be noticed."""

from __future__ import annotations

import importlib
import itertools
import json

import numpy as np
import pytest

import benchmarks.memory.in_qgraph as memory_loops
import qgraph
from benchmarks import (
    cpu_programs,
    ladders,
    memory_bound,
    npbench,
    npbench_sizes,
    overlapped_tiles,
    parts,
    raw_tiles,
    reductions,
    shapes,
    small_solves,
    startup,
    timing,
)
from benchmarks.ladders import RUNGS
from benchmarks.memory import problems
from benchmarks.programs import PROGRAMS, begin, checked, measure
from benchmarks.raw_c import Missing
from benchmarks.results import Answer
from benchmarks.rungs import in_qgraph
from benchmarks.timing import Timing


def test_programs_of_numpy_have_sizes_and_words():
    assert npbench_sizes.LARGE.keys() == npbench.PROGRAMS.keys()
    assert [npbench.words_and_plain(npbench.PROGRAMS[name])[0] for name in ("crc16", "spmv", "stockham_fft")] == [2, 0, 3]


@pytest.mark.thorough
@pytest.mark.parametrize("program", ["gemm", "spmv", "azimint_naive", "nbody in loops", "azimint_naive in loops"])
def test_programs_on_the_cpu_agree_with_their_rivals(program):
    make, rivals = cpu_programs.RUNS[program]
    kernel = qgraph.kernel(backend="cpu", fuse=True)(cpu_programs.function_of(program))
    # Each ring needs an element.
    args = make(1 if program.startswith("azimint_naive") else 50)
    for rival in rivals.values():
        cpu_programs.check(program, kernel, rival, args)
    with pytest.raises(AssertionError, match=program):
        cpu_programs.check(program, kernel, lambda *given: kernel(*(each * 2 for each in given)), args)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_programs_of_numpy_are_measured():
    answer = npbench.begin("cpu")
    npbench.measure("spmv", answer, True, "cpu")
    rows = {row["peer"]: row for row in answer.rows}
    assert rows.keys() == {"qgraph", npbench.FUSED, "NumPy", "Numba"}
    assert rows["qgraph"]["words"] == 0
    assert 0 < rows["qgraph"]["new process, s"]
    assert {name.split(": ")[1] for name in answer.missing} == {"CuPy", "JAX"}


def test_a_wrong_answer_of_a_peer_is_noticed():
    way = npbench.Way(lambda x: (x * 2,), lambda each: each, np.copy)
    given = (np.arange(3.0),)
    assert npbench._checked(lambda: way, given, (0,), (np.arange(3.0) * 2,)) is way
    for wrong in (np.arange(3.0), np.arange(3) * 2, np.arange(4.0) * 2):
        with pytest.raises(AssertionError):
            npbench._checked(lambda: way, given, (0,), (wrong,))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_right(program):
    for problem in importlib.import_module(f"benchmarks.whole.{program}.problem").problems(True):
        run, found = checked(program, "qgraph", problem, "cpu")
        run.action()
        run.wait()
        assert all(count > 0 for count in found.values())


@pytest.mark.parametrize("program", PROGRAMS)
def test_bytes_and_operations_of_a_program_grow_with_its_size(program):
    (small, large) = (
        importlib.import_module(f"benchmarks.whole.{program}.problem").problems(quick)[0] for quick in (True, False)
    )
    for few, more in ((small.traffic, large.traffic), (small.operations, large.operations)):
        assert few is more is None or 0 < few < more


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_wrong_answer_is_noticed(program):
    problem = importlib.import_module(f"benchmarks.whole.{program}.problem").problems(True)[0]
    run = importlib.import_module(f"benchmarks.whole.{program}.in_qgraph").make(problem, "cpu")
    run.action()
    run.wait()
    found = {name: value * 1.1 + 1 if hasattr(value, "shape") else value for name, value in run.answer().items()}
    with pytest.raises(AssertionError):
        problem.check(found)


def test_a_peer_with_a_wrong_answer_is_missing_and_qgraph_is_not_forgiven():
    answer = begin("cpu")

    def wrong():
        raise AssertionError("off by one")

    assert parts.attempt(answer, "fdtd", "Warp", wrong) is None
    assert answer.missing == {"fdtd: Warp": "wrong answer: off by one"}
    with pytest.raises(AssertionError):
        parts.attempt(answer, "fdtd", "qgraph", wrong)


def test_a_peer_in_which_a_program_is_not_written_is_not_missing():
    answer = begin("cpu")
    measure("boltzmann3", answer, True, "cpu")
    assert (
        {"qgraph", "qgraph, fuse=True"} <= {row["peer"] for row in answer.rows} <= {"qgraph", "qgraph, fuse=True", "Quadrants"}
    )
    assert set(answer.missing) <= {"CuPy", "Quadrants"}


def test_a_peer_that_is_ahead_misses_the_target():
    row = {"program": "fdtd", "size": "64^2"}
    rows = [{**row, "peer": "qgraph", "ratio": 1.0}, {**row, "peer": "Warp", "ratio": 0.9}]
    (target,) = parts.targets(rows, "program")
    assert not target.met


@pytest.mark.parametrize("ladder", RUNGS)
def test_a_rung_is_right(ladder, monkeypatch):
    monkeypatch.setattr(ladders, "HOST", (2, 4))
    measured = ladders.checked(ladder, "qgraph", 2, "cpu", True)()
    assert measured.samples == 3


def test_a_wrong_rung_is_noticed():
    made = in_qgraph.chain(2, "cpu")
    with pytest.raises(AssertionError):
        ladders._call(made, calls=2, value=2, quick=True)


def test_a_start_is_taken_apart(tmp_path):
    found = startup._start("in_qgraph", "cpu", folder=str(tmp_path))
    assert list(found["marks"]) == ["import numpy", "import qgraph", "an array", "the call", "first result"]
    assert sorted(found["marks"].values()) == list(found["marks"].values())
    answer = Answer("startup", "", ())
    startup._steps(answer, "qgraph", [found["marks"]])
    *steps, whole = [row["ms"] for row in answer.rows]
    assert sum(steps) == pytest.approx(whole, abs=0.1)


def test_a_start_that_fails_is_missing(tmp_path):
    with pytest.raises(Missing, match="no_such_start"):
        startup._start("no_such_start", folder=str(tmp_path))


@pytest.mark.needs("compiler")
def test_compiling_is_taken_apart(tmp_path):
    answer = Answer("startup", "", ())
    startup._cold(answer, ("jacobi",), str(tmp_path))
    assert [row["step"] for row in answer.rows] == ["plan", "compile and link", "in all"]
    assert all(row["ms"] > 0 for row in answer.rows)
    assert "a loop of 6 in 1 kernels" in answer.rows[0]["what"]


def test_rows_of_other_parts_are_kept_at_the_same_commit_only(tmp_path, monkeypatch):
    old = begin("cpu")
    parts.add_rows(old, "fdtd", "64^2", {"qgraph": Timing.of([2.0]), "Warp": Timing.of([3.0])}, {})
    old.missing["fdtd: CuPy, 64^2"] = "not there"
    (tmp_path / "programs_cpu.json").write_text(json.dumps(old.as_json()))
    new = begin("cpu")
    parts._keep(new, {"fdtd"}, tmp_path)
    assert [row["ratio"] for row in new.rows] == [1.0, 1.5]
    assert new.missing == old.missing
    other = begin("cpu")
    monkeypatch.setenv("QGRAPH_COMMIT", "another")
    parts._keep(other, {"fdtd"}, tmp_path)
    assert other.rows == []


def _memory_problems():
    return [make() for operation in memory_bound.OPERATIONS for make in problems.QUICK[operation]]


@pytest.mark.parametrize("problem", _memory_problems(), ids=lambda problem: f"{problem.operation}, {problem.size}")
def test_a_memory_bound_loop_is_right(problem):
    arrays = memory_bound.on_device(problem, "cpu")
    for make_run in memory_loops.MAKERS[problem.operation].values():
        run = memory_bound.checked(make_run, problem, arrays, "cpu")
        for change in (
            lambda y: np.nextafter(y, np.float32(np.inf)) * np.float32(1.001),
            lambda y: y * np.nan,
            lambda y: y[1:],
        ):
            with pytest.raises(AssertionError):
                problem.check(change(run.answer()["y"]))


def test_a_memory_bound_answer_written_where_nothing_may_be_is_noticed():
    problem = problems.stencil(5, 7)
    y = problem.wanted(slice(None))
    problem.check(y)
    with pytest.raises(AssertionError, match=r"instead of nan at \(0, 0\)"):
        problem.check(np.nan_to_num(y))


@pytest.mark.parametrize("problem", [problems.poisson(5, 7), problems.varied(300)], ids=["poisson", "varied"])
def test_a_sparse_matrix_of_the_benchmarks_is_canonical(problem):
    columns, starts = problem.inputs["columns"], problem.inputs["starts"]
    assert starts[0] == 0
    assert starts[-1] == columns.size == problem.inputs["values"].size
    for first, last in itertools.pairwise(starts):
        assert first < last
        assert (np.diff(columns[first:last]) > 0).all()
    assert columns.min() == 0
    assert columns.max() < starts.size - 1


def test_the_poisson_matrix_is_the_laplacian():
    problem = problems.poisson(4, 5)
    grid = np.pad(problem.inputs["x"].astype(np.float64).reshape(4, 5), 1)
    neighbours = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    np.testing.assert_allclose(problem.wanted(slice(None)).reshape(4, 5), 4 * grid[1:-1, 1:-1] - neighbours, rtol=1e-12)


def test_memory_bound_targets_are_against_the_better_peer_and_the_copy():
    answer = memory_bound.begin("cpu")
    times = {"qgraph": 10.0, "qgraph, nest": 8.0, "numba-cuda": 9.0, "CuPy": 12.0}
    parts.add_rows(answer, "stencil", "8 x 8", {peer: Timing.of([time]) for peer, time in times.items()}, {})
    times = {"qgraph": 10.0, "CuPy": 12.0, memory_bound.COPY: 9.5}
    parts.add_rows(answer, "dot", "8", {peer: Timing.of([time]) for peer, time in times.items()}, {})
    found = {target.name: (target.measured, target.met) for target in memory_bound.targets(answer.rows, "operation")}
    assert found == {
        "stencil, 8 x 8: time of numba-cuda over qgraph's": (0.9, False),
        "stencil, 8 x 8: time of numba-cuda over qgraph, nest's": (1.125, True),
        "dot, 8: time of a device copy of as many bytes over qgraph's": (0.95, True),
    }


def test_memory_bound_rows_name_the_peers_that_are_missing():
    answer = memory_bound.begin("cpu")
    memory_bound.measure("stencil", answer, True, "cpu")
    assert [row["peer"] for row in answer.rows] == ["qgraph", "qgraph, nest"]
    assert set(answer.missing) == {"numba-cuda", "CuPy", "stencil: target, 515 x 1030"}
    assert answer.rows[0]["MB"] == round((515 * 1030 + 513 * 1028) * 4 / 1e6, 1)


def test_a_timing_waits_for_the_pace_of_the_machine(monkeypatch):
    seen = []

    def now(pace):
        seen.append(next(paces))
        return seen[-1]

    paces = iter([2.0, 1.0, 1.5, 1.1, 1.0, 5.0])
    monkeypatch.setattr(timing, "_PACE", timing._Pace(best=1.0))
    monkeypatch.setattr(timing._Pace, "now", now)
    timing.await_pace()
    # Until it was fast twice in a row.
    assert seen == [2.0, 1.0, 1.5, 1.1, 1.0]


def test_a_timing_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(timing, "_PACE", timing._Pace(best=1.0, waited=timing._LONGEST_WAIT))
    monkeypatch.setattr(timing._Pace, "now", lambda _pace: 2.0)
    timing.await_pace()


def test_what_reductions_are_measured_against_is_what_it_was():
    assert reductions.unchanged()


@pytest.mark.parametrize("program", reductions.PROGRAMS)
def test_a_convergence_loop_ends_where_numpy_says(program):
    function, _ = reductions.PROGRAMS[program]
    arrays = reductions.begin(program, 12)
    tolerance, steps, value = reductions.wanted(program, 6, arrays)
    found = qgraph.kernel(backend="cpu")(function)(*arrays, tolerance, 60)
    reductions.expect(found, steps, value)
    with pytest.raises(AssertionError):
        reductions.expect((steps + 1, found[1]), steps, value)
    with pytest.raises(AssertionError):
        reductions.expect((steps, found[1] * 1.1), steps, value)


def test_what_shapes_are_measured_against_is_what_it_was():
    assert shapes.unchanged()


@pytest.mark.parametrize("program", shapes.PROGRAMS)
def test_grids_pairs_and_products_are_right(program):
    given = shapes.begin(program, 20)
    found = [array.copy() for array in given]
    qgraph.kernel(backend="cpu")(shapes.PROGRAMS[program][0])(*found)
    shapes.expect(program, found[-1], given)
    found[-1][3] += 0.1
    with pytest.raises(AssertionError):
        shapes.expect(program, found[-1], given)


def test_what_tiles_are_measured_against_is_what_it_was():
    assert raw_tiles.unchanged()


@pytest.mark.parametrize("program", [*overlapped_tiles.PROGRAMS, *overlapped_tiles.PROGRAMS_OF_THREE])
def test_sweeps_are_timed_with_the_form_that_the_plan_says(monkeypatch, program):
    monkeypatch.setattr("qgraph.lowering.loops.overlapped_tiles.LARGE", 0)
    function, count = (overlapped_tiles.PROGRAMS | overlapped_tiles.PROGRAMS_OF_THREE)[program]
    shape = (20, 20) if program in overlapped_tiles.PROGRAMS else (6, 7, 8)
    given = [np.random.default_rng(k).random(shape).astype(np.float32) for k in range(count)]
    row = overlapped_tiles.gpu_times(function, given, backend="cpu")
    assert row["plain"]["median"] > 0
    assert row["fused"]["median"] > 0
    # The CPU has tiles for two axes.
    assert row["form"] == ("tiles" if program in overlapped_tiles.PROGRAMS else "one sweep a pass")


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("program", [*overlapped_tiles.PROGRAMS, *overlapped_tiles.PROGRAMS_OF_THREE])
def test_sweeps_of_the_smallest_size_are_measured_in_tiles(program):
    function, count = (overlapped_tiles.PROGRAMS | overlapped_tiles.PROGRAMS_OF_THREE)[program]
    flat = program in overlapped_tiles.PROGRAMS
    shape = (overlapped_tiles.GPU_SIZES[0],) * 2 if flat else (overlapped_tiles.SIZES_OF_THREE[0],) * 3
    given = [np.zeros(shape, np.float32) for _ in range(count)]
    plan = str(qgraph.kernel(backend="cuda", fuse=True)(function).plan(*given, overlapped_tiles.ITERATIONS))
    assert "in two passes over memory" in plan, plan


def test_small_systems_are_solved_right(monkeypatch):
    monkeypatch.setattr(small_solves, "QUICK", 7)
    answer = small_solves.begin("cpu")
    small_solves.measure("solve 6x6, float32", answer, True, "cpu")
    assert [row["peer"] for row in answer.rows] == ["qgraph", "NumPy"]
    others = set(small_solves.PEERS) - {"NumPy"}
    assert set(answer.missing) == {f"solve 6x6, float32: {peer}" for peer in others}
    (target,) = parts.targets(answer.rows, "systems")
    assert target.name == "solve 6x6, float32, 7: time of NumPy over qgraph's"


def test_a_small_system_with_a_wrong_solution_is_noticed():
    systems = small_solves.SYSTEMS["solve 6x6, float64"]
    a, b, wanted = small_solves.problem(systems, 5)
    wanted[4, 5] *= 1 + 1e-6
    with pytest.raises(AssertionError):
        small_solves.checked(small_solves._qgraph, systems, a, b, wanted, "cpu")
