"""DeviceArray and staging: on host memory that plays the device, and on a device where there is one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from qgraph.compat.numpy import host_pointer
from qgraph.errors import ArgumentError, CudaError
from qgraph.runtime.arguments import device_array, staging
from qgraph.runtime.arguments.array_adapters import DTYPE_NAMES, adopt
from qgraph.runtime.arguments.device_array import DeviceArray, empty, to_device
from qgraph.runtime.driver import driver, memory, stream
from qgraph.runtime.values.aliasing import alias_pattern
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.pending_errors import PendingErrors
from qgraph.runtime.values.running_loops import RunningLoops


class PlayedDevice:
    """As much of a DeviceContext as memory needs."""

    ordinal = 0

    def __init__(self) -> None:
        self.epoch = 1
        self.waits = 0
        self.live = 0
        self.kept = PendingErrors()
        self.running = RunningLoops(self.synchronize, self.kept.keep)

    @contextmanager
    def activate(self) -> Iterator[None]:
        yield

    def synchronize(self) -> None:
        self.waits += 1


class PlayedBuffer:
    """Host memory that plays a device allocation, as aligned as one."""

    def __init__(self, device: PlayedDevice, nbytes: int) -> None:
        self.device = device
        self.nbytes = nbytes
        self.memory = np.full(nbytes + 256, 0xAB, np.uint8)
        self.pointer = -(-host_pointer(self.memory) // 256) * 256 if nbytes else 0
        device.live += 1

    def __del__(self) -> None:
        self.device.live -= 1


def played_fill(target: int, pattern: bytes, count: int, stream: int = 0) -> None:
    ctypes.memmove(target, pattern * count, len(pattern) * count)


@pytest.fixture(params=["played", "cuda"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "cuda":
        if driver.device_count() == 0:
            pytest.skip("no CUDA device")
        return driver.device(0)
    played = PlayedDevice()
    monkeypatch.setattr(driver, "device", lambda ordinal: played)
    for module, name in ((device_array, "allocate"), (staging, "Buffer")):
        monkeypatch.setattr(module, name, PlayedBuffer)
        monkeypatch.setattr(module, "copy_in", lambda to, start, n, stream=0, wait=True: ctypes.memmove(to, start, n))
        monkeypatch.setattr(module, "copy_out", lambda start, to, n, stream=0, wait=True: ctypes.memmove(to, start, n))
    monkeypatch.setattr(device_array, "copy_device", lambda to, start, n, stream=0: ctypes.memmove(to, start, n))
    monkeypatch.setattr(device_array, "fill", played_fill)
    monkeypatch.setattr(staging, "synchronize", lambda stream: None)
    return played


# --- DeviceArray --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 0, 3), (2, 3, 4)])
def test_to_the_device_and_back(device, shape, dtype):
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    held = to_device(x)
    assert (held.shape, held.dtype, held.ndim, held.size, held.nbytes) == (x.shape, x.dtype, x.ndim, x.size, x.nbytes)
    assert held.device == 0
    for back in (held.numpy(), np.asarray(held), held.copy().numpy()):
        assert back.dtype == x.dtype and back.flags.c_contiguous
        np.testing.assert_array_equal(back, x)


def test_strided_and_byte_swapped_sources(device):
    x = np.arange(24.0).reshape(4, 6)
    np.testing.assert_array_equal(to_device(x[::-1, ::2]).numpy(), x[::-1, ::2])
    np.testing.assert_array_equal(to_device(x.T).numpy(), x.T)
    swapped = to_device(x.astype(">f4"))
    assert swapped.dtype == np.dtype("f4")
    np.testing.assert_array_equal(swapped.numpy(), x.astype("f4"))
    assert to_device([1, 2]).numpy().tolist() == [1, 2]


INDICES = [
    3,
    -1,
    (1, 2),
    (-1, -1),
    np.int8(2),
    slice(None),
    slice(1, 4, 2),
    (slice(None, None, -1), slice(1, None, 2)),
    (2, slice(None)),
    (slice(None), 0),
    ...,
    (..., 1),
    (1, ...),
    (1, 2, ...),
    None,
    (None, slice(2), None, 3),
    slice(4, 2),
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_that_of_numpy(device, index):
    x = np.arange(30.0).reshape(5, 6)
    held = to_device(x)
    found, expected = held[index], x[index]
    if not isinstance(expected, np.ndarray):
        assert type(found) is type(expected)
        assert found == expected
        return
    assert isinstance(found, DeviceArray)
    assert (found.shape, found.strides) == (expected.shape, expected.strides)
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(found.copy().numpy(), expected)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_assignment_is_that_of_numpy(device, index):
    x = np.arange(30.0).reshape(5, 6)
    held = to_device(x)
    for value in (7, np.arange(float(np.size(x[index]))).reshape(np.shape(x[index]))):
        x[index] = value
        held[index] = value
        np.testing.assert_array_equal(held.numpy(), x)
    held[index] = to_device(x[index] + 1)
    x[index] += 1
    np.testing.assert_array_equal(held.numpy(), x)


def test_views_share_memory_and_keep_it(device):
    held = to_device(np.zeros((4, 4)))
    part = held[1:, ::2][::-1]
    part[0, 1] = 5.0
    assert held[3, 2] == 5.0
    part.fill(2.0)
    expected = np.zeros((4, 4))
    expected[1:, ::2] = 2.0
    np.testing.assert_array_equal(held.numpy(), expected)
    del held
    np.testing.assert_array_equal(part.numpy(), expected[1:, ::2][::-1])
    if isinstance(device, PlayedDevice):
        assert device.live == 1
        del part
        assert device.live == 0


def test_assignment_between_overlapping_views(device):
    held = to_device(np.arange(6.0))
    held[1:] = held[:-1]
    assert held.numpy().tolist() == [0, 0, 1, 2, 3, 4]


def test_fill(device):
    for dtype, value in (("f4", 2.5), ("i2", -3), ("bool", True), ("c16", 1 + 2j), ("u1", 255)):
        held = empty((3, 5), dtype)
        held.fill(value)
        np.testing.assert_array_equal(held.numpy(), np.full((3, 5), value, dtype))
        held[:, 1:3].fill(0)
        expected = np.full((3, 5), value, dtype)
        expected[:, 1:3] = 0
        np.testing.assert_array_equal(held.numpy(), expected)
    empty((0, 3)).fill(1)


@pytest.mark.parametrize("index", [[0, 1], np.array([True] * 5), True, 1.5, "x", (0, [1])])
def test_indices_that_need_a_gather_are_refused(device, index):
    with pytest.raises(IndexError, match="numpy"):
        to_device(np.zeros((5, 6)))[index]


def test_indices_out_of_bounds(device):
    held = to_device(np.zeros((5, 6)))
    for index in (5, (0, 6), -6, (0, 0, 0)):
        with pytest.raises(IndexError):
            held[index]
        with pytest.raises(IndexError):
            held[index] = 1


def test_as_a_python_object(device):
    held = to_device(np.arange(3.0))
    assert len(held) == 3
    assert "array([0., 1., 2.])" in repr(held) and "DeviceArray" in repr(held)
    assert [float(x) for x in held] == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="0-d"):
        len(to_device(1.0))
    assert int(to_device(4)) == 4 and float(to_device(2.5)) == 2.5 and bool(to_device(1))
    with pytest.raises(ValueError, match="copying"):
        np.asarray(held, copy=False)
    assert np.asarray(held, dtype=np.int32).dtype == np.int32


def test_refused_shapes_and_dtypes(device):
    with pytest.raises(ArgumentError, match="negative"):
        empty((3, -1))
    with pytest.raises(ArgumentError, match="Python objects"):
        to_device(np.array([{}]))


def test_as_an_argument(device):
    held = to_device(np.arange(12.0).reshape(3, 4))
    view = adopt(held[:, ::2], "x")
    assert view is not None
    base = adopt(held, "x")
    assert base is not None
    assert (view.pointer, view.shape, view.strides) == (base.pointer, (3, 2), (32, 16))
    assert (view.device, view.host, view.layout, base.layout, view.readonly) == (0, None, "A", "C", False)
    interface = held[1:].__cuda_array_interface__
    assert interface["data"] == (base.pointer + 32, False)
    assert interface["strides"] is None


def test_after_a_reset_the_array_says_so(device):
    if not isinstance(device, PlayedDevice):
        pytest.skip("would reset the device for all tests")
    held = to_device(np.zeros(3))
    assert held.alive
    device.epoch += 1
    assert not held.alive
    for use in (held.numpy, lambda: held.fill(1), lambda: held[0], lambda: adopt(held, "x")):
        with pytest.raises(ArgumentError, match="reset"):
            use()
    assert "reset" in repr(held)


# --- staging ------------------------------------------------------------------------------------------------------------


def view_of(array: np.ndarray) -> ArrayView:
    found = adopt(array, "x")
    assert found is not None
    return found


def on_device(view: ArrayView) -> np.ndarray:
    """The elements of a staged view, as NumPy sees the memory that plays the device."""
    low, high = view.span()
    memory = np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)
    return np.ndarray(view.shape, view.dtype, memory, view.pointer - low, view.strides)


@pytest.fixture
def played(device: Any) -> PlayedDevice:
    if not isinstance(device, PlayedDevice):
        pytest.skip("looks into the memory that plays the device")
    return device


def test_staged_arrays_have_their_elements_and_come_back(played):
    x, y = np.arange(6.0), np.arange(4, dtype=np.int32)
    pool = staging.StagingPool(played)
    staged, finish = staging.stage([view_of(x), view_of(y)], [True, False], pool)
    assert [(v.device, v.host, v.shape, v.strides, v.layout) for v in staged] == [
        (0, None, (6,), (8,), "C"),
        (0, None, (4,), (4,), "C"),
    ]
    np.testing.assert_array_equal(on_device(staged[0]), x)
    on_device(staged[0])[:] = 7.0
    on_device(staged[1])[:] = 7
    assert x[0] == 0.0
    finish()
    assert x.tolist() == [7.0] * 6
    assert y.tolist() == [0, 1, 2, 3]


def test_only_elements_of_written_views_come_back(played):
    x = np.arange(12.0)
    part = x[2:10:3]
    pool = staging.StagingPool(played)
    staged, finish = staging.stage([view_of(part)], [True], pool)
    on_device(staged[0])[:] = -1.0
    # Somebody else's elements in between, changed while the kernel runs.
    x[3] = 99.0
    finish()
    assert x.tolist() == [0, 1, -1, 99, 4, -1, 6, 7, -1, 9, 10, 11]


def test_read_only_arrays_are_never_written(played):
    x = np.arange(3.0)
    x.flags.writeable = False
    staged, finish = staging.stage([view_of(x)], [True], staging.StagingPool(played))
    on_device(staged[0])[:] = 5.0
    finish()
    assert x.tolist() == [0, 1, 2]


def test_device_arrays_pass_through_and_empty_ones_work(played):
    held = adopt(to_device(np.zeros(3)), "x")
    assert held is not None
    staged, finish = staging.stage([held, view_of(np.zeros((0, 3)))], [True, True], staging.StagingPool(played))
    assert staged[0] is held
    assert staged[1].shape == (0, 3) and staged[1].device == 0
    finish()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_overlapping_views_behave_on_the_device_as_on_the_host(played, data):
    size = 40
    home, twin = np.arange(size * 1.0), np.arange(size * 1.0)
    pieces = []
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start, size))
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
        pieces.append((slice(start, stop), slice(None, None, step)))
    written = [data.draw(st.booleans()) for _ in pieces]
    here = [home[a][b] for a, b in pieces]
    there = [twin[a][b] for a, b in pieces]
    views = [view_of(array) for array in here]
    staged, finish = staging.stage(views, written, staging.StagingPool(played))
    assert alias_pattern(staged, written) == alias_pattern(views, written)
    for k, (view, array) in enumerate(zip(staged, there, strict=True)):
        assert view.pointer % 256 == views[k].pointer % 256 or view.size == 0
        if written[k]:
            on_device(view)[...] += k + 1
            array[...] += k + 1
    finish()
    np.testing.assert_array_equal(home, twin)


def test_views_with_gaps_of_two_owners(played):
    x = np.arange(20.0)
    table = as_strided(x, (3, 2), (48, 8))
    staged, finish = staging.stage([view_of(table), view_of(x[2:6])], [True, True], staging.StagingPool(played))
    assert staged[1].pointer - staged[0].pointer == 16
    on_device(staged[0])[...] = -1
    on_device(staged[1])[...] = -2
    finish()
    assert x.tolist() == [-1, -1, -2, -2, -2, -2, -1, -1, 8, 9, 10, 11, -1, -1, 14, 15, 16, 17, 18, 19]


def test_buffers_are_used_again(played):
    pool = staging.StagingPool(played, limit=4096)
    x = np.zeros(100)
    pointers = set()
    for _ in range(5):
        staged, finish = staging.stage([view_of(x)], [True], pool)
        pointers.add(staged[0].pointer)
        finish()
        del staged, finish
    assert len(pointers) == 1
    assert played.live == 1
    big = np.zeros(1000)
    staged, finish = staging.stage([view_of(big)], [True], pool)
    finish()
    del staged, finish
    assert played.live == 0
    staged, finish = staging.stage([view_of(x), view_of(x.copy())], [True, True], pool)
    assert staged[0].pointer != staged[1].pointer
    # A launch that failed: nobody calls finish.
    del staged, finish
    assert played.live == 0


def test_buffers_of_a_lost_device_are_dropped(played):
    pool = staging.StagingPool(played)
    first = pool.take(100)
    pool.give(first)
    played.epoch += 1
    second = pool.take(100)
    assert second is not first
    pool.give(second)
    pool.clear()
    assert pool.take(100) is not second


def test_staging_on_a_device(device):
    if isinstance(device, PlayedDevice):
        pytest.skip("the other tests look closer")
    from qgraph.runtime.driver.memory import fill

    x = np.arange(1000.0)
    staged, finish = staging.stage([view_of(x[::2]), view_of(x[1::2])], [True, False], staging.StagingPool(device))
    with device.activate():
        fill(staged[0].pointer, np.float64(5.0).tobytes(), 999)
    finish()
    assert (x[::2] == 5.0).all()
    np.testing.assert_array_equal(x[1::2], np.arange(1.0, 1000.0, 2))


# --- scalars -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What an update did on a played device: (before, after) of streams, and writes as (stream, bytes)."""
    done: list[Any] = []
    played = PlayedDevice()
    played.push = lambda: False  # type: ignore[attr-defined]
    monkeypatch.setattr(driver, "device", lambda ordinal: played)
    monkeypatch.setattr(device_array, "Buffer", PlayedBuffer)
    monkeypatch.setattr(device_array, "copy_in", lambda to, start, n, stream=0, wait=True: ctypes.memmove(to, start, n))
    monkeypatch.setattr(device_array, "copy_out", lambda start, to, n, stream=0, wait=True: ctypes.memmove(to, start, n))
    monkeypatch.setattr(device_array, "order_after", lambda after, before: done.append((before, after)))

    def write(target: int, value: bytes, stream: int) -> None:
        done.append((stream, value))
        ctypes.memmove(target, value, len(value))

    monkeypatch.setattr(device_array, "write_bytes", write)
    return done


@pytest.mark.parametrize(
    ("chosen", "libraries", "order"),
    [
        (0, [], [0]),
        (0, [0, 0], [0]),
        (5, [], [5]),
        (5, [5], [5]),
        # Calls without arrays of PyTorch run on the default stream, those with them on PyTorch's.
        (0, [7], [(7, 0), 0, (0, 7)]),
        (5, [0], [(0, 5), 5, (5, 0)]),
        (5, [7, 8], [(7, 5), (8, 5), 5, (5, 7), (5, 8)]),
    ],
)
def test_an_update_is_in_order_with_all_current_streams(
    noted: list[Any], monkeypatch: pytest.MonkeyPatch, chosen: int, libraries: list[int], order: list[Any]
) -> None:
    monkeypatch.setattr(device_array, "library_streams", lambda device: libraries)
    monkeypatch.setattr(stream, "is_capturing", lambda each: False)
    alpha = device_array.scalar(np.dtype(np.float32), 1, 0)
    token = stream.CURRENT.set(chosen)
    try:
        alpha.update(2.5)
    finally:
        stream.CURRENT.reset(token)
    assert [each if isinstance(each[1], int) else each[0] for each in noted] == order
    assert alpha.value == 2.5
    assert alpha.shape == ()


def test_an_update_is_refused_where_a_current_stream_is_captured(noted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_array, "library_streams", lambda device: [7, 8])
    monkeypatch.setattr(stream, "is_capturing", lambda each: each == 8)
    alpha = device_array.scalar(np.dtype(np.int64), 1, 0)
    with pytest.raises(CudaError, match=r"the stream 0x8 is being captured into a graph, and an update would be part"):
        alpha.update(2)
    assert noted == []


def test_no_update_after_a_reset(noted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    alpha = device_array.scalar(np.dtype(np.int64), 1, 0)
    device: Any = driver.device(0)

    def reset() -> bool:
        device.epoch += 1
        return False

    device.push = reset
    with pytest.raises(ArgumentError, match="memory is gone"):
        alpha.update(2)
    assert noted == []


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_an_update_is_at_most_one_write_of_each_word(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    class Driver:
        memory = bytearray(b"\xab" * 16)

        @classmethod
        def write(cls, width: int, target: int, value: int) -> tuple[int]:
            cls.memory[target : target + width] = value.to_bytes(width, "little")
            return (0,)

        @classmethod
        def cuStreamWriteValue32(cls, stream: int, target: int, value: int, flags: int) -> tuple[int]:  # noqa: N802
            assert (stream, flags) == (9, 0)
            return cls.write(4, target, value)

        @classmethod
        def cuStreamWriteValue64(cls, stream: int, target: int, value: int, flags: int) -> tuple[int]:  # noqa: N802
            assert (stream, flags) == (9, 0)
            return cls.write(8, target, value)

    monkeypatch.setattr(memory, "driver", Driver)
    element = np.array(1.0, dtype)
    memory.write_bytes(0, element.tobytes(), 9)
    used = max(element.nbytes, 4)
    assert Driver.memory == element.tobytes().ljust(used, b"\0") + b"\xab" * (16 - used)
