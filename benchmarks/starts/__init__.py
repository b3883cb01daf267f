"""Programs that ``benchmarks.startup`` starts as processes of their own: ``python -m benchmarks.starts.<name> ...``.

Each prints one line of JSON: how many milliseconds after the process was started it came where.
"""

from __future__ import annotations

import json
import os
import sys
import time

# The time at which the process was started, in seconds, as its parent read it.
STARTED = "QGRAPH_BENCHMARK_STARTED"


class Marks:
    """When a process came where."""

    def __init__(self) -> None:
        self._started = float(os.environ[STARTED])
        self._marks: dict[str, float] = {}

    def add(self, name: str) -> None:
        """Now ``name`` is done."""
        self._marks[name] = (time.time() - self._started) * 1e3

    def tell(self, **more: object) -> None:
        """Print them all, and which compilers were imported."""
        compilers = [name for name in ("numba", "llvmlite") if name in sys.modules]
        print(json.dumps({"marks": self._marks, "compilers": compilers, **more}))
