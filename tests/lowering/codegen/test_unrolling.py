"""Which device loops are unrolled, with which edges, and what guards their kernels."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import numpy as np
import pytest

import qgraph
from qgraph.ir.artifacts import COPIED, ENDING
from qgraph.lowering.cache.key_texts import plan_text
from qgraph.lowering.compile import compile_ptx
from qgraph.lowering.plan_builder import build_plan
from qgraph.lowering.ptx import link
from qgraph.operations import intrinsics
from qgraph.options import Options
from qgraph.runtime.executors.unrolled import cost
from tests.conftest import THOROUGH
from tests.processes import agrees_on_the_simulator


def body_of(plan, unrolling):
    (region,) = plan.nodes[unrolling.node].bodies
    return plan.regions[region].nodes


def one(x, n):
    while qgraph.graph_do_while(n):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + 1
        n[()] -= 1


def filling(x, y, n):
    while qgraph.graph_do_while(n):
        x[:] = 0.0
        for i in range(x.shape[0]):
            y[i] = x[i]
        n[()] -= 1
    y[:] = 0.0


def deciding(x, tol):
    err = 1.0
    while err > tol:
        err = 0.0
        for i in range(x.shape[0]):
            err += x[i]


def nested(x, y, n):
    for t in qgraph.serial(range(3)):
        s = 0
        while s < n:
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + s
            s += 1
        for i in range(y.shape[0]):
            y[i] = y[i] * 2 + x[i]


X, Y, N = np.ones(4), np.ones(4), np.array(3)


def chain_of(count, tmp_path):
    """A do-while with a body of ``count`` loops that depend on each other, and a counter."""
    loops = "".join(
        "        for i in range(x.shape[0]):\n            x[i] = y[i] + 1\n"
        if number % 2
        else "        for i in range(x.shape[0]):\n            y[i] = x[x.shape[0] - 1 - i] + 2\n"
        for number in range(count)
    )
    text = f"import qgraph\ndef chain(x, y, n):\n    while qgraph.graph_do_while(n):\n{loops}        n[()] -= 1\n"
    file = tmp_path / f"chain{count}.py"
    file.write_text(text)
    names = {}
    exec(compile(text, str(file), "exec"), names)
    return qgraph.kernel(names["chain"])


@pytest.mark.parametrize(("loops", "copies"), [(1, 8), (4, 8), (11, 8), (12, 4), (23, 4), (24, 1)])
def test_long_bodies_have_no_copies(loops, copies, tmp_path):
    plan = chain_of(loops, tmp_path).plan(X, Y, N)
    assert [node.copies for node in plan.nodes if node.kind == "while"] == [copies]
    if copies > 1:
        assert f"unrolled {copies} times while it runs long" in str(plan)
    else:
        assert "not unrolled: its body has more than 24 nodes" in str(plan)
        assert plan.unrolled == ()
        # Behind it is the word that stops the loop.
        assert plan.stop == plan.program.scratch_words < plan.scratch_words


def test_a_loop_around_a_loop_is_not_unrolled():
    kernel = qgraph.kernel(nested)
    plan = kernel.plan(X, Y, 3)
    assert [node.copies for node in plan.nodes if node.kind == "while"] == [1, 8]
    for text in (str(plan), str(kernel.explain(X, Y, 3))):
        assert text.count("not unrolled: there is a loop or branch in it") == 1
        assert text.count("unrolled 8 times while it runs long, by the device or by a host that drives it") == 1


def test_a_loop_around_a_branch_is_not_unrolled():
    def branching(x, n):
        while qgraph.graph_do_while(n):
            if n[()] > 3:
                for i in range(x.shape[0]):
                    x[i] = x[i] * 3
            n[()] -= 1

    plan = qgraph.kernel(branching).plan(X, N)
    assert plan.unrolled == ()


def test_a_graph_that_takes_memory_is_not_unrolled():
    def allocating(x, n):
        t = qgraph.empty(x.shape[0], x.dtype, alloc=True)
        while qgraph.graph_do_while(n):
            for i in range(x.shape[0]):
                t[i] = x[i]
            for i in range(x.shape[0]):
                x[i] = t[i]
            n[()] -= 1

    plan = qgraph.kernel(allocating).plan(X, N)
    assert "not unrolled: the graph takes memory itself" in str(plan)
    assert plan.unrolled == ()


def test_fills_in_a_body_are_kernels():
    plan = qgraph.kernel(filling).plan(X, Y, N)
    inside = body_of(plan, plan.unrolled[0])
    assert {plan.nodes[index].kind for index in inside} == {"kernel"}
    assert [node.kind for node in plan.nodes if node.region == 0] == ["while", "memset"]


def test_words_of_scratch_lie_behind_those_of_the_program():
    plan = qgraph.kernel(nested).plan(X, Y, 3)
    (unrolling,) = plan.unrolled
    taken = {unrolling.turns, *range(unrolling.guards, unrolling.guards + unrolling.copies + 1)}
    assert len(taken) == unrolling.copies + 2
    assert min(taken) >= plan.program.scratch_words
    assert max(taken) < plan.scratch_words
    # As complex128.
    assert plan.scratch_words % 2 == 0
    assert set(plan.guards) == set(body_of(plan, unrolling))


def test_edges_between_copies():
    plan = qgraph.kernel(one).plan(X, N)
    (unrolling,) = plan.unrolled
    loop, counter = body_of(plan, unrolling)
    # The loop waits for itself, and for the condition, which waits for nothing but itself.
    assert not [edge for edge in plan.edges if loop in edge]
    assert set(unrolling.carried) == {(loop, loop), (counter, loop), (counter, counter)}


def test_edges_between_copies_that_follow_from_others_are_left_out():
    plan = qgraph.kernel(filling).plan(X, Y, N)
    (unrolling,) = plan.unrolled
    fill, loop, counter = body_of(plan, unrolling)
    assert (fill, loop) in plan.edges
    assert set(unrolling.carried) == {(loop, fill), (counter, fill), (counter, counter)}


def test_copies_of_a_row_are_one_row():
    def scattering(x, y, z, n):
        for _ in qgraph.serial(range(n)):
            for i in range(y.shape[0]):
                y[i] = 0.0
            for i in range(x.shape[0]):
                y[i % 4] += x[i]
            for i in range(z.shape[0]):
                z[i] += 1.0

    plan = qgraph.kernel(scattering).plan(X, Y, X + 1, 3)
    (unrolling,) = plan.unrolled
    fill, scatter, count, _ = body_of(plan, unrolling)
    # Nothing that it touches orders the last loop with others.
    assert {edge for edge in plan.edges if fill in edge or count in edge} == {(fill, scatter)}
    assert set(unrolling.counted.carried) == {(scatter, fill), (count, count)}

    def moving(x, y, z, n):
        for _ in qgraph.serial(range(n)):
            for i in range(y.shape[0]):
                y[i] = 0.0
            for i in range(x.shape[0]):
                y[i % 4] += x[i]
            for i in range(z.shape[0]):
                z[i] += y[i]
            for i in range(z.shape[0]):
                x[i] += z[i]

    plan = qgraph.kernel(moving).plan(X, Y, X + 1, 3)
    (unrolling,) = plan.unrolled
    fill, *_, last, _ = body_of(plan, unrolling)
    assert unrolling.counted.carried == ((last, fill),)


@pytest.mark.parametrize("loops", [1, 2, 4])
def test_who_looks_at_the_guard_before_it_waits(loops, tmp_path):
    plan = chain_of(loops, tmp_path).plan(X, Y, N)
    (unrolling,) = plan.unrolled
    first, *others, counter = body_of(plan, unrolling)
    # The counter is in no order with the loops: nobody in its copy waits for it.
    assert unrolling.followers == set(others)
    assert unrolling.leaders == ({first} if others else set())
    assert {(counter, first), (counter, counter)} <= set(unrolling.carried)


def test_the_key_of_a_plan_tells_how_it_is_unrolled():
    plan = qgraph.kernel(one).plan(X, N)
    other = build_plan(plan.program)
    assert plan_text(plan) == plan_text(other)
    fewer = [replace(node, copies=4) if node.copies > 1 else node for node in plan.nodes]
    assert plan_text(replace(plan, nodes=tuple(fewer))) != plan_text(plan)


# --- loops that count ---------------------------------------------------------------------------------------------------


def steps_of(count, tmp_path):
    """A counted loop with a body of ``count`` loops that depend on each other."""
    lines = [f"            {a}[i] = {b}[x.shape[0] - 1 - i] + 1\n" for a, b in ("xy", "yx")]
    loops = "".join(f"        for i in range(x.shape[0]):\n{lines[number % 2]}" for number in range(count))
    file = tmp_path / f"steps{count}.py"
    file.write_text(f"import qgraph\ndef steps(x, y, n):\n    for _ in qgraph.serial(range(n)):\n{loops}")
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return qgraph.kernel(names["steps"])


@pytest.mark.parametrize(
    ("loops", "copies", "whole", "few"),
    [(1, 64, 64, 8), (2, 64, 64, 8), (3, 16, 32, 8), (6, 16, 32, 8), (7, 8, 16, 8), (13, 4, 4, 4)],
)
def test_how_many_copies_are_counted_at_once(loops, copies, whole, few, tmp_path):
    plan = steps_of(loops, tmp_path).plan(X, Y, 3)
    (unrolling,) = plan.unrolled
    counted = unrolling.counted
    assert (counted.copies, counted.whole, counted.few) == (copies, whole, few)
    assert (counted.period, counted.arrays) == (1, ())
    shorter = f", {few} times where it ends earlier" if few < copies else ""
    text = f"unrolled {copies} times while it runs long{shorter}, and counted once in so many; on large grids {whole} times"
    assert text in str(plan)
    assert f"more iterations are left, then {few}; by a host {unrolling.copies} times" in str(plan)
    assert all(counted.node not in edge for edge in counted.carried)
    # Every copy has a number of its own, whatever graph it is in.
    numbers = [number for form in ("many", "whole", "large", "few", "plain") for number in unrolling.counted_numbers(form)]
    assert [*range(unrolling.first_counted), *numbers] == list(unrolling.numbers)
    assert unrolling.place(unrolling.first_counted + copies) == 0
    assert unrolling.place(unrolling.first_counted + copies - 1) == copies - 1
    taken = {unrolling.spread + 16 * line for line in range(64)}
    assert not taken & {unrolling.turns, *range(unrolling.guards, unrolling.guards + unrolling.copies + 1)}
    assert 0 < plan.program.scratch_words <= unrolling.turns
    assert max(taken) < plan.scratch_words


@pytest.mark.parametrize(
    ("loops", "iterations", "best"),
    [
        *((1, n, form) for n, form in ((1, "plain"), (2, "plain"), (3, "few"), (32, "few"), (33, "many"), (1000, "many"))),
        *((3, n, form) for n, form in ((3, "plain"), (4, "few"), (8, "few"), (9, "many"), (20, "few"), (32, "many"))),
        *((10, n, form) for n, form in ((1, "plain"), (5, "plain"), (6, "many"), (8, "many"), (12, "many"), (100, "many"))),
    ],
)
def test_which_graph_of_small_grids_takes_the_shortest(loops, iterations, best, tmp_path):
    # As it was measured: see `_TURN` in plan.py.
    (unrolling,) = steps_of(loops, tmp_path).plan(X, Y, 3).unrolled
    assert unrolling.kernels == loops
    assert min(("plain", "many", "few"), key=lambda form: cost([unrolling.turn(form)], [iterations])) == best


def test_blocks_are_told_how_many_iterations_are_left():
    words = np.full(16 + 64 * 16 + 3, -5)
    for number, told in ((7, 7), (0, 0), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1), (2**40, 2**31 - 1)):
        intrinsics.spread(words, 19, number)
        assert set(words[19::16][:64]) == {told}
        assert intrinsics.peek_spread(words, 19 + 16 * 5, 1) == told
    assert (words == -5).sum() == len(words) - 64
    assert intrinsics.peek_spread(words, 0, 1) == 2**31 - 1
    assert intrinsics.peek_spread(words, 19, 0) == -1


def test_they_are_told_by_stores_in_a_row(tmp_path):
    ptx = steps_of(1, tmp_path).ptx(X, Y, 3)
    for name in ("_enter", "_condition"):
        (text,) = (code for entry, code in ptx.items() if entry.endswith(name))
        places = [int(found) for found in re.findall(r"st\.global\.u64 \t\[%rd\d+\+(\d+)\]", text)]
        lines = [place for place in places if {place + 128, place - 128} & {*places}]
        assert len(lines) == 64
        assert len({place % 128 for place in lines}) == 1
        assert "2147483647" in text


def breaking(x, n):
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] > 5:
            break


def summing(x, n):
    total = 0.0
    for _ in qgraph.serial(range(n)):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
    return total


def from_anywhere(x, y, n):
    for _ in qgraph.serial(range(3)):
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                x[i] = y[i] + 1
            x, y = y, x


def at_times(x, y, n):
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1
        y[0] = n
        if n > 3:
            x, y = y, x


def product(x, y, n):
    for j, k in qgraph.serial(qgraph.ndrange(n, 3)):
        for i in range(x.shape[0]):
            x[i] += j * k


def printing(x, y, n):
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            print(x[i])
        for i in range(x.shape[0]):
            y[i] += x[i]


@pytest.mark.parametrize("function", [breaking, summing, from_anywhere, at_times, product, printing])
def test_what_is_not_counted(function):
    args = (X, 3) if function in (breaking, summing) else (X, Y, 3)
    plan = qgraph.kernel(function).plan(*args)
    assert all(each.counted is None for each in plan.unrolled)


def test_statements_beside_names_that_change_places_run_in_each_iteration():
    def marking(x, y, n):
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                y[i] = x[i] + 1
            y[0] = 7
            x, y = y, x

    plan = qgraph.kernel(marking).plan(X, Y, 3)
    (unrolling,) = plan.unrolled
    assert (unrolling.counted.arrays, unrolling.counted.period) == ((), 1)
    (marks,) = [
        node for node in plan.nodes if node.task is not None and {"x", "y"} <= node.task.effects.writes and not node.task.axes
    ]
    assert marks.index != unrolling.counted.node


@pytest.mark.needs("compiler")
def test_a_name_that_is_stored_through_is_no_constant():
    def trading(x, y, n):
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                y[i] = x[i] + 1
            x, y = y, x

    def in_place(x, y, n):
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                y[i] += x[i]
            for i in range(x.shape[0]):
                x[i] += y[i]
            x, y = y, x

    codes, texts = compile_ptx(qgraph.kernel(trading).plan(X, Y, 3), (9, 0), Options())
    (name,) = (each for each in codes if each.endswith(COPIED))
    (x, leaves), (y, _) = codes[name].arrays
    assert leaves == ("x", "y")
    assert x in codes[name].constant
    assert y not in codes[name].constant
    assert "ld.global.nc" in texts[name]
    assert "ld.global.nc" not in texts[name.removesuffix(COPIED)]
    # Joined, both names are stored through.
    codes, _ = compile_ptx(qgraph.kernel(fuse=True)(in_place).plan(X, Y, 3), (9, 0), Options())
    (name,) = (each for each in codes if each.endswith(COPIED))
    assert len(codes[name].arrays) == 2
    assert not codes[name].constant & {name for name, _ in codes[name].arrays}


# --- code ---------------------------------------------------------------------------------------------------------------


def sources(kernel, *args):
    codes, _ = compile_ptx(kernel.plan(*args), (9, 0), Options())
    return {name: code.source for name, code in codes.items()}


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(("function", "args"), [(one, (X, N)), (deciding, (X, 0.5)), (filling, (X, Y, N))])
def test_the_guard_is_looked_at_first(function, args):
    kernel = qgraph.kernel(function)
    plan = kernel.plan(*args)
    guarded = {plan.nodes[index].task.name: each for index, each in plan.guards.items()}
    following = {plan.nodes[index].task.name for each in plan.unrolled for index in each.followers}
    for name, source in sources(kernel, *args).items():
        statements = ast.parse(source).body[0].body
        tests = [number for number, each in enumerate(statements) if ast.unparse(each).startswith("if _guard > 0")]
        if name not in guarded:
            assert "_guard" not in source
            continue
        before = [ast.unparse(each) for each in statements[: tests[0]]]
        # Who waits for another one in the same copy looks at it even before that.
        assert ("_going = _peek(_slots, _guard)" in before[:1]) == (name in following)
        assert all(each.startswith("_turn = _slots[") for each in before[name in following :])
        assert len(before) <= 2
        assert "return" in ast.unparse(statements[tests[0]])


@pytest.mark.needs("compiler")
def test_guarded_kernels_wait_and_link():
    texts = []
    for function, args in ((one, (X, N)), (deciding, (X, 0.5)), (filling, (X, Y, N))):
        texts += qgraph.kernel(function).ptx(*args).values()
    for text in texts:
        body = text[text.index(".entry") :]
        before, _, after = body.partition("griddepcontrol.wait")
        assert "global." not in before.replace("cvta.to.global.", "")
        assert "ret;" in after
    assert link.link(list(dict.fromkeys(texts)), (9, 0), device_runtime=link.device_runtime_path() is not None)


@pytest.mark.needs("compiler")
def test_one_thread_passes_the_end_on():
    source = sources(qgraph.kernel(deciding), X, 0.5)
    (found,) = [text for name, text in source.items() if "_turns" in text and not name.endswith(ENDING)]
    assert re.search(r"if _cuda\.grid\(1\) == 0:\s+_slots\[_next\] = 0\s+return", found)


@pytest.mark.parametrize("grid", [[], pytest.param(["large"], marks=THOROUGH)])
@pytest.mark.needs("compiler")
def test_on_the_simulator_copies_do_what_plain_python_does(grid):
    agrees_on_the_simulator("tests.lowering.unrolled_on_simulator", *grid)
