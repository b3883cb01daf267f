"""Perfect nests: where a parallel loop does nothing but run another one, and all iterations of both are independent.

Then the two are collapsed to axes of one loop, as in ``ndrange``: the GPU has a thread for each pair, and the last axis runs
along memory.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from qgraph.frontend.inference.host_expressions import host_test
from qgraph.frontend.inference.iteration_space import WrittenAxis, loop_call, ranges_of
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.function_frame import occurrences
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of

# A constant range up to this is better unrolled in one thread than spread over several.
_SHORT = 16


def loop_inside(
    unit: ProgramBuilder, scope: Scope, body: Sequence[ast.stmt], outer: Collection[str]
) -> tuple[ast.For, WrittenAxis] | None:
    """The loop that is all of ``body``, and its range, if that could be an axis beside those of the variables ``outer``.

    Its bounds must be integers that the host computes without fail: Python evaluates them in each iteration of the outer loop,
    in none if that has no iterations, and no iteration may change them.
    """
    loop = body[0]
    if len(body) != 1 or not isinstance(loop, ast.For):
        return None
    if occurrences([loop.iter]).keys() & {*outer, *names_assigned(body)}:
        return None
    call = loop_call(scope, loop.iter)
    if call is None or call.word is not None or loop.orelse or not isinstance(loop.target, ast.Name):
        return None
    if call.scope is not scope or loop.target.id in outer or names_assigned(loop.body).keys() & {loop.target.id, *outer}:
        return None
    axis, *more = ranges_of(scope, call.call)
    parts = (axis.start, axis.stop, axis.step)
    if more or constant_of(axis.step) in (None, 0) or any(host_test(unit, scope, part) is None for part in parts):
        return None
    start, stop = constant_of(axis.start), constant_of(axis.stop)
    if start is not None and stop is not None and stop - start <= _SHORT:
        return None
    return loop, axis
