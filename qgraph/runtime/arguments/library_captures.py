"""What PyTorch and CuPy are told while their work is recorded: the stream, memory of the recording's own, what to keep.

Memory that a library takes for its temporaries while it is recorded must be nobody else's as long as the graph can run, and so
comes from a pool that the recording keeps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from qgraph.errors import BackendError, CudaError
from qgraph.runtime.arguments.streams import stream
from qgraph.runtime.driver.captures import KEPT
from qgraph.runtime.driver.driver import outside_captures

# Methods of a tensor, and functions of PyTorch, that wait for the device, which no capture allows.
_WAITING = (
    *("item", "tolist", "numpy", "cpu", "nonzero", "masked_select", "unique"),
    *("__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__"),
)


class Workspace:
    """The stream of a recording, and pools for what libraries take meanwhile.

    It is used again when its recording and all copies of that are gone, and never destroyed: PyTorch ends the process where a
    pool is destroyed after a capture of its own that failed. Libraries bind memory to the stream that it was taken for, so
    both stay together.

    Args:
        handle: the stream.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._torch_pool: Any = None
        self._cupy_pool: Any = None

    @contextmanager
    def recorded(self, ordinal: int, kept: list[Any]) -> Iterator[None]:
        """While this lasts, qgraph, PyTorch and CuPy, where they are loaded, work on the stream, of device ``ordinal``.

        ``kept`` gets what must live as long as the graph that is recorded.
        """
        with ExitStack() as stack:
            stack.enter_context(stream(self.handle))
            stack.callback(KEPT.reset, KEPT.set(kept))
            torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
            if torch is not None and torch.cuda.is_available():
                self._record_torch(torch, ordinal, kept, stack)
            if cupy is not None:
                self._record_cupy(cupy, stack)
            yield

    def _record_torch(self, torch: Any, ordinal: int, kept: list[Any], stack: ExitStack) -> None:
        if not hasattr(torch.cuda, "use_mem_pool"):
            raise BackendError(
                f"PyTorch {torch.__version__} has no memory pools of a user's own, so nothing would keep what it works on",
                hint="install PyTorch 2.6 or newer, or record before PyTorch is imported",
            )
        self._torch_pool = self._torch_pool or torch.cuda.MemPool()
        stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(self.handle, device=ordinal)))
        stack.enter_context(torch.cuda.use_mem_pool(self._torch_pool, device=ordinal))
        stack.enter_context(_watching(torch, kept))

    def _record_cupy(self, cupy: Any, stack: ExitStack) -> None:
        pool = self._cupy_pool = self._cupy_pool or cupy.cuda.MemoryPool()

        def allocate(nbytes: int) -> Any:
            with outside_captures():
                return pool.malloc(nbytes)

        streams = cupy.cuda.Stream
        stack.enter_context(
            streams.from_external(self) if hasattr(streams, "from_external") else cupy.cuda.ExternalStream(self.handle)
        )
        stack.enter_context(cupy.cuda.using_allocator(allocate))

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream, for libraries that ask."""
        return 0, self.handle


def _watching(torch: Any, kept: list[Any]) -> Any:
    """What sees each call of PyTorch, keeps the memory of tensors that come from outside, and refuses what would wait."""
    refused = {getattr(torch.Tensor, name, None): f"Tensor.{name}" for name in _WAITING}
    refused |= {getattr(torch, name, None): f"torch.{name}" for name in _WAITING}
    refused.pop(None, None)
    # The addresses that tensors made meanwhile have: their memory is the pool's.
    made: set[int] = set()

    class Watching(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            arguments = (args, kwargs or {})
            if func in refused and any(tensor.is_cuda for tensor in _tensors(torch, arguments)):
                raise CudaError(
                    f"{refused[func]} waits for the device, and the stream is being captured into a graph: nothing was broken",
                    hint="call it before the capture or after a launch of the graph, or stay on the device",
                )
            result = func(*args, **(kwargs or {}))
            for tensor in _tensors(torch, arguments):
                storage = _memory(tensor)
                if storage is not None and storage.data_ptr() not in made:
                    made.add(storage.data_ptr())
                    kept.append(storage)
            made.update(storage.data_ptr() for tensor in _tensors(torch, result) if (storage := _memory(tensor)) is not None)
            return result

    return Watching()


def _memory(tensor: Any) -> Any:
    """The storage of a dense tensor on a device; None for what has none."""
    try:
        return tensor.untyped_storage() if tensor.is_cuda else None
    except (NotImplementedError, RuntimeError):  # a sparse tensor, a tensor of a subclass
        return None


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    """The tensors in nested tuples, lists and dictionaries; of sparse ones their parts."""
    if isinstance(value, torch.Tensor):
        yield value
        if value.layout == torch.sparse_csr:
            yield from (value.crow_indices(), value.col_indices(), value.values())
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(torch, each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(torch, each)
