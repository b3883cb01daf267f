"""What ``kernel.explain`` tells: the plan with its reasons, what iterations take, and what could be written otherwise."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Task
from qgraph.lowering.graph.traffic import Traffic
from qgraph.records import dataclass
from qgraph.source import Span
from qgraph.stack import compiling


@dataclass(frozen=True, slots=True)
class _Order:
    """Which nodes each node waits for, over which edges inside, and behind which one it stands in a row: found once for all."""

    waits: Mapping[int, Sequence[int]]
    programmatic: frozenset[tuple[int, int]]
    behind: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class LoopCost:
    """A parallel loop in a kernel.

    Attributes:
        span: where it is written.
        iterations: how many these arguments mean; None where only the device, or only a call, knows.
        traffic: what one takes.
    """

    span: Span
    iterations: int | None
    traffic: Traffic

    def __str__(self) -> str:
        times = "" if self.iterations is None else f"{self.iterations:,} {self.traffic.of}s; "
        return f"{times}{self.traffic}"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that could be written otherwise; ``text`` says what, and what that gives."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Why a kernel is the graph that it is; ``str()`` tells it node by node, with the user's lines.

    Attributes:
        plan: the graph.
        edges: for each edge of it (from, to), what the two nodes touch that gives them an order.
        doubles: the lines of a float32 kernel that compute in float64 or complex128.
        notes: by node, what its kernel does on the GPU besides what the plan says, and what of that it does not and why.
        costs: by node, the parallel loops of its kernel.
        launches: by node, the grid of its kernel on a GPU and the reason for it, as far as it does not depend on the device.
        changes: what could be written otherwise.
    """

    plan: GraphPlan
    edges: Mapping[tuple[int, int], str]
    doubles: tuple[Span, ...]
    notes: Mapping[int, str]
    costs: Mapping[int, tuple[LoopCost, ...]] = field(default_factory=dict)
    launches: Mapping[int, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values; nodes name those of their bodies by number, and bytes are those of an iteration."""
        plan, order = self.plan, self._order()
        return {
            "kernel": plan.program.name,
            "float_type": plan.program.float_type,
            "one_block": None if plan.one_block is None else str(plan.one_block),
            "nodes": [self._node(node, order) for node in plan.nodes],
            "doubles": [{"file": span.file, "line": span.line} for span in self.doubles],
            "changes": [{"line": change.line, "text": change.text} for change in self.changes],
        }

    def _node(self, node: Node, order: _Order) -> dict[str, Any]:
        return {
            "number": node.index,
            "kind": node.kind,
            "file": node.span.file,
            "line": node.span.line,
            "text": node.span.first_line(),
            "loops": [_loop(task) for each in node.tasks for task in each.written if task.axes],
            "costs": [_cost(cost) for cost in self.costs.get(node.index, ())],
            "launch": self.launches.get(node.index),
            "notes": [line for note in (node.note, self.notes.get(node.index, "")) for line in note.splitlines()],
            "after": [
                {"node": before, "reason": self.edges[before, node.index], "inside": (before, node.index) in order.programmatic}
                for before in order.waits.get(node.index, ())
            ],
            "bodies": [list(self.plan.regions[body].nodes) for body in node.bodies],
        }

    @compiling
    def __str__(self) -> str:
        plan = self.plan
        block = [] if plan.one_block is None else [f"  {plan.one_block}"]
        return "\n".join([self._head(), *block, *self._region(0, 1, self._order()), *self._doubles(), *self._changes()])

    # What shells and notebooks show.
    __repr__ = __str__

    @compiling
    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each node."""
        order = self._order()
        rows = [f"<p>{_text(line)}</p>" for line in (self._head(), str(self.plan.one_block or "")) if line]
        rows.append('<table><tr><th></th><th style="text-align:left">line</th><th style="text-align:left">why</th></tr>')
        rows += self._rows(0, 0, order)
        rows.append("</table>")
        told = [*self._doubles(), *self._changes()]
        return "\n".join([*rows, *([f"<pre>{_text(chr(10).join(told))}</pre>"] if told else [])])

    def _rows(self, region: int, depth: int, order: _Order) -> Iterator[str]:
        for index in self.plan.regions[region].nodes:
            node = self.plan.nodes[index]
            place = f"{node.span.line}: {node.span.first_line()}"
            reasons = "<br>".join(_text(line.strip()) for line in self._reasons(node, order))
            cells = (f"n{index} {_text(node.kind)}", f"<code>{_text(place)}</code>", reasons)
            indents = (0, depth, 0)
            yield f"<tr>{''.join(map(_cell, cells, indents))}</tr>"
            for body in node.bodies:
                yield from self._rows(body, depth + 1, order)

    def _head(self) -> str:
        plan = self.plan
        return f"{plan.program.name}: {len(plan.tasks)} tasks in {len(plan.nodes)} nodes, floats are {plan.program.float_type}"

    def _order(self) -> _Order:
        row = self.plan.row
        return _Order(self.plan.waits, self.plan.programmatic, dict(zip(row[1:], row, strict=False)))

    def _region(self, region: int, depth: int, order: _Order) -> Iterator[str]:
        pad = "  " * depth
        for index in self.plan.regions[region].nodes:
            node = self.plan.nodes[index]
            yield f"{pad}n{index} {node.kind}: line {node.span.line}: {node.span.first_line()}"
            yield from (f"{pad}    {line}" for line in self._reasons(node, order))
            for number, body in enumerate(node.bodies):
                if len(node.bodies) > 1:
                    yield f"{pad}  case {number}:"
                yield from self._region(body, depth + 1, order)

    def _reasons(self, node: Node, order: _Order) -> Iterator[str]:
        index = node.index
        yield from self.plan.task_lines(node)
        costs = self.costs.get(index, ())
        yield from (f"line {cost.span.line}: {cost}" if len(costs) > 1 else str(cost) for cost in costs)
        for note in filter(None, (self.launches.get(index), self.notes.get(index))):
            yield from note.splitlines()
        for before in order.waits.get(index, ()):
            inside = " (waits inside, where GPUs can)" if (before, index) in order.programmatic else ""
            yield f"after n{before}{inside}: {self.edges[before, index]}"
        if index in order.behind:
            before = order.behind[index]
            yield f"no order with n{before}: a graph has it behind, where GPUs can, while such kernels are small"

    def _doubles(self) -> Iterator[str]:
        if self.doubles:
            yield "float64 in a float32 kernel:"
        for span in self.doubles:
            yield f"  {span.file}:{span.line}: {span.first_line()}"

    def _changes(self) -> Iterator[str]:
        if self.changes:
            yield "what could be otherwise:"
        for change in self.changes:
            yield f"  {change}"


def _loop(task: Task) -> dict[str, Any]:
    verdict = task.verdict
    known = None if verdict is None else {"kind": verdict.kind, "reason": verdict.reason, "line": _line(verdict.span)}
    reductions = [{"operator": each.operator, "line": each.span.line} for each in task.reductions]
    return {"line": task.span.line, "verdict": known, "reductions": reductions, "note": task.note}


def _line(span: Span | None) -> int | None:
    return None if span is None else span.line


def _cost(cost: LoopCost) -> dict[str, Any]:
    traffic = cost.traffic
    counted = {
        "loads": traffic.loads,
        "stores": traffic.stores,
        "memory": traffic.memory,
        "operations": traffic.operations,
        "at_most": traffic.at_most,
    }
    found = {"why_not": traffic.why_not} if traffic.why_not else counted
    return {"line": cost.span.line, "iterations": cost.iterations, **found}


def _cell(text: str, indent: int) -> str:
    return f'<td style="text-align:left; vertical-align:top; padding-left:{1 + indent}em">{text}</td>'


def _text(text: str) -> str:
    return html.escape(text, quote=False)
