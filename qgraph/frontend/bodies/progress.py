"""``progress(iteration, residual)``: rows of a ring, where somebody watches the kernel, and nothing where nobody does."""

from __future__ import annotations

import ast

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.value_resolution import ValueResolution, at
from qgraph.frontend.inference.ranks import known_object, rank
from qgraph.frontend.names.bindings import LeafRef, Poisoned, Value
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of, known_value
from qgraph.ir.slots import Progress
from qgraph.ir.trees import assign, call_of, load, parsed
from qgraph.operations.progress_ring import publish
from qgraph.operations.table import operation
from qgraph.source import as_written, copied, nodes_of

# What raises of Python's integers where the right operand is 0, or less.
_RAISING = (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.Pow)
_HINT = "write qgraph.progress(iteration, residual), or with every=16"


def is_progress(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` is a call of ``progress``."""
    return isinstance(node, ast.Call) and known_object(scope, node.func) is language.progress


def check_progress(scope: Scope, node: ast.Call) -> tuple[ast.expr, ast.expr, int]:
    """The number of the iteration, the residual, and of how many iterations one is told.

    Raises:
        KernelSyntaxError: the call does not have these arguments, or a name in them means nothing.
    """
    names = ("iteration", "residual", "every")
    given = dict(zip(names, node.args, strict=False)) | {each.arg or "**": each.value for each in node.keywords}
    surplus = len(node.args) + len(node.keywords) > len(given) or not given.keys() <= set(names)
    if surplus or not {*names[:2]} <= given.keys() or any(isinstance(each, ast.Starred) for each in node.args):
        raise scope.error(f"`{as_written(node.func)}(...)` takes an iteration, a residual, and every=...", node, _HINT)
    every = 1
    if "every" in given:
        written = constant_of(given["every"])
        found: object = _known(scope, given["every"]) if written is None else written
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            wrong = f"`{as_written(given['every'])}` is no constant of at least 1"
            raise scope.error(wrong, given["every"], "write every=16, to tell of the iterations that are multiples of 16")
        every = found
    for part in (given["iteration"], given["residual"]):
        _check_operand(scope, part)
    return given["iteration"], given["residual"], every


def _known(scope: Scope, node: ast.expr) -> object:
    """What an expression of constants and ``Static`` arguments is; None where it is none."""
    try:
        bound = known_value(scope, node, "`every`")
    except KernelSyntaxError:
        return None
    return bound.value if isinstance(bound, Value) else None


def _check_operand(scope: Scope, node: ast.expr) -> None:
    """Names must mean something, and nothing may happen: only iterations that somebody is told of compute it."""
    for child in nodes_of(node):
        bound = scope.lookup(child) if isinstance(child, ast.Name) else None
        if isinstance(bound, Poisoned):
            raise scope.error(bound.reason, child, bound.hint)
        calls = isinstance(child, ast.Call) and not operation(known_object(scope, child.func)).pure
        if calls or isinstance(child, ast.NamedExpr) or rank(scope, node):
            found = f"`{as_written(node)}` does more than compute a number of numbers"
            raise scope.error(found, node, "give the number a name in the line before: residual = np.sum(r)")
        if isinstance(child, ast.BinOp) and isinstance(child.op, _RAISING) and not _is_positive(child.right):
            found = f"`{as_written(child)}` may raise, and is computed only where a row is told"
            raise scope.error(found, child, f"give the number a name in the line before: residual = {as_written(child)}")


def _is_positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 0


class ProgressResolution(ValueResolution):
    """Rewrites statements that tell the progress."""

    # The call that is a statement: nobody takes its value.
    called: ast.expr | None = None

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        """What publishes a row, in the place of such a statement; any other statement stays what it is."""
        if not is_progress(self._scope, node.value):
            self.called = node.value
            self.generic_visit(node)
            return node
        assert isinstance(node.value, ast.Call)
        iteration, residual, every = check_progress(self._scope, node.value)
        if not self._body.one_thread:
            text = as_written(node.value.func)
            raise self._scope.error(
                f"`{text}(...)` is in a parallel loop, whose iterations have no order to tell of",
                node.value,
                "tell it in the device loop around this one, `while ...` or `for ... in qgraph.serial(...)`, behind this loop",
            )
        ring = self._scope.ring
        if not isinstance(ring, LeafRef):
            return at(ast.Pass(), node)
        place = self._body.unit.publish(ring.leaf.name)
        value, number = (self.visit(self._number(part)) for part in (residual, iteration))
        return self._published(place, number, value, every, node)

    def _published(self, place: Progress, number: ast.expr, value: ast.expr, every: int, node: ast.Expr) -> list[ast.stmt]:
        held = f"_iteration{node.lineno}_{node.col_offset}"
        count, run = (parsed(f"_slots[{slot.index}]") for slot in (place.number, place.run))
        counted = copied(count)
        assert isinstance(counted, ast.Subscript)
        counted.ctx = ast.Store()
        word = self._body.names.add(publish, "_publish")
        call = call_of(word, load(place.ring), count, run, ast.Constant(node.lineno), load(held), value)
        telling: list[ast.stmt] = [
            ast.Assign([counted], ast.BinOp(copied(count), ast.Add(), ast.Constant(1))),
            ast.Expr(call),
        ]
        if every > 1:
            telling = [ast.If(parsed(f"{held} % {every} == 0"), telling, [])]
        return [assign(held, number, node), *(at(each, node) for each in telling)]
