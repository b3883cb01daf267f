"""What the driver is told of a batch memory operation node, in records of the real bindings."""

from __future__ import annotations

import ctypes
import types

import numpy as np
import pytest

import qgraph


class Recorder:
    """The driver's records and enumerations; its functions are noted and do nothing."""

    def __init__(self, real):
        self._real = real
        self.calls = []
        self.allocation = 1

    def cuPointerGetAttribute(self, attribute, pointer):
        return 0 if self.allocation else 1, self.allocation

    def __getattr__(self, name):
        return getattr(self._real, name) if not name.startswith("cu") else name

    def call(self, name, *arguments):
        if name == "cuCtxGetCurrent":
            return self._real.CUcontext(0)
        held = [each for each in arguments if isinstance(each, self._real.CUDA_BATCH_MEM_OP_NODE_PARAMS)]
        operations = held[0].paramArray if held else arguments[2]
        self.calls.append((name, [ctypes.string_at(each.getPtr(), 28) for each in operations]))
        return "node"


def operation(kind, pointer, value, flags=0):
    parts = (kind, 4), (0, 4), (pointer, 8), (value % (1 << (64 if kind == 5 else 32)), 8), (flags, 4)
    return b"".join(number.to_bytes(size, "little") for number, size in parts)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(("dtype", "kind"), [("int32", 2), ("uint32", 2), ("int64", 5), ("uint64", 5)])
def test_the_operation(dtype, kind):
    driver = Recorder(pytest.importorskip("cuda.bindings.driver"))

    def kernel(flag, n):
        qgraph.write_value(flag, n)

    number = np.dtype(dtype).type(np.iinfo(dtype).min + 3)
    (node,) = qgraph.kernel(kernel).plan(np.zeros(1, dtype), number).nodes
    owner = types.SimpleNamespace(driver=driver, call=driver.call, leaves={"flag": 0, "n": 1}, room=lambda: 0x1000)
    made = node.what.in_graph(node, owner)
    made.add("graph")
    assert made.update((types.SimpleNamespace(pointer=0x2000), number), ())
    made.executable = "executable"
    assert not made.update((types.SimpleNamespace(pointer=0x2000), number), ())
    assert made.update((types.SimpleNamespace(pointer=0x3000), number), ())
    made.define()
    made.run(7)
    later = [operation(kind, 0x3000, int(number))]
    assert driver.calls == [
        ("cuGraphAddBatchMemOpNode", [operation(kind, 0x1000, 0)]),
        ("cuGraphExecBatchMemOpNodeSetParams", later),
        ("cuGraphBatchMemOpNodeSetParams", later),
        ("cuStreamBatchMemOp", later),
    ]


@pytest.mark.needs("compiler")
def test_another_allocation_at_the_same_address():
    """The driver keeps what it knows of an allocation, not the address. Where it does not tell which, it may be new."""
    driver = Recorder(pytest.importorskip("cuda.bindings.driver"))

    def kernel(flag):
        qgraph.write_value(flag, 3)

    (node,) = qgraph.kernel(kernel).plan(np.zeros(1, np.int64)).nodes
    owner = types.SimpleNamespace(driver=driver, call=driver.call, leaves={"flag": 0}, room=lambda: 0x1000)
    made = node.what.in_graph(node, owner)
    made.executable = "executable"
    told = []
    for driver.allocation in (1, 1, 2, None, None):
        told.append(made.update((types.SimpleNamespace(pointer=0x2000),), ()))
    assert told == [True, False, True, True, True]
    assert len(driver.calls) == 4
