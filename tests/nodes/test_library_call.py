"""What the node of a library call does with its graph, as the driver is told."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.errors import CudaError


class Recorded:
    """What a library launched."""

    def add_to(self, graph):
        return "first"

    def patch(self, executable, node, before):
        assert executable == "executable of first"
        return False

    def replace(self, graph, node):
        return "second"


@pytest.fixture
def made():
    """A node, and what its owner is asked to do."""

    def kernel(x, y):
        y[:] = np.sort(x)

    (node,) = qgraph.kernel(kernel).plan(np.zeros(3), np.zeros(3)).nodes
    done, refused = [], set()

    def call(name, *arguments):
        done.append(name)
        if name in refused:
            raise CudaError(f"{name} failed")
        return name

    names = ("cuGraphCreate", "cuGraphAddEmptyNode", "cuGraphAddChildGraphNode", "cuGraphDestroy")
    driver = SimpleNamespace(**{name: name for name in names})
    owner = SimpleNamespace(
        driver=driver, call=call, leaves={"x": 0, "y": 1}, recorder=lambda statement: lambda arrays: arrays[0]
    )
    return node.what.in_graph(node, owner), done, refused


@pytest.mark.parametrize("name", ["cuGraphAddEmptyNode", "cuGraphAddChildGraphNode"])
def test_the_empty_graph_goes_where_the_driver_refuses(made, name):
    node, done, refused = made
    refused.add(name)
    with pytest.raises(CudaError, match=name):
        node.add("graph")
    assert done[-1] == "cuGraphDestroy"


def test_a_replaced_node_is_not_patched_in_the_executable_of_the_one_before(made):
    node, _, _ = made
    first, second = Recorded(), Recorded()
    node.update((first, None), ())
    assert node.add("graph") == "first"
    node.executable = "executable of first"
    node.update((second, None), ())
    assert node.rejected
    node.define()
    # The driver refused to make it executable again.
    for recorded in (first, second):
        node.update((recorded, None), ())
        assert node.rejected
    assert (node.handle, node.executable) == ("second", None)
