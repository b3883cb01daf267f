"""Source + argument types -> Program: the statements of a kernel, one handler each, in program order."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Literal

from qgraph import language
from qgraph.errors import ArgumentError, KernelSyntaxError, KernelTypeError
from qgraph.frontend.bindings import Binding, BoundFunc, Gone, HostExpr, LeafRef, RangeRef, StructRef, Value, bind_type
from qgraph.frontend.counted import counted_loop
from qgraph.frontend.definite import names_assigned
from qgraph.frontend.host import host_expression
from qgraph.frontend.parse import SourceFunction
from qgraph.frontend.ranges import loop_call
from qgraph.frontend.resolve import (
    Body,
    bind_call,
    is_do_while,
    known_test,
    refuse_recursion,
    without_docstring,
)
from qgraph.frontend.scope import Scope
from qgraph.frontend.tasks import SerialRun, get_slot, parallel_task, set_slot, small_task
from qgraph.frontend.unit import Unit
from qgraph.language import Func
from qgraph.program import ArrayType, Leaf, Loop, Program, Slot, Statement, Task, TaskStatement, Type
from qgraph.source import Span

_SCALAR_HINT = "keep the value in a one-element array that is an argument: `total[()] = ...`"


def build_program(
    source: SourceFunction,
    types: tuple[tuple[str, Type], ...],
    leaves: tuple[Leaf, ...],
    aliases: tuple[tuple[str, str, str], ...] = (),
) -> Program:
    """The Program of a kernel for arguments of these types.

    Args:
        source: the kernel.
        types: its parameters and their types, in order.
        leaves: the arrays and scalars inside them.
        aliases: pairs of leaf names that share memory, and how.

    Raises:
        KernelSyntaxError, KernelTypeError, DataRaceError, ArgumentError: the kernel says something that cannot be run as
            it reads; nothing has run.
    """
    same = _representatives(aliases)
    overlapping = frozenset(frozenset(pair[:2]) for pair in aliases if pair[2] == "overlap")
    unit = Unit(source.name, leaves, float_type_of(leaves), same, overlapping)
    by_path = {leaf.path: leaf for leaf in leaves}
    names = {name: bind_type(name, type_, by_path) for name, type_ in types}
    scope = Scope(source, names, unit.frozen)
    unit.calling.append(source.function)
    region = _Region(unit, depth=0)
    region.block(scope, without_docstring(source.tree.body), last=True)
    program = Program(
        name=source.name,
        span=source.span,
        float_type=unit.float_type,
        leaves=leaves,
        host_values=tuple(unit.host_values),
        host_names=unit.host_names,
        slots=tuple(unit.slots),
        body=region.finish(),
        aliases=tuple((a, b) for a, b, _ in aliases),
        flags=tuple(unit.flags),
        frozen=tuple(unit.frozen.values()),
    )
    _check_readonly(program)
    return program


def float_type_of(leaves: tuple[Leaf, ...]) -> Literal["float32", "float64"]:
    """F of the number rules: float32 if some array is floating or complex and none is wider than float32 or complex64."""
    kinds = {leaf.type.dtype for leaf in leaves if isinstance(leaf.type, ArrayType)}
    floating = {kind for kind in kinds if kind.startswith(("float", "complex"))}
    return "float32" if floating and floating <= {"float16", "float32", "complex64"} else "float64"


def _representatives(aliases: tuple[tuple[str, str, str], ...]) -> dict[str, str]:
    """For leaves that are the identical memory: the first of each group."""
    same: dict[str, str] = {}
    for first, second, how in aliases:
        if how == "same":
            same[second] = same.get(first, first)
    return same


def _check_readonly(program: Program) -> None:
    for leaf in program.leaves:
        if isinstance(leaf.type, ArrayType) and leaf.type.readonly:
            for task in program.tasks():
                if leaf.name in task.effects.writes:
                    raise ArgumentError(
                        f"`{leaf.path}` is read-only, and the kernel writes it",
                        task.span,
                        hint=f"pass a writable array, such as `{leaf.path}.copy()`",
                    )


class _Region:
    """A run of kernel-level statements: the kernel itself, or the body of a device loop (``depth`` > 0)."""

    def __init__(self, unit: Unit, depth: int) -> None:
        self._unit = unit
        self._depth = depth
        self._statements: list[Statement] = []
        self._run: SerialRun | None = None

    def finish(self) -> tuple[Statement, ...]:
        """The statements of the region."""
        self._flush()
        return tuple(self._statements)

    def block(self, scope: Scope, statements: list[ast.stmt], last: bool = False) -> None:
        """Handle ``statements`` in order; names that they bind change ``scope``. ``last``: a bare `return` may end them."""
        for position, node in enumerate(statements):
            if isinstance(node, ast.Return):
                self._return(scope, node, last and position == len(statements) - 1)
                continue
            handler = _HANDLERS.get(type(node))
            if handler is None:
                raise KernelSyntaxError(
                    f"`{_first_word(node)}` cannot be used at kernel level",
                    scope.span(node),
                    hint="kernel-level statements are for loops, device loops, element assignments and calls of funcs",
                )
            handler(self, scope, node)

    def _return(self, scope: Scope, node: ast.Return, at_end: bool) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise KernelSyntaxError(
                "a kernel cannot return a value yet", scope.span(node), hint="write the result to an array argument"
            )
        if not at_end:
            raise KernelSyntaxError("`return` is not the last statement", scope.span(node), hint="leave it out")

    # --- loops ---------------------------------------------------------------------------------------------------------

    def _for(self, scope: Scope, node: ast.For) -> None:
        if node.orelse:
            raise KernelSyntaxError(
                "a kernel-level `for` has an `else`", scope.span(node.orelse[0]), hint="write the statements after the loop"
            )
        found = loop_call(scope, node.iter)
        if found is None:
            raise KernelSyntaxError(
                f"a kernel-level loop cannot iterate over `{ast.unparse(node.iter)}`",
                scope.span(node.iter),
                hint="iterate over range(...), qgraph.ndrange(...), or qgraph.serial(range(...)) for iterations in order",
            )
        if found.word is language.serial:
            if self._has_parallel(scope, node.body):
                self._serial_loop(scope, node)
            else:
                self._serial_run(scope).loop(scope, node)
        else:
            self._flush()
            bounds, task = parallel_task(self._unit, scope, node, declared=found.word is language.parallel)
            self._statements += [TaskStatement(bounds)] if bounds is not None else []
            self._statements.append(TaskStatement(task))
        self._forget(scope, node, [node.target, *node.body])

    def _forget(self, scope: Scope, loop: ast.For, nodes: list[ast.expr | ast.stmt]) -> None:
        """After a loop, what it assigned has no value: each iteration had its own."""
        for name in names_assigned([loop]):
            scope.names[name] = Gone(
                f"`{name}` is read after the loop that assigns it",
                scope.span(loop.target),
                "in a parallel loop each iteration has its own copy; store what is needed later in an array",
            )

    def _has_parallel(self, scope: Scope, statements: list[ast.stmt]) -> bool:
        """Whether the statements need a region: a loop over a plain range, a device loop, or a func that has one."""
        return any(self._is_parallel(scope, node) for statement in statements for node in ast.walk(statement))

    def _is_parallel(self, scope: Scope, node: ast.AST) -> bool:
        if isinstance(node, ast.While):
            return is_do_while(scope, node.test)
        if isinstance(node, ast.For):
            found = loop_call(scope, node.iter)
            return found is not None and found.word is not language.serial
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            bound = scope.static(node.value.func)
            function = bound.function if isinstance(bound, BoundFunc) else bound.value if isinstance(bound, Value) else None
            if isinstance(function, Func) and function not in self._unit.calling:
                source = self._unit.source_of(function)
                inner = scope.of(source, {name: Value(None) for name in source.signature.parameters})
                self._unit.calling.append(function)
                result = self._has_parallel(inner, source.tree.body)
                self._unit.calling.pop()
                return result
        return False

    def _serial_loop(self, scope: Scope, node: ast.For) -> None:
        """A counted device loop around parallel loops."""
        self._flush()
        span = _header(scope, node)
        counted = counted_loop(self._unit, scope, node, span)
        inner = _Region(self._unit, self._depth + 1)
        inner.block(scope.inner(counted.names), node.body)
        loop = Loop("serial", span, counted.decided, counted.enter, True, inner.finish(), counted.condition, counted.label)
        self._statements.append(loop)

    def _while(self, scope: Scope, node: ast.While) -> None:
        if not is_do_while(scope, node.test):
            raise KernelSyntaxError(
                "a kernel-level `while` must be `while qgraph.graph_do_while(flag):`",
                scope.span(node.test),
                hint="keep the condition in a one-element integer array, and set it to 0 in the body to end the loop",
            )
        if node.orelse:
            raise KernelSyntaxError(
                "a device loop has an `else`", scope.span(node.orelse[0]), hint="write the statements after the loop"
            )
        assert isinstance(node.test, ast.Call)
        self._flush()
        unit = self._unit
        flag, limit = self._do_while_arguments(scope, node.test)
        decided = unit.slot("again")
        span = _header(scope, node)
        inner = _Region(unit, self._depth + 1)
        inner.block(scope.inner({}), node.body)
        body = inner.finish()
        again = Body(unit)
        assert isinstance(flag.type, ArrayType)
        index = "()" if flag.type.ndim == 0 else ", ".join("0" * flag.type.ndim)
        test = f"{flag.name}[{index}] != 0"
        statements: list[ast.stmt] = []
        enter: Task | None = None
        written: tuple[Slot, ...] = (decided,)
        if limit is not None:
            counter = unit.slot("runs")
            written = (decided, counter)
            statements.append(set_slot(counter, ast.BinOp(get_slot(counter), ast.Add(), ast.Constant(1))))
            test = f"{test} and _slots[{counter.index}] < {limit.id}"
        if limit is not None or self._depth > 0:
            # A nested while node's handle keeps its last value: it must be armed before each entry.
            arming = Body(unit)
            resets = [set_slot(slot, ast.Constant(0)) for slot in written[1:]]
            enter = small_task(unit, "enter", span, arming, [*resets, self._decide(arming, decided, "True")], writes=written)
        statements.append(self._decide(again, decided, test))
        condition = small_task(unit, "condition", span, again, statements, reads=(*written[1:], flag.name), writes=written)
        self._statements.append(Loop("do_while", span, decided, enter, False, body, condition, f"do-while {flag.path}"))

    def _do_while_arguments(self, scope: Scope, call: ast.Call) -> tuple[Leaf, ast.Name | None]:
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        unknown = [keyword for keyword in keywords if keyword not in ("flag", "max_iter")]
        if unknown:
            raise KernelSyntaxError(
                f"graph_do_while() has no keyword `{unknown[0]}`", scope.span(call), hint="write graph_do_while(flag)"
            )
        arguments = dict(zip(("flag", "max_iter"), call.args, strict=False)) | keywords
        if len(call.args) > 2 or "flag" not in arguments or len(call.args) + len(keywords) != len(arguments):
            raise KernelSyntaxError(
                "graph_do_while() takes a flag, and max_iter", scope.span(call), hint="write graph_do_while(flag, max_iter=n)"
            )
        node = arguments["flag"]
        bound = scope.static(node)
        if not isinstance(bound, LeafRef) or not isinstance(bound.leaf.type, ArrayType):
            raise KernelSyntaxError(
                f"the flag `{ast.unparse(node)}` is not an array argument",
                scope.span(node),
                hint="pass the one-element array itself, or a field of an argument: graph_do_while(state.counter)",
            )
        leaf = bound.leaf
        if not bound.leaf.type.dtype.startswith(("int", "uint", "bool")):
            raise KernelTypeError(
                f"the flag `{leaf.path}` is an array of {bound.leaf.type.dtype}",
                scope.span(node),
                hint="a flag is an array of integers or booleans with one element",
            )
        self._unit.flags.append((leaf.name, scope.span(node)))
        limit = arguments.get("max_iter")
        if limit is None or (isinstance(limit, ast.Constant) and limit.value is None):
            return leaf, None
        known = host_expression(self._unit, scope, limit)
        if known is None:
            raise KernelSyntaxError(
                "max_iter is not known to the host", scope.span(limit), hint="use a constant, a shape or a scalar argument"
            )
        return leaf, self._unit.host_value(known, scope.span(limit), "max_iter", text=ast.unparse(limit))

    def _decide(self, body: Body, decided: Slot, test: str) -> ast.stmt:
        name = body.names.add(language.set_condition, "_set_condition")
        return ast.parse(f"{name}(_slots, {decided.index}, _handle, {test})").body[0]

    # --- names ---------------------------------------------------------------------------------------------------------

    def _assign(self, scope: Scope, node: ast.Assign) -> None:
        if all(_stores_elements(target) for target in node.targets):
            self._serial_run(scope).statement(scope, node)
            return
        if len(node.targets) != 1:
            raise KernelSyntaxError("a chained assignment of names", scope.span(node), hint="write one assignment a line")
        (target,) = node.targets
        for name, bound in self._bindings(scope, target, node.value):
            self._bind(scope, name, bound, node)

    def _bindings(self, scope: Scope, target: ast.expr, value: ast.expr) -> list[tuple[str, Binding]]:
        if isinstance(target, ast.Name):
            return [(target.id, self._binding(scope, value))]
        if isinstance(target, ast.Tuple) and all(isinstance(element, ast.Name) for element in target.elts):
            parts = self._parts(scope, value)
            if len(parts) != len(target.elts):
                raise KernelSyntaxError(
                    f"{len(parts)} values for {len(target.elts)} names", scope.span(value), hint="unpack as many as there are"
                )
            names = [element.id for element in target.elts if isinstance(element, ast.Name)]
            return list(zip(names, (self._binding(scope, part) for part in parts), strict=True))
        raise KernelSyntaxError(
            f"`{ast.unparse(target)}` cannot be assigned at kernel level",
            scope.span(target),
            hint="assign to elements of arrays, or bind plain names",
        )

    def _parts(self, scope: Scope, value: ast.expr) -> list[ast.expr]:
        if isinstance(value, ast.Tuple):
            return value.elts
        bound = scope.static(value)
        count = 0
        if isinstance(bound, StructRef):
            count = len(bound.children)
        elif isinstance(value, ast.Attribute) and value.attr == "shape":
            base = scope.static(value.value)
            if isinstance(base, LeafRef) and isinstance(base.leaf.type, ArrayType):
                count = base.leaf.type.ndim
        if count == 0:
            raise KernelSyntaxError(
                f"`{ast.unparse(value)}` cannot be unpacked at kernel level",
                scope.span(value),
                hint="unpack a shape or a tuple",
            )
        parts: list[ast.expr] = [ast.Subscript(value, ast.Constant(k), ast.Load()) for k in range(count)]
        return [ast.fix_missing_locations(ast.copy_location(part, value)) for part in parts]

    def _binding(self, scope: Scope, value: ast.expr) -> Binding:
        bound = scope.static(value)
        if bound is not None and not isinstance(bound, Gone):
            return bound
        found = loop_call(scope, value)
        if found is not None and found.word is None:
            return RangeRef(found.call, found.scope.inner({}))
        known = host_expression(self._unit, scope, value)
        if known is not None:
            return HostExpr(known)
        if isinstance(bound, Gone):
            raise KernelSyntaxError(bound.reason, scope.span(value), hint=bound.hint)
        raise KernelSyntaxError(
            "a kernel-level name can stand for an array, or for a number made of shapes and scalar arguments; "
            f"`{ast.unparse(value)}` is computed on the device",
            scope.span(value),
            hint=_SCALAR_HINT,
        )

    def _bind(self, scope: Scope, name: str, bound: Binding, node: ast.stmt) -> None:
        if self._depth > 0 and name in scope.names and not isinstance(scope.names[name], Gone):
            if isinstance(bound, LeafRef) and bound.is_array:
                raise KernelSyntaxError(
                    f"`{name}` is bound again inside a device loop: arrays cannot be swapped there yet",
                    scope.span(node),
                    hint="copy the elements in a loop: for i in range(x.shape[0]): x[i] = y[i]",
                )
            raise KernelSyntaxError(f"`{name}` is assigned again inside a device loop", scope.span(node), hint=_SCALAR_HINT)
        scope.names[name] = bound

    def _annotated(self, scope: Scope, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        plain = ast.Assign([node.target], node.value)
        self._assign(scope, ast.copy_location(plain, node))

    def _augmented(self, scope: Scope, node: ast.AugAssign) -> None:
        if _stores_elements(node.target):
            self._serial_run(scope).statement(scope, node)
            return
        load = copy.deepcopy(node.target)
        load.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        self._assign(scope, ast.copy_location(ast.Assign([node.target], value), node))

    # --- serial statements ---------------------------------------------------------------------------------------------

    def _if(self, scope: Scope, node: ast.If) -> None:
        known = known_test(scope, node.test)
        if known is not None:
            self.block(scope, node.body if known else node.orelse)
            return
        for inner in (child for branch in (node.body, node.orelse) for child in branch):
            self._check_branch(scope, inner)
        self._serial_run(scope).statement(scope, node)

    def _check_branch(self, scope: Scope, node: ast.stmt) -> None:
        """Under a kernel-level `if`: element assignments and calls, one thread's work."""
        if self._has_parallel(scope, [node]):
            raise KernelSyntaxError(
                "a loop stands under a kernel-level `if`",
                _header(scope, node),
                hint="move the `if` into the loop's body; a loop that is meant for one thread takes qgraph.serial(range(...))",
            )
        for name in names_assigned([node]):
            if not isinstance(node, ast.For):
                found = f"`{name}` is assigned under a kernel-level `if`"
                raise KernelSyntaxError(found, scope.span(node), hint=_SCALAR_HINT)
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.Expr, ast.Pass, ast.For)):
            raise KernelSyntaxError(
                f"`{_first_word(node)}` cannot stand under a kernel-level `if`", scope.span(node), hint="assign to elements"
            )

    def _expression(self, scope: Scope, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant):
            return
        if isinstance(value, ast.Call):
            bound = scope.static(value.func)
            if isinstance(bound, BoundFunc):
                self._inline(scope, bound.function, bound.owner, value)
                return
            if isinstance(bound, Value) and isinstance(bound.value, Func):
                self._inline(scope, bound.value, None, value)
                return
            if isinstance(bound, Value) and (bound.value is print or bound.value in language.ATOMICS):
                self._serial_run(scope).statement(scope, node)
                return
            # Says what is wrong with the callee, if anything.
            Body(self._unit).expression(scope, value)
        raise KernelSyntaxError(
            f"the statement `{ast.unparse(node)}` has no effect here",
            scope.span(node),
            hint="assign its value to an element of an array",
        )

    def _inline(self, scope: Scope, function: object, owner: StructRef | None, node: ast.Call) -> None:
        """The statements of a func, with its parameters bound to what the call passes."""
        assert isinstance(function, Func)
        unit = self._unit
        refuse_recursion(unit, function, scope, node)
        source = unit.source_of(function)
        names: dict[str, Binding] = {}
        for parameter, argument in bind_call(scope, source, owner, node).items():
            names[parameter] = self._binding(scope, argument) if isinstance(argument, ast.expr) else argument
        unit.calling.append(function)
        self.block(scope.of(source, names), without_docstring(source.tree.body), last=True)
        unit.calling.pop()

    def _pass(self, scope: Scope, node: ast.Pass) -> None:
        pass

    def _jump(self, scope: Scope, node: ast.Break | ast.Continue) -> None:
        raise KernelSyntaxError(
            f"`{_first_word(node)}` in a device loop is not supported yet",
            scope.span(node),
            hint="end a do-while by setting its flag to 0",
        )

    def _serial_run(self, scope: Scope) -> SerialRun:
        if self._run is not None and self._run.file != scope.file:
            self._flush()
        if self._run is None:
            self._run = SerialRun(self._unit, scope.file)
        return self._run

    def _flush(self) -> None:
        if self._run is not None:
            self._statements.append(TaskStatement(self._run.task()))
            self._run = None


_HANDLERS: Mapping[type[ast.stmt], Callable[..., None]] = {
    ast.For: _Region._for,
    ast.While: _Region._while,
    ast.Assign: _Region._assign,
    ast.AnnAssign: _Region._annotated,
    ast.AugAssign: _Region._augmented,
    ast.If: _Region._if,
    ast.Expr: _Region._expression,
    ast.Pass: _Region._pass,
    ast.Break: _Region._jump,
    ast.Continue: _Region._jump,
}


def _stores_elements(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_stores_elements(element) for element in target.elts)
    return isinstance(target, ast.Subscript)


def _header(scope: Scope, node: ast.AST) -> Span:
    """The header line of a loop: what a message or a label points at."""
    span = scope.span(node)
    if isinstance(node, ast.For):
        end = scope.span(node.iter)
    elif isinstance(node, ast.While):
        end = scope.span(node.test)
    else:
        return span
    return Span(span.file, span.line, span.column, end.end_line, end.end_column)


def _first_word(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except ValueError:
        return type(node).__name__.lower()
    return text.split()[0].rstrip(":")
