"""Child-graph nodes: a graph that was recorded from other libraries (``qgraph.capture``), called in a kernel."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from qgraph.errors import CudaError, KernelSyntaxError
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.plan import Node
from qgraph.ir.program import EVERYTHING, Effects
from qgraph.nodes.kind import GraphNode, Owner, Planned, StatementKind, WrittenCall
from qgraph.records import dataclass
from qgraph.source import as_written

# What every recorded graph writes besides arrays: copies of one share memory that only they know, so they take turns.
MEMORY = "recorded memory"


class RecordedGraph(ABC):
    """A graph whose nodes somebody else made, with arguments of their own.

    Attributes:
        ordinal: the number of its device.
    """

    ordinal: int

    @abstractmethod
    def not_in_graph(self) -> str:
        """Which of its nodes keeps it from being a child graph, as the end of a sentence; empty if none does.

        Raises:
            CudaError: it is not recorded, or not any more.
        """

    @abstractmethod
    def not_in_body(self) -> str:
        """The same of a child graph in the body of a conditional node."""

    @abstractmethod
    def add_to(self, graph: Any) -> Any:
        """Add a copy of it to ``graph`` (a CUgraph), without edges; gives the CUgraphNode."""

    @abstractmethod
    def patch(self, executable: Any, node: Any, before: RecordedGraph) -> bool:
        """Let ``node`` be a copy of it in ``executable`` (a CUgraphExec), where it was one of ``before``.

        False where CUDA cannot: they must have the same nodes and edges.
        """

    @abstractmethod
    def replace(self, graph: Any, node: Any) -> Any:
        """Let a copy of it take the place of ``node``, a child-graph node of ``graph``; gives the new CUgraphNode."""

    @abstractmethod
    def run(self, stream: int) -> None:
        """Launch it by itself on ``stream``. The device's context is current."""


@dataclass(frozen=True, slots=True)
class ChildGraph(StatementKind):
    """Run ``recorded``, which touches what its nodes were recorded with, whatever the kernel's arguments."""

    only_on_cuda = "a recorded graph runs on CUDA alone"
    keywords = ("reads", "writes")

    recorded: RecordedGraph = field(compare=False)

    @classmethod
    def is_word(cls, called: object) -> bool:
        """Whether it is a recorded graph."""
        return isinstance(called, RecordedGraph)

    @classmethod
    def statement(cls, word: object, call: WrittenCall) -> ChildGraph:
        """``g()`` touches anything; ``g(reads=(a,), writes=(b,))`` those arrays and nothing else."""
        node = call.node
        assert isinstance(word, RecordedGraph)
        if node.args:
            raise KernelSyntaxError(
                f"`{as_written(node)}` has arguments, and a recorded graph works on what it was recorded with",
                call.span(node.args[0]),
                hint="write g(), or say which arrays it touches: g(reads=(a,), writes=(b,))",
            )
        try:
            refused = word.not_in_graph()
        except CudaError as error:
            raise CudaError(error.found, call.span(node), hint=error.hint) from None
        if refused:
            raise KernelSyntaxError(
                f"`{as_written(node)}` cannot be a node of the kernel: {refused}",
                call.span(node),
                hint="record work without it, or launch the graph by itself",
            )
        named = {keyword.arg: _arrays(call, keyword.value) for keyword in node.keywords}
        touched = Effects(named.get("reads", frozenset()), named.get("writes", frozenset()) | {MEMORY})
        effects = touched if named else EVERYTHING
        return cls(word, span=call.span(node), label=as_written(node.func), effects=effects)

    def planned(self) -> Sequence[Planned]:
        """One node."""
        return (Planned("child", f"child graph {self.label}", self.effects),)

    @property
    def not_in_body(self) -> str:  # type: ignore[override]
        """It depends on its nodes."""
        return self.recorded.not_in_body()

    @property
    def not_in_block(self) -> str:
        """Its kernels have grids of their own."""
        return "it has a child graph"

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """The node."""
        if self.recorded.ordinal != owner.ordinal:
            raise CudaError(
                f"`{self.label}` was recorded on device {self.recorded.ordinal}, and the kernel runs on device {owner.ordinal}",
                self.span,
                hint="record it on the device of the kernel's arrays",
            )
        return ChildGraphNode(node, owner, self.recorded)


def _arrays(call: WrittenCall, node: ast.expr) -> frozenset[str]:
    """The arguments that a keyword names: an array, or a tuple of them."""
    names = set()
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        found = call.meaning(part)
        if isinstance(found, KernelSyntaxError):
            raise found
        if not isinstance(found, Leaf) or not isinstance(found.type, ArrayType):
            raise KernelSyntaxError(
                f"`{as_written(part)}` is not an array argument of the kernel",
                call.span(part),
                hint="name the whole arrays that the recorded graph reads and writes: g(reads=(a, b), writes=(c,))",
            )
        names.add(found.name)
    return frozenset(names)


class ChildGraphNode(GraphNode):
    """A copy of a recorded graph, which never changes."""

    def __init__(self, node: Node, owner: Owner, recorded: RecordedGraph) -> None:
        super().__init__(node, owner)
        # Held as long as the node: its handle, and what the recorded nodes work on.
        self._recorded = recorded

    def add(self, graph: Any) -> Any:
        """Add a child-graph node."""
        self.handle = self._recorded.add_to(graph)
        return self.handle

    def run(self, stream: int) -> None:
        """Launch the graph itself."""
        self._recorded.run(stream)
