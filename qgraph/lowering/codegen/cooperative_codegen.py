"""Code of cooperative rows (``cooperative_rows``): the statements of threads that share an iteration, around the user's.

How many share one is decided at each launch (``TaskCode.lanes``); where it is one, the thread runs the plain iteration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from qgraph.ir.artifacts import WARP
from qgraph.ir.program import Task
from qgraph.lowering.codegen.cooperative_rows import (
    IDEMPOTENT,
    STARTS,
    CooperativeLoop,
    elements_stored,
    is_innermost,
    is_natural,
    stored_in,
    with_rest,
)
from qgraph.lowering.codegen.generated_names import CASTS, Dtypes, Globals, Statements, generated, indented, walk
from qgraph.lowering.codegen.purity import PLACES
from qgraph.lowering.codegen.reduction_codegen import applied
from qgraph.lowering.codegen.task_codegen import product, prologue, replace_continue, unravel
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

# Inner iterations of a lane whose loads are on the way together.
_AT_ONCE = 4
# What has 32 bits where bounds have.
_NARROWED = (("_inside", "_max(_inside, 0)"), ("_stop", "_max(_stop, 0)"), ("_lanes", "_lanes"))
# A longer body is run once at a time: it has operations enough, and there would be several copies of it.
_LIGHT = 200


def lane_names() -> Globals:
    """The globals of the generated statements."""
    words = {"_across": intrinsics.across, "_empty_sum": intrinsics.empty_sum, "_empty_product": intrinsics.empty_product}
    words |= {"_across_warps": intrinsics.across_warps}
    return {**words, "_wide": CASTS["int64"], "_word": CASTS["uint32"]}


def with_row_threads(task: Task, shared: Sequence[CooperativeLoop], dtypes: Dtypes) -> Statements:
    """Threads along x have an iteration together, and those along y one each: with one along x as it was written.

    All lanes of a warp meet in the shuffles and around stores, so those behind the last iteration repeat that one, without its
    inner loops, and store nothing. Where only the device knows how many iterations there are the blocks stride over them.
    """
    before, after = with_rest(task.body)
    after = after or [ast.Pass()]
    if task.on_device:
        return generated(
            "before_all",
            f"_n = {product(task.axes)}",
            "_first = _wide(_cuda.blockIdx.x) * _cuda.blockDim.y",
            # The whole block, and so all lanes.
            "while _first < _n:",
            "    _place = _assume_ge(_first + _cuda.threadIdx.y, 0)",
            "    _t = _assume_ge(_min(_place, _n - 1), 0)",
            "    _first += _wide(_cuda.gridDim.x) * _cuda.blockDim.y",
            "    start",
            "    together",
            "    if _cuda.threadIdx.x == 0 and _place == _t:",
            "        after",
            before_all=prologue(task, dtypes),
            start=unravel(task, "_t", task.axes),
            together=_together(before, iter(shared)),
            after=after,
        )
    count = product(task.axes)
    return generated(
        "_t = _assume_ge(_wide(_cuda.blockIdx.x) * _cuda.blockDim.y + _cuda.threadIdx.y, 0)",
        "if _cuda.blockDim.x == 1:",
        f"    if _t >= {count}: return",
        "    start",
        "    alone",
        "    return",
        f"if {count} <= 0: return",
        "_place = _t",
        f"_t = _assume_ge(_min(_t, {count} - 1), 0)",
        "start",
        "together",
        "if _cuda.threadIdx.x == 0 and _place == _t:",
        "    after",
        start=[*prologue(task, dtypes), *unravel(task, "_t", task.axes)],
        alone=replace_continue(task.body),
        together=_together(before, iter(shared)),
        after=replace_continue(after),
    )


def _together(statements: Statements, loops: Iterator[CooperativeLoop]) -> list[ast.stmt]:
    """What the lanes of a group do together: what one of them stores, or each of them, all see before they go on."""
    result: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.For) and not is_innermost(statement):
            inside = _together(statement.body, loops)
            result.append(ast.copy_location(ast.For(statement.target, statement.iter, inside, []), statement))
        elif isinstance(statement, ast.For):
            shared = next(loops)
            shares = _shares(statement, shared)
            result += _in_turn(shares) if shared.stored else shares
        elif elements_stored([statement]):
            result += _in_turn(generated("if _cuda.threadIdx.x == 0 and _place == _t:", "    statement", statement=[statement]))
        else:
            result.append(statement)
    return result


def _in_turn(stores: Statements) -> Statements:
    """Stores behind the loads that come before them, and before the loads behind them, of all lanes."""
    meet = [f"if _cuda.blockDim.x > {WARP}: _cuda.syncthreads()", "else: _cuda.syncwarp()"]
    return generated(*meet, "stores", *meet, stores=stores)


def _shares(loop: ast.For, shared: CooperativeLoop) -> Statements:
    """Each lane has its share of the inner iterations; then they combine what they have."""
    assert isinstance(loop.target, ast.Name)
    assert isinstance(loop.iter, ast.Call)
    variable, (first, stop, _) = loop.target.id, loop.iter.args
    lanes = [_Accumulator(name, operator) for name, operator in shared.accumulators.items()]
    body = renamed(loop.body, {lane.name: lane.local for lane in lanes})
    negative = ["while _inside < _min(_stop, 0):", f"    {variable} = _inside", "    body", "    _inside += _lanes"]
    return generated(
        "_lanes = _wide(_cuda.blockDim.x)",
        f"_inside = _wide({ast.unparse(first)}) + _cuda.threadIdx.x",
        f"_stop = _wide({ast.unparse(stop)})",
        "if _place != _t: _stop = _inside",
        *(lane.start for lane in lanes),
        # Only a place that is not negative needs no look whether it counts from the end.
        *(() if is_natural(first) else negative),
        # As unsigned numbers, since what is behind the end by up to four warps shall fit too.
        *(f"{name} = _word({value})" for name, value in _NARROWED if shared.narrow),
        "while _inside < _stop:",
        "    turn",
        *(_combined(lanes, agreed=not shared.last) if lanes else ()),
        body=body,
        turn=_turn(variable, body, lanes, shared.stored),
    )


def _combined(lanes: Sequence[_Accumulator], *, agreed: bool) -> Iterator[str]:
    """What the lanes have becomes one: first in a warp, and then that of several warps. ``agreed``: all have the same bits."""
    yield f"_offset = _min(_cuda.blockDim.x, {WARP}) >> 1"
    yield "while _offset > 0:"
    for lane in lanes:
        yield f"    {lane.other} = _across({lane.local}, _offset)"
        # Two lanes compute the same of two zeros, and of products of complex numbers, if they do it the same way round.
        if agreed:
            yield f"    if _cuda.threadIdx.x & _offset: {lane.local}, {lane.other} = {lane.other}, {lane.local}"
        yield from indented(lane.combined(lane.local))
    yield "    _offset >>= 1"
    yield f"if _cuda.blockDim.x > {WARP}:"
    yield f"    _warps = _cuda.blockDim.x // {WARP}"
    yield "    _first_warp = _cuda.threadIdx.y * _warps"
    yield f"    _warp = _first_warp + _cuda.threadIdx.x // {WARP}"
    for lane in lanes:
        yield f"    {lane.whole} = _across_warps({lane.local}, _warp, _first_warp)"
        yield "    _other_warp = _first_warp + 1"
        yield "    while _other_warp < _first_warp + _warps:"
        yield f"        {lane.other} = _across_warps({lane.local}, _warp, _other_warp)"
        yield from indented(lane.combined(lane.whole), 2)
        yield "        _other_warp += 1"
        yield f"    {lane.local} = {lane.whole}"
    for lane in lanes:
        yield from lane.finish


def _turn(variable: str, body: Statements, lanes: Sequence[_Accumulator], stored: frozenset[str]) -> Statements:
    """Several of a lane's inner iterations. One that has fewer loads what the last one does, and forgets what comes of it.

    So no load waits for a branch, and what no other load decides is loaded for all of them before anything waits for it.
    """
    often = _AT_ONCE if sum(1 for _ in walk(body)) <= _LIGHT else 1
    # An iteration reads what it stores itself only before that, if that is all it does.
    alone = len(body) == 1 and isinstance(body[0], ast.Assign)
    early = _HoistedLoads(variable, stored_in(body) | (frozenset() if alone else stored))
    body = [early.visit(each) for each in copied(list(body))]
    first: list[ast.stmt] = []
    then: list[ast.stmt] = []
    for part in range(often):
        names = {name: f"{name}_{part}" for name in early.loads}
        loads = [ast.Assign([ast.Name(name, ast.Store())], load) for name, load in early.loads.items()]
        first += generated(
            f"_k{part} = _assume_ge(_wide(_min(_inside, _stop - 1)), 0)", f"_at{part} = _inside", "_inside += _lanes"
        )
        first += renamed(loads, {variable: f"_k{part}", **names})
        iteration = renamed(body, names)
        if not lanes:
            then += generated(f"if _at{part} < _stop:", f"    {variable} = _k{part}", "    iteration", iteration=iteration)
            continue
        then += generated(
            f"{variable} = _k{part}",
            *(f"{lane.other} = {lane.local}" for lane in lanes),
            "iteration",
            f"if _at{part} >= _stop:",
            *(f"    {lane.local} = {lane.other}" for lane in lanes),
            iteration=iteration,
        )
    return [*first, *then]


class _HoistedLoads(ast.NodeTransformer):
    """Takes out loads that every inner iteration does, at places that its number alone decides; ``loads`` are by new name.

    ``stored`` are the names that the loop assigns, and the arrays of which it may not load an element earlier.
    """

    def __init__(self, variable: str, stored: frozenset[str]) -> None:
        self._variable = variable
        self._stored = stored
        self.loads: dict[str, ast.expr] = {}

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        parts = list(nodes_of(node.slice))
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        # An array, or a tuple that was there before the loop.
        known = isinstance(node.value, ast.Name) and node.value.id not in self._stored
        alone = self._variable in names and not names & self._stored and isinstance(node.ctx, ast.Load)
        if not (known and alone and all(isinstance(part, PLACES) for part in parts)):
            self.generic_visit(node)
            return node
        same = (name for name, load in self.loads.items() if ast.dump(load) == ast.dump(node))
        found = next(same, f"_early{len(self.loads)}")
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


@dataclass(frozen=True, slots=True)
class _Accumulator:
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
        start = STARTS.get(self.operator)
        return f"{self.local} = {self.name}" if start is None else f"{self.local} = {start}({self.name})"

    @property
    def whole(self) -> str:
        return f"{self.local}_w"

    def combined(self, name: str) -> list[str]:
        """``other`` combined with what ``name`` has, there."""
        # A lane has a nan where one came out of what the user wrote, as of np.minimum, and then all have.
        return applied(self.operator, name, self.other, nan=True)

    @property
    def finish(self) -> list[str]:
        return [f"{self.name} = {self.local}"] if self.operator in IDEMPOTENT else applied(self.operator, self.name, self.local)


def renamed(statements: Statements, names: Mapping[str, str]) -> Statements:
    """A copy with other names for some."""
    new = copied(list(statements))
    for node in walk(new):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return new
