"""Names and values in bodies: what stands for arguments, kernel scalars, views, what the host knows, and constants."""

from __future__ import annotations

import ast
import enum
import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, TypeVar

import numpy as np

from qgraph.frontend.checks.negative_power import checking_power, checking_power_of_host, fault_of_power
from qgraph.frontend.checks.zero_division import checking_word, fault_of, is_wrong, may_raise, raises_itself, raises_somewhere
from qgraph.frontend.inference.host_expressions import integer_of_host, numpy_type
from qgraph.frontend.inference.indexing import element, placed
from qgraph.frontend.inference.iteration_space import relocate
from qgraph.frontend.inference.ranks import is_ellipsis
from qgraph.frontend.names.bindings import (
    Binding,
    BoundFunc,
    HostExpr,
    Inside,
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
    same,
)
from qgraph.frontend.names.call_binding import is_forward
from qgraph.frontend.names.global_table import Names
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import CUDA_HINT, Scope, is_cuda_object, quietly_static
from qgraph.frontend.names.static_eval import constant_of, known_test, refuse_inverted_flags, written_integer
from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.faults import FAULTS, Fault
from qgraph.ir.global_arrays import holds_arrays
from qgraph.ir.program import SLOTS
from qgraph.ir.slots import Slot
from qgraph.ir.trees import call_of, is_none, load, parts_of, stored
from qgraph.operations import intrinsics
from qgraph.operations.table import operation
from qgraph.source import as_written, copied, nodes_of, standing_for

# What a Python integer that divides another may be. "known": the host divides too, and says so before anything runs.
# "unchecked": iterations of parallel loops have 0 where the divisor is 0, as with NumPy's integers, unless it is written.
Divisors = Literal["checked", "unchecked", "known"]


_Node = TypeVar("_Node", bound=ast.AST)


class ResolvedNames:
    """What one body under construction uses: its globals, the slots it reads, and the kernel scalars it assigns.

    ``one_thread``: it runs once, and not as the many iterations of a parallel loop. ``rows_in_line``: sums over rows and
    assignments to rows are loops of its own, and no functions.
    """

    def __init__(self, unit: ProgramBuilder, *, one_thread: bool = True, rows_in_line: bool = False) -> None:
        self.unit = unit
        self.one_thread = one_thread
        self.rows_in_line = rows_in_line
        self._rows = 0
        self.names = Names(taken=unit.leaves)
        self.scalars: dict[str, Slot] = {}
        self.assigned: dict[str, Slot] = {}
        # The copies of funcs, by what is compiled into each: the name, and the leaves that it takes besides.
        self.devices: dict[object, tuple[str, tuple[str, ...]]] = {}
        # The shapes of vectors that they return, or what is in tuples, by name; and that of what this one returns.
        self.kinds: dict[str, tuple[int, ...] | Inside] = {}
        self.returned: tuple[int, ...] | Inside = ()

    def count_row(self) -> int:
        """The number of a row that is added up in line."""
        self._rows += 1
        return self._rows - 1


class ValueResolution(ast.NodeTransformer):
    """Rewrites expressions in one scope. A visitor returns the node in its place, with the user's position."""

    def __init__(self, body: ResolvedNames, scope: Scope, divisors: Divisors | None = None) -> None:
        self._body = body
        self._scope = scope
        self._divisors = divisors or ("checked" if body.one_thread else "unchecked")

    def expression(self, node: ast.expr) -> ast.expr:
        """One expression, resolved."""
        result: ast.expr = self.visit(node)
        return ast.fix_missing_locations(result)

    def visit(self, node: ast.AST) -> Any:
        """The node in the place of ``node``. An array without axes is its element where a number is computed or stored."""
        if self._takes_numbers(node):
            for name, value in ast.iter_fields(node):
                if isinstance(value, ast.expr) and name not in ("func", "target", "test"):
                    setattr(node, name, self._number(value))
                elif isinstance(value, list):
                    value[:] = [self._number(each) if isinstance(each, ast.expr) else each for each in value]
        return super().visit(node)

    def _takes_numbers(self, node: ast.AST) -> bool:
        match node:
            case ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
                return False
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp() | ast.AugAssign():
                return True
            case ast.Assign(targets=targets):
                return all(isinstance(target, ast.Subscript) for target in targets)
            case ast.Call(func=func):
                bound = quietly_static(self._scope, func)
                function = bound.value if isinstance(bound, Value) else None
                # Arrays of NumPy's have no `__round__`.
                return operation(function).pure and function is not round
        return False

    def _number(self, node: ast.expr) -> ast.expr:
        bound = self._scope.static(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if isinstance(bound, LeafRef) and isinstance(bound.leaf.type, ArrayType) and bound.leaf.type.ndim == 0:
            return standing_for(at(ast.Subscript(node, at(ast.Tuple([], ast.Load()), node), ast.Load()), node), node)
        return node

    # --- names ---------------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name: what it stands for, or what the body assigns."""
        if isinstance(node.ctx, ast.Store):
            bound = self._scope.names.get(node.id)
            if not isinstance(bound, Private | ScalarRef) and isinstance(self._scope.entry.get(node.id), Private):
                raise self._scope.error(
                    f"`{node.id}` is the variable of a loop that is unrolled, and is assigned again", node, "use another name"
                )
            if isinstance(bound, ScalarRef):
                self._body.assigned[bound.name] = bound.slot
            name = bound.name if isinstance(bound, (Private, ScalarRef)) else node.id
            return at(stored(name), node)
        return self._place(self._scope.lookup(node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A field, a constant, or an attribute of a value."""
        bound = self._scope.static(node)
        if bound is not None:
            return self._place(bound, node)
        base = self._scope.static(node.value)
        if isinstance(base, ViewRef) and node.attr in ("size", "ndim"):
            counts = [along.count.code for along in base.along] if node.attr == "size" else [ast.Constant(len(base.along))]
            return self.expression(placed(product([copied(count) for count in counts]), node))
        if isinstance(node.ctx, ast.Store):
            raise self._scope.error(
                "an attribute cannot be assigned in a kernel", node, "assign to an element of the array instead"
            )
        if node.attr == "itemsize" and isinstance(node.value, ast.Attribute) and node.value.attr == "dtype":
            # Of a parameter of a func, whose type only a call knows, an array says it.
            node.value = node.value.value
        node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """An element or a part, of a view as one of its array."""
        bound = self._scope.static(node)
        if bound is not None and isinstance(node.ctx, ast.Store):
            found = f"`{as_written(node)}` is an element of a tuple, which cannot be assigned"
            raise self._scope.error(found, node, "make a new tuple, or assign to an element of an array in it")
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
            node.slice = at(ast.Tuple([node.slice], ast.Load()), node.slice)
        self.generic_visit(node)
        return node

    def _length(self, node: ast.Subscript) -> ast.expr | None:
        """``w.shape[0]`` of a view."""
        view = self._scope.static(node.value.value) if isinstance(node.value, ast.Attribute) else None
        if not isinstance(view, ViewRef) or not isinstance(node.value, ast.Attribute) or node.value.attr != "shape":
            return None
        axis = constant_of(node.slice)
        if axis is None or not -len(view.along) <= axis < len(view.along):
            raise self._scope.error(f"`{as_written(node)}` does not exist", node, f"the array has {len(view.along)} dimensions")
        return self.expression(placed(view.along[axis].count.code, node))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A literal, narrow where the kernel's floats are."""
        return self._constant(node.value, node)

    def _place(self, bound: Binding, node: ast.expr) -> ast.expr:
        """The code that stands for ``bound`` where ``node`` was."""
        context = getattr(node, "ctx", ast.Load())
        if isinstance(bound, LeafRef):
            return at(ast.Name(bound.leaf.name, context), node)
        if isinstance(bound, Private):
            return standing_for(at(ast.Name(bound.name, context), node), node)
        if isinstance(bound, (SlotRef, ScalarRef)):
            self._body.scalars[bound.name] = bound.slot
        if isinstance(bound, (SlotRef, ScalarRef, HostExpr)) and bound.name:
            return standing_for(ast.fix_missing_locations(at(self._named(bound), node)), node)
        if isinstance(bound, ViewRef):
            return standing_for(self._view(bound, node), node)
        if isinstance(bound, HostExpr):
            return relocate(self._of_host(bound.expr, node), node)
        if isinstance(bound, Value):
            return self._value(bound.value, node)
        if isinstance(bound, Poisoned):
            raise self._scope.error(bound.reason, node, bound.hint)
        text = as_written(node)
        words = {StructRef: "a tuple or dataclass", RangeRef: "a range", BoundFunc: "a method"}[type(bound)]
        hint = "use its fields, or pass it to a @qgraph.func"
        if isinstance(bound, StructRef) and issubclass(bound.type.cls, tuple) and text.isidentifier():
            hint += f"; an index is known at compile time, as `k` is in `for k in qgraph.static(range({len(bound.children)}))`"
            hint += f", and a loop over it is `for v in qgraph.static({text})`"
        raise self._scope.error(f"`{text}` is {words}, and cannot be used as a value here", node, hint)

    def _named(self, bound: SlotRef | ScalarRef | HostExpr) -> ast.expr:
        found = load(bound.name)
        kind = numpy_type(self._body.unit, bound.expr) if isinstance(bound, HostExpr) else None
        # A host value has 64 bits, and an integer of NumPy's those of its type.
        return found if kind is None else self._call(kind, kind.__name__, found)

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
            raise self._scope.error(
                f"`{as_written(node)}` is a view with new or exchanged dimensions, and cannot be used as a value here",
                node,
                "use its elements",
            )
        parts: list[ast.expr] = [copied(view.fixed.get(axis, ast.Constant(0))) for axis in range(len(axes) + len(view.fixed))]
        for along in view.along:
            parts[along.axis] = _slice(along)
        value = self._selected(load(view.leaf.name), parts, node)
        if not all(map(is_forward, view.along)):
            # The end of a slice that runs to the first element cannot be written: its length comes after.
            lengths = {along.axis: ast.Slice(None, copied(along.count.code)) for along in view.along}
            value = self._selected(value, [lengths[axis] for axis in sorted(axes)], node)
        return value if axes == sorted(axes) else at(ast.Attribute(value, "T", ast.Load()), node)

    def _selected(self, array: ast.expr, parts: Sequence[ast.expr], node: ast.expr) -> ast.expr:
        inside = parts[0] if len(parts) == 1 else ast.Tuple(list(parts), ast.Load())
        return placed(ast.Subscript(array, self.visit(placed(inside, node)), ast.Load()), node)

    def _value(self, value: object, node: ast.expr) -> ast.expr:
        if value is None or type(value) in (bool, int, float, complex, str):
            return self._constant(value, node)
        if holds_arrays(value):
            hint = "give it a name of its own in the module, or pass it to the kernel as an argument"
            what = "holds arrays, and is" if isinstance(value, tuple) else "is an array inside"
            raise self._scope.error(f"`{as_written(node)}` {what} a global object", node, hint)
        if isinstance(value, ModuleType):
            raise self._scope.error(
                f"the module `{as_written(node)}` cannot be used as a value", node, "call one of its functions"
            )
        if isinstance(value, list | dict | set | frozenset | bytearray):
            hint = "make it an array, or, for loops over it, a tuple; qgraph.static(...) takes what it holds while compiling"
            raise self._scope.error(f"`{as_written(node)}` is a {type(value).__name__}, which kernels do not hold", node, hint)
        if isinstance(value, np.void):
            hint = "pass it to the kernel in an array of one element, or name its fields in the module"
            raise self._scope.error(f"`{as_written(node)}` is a record, whose fields may change", node, hint)
        if is_cuda_object(value):
            raise self._scope.error(f"`{as_written(node)}` is a CUDA intrinsic", node, CUDA_HINT)
        if isinstance(value, enum.IntEnum):
            # What NumPy makes of it, too.
            value = np.int64(value)
        self._scope.look_into(value, node)
        name = self._body.names.add(value, ast.unparse(node))
        return standing_for(at(load(name), node), node)

    def _constant(self, value: Any, node: ast.AST) -> ast.expr:
        constant = at(ast.Constant(value), node)
        if self._body.unit.float_type == "float32" and type(value) in (float, complex):
            return self.narrow(constant)
        return constant

    def narrow(self, node: ast.expr) -> ast.expr:
        """``node``, a Python number, as the kernel's narrow float type."""
        kind: type = np.complex64 if isinstance(node, ast.Constant) and type(node.value) is complex else np.float32
        return at(self._call(kind, "_complex" if kind is np.complex64 else "_float", node), node)

    # --- operators ------------------------------------------------------------------------------------------------------

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """An operator of one operand."""
        refuse_inverted_flags(self._scope, node)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A comparison. `in` and `not in` a tuple are those with its items."""
        known = known_test(self._scope, node)
        if known is not None:
            return self._constant(known, node)
        self._refuse_identity(node)
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple(elts=[_, *_] as items)]):
                if self._may_repeat(left, items):
                    found = self._membership(left, items, node)
                    return found if isinstance(op, ast.In) else at(ast.UnaryOp(ast.Not(), found), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _refuse_identity(self, node: ast.Compare) -> None:
        """Raise for `x[i] is True`: NumPy's True is another object than Python's, and numbers of kernels are none at all."""
        parts = (node.left, *node.comparators)
        for op, left, right in zip(node.ops, parts, parts[1:], strict=False):
            if isinstance(op, ast.Is | ast.IsNot) and not (
                is_none(left) or is_none(right) or all(map(self._is_one_object, (left, right)))
            ):
                match right:
                    case ast.Constant(value=bool(truth)):
                        wanted = isinstance(op, ast.Is) is truth
                        hint = f"`{as_written(left)}` alone is the condition" if wanted else f"write `not {as_written(left)}`"
                    case _:
                        hint = f"write `{'==' if isinstance(op, ast.Is) else '!='}` to compare values"
                what = f"`{as_written(node)}` asks which object a value is, and values of kernels have no identity"
                raise self._scope.error(what, node, hint)

    def _is_one_object(self, node: ast.expr) -> bool:
        """Whether it is known which object this is: a constant, or a boolean of Python's that is an argument."""
        bound = quietly_static(self._scope, node)
        if isinstance(bound, LeafRef) and isinstance(bound.leaf.type, ScalarType):
            return bound.leaf.type.weak and bound.leaf.type.dtype == "bool"
        return isinstance(node, ast.Constant) or isinstance(bound, Value)

    def _may_repeat(self, left: ast.expr, items: Sequence[ast.expr]) -> bool:
        """Whether ``left`` may be computed once for each item: calls in it have no effect, and those of items none on it."""
        if any(isinstance(item, ast.Starred) for item in items):
            return False
        calls = [[child for child in nodes_of(part) if isinstance(child, ast.Call)] for part in (left, *items)]
        pure = [all(self._is_pure(call) for call in each) for each in calls]
        return all(pure) or (pure[0] and isinstance(left, ast.Name | ast.Constant))

    def _is_pure(self, call: ast.Call) -> bool:
        bound = quietly_static(self._scope, call.func)
        return isinstance(bound, Value) and operation(bound.value).pure

    def _membership(self, left: ast.expr, items: Sequence[ast.expr], node: ast.Compare) -> ast.expr:
        """`v in (a, b)` as `(v == a) | (v == b)`, whatever types these have. All items are computed, as Python does.

        What is the same object is found whatever it equals: a nan.
        """
        found: list[ast.expr] = []
        for item in items:
            test = ast.Constant(True) if self._is_same(left, item) else ast.Compare(copied(left), [ast.Eq()], [item])
            found.append(self.visit(ast.fix_missing_locations(at(test, node))))
        return functools.reduce(lambda tests, test: at(ast.BinOp(tests, ast.BitOr(), test), node), found)

    def _is_same(self, left: ast.expr, item: ast.expr) -> bool:
        """Whether two expressions are one object: names of one number or array, or of its place in a tuple."""
        one, other = quietly_static(self._scope, left), quietly_static(self._scope, item)
        return one is not None and other is not None and same(one, other)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operator: a number of the host, or code that notes a fault where Python raises; of literals what Python makes."""
        written = written_integer(self._scope, node)
        if written is not None:
            return standing_for(self._constant(written, node), node)
        power = self.power(node.left, node.right, node) if isinstance(node.op, ast.Pow) else None
        if power is not None:
            return power
        number = self._integer_of_host(node)
        if number is not None:
            return self._place(number, node)
        fault = self._fault(node.op, node.left, node.right, node)
        self.generic_visit(node)
        node.right = self.checked(node.op, node.right, fault)
        return node

    def _integer_of_host(self, node: ast.Call | ast.BinOp) -> HostExpr | None:
        if (written := written_integer(self._scope, node)) is not None:
            return HostExpr(ast.Constant(written))
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
        wish = "_divisor" if word is intrinsics.divisor else "_shift_count"
        return standing_for(ast.fix_missing_locations(at(self._call(word, wish, value, *self._noting(fault)), value)), value)

    def _call(self, function: object, wish: str, *arguments: ast.expr) -> ast.expr:
        """A call of a global of the body."""
        return call_of(self._body.names.add(function, wish), *arguments)

    def _noting(self, fault: Fault) -> tuple[ast.expr, ...]:
        """The arguments by which a word notes a fault; device loops then end."""
        unit = self._body.unit
        return load(FAULTS), ast.Constant(unit.fault(fault)), load(SLOTS), ast.Constant(unit.failed.index)

    def power(self, base: ast.expr, exponent: ast.expr, node: ast.expr) -> ast.expr | None:
        """``base ** exponent``, which notes a fault where it has another type; None where it has none."""
        word = checking_power(self._body.unit, self._scope, base, exponent)
        if word is None:
            return None
        return self.noted_power(word, self.visit(base), self.visit(exponent), node)

    def noted_power(self, word: object, base: ast.expr, exponent: ast.expr, node: ast.expr, text: str = "") -> ast.expr:
        """The power of which ``word`` notes the fault, at the place of ``node``."""
        call = self._call(word, "_power", base, exponent, *self._noting(fault_of_power(self._scope, node, word, text)))
        return standing_for(ast.fix_missing_locations(at(call, node)), node)


class _HostValueInBody(ast.NodeTransformer):
    """A host expression that is used in a body, as ``written``: its float literals are narrow, and no divisor is 0."""

    def __init__(self, rewriter: ValueResolution, written: ast.expr, *, checked: bool) -> None:
        self._rewriter = rewriter
        self._written = written
        self._checked = checked

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        rewriter = self._rewriter
        fails = self._checked and raises_itself(rewriter._body.unit, rewriter._scope, node)
        fault = fault_of(rewriter._scope, node.op, self._written, ast.unparse(node)) if fails else None
        text = ast.unparse(node)
        word = checking_power_of_host(rewriter._body.unit, node.left, node.right) if isinstance(node.op, ast.Pow) else None
        self.generic_visit(node)
        if word is not None:
            return rewriter.noted_power(word, node.left, node.right, self._written, text)
        node.right = rewriter.checked(node.op, node.right, fault)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            # The length of a slice: functions of the user's have other names.
            rewriter, written = self._rewriter, self._written
            return rewriter._body.unit.host_value(node, rewriter._scope.span(written), text=as_written(written))
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._rewriter._constant(node.value, node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        unit = self._rewriter._body.unit
        if node.id in unit.host_names:
            node.id = self._rewriter._body.names.add(unit.host_names[node.id], node.id)
        return node


def _slice(along: ViewAxis) -> ast.Slice:
    """The elements of a dimension that a view has; for one that runs backwards, all from the first on."""
    stop = None
    if is_forward(along):
        stop = ast.BinOp(along.start.code, ast.Add(), ast.BinOp(along.count.code, ast.Mult(), along.step.code))
    return copied(ast.Slice(along.start.code, stop, along.step.code))


def binary(left: ast.expr, operator: ast.operator, right: ast.expr) -> ast.expr:
    """An operator with copies of its operands."""
    return ast.BinOp(copied(left), operator, copied(right))


def product(factors: Sequence[ast.expr]) -> ast.expr:
    """The product of one factor or more."""
    return functools.reduce(lambda left, right: binary(left, ast.Mult(), right), factors)


def at(new: _Node, node: ast.AST) -> _Node:
    """``new`` at the place of ``node``."""
    return ast.copy_location(new, node)
