"""Kernels on Numba's CUDA simulator: the same functions, run as plain Python."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import replace
from types import CellType, FunctionType
from typing import Any, ClassVar

import numpy as np
from numba import typeof

from qgraph.captured_state import looked_up, numba_function
from qgraph.compat import numba_cuda
from qgraph.errors import BackendError
from qgraph.ir.functions import Function, TypedFunction
from qgraph.ir.program import Cast
from qgraph.ir.trees import load
from qgraph.lowering.codegen.generated_names import slots_name
from qgraph.lowering.numba_backend.cuda import cuda_module, simulator_active
from qgraph.lowering.numba_backend.simt_interpreter import Barriers, Extents, Threads
from qgraph.lowering.numba_backend.simulated_numbers import Conversions, Int64, Memory, Operators, simulated_function
from qgraph.lowering.number_types.typing_contexts import python_function
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import copied


def simulator_kernel(function: Function) -> _SimulatedKernel:
    """The same kernel for Numba's simulator: plain Python, with the simulator's thread indices and atomics.

    Raises:
        BackendError: numba.cuda was imported without the simulator.
    """
    if not simulator_active():
        raise BackendError(
            "the simulator was asked for after numba was imported without it",
            hint="set QGRAPH_BACKEND=sim (or NUMBA_ENABLE_CUDASIM=1) before Python starts",
        )
    threads = Threads()
    # All barriers are in the kernel itself, none in what it calls.
    tree = Barriers(cuda_module(), _with_cuda(function)).visit(copied(function.tree))
    names = {**function.names, **Barriers.NAMES}
    return _SimulatedKernel(_simulated(replace(function, tree=tree, names=names), {}, threads), threads)


def _with_cuda(function: Function) -> dict[str, object]:
    return {"cuda": cuda_module(), **function.names}


@dataclass(frozen=True, slots=True)
class _SimulatedKernel:
    """``kernel[grid, block](*arguments)``, with the simulator's arrays."""

    function: Callable[..., Any]
    threads: Threads

    def __getitem__(self, shape: tuple[Extents, Extents]) -> Callable[..., None]:
        return functools.partial(self._run, *shape)

    def _run(self, grid: Extents, block: Extents, *arguments: Any) -> None:
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        # Inside they are NumPy's: those that the simulator has there are true whatever they hold, and equal to nothing.
        memory = numba_cuda.simulated_memory
        inside = [memory(each).view(Memory) if isinstance(each, FakeCUDAArray) else each for each in arguments]
        self.threads.run(self.function, grid, block, inside)


def simulator_array(array: Any) -> Any:
    """A NumPy array as an array of the simulated device, sharing its memory."""
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(array)


def _simulated(function: Function, done: dict[int, Any], threads: Threads) -> Any:
    """The Python function, its names replaced by what runs in plain Python."""
    if id(function) not in done:
        tree = Operators().visit(Conversions(function.names).visit(_Loads().visit(copied(function.tree))))
        names = {name: _simulated_value(value, done, threads) for name, value in _with_cuda(function).items()}
        names |= {**_Loads.NAMES, **Conversions.NAMES, **Operators.NAMES}
        done[id(function)] = python_function(replace(function, tree=tree), names)
    return done[id(function)]


class _Loads(ast.NodeTransformer):
    """An integer out of scratch becomes an ``Int64``, a boolean Python's."""

    KINDS: ClassVar[dict[str, str]] = {slots_name("int64"): "_qgraph_int", slots_name("bool"): "_qgraph_bool"}
    NAMES: ClassVar[dict[str, type]] = {"_qgraph_int": Int64, "_qgraph_bool": bool}

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        kind = self.KINDS.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if kind is None or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Call(ast.copy_location(load(kind), node), [node], []), node)


def _simulated_python(function: FunctionType, done: dict[int, Any], threads: Threads) -> Any:
    """A function that Numba compiles elsewhere, as plain Python with all of its kind that it calls."""
    if id(function) not in done:
        names = {**function.__globals__}
        cells = tuple(CellType(*_contents(cell)) for cell in function.__closure__ or ())
        code = function.__code__
        done[id(function)] = made = FunctionType(code, names, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        for name, value in looked_up(function):
            if numba_function(value) is None:
                continue
            plain = _simulated_value(value, done, threads)
            if name in code.co_freevars:
                cells[code.co_freevars.index(name)].cell_contents = plain
            else:
                names[name] = plain
    return done[id(function)]


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _simulated_value(value: Any, done: dict[int, Any], threads: Threads) -> Any:
    if isinstance(value, Function):
        return _simulated(value, done, threads)
    if isinstance(value, TypedFunction):
        return lambda *operands: _simulated(value.choose(tuple(map(typeof, operands))), done, threads)(*operands)
    if value is cuda_module():
        return threads
    python = numba_function(value)
    if python is not None:
        return _simulated_python(python, done, threads)
    if isinstance(value, Cast) and value.keeps:
        return functools.partial(intrinsics.nearest, dtype=np.dtype(value.dtype), keeps=value.keeps)
    if isinstance(value, Cast) and value.scalar and value.dtype == "int64":
        return Int64
    if isinstance(value, Cast):
        return bool if value.dtype == "bool" else np.dtype(value.dtype).type
    return simulated_function(value)
