"""Random programs on every backend, against plain Python; and that the generator and the comparison do what they say.

``QGRAPH_FUZZ_SECONDS`` is how long programs run on one backend, the same ones for one ``QGRAPH_FUZZ_SEED``. `make fuzz` runs
others, for as long as one likes.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator

import numpy as np
import pytest

from tests.properties.arguments import ArrayArgument, make
from tests.properties.features import EVERYTHING, features_for
from tests.properties.hunting import drawn, hunt, never_written
from tests.properties.programs import programs
from tests.properties.running import Mismatch, Runner

SECONDS = float(os.environ.get("QGRAPH_FUZZ_SECONDS", "4"))
# What the generator writes at the very least, if it writes enough.
WORDS = (
    *("qgraph.ndrange", "qgraph.serial", "qgraph.graph_do_while", "@qgraph.func", "qgraph.atomic_", "while True", "match "),
    *("break", "continue", "else:", "return ", "range(1, ", ", -1, -1)", ".shape[1]", " if ", " and ", "min("),
)


@pytest.fixture
def runner(backend: str) -> Iterator[Runner]:
    runner = Runner(backend)
    yield runner
    runner.close()


@pytest.mark.parametrize(("real", "share"), [(False, 0.8), (True, 0.2)], ids=["exact", "real"])
def test_programs(runner, real, share):
    seed = int(os.environ.get("QGRAPH_FUZZ_SEED", "1"))
    report = hunt(features_for(runner.backend, real=real), runner, seconds=SECONDS * share, seed=seed)
    print(f"{report.programs} programs on {runner.backend}, seed {seed}")
    assert report.programs > 0
    assert not report.findings, "\n\n".join(f"{f.error}\n\n{f.source}" for f in report.findings)


def test_programs_with_fused_loops(backend):
    """Programs with neighbouring loops, without and with ``fuse``: both say what plain Python says."""
    runner = Runner(backend, (False, True))
    seed = int(os.environ.get("QGRAPH_FUZZ_SEED", "1"))
    report = hunt(features_for(backend, neighbours=True), runner, seconds=SECONDS * 0.4, seed=seed)
    runner.close()
    assert report.programs > 0
    assert not report.findings, "\n\n".join(f"{f.error}\n\n{f.source}" for f in report.findings)


class Plain(Runner):
    """Runs programs as plain Python twice: it must find nothing, and finds what generates bad programs."""

    def _run(self, kernel, arguments):
        return kernel.reference(*arguments)

    def _refuses(self, kernel, arguments, error):
        pass


@pytest.mark.needs("speed")
def test_programs_are_valid():
    runner = Plain("cpu")
    for program in drawn(120, programs(EVERYTHING)):
        runner(program)
    runner.close()


@pytest.mark.needs("speed")
def test_programs_use_the_language():
    assert never_written(programs(EVERYTHING), [*map(re.escape, WORDS), r"(\w+), (\w+) = \2, \1\n"]) == []


def test_a_feature_that_is_off_is_not_used():
    off = EVERYTHING.without("scalars", "functions", "calls", "whiles", "matches", "atomics")
    sources = "".join(program.source for program in drawn(60, programs(off)))
    assert "for i0 in range(" in sources
    assert not [word for word in ("s0 =", "@qgraph.func", "match ", "atomic_") if word in sources]


def test_equal_arguments_are_made_each_time():
    for program in drawn(40, programs(EVERYTHING)):
        for first, second in zip(*(make(program.arguments, 1, program.seed) for _ in range(2)), strict=True):
            np.testing.assert_array_equal(first, second)


class Wrong(Plain):
    """A backend that is wrong now and then: it forgets the last store to an array that has a 3 in it."""

    def _run(self, kernel, arguments):
        before = [np.copy(argument) for argument in arguments]
        result = kernel.reference(*arguments)
        for argument, old in zip(arguments, before, strict=True):
            if isinstance(argument, np.ndarray) and 3 in argument:
                argument[...] = old
        return result


@pytest.mark.needs("speed")
def test_a_wrong_backend_is_found_and_the_program_made_small():
    runner = Wrong("cpu")
    report = hunt(dataclasses.replace(EVERYTHING, returns=False), runner, seconds=60, seed=1)
    runner.close()
    (finding,) = report.findings
    assert finding.error.startswith(Mismatch.__name__)
    body = finding.source.split("def program")[1].split("# Arguments")[0]
    assert len(body.strip().splitlines()) <= 5, finding.source


def test_arrays_share_memory_where_they_should():
    shared = 0
    for program in drawn(150, programs(EVERYTHING)):
        for call in range(program.calls):
            values = make(program.arguments, call, program.seed)
            memories: dict[int, np.ndarray] = {}
            for argument, value in zip(program.arguments, values, strict=True):
                if not isinstance(argument, ArrayArgument):
                    continue
                first = memories.setdefault(argument.array.memory, value)
                if argument.alias and argument.alias[call] and value.size > argument.shift and first is not value:
                    assert np.may_share_memory(first, value)
                    shared += 1
    assert shared > 5
