"""Inner loops that only combine values: several threads per row, lanes of one warp, share an iteration.

Each lane has every so many-th of the inner iterations, so that together they read what lies next to each other, and rows
of different lengths cost less. Which loops these are is found here; ``lane_source`` writes their code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.artifacts import WARP
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task
from qgraph.ir.update_patterns import Combining
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.purity import PurityAnalysis, names_stored, purity_analysis
from qgraph.lowering.codegen.task_codegen import operations
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
    if not task.inner_length or bins_of(program, task):
        return None
    before, loop, after = parts_of(task.body)
    looking = purity_analysis(program, task)
    inside = [*before, *loop.body]
    # Lanes repeat what is before the loop, and what is after it one of them does.
    if looking.inside(before) is None or looking.inside(loop.body) is None or not after:
        return None
    if any(isinstance(node, _LEAVES) for statement in inside for node in ast.walk(statement)):
        return None
    if any(isinstance(node, (ast.For, ast.While)) for node in operations([*inside, *after], task.names)):
        return None
    assert isinstance(loop.target, ast.Name)
    used = _loaded(after)
    if loop.target.id in used or loop.target.id in stored_in(loop.body):
        return None
    carried = _carried(loop, used)
    if not carried or loop.target.id in carried:
        return None
    finder = _Accumulators(task.names, carried)
    accumulators = finder.found(loop.body)
    if accumulators is None or _disturbed(program, task, looking, before, loop, carried):
        return None
    assert isinstance(loop.iter, ast.Call)
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    return CooperativeLoop(loop.lineno, accumulators, all(_is_narrow(bound, types) for bound in loop.iter.args))


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


def parts_of(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], ast.For, list[ast.stmt]]:
    """What stands before the one loop of a body, the loop, and what is behind."""
    ((at, loop),) = ((at, each) for at, each in enumerate(body) if isinstance(each, ast.For))
    return list(body[:at]), loop, list(body[at + 1 :])


def stored_in(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that ``statements`` assign to."""
    return frozenset().union(*map(names_stored, statements))


def _loaded(nodes: Iterable[ast.AST]) -> frozenset[str]:
    names = (child for node in nodes for child in ast.walk(node) if isinstance(child, ast.Name))
    return frozenset(name.id for name in names if isinstance(name.ctx, ast.Load))


def _carried(loop: ast.For, used: frozenset[str]) -> frozenset[str]:
    """The names that take a value from one inner iteration to the next, or behind the loop."""
    stored = stored_in(loop.body)
    carried = set(stored & used)

    def look(statements: Sequence[ast.stmt], assigned: frozenset[str]) -> frozenset[str]:
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

    def __init__(self, names: Mapping[str, object], carried: frozenset[str]) -> None:
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

    def found(self, body: Sequence[ast.stmt]) -> dict[str, str] | None:
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
    program: Program, task: Task, looking: PurityAnalysis, before: Sequence[ast.stmt], loop: ast.For, carried: frozenset[str]
) -> bool:
    """Whether what decides where lanes read is itself read where iterations write, or not known.

    Groups without an iteration of their own repeat what is before the loop of the last one, which may be over by then.
    """
    assert isinstance(loop.iter, ast.Call)
    bounds = loop.iter.args
    repeated = _loaded([*before, *bounds])
    # What an accumulator starts from decides nothing, if nothing else asks for it.
    deciding = [each for each in before if not (isinstance(each, ast.Assign) and names_stored(each) <= carried - repeated)]
    reads, more = looking.inside(deciding), looking.all_of(bounds)
    if reads is None or more is None:
        return True
    shared = {name for pair in program.aliases if task.effects.writes & {*pair} for name in pair}
    return bool((reads | more) & (task.effects.writes | shared))


def lane_notes(plan: GraphPlan) -> GraphPlan:
    """The plan with what is shared said of its nodes."""
    return replace(plan, nodes=tuple(_noted(plan, node) for node in plan.nodes))


def _noted(plan: GraphPlan, node: Node) -> Node:
    if node.task is None or node.beside or node.first or node.then or node.what is not None:
        return node
    shared = shared_loop(plan.program, node.task)
    if shared is None:
        return node
    names = ", ".join(f"`{name.rstrip('_')}`" for name in shared.accumulators)
    said = f"the loop at line {shared.line} only combines values in {names}"
    return replace(node, note=f"{said}: up to {WARP} threads share it where it is long")
