"""Which stores of a loop's body go behind which loads, and which stay where they were."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import qgraph
from qgraph.lowering.codegen.cuda_codegen import Kernels
from qgraph.lowering.codegen.purity import Impure, purity_analysis
from qgraph.lowering.codegen.store_sinking import with_stores_last

A, B, C, D = (np.zeros(8) for _ in range(4))


def task_of(function, *args):
    plan = qgraph.kernel(function).plan(*args)
    return plan.program, plan.nodes[-1].task


def rewritten(function, *args):
    """The body as a kernel has it; None where nothing moves."""
    program, task = task_of(function, *args)
    new = with_stores_last(program, task, task.effects.writes)
    return None if new is task else [ast.unparse(statement) for statement in new.body]


def two_fields(a, b, c):
    for i in range(8):
        a[i] -= c[i]
        b[i] += 2 * c[i]


def test_loads_come_first():
    assert rewritten(two_fields, A, B, C) == [
        "_stored0 = a[i] - c[i]",
        "_stored1 = b[i] + 2 * c[i]",
        "a[i] = _stored0",
        "b[i] = _stored1",
    ]


def test_lines_stay_those_of_the_user():
    program, task = task_of(two_fields, A, B, C)
    new = with_stores_last(program, task, task.effects.writes)
    first, second = (statement.lineno for statement in task.body)
    assert [statement.lineno for statement in new.body] == [first, second, first, second]
    for statement in new.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.expr, ast.stmt)):
                assert node.lineno == statement.lineno


def test_the_body_as_written_is_left_alone():
    program, task = task_of(two_fields, A, B, C)
    before = [ast.dump(statement) for statement in task.body]
    with_stores_last(program, task, task.effects.writes)
    assert [ast.dump(statement) for statement in task.body] == before


def names_between(a, b, c):
    for i in range(8):
        k = i + 1
        a[k] = c[i]
        old = b[i]
        b[i] = c[i] * math.sqrt(old)
        c[i] = max(old, 0.0)


def test_names_and_functions_of_numbers_stand_between():
    assert rewritten(names_between, A, B, C)[1:] == [
        "_stored0 = c[i]",
        "old = b[i]",
        "_stored1 = c[i] * math_sqrt(old)",
        "_stored2 = max(old, 0.0)",
        "a[k] = _stored0",
        "b[i] = _stored1",
        "c[i] = _stored2",
    ]


def nothing_behind(a, b, c):
    for i in range(8):
        a[i] = b[i]
        c[i] = 1.0


def constant_behind(a, b, c):
    for i in range(8):
        a[i] = b[i]
        c[i] = b[i + 1]


def only_one(a, b, c):
    for i in range(8):
        a[i] += b[i] + c[i]


def read_again(a, b, c):
    for i in range(8):
        a[i] = b[i]
        c[i] += a[i]


def updated_again(a, b, c):
    for i in range(8):
        a[i] = b[i]
        a[i] += c[i]
        c[i] = 0.0


def index_assigned(a, b, c):
    for i in range(8):
        k = i
        a[k] = b[i]
        k = 7 - k
        b[i] += c[k]


def place_read(a, b, c):
    for i in qgraph.parallel(range(8)):
        a[int(b[i])] = 1.0
        c[i] += b[i]


def collision(a, b, c):
    for i in range(8):
        a[i] = b[i]
        qgraph.atomic_add(c, 0, b[i])
        b[i] += 1


@qgraph.func
def stores(c, i):
    c[i] = 5.0
    return 1.0


def stores_in_a_function(a, b, c):
    for i in range(8):
        a[i] = 1.0
        b[i] += stores(c, i)


def rows(a, b, c):
    for i in qgraph.parallel(range(2)):
        r = a[i]
        b[i, 0] = 1.0
        r[0] += c[i, 1]


def part(a, b, c):
    for i in qgraph.parallel(range(2)):
        b[i, 0] = 1.0
        a[i] = c[0, 0]
        c[i, 1] += 1


def divided(a, b, c):
    for i in range(8):
        k = i // 2
        a[i] = 1.0
        c[i] = 8 // k + b[i]
        b[i] = 0.0


@pytest.mark.parametrize(
    "function",
    [
        *(nothing_behind, constant_behind, only_one, read_again, updated_again, index_assigned),
        *(place_read, collision, stores_in_a_function),
    ],
)
def test_what_stays(function):
    assert rewritten(function, A, B, C) is None


def test_an_index_that_the_value_assigns():
    program, task = task_of(two_fields, A, B, C)
    body = ast.parse("a[k] += (k := i)\nb[i] += c[i]").body
    assert purity_analysis(program, replace(task, body=tuple(body))).numbers >= {"k"}
    new = replace(task, body=tuple(body))
    assert with_stores_last(program, new, task.effects.writes) is new


@pytest.mark.parametrize("function", [rows, part])
def test_parts_of_arrays_stay(function):
    x = np.zeros((2, 2))
    assert rewritten(function, x, x.copy(), x.copy()) is None


def test_division_of_integers_between():
    # In an iteration of a parallel loop it notes nothing.
    assert rewritten(divided, A, B, C)[-2:] == ["c[i] = _stored1", "b[i] = _stored2"]


@pytest.mark.parametrize(("a", "b", "moves"), [(A, B, True), (A, A, False)])
def test_arrays_that_share_memory(a, b, moves):
    def shared(a, b, c):
        for i in qgraph.parallel(range(8)):
            a[i] = c[i]
            b[i] += c[i]

    assert (rewritten(shared, a, b, C) is not None) == moves


def test_arrays_that_change_places():
    def swapped(a, b, c):
        for _ in qgraph.serial(range(3)):
            for i in range(8):
                a[i] = c[i]
                b[i] += c[i]
            a, b = b, a

    plan = qgraph.kernel(swapped).plan(A, B, C)
    (task,) = (task for task in plan.program.tasks() if task.role == "loop")
    assert with_stores_last(plan.program, task, task.effects.writes) is task
    first, second = task.selections
    apart = replace(task, selections=(replace(first, leaves=("a",)), replace(second, leaves=("b",))))
    assert with_stores_last(plan.program, apart, task.effects.writes) is not apart


def stores_to_one_array(a, b, c):
    for i in range(8):
        a[0, i] = c[i]
        a[1, i] = c[i] + b[i]
        b[i] = 0.0


def test_stores_to_one_array_keep_their_order():
    assert rewritten(stores_to_one_array, np.zeros((2, 8)), B, C)[-3:] == [
        "a[0, i] = _stored0",
        "a[1, i] = _stored1",
        "b[i] = _stored2",
    ]


def blocks(a, b, c):
    for i in range(8):
        a[i] = c[i]
        if c[i] > 0:
            a[i] -= c[i]
            b[i] += c[i]
        else:
            b[i] = 0.0
        for k in range(2):
            a[i] += k
            b[i] -= k
            if k > c[i]:
                break
        c[i] += b[i]


def test_blocks_are_runs_of_their_own():
    first, branch, loop, last = rewritten(blocks, A, B, C)
    assert (first, last) == ("a[i] = c[i]", "c[i] += b[i]")
    assert [line.strip() for line in branch.split("\n")] == [
        "if c[i] > 0:",
        *("_stored0 = a[i] - c[i]", "_stored1 = b[i] + c[i]", "a[i] = _stored0", "b[i] = _stored1"),
        "else:",
        "b[i] = 0.0",
    ]
    assert [line.strip() for line in loop.split("\n")[1:]] == [
        *("_stored2 = a[i] + k", "_stored3 = b[i] - k", "a[i] = _stored2", "b[i] = _stored3"),
        "if k > c[i]:",
        "break",
    ]


def leaves_early(a, b, c):
    for i in range(8):
        a[i] = 1.0
        if c[i] > 0:
            continue
        b[i] += c[i]


def test_what_may_leave_ends_a_run():
    assert rewritten(leaves_early, A, B, C) is None


@qgraph.func
def slope(x, i):
    left = x[i]
    for k in range(2):
        left += x[i + k]
    return x[i + 1] - left


@qgraph.func
def prints(x, i):
    print(i)
    return x[i]


@qgraph.func
def whole(x):
    return x


def calls(a, b, c):
    for i in range(6):
        a[i] = c[i]
        b[i] += slope(c, i)


def calls_with_the_same(a, b, c):
    for i in qgraph.parallel(range(6)):
        a[i] = c[i]
        b[i] += slope(a, i)


def calls_what_prints(a, b, c):
    for i in range(6):
        a[i] = c[i]
        b[i] += prints(c, i)


def calls_what_gives_an_array(a, b, c):
    for i in qgraph.parallel(range(6)):
        x = whole(c)
        b[i] = x[i]
        x[i] = 2.0
        a[i] += b[0]


@pytest.mark.parametrize(
    ("function", "moves"),
    [(calls, True), (calls_with_the_same, False), (calls_what_prints, False), (calls_what_gives_an_array, False)],
)
def test_functions_that_only_read_may_stand_between(function, moves):
    assert (rewritten(function, A, B, C) is not None) == moves


def test_statements_that_may_do_more():
    program, task = task_of(two_fields, A, B, C)
    looking = purity_analysis(program, task)
    assert looking.inside(ast.parse("k = a[i]\nif k > 0:\n    k += b[i]\nreturn k").body) == {"a", "b"}
    for text in ("assert a[i] > 0", "k = a[i]\ndel k", "with i: pass", "c[i] = a[i]", "k = a", "k, *n = i", "i.real = 0"):
        with pytest.raises(Impure):
            looking.inside(ast.parse(text).body)


def many(a, b, c):
    for i in range(8):
        for k in qgraph.static(range(20)):
            a[k, i] = b[i]
        b[i] = c[i]


def test_so_many_values_wait():
    lines = rewritten(many, np.zeros((20, 8)), B, C)
    waiting = most = 0
    for line in lines:
        waiting += 1 if line.startswith("_stored") else -1 if "_stored" in line else 0
        most = max(most, waiting)
    assert (most, waiting) == (16, 0)


def accumulates(a, b, c):
    s = 0.0
    for i in range(8):
        a[i] -= c[i]
        b[i] += c[i]
        s += c[i]
    c[0] = s


def serial(a, b, c):
    for i in qgraph.serial(range(8)):
        a[i] -= c[i]
        b[i] += c[i]


@pytest.mark.parametrize(("function", "waits"), [(accumulates, True), (serial, False)])
def test_only_loops_of_many_threads(function, waits):
    plan = qgraph.kernel(function).plan(A, B, C)
    dtypes = dict.fromkeys((slot.name for slot in plan.program.slots), "float64")
    sources = [next(Kernels(plan, None, dtypes).of(node))[1].source for node in plan.nodes if node.task is not None]
    assert any("_stored" in source for source in sources) == waits


def test_loops_side_by_side_have_names_of_their_own():
    def apart(a, b, c, d, e):
        for i in range(8):
            a[i] -= e[i]
            b[i] += e[i]
        for i in range(7):
            c[i] -= e[i]
            d[i] += e[i]

    plan = qgraph.kernel(fuse=True)(apart).plan(A, B, C, D, np.ones(8))
    (node,) = plan.nodes
    assert node.beside
    source = next(Kernels(plan, None, {}).of(node))[1].source
    assert len(set(re.findall(r"_stored\w+", source))) == 4


def numbers(a, b, n):
    for i in range(8):
        t = (i, i + 1)
        u, v = t
        r = b[i]
        for w in range(n):
            u += w
        p = a[i, 0] + t[1] + u + v + r[0]
        a[i, 1] = p


def test_which_names_are_numbers():
    program, task = task_of(numbers, np.zeros((8, 2)), np.zeros((8, 2)), 3)
    assert purity_analysis(program, task).numbers >= {"i", "t", "u", "v", "w", "n"}
    assert not purity_analysis(program, task).numbers & {"a", "b", "r", "p"}


def test_stores_are_last_in_the_ptx():
    (text,) = qgraph.kernel(two_fields).ptx(*(np.zeros(8, np.float32) for _ in range(3))).values()
    found = [re.findall(r"\b(ld|st)\.global", block) for block in re.split(r"\$L__BB0_\d+:", text)]
    *_, single = (kinds for kinds in found if kinds)
    assert single.index("st") == len(single) - 2
