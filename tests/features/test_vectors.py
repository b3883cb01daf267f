"""``qgraph.vec`` and ``qgraph.mat``: in plain Python and in kernels the same, and how they meet rows of arrays."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import qgraph
from qgraph import mat, random, vec
from tests.conftest import POISON


def rows(n: int = 6, dtype: str = "float64") -> Any:
    """Two arrays of vectors."""
    rng = np.random.default_rng(4)
    return rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(n, 3)).astype(dtype)


# --- plain Python ---------------------------------------------------------------------------------------------------------


def test_vectors_are_those_of_numpy():
    a, b = np.array([1.0, -2.0, 0.5]), np.array([0.25, 3.0, 4.0])
    v, w = vec(a), vec(*b)
    for got, wanted in (
        (v + w, a + b),
        (v - w, a - b),
        (v * w, a * b),
        (v / w, a / b),
        (2 * v, 2 * a),
        (v / 4, a / 4),
        (1 / v, 1 / a),
        (3 - v, 3 - a),
        (-v, -a),
        (v.cross(w), np.cross(a, b)),
        (v + b, a + b),
        (a + w, a + b),
        (np.float64(2) * v, 2 * a),
    ):
        assert type(got) is type(v)
        np.testing.assert_array_equal(np.array(got), wanted)
    assert v @ w == v.dot(w) == a @ w == a @ b
    assert v.norm() == pytest.approx(np.linalg.norm(a))
    assert (v.x, v.y, v.z, v[-1], len(v)) == (1.0, -2.0, 0.5, 0.5, 3)
    assert v.T == v
    assert v == vec(1, -2, 0.5) != w
    assert vec(1, 0).x == 1.0
    assert type(vec(np.int32(1), True)[0]) is float
    assert vec(7)[0] == 7.0


def test_matrices_are_those_of_numpy():
    a, b = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 4.0]]), np.array([[1.0, 0.5], [2.0, 1.0], [0.0, -1.0]])
    m, n = mat(a), mat(*b)
    np.testing.assert_array_equal(np.array(m @ n), a @ b)
    np.testing.assert_array_equal(np.array(m.T), a.T)
    np.testing.assert_array_equal(np.array(2 * m - m / 2), 2 * a - a / 2)
    np.testing.assert_array_equal(np.array(m @ vec(1, 2, 3)), a @ (1, 2, 3))
    np.testing.assert_array_equal(np.array(vec(1, 2) @ m), (1, 2) @ a)
    assert (m[1, 2], m[1][2], m[0]) == (4.0, 4.0, vec(1, 2, 3))
    assert m.norm() == pytest.approx(np.linalg.norm(a))
    for size in range(1, 5):
        square = np.random.default_rng(size).normal(size=(size, size))
        np.testing.assert_allclose(np.array(mat(square).inv()), np.linalg.inv(square), rtol=1e-12)


def test_vectors_go_into_rows_of_numpy():
    x = np.ones((2, 3), np.float32)
    x[0] += vec(1, 2, 3)
    x[1] = vec(1, 2, 3) * 2
    np.testing.assert_array_equal(x, [[2, 3, 4], [2, 4, 6]])
    row = x[0]
    row -= vec(1, 1, 1)
    np.testing.assert_array_equal(x[0], [1, 2, 3])
    with pytest.raises(TypeError, match="same_kind"):
        np.ones((2, 3), int)[0] += vec(1, 2, 3)
    with pytest.raises(TypeError):
        np.sin(vec(1, 2))


def test_vectors_are_copied():
    for value in (vec(1, 2, 3), mat((1, 2), (3, 4)), vec(*range(16))):
        for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert type(twin) is type(value)
            assert twin == value
    assert repr(mat((1, 2), (3, 4))) == "mat((1.0, 2.0), (3.0, 4.0))"
    assert repr(vec(1, 2)) == "vec(1.0, 2.0)"


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: vec(1, 2) < vec(2, 3), "no order"),
        (lambda: vec(1, 2) + vec(1, 2, 3), "`\\+` of a vector of 2 and a vector of 3"),
        (lambda: mat((1, 2), (3, 4)) @ vec(1, 2, 3), "`@` of a matrix of 2 by 2 and a vector of 3"),
        (lambda: vec(1, 2).cross(vec(1, 2)), "`cross\\(\\)` of a vector of 2"),
        (lambda: mat((1, 2, 3), (1, 2, 3)).inv(), "`inv\\(\\)` of a matrix of 2 by 3"),
        (lambda: vec("a"), "a component is a real number, not str"),
        (lambda: vec(*range(17)), "1 to 16 components, not 17"),
        (lambda: mat((1, 2), (3,)), "one length"),
        (lambda: vec(1, 2) + "a", "unsupported operand"),
        (lambda: vec(1, 2)[0:1], "written out"),
    ],
)
def test_what_vectors_do_not_do(call, found):
    with pytest.raises(TypeError, match=found):
        call()


# --- in loops -------------------------------------------------------------------------------------------------------------


def arithmetic(x, y, out, s):
    for i in range(x.shape[0]):
        v = vec(x[i, 0], x[i, 1], x[i, 2])
        w = qgraph.vec(y[i])
        u = 2 * v - w / s + v * w + 1
        out[i, 0] = u.x + v @ w - v.dot(u)
        out[i, 1] = v.cross(w).norm() + (-u)[1]
        t = vec(1, 0, 0)
        t += u
        t /= s
        out[i, 2] = (t.T + 1 / u).z
        a, b, c = t
        out[i, 3] = a * b - c
        out[i, 4] = 1.0 if v[0] < w[0] else 2.0
        out[i, 5] = t[i % 3]


def matrices(x, y, out, s):
    for i in range(x.shape[0]):
        m = mat((1, 2, 0), x[i], (y[i, 0], 0, 4 + s))
        n = m @ m.T + 2 * m
        v = n.inv() @ vec(y[i])
        out[i, 0], out[i, 1], out[i, 2] = v @ m
        out[i, 3] = m[1, 2] + n[1][i % 3]
        out[i, 4] = mat((1, s), (s, 3)).inv()[0, 1]
        out[i, 5] = n.norm()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [arithmetic, matrices])
def test_components_are_computed_as_numbers(rig, function, dtype):
    rig.check(
        function,
        lambda: (*rows(dtype=dtype), np.full((6, 6), float(POISON), dtype), 0.5),
        tolerance=2e-4 if dtype == "float32" else 1e-10,
    )


def stores(x, y, dt):
    for i in range(x.shape[0]):
        v = vec(y[i])
        x[i] += dt * v
        x[i] -= y[i] * v + y[i]
        x[i] = x[i] * 2 + v
        row = y[i]
        v = v + row * dt
        row *= v
        y[i, :] = v - x[i]
        x[i] *= vec(1, 2, 1)


def changing_places(x, y, dt):
    for i in range(x.shape[0]):
        v, w = vec(x[i]), vec(y[i])
        if v @ w > 0:
            v, w = w, v
        else:
            v = -v
        k = 0
        while k < i % 3:
            w = w * dt if w[0] > 0 else w + v
            k += 1
        x[i] = v
        y[i] = w


@qgraph.func
def attraction(p, q):
    d = vec(p) - q
    r2 = d @ d + 0.1
    return d / r2


@qgraph.func
def scaled(v, s):
    return v * s


def by_funcs(x, y, dt):
    for i in range(x.shape[0]):
        force = vec(0, 0, 0)
        for j in range(y.shape[0]):
            force += attraction(y[j], x[i])
            force = scaled(force, 0.5)
        x[i] += dt * force


def attracted(x, y, forces, dt):
    for i in range(x.shape[0]):
        force = vec(0, 0, 0)
        for j in range(y.shape[0]):
            d = vec(y[j]) - vec(x[i])
            force += d / (d @ d + 0.1)
        forces[i] = dt * force


def covered(x, y, forces, dt):
    for i in range(x.shape[0]):
        spread, scale = mat((dt, 0), (0, dt)), vec(1, dt)
        for j in range(y.shape[0]):
            if j != i:
                spread = spread - mat((y[j, 0], y[i, 1]), (x[i, 2], y[j, 2])) * 0.5
            scale *= vec(1 + 0.01 * y[j, 0], 1)
        forces[i] = vec(spread[0, 0], spread[0, 1] * spread[1, 0], spread[1, 1]) + scale.norm()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 6, 90])
@pytest.mark.parametrize("function", [attracted, covered])
def test_an_inner_loop_adds_vectors_up(rig, function, n, dtype):
    rig.check(function, lambda: (*rows(n, dtype), np.full((n, 3), POISON, dtype), 0.1), tolerance=1e-4)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [attracted, covered])
def test_threads_that_share_a_loop_add_vectors_up(function):
    assert "shfl.sync" in str(qgraph.kernel(function, backend="cuda").ptx(*rows(), rows()[0], 0.1, cc=(9, 0)))


@qgraph.func
def counted(v, k):
    if k > 2:
        return -v, k
    return v * 0.5, k + 1


@qgraph.func
def handed_on(v, k):
    return counted(v, k)


def beside_numbers(x, y, dt):
    for i in range(x.shape[0]):
        v, k = counted(qgraph.vec(y[i]), i)
        x[i] += dt * v
        v, k = handed_on(v, k)
        x[i] -= v + y[i]
        y[i] = v * k


class Ray(NamedTuple):
    origin: Any
    along: Any


@qgraph.func
def point(ray, t):
    return ray.origin + t * ray.along


@qgraph.func
def reflected(ray, n):
    return Ray(ray.origin, ray.along - 2 * (ray.along @ n) * n)


@qgraph.func
def length(ray):
    return ray.along.norm()


def rays(x, y, dt):
    for i in range(x.shape[0]):
        ray = Ray(along=vec(x[i]), origin=vec(y[i]))
        for k in range(3):
            ray = Ray(point(ray, dt), ray.along)
            if ray.origin.x > 0:
                ray = reflected(ray, vec(1, 0, 0))
        o, a = ray
        y[i] = o.cross(a) * length(ray)
        x[i] += (ray[1] @ o) * a


def tuples(x, y, dt):
    for i in range(x.shape[0]):
        pair = (vec(x[i]), (vec(y[i]), i))
        for k in range(2):
            pair = (pair[1][0], (pair[0] * dt, k)) if i % 2 else (-pair[0], counted(pair[1][0], k))
        v, (w, k) = pair
        found = counted(v, k)
        x[i] += found[0] + w.norm() * w
        pair = (i, dt)
        y[i, 0] = pair[0] * pair[1]


def collisions(x, y, dt):
    for i in range(y.shape[0]):
        x[i % 2] += vec(y[i]) * dt


@pytest.mark.parametrize("function", [stores, changing_places, by_funcs, beside_numbers, rays, tuples, collisions])
def test_rows_are_read_and_written(rig, function):
    rig.check(function, lambda: (*rows(), 0.25), tolerance=1e-12)


def parts_of_matrices(a, b, x):
    for i in range(a.shape[0]):
        m = mat(a[i])
        b[i] = m @ m - a[i]
        x[i] = m @ vec(x[i])
        b[i, 1] = m[1] + x[i]


def test_matrices_in_arrays(rig):
    rng = np.random.default_rng(2)
    a = rng.normal(size=(4, 2, 2))
    rig.check(parts_of_matrices, lambda: (a.copy(), np.zeros((4, 2, 2)), np.ones((4, 2))))


@dataclass
class World:
    gravity: Any
    turn: Any


GLOBAL = vec(1.0, 2.0, 3.0)


def of_arguments(x, g, world):
    still = vec(0, 0, x.shape[0])
    turn = mat((0, 1, 0), (1, 0, 0), (0, 0, 1))
    for i in range(x.shape[0]):
        x[i] += 0.1 * g + world.turn @ world.gravity + turn @ still - GLOBAL
    t = 0
    while t < 3:
        for i in range(x.shape[0]):
            x[i] += still
        still = vec(still.x + 1, still.y * 2, still.z + still[0])
        t += 1
    return still, g.norm(), vec(g @ g, 1)


def test_vectors_as_arguments_and_kernel_scalars(rig):
    def make_args():
        return rows()[0], vec(1, 2, 3), World(vec(0, 0, -9.81), mat((1, 0, 0), (0, 0.5, 0.5), (0, 0, 1)))

    rig.check(of_arguments, make_args)


def outside_of_loops(x, y):
    v = vec(1, 2, 3)
    x[0] = v
    x[1] += vec(y[0, 0], 0, 1) * 2
    for t in qgraph.serial(range(2)):
        x[2] -= v
        x[3] = vec(x[2]) * 0.5 + x[3] + x[t]
        y[0, t] = v @ v


def test_one_thread_stores_vectors(rig):
    rig.check(outside_of_loops, rows)


def noise(x, rng):
    for i in range(x.shape[0]):
        x[i] += vec(rng.normal(i, size=3)) * random.uniform(1, i)


def test_random_vectors(rig):
    rig.check(noise, lambda: (rows()[0], random.Generator(3)))


# --- lengths of rows -----------------------------------------------------------------------------------------------------


def any_length(x, y):
    for i in range(x.shape[0]):
        v = vec(y[i])
        x[i] = v / v.norm()


def test_each_length_is_a_kernel_of_its_own(rig):
    kernel = rig.kernel(any_length)
    for built, (n, length) in enumerate([(4, 3), (9, 3), (4, 2), (5, 3), (7, 2)]):

        def make_args(n=n, length=length):
            return np.zeros((n, length)), np.random.default_rng(n).normal(size=(n, length))

        rig.compare(kernel, make_args)
        assert kernel.stats.compilations == (1 if built < 2 else 2)
    with pytest.raises(qgraph.KernelSyntaxError, match="has 3 elements, and 2 are assigned"):
        rig.run(kernel, np.zeros((4, 3)), np.ones((4, 2)))


def test_columns_and_parts_are_no_rows(rig):
    def column(x):
        for i in range(x.shape[1]):
            x[0, i] = vec(x[:, i]).norm()

    with pytest.raises(qgraph.KernelSyntaxError, match="the length of `x\\[:, i\\]` is not known"):
        rig.kernel(column).plan(np.ones((3, 3)))


def of_unknown_shape(x):
    for i in range(x.shape[0]):
        found = (vec(x[i]), vec(0, 0, 1))
        x[i] += found[i % 2]


def integers_of_unknown_shape(x):
    k = qgraph.zeros((2, 3), np.int64)
    for i in range(k.shape[0]):
        found = (vec(1, 2, 3), vec(0, 0, 1))
        k[i] += found[i % 2]


def stored_in_an_element(x):
    for i in range(x.shape[0]):
        found = (vec(x[i]), vec(0, 0, 1))
        x[i, 0] = found[i % 2]


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_unknown_shape, "^vec3\\(.*\\) is assigned to one element of an array"),
        (integers_of_unknown_shape, "the shape of a vector that updates a row is not known"),
        (stored_in_an_element, "^vec3\\(.*\\) is assigned to one element of an array"),
    ],
)
def test_vectors_of_unknown_shape_are_refused(rig, function, message):
    with pytest.raises(qgraph.KernelTypeError, match=message):
        rig.run(rig.kernel(function), rows()[0])


# --- code ----------------------------------------------------------------------------------------------------------------


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [stores, by_funcs, collisions])
def test_vectors_stay_in_registers(function):
    ptx = str(qgraph.kernel(backend="cpu")(function).ptx(*rows(dtype="float32"), 0.25))
    assert ".local" not in ptx
    assert ".f64" not in ptx


def test_accesses_are_those_of_components(rig):
    """A loop that moves rows along is refused as one that moves their elements."""

    def shifted(x):
        for i in range(1, x.shape[0]):
            x[i] = vec(x[i - 1]) * 2

    with pytest.raises(qgraph.DataRaceError, match="x\\[i - 1"):
        rig.run(rig.kernel(shifted), np.ones((4, 3)))


def through_temporaries(x, n):
    force = qgraph.zeros_like(x)
    again = np.zeros_like(force)
    pairs = qgraph.empty((x.shape[0], 2))
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            force[i] += vec(x[i]) * 2
            pairs[i] = vec(x[i, 0], t)
            again[i, 1] = (vec(pairs[i]) + 1).norm()
        x, force = force, x
    for i in range(x.shape[0]):
        x[i] = again[i] + vec(force[i])


def test_temporaries_have_rows(rig):
    rig.check(through_temporaries, lambda: (rows()[0], 3))


def taking_turns(x, y, n):
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            y[i, 0] = vec(x[i]).norm()
        x, y = y, x


def test_arrays_change_places_where_one_is_taken_apart(rig):
    rig.check(taking_turns, lambda: (*rows(), 3))
