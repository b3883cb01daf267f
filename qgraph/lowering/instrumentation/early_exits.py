"""Program -> Program: where an assertion or a check of bounds fails, the iteration ends, and later tasks do nothing.

What a task does becomes a function that leaves by an exception of Numba's, and is called by ``intrinsics.attempt``: what comes
behind an iteration (combining reductions, deciding a loop) still happens, and the code around it knows nothing of early exits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from qgraph.ir.faults import FAULTS, KEY, KEY_BITS, EarlyExits
from qgraph.ir.functions import Function, function_tree
from qgraph.ir.program import NUMBER, SLOTS, Axis, Branch, Cast, Effects, Loop, Program, Statement, Task
from qgraph.ir.rewrite import with_tasks
from qgraph.lowering.codegen.generated_names import place_at, walk
from qgraph.lowering.codegen.task_codegen import called_name
from qgraph.operations import intrinsics
from qgraph.source import copied, nodes_of

_WORDS = {"_attempt": intrinsics.attempt, "_least_key": intrinsics.least_key, "_Left": intrinsics.Left}


def with_early_exits(program: Program) -> Program:
    """``program``, whose tasks begin with a look at whether an earlier one has failed; itself where none can."""
    exits = program.exits
    if exits is None:
        return program
    order = {id(task): number for number, task in enumerate(program.tasks())}

    def guarded(task: Task) -> Task:
        return task if task.role == "start" else _Guarded(program, exits, task, order[id(task)]).task()

    changed = with_tasks(program, guarded)
    return replace(changed, body=tuple(map(_uncounted, changed.body)))


def with_keys(program: Program) -> Program:
    """``program``, each fault of which ends the whole kernel, as in Python: for one thread, and iterations in order."""
    order = {id(task): number for number, task in enumerate(program.tasks())}

    def keyed(task: Task) -> Task:
        if KEY not in _used(task.body):
            return task
        head = ast.Assign([ast.Name(KEY, ast.Store())], key_of(task, order[id(task)]))
        for node in nodes_of(head):
            place_at(node, task.span)
        return replace(task, body=(head, *task.body))

    return with_tasks(program, keyed)


def key_of(task: Task, order: int) -> ast.expr:
    """The number of the task, and that of the iteration."""
    number = "0"
    for axis in task.axes:
        start, step, count = (ast.unparse(part) for part in (axis.start, axis.step, axis.count))
        place = axis.variable if (start, step) == ("0", "1") else f"({axis.variable} - ({start})) // ({step})"
        number = place if number == "0" else f"({number}) * ({count}) + {place}"
    return ast.parse(f"{order << KEY_BITS} + ({number})", mode="eval").body


def _uncounted(statement: Statement) -> Statement:
    """Loops that count may end before they have."""
    match statement:
        case Loop():
            return replace(statement, body=tuple(map(_uncounted, statement.body)), counter=None)
        case Branch():
            return replace(statement, regions=tuple(tuple(map(_uncounted, region)) for region in statement.regions))
    return statement


def _used(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in walk(nodes) if isinstance(node, ast.Name)}


class _Guarded:
    """One task, of which all that it does is attempted."""

    def __init__(self, program: Program, exits: EarlyExits, task: Task, order: int) -> None:
        self._exits, self._task, self._order = exits, task, order
        self._names = dict(task.names) | _WORDS
        self._outside = {SLOTS, FAULTS, *(leaf.name for leaf in program.arrays_and_scalars)}
        self._outside |= {value.name for value in program.host_values}

    def task(self) -> Task:
        """The task with a guard."""
        task = self._task
        if task.role in ("loop", "serial"):
            body = [self._whole()]
        else:
            body = [self._valued(copied(statement)) for statement in task.body]
        for node in walk(body):
            place_at(node, task.span)
        touched = frozenset({self._exits.failed.name, self._exits.first.name})
        return replace(
            task,
            body=tuple(body),
            names=self._names,
            axes=tuple(map(self._axis, task.axes)),
            effects=task.effects | Effects(touched, touched if FAULTS in _used(task.body) else frozenset()),
            inner_length="",
            plain=task,
        )

    def _whole(self) -> ast.stmt:
        """The statement in the place of all: what they compute for the task's end comes back as a tuple."""
        task = self._task
        carried = [v.local for each in task.reductions for v in (*each.variables, each.at) if v is not None]
        names = [*carried, *(name for name, _ in task.results)]
        live = {*carried, *(name for name, _ in task.scalars)}
        result = ast.Tuple(list(map(_load, names)), ast.Load()) if names else ast.Constant(0)
        # A name that has no value yet is 0 where it fails.
        otherwise: list[ast.expr] = [_load(name) if name in live else ast.Constant(0) for name in names]
        # Under a condition, though it is true: the compiler types what is returned by a `return` that it can reach.
        body = [ast.If(self._failed(ast.GtE()), _Continue(result).block(copied(list(task.body))), []), ast.Return(result)]
        body = [*self._zeros(live), *body]
        inside = {*live, *(axis.variable for axis in task.axes), *(each.local for each in task.selections)}
        inside |= {NUMBER, task.index_tuple}
        call = self._attempt(body, ast.Tuple(otherwise, ast.Load()) if names else ast.Constant(0), inside)
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        return ast.Assign([target], call) if names else ast.Expr(call)

    def _zeros(self, live: set[str]) -> Iterator[ast.stmt]:
        """Values of results that have none yet: behind a `raise` that nothing passes the compiler sees no assignment."""
        casts = {each.slot.name: word for word, each in self._task.names.items() if isinstance(each, Cast) and each.slot}
        for name, slot in self._task.results:
            if name not in live and slot.name in casts:
                yield ast.Assign([ast.Name(name, ast.Store())], ast.Call(_load(casts[slot.name]), [ast.Constant(0)], []))

    def _valued(self, statement: ast.stmt) -> ast.stmt:
        """An assignment, or the decision of a loop or branch, of what is attempted: 0 where that fails."""
        match statement:
            case ast.If(orelse=[]):
                statement.body = list(map(self._valued, statement.body))
            case ast.Assign(value=value):
                statement.value = self._value(value)
            case ast.Expr(value=ast.Call(args=[*_, value]) as call) if (
                self._names.get(called_name(call)) is intrinsics.set_condition
            ):
                call.args[-1] = self._value(value)
            case ast.Expr(value=value):
                statement.value = self._value(value)
            case _:
                raise AssertionError(f"a small task does {ast.unparse(statement)}")
        return statement

    def _axis(self, axis: Axis) -> Axis:
        if not axis.on_device:
            return axis
        count = self._value(axis.count)
        for node in nodes_of(count):
            place_at(node, axis.span)
        return replace(axis, count=count)

    def _value(self, value: ast.expr) -> ast.expr:
        return self._attempt([ast.Return(value)], ast.Constant(0), _used([*self._task.body, value]))

    def _attempt(self, body: list[ast.stmt], otherwise: ast.expr, inside: set[str]) -> ast.expr:
        """A call of a function of ``body``, which takes what it reads; ``inside`` are locals of the task that it may read."""
        body = [ast.If(self._failed(ast.Lt()), [ast.Raise(_load("_Left"), None)], []), *body]
        used = _used(body)
        key = key_of(self._task, self._order)
        head: list[ast.stmt] = [ast.Assign([ast.Name(KEY, ast.Store())], key)] if KEY in used else []
        used |= _used(head)
        parameters = sorted(used & ((self._outside | inside) - self._names.keys() - {KEY}))
        name = f"_attempted{len(self._names)}"
        tree = function_tree(name, parameters, [*head, *body])
        for node in nodes_of(tree):
            place_at(node, self._task.span)
        self._names[name] = Function(name, tree, dict(self._names), self._task.span.file)
        return ast.Call(_load("_attempt"), [_load(name), otherwise, *map(_load, parameters)], [])

    def _failed(self, compared: ast.cmpop) -> ast.expr:
        """Compares the least key with the task's first: it is less where an earlier task has failed.

        Iterations of this one that fail end no others, so that the first one is told.
        """
        place = self._exits.first.index + 1
        # A task of one thread may run in the kernel of the loop before it.
        text = f"{SLOTS}[{place}]" if self._task.axes else f"_least_key({SLOTS}, {place})"
        return ast.Compare(ast.parse(text, mode="eval").body, [compared], [ast.Constant(self._order << KEY_BITS)])


class _Continue:
    """`continue` of the loop whose iteration became a function returns from it; that of an inner loop stays."""

    def __init__(self, result: ast.expr) -> None:
        self._result = result

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [self._one(statement) for statement in statements]

    def _one(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, ast.Continue):
            return ast.copy_location(ast.Return(copied(self._result)), node)
        # The `else` of an inner loop belongs to the outer one again.
        for field in ("orelse",) if isinstance(node, ast.For | ast.While) else ("body", "orelse"):
            if isinstance(getattr(node, field, None), list):
                setattr(node, field, self.block(getattr(node, field)))
        return node


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
