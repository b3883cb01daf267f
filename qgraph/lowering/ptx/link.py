"""PTX texts -> one cubin, by nvJitLink. PTX is never given to the driver: an older one refuses a newer NVVM's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qgraph.errors import BackendError

INSTALL = "install the toolkit wheels: pip install qgraph-jit[cu13] (or [cu12] for a driver of CUDA 12)"


def device_runtime_path() -> str | None:
    """Where libcudadevrt.a is (it defines ``cudaGraphSetConditional``), or None where no toolkit has it."""
    from cuda import pathfinder

    try:
        path: str = pathfinder.find_static_lib("cudadevrt")
    except pathfinder.StaticLibNotFoundError:
        return None
    return path


def missing() -> type[Exception]:
    """What is raised where a library of the toolkit is not found."""
    from cuda import pathfinder

    found: type[Exception] = pathfinder.DynamicLibNotFoundError
    return found


def library_path(name: str) -> str:
    """The file of ``nvvm`` or ``nvJitLink``, which compiled and linked something in this process already."""
    from cuda import pathfinder

    return str(pathfinder.load_nvidia_dynamic_lib(name).abs_path)


class CubinLinker:
    """A cubin in the making. nvJitLink compiles each text when it is added, and leaves Python to other threads meanwhile."""

    def __init__(self, capability: tuple[int, int], *, device_runtime: bool = True) -> None:
        """Begin.

        Args:
            capability: the compute capability, (9, 0) for sm_90.
            device_runtime: link libcudadevrt too; without it the driver must resolve ``cudaGraphSetConditional``.

        Raises:
            BackendError: nvJitLink is missing.
        """
        self._nvjitlink = _nvjitlink()
        self._device_runtime = device_runtime
        self._calls_runtime = False
        self._handle = 0
        with self._errors():
            self._handle = self._nvjitlink.create(1, [f"-arch=sm_{capability[0]}{capability[1]}"])

    def add(self, ptx: str) -> None:
        """Add a text, which shares no name with the others; ``BackendError`` where it is not understood."""
        # The archive adds 200 kB, so it is linked only where something calls it.
        self._calls_runtime |= "cudaGraphSetConditional" in ptx
        self._add(self._nvjitlink.InputType.PTX, ptx.encode())

    def cubin(self) -> bytes:
        """Link what was added; once.

        Raises:
            BackendError: libcudadevrt is missing, or the texts do not link.
        """
        if self._device_runtime and self._calls_runtime:
            self._add(self._nvjitlink.InputType.LIBRARY, _device_runtime())
        with self._errors():
            self._nvjitlink.complete(self._handle)
            code = bytearray(self._nvjitlink.get_linked_cubin_size(self._handle))
            self._nvjitlink.get_linked_cubin(self._handle, code)
        return bytes(code)

    def close(self) -> None:
        """Let go of it, linked or not."""
        if self._handle:
            self._nvjitlink.destroy(self._handle)
            self._handle = 0

    def _add(self, kind: Any, data: bytes) -> None:
        with self._errors():
            self._nvjitlink.add_data(self._handle, kind, data, len(data), "kernels")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._nvjitlink.nvJitLinkError as error:
            raise BackendError(f"the kernels do not link: {str(error).strip()}{self._log()}") from error

    def _log(self) -> str:
        size = self._nvjitlink.get_error_log_size(self._handle) if self._handle else 0
        if size <= 1:
            return ""
        text = bytearray(size)
        self._nvjitlink.get_error_log(self._handle, text)
        return ": " + text.decode(errors="replace").strip("\x00 \n")


def link(ptx_texts: Sequence[str], capability: tuple[int, int], *, device_runtime: bool = True) -> bytes:
    """Link PTX texts, at least one, to one cubin; arguments and errors are those of ``CubinLinker``."""
    linking = CubinLinker(capability, device_runtime=device_runtime)
    try:
        for text in ptx_texts:
            linking.add(text)
        return linking.cubin()
    finally:
        linking.close()


def _nvjitlink() -> Any:
    try:
        from cuda.bindings import nvjitlink
    except ImportError as error:
        raise BackendError(f"cuda.bindings cannot be imported: {error}", hint=INSTALL) from error
    _require_nvjitlink()
    return nvjitlink


def _require_nvjitlink() -> None:
    from cuda import pathfinder

    try:
        pathfinder.load_nvidia_dynamic_lib("nvJitLink")
    except (pathfinder.DynamicLibNotFoundError, RuntimeError) as error:
        raise BackendError("nvJitLink was not found, which links kernels to machine code", hint=INSTALL) from error


def _device_runtime() -> bytes:
    path = device_runtime_path()
    if path is None:
        raise BackendError("libcudadevrt.a was not found, which device-side loops need", hint=INSTALL)
    return Path(path).read_bytes()
