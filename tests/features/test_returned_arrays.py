"""`return` of arrays: new ones for the caller, or the very objects that it passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph import BackendError, KernelSyntaxError


def scaled(x: Any, n: int) -> Any:
    y = np.empty((n, x.shape[0]), x.dtype)
    for i, j in qgraph.ndrange(n, x.shape[0]):
        y[i, j] = x[j] * i
    return y, np.sum(y)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (2, 0)])
def test_arrays_and_numbers(check: Any, dtype: Any, shape: tuple[int, int]) -> None:
    check(scaled, lambda: (np.arange(shape[1]).astype(dtype), shape[0]))


def test_every_call_has_an_array_of_its_own(rig: Any) -> None:
    kernel = rig.kernel(scaled)
    x = rig.device(np.arange(4.0))
    kept = [kernel(x, n)[0] for n in (2, 2, 2, 3, 2, 2)]
    for n, array in zip((2, 2, 2, 3, 2, 2), kept, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(array), np.outer(np.arange(n), np.arange(4.0)))
    assert len({id(array) for array in kept}) == len(kept)
    bound = kernel.bind(x, 2)
    first, second = bound.launch()[0], bound.launch()[0]
    assert first is not second
    np.testing.assert_array_equal(qgraph.to_numpy(first), qgraph.to_numpy(second))
    if rig.backend != "cuda":
        assert not np.shares_memory(first, second)
    with pytest.raises(BackendError):
        _ = bound.graph


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


def argument_in_a_pair(x: Any, y: Any) -> Any:
    made = qgraph.zeros(2)
    for i in range(x.shape[0]):
        x[i] += y[i]
    return Pair(y, (made, x, made))


def test_an_argument_is_the_object_that_was_passed(rig: Any) -> None:
    kernel = rig.kernel(argument_in_a_pair)
    x, y = rig.device(np.ones(3)), rig.device(np.ones(3))
    for _ in range(4):
        found = kernel(x, y)
        assert found.left is y
        assert found.right[1] is x
        assert found.right[0] is found.right[2]
    assert qgraph.to_numpy(x).tolist() == [5.0] * 3
    same = kernel(x, x)
    assert same.left is same.right[1] is x


def only_numbers(n: int) -> Any:
    y = qgraph.full(n, 2.5)
    for i in range(n):
        y[i] += i
    return y


def test_no_array_is_passed(check: Any) -> None:
    check(only_numbers, lambda: (5,))


def last_of_a_loop(x: Any, steps: int) -> Any:
    y = np.zeros_like(x)
    for _ in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            y[i] = 0.5 * y[i] + x[i]
    if steps > 2:
        return y
    for i in range(x.shape[0]):
        y[i] = -1
    return y


@pytest.mark.parametrize("steps", [0, 2, 3])
def test_device_loops_and_an_early_return_of_one_array(check: Any, steps: int) -> None:
    check(last_of_a_loop, lambda: (np.arange(5.0), steps))


@qgraph.func
def doubled(x: Any) -> Any:
    y = np.empty_like(x)
    for i in range(x.shape[0]):
        y[i] = 2 * x[i]
    return y


def twice_by_a_func(x: Any) -> Any:
    y = doubled(x)
    return doubled(y), y


def test_a_func_makes_it(check: Any) -> None:
    check(twice_by_a_func, lambda: (np.arange(5.0),))


def one_of_two(x: Any) -> Any:
    y, z = qgraph.zeros(3), qgraph.full(3, 1.0)
    if x[0] > 0:
        return y
    return z


def part(x: Any) -> Any:
    return x[1:]


def changing_places(x: Any, steps: int) -> Any:
    y = np.zeros_like(x)
    for _ in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            y[i] = x[i] + 1
        x, y = y, x
    return x


def memory_of_the_graph(n: int) -> Any:
    y = qgraph.zeros(n, alloc=True)
    return y


def device_size(x: Any) -> Any:
    return np.zeros(int(x[0]))


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (one_of_two, (np.ones(1),), "returns an array from a loop or branch"),
        (part, (np.ones(3),), "a part of `x`"),
        (changing_places, (np.ones(3), 3), "changes places with another array"),
        (memory_of_the_graph, (3,), "whose memory the graph itself takes"),
        (device_size, (np.ones(1),), "known on the device only"),
    ],
)
def test_refused_by_name(function: Any, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(KernelSyntaxError, match=message):
        qgraph.kernel(function).plan(*args)


def test_check_compares_what_is_returned() -> None:
    report = qgraph.kernel(scaled).check(np.arange(4.0), 3)
    assert report.orders == 3


def expression(x: Any, y: Any) -> Any:
    t = x * 2 + y
    return t, t > 1, np.sum(t)


def test_code_for_devices() -> None:
    texts = qgraph.kernel(expression).ptx(np.zeros(3, np.float32), np.zeros(3, np.float32))
    assert len(texts) >= 3
