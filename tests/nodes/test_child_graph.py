"""Recorded graphs in kernels, as far as no GPU is needed: order, refusals, and what holds them."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.nodes.child_graph import RecordedGraph


class Recorded(RecordedGraph):
    """A graph of which only what it holds is known."""

    ordinal = 0

    def __init__(self, in_graph="", in_body=""):
        self._refused = in_graph, in_body

    def not_in_graph(self):
        return self._refused[0]

    def not_in_body(self):
        return self._refused[1]

    def add_to(self, graph):
        raise AssertionError

    patch = replace = run = add_to


g = Recorded()
with_loops = Recorded(in_graph="it holds n0 conditional, and a graph with a conditional node cannot be a child graph")
with_host_nodes = Recorded(in_body="and its node n3 host is of a kind that CUDA keeps out of them")


def arrays():
    return np.zeros(5), np.zeros(5), np.zeros(5)


def plan(function):
    return qgraph.kernel(function).plan(*arrays())


def test_without_words_it_is_in_order_with_everything():
    def kernel(x, y, z):
        for i in range(x.shape[0]):
            x[i] += 1
        g()
        for i in range(z.shape[0]):
            z[i] += 1

    found = plan(kernel)
    assert [node.kind for node in found.nodes] == ["kernel", "child", "kernel"]
    assert found.edges == ((0, 1), (1, 2))
    assert found.nodes[1].span.line == kernel.__code__.co_firstlineno + 3


def test_words_leave_others_without_an_order():
    def kernel(x, y, z):
        for i in range(x.shape[0]):
            x[i] += 1
        for i in range(y.shape[0]):
            y[i] *= 2
        g(reads=(x,), writes=z)
        for i in range(z.shape[0]):
            z[i] += x[i]
        for i in range(y.shape[0]):
            y[i] += 1

    assert plan(kernel).edges == ((0, 2), (1, 4), (2, 3))


def test_copies_of_one_graph_take_turns():
    def kernel(x, y, z):
        g(reads=(x,), writes=())
        g(reads=(y,), writes=z)

    assert plan(kernel).edges == ((0, 1),)


def test_in_loops_and_branches():
    def plain(x, y, z):
        for _t in qgraph.serial(range(3)):
            for i in range(x.shape[0]):
                x[i] += 1
            g(writes=x)
            if x[0] > 3:
                for i in range(x.shape[0]):
                    y[i] = x[i]
            else:
                g()
        for i in range(x.shape[0]):
            z[i] = x[i]

    found = plan(plain)
    assert [node.kind for node in found.nodes].count("child") == 2
    (loop,) = (node for node in found.nodes if node.kind == "while")
    # What the graphs in the loop may touch comes before what follows.
    last = max(node.index for node in found.nodes)
    assert (loop.index, last) in found.edges


def test_in_a_loop_it_is_in_order_with_everything():
    def kernel(x, y, z):
        for _t in qgraph.serial(range(3)):
            for i in range(x.shape[0]):
                x[i] += 1
            g()
            for i in range(y.shape[0]):
                y[i] += 1
        for i in range(z.shape[0]):
            z[i] += 1

    found = plan(kernel)
    (child,) = (node.index for node in found.nodes if node.kind == "child")
    (loop,) = (node.index for node in found.nodes if node.kind == "while")
    assert {(child - 1, child), (child, child + 1), (loop, len(found.nodes) - 1)} <= set(found.edges)


def test_what_it_writes_in_a_loop_may_be_another_argument():
    def kernel(x, y, z):
        for i in range(x.shape[0]):
            y[i] = x[i]
        for _t in qgraph.serial(range(3)):
            g(writes=z)

    x, y, z = arrays()
    (loop,) = (node.index for node in plan(kernel).nodes if node.kind == "while")
    assert (0, loop) not in plan(kernel).edges
    assert (0, loop) in qgraph.kernel(kernel).plan(x, y, x).edges


def test_what_a_graph_holds_may_forbid_it():
    def conditional(x, y, z):
        with_loops()

    def host_in_loop(x, y, z):
        for _t in qgraph.serial(range(3)):
            with_host_nodes()

    def host(x, y, z):
        with_host_nodes()

    with pytest.raises(qgraph.KernelSyntaxError, match="n0 conditional"):
        plan(conditional)
    with pytest.raises(qgraph.KernelSyntaxError, match="n3 host"):
        plan(host_in_loop)
    assert [node.kind for node in plan(host).nodes] == ["child"]


def test_what_it_is_called_with():
    def argument(x, y, z):
        g(x)

    def other_word(x, y, z):
        g(x=x)

    def part(x, y, z):
        g(reads=x[1:])

    def in_a_loop(x, y, z):
        for i in range(x.shape[0]):
            g()

    def as_value(x, y, z):
        s = g()
        x[0] = s

    for function in (argument, other_word, part, in_a_loop, as_value):
        with pytest.raises(qgraph.KernelSyntaxError):
            plan(function)


def test_host_backends_refuse_it_before_anything_runs(backend):
    if backend == "cuda":
        pytest.skip("a host backend is asked")

    def kernel(x, y, z):
        for i in range(x.shape[0]):
            x[i] += 1
        g()

    given = arrays()
    with pytest.raises(qgraph.BackendError, match=f"cannot run on the {backend} backend"):
        qgraph.kernel(kernel, backend=backend)(*given)
    assert not given[0].any()


def test_no_capture_without_cuda(monkeypatch):
    monkeypatch.setenv("QGRAPH_BACKEND", "cpu")
    with pytest.raises(qgraph.BackendError, match="cpu backend"):
        qgraph.capture()
