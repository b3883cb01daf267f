"""Kernel-level loops: parallel ones are tasks; `serial`, `while` and `graph_do_while` are device loops around regions."""

from __future__ import annotations

import ast
import copy

from qgraph import language
from qgraph.errors import KernelSyntaxError, KernelTypeError
from qgraph.frontend.bindings import Gone, LeafRef, ScalarRef, SlotRef
from qgraph.frontend.calls import evaluated
from qgraph.frontend.definite import names_assigned
from qgraph.frontend.exits import LoopBody, assign, lower_loop, unless
from qgraph.frontend.host import host_expression
from qgraph.frontend.ranges import loop_call, ranges_of
from qgraph.frontend.region import Region, decide, decide_test, header, merge, needs_region, statically, task_statements
from qgraph.frontend.resolve import Body, is_do_while
from qgraph.frontend.scope import Scope
from qgraph.frontend.tasks import as_index, get_slot, parallel_task, set_slot, small_task, trip_source
from qgraph.frontend.unit import Unit
from qgraph.program import ArrayType, Leaf, Loop, Slot, Task
from qgraph.source import Span


def for_loop(region: Region, scope: Scope, node: ast.For) -> None:
    """A parallel loop, or a serial one: one thread's work, or a device loop around a region."""
    found = loop_call(scope, node.iter)
    if found is None:
        raise KernelSyntaxError(
            f"a kernel-level loop cannot iterate over `{ast.unparse(node.iter)}`",
            scope.span(node.iter),
            hint="iterate over range(...), qgraph.ndrange(...), or qgraph.serial(range(...)) for iterations in order",
        )
    if found.word is language.serial:
        if needs_region(region.unit, scope, node.body):
            _serial_loop(region, scope, node)
        else:
            region.run(scope).compound(scope, node)
        return
    bounds, task = parallel_task(region.unit, scope, node, declared=found.word is language.parallel)
    region.add(*task_statements(bounds, task))
    _forget(scope, node)
    # Nothing leaves a parallel loop, so its `else` always runs.
    region.block(scope, node.orelse)


def _forget(scope: Scope, node: ast.For) -> None:
    """After a parallel loop, what only it assigned has no value: each iteration had its own."""
    for name in names_assigned([node.target, *node.body]):
        if isinstance(scope.names.get(name), ScalarRef):
            continue
        scope.names[name] = Gone(
            f"`{name}` is read after the loop that assigns it",
            scope.span(node.target),
            "in a parallel loop each iteration has its own copy; store what is needed later in an array",
        )


def while_loop(region: Region, scope: Scope, node: ast.While) -> None:
    """``while graph_do_while(flag)``, a test-first loop, or one thread's loop."""
    if is_do_while(scope, node.test):
        _do_while(region, scope, node)
    elif needs_region(region.unit, scope, [node]):
        _test_first(region, scope, node)
    else:
        region.run(scope).compound(scope, node)


def _test_first(region: Region, scope: Scope, node: ast.While) -> None:
    """A while node; its condition is evaluated before the loop and after each iteration."""
    known = statically(scope, node.test)
    if known is False:
        region.block(scope, node.orelse)
        return
    lowered = lower_loop(node)
    _start_flag(region, scope, lowered, node)
    unit, span = region.unit, header(scope, node)
    decided = unit.slot("again")
    enter = None
    if known is None:
        test = evaluated(region, scope, node.test)
        entering = Body(unit)
        statement = decide_test(entering, decided, entering.expression(scope, test))
        region.flush()
        enter = small_task(unit, "enter", span, entering, [statement], writes=[decided])
    elif region.depth > 0:
        enter = _arming(unit, header(scope, node), decided)
    region.flush()
    inner, inner_scope = region.inner(), scope.inner({})
    inner.block(inner_scope, lowered.statements)
    again = Body(unit)
    repeated: ast.expr = ast.Constant(True)
    if known is None:
        repeated = again.expression(inner_scope, evaluated(inner, inner_scope, node.test))
    inner.flush()
    deciding = decide_test(again, decided, _unless_broken(again, inner_scope, lowered, repeated))
    condition = small_task(unit, "condition", span, again, [deciding], writes=[decided])
    label = f"while {ast.unparse(node.test)}"
    region.add(Loop("while", span, decided, enter, known is None, inner.finish(), condition, label))
    _after(scope, inner_scope, node, surely=known is True)
    _else(region, scope, lowered, node)


def _do_while(region: Region, scope: Scope, node: ast.While) -> None:
    assert isinstance(node.test, ast.Call)
    unit = region.unit
    flag, limit = _do_while_arguments(unit, scope, node.test)
    lowered = lower_loop(node)
    _start_flag(region, scope, lowered, node)
    region.flush()
    decided = unit.slot("again")
    span = header(scope, node)
    inner, inner_scope = region.inner(), scope.inner({})
    inner.block(inner_scope, lowered.statements)
    body = inner.finish()
    again = Body(unit)
    assert isinstance(flag.type, ArrayType)
    index = "()" if flag.type.ndim == 0 else ", ".join("0" * flag.type.ndim)
    test = f"{flag.name}[{index}] != 0"
    statements: list[ast.stmt] = []
    written = [decided]
    if limit is not None:
        counter = unit.slot("runs")
        written.append(counter)
        statements.append(set_slot(counter, ast.BinOp(get_slot(counter), ast.Add(), ast.Constant(1))))
        test = f"{test} and _slots[{counter.index}] < {limit.id}"
    # A nested while node's handle keeps its last value: it must be armed before each entry.
    enter = _arming(unit, span, *written) if limit is not None or region.depth > 0 else None
    repeated = _unless_broken(again, inner_scope, lowered, ast.parse(test, mode="eval").body)
    statements.append(decide_test(again, decided, repeated))
    condition = small_task(unit, "condition", span, again, statements, reads=(*written[1:], flag.name), writes=written)
    region.add(Loop("do_while", span, decided, enter, False, body, condition, f"do-while {flag.path}"))
    _after(scope, inner_scope, node, surely=True)
    _else(region, scope, lowered, node)


def _arming(unit: Unit, span: Span, decided: Slot, *counters: Slot) -> Task:
    """The task before a loop whose body runs at least once: it sets the condition, and counters to 0."""
    body = Body(unit)
    resets = [set_slot(slot, ast.Constant(0)) for slot in counters]
    return small_task(unit, "enter", span, body, [*resets, decide(body, decided, "1")], writes=[decided, *counters])


# --- exits -------------------------------------------------------------------------------------------------------------


def _start_flag(region: Region, scope: Scope, lowered: LoopBody, node: ast.For | ast.While) -> None:
    if lowered.broke is not None:
        region.block(scope, [assign(lowered.broke, ast.Constant(False), node)])


def _unless_broken(body: Body, scope: Scope, lowered: LoopBody, test: ast.expr) -> ast.expr:
    """The condition after an iteration: a `break` comes before the test, which Python then does not evaluate."""
    if lowered.broke is None:
        return test
    broke = body.expression(scope, ast.Name(lowered.broke, ast.Load()))
    return ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), broke), test])


def _else(region: Region, scope: Scope, lowered: LoopBody, node: ast.For | ast.While) -> None:
    """The `else` of a loop runs where no `break` ended it."""
    if not node.orelse:
        return
    if lowered.broke is None:
        region.block(scope, node.orelse)
    else:
        region.block(scope, [unless(frozenset({lowered.broke}), node.orelse, node.orelse[0])])


def _after(scope: Scope, inner: Scope, node: ast.For | ast.While, *, surely: bool) -> None:
    """The names after a loop: those of its body too, where that has surely run."""
    span = header(scope, node)
    merge(scope, [inner] if surely else [inner, scope.inner({})], span)
    if isinstance(node, ast.For):
        for name in names_assigned([node.target]):
            reason = f"`{name}` is read after the loop that assigns it"
            scope.names[name] = Gone(reason, scope.span(node.target), "keep its value under another name in the body")


# --- arguments ---------------------------------------------------------------------------------------------------------


def _serial_loop(region: Region, scope: Scope, node: ast.For) -> None:
    """A counted device loop: its variable and what is left of the count live in slots."""
    body_of = lower_loop(node)
    _start_flag(region, scope, body_of, node)
    region.flush()
    unit = region.unit
    found = loop_call(scope, node.iter)
    assert found is not None
    axes = ranges_of(found.scope, found.call)
    if len(axes) != 1 or not isinstance(node.target, ast.Name):
        raise KernelSyntaxError(
            "a serial loop with loops inside has one axis and one variable",
            scope.span(node.iter),
            hint="nest two loops: for i in qgraph.serial(range(n)): for j in qgraph.serial(range(m)):",
        )
    (axis,) = axes
    variable, left, decided = unit.slot(node.target.id), unit.slot("left"), unit.slot("again")
    span = header(scope, node)
    step = host_expression(unit, found.scope, axis.step)
    body = Body(unit)
    written = [variable, left, decided]
    entering: list[ast.stmt] = []
    if step is not None:
        by: ast.expr = unit.host_value(step, scope.span(axis.step), "step", text=ast.unparse(axis.step))
    else:  # Read once, at the entry.
        saved = unit.slot("step")
        written.append(saved)
        entering.append(set_slot(saved, as_index(body, body.expression(found.scope, axis.step))))
        by = get_slot(saved)
    start = host_expression(unit, found.scope, axis.start)
    stop = host_expression(unit, found.scope, axis.stop)
    if start is not None and stop is not None and step is not None:
        begin: ast.expr = unit.host_value(start, scope.span(axis.start), text=ast.unparse(axis.start))
        count: ast.expr = unit.host_value(trip_source(start, stop, step), scope.span(axis.node), text=axis.extent)
    else:
        begin = as_index(body, body.expression(found.scope, axis.start))
        trip = body.names.add(language.trip_count, "_trip_count")
        arguments = [copy.deepcopy(begin), as_index(body, body.expression(found.scope, axis.stop)), by]
        count = ast.Call(ast.Name(trip, ast.Load()), arguments, [])
    enter = small_task(
        unit,
        "enter",
        span,
        body,
        [
            *entering,
            set_slot(variable, begin),
            set_slot(left, count),
            decide(body, decided, f"1 if _slots[{left.index}] > 0 else 0"),
        ],
        writes=written,
    )
    inner = region.inner()
    inner_scope = scope.inner({node.target.id: SlotRef(unit.local_name(node.target.id), variable)})
    inner.block(inner_scope, body_of.statements)
    inner.flush()
    again = Body(unit)
    test = ast.parse(f"_slots[{left.index}] > 0", mode="eval").body
    condition = small_task(
        unit,
        "condition",
        span,
        again,
        [
            set_slot(variable, ast.BinOp(get_slot(variable), ast.Add(), by)),
            set_slot(left, ast.BinOp(get_slot(left), ast.Sub(), ast.Constant(1))),
            decide_test(again, decided, _unless_broken(again, inner_scope, body_of, test)),
        ],
        reads=written[:2] + written[3:],
        writes=(variable, left, decided),
    )
    region.add(Loop("serial", span, decided, enter, True, inner.finish(), condition, f"serial {node.target.id}"))
    _after(scope, inner_scope, node, surely=False)
    _else(region, scope, body_of, node)


def _do_while_arguments(unit: Unit, scope: Scope, call: ast.Call) -> tuple[Leaf, ast.Name | None]:
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
    unit.flags.append((leaf.name, scope.span(node)))
    limit = arguments.get("max_iter")
    if limit is None or (isinstance(limit, ast.Constant) and limit.value is None):
        return leaf, None
    known = host_expression(unit, scope, limit)
    if known is None:
        raise KernelSyntaxError(
            "max_iter is not known to the host", scope.span(limit), hint="use a constant, a shape or a scalar argument"
        )
    return leaf, unit.host_value(known, scope.span(limit), "max_iter", text=ast.unparse(limit))
