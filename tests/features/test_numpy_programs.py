"""The programs of NPBench, in words of our own, give what NumPy gives. ``python -m tests.npbench.table`` measures them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import thorough
from tests.npbench import data, grids, linear_algebra, table
from tests.npbench.programs import PROGRAMS

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


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaWarning")
def test_the_table_of_times(backend: str) -> None:
    words = table.row("crc16", backend, 1).split()
    assert words[:3] == ["crc16", "2", "yes"]
    assert table.row("spmv", backend, 1).split()[1] == "1"
