"""Arrays of any library become views of the same memory, or are refused by name."""

from __future__ import annotations

import ctypes
import sys
import types
import warnings
from typing import Any

import numpy as np
import pytest

from qgraph.compat.numpy import host_pointer
from qgraph.errors import ArgumentError
from qgraph.ir.argument_types import TracedArray
from qgraph.runtime.arguments.array_adapters import adopt, current_stream, stream_finder, watch_of
from qgraph.runtime.driver import driver
from qgraph.runtime.driver.stream import library_streams
from qgraph.runtime.values.array_view import ArrayView, contiguous_strides
from qgraph.runtime.values.dlpack import export, exports

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


def view(value: Any) -> ArrayView:
    found = adopt(value, "x")
    assert found is not None
    return found


def refused(value: Any, *words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        adopt(value, "state.x")
    for word in ("argument `state.x`:", *words):
        assert word in str(caught.value)


# --- NumPy --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy(dtype):
    x = np.zeros((3, 4), dtype)[::-1, ::2]
    found = view(x)
    assert found.pointer == x.ctypes.data == host_pointer(x)
    assert (found.shape, found.strides, found.dtype) == (x.shape, x.strides, x.dtype)
    assert (found.device, found.stream, found.readonly, found.layout) == (None, None, False, "A")
    assert (found.ndim, found.size, found.nbytes, len(found)) == (2, x.size, x.nbytes, 3)
    assert found.owner is x and found.host is x


def test_the_dtype_is_numpys_own_instance():
    assert view(np.zeros(3, np.longlong)).dtype is np.dtype("int64")
    assert view(np.zeros(3, np.dtype("f8", metadata={"unit": "m"}))).dtype is np.dtype("f8")


def test_len_of_a_0d_array():
    with pytest.raises(TypeError, match="0-d"):
        len(view(np.array(1.0)))


def test_subclasses(tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=(4,))
    found = view(mapped)
    assert found.owner is mapped
    assert type(found.host) is np.ndarray
    assert found.host.ctypes.data == found.pointer
    refused(np.ma.array([1.0, 2.0]), "masked")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1.0]])
    refused(matrix, "numpy.matrix", "asarray")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([{}], object), ("Python objects", "astype")),
        (np.array(["a"]), ("strings",)),
        (np.array([b"a"]), ("byte strings",)),
        (np.zeros(2, "M8[s]"), ("dates", "int64")),
        (np.zeros(2, "m8[s]"), ("time differences",)),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), ("structured", "fields")),
        (np.zeros(2, ">f8"), (">f8", "byte order", "newbyteorder")),
        (np.zeros(2, "V3"), ("not supported",)),
        (np.zeros(2, np.longdouble), ("not supported", "float64")),
        (np.zeros(9, np.uint8)[1:].view(np.float64), ("not aligned", "copy")),
    ],
)
def test_refused_numpy_arrays(array, words):
    refused(array, *words)


@pytest.mark.parametrize("value", [1, 2.5, np.float32(1), None, "x", (1,), [1], len, np.ndarray, object()])
def test_not_arrays(value):
    assert adopt(value, "x") is None


# --- __cuda_array_interface__ -------------------------------------------------------------------------------------------


class Device:
    """Memory of a device, by interface alone."""

    def __init__(self, **changes: Any) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (3, 4),
            "typestr": "<f4",
            "data": (4096, False),
            "strides": None,
            **changes,
        }


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    # The addresses here are made up; a driver would be asked whose they are.
    monkeypatch.setattr(driver, "device_count", lambda: 0)


@pytest.mark.parametrize(("strides", "layout"), [(None, "C"), ((16, 4), "C"), ((4, 12), "F"), ((32, 8), "A"), ((-16, 4), "A")])
def test_cuda_array_interface(strides, layout):
    value = Device(strides=strides)
    found = view(value)
    assert (found.pointer, found.shape, found.dtype) == (4096, (3, 4), np.dtype("f4"))
    assert found.strides == (strides or (16, 4))
    assert (found.layout, found.device, found.host, found.stream) == (layout, 0, None, None)
    assert found.owner is value


@pytest.mark.parametrize(("stream", "expected"), [(None, None), (1, 1), (2, 2), (0, 1), (77777, 77777)])
def test_the_stream_of_the_interface(stream, expected):
    assert view(Device(stream=stream)).stream == expected


def test_version_2_has_no_stream_and_read_only_data():
    interface = Device(version=2, data=(4096, True))
    found = view(interface)
    assert found.stream is None
    assert found.readonly


def test_empty_arrays_may_have_no_memory():
    found = view(Device(shape=(0, 4), data=(None, False)))
    assert (found.pointer, found.size, found.layout) == (0, 0, "C")
    assert found.span() == (0, 0)


def test_strides_of_c_order():
    assert contiguous_strides((3, 2, 5), 4) == np.zeros((3, 2, 5), "f4").strides
    assert contiguous_strides((3, 0, 2), 4) == (8, 8, 4)
    assert contiguous_strides((), 4) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mask": object()}, ("mask",)),
        ({"version": 1}, ("version 1", "too old")),
        ({"typestr": "<V2"}, ("not supported",)),
        ({"typestr": "|O8"}, ("Python objects",)),
        ({"typestr": ">f4"}, ("byte order",)),
        ({"typestr": "bfloat16"}, ("bfloat16",)),
        ({"data": (4097, False)}, ("not aligned",)),
        ({"strides": (17, 4)}, ("not aligned",)),
    ],
)
def test_refused_interfaces(changes, words):
    refused(Device(**changes), *words)


def test_the_interface_may_be_a_property():
    class Array:
        @property
        def __cuda_array_interface__(self):
            return Device().__cuda_array_interface__

    assert view(Array()).pointer == 4096
    assert adopt(Array, "x") is None
    assert watch_of(Array()) == {".__cuda_array_interface__": "=="}


# --- DLPack -------------------------------------------------------------------------------------------------------------


class Dl:
    """A DLPack producer on the host, or one that says it is elsewhere."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def test_dlpack_on_the_host_shares_memory():
    x = np.arange(12.0).reshape(3, 4)[:, ::2]
    value = Dl(x)
    found = view(value)
    assert (found.pointer, found.shape, found.strides) == (x.ctypes.data, x.shape, x.strides)
    assert found.owner is value
    assert not found.readonly
    found.host[0, 0] = 7.0
    assert x[0, 0] == 7.0


def test_dlpack_keeps_read_only():
    x = np.zeros(3)
    x.flags.writeable = False
    assert view(Dl(x)).readonly


def test_refused_dlpack():
    refused(Dl(np.zeros(3), (8, 0)), "device type is 8", "copy it")

    class Broken(Dl):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("no export today")

    refused(Broken(np.zeros(3)), "no export today")


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_exported_capsules_are_what_numpy_reads(monkeypatch, dtype, versioned):
    # NumPy takes host memory only, so the export says that this is.
    monkeypatch.setattr("qgraph.runtime.values.dlpack.DLPACK_CUDA", 1)
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)[::-1, :, ::2]
    source = view(x)
    source.device = 0

    class Producer(Dl):
        def __dlpack__(self, **options: Any) -> Any:
            return export(source, versioned)

    before = len(exports)
    back = np.from_dlpack(Producer(x))
    assert len(exports) == before + 1
    assert (back.ctypes.data, back.shape, back.strides, back.dtype) == (x.ctypes.data, x.shape, x.strides, x.dtype)
    np.testing.assert_array_equal(back, x)
    del back
    assert len(exports) == before
    unused = export(source, versioned)
    assert len(exports) == before + 1
    del unused
    assert len(exports) == before


def test_exports_that_dlpack_cannot_express():
    def made(stride, readonly):
        return ArrayView(4096, (4,), (stride,), np.dtype("f8"), readonly, 0, object())

    with pytest.raises(BufferError, match="multiples"):
        export(made(12, False), True)
    with pytest.raises(BufferError, match="read-only"):
        export(made(8, True), False)
    assert len(exports) == 0


# --- libraries by name, without them ------------------------------------------------------------------------------------


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class Tensor:
    """As much of a PyTorch tensor as adopting needs. Its class is found by the module's name."""

    __module__ = "torch"
    layout = "strided"
    requires_grad = False
    is_quantized = False

    def __init__(self, array: np.ndarray, device: str = "cuda", dtype: str | None = None, **changes: Any) -> None:
        self.array = array
        self.dtype = Dtype(dtype or f"torch.{array.dtype.name}")
        self.device = types.SimpleNamespace(type=device)
        self.shape = array.shape
        self.is_cuda = device == "cuda"
        self.negative = False
        vars(self).update(changes)

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def get_device(self) -> int:
        return 3

    def is_neg(self) -> bool:
        return self.negative

    def is_conj(self) -> bool:
        return False

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.array


class Parameter(Tensor):
    __module__ = "torch.nn.parameter"


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.strided = "strided"
    module.is_grad_enabled = lambda: True
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 1000 + device)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_tensors(torch):
    x = np.zeros((3, 4), np.float32).T
    for cls in (Tensor, Parameter):
        value = cls(x)
        found = view(value)
        assert (found.pointer, found.shape, found.strides) == (x.ctypes.data, (4, 3), (4, 16))
        assert (found.device, found.layout, found.dtype, found.owner) == (3, "F", np.dtype("f4"), value)
        assert current_stream(value) == 1003
    host = view(Tensor(x, "cpu"))
    assert host.device is None and host.host is x
    assert current_stream(Tensor(x, "cpu")) is None
    assert current_stream(x) is None


def test_refused_tensors(torch):
    x = np.zeros(4, np.float32)
    refused(Tensor(x, dtype="torch.bfloat16"), "bfloat16", "float")
    refused(Tensor(x, dtype="torch.float8_e4m3fn"), "float8_e4m3fn")
    refused(Tensor(x, dtype="torch.qint8", is_quantized=True), "quantized", "qint8")
    refused(Tensor(x, layout="sparse_coo"), "sparse")
    refused(Tensor(x, negative=True), "negated", "resolve_neg")
    refused(Tensor(x, "meta"), "'meta'")


def test_requires_grad_warns_once(torch, monkeypatch):
    from qgraph.runtime.arguments import array_adapters as module

    monkeypatch.setattr(module.grad_warning, "_said", False)
    value = Tensor(np.zeros(4), requires_grad=True)
    with pytest.warns(UserWarning, match="no gradient"):
        view(value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        view(value)
        monkeypatch.setattr(module.grad_warning, "_said", False)
        torch.is_grad_enabled = lambda: False
        view(value)


def test_tracers_have_no_memory():
    """What a compiler follows through the program is told apart by its class, and refused where it is no call."""
    for library, name in (("torch", "FakeTensor"), ("torch", "FunctionalTensor"), ("jax", "Tracer")):
        made = type(name, (), {"__module__": f"{library}._src.core"})
        with pytest.raises(TracedArray, match=f"argument `x`: it is a tracer of {library}, not an array") as caught:
            view(type("Derived", (made,), {"__module__": f"{library}.else"})())
        assert caught.value.library == library


# --- libraries that are installed ---------------------------------------------------------------------------------------


def capsule(pointer, name):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(pointer, name, None)


@pytest.mark.parametrize("signature", [b"intptr_t (void)", b"int (void)", None])
def test_the_stream_of_cupy(monkeypatch, signature):
    class Array:
        pass

    Array.__module__, Array.__name__ = "cupy", "ndarray"
    streams = [3, 4]
    backend = types.ModuleType("cupy_backends.cuda.stream")
    current = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: streams[0])
    if signature is not None:
        backend.__pyx_capi__ = {"get_current_stream_ptr": capsule(ctypes.cast(current, ctypes.c_void_p), signature)}
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=streams[1]))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.stream", backend)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    find = stream_finder(Array())
    # A function of another signature is not called.
    which = 0 if signature == b"intptr_t (void)" else 1
    assert find() == streams[which]
    streams[which] = 0
    assert find() == 0


class WarpArray:
    """What an array of Warp's looks like: the interface of the memory where it is."""

    def __init__(self, array, device, dtype="float32"):
        self.array, self.device, self.dtype = array, device, type(dtype, (), {})
        self.ptr, self.shape, self.strides = array.ctypes.data, array.shape, array.strides

    @property
    def __cuda_array_interface__(self):
        if not self.device.is_cuda:
            raise AttributeError("not on a device")
        return {"version": 2, "data": (self.ptr, False)} | {"shape": self.shape, "strides": self.strides, "typestr": "<f4"}

    @property
    def __array_interface__(self):
        if self.device.is_cuda:
            raise AttributeError("not on the host")
        return self.array.__array_interface__


WarpArray.__module__, WarpArray.__name__ = "warp._src.types", "array"


def test_arrays_of_warp():
    x = np.zeros((3, 4), np.float32)[:, ::2]
    host = view(WarpArray(x, types.SimpleNamespace(is_cuda=False)))
    assert (host.pointer, host.shape, host.strides, host.device) == (x.ctypes.data, (3, 2), (16, 8), None)
    device = types.SimpleNamespace(is_cuda=True, stream=types.SimpleNamespace(cuda_stream=7))
    found = WarpArray(x, device)
    assert view(found).pointer == x.ctypes.data and view(found).stream is None
    assert current_stream(found) == 7
    # Its default stream has no handle, and it may work on another one now.
    device.stream = types.SimpleNamespace(cuda_stream=None)
    assert current_stream(found) == 0
    assert current_stream(WarpArray(x, types.SimpleNamespace(is_cuda=False))) is None
    assert watch_of(found).keys() == {".ptr", ".shape", ".strides", ".dtype"}
    refused(WarpArray(x, device, "bfloat16"), "bfloat16")


@pytest.mark.parametrize("name", ["warp._src.context", "warp.context"])
def test_the_current_stream_of_warp(monkeypatch, name):
    for each in ("torch", "cupy", "warp._src.context", "warp.context"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    context = types.ModuleType(name)
    context.runtime = None
    monkeypatch.setitem(sys.modules, "warp", types.ModuleType("warp"))
    monkeypatch.setitem(sys.modules, name, context)
    # It is not started by being asked.
    assert library_streams(0) == []
    streams = [types.SimpleNamespace(cuda_stream=handle) for handle in (5, None)]
    devices = [types.SimpleNamespace(has_stream=True, stream=stream) for stream in streams]
    context.runtime = types.SimpleNamespace(cuda_devices=[*devices, types.SimpleNamespace(has_stream=False)])
    assert [library_streams(ordinal) for ordinal in range(4)] == [[5], [0], [], []]


def test_what_is_an_array_by_an_attribute_of_its_own_is_watched_by_nobody():
    assert watch_of(Device()) is None
    assert watch_of(np.zeros(3)) is not None


def test_jax_arrays_on_the_host():
    jax = pytest.importorskip("jax")
    value = jax.numpy.arange(6, dtype="float32").reshape(2, 3)
    found = view(value)
    assert found.readonly and found.device is None
    np.testing.assert_array_equal(found.host, np.asarray(value))
    assert found.pointer == value.unsafe_buffer_pointer()
    refused(jax.numpy.zeros(3, "bfloat16"), "bfloat16")
    jax.jit(lambda x: refused(x, "tracer"))(value)
    value.delete()
    refused(value, "deleted")


def test_torch_tensors_on_the_host():
    real = pytest.importorskip("torch")
    value = real.arange(12, dtype=real.float32).reshape(3, 4)[:, ::2]
    found = view(value)
    assert (found.pointer, found.shape, found.strides) == (value.data_ptr(), (3, 2), (16, 8))
    for dtype in DTYPES:
        assert view(real.zeros(3, dtype=getattr(real, dtype))).dtype.name == dtype
    refused(real.zeros(3, dtype=real.bfloat16), "bfloat16")
    refused(real.zeros(3).to_sparse(), "sparse")
    refused(real.zeros(3, dtype=real.complex64).conj(), "conjugated")
    refused(real.zeros(3, device="meta"), "'meta'")
