"""Definite assignment: a private name of a parallel loop is assigned on every path of the iteration before it is used.

There are no comprehensions, lambdas, definitions, `try`, `with`, `raise` and starred targets: ``syntax.unsupported_syntax`` has
refused them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.source import Span, children_of, nodes_of


def names_assigned(statements: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    """Names that ``statements`` bind, each with the nodes that bind it."""
    found: dict[str, list[ast.AST]] = {}
    for node in preorder(statements):
        name = _bound_name(node)
        if name is not None:
            found.setdefault(name, []).append(node)
    return found


def names_bound_again(statements: Iterable[ast.AST], more_than: int = 0, but: Iterable[ast.AST] = ()) -> set[str]:
    """Names that ``statements`` bind other than by `x += y`, which for an array changes its elements, at ``more_than`` places.

    ``but``: nodes that do not count.
    """
    nodes = list(preorder(statements))
    updated = {*but, *(node.target for node in nodes if isinstance(node, ast.AugAssign))}
    counts = Counter(name for node in nodes if node not in updated and (name := _bound_name(node)) is not None)
    return {name for name, count in counts.items() if count > more_than}


def names_that_meet(statements: Iterable[ast.AST]) -> dict[str, str]:
    """For names that ``statements`` bind, and those that may be what is bound to them, one that stands for all of these.

    In ``u, v = v, u`` both meet. ``n = u.shape[0]`` and ``s = u[i]`` bind no array.
    """
    group: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := group.setdefault(name, name)) != name:
            name = above
        return name

    for node in preorder(statements):
        if isinstance(node, ast.stmt):
            for part in _parts_that_bind(node):
                nodes = list(preorder(part))
                inside = {id(each.value) for each in nodes if isinstance(each, ast.Attribute | ast.Subscript)}
                names = [each.id for each in nodes if isinstance(each, ast.Name) and id(each) not in inside]
                bound = [name for each in nodes if (name := _bound_name(each)) is not None]
                for name in (*bound, *names) if bound else ():
                    group[root(name)] = root(bound[0])
    return {name: root(name) for name in [*group]}


def _parts_that_bind(node: ast.stmt) -> list[tuple[ast.AST, ...]]:
    """What of a statement binds names to what, without the statements inside: ``u, v = v, u`` has two such parts."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            if len(targets) == len(values) and not any(isinstance(each, ast.Starred) for each in (*targets, *values)):
                return list(zip(targets, values, strict=True))
    return [tuple(child for child in children_of(node) if not isinstance(child, ast.stmt))]


def names_read(statements: Iterable[ast.AST]) -> set[str]:
    """Names that ``statements`` read."""
    return {name for node in preorder(statements) if (name := name_read(node)) is not None}


def name_read(node: ast.AST) -> str | None:
    """The name that this very node reads, if any: an augmented assignment reads its target."""
    read = node.target if isinstance(node, ast.AugAssign) else node
    return read.id if isinstance(read, ast.Name) and (read is not node or isinstance(read.ctx, ast.Load)) else None


def _bound_name(node: ast.AST) -> str | None:
    """The name that this very node binds, if any."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


def preorder(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes under ``nodes``, each before those inside it; unlike ``ast.walk``, in the order of the source."""
    left = [*nodes][::-1]
    while left:
        node = left.pop()
        yield node
        left += children_of(node)[::-1]


def check_private(
    body: Sequence[ast.stmt],
    bound: Iterable[str],
    file: str,
    names: Mapping[str, object] | None = None,
    written: Mapping[str, str] | None = None,
    earlier: Container[str] = (),
    private: bool = True,
    leaving: str = "",
) -> None:
    """Refuse a parallel loop in which a private name may be used before the iteration has assigned it.

    Args:
        body: the statements of the loop, resolved.
        bound: names that every iteration starts with: the loop variables.
        file: where the body was written, for the message.
        names: the globals of the body: inner loops over a range of constants may be known to run.
        written: how the user writes names of the body that are spelled otherwise in it.
        earlier: names, as the user writes them, that have a value before the loop: in order the first iteration has it.
        private: it is the body of such a loop, and not statements of one thread.
        leaving: the name that is set where nothing behind the statements runs.

    Raises:
        KernelSyntaxError: at the use, with the places of the assignments.
    """
    assigned = names_assigned(body)
    flow = _Flow(assigned, file, private=private, leaving=leaving, runs=lambda node: _is_constant_range(node.iter, names or {}))
    flow.written, flow.earlier = written or {}, earlier
    flow.block(body, frozenset(bound))


def _is_constant_range(node: ast.expr, names: Mapping[str, object]) -> bool:
    """Whether a resolved expression is a range of constants that is not empty."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or names.get(node.func.id) is not range:
        return False
    try:
        bounds = [ast.literal_eval(argument) for argument in node.args]
        return len(range(*bounds)) > 0
    except (ValueError, TypeError):  # not constants, a step of 0, or no integers: Numba says so
        return False


def surely_assigned(
    statements: Sequence[ast.stmt], unassigned: Iterable[str], file: str, runs: Callable[[ast.For], bool], leaving: str
) -> frozenset[str]:
    """Those of ``unassigned`` that have a value after kernel-level ``statements``, before which they had none.

    ``runs`` tells whether a loop has at least one iteration. Where ``leaving`` is set nothing behind them runs.

    Raises:
        KernelSyntaxError: one of them may be used before that.
    """
    assigned = _assigned_of(statements, unassigned)
    state = _Flow(assigned, file, private=False, runs=runs, leaving=leaving).block(statements, frozenset())
    return frozenset(assigned) & (state or frozenset())


def assigned_behind(node: ast.stmt, names: Iterable[str], leaving: str) -> frozenset[str]:
    """Those of ``names`` that each path through ``node`` assigns which leads out of it, and does not set ``leaving``."""
    assigned = _assigned_of([node], names)
    state = _Flow(assigned, "", exposed=set(), leaving=leaving).block([node], frozenset())
    return frozenset(assigned) & (state or frozenset())


def needed_before(statements: Sequence[ast.stmt], names: Iterable[str]) -> frozenset[str]:
    """Those of ``names`` that are live before ``statements``: read before they are assigned, or not assigned on every path."""
    known = frozenset(names)
    assigned = _assigned_of(statements, known)
    exposed: set[str] = set()
    state = _Flow(assigned, "", exposed=exposed).block(statements, frozenset())
    never_assigned = (known - assigned.keys()) & names_read(statements)
    kept = () if state is None else assigned.keys() - state
    return never_assigned.union(kept, exposed)


def read_before(statements: Sequence[ast.stmt], names: Iterable[str]) -> list[str]:
    """Those of ``names`` with upward-exposed uses in ``statements``: read before any assignment on some path. Sorted."""
    exposed: set[str] = set()
    _Flow(_assigned_of(statements, names), "", exposed=exposed).block(statements, frozenset())
    return sorted(exposed)


def _assigned_of(statements: Sequence[ast.stmt], names: Iterable[str]) -> dict[str, list[ast.AST]]:
    known = set(names)
    return {name: places for name, places in names_assigned(statements).items() if name in known}


# The names definitely assigned at a point of the control flow; None where it is unreachable.
State = frozenset[str] | None


def _meet(left: State, right: State) -> State:
    if left is None:
        return right
    return left if right is None else left & right


def matches_all(pattern: ast.pattern) -> bool:
    """Whether a pattern is ``_`` or a name."""
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def always_fails(node: ast.stmt) -> bool:
    """Whether ``node`` is `assert False`, or of another constant, which nothing passes."""
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and not node.test.value


def falls_through(statements: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of a block."""
    return all(_passes(node) for node in statements)


def _passes(node: ast.stmt) -> bool:
    match node:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return False
        case ast.Assert():
            return not always_fails(node)
        case ast.If():
            return falls_through(node.body) or falls_through(node.orelse)
        case ast.Match():
            complete = any(matches_all(case.pattern) and case.guard is None for case in node.cases)
            return not complete or any(falls_through(case.body) for case in node.cases)
        case ast.While(test=ast.Constant(value=value)) if value:
            return _breaks(node.body)
        case ast.While() | ast.For():
            return _breaks(node.body) or falls_through(node.orelse)
        case _:
            return True


def _breaks(statements: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body has a `break` of this loop."""
    for node in statements:
        if isinstance(node, ast.Break):
            return True
        blocks = [getattr(node, "orelse", [])]
        if not isinstance(node, ast.For | ast.While):
            blocks.append(getattr(node, "body", []))
        blocks += [case.body for case in getattr(node, "cases", [])]
        if any(_breaks(block) for block in blocks):
            return True
    return False


def gives_value(statements: Sequence[ast.stmt]) -> bool:
    """Whether a `return` with a value may be reached in a block."""
    for node in statements:
        if isinstance(node, ast.Return):
            return node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None)
        blocks = [getattr(node, "body", []), getattr(node, "orelse", []), *(each.body for each in getattr(node, "cases", []))]
        if any(gives_value(block) for block in blocks):
            return True
        if not _passes(node):
            return False
    return False


class _Flow:
    """Forward data-flow analysis over statements: the set of names that are definitely assigned."""

    def __init__(
        self,
        assigned: dict[str, list[ast.AST]],
        file: str,
        *,
        private: bool = True,
        exposed: set[str] | None = None,
        runs: Callable[[ast.For], bool] = lambda _: False,
        leaving: str = "",
    ) -> None:
        self.assigned = assigned
        # The name that is true where the function has returned: all that follows is under a test of it.
        self.leaving = leaving
        self.runs = runs
        self.file = file
        self.private = private
        # Where given: collects names with upward-exposed uses, which are then no errors.
        self.exposed = exposed
        self.written: Mapping[str, str] = {}
        self.earlier: Container[str] = ()
        # Of each loop around: the states at its `break`s and at its `continue`s.
        self.breaks: list[State] = []
        self.continues: list[State] = []

    def block(self, statements: Sequence[ast.stmt], state: State) -> State:
        for statement in statements:
            if state is None or (self.leaving and self._leaves(statement)):
                return None
            state = getattr(self, f"visit_{type(statement).__name__}", self.children)(statement, state)
        return state

    def _leaves(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Constant(value=True) | ast.Call(args=[ast.Constant(value=True)])
            ):
                return name == self.leaving
        return False

    def visit_If(self, node: ast.If, state: frozenset[str]) -> State:
        if isinstance(node.test, ast.Name) and node.test.id == self.leaving:
            return self.block(node.orelse, state)
        then, other = self.test(node.test, state)
        return _meet(self.block(node.body, then), self.block(node.orelse, other))

    def visit_For(self, node: ast.For, state: frozenset[str]) -> State:
        state = self.expression(node.iter, state)
        return self.loop(node, state, self.target(node.target, state))

    def visit_While(self, node: ast.While, state: frozenset[str]) -> State:
        then, other = self.test(node.test, state)
        return self.loop(node, None if isinstance(node.test, ast.Constant) and node.test.value else other, then)

    def visit_Break(self, node: ast.Break, state: frozenset[str]) -> State:
        if self.breaks:
            self.breaks[-1] = _meet(self.breaks[-1], state)
        return None

    def visit_Continue(self, node: ast.Continue, state: frozenset[str]) -> State:
        if self.continues:
            self.continues[-1] = _meet(self.continues[-1], state)
        return None

    def visit_Return(self, node: ast.stmt, state: frozenset[str]) -> State:
        self.children(node, state)
        return None

    visit_Raise = visit_Return

    def visit_Assert(self, node: ast.Assert, state: frozenset[str]) -> State:
        after = self.children(node, state)
        return None if always_fails(node) else after

    def visit_Assign(self, node: ast.Assign, state: frozenset[str]) -> State:
        state = self.expression(node.value, state)
        for target in node.targets:
            state = self.target(target, state)
        return state

    def visit_AugAssign(self, node: ast.AugAssign, state: frozenset[str]) -> State:
        if isinstance(node.target, ast.Name):
            self.use(node.target, state)
        return self.target(node.target, self.expression(node.value, state))

    def visit_AnnAssign(self, node: ast.AnnAssign, state: frozenset[str]) -> State:
        return state if node.value is None else self.target(node.target, self.expression(node.value, state))

    def loop(self, node: ast.For | ast.While, skipped: State, inside: frozenset[str]) -> State:
        """The state after a loop, by a ``break`` or where it ends: ``skipped`` where it may have no iteration."""
        self.breaks.append(None)
        self.continues.append(None)
        turned = _meet(self.block(node.body, inside), self.continues[-1])
        broken = self.breaks.pop()
        self.continues.pop()
        ended = turned if isinstance(node, ast.For) and self.runs(node) else skipped
        return _meet(self.block(node.orelse, ended), broken)

    def visit_Match(self, node: ast.Match, state: frozenset[str]) -> State:
        result: State = None
        complete = False
        for case in node.cases:
            inside = self.pattern(case.pattern, state)
            of_all = matches_all(case.pattern)
            # A name keeps what is matched where the guard is false, too.
            state = inside if of_all else state
            if case.guard is not None:
                inside, _ = self.test(case.guard, inside)
            elif of_all:
                complete = True
            result = _meet(result, self.block(case.body, inside))
        return result if complete else _meet(result, state)

    def pattern(self, node: ast.pattern, state: frozenset[str]) -> frozenset[str]:
        for child in nodes_of(node):
            if isinstance(child, ast.expr):
                self.expression(child, state)
        return state | names_assigned([node]).keys()

    def target(self, node: ast.expr, state: frozenset[str]) -> frozenset[str]:
        """The state after an assignment to ``node``, whose indices are uses."""
        match node:
            case ast.Name():
                return state | {node.id}
            case ast.Tuple():
                for item in node.elts:
                    state = self.target(item, state)
                return state
            case _:
                return self.children(node, state)

    def test(self, node: ast.expr, state: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """The states where ``node`` is true and where it is false."""
        match node:
            case ast.UnaryOp(op=ast.Not()):
                then, other = self.test(node.operand, state)
                return other, then
            case ast.BoolOp():
                any_true = isinstance(node.op, ast.Or)
                # Where any of the operands may have ended it.
                ended: State = None
                for value in node.values:
                    then, other = self.test(value, state)
                    state, stop = (other, then) if any_true else (then, other)
                    ended = _meet(ended, stop)
                assert ended is not None  # BoolOp has operands.
                return (ended, state) if any_true else (state, ended)
            case _:
                state = self.expression(node, state)
                return state, state

    def expression(self, node: ast.expr, state: frozenset[str]) -> frozenset[str]:
        match node:
            case ast.Name():
                self.use(node, state)
                return state
            case ast.NamedExpr():
                return self.target(node.target, self.expression(node.value, state))
            case ast.BoolOp():
                then, other = self.test(node, state)
                return then & other
            case ast.IfExp():
                then, other = self.test(node.test, state)
                return self.expression(node.body, then) & self.expression(node.orelse, other)
            case ast.Compare():
                state = self.expression(node.left, state)
                state = inner = self.expression(node.comparators[0], state)
                for comparator in node.comparators[1:]:
                    inner = self.expression(comparator, inner)
                return state
            case _:
                return self.children(node, state)

    def children(self, node: ast.AST, state: frozenset[str]) -> frozenset[str]:
        for child in children_of(node):
            state = self.expression(child, state) if isinstance(child, ast.expr) else self.children(child, state)
        return state

    def use(self, node: ast.Name, state: frozenset[str]) -> None:
        name = node.id
        if name in state or name not in self.assigned:
            return
        if self.exposed is not None:
            self.exposed.add(name)
            return
        places = self.assigned[name]
        also = tuple(("it is assigned here", Span.of(place, self.file)) for place in places[:3] if place is not node)
        name = self.written.get(name, name)
        found = f"`{name}` may be used before {'this iteration has assigned it' if self.private else 'it is assigned'}"
        hint = _hint(name, node, places) if self.private else "assign it on every path before this line"
        error = KernelSyntaxError(found, Span.of(node, self.file), also=also, hint=hint)
        error.in_order = name in self.earlier
        raise error


def _hint(name: str, use: ast.Name, places: list[ast.AST]) -> str:
    if use in places:
        return (
            f"a name assigned inside a parallel loop is private to the iteration, so `{name}` starts without a value: "
            f"to combine values of all iterations in it, assign `{name}` before the loop"
        )
    return f"a name assigned inside a parallel loop is private to the iteration: assign `{name}` on every path before this use"
