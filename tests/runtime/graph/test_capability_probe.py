"""The probe of a device, on a driver that runs its graph in Python: a mistake of ours would be taken for one of the driver."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading

import pytest

from qgraph.runtime.driver import driver as cuda_driver
from qgraph.runtime.driver import memory, stream
from qgraph.runtime.graph import capability_probe, graph_builder, kernels, launch_serialiser

bindings = pytest.importorskip("cuda.bindings.driver")
pytestmark = pytest.mark.needs("compiler")

DECIDE, COUNT = 1, 2


class Driver:
    """Graphs of kernels and conditional nodes; nodes and graphs are the objects of the real bindings, known by number."""

    def __init__(self, *, branches: bool = True):
        self.branches = branches
        self.numbers = itertools.count(100)
        self.nodes, self.edges, self.conditions, self.memory = {}, [], {}, {}

    def __getattr__(self, name):
        if name.startswith("cu"):
            return self._nothing(name)
        return getattr(bindings, name)

    def _nothing(self, name):
        def nothing(*_):
            return 0, 0

        nothing.__name__ = name
        return nothing

    def cuMemAlloc(self, size):
        made = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(made)] = made
        return 0, ctypes.addressof(made)

    def cuMemcpyHtoDAsync(self, target, source, size, _stream):
        ctypes.memmove(target, source, size)
        return (0,)

    def cuMemcpyDtoHAsync(self, target, source, size, _stream):
        ctypes.memmove(target, source, size)
        return (0,)

    def cuLibraryLoadData(self, *_):
        return 0, 1

    def cuLibraryGetKernel(self, _library, name):
        return 0, DECIDE if name == b"qgraph_probe_decide" else COUNT

    def cuKernelGetFunction(self, kernel):
        return 0, bindings.CUfunction(kernel)

    def cuGraphCreate(self, _flags):
        return 0, bindings.CUgraph(next(self.numbers))

    def cuGraphConditionalHandleCreate(self, graph, _context, default, _flags):
        assert isinstance(graph, bindings.CUgraph)
        handle = next(self.numbers)
        self.conditions[handle] = default
        return 0, bindings.CUgraphConditionalHandle(handle)

    def _add(self, graph, *what):
        assert isinstance(graph, bindings.CUgraph)
        node = bindings.CUgraphNode(next(self.numbers))
        self.nodes.setdefault(int(graph), []).append((int(node), *what))
        return node

    def cuGraphAddKernelNode(self, graph, befores, count, launch):
        sizes = (8, 8, 4) if int(launch.func) == DECIDE else (8,)
        places = (ctypes.c_void_p * len(sizes)).from_address(int(launch.kernelParams))
        values = [int.from_bytes(ctypes.string_at(at, size), "little") for at, size in zip(places, sizes, strict=True)]
        node = self._add(graph, "kernel", int(launch.func), values)
        assert count == len(befores or ())
        self.edges += [(int(before), int(node)) for before in befores or ()]
        return 0, node

    def add_any_node(self, graph, _befores, _data, _count, parameters):
        what = parameters.conditional
        kind = what.type.name.rpartition("_")[2].lower()
        if kind != "while" and not self.branches:
            return (1,)
        bodies = [next(self.numbers) for _ in range(what.size)]
        self.bodies = (ctypes.c_uint64 * len(bodies))(*bodies)
        self.memory[bodies[0]] = self.bodies
        (ctypes.c_uint64 * 6).from_address(parameters.getPtr())[4] = ctypes.addressof(self.bodies)
        return 0, self._add(graph, kind, int(what.handle), bodies)

    def add_dependencies(self, _graph, befores, afters, _data, _count):
        self.edges += [(int(before), int(after)) for before, after in zip(befores, afters, strict=True)]
        return (0,)

    def cuGraphInstantiate(self, graph, _flags):
        return 0, int(graph)

    def cuGraphLaunch(self, executable, _stream):
        self._run(executable)
        return (0,)

    def _run(self, graph):
        left = list(self.nodes.get(graph, ()))
        while left:
            # The last that may run: what an edge does not keep in order comes in the wrong one.
            numbers = {each[0] for each in left}
            node = [each for each in left if not any(b in numbers and a == each[0] for b, a in self.edges)][-1]
            left.remove(node)
            _, kind, what, more = node
            if kind == "kernel":
                self._kernel(what, more)
            elif kind == "while":
                while self.conditions[what]:
                    self._run(more[0])
            elif kind == "if":
                self._run(more[0 if self.conditions[what] else 1])
            elif self.conditions[what] < len(more):
                self._run(more[self.conditions[what]])

    def _kernel(self, function, values):
        if function == COUNT:
            ctypes.c_int32.from_address(values[0]).value += 1
            return
        handle, at, what = values
        turn = ctypes.c_int32.from_address(at)
        if what == capability_probe._AGAIN:
            turn.value += 1
        self.conditions[handle] = (turn.value & 1, turn.value, int(turn.value < capability_probe._TURNS))[what]


class Device:
    ordinal, epoch, capability, name = 0, 1, (9, 0), "a device"

    def __init__(self):
        self.lock = threading.RLock()
        self.notes = {}

    def once(self, make):
        return make(self)

    def alive(self, _epoch):
        return True

    def refresh(self):
        return self.epoch

    @contextlib.contextmanager
    def activate(self):
        yield self


@pytest.mark.parametrize("branches", [True, False])
def test_loops_and_branches_are_found_to_work(monkeypatch, branches):
    driver = Driver(branches=branches)
    for module in (cuda_driver, kernels, graph_builder, memory, capability_probe, stream, launch_serialiser):
        monkeypatch.setattr(module, "driver", driver)
    monkeypatch.setattr(graph_builder, "_add_any_node", driver.add_any_node)
    monkeypatch.setattr(graph_builder, "add_dependencies", driver.add_dependencies)
    found = capability_probe.probe(Device(), lambda ptx: b"cubin")
    assert (found.device_loops, found.device_branches) == (True, branches), found.reason
