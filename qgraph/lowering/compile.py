"""GraphPlan -> code for one backend. Imports Numba, so it is itself imported at a kernel's first call."""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import replace

from qgraph.compiled import CpuPlan, CudaPlan, Parameter, SimulatorPlan, TaskCode
from qgraph.lowering import link, numba_cpu, numba_cuda
from qgraph.lowering.control_source import control_function
from qgraph.lowering.infer import scalar_types
from qgraph.lowering.meaning import meaning
from qgraph.lowering.numba_types import numba_type
from qgraph.lowering.slot_source import Dtypes
from qgraph.lowering.task_source import cuda_code
from qgraph.options import Options
from qgraph.plan import GraphPlan
from qgraph.program import Function
from qgraph.stack import roomy


@roomy
def compile_cpu(plan: GraphPlan, options: Options) -> CpuPlan:
    """One function for the whole kernel; ``KernelTypeError`` where Numba cannot compile it."""
    program = plan.program
    dtypes = scalar_types(program)
    parameters, function = control_function(program, dtypes)
    types = tuple(numba_type(parameter, program.float_type) for parameter in parameters)
    call = numba_cpu.compile_control(function, types, float_type=program.float_type, fastmath=options.fastmath)
    return CpuPlan(plan, ast.unparse(function.tree), parameters, numba_cpu.guarded(call), dtypes)


@roomy
def compile_ptx(
    plan: GraphPlan,
    capability: tuple[int, int],
    options: Options,
    dtypes: Dtypes | None = None,
    without: Set[str] = frozenset(),
) -> tuple[dict[str, TaskCode], dict[str, str]]:
    """The kernel of every task as PTX, by task name. ``dtypes`` are the types of kernel scalars, if they are known.

    Tasks named in ``without`` are left out.
    """
    cuda = numba_cuda.cuda_module()
    codes: dict[str, TaskCode] = {}
    texts: dict[str, str] = {}
    compiled: dict[object, TaskCode] = {}
    if dtypes is None:
        dtypes = scalar_types(plan.program)
    for node in plan.nodes:
        if node.task is None or node.task.name in without:
            continue
        task = node.task
        code, function = cuda_code(plan.program, node, cuda, dtypes)
        # Loops that say the same of other arrays are one kernel: compiled once, and warm in the instruction cache.
        twin = compiled.setdefault(_twin(code, function), code)
        if twin is code:
            texts[task.name] = _ptx(plan, code, function, capability, options)
        else:
            code = replace(code, entry=twin.entry)
            texts[task.name] = texts[twin.task.name]
        codes[task.name] = code
    return codes, texts


def _twin(code: TaskCode, function: Function) -> object:
    """What decides the kernel's machine code: equal for loops that say the same of other arrays."""
    parameters = tuple((parameter.kind, parameter.type, parameter.name in code.constant) for parameter in code.parameters)
    return meaning(function), parameters


@roomy
def compile_cuda(plan: GraphPlan, capability: tuple[int, int], options: Options) -> CudaPlan:
    """All tasks linked to one cubin, with the device runtime where the toolkit has it."""
    dtypes = scalar_types(plan.program)
    # In a graph, fills and copies are no kernels.
    filled = {node.task.name for node in plan.nodes if node.task is not None and node.box is not None and options.graph}
    codes, texts = compile_ptx(plan, capability, options, dtypes, filled)
    device_runtime = link.device_runtime_path() is not None
    cubin = link.link(list(dict.fromkeys(texts.values())), capability, device_runtime=device_runtime) if texts else b""
    return CudaPlan(plan, codes, texts, cubin, capability, device_runtime, dtypes)


@roomy
def compile_simulator(plan: GraphPlan) -> SimulatorPlan:
    """The kernels of all tasks for Numba's simulator; ``BackendError`` if Numba was imported without it."""
    cuda = numba_cuda.cuda_module()
    dtypes = scalar_types(plan.program, matches=True)
    codes: dict[str, TaskCode] = {}
    kernels = {}
    for node in plan.nodes:
        if node.task is not None:
            code, function = cuda_code(plan.program, node, cuda, dtypes)
            codes[node.task.name] = code
            kernels[node.task.name] = numba_cuda.simulator_kernel(function)
    return SimulatorPlan(plan, codes, kernels, numba_cuda.simulator_array, dtypes)


def _ptx(plan: GraphPlan, code: TaskCode, function: Function, capability: tuple[int, int], options: Options) -> str:
    float_type = plan.program.float_type

    def typed(parameter: Parameter) -> object:
        return numba_type(parameter, float_type)

    return numba_cuda.compile_ptx(
        function,
        tuple(map(typed, code.parameters)),
        float_type=float_type,
        capability=capability,
        fastmath=options.fastmath,
        entry=code.entry,
        launch_bound=options.block_size,
        constant=tuple(parameter.name in code.constant for parameter in code.parameters),
    )
