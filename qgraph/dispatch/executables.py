"""What runs a plan: an executable of each backend, built, and launched again as it was."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from qgraph.dispatch.variant import Variant
from qgraph.errors import BackendError, PerformanceWarning
from qgraph.ir.artifacts import Extents
from qgraph.ir.plan import GraphPlan
from qgraph.ir.program import Branch, Loop, Program, node_statements
from qgraph.nodes.kind import statement_kind
from qgraph.runtime.executors.launch_records import Executable
from qgraph.runtime.values.prepared_call import Call, ReplayCode


def refuse_cuda_only(program: Program, backend: str) -> None:
    """Raise a ``BackendError`` where the kernel has what runs on CUDA alone."""
    for statement in node_statements(program.body):
        reason = statement_kind(statement).only_on_cuda
        if reason:
            found = f"`{statement.label}` cannot run on the {backend} backend: {reason}"
            raise BackendError(found, statement.span, hint="pass arrays on the device")


def forget_code() -> None:
    """Let go of the machine code that the process keeps for kernels to come."""
    numba_cpu = sys.modules.get("qgraph.lowering.numba_backend.cpu")
    if numba_cpu is not None:
        numba_cpu.forget()


def _cpu(plan: GraphPlan, variant: Variant, _extents: Extents) -> Executable:
    from qgraph.lowering.compile import compile_cpu
    from qgraph.runtime.executors.cpu import CpuExecutable

    return CpuExecutable(compile_cpu(plan, variant.options, read=variant.reads_disk))


def _simulator(plan: GraphPlan, variant: Variant, _extents: Extents) -> Executable:
    from qgraph.lowering.compile import compile_simulator
    from qgraph.runtime.executors.simulator import SimulatorExecutable

    return SimulatorExecutable(compile_simulator(plan))


def _cuda(plan: GraphPlan, variant: Variant, extents: Extents) -> Executable:
    from qgraph.lowering.compile import compile_cuda
    from qgraph.runtime.driver import driver
    from qgraph.runtime.executors.graph import CudaGraphExecutable
    from qgraph.runtime.executors.host_loop import CudaHostLoopExecutable
    from qgraph.runtime.executors.unrolled import CudaUnrollingExecutable

    device = driver.device(variant.device)
    options = variant.options
    compiled = compile_cuda(plan, device.capability, options, extents=extents, read=variant.reads_disk)
    block = options.block_size
    graph = functools.partial(CudaGraphExecutable, compiled, device, block_size=block)
    host = functools.partial(CudaHostLoopExecutable, compiled, device, block_size=block)
    if not options.graph:
        return host(as_graphs=False, reason="graph=False: one stream launch a task")
    if not any(isinstance(statement, (Loop, Branch)) for statement in plan.program.body):
        return graph(reason="the kernel has no device loop or branch")
    if options.conditional == "host":
        return host(as_graphs=True, reason="conditional='host': the host drives loops and branches")
    probe = loop_probe(variant.device)
    works = probe.device_branches if any(node.kind in ("if", "switch") for node in plan.nodes) else probe.device_loops
    if works and plan.unrolled:
        return CudaUnrollingExecutable(compiled, device, block_size=block, reason=probe.reason)
    if works:
        return graph(reason=probe.reason)
    if options.conditional == "device":
        raise BackendError(
            f"conditional='device', but the loops or branches of this kernel do not work here: {probe.reason}",
            hint="conditional='auto' falls back",
        )
    warnings.warn(f"the host drives loops and branches: {probe.reason}", PerformanceWarning, stacklevel=2)
    return host(as_graphs=True, reason=probe.reason)


def loop_probe(ordinal: int) -> Any:
    """Whether conditional nodes work on a device, found out once by running one."""
    from qgraph.lowering.cache.artifact_cache import linked
    from qgraph.runtime.driver import driver
    from qgraph.runtime.graph.capability_probe import probe

    device = driver.device(ordinal)

    return probe(device, lambda ptx: linked(ptx, device.capability))


EXECUTABLES = {"cpu": _cpu, "sim": _simulator, "cuda": _cuda}


def streams_of(variant: Variant, values: tuple[Any, ...]) -> Any:
    """The ``Streams`` of a call on CUDA with these values."""
    return variant.streams.Streams(variant.device, [values[index] for index in variant.arrays])


def _again_on_cuda(executable: Any, call: Call, variant: Variant, _held: bool) -> ReplayCode:
    streams = streams_of(variant, call.values)
    found: ReplayCode = executable.again(call, streams.current)
    return found.within("streams", streams) if streams.several else found


AGAIN: dict[str, Callable[[Any, Call, Variant, bool], ReplayCode | None]] = {
    "cpu": lambda executable, call, _variant, held: executable.again(call, held=held),
    "sim": lambda _executable, _call, _variant, _held: None,
    "cuda": _again_on_cuda,
}
