"""Makes the record of ``kernel.explain``: asks the passes that made a plan, and counts in its loops."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence

from qgraph.explaining.explanation import Change, Explanation, LoopCost
from qgraph.explaining.launch_notes import extents_of, launch_note
from qgraph.ir.plan import GraphPlan
from qgraph.ir.program import Loop, Task
from qgraph.options import Options
from qgraph.source import Span


def explained(plan: GraphPlan, fused: GraphPlan | None, host: Mapping[str, int], options: Options) -> Explanation:
    """The reasons of ``plan``.

    Args:
        plan: of a kernel, for some arguments.
        fused: the plan of the same with ``fuse=True``, None where it is that, or is no plan of CUDA's.
        host: what the host computes from the arguments, by name; empty where a call is refused.
        options: of the kernel.
    """
    from qgraph.lowering.codegen.privatised_histogram_cuda import bin_notes
    from qgraph.lowering.float64_warning import doubles
    from qgraph.lowering.graph.edge_reasons import reasons
    from qgraph.lowering.scalar_types import scalar_types

    program = plan.program
    dtypes = scalar_types(program)
    wide = doubles(program, tuple(program.tasks()), dtypes)
    on_gpu = options.backend != "cpu"
    launches = _launches(plan, host, options, dtypes) if on_gpu else {}
    notes = {**bin_notes(plan), **_not_handed(plan), **_of_tiles(plan)}
    return Explanation(plan, reasons(plan), wide, notes, loop_costs(plan, host), launches, tuple(_changes(plan, fused, wide)))


def loop_costs(plan: GraphPlan, host: Mapping[str, int]) -> dict[int, tuple[LoopCost, ...]]:
    """What the parallel loops of each kernel take, by node; ``host`` as above."""
    from qgraph.lowering.graph.traffic import traffic

    program = plan.program
    found = {}
    for node in plan.nodes:
        loops = [task for task in node.tasks if task.axes]
        if loops:
            found[node.index] = tuple(LoopCost(task.span, _iterations(task, host), traffic(program, task)) for task in loops)
    return found


def _iterations(task: Task, host: Mapping[str, int]) -> int | None:
    counts = [host.get(axis.count.id) if isinstance(axis.count, ast.Name) else None for axis in task.axes]
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else None


def _launches(plan: GraphPlan, host: Mapping[str, int], options: Options, dtypes: Mapping[str, str]) -> dict[int, str]:
    """What each kernel's own code says of its grid; copies of a body have those of what they are copies of."""
    from qgraph.lowering.codegen.cuda_codegen import Kernels

    written = Kernels(plan, None, dtypes)
    found: dict[int, str] = {}
    for node in plan.nodes:
        if node.task is not None and node.what is None:
            _, code, _ = next(written.of(node))
            found[node.index] = launch_note(code, extents_of(code, host), options.block_size)
    return found


def _not_handed(plan: GraphPlan) -> dict[int, str]:
    """Of loops whose reductions a last block finishes, why the next kernel does not."""
    from qgraph.lowering.codegen.handed_on import handed_or_why_not

    notes = {}
    for node in plan.nodes:
        if node.copies > 1 and node.handed is None and node.counted is None:
            found = handed_or_why_not(plan, node, node.carried, node.arrays)
            if isinstance(found, str) and found:
                notes[node.index] = f"a last block finishes each reduction, and no next kernel does: {found}"
    return notes


def _of_tiles(plan: GraphPlan) -> dict[int, str]:
    """Of passes in overlapped tiles, where halos are from, and what proves them legal."""
    tiles = {node.index: node.task.tile for node in plan.nodes if node.task is not None and node.task.tile is not None}
    return {index: "\n".join(tile.reasons) for index, tile in tiles.items() if tile.reasons}


def _changes(plan: GraphPlan, fused: GraphPlan | None, wide: Sequence[Span]) -> Iterator[Change]:
    for loop in plan.program.assumed:
        assert loop.verdict is not None
        at = loop.verdict.span or loop.span
        yield Change(loop.span.line, f"nothing proves this loop parallel, because of line {at.line}: {loop.verdict.hint}")
    for span in wide:
        yield Change(span.line, "this computes in float64: make its numbers float32, or Python's own")
    if fused is None:
        return
    gains = [f"{len(fused.nodes)} nodes instead of {len(plan.nodes)}"] if len(fused.nodes) < len(plan.nodes) else []
    gains += [str(fused.one_block)] if fused.has_block and not plan.has_block else []
    gains += [each.note for each in _loops(fused) if each.times > 1]
    if gains:
        yield Change(plan.program.span.line, f"@qgraph.kernel(fuse=True): {'; '.join(gains)}")


def _loops(plan: GraphPlan) -> Iterator[Loop]:
    return (node.control for node in plan.nodes if isinstance(node.control, Loop))
