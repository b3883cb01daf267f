"""What recorded graphs tell of the memory that their nodes touch: as the driver says, and as kernels of qgraph do."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.runtime.arguments.array_adapters import adopt
from qgraph.runtime.driver import driver as cuda_driver
from qgraph.runtime.graph import recorded_nodes
from qgraph.runtime.graph.recorded_nodes import recorded_plan
from qgraph.runtime.graph.touched_memory import KnownNodes, Touched, known_nodes, together, touched_by
from qgraph.runtime.values.prepared_call import Call

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
REFUSED = 0xBAD000


def copy(source, target, width, height=1, depth=1, **more):
    """A CUDA_MEMCPY3D: of each side its kind of memory, and where."""
    made = {}
    for side, (kind, pointer) in (("src", source), ("dst", target)):
        place = {"MemoryType": kind, "Host": pointer if kind == HOST else None, "Device": pointer if kind != HOST else 0}
        nothing = dict.fromkeys(("XInBytes", "Y", "Z", "Pitch", "Height"), 0)
        made |= {f"{side}{name}": value for name, value in {**nothing, **place}.items()}
    return "MEMCPY", SimpleNamespace(**made | {"WidthInBytes": width, "Height": height, "Depth": depth} | more)


def fill(pointer, width, size=4, height=1, pitch=0):
    return "MEMSET", SimpleNamespace(dst=pointer, width=width, elementSize=size, height=height, pitch=pitch)


@pytest.fixture
def plan_of(monkeypatch):
    """The plan of nodes in a row, which the driver tells: of each its kind and parameters, of a child graph its nodes."""

    def make(nodes, known=None):
        handles = itertools.count(1)
        all_nodes, graphs = {}, {}

        def add(graph, parts):
            graphs[graph] = [next(handles) for _ in parts]
            all_nodes.update(zip(graphs[graph], parts, strict=True))
            for handle, (kind, inside) in list(zip(graphs[graph], parts, strict=True)):
                if kind == "GRAPH":
                    add(-handle, inside)

        add(0, nodes)
        found = {handles[0]: handles[1] for handles in graphs.values() for handles in itertools.pairwise(handles)}

        def edges(graph, count):
            pairs = [(first, found[first]) for first in graphs[graph] if first in found]
            return 0, [pair[0] for pair in pairs], [pair[1] for pair in pairs], [], len(pairs)

        def parameters(node):
            return 0, all_nodes[node][1]

        class Played:
            CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2)
            cuGraphMemcpyNodeGetParams = cuGraphMemsetNodeGetParams = cuGraphKernelNodeGetParams = staticmethod(parameters)

            @staticmethod
            def cuGraphGetNodes(graph, count):
                return 0, graphs[graph], len(graphs[graph])

            @staticmethod
            def cuGraphNodeGetType(node):
                return 0, SimpleNamespace(name=f"CU_GRAPH_NODE_TYPE_{all_nodes[node][0]}")

            @staticmethod
            def cuGraphChildGraphNodeGetGraph(node):
                return 0, -node

            @staticmethod
            def cuFuncGetName(function):
                return 0, b"opaque"

            @staticmethod
            def cuPointerGetAttribute(attribute, pointer):
                return {REFUSED: 999}.get(pointer, 0 if pointer >= 0x1000 else 1), 0

            @staticmethod
            def cuGetErrorName(code):
                return 0, b"CUDA_ERROR_UNKNOWN"

            cuGetErrorString = cuGetErrorName

        monkeypatch.setattr(recorded_nodes, "driver", Played)
        monkeypatch.setattr(cuda_driver, "driver", Played)
        monkeypatch.setattr(recorded_nodes, "_get_edges", edges)
        return recorded_plan(0, known or {})

    return make


OPAQUE = ("KERNEL", SimpleNamespace(func=1, kern=0))


@pytest.mark.parametrize(
    ("node", "reads", "writes"),
    [
        (copy((DEVICE, 0x1000), (UNIFIED, 0x9000), 80), range(0x1000, 0x1050), range(0x9000, 0x9050)),
        (copy((HOST, 0x2000), (DEVICE, 0x9000), 8), range(0x2000, 0x2008), range(0x9000, 0x9008)),
        # Three rows of 8 bytes, 16 apart on one side, behind 2 rows and 4 bytes, and without gaps on the other.
        (
            copy((DEVICE, 0x1000), (DEVICE, 0x9000), 8, 3, srcPitch=16, srcY=2, srcXInBytes=4, dstPitch=8),
            range(0x1024, 0x104C),
            range(0x9000, 0x9018),
        ),
        # Two planes of two rows, planes of four.
        (
            copy((DEVICE, 0x1000), (DEVICE, 0x9000), 8, 2, 2, srcPitch=16, srcHeight=4, srcZ=1, dstPitch=8, dstHeight=2),
            range(0x1040, 0x1098),
            range(0x9000, 0x9020),
        ),
        (fill(0x1000, 10), None, range(0x1000, 0x1028)),
        (fill(0x1000, 10, 1, 3, 32), None, range(0x1000, 0x104A)),
    ],
)
def test_copies_and_fills_have_addresses(plan_of, node, reads, writes):
    found = plan_of([node, ("EMPTY", None)]).touched
    assert found == Touched((reads,) if reads is not None else (), (writes,))


def test_memory_is_pageable_only_where_the_driver_says_that_it_does_not_know_it(plan_of):
    assert "pageable" in plan_of([copy((HOST, 0x800), (DEVICE, 0x9000), 8)]).not_in_body()
    assert not plan_of([copy((HOST, 0x2000), (DEVICE, 0x9000), 8)]).not_in_body()
    with pytest.raises(qgraph.CudaError, match="cuPointerGetAttribute failed with CUDA_ERROR_UNKNOWN"):
        plan_of([copy((HOST, REFUSED), (DEVICE, 0x9000), 8)])


def test_what_nobody_knows_may_be_anything(plan_of):
    known = fill(0x1000, 10)
    for unknown in (OPAQUE, ("HOST", None), copy((ARRAY, 0), (DEVICE, 0x1000), 8), ("GRAPH", [known, OPAQUE])):
        assert plan_of([known, unknown]).touched is None
    assert "n1 kernel opaque  after n0  touches anything" in str(plan_of([known, OPAQUE]))
    assert "n0 memset of 40 bytes  writes 0x1000+40" in str(plan_of([known, OPAQUE]))


def test_kernels_that_somebody_knows(plan_of):
    told = {1: Touched((range(0x100, 0x200),), ()), 2: Touched((), (range(0x300, 0x310),))}
    assert plan_of([OPAQUE, OPAQUE], told).touched == told[1] | told[2]
    assert plan_of([OPAQUE, OPAQUE, OPAQUE], told).touched is None
    # What is known of a child graph says it all.
    assert plan_of([("GRAPH", [OPAQUE]), fill(0x300, 4)], {1: told[1]}).touched == told[1] | told[2]
    assert plan_of([("GRAPH", [fill(0x1000, 10)]), ("GRAPH", [fill(0x1028, 1)])]).touched.writes == (range(0x1000, 0x102C),)


def test_addresses_are_no_part_of_what_a_plan_is(plan_of):
    assert plan_of([fill(0x1000, 10)]) == plan_of([fill(0x2000, 10)])
    assert plan_of([fill(0x1000, 10)]) != plan_of([fill(0x1000, 11)])


def test_ranges_are_joined():
    found = Touched((range(10, 20), range(0, 5)), ()) | Touched((range(20, 30), range(12, 14), range(7, 7)), (range(3, 4),))
    assert found == Touched((range(0, 5), range(10, 30)), (range(3, 4),))
    assert together([found, None]) is None
    assert together([]) == Touched()
    assert str(found) == "reads 0x0+5, 0xa+20; writes 0x3+1"


def kernel(x, y, z, n):
    t = np.zeros_like(x)
    for _s in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            y[i] = x[i] + y[i]
        y[:] = np.sort(x)
    for i in range(x.shape[0]):
        t[i] = y[i]
    for i in range(x.shape[0]):
        z[i] = t[i] * 2


def test_what_a_kernel_touches():
    x, y, z = np.zeros(10), np.zeros(20)[::-2], np.zeros(10)
    plan = qgraph.kernel(kernel).plan(x, y, z, 3)
    call = Call((*(adopt(each, "") for each in (x, y, z)), 3), ())
    found = touched_by(plan, call)
    first, last = x.ctypes.data, z.ctypes.data
    # The second array starts at its end, and has gaps.
    middle = range(y.ctypes.data - 9 * 16, y.ctypes.data + 8)
    reads, writes = range(first, first + 80), range(last, last + 80)
    assert found.keys() == {node.index for node in plan.nodes}
    for loop in (node.index for node in plan.nodes if node.kind == "while"):
        assert found[loop] == Touched((reads,), ()) | Touched((middle,), (middle,))
    for library in (node.index for node in plan.nodes if node.kind == "library"):
        assert found[library] == Touched((reads,), (middle,))
    assert found[len(plan.nodes) - 1] == Touched((), (writes,))
    told = {5: found[loop], 6: found[library]}
    assert known_nodes([call, *(KnownNodes({handle: touched}) for handle, touched in told.items())]) == told


def test_a_kernel_that_may_touch_anything():
    def with_a_graph(x):
        g()
        for i in range(x.shape[0]):
            x[i] += 1

    from tests.nodes.test_child_graph import Recorded

    g = Recorded()
    x = np.zeros(10)
    plan = qgraph.kernel(with_a_graph).plan(x)
    (child,) = (node.index for node in plan.nodes if node.kind == "child")
    assert child not in touched_by(plan, Call((adopt(x, ""),), ()))
