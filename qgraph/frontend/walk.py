"""Every access to an array that a parallel loop makes, in program order, with its indices as symbolic integers.

A walk over the statements of the body with an environment: what each private name holds (an integer, a view of an array, a
tuple). ``evaluate.py`` tells what expressions are, ``called.py`` what calls are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from qgraph import language
from qgraph.frontend.accesses import Accesses, Axis, LoopFacts, Variable
from qgraph.frontend.affine import ONE, Poly
from qgraph.frontend.called import Caller
from qgraph.frontend.definite import names_assigned
from qgraph.frontend.limits import most_of
from qgraph.frontend.symbolic import UNKNOWN, Value, integer, join, join_envs, vague, views_in

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
}
_OF_NUMBERS = (min, max, abs, len, round, language.wrapped, language.at_least, language.trip_count, language.in_place)


def collect(facts: LoopFacts) -> Accesses:
    """All accesses of a loop to its array leaves. Two walks: the first finds which arrays the loop leaves unchanged."""
    everything = frozenset(facts.same.get(leaf, leaf) for leaf in facts.ndim)
    first = _walk(facts, everything, texts=False)
    return _walk(facts, frozenset(facts.same.get(leaf, leaf) for leaf in first.written))


def _walk(facts: LoopFacts, written: frozenset[str], *, texts: bool = True) -> Accesses:
    walker = _Walker(facts, written, texts=texts)
    variables = tuple(walker.axis(at, axis) for at, axis in enumerate(facts.axes))
    walker.axes = variables
    symbols = [integer(Poly.symbol(variable.symbol)) for variable in variables]
    for axis, value in zip(facts.axes, symbols, strict=True):
        walker.env[axis.variable] = value
    if facts.index_tuple:
        # An ndrange of one axis yields the integer itself.
        walker.env[facts.index_tuple] = symbols[0] if len(symbols) == 1 else Value(items=tuple(symbols))
    starts = []
    for statement in facts.body:
        starts.append(len(walker.accesses))
        walker.statement(statement)
    return Accesses(variables, tuple(walker.accesses), tuple(starts), walker.most)


class _Walker(Caller):
    # Statements, and the loops inside the iteration.

    def axis(self, at: int, axis: Axis) -> Variable:
        """An axis as a variable; a bound that is not a polynomial was read once, before the loop: a symbol of its own."""
        bounds = []
        for which, node in (("start", axis.start), ("stop", axis.stop), ("step", axis.step)):
            poly = self.expression(node).poly
            bounds.append(Poly.symbol(f"{which} of axis {at}") if poly is None or poly.varies else poly)
            self.limit(bounds[-1], node)
        self.accesses.clear()  # Bounds are read before the loop, not in it.
        return Variable(f"{axis.variable}@{at}", bounds[0], bounds[1], bounds[2])

    def limit(self, poly: Poly | None, node: ast.expr) -> None:
        """Note how large a bound that is one symbol and a constant can be."""
        symbols = poly.symbols if poly is not None and not poly.varies else frozenset()
        parts = poly.split(*symbols) if poly is not None and len(symbols) == 1 else None
        most = most_of(node, self.resolve, self.facts.most) if parts is not None else None
        if parts is not None and most is not None and parts[0] == ONE:
            (symbol,) = symbols
            most -= parts[1].constant or 0
            self.most[symbol] = min(most, self.most.get(symbol, most))

    # --- statements ---

    def statement(self, node: ast.stmt) -> None:
        _STATEMENTS.get(type(node), _Walker.anything)(self, node)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.expression(node.value), node.value)

    def if_statement(self, node: ast.If) -> None:
        self.use(node.test)
        self.branches([node.body, node.orelse])

    def while_loop(self, node: ast.While) -> None:
        self.repeat(node.body, test=node.test)
        self.branches([node.orelse, []])

    def leave(self, node: ast.Break | ast.Continue | ast.Return) -> None:
        """What follows may not happen."""
        if isinstance(node, ast.Return):
            value = UNKNOWN if node.value is None else self.expression(node.value)
            # Outside a loop its variable means nothing.
            self.frame.returned.append(value if len(self.loops) == self.frame.loops else vague([value]))
        self.escaped = True

    def bare(self, node: ast.Expr) -> None:
        self.unused = node.value
        self.expression(node.value)

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Alternatives: each may not run."""
        before, ends = self.env, []
        self.guards += 1
        for body in bodies:
            self.env = dict(before)
            self.block(body)
            ends.append(self.env)
        self.guards -= 1
        self.env = ends[0]
        for end in ends[1:]:
            self.env = join_envs(self.env, end)

    def match(self, node: ast.Match) -> None:
        subject = self.use(node.subject)
        for name in names_assigned(case.pattern for case in node.cases):
            self.env[name] = vague([subject])
        for case in node.cases:
            if case.guard is not None:
                self.guarded(case.guard)
        self.branches([case.body for case in node.cases] + [[]])

    def assign(self, node: ast.Assign) -> None:
        change = self.minimum_update(node)
        if change is not None:
            sign, operand = change
            self.use(operand)
            self.update(node, node.targets[0], sign)
            return
        value = self.expression(node.value)
        for target in node.targets:
            self.store(target, value, node.value)

    def minimum_update(self, node: ast.Assign) -> tuple[str, ast.expr] | None:
        """("min" or "max", e) of ``a[k] = min(a[k], e)``."""
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript) or not isinstance(node.value, ast.Call):
            return None
        call = node.value
        function = self.resolve(call.func)
        sign = "min" if function is min else "max" if function is max else ""
        if not sign or len(call.args) != 2 or call.keywords or not self.is_repeatable(target):
            return None
        text = ast.unparse(target)
        others = [argument for argument in call.args if ast.unparse(argument) != text]
        return (sign, others[0]) if len(others) == 1 else None

    def is_repeatable(self, node: ast.AST) -> bool:
        """Whether evaluating ``node`` twice is the same as once: it assigns nothing, and calls only functions of numbers."""
        calls = (child for child in ast.walk(node) if isinstance(child, ast.Call | ast.NamedExpr))
        return all(isinstance(call, ast.Call) and _is_of_numbers(self.resolve(call.func)) for call in calls)

    def augmented(self, node: ast.AugAssign) -> None:
        sign = _OPERATORS[type(node.op)]
        if isinstance(node.target, ast.Name):
            old = self.name(node.target)
            if views_in([old]):  # In place, on the array that the name stands for.
                self.use(node.value)
                self.record_all(old, "read", node.target)
                self.record_all(old, "write", node.target)
            else:
                self.env[node.target.id] = self.binary(node.op, old, self.use(node.value))
            return
        self.use(node.value)
        if isinstance(node.target, ast.Subscript):
            self.update(node, node.target, sign)
        else:
            self.use(node.target)
            self.store(node.target, UNKNOWN, node.value)

    def update(self, node: ast.AugAssign | ast.Assign, target: ast.expr, sign: str) -> None:
        assert isinstance(target, ast.Subscript)
        value = self.subscript(target)
        views = views_in([value])
        for view in sorted(views, key=repr):
            if view.is_element:
                self.record(view, "update", node, sign, maybe=len(views) > 1)
            else:
                self.record(view, "read", target, maybe=len(views) > 1)
                self.record(view, "write", target, maybe=len(views) > 1)

    def for_loop(self, node: ast.For) -> None:
        targets, bounded = self.iterate(node.iter, node.target)
        outer = self.loops
        self.loops = outer + targets
        self.repeat(node.body, target=node.target, value=self.iterated, sure=bounded)
        self.loops = outer
        self.branches([node.orelse, []])

    iterated: Value = UNKNOWN

    def repeat(
        self,
        body: Sequence[ast.stmt],
        *,
        test: ast.expr | None = None,
        target: ast.expr | None = None,
        value: Value = UNKNOWN,
        sure: bool = False,
    ) -> None:
        """A loop inside the iteration. Names that it assigns are unknown at its head, views being all they may become."""
        sure = sure and not _may_leave(body)
        returns = any(isinstance(child, ast.Return) for statement in body for child in ast.walk(statement))
        changed = names_assigned(body).keys() | (names_assigned([test]).keys() if test is not None else frozenset())
        head = {name: vague([held]) if name in changed else held for name, held in self.env.items()}
        escaped, count, counter = self.escaped, len(self.accesses), self.counter
        while True:
            self.env = dict(head)
            self.guards += not sure
            if test is not None:
                self.use(test)
            if target is not None:
                self.store(target, value, target)
            self.block(body)
            self.guards -= not sure
            self.escaped = escaped
            end = {name: vague([self.env.get(name, UNKNOWN)]) for name in changed}
            after = {**head, **{name: join(held, head.get(name, UNKNOWN)) for name, held in end.items()}}
            if all(views_in([after[name]]) <= views_in([head.get(name, UNKNOWN)]) for name in changed):
                break
            # A view reaches the head that was not there: walk again with it.
            head = after
            del self.accesses[count:]
            self.counter = counter
        self.escaped = escaped or returns
        self.env = after
        if target is not None:
            for name in names_assigned([target]):
                self.env[name] = vague([self.env.get(name, UNKNOWN), value])

    def iterate(self, node: ast.expr, target: ast.expr) -> tuple[tuple[Variable, ...], bool]:
        """The variables of an inner loop and whether it is known to run; ``iterated`` is what its target holds."""
        function = self.resolve(node.func) if isinstance(node, ast.Call) else None
        self.iterated = UNKNOWN
        if isinstance(node, ast.Call) and not node.keywords:
            if function in (language.serial, language.parallel) and len(node.args) == 1:
                return self.iterate(node.args[0], target)
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if function is range and not starred and 1 <= len(node.args) <= 3:
                return self.ranges([node.args], target)
            if function is language.ndrange and not starred:
                axes = [list(argument.elts) if isinstance(argument, ast.Tuple) else [argument] for argument in node.args]
                if all(1 <= len(axis) <= 2 for axis in axes):
                    return self.ranges(axes, target)
        value = self.expression(node)
        self.iterated = self.element_of(value, node)
        return (), bool(value.items)

    def ranges(self, axes: Sequence[Sequence[ast.expr]], target: ast.expr) -> tuple[tuple[Variable, ...], bool]:
        """The variables of ``range(...)``, or of an ``ndrange`` of several axes."""
        variables: list[Variable] = []
        values: list[Value] = []
        sure = True
        for axis in axes:
            bounds = [self.use(bound).poly for bound in axis]
            for poly, bound in zip(bounds, axis, strict=True):
                self.limit(poly, bound)
            start, stop = (Poly.const(0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
            step = bounds[2] if len(bounds) == 3 else ONE
            self.counter += 1
            name = target.id if isinstance(target, ast.Name) else "_"
            if start is None or step is None or step.varies:
                values.append(UNKNOWN)
                sure = False
                continue
            variable = Variable(f"{name}@{self.counter}", start, stop, step)
            sure = sure and stop is not None
            variables.append(variable)
            values.append(integer(Poly.symbol(variable.symbol)))
        self.iterated = values[0] if len(values) == 1 else Value(items=tuple(values))
        return tuple(variables), sure


_STATEMENTS: dict[type[ast.stmt], Callable[[_Walker, Any], None]] = {
    ast.Assign: _Walker.assign,
    ast.AugAssign: _Walker.augmented,
    ast.AnnAssign: _Walker.annotated,
    ast.If: _Walker.if_statement,
    ast.For: _Walker.for_loop,
    ast.While: _Walker.while_loop,
    ast.Match: _Walker.match,
    ast.Return: _Walker.leave,
    ast.Break: _Walker.leave,
    ast.Continue: _Walker.leave,
    ast.Expr: _Walker.bare,
}
# --- helpers of the walk -----------------------------------------------------------------------------------------------


def _is_of_numbers(function: object) -> bool:
    """Whether a function makes a number of numbers, and does nothing else."""
    if isinstance(function, np.ufunc) or (isinstance(function, type) and issubclass(function, (int, float, np.generic))):
        return True
    return getattr(function, "__module__", None) == "math" or any(function is known for known in _OF_NUMBERS)


def _may_leave(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop with this body may end early: a ``break`` of its own, or a ``return``."""
    return any(_leaves(statement) for statement in body)


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Break | ast.Return):
        return True
    if isinstance(node, ast.For | ast.While):
        # Its own breaks stay inside; those in its else clause are the outer loop's.
        return any(isinstance(child, ast.Return) for child in ast.walk(node)) or _may_leave(node.orelse)
    return any(_leaves(child) for child in _statements(node))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.match_case | ast.ExceptHandler):
            yield from _statements(child)
