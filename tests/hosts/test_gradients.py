"""``@kernel.vjp``: gradients by a user's own function, in PyTorch's autograd, with and without ``torch.compile``."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import qgraph
from qgraph.hosts.gradients import gradients
from tests.hosts import kernels
from tests.hosts.kernels import axpy, square, square_vjp, step, step_vjp

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    module.compiler.reset()
    return module


@pytest.fixture(params=[None, "eager", "aot_eager", "inductor"])
def compiled(request, torch):
    """What a function is tried as: as it is, and compiled by each of PyTorch's backends."""
    if request.param is None:
        return lambda function: function
    return lambda function: torch.compile(function, fullgraph=True, backend=request.param)


def t(torch, *numbers):
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def changed(x, y):
    z = y.clone()
    step(3.0, x, z)
    return z


def test_of_a_kernel_that_returns(torch, compiled):
    assert torch.autograd.gradcheck(compiled(lambda x: square(x + 1) * 2), (t(torch, 1, 2, 3),))


def test_of_a_kernel_that_changes_an_argument(torch, compiled):
    assert torch.autograd.gradcheck(compiled(changed), (t(torch, 1, 2, 3), t(torch, 4, 5, 6)))


def test_numbers_that_change_between_calls(torch, compiled):
    """In a compiled function they are kept open, and the vjp gets them as numbers."""

    def stepped(a, x, y):
        z = y.clone()
        step(a, x, z)
        return z

    function = compiled(stepped)
    for a in (1.5, 2.25, -0.75, 3):
        x, y = t(torch, 1, 2), t(torch, 4, 5)
        found = torch.autograd.grad((function(a, x, y) * t(torch, 1, 10)).sum(), (x, y))
        assert [each.tolist() for each in found] == [[2 * a, 40 * a], [8, 100]]


def test_of_a_function_that_calls_kernels(torch, compiled, monkeypatch):
    def filled(x, y, ct):
        g = torch.zeros_like(x)
        axpy(2.0, x * ct, g)
        return g

    monkeypatch.setattr(square, "_vjp", filled)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # no tensor in it requires a gradient
        assert torch.autograd.gradcheck(compiled(square), (t(torch, 1, 2, 3),))


def test_a_call_that_changes_a_new_tensor_makes_it_require_a_gradient(torch):
    y = torch.zeros(3, dtype=torch.float64)
    step(1.0, t(torch, 1, 2, 3), y)
    assert y.requires_grad and y.tolist() == [1, 4, 9]
    y = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        step(1.0, t(torch, 1, 2, 3), y)
    assert not y.requires_grad and y.tolist() == [1, 4, 9]


def test_a_leaf_that_requires_a_gradient_cannot_be_changed(torch):
    y = t(torch, 1, 2, 3)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        step(1.0, t(torch, 1, 2, 3), y)
    assert y.tolist() == [1, 2, 3]


def test_second_derivatives(torch):
    x, y = t(torch, 1, 2, 3), t(torch, 4, 5, 6)
    assert torch.autograd.gradgradcheck(changed, (x, y))
    with pytest.raises(qgraph.ArgumentError, match="second derivative of `square`.*\n(.*\n)*help: .*@square_vjp.vjp"):
        torch.autograd.grad(square(x).sum(), x, create_graph=True)


def test_calls_without_gradients_are_calls(torch):
    """A kernel with a vjp is cached as any other; NumPy's arrays and tensors without gradients see no autograd."""
    for _ in range(4):
        assert square(np.arange(3.0)).tolist() == [0, 1, 4]
        found = square(torch.arange(3.0))
        assert found.tolist() == [0, 1, 4] and found.grad_fn is None
        assert square(t(torch, 1, 2)).grad_fn is not None


def test_integers_have_no_cotangent(torch, monkeypatch):
    seen = []

    def vjp(pair, a, n, x, first, whole, ct):
        seen.append((first.dtype, whole.dtype, ct.shape))
        return ct.sum(0), a * ct.sum(0)

    monkeypatch.setattr(kernels.several, "_vjp", vjp)
    x, y = t(torch, 1, 2, 3), t(torch, 4, 5, 6)
    assert torch.autograd.gradcheck(lambda x, y: kernels.several((y,), 2.5, 2, x)[0], (x, y))
    assert seen[0] == (torch.float64, torch.int32, (2, 3))


def test_an_argument_that_is_passed_twice(torch):
    with pytest.raises(qgraph.ArgumentError, match="`x` is written, and passed twice|`y` is written, and passed twice"):
        x = t(torch, 1, 2) * 1
        step(1.0, x, x)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((np.ones(3), np.ones(3)), "returned 2 values, where 1 are wanted"),
        (np.ones(4), r"returned a gradient of shape \(4,\) for `x`, which has shape \(3,\)"),
        (1.0, r"returned a gradient of shape \(\) for `x`"),
    ],
)
def test_what_a_vjp_must_return(monkeypatch, found, message):
    x = np.ones(3)
    monkeypatch.setattr(square, "_vjp", lambda x, y, ct: found)
    with pytest.raises(qgraph.ArgumentError, match=f"the vjp of `square` {message}"):
        gradients(square, (x,), (x,), (x,), [("x", x)])


def test_without_a_vjp_there_is_no_gradient():
    x = np.ones(3)
    with pytest.raises(qgraph.ArgumentError, match="no gradient flows through the kernel `cube`(.*\n)*.*@cube.vjp"):
        gradients(kernels.cube, (x,), (x,), (x,), [("x", x)])


def test_the_decorator_gives_the_function_back():
    assert isinstance(square_vjp, type(square))
    assert step_vjp(1.0, np.array(2.0), np.array(3.0), None, np.array(1.0)) == (4.0, 6.0)
    assert gradients(square, (np.arange(3.0),), (np.ones(3),), (np.ones(3),), [("x", np.ones(3))])[0].tolist() == [0, 2, 4]
