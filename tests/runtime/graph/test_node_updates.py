"""Patches of kernel nodes: what machine code does when the same ones come again is what Python does."""

from __future__ import annotations

import ctypes
import random
from types import SimpleNamespace

import pytest

from qgraph.errors import CudaError
from qgraph.runtime.driver import native
from qgraph.runtime.graph import node_updates
from qgraph.runtime.graph.node_updates import NodeUpdates, patch_kernels


class Parameters:
    def __init__(self, place):
        self.place = place

    def getPtr(self):
        return self.place


class Driver:
    """Notes who was patched, whoever calls it."""

    def __init__(self):
        self.patched, self.fails_at, self.direct = [], None, 0
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)
        self.function = kind(self._directly)

    def _directly(self, executable, node, parameters):
        self.direct += 1
        return self.cuGraphExecKernelNodeSetParams(executable, node, Parameters(parameters))[0]

    def cuGraphExecKernelNodeSetParams(self, executable, node, parameters):
        if node == self.fails_at:
            return (400,)
        self.patched.append((int(executable), node, parameters.place))
        return (0,)

    def CUresult(self, code):
        return code


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(node_updates, "driver", made)
    monkeypatch.setattr(node_updates, "failure", lambda code, name: CudaError(f"{name} failed with {code}"))
    monkeypatch.setattr(native, "address_of", lambda name: ctypes.cast(made.function, ctypes.c_void_p).value)
    monkeypatch.setattr(native, "may_launch", lambda: True)
    return made


def kernels(count, executable):
    return [
        SimpleNamespace(bit=1 << index, handle=100 + index, launch=Parameters(1000 + index), executable=executable)
        for index in range(count)
    ]


class Executable(int):
    """As the driver's bindings have it: equal ones may be others."""


def test_machine_code_patches_what_comes_again(driver):
    executable = Executable(7)
    patches = NodeUpdates(kernels(70, executable))
    mask = (1 << 70) - 1 - (1 << 3)
    expected = [(7, 100 + index, 1000 + index) for index in range(70) if index != 3]
    for turn in range(4):
        driver.patched.clear()
        patches.patch(executable, mask)
        assert driver.patched == expected
        assert driver.direct == len(expected) * max(0, turn)


def test_any_masks_of_any_executables(driver):
    order = random.Random(3)
    executables = [Executable(7), Executable(7), Executable(8)]
    nodes = {id(executable): kernels(9, executable) for executable in executables}
    every = [NodeUpdates(nodes[id(executable)]) for executable in executables]
    for _ in range(300):
        which, changed = order.randrange(3), order.choice([1, 0b101, (1 << 9) - 1, 1 << 8])
        driver.patched.clear()
        every[which].patch(executables[which], changed)
        found = list(driver.patched)
        driver.patched.clear()
        patch_kernels(nodes[id(executables[which])], changed)
        assert found == driver.patched
    assert driver.direct


def test_the_executable_was_made_anew(driver):
    first = Executable(7)
    mine = kernels(2, first)
    patches = NodeUpdates(mine)
    for _ in range(3):
        patches.patch(first, 3)
    second = Executable(7)
    for kernel in mine:
        kernel.executable, kernel.handle = second, kernel.handle + 50
    driver.patched.clear()
    patches.patch(second, 3)
    patches.patch(second, 3)
    assert driver.patched == [(7, 150, 1000), (7, 151, 1001)] * 2


def test_no_executable_yet(driver):
    patches = NodeUpdates(kernels(2, None))
    for _ in range(3):
        patches.patch(None, 3)
    assert driver.patched == []


@pytest.mark.parametrize("before", [0, 2])
def test_the_first_failure_ends_it(driver, before):
    executable = Executable(7)
    patches = NodeUpdates(kernels(4, executable))
    for _ in range(before):
        patches.patch(executable, 15)
    driver.patched.clear()
    driver.fails_at = 102
    with pytest.raises(CudaError, match="cuGraphExecKernelNodeSetParams failed with 400"):
        patches.patch(executable, 15)
    assert [node for _, node, _ in driver.patched] == [100, 101]
