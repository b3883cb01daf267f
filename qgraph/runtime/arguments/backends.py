"""Which backend runs a call, and the state that outlives calls: the default backend, devices, staging memory."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import field

from qgraph import forks
from qgraph.errors import ArgumentError, BackendError
from qgraph.options import check_backend
from qgraph.records import dataclass
from qgraph.runtime.values.array_view import ArrayView


@dataclass(slots=True)
class Defaults:
    """The one setting a process has: what ``qgraph.set_backend`` chose."""

    backend: str | None = None
    lock: threading.Lock = field(default_factory=forks.lock)


DEFAULTS = Defaults()


def set_backend(name: str | None) -> None:
    """Choose the backend of all kernels that do not name one; None goes back to where the arrays live.

    Raises:
        BackendError: ``name`` is not 'cuda', 'cpu' or 'sim', or cannot run here.
    """
    if name is not None:
        require(check_backend(name))
    with DEFAULTS.lock:
        DEFAULTS.backend = name


def default_backend() -> str | None:
    """The backend that ``set_backend`` or ``QGRAPH_BACKEND`` chose, or None."""
    if DEFAULTS.backend is not None:
        return DEFAULTS.backend
    name = os.environ.get("QGRAPH_BACKEND")
    return check_backend(name) if name else None


def require(name: str) -> None:
    """``BackendError`` where backend ``name`` cannot run here."""
    if name == "sim":
        _require_simulator()
    if name == "cuda":
        from qgraph.runtime.driver import driver

        if _simulating():
            raise BackendError(
                "the cuda backend cannot run in a process in which Numba simulates CUDA",
                hint="unset QGRAPH_BACKEND and NUMBA_ENABLE_CUDASIM, and start a new process",
            )
        if driver.device_count() == 0:
            raise driver.no_device("the cuda backend cannot run here", driver.driver_trouble())


def _require_simulator() -> None:
    """Numba decides for its simulator when it is imported: before that it can be asked for, afterwards not."""
    numba = sys.modules.get("numba")
    if numba is None:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    elif not numba.config.ENABLE_CUDASIM:
        raise BackendError(
            "the simulator was asked for too late: numba is already imported without it",
            hint="set QGRAPH_BACKEND=sim in the environment, or call qgraph.set_backend('sim') before anything imports numba",
        )


def _simulating() -> bool:
    numba = sys.modules.get("numba")
    return numba is not None and bool(numba.config.ENABLE_CUDASIM)


def choose(wanted: str | None, arrays: Iterable[ArrayView]) -> tuple[str, int]:
    """The backend and device ordinal of a call.

    Raises:
        ArgumentError: host and device arrays together without a backend, device arrays on cpu or sim, two devices.
        BackendError: the backend cannot run here.
    """
    devices = {view.device for view in arrays}
    ordinals = sorted(device for device in devices if device is not None)
    if len(ordinals) > 1:
        raise ArgumentError(
            f"the arrays live on different devices: {ordinals}", hint="copy them to one device; a graph runs on one"
        )
    name = wanted or default_backend()
    if name is None:
        if ordinals and None in devices:
            raise ArgumentError(
                "some arrays live on the device and others on the host",
                hint="move them to one side with qgraph.asarray or qgraph.to_numpy; with backend='cuda' host arrays are copied",
            )
        name = "cuda" if ordinals else "cpu"
    if ordinals and name != "cuda":
        raise ArgumentError(
            f"arrays on a CUDA device cannot be used by the {name} backend", hint="pass NumPy arrays, or qgraph.to_numpy(array)"
        )
    require(name)
    if name != "cuda":
        return name, 0
    if ordinals:
        return name, ordinals[0]
    from qgraph.runtime.driver import driver

    return name, driver.current_device()
