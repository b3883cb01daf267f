"""Plain Python loops that run as one CUDA graph. CPython is the specification; see docs/language.md."""

from typing import TYPE_CHECKING

from qgraph import random
from qgraph.arrays import asarray, empty, empty_like, full, pool, scalar, synchronize, to_numpy, zeros, zeros_like
from qgraph.errors import (
    ArgumentError,
    AssumedParallelWarning,
    BackendError,
    BoundsError,
    CudaError,
    DataRaceError,
    KernelSyntaxError,
    KernelTypeError,
    LinAlgError,
    OrderDependentWarning,
    PerformanceWarning,
    PoolError,
    QGraphError,
    UnwrittenError,
)
from qgraph.frontend.func_decorator import func
from qgraph.frontend.unique import unique
from qgraph.info import capture, info, set_backend, stream
from qgraph.kernel import kernel, reset
from qgraph.language import (
    Array,
    Static,
    atomic_add,
    atomic_and_,
    atomic_cas,
    atomic_exch,
    atomic_max,
    atomic_min,
    atomic_or_,
    atomic_sub,
    atomic_xor,
    graph_do_while,
    ndrange,
    parallel,
    progress,
    serial,
    static,
)
from qgraph.nodes.event import record, wait
from qgraph.nodes.host_callback import host_callback
from qgraph.nodes.library_call import call
from qgraph.nodes.write_value import write_value
from qgraph.operations.functions import popcount
from qgraph.operations.vectors import mat, vec
from qgraph.options import prepare_simulator
from qgraph.watching.watch import watch

# Before anything can import Numba.
prepare_simulator()

__version__ = "0.1.0"

# What other libraries call what is written in another way here.
_NAMED_ELSEWHERE = {
    "prange": "write `range(n)`: the iterations of a kernel's loops run in parallel, and in order in `qgraph.serial(range(n))`",
    "jit": "write `@qgraph.kernel`, and `@qgraph.func` for what kernels call",
    "njit": "write `@qgraph.kernel`, and `@qgraph.func` for what kernels call",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say what to write, also to `from qgraph import prange`, which would hide the text of an AttributeError."""
        if name in _NAMED_ELSEWHERE:
            raise ImportError(f"qgraph has no `{name}`: {_NAMED_ELSEWHERE[name]}", name=name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


__all__ = [
    "ArgumentError",
    "Array",
    "AssumedParallelWarning",
    "BackendError",
    "BoundsError",
    "CudaError",
    "DataRaceError",
    "KernelSyntaxError",
    "KernelTypeError",
    "LinAlgError",
    "OrderDependentWarning",
    "PerformanceWarning",
    "PoolError",
    "QGraphError",
    "Static",
    "UnwrittenError",
    "__version__",
    "asarray",
    "atomic_add",
    "atomic_and_",
    "atomic_cas",
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_or_",
    "atomic_sub",
    "atomic_xor",
    "call",
    "capture",
    "empty",
    "empty_like",
    "full",
    "func",
    "graph_do_while",
    "host_callback",
    "info",
    "kernel",
    "mat",
    "ndrange",
    "parallel",
    "pool",
    "popcount",
    "progress",
    "random",
    "record",
    "reset",
    "scalar",
    "serial",
    "set_backend",
    "static",
    "stream",
    "synchronize",
    "to_numpy",
    "unique",
    "vec",
    "wait",
    "watch",
    "write_value",
    "zeros",
    "zeros_like",
]
