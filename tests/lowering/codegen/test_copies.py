"""How often the body of a loop is in its kernel: each copy costs time to compile."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import qgraph
from qgraph.lowering.numba_backend import cuda

if cuda.simulator_active():
    pytest.skip("the simulator compiles nothing", allow_module_level=True)


def triad(a, b, c, s):
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


def total(a, counts):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i]
    for i in range(counts[0]):
        a[i] = a[i] + counts[1]
    return s


def ptx(function, *args):
    return list(qgraph.kernel(function, backend="cuda").ptx(*args).values())


def test_a_light_loop_is_there_four_times_at_once_and_once():
    arrays = np.zeros((3, 9), np.float32)
    (text,) = ptx(triad, *arrays, 2.0)
    assert text.count("st.global.f32") == 4 + 1
    # The iterations are counted by no division; no index counts from the end.
    assert "div." not in text
    assert "shr.s64" not in text


def test_loops_over_what_is_left_are_not_unrolled():
    reduced, strided = ptx(total, np.zeros(9, np.float32), np.zeros(2, np.int32))[-2:]
    assert "div." not in reduced + strided
    assert strided.count("st.global.f32") == 1


OTHERS = """
import numba
import numpy as np
from numba.extending import intrinsic

import qgraph


@intrinsic
def doubled(context, value):
    def add(context, builder, signature, args):
        return builder.fadd(args[0], args[0])

    return numba.types.float64(numba.types.float64), add


@numba.njit
def four_times(value):
    return doubled(doubled(value))


@qgraph.kernel(backend="cuda")
def calling(x):
    for i in range(x.shape[0]):
        x[i] = four_times(x[i])


print(*calling.ptx(np.zeros(9)).values())
"""


def test_code_that_others_declare_is_found(tmp_path):
    """Numba learns of it while the function is typed. In a process of its own: this one's Numba is not to be extended."""
    file = tmp_path / "others.py"
    file.write_text(OTHERS)
    found = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True).stdout
    assert found.count("add.f64") + found.count("add.rn.f64") >= 2
