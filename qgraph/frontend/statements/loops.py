"""Kernel-level loops: parallel ones are tasks; `serial`, `while` and `graph_do_while` are device loops around regions."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Collection, Sequence

from qgraph import language
from qgraph.errors import KernelSyntaxError, KernelTypeError
from qgraph.frontend.bodies.name_resolution import Body, is_do_while
from qgraph.frontend.desugar.break_continue import LoopBody, lower_loop, unless
from qgraph.frontend.desugar.element_loops import over_elements
from qgraph.frontend.inference.host_expressions import host_expression
from qgraph.frontend.inference.iteration_space import LoopCall, loop_call, unrolled
from qgraph.frontend.inference.ranks import rank, reduction
from qgraph.frontend.names.bindings import Binding, LeafRef, Poisoned, RangeRef, ScalarRef, SlotRef, Value, same
from qgraph.frontend.names.definite_assignment import names_assigned, names_read, needed_before, read_before
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import bind_items, static_items
from qgraph.frontend.statements.array_swaps import arrays_that_move, put_back
from qgraph.frontend.statements.condition_tasks import decide, decide_test, unless_broken
from qgraph.frontend.statements.counted_loops import CountedLoop, counted_loop
from qgraph.frontend.statements.inlining import bind_value, bounds_call, evaluated, held_range
from qgraph.frontend.statements.region import Region, header, is_inlined, merge, needs_region, statically, task_statements
from qgraph.frontend.statements.serial_runs import without_iterations
from qgraph.frontend.statements.task_builder import get_slot, parallel_task, set_slot, small_task
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Loop, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import assign, at_place, load, names_in, parsed
from qgraph.source import Span, as_written, copied, nodes_of, standing_for


def for_loop(region: Region, scope: Scope, node: ast.For) -> None:
    """A parallel loop, or a serial one: one thread's work, or a device loop around a region."""
    items = static_items(scope, node.iter)
    if items is not None:
        _unrolled(region, scope, node, items)
        return
    original = node
    node, arrays = over_elements(scope, node)
    for name, array in arrays:
        assert isinstance(name, ast.Name)
        scope.names[name.id] = bind_value(region, scope, array)
    found = loop_call(scope, node.iter)
    if found is None:
        raise KernelSyntaxError(
            f"a kernel-level loop cannot iterate over `{as_written(node.iter)}`",
            scope.span(node.iter),
            hint=_instead_of(scope, node.iter),
        )
    if bounds_call(region, found):
        node = _with_held_bounds(region, scope, node, found)
    if found.word is language.serial:
        inside = False
        if region.unit.fronts is not None:
            # Not otherwise: a first call waits for it.
            from qgraph.frontend.statements import wavefronts

            schedule, inside = wavefronts.chosen(region.unit.fronts, scope, node)
            if schedule is not None:
                checked = functools.partial(wavefronts.checked, region.unit, scope, node, schedule)
                _serial_loop(region, scope, schedule.loop, checked)
                return
        if inside or needs_region(region.unit, scope, [node]):
            _serial_loop(region, scope, node)
        else:
            region.run(scope).compound(scope, node)
        return
    _free(scope, node)
    try:
        bounds, task = parallel_task(region.unit, scope, node, declared=found.word is language.parallel)
    except KernelSyntaxError as error:
        raise _or_in_order(error, scope, original, found) if error.in_order else error from None
    region.add(*task_statements(bounds, task))
    _forget(scope, node)
    # Nothing leaves a parallel loop, so its `else` always runs.
    region.block(scope, node.orelse)


def _instead_of(scope: Scope, node: ast.expr) -> str:
    bound = quietly_static(scope, node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(bound, Value) and getattr(bound.value, "__name__", "") == "prange":
        instead = ast.Call(ast.Name("range", ast.Load()), node.args, [])
        return f"write `{as_written(instead)}`: the iterations of such a loop run in parallel"
    return unrolled(scope, node) or (
        "iterate over range(...), qgraph.ndrange(...) or an array, or over qgraph.serial(...) of these in order"
    )


def _or_in_order(error: KernelSyntaxError, scope: Scope, node: ast.For, found: LoopCall) -> KernelSyntaxError:
    """``error``, of an iteration of ``node``, with the way out that the loop has: in order its body is kernel level."""
    iterated = found.call if found.word is language.parallel else node.iter
    instead = f"or let the iterations run in order, `for {as_written(node.target)} in qgraph.serial({as_written(iterated)})`"
    place = error.span
    assert place is not None
    inner = (each for part in node.body for each in nodes_of(part) if isinstance(each, ast.For))
    if place.file == scope.file and any(each.lineno < place.line <= (each.end_lineno or 0) for each in inner):
        instead += ", and those of the loops in it that are around this line"
    return KernelSyntaxError(error.found, place, also=error.also, hint=f"{error.hint}; {instead}")


def _with_held_bounds(region: Region, scope: Scope, node: ast.For, found: LoopCall) -> ast.For:
    """The loop over a range whose bounds are kernel scalars: what they call has run once, before the loop."""
    name = f"{ADDED}range{len(region.unit.slots)}_{node.lineno}_{node.col_offset}"
    scope.names[name] = held_range(region, RangeRef(found.call, found.scope))
    node = copy.copy(node)
    held: ast.expr = standing_for(load(name), found.call)
    if isinstance(node.iter, ast.Call) and found.word is not None:
        held = ast.Call(node.iter.func, [held], [])
    node.iter = ast.fix_missing_locations(ast.copy_location(held, node.iter))
    return node


def _unrolled(region: Region, scope: Scope, node: ast.For, items: Sequence[Binding]) -> None:
    """The statements of the body once for each item, whose names mean something else each time."""
    lowered = lower_loop(node)
    _start_flag(region, scope, lowered, node)
    for item in items:
        bind_items(scope, node.target, item)
        statements = copied(lowered.statements)
        region.block(scope, statements if lowered.broke is None else [unless(frozenset({lowered.broke}), statements, node)])
    _else(region, scope, lowered, node)


def _free(scope: Scope, node: ast.For) -> None:
    """Kernel scalars that each iteration assigns before it reads them, and nothing reads after the loop, are its own names."""
    assert scope.frame is not None
    scalars = {name for name in names_assigned(node.body) if isinstance(scope.names.get(name), ScalarRef)}
    for name in scalars - names_read([node.iter, *node.orelse]) - needed_before(node.body, scalars):
        if not scope.frame.live_after(name, node):
            scope.names[name] = _gone(scope, node, name)


def _forget(scope: Scope, node: ast.For) -> None:
    """After a parallel loop, what only it assigned has no value: each iteration had its own."""
    own = names_assigned([node.target])
    for name in names_assigned([node.target, *node.body]):
        if name not in own and isinstance(scope.names.get(name), ScalarRef):
            continue
        scope.names[name] = _gone(scope, node, name)


def _gone(scope: Scope, node: ast.For, name: str) -> Poisoned:
    return Poisoned(
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
    places = arrays_that_move(region, scope, [lowered.statements], node)
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
    with unit.inside_a_loop(), unit.in_turns():
        inner.block(inner_scope, lowered.statements)
    put_back(inner, inner_scope, places, node)
    again = Body(unit)
    repeated: ast.expr = ast.Constant(True)
    if known is None:
        test = _test_again(inner, inner_scope, lowered, node)
        repeated = again.expression(inner_scope, evaluated(inner, inner_scope, test))
    inner.flush()
    reads, repeated = _unless_failed(unit, _repeated(again, inner_scope, lowered, repeated))
    deciding = decide_test(again, decided, repeated)
    condition = small_task(unit, "condition", span, again, [deciding], reads=reads, writes=[decided])
    label = f"while {as_written(node.test)}"
    region.add(Loop("while", span, decided, enter, known is None, inner.finish(), condition, label))
    _after(scope, inner_scope, node, surely=known is True)
    _else(region, scope, lowered, node)


def _test_again(inner: Region, scope: Scope, lowered: LoopBody, node: ast.While) -> ast.expr:
    """The test after an iteration: a ``break`` leaves it out, which shows where it changes arrays or is of nothing."""
    calls = [child for child in nodes_of(node.test) if isinstance(child, ast.Call)]
    changed = names_assigned(node.body).keys()
    shows = any(is_inlined(inner.unit, scope, call) or _may_be_of_nothing(scope, call, changed) for call in calls)
    if lowered.broke is None or not shows:
        return node.test
    held = f"{ADDED}tested{node.lineno}_{node.col_offset}"
    test = assign(held, node.test, node.test)
    inner.block(scope, [assign(held, ast.Constant(False), node.test), unless(frozenset({lowered.broke}), [test], node)])
    return at_place(load(held), node.test)


def _may_be_of_nothing(scope: Scope, call: ast.Call, changed: Collection[str]) -> bool:
    """Whether ``call`` is an extreme, which nothing has, of a part of an array that names in ``changed`` or a mask tell."""
    if reduction(scope, call) not in ("min", "max", "argmin", "argmax", "ptp"):
        return False
    parts = [child.slice for child in nodes_of(call) if isinstance(child, ast.Subscript)]
    return any(names_in(part) & set(changed) or rank(scope, part) for part in parts)


def _do_while(region: Region, scope: Scope, node: ast.While) -> None:
    assert isinstance(node.test, ast.Call)
    unit = region.unit
    flag, limit = _do_while_arguments(unit, scope, node.test)
    lowered = lower_loop(node)
    _start_flag(region, scope, lowered, node)
    places = arrays_that_move(region, scope, [lowered.statements], node)
    region.flush()
    decided = unit.slot("again")
    span = header(scope, node)
    inner, inner_scope = region.inner(), scope.inner({})
    with unit.in_turns():
        inner.block(inner_scope, lowered.statements)
    put_back(inner, inner_scope, places, node)
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
    repeated = _repeated(again, inner_scope, lowered, parsed(test))
    reads, repeated = _unless_failed(unit, repeated)
    statements.append(decide_test(again, decided, repeated))
    reads += (*written[1:], flag.name)
    condition = small_task(unit, "condition", span, again, statements, reads=reads, writes=written)
    region.add(Loop("do_while", span, decided, enter, False, body, condition, f"do-while {flag.path}"))
    _after(scope, inner_scope, node, surely=True)
    _else(region, scope, lowered, node)


def _arming(unit: ProgramBuilder, span: Span, decided: Slot, *counters: Slot) -> Task:
    """The task before a loop whose body runs at least once: it sets the condition, and counters to 0."""
    body = Body(unit)
    resets = [set_slot(slot, ast.Constant(0)) for slot in counters]
    return small_task(unit, "enter", span, body, [*resets, decide(body, decided, "1")], writes=[decided, *counters])


# --- exits -------------------------------------------------------------------------------------------------------------


def _start_flag(region: Region, scope: Scope, lowered: LoopBody, node: ast.For | ast.While) -> None:
    if lowered.broke is not None:
        region.block(scope, [assign(lowered.broke, ast.Constant(False), node)])


def _flag(lowered: LoopBody) -> ast.expr | None:
    return None if lowered.broke is None else load(lowered.broke)


def _repeated(body: Body, scope: Scope, lowered: LoopBody, test: ast.expr) -> ast.expr:
    """The condition after an iteration."""
    flag = _flag(lowered)
    return test if flag is None else unless_broken(body.expression(scope, flag), test)


def _unless_failed(unit: ProgramBuilder, test: ast.expr) -> tuple[tuple[Slot | str, ...], ast.expr]:
    """What the condition after an iteration reads, and the condition: false after a fault, which the loop might wait for."""
    if not unit.fails:
        return (), test
    unit.stops = True
    fine = ast.Compare(get_slot(unit.failed), [ast.Eq()], [ast.Constant(0)])
    return (unit.failed,), ast.BoolOp(ast.And(), [fine, test])


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
    _refuse_stale(scope, inner, node)
    merge(scope, [inner] if surely else [inner, scope.inner({})], span)


def _refuse_stale(scope: Scope, inner: Scope, node: ast.For | ast.While) -> None:
    """A name that the body gives another meaning, for which there is no slot, cannot be read by the next iteration."""
    changed = [
        name
        for name, bound in inner.entry.items()
        if not isinstance(bound, Poisoned) and not same(inner.names.get(name), bound)
    ]
    gone = {name for name in changed if isinstance(inner.names.get(name), Poisoned)} - names_assigned(node.body).keys()
    for name in [*read_before(node.body, changed), *sorted(gone & _read(node.body))]:
        found = inner.names[name]
        raise KernelSyntaxError(
            f"`{name}` is read in this loop before it is bound again, which the next iteration would see",
            found.span if isinstance(found, Poisoned) else scope.span(names_assigned(node.body)[name][0]),
            hint=found.hint if isinstance(found, Poisoned) else "only numbers can change from one iteration to the next",
        )


def _read(statements: Sequence[ast.stmt]) -> set[str]:
    nodes = (child for statement in statements for child in nodes_of(statement))
    return {child.id for child in nodes if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)}


# --- arguments ---------------------------------------------------------------------------------------------------------


def _serial_loop(region: Region, scope: Scope, node: ast.For, checked: Callable[[Loop], Loop] = lambda loop: loop) -> None:
    """A loop that the device counts; ``checked`` looks at it once it is laid out."""
    node = _with_own_variables(node)
    targets = list(names_assigned([node.target]))
    before = {name: scope.names.get(name) for name in targets}
    lowered = lower_loop(node)
    _start_flag(region, scope, lowered, node)
    places = arrays_that_move(region, scope, [lowered.statements], node)
    region.flush()
    span = header(scope, node)
    counted = counted_loop(region.unit, scope, node, span, _flag(lowered))
    inner, inner_scope = region.inner(), scope.inner(counted.names)
    with region.unit.inside_a_loop(), region.unit.in_turns():
        inner.block(inner_scope, lowered.statements)
    put_back(inner, inner_scope, places, node)
    tasks = counted.enter, True, inner.finish(), counted.condition
    region.add(checked(Loop("serial", span, counted.decided, *tasks, counted.label, counted.counter)))
    _after(scope, inner_scope, node, surely=counted.entered is None)
    for name in targets:
        _keep_variable(region, scope, node, counted, name, before[name])
    _else(region, scope, lowered, node)


def _with_own_variables(node: ast.For) -> ast.For:
    """The loop, where the body assigns the variable: it counts in a name of its own, and the body begins with an assignment."""
    changed = names_assigned([node.target]).keys() & names_assigned(node.body).keys()
    if not changed:
        return node
    node = copied(node)
    first: list[ast.stmt] = []
    for place in nodes_of(node.target):
        if isinstance(place, ast.Name) and place.id in changed:
            first.append(assign(place.id, load(f"{ADDED}{place.id}"), node.target))
            place.id = f"{ADDED}{place.id}"
    node.body = [*first, *node.body]
    return node


def _keep_variable(
    region: Region, scope: Scope, node: ast.For, counted: CountedLoop, name: str, before: Binding | None
) -> None:
    """The variable after the loop: its last value, or what it was before a loop without iterations."""
    assert scope.frame is not None
    scope.names[name] = without_iterations(scope, name, node)
    if not scope.frame.outlives(name) or (counted.entered is not None and not isinstance(before, ScalarRef)):
        return
    last, entered = f"{ADDED}last_{name}", f"{ADDED}entered"
    scope.names[last] = counted.names[name]
    kept = assign(name, load(last), node.target)
    if counted.entered is not None and before is not None:
        scope.names[name], scope.names[entered] = before, SlotRef(counted.entered.name, counted.entered)
        kept = at_place(ast.If(load(entered), [kept], []), node.target)
    region.block(scope, [kept])
    scope.names.pop(entered, None)
    del scope.names[last]


def _do_while_arguments(unit: ProgramBuilder, scope: Scope, call: ast.Call) -> tuple[Leaf, ast.Name | None]:
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
            f"the flag `{as_written(node)}` is not an array argument",
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
    return leaf, unit.host_value(known, scope.span(limit), "max_iter", text=as_written(limit))
