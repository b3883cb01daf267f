"""What ``kernel.explain`` tells: the plan with its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qgraph.ir.plan import GraphPlan
from qgraph.source import Span
from qgraph.stack import with_large_frame_stack


@dataclass(frozen=True, slots=True)
class _Order:
    """Which nodes each node waits for, over which edges inside, and behind which one it stands in a row: found once for all."""

    waits: Mapping[int, Sequence[int]]
    programmatic: frozenset[tuple[int, int]]
    behind: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a kernel is the graph that it is; ``str()`` tells it node by node, with the user's lines.

    Attributes:
        plan: the graph.
        edges: for each edge of it (from, to), what the two nodes touch that gives them an order.
        doubles: the lines of a float32 kernel that compute in float64 or complex128.
        notes: by node, what its kernel does on the GPU besides what the plan says.
    """

    plan: GraphPlan
    edges: Mapping[tuple[int, int], str]
    doubles: tuple[Span, ...]
    notes: Mapping[int, str]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"nodes": [{"line": node.span.line} for node in self.plan.nodes]}

    @with_large_frame_stack
    def __str__(self) -> str:
        plan = self.plan
        head = f"{plan.program.name}: {len(plan.tasks)} tasks in {len(plan.nodes)} nodes, floats are {plan.program.float_type}"
        block = [] if plan.one_block is None else [f"  {plan.one_block}"]
        row = plan.row
        order = _Order(plan.waits, plan.programmatic, dict(zip(row[1:], row, strict=False)))
        return "\n".join([head, *block, *self._region(0, 1, order), *self._doubles()])

    def _region(self, region: int, depth: int, order: _Order) -> Iterator[str]:
        plan, pad = self.plan, "  " * depth
        for index in plan.regions[region].nodes:
            node = plan.nodes[index]
            yield f"{pad}n{index} {node.kind}: line {node.span.line}: {node.span.first_line()}"
            for line in plan.task_lines(node):
                yield f"{pad}    {line}"
            if index in self.notes:
                yield f"{pad}    {self.notes[index]}"
            for before in order.waits.get(index, ()):
                inside = " (waits inside, where GPUs can)" if (before, index) in order.programmatic else ""
                yield f"{pad}    after n{before}{inside}: {self.edges[before, index]}"
            if index in order.behind:
                before = order.behind[index]
                yield f"{pad}    no order with n{before}: a graph has it behind, where GPUs can, while such kernels are small"
            for number, body in enumerate(node.bodies):
                if len(node.bodies) > 1:
                    yield f"{pad}  case {number}:"
                yield from self._region(body, depth + 1, order)

    def _doubles(self) -> Iterator[str]:
        if self.doubles:
            yield "float64 in a float32 kernel:"
        for span in self.doubles:
            yield f"  {span.file}:{span.line}: {span.first_line()}"
