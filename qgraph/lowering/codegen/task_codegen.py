"""Task -> Python: what all code of tasks has in common. ``cuda_codegen`` and ``cpu_chunks`` write their loops.

Generated code keeps the user's statements and line numbers; what is added stands on the line of the loop's header. Names that
begin with an underscore are generated.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace

from qgraph import language
from qgraph.ir.artifacts import Parameter, TaskCode
from qgraph.ir.functions import Function, function_tree
from qgraph.ir.profile_places import (
    BEFORE,
    EACH,
    ELAPSED,
    ENDED,
    HEAD,
    IDLE,
    LAST,
    NEXT_STAMP,
    TIMES,
    TOTALS,
    WORDS,
)
from qgraph.ir.program import Axis, Cast, Program, Selection, Task
from qgraph.lowering.codegen.generated_names import (
    CASTS,
    COPY,
    ELEMENT_CASTS,
    GUARD,
    HANDLE,
    NEXT,
    NOTED,
    PARTS,
    PEEKS,
    SLOTS,
    TOLD,
    VIEWS,
    WHOLE,
    Dtypes,
    Globals,
    Statements,
    dtype_of,
    generated,
    place_at,
    slot_place,
    walk,
)
from qgraph.lowering.graph.dependencies import temporaries_together
from qgraph.operations import intrinsics
from qgraph.source import Span, copied, nodes_of

EARLY = Parameter("early", "_early")
# Generated CUDA code calls Numba's module by this name.
CUDA_MODULE = "_cuda"
# Under names that no user has: a parameter may be called `range`.
BUILTINS = {
    "_range": range,
    "_min": min,
    "_max": max,
    "_assume_ge": intrinsics.assume_ge,
    "_peek": intrinsics.peek,
    "_peek_spread": intrinsics.peek_spread,
    "_spread": intrinsics.spread,
    "_is_over": intrinsics.is_over,
    "_set_condition": intrinsics.set_condition,
    "_stopped": intrinsics.stopped,
    "_quotient": intrinsics.quotient,
    "_remainder": intrinsics.remainder,
    "_assume_u32": intrinsics.assume_u32,
    "_unfused": intrinsics.unfused,
}
# What stamps of a profile call.
STAMP_NAMES: Globals = {
    "_clock": intrinsics.clock,
    "_atomic_add": language.atomic_add,
    "_atomic_max": language.atomic_max,
}


def stamp_lines(number: int, *, alone: bool = True, gaps: bool = False) -> list[str]:
    """What one thread does for a stamp: it waits for memory once. Unless it is ``alone`` it does not wait for the totals.

    With ``gaps`` it counts what lies behind the end of the last blocks. A block of its own kernel that ended before this thread
    read the clock is taken for one of the kernel before: time is idle at least so long.
    """
    totals = [(f"_stamp_before + {ELAPSED}", "_stamp_now - _stamp_last"), (str(TOTALS + EACH * number + TIMES), "1")]
    if gaps:
        known = "_stamp_last < _stamp_ended <= _stamp_now"
        totals.append((f"_stamp_before + {IDLE}", f"_stamp_now - _stamp_ended if {known} else 0"))
    return [
        "_stamp_now = _clock()",
        f"_stamp_at = _assume_u32({WORDS}[{NEXT_STAMP}])",
        f"_stamp_last = {WORDS}[{LAST}]",
        f"_stamp_before = _assume_u32({WORDS}[{BEFORE}])",
        *([f"_stamp_ended = {WORDS}[{ENDED}]"] if gaps else []),
        f"{WORDS}[_stamp_at] = {number}",
        f"{WORDS}[_stamp_at + 1] = _stamp_now",
        f"{WORDS}[{NEXT_STAMP}] = _stamp_at + 2 if _stamp_at < {TOTALS - 2} else {HEAD}",
        f"{WORDS}[{LAST}] = _stamp_now",
        f"{WORDS}[{BEFORE}] = {TOTALS + EACH * number}",
        *(f"{WORDS}[{at}] += {by}" if alone else f"_atomic_add({WORDS}, {at}, {by})" for at, by in totals),
    ]


def serial_function(
    program: Program, task: Task, dtypes: Dtypes, more: Sequence[str] = ()
) -> tuple[tuple[Parameter, ...], Function]:
    """A one-thread task as a plain function: what the CPU runs, and kernels behind their own; ``more`` are their locals."""
    return outlined(program, task.name, one_thread_body(task, dtypes), task_names(task, dtypes), task.span, last=more)


def outlined(
    program: Program,
    name: str,
    body: Statements,
    names: Globals,
    span: Span,
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
) -> tuple[tuple[Parameter, ...], Function]:
    """A function around ``body`` and what it reads from outside: parameters between those named in ``first`` and ``last``."""
    parameters = parameters_of(program, body)
    return parameters, make_function(name, [*first, *(p.name for p in parameters), *last], body, names, span)


def one_thread_body(task: Task, dtypes: Dtypes) -> Statements:
    """The statements of a one-thread task: load the slots that it reads, run, store the kernel scalars that it assigned."""
    stores = generated(*(f"{slot_place(slot, dtypes)} = {name}" for name, slot in task.results))
    return [*prologue(task, dtypes), *copied(list(task.body)), *stores]


def task_names(task: Task, dtypes: Dtypes) -> Globals:
    """The globals of the task's code, each conversion to a slot's type made one to that type."""
    return {name: _resolved(value, dtypes) for name, value in task.names.items()}


def _resolved(value: object, dtypes: Dtypes) -> object:
    if isinstance(value, Cast):
        return _cast(value, dtypes)
    if isinstance(value, Function) and any(isinstance(each, Cast) and each.slot for each in value.names.values()):
        return replace(value, names={name: _resolved(each, dtypes) for name, each in value.names.items()})
    return value


def _cast(cast: Cast, dtypes: Dtypes) -> Cast:
    if cast.keeps:
        return cast
    return ELEMENT_CASTS[cast.dtype] if cast.slot is None else CASTS[dtype_of(cast.slot, dtypes)]


def make_function(name: str, arguments: Sequence[str], body: Statements, names: Globals, span: Span) -> Function:
    """A function at ``span``; statements without a position stand on its first line."""
    tree = function_tree(name, arguments, list(body))
    for child in nodes_of(tree):
        place_at(child, span)
    return Function(name, tree, names, span.file)


def kernel_code(
    program: Program,
    task: Task,
    entry: str,
    parameters: tuple[Parameter, ...],
    body: Statements,
    names: Globals,
    tasks: Sequence[Task],
) -> tuple[TaskCode, Function]:
    """The kernel around ``body``, at the place of ``task``: it runs ``tasks``, one iteration of a loop a thread."""
    function = make_function(entry, [p.name for p in parameters], body, names, task.span)
    # Scratch is how blocks talk to each other: its loads and stores stay where the fences are.
    arrays = {parameter.name for parameter in parameters if parameter.is_array and parameter.kind == "leaf"}
    shared = {name for pair in (*program.aliases, *temporaries_together(program)) if arrays.issuperset(pair) for name in pair}
    published = {WORDS} if program.progress is None else {WORDS, program.progress.ring}
    code = TaskCode(
        task=task,
        entry=entry,
        source=ast.unparse(function.tree),
        parameters=parameters,
        counts=(),
        single=not task.axes,
        on_device=task.on_device,
        constant=frozenset(arrays - shared - published).difference(*(task.effects.writes for task in tasks)),
    )
    return code, function


def own_function(function: Callable[..., object], names: Globals | None = None) -> Function:
    """A function of qgraph's own as code for generated functions to call; ``names`` are the globals that it uses."""
    tree = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return Function(tree.name, tree, names or {}, inspect.getsourcefile(function) or "")


def parameters_of(program: Program, body: Statements) -> tuple[Parameter, ...]:
    """What ``body`` reads from outside: leaves, host values, slots and the like, in one fixed order."""
    names = [child for child in walk(body) if isinstance(child, ast.Name)]
    parameters = ordered(program, {name.id for name in names})
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    taken = {parameter.name for parameter in parameters if parameter.kind != "leaf"} & stored
    assert not taken, f"generated code assigns to its parameters: {taken}"
    return parameters


def ordered(program: Program, used: Set[str]) -> tuple[Parameter, ...]:
    """The parameters among the names ``used``: leaves, host values, scratch, faults, handles, and what copies have."""
    parameters = [Parameter("leaf", leaf.name, leaf.type) for leaf in program.arrays_and_scalars if leaf.name in used]
    parameters += [Parameter("host", value.name) for value in program.host_values if value.name in used]
    others = (SLOTS, *VIEWS, NOTED, HANDLE, WHOLE, GUARD, COPY, PEEKS, PARTS, NEXT, TOLD)
    return (*parameters, *(parameter for parameter in others if parameter.name in used))


def without_handles(parameters: Iterable[Parameter]) -> Iterator[str]:
    """The arguments for ``parameters`` where no loop has a conditional handle: conditions are slots."""
    return ("0" if parameter is HANDLE else parameter.name for parameter in parameters)


def prologue(task: Task, dtypes: Dtypes) -> Statements:
    """Loads what the task reads of slots, and finds the arrays that slots select, once."""
    lines = [f"{name} = {slot_place(slot, dtypes)}" for name, slot in task.scalars]
    lines += [f"{selection.local} = {selected_leaf(selection)}" for selection in task.selections]
    return generated(*lines)


def selected_leaf(selection: Selection) -> str:
    """The code of the array that a slot selects."""
    *others, last = selection.leaves
    tests = [f"{leaf} if {SLOTS.name}[{selection.slot.index}] == {number} else " for number, leaf in enumerate(others)]
    return "".join(tests) + last


def unravel(task: Task, index: str, axes: Sequence[Axis], extents: Sequence[str] = (), *, narrow: bool = False) -> Statements:
    """Loop variables from one linear index, last axis fastest; ``narrow``: all extents are below ``U32_LIMIT``."""
    extents = extents or [ast.unparse(axis.count) for axis in axes]
    lines = []
    for position, axis in enumerate(axes):
        value = index
        for extent in reversed(extents[position + 1 :]):
            value = f"_quotient({value}, {extent})"
        if position:
            value = f"_remainder({value}, {extents[position]})"
        if narrow:
            value = f"_assume_u32({value})"
        lines.append(f"{axis.variable} = {affine(axis, value)}")
    return [*generated(*lines), *(index_tuple(task) if len(axes) == len(task.axes) else ())]


def affine(axis: Axis, value: str) -> str:
    """The code of a loop variable in iteration ``value`` of its axis."""
    step, start = ast.unparse(axis.step), ast.unparse(axis.start)
    scaled = value if step == "1" else f"({value}) * ({step})"
    return scaled if start == "0" else f"{start} + {scaled}" if step != "1" else f"{start} + ({value})"


def index_tuple(task: Task) -> Statements:
    """The assignment of the tuple of all loop variables, if the user has a name for it."""
    if not task.index_tuple:
        return []
    return generated(f"{task.index_tuple} = ({', '.join(axis.variable for axis in task.axes)},)")


class _Continue(ast.NodeTransformer):
    """`continue` of the loop that became a thread is its return; that of an inner loop stays."""

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return ast.copy_location(ast.Return(), node)

    def _leave(self, node: ast.For | ast.While) -> ast.stmt:
        # The else of an inner loop belongs to the outer one again.
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    visit_For = visit_While = _leave


def replace_continue(statements: Statements) -> Statements:
    """A loop's body as that of a function for one iteration: a copy."""
    transformer = _Continue()
    return [transformer.visit(statement) for statement in copied(list(statements))]


def product(axes: Sequence[Axis]) -> str:
    """The code of the number of iterations of some axes."""
    counts = [ast.unparse(axis.count) for axis in axes]
    return " * ".join(f"({count})" for count in counts) if len(counts) > 1 else "".join(counts)


def called_name(node: ast.AST) -> str:
    """The name that a node calls; empty where it is no call of a name."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
    return ""


def has_loops(nodes: Iterable[ast.AST]) -> bool:
    """Whether one of some nodes is a loop."""
    return any(isinstance(node, (ast.For, ast.While)) for node in nodes)


def operations(statements: Statements, names: Globals) -> Iterator[ast.AST]:
    """The syntax tree of statements, with the bodies of the functions that they call, themselves or by ``attempt``."""
    for node in walk(statements):
        yield node
        called = names.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(called, Function):
            yield from operations(called.tree.body, called.names)
