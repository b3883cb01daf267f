"""Library calls at kernel level: what NumPy and SciPy compute of whole arrays, in straight lines, loops and branches."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import cumprod

import qgraph
from qgraph.nodes.library_call import LibraryCall

scipy_linalg = pytest.importorskip("scipy.linalg")


@pytest.fixture(autouse=True)
def _library(backend):
    if backend == "cuda":
        pytest.importorskip("torch")


def matrix(n=6, dtype="float64", seed=0):
    made = np.random.default_rng(seed).random((n, n)) + n * np.eye(n)
    return made.astype(dtype)


def vector(n=6, dtype="float64", seed=1):
    return np.random.default_rng(seed).random(n).astype(dtype)


def poison(*shape, dtype="float64"):
    return np.full(shape, 77, dtype)


def product(a, x, y):
    y[:] = a @ x


def of_an_expression(a, x, y):
    y[:] = (a * a - a) @ x


def product_of_matrices(a, b, c):
    c[...] = np.matmul(a, b)


def dot_of_matrices(a, b, c):
    c[:, :] = np.dot(a, b.T)


def solved(a, b, x):
    x[:] = np.linalg.solve(a, b)


def inverse(a, x):
    x[:] = np.linalg.inv(a)


def cholesky(a, x):
    x[:] = np.linalg.cholesky(a)


def triangular(a, b, x):
    x[:] = scipy_linalg.solve_triangular(a, b, lower=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (product, ((6, 6), (6,), (6,))),
        (product, ((4, 6), (6,), (4,))),
        (product, ((6,), (6, 3), (3,))),
        (product_of_matrices, ((4, 6), (6, 5), (4, 5))),
        (product_of_matrices, ((3, 4, 6), (3, 6, 5), (3, 4, 5))),
        (product_of_matrices, ((1, 4, 6), (3, 6, 5), (3, 4, 5))),
        (product_of_matrices, ((2, 3, 4, 6), (2, 3, 6, 5), (2, 3, 4, 5))),
        (product_of_matrices, ((3, 4, 6), (6, 5), (3, 4, 5))),
        (product, ((6,), (3, 6, 5), (3, 5))),
        (product, ((3, 4, 6), (6,), (3, 4))),
        (of_an_expression, ((3, 4, 6), (6,), (3, 4))),
        (dot_of_matrices, ((4, 6), (5, 6), (4, 5))),
    ],
)
def test_products(rig, function, shapes, dtype):
    def arguments():
        rng = np.random.default_rng(0)
        return *(rng.random(shape).astype(dtype) for shape in shapes[:-1]), poison(*shapes[-1], dtype=dtype)

    rig.check(function, arguments, tolerance=1e-5 if dtype in ("float32", "complex64") else 1e-12)


def of_functions(a, x, y):
    y[:] = np.dot(np.sqrt(a), x) + np.matmul(-a, x)


def of_its_mean(a, x, y):
    y[:] = (a - np.mean(a)) @ x + (a @ x) * 0.5


def of_a_part(a, x, y):
    y[1:] = (a[1:] + 1) @ x


def with_a_column(a, x, y):
    # `x * a[:1]` compiles for the lengths that are 1.
    y[:] = (a + a) @ x - (x * a[0, :1])[: a.shape[0]] * 0


def with_a_part(a, x, y):
    y[:] = (2 * a) @ x[::-1] + (a.T[:, : a.shape[0]] * a[:, : a.shape[0]]) @ a[:, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64", "int16"])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (of_an_expression, ((4, 6), (6,), (4,))),
        (of_an_expression, ((4, 6), (6, 3), (4, 3))),
        (of_an_expression, ((4, 6), (6, 1), (4, 1))),
        (of_an_expression, ((5, 1), (1,), (5,))),
        (of_an_expression, ((5, 1), (1, 1), (5, 1))),
        (of_an_expression, ((6,), (6, 3), (3,))),
        (of_an_expression, ((1, 6), (6,), (1,))),
        (of_an_expression, ((70, 300), (300,), (70,))),
        (of_functions, ((4, 6), (6,), (4,))),
        (of_its_mean, ((4, 6), (6,), (4,))),
        (of_a_part, ((4, 6), (6,), (4,))),
        (with_a_column, ((6, 6), (6, 1), (6, 1))),
        (with_a_part, ((6, 6), (6,), (6,))),
    ],
)
@pytest.mark.parametrize("fuse", [False, True])
def test_products_of_expressions(rig, function, shapes, dtype, fuse):
    """A matrix that is nowhere in memory, and a vector: sums over its rows."""

    def arguments():
        rng = np.random.default_rng(sum(shapes[0]))
        given = [(8 * rng.random(shape)).astype(dtype) for shape in shapes[:-1]]
        return *given, poison(*shapes[-1], dtype="complex128" if dtype.startswith("c") else "float64")

    narrow = dtype in ("float32", "complex64") or (dtype == "int16" and function is of_functions)
    rig.check(function, arguments, fuse=fuse, tolerance=1e-5 if narrow else 1e-12)


def test_a_matrix_that_is_nowhere_in_memory():
    plan = qgraph.kernel(of_an_expression, backend="cuda").plan(matrix(), vector(), vector())
    assert [len(each.shape) for each in plan.program.temporaries] == [1]
    assert not any(isinstance(node.what, LibraryCall) for node in plan.nodes)


@pytest.mark.parametrize("shapes", [((4, 6), (4,), (4,)), ((4, 1), (6,), (4,)), ((4, 6), (1,), (4,)), ((4, 6), (1, 1), (4, 1))])
@pytest.mark.parametrize("fuse", [False, True])
def test_expressions_that_do_not_fit(rig, shapes, fuse):
    kernel = rig.kernel(of_an_expression, fuse=fuse)
    for _ in range(2):
        with pytest.raises(qgraph.errors.ArgumentError):
            rig.run(kernel, *(np.ones(shape) for shape in shapes))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("function", [solved, triangular])
@pytest.mark.parametrize("columns", [(), (1,), (6,), (3,)])
def test_solutions(rig, function, dtype, columns):
    def arguments():
        right = np.random.default_rng(2).random((6, *columns)).astype(dtype)
        return matrix(dtype=dtype), right, poison(6, *columns, dtype=dtype)

    rig.check(function, arguments, tolerance=1e-4 if dtype == "float32" else 1e-11)


def test_several_systems(rig):
    def arguments():
        return np.stack([matrix(seed=each) for each in range(4)]), np.ones((4, 6, 2)), poison(4, 6, 2)

    rig.check(solved, arguments, tolerance=1e-11)


@pytest.mark.parametrize(
    ("matrices", "right"),
    [
        ((4, 6, 6), (6,)),
        ((4, 6, 6), (6, 2)),
        ((6, 6), (3, 6, 2)),
        ((2, 1, 6, 6), (3, 6, 2)),
        ((0, 6, 6), (6,)),
        ((0, 0), (0, 3)),
    ],
)
def test_systems_that_are_repeated(rig, matrices, right):
    """As NumPy 2: a vector is a vector for each matrix, and all else are stacks of matrices."""

    def arguments():
        rng = np.random.default_rng(5)
        a, b = rng.random(matrices) + 6 * np.eye(matrices[-1]), rng.random(right)
        return a, b, poison(*np.linalg.solve(a, b).shape)

    rig.check(solved, arguments, tolerance=1e-11, noop=0 in (*matrices, *right))


@pytest.mark.parametrize("types", [("int8", "float32"), ("float32", "bool"), ("uint8", "complex64"), ("int32", "float32")])
def test_integers_and_floats_have_a_float64_solution(rig, types):
    def arguments():
        a, b = np.random.default_rng(6).integers(0, 5, (6, 6)) + 20 * np.eye(6), np.arange(6)
        return a.astype(types[0]), b.astype(types[1]), poison(6, dtype="complex128")

    rig.check(solved, arguments, tolerance=1e-12)


@pytest.mark.parametrize("function", [inverse, cholesky])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_of_one_matrix(rig, function, dtype):
    def arguments():
        a = matrix(dtype=dtype)
        return (a + a.T).astype(dtype), poison(6, 6, dtype="float64" if dtype == "int64" else dtype)

    rig.check(function, arguments, tolerance=1e-4 if dtype == "float32" else 1e-11)


def forward(x, y):
    y[:] = np.fft.fft(x)


def backward(x, y):
    y[:] = np.fft.ifft(x, axis=0, norm="ortho")


def forward_of_reals(x, y):
    y[:] = np.fft.rfft(x)


def backward_to_reals(x, y):
    y[:] = np.fft.irfft(x)


@pytest.mark.parametrize("shape", [(16,), (8, 10)])
def test_transforms(rig, shape):
    def reals():
        return np.random.default_rng(0).random(shape)

    def halved(n):
        return (*shape[:-1], n)

    rig.check(forward, lambda: (reals(), poison(*shape, dtype="complex128")))
    rig.check(backward, lambda: (reals() + 1j, poison(*shape, dtype="complex128")))
    rig.check(forward_of_reals, lambda: (reals(), poison(*halved(shape[-1] // 2 + 1), dtype="complex128")))
    rig.check(backward_to_reals, lambda: (reals() + 1j, poison(*halved(2 * (shape[-1] - 1)))))

    def in_all_axes(x, y):
        y[:] = np.fft.fftn(x)

    rig.check(in_all_axes, lambda: (reals(), poison(*shape, dtype="complex128")))


def ordered(x, y, z):
    y[:] = np.sort(x)
    z[:] = np.argsort(x, axis=-1)


def scanned(x, y, z):
    y[:] = np.cumsum(x)
    z[:] = np.cumprod(x)


def places(x, v, y, z):
    x[:] = np.sort(x)
    y[:] = np.searchsorted(x, v)
    z[:] = np.searchsorted(x, v, side="right")


def in_order(x, y, z):
    y[:] = np.sort(x)
    z[:] = np.argsort(x)


@pytest.mark.parametrize("n", [7, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nans_come_last_whatever_their_signs(rig, n, dtype):
    x = np.random.default_rng(n).random(n).astype(dtype)
    x[1::7], x[3::7], x[5::7] = -np.nan, np.nan, -np.inf
    assert np.signbit(x[1])
    y, z = rig.device(np.zeros(n, dtype)), rig.device(np.zeros(n, np.int64))
    rig.kernel(in_order)(rig.device(x), y, z)
    np.testing.assert_array_equal(qgraph.to_numpy(y), np.sort(x))
    np.testing.assert_array_equal(x[qgraph.to_numpy(z)], np.sort(x))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_order_and_scans(rig, dtype):
    def distinct():
        return np.random.default_rng(3).permutation(20).astype(dtype)

    rig.check(ordered, lambda: (distinct(), poison(20, dtype=dtype), poison(20, dtype="int64")))
    rig.check(scanned, lambda: (distinct()[:8] % 4 + 1, poison(8, dtype=dtype), poison(8, dtype=dtype)))
    wanted = np.array([-1, 3, 3.5, 100]).astype(dtype)
    rig.check(places, lambda: (distinct(), wanted, poison(4, dtype="int64"), poison(4, dtype="int64")))


@pytest.mark.parametrize("nans", [0, 1, 2, 5])
def test_places_among_nans(rig, nans):
    """NumPy has them behind all numbers; so must a search that halves on its way."""

    def arguments():
        x = np.array([1, 2, 2, np.inf, np.inf])
        x[5 - nans :] = np.nan
        v = np.array([0, 1, 1.5, 2, 3, np.inf, -np.inf, np.nan])
        return x, v, poison(8, dtype="int64"), poison(8, dtype="int64")

    rig.check(places, arguments)


def along_an_axis(x, y, z):
    y[:] = np.sort(x, axis=0)
    z[:] = np.cumsum(x, axis=1)


def test_axes(rig):
    rig.check(along_an_axis, lambda: (np.random.default_rng(0).random((5, 7)), poison(5, 7), poison(5, 7)))


def power_iteration(a, x, y, tolerance, limit):
    turns = 0
    change = tolerance + 1
    norm = 0.0
    while change > tolerance and turns < limit:
        y[:] = a @ x
        norm = 0.0
        for i in range(y.shape[0]):
            norm += y[i] * y[i]
        norm = norm**0.5
        change = 0.0
        for i in range(x.shape[0]):
            change = max(change, abs(y[i] / norm - x[i]))
        for i in range(x.shape[0]):
            x[i] = y[i] / norm
        turns += 1
    return turns, norm


@pytest.mark.parametrize("n", [3, 17])
def test_in_a_while(rig, n):
    def arguments():
        return matrix(n) + matrix(n).T, np.full(n, n**-0.5), poison(n), 1e-10, 200

    rig.check(power_iteration, arguments, tolerance=1e-8)


def in_branches(a, b, x, n):
    for t in qgraph.serial(range(n)):
        if t % 2 == 0:
            x[:] = np.linalg.solve(a, b)
        else:
            for _s in qgraph.serial(range(2)):
                b[:] = a @ x
                for i in range(b.shape[0]):
                    b[i] = b[i] * 0.5 + t
    if n > 3:
        x[:] = np.sort(x)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_in_branches_and_nested_loops(rig, n):
    rig.check(in_branches, lambda: (matrix(), vector(), np.zeros(6), n), tolerance=1e-10, noop=n == 0)


def several_a_turn(a, x, y, step, rounds, turns):
    t = -5
    total = 0.0
    for _r in qgraph.serial(range(rounds)):
        for t in qgraph.serial(range(3, 3 + step * turns, step)):
            y[:] = a @ x
            x[:] = a @ y
        for _s in qgraph.serial(range(turns)):
            y[:] = a @ x
            for i in range(y.shape[0]):
                x[i] = y[i] % 5
            for i in range(x.shape[0]):
                total += x[i]
        for s in qgraph.serial(range(turns)):
            y[:] = a @ x
            for i in range(y.shape[0]):
                x[i] = (y[i] + s) % 7
    return t, total


@pytest.mark.parametrize("turns", [0, 1, 7, 8, 9, 16, 17, 18, 41])
def test_several_iterations_a_turn(rig, turns):
    """All whole numbers, and never many digits: what is not done once in each iteration is seen."""

    def arguments():
        a = np.roll(np.eye(5), 1, axis=0)
        return a, np.arange(5.0), np.zeros(5), -2 if turns % 2 else 3, 2, turns

    kernel = rig.check(several_a_turn, arguments, noop=turns == 0)
    if rig.backend != "cpu":
        assert str(kernel.explain(*arguments())).count("8 iterations a turn") == 2


def two_loops_on_one_line(a, x, y, turns):
    for _ in qgraph.serial(range(turns)):
        for i in range(x.shape[0]):
            x[i] = 2 * x[i] + y[i] % 3
        y[:] = a @ (x * 2)
    return y.sum()


@pytest.mark.parametrize("turns", [1, 8, 9, 16, 25])
def test_several_iterations_of_two_loops_on_one_line(rig, turns):
    """The second copy of the one had the name of the other one, and its code."""

    def arguments():
        return np.roll(np.eye(5), 1, axis=0), np.arange(5.0), np.zeros(5), turns

    kernel = rig.check(two_loops_on_one_line, arguments)
    names = [node.task.name for node in kernel.plan(*arguments()).nodes if node.task is not None]
    assert len(set(names)) == len(names)


def one_call_an_iteration(x, rounds, turns):
    t = -5
    for _r in qgraph.serial(range(rounds)):
        for t in qgraph.serial(range(7, 7 - turns, -1)):
            x[:] = np.cumsum(x)
    return t


@pytest.mark.parametrize("turns", [0, 1, 5, 6, 7, 31, 32, 33, 37, 38, 65, 70])
def test_one_call_an_iteration(rig, turns):
    """Thirty-two at a time, then five, then one: binomial coefficients tell how often."""
    kernel = rig.check(one_call_an_iteration, lambda: (np.ones(4, np.int64), 2, turns), noop=turns == 0)
    if rig.backend != "cpu":
        text = str(kernel.explain(np.ones(4, np.int64), 2, turns))
        assert (text.count("32 iterations a turn"), text.count(" 5 iterations a turn")) == (1, 1)


def with_temporaries(x, y):
    t = np.zeros_like(x)
    u = qgraph.empty(x.shape[0])
    for i in range(x.shape[0]):
        t[i] = x[i] * x[i]
    u[:] = np.cumsum(t)
    t[:] = np.sort(u)
    for i in range(x.shape[0]):
        y[i] = t[i] + u[i]


@pytest.mark.parametrize("n", [1, 5, 40])
def test_temporaries(rig, n):
    rig.check(with_temporaries, lambda: (vector(n) - 0.5, poison(n)))


def its_own_operand(a, x):
    x[:] = a @ x
    a[:] = a @ a.T


def test_the_right_side_comes_first(rig):
    rig.check(its_own_operand, lambda: (matrix(), vector()))


def strided(a, x, y):
    y[:] = a @ x


def test_strides(rig):
    rig.check(strided, lambda: (np.asfortranarray(matrix()), vector(12)[::2], poison(6)))


def backwards_and_forwards(a, x, y, z):
    y[:] = a.T @ x
    z[:] = np.sort(x)
    x[:] = np.linalg.solve(a, y)
    a[:] = np.linalg.inv(a)


def test_negative_strides(rig):
    def arguments():
        rng = np.random.default_rng(8)
        return rng.random((6, 12))[::-1, ::-2] + 6 * np.eye(6), rng.random(6)[::-1], rng.random(18)[::-3], rng.random(6)

    rig.check(backwards_and_forwards, arguments, tolerance=1e-11)


def transforms_of_stacks(x, y, z):
    y[:] = np.fft.fft(x, axis=0)
    z[:] = np.fft.fft2(x)


def test_a_stack_of_nothing(rig):
    rig.check(
        transforms_of_stacks,
        lambda: (poison(3, 0, 4, 4), *(poison(3, 0, 4, 4, dtype="complex128") for _ in range(2))),
        noop=True,
    )


@pytest.mark.parametrize(("shape", "words"), [((0, 4), "no elements to transform"), ((4,), "4 has less than 2 axes")])
def test_what_cannot_be_transformed(rig, shape, words):
    with pytest.raises(qgraph.ArgumentError, match=words):
        rig.kernel(transforms_of_stacks)(*(rig.device(poison(*shape, dtype="complex128")) for _ in range(3)))


def rotate(x, y):
    y[:] = x.T @ x


def test_other_sizes_and_arrays(rig):
    kernel = rig.kernel(product)
    for n in (4, 6, 4, 1):
        for seed in (1, 2):
            rig.compare(kernel, lambda n=n, seed=seed: (matrix(n, seed=seed), vector(n, seed=seed), poison(n)))
    rig.check(rotate, lambda: (np.random.default_rng(0).random((4, 3)), poison(3, 3)))


# --- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shapes", "words"),
    [
        (product, ((6, 5), (6,), (6,)), "do not fit: 5 is not 6"),
        (product, ((6, 6), (6,), (5,)), "is assigned to an array of shape"),
        (solved, ((5, 6), (5,), (5,)), "no square matrix"),
        (solved, ((5, 5), (4,), (5,)), "do not fit"),
        (solved, ((5, 5), (5, 2), (5,)), "is assigned to"),
        (ordered, ((5,), (4,), (5,)), "is assigned to"),
        (scanned, ((5, 5), (5, 5), (5, 5)), "several axes, and none is named"),
        (solved, ((4, 6, 6), (6,), (6,)), r"has the shape \(4, 6\), and it is assigned"),
    ],
)
def test_shapes_that_do_not_fit(rig, function, shapes, words):
    arrays = [rig.device(np.ones(shape)) for shape in shapes]
    with pytest.raises(qgraph.ArgumentError, match=words):
        rig.kernel(function)(*arrays)
    assert all((qgraph.to_numpy(array) == 1).all() for array in arrays)


def test_what_is_refused(rig):
    def real_target(x, y):
        y[:] = np.fft.fft(x)

    def other_options(x, y):
        y[:] = np.sort(x, kind="stable")

    def positional_options(x, y):
        y[:] = np.sort(x, 0, "stable")

    def unknown_axis(x, y, axis):
        y[:] = np.sort(x, axis=axis)

    x, y = rig.device(np.ones(3)), rig.device(np.ones(3))
    for function, arguments, words in (
        (other_options, (x, y), "which kernels do not know"),
        (positional_options, (x, y), "has not 1 arguments by position"),
        (unknown_axis, (x, y, 0), "not known when the kernel is compiled"),
    ):
        with pytest.raises(qgraph.KernelSyntaxError, match=words):
            rig.kernel(function)(*arguments)
    with pytest.raises(qgraph.KernelTypeError, match="is complex"):
        rig.kernel(real_target)(x, y)


def refined(a, b, x, turns):
    for _t in qgraph.serial(range(turns)):
        x[:] = np.linalg.solve(a, b)
        for i in range(x.shape[0]):
            a[i, 0] = 0.0


@pytest.mark.parametrize("function", [solved, triangular, inverse, cholesky, refined])
def test_matrices_without_an_answer(rig, function):
    def arguments(bad):
        a = np.tril(matrix())
        symmetric = a @ a.T
        if bad and function is not refined:
            symmetric[2, :] = symmetric[:, 2] = 0.0
        right, turns = ([np.ones(6)] if function not in (inverse, cholesky) else []), [2 if bad else 1] * (function is refined)
        return [symmetric, *right, poison(6, *([] if right else [6])), *turns]

    def on_device(values):
        return [rig.device(each) if isinstance(each, np.ndarray) else each for each in values]

    kernel = rig.kernel(function)
    with pytest.raises(np.linalg.LinAlgError) as caught:
        kernel(*on_device(arguments(True)))
        qgraph.synchronize()
    text = str(caught.value) if rig.backend == "cuda" else "".join(caught.value.__notes__)
    assert "test_library_calls.py" in text
    assert rig.backend != "cuda" or isinstance(caught.value, qgraph.LinAlgError)
    # It is told once, and the next call works.
    good = on_device(arguments(False))
    kernel(*good)
    qgraph.synchronize()
    wanted = arguments(False)
    kernel.reference(*wanted)
    np.testing.assert_allclose(
        qgraph.to_numpy(good[-2 if function is refined else -1]), wanted[-2 if function is refined else -1]
    )


def test_a_singular_matrix_of_several(rig):
    kernel = rig.kernel(solved)
    several = np.stack([matrix(seed=each) for each in range(3)])
    several[1] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        kernel(*map(rig.device, (several, np.ones((3, 6, 1)), np.zeros((3, 6, 1)))))
        qgraph.synchronize()


@pytest.mark.parametrize("n", [1, 2, 20, 40, 70])
def test_solutions_for_other_arrays(rig, n):
    kernel = rig.kernel(solved)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(n, n)) + 2 * np.eye(n), rng.normal(size=n)
        x = rig.device(np.full(n, np.nan))
        kernel(rig.device(a), rig.device(b), x)
        np.testing.assert_allclose(qgraph.to_numpy(x), np.linalg.solve(a, b), rtol=1e-8, atol=1e-10)


def change_places(a, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = a @ x
        for i in range(y.shape[0]):
            y[i] = y[i] * 0.25 + 1.0
        x, y = y, x
    y[:] = np.linalg.solve(a, x)


def doubled(x, y):
    y[...] = x * 2 + 1


def change_places_of_three(a, x, y, z, turns):
    k = 0
    while k < turns:
        x[:] = np.linalg.solve(a, y)
        qgraph.call(doubled, x, z, reads=x, writes=z)
        if k % 3 == 1:
            x, z = z, x
            y[:] = a @ x
        x, y, z = y, z, x
        k += 1
    for i in range(x.shape[0]):
        x[i] += 1


@pytest.mark.parametrize("function", [change_places, change_places_of_three])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 8])
def test_arrays_that_change_places(rig, function, turns):
    def arguments():
        rng = np.random.default_rng(turns)
        more = 3 if function is change_places_of_three else 2
        return matrix(), *(rng.random(6) for _ in range(more)), turns

    rig.check(function, arguments, tolerance=1e-9)


# --- several results, and numbers ----------------------------------------------------------------------------------------


def factors(a, q, r):
    q[:], r[:] = np.linalg.qr(a)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7)])
def test_orthogonal_factors(rig, dtype, shape):
    def arguments():
        least = min(shape)
        a = np.random.default_rng(4).normal(size=shape).astype(dtype)
        return a, poison(shape[0], least, dtype=dtype), poison(least, shape[1], dtype=dtype)

    rig.check(factors, arguments, tolerance=1e-4 if dtype == "float32" else 1e-11)


def factored(a, lu, pivots, b, x, turns):
    lu[:], pivots[:] = scipy_linalg.lu_factor(a)
    for _t in qgraph.serial(range(turns)):
        x[:] = scipy_linalg.lu_solve((lu, pivots), b)
        for i in range(b.shape[0]):
            b[i] += x[i]


@pytest.mark.parametrize("n", [1, 6, 40])
def test_factors_that_are_used_again(rig, n):
    def arguments():
        rng = np.random.default_rng(n)
        return rng.normal(size=(n, n)), poison(n, n), np.full(n, -1, np.int32), rng.random(n), poison(n), 3

    rig.check(factored, arguments, tolerance=1e-7)


def determinants(a, x):
    x[0] = np.linalg.det(a) * 2 + 1
    d = np.linalg.det(a)
    while d > 1.0:
        for i in range(a.shape[0]):
            a[0, i] = a[0, i] * 0.5
        d = np.linalg.det(a)
        x[1] += 1
    x[2] = d


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_determinants(rig, dtype):
    def arguments():
        a = np.array([[3, 1, 0], [1, 4, 1], [0, 1, 5]], dtype)
        return a, np.zeros(3)

    if dtype == "int64":
        rig.check(one_determinant, arguments, tolerance=1e-12)
    else:
        rig.check(determinants, arguments, tolerance=1e-12)


def one_determinant(a, x):
    x[0] = np.linalg.det(a)


def lu_solved(lu, pivots, b, x):
    x[:] = scipy_linalg.lu_solve((lu, pivots), b)


def test_results_that_do_not_fit_are_refused(rig):
    def one_target(a, q, r):
        q[:] = np.linalg.qr(a)

    def twice(a, q, r):
        q[:], q[:] = np.linalg.qr(a)

    def one_result(a, q, r):
        q[:], r[:] = a @ a

    def of_a_part(a, q, r):
        q[0, 0] = np.linalg.det(a[:2, :2])

    arguments = [rig.device(np.eye(3)) for _ in range(3)]
    for function, words in (
        (one_target, "gives 2 arrays"),
        (twice, "names one array twice"),
        (one_result, "gives one array"),
        (of_a_part, "is not a whole array"),
    ):
        with pytest.raises(qgraph.KernelSyntaxError, match=words):
            rig.kernel(function)(*arguments)
    few = rig.device(np.zeros(2, np.int32)), rig.device(np.ones(3)), rig.device(np.ones(3))
    with pytest.raises(qgraph.ArgumentError, match="the pivots 2 do not fit"):
        rig.kernel(lu_solved)(arguments[0], *few)
    with pytest.raises(qgraph.ArgumentError, match=r"has the shape \(3, 3\), and it is assigned to an array of shape \(3, 4\)"):
        rig.kernel(factors)(*arguments[:2], rig.device(np.zeros((3, 4))))


# --- functions of one's own --------------------------------------------------------------------------------------------


def add_in_place(x, y, factor):
    y += factor * x


def mean_of(x):
    return x - x.mean()


def called(x, y):
    for i in range(x.shape[0]):
        x[i] = i
    for _t in qgraph.serial(range(3)):
        qgraph.call(add_in_place, x, y, 2.0)
    qgraph.call(add_in_place, y, x, 1.0, reads=(x, y), writes=x)
    y[:] = qgraph.call(mean_of, x)


def test_a_function_of_ones_own(rig):
    rig.check(called, lambda: (np.zeros(10), np.ones(10)))


def test_what_a_function_raises(rig):
    def fail(x):
        raise KeyError("ours")

    def kernel(x):
        qgraph.call(fail, x)

    with pytest.raises(Exception, match="ours"):
        rig.kernel(kernel)(rig.device(np.ones(3)))


def test_no_function(rig):
    def nothing(x):
        qgraph.call()

    def number(x, n):
        qgraph.call(n, x)

    def in_a_loop(x):
        for _ in range(3):
            qgraph.call(mean_of, x)

    def without_an_effect(x):
        qgraph.call(mean_of, x, writes=())

    x = rig.device(np.ones(3))
    for function, arguments in ((nothing, (x,)), (number, (x, 3)), (in_a_loop, (x,)), (without_an_effect, (x,))):
        with pytest.raises(qgraph.KernelSyntaxError):
            rig.kernel(function)(*arguments)


def multiplied(a, b, c):
    c[:] = a @ b


@pytest.mark.parametrize(("dtype", "computed"), [("int32", "kernel"), ("float32", "library")])
def test_who_multiplies_matrices(dtype, computed):
    """PyTorch has no products of integers on a GPU: they are a loop of the kernel's."""
    a = np.ones((2, 2), dtype)
    assert qgraph.kernel(backend="cuda")(multiplied).plan(a, a, a).nodes[0].kind == computed


def test_integer_matrices_that_do_not_fit(rig):
    with pytest.raises(qgraph.ArgumentError, match=r"`b\[:, j\]` has length 5, and `a\[i, :\]` has length 4"):
        rig.kernel(multiplied)(*(rig.device(np.ones(shape, np.int64)) for shape in ((3, 4), (5, 2), (3, 2))))
        qgraph.synchronize()


def axes_without_names(a, out):
    out[:] = np.cumsum(a, 1) + cumprod(a, 0)
    b = a.cumsum(0)
    out += np.sort(a, -1) * np.argsort(a, 0) + a.argsort(1)
    b.sort(1)
    out -= b


def an_axis_twice(a, out):
    out[:] = np.cumsum(a, 1, axis=0)


def test_axes_that_are_given_by_position(check, rig):
    def arguments():
        return np.array([[0.5, 0.25, 2.0], [1.5, -1.0, 0.75]]), np.zeros((2, 3))

    check(axes_without_names, arguments)
    with pytest.raises(qgraph.KernelSyntaxError, match="arguments by position"):
        rig.run(rig.kernel(an_axis_twice), *arguments())
