"""What the driver is given for a conditional node, and how the bodies that it makes are found."""

from __future__ import annotations

import ctypes
import types

import pytest

from qgraph.runtime.graph import graph_builder
from qgraph.runtime.graph.graph_builder import add_conditional

bindings = pytest.importorskip("cuda.bindings.driver")
pytestmark = pytest.mark.needs("compiler")

TYPE, HANDLE, KIND_AND_SIZE, BODIES, CONTEXT = 0, 2, 3, 4, 5


@pytest.mark.parametrize(("kind", "number", "count"), [("if", 0, 1), ("if", 0, 2), ("while", 1, 1), ("switch", 2, 7)])
def test_a_conditional_node(monkeypatch, kind, number, count):
    """The words of CUgraphNodeParams, as cuda.h has them."""
    graphs = (ctypes.c_uint64 * count)(*range(0x1000, 0x1000 + count))

    class Driver:
        def __getattr__(self, name):
            return getattr(bindings, name)

        def cuCtxGetCurrent(self):
            return 0, bindings.CUcontext(0x77)

    def add_node(graph, befores, data, edges, parameters):
        words = (ctypes.c_uint64 * 6).from_address(parameters.getPtr())
        assert (graph, befores, data, edges) == ("graph", None, None, 0)
        assert words[TYPE] == 13
        assert words[HANDLE] == 0x55
        assert words[KIND_AND_SIZE] == number | count << 32
        assert words[CONTEXT] == 0x77
        words[BODIES] = ctypes.addressof(graphs)
        return 0, "node"

    monkeypatch.setattr(graph_builder, "driver", Driver())
    monkeypatch.setattr(graph_builder, "_add_any_node", add_node)
    node, bodies = add_conditional("graph", kind, bindings.CUgraphConditionalHandle(0x55), count)
    assert node == "node"
    assert [int(body) for body in bodies] == list(graphs)


@pytest.mark.parametrize("end", ["destroy", "abandon"])
def test_no_node_is_patched_in_what_is_gone(monkeypatch, end):
    called = []
    names = ("cuGraphCreate", "cuGraphInstantiate", "cuGraphExecDestroy", "cuGraphDestroy")
    monkeypatch.setattr(graph_builder, "driver", types.SimpleNamespace(**{name: name for name in names}))
    monkeypatch.setattr(graph_builder, "call", lambda name, *_: called.append((name, kernel.executable)) or object())
    kernel = types.SimpleNamespace(executable=None)
    instance = graph_builder.GraphInstance()
    instance.instantiate([kernel])
    assert kernel.executable is instance.executable is not None
    getattr(instance, end)()
    assert kernel.executable is instance.executable is instance.graph is None
    expected = [("cuGraphExecDestroy", None), ("cuGraphDestroy", None)] if end == "destroy" else []
    assert called[2:] == expected
