"""Loads of constant memory read constant arrays alone."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.errors import BackendError
from qgraph.lowering.numba_backend import cuda
from qgraph.lowering.ptx.constant_loads import misread
from tests.features.test_loads_at_either_address import PROGRAMS, of_shared_memory

TEXT = """
	ld.param.u64 	%rd1, [kernel_param_4];
	ld.param.u64 	%rd2, [kernel_param_11];
	ld.param.u64 	%rd9, [kernel_param_18];
	cvta.to.global.u64 	%rd3, %rd1;
	cvta.to.global.u64 	%rd4, %rd2;
	cvta.to.global.u64 	%rd10, %rd9;
	ld.global.nc.u64 	%rd11, [%rd10+8];
	shl.b64 	%rd12, %rd11, 3;
	add.s64 	%rd5, %rd4, %rd12;
	selp.b64 	%rd6, %rd3, %rd5, %p1;
	ld.global.nc.v2.f64 	{%fd1, %fd2}, [%rd6+16];
"""


def test_which_arrays_a_load_may_read():
    assert misread(TEXT, {4, 18}, {11}) == {4}
    # All of them are constant, or the load is an ordinary one.
    assert not misread(TEXT, {4, 11, 18}, set())
    assert not misread(TEXT.replace("nc.v2", "v2"), {4, 18}, {11})
    assert not misread(TEXT.replace("%rd3, %rd5, %p1", "%rd3, %rd3, %p1"), {4, 18}, {11})
    # What an index was loaded from is no address.
    indexed = TEXT.replace("ld.global.nc.u64 	%rd11, [%rd10+8]", "ld.global.u64 	%rd11, [%rd4]")
    assert not misread(indexed.replace("%rd3, %rd5, %p1", "%rd3, %rd12, %p1"), {4, 18}, {11})
    # The choice was made after the load was taken for one of constant memory.
    assert misread(TEXT.replace("%rd3, %rd5, %p1", "%rd5, %rd5, %p1"), {4, 18}, {11}) == {4, 18}
    # A register that branches define.
    chosen = "mov.u64 	%rd6, %rd5;\n	@%p2 bra L;\n	add.s64 	%rd6, %rd3, 8;"
    branches = TEXT.replace("selp.b64 	%rd6, %rd3, %rd5, %p1;", chosen)
    assert misread(branches, {4, 18}, {11}) == {4}


def of_constants(x, y, k):
    for i in range(y.shape[0]):
        y[i] += x[i] if k[i] > 3 else k[i]


@pytest.mark.parametrize("program", [*PROGRAMS, of_shared_memory, of_constants], ids=lambda program: program.__name__)
def test_what_is_compiled(program, monkeypatch):
    found = []

    def told(text, constants, changing):
        found.append(misread(text, constants, changing))
        return found[-1]

    monkeypatch.setattr(cuda, "misread", told)
    arguments = [np.ones(8, np.int64) for _ in range(4 if program is of_shared_memory else 3)]
    if program is of_shared_memory:
        arguments[2] = arguments[1]
    texts = list(qgraph.kernel(backend="cuda")(program).ptx(*arguments).values())
    # The last text of each kernel is right; constant arrays that are not concerned stay constant.
    assert found.count(set()) == len(texts)
    assert len(found) > len(texts) or program is of_constants
    assert any("ld.global.nc" in text for text in texts)


def test_what_stays_wrong_is_refused(monkeypatch):
    monkeypatch.setattr(cuda, "misread", lambda text, constants, changing: {4})
    arguments = (np.ones(8, np.int64) for _ in range(3))
    with pytest.raises(BackendError, match="reads an array that changes as one that does not"):
        qgraph.kernel(backend="cuda")(PROGRAMS[0]).ptx(*arguments)
