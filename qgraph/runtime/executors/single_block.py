"""A plan as one block: a graph of one node beside the plan's graph, one of which is chosen before each launch.

Each of the two has kernels of its own, so a kernel that was not told of a change stays marked as changed until it is launched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qgraph.ir.artifacts import WARP
from qgraph.ir.plan import GraphPlan
from qgraph.runtime.driver.driver import call, driver, failure, outside_captures
from qgraph.runtime.driver.stream import PER_THREAD
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.node_updates import patch_kernels


class BlockForm:
    """The graph that is one block.

    Attributes:
        bit: that of its kernel in ``Parameters.changed``.
        chosen: whether launches run it.
        executable: the graph.
        reason: why, as in ``last_launch.reason``.
    """

    __slots__ = ("_host", "_kernel", "_last", "_names", "_one_block", "bit", "chosen", "executable", "reason")

    def __init__(self, plan: GraphPlan, kernel: KernelNode, executable: Any) -> None:
        assert plan.one_block is not None
        self._one_block = plan.one_block
        self._names = [value.name for value in plan.program.host_values]
        self._kernel = kernel
        self.executable = executable
        self._host: tuple[int, ...] | None = None
        # Of the last launch: whether it was this form, and its stream.
        self._last: tuple[bool, int] | None = None
        self.bit = kernel.bit
        self.chosen = False
        self.reason = "the whole kernel is one block of threads: its loops are small enough"

    def choose(self, host: tuple[int, ...]) -> None:
        """Decide which form runs with these host values; the kernel takes them, so it is marked as changed where they did."""
        if host == self._host:
            return
        values = dict(zip(self._names, host, strict=True))
        # Until all went well, it is for none.
        self._host = None
        self.chosen = self._one_block.fits(values)
        if self.chosen:
            # A barrier waits for every warp, so there are no more than have something to do.
            warps = -(-self._one_block.widest(values) // WARP)
            self._kernel.launch.blockDimX = min(self._kernel.block, max(1, warps) * WARP)
        self._host = host

    def patch(self) -> None:
        """Give the kernel its parameters. Affects later launches only."""
        patch_kernels((self._kernel,), self.bit)

    def run(self, stream: int, other: Callable[[int], None]) -> None:
        """Launch this form, or the ``other`` where that is chosen.

        The driver lets launches of one graph follow one another, and those of a stream. Both graphs use the same scratch: so
        where both are others than before, what ran before must have ended.
        """
        last = self._last
        if last is not None and last[0] != self.chosen and (last[1] != stream or stream == PER_THREAD):
            self.wait()
        self._last = self.chosen, stream
        if not self.chosen:
            other(stream)
            return
        code = driver.cuGraphLaunch(self.executable, stream)[0]
        if code != 0:
            raise failure(code, "cuGraphLaunch")

    def wait(self) -> None:
        """Wait until no launch is in flight: the stream of the last one may be gone, so it cannot be asked for an event."""
        with outside_captures():
            call(driver.cuCtxSynchronize)
