"""Random programs that are texts: which of them plain Python runs, what a backend makes of one, and what their plans say."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from tests.conftest import Rig

Arguments = Callable[[], Iterable[Any]]


def found(module_file: Path) -> Any:
    """The function ``kernel`` of a file."""
    spec = importlib.util.spec_from_file_location(module_file.stem, module_file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def first_that_runs(write: Callable[[], str], arguments: Arguments, *errors: type[Exception]) -> str:
    """The first text of ``write`` whose function ``kernel`` does not raise one of ``errors`` as plain Python."""
    while True:
        text = write()
        space: dict[str, Any] = {}
        exec(text, space)
        try:
            space["kernel"](*arguments())
        except errors:
            continue
        return text


def check_integers(rig: Rig, file: Path, text: str, arguments: Arguments, **options: Any) -> None:
    """Integers, bit for bit; what is refused is refused before anything ran."""
    file.write_text(text)
    kernel = rig.kernel(found(file), **options)
    given, expected = arguments(), arguments()
    kernel.reference(*expected)
    try:
        rig.run(kernel, *given)
    except (qgraph.QGraphError, qgraph.AssumedParallelWarning):
        expected = arguments()
    for got, wanted in zip(given, expected, strict=True):
        np.testing.assert_array_equal(got, wanted, err_msg=text)


def fused_plan(file: Path, text: str, arguments: Arguments) -> str:
    """The plan with ``fuse=True``; "refused" where there is none."""
    file.write_text(text)
    try:
        return str(qgraph.kernel(fuse=True, backend="cuda")(found(file)).plan(*arguments()))
    except (qgraph.QGraphError, qgraph.AssumedParallelWarning):
        return "refused"
