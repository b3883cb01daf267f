"""Runs a random program on a backend, and compares it with the same function as CPython runs it."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import qgraph


class Mismatch(AssertionError):
    """A backend gave another answer than CPython; the text holds the program."""


def load(source: str, folder: str) -> Any:
    """The function ``program`` of a module with this source, in a file that stays as long as ``folder``."""
    path = Path(folder) / f"program_{abs(hash(source))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def arguments(n: int, m: int, seed: int) -> list[Any]:
    """Fresh arguments of ``program``: small integers in every array."""
    random = np.random.default_rng(seed)

    def small(*shape: int, dtype: Any = np.int64) -> np.ndarray:
        return random.integers(0, 9, shape).astype(dtype)

    integers = [small(n) for _ in range(3)]
    floats = [small(n, dtype=np.float64) for _ in range(2)]
    flags = [np.array(0) for _ in range(3)]
    return [*integers, *floats, small(n, dtype=np.int32), small(m, n), np.zeros(0), *flags, np.array(3), n, m, 2]


def run(source: str, backend: str, *, n: int, m: int, seed: int, alias: bool = False, **options: Any) -> None:
    """Run ``source`` on ``backend`` and as plain Python.

    Raises:
        Mismatch: they differ in an array or in what is returned.
    """
    with tempfile.TemporaryDirectory() as folder:
        function = load(source, folder)
        kernel = qgraph.kernel(backend=backend, **options)(function)
        actual, expected = arguments(n, m, seed), arguments(n, m, seed)
        if alias:
            # Two names of one array, where the program does not write one of them through the other's loop.
            actual[6], expected[6] = actual[6][:, ::-1], expected[6][:, ::-1]
        wanted = kernel.reference(*expected)
        if backend == "cuda":
            given = [qgraph.asarray(x, backend="cuda") if isinstance(x, np.ndarray) else x for x in actual]
            found = kernel(*given)
            actual = [qgraph.to_numpy(x) if not isinstance(x, int) else x for x in given]
        else:
            found = kernel(*actual)
        for name, left, right in zip("a b c d e g h z f0 f1 f2 k n m p".split(), actual, expected, strict=True):
            if not np.array_equal(left, right):
                raise Mismatch(f"{name} is {left}, CPython has {right}\n(n={n}, m={m}, seed={seed}, {backend})\n{source}")
        if wanted is not None and tuple(found) != tuple(wanted):
            raise Mismatch(f"returned {found}, CPython {wanted}\n(n={n}, m={m}, seed={seed}, {backend})\n{source}")
