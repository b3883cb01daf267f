"""What qgraph sees on this machine, the settings of the process, its stream, and graphs recorded from streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from qgraph.errors import BackendError
from qgraph.stack import raises_to_user

if TYPE_CHECKING:
    from qgraph.runtime.graph.recording import Recording

_PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-core", "cuda-bindings", "nvidia-nvjitlink")


class Info(Mapping[str, Any]):
    """Facts by name; ``str()`` is a table of them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def __getitem__(self, key: str) -> Any:
        return self._facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __str__(self) -> str:
        return table(self)

    __repr__ = __str__


def table(rows: Mapping[str, Any]) -> str:
    """Names and values in two columns."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:<{width}}  {_text(value)}".rstrip() for name, value in rows.items())


def _text(value: Any) -> str:
    words = ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else value
    return "none" if words is None else str(words) or "none"


def info() -> Info:
    """The device, driver and toolkit, the backends that can run here, and which path device loops take and why."""
    from qgraph.runtime.arguments.backends import default_backend
    from qgraph.runtime.driver import driver

    facts: dict[str, Any] = {"version": _version("qgraph-jit")}
    count = driver.device_count()
    if count == 0:
        trouble = driver.driver_trouble()
        facts |= {"device": "none", "driver": trouble, "loops": "none", "reason": "there is no CUDA device"}
    else:
        from qgraph.dispatch.executables import loop_probe

        ordinal = driver.current_device()
        device = driver.device(ordinal)
        probe = loop_probe(ordinal)
        capability = ".".join(map(str, device.capability))
        facts |= {
            "device": f"{device.name} (compute capability {capability}, {device.multiprocessors} multiprocessors)",
            "driver": ".".join(map(str, driver.driver_version())),
            "loops": "device" if probe.device_loops else "host",
            "reason": probe.reason,
        }
    facts["devices"] = count
    facts["toolkit"] = _toolkit()
    facts["backends"] = (*(("cuda",) if count else ()), "cpu", "sim")
    facts["default"] = default_backend() or "where the arrays live"
    return Info(facts | {package: _version(package) for package in _PACKAGES})


def _toolkit() -> str:
    """Where the device runtime library is: what device loops are linked with."""
    from qgraph.lowering.ptx.link import device_runtime_path

    return device_runtime_path() or "libcudadevrt was not found"


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@raises_to_user
def set_backend(name: str | None) -> None:
    """Choose the backend of all kernels that do not name one; None goes back to where the arrays live.

    Raises:
        BackendError: ``name`` is not 'cuda', 'cpu' or 'sim', or cannot run here.
    """
    from qgraph.runtime.arguments import backends

    backends.set_backend(name)


@raises_to_user
def stream(obj: object) -> AbstractContextManager[None]:
    """``with qgraph.stream(obj):`` launches kernels on ``obj``: anything with ``__cuda_stream__``, or a handle.

    Calls with arrays of PyTorch, CuPy or Warp run on that library's own current stream all the same.

    Raises:
        ArgumentError: ``obj`` is no stream.
    """
    from qgraph.runtime.arguments import streams

    return streams.stream(obj)


@raises_to_user
def capture(
    stream: Any = None, mode: Literal["thread_local", "global", "relaxed"] = "thread_local", keep: Sequence[Any] = ()
) -> Recording:
    """``with qgraph.capture() as g:`` records what PyTorch, CuPy, numba.cuda and qgraph launch on a stream; nothing runs.

    ``g()`` and ``g.launch(stream)`` run it, ``g.plan`` tells what it holds, and ``g()`` in a kernel is a child-graph node, in
    device loops and branches too; ``g(reads=(a,), writes=(b,))`` says which arguments of the kernel it touches, and without
    that it is in order with everything. It works on the memory that it was recorded with. Meanwhile ``stream`` is the current
    stream of PyTorch, CuPy and qgraph; kernels of numba.cuda take ``g.stream``. Libraries must be warm: what they load or plan
    when a function is first called is no work of a stream.

    Tensors of PyTorch that it reads or writes live as long as the graph, and so do arrays that kernels of qgraph take. What
    CuPy and numba.cuda work on must be held by the caller, or named in ``keep``.

    Args:
        stream: anything with ``__cuda_stream__``, or a handle; None: a stream of its own. Never the default stream.
        mode: whose calls that would break the capture CUDA refuses: this thread's, those of all threads, or nobody's.
        keep: arrays that live as long as the graph.

    Raises:
        BackendError: there is no CUDA device.
        ArgumentError: ``stream`` is no stream, or the default one; ``mode`` is none.
        CudaError: at the end of ``with``, if something broke the capture, or nothing was recorded.
    """
    from qgraph.runtime.arguments.backends import default_backend, require
    from qgraph.runtime.driver import driver

    if default_backend() not in (None, "cuda"):
        raise BackendError(
            f"the {default_backend()} backend has no streams that could be captured",
            hint="call the functions themselves, or choose backend='cuda'",
        )
    require("cuda")
    from qgraph.runtime.graph.recording import Recording

    return Recording(driver.device(driver.current_device()), stream, mode, keep)
