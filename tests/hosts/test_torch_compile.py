"""A kernel is an operation of PyTorch: ``torch.compile`` takes it without a break, and it means what it means without."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.hosts import kernels
from tests.hosts.kernels import axpy, interleaved, of_rows, running, scaled, several

torch = pytest.importorskip("torch")
# Of its own functions, while the compilers are imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
COMPILERS = ("eager", "aot_eager", "inductor")
NO_BREAK = {"fullgraph": True, "backend": "aot_eager"}


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


def counted(function, compiler="aot_eager"):
    """``function`` compiled without a break, and what counts how often that was done."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend(compiler)
    return torch.compile(function, fullgraph=True, backend=counter), counter


def t(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def mixed(x, y):
    """Both kinds of kernels, between operations of PyTorch's, before and behind."""
    x = x + 1
    axpy(2.0, x, y)
    z = interleaved(x * 2)
    axpy(y=y, a=0.5, x=z[: y.shape[0]])
    return y * 2, z.sum()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_it_means_the_same(compiler):
    compiled, counter = counted(mixed, compiler)
    for seed in range(3):
        x, y = torch.rand(2, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        given, wanted = y.clone(), y.clone()
        for found, expected in zip(compiled(x, given), mixed(x, wanted), strict=True):
            torch.testing.assert_close(found, expected)
        torch.testing.assert_close(given, wanted)
    assert counter.frame_count == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "complex64", "complex128"])
def test_dtypes(dtype):
    compiled = torch.compile(interleaved, **NO_BREAK)
    x = torch.arange(5).to(getattr(torch, dtype))
    found = compiled(x)
    assert found.dtype == x.dtype
    assert torch.equal(found, interleaved(x))


def test_arguments_of_all_kinds():
    def program(x, y, out, n):
        t, u, same = several((y,), 2.5, n, x)
        scaled(x, out, n, offset=1)
        return t + 1, u, same + out, out * 1

    compiled = torch.compile(program, **NO_BREAK)
    for n in (2, 3):
        x, y, out, wanted = t(1, 2, 3), t(4, 5, 6), t(0, 0, 0), t(0, 0, 0)
        for found, expected in zip(compiled(x, y, out, n), program(x, y, wanted, n), strict=True):
            assert torch.equal(found, expected) and found.dtype == expected.dtype
        assert torch.equal(out, wanted)


def test_layouts():
    """What a kernel writes through a view of an argument depends on how that lies in memory."""

    def program(x, y):
        axpy(2.0, x[::2], y.T[1])
        return y + 1

    compiled = torch.compile(program, **NO_BREAK)
    y, wanted = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, 3, dtype=torch.float64)
    x = torch.arange(8, dtype=torch.float64)
    assert torch.equal(compiled(x, y), program(x, wanted))
    assert torch.equal(y, wanted) and y.any()


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_described_is_what_a_call_has(dynamic):
    """Layouts, dtypes, and extents that a kernel is compiled for: what traces has no other kernel in mind than runs."""
    from qgraph.hosts import torch_ops

    a, b, wide = torch.rand(4, 4), torch.rand(4, 4), torch.rand(4, 8)
    cases = ((a, b.T), (wide[:, ::2], b.double()), (a.T, wide[:, :4]), (wide, wide + 1), (wide[:1, :3],) * 2)
    for x, out in cases:
        own = kernels.qgraph.kernel(of_rows.__wrapped__)
        compiled = torch.compile(lambda x, out, own=own: own(x, out), dynamic=dynamic, **NO_BREAK)
        compiled(x, out)
        torch_types = list(torch_ops._KNOWN[own].meanings)
        own.clear_cache()
        own(x, out)
        assert [key[0] for key in own._cache.variants] == torch_types
        tails = [type_.tail for types in torch_types for _, type_ in types]
        assert tails == [(x.shape[1],)] * 2 and all(type(extent) is int for (extent,) in tails)


def plain(a, x, y):
    axpy(a, x, y)
    return interleaved(y)


@pytest.mark.parametrize(
    "calls",
    [
        [(a, 4) for a in range(10)],
        [(a / 7 + 0.1, 4) for a in range(10)],
        [(a - 3.0, 4) for a in range(10)],
        [(0.5, n) for n in range(2, 12)],
    ],
    ids=["integers", "floats", "whole floats", "sizes"],
)
def test_numbers_and_sizes_that_change_are_kept_open(calls):
    compiled, counter = counted(plain)
    for a, n in calls:
        x, y = torch.arange(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
        wanted = y.clone()
        assert torch.equal(compiled(a, x, y), plain(a, x, wanted))
        assert torch.equal(y, wanted)
    assert counter.frame_count <= 3


def test_a_kernel_that_is_compiled_for_extents():
    def program(points):
        out = torch.zeros_like(points)
        of_rows(points, out)
        return out + 1

    compiled = torch.compile(program, dynamic=True, **NO_BREAK)
    for n in (3, 4, 5):
        points = torch.rand(n, 3)
        assert torch.equal(compiled(points), program(points))


def test_lengths_of_one_are_repeated():
    """What is returned then has the length of the other array."""
    own = kernels.qgraph.kernel(kernels.added.__wrapped__)
    compiled = torch.compile(lambda x, y: own(x, y) * 2, **NO_BREAK)
    for m, n in ((3, 3), (1, 3), (3, 1), (5, 5), (1, 4), (1, 1)):
        x, y = torch.rand(m), torch.rand(n)
        found = compiled(x, y)
        assert found.shape == (max(m, n),) and torch.equal(found, (x + y) * 2)
    with pytest.raises(Exception, match="`y` has length 4, and `x` has length 3"):
        compiled(torch.rand(3), torch.rand(4))


def test_an_argument_that_is_passed_twice():
    def program(x):
        running(x, x)
        return x + 0

    compiled = torch.compile(program, **NO_BREAK)
    x, wanted = t(1, 5, 5, 5), t(1, 5, 5, 5)
    assert compiled(x).tolist() == program(wanted).tolist() == [1, 4, 13, 40]
    assert torch.equal(x, wanted)


def test_parts_of_one_tensor():
    def apart(x):
        axpy(1.0, x[:2], x[2:])
        return x * 1

    def overlapping(x):
        running(x[:-1], x[1:])
        return x * 1

    assert torch.compile(apart, **NO_BREAK)(t(1, 2, 3, 4)).tolist() == [1, 2, 4, 6]
    x = t(1, 2, 3, 4)
    with pytest.raises(Exception, match="`y` is written, and may share memory with `x`"):
        torch.compile(overlapping, **NO_BREAK)(x)
    assert x.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("double", lambda x: (kernels.State(x, x),), "argument `state`: an object of type State cannot be passed"),
        ("axpy", lambda x: (2, x, [x]), "argument `y`: an object of type list cannot be passed"),
        ("axpy", lambda x: (2, x), "missing a required argument: 'y'"),
        ("axpy", lambda x: (2, x.bfloat16(), x), "argument `x`: dtype bfloat16 is not supported"),
        ("total", lambda x: (x,), "returns a number"),
        ("returned_state", lambda x: (x,), "returns a dataclass"),
        ("idle", lambda x: (x, 3), "changes no argument and makes no array"),
        ("looked_up", lambda x: (x, x + 1), "uses the global array `TABLE`"),
        ("misspelt", lambda x: (x, x + 1), "the name `no_such_name` does not exist\n"),
    ],
)
def test_what_is_refused_by_name(kernel, args, message):
    """PyTorch's error has qgraph's words, on lines of their own, with its own class in them."""
    kernel = getattr(kernels, kernel)
    with pytest.raises(Exception, match="(?s)(Argument|KernelSyntax)Error: .*help: ") as caught:
        torch.compile(lambda x: kernel(*args(x)), **NO_BREAK)(t(1, 2, 3))
    assert message in str(caught.value)


def test_errors_of_a_call_are_what_they_are():
    with pytest.raises(kernels.qgraph.DataRaceError, match=r"y\[0\]"):
        torch.compile(kernels.racing, **NO_BREAK)(t(1, 2), t(0, 0))
    with pytest.raises(kernels.qgraph.BoundsError, match="7 on axis 0"):
        torch.compile(kernels.gathered, **NO_BREAK)(t(1, 2, 3), torch.tensor([0, 7]))


def test_what_was_compiled_in_must_be_what_it_was(monkeypatch):
    """Another length than that which was looked at would be read out of bounds."""
    compiled = torch.compile(lambda x: kernels.of_length(x) * 2, **NO_BREAK)
    assert compiled(t(3)).tolist() == [6, 6]
    monkeypatch.setattr(kernels, "LENGTH", 5)
    with pytest.raises(kernels.qgraph.ArgumentError, match="surroundings"):
        compiled(t(3))
    torch.compiler.reset()
    assert torch.compile(lambda x: kernels.of_length(x) * 2, **NO_BREAK)(t(3)).tolist() == [6] * 5


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return mixed(x, y)

    for _ in range(3):  # calls that come back have a guard of their own
        axpy(2.0, t(1, 2), t(3, 4))
    exported = torch.export.export(Module(), (t(1, 2), t(3, 4)), strict=strict)
    for found, expected in zip(exported.module()(t(1, 2), t(3, 4)), mixed(t(1, 2), t(3, 4)), strict=True):
        assert torch.equal(found, expected)


def test_the_operation_is_what_pytorch_wants():
    """``torch.library.opcheck``: the schema, the function of what it returns, and tracing, with open sizes."""
    from qgraph.hosts import torch_ops

    x, y = t(1, 2), t(3, 4)
    cases = (
        (axpy, (2.0, x, y), (2.0, x, y.clone())),
        (kernels.gathered, (x, torch.tensor([1, 0, 1])), (x, torch.tensor([1, 0, 1]))),
        (kernels.step, (2.0, x.clone().requires_grad_(), y), (2.0, x.clone().requires_grad_(), y.clone().requires_grad_())),
    )
    for kernel, args, checked in cases:
        # A kernel of its own has one operation.
        own = kernels.qgraph.kernel(kernel.__wrapped__)
        own._vjp = kernel._vjp
        numbers, tensors = args[:-2], args[-2:]
        torch.compile(lambda *tensors, own=own, numbers=numbers: own(*numbers, *tensors), **NO_BREAK)(*tensors)
        (operation,) = torch_ops._KNOWN[own].operations.values()
        torch.library.opcheck(operation.op, checked)


def test_numpy_arrays_in_a_compiled_function():
    def program(x, y):
        axpy(2.0, x, y)

    y = np.ones(3)
    torch.compile(program, **NO_BREAK)(np.arange(3.0), y)
    assert y.tolist() == [1, 3, 5]


def test_a_tensor_that_requires_a_gradient_and_a_kernel_without_one(monkeypatch):
    from qgraph.runtime.arguments.gradient_warning import grad_warning

    def program(x):
        y = torch.zeros(3, dtype=torch.float64)
        axpy(1.0, x, y)
        return y * 2

    monkeypatch.setattr(grad_warning, "_said", False)
    with pytest.warns(UserWarning, match="no gradient flows"):
        found = torch.compile(program, **NO_BREAK)(t(1, 2, 3).requires_grad_())
    assert found.tolist() == [2, 4, 6] and not found.requires_grad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match="no gradient flows through the kernel `without_vjp`"):
            torch.compile(kernels.without_vjp, **NO_BREAK)(t(1, 2).requires_grad_()).sum().backward()
