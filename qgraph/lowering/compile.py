"""GraphPlan -> code for one backend. Imports Numba, so it is itself imported at a kernel's first call."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

from qgraph.compiled import CpuPlan, CudaPlan, Parameter, SimulatorPlan, TaskCode
from qgraph.lowering import link, numba_cpu, numba_cuda
from qgraph.lowering.control_source import control_function
from qgraph.lowering.numba_types import numba_type
from qgraph.lowering.task_source import cuda_code
from qgraph.options import Options
from qgraph.plan import GraphPlan
from qgraph.program import Function


def compile_cpu(plan: GraphPlan, options: Options) -> CpuPlan:
    """One function for the whole kernel; ``KernelTypeError`` where Numba cannot compile it."""
    program = plan.program
    parameters, function = control_function(program)
    types = tuple(numba_type(parameter, program.float_type) for parameter in parameters)
    call = numba_cpu.compile_control(function, types, float_type=program.float_type, fastmath=options.fastmath)
    return CpuPlan(plan, ast.unparse(function.tree), parameters, numba_cpu.guarded(call))


def compile_ptx(plan: GraphPlan, capability: tuple[int, int], options: Options) -> tuple[dict[str, TaskCode], dict[str, str]]:
    """The kernel of every task as PTX, by task name."""
    cuda = numba_cuda.cuda_module()
    codes: dict[str, TaskCode] = {}
    texts: dict[str, str] = {}
    compiled: dict[object, TaskCode] = {}
    for task in plan.program.tasks():
        code, function = cuda_code(plan.program, task, cuda)
        # Loops that say the same of other arrays are one kernel: compiled once, and warm in the instruction cache.
        twin = compiled.setdefault(_meaning(code, function), code)
        if twin is code:
            texts[task.name] = _ptx(plan, code, function, capability, options)
        else:
            code = replace(code, entry=twin.entry)
            texts[task.name] = texts[twin.task.name]
        codes[task.name] = code
    return codes, texts


def _meaning(code: TaskCode, function: Function) -> object:
    """What decides the kernel's machine code: its statements with parameters by position, their types, its globals."""
    order = {parameter.name: f"_{position}" for position, parameter in enumerate(code.parameters)}
    tree = copy.deepcopy(function.tree)
    tree.name = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in order:
            node.id = order[node.id]
        elif isinstance(node, ast.arg):
            node.arg = order[node.arg]
    names = tuple(sorted((name, id(value)) for name, value in function.names.items()))
    parameters = tuple((parameter.kind, parameter.type, parameter.name in code.disjoint) for parameter in code.parameters)
    return ast.dump(tree), parameters, names


def compile_cuda(plan: GraphPlan, capability: tuple[int, int], options: Options) -> CudaPlan:
    """All tasks linked to one cubin, with the device runtime where the toolkit has it."""
    codes, texts = compile_ptx(plan, capability, options)
    device_runtime = link.device_runtime_path() is not None
    cubin = link.link(list(dict.fromkeys(texts.values())), capability, device_runtime=device_runtime) if texts else b""
    return CudaPlan(plan, codes, texts, cubin, capability, device_runtime)


def compile_simulator(plan: GraphPlan) -> SimulatorPlan:
    """The kernels of all tasks for Numba's simulator; ``BackendError`` if Numba was imported without it."""
    cuda = numba_cuda.cuda_module()
    codes: dict[str, TaskCode] = {}
    kernels = {}
    for task in plan.program.tasks():
        code, function = cuda_code(plan.program, task, cuda)
        codes[task.name] = code
        kernels[task.name] = numba_cuda.simulator_kernel(function)
    return SimulatorPlan(plan, codes, kernels, numba_cuda.simulator_array)


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
        disjoint=tuple(parameter.name in code.disjoint for parameter in code.parameters),
    )
