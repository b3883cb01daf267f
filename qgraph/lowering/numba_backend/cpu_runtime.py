"""What a CPU kernel needs to run: words about its arrays, and threads; without a compiler, where nothing is compiled."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from qgraph import forks
from qgraph.compat import numba
from qgraph.errors import BackendError
from qgraph.records import dataclass

# NumPy's flags of what is aligned and writeable. What is contiguous shape and strides tell.
LOOKED_AT = 0x100 | 0x400
# What compiled code calls the word ``forks.FORKS.alone``, and where that is.
ALONE = "qgraph_alone"
OWN = {ALONE: ctypes.addressof(forks.FORKS.alone)}


def places_of(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.dtype[Any]]]:
    """Words that say which arrays a call takes: class, dtype, flags, address, shape and strides of each; ``Wrapper`` compares.

    And the dtypes, to be held as long as the words: no other one may take their place.
    """
    dtypes = [array.dtype for array in arrays]
    words = [
        word
        for array, dtype in zip(arrays, dtypes, strict=True)
        for word in (
            id(np.ndarray),
            id(dtype),
            array.flags.num & LOOKED_AT,
            array.ctypes.data,
            *array.shape,
            *array.strides,
        )
    ]
    return np.array(words, np.int64), dtypes


def add_symbols(symbols: Mapping[str, int]) -> None:
    """Tell LLVM the addresses of what compiled code refers to, by name."""
    from llvmlite import binding

    for name, address in symbols.items():
        binding.add_symbol(name, address)


# --- threads ----------------------------------------------------------------------------------------------------------


# How often libgomp's threads look for work before they sleep: for less than a millisecond, and by default for several.
_SPINS = "10000"


@dataclass(slots=True)
class _Threads:
    """The threads of Numba's threading layer, of which a process has one: "omp", "tbb" or "workqueue"."""

    lock: threading.Lock = field(default_factory=forks.lock)
    layer: str = ""
    # Serialises calls where the layer cannot run two at once.
    call_lock: threading.RLock = field(default_factory=forks.rlock)


_THREADS = _Threads()


def start_threads(layer: str = "") -> None:
    """Start them, unless they run: those of ``layer`` without Numba, where it is named and that can be."""
    with _THREADS.lock, _short_spins():
        if _THREADS.layer:
            return
        symbols = numba.launch(layer) if layer else None
        if symbols is not None:
            add_symbols(symbols)
            _THREADS.layer = layer
            return
        import numba as whole

        try:
            whole.get_num_threads()
        except ValueError as error:  # NUMBA_THREADING_LAYER names one that is not installed, or none
            found = str(error).partition("\n")[0]
            raise BackendError(
                f"the cpu backend cannot run here: Numba says {found!r}",
                hint="unset NUMBA_THREADING_LAYER, or install what it names (pip install tbb for 'tbb')",
            ) from None
        _THREADS.layer = whole.threading_layer()


@contextmanager
def _short_spins() -> Iterator[None]:
    """Let libgomp, which reads it when it is loaded, spin shortly behind a loop, unless the user says: BLAS wants the cores."""
    said = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if not said:
        os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        if not said:
            del os.environ["GOMP_SPINCOUNT"]


def threading_layer() -> str:
    """The layer that runs the chunks."""
    start_threads()
    return _THREADS.layer


def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, on workqueue one at a time: there two at once abort the process."""
    if threading_layer() != "workqueue":
        return call

    def taking_turns(*arguments: object) -> Any:
        with _THREADS.call_lock:
            return call(*arguments)

    return taking_turns
