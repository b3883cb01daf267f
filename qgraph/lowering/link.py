"""PTX texts -> one cubin, by nvJitLink. PTX is never given to the driver: an older one refuses a newer NVVM's text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qgraph.errors import BackendError

_INSTALL = "install the toolkit wheels: pip install qgraph-jit[cu13] (or [cu12] for a driver of CUDA 12)"


def device_runtime_path() -> str | None:
    """Where libcudadevrt.a is (it defines ``cudaGraphSetConditional``), or None where no toolkit has it."""
    from cuda import pathfinder

    try:
        path: str = pathfinder.find_static_lib("cudadevrt")
    except pathfinder.StaticLibNotFoundError:
        return None
    return path


def library_path(name: str) -> str:
    """The file of ``nvvm`` or ``nvJitLink``, which compiled and linked something in this process already."""
    from cuda import pathfinder

    return str(pathfinder.load_nvidia_dynamic_lib(name).abs_path)


def link(ptx_texts: Sequence[str], capability: tuple[int, int], *, device_runtime: bool = True) -> bytes:
    """Link PTX texts, which share no name, to one cubin.

    Args:
        ptx_texts: at least one.
        capability: the compute capability, (9, 0) for sm_90.
        device_runtime: link libcudadevrt too; without it the driver must resolve ``cudaGraphSetConditional``.

    Raises:
        BackendError: nvJitLink or libcudadevrt is missing, or the texts do not link.
    """
    try:
        from cuda.core import Linker, LinkerOptions, ObjectCode
    except ImportError as error:
        raise BackendError(f"cuda.core cannot be imported: {error}", hint=_INSTALL) from error
    # cuda.core falls back to the driver's linker, which would have to read this PTX; that must not happen silently.
    _require_nvjitlink()
    from cuda.bindings.nvjitlink import nvJitLinkError

    objects = [ObjectCode.from_ptx(text.encode()) for text in ptx_texts]
    # The archive adds 200 kB, so it is linked only where something calls it.
    if device_runtime and any("cudaGraphSetConditional" in text for text in ptx_texts):
        objects.append(ObjectCode.from_library(_device_runtime()))
    options = LinkerOptions(arch=f"sm_{capability[0]}{capability[1]}")
    try:
        linker = Linker(*objects, options=options)
        code = linker.link("cubin").code
    except (nvJitLinkError, RuntimeError, ValueError, OSError) as error:
        raise BackendError(f"the kernels do not link: {str(error).strip()}") from error
    return bytes(code) if not isinstance(code, str) else code.encode()


def _require_nvjitlink() -> None:
    from cuda import pathfinder

    try:
        pathfinder.load_nvidia_dynamic_lib("nvJitLink")
    except (pathfinder.DynamicLibNotFoundError, RuntimeError) as error:
        raise BackendError("nvJitLink was not found, which links kernels to machine code", hint=_INSTALL) from error


def _device_runtime() -> bytes:
    path = device_runtime_path()
    if path is None:
        raise BackendError("libcudadevrt.a was not found, which device-side loops need", hint=_INSTALL)
    return Path(path).read_bytes()
