"""What a recorded graph (a CUgraph) holds: its nodes, named by their kernels, and its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from qgraph.compat.cuda_bindings import with_edge_data
from qgraph.compat.libstdcxx import demangled
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import call, driver, failure
from qgraph.runtime.graph.touched_memory import Touched, together

_get_edges = with_edge_data(driver, "cuGraphGetEdges")
_UNKNOWN_POINTER = 1  # CUDA_ERROR_INVALID_VALUE
_MEMORY_TYPE_OF_HOST = 1  # CU_MEMORYTYPE_HOST
_MEMORY_TYPE_OF_ARRAY = 3  # CU_MEMORYTYPE_ARRAY
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
        touched: what it reads and writes; None where nobody knows, as of kernels that others launched.
    """

    index: int
    kind: str
    label: str
    parent: int | None = None
    host_memory: bool = False
    # Recordings for other arrays have the same nodes otherwise.
    touched: Touched | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"n{self.index} {self.kind}{f' {self.label}' if self.label else ''}"


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The nodes of a recorded graph, those of child graphs behind their node, and the edges (from, to) between indices."""

    nodes: tuple[RecordedNode, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def touched(self) -> Touched | None:
        """What all of it reads and writes; None where that is not known of some node."""
        return together(node.touched for node in self.nodes if node.parent is None)

    def __str__(self) -> str:
        depth: dict[int, int] = {}
        lines = [f"{len(self.nodes)} nodes, {len(self.edges)} edges"]
        for node in self.nodes:
            depth[node.index] = 0 if node.parent is None else depth[node.parent] + 1
            before = ", ".join(f"n{first}" for first, second in self.edges if second == node.index)
            touched = "touches anything" if node.touched is None else str(node.touched)
            more = "".join(f"  {each}" for each in (f"after {before}" if before else "", touched) if each)
            lines.append(f"{'  ' * (depth[node.index] + 1)}{node}{more}")
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


def recorded_plan(graph: Any, known: Mapping[int, Touched]) -> RecordedPlan:
    """The nodes and edges of ``graph`` (a CUgraph), child graphs included; ``known`` of some, by handle, is what they touch."""
    nodes: list[RecordedNode] = []
    edges: list[tuple[int, int]] = []
    _walk(graph, None, known, nodes, edges)
    return RecordedPlan(tuple(nodes), tuple(sorted(edges)))


def _walk(
    graph: Any, parent: int | None, known: Mapping[int, Touched], nodes: list[RecordedNode], edges: list[tuple[int, int]]
) -> None:
    numbers: dict[int, int] = {}
    for handle in _in_order(graph):
        index = numbers[int(handle)] = len(nodes)
        kind = _kind(handle)
        label, host_memory, touched = _DETAILS.get(kind, _unknown)(handle)
        nodes.append(RecordedNode(index, kind, label, parent, host_memory, known.get(int(handle), touched)))
        if kind == "child":
            _walk(call(driver.cuGraphChildGraphNodeGetGraph, handle), index, known, nodes, edges)
            if nodes[index].touched is None:
                inside = together(node.touched for node in nodes[index:] if node.parent == index)
                nodes[index] = replace(nodes[index], touched=inside)
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


# A label, whether it copies pageable memory of the host, and what it touches.
_Details = tuple[str, bool, Touched | None]


def _kernel(node: Any) -> _Details:
    parameters = call(driver.cuGraphKernelNodeGetParams, node)
    function, kernel = parameters.func, parameters.kern
    name = call(driver.cuFuncGetName, function) if function and int(function) else call(driver.cuKernelGetName, kernel)
    return demangled(name), False, None


def _memcpy(node: Any) -> _Details:
    copy = call(driver.cuGraphMemcpyNodeGetParams, node)
    extents = int(copy.WidthInBytes), int(copy.Height), int(copy.Depth)
    ends = [_End.of(copy, side) for side in ("src", "dst")]
    known = all(end.kind != _MEMORY_TYPE_OF_ARRAY for end in ends)
    source, target = (end.memory(*extents) for end in ends)
    touched = Touched((source,), (target,)) if known else None
    return f"of {extents[0] * extents[1] * extents[2]} bytes", any(_is_pageable(end) for end in ends), touched


@dataclass(frozen=True, slots=True)
class _End:
    """Where a copy starts, or goes to: ``pointer`` and what is skipped there; rows and planes of rows are so far apart."""

    kind: int
    pointer: int
    skipped: tuple[int, int, int]
    row: int
    plane: int

    @classmethod
    def of(cls, copy: Any, side: str) -> _End:
        def field_(name: str) -> int:
            return int(getattr(copy, f"{side}{name}") or 0)

        kind = field_("MemoryType")
        # A unified address is in the device's place.
        pointer = (kind == _MEMORY_TYPE_OF_HOST and field_("Host")) or field_("Device")
        row = field_("Pitch")
        return cls(kind, pointer, (field_("XInBytes"), field_("Y"), field_("Z")), row, row * field_("Height"))

    def memory(self, width: int, height: int, depth: int) -> range:
        x, y, z = self.skipped
        first = self.pointer + x + y * self.row + z * self.plane
        last = first + (depth - 1) * self.plane + (height - 1) * self.row + width
        return range(first, last if width * height * depth else first)


def _is_pageable(end: _End) -> bool:
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    code = int(driver.cuPointerGetAttribute(attribute, end.pointer)[0]) if end.pointer else 0
    if code not in (0, _UNKNOWN_POINTER):
        raise failure(code, "cuPointerGetAttribute")
    return code == _UNKNOWN_POINTER


def _memset(node: Any) -> _Details:
    fill = call(driver.cuGraphMemsetNodeGetParams, node)
    first, height, width = int(fill.dst), int(fill.height), int(fill.width) * int(fill.elementSize)
    memory = range(first, first + (height - 1) * int(fill.pitch) + width if width * height else first)
    return f"of {width * height} bytes", False, Touched((), (memory,))


def _ordering(_node: Any) -> _Details:
    return "", False, Touched()


def _unknown(_node: Any) -> _Details:
    return "", False, None


_DETAILS: dict[str, Callable[[Any], _Details]] = {
    "kernel": _kernel,
    "memcpy": _memcpy,
    "memset": _memset,
    **dict.fromkeys(("empty", "event record", "event wait", "alloc", "free"), _ordering),
}
