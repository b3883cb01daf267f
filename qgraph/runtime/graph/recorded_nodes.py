"""What a recorded graph (a CUgraph) holds: its nodes, named by their kernels, and its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from qgraph.compat.cuda_bindings import with_edge_data
from qgraph.compat.libstdcxx import demangled
from qgraph.runtime.driver.driver import call, driver

_get_edges = with_edge_data(driver, "cuGraphGetEdges")
_MEMORY_TYPE_OF_HOST = 1  # CU_MEMORYTYPE_HOST
# What CUDA has no copy of, so that no graph with such a node can be a child of another one.
_NOT_IN_CHILD = {
    "conditional": "a graph with a conditional node cannot be a child graph",
    "alloc": "a graph that allocates memory cannot be a child graph",
    "free": "a graph that frees memory cannot be a child graph",
}
# What bodies of conditional nodes may hold.
_IN_BODIES = frozenset({"kernel", "memcpy", "memset", "empty", "child"})


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """A node of a recorded graph.

    Attributes:
        index: its place among the plan's nodes.
        kind: ``kernel``, ``memcpy``, ``memset``, ``host``, ``child``, ``empty``, ``event record``, ``event wait``, ``alloc``,
            ``free``, ``conditional``, or the driver's own word.
        label: the name of the kernel, or how many bytes are copied or set.
        parent: the child-graph node in which it lies, None for the graph itself.
        host_memory: whether it copies from or to memory of the host that CUDA does not know.
    """

    index: int
    kind: str
    label: str
    parent: int | None = None
    host_memory: bool = False

    def __str__(self) -> str:
        return f"n{self.index} {self.kind}{f' {self.label}' if self.label else ''}"


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The nodes of a recorded graph, those of child graphs behind their node, and the edges (from, to) between indices."""

    nodes: tuple[RecordedNode, ...]
    edges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        depth: dict[int, int] = {}
        lines = [f"{len(self.nodes)} nodes, {len(self.edges)} edges"]
        for node in self.nodes:
            depth[node.index] = 0 if node.parent is None else depth[node.parent] + 1
            before = ", ".join(f"n{first}" for first, second in self.edges if second == node.index)
            lines.append(f"{'  ' * (depth[node.index] + 1)}{node}{f'  after {before}' if before else ''}")
        return "\n".join(lines)

    def not_in_graph(self) -> str:
        """Which node keeps the graph from being a child graph; empty if none does."""
        return next(
            (f"it holds {node}, and {_NOT_IN_CHILD[node.kind]}" for node in self.nodes if node.kind in _NOT_IN_CHILD), ""
        )

    def not_in_body(self) -> str:
        """Which node keeps it out of the body of a conditional node."""
        for node in self.nodes:
            if node.kind not in _IN_BODIES:
                return f"and its node {node} is of a kind that CUDA keeps out of them"
            if node.host_memory:
                return f"and its node {node} copies pageable memory of the host, which CUDA keeps out of them"
        return ""


def recorded_plan(graph: Any) -> RecordedPlan:
    """The nodes and edges of ``graph`` (a CUgraph), child graphs included."""
    nodes: list[RecordedNode] = []
    edges: list[tuple[int, int]] = []
    _walk(graph, None, nodes, edges)
    return RecordedPlan(tuple(nodes), tuple(sorted(edges)))


def _walk(graph: Any, parent: int | None, nodes: list[RecordedNode], edges: list[tuple[int, int]]) -> None:
    numbers: dict[int, int] = {}
    for handle in _in_order(graph):
        index = numbers[int(handle)] = len(nodes)
        kind = _kind(handle)
        label, host_memory = _DETAILS.get(kind, _nothing)(handle)
        nodes.append(RecordedNode(index, kind, label, parent, host_memory))
        if kind == "child":
            _walk(call(driver.cuGraphChildGraphNodeGetGraph, handle), index, nodes, edges)
    edges += [(numbers[int(before)], numbers[int(after)]) for before, after in _edges(graph)]


def _in_order(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, each after those that it waits for."""
    _, count = call(driver.cuGraphGetNodes, graph, 0)
    handles, count = call(driver.cuGraphGetNodes, graph, count)
    waiting = {int(handle): handle for handle in list(handles)[:count]}
    missing = {number: {int(before) for before, after in _edges(graph) if int(after) == number} for number in waiting}
    while waiting:
        ready = next(number for number in waiting if not missing[number] & waiting.keys())
        yield waiting.pop(ready)


def _edges(graph: Any) -> list[tuple[Any, Any]]:
    count = call(_get_edges, graph, 0)[-1]
    if not count:
        return []
    found = call(_get_edges, graph, count)
    return list(zip(list(found[0])[:count], list(found[1])[:count], strict=True))


def _kind(node: Any) -> str:
    name: str = call(driver.cuGraphNodeGetType, node).name.removeprefix("CU_GRAPH_NODE_TYPE_")
    return _KINDS.get(name, name.lower().replace("_", " "))


_KINDS = {
    "GRAPH": "child",
    "MEM_ALLOC": "alloc",
    "MEM_FREE": "free",
    "WAIT_EVENT": "event wait",
    "EVENT_RECORD": "event record",
}


def _kernel(node: Any) -> tuple[str, bool]:
    parameters = call(driver.cuGraphKernelNodeGetParams, node)
    function, kernel = parameters.func, parameters.kern
    name = call(driver.cuFuncGetName, function) if function and int(function) else call(driver.cuKernelGetName, kernel)
    return demangled(name), False


def _memcpy(node: Any) -> tuple[str, bool]:
    copy = call(driver.cuGraphMemcpyNodeGetParams, node)
    nbytes = int(copy.WidthInBytes) * int(copy.Height) * int(copy.Depth)
    ends = (copy.srcMemoryType, copy.srcHost, copy.srcDevice), (copy.dstMemoryType, copy.dstHost, copy.dstDevice)
    return f"of {nbytes} bytes", any(_is_pageable(int(kind), host, device) for kind, host, device in ends)


def _is_pageable(kind: int, host: Any, device: Any) -> bool:
    # A unified address is in the device's place.
    pointer = int(host or 0) if kind == _MEMORY_TYPE_OF_HOST else int(device or 0)
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    return bool(pointer) and int(driver.cuPointerGetAttribute(attribute, pointer)[0]) != 0


def _memset(node: Any) -> tuple[str, bool]:
    fill = call(driver.cuGraphMemsetNodeGetParams, node)
    return f"of {int(fill.width) * int(fill.height) * int(fill.elementSize)} bytes", False


def _nothing(_node: Any) -> tuple[str, bool]:
    return "", False


_DETAILS: dict[str, Callable[[Any], tuple[str, bool]]] = {"kernel": _kernel, "memcpy": _memcpy, "memset": _memset}
