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


def free_pass_managers() -> None:
    """Let LLVM's pass managers go with their objects, also those of others: a megabyte for each small kernel.

    Their classes have the ``_dispose`` that frees behind an empty one of another base. Where there is none, all stays as it is.
    """
    from llvmlite.binding import newpassmanagers

    dispose = getattr(newpassmanagers.NewPassManager, "_dispose", None)
    if dispose is not None:
        for managers in (newpassmanagers.ModulePassManager, newpassmanagers.FunctionPassManager):
            managers._dispose = dispose


def host() -> tuple[str, str]:
    """The processor's name and features, as LLVM has them: public, but here since only code on the disk asks."""
    from llvmlite import binding

    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM knows none of this kind
        features = ""
    return binding.get_host_cpu_name(), features
