"""``fuse=True``: loops that add up products of matrices take the elements of one that a library computes."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import qgraph
from qgraph.nodes.library_call import LibraryCall


def calls(function, *args, fuse=True):
    """What libraries compute in the kernel."""
    plan = qgraph.kernel(function, backend="cpu", fuse=fuse).plan(*args)
    return [node.what.label for node in plan.nodes if isinstance(node.what, LibraryCall)]


def product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def of_columns(a, b, c):
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[0]):
                s = s + a[k, i] * b[k, j]
            c[i, j] = s


def of_rows(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            s = 1.5
            for k in range(b.shape[1]):
                s += b[j, k] * a[i, k]
            c[i, j] = s


def turned(a, b, c):
    for i, j in qgraph.ndrange(a.shape[1], b.shape[0]):
        s = 0.0
        for k in range(b.shape[1]):
            s += a[k, i] * b[j, k]
        c[j, i] = s


def updated(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = 0.5 * c[i, j] + 2.0 * s if s > 0 else s


def twice(a, b, c):
    m = b.shape[1]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = t = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            for k in range(a.shape[1]):
                t = t + b[k, m - 1 - j] * a[i, k]
            c[i, j] = s - 2.0 * t


def upside_down(a, b, c):
    n, m = a.shape[0], b.shape[1]
    for i in range(n):
        for j in range(m):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[n - 1 - i, k] * b[k, (j + i) % m]
            c[i, j] = s


def of_one_index(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, i]
            c[i, j] = s


def in_turns(a, b, c):
    for t in qgraph.serial(range(3)):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                s = 0.0
                for k in range(a.shape[1]):
                    s += a[i, k] * b[k, j]
                c[i, j] = s + t
        b[:] = c / 50.0


def triangle(a, b, c):
    n = a.shape[1]
    found = np.zeros((n, n))
    for i in qgraph.serial(range(n)):
        found[i:, i] = found[i, i:] = a[:, i] @ a[:, i:]
    c[:] = found


def strict_triangle(a, b, c):
    n = a.shape[1]
    found = np.eye(n)
    for i in qgraph.serial(range(n - 1)):
        found[i, i + 1 :] = a[:, i] @ a[:, i + 1 :] / 2.0
    c[:] = found


PRODUCTS = {
    product: ["a @ b"],
    of_columns: ["a.T @ b"],
    of_rows: ["b @ a.T"],
    turned: ["b @ a"],
    updated: ["a @ b"],
    twice: ["a @ b"],
    upside_down: ["a @ b"],
    of_one_index: ["a @ b"],
    in_turns: ["a @ b"],
    triangle: ["a.T @ a"],
    strict_triangle: ["a.T @ a"],
}


def of_a_part(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1] - 1):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def in_place(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += c[i, k] * b[k, j]
            a[i, j] = s
            c[i, 0] = c[i, 0]


def a_few(a, b, c):
    for i, j in qgraph.ndrange(a.shape[0], 2):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, i + j - 2]
        c[i, j] = s


def of_differences(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += (a[i, k] - b[k, j]) * a[i, k]
            c[i, j] = s


def of_three(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j] * k
            c[i, j] = s


def and_how_many(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s, k = 0.0, 0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s + k


def as_far_as(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(i + 1):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def changing_places(a, b, c):
    x, y = a, b
    for t in qgraph.serial(range(3)):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                s = 0.0
                for k in range(a.shape[1]):
                    s += x[i, k] * x[k, j]
                y[i, j] = s / 50.0
        x, y = y, x
    c[:] = x


def four_of_them(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(4):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def by_what_is_there(a, b, c):
    n = a.shape[0]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[int(s) % n, k] * b[k, j]
            c[i, j] = s


OTHERS = [
    of_a_part,
    by_what_is_there,
    in_place,
    a_few,
    of_differences,
    of_three,
    and_how_many,
    as_far_as,
    changing_places,
    four_of_them,
]


def matrices(n, dtype="float64"):
    return [np.random.default_rng().random((n, n)).astype(dtype) for _ in range(3)]


@pytest.fixture(autouse=True)
def _library(backend):
    if backend == "cuda":
        pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [4, 33, 70])
@pytest.mark.parametrize("function", [*PRODUCTS, *OTHERS])
def test_the_same_comes_of_it(check, function, n, dtype):
    given = matrices(n, dtype)

    def arguments():
        return [each.copy() for each in given]

    check(function, arguments, fuse=True, tolerance=1e-4 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("shape", [(3, 40, 7), (40, 1, 40), (5, 0, 6), (0, 4, 3), (1, 50, 1)])
def test_other_shapes(rig, shape):
    kernel = rig.kernel(product, fuse=True)
    first = matrices(40)
    rig.compare(kernel, lambda: [each.copy() for each in first], tolerance=1e-11)
    n, m, p = shape
    given = [np.random.default_rng().random(each) for each in ((n, m), (m, p), (n, p))]
    rig.compare(kernel, lambda: [each.copy() for each in given], tolerance=1e-11, noop=0 in (n, p))


def test_rows_that_are_left_over(check):
    random = np.random.default_rng()
    shapes = (40, 40), (40 + 7, 40), (40, 40)
    given = [random.random(shape) for shape in shapes]
    assert calls(product, *given) == ["a @ b"]
    check(product, lambda: [each.copy() for each in given], fuse=True, tolerance=1e-11)


def test_rows_that_are_missing(rig):
    random = np.random.default_rng()
    given = [random.random(shape) for shape in ((40, 40), (40 - 1, 40), (40, 40))]
    with pytest.raises(Exception, match="do not fit|mismatch"):
        rig.run(rig.kernel(product, fuse=True), *given)


@pytest.mark.parametrize(("function", "labels"), PRODUCTS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_libraries_compute_products(function, labels):
    assert calls(function, *matrices(40)) == labels
    assert not calls(function, *matrices(40), fuse=False)


@pytest.mark.parametrize("function", OTHERS)
def test_what_stays_a_loop(function):
    assert not calls(function, *matrices(40))


def widened(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += np.float64(a[i, k] * b[k, j])
            c[i, j] = s


def test_sums_of_another_type_stay_loops():
    assert calls(widened, *matrices(40)) == ["a @ b"]
    assert not calls(widened, *matrices(40, "float32"))


def added_in_double(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = np.float64(0.0)
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def added_to(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = c[i, j]
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


@pytest.mark.parametrize("function", [added_in_double, added_to])
def test_single_precision_that_is_added_up_in_double_stays_a_loop(check, function):
    """A library would add it up in single precision."""
    a, b, _ = matrices(40, "float32")

    def arguments():
        return a.copy(), b.copy(), np.zeros((40, 40))

    assert not calls(function, *arguments())
    assert calls(function, *matrices(40)) == ["a @ b"]
    check(function, arguments, fuse=True, tolerance=1e-13)


def test_single_precision_that_is_added_to_single_is_a_product():
    assert calls(added_to, *matrices(40, "float32")) == ["a @ b"]


def counting(a, b, c, count):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[qgraph.atomic_add(count, 0, 1) * 0, k] * b[k, j]
            c[i, j] = s


def test_an_index_that_changes_something_is_asked_for_each_time(check):
    given = matrices(4)
    check(counting, lambda: [*(each.copy() for each in given), np.zeros(1, dtype=np.int64)], fuse=True, tolerance=1e-12)


def beside_what_changes_places(a, b, c, u, v):
    for _ in qgraph.serial(range(3)):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                s = 0.0
                for k in range(a.shape[1]):
                    s += a[i, k] * b[k, j]
                c[i, j] = s + u[i, j]
        for i in range(u.shape[0]):
            for j in range(u.shape[1]):
                u[i, j] = u[i, j] + 1.0
        u, v = v, u


def test_a_loop_still_reads_what_changes_places(check):
    """By another name; so what writes that comes behind it, and not beside it."""
    given = [*matrices(5), *matrices(5)[:2]]
    check(beside_what_changes_places, lambda: [each.copy() for each in given], fuse=True, tolerance=1e-12)
    plan = qgraph.kernel(beside_what_changes_places, backend="cpu", fuse=True).plan(*given)
    (loop,) = (task for node in plan.nodes for task in (*node.tasks, *node.beside) if "takes elements" in task.note)
    assert {"u", "v"} <= loop.effects.reads
    assert not {"a", "b"} & loop.effects.reads


@pytest.mark.parametrize("types", [("int64",) * 3, ("float32", "float64", "float64"), ("complex128",) * 3])
def test_other_types_stay_loops(types):
    arrays = [each.astype(type_) for each, type_ in zip(matrices(40), types, strict=True)]
    assert not calls(product, *arrays)


def test_one_array_that_is_read_and_written(check):
    """The product would be of what is there before the first iteration."""

    def arguments():
        a, b, _ = matrices(9)
        return a, b, b

    with pytest.raises(qgraph.DataRaceError):
        check(product, arguments, fuse=True)


def test_only_where_a_library_is_installed(monkeypatch):
    """On CUDA PyTorch computes products; a kernel that names none runs without it."""
    kernel = qgraph.kernel(product, backend="cuda", fuse=True)
    for found, labels in ((None, []), (importlib.util.find_spec("numpy"), ["a @ b"])):
        monkeypatch.setattr("qgraph.dispatch.variant.find_spec", lambda _, found=found: found)
        nodes = kernel.plan(*matrices(40)).nodes
        assert [node.what.label for node in nodes if isinstance(node.what, LibraryCall)] == labels
