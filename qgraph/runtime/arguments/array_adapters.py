"""Any array of any library -> ArrayView, sharing its memory. No library is imported here: one that made an array is loaded.

``adopt`` looks at the type once: the adopter of a type is found by the names of its classes and cached, so that the next
array of that type costs one look-up.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NoReturn

import numpy

from qgraph.compat.cpython import pointer_in
from qgraph.compat.framework_streams import cupy_stream_function, torch_stream
from qgraph.errors import ArgumentError
from qgraph.ir.argument_types import TracedArray
from qgraph.runtime.arguments.gradient_warning import grad_warning
from qgraph.runtime.values.array_view import ArrayView, contiguous_strides, layout_of, view_of_host

Adopter = Callable[[Any, str], ArrayView]
StreamFinder = Callable[[], int]

# DLPack's device types.
_DLPACK_HOST = (1, 3)  # host memory, pinned host memory
_DLPACK_CUDA = (2, 13)  # device memory, managed memory

_LEGACY_STREAM = 1
# A class, which takes longer to make than to look at a stream.
_HANDLE_FUNCTION = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)

DTYPE_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_DTYPES = {numpy.dtype(name): numpy.dtype(name) for name in DTYPE_NAMES}
_DTYPE_OF_NAME = {name: numpy.dtype(name) for name in DTYPE_NAMES}

# What a dtype that cannot be used holds, by its kind, and what to do.
_REFUSED_KINDS = {
    "O": ("Python objects", "convert it to numbers: x.astype(float)"),
    "S": ("byte strings", "pass numbers instead"),
    "U": ("strings", "pass numbers instead"),
    "T": ("strings", "pass numbers instead"),
    "M": ("dates", "pass x.view(numpy.int64)"),
    "m": ("time differences", "pass x.view(numpy.int64)"),
}


# How an attribute is compared with what it was: by value, by identity, or by identity without holding it.
Comparison = Literal["==", "is", "weakly"]


def adopt(value: object, path: str) -> ArrayView | None:
    """A view of ``value`` that shares its memory, or None where it is not an array.

    Args:
        value: an array of NumPy, qgraph, PyTorch, CuPy, JAX, Warp, Numba; anything with ``__cuda_array_interface__`` or DLPack.
        path: how the user writes the argument, for errors.

    Raises:
        ArgumentError: an array whose elements a kernel cannot use.
    """
    adopter = adopter_of(type(value)) or _adopter_of_instance(value)
    return None if adopter is None else adopter(value, path)


def _find_adopter(cls: type) -> Adopter | None:
    for base in cls.__mro__:
        root = base.__module__.partition(".")[0]
        adopter = _BY_NAME.get((root, base.__name__))
        if adopter is not None:
            changed = _changed(cls, base)
            if not changed:
                return adopter
            return _refusing(
                f"its type {cls.__name__} is an array with a `{changed}` of its own", "pass a plain array of its elements"
            )
    if hasattr(cls, "__qgraph_view__"):
        return _adopt_own
    if hasattr(cls, "__cuda_array_interface__"):
        return _adopt_interface
    if hasattr(cls, "__dlpack__") and hasattr(cls, "__dlpack_device__"):
        return _adopt_dlpack
    return None


def _changed(cls: type, base: type) -> str:
    """What ``cls`` does in another way than ``base``, the array type of a library, of what kernels do with arrays; or ""."""
    library = base.__module__.partition(".")[0]
    for derived in cls.__mro__[: cls.__mro__.index(base)]:
        own = derived.__module__.partition(".")[0]
        found = sorted(vars(derived).keys() & _USED) if own != library else ()
        if found:
            return found[0]
    return ""


_ADOPTERS: weakref.WeakKeyDictionary[type, Adopter] = weakref.WeakKeyDictionary()


def adopter_of(cls: type) -> Adopter | None:
    """How arrays of a type are adopted; None where the type does not say, which it may do later."""
    found = _ADOPTERS.get(cls)
    if found is None and (found := _find_adopter(cls)) is not None:
        _ADOPTERS[cls] = found
    return found


def _adopter_of_instance(value: object) -> Adopter | None:
    # An object may carry the interface as an attribute of its own.
    return _adopt_interface if hasattr(value, "__cuda_array_interface__") and not isinstance(value, type) else None


def watch_of(value: Any) -> Mapping[str, Comparison] | None:
    """What can change of the live array ``value``, as attributes and calls to put behind it; None: nobody knows.

    The memory of a NumPy array cannot be replaced while a weak reference to it exists: NumPy refuses to resize it then.
    """
    adopter = adopter_of(type(value))
    if adopter is _adopt_torch:
        return _watch_torch(value)
    if adopter is _adopt_cupy and value.ndim == 1:
        # Only a shape can be changed in place, and the number of elements stays.
        return {".ndim": "=="}
    if adopter is _adopt_interface and isinstance(value, _numba_arrays()):
        # To make the interface takes 2 us.
        return {".shape": "is", ".stream": "is", ".gpu_data": "weakly"}
    return None if adopter is None else _WATCHED.get(adopter)


def _numba_arrays() -> tuple[type, ...]:
    # Of numba-cuda, whose arrays name nothing that can be asked for by name; its module is there where such an array is.
    module = sys.modules.get("numba.cuda.cudadrv.devicearray")
    found = getattr(module, "DeviceNDArrayBase", None)
    return () if found is None else (found,)


def _watch_torch(value: Any) -> Mapping[str, Comparison]:
    # Where elements lie without gaps their places follow from the shape, and that costs less to ask.
    contiguous = value.is_contiguous()
    watched: dict[str, Comparison] = {".data_ptr()": "==", ".dtype": "is", ".shape": "=="}
    watched[".is_contiguous()" if contiguous else ".stride()"] = "=="
    if value.is_complex():
        watched[".is_conj()"] = "=="
    else:
        # As the imaginary part of a conjugated tensor is.
        watched[".is_neg()"] = "=="
    return watched


def are_seen_together(value: Any) -> bool:
    """Whether ``native.look_at`` sees all that ``watch_of`` names of the live array ``value``."""
    if adopter_of(type(value)) is not _adopt_torch:
        return False
    from qgraph.runtime.driver.native import may_look

    return may_look(value)


def stream_finder(value: object) -> StreamFinder | None:
    """What tells, whenever it is called, on which stream the library of ``value`` works then. It does not hold ``value``.

    A stream is its handle, 0 the default one. None where ``value`` is no array of PyTorch, CuPy or Warp on a device.
    """
    find = stream_finder_of(type(value))
    return None if find is None else find(value)


def current_stream(value: object) -> int | None:
    """The stream that ``value``'s library, PyTorch, CuPy or Warp, works on now (0: the default one); None for other values."""
    find = stream_finder(value)
    return None if find is None else find()


def _find_stream_finder(cls: type) -> Callable[[Any], StreamFinder | None] | None:
    for base in cls.__mro__:
        finder = _STREAMS.get((base.__module__.partition(".")[0], base.__name__))
        if finder is not None:
            return finder
    return None


#: How ``stream_finder`` looks at values of a type; None for types of other libraries.
stream_finder_of: Callable[[type], Callable[[Any], StreamFinder | None] | None] = lru_cache(maxsize=1024)(_find_stream_finder)


def _torch_stream(value: Any) -> StreamFinder | None:
    if not value.is_cuda:
        return None
    return torch_stream(sys.modules["torch"], value.get_device())


def _cupy_stream(value: Any) -> StreamFinder | None:
    # What CuPy itself launches on; the public accessor takes twice as long.
    capsule = cupy_stream_function()
    if capsule is not None:
        try:
            return _HANDLE_FUNCTION(pointer_in(capsule, b"intptr_t (void)"))
        except ValueError:  # another signature
            pass
    current = sys.modules["cupy"].cuda.get_current_stream
    return lambda: current().ptr


def _warp_stream(value: Any) -> StreamFinder | None:
    device = value.device
    # The default stream has no handle there.
    return (lambda: int(device.stream.cuda_stream or 0)) if device.is_cuda else None


# --- dtypes ------------------------------------------------------------------------------------------------------------


def refuse(path: str, found: str, hint: str | None = None) -> NoReturn:
    """Raise the ``ArgumentError`` that says what is wrong with argument ``path``."""
    raise ArgumentError(f"argument `{path}`: {found}", hint=hint)


def usable_dtype(dtype: numpy.dtype, path: str) -> numpy.dtype:
    """NumPy's own instance of ``dtype``; ``ArgumentError`` where a kernel cannot use it."""
    own = _DTYPES.get(dtype)
    if own is None:
        _refuse_dtype(dtype, path)
    return own


def _refuse_dtype(dtype: numpy.dtype, path: str) -> NoReturn:
    if not dtype.isnative:
        hint = "pass x.astype(x.dtype.newbyteorder('='))"
        refuse(path, f"its elements ({dtype.str}) are not in this machine's byte order", hint)
    if dtype.names is not None:
        refuse(path, f"it is a structured array ({dtype})", "pass its fields as arrays of their own, contiguous ones")
    if dtype.kind in _REFUSED_KINDS:
        holds, hint = _REFUSED_KINDS[dtype.kind]
        refuse(path, f"it holds {holds} (dtype {dtype})", hint)
    refuse(path, f"dtype {dtype.name} is not supported", f"the dtypes are {', '.join(DTYPE_NAMES)}")


def _checked(view: ArrayView, path: str) -> ArrayView:
    # The device traps on a misaligned access, and with it the whole context is lost.
    alignment = view.dtype.alignment
    layout = view.layout = layout_of(view.shape, view.strides, view.dtype.itemsize)
    astray = view.pointer % alignment or (layout == "A" and any(stride % alignment for stride in view.strides))
    if astray and view.size:
        refuse(path, f"its {view.dtype.name} elements are not aligned to {alignment} bytes", "pass a copy of it")
    return view


# --- host arrays -------------------------------------------------------------------------------------------------------


def _adopt_numpy(value: Any, path: str) -> ArrayView:
    return _host_view(value, value, path)


def _host_view(array: numpy.ndarray, owner: object, path: str) -> ArrayView:
    dtype = usable_dtype(array.dtype, path)
    if not array.flags.aligned:
        refuse(path, f"its {dtype.name} elements are not aligned to {dtype.alignment} bytes", "pass x.copy()")
    if type(array) is not numpy.ndarray:
        array = array.view(numpy.ndarray)
    view = view_of_host(array, owner)
    view.dtype = dtype
    return view


def _refusing(found: str, hint: str) -> Adopter:
    """What stands in the place of an adopter for arrays that cannot be adopted."""

    def adopter(_value: Any, path: str) -> ArrayView:
        refuse(path, found, hint)

    return adopter


def _traced(library: str) -> Adopter:
    """What stands in the place of an adopter for arrays of which a call becomes an operation: see ``hosts``."""

    def adopter(_value: Any, path: str) -> ArrayView:
        found = f"argument `{path}`: it is a tracer of {library}, not an array"
        error = TracedArray(found, hint="call the kernel itself there, or this outside what is traced")
        error.library = library
        raise error

    return adopter


# --- qgraph, PyTorch, CuPy, JAX, Warp ----------------------------------------------------------------------------------------


def _adopt_own(value: Any, path: str) -> ArrayView:
    view: ArrayView = value.__qgraph_view__()
    return view


def _adopt_torch(value: Any, path: str) -> ArrayView:
    dtype = _torch_dtype(value.dtype)
    if dtype is None:
        _refuse_torch_dtype(value, path)
    if value.layout is not sys.modules["torch"].strided:
        refuse(path, f"it is a sparse tensor ({value.layout})", "pass its index and value tensors, or x.to_dense()")
    if value.is_neg() or value.is_conj():
        refuse(path, "it is a lazily conjugated or negated view", "pass x.resolve_conj().resolve_neg()")
    if value.requires_grad and sys.modules["torch"].is_grad_enabled():
        grad_warning.say()
    if value.is_cuda:
        itemsize = dtype.itemsize
        strides = tuple([stride * itemsize for stride in value.stride()])
        view = ArrayView(value.data_ptr(), tuple(value.shape), strides, dtype, False, value.get_device(), value)
        return _checked(view, path)
    if value.device.type != "cpu":
        refuse(path, f"it is a tensor on device {str(value.device)!r}", "pass a tensor on a CUDA device or on the CPU")
    return _host_view(value.detach().numpy(), value, path)


@lru_cache(maxsize=64)
def _torch_dtype(dtype: object) -> numpy.dtype | None:
    return _DTYPE_OF_NAME.get(str(dtype).removeprefix("torch."))


def _refuse_torch_dtype(value: Any, path: str) -> NoReturn:
    if value.is_quantized:
        refuse(path, f"it is a quantized tensor ({value.dtype})", "pass x.int_repr() or x.dequantize()")
    name = str(value.dtype).removeprefix("torch.")
    refuse(path, f"dtype {name} is not supported", f"pass x.float(), or another of {', '.join(DTYPE_NAMES)}")


def _adopt_cupy(value: Any, path: str) -> ArrayView:
    data = value.data
    dtype = usable_dtype(value.dtype, path)
    return _checked(ArrayView(data.ptr, value.shape, value.strides, dtype, False, data.device_id, value), path)


def _adopt_jax(value: Any, path: str) -> ArrayView:
    usable_dtype(value.dtype, path)
    if value.is_deleted():
        refuse(path, "it is a JAX array that was deleted or donated", "pass an array that is still alive")
    devices = value.devices()
    if len(devices) != 1:
        refuse(path, f"it is a JAX array spread over {len(devices)} devices", "pass the shard of one device")
    # JAX does not tell its streams, so its work must be finished.
    value.block_until_ready()
    if next(iter(devices)).platform == "cpu":
        view = _host_view(numpy.asarray(value), value, path)
    else:
        view = _adopt_interface(value, path)
    view.readonly = True
    return view


def _adopt_warp(value: Any, path: str) -> ArrayView:
    if value.dtype.__name__ == "bfloat16":
        refuse(path, "dtype bfloat16 is not supported", f"the dtypes are {', '.join(DTYPE_NAMES)}")
    return _adopt_interface(value, path) if value.device.is_cuda else _host_view(numpy.asarray(value), value, path)


# --- __cuda_array_interface__ and DLPack -------------------------------------------------------------------------------


def _adopt_interface(value: Any, path: str) -> ArrayView:
    interface = value.__cuda_array_interface__
    version = interface.get("version", 0)
    if version < 2:
        refuse(path, f"version {version} of the CUDA array interface is too old", "versions 2 and 3 are known")
    if interface.get("mask") is not None:
        refuse(path, "its CUDA array interface has a mask", "pass data and mask as two arrays")
    dtype = _interface_dtype(interface["typestr"], path)
    pointer, readonly = interface["data"]
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    strides = contiguous_strides(shape, dtype.itemsize) if strides is None else tuple(strides)
    # Stream 0 would be ambiguous, says the interface; those who write it mean the legacy default stream.
    stream = interface.get("stream")
    stream = _LEGACY_STREAM if stream == 0 else stream
    pointer = int(pointer or 0)
    view = ArrayView(pointer, shape, strides, dtype, bool(readonly), device_of_pointer(pointer), value, stream)
    return _checked(view, path)


def _interface_dtype(typestr: str, path: str) -> numpy.dtype:
    try:
        dtype = numpy.dtype(typestr)
    except TypeError:
        refuse(path, f"its CUDA array interface has an unknown typestr {typestr!r}")
    return usable_dtype(dtype, path)


def device_of_pointer(pointer: int) -> int:
    """The ordinal of the CUDA device that ``pointer`` is memory of; the current device for the null pointer."""
    # Where all is on the host nobody waits for the driver's bindings.
    from qgraph.runtime.driver import driver as cuda_driver

    if pointer and cuda_driver.device_count():
        driver = cuda_driver.driver
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        status, ordinal = driver.cuPointerGetAttribute(attribute, pointer)
        if status == driver.CUresult.CUDA_SUCCESS:
            return int(ordinal)
    return cuda_driver.current_device()


def _adopt_dlpack(value: Any, path: str) -> ArrayView:
    kind, _ = value.__dlpack_device__()
    if kind in _DLPACK_HOST:
        return _host_view(_from_dlpack(value, path), value, path)
    if kind not in _DLPACK_CUDA:
        found = f"its DLPack device type is {int(kind)}, neither CUDA nor host memory"
        refuse(path, found, "copy it to a CUDA device or to the host")
    return _adopt_cuda_dlpack(value, path)


def _from_dlpack(value: Any, path: str) -> numpy.ndarray:
    try:
        return numpy.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError) as error:
        refuse(path, f"its DLPack export cannot be used: {error}")


def _adopt_cuda_dlpack(value: Any, path: str) -> ArrayView:
    from cuda.core.utils import StridedMemoryView

    try:
        # The producer orders its work before the legacy default stream, and the launch waits for that one.
        imported = StridedMemoryView.from_dlpack(value, stream_ptr=_LEGACY_STREAM)
        dtype = imported.dtype
    except (BufferError, TypeError, NotImplementedError) as error:
        refuse(path, f"its DLPack export cannot be used: {error}")
    if dtype is None:
        refuse(path, "its DLPack dtype is not one that NumPy knows", f"the dtypes are {', '.join(DTYPE_NAMES)}")
    dtype = usable_dtype(dtype, path)
    shape = tuple(imported.shape)
    steps = imported.strides
    itemsize = dtype.itemsize
    strides = contiguous_strides(shape, itemsize) if steps is None else tuple(step * itemsize for step in steps)
    view = ArrayView(imported.ptr, shape, strides, dtype, imported.readonly, imported.device_id, value, _LEGACY_STREAM)
    view.keep = imported
    return _checked(view, path)


_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "matmul",
    "divmod",
)
# What kernels do with arrays: a class with another idea of it is no array for them.
_USED = frozenset(
    {
        *(f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r", "i")),
        *(f"__{name}__" for name in ("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs", "invert", "bool", "len", "iter")),
        *("__getitem__", "__setitem__", "__array_ufunc__", "__array_function__"),
        *("shape", "ndim", "size", "dtype", "T", "real", "imag"),
        *("sum", "prod", "min", "max", "any", "all", "mean", "dot", "conj", "conjugate"),
    }
)
# Types by the package and the name of their class, or of a class they derive from; the first match in the MRO counts.
_BY_NAME: dict[tuple[str, str], Adopter] = {
    ("numpy", "MaskedArray"): _refusing("it is a masked array", "pass x.data and, if the kernel needs it, x.mask"),
    ("numpy", "matrix"): _refusing("it is a numpy.matrix, which indexes unlike an array", "pass numpy.asarray(x)"),
    ("numpy", "ndarray"): _adopt_numpy,
    ("torch", "FakeTensor"): _traced("torch"),
    ("torch", "FunctionalTensor"): _traced("torch"),
    ("torch", "Tensor"): _adopt_torch,
    ("cupy", "ndarray"): _adopt_cupy,
    ("warp", "array"): _adopt_warp,
    ("jaxlib", "ArrayImpl"): _adopt_jax,
    ("jax", "ArrayImpl"): _adopt_jax,
    ("jax", "Tracer"): _traced("jax"),
}

_STREAMS: dict[tuple[str, str], Callable[[Any], StreamFinder | None]] = {
    ("torch", "Tensor"): _torch_stream,
    ("cupy", "ndarray"): _cupy_stream,
    ("warp", "array"): _warp_stream,
}

_WATCHED: dict[Adopter, Mapping[str, Comparison]] = {
    _adopt_numpy: {".shape": "==", ".strides": "==", ".dtype": "is", ".flags.num": "=="},
    # Whoever launches sees whether the context still is the one that its memory lies in.
    _adopt_own: {},
    _adopt_cupy: {".shape": "==", ".strides": "=="},
    _adopt_warp: {".ptr": "==", ".shape": "==", ".strides": "==", ".dtype": "is"},
    _adopt_jax: {".is_deleted()": "=="},
    _adopt_interface: {".__cuda_array_interface__": "=="},
}
