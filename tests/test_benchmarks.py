"""The programs that are measured beside qgraph's peers give the right answer, and a wrong one would be noticed."""

from __future__ import annotations

import importlib
import json

import pytest

from benchmarks import ladders, parts
from benchmarks.ladders import RUNGS
from benchmarks.programs import PROGRAMS, begin, checked
from benchmarks.rungs import in_qgraph
from benchmarks.timing import Timing


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_right(program):
    for problem in importlib.import_module(f"benchmarks.whole.{program}.problem").problems(True):
        run, found = checked(program, "qgraph", problem, "cpu")
        run.action()
        run.wait()
        assert all(count > 0 for count in found.values())


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
