"""Numba's IR to LLVM's for CUDA, without debug information, and without references to count.

Numba writes down where each statement is before there is an error to tell of. It reads what a variable held before it writes
one, and stores zero where the life of one ends, so that references can be counted. A kernel has none.
"""

from __future__ import annotations

from typing import Any

from numba.cuda.compiler import CUDANativeLowering
from numba.cuda.core import errors, ir
from numba.cuda.lowering import CUDALower


class Lower(CUDALower):
    """Numba's hook: lowers one function, in which no variable is deleted."""

    def lower_block(self, block: Any) -> None:
        """Numba's hook: a block, statement by statement."""
        self.pre_block(block)
        for inst in block.body:
            self.loc = inst.loc
            try:
                self.lower_inst(inst)
            except errors.NumbaError as error:
                error.add_context(f'lowering "{inst}" at {inst.loc}')
                raise
        self.post_block(block)

    def lower_inst(self, inst: Any) -> None:
        """Numba's hook: a statement."""
        if isinstance(inst, ir.Assign):
            name = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        else:
            super().lower_inst(inst)

    def loadvar(self, name: str) -> Any:
        """Numba's hook: the value of a variable."""
        found = self._blk_local_varmap.get(name)
        return self.builder.load(self.getvar(name)) if found is None else found

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Numba's hook: a variable of one assignment, all of whose uses are in its block, is its value."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


class Lowering(CUDANativeLowering):
    """Numba's pass."""

    lowering_class = Lower
