"""Streams that are captured, and child graphs, of the driver of tests/played_driver.py."""

from __future__ import annotations

import ctypes
import types

from tests.runtime import graphs_on_simulator as simulated

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_INVALID_VALUE = 1
_UNSUPPORTED, _INVALIDATED = 900, 901  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ..._INVALIDATED
_UPDATE_FAILURE = 910  # CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
# What is asked of the parameters of a node.
_OF_ENDS = ("MemoryType", "Host", "Device", "XInBytes", "Y", "Z", "Pitch", "Height")
_OF_COPIES = (
    *("WidthInBytes", "Height", "Depth"),
    *(f"{side}{name}" for side in ("src", "dst") for name in _OF_ENDS),
)
_OF_FILLS = ("dst", "value", "elementSize", "width", "height", "pitch")


def given(what, names):
    """The parameters as they are now."""
    return types.SimpleNamespace(**{name: int(getattr(what, name, 0) or 0) for name in names})


def copied(graph):
    """A graph of the same nodes and edges."""
    made, twins = simulated.Graph(), {}
    for node in graph.nodes:
        assert not node.bodies, "a graph with a conditional node cannot be a child graph"
        twins[node.number] = twin = made.add(node.kind, node.what)
        twin.given, twin.child = node.given, node.child
    made.edges = [(twins[before.number], twins[after.number]) for before, after in graph.edges]
    return made


class Captures(simulated.Driver):
    """What streams get while they are captured, and graphs in graphs.

    Attributes:
        captures: by stream, the graph that is captured, and what the next node comes after.
        broken: the streams of captures that were invalidated.
    """

    def __init__(self):
        self.captures = {}
        self.broken = set()

    def issue(self, stream, kind, what, parameters=None):
        """Do what ``stream`` is given, or let its graph do that."""
        if int(stream) not in self.captures:
            if kind == "kernel":
                simulated.run_kernel(*what)
            else:
                what()
            return
        graph, after = self.captures[int(stream)]
        node = graph.add(kind, what)
        node.given = parameters
        graph.edges += [(each, node) for each in after]
        self.captures[int(stream)][1] = [node]

    def cuMemcpyDtoDAsync(self, target, source, size, stream):
        ends = {"srcMemoryType": _DEVICE, "srcDevice": source, "dstMemoryType": _DEVICE, "dstDevice": target}
        parameters = types.SimpleNamespace(**ends, WidthInBytes=size, Height=1, Depth=1)
        self.issue(stream, "memcpy", lambda: ctypes.memmove(target, source, size), given(parameters, _OF_COPIES))
        return (0,)

    # --- captures ---

    def cuStreamCreate(self, flags):
        return 0, next(simulated.numbers)

    def cuStreamBeginCapture(self, stream, mode):
        assert int(stream) > 0
        assert int(stream) not in self.captures
        self.captures[int(stream)] = [simulated.Graph(), []]
        return (0,)

    def cuStreamIsCapturing(self, stream):
        return 0, int(int(stream) in self.captures)

    def cuStreamGetCaptureInfo(self, stream):
        graph, after = self.captures[int(stream)]
        return 0, 1, 7, graph, after, None, len(after)

    def cuStreamUpdateCaptureDependencies(self, stream, nodes, _data, count, flags):
        assert (count, flags) == (len(nodes), 1)
        self.captures[int(stream)][1] = list(nodes)
        return (0,)

    def cuStreamEndCapture(self, stream):
        graph, _after = self.captures.pop(int(stream))
        if int(stream) in self.broken:
            self.broken.remove(int(stream))
            return _INVALIDATED, None
        return 0, graph

    def cuCtxSynchronize(self):
        if not self.captures:
            return super().cuCtxSynchronize()
        self.broken.update(self.captures)
        return (_UNSUPPORTED,)

    def cuUserObjectCreate(self, what, destroy, count, flags):
        return 0, lambda: _CALLBACK(int(destroy))(what)

    def cuGraphRetainUserObject(self, graph, made, count, flags):
        graph.owned.append(made)
        return (0,)

    def cuGraphDestroy(self, graph):
        for let_go in graph.owned:
            let_go()
        return (0,)

    # --- what nodes are ---

    def cuGraphGetNodes(self, graph, count):
        return 0, graph.nodes, len(graph.nodes)

    def cuGraphGetEdges(self, graph, count):
        befores, afters = ([edge[side] for edge in graph.edges] for side in range(2))
        return 0, befores, afters, None, len(graph.edges)

    def cuGraphNodeGetType(self, node):
        kind = "conditional" if node.bodies else node.kind
        return 0, getattr(simulated.real.CUgraphNodeType, f"CU_GRAPH_NODE_TYPE_{kind.upper()}")

    def cuGraphKernelNodeGetParams(self, node):
        return 0, types.SimpleNamespace(func=node.number, kern=None)

    def cuFuncGetName(self, function):
        return 0, b"a kernel"

    def cuGraphMemcpyNodeGetParams(self, node):
        return 0, node.given

    cuGraphMemsetNodeGetParams = cuGraphMemcpyNodeGetParams

    def cuPointerGetAttribute(self, attribute, pointer):
        if attribute == simulated.real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return 0, _DEVICE
        return super().cuPointerGetAttribute(attribute, pointer)

    def add_copy(self, graph, what, parameters):
        node = graph.add("memcpy", what)
        node.given = given(parameters, _OF_COPIES)
        return node

    def cuGraphAddMemsetNode(self, graph, _before, _count, what, _context):
        node = graph.add("memset", self.memset(what))
        node.given = given(what, _OF_FILLS)
        return 0, node

    # --- child graphs ---

    def inside(self, child):
        """A copy of ``child``, and what runs it."""
        made = copied(child)
        executable = simulated.Executable(made)
        return made, lambda: executable.region(made)

    def cuGraphAddChildGraphNode(self, graph, _before, _count, child):
        made, what = self.inside(child)
        node = graph.add("graph", what)
        node.child = made
        return 0, node

    def cuGraphChildGraphNodeGetGraph(self, node):
        return 0, node.child

    def cuGraphExecChildGraphNodeSetParams(self, executable, node, child):
        if node.number not in executable.parameters:
            return (_INVALID_VALUE,)
        if [each.kind for each in child.nodes] != [each.kind for each in node.child.nodes]:
            return (_UPDATE_FAILURE,)
        executable.parameters[node.number] = self.inside(child)[1]
        return (0,)

    def cuGraphDestroyNode(self, node):
        graph = node.graph
        graph.nodes = [each for each in graph.nodes if each is not node]
        graph.edges = [edge for edge in graph.edges if node is not edge[0] and node is not edge[1]]
        return (0,)

    def cuGraphNodeGetDependencies(self, node, count):
        found = [before for before, after in node.graph.edges if after is node]
        return 0, found, None, len(found)

    def cuGraphNodeGetDependentNodes(self, node, count):
        found = [after for before, after in node.graph.edges if before is node]
        return 0, found, None, len(found)
