"""A plugin of pytest that notes what tests specialise: ``pytest -p tests.manifest.recording --manifest FOLDER``.

A kernel then runs as plain Python, so that nothing is compiled for a call, and each specialisation is lowered when its test has
ended. Tests of what a launch did fail that way, which does not matter.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qgraph.dispatch import variant as variants
from qgraph.dispatch.specialisation import Specialisation
from qgraph.kernel import Kernel
from tests.manifest.lowered import lowered

# Tests that are left out, by a part of their name, with the reason.
LEFT_OUT = {
    "tests/examples/test_mains.py": "their sizes are too large for plain Python; the kernels are those of the other tests",
    "test_bench_measures_what_is_there": "it measures, for as long as that takes in plain Python",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--manifest FOLDER``."""
    parser.addoption("--manifest", metavar="FOLDER", help="where to note what was specialised, a file for each process")


def pytest_configure(config: pytest.Config) -> None:
    """Note from now on."""
    if config.getoption("--manifest"):
        config.pluginmanager.register(Recorder(Path(config.getoption("--manifest"))), "manifest-recorder")


class Recorder:
    """Notes the specialisations of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[Specialisation] = []
        self._known: set[object] = set()
        self._found: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is left out; and let tests with float16 run, whose kernels are not compiled here."""
        from tests.conftest import SKIPS

        SKIPS.pop(("cpu", "float16"), None)
        out = [item for item in items if any(part in item.nodeid for part in LEFT_OUT)]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Kernels run as plain Python from the beginning of a test."""
        self._patches = pytest.MonkeyPatch()
        run_as_plain_python(self._patches, self._pending.append)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Lower what the test has specialised, when everything that it changed is as it was."""
        result = yield
        self._patches.undo()
        while self._pending:
            found = lowered(self._pending.pop(), self._known)
            if found is not None:
                self._found.append(json.dumps(dataclasses.asdict(found)))
        return result

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        (self._folder / f"{os.getpid()}.jsonl").write_text("".join(f"{line}\n" for line in self._found))


def run_as_plain_python(patches: pytest.MonkeyPatch, note: Any) -> None:
    """Have kernels specialise as ever, call ``note`` with each specialisation, and then run as plain Python."""
    make = Specialisation.__init__

    def noted(specialisation: Specialisation, *args: Any, **options: Any) -> None:
        make(specialisation, *args, **options)
        note(specialisation)

    def run(kernel: Any, values: tuple[Any, ...], _key: Any = None) -> Any:
        values, guard, leaves, simple = kernel._read(values)
        variant = guard.variant
        specialisation = kernel._cache.find(variant, () if simple else variant.check(leaves), leaves)
        # What a call refuses, it refuses here.
        specialisation.host_values(leaves)
        return _plain(kernel.reference(*values[: len(kernel._names)]))

    def bind(kernel: Any, *args: Any, **kwargs: Any) -> SimpleNamespace:
        values = kernel._bind(args, kwargs)
        return SimpleNamespace(launch=lambda: run(kernel, kernel._complete(values)))

    patches.setattr(Specialisation, "__init__", noted)
    patches.setattr(Kernel, "_run", run)
    patches.setattr(Kernel, "bind", bind)
    patches.setattr(variants, "_refuse_half", lambda _leaves: None)


def _plain(value: Any) -> Any:
    """Python numbers, as a call gives them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_plain, value))
    return value
