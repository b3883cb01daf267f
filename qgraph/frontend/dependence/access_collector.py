"""Every access to an array that a parallel loop makes, in program order, with its indices as symbolic integers.

An abstract interpretation of the body's statements: the environment holds an abstract value for each private name (an integer,
a view of an array, a tuple). ``symbolic_eval.py`` evaluates expressions, ``call_effects.py`` calls.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from qgraph import language
from qgraph.frontend.dependence.call_effects import Caller
from qgraph.frontend.dependence.induction_variables import Induction, iterations_before, iterations_of, may_leave
from qgraph.frontend.facts.abstract_values import (
    UNKNOWN,
    Env,
    Value,
    as_written,
    combined,
    condition_of,
    integer,
    join,
    join_envs,
    of_views,
    vague,
    views_in,
)
from qgraph.frontend.facts.loop_facts import Accesses, Axis, LoopFacts
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.ir.functions import Function
from qgraph.operations.combinations import combined_by
from qgraph.operations.table import OPERATIONS, operation
from qgraph.polyhedral.questions import Variable
from qgraph.polyhedral.symbolic_integers import FALSE, ONE, UNDECIDED, ZERO, Condition, Poly, Symbol, all_of, any_of
from qgraph.source import nodes_of

# The variables of an inner loop, whether it is known to run, and what its target holds.
_Iterations = tuple[tuple[Variable, ...], bool, Value]


def collect(facts: LoopFacts) -> Accesses:
    """All accesses of a loop to its array leaves. Two walks: the first finds which arrays the loop leaves unchanged."""
    everything = frozenset(map(facts.memory, facts.ndim))
    first = _walk(facts, everything, frozenset(), texts=False)
    return _walk(facts, frozenset(map(facts.memory, first.written)), _counters(facts, first))


def _walk(facts: LoopFacts, written: frozenset[str], counters: frozenset[str], *, texts: bool = True) -> Accesses:
    walker = _Walker(facts, written, counters, texts=texts)
    variables = tuple(walker.axis(at, axis) for at, axis in enumerate(facts.axes))
    walker.axes = variables
    symbols = [integer(variable.number) for variable in variables]
    walker.env.update(zip((axis.variable for axis in facts.axes), symbols, strict=True))
    if facts.index_tuple:
        # An ndrange of one axis yields the integer itself.
        walker.env[facts.index_tuple] = symbols[0] if len(symbols) == 1 else Value(items=tuple(symbols))
    starts = []
    for statement in facts.body:
        starts.append(len(walker.accesses))
        walker.statement(statement)
    return Accesses(variables, tuple(walker.accesses), tuple(starts))


def integer_of(facts: LoopFacts, node: ast.expr) -> Poly | None:
    """The integer that an expression of no memory is, by what is known of those in it."""
    return _Walker(facts, frozenset(), frozenset(), texts=False).bound(node)


def _counters(facts: LoopFacts, touched: Accesses) -> frozenset[str]:
    """Arrays in one element of which one atomic statement counts, and which nothing else touches."""
    found: dict[str, set[int]] = {}
    for access in touched.all:
        indices = access.reach.indices
        one = access.kind == "atomic" and indices is not None and not any(at is None or at.varies for at in indices)
        found.setdefault(facts.memory(access.array), set()).add(id(access.node) if one else 0)
    return frozenset(array for array, nodes in found.items() if len(nodes) == 1 and 0 not in nodes)


class _Walker(Caller):
    # Statements, and the loops inside the iteration.

    def axis(self, at: int, axis: Axis) -> Variable:
        """An axis as a variable; a bound that is no known integer limits nothing."""
        symbol = Symbol.of(f"{axis.variable}@{at}", "variable")
        if axis.bounds:
            return Variable(symbol, *axis.bounds)
        start, stop, step = (self.bound(node) for node in (axis.start, axis.stop, axis.step))
        self.accesses.clear()  # Bounds are read before the loop, not in it.
        last = None if stop is None else stop.constant
        if last is not None and last <= 1 and step == ONE and _is_natural(axis.start):
            # One iteration at most: which one it is does not matter.
            start = Poly.const(last - 1)
        return Variable(symbol, start, stop, step or _UNKNOWN_STEP)

    def bound(self, node: ast.expr) -> Poly | None:
        """A bound of a loop, where it is an integer that does not change meanwhile."""
        return self.use(node).invariant

    # --- statements ---

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.expression(node.value), node.value)

    def visit_If(self, node: ast.If) -> None:
        self.branches([node.body, node.orelse], condition_of(self.use(node.test)))

    def visit_While(self, node: ast.While) -> None:
        self.repeat(node.body, test_=node.test)
        self.branches([node.orelse, []])

    def visit_Return(self, node: ast.Break | ast.Continue | ast.Raise | ast.Return) -> None:
        """What follows does not happen."""
        if isinstance(node, ast.Return):
            value = UNKNOWN if node.value is None else self.expression(node.value)
            # Outside a loop its variable means nothing.
            inside = len(self.loops) > self.frame.loops
            self.frame.returned.append((UNDECIDED if inside else self.path, vague([value]) if inside else value))
        self.path = FALSE

    visit_Break = visit_Continue = visit_Raise = visit_Return

    def visit_Expr(self, node: ast.Expr) -> None:
        self.unused = node.value
        self.expression(node.value)

    def branches(self, bodies: Sequence[Sequence[ast.stmt]], when: Condition = UNDECIDED) -> None:
        """Alternatives: of two, the first runs ``when``, and the second where not."""
        before, path = self.env, self.path
        ends: list[tuple[Env, Condition]] = []
        left = False
        for body, chosen in zip(bodies, [when, *(when.negated() for _ in bodies[1:])], strict=True):
            self.env, self.path = dict(before), all_of(path, chosen)
            entered = self.path
            self.block(body)
            left = left or self.path is not entered
            ends.append((self.env, self.path))
        self.path = any_of(*(end for _, end in ends)) if left else path
        # What a path holds that ends here nobody sees.
        alive = [env for env, end in ends if end != FALSE] or [env for env, _ in ends]
        self.env = alive[-1]
        for env in reversed(alive[:-1]):
            self.env = join_envs(env, self.env, when if len(alive) == 2 == len(bodies) else UNDECIDED)

    def visit_Match(self, node: ast.Match) -> None:
        subject = self.use(node.subject)
        outer = self.path
        for name in names_assigned(case.pattern for case in node.cases):
            self.env[name] = vague([subject])
        for case in node.cases:
            if case.guard is not None:
                self.guarded(case.guard)
        self.branches([case.body for case in node.cases] + [[]])
        leaves = any(isinstance(child, ast.Break | ast.Continue | ast.Raise | ast.Return) for child in nodes_of(node))
        self.path = all_of(outer, UNDECIDED) if leaves else outer

    def visit_Assign(self, node: ast.Assign) -> None:
        match node:
            case ast.Assign(targets=[ast.Subscript() as place], value=ast.Call() as call):
                sign, operand = self.extreme(place, call)
                if operand is not None:
                    self.use(operand)
                    self.update(node, place, sign)
                    return
        value = self.expression(node.value)
        for target in node.targets:
            self.store(target, value, node.value)

    def extreme(self, target: ast.Subscript, call: ast.Call) -> tuple[str, ast.expr | None]:
        """("min" or "max", e) of ``a[k] = min(a[k], e)``; e is None for other calls."""
        function = self.resolve(call.func)
        sign = combined_by(function) if function in (min, max) else ""
        if not sign or len(call.args) != 2 or call.keywords or not self.is_repeatable(target):
            return "", None
        text = ast.unparse(target)
        others = [argument for argument in call.args if ast.unparse(argument) != text]
        return sign, others[0] if len(others) == 1 else None

    def is_repeatable(self, node: ast.AST) -> bool:
        """Whether evaluating ``node`` twice is the same as once: it assigns nothing, and calls only what does not either."""
        if any(isinstance(child, ast.NamedExpr) for child in nodes_of(node)):
            return False
        return all(_is_repeatable(self.resolve(call.func)) for call in nodes_of(node) if isinstance(call, ast.Call))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        sign = OPERATIONS.by_syntax[type(node.op)].symbol
        if isinstance(node.target, ast.Name):
            old = self.visit_Name(node.target)
            if views_in([old]):  # In place, on the array that the name stands for.
                self.use(node.value)
                self.record(old, "read", node.target)
                self.record(old, "write", node.target)
            else:
                self.env[node.target.id] = combined(node.op, old, as_written(node.value, self.use(node.value)))
            return
        self.use(node.value)
        if isinstance(node.target, ast.Subscript):
            self.update(node, node.target, sign)
        else:
            self.use(node.target)
            self.store(node.target, UNKNOWN, node.value)

    def update(self, node: ast.AugAssign | ast.Assign, target: ast.Subscript, sign: str) -> None:
        views = sorted(views_in([self.subscript(target)]), key=repr)
        for view in views:
            if view.is_element:
                self.record(of_views([view]), "update", node, sign, maybe=len(views) > 1)
            else:
                self.record(of_views([view]), "read", target, maybe=len(views) > 1)
                self.record(of_views([view]), "write", target, maybe=len(views) > 1)

    def visit_For(self, node: ast.For) -> None:
        targets, bounded, value = self.iterate(node.iter, node.target)
        outer = self.loops
        self.loops = outer + targets
        self.repeat(node.body, target=node.target, value=value, sure=bounded, counted=targets)
        self.loops = outer
        self.branches([node.orelse, []])

    def repeat(
        self,
        body: Sequence[ast.stmt],
        *,
        test_: ast.expr | None = None,
        target: ast.expr | None = None,
        value: Value = UNKNOWN,
        sure: bool = False,
        counted: Sequence[Variable] = (),
    ) -> None:
        """A loop inside the iteration: the views that names may hold at its head are a fixed point, other values are unknown.

        Induction variables of a loop of ``counted`` variables are known.
        """
        sure = sure and not may_leave(body)
        returns = any(isinstance(child, ast.Return | ast.Raise) for statement in body for child in nodes_of(statement))
        changed = names_assigned(body).keys() | (names_assigned([test_]).keys() if test_ is not None else frozenset())
        head = {name: vague([held]) if name in changed else held for name, held in self.env.items()}
        grown = self.grown(body, counted, target) if sure and counted and target is not None else {}
        path, count, counter = self.path, len(self.accesses), self.counter
        while True:
            self.env = {**head, **{name: held for name, (held, _) in grown.items()}}
            self.path = path if sure else all_of(path, UNDECIDED)
            if test_ is not None:
                self.use(test_)
            if target is not None:
                self.store(target, value, target)
            self.block(body)
            self.path = path
            end = {name: vague([self.env.get(name, UNKNOWN)]) for name in changed}
            after = {**head, **{name: join(held, head.get(name, UNKNOWN)) for name, held in end.items()}}
            if all(views_in([after[name]]) <= views_in([head.get(name, UNKNOWN)]) for name in changed):
                break
            # A view reaches the head that was not there: walk again with it.
            head = after
            del self.accesses[count:]
            self.counter = counter
        if returns:
            self.path = all_of(path, UNDECIDED)
        self.env = {**after, **{name: last for name, (_, last) in grown.items()}}
        if target is not None:
            for name in names_assigned([target]):
                self.env[name] = vague([self.env.get(name, UNKNOWN), value])

    def grown(
        self, body: Sequence[ast.stmt], variables: Sequence[Variable], target: ast.expr
    ) -> dict[str, tuple[Value, Value]]:
        """The induction variables of the loop of ``variables``: their values in an iteration, and after the loop."""
        before, many = iterations_before(variables), iterations_of(variables)
        if before is None or many is None:
            return {}
        added = Induction(body, target, self.expression_aside, self.iterations_aside).growth(body)
        found: dict[str, tuple[Value, Value]] = {}
        for name, by in added.items():
            start = self.env.get(name, UNKNOWN)
            if by is not None and start.poly is not None and not start.dtype:
                found[name] = integer(start.poly + before * by), integer(start.poly + many * by)
        return found

    def expression_aside(self, node: ast.expr, more: Env) -> Value:
        """What ``node`` is where names hold ``more`` as well."""
        with self.aside(more):
            return self.expression(node)

    def iterations_aside(self, node: ast.For, more: Env) -> Poly | None:
        """How many iterations a loop has where names hold ``more`` as well, if that is known."""
        with self.aside(more):
            variables, bounded, _ = self.iterate(node.iter, node.target)
        return iterations_of(variables) if variables and bounded else None

    @contextmanager
    def aside(self, more: Env) -> Iterator[None]:
        """Meanwhile names hold ``more`` as well, and the accesses and loops that are met do not count."""
        accesses, counter, env = len(self.accesses), self.counter, self.env
        self.env = {**env, **more}
        yield
        del self.accesses[accesses:]
        self.counter, self.env = counter, env

    def iterate(self, node: ast.expr, target: ast.expr) -> _Iterations:
        """The iterations of a loop over ``node``."""
        match node:
            case ast.Call(func=func, args=args, keywords=[]):
                function = self.resolve(func)
                if function in (language.serial, language.parallel) and len(args) == 1:
                    return self.iterate(args[0], target)
                starred = any(isinstance(argument, ast.Starred) for argument in args)
                if function is range and not starred and 1 <= len(args) <= 3:
                    return self.ranges([args], target)
                if function is language.ndrange and not starred:
                    axes = [argument.elts if isinstance(argument, ast.Tuple) else [argument] for argument in args]
                    if all(1 <= len(axis) <= 2 for axis in axes):
                        return self.ranges(axes, target)
        value = self.expression(node)
        return (), bool(value.items), self.element_of(value, node)

    def ranges(self, axes: Sequence[Sequence[ast.expr]], target: ast.expr) -> _Iterations:
        """The iterations of ``range(...)``, or of an ``ndrange`` of several axes."""
        variables: list[Variable] = []
        values: list[Value] = []
        sure = True
        name = target.id if isinstance(target, ast.Name) else "_"
        for axis in axes:
            bounds = [self.bound(bound) for bound in axis]
            sure = sure and None not in bounds
            start, stop, step = (ZERO, *bounds, ONE) if len(bounds) == 1 else (*bounds, ONE)[:3]
            self.counter += 1
            if step is None or step.varies:
                values.append(UNKNOWN)
                sure = False
            else:
                variables.append(Variable(Symbol.of(f"{name}@{self.counter}", "variable"), start, stop, step))
                values.append(integer(variables[-1].number))
        return tuple(variables), sure, values[0] if len(values) == 1 else Value(items=tuple(values))


# A step of which nothing is known: a symbol of its own.
_UNKNOWN_STEP = Poly.symbol("a step", "device")


def _is_natural(node: ast.expr) -> bool:
    """Whether an integer is never negative, whatever its operands are: a remainder or a mask."""
    match node:
        case ast.BinOp(op=ast.Mod(), right=ast.Constant(value=int(number))):
            return number > 0
        case ast.BinOp(op=ast.BitAnd(), right=ast.Constant(value=int(number))):
            return number >= 0
    return False


def _is_repeatable(function: object) -> bool:
    """Whether a function changes nothing: one of numbers, or one of the user's that assigns to names of its own alone."""
    if not isinstance(function, Function):
        return operation(function).pure
    own = {*names_assigned(function.tree.body), *(each.arg for each in function.tree.args.args)}
    for node in nodes_of(function.tree):
        if isinstance(node, ast.AugAssign | ast.Raise):
            return False
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            called = function.names.get(name, getattr(builtins, name, None))
            if name in own or not _is_repeatable(called):
                return False
    return True
