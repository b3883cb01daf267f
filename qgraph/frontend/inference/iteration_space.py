"""What a ``for`` iterates over, as written: ``range``, ``ndrange``, and the word around them."""

from __future__ import annotations

import ast
import operator

from qgraph import language
from qgraph.errors import ArgumentError, KernelTypeError
from qgraph.frontend.inference.indexing import join, placed, word
from qgraph.frontend.inference.ranks import known_object, rank
from qgraph.frontend.names.bindings import LeafRef, RangeRef, StructRef, Value, ViewRef
from qgraph.frontend.names.foreign_calls import refused_reversed
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.faults import Fault
from qgraph.ir.trees import at_place
from qgraph.operations.table import is_one_of
from qgraph.records import dataclass
from qgraph.source import Span, as_written, copied, nodes_of, standing_for

_LOOP_WORDS = (language.serial, language.parallel)
_ZERO_STEP = "the step of a range is 0"
_ZERO_STEP_HINT = "range() needs a step other than 0"


@dataclass(eq=False, slots=True)
class WrittenAxis:
    """One range as the user wrote it: three expressions, not yet resolved."""

    start: ast.expr
    stop: ast.expr
    step: ast.expr
    node: ast.expr

    @property
    def extent(self) -> str:
        """How the user would write the number of iterations."""
        start, stop, step = (as_written(part) for part in (self.start, self.stop, self.step))
        if step != "1":
            return as_written(self.node)
        return stop if start == "0" else f"{stop} - {start}"


@dataclass(eq=False, slots=True)
class LoopCall:
    """What a ``for`` iterates over: the range or ndrange call, and the word around it.

    ``scope``: where the call was written; the names in it mean what they meant there.
    """

    call: ast.Call
    word: object
    scope: Scope


def loop_call(scope: Scope, node: ast.expr) -> LoopCall | None:
    """The range under ``node``, or None where it is something else."""
    if isinstance(node, ast.Name):
        bound = scope.names.get(node.id)
        return LoopCall(bound.call, None, bound.scope) if isinstance(bound, RangeRef) else None
    turned = _backwards(scope, node)
    if turned is not None:
        return LoopCall(turned, None, scope)
    if not isinstance(node, ast.Call):
        return None
    bound = scope.static(node.func)
    if not isinstance(bound, Value):
        return None
    if bound.value in (range, language.ndrange):
        return LoopCall(node, None, scope)
    if bound.value in _LOOP_WORDS:
        inner = loop_call(scope, node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if inner is None and len(node.args) == 1 and _goes_over_arrays(scope, node.args[0]):
            return None
        if inner is None:
            instead = unrolled(scope, node.args[0]) if len(node.args) == 1 else ""
            found = f"`{as_written(node.func)}` needs one range"
            raise scope.error(found, node, instead or f"write `{as_written(node.func)}(range(n))`")
        return LoopCall(inner.call, bound.value, inner.scope)
    return None


def _backwards(scope: Scope, node: ast.expr) -> ast.Call | None:
    """The range from its end that ``node`` is, `reversed(range(n))` or `range(n)[::-1]`; None of anything else.

    Raises:
        KernelSyntaxError: it is something else that is reversed.
    """
    match node:
        case ast.Subscript(value=ast.Call() as inner, slice=ast.Slice(lower=None, upper=None, step=ast.expr() as step)):
            return _turned(scope, inner, node) if constant_of(step) == -1 else None
        case ast.Call(args=args) if known_object(scope, node.func) is reversed:
            turned = _turned(scope, args[0], node) if len(args) == 1 and not node.keywords else None
            if turned is None:
                raise refused_reversed(scope, node)
            return turned
    return None


def _turned(scope: Scope, node: ast.expr, whole: ast.expr) -> ast.Call | None:
    """The range with the integers of the range ``node`` in the other order, in the place of ``whole``.

    None of what is no range, or has a step that is no literal, or bounds whose calls would be made twice, or in another order.
    """
    bound = quietly_static(scope, node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or bound != Value(range) or not 1 <= len(node.args) <= 3 or node.keywords:
        return None
    (axis,) = ranges_of(scope, node)
    step = constant_of(axis.step)
    # The start is computed first, and needed twice where the step is another one.
    if step is None or (_calls(scope, axis.start) and (abs(step) > 1 or constant_of(axis.stop) is None)):
        return None
    start, stop = (_as_index(scope, part) for part in (axis.start, axis.stop))
    last = join(stop, ast.Add(), ast.Constant(-1 if step > 0 else 1))
    if abs(step) > 1:
        turns = ast.BinOp(ast.BinOp(last, ast.Sub(), start), ast.FloorDiv(), ast.Constant(step))
        last = join(start, ast.Add(), ast.BinOp(turns, ast.Mult(), ast.Constant(step)))
    turned = ast.Call(copied(node.func), [last, join(start, ast.Add(), ast.Constant(-step)), ast.Constant(-step)], [])
    return standing_for(at_place(turned, whole), whole)


def _calls(scope: Scope, bound: ast.expr) -> bool:
    """Whether ``bound`` calls what may change something."""
    calls = (child for child in nodes_of(bound) if isinstance(child, ast.Call))
    return any(not is_one_of(known_object(scope, call.func), (len, min, max, abs, int)) for call in calls)


def _as_index(scope: Scope, bound: ast.expr) -> ast.expr:
    """``bound`` as ``range`` takes it, Python's integer: one of NumPy's may wrap where something is subtracted from it."""
    if constant_of(bound) is not None:
        return bound
    return standing_for(placed(word(scope, operator.index, bound), bound), bound)


def _goes_over_arrays(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` is an array, or `zip` or `enumerate` of some; a name that gets its value only later may be one."""
    bound = quietly_static(scope, node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(bound, Value) and bound.value in (zip, enumerate):
        # Behind the array it may say where it counts from.
        return all(_goes_over_arrays(scope, each) for each in (node.args if bound.value is zip else node.args[:1]))
    later = {child.id for child in nodes_of(node) if isinstance(child, ast.Name)} - scope.names.keys()
    return rank(scope, node) > 0 or not later.isdisjoint(scope.source.code.co_varnames)


def unrolled(scope: Scope, node: ast.expr) -> str:
    """What to write instead of a loop over ``node``, a tuple or a list that is known at compile time; "" of anything else."""
    bound = quietly_static(scope, node)
    is_tuple = isinstance(bound, StructRef) and issubclass(bound.type.cls, tuple)
    if is_tuple or isinstance(node, ast.Tuple) or (isinstance(bound, Value) and isinstance(bound.value, tuple | list)):
        return f"unroll it, which runs its items in order: `qgraph.static({as_written(node)})`"
    return ""


def ranges_of(scope: Scope, call: ast.Call) -> tuple[WrittenAxis, ...]:
    """The axes of a range or ndrange call."""
    bound = scope.static(call.func)
    is_range = isinstance(bound, Value) and bound.value is range
    if call.keywords or not call.args or (is_range and len(call.args) > 3):
        raise scope.error(
            f"`{as_written(call)}` has the wrong arguments",
            call,
            "write range(stop), range(start, stop), range(start, stop, step) or ndrange(n, (lo, hi), ...)",
        )
    for argument in call.args:
        for part in argument.elts if isinstance(argument, ast.Tuple) else [argument]:
            refuse_array(scope, part)
    zero, one = ast.copy_location(ast.Constant(0), call), ast.copy_location(ast.Constant(1), call)
    if is_range:
        start, stop, step = (zero, *call.args, one) if len(call.args) == 1 else (*call.args, one)[:3]
        if isinstance(step, ast.Constant) and step.value == 0:
            raise zero_step(scope.span(step))
        return (WrittenAxis(start, stop, step, call),)
    return tuple(axis for argument in call.args for axis in _ndrange_axes(scope, argument, zero, one))


def zero_step(span: Span) -> ArgumentError:
    """What a range with a step of 0 is, wherever it is found."""
    return ArgumentError(_ZERO_STEP, span, hint=_ZERO_STEP_HINT)


def zero_step_fault(span: Span) -> Fault:
    """The same, where only the device finds it."""
    return Fault(ArgumentError, span, _ZERO_STEP, _ZERO_STEP_HINT)


def refuse_array(scope: Scope, bound: ast.expr) -> None:
    """An array is no number, though Python takes one without dimensions for a bound; nor is a float an integer."""
    if isinstance(bound, ast.Subscript):
        array = scope.static(bound.value) if isinstance(bound.value, (ast.Name, ast.Attribute)) else None
        element = array.leaf.type if isinstance(array, (LeafRef, ViewRef)) else None
        if isinstance(element, ArrayType) and element.dtype.startswith(("float", "complex")):
            raise KernelTypeError(
                f"the bound `{as_written(bound)}` is of type {element.dtype}",
                scope.span(bound),
                hint="range() takes integers: keep bounds in an integer array",
            )
    known = scope.static(bound) if isinstance(bound, (ast.Name, ast.Attribute)) else None
    found = bound if isinstance(bound, ast.Constant) else known
    if isinstance(found, (ast.Constant, Value)) and (found.value is None or isinstance(found.value, str | bytes)):
        what = "None" if found.value is None else "a text"
        raise KernelTypeError(
            f"the bound `{as_written(bound)}` is {what}", scope.span(bound), hint="range() takes integers: pass a number"
        )
    if isinstance(known, (LeafRef, ViewRef)) and isinstance(known.leaf.type, ArrayType):
        text, ndim = as_written(bound), rank(scope, bound)
        place = f"{text}[{', '.join('0' * ndim) or '()'}]"
        length = f", or its length, `{text}.shape[0]`" if ndim else ""
        raise KernelTypeError(
            f"the bound `{text}` is an array", scope.span(bound), hint=f"use an element of it, `{place}`{length}"
        )


def _ndrange_axes(scope: Scope, argument: ast.expr, zero: ast.expr, one: ast.expr) -> list[WrittenAxis]:
    match argument:
        case ast.Starred(value=value):
            extents = (ast.Subscript(copied(value), ast.Constant(k), ast.Load()) for k in range(_length(scope, argument)))
            return [WrittenAxis(zero, relocate(extent, value), one, value) for extent in extents]
        case ast.Tuple(elts=[low, high]):
            return [WrittenAxis(low, high, one, argument)]
        case ast.Tuple():
            raise scope.error("an axis of ndrange is a count or a pair (lo, hi)", argument, "use range() for a step")
    return [WrittenAxis(zero, argument, one, argument)]


def _length(scope: Scope, argument: ast.Starred) -> int:
    """The number of axes of ``ndrange(*x.shape)``, known from the array's type, or of ``ndrange(*t)`` of a tuple."""
    value = argument.value
    if isinstance(value, ast.Attribute) and value.attr == "shape" and (ndim := rank(scope, value.value)):
        return ndim
    bound = scope.static(value)
    if not isinstance(bound, StructRef):
        raise scope.error(f"`*{as_written(value)}` is not the shape of an argument", argument, "write the axes out")
    return len(bound.children)


def relocate(tree: ast.expr, node: ast.AST) -> ast.expr:
    """``tree`` with every position that of ``node``: it came from another line."""
    for child in nodes_of(tree):
        ast.copy_location(child, node)
    return tree
