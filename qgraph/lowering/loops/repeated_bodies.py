"""Repeated bodies: counted loops with recorded nodes do several iterations a turn of the while node, then the rest one by one.

A turn costs about 3 us, which is a fifth of a matrix product. Copies of a body of kernels alone are guarded, and unrolled later
(``codegen/unrolling.py``); nodes that others recorded look at no guard, so here only whole turns are repeated.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from qgraph.ir.program import MANY, Branch, Counter, Effects, Loop, NodeStatement, Program, Statement, Task, TaskStatement
from qgraph.lowering.codegen.generated_names import SLOTS, Statements, generated, place_at, walk
from qgraph.source import copied

# How often bodies of so many statements at most are repeated: kernels are compiled for each copy, recorded nodes are not.
_TIMES = ((1, 16), (6, 8), (12, 4))
# And a short recorded node alone. What is left then is done a few at a time, before the last are done one by one.
_MANY, _FEW = 32, 5


def repeat_bodies(program: Program) -> Program:
    """``program``, each of whose counted loops with recorded nodes alone or beside kernels is two loops."""
    return replace(program, body=_repeated(program.body, {task.name for task in program.tasks()}))


def _repeated(statements: Sequence[Statement], taken: set[str]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in statements:
        match statement:
            case Loop():
                loop = replace(statement, body=_repeated(statement.body, taken))
                times = _times(loop)
                if times == _MANY:
                    turns, loop = in_two(loop, times, _copies(loop, times, taken))
                    found, times = [*found, turns], _FEW
                found += in_two(loop, times, _copies(loop, times, taken)) if times else (loop,)
            case Branch():
                found.append(replace(statement, regions=tuple(_repeated(each, taken) for each in statement.regions)))
            case _:
                found.append(statement)
    return tuple(found)


def _times(loop: Loop) -> int:
    """How many iterations a turn does; 0 where each one must see the loop's variables, or decide."""
    if loop.counter is None or loop.enter is None:
        return 0
    tasks = [each.task for each in loop.body if isinstance(each, TaskStatement)]
    recorded = [each for each in loop.body if isinstance(each, NodeStatement)]
    moving = loop.condition.effects.writes
    plain = len(tasks) + len(recorded) == len(loop.body)
    if not plain or not recorded or any(task.effects.touched & moving for task in tasks):
        return 0
    alone = len(loop.body) == 1 and recorded[0].is_short
    times = _MANY if alone else next((times for most, times in _TIMES if len(loop.body) <= most), 0)
    while loop.counter.count is not None and loop.counter.count < 2 * times:
        times //= 2
    return times if times > 1 else 0


def _copies(loop: Loop, times: int, taken: set[str]) -> tuple[Statement, ...]:
    return tuple(_copy(each, number, taken) for number in range(times) for each in loop.body)


def in_two(loop: Loop, times: int, body: tuple[Statement, ...]) -> tuple[Loop, Loop]:
    """A loop whose ``body`` does ``times`` iterations while more are left, and one for what is left then, at least one."""
    return in_turns(loop, replace(loop, body=body, times=times), str(times), times)


def left_of(counter: Counter) -> str:
    """The code of how many iterations are left, the one that runs among them."""
    return f"{SLOTS.name}[{counter.left.index}]"


def in_turns(loop: Loop, turns: Loop, many: str, most: int, also: str = "1") -> tuple[Loop, Loop]:
    """``turns``, and ``loop`` for what is left then, at least one.

    While more than ``most`` iterations are left the body of ``turns`` does ``many`` of them, an expression of how many those
    are. It runs where ``also``, a host value, is not 0.
    """
    counter, enter = loop.counter, loop.enter
    assert isinstance(counter, Counter)
    assert enter is not None
    left = left_of(counter)
    skipping = generated(f"{MANY} = {many}", "skip", skip=counter.skip)
    condition = loop.condition
    # A loop may be what is left of another one.
    words = f"{condition.name}_{most}"
    looking = Effects(frozenset({counter.left.name}), frozenset({loop.condition_slot.name}))
    turns = replace(
        turns,
        enter=deciding(enter, enter.name, enter.body[:-1], f"{left} > {most}{'' if also == '1' else f' and {also} != 0'}"),
        test_first=True,
        condition=deciding(condition, f"{words}_many", skipping, f"{left} > {most}"),
        counter=None,
    )
    rest = replace(deciding(condition, f"{words}_rest", [], f"{left} > 0"), role="enter", effects=looking)
    return turns, replace(loop, enter=rest)


def deciding(task: Task, name: str, first: Statements, test: str) -> Task:
    """``task`` with other statements before its last one, which decides by ``test``."""
    (last,) = copied([task.body[-1]])
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    last.value.args[-1] = ast.parse(f"1 if {test} else 0", mode="eval").body
    body = (*copied(list(first)), last)
    for node in walk(body):
        place_at(node, task.span)
    return replace(task, name=name, body=body)


def _copy(statement: Statement, number: int, taken: set[str]) -> Statement:
    """The statement in iteration ``number`` of a turn. Copies of a kernel have names: not all get the same epilogues.

    No other task has the name, which is that of its code: two on one line are ``k_L3`` and ``k_L3_1``. It is then ``taken``.
    """
    if not isinstance(statement, TaskStatement):
        return statement
    task = statement.task
    name = f"{task.name}_{number}"
    while name in taken:
        name += "_copy"
    taken.add(name)
    return TaskStatement(replace(task, name=name))
