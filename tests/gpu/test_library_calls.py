"""Library calls on the device: what is recorded, for which arrays, and who computes."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import qgraph

torch = pytest.importorskip("torch")

PATHS = [
    pytest.param({}, id="graph"),
    pytest.param({"conditional": "host"}, id="host"),
    pytest.param({"graph": False}, id="stream"),
]


def refine(a, b, x, r, turns):
    """Steps towards the solution of a x = b."""
    for _t in qgraph.serial(range(turns)):
        r[:] = a @ x
        for i in range(x.shape[0]):
            x[i] += (b[i] - r[i]) / a[i, i]


def system(n, seed, device="cuda"):
    rng = np.random.default_rng(seed)
    a = rng.random((n, n)) + n * np.eye(n)
    return [torch.tensor(each, device=device) for each in (a, rng.random(n), np.zeros(n), np.full(n, np.nan))]


def expected(arguments, turns):
    host = [each.cpu().numpy().copy() for each in arguments]
    qgraph.kernel(refine).reference(*host, turns)
    return host


@pytest.mark.parametrize("options", PATHS)
def test_arrays_in_turn(options):
    k = qgraph.kernel(refine, **options)
    sets = [system(n, seed) for n, seed in ((8, 0), (8, 1), (33, 2), (8, 3))]
    for turns in (1, 5, 12):
        for _ in range(2):
            for arguments in sets:
                host = expected(arguments, turns)
                k(*arguments, turns)
                torch.cuda.synchronize()
                for found, wanted in zip(arguments, host, strict=True):
                    np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-12)


def test_arrays_that_come_and_go():
    k = qgraph.kernel(refine)
    others = []
    for seed in range(30):
        arguments = system(8 + seed % 3, seed)
        host = expected(arguments, 4)
        k(*arguments, 4)
        torch.cuda.synchronize()
        np.testing.assert_allclose(arguments[2].cpu().numpy(), host[2], rtol=1e-12)
        others.append(torch.full((8,), float(seed), device="cuda"))
        del arguments
        gc.collect()
    assert all((each == seed).all() for seed, each in enumerate(others))


def test_a_replay_records_nothing():
    arguments = system(8, 0)
    k = qgraph.kernel(refine)
    for _ in range(3):
        k(*arguments, 3)
    builds = k.stats.graph_builds, k.stats.compilations
    called = []
    original = torch.matmul

    def counting(*args, **out):
        called.append(args)
        return original(*args, **out)

    torch.matmul = counting
    try:
        for _ in range(5):
            k(*arguments, 3)
        assert not called
        k(*system(71, 1), 3)
        # With copies, and recorded.
        assert len(called) == 2
    finally:
        torch.matmul = original
    assert (k.stats.graph_builds, k.stats.compilations) == builds


def multiplied(a, b, c):
    c[:] = a @ b


def summed(x, y):
    y[:] = np.cumsum(x, axis=0)


def multiplied_up(x, y):
    y[:] = np.cumprod(x, axis=0)


def numbers(dtype, seed=0):
    found = np.random.default_rng(seed).integers(-3, 4, (6, 6)).astype(dtype)
    return found + found.T * 1j if np.dtype(dtype).kind == "c" else found


FLOATS, INTEGERS = ("float32", "float64", "complex64"), ("int32", "int64")


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(multiplied, each) for each in FLOATS]
    + [(function, each) for function in (summed, multiplied_up) for each in (*FLOATS, *INTEGERS)],
)
def test_who_writes_the_target(monkeypatch, function, dtype):
    """PyTorch itself where the target is as its result would be, and beside what the function reads; else it is copied."""
    name = {"multiplied": "matmul", "summed": "cumsum", "multiplied_up": "cumprod"}[function.__name__]
    given, original = [], getattr(torch, name)

    def noting(*args, **more):
        given.append(more.get("out") is not None)
        return original(*args, **more)

    monkeypatch.setattr(torch, name, noting)
    alike = dtype != "int32"
    memory = np.zeros(50, dtype)
    whole, operands = np.s_[0:36], 1 + (function is multiplied)
    # Where the operands lie in memory, and the target: apart, the operand itself, one row further on, every second column.
    for target, direct in ((None, alike), (whole, False), (np.s_[6:42], False), ("columns", False), ("other type", False)):
        x = memory.copy()
        x[whole] = numbers(dtype).ravel()
        x = torch.tensor(x, device="cuda")
        arrays = [x[whole].view(6, 6), *(torch.tensor(numbers(dtype, 1), device="cuda") for _ in range(operands - 1))]
        if target is None:
            arrays.append(torch.full((6, 6), 7, dtype=x.dtype, device="cuda"))
        elif target == "columns":
            arrays.append(torch.full((6, 12), 7, dtype=x.dtype, device="cuda")[:, ::2])
        elif target == "other type":
            arrays.append(torch.full((6, 6), 7, dtype=torch.complex128, device="cuda"))
        else:
            arrays.append(x[target].view(6, 6))
        wanted = [each.cpu().numpy().copy() for each in arrays[:-1]]
        expected = wanted[0] @ wanted[1] if function is multiplied else getattr(np, name)(wanted[0], axis=0)
        given.clear()
        qgraph.kernel(function)(*arrays)
        torch.cuda.synchronize()
        np.testing.assert_allclose(arrays[-1].cpu().numpy(), expected.astype(dtype), rtol=1e-5)
        # Once with copies, which have no gaps, if such arrays are new; then with the arrays.
        assert given[-1] == direct, (target, given)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int64", "uint8"])
@pytest.mark.parametrize("n", [(1 << 16) - 1, 1 << 16, 100_003])
def test_long_sorts(dtype, n):
    """By cuda.compute where it is installed; nans come last, whatever their signs."""
    x = np.random.default_rng(n).integers(-1000, 1000, n).astype(dtype)
    if x.dtype.kind == "f":
        x[::100], x[1::100], x[2::100], x[3::100], x[4::100] = np.nan, -np.nan, np.inf, -np.inf, -0.0

    @qgraph.kernel
    def several(x, y, turns):
        for _t in qgraph.serial(range(turns)):
            y[:] = np.sort(x)

    given, found = torch.tensor(x, device="cuda"), torch.zeros(n, dtype=getattr(torch, dtype), device="cuda")
    several(given, found, 40)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(found.cpu().numpy(), np.sort(x))
    np.testing.assert_array_equal(given.cpu().numpy(), x)
    several(given, given, 3)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(given.cpu().numpy(), np.sort(x))


def test_cuda_compute_sorts():
    """With cuda.compute the kernels of a long sort are CUB's, and none is PyTorch's sort of pairs."""
    pytest.importorskip("cuda.compute")

    @qgraph.kernel
    def ordered(x, y):
        y[:] = np.sort(x)

    def names(n):
        x, y = torch.rand(n, device="cuda"), torch.zeros(n, device="cuda")
        ordered(x, y)
        with qgraph.capture() as g:
            ordered(x, y)
        return str(g.plan)

    assert "Onesweep" in names(1 << 20)
    assert names(1 << 10) != names(1 << 20)


def test_a_bound_kernel():
    arguments = system(16, 0)
    host = expected(arguments, 5)
    bound = qgraph.kernel(refine).bind(*arguments, 5)
    bound.launch()
    torch.cuda.synchronize()
    np.testing.assert_allclose(arguments[2].cpu().numpy(), host[2], rtol=1e-12)


def test_captured_by_torch():
    k = qgraph.kernel(refine)
    arguments = system(8, 0)
    k(*arguments, 3)
    graph = torch.cuda.CUDAGraph()
    arguments[2].zero_()
    host = expected(arguments, 3)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        k(*arguments, 3)
    assert (arguments[2] == 0).all()
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_allclose(arguments[2].cpu().numpy(), host[2], rtol=1e-12)
    other = system(73, 1)
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
        arguments[2].zero_()
        with pytest.raises(qgraph.CudaError, match="not recorded for these arrays"):
            k(*other, 3)
        k(*arguments, 3)
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_allclose(arguments[2].cpu().numpy(), host[2], rtol=1e-12)


def test_cupy_computes_for_its_arrays():
    cupy = pytest.importorskip("cupy")
    # CuPy refuses to have its linear algebra recorded, so PyTorch computes it.
    a, b, x, r = (cupy.asarray(each.cpu().numpy()) for each in system(8, 0))
    host = expected(system(8, 0), 6)
    qgraph.kernel(refine)(a, b, x, r, 6)
    np.testing.assert_allclose(cupy.asnumpy(x), host[2], rtol=1e-12)

    @qgraph.kernel
    def several(x, y, z):
        y[:] = np.sort(x)
        z[:] = np.cumsum(y)

    x, y, z = cupy.random.rand(100), cupy.zeros(100), cupy.zeros(100)
    for _ in range(3):
        several(x, y, z)
    np.testing.assert_allclose(cupy.asnumpy(z), np.cumsum(np.sort(cupy.asnumpy(x))))


def test_a_function_of_torch():
    @qgraph.kernel
    def k(x, y, turns):
        for _t in qgraph.serial(range(turns)):
            y[:] = qgraph.call(torch.softmax, x, 0)
            for i in range(x.shape[0]):
                x[i] += y[i]

    x, y = torch.rand(100, device="cuda", dtype=torch.float64), torch.zeros(100, device="cuda", dtype=torch.float64)
    wanted = x.clone()
    k(x, y, 5)
    for _ in range(5):
        wanted += torch.softmax(wanted, 0)
    torch.cuda.synchronize()
    assert torch.allclose(x, wanted)


@pytest.mark.parametrize("how", ["item", "nonzero", "host"])
def test_what_no_graph_holds_is_refused(how):
    def waits(x):
        if how == "item":
            x += x[0].item()
        elif how == "nonzero":
            x[: len(x.nonzero())] = 3
        else:
            x.copy_(torch.ones(10))

    @qgraph.kernel
    def k(x):
        for i in range(x.shape[0]):
            x[i] += 1
        qgraph.call(waits, x)

    x = torch.zeros(10, device="cuda")
    for _ in range(2):
        with pytest.raises(qgraph.QGraphError):
            k(x)
    torch.cuda.synchronize()
    assert (x == 0).all()


def test_types_that_a_library_lacks_are_told():
    @qgraph.kernel
    def k(a, x, y):
        y[:] = a @ x

    a, x = torch.ones(4, 4, dtype=torch.bool, device="cuda"), torch.ones(4, dtype=torch.bool, device="cuda")
    with pytest.raises(qgraph.ArgumentError, match="cannot compute"):
        k(a, x, torch.zeros_like(x))


def test_reset():
    arguments = system(8, 0)
    host = expected(arguments, 5)
    k = qgraph.kernel(refine)
    k(*arguments, 5)
    qgraph.reset()
    k.clear_cache()
    arguments[2].zero_()
    k(*arguments, 5)
    torch.cuda.synchronize()
    np.testing.assert_allclose(arguments[2].cpu().numpy(), host[2], rtol=1e-12)


@pytest.mark.parametrize("options", PATHS)
def test_beside_a_loop_that_is_unrolled(options):
    @qgraph.kernel(**options)
    def k(a, x, y, z, turns):
        for i in range(z.shape[0]):
            z[i] = 0.0
        y[:] = a @ x
        for _t in qgraph.serial(range(turns)):
            for i in range(x.shape[0]):
                x[i] = 0.5 * x[i] + 0.001 * y[i]
            for i in range(x.shape[0]):
                y[i] = y[i] + x[x.shape[0] - 1 - i]
        z[:] = np.cumsum(y)

    for seed, turns in ((0, 3), (1, 500), (2, 500), (0, 2), (3, 1000)):
        a, _, x, _ = system(24, seed)
        x.fill_(1.0)
        y, z = torch.zeros_like(x), torch.full_like(x, 7.0)
        host = [each.cpu().numpy().copy() for each in (a, x, y, z)]
        k.reference(*host, turns)
        k(a, x, y, z, turns)
        torch.cuda.synchronize()
        for found, wanted in zip((a, x, y, z), host, strict=True):
            np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-9)


def test_memory_that_is_freed_and_taken_again():
    @qgraph.kernel
    def k(x, y):
        y[:] = np.sort(x)
        for i in range(y.shape[0]):
            y[i] += 1

    for seed in range(40):
        host = np.random.default_rng(seed).random(100 + seed % 3)
        x, y = qgraph.asarray(host, backend="cuda"), qgraph.zeros(len(host), backend="cuda")
        k(x, y)
        np.testing.assert_allclose(y.numpy(), np.sort(host) + 1)
        np.testing.assert_array_equal(x.numpy(), host)
        if seed % 2:
            del x, y


def solved_in_turn(a, b, x, turns):
    for _t in qgraph.serial(range(turns)):
        x[:] = np.linalg.solve(a, b)
        b[:] = x * b.shape[-1]


def inverted_in_turn(a, b, x, turns):
    for _t in qgraph.serial(range(turns)):
        x[:] = np.linalg.inv(a)
        a[:] = x


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("function", [solved_in_turn, inverted_in_turn])
@pytest.mark.parametrize("shape", [(512, 512), (513, 513), (600, 600), (700, 700), (1, 2, 200, 200)])
def test_large_systems_in_a_device_loop(function, dtype, shape):
    """cuSOLVER allocates memory to factor most of these, which no device loop may hold, and stacks wait for the device."""
    rng = np.random.default_rng(sum(shape))
    a = rng.random(shape) + shape[-1] * np.eye(shape[-1])
    b = rng.random(shape)
    if dtype.startswith("complex"):
        a, b = a + 1j * rng.random(shape), b - 1j * rng.random(shape)
    turns = 2 + 2 * (function is inverted_in_turn)
    host = [a.astype("complex128"), b.astype("complex128"), np.zeros(shape, "complex128")]
    for _ in range(turns):
        if function is solved_in_turn:
            host[2] = np.linalg.solve(host[0], host[1])
            host[1] = host[2] * shape[-1]
        else:
            host[2] = np.linalg.inv(host[0])
            host[0] = host[2]
    found = [torch.tensor(each.astype(dtype), device="cuda") for each in (a, b)]
    found.append(torch.full(shape, torch.nan, dtype=found[0].dtype, device="cuda"))
    qgraph.kernel(function)(*found, turns)
    torch.cuda.synchronize()
    for given, wanted in zip(found, host, strict=True):
        scale = abs(wanted).max()
        assert abs(given.cpu().numpy() - wanted).max() <= (1e-5 if dtype in ("float32", "complex64") else 1e-12) * scale
