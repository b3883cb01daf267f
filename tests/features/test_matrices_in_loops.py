"""Small systems of equations in parallel loops, one for each iteration: NumPy's answers, in memory of the iteration's own."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def matrices(*shape, dtype="float64", seed=0):
    """Matrices that need row exchanges, with zeros along the diagonal, and have good conditions."""
    random, size = np.random.default_rng(seed), shape[-1]
    made = random.random(shape) - 0.5 + 2 * np.roll(np.eye(size), 1, axis=0)
    made = made + (1j * random.random(shape) if dtype.startswith("complex") else 0)
    return (made * (1 - np.eye(size))).astype(dtype)


def definite(*shape, dtype="float64"):
    made = matrices(*shape, dtype=dtype)
    return (made @ made.conj().swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


def solved(a, b, x, c, y):
    for i in range(a.shape[0]):
        x[i] = np.linalg.solve(a[i], b[i])
        y[i, :, :] = np.linalg.solve(a[i], c[i])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_solve(check, dtype):
    def args(n, m):
        a = matrices(n, m, m, dtype=dtype)
        b, c = matrices(n, m, m, dtype=dtype, seed=1)[:, 0].copy(), matrices(n, m, m, dtype=dtype, seed=2)[:, :, :2].copy()
        return a, b, np.zeros_like(b), c, np.zeros_like(c)

    tolerance = 1e-3 if dtype == "float32" else 1e-10
    kernel = check(solved, lambda: args(5, 3), tolerance=tolerance)
    for n, m in ((3, 2), (2, 7), (11, 5)):
        check(solved, lambda n=n, m=m: args(n, m), tolerance=tolerance)
    # One for each type and size.
    compiled = kernel.stats.compilations
    check(solved, lambda: args(4, 3), tolerance=tolerance)
    assert kernel.stats.compilations == compiled


def one_vector(a, b, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.solve(a[i], b[i])


@pytest.mark.parametrize(("dtype", "n"), [("float32", 1), ("float32", 6), ("float64", 8), ("float32", 12)])
def test_solutions_in_registers(check, dtype, n):
    """Of as many rows as registers hold; rows of any order, of equal pivots, of zeros before the last."""

    def args():
        random = np.random.default_rng(n)
        a = (random.random((40, n, n)) - 0.5 + n * np.eye(n)[random.permuted(np.tile(np.arange(n), (40, 1)), axis=1)]).astype(
            dtype
        )
        a[0] = np.triu(np.ones((n, n)))[::-1]
        a[1] = np.eye(n)[::-1] * 1e-30
        return a, random.random((40, n)).astype(dtype), np.zeros((40, n), dtype)

    check(one_vector, args, tolerance=2e-4 if dtype == "float32" else 1e-12)


def inverted(a, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.inv(a[i])


def factored(a, x):
    for i in range(a.shape[0]):
        x[i] = np.linalg.cholesky(a[i])


@pytest.mark.parametrize(
    ("kernel", "dtype", "n"),
    [
        *((one_vector, dtype, n) for dtype, n in (("float32", 13), ("float32", 16), ("float64", 9), ("float32", 32))),
        *((kernel, "float64", n) for kernel in ("columns", inverted, factored) for n in (1, 3, 8, 17)),
    ],
)
def test_systems_that_a_warp_solves(check, kernel, dtype, n):
    """On CUDA two whole warps, and a third of which some threads have nothing to do; rows of any order."""

    def args():
        a = matrices(72, n, n, dtype=dtype, seed=n) + 3 * n * np.random.default_rng(n).permutation(np.eye(n, dtype=dtype))
        if kernel is factored:
            return definite(72, n, n, dtype=dtype), np.full((72, n, n), 77, dtype)
        b = np.random.default_rng(1).random((72, n, 3)).astype(dtype)
        given = {one_vector: b[..., 0].copy(), "columns": b}.get(kernel)
        return (a, np.zeros_like(a)) if given is None else (a, given, np.zeros_like(given))

    check(one_vector if kernel == "columns" else kernel, args, tolerance=2e-4 if dtype == "float32" else 1e-11)


def chained(a, b, x, y, m):
    for i in range(a.shape[0]):
        y[i] = np.linalg.inv(a[i])
        for r in range(b.shape[1]):
            b[i, r] = b[i, r] * y[i, r, r]
        if m[i]:
            x[i] = np.linalg.solve(y[i], b[i])
        b[i] = np.linalg.solve(a[i], b[i])


def test_what_other_lanes_wrote_is_seen(check):
    """A warp's threads read what each has stored, and each reads what others stored for it; some have nothing to solve."""

    def args():
        a = matrices(64, 9, 9, seed=3)
        m = np.arange(64) % 3 > 0
        return a, np.random.default_rng(0).random((64, 9)), np.zeros((64, 9)), np.zeros_like(a), m

    check(chained, args, tolerance=1e-9)


def test_matrices_that_are_no_rows_of_an_argument(check):
    """By an index that is loaded, of an array that is made, and in place."""

    def kernel(a, b, x, order):
        t = np.empty(b.shape)
        for i in range(a.shape[0]):
            t[i] = np.linalg.solve(a[order[i]], b[i])
        m = a * 2.0
        for i in range(a.shape[0]):
            x[i] = np.linalg.solve(m[i], t[i])
        for i in range(a.shape[0]):
            b[i] = np.linalg.solve(a[i], b[i])

    check(kernel, lambda: (matrices(5, 3, 3), np.ones((5, 3)), np.zeros((5, 3)), np.array([4, 0, 3, 1, 2])), tolerance=1e-9)


def test_other_loops_and_parts(check):
    def kernel(a, b, x, m, s, first, chosen):
        for i in range(a.shape[2] - 1, first, -2):
            if chosen[i] > 0:
                x[i] = np.linalg.solve(a[:, :, i], b[..., i])
        for i, j in qgraph.ndrange((1, m.shape[0]), m.shape[1]):
            m[i, j] = np.linalg.inv(m[i, j])
        places = qgraph.ndrange(s.shape[0], 1)
        for place in places:
            s[place[0]] = np.linalg.solve(a[:, :, 0], s[place[0]])

    def args():
        a, b = matrices(9, 4, 4).transpose(1, 2, 0).copy(), matrices(4, 9, 9)[:, 0]
        return a, b, np.zeros((9, 4)), matrices(3, 2, 3, 3), matrices(4, 4), 1, np.arange(9) % 3

    check(kernel, args, tolerance=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_cholesky(check, dtype):
    def kernel(a, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.cholesky(a[i])

    check(kernel, lambda: (definite(4, 3, 3, dtype=dtype), np.full((4, 3, 3), 77, dtype)), tolerance=1e-4)


def test_a_branch_that_is_dropped_is_not_looked_at(check):
    def kernel(a, b, x, inverts: qgraph.Static):
        for i in range(a.shape[0]):
            if qgraph.static(inverts):
                x[i] = np.linalg.inv(a[i])
            else:
                x[i] = np.linalg.solve(a[i], b[i])

    check(kernel, lambda: (matrices(3, 2, 2), None, np.zeros((3, 2, 2)), True), tolerance=1e-9)
    check(kernel, lambda: (matrices(3, 2, 2), np.ones((3, 2)), np.zeros((3, 2)), False), tolerance=1e-9)


def test_in_funcs_and_device_loops(check):
    @qgraph.func
    def step(a, x, first):
        for i in range(first, a.shape[0]):
            x[i] = np.linalg.solve(a[i], x[i])

    def kernel(a, x, turns):
        n = 0
        while n < turns:
            step(a, x, 1)
            if n == 1:
                for i in range(a.shape[0]):
                    a[i] = np.linalg.inv(a[i])
            n += 1

    check(kernel, lambda: (matrices(4, 3, 3), matrices(4, 3, 3)[:, 1].copy(), 4), tolerance=1e-9)


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky"])
def test_a_matrix_without_an_answer_is_told(rig, name):
    def solve(a, b, x):
        for i in range(a.shape[0]):
            b[i] = np.linalg.solve(a[i], b[i])

    def inv(a, b, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.inv(a[i])

    def cholesky(a, b, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.cholesky(a[i])

    kernel = rig.kernel({"solve": solve, "inv": inv, "cholesky": cholesky}[name])
    for wrong in (None, 0, 4, None):
        a = definite(5, 3, 3)
        if wrong is not None:
            a[wrong] = [[1, 2, 3], [2, 4, 6], [0, 1, -1]] if name != "cholesky" else -np.eye(3)
        arrays = [rig.device(each) for each in (a, np.ones((5, 3)), np.zeros((5, 3, 3)))]
        if wrong is None:
            kernel(*arrays)
            qgraph.synchronize()
            continue
        with pytest.raises(np.linalg.LinAlgError, match=rf"np.linalg.{name}.* met a"):
            kernel(*arrays)
            qgraph.synchronize()


def test_nothing_to_do(check):
    check(
        solved,
        lambda: (*(np.zeros(shape, np.float32) for shape in ((0, 3, 3), (0, 3), (0, 3), (0, 3, 2), (0, 3, 2))),),
        noop=True,
    )


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((4, 3, 2), (4, 3), (4, 3)), "`a\\[i % 4\\]` has 2 along axis 1, and 3 are wanted"),
        (((4, 3, 3), (4, 2), (4, 3)), "`b\\[i\\]` has 2 along axis 0, and 3 are wanted"),
        (((4, 3, 3), (4, 3), (4, 5)), "`x\\[i\\]` has 5 along axis 0, and 3 are wanted"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_before_anything_runs(rig, shapes, words):
    def kernel(a, b, x):
        for i in range(x.shape[0]):
            x[i, 0] = 5
        for i in range(a.shape[0]):
            x[i] = np.linalg.solve(a[i % 4], b[i])

    arrays = [rig.device(np.zeros(shape)) for shape in shapes]
    with pytest.raises(qgraph.ArgumentError, match=words):
        rig.kernel(kernel)(*arrays)
    assert not qgraph.to_numpy(arrays[-1]).any()


@pytest.mark.needs("compiler")
def test_it_compiles_for_a_device_and_is_in_no_doubt():
    def kernel(a, b, x):
        for i in range(a.shape[0]):
            x[i] = np.linalg.solve(a[i], b[i])

    arrays = np.zeros((4, 3, 3), np.float32), np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    assert {task.verdict.kind for task in qgraph.kernel(kernel).plan(*arrays).tasks if task.verdict} == {"independent"}
    texts = qgraph.kernel(kernel, backend="cuda").ptx(*arrays)
    assert not any(".f64" in text for text in texts.values())


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(("kernel", "n"), [(one_vector, 12), (one_vector, 13), (inverted, 3), (factored, 32), (inverted, 33)])
def test_who_solves(kernel, n):
    """A thread alone where registers hold the system, a warp of larger ones, and one thread in memory of the largest."""
    a = np.zeros((4, n, n), np.float32)
    arrays = (a, a[0, :4].copy(), a[0, :4].copy()) if kernel is one_vector else (a, a.copy())
    texts = qgraph.kernel(kernel, backend="cuda").ptx(*arrays)
    assert any("shfl.sync" in text for text in texts.values()) == (n not in (12, 33))


@pytest.mark.needs("compiler")
def test_one_thread_solves_into_another_type():
    """A warp stores numbers of the type of the matrix."""
    a, x = np.zeros((4, 13, 13), np.float32), np.zeros((4, 13))
    texts = qgraph.kernel(one_vector, backend="cuda").ptx(a, a[0, :4].copy(), x)
    assert not any("shfl.sync" in text for text in texts.values())


@qgraph.func
def counted_place(asked, order, i):
    asked[i] += 1
    return order[i]


def asked_places(a, b, x, asked, order):
    for i in qgraph.parallel(range(a.shape[0])):
        x[counted_place(asked, order, i)] = np.linalg.solve(a[i], b[i])


def test_the_place_of_a_solution_is_asked_for_once(check):
    def args():
        return matrices(4, 3, 3), np.ones((4, 3)), np.zeros((4, 3)), np.zeros(4, int), np.array([2, 0, 3, 1])

    check(asked_places, args, tolerance=1e-9)


def two_types(a, b, x, c, d, y):
    for i in range(a.shape[0]):
        x[i] = np.linalg.solve(a[i], b[i])
        if i > 0:
            y[i] = np.linalg.solve(c[i], d[i])


def test_systems_of_two_types_in_one_loop(check):
    def args():
        single = matrices(4, 3, 3, dtype="float32"), np.ones((4, 3), np.float32), np.zeros((4, 3), np.float32)
        return *single, matrices(4, 2, 2), np.ones((4, 2)), np.zeros((4, 2))

    check(two_types, args, tolerance=1e-4)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_column_of_zeros_is_told_wherever_it_is(rig, column):
    """What is divided by it is no number, and may not be zero."""
    a = matrices(4, 3, 3)
    a[2, :, column] = 0
    with pytest.raises(np.linalg.LinAlgError, match="met a singular matrix"):
        rig.kernel(one_vector)(*(rig.device(each) for each in (a, np.ones((4, 3)), np.zeros((4, 3)))))
        qgraph.synchronize()
