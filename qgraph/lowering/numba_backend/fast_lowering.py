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

from qgraph.compat.numba_cuda import LocalValues


class Lower(LocalValues, CUDALower):
    """Numba's hook: lowers one function, in which no variable is deleted."""

    def values_of_a_block(self) -> set[str]:
        """The variables of one assignment, all of whose uses are in its block.

        Numba's own looks through the whole block for each of them, which takes minutes where an expression has 5,000 terms.
        """
        blocks = self.func_ir.blocks
        found = compute_use_defs(blocks)
        times = Counter(each.target.name for block in blocks.values() for each in block.find_insts(ir.assign_types))
        others = must_use_alloca(blocks).union(*found.usemap.values())
        once = {name for names in found.defmap.values() for name in names if times[name] == 1}
        return once.difference(others)

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


class Lowering(CUDANativeLowering):
    """Numba's pass."""

    lowering_class = Lower
