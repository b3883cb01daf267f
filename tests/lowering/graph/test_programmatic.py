"""Kernels that may start before those that they depend on have ended: they wait first of all."""

from __future__ import annotations

import importlib
import re

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
        # Others may start before it has waited, or after.
        before, after = body.split("griddepcontrol.wait")
        assert before.count("griddepcontrol.launch_dependents") == after.count("griddepcontrol.launch_dependents") == 1
        # Where the thread is, it finds out meanwhile.
        assert "ld.param" in before
        assert "%tid.x" in before
        assert "%tid.x" not in after
        assert "global." not in before.replace("cvta.to.global.", "")


@qgraph.kernel
def beside(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2
    for i in range(y.shape[0]):
        if y[i] > 3:
            y[i] = y[i] * 3
    for i in range(x.shape[0]):
        x[i] += y[i]


@pytest.mark.needs("compiler")
def test_a_kernel_of_a_row_may_wait_last():
    texts = list(beside.ptx(*ARRAYS).values())
    assert len(texts) == 3
    for text in texts[:2]:
        first, *rest = text[text.index(".entry") :].split("griddepcontrol.wait")
        assert "global." not in first.replace("cvta.to.global.", "")
        assert first.endswith("@%first ")
        # However it ends: whatever leads to the one return comes from a wait.
        lines = [line.strip() for line in text.split("\n") if line.strip() and not line.strip().startswith("//")]
        end = lines.index("ret;")
        label = lines[end - 1].removesuffix(":")
        ways = [number for number, line in enumerate(lines) if re.search(rf"bra\S*\s+{re.escape(label)};", line)]
        assert all(lines[number - 1] == "griddepcontrol.wait;" for number in (*ways, end - 1))
        assert len(rest) == 1 + len(ways) + 1
        assert text.count("ret;") == 1
    assert texts[2].count("griddepcontrol.wait") == 1


@pytest.mark.needs("compiler")
def test_loops_alike_are_one_kernel_in_a_row_and_another_elsewhere():
    @qgraph.kernel
    def kernel(x, y, z):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2
        for i in range(y.shape[0]):
            y[i] = y[i] * 2
        for i in range(z.shape[0]):
            z[i] += x[i]
        for i in range(x.shape[0]):
            x[i] = x[i] * 2

    texts = list(kernel.ptx(*ARRAYS, np.ones(4)).values())
    assert texts[0] == texts[1]
    assert [text.count("@%first griddepcontrol.wait") for text in texts] == [1, 1, 0, 0]


def test_kernels_that_come_after_nothing_stand_in_a_row():
    plan = beside.plan(*ARRAYS)
    assert plan.edges == ((0, 2), (1, 2))
    assert plan.row == (0, 1)
    assert "no order with n0: a graph has it behind, where GPUs can" in str(beside.explain(*ARRAYS))
    assert chain.plan(*ARRAYS).row == ()


@pytest.mark.needs("compiler")
def test_older_gpus_have_no_such_instruction():
    assert not any("griddepcontrol" in text for text in chain.ptx(*ARRAYS, cc=(8, 0)).values())


@pytest.mark.needs("compiler")
def test_a_load_before_the_wait_is_noticed():
    numba_cuda = importlib.import_module("qgraph.lowering.numba_backend.cuda")
    good = ".visible .entry k(\n) {\nld.param.u64 %rd1, [p];\ngriddepcontrol.wait;\nld.global.f32 %f1, [%rd1];"
    numba_cuda._check_waits_first(good)
    assert numba_cuda._wait_late(good) == good
    with pytest.raises(BackendError, match=r"`ld\.global\.nc\.f32` before the wait"):
        numba_cuda._check_waits_first(good.replace("griddep", "ld.global.nc.f32 %f1, [%rd1];\ngriddep"))


def test_edges_between_kernels_only_are_programmatic():
    plan = chain.plan(*ARRAYS)
    kinds = [node.kind for node in plan.nodes]
    assert kinds == ["kernel", "kernel", "memset"]
    assert plan.edges == ((0, 1), (0, 2))
    assert plan.programmatic == {(0, 1)}
    assert str(chain.explain(*ARRAYS)).count("(waits inside, where GPUs can)") == 1


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(
    "stop",
    [
        *("@%p1 bra $L1;", "ld.global.f32 %f1, [%rd1];", "ld.volatile.global.f32 %f1, [%rd1];", "bar.sync 0;"),
        *("$L1:", "ret;", "call.uni f;", "{"),
    ],
)
def test_the_wait_is_behind_what_only_registers_see(stop):
    numba_cuda = importlib.import_module("qgraph.lowering.numba_backend.cuda")
    first = ["{", "\tgriddepcontrol.wait;", "// of the asm", "\tmov.u32 %r1, %tid.x;", "", "\tsetp.ge.s64 %p1, %rd1, %rd2;"]
    lines = [*first, f"\t{stop}", "\tmov.u32 %r1, 1;", "ret;"]
    assert numba_cuda._wait_late("\n".join(lines)).split("\n") == [lines[0], *lines[2:6], lines[1], *lines[6:]]


@pytest.mark.needs("compiler")
def test_a_volatile_load_of_a_users_function_is_behind_the_wait():
    cuda = importlib.import_module("numba.cuda")

    @cuda.jit(device=True)
    def raised(m, value):
        return cuda.atomic.max(m, 0, value)

    @qgraph.kernel
    def kernel(x, m):
        m[0] = 0.0
        x[0] = raised(m, 3.0)

    # Its compare-and-swap begins with one; what it finds decides whether anything is stored.
    texts = [text for text in kernel.ptx(*ARRAYS).values() if "ld.volatile" in text]
    assert texts
    assert all(text.index("griddepcontrol.wait") < text.index("ld.volatile") for text in texts)
