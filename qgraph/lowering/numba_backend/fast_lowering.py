"""Numba's IR to LLVM's for CUDA, without debug information, and without references to count.

Numba writes down where each statement is before there is an error to tell of. It reads what a variable held before it writes
one, and stores zero where the life of one ends, so that references can be counted. A kernel has none.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from numba.cuda.compiler import CUDANativeLowering
from numba.cuda.core import errors, ir
from numba.cuda.core.analysis import compute_use_defs, must_use_alloca
from numba.cuda.lowering import CUDALower


class Lower(CUDALower):
    """Numba's hook: lowers one function, in which no variable is deleted."""

    def _find_singly_assigned_variable(self) -> None:
        """Numba's hook: the variables of one assignment, all of whose uses are in its block.

        Numba's own looks through the whole block for each of them, which takes minutes where an expression has 5,000 terms.
        """
        blocks = self.func_ir.blocks
        found = compute_use_defs(blocks)
        times = Counter(each.target.name for block in blocks.values() for each in block.find_insts(ir.assign_types))
        others = must_use_alloca(blocks).union(*found.usemap.values())
        self._singly_assigned_vars = {name for names in found.defmap.values() for name in names if times[name] == 1} - others
        self._blk_local_varmap: dict[str, Any] = {}

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
