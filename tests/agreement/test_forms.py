"""Every backend accepts the same loop bodies: the table of ``forms.py``, on the CPU, on CUDA and on the simulator.

Without a GPU, bodies are compiled to PTX in place of running on CUDA.

What is accepted is compiled many bodies at a time, and runs as plain Python does; where that fails, the culprit is looked for.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qgraph
from tests.agreement.forms import DTYPES, FORMS, Form
from tests.conftest import SIMULATED, Rig, has_gpu

# To try each body with every dtype takes minutes.
ALL_DTYPES = os.environ.get("QGRAPH_AGREEMENT") == "all"
_NUMBERS = itertools.count()


def kernel_of(bodies: Sequence[Form], folder: Path) -> Callable[..., None]:
    """A function with these bodies, one after the other, in a file of its own."""
    lines = [
        "import math",
        "",
        "import numpy as np",
        "",
        "import qgraph",
        "",
        "",
        "def bodies(a, b, c, x, k, h, out):",
        "    for i in range(5):",
    ]
    for row, form in enumerate(bodies):
        lines += [f"        {line}" for line in form.text.replace("ROW", str(row)).split("; ")]
        if form.text.startswith("out["):
            continue
        lines += [
            "        for e in range(4):",
            f"            out[{row}, i] += a[i, e] * (e + 1)",
            "            a[i, e] = b[i, e]",
        ]
    name = f"bodies{next(_NUMBERS)}"
    path = folder / f"{name}.py"
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., None] = module.bodies
    return found


def arguments(dtype: str, rows: int) -> tuple[Any, ...]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return np.asarray(rng.integers(0, 4, shape) + (1j * rng.integers(0, 4, shape) if dtype[0] == "c" else 0)).astype(dtype)

    a, b, c, x, h = (numbers(*shape) for shape in ((5, 4), (5, 4), (5, 4), (4,), (3,)))
    a[:] = b
    out = np.zeros((rows, 5), "complex128" if dtype[0] == "c" else "float64")
    return a, b, c, x, np.array([0, 1, 0, 2, 1]), h, out


def refusal(bodies: Sequence[Form], dtype: str, folder: Path, backend: str, *, compared: bool = True) -> str:
    """What ``backend`` says of these bodies; empty where it accepts them. ``compared``: and they do what plain Python does."""
    function = kernel_of(bodies, folder)
    try:
        kernel = qgraph.kernel(function, backend="cuda" if backend == "ptx" else backend)
        if backend == "ptx":
            kernel.ptx(*arguments(dtype, len(bodies)), cc=(9, 0))
        elif compared:
            tolerance = 1e-5 if dtype in ("float32", "complex64") else None
            Rig(backend).compare(kernel, lambda: arguments(dtype, len(bodies)), tolerance=tolerance)
        else:
            kernel(*arguments(dtype, len(bodies)))
    except qgraph.QGraphError as error:
        return str(error).splitlines()[0]
    return ""


def culprits(bodies: Sequence[Form], dtype: str, folder: Path, backend: str) -> list[str]:
    """The bodies among these that are refused, or computed wrongly."""
    try:
        said = refusal(bodies, dtype, folder, backend)
    except AssertionError as error:
        said = f"differs from plain Python: {error}"
    if not said:
        return []
    if len(bodies) == 1:
        return [f"{bodies[0].text} of {dtype} on {backend}: {said}"]
    half = len(bodies) // 2
    return culprits(bodies[:half], dtype, folder, backend) + culprits(bodies[half:], dtype, folder, backend)


def dtypes_of(form: Form, number: int) -> list[str]:
    """Those of the dtypes that accept a body with which it is tried here: one, another one for the next body, or all."""
    accepting = [dtype for dtype, kind in DTYPES.items() if kind in form.kinds]
    return accepting if ALL_DTYPES or not accepting else [accepting[number % len(accepting)]]


BACKENDS = ("sim",) if SIMULATED else ("cpu", "cuda" if has_gpu() else "ptx")


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning", "ignore::qgraph.PerformanceWarning")
def test_what_is_accepted(dtype: str, backend_name: str, tmp_path: Path) -> None:
    accepted = [form for number, form in enumerate(FORMS) if dtype in dtypes_of(form, number)]
    assert not culprits(accepted, dtype, tmp_path, backend_name)


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_what_is_refused(backend_name: str, tmp_path: Path) -> None:
    for form in FORMS:
        for dtype, kind in [*DTYPES.items()] if form.kinds else [("float64", "f")]:
            # Without a refusal, nothing is said of other dtypes.
            if kind in form.kinds or not form.refusal:
                continue
            said = refusal([form], dtype, tmp_path, backend_name, compared=False)
            assert form.refusal in said, f"{form.text} of {dtype}"
