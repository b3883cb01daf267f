"""llvmlite's private parts, read from 0.50.0. To import this module does not load it."""

from __future__ import annotations

import sys
from typing import Any

from qgraph.compat import Library

LLVMLITE = Library("llvmlite", "0.50.0")


def fork_lock() -> Any:
    """The lock of whoever calls LLVM; None where llvmlite was not imported.

    Raises:
        BackendError: it has another place.
    """
    found: Any = sys.modules.get("llvmlite.binding.ffi")
    for name in ("lib", "_lock", "_lock") if found is not None else ():
        found = LLVMLITE.part(found, name)
    return found
