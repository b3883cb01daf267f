"""GraphPlan -> code for one backend. Numba is imported where something must be compiled that the disk does not have."""

from __future__ import annotations

import ast
import gc
import math
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qgraph.ir.artifacts import (
    ANY_EXTENTS,
    TILE_HEIGHT,
    WARP,
    CpuPlan,
    CudaPlan,
    Extents,
    SimulatedKernel,
    SimulatorPlan,
    TaskCode,
)
from qgraph.ir.functions import Function
from qgraph.ir.plan import BLOCK_THREADS, GraphPlan
from qgraph.ir.program import Program
from qgraph.lowering.cache.artifact_cache import ArtifactCache
from qgraph.lowering.cache.cpu_artifacts import CpuCache, CpuCode
from qgraph.lowering.cache.memory_key import structural_key
from qgraph.lowering.codegen.cpu_polls import Polled
from qgraph.lowering.codegen.generated_names import Dtypes
from qgraph.lowering.codegen.task_codegen import CUDA_MODULE
from qgraph.lowering.graph.single_block import entry_of
from qgraph.options import Options
from qgraph.records import dataclass
from qgraph.stack import compiling

# Imported where something is compiled: what comes off the disk shall not wait for it.
if TYPE_CHECKING:
    from qgraph.lowering.numba_backend.cpu import Compiled
    from qgraph.lowering.ptx.compile_threads import CompileThreads


@compiling
def compile_cpu(plan: GraphPlan, options: Options, *, read: bool = True) -> CpuPlan:
    """One function for the whole kernel; ``KernelTypeError`` where Numba cannot compile it.

    What the disk has is not compiled again, as in ``compile_cuda``.
    """
    from qgraph.lowering.numba_backend import cpu_runtime, object_code

    saved = CpuCache(plan, options, read=read)
    found = saved.find()
    call = None if found is None else object_code.load(found.code)
    if found is None or call is None:
        from qgraph.lowering.scalar_types import scalar_types

        made, compiled = _compile_cpu(plan, scalar_types(plan.program), options, in_order=False)

        def kept() -> CpuCode:
            code = object_code.code_of(compiled.library, compiled.entry, compiled.environments)
            return CpuCode(made.source, made.parameters, made.dtypes, code)

        return replace(made, unkept=saved.keep(kept))
    return CpuPlan(
        plan,
        found.source,
        found.parameters,
        call,
        cpu_runtime.places_of,
        found.dtypes,
        Polled(plan.program).places,
        from_disk=True,
    )


@compiling
def compile_checked(program: Program, instrumented: Program, options: Options) -> CpuPlan:
    """The same of ``program`` as ``kernel.check`` runs it: ``instrumented``, its loops in order on one thread."""
    from qgraph.lowering.scalar_types import scalar_types

    return _compile_cpu(GraphPlan(instrumented, (), (), ()), scalar_types(program), options, in_order=True)[0]


def _compile_cpu(plan: GraphPlan, dtypes: Dtypes, options: Options, *, in_order: bool) -> tuple[CpuPlan, Compiled]:
    from qgraph.lowering.codegen.cpu_codegen import control_function
    from qgraph.lowering.numba_backend import cpu, cpu_runtime
    from qgraph.lowering.numba_backend.types import numba_type

    program = plan.program
    parameters, function = control_function(program, dtypes, in_order=in_order)
    types = tuple(numba_type(parameter, program.float_type) for parameter in parameters)
    # They come first. What a call has of its own nobody need look at.
    given = {leaf.name for leaf in program.leaves}
    watched = sum(parameter.kind == "leaf" and parameter.name in given for parameter in parameters)
    made = cpu.compile_control(function, types, watched=watched, float_type=program.float_type, fastmath=options.fastmath)
    call, source = cpu_runtime.guarded(made.call), ast.unparse(function.tree)
    return CpuPlan(plan, source, parameters, call, cpu_runtime.places_of, dtypes, Polled(program).places), made


@compiling
def compile_ptx(
    plan: GraphPlan,
    capability: tuple[int, int],
    options: Options,
    dtypes: Dtypes | None = None,
    without: Set[str] = frozenset(),
    saved: ArtifactCache | None = None,
    extents: Extents = ANY_EXTENTS,
) -> tuple[dict[str, TaskCode], dict[str, str]]:
    """The kernel of every task as PTX, by task name. ``dtypes`` are the types of kernel scalars, if they are known.

    Tasks named in ``without`` are left out; those that ``saved`` has are not compiled.
    """
    from qgraph.lowering.ptx.compile_threads import CompileThreads

    with CompileThreads(None) as threads:
        return _PtxCompiler(plan, capability, options, dtypes or _scalar_types(plan), saved, threads, extents).all(without)


def _kernels(
    plan: GraphPlan, cuda: object, dtypes: Dtypes, without: Set[str] = frozenset()
) -> Iterator[tuple[int | None, str, TaskCode, Function]]:
    """The kernels of a plan but for the tasks named in ``without``: node and name of each; the one block has no node."""
    from qgraph.lowering.codegen.cuda_codegen import Kernels
    from qgraph.lowering.codegen.single_block_codegen import block_code

    written = Kernels(plan, cuda, dtypes)
    for node in plan.nodes:
        if node.task is not None and node.task.name not in without:
            for kernel in written.of(node):
                yield node.index, *kernel
    if plan.has_block:
        code, function = block_code(plan, cuda, dtypes)
        yield None, code.entry, code, function


@dataclass(frozen=True, slots=True)
class _PtxCompiler:
    """Compiles the kernels of a plan but for those that ``saved`` has; ``threads`` link the texts, too."""

    plan: GraphPlan
    capability: tuple[int, int]
    options: Options
    dtypes: Dtypes
    saved: ArtifactCache | None
    threads: CompileThreads
    extents: Extents = ANY_EXTENTS

    def all(self, without: Set[str]) -> tuple[dict[str, TaskCode], dict[str, str]]:
        """The kernels and their PTX by name."""
        codes: dict[str, TaskCode] = {}
        texts: dict[str, Callable[[], str]] = {}
        compiled: dict[object, TaskCode] = {}
        row = frozenset(self.plan.row)
        for index, name, code, function in _kernels(self.plan, "numba.cuda", self.dtypes, without):
            assert name not in codes, f"two kernels are called {name}, and one of them would run for both"
            # Loops that say the same of other arrays are one kernel: compiled once, and warm in the instruction cache.
            waits_last = index in row
            twin = compiled.setdefault((_twin(code, function), self.extents.same(code), waits_last), code)
            if twin is code:
                block_size = BLOCK_THREADS if index is None else self._block_size(code)
                texts[name] = self._ptx(code, function, block_size, waits_last=waits_last)
                # What Numba leaves behind for a kernel is still in the processor's caches.
                gc.collect(0)
            else:
                texts[name] = texts[twin.entry]
            codes[name] = replace(code, entry=twin.entry)
        known = {text: text() for text in dict.fromkeys(texts.values())}
        return codes, {name: known[text] for name, text in texts.items()}

    def _block_size(self, code: TaskCode) -> int | None:
        block = code.task.block
        return self.options.block_size if block is None else math.prod(block.threads)

    def _ptx(self, code: TaskCode, function: Function, block_size: int | None, *, waits_last: bool) -> Callable[[], str]:
        """What waits for the PTX of a task, to be called once."""
        float_type, saved = self.plan.program.float_type, self.saved
        combines = bool(code.task.reductions or code.handed)
        # All that the compiler is told besides the function and its types, so that the disk's keys say all of it.
        settings: dict[str, Any] = {
            "float_type": float_type,
            "capability": self.capability,
            "fastmath": self.options.fastmath,
            # Blocks of tiles are no smaller than one, and those that combine values are whole warps.
            "launch_bound": max(block_size, WARP if combines else TILE_HEIGHT) if block_size is not None else None,
            "constant": tuple(parameter.name in code.constant for parameter in code.parameters),
            "index64": self.extents.index64,
            "extents": self.extents.same(code),
            "waits_last": waits_last,
        }
        known = saved.ptx(code, function, settings) if saved is not None else None
        if known is not None:
            self.threads.link(lambda: known)
            return lambda: known
        from qgraph.lowering.numba_backend import cuda as numba_cuda
        from qgraph.lowering.numba_backend.types import numba_type
        from qgraph.lowering.ptx import link

        types = tuple(numba_type(parameter, float_type) for parameter in code.parameters)
        complete = replace(function, names={**function.names, CUDA_MODULE: numba_cuda.cuda_module()})
        text = self.threads.begin(numba_cuda.compile_ptx(complete, types, entry=code.entry, **settings))

        def kept() -> str:
            found = text()
            if saved is not None:
                files = (link.library_path("nvvm"), numba_cuda.libdevice_path())
                saved.keep_ptx(code, function, settings, found, files)
            return found

        return kept


def _twin(code: TaskCode, function: Function) -> object:
    """What decides the kernel's machine code: equal for loops that say the same of other arrays."""
    parameters = tuple((parameter.kind, parameter.type, parameter.name in code.constant) for parameter in code.parameters)
    return structural_key(function), parameters


def _scalar_types(plan: GraphPlan) -> dict[str, str]:
    from qgraph.lowering.scalar_types import scalar_types

    return scalar_types(plan.program)


@compiling
def compile_cuda(
    plan: GraphPlan, capability: tuple[int, int], options: Options, *, extents: Extents = ANY_EXTENTS, read: bool = True
) -> CudaPlan:
    """All tasks linked to one cubin, with the device runtime where the toolkit has it, for arrays of such ``extents``.

    What the disk has is not compiled again, nor is it looked for unless ``read``; what it lacks is kept there. So whatever
    decides the code must come with the arguments, and be in the keys that ``ArtifactCache`` makes of them.
    """
    saved = ArtifactCache(plan, capability, options, extents, read=read)
    known = saved.plan()
    if known is not None:
        return known
    from qgraph.lowering.ptx import link
    from qgraph.lowering.ptx.compile_threads import CompileThreads
    from qgraph.lowering.ptx.ptx_rewrite import parameters_kept

    dtypes = saved.types()
    if dtypes is None:
        dtypes = _scalar_types(plan)
        saved.keep_types(dtypes)
    # In a graph, loops such as fills and copies are no kernels.
    filled = {node.task.name for node in plan.nodes if node.task is not None and node.what is not None and options.graph}
    device_runtime = link.device_runtime_path() is not None
    with CompileThreads(lambda: link.CubinLinker(capability, device_runtime=device_runtime)) as threads:
        codes, texts = _PtxCompiler(plan, capability, options, dtypes, saved, threads, extents).all(filled)
        cubin = threads.cubin()
    kept = {code.entry: parameters_kept(texts[name]) for name, code in codes.items()}
    return saved.keep_plan(
        CudaPlan(plan, codes, texts, cubin, capability, device_runtime, dtypes, _block_of(plan), kept, extents)
    )


@compiling
def compile_simulator(plan: GraphPlan) -> SimulatorPlan:
    """The kernels of all tasks for Numba's simulator; ``BackendError`` if Numba was imported without it."""
    from qgraph.lowering.numba_backend import cuda as numba_cuda
    from qgraph.lowering.numba_backend import cuda_simulator
    from qgraph.lowering.scalar_types import scalar_types

    cuda = numba_cuda.cuda_module()
    dtypes = scalar_types(plan.program, every=True)
    codes: dict[str, TaskCode] = {}
    kernels: dict[str, SimulatedKernel] = {}
    for _, name, code, function in _kernels(plan, cuda, dtypes):
        codes[name], kernels[name] = code, cuda_simulator.simulator_kernel(function)
    return SimulatorPlan(plan, codes, kernels, cuda_simulator.simulator_array, dtypes, _block_of(plan))


def _block_of(plan: GraphPlan) -> str:
    """The name of the kernel that is the whole plan; empty where there is none."""
    return entry_of(plan.program) if plan.has_block else ""
