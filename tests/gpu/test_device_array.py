"""DeviceArray between libraries, on a real device: what tests/runtime/arguments/test_device_array.py cannot play."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from qgraph.errors import ArgumentError
from qgraph.runtime.arguments.array_adapters import adopt, device_of_pointer
from qgraph.runtime.arguments.device_array import DeviceArray, empty, to_device
from qgraph.runtime.values.dlpack import exports


def test_a_large_array_and_its_strided_views():
    x = np.random.default_rng(1).random((1000, 513), np.float32)
    held = to_device(x)
    np.testing.assert_array_equal(held.numpy(), x)
    np.testing.assert_array_equal(held[::-3, 5::7].numpy(), x[::-3, 5::7])
    held[10:20, ::2] = 1.0
    x[10:20, ::2] = 1.0
    np.testing.assert_array_equal(held.copy().numpy(), x)
    held.fill(3.25)
    assert (held.numpy() == np.float32(3.25)).all()


# What NumPy warns of when it converts, it converts all the same, and so do device arrays.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", [0, 1, -1, 1e300, 1 + 2j])
@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float64", "float16", "int8", "int16", "int32", "int64", "bool"])
def test_fill_writes_every_dtype(dtype, value):
    try:
        with np.errstate(over="raise"):
            expected = np.full(1001, value, dtype)
    except (OverflowError, TypeError, ValueError, FloatingPointError):
        pytest.skip("NumPy cannot either")
    held = empty(1001, dtype)
    held.fill(value)
    np.testing.assert_array_equal(held.numpy(), expected)


def test_the_pointer_belongs_to_the_device():
    held = to_device(np.zeros(10))
    view = adopt(held, "x")
    assert view is not None
    assert device_of_pointer(view.pointer) == held.device == 0
    assert device_of_pointer(view.pointer + 40) == 0


class OnlyInterface:
    def __init__(self, array: DeviceArray) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__


class OnlyDlpack:
    def __init__(self, array: DeviceArray) -> None:
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("wrap", [OnlyInterface, OnlyDlpack])
@pytest.mark.parametrize("index", [..., slice(None, None, 2), (slice(None), 3), (slice(1, 3), slice(None, None, 3))], ids=str)
def test_round_trip_through_the_protocols(wrap, index):
    held = to_device(np.arange(60, dtype=np.int32).reshape(6, 10))[index]
    direct, found = adopt(held, "x"), adopt(wrap(held), "x")
    assert direct is not None and found is not None
    for name in ("pointer", "shape", "strides", "dtype", "device", "layout", "readonly"):
        assert getattr(found, name) == getattr(direct, name), name


def test_dlpack_imports_are_released():
    held = to_device(np.zeros(10))
    before = len(exports)
    view = adopt(OnlyDlpack(held), "x")
    assert len(exports) == before + 1
    del view
    gc.collect()
    assert len(exports) == before


def test_dlpack_to_another_device_is_refused():
    with pytest.raises(BufferError, match="numpy"):
        to_device(np.zeros(3)).__dlpack__(dl_device=(1, 0))


def test_numba_takes_and_gives_arrays():
    from qgraph.compat.numba_cuda import cuda

    held = to_device(np.arange(12.0).reshape(3, 4))
    theirs = cuda.as_cuda_array(held[:, ::2])
    np.testing.assert_array_equal(theirs.copy_to_host(), held[:, ::2].numpy())
    ours = adopt(theirs, "x")
    direct = adopt(held[:, ::2], "x")
    assert ours is not None and direct is not None
    assert (ours.pointer, ours.shape, ours.strides, ours.device) == (direct.pointer, (3, 2), (32, 16), 0)
    made = adopt(cuda.to_device(np.zeros((0, 3), np.float32)), "x")
    assert made is not None and made.size == 0 and made.device == 0


def test_too_large_an_array_is_a_clear_error():
    from qgraph.errors import CudaError

    with pytest.raises((CudaError, ArgumentError)):
        empty(1 << 50, np.float64)
