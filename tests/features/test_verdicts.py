"""The three verdicts: independent, dependent (refused), unknown (assumed independent), and the author's word."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph

POISON = 77


def loops_of(plan):
    return [task for task in plan.tasks if task.role == "loop"]


# --- independent --------------------------------------------------------------------------------------------------------


def own_element(x, y, m, k):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2 + y[i]
    for i in range(1, x.shape[0] - 1):
        y[i] = x[i - 1] + x[i + 1]
    for i in range(x.shape[0] - 1):
        x[i + 1] = y[i]
    for i in range(x.shape[0] // 2):
        x[2 * i] = 1
    for i, j in qgraph.ndrange(m.shape[0], m.shape[1]):
        m[i, j] = i - j
    for i, j in qgraph.ndrange(m.shape[1], m.shape[0]):
        m[j, i] += 1
    for i in range(m.shape[0]):
        for j in range(1, m.shape[1]):
            m[i, j] += m[i, j - 1]
    for j in range(m.shape[1]):
        for i in range(1, m.shape[0]):
            m[i, j] += m[i - 1, j]
    for i in range(x.shape[0] - 1, -1, -1):
        x[x.shape[0] - 1 - i] = i
    for I in qgraph.ndrange(*m.shape):
        m[I] = m[I] * 2
    for i in range(k, x.shape[0]):
        x[i - k] = y[i]
    for i in range(m.shape[0]):
        m[i, 0] = 5
        m[i, 1] = m[i, 0] + 1
    for i in range(m.shape[0]):
        m[i, ...] = 6
        m[i][..., 2] = 3
    for j in range(1, m.shape[1]):
        m[..., j] = j + 2
        m[1, ...][j] = 7


def own_args():
    return np.arange(12), np.arange(12) * 3, np.zeros((4, 5), np.int64), 2


def test_own_elements_are_independent(rig):
    kernel = rig.check(own_element, own_args)
    plan = kernel.plan(*own_args())
    for task in loops_of(plan):
        assert task.verdict.kind == "independent", (
            f"line {task.span.line - own_element.__code__.co_firstlineno}: {task.verdict}"
        )
    assert str(plan).count("independent: ") == 14
    assert "assumed" not in str(plan)


def unpacked_rows(pairs, planes, x):
    for i in range(pairs.shape[0]):
        position, velocity = pairs[i]
        position += velocity
        x[i] = position
    for i in range(planes.shape[0]):
        first, second = planes[i]
        first[0] += second[1]
        second[0] = first[1]


def unpacked_matrices(planes):
    for i in range(planes.shape[0]):
        first, second = planes[i]
        first += second
        second[0] = first[1]


def test_parts_of_rows_are_independent(rig):
    def args():
        return np.arange(6.0).reshape(3, 2), np.arange(12.0).reshape(3, 2, 2), np.zeros(3)

    kernel = rig.check(unpacked_rows, args)
    assert [task.verdict.kind for task in loops_of(kernel.plan(*args()))] == ["independent"] * 2


def test_whole_parts_of_rows_are_independent(rig):
    def args():
        return (np.arange(12.0).reshape(3, 2, 2),)

    if rig.backend == "cuda":
        # Numba has no array operations there, and these are none of qgraph's: what is a part of a row may overlap another.
        with pytest.raises(qgraph.KernelTypeError, match=r"numpy\.add is used where a number is needed"):
            rig.run(rig.kernel(unpacked_matrices), *args())
        return
    kernel = rig.check(unpacked_matrices, args)
    assert [task.verdict.kind for task in loops_of(kernel.plan(*args()))] == ["independent"]


def unpacked_neighbours(planes):
    for i in range(1, planes.shape[0]):
        _, before = planes[i - 1]
        _, here = planes[i]
        here += before[0]


def test_parts_of_neighbouring_rows_are_not(rig):
    with pytest.raises(qgraph.DataRaceError, match="`here`"):
        rig.kernel(unpacked_neighbours)(rig.device(np.arange(12.0).reshape(3, 2, 2)))


def strided(x, y):
    for i in range(0, x.shape[0] - 1, 2):
        x[i + 1] = x[i]
    for i in range(0, y.shape[0] - 2, 3):
        y[i] = y[i + 1]
        y[i + 2] = 1


def test_a_step_that_keeps_iterations_apart_is_not_refused(check):
    check(strided, lambda: (np.arange(12), np.arange(12)))


def private_names(x, y):
    for i in range(x.shape[0]):
        t = x[i]
        if t > 3:
            u = t * 2
        else:
            u = -t
        for k in range(3):
            u += k
        y[i] = u


def test_private_names_are_no_race(rig):
    kernel = rig.check(private_names, lambda: (np.arange(9), np.full(9, POISON)))
    (task,) = loops_of(kernel.plan(np.arange(9), np.zeros(9)))
    assert task.verdict.kind == "independent"


def atomics_aside(keys, bins, total):
    for i in range(keys.shape[0]):
        bins[keys[i]] += 1
        total[0] += keys[i]
        qgraph.atomic_max(total, 1, keys[i])


def test_atomic_updates_are_no_race(check):
    check(atomics_aside, lambda: (np.arange(40) % 4, np.zeros(5, np.int64), np.zeros(2, np.int64)))


# --- guards and remainders ----------------------------------------------------------------------------------------------


def guarded(x):
    for i in range(x.shape[0]):
        if i == 0:
            x[0] = 100
        else:
            x[i] += 1


def around(x, y):
    n = x.shape[0]
    for i in range(n):
        y[(i + 1) % n] = x[i]
    for i in range(n // 2):
        x[i] = x[i + n // 2]
    for i in range(n):
        y[i] = y[i] + 1 if i % 2 else y[i - i % 2]


def test_guards_and_remainders_are_proved(rig):
    for function, make in ((guarded, lambda: (np.arange(10),)), (around, lambda: (np.arange(10), np.full(10, POISON)))):
        kernel = rig.check(function, make)
        assert {task.verdict.kind for task in loops_of(kernel.plan(*make()))} == {"independent"}


# --- unknown ------------------------------------------------------------------------------------------------------------


def modulo(x, n):
    for i in range(x.shape[0]):
        x[(i * 3) % n] = i


def scatter(x, index):
    for i in range(index.shape[0]):
        x[index[i]] = i


@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
def test_undecided_loops_run_and_name_the_line(rig):
    cases = (
        (modulo, lambda: (np.arange(10), 10)),
        (scatter, lambda: (np.full(10, POISON), np.random.default_rng(0).permutation(10))),
    )
    for function, make in cases:
        kernel = rig.check(function, make)
        (task,) = loops_of(kernel.plan(*make()))
        assert task.verdict.kind == "assumed"
        assert task.verdict.span.line == function.__code__.co_firstlineno + 2
        assert re.search(r"assumed independent: .*\(line \d+\)", str(kernel.plan(*make())))


def single_iteration(go, x):
    for i in range(1):
        go[0] = x[0]


def test_a_loop_of_one_iteration_may_store_anywhere(check):
    kernel = check(single_iteration, lambda: (np.full(1, POISON), np.arange(3)))
    (task,) = loops_of(kernel.plan(np.zeros(1), np.arange(3)))
    assert task.verdict.kind == "independent"


# --- dependent ----------------------------------------------------------------------------------------------------------


def recurrence(x):
    for i in range(1, x.shape[0]):
        x[i] = x[i - 1] + 1


def in_place_stencil(x):
    for i in range(1, x.shape[0] - 1):
        x[i] = (x[i - 1] + x[i + 1]) // 2


def reads_ahead(x):
    for i in range(x.shape[0] - 1):
        x[i] = x[i + 1]


def store_does_not_vary(x):
    for i in range(x.shape[0]):
        x[0] = i


def time_loop(x, steps):
    for t in range(steps):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2 + t


def same_row(x):
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        x[i, 0] = j


def column_recurrence(x):
    for i, j in qgraph.ndrange((1, x.shape[0]), x.shape[1]):
        x[i, j] = x[i - 1, j]


def plain_accumulation(x, total):
    for i in range(x.shape[0]):
        total[0] = total[0] * 2 + x[i]


def diagonal(x):
    for i, j in qgraph.ndrange((1, x.shape[0]), (1, x.shape[1])):
        x[i, j] = x[i - 1, j - 1]


def backwards(x):
    for i in range(x.shape[0] - 2, -1, -1):
        x[i] += x[i + 1]


def last_writer(x, y):
    for i in range(x.shape[0]):
        y[()] = x[i]


def inner_store(x, y):
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            y[j] = x[i]


def read_of_an_update(x, total):
    for i in range(x.shape[0]):
        total[0] += x[i]
        x[i] = total[0]


def two_stores(x):
    for i in range(x.shape[0] - 1):
        x[i] = 1
        x[i + 1] = 2


def whole_array(x):
    for i in range(x.shape[0]):
        x[...] = i


def row_and_column(x):
    for i in range(x.shape[0]):
        x[..., i][1] = 3
        x[i][...] = 4


VECTOR, MATRIX = (lambda: np.arange(8)), (lambda: np.zeros((4, 5), np.int64))

REFUSED = [
    (recurrence, lambda: (VECTOR(),)),
    (in_place_stencil, lambda: (VECTOR(),)),
    (reads_ahead, lambda: (VECTOR(),)),
    (store_does_not_vary, lambda: (VECTOR(),)),
    (time_loop, lambda: (VECTOR(), 3)),
    (same_row, lambda: (MATRIX(),)),
    (column_recurrence, lambda: (MATRIX(),)),
    (plain_accumulation, lambda: (VECTOR(), VECTOR())),
    (diagonal, lambda: (MATRIX(),)),
    (backwards, lambda: (VECTOR(),)),
    (last_writer, lambda: (VECTOR(), np.array(0))),
    (inner_store, lambda: (VECTOR(), VECTOR())),
    (read_of_an_update, lambda: (VECTOR(), VECTOR())),
    (two_stores, lambda: (VECTOR(),)),
    (whole_array, lambda: (MATRIX(),)),
    (row_and_column, lambda: (MATRIX(),)),
]


@pytest.mark.parametrize(("function", "make"), REFUSED, ids=[function.__name__ for function, _ in REFUSED])
def test_a_dependent_loop_is_refused_before_anything_runs(rig, function, make):
    kernel = rig.kernel(function)
    given, untouched = make(), make()
    held = [rig.device(value) if isinstance(value, np.ndarray) else value for value in given]
    with pytest.raises(qgraph.DataRaceError) as caught:
        kernel(*held)
    for left, right in zip(held, untouched, strict=True):
        if isinstance(right, np.ndarray):
            np.testing.assert_array_equal(qgraph.to_numpy(left), right)
    message = str(caught.value)
    # Both places, each with its line and caret, and the ways out.
    assert message.count("-->") >= 2, message
    assert "^" in message
    assert "qgraph.serial" in message
    assert function.__code__.co_filename in message


def test_a_time_loop_is_told_to_use_serial():
    with pytest.raises(qgraph.DataRaceError, match=re.escape("qgraph.serial(range(steps))")):
        qgraph.kernel(time_loop, backend="cpu")(np.arange(8), 3)


def recurrence_in_a_row(x):
    for i in range(x.shape[0]):
        for j in range(1, x.shape[1]):
            x[i, j] = x[i, j - 1] + x[i - 1, j]


def test_an_inner_loop_does_not_hide_a_dependence():
    with pytest.raises(qgraph.DataRaceError):
        qgraph.kernel(recurrence_in_a_row, backend="cpu")(np.zeros((3, 4)))


@qgraph.func
def shift_in_place(x):
    for i in range(1, x.shape[0]):
        x[i] = x[i - 1]


def calls_a_racing_func(x):
    shift_in_place(x)


@qgraph.func
def put(x, i, v):
    x[i] = v


def stores_through_a_func(x):
    for i in range(x.shape[0]):
        put(x, 0, i)


def test_races_inside_funcs_are_found():
    with pytest.raises(qgraph.DataRaceError, match="shift_in_place|x\\[i"):
        qgraph.kernel(calls_a_racing_func, backend="cpu")(np.arange(5))


def test_a_race_through_a_device_function_is_found():
    with pytest.raises(qgraph.DataRaceError):
        qgraph.kernel(stores_through_a_func, backend="cpu")(np.arange(5))


# --- the author's word --------------------------------------------------------------------------------------------------


def asserted(x, half):
    for i in qgraph.parallel(range(half, x.shape[0])):
        x[i] = x[i - half]


def test_parallel_is_shown_as_declared(rig):
    def args():
        return np.arange(10), 5

    kernel = rig.check(asserted, args)
    (task,) = loops_of(kernel.plan(*args()))
    assert task.verdict.kind == "asserted"
    assert "declared parallel: " in str(kernel.plan(*args()))


def asserted_race(x):
    for i in qgraph.parallel(range(1, x.shape[0])):
        x[0] = 3


def test_parallel_overrides_a_refusal(check):
    check(asserted_race, lambda: (np.arange(5),))


def serial_instead(x):
    for i in qgraph.serial(range(1, x.shape[0])):
        x[i] = x[i - 1] + 1


def test_serial_is_the_way_out(check):
    check(serial_instead, lambda: (np.zeros(9, np.int64),))


# --- a step that only the device knows -----------------------------------------------------------------------------------


def unknown_step(x, y, k):
    for i in range(1, x.shape[0], k[0]):
        y[i] = x[i - 1]
    for i in range(1, x.shape[0], k[0]):
        x[i] = x[i - 1] + 1
    for i in range(0, x.shape[0], k[0]):
        x[i // 2] = i


def test_with_an_unknown_step_only_what_holds_for_every_step_is_proved(rig):
    plan = rig.kernel(unknown_step).plan(np.zeros(9), np.zeros(9), np.ones(1, np.int64))
    kinds = [task.verdict.kind for task in loops_of(plan)]
    assert kinds[1:] == ["assumed", "assumed"]


# --- refused for some arguments -----------------------------------------------------------------------------------------


def small_ring(x, b):
    for i in range(b.shape[0]):
        x[i % 7] = b[i]


def from_the_start(x, n, again):
    for i in range(n):
        if again or i > 2:
            x[0] = i


def test_a_call_is_refused_just_where_iterations_meet(rig):
    kernel = rig.check(small_ring, lambda: (np.full(7, POISON), np.arange(7)))
    assert "refused where b.shape[0] >= 8" in str(kernel.plan(np.zeros(7), np.zeros(9)))
    # The same specialisation, compiled already: nothing is compiled again, and nothing changed.
    x = rig.device(np.full(7, POISON))
    with pytest.raises(qgraph.DataRaceError, match=re.escape("(for example i = 0 and i = 7: `x[0]`, with b.shape[0] = 8")):
        kernel(x, rig.device(np.arange(8)))
    np.testing.assert_array_equal(qgraph.to_numpy(x), np.full(7, POISON))
    bound = kernel.bind(x, rig.device(np.arange(7)))
    bound.launch()
    np.testing.assert_array_equal(qgraph.to_numpy(x), np.arange(7))
    assert kernel.stats.compilations <= 2


def test_integer_and_boolean_arguments_are_part_of_the_condition(rig):
    kernel = rig.kernel(from_the_start)
    for n, again, refused in ((1, True, False), (2, True, True), (4, False, False), (5, False, True), (0, True, False)):
        x = rig.device(np.full(3, POISON))
        if refused:
            with pytest.raises(qgraph.DataRaceError):
                kernel(x, n, again)
        else:
            kernel(x, n, again)
