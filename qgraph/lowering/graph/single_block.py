"""Whether a whole kernel may run as one block of threads, where a barrier replaces an edge and costs less.

One block has one multiprocessor out of more than a hundred, so it pays where launching is what takes the time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from qgraph.captured_state import numba_function
from qgraph.ir.artifacts import COARSENING, REDUCTION_BLOCK
from qgraph.ir.functions import Function
from qgraph.ir.plan import BLOCK_THREADS, GraphPlan, OneBlock
from qgraph.ir.program import Branch, Loop, Program, Statement, Task, node_statements
from qgraph.ir.renaming import MOST_NODES, MOST_WORDS, node_count, words_of
from qgraph.nodes.kind import statement_kind
from qgraph.source import nodes_of

# A light loop inside a device loop: a few iterations a thread take about as long as a node of a loop's body does.
_IN_DEVICE_LOOP = COARSENING * BLOCK_THREADS
# In a kernel without device loops a node costs less: one iteration a thread.
_IN_LINE = BLOCK_THREADS
# Where an iteration may take long: no more than what the graph runs as one block, too.
_HEAVY = REDUCTION_BLOCK
# One kernel of so much code at most: all of it is compiled a second time.
_MOST_CODE = 4 * MOST_NODES
# Bounds up to which a loop in a body is unrolled rather than long.
_SHORT = 16


def consider_one_block(plan: GraphPlan) -> GraphPlan:
    """The plan that says up to which extents its kernel runs as one block, or why it never does."""
    program = plan.program
    why_not = _why_not(plan)
    if why_not:
        return replace(plan, one_block=OneBlock(why_not=why_not))
    light = _IN_DEVICE_LOOP if any(isinstance(each, Loop) for each in _controls(program.body)) else _IN_LINE
    loops = tuple(
        (task.span.line, count_names(task), _HEAVY if _is_heavy(task) else light)
        for task in program.tasks()
        if task.axes and task.block is None
    )
    # Where blocks do iterations together there are many of them.
    loops += tuple({(task.span.line, (task.block.where,), 0) for task in program.tasks() if task.block is not None})
    return replace(plan, one_block=OneBlock(loops))


def _why_not(plan: GraphPlan) -> str:
    """Why the kernel cannot be one block, or would gain nothing; empty where it can."""
    program = plan.program
    if len(plan.nodes) < 2:
        return "it is one node already"
    if words_of(program.arrays_and_scalars) + len(program.host_values) > MOST_WORDS:
        return "one kernel cannot take so many arguments"
    if sum(node_count(task) for task in program.tasks() if task.block is None) > _MOST_CODE:
        return "it is too much code for one kernel"
    return next(_impossible(program), "")


def _impossible(program: Program) -> Iterator[str]:
    """What a block of threads cannot do."""
    for statement in node_statements(program.body):
        yield f"{statement_kind(statement).not_in_block} at line {statement.span.line}"
    for temporary in program.temporaries:
        if temporary.in_graph:
            yield f"nodes of the graph take the memory of `{temporary.leaf.path}`"
    for task in program.tasks():
        if task.on_device:
            yield f"only the device knows how many iterations the loop of line {task.span.line} has"


def _controls(statements: Sequence[Statement]) -> Iterator[Loop | Branch]:
    for statement in statements:
        match statement:
            case Loop():
                yield statement
                yield from _controls(statement.body)
            case Branch():
                yield statement
                for region in statement.regions:
                    yield from _controls(region)
            case _:
                pass


def _is_heavy(task: Task) -> bool:
    """Whether an iteration has loops of its own, or calls what nobody here has looked into."""
    return any(_has_long_loops(tree, task.names) for tree in task.body)


def _has_long_loops(tree: ast.AST, names: Mapping[str, object]) -> bool:
    for node in nodes_of(tree):
        if isinstance(node, ast.While) or (isinstance(node, ast.For) and not _is_short(node)):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = names.get(node.func.id)
            # A function of the user: one compiled by Numba is not looked into.
            if numba_function(called) is not None or (
                isinstance(called, Function) and _has_long_loops(called.tree, called.names)
            ):
                return True
    return False


def _is_short(loop: ast.For) -> bool:
    """Whether the bounds are small constants, as in ``range(3)``."""
    bounds = loop.iter.args if isinstance(loop.iter, ast.Call) else []
    return bool(bounds) and all(
        isinstance(bound, ast.Constant) and isinstance(bound.value, int) and bound.value <= _SHORT for bound in bounds
    )


def count_names(task: Task) -> tuple[str, ...]:
    """The host values that are the extents of a loop."""
    counts = [axis.count for axis in task.axes]
    assert all(isinstance(count, ast.Name) for count in counts), "a count that the host knows is a host value"
    return tuple(map(ast.unparse, counts))


def entry_of(program: Program) -> str:
    """The name of the kernel that is the whole program."""
    return f"{program.name}_block"
