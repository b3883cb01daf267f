"""Programs at the edges of the language, and the generator of them: right, or refused in the author's own words."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType

import numpy as np
import pytest

import qgraph
from tests.messages import fault_of, made_names
from tests.properties.edges import arguments, program

COUNT = int(os.environ.get("QGRAPH_EDGES", "60"))
SEED = int(os.environ.get("QGRAPH_FUZZ_SEED", "1"))
# A program that has not ended as plain Python by then never will.
MOST_LINES = 20_000


class Endless(Exception):
    """Plain Python does not end."""


def loaded(folder: Path, source: str, number: int) -> ModuleType:
    name = f"edge_{number}"
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def counted_lines(file: str):
    """A trace function that ends what takes too many lines of ``file``: what is imported meanwhile has more."""
    left = MOST_LINES

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename != file:
            return None
        left -= 1
        if left < 0:
            raise Endless
        return trace

    return trace


def as_python(kernel, values):
    """What plain Python returns, or the exception that it ends with."""
    outer = sys.gettrace()
    sys.settrace(counted_lines(kernel.__wrapped__.__code__.co_filename))
    try:
        return kernel.reference(*values), None
    except Exception as error:  # noqa: BLE001 - plain Python raises what it likes
        return None, error
    finally:
        sys.settrace(outer)


def outcome(source: str, backend: str, folder: Path, number: int) -> str:
    """One word for what happened to a program; more of them for what must not."""
    module = loaded(folder, source, number)
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        wanted, got = arguments(), arguments()
        result = failed = None
        try:
            kernel = qgraph.kernel(backend=backend)(module.program)
            result, failed = as_python(kernel, wanted)
            if isinstance(failed, Endless):
                return "endless"
            returned = kernel(*got)
            qgraph.synchronize()
        except Exception as error:  # noqa: BLE001 - what may be raised is what is tested
            # The simulator runs Python, which finds by itself what has no type.
            found = backend == "sim" and failed is not None and not isinstance(error, qgraph.QGraphError)
            return "refused" if found else fault_of(error, source) or "refused"
    if failed is not None:
        return "lenient"
    same = all(np.allclose(a, b, equal_nan=True) for a, b in zip(wanted, got, strict=True))
    return "equal" if same and alike(result, returned) else f"wrong: {returned} and {got}, plain Python {result} and {wanted}"


def alike(wanted, got) -> bool:
    if isinstance(wanted, tuple):
        return len(wanted) == len(got) and all(map(alike, wanted, got))
    return wanted is got or bool(np.allclose(wanted, got))


def test_programs_run_as_python_or_are_refused_in_their_authors_words(backend, tmp_path):
    outcomes: Counter[str] = Counter()
    faults = []
    for number in range(COUNT):
        source = program(Random(1_000_000 * SEED + number))
        found = outcome(source, backend, tmp_path, number)
        outcomes[found if found in ("equal", "refused", "endless", "lenient") else "fault"] += 1
        if found not in ("equal", "refused", "endless", "lenient"):
            faults.append(f"{found}\n{source[source.index('def f(') :]}")
    print(f"{dict(outcomes)} on {backend}, seed {SEED}")
    assert not faults, "\n\n".join(faults)
    assert outcomes["equal"] >= COUNT // 20
    assert outcomes["refused"] >= COUNT // 4
    # What plain Python refuses and a kernel runs is rare: a slice of the wrong length in a statement that is never reached.
    assert outcomes["lenient"] <= COUNT // 40


@pytest.mark.parametrize(
    "message",
    [
        "`.call5_13_17` is a tuple",
        "the name `.._h1` does not exist",
        "`_passed0_3` is no number",
        "the size of `x_` is not known",
        "`x + y3` is a new array",
        "it reads _result_2",
    ],
)
def test_names_that_nobody_wrote_are_seen(message):
    assert made_names(message, "def kernel(x, y):\n    x[0] = y[0]\n")


@pytest.mark.parametrize(
    "message",
    [
        "`x[0]` is read\n  --> /a/_b.py:3:1\n   |\n 3 | _x = .y\n   | ^\nhelp: write `t[:] = z`",
        "`x[..., 0]` and `_own` of array(float64, 1d, C), see x.shape...",
        "`len(x) if True else 'a name'` is not 3.5",
    ],
)
def test_names_of_the_reader_are_not(message):
    assert made_names(message, "def kernel(x, y, _own):\n    x.shape\n") == []
