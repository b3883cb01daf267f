"""The programs of NPBench as they are written in JAX give what plain Python does."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qgraph
from examples.npbench.programs import PROGRAMS

jax = pytest.importorskip("jax")
for module in ("data", "grids", "linear_algebra"):
    importlib.import_module(f"examples.npbench.{module}")
    importlib.import_module(f"benchmarks.npbench_in_jax.{module}")
VERSIONS = importlib.import_module("benchmarks.npbench_in_jax.versions").VERSIONS


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """Floats and integers of 64 bits, for these tests only."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def test_all_are_here() -> None:
    assert VERSIONS.keys() == PROGRAMS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parameters_are_those_of_the_program(name: str) -> None:
    version, program = VERSIONS[name], PROGRAMS[name]
    names = [*inspect.signature(program.function).parameters]
    assert version.function.__module__.rpartition(".")[2] == program.function.__module__.rpartition(".")[2]
    assert [*inspect.signature(version.function).parameters] == names
    assert {*version.static, *version.changes} <= {*names}


def same(expected: Any, found: Any) -> None:
    expected, found = np.asarray(expected), np.asarray(found)
    assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
    scale = np.max(np.abs(expected), initial=1.0)
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-9 * scale, equal_nan=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_version_is_right(name: str) -> None:
    program, version = PROGRAMS[name], VERSIONS[name]
    names = [*inspect.signature(program.function).parameters]
    run = jax.jit(version.function, static_argnames=version.static)
    for size in (program.size, program.size + 5):
        given = program.make(size)
        after = copy.deepcopy(given)
        result = qgraph.kernel(backend="cpu")(program.function).reference(*after)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        changed = dict(zip(names, after, strict=True))
        for each, before in zip(names, given, strict=True):
            if each not in version.changes:
                same(before, changed[each])
        found = run(*given)
        assert isinstance(found, tuple)
        for one, other in zip((*results, *(changed[each] for each in version.changes)), found, strict=True):
            same(one, other)
