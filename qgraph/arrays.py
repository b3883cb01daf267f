"""Arrays for kernels, made on the side where a backend wants them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from qgraph.errors import ArgumentError
from qgraph.language import in_reference, makes_array
from qgraph.options import check_backend
from qgraph.stack import raises_to_user

if TYPE_CHECKING:
    from qgraph.runtime.arguments.pool import Pool

Shape = int | tuple[int, ...]


def _side(backend: str | None) -> str:
    """'cuda' or 'host': where arrays of ``backend`` live; without one, where the default backend's do."""
    if in_reference():
        return "host"
    from qgraph.runtime.arguments.backends import default_backend, require

    name = check_backend(backend) if backend is not None else default_backend()
    if name is None:
        from qgraph.runtime.driver.driver import device_count

        return "cuda" if device_count() else "host"
    require(name)
    return "cuda" if name == "cuda" else "host"


@raises_to_user
def asarray(x: Any, backend: str | None = None) -> Any:
    """``x`` as an array of the backend: a NumPy array for cpu and sim, a device array for cuda.

    Args:
        x: anything that NumPy can make an array of, or an array of any library; not copied if it is one already.
        backend: 'cuda', 'cpu' or 'sim'; None takes the default backend, else cuda where there is a device.

    Raises:
        BackendError: the backend is unknown, or cannot run here.
    """
    from qgraph.runtime.arguments.array_adapters import adopt

    side = _side(backend)
    view = adopt(x, "x")
    if side == "host":
        return to_numpy(x) if view is not None else np.asarray(x)
    from qgraph.runtime.arguments.device_array import to_device
    from qgraph.runtime.driver.driver import current_device

    if view is not None and view.device is not None:
        return x
    return to_device(np.asarray(x) if view is None or view.host is None else view.host, current_device())


@makes_array("empty")
@raises_to_user
def empty(shape: Shape, dtype: DTypeLike = float, backend: str | None = None, *, alloc: bool = False) -> Any:
    """An array of ``shape`` and ``dtype`` with any contents.

    Args:
        shape: extents.
        dtype: of the elements.
        backend: 'cuda', 'cpu' or 'sim'; None takes the default backend, else cuda where there is a device.
        alloc: in a kernel, let the CUDA graph itself take and free the memory at each launch: another size then builds another
            graph. Without it temporaries share memory that is taken once. Nothing changes outside kernels.
    """
    if _side(backend) == "host":
        from qgraph.runtime.values.pool_memory import CURRENT_POOL, HostPoolMemory

        pool = CURRENT_POOL.get()
        if not isinstance(pool, HostPoolMemory) or in_reference():
            return np.empty(shape, dtype)
        from qgraph.runtime.arguments.pool import host_array

        return host_array(pool, shape, dtype)
    from qgraph.runtime.arguments import device_array
    from qgraph.runtime.driver.driver import current_device

    return device_array.empty(shape, dtype, current_device())


@makes_array("full")
@raises_to_user
def full(shape: Shape, value: Any, dtype: DTypeLike | None = None, backend: str | None = None, *, alloc: bool = False) -> Any:
    """An array of ``shape`` filled with ``value``; without ``dtype``, of the type that NumPy gives the value.

    ``alloc``: as in ``empty``.
    """
    array = empty(shape, np.asarray(value).dtype if dtype is None else dtype, backend)
    array.fill(value)
    return array


@makes_array("zeros")
@raises_to_user
def zeros(shape: Shape, dtype: DTypeLike = float, backend: str | None = None, *, alloc: bool = False) -> Any:
    """An array of ``shape`` and ``dtype`` filled with zeros; ``alloc`` as in ``empty``."""
    return full(shape, 0, dtype, backend)


@makes_array("empty_like")
@raises_to_user
def empty_like(x: Any, dtype: DTypeLike | None = None, *, alloc: bool = False) -> Any:
    """An array of the shape, the dtype and on the side of ``x``, with any contents; ``alloc`` as in ``empty``."""
    from qgraph.runtime.arguments.array_adapters import adopt

    view = adopt(x, "x")
    if view is None or view.device is None:
        return np.empty_like(x, dtype)
    return empty(view.shape, view.dtype if dtype is None else dtype, "cuda")


@makes_array("zeros_like")
@raises_to_user
def zeros_like(x: Any, dtype: DTypeLike | None = None, *, alloc: bool = False) -> Any:
    """An array of the shape, the dtype and on the side of ``x``, filled with zeros; ``alloc`` as in ``empty``."""
    array = empty_like(x, dtype)
    array.fill(0)
    return array


@raises_to_user
def pool(nbytes: int, backend: str | None = None) -> Pool:
    """A block of ``nbytes`` bytes of memory, taken at once, from which arrays and temporaries are made: docs/language.md.

    ``with pool:`` lets qgraph and CuPy allocate from it, ``torch_mem_pool()`` PyTorch, and ``seal()`` makes each further
    allocation an error. For cpu and sim it lies on the host: arrays can be made in it, and kernels' temporaries are elsewhere.

    Args:
        nbytes: at least 512; it is rounded down to a multiple of 512.
        backend: 'cuda', 'cpu' or 'sim'; None takes the default backend, else cuda where there is a device.

    Raises:
        ArgumentError: ``nbytes`` is less than 512.
        BackendError: the backend is unknown, or cannot run here.
        CudaError: the device has not so much memory.
    """
    from qgraph.runtime.arguments import pool as pools
    from qgraph.runtime.values.pool_blocks import ALIGNMENT

    if operator.index(nbytes) < ALIGNMENT:
        raise ArgumentError(f"a pool of {nbytes} bytes holds no block", hint=f"give it {ALIGNMENT} bytes or more")
    return pools.host_pool(nbytes) if _side(backend) == "host" else pools.device_pool(nbytes)


@raises_to_user
def scalar(dtype: DTypeLike, value: Any, backend: str | None = None) -> Any:
    """One value at an address that never changes: an array without axes, ``alpha[()]`` in kernels, with an ``update``.

    ``alpha.update(v)`` between launches and replays builds nothing and waits for nothing: on CUDA it is a write in the order
    of the current stream, seen by whatever reads the address later, graphs captured by others included.

    Args:
        dtype: of the value.
        value: the first one.
        backend: 'cuda', 'cpu' or 'sim'; None takes the default backend, else cuda where there is a device.

    Raises:
        ArgumentError: ``dtype`` does not hold ``value``, or kernels cannot use it.
        BackendError: the backend is unknown, or cannot run here.
    """
    from qgraph.runtime.arguments.array_adapters import usable_dtype

    own = usable_dtype(np.dtype(dtype), "dtype")
    if _side(backend) == "host":
        from qgraph.runtime.values import host_scalar

        return host_scalar.scalar(own, value)
    from qgraph.runtime.arguments import device_array
    from qgraph.runtime.driver.driver import current_device

    return device_array.scalar(own, value, current_device())


@raises_to_user
def to_numpy(a: Any) -> np.ndarray:
    """The elements of ``a`` as a NumPy array, after the work that writes them; host arrays are not copied."""
    from qgraph.runtime.arguments.array_adapters import adopt

    if isinstance(a, np.ndarray):
        return a
    numpy_of = getattr(a, "numpy", None)
    view = adopt(a, "a")
    if view is None:
        return np.asarray(a)
    if view.host is not None:
        return view.host
    if numpy_of is not None and type(a).__module__.startswith("qgraph."):
        result: np.ndarray = numpy_of()
        return result
    from qgraph.runtime.arguments.device_array import copy_to_host

    return copy_to_host(view)


@raises_to_user
def synchronize() -> None:
    """Wait for everything that was launched.

    Raises:
        CudaError: something failed on the device since the last wait.
    """
    from qgraph.runtime.arguments.streams import synchronize_all

    synchronize_all()
