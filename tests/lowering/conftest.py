"""Functions from source text, compiled for the CPU or to PTX, without the frontend."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.functions import Function


def argument_type(value: Any) -> ArrayType | ScalarType:
    """The type of an argument, as the frontend would find it."""
    if isinstance(value, np.ndarray):
        layout = "C" if value.flags.c_contiguous else "A"
        return ArrayType(value.dtype.name, value.ndim, layout, readonly=not value.flags.writeable)
    if isinstance(value, np.generic):
        return ScalarType(value.dtype.name, weak=False)
    return ScalarType({bool: "bool", int: "int64", float: "float64", complex: "complex128"}[type(value)], weak=True)


@pytest.fixture
def function() -> Callable[..., Function]:
    """``function(source, **names)``: a ``program.Function`` of the one def in ``source``."""

    def make(source: str, *, file: str = "<kernel>", **names: object) -> Function:
        tree = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        return Function(tree.name, tree, names, file)

    return make


@pytest.fixture
def run_cpu() -> Callable[..., None]:
    """``run_cpu(function, *arguments, float_type=...)``: compile for these arguments, and call."""
    from qgraph.lowering.numba_backend import cpu, cpu_runtime
    from qgraph.lowering.numba_backend.types import numba_type

    def run(code: Function, *arguments: Any, float_type: str = "float32", fastmath: bool = False) -> None:
        types = [numba_type(argument_type(value), float_type) for value in arguments]
        call = cpu.compile_control(code, types, watched=0, float_type=float_type, fastmath=fastmath).call
        cpu_runtime.guarded(call)(*arguments, 0)

    return run


@pytest.fixture
def compile_ptx() -> Callable[..., str]:
    """``compile_ptx(function, *types)``: PTX for sm_90 of a function of ``ArrayType``s and ``ScalarType``s."""
    from qgraph.lowering.numba_backend import cuda
    from qgraph.lowering.numba_backend.types import numba_type

    def compile_(
        code: Function,
        *types: Any,
        float_type: str = "float32",
        capability: tuple[int, int] = (9, 0),
        fastmath: bool = False,
        entry: str = "entry",
        launch_bound: int | None = None,
    ) -> str:
        return cuda.compile_ptx(
            code,
            tuple(numba_type(item, float_type) for item in types),
            float_type=float_type,
            capability=capability,
            fastmath=fastmath,
            entry=entry,
            launch_bound=launch_bound,
        )()

    return compile_
