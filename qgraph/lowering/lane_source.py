"""Loops whose iterations have a loop inside that only adds up: neighbouring threads, the lanes of a warp, share one iteration.

Each lane has every so many-th of the inner iterations, so that together they read what lies next to each other, and rows
of different lengths cost less. How many share is decided at each launch (``TaskCode.lanes``); where it is one, the thread
runs the plain iteration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from qgraph import language
from qgraph.accumulating import Combining
from qgraph.compiled import WARP
from qgraph.language import SHORT_LIMIT
from qgraph.lowering.bin_source import bins_of
from qgraph.lowering.element_reads import Looking, looking_at, names_stored
from qgraph.lowering.reduction_source import applied
from qgraph.lowering.slot_source import CASTS, Dtypes, generated, indented
from qgraph.lowering.task_source import operations, prologue, replace_continue, unravel
from qgraph.plan import GraphPlan, Node
from qgraph.program import ArrayType, Program, ScalarType, Task
from qgraph.source import copied

# Inner iterations of a lane whose loads are on the way together.
_AT_ONCE = 4
# To combine a value once more changes nothing: of these, all lanes start from what the accumulator is. Of the others they start
# from what changes nothing, since its type is not known here.
_IDEMPOTENT = frozenset({"min", "max", "&", "|"})
_STARTS = {"+": "_empty_sum", "^": "_empty_sum", "*": "_empty_product"}
# What has 32 bits where bounds have.
_NARROWED = (("_inside", "_max(_inside, 0)"), ("_stop", "_max(_stop, 0)"), ("_lanes", "_lanes"))
# A longer body is run once at a time: it has operations enough, and there would be several copies of it.
_LIGHT = 200
# What the place of an element is made of where nothing but numbers decides it.
_PLACE = (ast.Name, ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
_LEAVES = (ast.Return, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class Shared:
    """The loop that lanes share: its accumulators, each with the operator that combines values in it.

    ``narrow``: its bounds have 32 bits.
    """

    line: int
    accumulators: Mapping[str, str]
    narrow: bool


def shared_loop(program: Program, task: Task) -> Shared | None:
    """How the lanes of a group share the loop inside ``task``; None where there is none that they can."""
    # Bins have a use for the whole block.
    if not task.inner_length or bins_of(program, task):
        return None
    before, loop, after = _parts(task.body)
    looking = looking_at(program, task)
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
    if loop.target.id in used or loop.target.id in _stored(loop.body):
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
    return Shared(loop.lineno, accumulators, all(_is_narrow(bound, types) for bound in loop.iter.args))


def _is_narrow(bound: ast.expr, types: Mapping[str, ArrayType | ScalarType]) -> bool:
    """Whether a bound has 32 bits whatever the arguments are."""
    match bound:
        case ast.Constant(value=int(value)):
            return 0 <= value < SHORT_LIMIT
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape")):
            type_ = types.get(name)
            return isinstance(type_, ArrayType) and type_.ndim > 1
        case ast.Subscript(value=ast.Name(id=name)):
            type_ = types.get(name)
            return isinstance(type_, ArrayType) and type_.dtype in ("int8", "int16", "int32", "uint8", "uint16")
    return False


def _parts(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], ast.For, list[ast.stmt]]:
    """What stands before the one loop of a body, the loop, and what is behind."""
    ((at, loop),) = ((at, each) for at, each in enumerate(body) if isinstance(each, ast.For))
    return list(body[:at]), loop, list(body[at + 1 :])


def _stored(statements: Iterable[ast.stmt]) -> frozenset[str]:
    return frozenset().union(*map(names_stored, statements))


def _loaded(nodes: Iterable[ast.AST]) -> frozenset[str]:
    names = (child for node in nodes for child in ast.walk(node) if isinstance(child, ast.Name))
    return frozenset(name.id for name in names if isinstance(name.ctx, ast.Load))


def _carried(loop: ast.For, used: frozenset[str]) -> frozenset[str]:
    """The names that take a value from one inner iteration to the next, or behind the loop."""
    stored = _stored(loop.body)
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
                if match.operator not in (*_STARTS, *_IDEMPOTENT) or self.conflict(key) is not None:
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
    program: Program, task: Task, looking: Looking, before: Sequence[ast.stmt], loop: ast.For, carried: frozenset[str]
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
    if node.task is None or node.beside or node.first or node.then or node.box is not None:
        return node
    shared = shared_loop(plan.program, node.task)
    if shared is None:
        return node
    names = ", ".join(f"`{name.rstrip('_')}`" for name in shared.accumulators)
    said = f"the loop at line {shared.line} only combines values in {names}"
    return replace(node, note=f"{said}: up to {WARP} threads share it where it is long")


# --- code --------------------------------------------------------------------------------------------------------------


def lane_names() -> dict[str, object]:
    """The globals of the generated statements."""
    words = {"_across": language.across, "_empty_sum": language.empty_sum, "_empty_product": language.empty_product}
    return {**words, "_wide": CASTS["int64"], "_word": CASTS["uint32"]}


def by_lanes(task: Task, shared: Shared, counts: Sequence[ast.expr], dtypes: Dtypes) -> list[ast.stmt]:
    """Threads along x have an iteration together, and those along y one each: with one along x as it was written.

    All lanes of a warp meet in the shuffles, so those behind the last iteration repeat that one, without its inner loop, and
    store nothing.
    """
    (count,) = map(ast.unparse, counts)
    before, loop, after = _parts(task.body)
    start = [*prologue(task, dtypes), *unravel(task, "_t", task.axes)]
    alone, empty, last = generated(
        f"if _cuda.blockDim.x == 1:\n"
        f"    if _t >= {count}: return\n"
        f"if {count} <= 0: return\n"
        f"_t = _at_least(_min(_t, {count} - 1), 0)"
    )
    assert isinstance(alone, ast.If)
    alone.body += [*copied(start), *replace_continue(copied(list(task.body))), ast.Return()]
    (first,) = generated("if _cuda.threadIdx.x == 0 and _place == _t: pass")
    assert isinstance(first, ast.If)
    first.body = replace_continue(copied(after))
    return [
        *generated("_t = _at_least(_wide(_cuda.blockIdx.x) * _cuda.blockDim.y + _cuda.threadIdx.y, 0)"),
        alone,
        empty,
        *generated("_place = _t"),
        last,
        *start,
        *copied(before),
        *_shares(loop, shared),
        first,
    ]


def _shares(loop: ast.For, shared: Shared) -> list[ast.stmt]:
    """Each lane combines its share of the inner iterations, and then they combine what they have."""
    assert isinstance(loop.target, ast.Name)
    assert isinstance(loop.iter, ast.Call)
    variable, (first, stop, _) = loop.target.id, loop.iter.args
    lanes = [_Lane(name, operator) for name, operator in shared.accumulators.items()]
    lines = [
        "_lanes = _wide(_cuda.blockDim.x)",
        f"_inside = _wide({ast.unparse(first)}) + _cuda.threadIdx.x",
        f"_stop = _wide({ast.unparse(stop)})",
        "if _place != _t: _stop = _inside",
        *(lane.start for lane in lanes),
        # Only a place that is not negative needs no look whether it counts from the end.
        *(
            []
            if _is_natural(first)
            else ["while _inside < _min(_stop, 0):", f"    {variable} = _inside", "    _inside += _lanes"]
        ),
        # As unsigned numbers, since what is behind the end by up to four warps shall fit too.
        *([f"{name} = _word({value})" for name, value in _NARROWED] if shared.narrow else []),
        "while _inside < _stop: pass",
        "_offset = _cuda.blockDim.x >> 1",
        "while _offset > 0:",
        *(f"    {lane.other} = _across({lane.local}, _offset)" for lane in lanes),
        *(line for lane in lanes for line in indented(lane.combine)),
        "    _offset >>= 1",
        *(line for lane in lanes for line in lane.finish),
    ]
    statements = generated("\n".join(lines))
    body = [_Renamed({lane.name: lane.local for lane in lanes}).visit(each) for each in copied(loop.body)]
    *negative, turns, _ = (each for each in statements if isinstance(each, ast.While))
    turns.body = _turn(variable, body, lanes)
    for each in negative:
        each.body[-1:-1] = copied(body)
    return statements


def _turn(variable: str, body: Sequence[ast.stmt], lanes: Sequence[_Lane]) -> list[ast.stmt]:
    """Several of a lane's inner iterations. One that has fewer repeats the last one, and forgets what comes of it.

    So no load waits for a branch, and what no other load decides is loaded for all of them before anything waits for it.
    """
    often = _AT_ONCE if sum(1 for statement in body for _ in ast.walk(statement)) <= _LIGHT else 1
    early = _Early(variable, _stored(body))
    body = [early.visit(each) for each in copied(list(body))]
    first: list[ast.stmt] = []
    then: list[ast.stmt] = []
    for part in range(often):
        names = {variable: f"_k{part}", **{name: f"{name}_{part}" for name in early.loads}}
        first += generated(f"_k{part} = _at_least(_wide(_min(_inside, _stop - 1)), 0)\n_at{part} = _inside\n_inside += _lanes")
        loads = [ast.Assign([ast.Name(name, ast.Store())], load) for name, load in early.loads.items()]
        first += [_Renamed(names).visit(load) for load in copied(loads)]
        then += generated(f"{variable} = _k{part}")
        then += generated("\n".join(f"{lane.other} = {lane.local}" for lane in lanes))
        then += [_Renamed({name: names[name] for name in early.loads}).visit(each) for each in copied(body)]
        then += generated("\n".join([f"if _at{part} >= _stop:", *(f"    {lane.local} = {lane.other}" for lane in lanes)]))
    return [*first, *then]


class _Early(ast.NodeTransformer):
    """Takes out loads that every inner iteration does, at places that its number alone decides; ``loads`` are by new name."""

    def __init__(self, variable: str, stored: frozenset[str]) -> None:
        self._variable = variable
        self._stored = stored
        self.loads: dict[str, ast.expr] = {}

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        parts = list(ast.walk(node.slice))
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        # An array, or a tuple that was there before the loop.
        known = isinstance(node.value, ast.Name) and node.value.id not in self._stored
        alone = self._variable in names and not names & self._stored
        if not (known and alone and all(isinstance(part, _PLACE) for part in parts)):
            self.generic_visit(node)
            return node
        found = next(
            (name for name, load in self.loads.items() if ast.dump(load) == ast.dump(node)), f"_early{len(self.loads)}"
        )
        self.loads.setdefault(found, node)
        return ast.copy_location(ast.Name(found, ast.Load()), node)

    def visit_If(self, node: ast.If) -> ast.If:
        node.test = self.visit(node.test)
        return node

    def _perhaps(self, node: ast.expr) -> ast.expr:
        # What is in it may not be computed, and then need not exist.
        return node

    visit_IfExp = visit_BoolOp = _perhaps

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        return node if len(node.ops) > 1 else cast("ast.expr", self.generic_visit(node))


def _is_natural(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 0


@dataclass(frozen=True, slots=True)
class _Lane:
    """An accumulator: what a lane has of it is ``local``, and what it had, or another one has, is ``other``."""

    name: str
    operator: str

    @property
    def local(self) -> str:
        return f"_lane_{self.name}"

    @property
    def other(self) -> str:
        return f"{self.local}_b"

    @property
    def start(self) -> str:
        start = _STARTS.get(self.operator)
        return f"{self.local} = {self.name}" if start is None else f"{self.local} = {start}({self.name})"

    @property
    def combine(self) -> list[str]:
        lines = applied(self.operator, self.local, self.other)
        # A lane has a nan where one came out of what the user wrote, as of np.minimum, and then all have.
        return [f"if {self.other} != {self.other}: {self.local} = {self.other}", *lines] if len(lines) > 1 else lines

    @property
    def finish(self) -> list[str]:
        return (
            [f"{self.name} = {self.local}"] if self.operator in _IDEMPOTENT else applied(self.operator, self.name, self.local)
        )


class _Renamed(ast.NodeTransformer):
    """Code with other names for some."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)
