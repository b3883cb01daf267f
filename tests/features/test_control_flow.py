"""`while`, `if`, `match`, conditional expressions, `break`, `continue` and `else` at kernel level, with loops inside."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError, KernelTypeError
from tests.conftest import thorough


class Color(enum.IntEnum):
    RED = 1
    GREEN = 5
    BLUE = -2


class Mode:
    ADD = 3
    SUB = 4


def ints(n=6):
    return np.arange(n)


# --- while -------------------------------------------------------------------------------------------------------------


def while_first(x, n):
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            x[i] += k
        k += 1
    return k


@pytest.mark.parametrize("n", [-1, 0, 1, 5])
def test_while_tests_first(check, n):
    check(while_first, lambda: (ints(), n))


def on_elements(x, c):
    while c[0] > 0:
        for i in range(x.shape[0]):
            x[i] += c[0]
        c[0] -= 1
    while c[1]:
        c[1] -= 1
        for i in range(x.shape[0]):
            x[i] *= 2


def test_while_on_elements(check):
    check(on_elements, lambda: (ints(), np.array([3, 2])))


def forever(x, n):
    k = 0
    while True:
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1
        if k >= n:
            break
        for i in range(x.shape[0]):
            x[i] *= 2
    return k


@pytest.mark.parametrize("n", [0, 1, 4])
def test_while_true_with_break(check, n):
    check(forever, lambda: (ints(), n))


def exits(x, n, stop):
    k = 0
    total = 0
    while k < n:
        k += 1
        if k % 2 == 0:
            continue
        for i in range(x.shape[0]):
            x[i] += k
        if k > stop:
            total += 100
            break
        total += x[0]
    else:
        for i in range(x.shape[0]):
            x[i] += 1000
        total += 7
    return k, total


@pytest.mark.parametrize("stop", [0, 2, 4, 50])
@pytest.mark.parametrize("n", [0, 7])
def test_break_continue_and_else_of_while(check, n, stop):
    check(exits, lambda: (ints(), n, stop))


def exits_of_serial(x, n, stop):
    total = 0
    for t in qgraph.serial(range(n)):
        if t == 1:
            continue
        for i in range(x.shape[0]):
            x[i] += t
        if x[0] > stop:
            break
        total += t
    else:
        total += 1000
        for i in range(x.shape[0]):
            x[i] += total
    return total


@pytest.mark.parametrize("stop", [0, 3, 500])
def test_break_continue_and_else_of_serial(check, stop):
    check(exits_of_serial, lambda: (ints(), 6, stop))


def exits_of_one_thread(x, n, stop):
    total = 0
    for t in qgraph.serial(range(n)):
        if t == 1:
            continue
        total += x[t]
        if total > stop:
            break
    else:
        total += 1000
    k = 0
    while k < n:
        k += 1
        if k == 2:
            continue
        if k > stop:
            break
    else:
        total += 5
    return total, k


@pytest.mark.parametrize("stop", [0, 3, 500])
def test_exits_of_loops_of_one_thread(check, stop):
    check(exits_of_one_thread, lambda: (ints(), 6, stop))


def four_deep(x, n, p):
    count = 0
    a = 0
    while a < n:
        a += 1
        for b in qgraph.serial(range(n)):
            c = 0
            while True:
                c += 1
                d = 0
                while d < n:
                    d += 1
                    if (a + b + c + d) % p == 0:
                        break
                    if d == 2:
                        continue
                    for i in range(x.shape[0]):
                        x[i] += d
                    count += 1
                else:
                    count += 100
                    if c > 1:
                        continue
                if c > b:
                    break
                if count > 3000:
                    break
            else:
                count += 10**6
            if c == 3:
                break
            if count % 3 == 0:
                continue
            count += 1
        else:
            count += 1000
        if count > 5000:
            break
    return a, count


@pytest.mark.parametrize("p", [2, 3, 5, 100])
def test_exits_of_loops_four_deep(rig, p):
    n = 2 if rig.backend == "sim" else 4
    rig.check(four_deep, lambda: (ints(3), n, p))


def short_circuit(x, limit):
    i = 0
    n = x.shape[0]
    while i < n and x[i] < limit:
        for j in range(n):
            x[j] += 1
        i += 1
    k = -1
    if i >= n or x[i] >= limit:
        for j in range(n):
            x[j] += 100
    if i < n and x[i] > 0:
        k = i
    found = i == n or x[i] == 7
    m = 0
    while not (m >= n or x[m] > 200):
        m += 1
    return i, k, found, m


@pytest.mark.parametrize("limit", [-1, 4, 10**6])
def test_and_or_do_not_evaluate_what_python_does_not(check, limit):
    check(short_circuit, lambda: (ints(), limit))


def condition_of_every_kind(x, s):
    k = 3
    while 0 < k <= 3 and not s[0] > 2:
        k -= 1
        for i in range(x.shape[0]):
            x[i] += 1
    f = 1.5
    while f:
        for i in range(x.shape[0]):
            x[i] += 1
        f -= 0.5
    t = True
    while t:
        for i in range(x.shape[0]):
            x[i] += 10
        t = x[0] < 50
    while k if x[0] > 1000 else k < 2:
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1
    return k, f, t


def test_any_scalar_condition(check):
    check(condition_of_every_kind, lambda: (ints(), np.array([0.5])))


def do_while_within(x, flag, n):
    k = 0
    while k < n:
        flag[()] = 2
        if k != 1:
            while qgraph.graph_do_while(flag, max_iter=5):
                for i in range(x.shape[0]):
                    x[i] += 1
                flag[()] -= 1
        k += 1
    return k


def test_a_do_while_in_a_while_and_an_if(check):
    check(do_while_within, lambda: (ints(), np.array(0), 3))


def while_in_do_while(x, flag):
    total = 0
    while qgraph.graph_do_while(flag):
        k = flag[()]
        while k > 0:
            for i in range(x.shape[0]):
                x[i] += k
            k -= 1
            total += 1
        flag[()] -= 1
        if total > 5:
            break
    return total


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_while_in_a_do_while(check, n):
    check(while_in_do_while, lambda: (ints(), np.array(n)))


# --- if ----------------------------------------------------------------------------------------------------------------


def chain(x, n):
    r = 0
    if n == 0:
        for i in range(x.shape[0]):
            x[i] = -1
        r = 1
    elif n == 1:
        pass
    elif n == 2:
        r = 2
        for i in range(x.shape[0]):
            x[i] = -2
    else:
        for i in range(x.shape[0]):
            x[i] = -3
        if x[0] < 0:
            r = 3
            for i in range(x.shape[0]):
                x[i] -= n
    if n > 1:
        for i in range(x.shape[0]):
            x[i] *= 2
    return r


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_if_elif_else(check, n):
    check(chain, lambda: (ints(), n))


def assigned_in_each(x, n):
    if n > 0:
        a = x[1]
        b = 1
        for i in range(x.shape[0]):
            x[i] += a
    else:
        a = 2.5
        b = a
        for i in range(x.shape[0]):
            x[i] -= 1
    for i in range(x.shape[0]):
        x[i] += a * b
    return a


@pytest.mark.parametrize("n", [0, 1])
def test_a_scalar_assigned_in_each_branch(check, n):
    check(assigned_in_each, lambda: (np.arange(5.0), n))


def in_loops(x, n):
    for t in qgraph.serial(range(n)):
        if t % 2:
            s = t
            for i in range(x.shape[0]):
                x[i] += s
        else:
            s = -t
            if x[0] > 3:
                for i in range(x.shape[0]):
                    x[i] *= 2
        x[0] += s


def test_if_in_device_loops(check):
    check(in_loops, lambda: (ints(), 6))


# --- match -------------------------------------------------------------------------------------------------------------


def switch(x, n):
    r = 0
    match n:
        case 0:
            for i in range(x.shape[0]):
                x[i] = -1
        case 2 | 3 | -4:
            r = 23
            for i in range(x.shape[0]):
                x[i] = -23
        case Color.GREEN:
            r = 5
            for i in range(x.shape[0]):
                x[i] += 5
        case -1:
            r = -1
        case Color.BLUE | 10:
            for i in range(x.shape[0]):
                x[i] = 2
        case Mode.ADD:
            r = 99
        case 2:
            r = 1000
    return r


def switch_with_default(x, n):
    match n:
        case 0:
            for i in range(x.shape[0]):
                x[i] = -1
            r = 1
        case 1:
            r = 2
            while r < 4:
                for i in range(x.shape[0]):
                    x[i] += r
                r += 1
        case _:
            r = 3
            for i in range(x.shape[0]):
                x[i] = -3
    return r


def switch_of_one_thread(x, n):
    match n:
        case 0 | 1:
            r = 1
        case -1:
            r = 2
            x[0] = 5
        case Color.GREEN:
            r = 3
        case _:
            r = 4
    match x[0]:
        case 5:
            x[1] = 50
    return r


def switch_in_a_loop(x, n):
    for i in range(x.shape[0]):
        match x[i] % 4 - n:
            case 0:
                x[i] = 100
            case 1 | -1:
                t = x[i]
                x[i] = t + 10
            case Color.BLUE:
                x[i] = 2
            case _:
                x[i] -= 1
    return n


def switch_in_a_while(x, n):
    k = -3
    total = 0
    while k < 6:
        k += 1
        match k:
            case -2 | 5:
                for i in range(x.shape[0]):
                    x[i] += 1
                continue
            case 0:
                for i in range(x.shape[0]):
                    x[i] += 10
            case 4:
                if n > 2:
                    break
            case _:
                total += k
        total += 100
    else:
        total += 10000
    return total, k


@pytest.mark.parametrize("kernel", [switch, switch_with_default, switch_of_one_thread, switch_in_a_loop, switch_in_a_while])
@pytest.mark.parametrize("n", [-4, -1, 0, 3, 10, 2**40, *thorough(-2, 1, 2, 5, 11)])
def test_match(rig, kernel, n):
    rig.check(kernel, lambda: (ints(), n))


def on_enum(x, color):
    match color:
        case Color.RED:
            for i in range(x.shape[0]):
                x[i] += 1
        case Color.BLUE:
            for i in range(x.shape[0]):
                x[i] += 2


def match_element(x, y):
    match y[0]:
        case 1:
            for i in range(x.shape[0]):
                x[i] += 1
        case _:
            for i in range(x.shape[0]):
                x[i] += 2


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int32", "bool"])
def test_match_on_elements(check, dtype):
    for value in (0, 1):
        check(match_element, lambda value=value: (ints(), np.array([value], dtype)))


def test_match_on_a_float_is_refused(rig):
    with pytest.raises(KernelTypeError, match="match on float64: kernels match integers"):
        rig.run(rig.kernel(match_element), ints(), np.array([1.0]))


def match_float_in_a_body(x, y):
    for i in range(x.shape[0]):
        match y[i]:
            case 1:
                x[i] = 5


def test_so_it_is_in_a_loop(rig):
    with pytest.raises(KernelTypeError, match="match on float64: kernels match integers"):
        rig.run(rig.kernel(match_float_in_a_body), ints(), np.ones(6))


@qgraph.func
def matched(v):
    match v:
        case 1:
            return 5
    return 6


def match_float_in_a_func(x, y):
    for i in range(x.shape[0]):
        x[i] = matched(y[i]) + matched(x[i])


def match_float_scalar(x, y):
    r = y[0]
    match r:
        case 1:
            x[0] = 5


@pytest.mark.parametrize("function", [match_float_in_a_func, match_float_scalar])
def test_so_it_is_in_a_func_and_in_one_thread(rig, function):
    with pytest.raises(KernelTypeError, match="match on float64: kernels match integers"):
        rig.run(rig.kernel(function), ints(), np.ones(6))


def match_capture(x, n):
    match n:
        case (1 as one) | (2 as one):
            x[0] = one


def match_capture_with_a_guard(x, n):
    match n:
        case 1 | 2 as one if x[0] > 0:
            x[0] = one


def named_alternatives(x, n):
    other = 5
    match n:
        case 1 as one:
            x[0] = one + 10
        case 2 | 3 as other:
            x[0] = other
    x[1] = other
    for i in range(2, x.shape[0]):
        match x[i] % 4:
            case 0:
                x[i] = 7
            case 1 | 2 as rest:
                x[i] = rest * 100
            case rest:
                x[i] = rest - 100
    match n:
        case 3 as k:
            for i in range(2, x.shape[0]):
                x[i] += k
        case _:
            x[2] = -1


@pytest.mark.parametrize("n", range(5))
def test_a_case_of_several_integers_that_names_what_is_matched(check, n):
    check(named_alternatives, lambda: (ints(), n))


def match_tuple(x, n):
    match n:
        case (1, 2):
            x[0] = 1


@pytest.mark.parametrize("kernel", [match_capture, match_capture_with_a_guard, match_tuple])
def test_other_patterns_are_refused(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="case"):
        rig.run(rig.kernel(kernel), ints(), 2)


# --- deep and mixed ----------------------------------------------------------------------------------------------------


def mixed(x, n, mode):
    s = 0
    k = n
    while k > 0 and s < 10**6:
        k -= 1
        for t in qgraph.serial(range(2)):
            if (k + t) % 3 == 0:
                match mode:
                    case 0:
                        s += 1
                        continue
                    case 1:
                        for i in range(x.shape[0]):
                            x[i] += s
                        if t == 1:
                            break
                    case _:
                        m = 2
                        while m > 0:
                            for i in range(x.shape[0]):
                                x[i] = x[i] * 3 % 1009
                            m -= 1
                            s += x[0] if k else x[1]
            else:
                for i in range(x.shape[0]):
                    x[i] += t
            s += x[2]
    return s, k


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_everything_in_everything(check, mode):
    check(mixed, lambda: (ints(), 4, mode))


def bound_that_the_body_changes(x, n):
    k = 0
    while k < 3:
        for i in range(n[0]):
            x[i] += 1
        n[0] -= 2
        k += 1


def test_a_bound_read_from_an_array_that_the_body_changes(check):
    check(bound_that_the_body_changes, lambda: (ints(8), np.array([8])))


def else_without_break(x):
    for i in range(x.shape[0]):
        x[i] += 1
    else:
        for i in range(x.shape[0]):
            x[i] *= 2
    while x[0] < 10:
        for i in range(x.shape[0]):
            x[i] += 3
    else:
        x[0] = 1
    for t in qgraph.serial(range(2)):
        x[1] += t
    else:
        x[1] *= 10


def test_else_of_loops_without_break(check):
    check(else_without_break, lambda: (ints(),))


def break_of_a_parallel_loop(x):
    for i in range(x.shape[0]):
        if x[i] > 3:
            break
        x[i] = 1


def continue_of_a_parallel_loop(x):
    for i in range(x.shape[0]):
        if x[i] > 3:
            continue
        k = 0
        while True:
            k += 1
            if k > x[i]:
                break
        x[i] = k * 10


def test_continue_in_a_parallel_loop(check):
    check(continue_of_a_parallel_loop, lambda: (ints(),))


def test_break_of_a_parallel_loop_is_refused(rig):
    with pytest.raises(KernelSyntaxError, match="break"):
        rig.run(rig.kernel(break_of_a_parallel_loop), ints())


def same_array_in_each_branch(x, y, n):
    if n > 0:
        a = x
        b = y
    else:
        b = y
        a = x
    a[0] = 3
    b[1] = a[0] + n


def other_array_in_each_branch(x, y, n):
    if n > 0:
        a = x
    else:
        a = y
    a[0] = 3


def test_a_name_for_an_array_in_branches(rig):
    rig.check(same_array_in_each_branch, lambda: (ints(), ints(), 1))
    with pytest.raises(KernelSyntaxError, match="`a` does not mean the same"):
        rig.run(rig.kernel(other_array_in_each_branch), ints(), ints(), 1)


def loops_in_the_else_of_a_loop_for_one_thread(x, n):
    t = 0
    for k in qgraph.serial(range(n)):
        t += k
        if t > 100:
            continue
    else:
        for i in range(x.shape[0]):
            x[i] += t
    return t


@pytest.mark.parametrize("n", [0, 3])
def test_loops_in_the_else_of_a_loop_for_one_thread(check, n):
    check(loops_in_the_else_of_a_loop_for_one_thread, lambda: (np.ones(5), n), noop=n == 0)


def guards_in_a_loop(c, x):
    for i in range(c.shape[0]):
        match c[i]:
            case n if n > 30:
                x[i] = n * 100
            case 0 | 30 if x[i] > 0.5:
                x[i] = 2
            case 30:
                x[i] = -n
            case m:
                x[i] = m * 3 - n


@qgraph.func
def chosen_by_guards(n, x):
    match n:
        case 0:
            return 1.0
        case k if k > 2:
            return x[0] * k
        case _ if x[1] > 0.5:
            return 5.0
    return -1.0


def guards_at_kernel_level(x, k):
    s = chosen_by_guards(k, x) + chosen_by_guards(1, x)
    match k:
        case n if n > 5:
            x[:] = 0
        case n if np.sum(x) > 1:
            for i in range(x.shape[0]):
                x[i] = n * i
            s += n
        case _:
            x[:] = 4
    for t in qgraph.serial(range(5)):
        match t:
            case 1 if x[0] > 0.3:
                x[:] *= 2
            case m if m % 2 == 0:
                continue
            case m:
                x[0] += m
                if m > k:
                    break
    return s, n


def test_guards_of_cases(check):
    # NumPy's integers of 8 bits wrap around.
    with np.errstate(over="ignore"):
        check(guards_in_a_loop, lambda: ((np.arange(8) * 30 - 60).astype(np.int8), np.arange(8) / 8))


@pytest.mark.parametrize("k", [0, 2, 7])
@pytest.mark.parametrize("scale", [0, 1])
def test_guards_of_cases_at_kernel_level(check, scale, k):
    check(guards_at_kernel_level, lambda: (np.arange(1.0, 5.0) * scale, k))


def numbers_that_change_in_what_is_matched(op, arg):
    acc = at = steps = 0
    while at < op.shape[0] and steps < 20:
        steps += 1
        match op[at]:
            case 3 if acc < 9:
                at += arg[at] % 3
            case k if k > 3:
                acc += k + arg[at]
            case n:
                acc -= n
        at += 1
    return acc, at, steps


def test_a_case_names_an_element_at_a_number_that_changes(rig):
    kernel = rig.kernel(numbers_that_change_in_what_is_matched)
    given = np.array([0, 5, 2, 3, 4, 3, 9]), np.array([5, 1, 2, 2, 7, 1, 1])
    assert kernel(*map(rig.device, given)) == kernel.reference(*given)


def assigned_before_a_break_or_in_else(x, n):
    for k in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] > 3:
            s = k
            break
    else:
        s = 55
    while True:
        for i in range(x.shape[0]):
            x[i] += 2
        if x[0] > 9:
            t = 2
            break
        if x[0] > 6:
            t = 3
            break
    return s, t


def returned_or_in_else(x, n):
    for k in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] > 3:
            return k
    else:
        s = 55
    for k in qgraph.serial(range(n)):
        if x[1] > 4:
            return k + 10
        x[1] += 1
    else:
        t = 5
    return s + t


@qgraph.func
def first_above(x, v):
    for k in qgraph.serial(range(5)):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] > v:
            return k
    else:
        s = 5
    return s


def returned_or_in_else_of_a_func(x, n):
    return first_above(x, n), first_above(x, 100)


def returned_in_else_of_a_parallel_loop(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    else:
        s = 5
        if n > 3:
            return s, x[0]
    return 7, x[1]


def raised_in_else(x, n):
    for k in qgraph.serial(range(n + 9)):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] > 3:
            s = k
            break
    else:
        raise ValueError("never above 3")
    return s


@pytest.mark.parametrize(
    "function",
    [
        assigned_before_a_break_or_in_else,
        returned_or_in_else,
        returned_or_in_else_of_a_func,
        returned_in_else_of_a_parallel_loop,
        raised_in_else,
    ],
)
@pytest.mark.parametrize("n", [0, 2, 11])
def test_names_that_else_assigns(check, function, n):
    check(function, lambda: (np.arange(6.0), n))


def test_the_variable_of_a_loop_whose_else_raises_has_no_value_behind_it(rig):
    def kernel(x, n):
        for k in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                x[i] += 1
            if x[0] > 3:
                break
        else:
            raise ValueError("never above 3")
        return k

    with pytest.raises(qgraph.QGraphError, match="`k` may be read before it is assigned"):
        rig.kernel(kernel)(rig.device(np.arange(6.0)), 9)
