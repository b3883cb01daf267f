"""What compiling costs without a cache: the kernels of the examples named, their loops one by one, after Numba's import.

It runs each example on the CPU to see what its kernels are called with; then, with nothing compiled, it plans each kernel,
compiles it for compute capability 9.0, and links it, as its first call would. Prints for each kernel its name, its tasks, and
milliseconds.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import time
from typing import Any

os.environ["QGRAPH_CACHE"] = "0"

import qgraph
from qgraph.kernel import Kernel


def calls_of(examples: list[str]) -> list[tuple[Kernel, tuple[Any, ...]]]:
    """The kernels that the examples call, and arguments of each: one of those with the same types."""
    found: dict[object, tuple[Kernel, tuple[Any, ...]]] = {}
    plainly = Kernel.__call__

    def noting(kernel: Kernel, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            types = tuple((type(each), getattr(each, "dtype", None), getattr(each, "ndim", None)) for each in args)
            found.setdefault((kernel.__wrapped__, types), (kernel, args))  # type: ignore[attr-defined]
        return plainly(kernel, *args, **kwargs)

    Kernel.__call__ = noting  # type: ignore[method-assign]
    try:
        for name in examples:
            with contextlib.redirect_stdout(io.StringIO()):
                importlib.import_module(f"examples.{name}").main()
    finally:
        Kernel.__call__ = plainly  # type: ignore[method-assign]
    return list(found.values())


@qgraph.kernel
def first(x):
    """Compiled before the clock runs: the import of Numba, and what is made once a process."""
    for i in range(x.shape[0]):
        x[i] = x[i] + 1


def main() -> None:
    """Compile, and print."""
    import numpy as np

    from qgraph.lowering.compile import compile_cuda

    calls = calls_of(sys.argv[1:])
    first.ptx(np.zeros(4, np.float32))
    rows = []
    for kernel, args in calls:
        start = time.perf_counter()
        plan = kernel.plan(*args)
        planned = time.perf_counter()
        compile_cuda(plan, (9, 0), kernel.options)
        linked = time.perf_counter()
        steps = {"plan": planned - start, "compile and link": linked - planned}
        found = {name: round(each * 1e3, 1) for name, each in steps.items()}
        rows.append({"kernel": plan.program.name, "tasks": len(plan.tasks), **found})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
