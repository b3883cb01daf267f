"""Double precision in a kernel whose floats are float32: slow on most GPUs, and mostly there by accident."""

from __future__ import annotations

from collections.abc import Sequence

from qgraph.ir.program import Program, Task
from qgraph.lowering.codegen.generated_names import Dtypes
from qgraph.lowering.codegen.task_codegen import task_names
from qgraph.lowering.numba_backend import cpu
from qgraph.lowering.scalar_types import NotedTypes
from qgraph.source import Span

_WIDE = ("float64", "complex128")


def doubles(program: Program, tasks: Sequence[Task], dtypes: Dtypes) -> tuple[Span, ...]:
    """The lines of ``tasks``, and of what they call, that compute in float64 or complex128, in order; none where F is float64.

    A line that says so itself, ``np.float64(x)``, is among them. What the libraries of a device do inside is not.

    Args:
        program: what the tasks belong to.
        tasks: the tasks to look at.
        dtypes: the types of the program's kernel scalars.
    """
    if program.float_type == "float64":
        return ()
    known = NotedTypes(program)
    known.types = {name: cpu.dtype_type(dtype) for name, dtype in dtypes.items()}
    lines = set()
    for task in (each for each in tasks if each.block is None):
        function, types = known.function(task, task_names(task, dtypes))
        for file, line, item in cpu.expressions(function, types, float_type=program.float_type):
            if str(item) in _WIDE:
                lines.add((file, line))
    return tuple(Span(file, line, 0, line, 0) for file, line in sorted(lines))
