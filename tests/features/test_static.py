"""What is known at compile time: `qgraph.static`, unrolled loops, dropped branches, `Static` arguments."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import qgraph
from qgraph import Static
from qgraph.errors import ArgumentError, KernelSyntaxError


def numbers(n=6, dtype=np.float64):
    return np.arange(1, n + 1).astype(dtype)


@qgraph.func
def double(v):
    return v * 2


@qgraph.func
def square(v):
    return v * v


@qgraph.func
def fill(a, v):
    for i in range(a.shape[0]):
        a[i] += v
    return a[0]


@qgraph.func
def negate(a, v):
    for i in range(a.shape[0]):
        a[i] = v - a[i]
    return a[1]


FUNCS = (double, square)
WEIGHTS = (0.25, 0.5, -1.0)
DEBUG = False
ORDER = 3


# --- static(...) -------------------------------------------------------------------------------------------------------


def branches(x):
    if qgraph.static(DEBUG):
        undefined_name(x)  # noqa: F821
    if qgraph.static(ORDER > 2 and x.ndim == 1):
        for i in range(x.shape[0]):
            x[i] += 1
    else:
        for i in range(x.shape[0]):
            x[i, 0] += 1
    a = 5 if qgraph.static(x.dtype == np.float64) else x[0, 0]
    for i in range(x.shape[0]):
        if qgraph.static(not DEBUG):
            x[i] += a
        else:
            x[i] += undefined_name  # noqa: F821
        x[i] *= 2.0 if qgraph.static(len(x.shape) == 1) else x[i, i]
    return qgraph.static(ORDER * 2 + 1)


def test_branches_are_dropped(check):
    check(branches, lambda: (numbers(),))


def test_dropped_branches_leave_no_node(rig):
    kernel = rig.kernel(branches)
    assert not [task for task in kernel.plan(numbers()).tasks if task.role == "decide"]


def by_rank(x, y):
    if qgraph.static(x.ndim == 2):
        for i, j in qgraph.ndrange(*x.shape):
            x[i, j] += y[0]
        return x.shape[1]
    for i in range(x.shape[0]):
        x[i] += y[0]
    return 1, x.shape[0]


def test_the_number_of_dimensions_chooses_what_is_returned(rig):
    kernel = rig.check(by_rank, lambda: (numbers(), numbers()))
    rig.compare(kernel, lambda: (np.ones((2, 3)), numbers()))
    rig.compare(kernel, lambda: (numbers(), numbers()))
    assert kernel.stats.compilations == 2


@qgraph.func
def rank_of(a, i):
    if qgraph.static(a.ndim == 2):
        return a[i, 0]
    else:
        return a[i]


def funcs_know_dimensions(x, y):
    for i in range(x.shape[0]):
        x[i] = rank_of(x, i) + rank_of(y, i)
    return rank_of(x, 1), rank_of(y, 1)


def test_a_func_looks_at_the_types_of_its_arguments(check):
    check(funcs_know_dimensions, lambda: (numbers(), np.ones((6, 2)) * 3))


def unrolled_at_kernel_level(x, y):
    total = 0.0
    for k in qgraph.static(range(3)):
        for i in range(x.shape[0]):
            x[i] += WEIGHTS[k] * (k + 1)
        total += x[k]
    for f in qgraph.static(FUNCS):
        for i in range(x.shape[0]):
            x[i] = f(x[i])
        total = f(total)
    for a in qgraph.static((x, y)):
        for i in range(a.shape[0]):
            a[i] += total
    for f, a, w in qgraph.static(((fill, x, 1), (negate, y, 2.5))):
        total += f(a, w)
    for n, (w, f) in qgraph.static(enumerate(zip(WEIGHTS, FUNCS))):
        total += f(w) * n
    for a in qgraph.static((total, n, 3)):
        total += a * 2
    return total, k


def test_unrolled_loops_at_kernel_level(check):
    check(unrolled_at_kernel_level, lambda: (numbers(), numbers(4)))


def unrolled_in_bodies(x, y, table):
    for i in range(x.shape[0]):
        s = 0.0
        for k in qgraph.static(range(ORDER)):
            s += WEIGHTS[k] * x[i]
        for f in qgraph.static(FUNCS):
            s = f(s)
        for a in qgraph.static((y, table)):
            s += a[i]
        y[i] = s
    for t in qgraph.serial(range(3)):
        for f in qgraph.static(FUNCS):
            x[t] = f(x[t]) + t
    k = 0
    while k < 2:
        for w in qgraph.static(WEIGHTS):
            x[k] += w
        k += 1


def test_unrolled_loops_in_bodies(check):
    check(unrolled_in_bodies, lambda: (numbers(), numbers(), numbers()))


def exits(x, n):
    total = 0
    for k in qgraph.static(range(5)):
        if k == n:
            continue
        for i in range(x.shape[0]):
            x[i] += k
        total += 1
        if x[0] > n * 3:
            total += 100
            break
        total += 10
    else:
        total += 1000
    for i in range(x.shape[0]):
        for w in qgraph.static((1, 2, 3)):
            if w == n:
                continue
            if x[i] > 15:
                break
            x[i] += w
        else:
            x[i] += 100
    return total


@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
def test_break_continue_and_else_of_unrolled_loops(check, n):
    check(exits, lambda: (numbers(dtype=np.int64), n))


def returns_from_unrolled(x, n):
    for k in qgraph.static(range(4)):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] > n:
            return k
    return -1


@pytest.mark.parametrize("n", [1, 3, 9])
def test_return_out_of_an_unrolled_loop(check, n):
    check(returns_from_unrolled, lambda: (numbers(), n))


def empty_and_nested(x):
    for k in qgraph.static(()):
        undefined_name(k)  # noqa: F821
    for a in qgraph.static(range(2)):
        for b in qgraph.static(range(a + 1)):
            for i in range(x.shape[0]):
                x[i] += 10 * a + b
    for i in range(x.shape[0]):
        for a in qgraph.static(range(2)):
            if qgraph.static(a == 1):
                for b in qgraph.static(range(a, 3)):
                    x[i] += b


def test_empty_and_nested_unrolled_loops(check):
    check(empty_and_nested, lambda: (numbers(),))


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


def over_fields(pair, scalars):
    for a in qgraph.static(pair):
        for i in range(a.shape[0]):
            a[i] += 1
    s = 0.0
    for v in qgraph.static(scalars):
        s += v
    return s


def test_unrolling_over_the_parts_of_an_argument(check):
    check(over_fields, lambda: (Pair(numbers(), numbers(3)), (1, 2.5, 3)))


def unknown_scalar(x, n):
    if qgraph.static(n > 2):
        x[0] = 1


def unknown_shape(x, n):
    for k in qgraph.static(range(x.shape[0])):
        x[k] = 1


def unknown_kernel_scalar(x, n):
    s = x[0]
    for i in range(x.shape[0]):
        x[i] = 1 if qgraph.static(s > 1) else 2


def unknown_element(x, n):
    return qgraph.static(x[0] + 1)


def unknown_loop_variable(x, n):
    for i in range(x.shape[0]):
        if qgraph.static(i == 0):
            x[i] = 1


def unknown_number(x, n):
    return qgraph.static(n)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (unknown_scalar, "`n`"),
        (unknown_shape, "`x.shape"),
        (unknown_kernel_scalar, "`s`"),
        (unknown_element, "`x"),
        (unknown_loop_variable, "`i`"),
        (unknown_number, "`n`"),
    ],
)
def test_what_is_not_known_is_refused_by_name(rig, kernel, name):
    with pytest.raises(KernelSyntaxError, match="not known at compile time") as caught:
        rig.run(rig.kernel(kernel), numbers(), 3)
    assert name in str(caught.value)


def failing(x):
    for k in qgraph.static(range(ORDER // 0)):
        x[k] = 1


def not_iterable(x):
    for k in qgraph.static(ORDER):
        x[k] = 1


@pytest.mark.parametrize(("kernel", "words"), [(failing, "ZeroDivisionError"), (not_iterable, "iterated over")])
def test_expressions_that_fail(rig, kernel, words):
    with pytest.raises(KernelSyntaxError, match=words):
        rig.run(rig.kernel(kernel), numbers())


def test_a_changed_global_recompiles(rig, monkeypatch):
    def kernel(x):
        for k in qgraph.static(range(ORDER)):
            for i in range(x.shape[0]):
                x[i] += k + 1

    made = rig.check(kernel, lambda: (numbers(),))
    monkeypatch.setattr(f"{__name__}.ORDER", 5)
    rig.compare(made, lambda: (numbers(),))
    assert made.stats.compilations == 2


def made(functions, gain):
    def kernel(x):
        for f in qgraph.static(functions):
            for i in range(x.shape[0]):
                x[i] = f(x[i]) * gain

    return kernel


def test_closures_are_known(rig):
    rig.check(made((double, square, double), 3), lambda: (numbers(),))
    rig.check(made((), 3), lambda: (numbers(),), noop=True)


# --- Static arguments --------------------------------------------------------------------------------------------------


class Mode(enum.Enum):
    ADD = "add"
    SCALE = "scale"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


LEVEL = Level.HIGH


class Side(enum.IntFlag):
    LEFT = 1
    RIGHT = 2


SIDE = Side.LEFT


def as_numbers(x, level: Static):
    total = 0
    for i in range(x.shape[0]):
        if level and LEVEL is not Level.LOW:
            x[i] = x[i] * level + LEVEL / 4 - (1 if level is LEVEL else max(level, 3))
        x[i] += abs(level) + -LEVEL
        total += level
    x[0] = level
    x[LEVEL] += level
    return total, LEVEL + 1


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_members_of_an_int_enum_are_numbers(check, level, dtype):
    check(as_numbers, lambda: (numbers(dtype=dtype), level))


def sides(x, other: Static):
    for i in range(x.shape[0]):
        x[i] = (x[i] & SIDE | other) ^ ~int(SIDE)
    x[1:] += SIDE | other


def test_flags_are_integers(check):
    check(sides, lambda: (np.arange(5), Side.RIGHT))


@dataclass(frozen=True)
class Scheme:
    order: int
    kind: str
    step: object
    mode: Mode = Mode.ADD

    @qgraph.func
    def apply(self, v):
        if qgraph.static(self.mode is Mode.SCALE):
            return v * self.order
        return self.step(v) + self.order


def by_order(x, order: Static):
    for k in qgraph.static(range(order)):
        for i in range(x.shape[0]):
            x[i] += k
    return order


def by_name(x, kind: qgraph.Static):
    if qgraph.static(kind == "wide"):
        for i in range(x.shape[0]):
            x[i] *= 2
    elif qgraph.static(kind is None):
        for i in range(x.shape[0]):
            x[i] -= 1
    else:
        x[0] = 0


def by_mode(x, mode: Static):
    for i in range(x.shape[0]):
        if qgraph.static(mode is Mode.ADD):
            x[i] += 1
        else:
            x[i] *= 3


def by_function(x, f: Static):
    for i in range(x.shape[0]):
        x[i] = f(x[i])
    return f(x[0])


def by_scheme(x, scheme: Static):
    for k in qgraph.static(range(scheme.order)):
        for i in range(x.shape[0]):
            x[i] = scheme.apply(x[i]) + k
    if qgraph.static(scheme.kind == "twice"):
        for i in range(x.shape[0]):
            x[i] = scheme.step(x[i])
    return scheme.order, scheme.apply(2)


def by_level(x, level: Static, *, gain: Static = 2):
    for i in range(x.shape[0]):
        x[i] += level * gain
    return level + gain


VALUES = {
    by_order: (0, 1, 3, True),
    by_name: ("wide", "narrow", None),
    by_mode: (Mode.ADD, Mode.SCALE),
    by_function: (double, square),
    by_scheme: (Scheme(2, "once", double), Scheme(1, "twice", square), Scheme(2, "once", double, Mode.SCALE)),
    by_level: (1, 2, 2.0, Level.HIGH),
}


@pytest.mark.parametrize("function", VALUES)
def test_one_compiled_kernel_for_each_value(rig, function):
    kernel = rig.kernel(function)
    values = VALUES[function]
    for _ in range(3):
        for value in values:
            rig.compare(kernel, lambda value=value: (numbers(), value), noop=value == 0 and value is not False)
    assert kernel.stats.compilations == len(values)
    assert kernel.stats.graph_builds == len(values)


def test_equal_schemes_are_one(rig):
    kernel = rig.kernel(by_scheme)
    for _ in range(3):
        rig.compare(kernel, lambda: (numbers(), Scheme(2, "once", double)))
    assert kernel.stats.compilations == 1


def test_static_arguments_do_not_interfere_with_others(rig):
    def kernel(x, n, order: Static, m):
        for k in qgraph.static(range(order)):
            for i in range(min(n, x.shape[0])):
                x[i] += k + m

    made = rig.kernel(kernel)
    for n, order, m in ((2, 1, 5), (4, 2, 6), (3, 1, 7), (6, 2, 8), (1, 3, 9), (2, 1, 5)):
        rig.compare(made, lambda n=n, order=order, m=m: (numbers(), n, order, m))
    assert made.stats.compilations == 3


def test_the_same_arguments_again_and_again(rig):
    kernel = rig.kernel(by_order)
    x = rig.device(numbers())
    for order in (2, 3, 2, 2, 3, 3, 2):
        assert kernel(x, order) == order
    assert qgraph.to_numpy(x)[0] == 1 + 4 * 1 + 3 * 3
    bound = [kernel.bind(x, order) for order in (1, 4)]
    for each in bound:
        each.launch()
    qgraph.synchronize()
    assert qgraph.to_numpy(x)[0] == 1 + 4 * 1 + 3 * 3 + 0 + 6
    assert kernel.stats.compilations == 4


@dataclass
class Loose:
    order: int


@pytest.mark.parametrize("value", [[1, 2], np.ones(3), Loose(1), (1, [2]), {1: 2}])
def test_other_values_are_refused(rig, value):
    with pytest.raises(ArgumentError, match=r"`order.*cannot be Static"):
        rig.kernel(by_order)(numbers(), value)


@qgraph.func
def power(v, n: Static):
    r = 1.0
    for _ in qgraph.static(range(n)):
        r = r * v
    return r


@qgraph.func
def shift(a, by: Static):
    for k in qgraph.static(range(by)):
        for i in range(a.shape[0]):
            a[i] += k


def static_parameters_of_funcs(x, n: Static):
    shift(x, 2)
    shift(x, n + 1)
    for i in range(x.shape[0]):
        x[i] = power(x[i], 2) + power(x[i], n) + power(x[i], n=1)
    return power(x[0], n)


def test_static_parameters_of_funcs(rig):
    kernel = rig.kernel(static_parameters_of_funcs)
    for n in (0, 3):
        rig.compare(kernel, lambda n=n: (numbers(), n))


def static_parameter_unknown(x, n):
    shift(x, n)


def static_parameter_unknown_in_a_loop(x, n):
    for i in range(x.shape[0]):
        x[i] = power(x[i], i)


@pytest.mark.parametrize("kernel", [static_parameter_unknown, static_parameter_unknown_in_a_loop])
def test_static_parameters_need_known_values(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="not known at compile time"):
        rig.run(rig.kernel(kernel), numbers(), 2)


@pytest.mark.needs("compiler")
def test_a_static_number_is_a_constant_of_the_code():
    def kernel(x, n: Static):
        for i in range(x.shape[0]):
            x[i] = x[i] * n

    (ptx,) = qgraph.kernel(backend="cuda")(kernel).ptx(numbers(), 3).values()
    other = qgraph.kernel(backend="cuda")(kernel).ptx(numbers(), 5)
    assert ptx not in other.values()


def assigned_after_unrolling(x, n):
    for i in range(x.shape[0]):
        for k in qgraph.static(range(3)):
            x[i] += k
        for k in range(n):
            x[i] += 100 * k


def assigned_on_one_path(x, n):
    for i in range(x.shape[0]):
        for k in qgraph.static(range(3)):
            x[i] += k
        if x[i] > 4:
            k = n
        x[i] += k


def assigned_while_unrolled(x, n):
    for i in range(x.shape[0]):
        for k in qgraph.static(range(3)):
            if x[i] > 4:
                k = n
            x[i] += k


@pytest.mark.parametrize("function", [assigned_after_unrolling, assigned_on_one_path, assigned_while_unrolled])
def test_the_variable_of_an_unrolled_loop_is_not_assigned_again(rig, function):
    x = rig.device(np.arange(6.0))
    with pytest.raises(qgraph.KernelSyntaxError, match="`k` is the variable of a loop that is unrolled"):
        rig.kernel(function)(x, 9)
    assert (qgraph.to_numpy(x) == np.arange(6.0)).all()


def unrolled_twice(x, n):
    for i in range(x.shape[0]):
        for k in qgraph.static(range(3)):
            x[i] += k
        for k in qgraph.static(range(2)):
            x[i] += 10 * k + n
        x[i] += 100 * k


def test_a_variable_is_that_of_two_unrolled_loops(rig):
    rig.check(unrolled_twice, lambda: (np.arange(6.0), 9))


def test_static_means_its_argument_in_plain_python():
    assert qgraph.static(5) == 5
    assert list(qgraph.static(range(3))) == [0, 1, 2]


LAST = 2


def indices_that_are_computed(fine, coarse):
    for k in qgraph.static(range(2)):
        fine[k + 1][1:] += fine[k][:-1]
        for i in range(coarse[k].shape[0]):
            coarse[k][i] = fine[LAST - k][i] + coarse[-k][i] + fine[2 * k - len(fine)][i]


def test_elements_of_tuples_by_indices_that_are_computed(check) -> None:
    check(indices_that_are_computed, lambda: (tuple(np.arange(4.0) + k for k in range(3)), (np.ones(3), np.ones(2))))


def of_any_axes(x):
    s = 0.0
    if x.ndim == 2:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] += i * j
        if len(x.shape) > 1:
            return x[0, 1], 2
    elif x.ndim == 1:
        for i in range(x.shape[0]):
            x[i] += i
            s += x[i]
    return s, 1


def after_another_name(x):
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim >= 2 and x.shape[1] > 0:
        for i in range(x.shape[0]):
            x[i, 0] = -1


@pytest.mark.parametrize("function", [of_any_axes, after_another_name])
@pytest.mark.parametrize("shape", [(6,), (2, 3)], ids=str)
def test_the_number_of_axes_is_known_without_static(check, function, shape):
    check(function, lambda: (np.arange(6.0).reshape(shape),))
