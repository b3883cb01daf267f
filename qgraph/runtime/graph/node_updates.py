"""Updates of kernel nodes in executable graphs: the parameters that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qgraph.runtime.driver import native
from qgraph.runtime.driver.driver import driver, failure
from qgraph.runtime.graph.kernels import KernelNode


def patch_kernels(kernels: Iterable[KernelNode], changed: int) -> None:
    """Give the kernels that the mask ``changed`` names their parameters where they are; those that are nowhere have them."""
    for kernel in kernels:
        if changed & kernel.bit and kernel.executable is not None:
            _patch(kernel.executable, kernel)


def patch_in(executable: Any, kernels: Iterable[KernelNode]) -> None:
    """Give these kernels their parameters in another executable of their graph than the one they know."""
    for kernel in kernels:
        _patch(executable, kernel)


def _patch(executable: Any, kernel: KernelNode) -> None:
    # Affects later launches only; those in flight keep their parameters.
    code = driver.cuGraphExecKernelNodeSetParams(executable, kernel.handle, kernel.launch)[0]
    if code != 0:
        raise failure(code, "cuGraphExecKernelNodeSetParams")


class NodeUpdates:
    """Patches the kernels of one executable again and again.

    Where the same ones come twice in a row they mostly come again: machine code patches them from then on.
    """

    __slots__ = ("_changed", "_executable", "_kernels", "_run")

    def __init__(self, kernels: Sequence[KernelNode]) -> None:
        self._kernels = kernels
        # What was patched last, and the machine code for it. To hold the executable keeps it from being taken for a later one.
        self._executable: Any = None
        self._changed = 0
        self._run: Callable[[], int] | None = None

    def patch(self, executable: Any, changed: int) -> None:
        """Give the kernels that the mask ``changed`` names their parameters in ``executable``, where all of them are.

        Before there is one, and after it was destroyed, it is None, and there is nothing to do.
        """
        if executable is None:
            return
        if executable is not self._executable or changed != self._changed:
            self._executable, self._changed, self._run = executable, changed, None
        elif self._run is None and native.may_launch():
            chosen = [(kernel.handle, kernel.launch) for kernel in self._kernels if changed & kernel.bit]
            self._run = native.patcher(executable, chosen)
        if self._run is None:
            patch_in(executable, [kernel for kernel in self._kernels if changed & kernel.bit])
            return
        code = self._run()
        if code:
            raise failure(driver.CUresult(code), "cuGraphExecKernelNodeSetParams")
