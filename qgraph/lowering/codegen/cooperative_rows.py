"""Inner loops that lanes of one warp share: they combine values, or store in elements of their own.

Each lane has every so many-th of the inner iterations, so that together they read what lies next to each other, and rows
of different lengths cost less. Where all threads read the same anyway (``Task.broadcast``), lanes fill a device for which the
outer iterations are too few. Which loops these are is found here; ``cooperative_codegen.py`` writes their code.

What comes before the last of these loops all lanes do, but that one of them stores; what comes behind it one of them does.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.artifacts import WARP
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task
from qgraph.ir.trees import names_in, parts_of
from qgraph.ir.update_patterns import Combining
from qgraph.lowering.codegen.generated_names import Globals, Statements, walk
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.purity import PLACES, Array, Impure, names_stored, purity_analysis
from qgraph.lowering.codegen.task_codegen import has_loops, operations
from qgraph.operations import intrinsics
from qgraph.operations.intrinsics import U32_LIMIT
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

# To combine a value once more changes nothing: of these, all lanes start from what the accumulator is. Of the others they start
# from what changes nothing, since its type is not known here.
IDEMPOTENT = frozenset({"min", "max", "&", "|"})
STARTS = {"+": "_empty_sum", "^": "_empty_sum", "*": "_empty_product"}
_OPERATORS = (*STARTS, *IDEMPOTENT)
_LEAVES = (ast.Return, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class CooperativeLoop:
    """A loop that lanes share: its accumulators, each with the operator that combines values in it.

    One without accumulators has iterations that store in elements of their own, of the arrays ``stored``. ``narrow``: its
    bounds have 32 bits. ``last``: one lane alone asks for what is combined; else all lanes have the same.
    """

    line: int
    accumulators: Mapping[str, str]
    stored: frozenset[str]
    narrow: bool
    last: bool


def shared_loops(program: Program, task: Task) -> tuple[CooperativeLoop, ...]:
    """How the lanes of a group share the innermost loops inside ``task``, in their order; empty where they cannot."""
    # Bins have a use for the whole block.
    if task.inner_length and not bins_of(program, task):
        with contextlib.suppress(Impure):
            return _Sharing(program, task).found()
    return ()


def with_rest(body: Statements) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements of a body up to its last loop, and those behind it."""
    count = max((at + 1 for at, each in enumerate(body) if isinstance(each, ast.For)), default=0)
    return list(body[:count]), list(body[count:])


def is_innermost(loop: ast.For) -> bool:
    """Whether no loop is in it."""
    return not any(isinstance(node, ast.For) for node in walk(loop.body))


class _Sharing:
    """Looks whether lanes can share all the innermost loops of a body, and repeat what else comes before the last one."""

    def __init__(self, program: Program, task: Task) -> None:
        self._task = task
        # Lanes that note a fault note the same one.
        self._looking = purity_analysis(program, task, noting=True)
        self._types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
        self._pairs = {(one, other) for pair in program.aliases for one, other in (pair, pair[::-1])}
        self._of_iteration = stored_in(task.body) | {axis.variable for axis in task.axes} | {task.index_tuple}
        self._shared: list[CooperativeLoop] = []
        # What all lanes do, and the bounds of the loops.
        self._repeated: list[ast.stmt] = []
        self._bounds: list[ast.expr] = []

    def found(self) -> tuple[CooperativeLoop, ...]:
        """The loops; empty where something is in the way.

        Raises:
            Impure: it is not certain what a statement does.
        """
        before, after = with_rest(self._task.body)
        if self._has_loops(after) or not self._block(before, _asked_for(after), last=True):
            return ()
        # Nobody would ask for what the last one combines.
        wasted = not after and any(each.accumulators for each in self._shared[-1:])
        return () if wasted or self._disturbed() else tuple(self._shared)

    def _has_loops(self, statements: Statements) -> bool:
        return has_loops(operations(statements, self._task.names))

    def _block(self, statements: Sequence[ast.stmt], used: frozenset[str], *, last: bool) -> bool:
        """Whether lanes can do a block together; ``used`` are the names that others ask for. ``last``: one lane does those."""
        if any(isinstance(node, _LEAVES) for node in walk(statements)):
            return False
        for at, statement in enumerate(statements):
            later = statements[at + 1 :]
            if not isinstance(statement, ast.For):
                # Lanes meet where one of them stores, and so not where only some may come.
                hidden = isinstance(statement, ast.If) and elements_stored([statement])
                if hidden or self._has_loops([statement]):
                    return False
                self._looking.inside(self._without_stores([statement]))
                self._repeated.append(statement)
                continue
            bounds = self._bounds_of(statement)
            self._bounds += bounds
            if not self._has_loops(statement.body):
                if not self._is_shared(statement, bounds, used | _asked_for(later), last=last and not later):
                    return False
            elif not (
                # All lanes of a warp meet in it, and so as often, whichever iterations they have.
                not any(names_in(bound) & self._of_iteration or self._looking.reads(bound) for bound in bounds)
                and self._block(statement.body, used | _asked_for(later) | _asked_for(statement.body), last=False)
            ):
                return False
        return True

    def _bounds_of(self, loop: ast.For) -> list[ast.expr]:
        match loop:
            case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name(id=name), args=[_, _, _] as bounds), orelse=[]):
                if self._task.names.get(name) is builtins.range:
                    return bounds
        raise Impure

    def _is_shared(self, loop: ast.For, bounds: Sequence[ast.expr], used: frozenset[str], *, last: bool) -> bool:
        """Whether lanes can share a loop, which is noted then."""
        assert isinstance(loop.target, ast.Name)
        variable = loop.target.id
        self._looking.inside(self._without_stores(loop.body))
        stores = elements_stored(loop.body)
        carried = _carried(loop, used)
        if variable in used | stored_in(loop.body) | carried or ast.unparse(bounds[2]) != "1":
            return False
        accumulators: dict[str, str] | None = {}
        if not stores:
            accumulators = _Accumulators(self._task.names, carried).found(loop.body) if carried else None
        elif carried or not is_natural(bounds[0]) or not self._has_own_elements(loop, variable, stores):
            return False
        if accumulators is None:
            return False
        names = frozenset(store.value.id for store in stores if isinstance(store.value, ast.Name))
        narrow = all(_is_narrow(bound, self._types) for bound in bounds)
        self._shared.append(CooperativeLoop(loop.lineno, accumulators, names, narrow, last))
        return True

    def _has_own_elements(self, loop: ast.For, variable: str, stores: Sequence[ast.Subscript]) -> bool:
        """Whether each iteration stores in elements of its own, and reads no other ones of what is stored in."""
        changing = stored_in(loop.body) | {variable}
        arrays = self._looking.arrays
        places: dict[str, str] = {}
        for store in stores:
            assert isinstance(store.value, ast.Name), "what is pure stores in no other places"
            along = [part for part in parts_of(store) if variable in names_in(part)]
            fixed = [part for part in parts_of(store) if variable not in names_in(part)]
            text = ast.unparse(store.slice)
            if places.setdefault(store.value.id, text) != text or len(along) != 1 or not self._is_own(along[0], changing):
                return False
            if not all(_is_fixed(part, changing) for part in fixed):
                return False
        memories = [self._with_aliases(arrays[name].leaves) for name in places]
        own = set[ast.AST]()
        for node in walk(loop.body):
            match node:
                case ast.Subscript(value=ast.Name(id=name)) if ast.unparse(node.slice) == places.get(name):
                    own.add(node.value)
                case ast.Attribute(value=ast.Name() as array):
                    own.add(array)
        # A function that is given an array may read any element.
        others = [node.id for node in walk(loop.body) if isinstance(node, ast.Name) and node.id in arrays and node not in own]
        apart = not any(arrays[name].leaves & memory for name in others for memory in memories)
        return apart and not any(one & other for one, other in itertools.combinations(memories, 2))

    def _is_own(self, place: ast.expr, changing: frozenset[str]) -> bool:
        """Whether a place with the loop's variable is that and something fixed, and does not count from the end."""
        match place:
            case ast.Name():
                return True
            case ast.BinOp(left=ast.Name(), op=ast.Add(), right=ast.Constant(value=int(value))):
                return value >= 0
            case ast.Call(func=ast.Name(id=word), args=[ast.BinOp(left=ast.Name(), op=ast.Add(), right=start), _]):
                return self._task.names.get(word) is intrinsics.assume_ge and _is_fixed(start, changing)
        return False

    def _with_aliases(self, leaves: frozenset[str]) -> frozenset[str]:
        return leaves | {other for one, other in self._pairs if one in leaves}

    def _without_stores(self, statements: Statements) -> list[ast.stmt]:
        """The statements with what is computed in the place of stores in elements of arrays."""
        taken = _WithoutStores(self._looking.arrays)
        found = [taken.visit(each) for each in copied(list(statements))]
        return [each for some in found for each in (some if isinstance(some, list) else [some])]

    def _disturbed(self) -> bool:
        """Whether what decides where lanes read, and how often, is itself read where iterations write.

        Groups without an iteration of their own repeat the last one without its loops and stores, and it may be over by then.
        """
        nodes = list(walk(self._repeated))
        deciding = [*self._bounds, *(node.slice for node in nodes if isinstance(node, ast.Subscript))]
        deciding += (
            node.test for node in nodes if isinstance(node, ast.If) or (isinstance(node, ast.IfExp) and _decides(node))
        )
        # What a function computes an index of nobody looks at here.
        deciding += (node for node in nodes if isinstance(node, ast.Call) and _loaded(node.args) & self._looking.arrays.keys())
        names = _loaded(deciding)
        found: list[ast.stmt] = []
        while more := [each for each in self._repeated if each not in found and stored_in([each]) & names]:
            found += more
            names |= _loaded(more)
        reads = self._looking.all_of(deciding) | self._looking.inside(self._without_stores(found))
        return bool(reads & self._with_aliases(self._task.effects.writes))


class _WithoutStores(ast.NodeTransformer):
    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """What is computed, where an element is stored."""
        return self._computed(node, node.targets[0], node.value) if len(node.targets) == 1 else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        """The same for an update."""
        return self._computed(node, node.target, node.value)

    def _computed(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ast.stmt | list[ast.stmt]:
        match target:
            case ast.Subscript(value=ast.Name(id=name)) if name in self._arrays:
                place = ast.Subscript(target.value, target.slice, ast.Load())
                return [ast.Expr(place), ast.Expr(value)]
        return node


def elements_stored(statements: Statements) -> list[ast.Subscript]:
    """The elements of arrays that statements store in."""
    return [node for node in walk(statements) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]


def is_natural(node: ast.expr) -> bool:
    """Whether a bound is an integer that is not negative."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 0


def _is_fixed(place: ast.expr, changing: frozenset[str]) -> bool:
    """Whether a place is made of numbers alone, and of none of the names ``changing``."""
    return all(isinstance(node, PLACES) for node in nodes_of(place)) and not names_in(place) & changing


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


def around_loop(body: Statements) -> tuple[list[ast.stmt], ast.For, list[ast.stmt]]:
    """What stands before the one loop of a body, the loop, and what is behind."""
    ((at, loop),) = ((at, each) for at, each in enumerate(body) if isinstance(each, ast.For))
    return list(body[:at]), loop, list(body[at + 1 :])


def stored_in(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that ``statements`` assign to."""
    return frozenset().union(*map(names_stored, statements))


def _decides(node: ast.IfExp) -> bool:
    """Whether a condition decides which elements are read: others than it reads itself."""
    inside, own = (
        {ast.unparse(each) for each in walk(some) if isinstance(each, (ast.Subscript, ast.Call))}
        for some in ([node.body, node.orelse], [node.test])
    )
    return not inside <= own


def _loaded(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _asked_for(statements: Statements) -> frozenset[str]:
    """The names that statements read before they assign them."""
    found: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()
    for statement in statements:
        match statement:
            case ast.For(target=target, iter=items, body=body):
                found |= (_loaded([items]) | (_asked_for(body) - names_in(target))) - assigned
            case ast.If(test=test, body=body, orelse=other):
                found |= (_loaded([test]) | _asked_for(body) | _asked_for(other)) - assigned
            case ast.AugAssign():
                found |= (_loaded([statement]) | names_stored(statement)) - assigned
            case _:
                found |= _loaded([statement]) - assigned
                assigned |= names_stored(statement)
    return found


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


def lane_notes(plan: GraphPlan) -> GraphPlan:
    """The plan with what is shared said of its nodes."""
    return replace(plan, nodes=tuple(_noted(plan, node) for node in plan.nodes))


def _noted(plan: GraphPlan, node: Node) -> Node:
    alone = node.tasks == (node.task,) and node.what is None
    shared = shared_loops(plan.program, node.tasks[0]) if alone else ()
    if not shared:
        return node
    said = "; ".join(dict.fromkeys(map(_said, shared)))
    task = node.tasks[0]
    when = "where it is long" if len(shared) == 1 else "where they are long"
    if task.broadcast and not task.on_device:
        when = f"{when}, and the iterations around {'it' if len(shared) == 1 else 'them'} are too few for the device"
    return replace(node, note=f"{said}: up to {WARP} threads share {'it' if len(shared) == 1 else 'them'} {when}")


def _said(shared: CooperativeLoop) -> str:
    names = ", ".join(f"`{name.rstrip('_')}`" for name in shared.accumulators if not name.startswith("_"))
    into = f" in {names}" if names else ""
    does = f"only combines values{into}" if shared.accumulators else "stores in elements of its own"
    return f"the loop at line {shared.line} {does}"
