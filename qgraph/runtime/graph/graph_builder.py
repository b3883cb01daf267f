"""From the nodes and edges of a plan to a CUgraph, the bodies of conditional nodes included, and its executable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from qgraph.compat.cuda_bindings import with_edge_data
from qgraph.errors import CudaError
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Branch, Loop
from qgraph.nodes.kind import GraphNode
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import call, driver, outside_captures
from qgraph.runtime.graph.kernels import KernelNode

add_dependencies = with_edge_data(driver, "cuGraphAddDependencies")
_add_any_node = with_edge_data(driver, "cuGraphAddNode")
_get_dependencies = with_edge_data(driver, "cuGraphNodeGetDependencies")
_get_dependents = with_edge_data(driver, "cuGraphNodeGetDependentNodes")

_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT


def _edge_data() -> Any:
    data = driver.CUgraphEdgeData()
    data.from_port = 1  # CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    data.type = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    return data


_PROGRAMMATIC = _edge_data()


@dataclass(frozen=True, slots=True)
class RawGraph:
    """The CUDA graph of a bound kernel, for what speaks CUDA itself: walk it, dump it, launch it.

    The executable has the arguments that the kernel is bound to, until the kernel is called with others; the nodes of the
    graph have those that they were made with. Nothing may be destroyed or changed through these handles. Drivers fail
    where graphs with device loops run at the same time on several streams: who launches this one himself sees to that.

    Attributes:
        handle: the ``CUgraph`` of ``cuda.bindings.driver``.
        executable: the ``CUgraphExec``, which ``cuGraphLaunch`` takes.
    """

    handle: Any
    executable: Any


class GraphInstance:
    """A graph (a CUgraph) and its one executable: one with conditional nodes, or with nodes that take memory, allows no second.

    The graph stays, since its nodes name the places where the executable is patched.
    """

    __slots__ = ("_nodes", "exclusive", "executable", "graph")

    def __init__(self) -> None:
        self.graph: Any = call(driver.cuGraphCreate, 0)
        self.executable: Any = None
        self.exclusive = False
        self._nodes: tuple[KernelNode | GraphNode, ...] = ()

    def instantiate(self, nodes: Iterable[KernelNode | GraphNode]) -> None:
        """Make it executable, and tell its nodes where they are patched from now on."""
        self._nodes = tuple(nodes)
        self.executable = call(driver.cuGraphInstantiate, self.graph, 0)
        for node in self._nodes:
            node.executable = self.executable
            if isinstance(node, GraphNode):
                node.instantiated()

    def instantiate_again(self) -> bool:
        """Where a node could not be patched: another executable, in which kernels have the parameters of the graph."""
        others = [node for node in self._nodes if isinstance(node, GraphNode)]
        if not any(node.rejected for node in others):
            return False
        for node in others:
            node.define()
        with outside_captures():
            if self.exclusive:
                # Such a graph has one executable at a time, and that of a launch in flight counts.
                call(driver.cuCtxSynchronize)
            old = self.executable
            self._forget()
            if old is not None:
                call(driver.cuGraphExecDestroy, old)
            self.instantiate(self._nodes)
        for node in others:
            node.rejected = False
        return True

    def destroy(self) -> None:
        """Executable first, then the graph. Launches in flight finish: the driver frees the executable after them."""
        executable, graph = self.executable, self.graph
        self.abandon()
        try:
            if executable is not None:
                call(driver.cuGraphExecDestroy, executable)
        finally:
            if graph is not None:
                call(driver.cuGraphDestroy, graph)

    def abandon(self) -> None:
        """The context died: no handle may reach the driver again."""
        self._forget()
        self.graph = None

    def _forget(self) -> None:
        # Before it is destroyed: no node may be patched in it any more.
        self.executable = None
        for node in self._nodes:
            node.executable = None


def add_node(graph: Any, kernel: KernelNode | GraphNode) -> Any:
    """Add a node without edges to ``graph`` (a CUgraph)."""
    if isinstance(kernel, GraphNode):
        return kernel.add(graph)
    kernel.handle = call(driver.cuGraphAddKernelNode, graph, None, 0, kernel.launch)
    return kernel.handle


def add_edges(
    graph: Any,
    edges: Iterable[tuple[int, int]],
    handles: Mapping[int, Any],
    programmatic: Set[tuple[int, int]],
    first: Mapping[int, Any] = MappingProxyType({}),
) -> None:
    """Add those of the plan's edges that run between nodes in ``handles`` (CUgraphNodes by plan index).

    Over an edge in ``programmatic`` the later kernel may start before the earlier has ended: it waits inside. Edges to a node
    in ``first``, which is several, run to that one.
    """
    inside = [edge for edge in edges if edge[0] in handles and edge[1] in handles]
    for early in (False, True):
        group = [edge for edge in inside if (edge in programmatic) == early]
        pairs = [(handles[before], first.get(after, handles[after])) for before, after in group]
        connect(graph, pairs, programmatic=early)


def connect(graph: Any, pairs: Sequence[tuple[Any, Any]], *, programmatic: bool) -> None:
    """Add edges of one kind between nodes of a graph: cuda.bindings 13.3 is not to be trusted with edge data that differ."""
    if pairs:
        befores, afters = zip(*pairs, strict=True)
        data = [_PROGRAMMATIC] * len(pairs) if programmatic else None
        call(add_dependencies, graph, list(befores), list(afters), data, len(pairs))


def neighbours(node: Any) -> tuple[list[Any], list[Any]]:
    """The CUgraphNodes that a node waits for, and those that wait for it."""
    found = []
    for get in (_get_dependencies, _get_dependents):
        count = call(get, node, 0)[-1]
        found.append(list(call(get, node, count)[0])[:count] if count else [])
    return found[0], found[1]


def node_of_task(plan: GraphPlan) -> dict[str, int]:
    """For each task that arms or decides a loop or branch: the index of its conditional node, by the task's name."""
    decided = {}
    for node in plan.nodes:
        match node.control:
            case Branch():
                decided[node.control.decide.name] = node.index
            case Loop():
                decided[node.control.condition.name] = node.index
                if node.control.enter is not None:
                    decided[node.control.enter.name] = node.index
    return decided


# Of a region: the nodes that come after no other one of it, and those that no other one comes after.
Ends = tuple[list[Any], list[Any]]


class Layout:
    """How the nodes of a plan are put in one graph, bodies of conditional nodes included.

    Attributes:
        added: the CUgraphNodes so far, by plan index.

    Args:
        plan: the plan.
        nodes: what stands at each node that decides nothing.
        programmatic: the edges over which kernels wait inside.
        set_handle: is told the conditional handle of each conditional node, before any kernel is added.
        row: edges between kernels of the root without an order, over which the later ones wait at their ends.
    """

    def __init__(
        self,
        plan: GraphPlan,
        nodes: Mapping[int, KernelNode | GraphNode],
        programmatic: Set[tuple[int, int]],
        set_handle: Callable[[int, int], None],
        row: Set[tuple[int, int]] = frozenset(),
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._programmatic = programmatic
        self._set_handle = set_handle
        self._row = row
        self.added: dict[int, Any] = {}

    def fill(self, root: Any, graph: Any, region: int) -> Ends:
        """Add a region of the plan to ``graph`` (a CUgraph), the root itself or a body below it, and give its ends."""
        plan = self._plan
        nodes = [plan.nodes[index] for index in plan.regions[region].nodes]
        conditions = {node.index: self._condition(root, node) for node in nodes if node.control is not None}
        handles: dict[int, Any] = {}
        first: dict[int, Any] = {}
        if not nodes:
            # Drivers before 12.8 hang on a body without nodes.
            call(driver.cuGraphAddEmptyNode, graph, None, 0)
        for node in nodes:
            if node.control is None:
                handles[node.index] = add_node(graph, self._nodes[node.index])
                continue
            handles[node.index], bodies = add_conditional(graph, node.kind, conditions[node.index], len(node.bodies))
            for body, inner in zip(bodies, node.bodies, strict=True):
                self.fill(root, body, inner)
            before = self._before(graph, node)
            if before is not None:
                connect(graph, [(before, handles[node.index])], programmatic=False)
                first[node.index] = before
        self.added |= handles
        add_edges(graph, plan.edges, handles, self._programmatic, first)
        if region == 0:
            connect(graph, [(handles[before], handles[after]) for before, after in sorted(self._row)], programmatic=True)
        later, earlier = {after for _, after in plan.edges}, {before for before, _ in plan.edges}
        entries = [first.get(index, handle) for index, handle in handles.items() if index not in later]
        return entries, [handle for index, handle in handles.items() if index not in earlier]

    def _before(self, graph: Any, node: Node) -> Any:
        """Add to ``graph`` what runs before a conditional node, and after all that this waits for; None where nothing does."""
        return None

    def _condition(self, root: Any, node: Node) -> Any:
        # The default holds at the start of each launch, not at each entry: what is entered again must be armed by a task.
        if node.region != 0 and isinstance(node.control, Loop) and node.control.enter is None:
            raise CudaError(f"the loop {node.label} lies inside another loop, and no task arms its condition")
        # A handle of the root may be used by a node of any body below it.
        condition = new_condition(root)
        self._set_handle(node.index, int(condition))
        return condition


def new_condition(root: Any) -> Any:
    """A conditional handle for a node of ``root`` or of a body below it: 1 at the start of each launch."""
    return call(driver.cuGraphConditionalHandleCreate, root, call(driver.cuCtxGetCurrent), 1, _ASSIGN_DEFAULT)


def add_conditional(graph: Any, kind: str, condition: Any, bodies: int) -> tuple[Any, tuple[Any, ...]]:
    """Add a ``while``, ``if`` or ``switch`` node without edges to ``graph``; gives it and the (empty) graphs of its bodies."""
    kinds = driver.CUgraphConditionalNodeType
    parameters = driver.CUgraphNodeParams()
    parameters.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    parameters.conditional.handle = condition
    parameters.conditional.type = getattr(kinds, f"CU_GRAPH_COND_TYPE_{kind.upper()}")
    parameters.conditional.size = bodies
    parameters.conditional.ctx = call(driver.cuCtxGetCurrent)
    node = call(_add_any_node, graph, None, None, 0, parameters)
    # Written by the call; before it, there is nothing to be read.
    return node, tuple(parameters.conditional.phGraph_out)


def segments_of(plan: GraphPlan, region: int) -> Iterator[Sequence[Node] | Node]:
    """A region in program order: runs of nodes that decide nothing, and between them the conditional nodes."""
    run: list[Node] = []
    for index in plan.regions[region].nodes:
        node = plan.nodes[index]
        if node.control is None:
            run.append(node)
            continue
        if run:
            yield run
            run = []
        yield node
    if run:
        yield run
