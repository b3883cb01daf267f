"""Array statements at kernel level: `y[1:-1] = a * x[:-2] + z[2:]`, reductions of slices, names for parts of arrays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough


def ramp(*shape, dtype=np.float64):
    return (np.arange(int(np.prod(shape))).reshape(shape) % 23 + 1).astype(dtype)


def poison(*shape, dtype=np.float64):
    return np.full(shape, 77, dtype)


# --- fills, with every kind of bound -----------------------------------------------------------------------------------


def fill_all(x):
    x[:] = 0


def fill_dots(x):
    x[...] = 5


def fill_steps(x):
    x[::2] = 1
    x[1::3] = 2
    x[::-4] = 3
    x[7:2:-2] = 4


def fill_negative(x):
    x[-3:] = 1
    x[:-7] = 2
    x[-6:-4] = 3
    x[-2:1:-3] = 4


def fill_clipped(x):
    x[5:100] = 1
    x[-100:2] = 2
    x[100:] = 3
    x[:-100] = 4
    x[6:3] = 5
    x[100::-6] = 6


@pytest.mark.parametrize("function", [fill_all, fill_dots, fill_steps, fill_negative, fill_clipped])
@pytest.mark.parametrize("n", [0, 1, 2, 9, 12])
def test_fills(check, function, n):
    changed = np.full(n, 50)
    function(changed)
    check(function, lambda: (np.full(n, 50),), noop=bool((changed == 50).all()))


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_bounds_and_steps_that_are_arguments(rig, step):
    def kernel(x, low, high, step):
        x[low:high:step] = 1

    k = rig.kernel(kernel)
    for low in (0, 3, 8, 20, -1, -4, -20):
        for high in (0, 3, 8, 20, -1, -4, -20):
            for n in (0, 8):
                x, expected = np.zeros(n), np.zeros(n)
                expected[low:high:step] = 1
                rig.run(k, x, low, high, step)
                np.testing.assert_array_equal(x, expected, err_msg=f"{low}:{high}:{step} of {n}")
    assert k.stats.compilations == 1


def device_bounds(x, n, ends):
    low = ends[0]
    high = ends[1] + 0
    x[low:high] = 1
    x[high::2] += 2
    x[n - low :: -3] += 5
    x[: low - 3 : -2] += 7
    x[:-6] -= 1


def test_bounds_that_only_the_device_knows(rig):
    kernel = rig.kernel(device_bounds)
    for ends in itertools.product([0, 3, -2, 30], [0, 5, -1, 30]):
        rig.compare(kernel, lambda ends=ends: (np.zeros(10), 8, np.array(ends)))


# --- elementwise expressions -------------------------------------------------------------------------------------------


def copies(x, y):
    y[:] = x


def stencil(x, y, z, a):
    y[1:-1] = a * x[:-2] + z[2:]


def functions(x, y, z):
    y[:] = np.sqrt(x[:]) * 2 + np.maximum(x, z) - abs(-z)
    y[1:3] = np.where(x[1:3] > 3, x[:2], -1.0)
    y[-2:] = np.clip(z[-2:], 2.0, 5.0)


def reversed_(x, y):
    y[:] = x[::-1]
    y[:5:2] = x[5::2]


def in_place(x, y):
    x[1:-1] += y[2:] * 2
    x[:] *= 3
    x[::-1] -= 1
    x[:] = 0.5 * x[:] + x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "complex64"])
def test_copies_of_each_type(check, dtype):
    check(copies, lambda: (ramp(10, dtype=dtype), poison(10, dtype=dtype)))


def test_copy_converts(check):
    check(copies, lambda: (ramp(10) + 0.7, poison(10, dtype=np.int32)))
    check(copies, lambda: (ramp(10, dtype=np.int8), poison(10, dtype=np.float32)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stencil(check, dtype):
    check(stencil, lambda: (ramp(12, dtype=dtype), poison(12, dtype=dtype), ramp(12, dtype=dtype) * 2, 2.5))


def test_functions(check):
    check(functions, lambda: (ramp(10), poison(10), ramp(10)[::-1].copy()))


def test_reversed(check):
    check(reversed_, lambda: (ramp(10), poison(10)))


def test_in_place(check):
    check(in_place, lambda: (ramp(10), ramp(10)))


def planes(u, v, w):
    u[0, :] = u[1, :]
    u[:, -1] = u[:, -2]
    u[1:-1, :] += 2
    u[2] = v[1, :, 0]
    v[:, 1:, ::2] = 7
    v[0, :4, :4] = u[:, :4]
    v[..., 1] = u[0, 0]
    v[1, ...] *= w[:, None]


def test_dimensions(check):
    check(planes, lambda: (ramp(4, 5), ramp(3, 5, 6), ramp(5)))


def transposed(u, v):
    v[:] = u.T
    v[1:, 0] = u.T[1:, 2] * 2
    v.T[0] = 3


def test_transposed(check):
    check(transposed, lambda: (ramp(4, 5), poison(5, 4)))


def test_elements_that_the_statement_changes_are_read_before(check):
    def kernel(x):
        x[:] = x / x[1]
        x[2:] = x[0] + x[-1]

    check(kernel, lambda: (ramp(9),))


def elimination(a):
    n = a.shape[0]
    for k in qgraph.serial(range(n - 1)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k][:, None] * a[k, k + 1 :]


def test_elimination(check):
    matrix = np.random.default_rng(1).random((6, 6)) + 6 * np.eye(6)
    check(elimination, lambda: (matrix.copy(),))


def several_targets(x, y):
    x[:2] = s = y[0] + 1
    x[3:] = y[2:5] = s * 2


def test_several_targets(check):
    check(several_targets, lambda: (ramp(8), ramp(8)))


# --- inside loops and branches -----------------------------------------------------------------------------------------


def nested(x, y, c):
    t = 0
    while t < 5:
        if t % 2 == 0:
            x[1:] += t
        else:
            x[:-1] = y[1:] * t
        match t:
            case 3:
                x[::2] = 0
        t += 1
    for i in qgraph.serial(range(3)):
        y[i] = i
        y[i + 1 :] += 1
    while qgraph.graph_do_while(c):
        x[:] = x + 1
        c[0] -= 1


def test_inside_loops_and_branches(check):
    check(nested, lambda: (ramp(9), ramp(9), np.array([3])))


def branch_only(x, flag):
    if flag[0] > 0:
        x[:] = 9


@pytest.mark.parametrize("flag", [0, 1])
def test_a_branch_with_nothing_else(check, flag):
    check(branch_only, lambda: (ramp(9), np.array([flag])), noop=flag == 0)


# --- reductions --------------------------------------------------------------------------------------------------------


def close(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def every_reduction(x, y):
    s = np.sum(x[1:-1] * y[1:-1])
    r = np.sqrt(np.sum((x - y) ** 2))
    return s, r, np.min(x[::2]), np.max(abs(x - y)), np.any(x > 22), np.all(x[2:] > 0), np.dot(x, y), x @ y, np.mean(x), x.max()


@pytest.mark.parametrize("dtype", ["float32", *thorough("float64")])
def test_reductions(rig, dtype):
    k = rig.kernel(every_reduction)
    x, y = ramp(40, dtype=dtype), ramp(40, dtype=dtype)[::-1].copy()
    close(k(rig.device(x), rig.device(y)), every_reduction(x, y))


@pytest.mark.parametrize("dtype", ["int8", "uint32", *thorough("uint8", "int32", "int64", "bool")])
def test_sums_have_the_type_that_numpy_gives_them(rig, dtype):
    def kernel(x):
        return np.sum(x), np.prod(x[:3]), np.count_nonzero(x), np.any(x), np.all(x), np.max(x)

    x = (ramp(48) * 5).astype(dtype)
    results = rig.kernel(kernel)(rig.device(x))
    for got, expected in zip(results, kernel(x), strict=True):
        assert got == expected


def planar(u):
    return np.sum(u), np.max(u[1:, ::2]), np.sum(u[0] * u[-1]), np.min(u[:, 0])


def test_reductions_of_planes(rig):
    u = ramp(5, 7)
    close(rig.kernel(planar)(rig.device(u)), planar(u))


def empty_sums(x):
    return np.sum(x), np.sum(x[3:1]), np.any(x > 0), np.all(x > 0), np.prod(x)


def test_reductions_of_nothing(rig):
    x = np.zeros(0)
    close(rig.kernel(empty_sums)(rig.device(x)), empty_sums(x))


def relax(x, y, tol):
    n = 0
    while np.max(np.abs(x - y)) > tol:
        y[:] = 0.5 * (x + y)
        n += 1
    return n


def test_reductions_in_conditions(rig):
    x, y, expected = ramp(20), np.zeros(20), np.zeros(20)
    steps = relax(x, expected, 1e-3)
    kernel = rig.kernel(relax)
    target = rig.device(y)
    assert kernel(rig.device(x), target, 1e-3) == steps
    np.testing.assert_allclose(qgraph.to_numpy(target), expected)


@qgraph.func
def dot(a, b):
    return np.sum(a * b)


@qgraph.func
def normalise(a):
    s = dot(a, a)
    a[:] /= np.sqrt(s)
    return s


def with_funcs(x, y):
    y[0] = dot(x[1:], x[:-1])
    if dot(x, x) > 1:
        y[1:] = normalise(x[2:5])


def test_funcs_take_parts_of_arrays(check):
    check(with_funcs, lambda: (ramp(9), poison(9)))


@qgraph.func
def last_and(v, k):
    return v[-1] * 3 + v[k] * len(v)


@qgraph.func
def both(v, k):
    return last_and(v, k) + v[0]


@qgraph.func
def row_sum(t, i):
    s = 0.0
    for j in range(t.shape[1]):
        s += t[i, j] * (j + 1)
    return s + t.size


@qgraph.func
def but_the_first(v, k):
    v = v[1:]
    return v[k] + len(v)


@qgraph.func
def put(v, k, e):
    v[k] = e


def reversed_and_transposed(x, a, out, n):
    w, t = x[::-1], a.T
    z = x[n[0] : 0 : -2]
    for i in range(t.shape[0]):
        out[i] = both(w, i) + row_sum(t, i) + but_the_first(w, i) + row_sum(a.T, i) + last_and(x[::-1], i)
    for i in range(z.shape[0]):
        out[i] += last_and(z, i) + but_the_first(t[::-2, 1], 0)
    put(t[0], 1, row_sum(t[:, ::-1], 2) + both(z, 0))
    out[0] += row_sum(t, 1)
    for i in range(x.shape[0]):
        put(w, i, x[x.shape[0] - 1 - i] * 2)


def test_funcs_take_reversed_and_transposed_parts(rig):
    kernel = rig.kernel(reversed_and_transposed)
    rig.compare(kernel, lambda: (ramp(7), ramp(4, 3), poison(4), np.array([5])))
    loops = [task for task in kernel.plan(ramp(7), ramp(4, 3), poison(4), np.array([5])).tasks if task.axes]
    # Each iteration of the last one has its element, by two names.
    assert loops[-1].verdict.kind == "independent"


def device_reductions(x, ends):
    a = ends[0]
    return np.sum(x[a:]), np.max(x[a : a + 3]), np.sum(x[: a + 1] * x[: a + 1])


def test_reductions_of_slices_that_only_the_device_knows(rig):
    x, ends = ramp(12), np.array([4])
    close(rig.kernel(device_reductions)(rig.device(x), rig.device(ends)), device_reductions(x, ends))


# --- names for parts ---------------------------------------------------------------------------------------------------


def named(u, x):
    w = u[1:-1]
    row = u[3]
    back = x[::-2]
    for i, j in qgraph.ndrange(*w.shape):
        w[i, j] = -w[i, j]
    row[:] = 5
    for i in range(row.shape[0]):
        row[i] += i
    w[-1, -1] = 100
    for i in range(len(back)):
        back[i] = i * 10 + back[i]
    back[-1] = 3
    back[1:3] = 8
    w[0] += row


def test_names(check):
    check(named, lambda: (ramp(5, 6), ramp(9)))


def names_in_loops(u, v):
    for k in qgraph.serial(range(1, u.shape[0])):
        row = u[k]
        above = u[k - 1]
        part = v[k:]
        row[1:] += k
        for i in range(row.shape[0]):
            row[i] += above[i]
        part[:] = np.sum(row)


def test_names_in_serial_loops(check):
    check(names_in_loops, lambda: (ramp(4, 5), ramp(6)))


def named_before(x, a):
    k = a[0]
    w = x[k:]
    k = 0
    w[:] = k
    for i in range(w.shape[0]):
        w[i] += i


def test_a_name_keeps_its_bounds(check):
    check(named_before, lambda: (ramp(9), np.array([3])))


# --- the plan ----------------------------------------------------------------------------------------------------------


def test_the_plan_says_elementwise(rig):
    plan = rig.kernel(copies).plan(rig.device(ramp(8)), rig.device(ramp(8)))
    (task,) = plan.tasks
    assert "elementwise" in str(task.verdict)


def test_lengths_are_checked_before_anything_runs(rig):
    def kernel(x, y):
        x[:] = 1
        y[1:] = x[:-1]

    k = rig.kernel(kernel)
    x, y = rig.device(np.zeros(5)), rig.device(np.zeros(6))
    with pytest.raises(qgraph.ArgumentError, match="length 4"):
        k(x, y)
    assert not qgraph.to_numpy(x).any()


def shift(x, y):
    y[1:] = x[:-1]


def test_arrays_that_share_memory(rig):
    k = rig.kernel(shift)
    x, y = ramp(8), np.zeros(8)
    expected = np.r_[0, x[:-1]]
    rig.run(k, x, y)
    np.testing.assert_array_equal(y, expected)
    expected = np.r_[x[:1], x[:-1]]
    rig.run(k, x, x)
    np.testing.assert_array_equal(x, expected)


# --- arrays that change places, while parts of them have names ------------------------------------------------------------


def named_before_a_loop(u, v, n):
    w = u[1:-1]
    for _ in qgraph.serial(range(n)):
        for i in range(u.shape[0]):
            v[i] = u[i] + 1
        u, v = v, u
    w[:] = 7
    u[0] = 100


def named_inside(u, v, n):
    for k in qgraph.serial(range(n)):
        w = u[1:-1]
        u, v = v, u
        w[:] = w + 1
        u[0] = 100 + k
    v[-1] = -9


def named_between_loops(u, v, n):
    for _ in qgraph.serial(range(n)):
        v[:] = u + 1
        u, v = v, u
    w = u[1:]
    whole = u
    for _ in qgraph.serial(range(n)):
        v[:] = u * 2
        u, v = v, u
    w[:] = -1
    whole[0] = -5


def named_around_a_loop(u, v, n):
    for _ in qgraph.serial(range(3)):
        w = u[1:]
        for _ in qgraph.serial(range(n)):
            v[:] = u * 2
            u, v = v, u
        w[0] = -1
    u[0] = 77


def named_around_a_branch(u, v, n):
    q = qgraph.zeros_like(u)
    for _ in qgraph.serial(range(n)):
        w, z = u[1:-1], v[:3]
        v[1:-1] = u[2:] - w
        if v[1] > -5:
            u, v = v, u
            w[0] += 3
        else:
            v, q = q, v
            z[0] += 100
        w *= 2
        z -= u[:3]
    u[0] = 77


@qgraph.func
def swapping(a, b, n):
    for _ in qgraph.serial(range(n)):
        b[:] = a + 1
        a, b = b, a
    a[0] = -7


def named_around_a_func(u, v, n):
    for _ in qgraph.serial(range(n)):
        v[:] = u * 2
        u, v = v, u
    w = u[1:]
    swapping(u, v, n)
    u[2] = 1000
    w[-1] = 500


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "function",
    [
        named_before_a_loop,
        named_inside,
        named_between_loops,
        named_around_a_loop,
        named_around_a_branch,
        named_around_a_func,
    ],
)
def test_a_part_stays_with_its_array(check, function, n):
    check(function, lambda: (ramp(8), ramp(8) + 50, n))


def kept_after_the_loop(u, v):
    count = 0
    while True:
        w = u[1:]
        u, v = v, u
        count += 1
        if count >= 3:
            break
    w[0] = 0


def test_a_part_of_an_array_that_moved_on_is_refused_after_the_loop():
    with pytest.raises(
        qgraph.KernelSyntaxError, match="`w` was bound in a loop or branch in which its array changes places"
    ) as caught:
        qgraph.kernel(kept_after_the_loop).plan(ramp(8), ramp(8))
    assert "w[0] = 0" in str(caught.value)


def bound_again(x, n):
    w = x[1:]
    w[0] = 5
    for k in qgraph.serial(range(n)):
        w = x[k:]
        w += 1
        y = w[1:]
        y[0] = k


@pytest.mark.parametrize("n", [0, 3])
def test_a_name_that_a_loop_binds_again(check, n):
    check(bound_again, lambda: (ramp(9), n))


# --- bounds are those of the moment ----------------------------------------------------------------------------------------


def frozen(x, y, a, n):
    m = n
    w = x[:m]
    m += 2
    w[:] = 0
    k = a[0]
    v = y[:k]
    k = k + 3
    a[0] = 7
    v[:] = 1
    y[k:] = 5
    a[1] = len(v) + 10 * w.shape[0]


@pytest.mark.parametrize("k", [-20, -3, 0, 2, 20])
def test_bounds_are_those_of_the_moment(check, k):
    check(frozen, lambda: (ramp(9), ramp(9), np.array([k, 0]), 3))


# --- parts that overlap ------------------------------------------------------------------------------------------------------


def overlapping_parts(x, y, k):
    a, b = x[1:], x[:-1]
    a[:] = b
    a[:] = a[::-1]
    b += a
    c, d = y[::2], y[1::2]
    c[:] = d
    c *= 2
    n = k[0]
    w = y[:n]
    w[:] = w[::-1]
    w[1:] = w[:-1]
    w[1:-1] += w[:-2] - 2 * w[2:]


@pytest.mark.parametrize("k", [0, 3, 10])
def test_parts_of_one_array_that_overlap(check, k):
    check(overlapping_parts, lambda: (ramp(10), ramp(10) + 3, np.array([k])))


def a_step_behind(x):
    w = x[1:]
    for i in range(w.shape[0]):
        w[i] = x[i]


def transposed_onto_itself(u):
    t = u.T
    for i, j in qgraph.ndrange(*u.shape):
        t[i, j] = u[i, j]


@pytest.mark.parametrize(("function", "text"), [(a_step_behind, "`w[i]`"), (transposed_onto_itself, "`t[i, j]`")])
def test_dependent_loops_over_parts_are_refused(function, text):
    array = ramp(4, 4) if function is transposed_onto_itself else ramp(5)
    with pytest.raises(qgraph.DataRaceError) as caught:
        qgraph.kernel(backend="cpu")(function)(array)
    assert text in str(caught.value)


def apart(x):
    w, v = x[:5], x[5:]
    for i in range(5):
        w[i] = v[i]


def test_loops_over_parts_that_do_not_touch_are_independent():
    plan = qgraph.kernel(apart).plan(ramp(10))
    assert [task.verdict.kind for task in plan.tasks if task.role == "loop"] == ["independent"]


def one_after_the_other(x, y):
    w = x[1:]
    w[:] = 1
    y[:] = 2
    x[:3] += w[:3]


def test_edges_follow_the_array_of_a_part(rig):
    plan = rig.kernel(one_after_the_other).plan(rig.device(ramp(5)), rig.device(ramp(5)))
    # The last statement has two loops: what it reads and what it assigns overlap.
    assert plan.edges == ((0, 2), (2, 3))


# --- what a part can be used for ---------------------------------------------------------------------------------------------


def updated_names(x, y):
    b = x[:-1]
    b += x[1:]
    x *= 2
    y -= x
    for _ in qgraph.serial(range(2)):
        y /= 2
        b += y[:-1]


def test_updates_of_names(check):
    check(updated_names, lambda: (ramp(8), ramp(8)))


def colliding(x, at):
    w, back = x[3:], x[::-1]
    for i in range(at.shape[0]):
        w[at[i]] += 1
    for i in range(at.shape[0]):
        qgraph.atomic_add(w, at[i], 2.0)
    for i in range(at.shape[0]):
        qgraph.atomic_max(back, at[i], 12.0)
    for i in range(at.shape[0]):
        w[0] += i


def test_colliding_updates_of_parts(check):
    check(colliding, lambda: (ramp(10), np.arange(20) % 5))


@qgraph.func
def copy_first(pair):
    a, b = pair
    a[:] = b[: len(a)]


def tuples_of_parts(x, y):
    copy_first((x[2:5], y[3:]))
    copy_first((x[5:], y))
    pair = (x[1:], y)
    a, b = pair
    a[0] = 50
    b[1] = 60


def test_tuples_of_parts(check):
    check(tuples_of_parts, lambda: (ramp(10), ramp(10) * 3))


def like_a_part(x, u):
    w = x[2:-1]
    t = qgraph.zeros_like(w)
    t[:] = w
    s = qgraph.full(w.shape, 3, dtype=w.dtype)
    s += t
    m, n = u[1:].T.shape
    x[: len(s)] = s
    x[-1] = m * 10 + n
    v = qgraph.empty_like(u[1:].T)
    v[:] = u[1:].T
    u[1:] = v.T * 2


def test_temporaries_like_parts(check):
    check(like_a_part, lambda: (ramp(9), ramp(4, 3)))


def filled(x, y, u):
    w = x[2:]
    w[:] = 0
    v = y[1:]
    v[1:] = w[:-1]
    row = u[1]
    row[:] = 0


def test_fills_of_parts_are_memory_nodes(rig):
    plan = rig.kernel(filled).plan(rig.device(ramp(9)), rig.device(ramp(8)), rig.device(ramp(4, 3)))
    assert [node.kind for node in plan.nodes] == ["memset", "memcpy", "memset"]


def test_fills_of_parts(check):
    check(filled, lambda: (ramp(9), ramp(8), ramp(4, 3)))


def whole_in_branches(y, a):
    w = y[:]
    for n in qgraph.serial(range(3)):
        match a % 3:
            case 0:
                s = np.min(y)
                w[n] += s
            case 1 | 2:
                w[1] += w[2]
        y[1] += y[(n if a > 1 else 0) % w.shape[0]]
        w[0] += 1


@pytest.mark.parametrize("a", [0, 1, 2])
def test_the_size_of_an_array_that_branches_have_looked_at(check, a):
    check(whole_in_branches, lambda: (np.arange(4.0), a))


@qgraph.func
def next_to(a, b):
    for i in range(a.shape[0]):
        a[i] = b[i] + 1


def parts_that_lie_apart(x, u):
    next_to(x[:2], x[3:5])
    next_to(x[8:10], x[6:8])
    next_to(x[:1], x[1:2])
    next_to(x[-2:], x[:2])
    next_to(x[5:3:-1], x[6:8])
    next_to(x[:4][1:3], x[4:8][:2])
    next_to(u[0, :2], u[0, 2:4])
    a = x[2:4]
    for i in range(len(a) - 1):
        a[i] += x[i + 3]
    for i in range(min(x.shape[0], 3)):
        x[i] = x[i + 4]
    for i in range(len(x[:2])):
        x[i + 2] = x[i]


def test_parts_that_lie_apart_are_no_race(check):
    check(parts_that_lie_apart, lambda: (ramp(12), ramp(3, 4)))


@qgraph.func
def summed_up(x, i):
    for j in range(1, x.shape[1]):
        x[i, j] += x[i, j - 1]
    return x.shape[1]


@qgraph.func
def summed_up_vector(x):
    s = 0.0
    for k in range(1, len(x)):
        x[k] += x[k - 1]
        s += x[k]
    return s


def transposed_parts(u, v, out):
    for j in range(u.shape[1]):
        out[j] = summed_up(u.T, j)
    for j in range(u.shape[1] - 1):
        out[j] += summed_up(u[:, ::-1].T[1:], j)
    for i in range(u.shape[0]):
        out[i] += summed_up_vector(u.T.T[i]) + summed_up_vector(v.T[:, 1, i])
    for k in range(v.shape[2]):
        summed_up(v[1].T, k)
        put(v.T[k], 0, v[0, 1, k])
    for j in range(u.shape[1]):
        for e in u.T[j]:
            out[j] += e


def test_transposed_parts_are_followed_into_funcs(check):
    # Without an AssumedParallelWarning.
    kernel = check(transposed_parts, lambda: (ramp(3, 4), ramp(3, 4, 5), ramp(5)))
    verdicts = [task.verdict.kind for task in kernel.plan(ramp(3, 4), ramp(3, 4, 5), ramp(5)).tasks if task.axes]
    assert set(verdicts) == {"independent"}


@qgraph.func
def put_at(x, i, j, e):
    x[i, j] = e


def transposed_onto_what_is_read(u):
    for j in range(u.shape[0] - 1):
        put_at(u.T, j + 1, 0, u[0, j] + 1)


def test_a_transposed_part_that_another_iteration_reads_is_a_race(rig):
    u = rig.device(ramp(4, 4))
    with pytest.raises(qgraph.DataRaceError, match="u\\[0, 1\\]"):
        rig.kernel(transposed_onto_what_is_read)(u)
    assert (qgraph.to_numpy(u) == ramp(4, 4)).all()


def rows_of_a_part(x, k):
    for i in range(k):
        for j in range(min(3, k)):
            x[3 * i + j] = x[3 * i + j + 3 * k] + j


def test_an_inner_extent_that_is_limited(check):
    kernel = check(rows_of_a_part, lambda: (ramp(40), 5))
    assert "independent" in str(kernel.plan(ramp(40), 5))


def one_element(x, y):
    a = x[:1]
    for i in range(a.shape[0]):
        a[0] = 2 * y[i]


def test_a_part_of_one_element_has_one_iteration(check):
    check(one_element, lambda: (ramp(5), ramp(5)))


def parts_that_overlap(x):
    next_to(x[3:13], x[:10])


def a_part_backwards(x):
    a = x[:100]
    for i in range(a.shape[0]):
        x[i] = x[a.shape[0] - 1 - i]


@pytest.mark.parametrize("function", [parts_that_overlap, a_part_backwards])
def test_parts_that_overlap_are_a_race(rig, function):
    x = rig.device(ramp(200))
    with pytest.raises(qgraph.DataRaceError):
        rig.kernel(function)(x)
    assert (qgraph.to_numpy(x) == ramp(200)).all()


def test_the_length_of_a_view_is_a_number_in_bodies(check):
    @qgraph.func
    def last(a, first):
        n = a[first:].shape[0]
        s = 0
        for i in range(a.shape[0]):
            s += n if i == 0 else 0
        return s

    def kernel(x, out, a):
        w, back = x[::2], x[a::-3]
        n, m = w.shape[0], back.shape[0]
        t = np.empty_like(back)
        t[:] = back
        for i in range(n):
            out[i] = n - i + m * 10
        k = 0
        for i in range(t.shape[0]):
            k += 1
        out[5 : 5 + k] = t[:k]
        if x[0] > 0:
            size = x[a:].shape[0]
            for i in range(size):
                out[-1 - i] = size
        out[4] = last(x, a)

    for a in (5, 0):
        check(kernel, lambda a=a: (np.arange(1.0, 8), np.zeros(20), a))


def test_a_part_without_axes_has_no_name():
    """In NumPy it is an array, which shares its element; of a number that it is now nobody need ask."""

    def named(x, y):
        q = x[..., 0]
        x[0] = 5.0
        y[0] = q

    def used(x, y):
        y[0] = x[..., 0] + 1.0

    with pytest.raises(qgraph.KernelSyntaxError, match=r"which shares its element with `x`"):
        qgraph.kernel(backend="cpu")(named)(np.ones(3), np.ones(3))
    y = np.zeros(1)
    qgraph.kernel(backend="cpu")(used)(np.ones(3), y)
    assert y[0] == 2.0
