"""Inner loops that only combine values: several threads per row, lanes of one warp, share an iteration.

Each lane has every so many-th of the inner iterations, so that together they read what lies next to each other, and rows
of different lengths cost less. Where all threads read the same anyway (``Task.broadcast``), lanes fill a device for which the
outer iterations are too few. Which loops these are is found here; ``cooperative_codegen.py`` writes their code.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.artifacts import WARP
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task
from qgraph.ir.update_patterns import Combining
from qgraph.lowering.codegen.generated_names import Globals, Statements, walk
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.purity import Impure, PurityAnalysis, names_stored, purity_analysis
from qgraph.lowering.codegen.task_codegen import has_loops, operations
from qgraph.operations.intrinsics import U32_LIMIT

# To combine a value once more changes nothing: of these, all lanes start from what the accumulator is. Of the others they start
# from what changes nothing, since its type is not known here.
IDEMPOTENT = frozenset({"min", "max", "&", "|"})
STARTS = {"+": "_empty_sum", "^": "_empty_sum", "*": "_empty_product"}
_OPERATORS = (*STARTS, *IDEMPOTENT)
_LEAVES = (ast.Return, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class CooperativeLoop:
    """The loop that lanes share: its accumulators, each with the operator that combines values in it.

    ``narrow``: its bounds have 32 bits.
    """

    line: int
    accumulators: Mapping[str, str]
    narrow: bool


def shared_loop(program: Program, task: Task) -> CooperativeLoop | None:
    """How the lanes of a group share the loop inside ``task``; None where there is none that they can."""
    # Bins have a use for the whole block.
    if task.inner_length and not bins_of(program, task):
        with contextlib.suppress(Impure):
            return _shared_loop(program, task)
    return None


def _shared_loop(program: Program, task: Task) -> CooperativeLoop | None:
    before, loop, after = parts_of(task.body)
    assert isinstance(loop.target, ast.Name)
    assert isinstance(loop.iter, ast.Call)
    variable, bounds = loop.target.id, loop.iter.args
    # Lanes that note a fault note the same one.
    looking = purity_analysis(program, task, noting=True)
    inside = [*before, *loop.body]
    # Lanes repeat what is before the loop, and what is after it one of them does.
    looking.inside(before)
    looking.inside(loop.body)
    used = _loaded(after)
    carried = _carried(loop, used)
    if (
        not after
        or not carried
        or variable in used | stored_in(loop.body) | carried
        or any(isinstance(node, _LEAVES) for node in walk(inside))
        or has_loops(operations([*inside, *after], task.names))
    ):
        return None
    accumulators = _Accumulators(task.names, carried).found(loop.body)
    if accumulators is None or _disturbed(program, task, looking, before, bounds, carried):
        return None
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    return CooperativeLoop(loop.lineno, accumulators, all(_is_narrow(bound, types) for bound in bounds))


def _is_narrow(bound: ast.expr, types: Mapping[str, ArrayType | ScalarType]) -> bool:
    """Whether a bound has 32 bits whatever the arguments are."""
    match bound:
        case ast.Constant(value=int(value)):
            return 0 <= value < U32_LIMIT
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape")):
            type_ = types.get(name)
            return isinstance(type_, ArrayType) and type_.ndim > 1
        case ast.Subscript(value=ast.Name(id=name)):
            type_ = types.get(name)
            return isinstance(type_, ArrayType) and type_.dtype in ("int8", "int16", "int32", "uint8", "uint16")
    return False


def parts_of(body: Statements) -> tuple[list[ast.stmt], ast.For, list[ast.stmt]]:
    """What stands before the one loop of a body, the loop, and what is behind."""
    ((at, loop),) = ((at, each) for at, each in enumerate(body) if isinstance(each, ast.For))
    return list(body[:at]), loop, list(body[at + 1 :])


def stored_in(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that ``statements`` assign to."""
    return frozenset().union(*map(names_stored, statements))


def _loaded(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _carried(loop: ast.For, used: frozenset[str]) -> frozenset[str]:
    """The names that take a value from one inner iteration to the next, or behind the loop."""
    stored = stored_in(loop.body)
    carried = set(stored & used)

    def look(statements: Statements, assigned: frozenset[str]) -> frozenset[str]:
        for statement in statements:
            if isinstance(statement, ast.If):
                carried.update((_loaded([statement.test]) & stored) - assigned)
                assigned |= look(statement.body, assigned) & look(statement.orelse, assigned)
                continue
            read = _loaded([statement])
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                read |= {statement.target.id}
            carried.update((read & stored) - assigned)
            assigned |= names_stored(statement)
        return assigned

    look(loop.body, frozenset())
    return frozenset(carried)


class _Accumulators(Combining):
    """The statements of the inner loop that combine values in the names ``carried``."""

    def __init__(self, names: Globals, carried: frozenset[str]) -> None:
        super().__init__(names)
        self._carried = carried

    def key(self, node: ast.AST) -> str:
        """The accumulator that ``node`` is."""
        return node.id if isinstance(node, ast.Name) and node.id in self._carried else ""

    def is_bool(self, key: str) -> bool:
        """Nobody knows here."""
        return False

    def is_constant(self, value: ast.expr) -> bool:
        """Which lane stores last is not known."""
        return False

    def found(self, body: Statements) -> dict[str, str] | None:
        """The operator of each; None where one of them is used otherwise, or combined in two ways."""
        self.block(body)
        own = {node for match in self.matches for node in match.own}
        if any(id(node) not in own for statement in body for _, node in self.keys(statement)):
            return None
        operators: dict[str, str] = {}
        for match in self.matches:
            for key in match.keys:
                operators.setdefault(key, match.operator)
                if match.operator not in _OPERATORS or self.conflict(key) is not None:
                    return None
            if match.operator in ("min", "max") and self._forgets(match.statement):
                return None
        return operators if operators.keys() == self._carried else None

    def _forgets(self, statement: ast.stmt) -> bool:
        """Whether Python lets go of all values so far where a nan comes: ``max(e, s)`` gives e unless s is greater."""
        match self.operand(statement.value) if isinstance(statement, ast.Assign) else None:
            case ast.Call(func=ast.Name(id=name), args=[first, *_]):
                return not isinstance(self.names.get(name), np.ufunc) and not self.key(first)
            case ast.IfExp(body=body):
                return bool(self.key(body))
        return False


def _disturbed(
    program: Program,
    task: Task,
    looking: PurityAnalysis,
    before: Statements,
    bounds: Sequence[ast.expr],
    carried: frozenset[str],
) -> bool:
    """Whether what decides where lanes read is itself read where iterations write.

    Groups without an iteration of their own repeat what is before the loop of the last one, which may be over by then.
    """
    repeated = _loaded([*before, *bounds])
    # What an accumulator starts from decides nothing, if nothing else asks for it.
    deciding = [each for each in before if not (isinstance(each, ast.Assign) and names_stored(each) <= carried - repeated)]
    shared = {name for pair in program.aliases if task.effects.writes & {*pair} for name in pair}
    return bool((looking.inside(deciding) | looking.all_of(bounds)) & (task.effects.writes | shared))


def lane_notes(plan: GraphPlan) -> GraphPlan:
    """The plan with what is shared said of its nodes."""
    return replace(plan, nodes=tuple(_noted(plan, node) for node in plan.nodes))


def _noted(plan: GraphPlan, node: Node) -> Node:
    alone = node.tasks == (node.task,) and node.what is None
    shared = shared_loop(plan.program, node.tasks[0]) if alone else None
    if shared is None:
        return node
    names = ", ".join(f"`{name.rstrip('_')}`" for name in shared.accumulators)
    said = f"the loop at line {shared.line} only combines values in {names}"
    task = node.tasks[0]
    when = "where it is long"
    if task.broadcast and not task.on_device:
        when = f"{when}, and the iterations around it are too few for the device"
    return replace(node, note=f"{said}: up to {WARP} threads share it {when}")
