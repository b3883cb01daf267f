"""Random programs of whole arrays on every backend, against plain Python; and that their generator does what it says.

`make fuzz FUZZ=--arrays` runs others, for as long as one likes.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import qgraph
from tests.properties.features import EVERYTHING, features_for
from tests.properties.hunting import drawn, hunt, never_written
from tests.properties.running import Mismatch
from tests.properties.whole.programs import array_programs
from tests.properties.whole.running import ArrayRunner

SECONDS = float(os.environ.get("QGRAPH_FUZZ_SECONDS", "4"))
SEED = int(os.environ.get("QGRAPH_FUZZ_SEED", "1"))
# What the generator writes at the very least, if it writes enough.
WORDS = (
    *("np.where(", "np.roll(", "np.flip(", "np.concatenate(", "np.stack(", "np.reshape(", "ravel(", ".T", "np.transpose("),
    *(".copy()", "np.linspace(", "np.arange(", "np.eye(", "np.zeros(", "np.full(", "_like(", ".outer(", "[:, None]", " @ "),
    *(
        "np.sum(",
        "np.min(",
        "argmax(",
        "np.any(",
        "qgraph.serial(",
        "while ",
        "else:",
        "@qgraph.func",
        "+= ",
        "::-1",
    ),
    *(
        "qgraph.vec(",
        "qgraph.random.",
        ".astype(",
        "np.repeat(",
        "np.triu(",
        "np.diag(",
        "np.cumsum(",
        "np.sort(",
    ),
    *("axis=(", "keepdims=True", "argmin(", "ptp(", "var(", "prod(", "mean(", "count_nonzero(", ", 1), np."),
    *("np.take(", ".at(", "[np.array(", "[:, np.arange(", "flatnonzero(", "np.extract(", "[:len(", "0:1", ".clip("),
    *("np.select(", "np.histogram(", "np.bincount(", "weights=", "np.digitize(", "[:c0.size] = "),
)
# Names that change places; stores and updates by masks and by arrays of indices.
SHAPES = (
    r"(\w+), (\w+) = \2, \1\n",
    r"\n *\w+\[[^\n]* [<>!=]+ \d\] = ",
    r"\n *\w+\[[^\n]* [<>!=]+ \d\] [-+]= ",
    r"\n *\w+\[[^\n]* % \d\] = ",
    r"\n *\w+\[[^\n]* - \d\] [-+]= ",
)


class Plain(ArrayRunner):
    """Runs programs as plain Python twice."""

    def _run(self, kernel, arguments):
        return kernel.reference(*arguments)


def test_array_programs(backend):
    runner = ArrayRunner(backend)
    report = hunt(features_for(backend, arrays=True), runner, seconds=SECONDS, seed=SEED)
    runner.close()
    print(f"{report.programs} programs on {backend}, seed {SEED}, {runner.refused.total()} calls refused: {runner.refused}")
    assert report.programs > 0
    assert not report.findings, "\n\n".join(f"{f.error}\n\n{f.source}" for f in report.findings)


@pytest.mark.needs("compiler")
def test_array_programs_are_compiled_for_cuda():
    runner = ArrayRunner("cpu", ptx=True)
    report = hunt(features_for("cpu", arrays=True), runner, seconds=SECONDS * 0.4, count=4, seed=SEED)
    runner.close()
    assert not report.findings, "\n\n".join(f"{f.error}\n\n{f.source}" for f in report.findings)


@pytest.mark.needs("speed")
def test_programs_are_valid():
    runner = Plain("cpu")
    for program in drawn(80, array_programs(EVERYTHING)):
        runner(program)
    runner.close()


@pytest.mark.needs("speed")
def test_programs_use_the_language():
    assert never_written(array_programs(EVERYTHING), [*map(re.escape, WORDS), *SHAPES]) == []


class Widened(Plain):
    """A backend that makes another type of what is returned."""

    def _run(self, kernel, arguments):
        result = super()._run(kernel, arguments)
        return result.astype(np.complex128) if isinstance(result, np.ndarray) else result


class Refusing(Plain):
    """A backend that refuses, after it has changed an argument."""

    def _run(self, kernel, arguments):
        super()._run(kernel, arguments)
        raise qgraph.ArgumentError("no", None, hint="another")


@pytest.mark.needs("speed")
@pytest.mark.parametrize(("runner", "said"), [(Widened, "has type complex128"), (Refusing, "was changed by a call")])
def test_what_a_wrong_backend_does_is_found(runner, said):
    wrong = runner("cpu")
    report = hunt(features_for("cpu", arrays=True), wrong, seconds=30, seed=1, shrink=5)
    wrong.close()
    (finding,) = report.findings
    assert finding.error.startswith(Mismatch.__name__)
    assert said in finding.error
