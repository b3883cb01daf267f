"""Dead-store elimination of Numba's zero initialisations in LLVM code.

Numba fills each struct that it takes apart, an array's at each subscript, with zeros, twice. To see that nothing reads these,
LLVM needs time that grows faster than the third power of their number: half a minute for a function of 1,200 subscripts.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, codegen, config

from qgraph.compat import llvmlite, numba


class Library(codegen.JITCodeLibrary):
    """Numba's library that takes modules without such stores, and leaves nothing when it goes.

    Its modules are in an LLVM context of their own, and its functions have no passes of their own.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        numba.optimize_as_a_whole(self)
        # Numba's own pass for reference counts makes modules anew, where it likes.
        self._context = llvmlite.Context(numba.engine(self) if config.LLVM_REFPRUNE_PASS else None)
        self._linked: dict[Any, None] = {}
        empty = numba.final_module(self)
        numba.set_final_module(self, self._context.parse(str(empty)))
        numba.final_module(self).name = empty.name

    def add_ir_module(self, ir_module: Any) -> None:
        """Numba's hook."""
        drop_dead_zeros(ir_module)
        module = self._context.parse(cgutils.normalize_ir_text(str(ir_module)))
        module.name = ir_module.name
        module.verify()
        self.add_llvm_module(module)

    def add_linking_library(self, library: Any) -> None:
        """Numba's hook, for code in another context."""
        self._linked[library] = None

    def finalize(self) -> None:
        """Numba's hook: what was linked, optimised and turned into machine code."""
        for library in self._linked:
            numba.final_module(self).link_in(self._context.copy(numba.module_for_linking(library)))
        super().finalize()


def drop_dead_zeros(module: ir.Module) -> None:
    """Take the stores of zeros out of ``module`` that fill a variable before its first value is stored."""
    for function in module.functions:
        if function.blocks:
            _drop_first(function)
            for block in function.blocks:
                _drop_overwritten(block)


def _drop_first(function: ir.Function) -> None:
    """Those in the first block, of variables that one block alone uses, and begins with by storing a value."""
    first = function.blocks[0]
    uses: dict[int, list[tuple[ir.Block, ir.Instruction]]] = {
        id(each): [] for each in first.instructions if isinstance(each, ir.AllocaInstr)
    }
    for block in function.blocks:
        for instruction in block.instructions:
            for operand in _operands(instruction):
                if id(operand) in uses:
                    uses[id(operand)].append((block, instruction))
    dead: set[int] = set()
    for (_, fill), *others in (found for found in uses.values() if len(found) > 1):
        block, following = others[0]
        if _fills(fill) and _stores_to(following, fill.operands[1]) and all(other is block for other, _ in others):
            dead.add(id(fill))
    first.instructions[:] = [each for each in first.instructions if id(each) not in dead]


def _drop_overwritten(block: ir.Block) -> None:
    """Those that the very next instruction overwrites."""
    found = block.instructions
    following = [*found[1:], None]
    found[:] = [
        each for each, after in zip(found, following, strict=True) if not (_fills(each) and _stores_to(after, each.operands[1]))
    ]


def _operands(instruction: ir.Instruction) -> list[Any]:
    incoming = instruction.incomings if isinstance(instruction, ir.PhiInstr) else []
    return [*instruction.operands, *(value for value, _ in incoming)]


def _fills(instruction: ir.Instruction) -> bool:
    """Whether it stores zeros in a variable."""
    if not isinstance(instruction, ir.instructions.StoreInstr):
        return False
    value, place = instruction.operands
    return isinstance(place, ir.AllocaInstr) and isinstance(value, ir.Constant) and value.constant is None


def _stores_to(instruction: ir.Instruction | None, place: ir.Value) -> bool:
    """Whether it stores all of a variable."""
    return (
        isinstance(instruction, ir.instructions.StoreInstr)
        and instruction.operands[1] is place
        and instruction.operands[0] is not place
    )
