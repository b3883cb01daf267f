"""Bodies with every name resolved: arguments become leaf names, everything else a key of ``Names``.

The result is still the user's Python, line by line; Numba compiles it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.checks.negative_power import is_power, may_fail, negative_power
from qgraph.frontend.checks.rounding import rounding_word
from qgraph.frontend.checks.zero_division import checking_word, fault_of, is_wrong, may_raise, raises_itself, raises_somewhere
from qgraph.frontend.desugar.break_continue import assign, lower_loop, unless
from qgraph.frontend.desugar.match_statement import as_if, cases_of, chosen_case
from qgraph.frontend.inference.host_expressions import integer_of_host
from qgraph.frontend.inference.indexing import element, placed
from qgraph.frontend.inference.iteration_space import WrittenAxis, loop_call, ranges_of, relocate, zero_step_fault
from qgraph.frontend.inference.ranks import is_ellipsis, parts_of
from qgraph.frontend.names.bindings import (
    Binding,
    BoundFunc,
    HostExpr,
    LeafRef,
    Poisoned,
    Private,
    RangeRef,
    ScalarRef,
    SlotRef,
    StructRef,
    Value,
    ViewAxis,
    ViewRef,
)
from qgraph.frontend.names.call_binding import (
    bind_call,
    identity,
    is_fixed,
    is_forward,
    refuse_recursion,
    without_docstring,
)
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.foreign_calls import by_position, refuse_callee
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.global_table import Names
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import CUDA_HINT, Scope, is_cuda_object
from qgraph.frontend.names.static_eval import bind_items, constant_of, is_static_call, known_test, static_items, static_value
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.program import FAULTS, SLOTS, Fault, Function, Slot, function_tree, holds_arrays
from qgraph.language import Func
from qgraph.operations import intrinsics
from qgraph.source import Span, as_written, copied, standing_for

# What a Python integer that divides another may be. "known": the host divides too, and says so before anything runs.
# "unchecked": iterations of parallel loops have 0 where the divisor is 0, as with NumPy's integers, unless it is written.
Divisors = Literal["checked", "unchecked", "known"]


class Body:
    """One body under construction: its names, the slots it reads, and the kernel scalars it assigns.

    ``one_thread``: it runs once, and not as the many iterations of a parallel loop.
    """

    def __init__(self, unit: ProgramBuilder, *, one_thread: bool = True) -> None:
        self.unit = unit
        self.one_thread = one_thread
        self.names = Names(taken=unit.leaves)
        self.scalars: dict[str, Slot] = {}
        self.assigned: dict[str, Slot] = {}
        self._devices: dict[object, tuple[str, tuple[str, ...]]] = {}

    def statements(self, scope: Scope, statements: Iterable[ast.stmt], locals_: Iterable[str]) -> list[ast.stmt]:
        """``statements`` resolved in ``scope``, with ``locals_`` and every name they assign private to the body.

        Kernel scalars that they assign are not: ``assigned`` collects these.
        """
        own = list(statements)
        names = [name for name in names_assigned(own) if not isinstance(scope.names.get(name), ScalarRef)]
        private = {name: Private(self.unit.local_name(name)) for name in (*locals_, *names)}
        self.names.reserve(bound.name for bound in private.values())
        rewriter = _Rewriter(self, scope.inner(private))
        result: list[ast.stmt] = []
        for statement in own:
            result += rewriter.statement(copied(statement))
        return result

    def expression(self, scope: Scope, node: ast.expr, *, divisors: Divisors | None = None) -> ast.expr:
        """One expression resolved in ``scope``."""
        return _Rewriter(self, scope, divisors).expression(copied(node))


class _Rewriter(ast.NodeTransformer):
    """Rewrites one body in one scope. A visitor returns the node in its place, with the user's position."""

    def __init__(self, body: Body, scope: Scope, divisors: Divisors | None = None) -> None:
        self._body = body
        self._scope = scope
        self._divisors = divisors or ("checked" if body.one_thread else "unchecked")

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        # All at once when the whole is done, and not at each level of what is inside it.
        return [ast.fix_missing_locations(statement) for statement in self._block([node])]

    def expression(self, node: ast.expr) -> ast.expr:
        result: ast.expr = self.visit(node)
        return ast.fix_missing_locations(result)

    # --- names ---------------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Store):
            bound = self._scope.names.get(node.id)
            if isinstance(bound, ScalarRef):
                self._body.assigned[bound.name] = bound.slot
            name = bound.name if isinstance(bound, (Private, ScalarRef)) else node.id
            return ast.copy_location(ast.Name(name, ast.Store()), node)
        return self._place(self._scope.lookup(node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        bound = self._scope.static(node)
        if bound is not None:
            return self._place(bound, node)
        base = self._scope.static(node.value)
        if isinstance(base, ViewRef) and node.attr in ("size", "ndim"):
            counts = [along.count.code for along in base.along] if node.attr == "size" else [ast.Constant(len(base.along))]
            return self.expression(placed(_product([copied(count) for count in counts]), node))
        if isinstance(node.ctx, ast.Store):
            raise self._error("an attribute cannot be assigned in a kernel", node, "assign to an element of the array instead")
        node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        bound = self._scope.static(node)
        if bound is not None and isinstance(node.ctx, ast.Store):
            found = f"`{as_written(node)}` is an element of a tuple, which cannot be assigned"
            raise self._error(found, node, "make a new tuple, or assign to an element of an array in it")
        if bound is not None:
            return self._place(bound, node)
        base = self._scope.static(node.value)
        if isinstance(base, ViewRef):
            indices = parts_of(node)
            if len(indices) == len(base.along) and not any(isinstance(index, (ast.Slice, ast.Starred)) for index in indices):
                code = element(base, indices, self._scope, node, natural=False)
                assert isinstance(code, ast.Subscript)
                code.ctx = node.ctx
                node = code
        known = self._length(node)
        if known is not None:
            return known
        if is_ellipsis(node.slice):  # Numba has no code for `x[...]`, but for `x[...,]`.
            standing_for(node, node)
            node.slice = _at(ast.Tuple([node.slice], ast.Load()), node.slice)
        node.value = self.visit(node.value)
        node.slice = self.visit(node.slice)
        return node

    def _length(self, node: ast.Subscript) -> ast.expr | None:
        """``w.shape[0]`` of a view."""
        view = self._scope.static(node.value.value) if isinstance(node.value, ast.Attribute) else None
        if not isinstance(view, ViewRef) or not isinstance(node.value, ast.Attribute) or node.value.attr != "shape":
            return None
        axis = constant_of(node.slice)
        if axis is None or not -len(view.along) <= axis < len(view.along):
            raise self._error(f"`{as_written(node)}` does not exist", node, f"the array has {len(view.along)} dimensions")
        return self.expression(placed(view.along[axis].count.code, node))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._constant(node.value, node)

    def _place(self, bound: Binding, node: ast.expr) -> ast.expr:
        """The code that stands for ``bound`` where ``node`` was."""
        context = getattr(node, "ctx", ast.Load())
        if isinstance(bound, LeafRef):
            return ast.copy_location(ast.Name(bound.leaf.name, context), node)
        if isinstance(bound, Private):
            return standing_for(ast.copy_location(ast.Name(bound.name, context), node), node)
        if isinstance(bound, (SlotRef, ScalarRef)):
            self._body.scalars[bound.name] = bound.slot
            return standing_for(ast.copy_location(ast.Name(bound.name, ast.Load()), node), node)
        if isinstance(bound, HostExpr) and bound.name:
            return standing_for(ast.copy_location(ast.Name(bound.name, ast.Load()), node), node)
        if isinstance(bound, ViewRef):
            return self._view(bound, node)
        if isinstance(bound, HostExpr):
            return relocate(self._of_host(bound.expr, node), node)
        if isinstance(bound, Value):
            return self._value(bound.value, node)
        if isinstance(bound, Poisoned):
            raise self._error(bound.reason, node, bound.hint)
        text = as_written(node)
        words = {StructRef: "a tuple or dataclass", RangeRef: "a range", BoundFunc: "a method"}[type(bound)]
        raise self._error(
            f"`{text}` is {words}, and cannot be used as a value here", node, "use its fields, or pass it to a @qgraph.func"
        )

    def _of_host(self, expr: ast.expr, node: ast.expr) -> ast.expr:
        """What the host knows, as an expression of the body, which is written ``node``."""
        unit = self._body.unit
        checked = self._divisors != "known" and raises_somewhere(unit, self._scope, expr)
        # A function that is called (the first is the kernel) may be given what is computed on one path of a body only.
        if checked and unit.surely_runs and len(unit.calling) <= 1:
            # The host divides too, and says so before anything runs.
            tried = ast.Subscript(ast.Tuple([ast.Constant(0), expr], ast.Load()), ast.Constant(0), ast.Load())
            unit.host_value(tried, self._scope.span(node), text=as_written(node))
            checked = False
        found: ast.expr = _HostValueInBody(self, node, checked=checked).visit(copied(expr))
        return found

    def _view(self, view: ViewRef, node: ast.expr) -> ast.expr:
        """A view as a value, as a function inside a loop takes it: a slice of the array, or its transpose."""
        axes = [along.axis for along in view.along]
        if axes not in (sorted(axes), sorted(axes, reverse=True)) or -1 in axes:
            raise self._error(
                f"`{as_written(node)}` is a view with new or exchanged dimensions, and cannot be used as a value here",
                node,
                "use its elements",
            )
        parts: list[ast.expr] = [copied(view.fixed.get(axis, ast.Constant(0))) for axis in range(len(axes) + len(view.fixed))]
        for along in view.along:
            parts[along.axis] = _slice(along)
        value = self._selected(ast.Name(view.leaf.name, ast.Load()), parts, node)
        if not all(map(is_forward, view.along)):
            # The end of a slice that runs to the first element cannot be written: its length comes after.
            lengths = {along.axis: ast.Slice(None, copied(along.count.code)) for along in view.along}
            value = self._selected(value, [lengths[axis] for axis in sorted(axes)], node)
        return value if axes == sorted(axes) else _at(ast.Attribute(value, "T", ast.Load()), node)

    def _selected(self, array: ast.expr, parts: Sequence[ast.expr], node: ast.expr) -> ast.expr:
        inside = parts[0] if len(parts) == 1 else ast.Tuple(list(parts), ast.Load())
        return placed(ast.Subscript(array, self.visit(placed(inside, node)), ast.Load()), node)

    def _value(self, value: object, node: ast.expr) -> ast.expr:
        if value is None or type(value) in (bool, int, float, complex, str):
            return self._constant(value, node)
        if holds_arrays(value):
            hint = "give it a name of its own in the module, or pass it to the kernel as an argument"
            what = "holds arrays, and is" if isinstance(value, tuple) else "is an array inside"
            raise self._error(f"`{as_written(node)}` {what} a global object", node, hint)
        if isinstance(value, ModuleType):
            raise self._error(f"the module `{as_written(node)}` cannot be used as a value", node, "call one of its functions")
        if isinstance(value, np.void):
            hint = "pass it to the kernel in an array of one element, or name its fields in the module"
            raise self._error(f"`{as_written(node)}` is a record, whose fields may change", node, hint)
        if is_cuda_object(value):
            raise self._error(f"`{as_written(node)}` is a CUDA intrinsic", node, CUDA_HINT)
        self._scope.look_into(value, node)
        name = self._body.names.add(value, ast.unparse(node))
        return standing_for(ast.copy_location(ast.Name(name, ast.Load()), node), node)

    def _constant(self, value: Any, node: ast.AST) -> ast.expr:
        constant = ast.copy_location(ast.Constant(value), node)
        if self._body.unit.float_type == "float32" and type(value) in (float, complex):
            return self.narrow(constant)
        return constant

    def narrow(self, node: ast.expr) -> ast.expr:
        """``node``, a Python number, as the kernel's narrow float type."""
        kind: type = np.complex64 if isinstance(node, ast.Constant) and type(node.value) is complex else np.float32
        name = self._body.names.add(kind, "_complex" if kind is np.complex64 else "_float")
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [node], []), node)

    # --- assignments ---------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        scalars = [target for target in node.targets if self._stores_scalar(target)]
        if not scalars:
            self.generic_visit(node)
            return node
        value: ast.expr = self.visit(node.value)
        (target,) = node.targets if len(node.targets) == 1 else (None,)
        if isinstance(target, ast.Name):
            node.value = self._cast(target, value)
            node.targets = [self.visit(target)]
            return node
        if isinstance(target, ast.Tuple) and self._casts_parts(target, value):
            node.targets, node.value = [self.visit(target)], value
            return node
        # `a = b = e`, or a tuple from a call: the value once, then a conversion for each name.
        whole = f"_v{node.lineno}_{node.col_offset}"
        result = [_assign(whole, value, node)]
        for each in node.targets:
            for part, source in _unpacked(each, _name(whole)):
                cast = self._cast(part, relocate(source, node))
                result.append(ast.copy_location(ast.Assign([self.visit(part)], cast), node))
        return result

    def _casts_parts(self, target: ast.Tuple, value: ast.expr) -> bool:
        """Convert the parts of ``value``, a tuple of the shape of ``target``; False where it is none, and nothing is done."""
        if not _is_alike(target, value):
            return False
        assert isinstance(value, ast.Tuple)
        for position, (part, given) in enumerate(zip(target.elts, value.elts, strict=True)):
            if isinstance(part, ast.Tuple):
                self._casts_parts(part, given)
            else:
                value.elts[position] = self._cast(part, given)
        return True

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        if not self._stores_scalar(node.target) and not isinstance(node.op, ast.Pow):
            fault = self._fault(node.op, node.target, node.value, node)
            self.generic_visit(node)
            node.value = self.checked(node.op, node.value, fault)
            return node
        load = copied(node.target)
        load.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | list[ast.stmt] | None:
        if node.value is None:
            return None
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = self._cast(node.target, self.visit(node.value))
        target = self.visit(node.target)
        assert isinstance(target, ast.Name)
        node.target = target
        return node

    def _stores_scalar(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Tuple):
            return any(self._stores_scalar(element) for element in target.elts)
        return isinstance(target, ast.Name) and isinstance(self._scope.names.get(target.id), ScalarRef)

    def _cast(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """``value`` in the type of the kernel scalar ``target``; itself for any other target."""
        bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(bound, ScalarRef):
            return value
        name = self._body.names.add(self._body.unit.cast(bound.slot), f"_as{bound.slot.name}")
        return ast.copy_location(_call(name, value), value)

    # --- powers and divisions ------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.Pow) and may_fail(self._scope, node.left, node.right):
            return self._power(node.left, node.right, node)
        number = self._integer_of_host(node)
        if number is not None:
            return self._place(number, node)
        fault = self._fault(node.op, node.left, node.right, node)
        self.generic_visit(node)
        node.right = self.checked(node.op, node.right, fault)
        return node

    def _integer_of_host(self, node: ast.Call | ast.BinOp) -> HostExpr | None:
        return integer_of_host(self._body.unit, self._scope, node) if self._divisors != "known" else None

    def _fault(self, op: ast.operator, left: ast.expr, right: ast.expr, node: ast.AST) -> Fault | None:
        """What to say where ``right`` is a zero that divides, or a negative number of shifts, as ``node`` is written."""
        if self._divisors == "known" or (self._divisors == "unchecked" and not is_wrong(op, right)):
            return None
        checks = may_raise(self._body.unit, self._scope, op, left, right)
        return fault_of(self._scope, op, node) if checks else None

    def checked(self, op: ast.operator, value: ast.expr, fault: Fault | None) -> ast.expr:
        """``value``, the right operand, which notes a fault where it is wrong."""
        if fault is None:
            return value
        word = checking_word(op)
        name = self._body.names.add(word, "_divisor" if word is intrinsics.divisor else "_shift_count")
        call = ast.fix_missing_locations(ast.copy_location(_call(name, value, *self._noting(fault)), value))
        return standing_for(call, value)

    def _noting(self, fault: Fault) -> tuple[ast.expr, ...]:
        """The arguments by which a word notes a fault; device loops then end."""
        unit = self._body.unit
        return _name(FAULTS), ast.Constant(unit.fault(fault)), _name(SLOTS), ast.Constant(unit.failed.index)

    def _power(self, base: ast.expr, exponent: ast.expr, node: ast.expr) -> ast.expr:
        """``base ** exponent``, which notes a fault where it is an integer to a negative power."""
        noting = self._noting(negative_power(self._scope, node))
        name = self._body.names.add(intrinsics.power, "_power")
        call = standing_for(_call(name, self.visit(base), self.visit(exponent), *noting), node)
        return ast.fix_missing_locations(ast.copy_location(call, node))

    # --- statements ----------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        items = static_items(self._scope, node.iter)
        if items is not None:
            return self._unrolled(node, items)
        found = loop_call(self._scope, node.iter)
        if found is None:
            node.iter = self.visit(node.iter)
        else:
            reader = _Rewriter(self._body, found.scope, "checked")
            axes = ranges_of(found.scope, found.call)
            if len(axes) > 1:
                return self._product_loop(node, axes, reader)
            node.iter = reader._range(axes[0], node.iter)
        counted = [name for name in names_assigned([node.target]) if isinstance(self._scope.names.get(name), ScalarRef)]
        again = [ast.copy_location(ast.Assign([ast.Name(n, ast.Store())], ast.Name(n, ast.Load())), node) for n in counted]
        node.target = self.visit(node.target)
        node.body = self._block([*again, *node.body])
        node.orelse = self._block(node.orelse)
        return node

    def _unrolled(self, node: ast.For, items: Sequence[Binding]) -> list[ast.stmt]:
        """The body once for each item; a `break` is a flag."""
        lowered = lower_loop(node)
        for name in names_assigned(lowered.statements):
            if name.startswith(ADDED):
                self._scope.names[name] = Private(name.replace(ADDED, "_"))
        flags = frozenset() if lowered.broke is None else frozenset({lowered.broke})
        start = [assign(flag, ast.Constant(False), node) for flag in flags]
        result = self._block(start)
        for item in items:
            bind_items(self._scope, node.target, item)
            body = copied(lowered.statements)
            result += self._block([unless(flags, body, node)] if flags else body)
        if node.orelse:
            result += self._block([unless(flags, node.orelse, node)] if flags else node.orelse)
        return result or [ast.copy_location(ast.Pass(), node)]

    def _range(self, axis: WrittenAxis, node: ast.expr) -> ast.expr:
        arguments = [self.visit(copied(part)) for part in (axis.start, axis.stop, axis.step)]
        if constant_of(axis.step) is None:
            word = self._body.names.add(intrinsics.step, "_step")
            noting = self._noting(zero_step_fault(self._scope.span(axis.step)))
            arguments[2] = ast.copy_location(_call(word, arguments[2], *noting), arguments[2])
        name = self._body.names.add(range, "_range")
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)

    def _product_loop(self, node: ast.For, axes: tuple[WrittenAxis, ...], reader: _Rewriter) -> list[ast.stmt]:
        """``for i, j in ndrange(...)`` inside a body: one loop over the product, so that break and continue mean the same."""
        number = len(self._body.names.values) + len(self._body.scalars)
        stem = f"_p{node.lineno}_{node.col_offset}_{number}"
        largest = self._body.names.add(max, "_max")
        before: list[ast.stmt] = []
        counts, lows = [], []
        for position, axis in enumerate(axes):
            low, count = f"{stem}_lo{position}", f"{stem}_n{position}"
            start, stop = reader.visit(copied(axis.start)), reader.visit(copied(axis.stop))
            before.append(_assign(low, start, node))
            before.append(_assign(count, _call(largest, ast.Constant(0), _binary(stop, ast.Sub(), _name(low))), node))
            lows.append(low)
            counts.append(count)
        total = _product([_name(count) for count in counts])
        inner: list[ast.stmt] = []
        values: list[ast.expr] = []
        for position in range(len(axes)):
            rest = [_name(count) for count in counts[position + 1 :]]
            value: ast.expr = _name(stem) if not rest else _binary(_name(stem), ast.FloorDiv(), _product(rest))
            if position:
                value = _binary(value, ast.Mod(), _name(counts[position]))
            values.append(_binary(value, ast.Add(), _name(lows[position])))
        if isinstance(node.target, ast.Tuple):
            values = [self._cast(place, value) for place, value in zip(node.target.elts, values, strict=False)]
        target = self.visit(node.target)
        inner.append(ast.copy_location(ast.Assign([target], ast.Tuple(values, ast.Load())), node))
        loop = ast.For(
            ast.Name(stem, ast.Store()),
            _call(self._body.names.add(range, "_range"), total),
            [*inner, *self._block(node.body)],
            self._block(node.orelse),
        )
        return [*before, ast.copy_location(loop, node)]

    def visit_While(self, node: ast.While) -> ast.stmt:
        if is_do_while(self._scope, node.test):
            raise self._error(
                "graph_do_while() is inside a parallel loop",
                node.test,
                "a device loop belongs at kernel level, around the loops",
            )
        node.test = self.visit(node.test)
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        known = known_test(self._scope, node.test)
        if known is not None:
            result: ast.expr = self.visit(node.body if known else node.orelse)
            return result
        node.test = self.visit(node.test)
        node.body = self.visit(node.body)
        node.orelse = self.visit(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        known = known_test(self._scope, node.test)
        if known is not None:
            return self._block(node.body if known else node.orelse) or [ast.copy_location(ast.Pass(), node)]
        node.test = self.visit(node.test)
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        chosen = chosen_case(self._scope, node)
        if chosen is not None:
            return self._block(chosen) or [ast.copy_location(ast.Pass(), node)]
        cases = cases_of(self._scope, node)
        subject = f"_m{node.lineno}_{node.col_offset}"
        word = self._body.names.add(intrinsics.match_subject, "_match_subject")
        result = [_assign(subject, relocate(_call(word, self.visit(node.subject)), node.subject), node)]
        scope, self._scope = self._scope, self._scope.inner({subject: Private(subject)})
        result += self._block(as_if(node, cases, subject))
        self._scope = scope
        return result

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            visited = self.visit(statement)
            found = visited if isinstance(visited, list) else [visited]
            result += [each for each in found if each is not None]
        return result

    # --- calls ---------------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if is_static_call(self._scope, node):
            return self._place(static_value(self._scope, node), node)
        bound = self._scope.static(node.func)
        if isinstance(bound, BoundFunc):
            return self._device_call(bound.function, bound.owner, node)
        if isinstance(bound, Value):
            if isinstance(bound.value, Func):
                return self._device_call(bound.value, None, node)
            refuse_callee(self._scope, bound.value, node)
            by_position(self._scope, bound.value, node)
            rewritten = self._known_call(bound.value, node)
            if rewritten is not None:
                return rewritten
        elif bound is not None and not isinstance(bound, Private):
            raise self._error(f"`{as_written(node.func)}` is not a function", node.func, "call a @qgraph.func or a function")
        node.func = self.visit(node.func)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def _known_call(self, callee: object, node: ast.Call) -> ast.expr | None:
        """What stands for a call of one of the functions that mean something of their own; None for any other."""
        view = self._scope.static(node.args[0]) if callee is len and len(node.args) == 1 else None
        if isinstance(view, ViewRef):
            return self.expression(placed(view.along[0].count.code, node))
        if is_power(self._scope, callee, node):
            return self._power(node.args[0], node.args[1], node)
        if callee is divmod and len(node.args) == 2 and not node.keywords:
            fault = self._fault(ast.Mod(), node.args[0], node.args[1], node)
            self.generic_visit(node)
            node.args[1] = self.checked(ast.Mod(), node.args[1], fault)
            return node
        number = self._integer_of_host(node)
        if number is not None:
            return self._place(number, node)
        if callee is round and len(node.args) == 2 and not node.keywords:
            rounding = rounding_word(self._body.unit, self._scope, node.args[0])
            self.generic_visit(node)
            node.func = _at(_name(self._body.names.add(rounding, "_rounded")), node)
            return node
        if self._body.unit.float_type == "float32" and (callee is float or callee is complex):
            return self._narrow_conversion(callee is complex, node)
        if any(callee is word for word in language.ATOMICS):
            self._index_array(node)
        return None

    def _index_array(self, node: ast.Call) -> None:
        """``atomic_add(w, i, value)`` of a view: the array, and the index in it."""
        view = self._scope.static(node.args[0]) if len(node.args) > 1 else None
        if not isinstance(view, ViewRef):
            return
        place = placed(ast.Subscript(copied(node.args[0]), copied(node.args[1]), ast.Load()), node)
        assert isinstance(place, ast.Subscript)
        indices = parts_of(place)
        if len(indices) == len(view.along):
            found = element(view, indices, self._scope, place, natural=False)
            assert isinstance(found, ast.Subscript)
            node.args[:2] = [found.value, found.slice]

    def _narrow_conversion(self, to_complex: bool, node: ast.Call) -> ast.expr:
        """``float(x)`` and ``complex(x)`` in a float32 kernel; ``complex(re, im)`` of narrow parts is narrow."""
        node.args = [self.visit(argument) for argument in node.args]
        if to_complex and len(node.args) == 2:
            single = self._body.names.add(np.float32, "_float")
            node.args = [_at(ast.Call(_name(single), [argument], []), argument) for argument in node.args]
            node.func = _at(_name(self._body.names.add(complex, "_pair")), node)
        else:
            kind, word = (np.complex64, "_complex") if to_complex else (np.float32, "_float")
            node.func = _at(_name(self._body.names.add(kind, word)), node)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        raise self._error("`*` cannot be used here", node, "write the elements out")

    def _device_call(self, function: object, owner: StructRef | Value | None, node: ast.Call) -> ast.expr:
        assert isinstance(function, Func)
        arguments = bind_call(self._scope, function.source, owner, node)
        name, extra, dynamic = self._device_function(function, arguments, node)
        values = [self.visit(arguments[parameter]) for parameter in dynamic]
        values += [_name(leaf) for leaf in extra]
        return ast.copy_location(ast.Call(_name(name), values, []), node)

    def _device_function(
        self, func: Func, arguments: dict[str, Any], node: ast.Call
    ) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The compiled-in copy of ``func`` for these arguments: its name, the leaves it takes besides, its parameters."""
        source = func.source
        fixed: dict[str, Binding] = {}
        for parameter, argument in arguments.items():
            bound = argument if not isinstance(argument, ast.expr) else self._scope.static(argument)
            if bound is not None and (parameter in source.static or is_fixed(bound, source, parameter)):
                fixed[parameter] = bound
        dynamic = tuple(parameter for parameter in arguments if parameter not in fixed)
        key = (func, tuple((name, identity(bound)) for name, bound in fixed.items()))
        known = self._body._devices.get(key)
        if known is None:
            known = self._body._devices[key] = self._compile_device(func, source, fixed, dynamic, node)
        return known[0], known[1], dynamic

    def _compile_device(
        self, func: Func, source: SourceFunction, fixed: dict[str, Binding], dynamic: tuple[str, ...], node: ast.Call
    ) -> tuple[str, tuple[str, ...]]:
        unit = self._body.unit
        refuse_recursion(unit, func, self._scope, node)
        for statement in source.tree.body:
            if isinstance(statement, ast.Delete):
                raise KernelSyntaxError(
                    f"{source.name}() is called in a loop, where `del` has no meaning",
                    Span.of(statement, source.file),
                    hint="leave it out: names end with the function",
                )
        unit.calling.append(func)
        inner = Body(unit, one_thread=self._body.one_thread)
        scope = self._scope.of(source, fixed)
        statements = inner.statements(scope, without_docstring(source.tree.body), dynamic)
        unit.calling.pop()
        used = free_names(statements)
        # Views that were compiled in have numbers of the host and of kernel scalars.
        self._body.scalars.update(inner.scalars)
        known = (*unit.leaves, *(value.name for value in unit.host_values), *inner.scalars, FAULTS, SLOTS)
        extra = tuple(name for name in known if name in used)
        parameters = [unit.local_name(name) for name in dynamic] + list(extra)
        tree = function_tree(source.name, parameters, statements)
        ast.copy_location(tree, source.tree)
        ast.fix_missing_locations(tree)
        function = Function(source.name, tree, inner.names.values, source.file)
        return self._body.names.add(function, source.name), extra

    def _error(self, found: str, node: ast.AST, hint: str) -> KernelSyntaxError:
        return KernelSyntaxError(found, self._scope.span(node), hint=hint)


class _HostValueInBody(ast.NodeTransformer):
    """A host expression that is used in a body, as ``written``: its float literals are narrow, and no divisor is 0."""

    def __init__(self, rewriter: _Rewriter, written: ast.expr, *, checked: bool) -> None:
        self._rewriter = rewriter
        self._written = written
        self._checked = checked

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        rewriter = self._rewriter
        fails = self._checked and raises_itself(rewriter._body.unit, rewriter._scope, node)
        fault = fault_of(rewriter._scope, node.op, self._written, ast.unparse(node)) if fails else None
        self.generic_visit(node)
        node.right = rewriter.checked(node.op, node.right, fault)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._rewriter._constant(node.value, node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        unit = self._rewriter._body.unit
        if node.id in unit.host_names:
            node.id = self._rewriter._body.names.add(unit.host_names[node.id], node.id)
        return node


def is_do_while(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` is a call of ``graph_do_while``."""
    if not isinstance(node, ast.Call):
        return False
    bound = scope.static(node.func)
    return isinstance(bound, Value) and bound.value is language.graph_do_while


def free_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that is read or written somewhere under ``nodes``."""
    return {child.id for node in nodes for child in ast.walk(node) if isinstance(child, ast.Name)}


def _slice(along: ViewAxis) -> ast.Slice:
    """The elements of a dimension that a view has; for one that runs backwards, all from the first on."""
    stop = None
    if is_forward(along):
        stop = ast.BinOp(along.start.code, ast.Add(), ast.BinOp(along.count.code, ast.Mult(), along.step.code))
    return copied(ast.Slice(along.start.code, stop, along.step.code))


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _binary(left: ast.expr, operator: ast.operator, right: ast.expr) -> ast.expr:
    return ast.BinOp(copied(left), operator, copied(right))


def _is_alike(target: ast.expr, value: ast.expr) -> bool:
    """Whether ``value`` is written as a tuple with a value for each name of ``target``."""
    if not isinstance(target, ast.Tuple):
        return True
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
        return False
    return all(map(_is_alike, target.elts, value.elts))


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names of ``target``, each with its part of ``value``."""
    if not isinstance(target, ast.Tuple):
        yield target, value
        return
    for position, part in enumerate(target.elts):
        yield from _unpacked(part, ast.Subscript(copied(value), ast.Constant(position), ast.Load()))


def _product(factors: Sequence[ast.expr]) -> ast.expr:
    result = factors[0]
    for factor in factors[1:]:
        result = _binary(result, ast.Mult(), factor)
    return result


def _call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_name(function), list(arguments), [])


def _assign(name: str, value: ast.expr, node: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)


def _at(new: ast.expr, node: ast.AST) -> ast.expr:
    return ast.copy_location(new, node)
