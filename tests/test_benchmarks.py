"""The programs that are measured beside qgraph's peers give the right answer, and a wrong one would be noticed."""

from __future__ import annotations

import importlib

import pytest

from benchmarks import parts
from benchmarks.programs import PROGRAMS, begin, checked


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
