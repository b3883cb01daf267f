"""What an executable is to those who launch it, and what is told of launches."""

from __future__ import annotations

from typing import Any, Protocol

from qgraph.records import dataclass


class Executable(Protocol):
    """What runs a compiled plan: one class a path, chosen once."""

    path: str
    nodes: int
    argument_updates: int
    # Graphs built after the first one, for memory of another size.
    rebuilds: int

    @property
    def reason(self) -> str:
        """Why it runs that way."""

    @property
    def replays(self) -> int:
        """Launches so far."""

    def launch(self, call: Any, /) -> tuple[Any, ...] | None:
        """Run a ``prepared_call.Call``; gives the numbers that the kernel returns, if it returns any."""

    def close(self) -> None:
        """Free what the executable owns."""


@dataclass(frozen=True, slots=True)
class LastLaunch:
    """What the last call of a kernel did.

    Attributes:
        tasks: loops and runs of serial statements as written.
        nodes: nodes of the graph, bodies of device loops included.
        path: ``cuda-graph``, ``cuda-host-loop``, ``cuda-stream``, ``cpu`` or ``sim``; ``cuda-capture`` where the call became
            nodes of a graph that somebody captured, which has not run then.
        reason: why that path, and on CUDA whether loops ran unrolled, or the host ahead of them.
    """

    tasks: int
    nodes: int
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class CapturedRun:
    """What a kernel did last, where it was captured or is gone: in the place of a specialisation."""

    launched: LastLaunch


@dataclass(slots=True)
class Stats:
    """What a kernel did so far.

    Attributes:
        compilations: specialisations compiled; one whose code came off the disk counts too, so that the numbers do not depend
            on what other processes did.
        graph_builds: executables built, one a specialisation unless it was evicted, reset or cleared; and on CUDA one each time
            that a temporary with ``alloc=True`` has another size. The second graph of loops that run long is not counted, nor
            that of independent loops which have grown.
        executables: executables alive now.
        replays: launches.
        argument_updates: launches that had to patch parameters.
        evictions: specialisations dropped to stay below the limit.
    """

    compilations: int = 0
    graph_builds: int = 0
    executables: int = 0
    replays: int = 0
    argument_updates: int = 0
    evictions: int = 0

    def add(self, executable: Executable | None) -> None:
        """Count what an executable did since it was built."""
        if executable is not None:
            self.graph_builds += executable.rebuilds
            self.replays += executable.replays
            self.argument_updates += executable.argument_updates
