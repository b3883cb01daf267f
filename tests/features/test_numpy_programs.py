"""The programs of NPBench, in words of our own, give what NumPy gives. ``python -m benchmarks.npbench`` measures them."""

from __future__ import annotations

from typing import Any

import pytest

from examples.npbench import data, grids, linear_algebra
from examples.npbench.programs import PROGRAMS
from tests.conftest import thorough

# Those that take a second or two to compile, of each kind some.
QUICK = (
    *("gemm", "mvt", "gesummv", "doitgen", "syrk", "symm", "trisolv", "contour_integral"),
    *("jacobi_1d", "seidel_2d", "fdtd_2d", "vadv"),
    *("softmax", "mlp", "azimint_naive", "compute", "go_fast", "spmv", "nussinov", "crc16"),
)


def test_all_are_here() -> None:
    assert len(PROGRAMS) == 54
    assert {each.function.__module__ for each in PROGRAMS.values()} == {each.__name__ for each in (data, grids, linear_algebra)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*QUICK, *thorough(*sorted(PROGRAMS.keys() - {*QUICK}))])
def test_a_program_of_arrays(check: Any, name: str) -> None:
    program = PROGRAMS[name]
    check(program.function, lambda: program.make(program.size))
