"""Every planted fault is found, with its class and its lines, and nothing besides."""

from __future__ import annotations

import inspect
import re
import warnings

import pytest

import qgraph
from tests.check import planted_bounds, planted_races

pytestmark = pytest.mark.needs("compiler")

# Of each kernel: its module, arguments, and the class of each fault that is no exception.
KERNELS = {
    "race-vectors": (planted_races, "of_vectors", "vectors", qgraph.DataRaceError),
    "race-views": (planted_races, "of_views", "views", qgraph.DataRaceError),
    "race-matrices": (planted_races, "of_matrices", "matrices", qgraph.DataRaceError),
    "race-structures": (planted_races, "of_structures", "structures", qgraph.DataRaceError),
    "bounds-vectors": (planted_bounds, "of_vectors", "vectors", qgraph.BoundsError),
    "bounds-matrices": (planted_bounds, "of_matrices", "matrices", qgraph.BoundsError),
    "unwritten": (planted_bounds, "of_temporaries", "temporaries", qgraph.UnwrittenError),
}


def faults_of(name):
    """The numbers of the faults that a kernel has."""
    module, kernel, _, _ = KERNELS[name]
    source = inspect.getsource(getattr(module, kernel).__wrapped__)
    return [int(number) for number in re.findall(r"if which == (\d+)", source)]


FAULTS = [(name, number) for name in KERNELS for number in faults_of(name)]


def lines(module, kernel, word, number):
    """The lines of ``word number`` in a comment: in the kernel, else in the functions that it calls."""
    text, first = inspect.getsourcelines(getattr(module, kernel).__wrapped__)
    pattern = re.compile(rf"#.*\b{word} {number}\b")
    own = {first + at for at, line in enumerate(text) if pattern.search(line)}
    functions = inspect.getsource(module).split("@qgraph.kernel")[0].splitlines()
    return own or {1 + at for at, line in enumerate(functions) if pattern.search(line)}


def test_there_are_enough():
    assert len(FAULTS) >= 60


@pytest.mark.parametrize(("name", "number"), FAULTS, ids=[f"{name}-{number}" for name, number in FAULTS])
def test_fault_is_found(name, number):
    module, kernel, arguments, error = KERNELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error) as caught:
            getattr(module, kernel).check(number, *getattr(module, arguments)())
    found = caught.value
    assert type(found) is error
    assert {found.span.line} == lines(module, kernel, "fault", number)
    also = lines(module, kernel, "also", number)
    assert also <= {span.line for _, span in found.also} | {found.span.line}
    assert found.findings[0] is found
    assert {type(each) for each in found.findings} == {error}
