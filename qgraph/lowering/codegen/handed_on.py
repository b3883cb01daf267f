"""Reductions that the next kernel finishes, in the copies of unrolled loops: which loops have them, and the code of it.

``HandedOn`` says how it works; ``tests/consumer_model.py`` is a model of it that looks at all orders of blocks.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from qgraph.ir.functions import Function
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import HOST, Loop, Program, Task
from qgraph.ir.slots import WORD, Slot, itemsize
from qgraph.ir.unrolling import ArraysOfCopies, HandedOn, Unrolling
from qgraph.lowering.codegen.cooperative_rows import shared_loops
from qgraph.lowering.codegen.generated_names import (
    CASTS,
    COPY,
    HANDLE,
    NOTED,
    PARTS,
    SLOTS,
    TOLD,
    Dtypes,
    Globals,
    Statements,
    dtype_of,
    generated,
    indented,
    slot_place,
    slots_name,
    walk,
)
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.purity import Impure, purity_analysis
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import one_thread_body, outlined, prologue, task_names
from qgraph.lowering.graph.dependencies import places_of, touched_places
from qgraph.lowering.graph.telling import Rows
from qgraph.lowering.graph.tiling import turns
from qgraph.operations.progress_ring import publish
from qgraph.records import dataclass
from qgraph.source import copied

# The most scalars that epilogues write: each block loads them all.
_MOST_SCALARS = 16
_HALF = 0xFFFFFFFF


# --- which loops --------------------------------------------------------------------------------------------------------


def hand_on(plan: GraphPlan, node: Node, carried: Sequence[tuple[int, int]], arrays: ArraysOfCopies) -> HandedOn | None:
    """How the reductions in the body of the loop ``node`` are handed on, None where a last block finishes them.

    ``carried`` are the edges from a copy of the body to the next one, ``arrays`` what names stand for in copies.
    """
    found = handed_or_why_not(plan, node, carried, arrays)
    return found if isinstance(found, HandedOn) else None


def handed_or_why_not(
    plan: GraphPlan, node: Node, carried: Sequence[tuple[int, int]], arrays: ArraysOfCopies
) -> HandedOn | str:
    """The same, or why not; empty where the loop has no reduction."""
    (region,) = node.bodies
    nodes = plan.regions[region].nodes
    body = [plan.nodes[index] for index in nodes]
    reductions = [reduction for each in body if each.task is not None for reduction in each.task.reductions]
    in_a_row = {edge for edge in plan.edges if edge[0] in nodes} == {*itertools.pairwise(nodes)}
    if not reductions:
        return ""
    if not in_a_row or tuple(carried) != ((nodes[-1], nodes[0]),):
        return "its kernels do not come one after the other"
    if plan.program.exits is not None:
        return "iterations may end at an error"
    apart = next((each for each in body if not _takes_part(plan.program, each)), None)
    if apart is not None:
        return f"the kernel of line {apart.span.line} is no loop that any grid can run"
    found = HandedOn(
        tuple(nodes),
        tuple(each.task is not None and bool(each.task.reductions) for each in body),
        next((place for place, each in enumerate(body) if _decides(each, node)), 0),
        _scalars(plan.program, node, body),
        tuple(each.partials for reduction in reductions for each in (*reduction.variables, reduction.at) if each is not None),
        arrays,
    )
    return _why_not(plan, node, body, found) or found


def _why_not(plan: GraphPlan, node: Node, body: Sequence[Node], found: HandedOn) -> str:
    """Empty where an epilogue has the condition, all of them are pure, and kernels find what those compute."""
    loop = node.control
    if not isinstance(loop, Loop) or not _decides(body[found.deciding], node):
        return "its condition is not computed behind a reduction"
    written = {slot.name for slot in found.scalars}
    replaced = {name for name, _ in found.arrays}
    if len(written) > _MOST_SCALARS:
        return f"more than {_MOST_SCALARS} numbers change in it"
    lost = next((each for each in body if not _finds_all(each, written, replaced=each.index in replaced)), None)
    if lost is not None:
        return f"the loop of line {lost.span.line} asks for numbers that change in more ways than once at its start"
    places = places_of(plan.program)
    stored = touched_places({name for each in body for name in each.effects.writes}, places)
    outside = {name for each in body for task in (*each.first, *each.then) for name in task.effects.writes} - written
    published = plan.program.progress
    if outside - {loop.condition_slot.name, "" if published is None else published.ring}:
        return "statements behind a reduction write arrays"
    epilogues = (task for each in body for task in (*each.first, *each.then))
    impure = next((task for task in epilogues if not _is_pure(plan.program, task, found, places, stored)), None)
    return "" if impure is None else f"the statements from line {impure.span.line} on do more than compute numbers of numbers"


def _decides(node: Node, loop: Node) -> bool:
    """Whether the epilogue of a kernel has the condition of ``loop``."""
    return isinstance(loop.control, Loop) and any(task is loop.control.condition for task in (*node.first, *node.then))


def _scalars(program: Program, node: Node, body: Sequence[Node]) -> tuple[Slot, ...]:
    """The slots that epilogues write, but for the condition's."""
    tasks = [task for each in body for task in each.tasks]
    deciding = node.control.condition_slot if isinstance(node.control, Loop) else None
    written = {name for task in tasks for name in task.effects.writes}
    return tuple(slot for slot in program.slots if slot.name in written and slot != deciding)


def _takes_part(program: Program, node: Node) -> bool:
    """Whether a kernel of a body can evaluate the epilogue of the one before it: it is a loop that strides, on any grid."""
    task = node.task
    if node.kind != "kernel" or task is None or not task.axes or task.on_device or node.beside:
        return False
    if not task.reductions and (bins_of(program, task) or shared_loops(program, task) or turns(program, task)):
        return False
    return all(v.slot is not None for reduction in task.reductions for v in reduction.variables)


def _finds_all(node: Node, written: Set[str], *, replaced: bool) -> bool:
    """Whether the loop of a kernel asks for scalars once, at its start, and knows its arrays."""
    task = node.task
    assert task is not None
    mine = {v.slot.name for reduction in task.reductions for v in reduction.variables if v.slot is not None}
    scalars = {slot.name for _, slot in task.scalars}
    selected = {each.slot.name for each in task.selections}
    if selected & written and not replaced:
        return False
    if task.effects.writes & written - mine or task.effects.reads & written - mine - scalars - selected:
        return False
    if HOST in task.effects.touched:
        return False
    code = [*task.body, *(part for axis in task.axes for part in (axis.start, axis.step, axis.count))]
    names = {child.id for child in walk(code) if isinstance(child, ast.Name)}
    return not any(name.startswith(SLOTS.name) or name == NOTED.name for name in names)


def _is_pure(program: Program, task: Task, handed: HandedOn, places: Mapping[str, frozenset[str]], stored: Set[str]) -> bool:
    """Whether all blocks may evaluate a task of an epilogue: it stores numbers in scalars, and reads nothing of ``stored``."""
    if task.role not in ("serial", "condition"):
        return False
    kept = _Scalars({(SLOTS.name, slot.index): (_local(number), "") for number, slot in enumerate(handed.scalars)})
    body = [kept.visit(each) for each in Rows(program, task).kept(_decided(task))]
    analysis = purity_analysis(program, replace(task, body=tuple(body), names={**task.names, **_ROW_WORDS}))
    analysis = replace(analysis, numbers=analysis.numbers | {_local(number) for number in range(len(handed.scalars))})
    try:
        return not touched_places(analysis.inside(body), places) & stored
    except Impure:
        return False


def _decided(task: Task) -> list[ast.stmt]:
    """The statements of a task: in place of setting a condition the last one says whether there is another iteration."""
    body = copied(list(task.body))
    if task.role == "condition":
        last = body[-1]
        assert isinstance(last, ast.Expr)
        assert isinstance(last.value, ast.Call)
        body[-1] = ast.Assign([ast.Name("_again", ast.Store())], last.value.args[-1])
    return body


def _local(number: int) -> str:
    """The name of a scalar, in place of its slot."""
    return f"_kept{number}"


class _Scalars(ast.NodeTransformer):
    """Elements of scratch that are scalars become names: ``places`` has of each its name, and what converts to its type."""

    def __init__(self, places: Mapping[tuple[str, int], tuple[str, str]]) -> None:
        self._places = places
        self.found: dict[str, None] = {}
        self.stored: dict[str, None] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        cast = next((cast for name, cast in self._places.values() if name in map(_id, node.targets)), "")
        if cast:
            node.value = ast.Call(ast.Name(cast, ast.Load()), [node.value], [])
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Name(id=array), slice=ast.Constant(value=int(index))) if (
                array,
                index,
            ) in self._places:
                name, _ = self._places[array, index]
                self.found[name] = None
                if isinstance(node.ctx, ast.Store):
                    self.stored[name] = None
                return ast.copy_location(ast.Name(name, node.ctx), node)
        return node


_ROW_WORDS: Globals = {"_publish": publish, "_to_int64": CASTS["int64"], "_to_float64": CASTS["float64"]}


def _id(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


# --- code ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandingCode:
    """The code that kernels in copies have for this: before their own iterations and behind them, and behind all copies."""

    plan: GraphPlan
    unrolling: Unrolling
    dtypes: Dtypes

    @property
    def _handed(self) -> HandedOn:
        assert self.unrolling.handed is not None
        return self.unrolling.handed

    def begin(self, place: int) -> tuple[Statements, Globals]:
        """What kernel ``place`` of the body does first, and its globals: it returns where nothing is left to do.

        Then the scalars are in locals (``variables``). It has looked at all of this when it knows that the loop is over: what
        it computed of old results then changes nothing.
        """
        handed, shared = self._handed, self.unrolling.shared
        previous = handed.before(place)
        deciding = previous == handed.deciding
        shift = handed.evaluated(place)
        evaluated = f"{_PLACE} * {handed.epilogues} + {shift}"
        over = f"0 < _over <= {_PLACE}"
        memory: Statements = []
        epilogue: Statements = []
        names: Globals = self._casts
        if previous is not None:
            memory, combined, names = self._epilogue(previous, _PLACE if place else f"{_PLACE} + 1")
            last = f"{_PLACE} + 1" if place else _PLACE
            ended = ["    if _again == 0:", f"        {SLOTS.name}[{shared}] = {last}"]
            lines = [
                "combined",
                f"if {over}: return",
                f"if {_WRITES}:",
                f"    _to = _assume_u32({self.unrolling.scalars_at('(_done + 1)')})",
                *indented([*self._rows(previous), *self._stores("_to")]),
                *(ended if deciding else ()),
                *(["if _again == 0: return"] if deciding and place == 0 else []),
            ]
            if place == 0:
                lines = [f"if {_PLACE} > 0:", *indented(lines)]
            epilogue = generated(*lines, combined=combined)
        else:
            epilogue = generated(f"if {over}: return")
        head = generated(
            *_LANES,
            f"{_PLACE} = _assume_u32({COPY.name})",
            f"_done = {evaluated}",
            f"_over = {SLOTS.name}[{shared}]",
            *self._loads(),
        )
        return [*memory, *head, *epilogue], names

    def variables(self, task: Task) -> Statements:
        """As ``prologue``: the scalars that a loop reads, once, where they are now."""
        numbers = {slot.name: number for number, slot in enumerate(self._handed.scalars)}
        kept = [(local, slot) for local, slot in task.scalars if slot.name in numbers]
        others = replace(task, scalars=tuple(each for each in task.scalars if each not in kept))
        lines = [f"{local} = {_local(numbers[slot.name])}" for local, slot in kept]
        return [*prologue(others, self.dtypes), *generated(*lines)]

    def leave(self, reductions: ReductionCode) -> Statements:
        """What a kernel does behind its iterations."""
        return reductions.cuda_leave(_PLACE, self.unrolling.partials_at)

    def end(self) -> tuple[Statements, Globals]:
        """The kernel of one block behind all copies of a turn, and its globals.

        The scalars are those behind the last copy that ran. Where that has an epilogue behind its last kernel, nobody may have
        evaluated it yet, and who has stored what it gives elsewhere.
        """
        handed, unrolling = self._handed, self.unrolling
        loop = self.plan.nodes[unrolling.node].control
        assert isinstance(loop, Loop)
        last = len(handed.nodes) - 1
        memory: Statements = []
        combined: Statements = []
        names: Globals = self._casts
        if handed.wraps:
            memory, combined, names = self._epilogue(last, "_ran - 1")
        decides = handed.wraps and handed.deciding == last
        slots = [f"{slot_place(slot, self.dtypes)} = {_local(number)}" for number, slot in enumerate(handed.scalars)]
        return [
            *memory,
            *generated(
                *_LANES,
                f"_turn = {SLOTS.name}[{unrolling.turns}]",
                f"_over = {SLOTS.name}[{unrolling.shared}]",
                f"_ran = _over if _over > 0 else {unrolling.copies}",
                f"_done = _ran * {handed.epilogues} - {int(handed.wraps)}",
                *self._loads(),
                "combined",
                *([] if decides else ["_again = 1 if _over == 0 else 0"]),
                "if _lane == 0:",
                f"    {SLOTS.name}[{unrolling.shared}] = 0",
                *indented([*self._rows(last if handed.wraps else None), *slots]),
                f"    _count = ({_TURN} & {_HALF}) + _ran",
                f"    if _again != 0 and not _stopped({SLOTS.name}, {self.plan.stop}):",
                f"        {SLOTS.name}[{unrolling.turns}] = {_TURN} + _ran",
                "    else:",
                f"        _set_condition({SLOTS.name}, {loop.condition_slot.index}, {HANDLE.name}, 0)",
                f"        {SLOTS.name}[{unrolling.turns}] = _count << 32",
                f"        if _count != {_TURN} >> 32:",
                f"            {TOLD.name}[{unrolling.number}] = _count",
                combined=combined,
            ),
        ], names

    def _epilogue(self, place: int, copy: str) -> tuple[Statements, Statements, Globals]:
        """The epilogue of kernel ``place`` of copy number ``copy``, of which only the lowest bit matters, and its globals.

        Shared memory first, and the code, behind which every thread has the scalars, and knows whether the loop goes on.
        """
        node = self.plan.nodes[self._handed.nodes[place]]
        assert node.task is not None
        reductions = ReductionCode(node.task, self.dtypes)
        memory, combining = reductions.cuda_next(copy, self.unrolling.partials_at)
        kept = self._rewriter()
        names: dict[str, object] = {**reductions.next_names, **self._casts}
        calls: list[list[ast.stmt]] = []
        for tasks in (node.first, node.then):
            calls.append([])
            for task in tasks:
                call, function = self._call(task)
                calls[-1] += call
                names[function.name] = function
        # The results are combined first: then what comes before storing them in the program may still be done.
        *combined, finish = [kept.visit(each) for each in combining]
        extents = [ast.unparse(axis.count) for axis in node.task.axes]
        code = generated(
            f"_blocks = _assume_u32({PARTS.name})",
            "_n = " + " * ".join(f"({extent})" for extent in extents),
            "combined",
            "first",
            "finish",
            "then",
            combined=combined,
            first=calls[0],
            finish=[finish],
            then=calls[1],
        )
        return memory, code, names

    def _call(self, task: Task) -> tuple[list[ast.stmt], Function]:
        """The evaluation of a task of an epilogue: the call of a function of scalars that gives what it makes of them."""
        kept = self._rewriter()
        rows = Rows(self.plan.program, task)
        decided = tuple(rows.kept(_decided(task)))
        body = [kept.visit(each) for each in one_thread_body(replace(task, body=decided), self.dtypes)]
        given = [*kept.stored, *rows.locals, *(["_again"] if task.role == "condition" else [])]
        gives = ", ".join(given)
        body += generated(f"return {gives}" if gives else "return 0")
        names = {**task_names(task, self.dtypes), **self._casts}
        name = f"{task.name}_kept"
        parameters, function = outlined(self.plan.program, name, body, names, task.span, first=list(kept.found))
        arguments = ", ".join([*kept.found, *(parameter.name for parameter in parameters)])
        return generated(f"{gives} = {name}({arguments})" if gives else f"{name}({arguments})"), function

    def _rows(self, place: int | None) -> list[str]:
        """Lines of the thread that writes the rows which the epilogue of kernel ``place`` publishes, behind that epilogue."""
        program = self.plan.program
        # Not before: a load more that all blocks wait for takes an iteration as long as a row.
        lines = [self._load(*each) for each in self._typed if each[1] == self._counts_rows]
        node = None if place is None else self.plan.nodes[self._handed.nodes[place]]
        for task in (*node.first, *node.then) if node is not None else ():
            rows = Rows(program, task)
            rows.kept(_decided(task))
            lines += rows.writes(_local(self._handed.scalars.index(self._counts_rows)) if rows.found else "")
        return lines

    def _rewriter(self) -> _Scalars:
        return _Scalars(
            {
                (slots_name(dtype), slot.index * WORD // itemsize(dtype)): (_local(number), _cast(dtype))
                for number, slot, dtype in self._typed
            }
        )

    @property
    def _typed(self) -> Iterator[tuple[int, Slot, str]]:
        for number, slot in enumerate(self._handed.scalars):
            yield number, slot, dtype_of(slot, self.dtypes)

    @property
    def _casts(self) -> Globals:
        casts: Globals = {_cast(dtype): CASTS[dtype] for _, _, dtype in self._typed}
        return casts if self.plan.program.progress is None else {**casts, **_ROW_WORDS}

    def _loads(self) -> list[str]:
        """Lines that load the scalars as they are behind ``_done`` epilogues of a turn; at first they are in their slots."""
        lines = [f"_from = _assume_u32(0 if _done <= 0 else {self.unrolling.scalars_at('_done')})"]
        return [*lines, *(self._load(*each) for each in self._typed if each[1] != self._counts_rows)]

    @property
    def _counts_rows(self) -> Slot | None:
        """The scalar that only the thread needs which writes rows."""
        published = self.plan.program.progress
        return None if published is None else published.number

    def _load(self, number: int, slot: Slot, dtype: str) -> str:
        at = f"{slot.index * WORD // itemsize(dtype)} if _from == 0 else {_element('_from', number, dtype)}"
        return f"{_local(number)} = {_cast(dtype)}({slots_name(dtype)}[{at}])"

    def _stores(self, first: str) -> list[str]:
        return [f"{slots_name(dtype)}[{_element(first, number, dtype)}] = {_local(number)}" for number, _, dtype in self._typed]


_LANES = (
    "_lane = _assume_u32(_cuda.threadIdx.y * _cuda.blockDim.x + _cuda.threadIdx.x)",
    "_width = _assume_u32(_cuda.blockDim.x * _cuda.blockDim.y)",
)
# The thread that stores scalars and writes rows.
_WRITES = "_lane == 0 and _cuda.blockIdx.x + _cuda.blockIdx.y == 0"
_TURN = "_turn"
# The number of the copy, as the other numbers in a kernel.
_PLACE = "_place"


def _cast(dtype: str) -> str:
    return f"_to_{dtype}"


def _element(first: str, number: int, dtype: str) -> str:
    """The element of scratch of ``dtype`` that is scalar ``number`` of a place: two words each, from an even one on."""
    size = itemsize(dtype)
    scale = f"{first} * {WORD // size}" if size <= WORD else f"({first} >> 1)"
    return f"{scale} + {2 * number * WORD // size}"
