"""Kernels that may start before those that they depend on have ended: they wait first of all."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import qgraph
from qgraph.errors import BackendError


@qgraph.kernel
def chain(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
    for i in range(x.shape[0]):
        s += y[i]
    x[:] = 0.0
    return s


ARRAYS = np.ones(4), np.ones(4)


@pytest.mark.needs("compiler")
def test_every_kernel_waits_before_it_touches_memory():
    for text in chain.ptx(*ARRAYS).values():
        body = text[text.index(".entry") :]
        assert body.count("griddepcontrol.wait") == body.count("griddepcontrol.launch_dependents") == 1
        before = body[: body.index("griddepcontrol.wait")]
        assert "ld.param" in before
        assert "global." not in before.replace("cvta.to.global.", "")


@pytest.mark.needs("compiler")
def test_older_gpus_have_no_such_instruction():
    assert not any("griddepcontrol" in text for text in chain.ptx(*ARRAYS, cc=(8, 0)).values())


@pytest.mark.needs("compiler")
def test_a_load_before_the_wait_is_noticed():
    numba_cuda = importlib.import_module("qgraph.lowering.numba_cuda")
    good = ".visible .entry k(\n) {\nld.param.u64 %rd1, [p];\ngriddepcontrol.wait;\nld.global.f32 %f1, [%rd1];"
    numba_cuda._check_waits_first(good)
    with pytest.raises(BackendError, match=r"`ld\.global\.nc\.f32` before the wait"):
        numba_cuda._check_waits_first(good.replace("griddep", "ld.global.nc.f32 %f1, [%rd1];\ngriddep"))


def test_edges_between_kernels_only_are_programmatic():
    plan = chain.plan(*ARRAYS)
    kinds = [node.kind for node in plan.nodes]
    assert kinds == ["kernel", "kernel", "memset"]
    assert plan.edges == ((0, 1), (0, 2))
    assert plan.programmatic == {(0, 1)}
    assert str(chain.explain(*ARRAYS)).count("(waits inside, where GPUs can)") == 1
