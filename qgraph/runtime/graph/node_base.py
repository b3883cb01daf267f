"""What the nodes of a graph have in common that are no kernels and decide nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from qgraph.ir.plan import Node


class OtherNode(ABC):
    """A node of an executable, in a graph or launched by itself.

    Attributes:
        index: its place in the plan.
        executable: the CUgraphExec it can be patched in.
        handle: its CUgraphNode.
        rejected: the last update could not be made in the executable graph, which must be made again.
    """

    def __init__(self, node: Node) -> None:
        self.index = node.index
        self.executable: Any = None
        self.handle: Any = None
        self.rejected = False

    @abstractmethod
    def add(self, graph: Any) -> Any:
        """Add it without edges to ``graph`` (a CUgraph); gives the CUgraphNode."""

    @abstractmethod
    def run(self, stream: int) -> None:
        """Do the same in ``stream``'s order."""

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the leaves and host values of a call; gives whether anything changed."""
        return False

    def define(self) -> None:  # noqa: B027 - most nodes never change
        """Give the definition what the last update said, before it is made executable again."""

    def instantiated(self) -> None:  # noqa: B027 - most nodes are always on
        """Do what can only be done in an executable that was just made."""
