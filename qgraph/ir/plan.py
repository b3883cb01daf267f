"""The GraphPlan: nodes and edges of the graph, before anything is compiled. The same for every backend.

Data only: comparable, printable, drawable. ``lowering.build`` makes it from a Program, and passes turn one plan into another.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from qgraph.ir import drawing
from qgraph.ir.profile_places import WORDS
from qgraph.ir.program import HOST, Branch, Effects, Loop, NodeRecord, Program, Task, effects_of
from qgraph.ir.unrolling import ArraysOfCopies, CountedUnroll, HandedOn, Unrolling
from qgraph.operations.intrinsics import LINE_WORDS
from qgraph.records import dataclass
from qgraph.source import Span
from qgraph.stack import compiling

# What the node of every loop and branch writes, so that no two run at the same time: drivers fail where several do.
TURN = "the turn"


def control_effects(control: Loop | Branch) -> Effects:
    """What the node of a loop or branch touches, with all that is in it."""
    # It reads its own condition, which the task before it may have set.
    return effects_of(control) | Effects(frozenset({control.condition_slot.name}), frozenset({TURN}))


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph: a ``kernel`` that runs ``task``, or a ``while``, ``if`` or ``switch`` with the regions ``bodies``.

    ``beside`` are loops that run in the same kernel, each in threads of its own, those of ``task`` being the first.
    One thread of the kernel runs the tasks ``then``, in order, when all of ``task`` is done. The same thread of a loop with
    reductions runs the tasks ``first``, when all iterations are done and before their results are stored.
    The body of a loop with ``copies`` is unrolled while the loop runs long, ``carried`` being the edges from one copy to the
    next, or as ``counted`` or ``handed`` says, and ``arrays`` what its names stand for; ``note`` says so, or why not.
    In a profile one thread of the kernel notes the time as ``stamp``, behind the wait for earlier kernels, where that is not 0;
    and where it ``ends``, one of each of its last blocks notes when that has ended.
    Any other node works on ``what``: ``qgraph/nodes`` has a class for each kind. With a ``task`` it is a node of that kind
    where nodes live in a graph, and elsewhere the kernel of the task.
    """

    index: int
    kind: str
    label: str
    span: Span
    region: int
    task: Task | None = None
    beside: tuple[Task, ...] = ()
    first: tuple[Task, ...] = ()
    then: tuple[Task, ...] = ()
    control: Loop | Branch | None = None
    bodies: tuple[int, ...] = ()
    what: NodeRecord | None = None
    copies: int = 1
    carried: tuple[tuple[int, int], ...] = ()
    arrays: ArraysOfCopies = ()
    counted: CountedUnroll | None = None
    handed: HandedOn | None = None
    note: str = ""
    stamp: int = 0
    ends: bool = False

    @property
    def title(self) -> str:
        """What it is called in print."""
        if self.task is not None:
            return self.label if self.what is None else f"{self.label} ({self.kind})"
        # Flags that the frontend adds for `break` and `continue` in device loops.
        return re.sub(r"\.(broke|skipped)(\d+)_\d+", r"(\1 in the loop of line \2)", self.label)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """What its kernel runs."""
        return () if self.task is None else (*self.first, self.task, *self.beside, *self.then)

    @property
    def effects(self) -> Effects:
        """What it touches, with all that is in it."""
        if self.control is not None:
            return control_effects(self.control)
        if self.what is not None:
            return self.what.touched
        stamps = Effects(frozenset({WORDS}), frozenset({WORDS})) if self.stamp else Effects()
        return functools.reduce(operator.or_, (task.effects for task in self.tasks), stamps)

    @property
    def decision(self) -> Task | None:
        """The task of its kernel that sets the condition of a conditional node, if one does: a kernel has one handle."""
        found = [task for task in self.tasks if task.role in ("enter", "condition", "decide")]
        assert len(found) <= 1, f"the kernel of {self.label} sets {len(found)} conditions"
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Region:
    """A straight-line graph: the root, or a body of a conditional node (``parent``). ``nodes`` are in program order."""

    index: int
    parent: int | None
    nodes: tuple[int, ...]


# Threads of the block that runs a whole kernel, where the device has registers for so many.
BLOCK_THREADS = 1024


@dataclass(frozen=True, slots=True)
class OneBlock:
    """Whether the whole kernel may run as one block of threads, with barriers between its tasks.

    ``loops``: of each parallel loop its line, the host values whose product is its extent, and the most iterations that one
    block shall do: a launch with more of them, anywhere, takes the graph, also one that has any where those are 0.
    ``why_not``: why it never runs so, else empty.
    """

    loops: tuple[tuple[int, tuple[str, ...], int], ...] = ()
    why_not: str = ""

    def fits(self, host: Mapping[str, int], threads: int = BLOCK_THREADS) -> bool:
        """Whether a launch with these host values runs as one block; one of fewer ``threads`` does so much less."""
        return not self.why_not and all(
            math.prod(host[name] for name in names) <= most * threads // BLOCK_THREADS for _, names, most in self.loops
        )

    def widest(self, host: Mapping[str, int]) -> int:
        """The extent of the loop with the most iterations; more threads than that have nothing to do."""
        return max((math.prod(host[name] for name in names) for _, names, _ in self.loops), default=0)

    def __str__(self) -> str:
        if self.why_not:
            return f"not one block: {self.why_not}"
        most = max((most for _, _, most in self.loops), default=0)
        fewer = sorted({(line, few) for line, _, few in self.loops if 0 < few < most})
        if not most:
            return f"one block of {BLOCK_THREADS} threads"
        limits = "".join(f", that of line {line} no more than {few}" for line, few in fewer)
        return f"one block of {BLOCK_THREADS} threads, while no loop has more than {most} iterations{limits}"


@dataclass(frozen=True, slots=True)
class IndependentSections:
    """Two tasks that touch one array and have no order for it: whatever the sizes, these accesses reach no common element.

    ``earlier`` and ``later`` are the names of the tasks, ``line`` is that of the earlier one.
    """

    earlier: str
    later: str
    line: int
    first: str
    second: str

    def __str__(self) -> str:
        return f"no order with line {self.line}: `{self.first}` and `{self.second}` are apart"


@dataclass(frozen=True, slots=True, repr=False)
class GraphPlan:
    """What will run, in which order. ``edges`` are (from, to) node indices, each within one region, reduced.

    ``one_block``: whether a launch may take another way, None where nobody asked for it.
    """

    program: Program
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    regions: tuple[Region, ...]
    one_block: OneBlock | None = None
    # Of two tasks that touch one array without an order: their names, and what each does there.
    apart: tuple[IndependentSections, ...] = ()
    # Of a profile: the program as one block runs it.
    timed: Program | None = None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Loops and runs of serial statements as the user wrote them, in program order."""
        return tuple(each for task in self.program.tasks() if task.role in ("loop", "serial") for each in task.written)

    @property
    def programmatic(self) -> frozenset[tuple[int, int]]:
        """The edges between kernels: where the GPU can, the later one starts beside the earlier, and waits inside."""
        kernels = {node.index for node in self.nodes if node.kind == "kernel"}
        return frozenset(edge for edge in self.edges if kernels.issuperset(edge))

    @property
    def row(self) -> tuple[int, ...]:
        """The kernels that come after nothing, in a graph of kernels, fills and copies whose launches share no memory.

        While all of them are small they start one behind the other, where the GPU can, which takes less time than to start them
        all at once; each waits for the one before it when it is done itself, and not before. When one has grown another graph
        takes the place of this one, which may still run, on any stream: so there must be nothing that both use.
        """
        others = (node for node in self.nodes if node.task is None)
        if self.scratch_words > 0 or any(node.what is None or not node.what.does_nothing for node in others):
            return ()
        later = {after for _, after in self.edges}
        found = tuple(node.index for node in self.nodes if node.kind == "kernel" and node.index not in later)
        return found if len(found) > 1 else ()

    @property
    def has_block(self) -> bool:
        """Whether launches may run it as one block."""
        return self.one_block is not None and not self.one_block.why_not

    @property
    def unrolled(self) -> tuple[Unrolling, ...]:
        """The loops that are unrolled while they run long."""
        found: list[Unrolling] = []
        # Word 0 guards nothing.
        word = max(1, self.program.scratch_words)
        for node in self.nodes:
            if node.copies > 1:
                inside = [edge for body in node.bodies for edge in self.edges if edge[0] in self.regions[body].nodes]
                followers = frozenset(after for _, after in inside)
                leaders = frozenset(before for before, _ in inside) - followers
                kernels = sum(len(self.regions[body].nodes) for body in node.bodies) - (node.counted is not None)
                made = Unrolling(
                    node.index,
                    node.copies,
                    node.carried,
                    leaders,
                    followers,
                    word,
                    word + 1,
                    len(found),
                    node.arrays,
                    kernels=kernels,
                )
                if node.counted is not None:
                    made = replace(made, counted=node.counted, spread=made.end + -made.end % LINE_WORDS)
                if node.handed is not None:
                    # The places of scalars, two words on, begin a cache line.
                    made = replace(made, handed=node.handed, shared=made.end + (-2 - made.end) % LINE_WORDS)
                word = made.end
                found.append(made)
        return tuple(found)

    @property
    def guards(self) -> dict[int, Unrolling]:
        """By node: the unrolled loop whose body it is in."""
        return {
            index: each for each in self.unrolled for body in self.nodes[each.node].bodies for index in self.regions[body].nodes
        }

    @property
    def stop(self) -> int:
        """The word of scratch that ends every device loop after its iteration where it is not 0: the host writes it."""
        unrolled = self.unrolled
        return unrolled[-1].end if unrolled else self.program.scratch_words

    @property
    def loops(self) -> tuple[Span, ...]:
        """Where the device loops stand."""
        return tuple(node.span for node in self.nodes if isinstance(node.control, Loop))

    @property
    def scratch_words(self) -> int:
        """8-byte words of device scratch: those of the program, behind them those of unrolled loops, and what stops loops."""
        words = self.stop + bool(self.loops)
        return words + words % 2

    @property
    def entries(self) -> dict[int, Unrolling]:
        """By node: the unrolled loop that its kernel enters."""
        loops = ((each, self.nodes[each.node].control) for each in self.unrolled)
        enters = [(each, loop.enter) for each, loop in loops if isinstance(loop, Loop) and loop.enter is not None]
        return {node.index: each for each, enter in enters for node in self.nodes if node.decision is enter}

    @property
    def waits(self) -> dict[int, list[int]]:
        """By node: those that must finish before it starts, where there are any."""
        found: dict[int, list[int]] = {}
        for before, after in self.edges:
            found.setdefault(after, []).append(before)
        return found

    @compiling
    def __str__(self) -> str:
        program = self.program
        counts = f"{len(self.tasks)} tasks, {len(self.nodes)} nodes, {len(self.edges)} edges"
        head = f"{program.name}: {counts}, {program.float_type}"
        sizes = {value.name: value.text for value in program.host_values}
        arrays = [
            f"  {word} {each.leaf.path}: {each.leaf.type.dtype}[{', '.join(sizes[name] for name in each.shape)}]"
            + (", memory of the graph" if each.in_graph else "")
            for word, those in (("returned", program.returned), ("temporary", program.temporaries))
            for each in those
        ]
        block = [] if self.one_block is None else [f"  {self.one_block}"]
        return "\n".join([head, *block, *arrays, *self._region_lines(0, 1)])

    # What shells and notebooks show.
    __repr__ = __str__

    def _region_lines(self, region: int, depth: int) -> list[str]:
        lines = []
        waits = self.waits
        for index in self.regions[region].nodes:
            node = self.nodes[index]
            after = ", ".join(f"n{before}" for before in waits.get(index, ()))
            order = f"  after {after}" if after else ""
            pad = "  " * depth
            lines.append(f"{pad}n{index} {node.title}  [line {node.span.line}]{order}")
            lines += [f"{pad}  {text}" for text in self.task_lines(node)]
            for number, body in enumerate(node.bodies):
                lines += [f"{pad}  case {number}:"] if len(node.bodies) > 1 else []
                lines += self._region_lines(body, depth + 1)
        return lines

    def task_lines(self, node: Node) -> list[str]:
        """What the tasks of a node's kernel do, indented by two; those that joined it with a line of their own before that."""
        lines: list[str] = []
        own = () if node.task is None else (node.task,)
        for word, tasks in (("", own), ("beside it", node.beside), ("first", node.first), ("then", node.then)):
            for task in tasks:
                lines += [f"{word} {task_label(task)}  [line {task.span.line}]"] if word else []
                lines += [f"  {text}" for text in self._loop_lines(task)]
        of_loop = node.control.note if isinstance(node.control, Loop) else ""
        return [*lines, *filter(None, (node.note, of_loop, "" if node.what is None else node.what.told))]

    def _loop_lines(self, task: Task) -> list[str]:
        """What a task does, and each of the loops that were joined."""
        if not task.joined:
            return self._effect_lines(task)
        lines = [f"joined, {len(task.joined)} loops in one" + (f"; {task.note}" if task.note else "")]
        for each in task.joined:
            lines.append(f"line {each.span.line}:")
            lines += [f"  {text}" for text in self._effect_lines(each)]
        return lines

    def _effect_lines(self, task: Task) -> list[str]:
        reads, writes = (", ".join(self.slot_text(names)) for names in (task.effects.reads, task.effects.writes))
        lines = [f"reads {reads or 'nothing'}; writes {writes or 'nothing'}"]
        if task.verdict is not None:
            where = f" (line {task.verdict.span.line})" if task.verdict.span is not None else ""
            lines.append(f"{task.verdict}{where}")
        lines += [str(each) for each in self.apart if each.later == task.name]
        return [*lines, task.note] if task.note else lines

    def slot_text(self, names: Iterable[str]) -> list[str]:
        """How the user writes what effects call ``names``, sorted. What decides a loop or branch has no name there."""
        told = {slot.name: slot.told for slot in self.program.slots}
        told |= {leaf.name: leaf.path for leaf in self.program.arrays_and_scalars}
        return sorted({told.get(name, name) for name in names})

    @compiling
    def to_dot(self) -> str:
        """The graph in Graphviz' language: while nodes are clusters that hold their bodies."""
        head = f'digraph "{self.program.name}" {{\n  node [shape=box, fontname=monospace]; compound=true;'
        edges = (f"  n{before} -> n{after};" for before, after in self.edges)
        return "\n".join([head, *self._dot_region(0, 1), *edges, "}\n"])

    def _dot_region(self, region: int, depth: int) -> list[str]:
        pad = "  " * depth
        lines = []
        for index in self.regions[region].nodes:
            node = self.nodes[index]
            label = _dot_text(f"{node.title}\nline {node.span.line}: {node.span.first_line()}")
            if not node.bodies:
                lines.append(f"{pad}n{index} [label={label}];")
                continue
            lines += [
                f"{pad}subgraph cluster_n{index} {{",
                f"{pad}  label={label}; style=rounded;",
                f"{pad}  n{index} [shape=diamond, label={node.kind}];",
            ]
            for body in node.bodies:
                lines += self._dot_region(body, depth + 1)
            lines.append(f"{pad}}}")
        return lines

    @compiling
    def to_svg(self) -> str:
        """The graph as an SVG document: lines of source in boxes, bodies of loops and branches in these, arrays on edges."""
        counts = f"{len(self.tasks)} tasks in {len(self.nodes)} nodes"
        return drawing.to_svg(self._picture(0), f"{self.program.name}: {counts}, {self.program.float_type}")

    # What a notebook asks for.
    _repr_svg_ = to_svg

    def _picture(self, region: int) -> drawing.Picture:
        nodes = self.regions[region].nodes
        inside = set(nodes)
        arrows = (self._arrow(before, after) for before, after in self.edges if before in inside)
        return drawing.Picture(tuple(self._block(self.nodes[index]) for index in nodes), tuple(arrows))

    def _block(self, node: Node) -> drawing.Block:
        kind: Literal["kernel", "control", "other"] = "kernel" if node.what is None else "other"
        name = node.kind if node.task is not None else node.title
        rows = [drawing.Row(f"n{node.index} {name}", "title")]
        if node.control is not None:
            kind, rows = "control", [drawing.Row(f"n{node.index} {name}, line {node.span.line}", "title")]
        elif node.task is None:
            rows += drawing.source_rows(node.span)
        own = () if node.task is None else (node.task,)
        file = self.program.span.file
        for word, tasks in (("", own), ("beside it", node.beside), ("first", node.first), ("then", node.then)):
            rows += [drawing.Row(word, "note")] if word and tasks else []
            for task in tasks:
                if task.span.file != file:
                    file = task.span.file
                    rows.append(drawing.Row(f"in {os.path.basename(file)}", "note"))
                rows += _task_rows(task)
        words = ("if", "else") if node.kind == "if" else tuple(f"case {number}" for number in range(len(node.bodies)))
        bodies = tuple((words[at] if len(node.bodies) > 1 else "", self._picture(body)) for at, body in enumerate(node.bodies))
        return drawing.Block(node.index, tuple(rows), "\n".join(self.task_lines(node)), kind, bodies)

    def _arrow(self, before: int, after: int) -> drawing.Arrow:
        """With what both nodes touch and one of them writes."""
        first, second = self.nodes[before].effects, self.nodes[after].effects
        names = (first.writes & second.touched) | (first.reads & second.writes)
        for one, other in (*self.program.aliases, *((other, one) for one, other in self.program.aliases)):
            if one in first.touched and other in second.touched and (one in first.writes or other in second.writes):
                names |= {one, other}
        shared = ["everything"] if HOST in names else self.slot_text(names & self._users_names)
        shared = [name for name in shared if not re.fullmatch(_LEAVES, name)]
        few = [*shared[:_MOST_NAMES], *(["..."] if len(shared) > _MOST_NAMES else [])]
        # What no name of the user's says is of a condition, or that loops and branches take turns.
        label = ", ".join(few) or ("condition" if names - {TURN} else "")
        return drawing.Arrow(before, after, label, ", ".join(shared) or label)

    @property
    def _users_names(self) -> frozenset[str]:
        """What effects call arrays, arguments and kernel scalars: those have no type before lowering."""
        program = self.program
        scalars = (slot.name for slot in program.slots if not slot.dtype)
        return frozenset((*(leaf.name for leaf in program.arrays_and_scalars), *scalars))


# What a task is that has no code of its own.
_ROLES = {
    "enter": "whether to enter the loop of",
    "condition": "whether to repeat the loop of",
    "decide": "which branch to run of",
    "bounds": "bounds of",
    "start": "start of",
}
# What `break` and `continue` in device loops decide, as a slot tells it.
_LEAVES = r"`(break|continue)` of line \d+"
# Names on one edge.
_MOST_NAMES = 6


def _task_rows(task: Task) -> list[drawing.Row]:
    """The source of a task; what only decides of a loop or branch has a word, and no code of its own."""
    if task.role not in ("loop", "serial"):
        return [drawing.Row(f"{_ROLES[task.role]} line {task.span.line}", "note")]
    if task.role == "loop":
        return [row for each in task.written for row in drawing.source_rows(each.span)]
    # What the frontend adds to a statement that it takes apart has the place of all of it.
    simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Pass)
    spans = [Span.of(each, task.span.file) for each in task.body]
    parts = {
        number
        for span, each in zip(spans, task.body, strict=True)
        if not (isinstance(each, simple) and drawing.begins_block(span))
        for number in range(span.line, span.end_line + 1)
        if task.span.line <= number <= task.span.end_line
    }
    return drawing.source_rows(task.span, sorted(parts) or [task.span.line])


def task_label(task: Task) -> str:
    """What a task is called in print."""
    return task.name if task.role == "loop" else f"{task.name} ({task.role})"


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
