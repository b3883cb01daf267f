"""The options of ``@qgraph.kernel``, checked once."""

from __future__ import annotations

import numbers
import os
import sys

from qgraph.errors import BackendError, QGraphError
from qgraph.records import dataclass

BACKENDS = ("cuda", "cpu", "sim")


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is compiled and run; the fields are the keywords of ``@qgraph.kernel``."""

    graph: bool = True
    backend: str | None = None
    fuse: bool = False
    fastmath: bool = False
    block_size: int | None = None
    bounds_check: bool = False
    conditional: str = "auto"

    def __new__(cls, **given: object) -> Options:
        """Refuse a keyword that is no option with an error that says which there are."""
        unknown = [name for name in given if name not in cls.__dataclass_fields__]
        if unknown:
            raise QGraphError(
                f"@qgraph.kernel has no option {unknown[0]!r}", hint=f"its options are {', '.join(cls.__dataclass_fields__)}"
            )
        return object.__new__(cls)

    @property
    def one_block(self) -> bool:
        """Whether a kernel may run as one block of threads: nothing was said of how its graph is launched, but to fuse it."""
        return self.fuse and self.graph and self.conditional != "host" and self.block_size is None

    def __post_init__(self) -> None:
        if self.backend is not None:
            check_backend(self.backend)
        if self.conditional not in ("auto", "device", "host"):
            raise QGraphError(
                f"conditional={self.conditional!r} is not one of 'auto', 'device', 'host'",
                hint="'auto' runs loops on the device where the driver can, 'host' never",
            )
        for name in ("fuse", "fastmath", "graph", "bounds_check"):
            if not isinstance(getattr(self, name), bool):
                raise QGraphError(f"{name}={getattr(self, name)!r} is not a bool", hint="pass True or False")
        size: object = self.block_size
        whole = isinstance(size, numbers.Integral) and not isinstance(size, bool)
        if self.block_size is not None and not (whole and 1 <= self.block_size <= 1024):
            raise QGraphError(
                f"block_size={self.block_size!r} is not a whole number of threads from 1 to 1024",
                hint="a block has at most 1024 threads; leave block_size out, and qgraph chooses",
            )
        if _bounds_checked():
            object.__setattr__(self, "bounds_check", True)
        _check_traceback()


def _bounds_checked() -> bool:
    """Whether the process checks the bounds of all kernels: ``QGRAPH_BOUNDS_CHECK=1``."""
    text = os.environ.get("QGRAPH_BOUNDS_CHECK", "")
    if text not in ("", "0", "1"):
        hint = "1 checks the indices of all kernels, 0 those of kernels with bounds_check=True"
        raise QGraphError(f"QGRAPH_BOUNDS_CHECK={text!r} is neither 0 nor 1", hint=hint)
    return text == "1"


def _check_traceback() -> None:
    """Refuse a ``QGRAPH_TRACEBACK`` that means nothing: ``stack.hide_frames`` reads it when it is too late to say so."""
    text = os.environ.get("QGRAPH_TRACEBACK", "")
    if text not in ("", "user", "full"):
        hint = "full shows the frames of qgraph in tracebacks of its errors, user does not"
        raise QGraphError(f"QGRAPH_TRACEBACK={text!r} is neither 'user' nor 'full'", hint=hint)


def check_backend(name: str) -> str:
    """Return ``name`` if it is a backend; ``BackendError`` otherwise."""
    if name not in BACKENDS:
        raise BackendError(f"unknown backend {name!r}", hint=f"the backends are {', '.join(map(repr, BACKENDS))}")
    return name


def prepare_simulator() -> None:
    """Let ``QGRAPH_BACKEND=sim`` reach Numba, which decides for its simulator when it is first imported."""
    if os.environ.get("QGRAPH_BACKEND") == "sim" and "numba" not in sys.modules:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
