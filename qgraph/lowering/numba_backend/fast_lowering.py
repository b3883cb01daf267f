"""Numba's IR to LLVM's where no references are counted: all of CUDA, and functions on a CPU that hold no memory of their own.

Numba writes down where each statement is before there is an error to tell of. It reads what a variable held before it writes
one, and stores zero where the life of one ends, so that references can be counted.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any, ClassVar

from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.number_types.type_promotion import DeviceFunction

# What gives a part of its operand, or holds its operands.
_BORROWING = ("build_tuple", "cast", "exhaust_iter", "getitem", "pair_first", "pair_second", "static_getitem")


class FastLower:
    """Mixin of a class ``Lower`` of Numba's with ``LocalValues``: lowers one function, in which no variable is deleted.

    ``package`` is where the modules of its IR lie, "numba.core" or "numba.cuda.core".
    """

    package: ClassVar[str]
    func_ir: Any
    pre_block: Any
    post_block: Any
    lower_assign: Any
    typeof: Any
    storevar: Any
    loc: Any

    def values_of_a_block(self) -> set[str]:
        """The variables of one assignment, all of whose uses are in its block.

        Numba's own looks through the whole block for each of them, which takes minutes where an expression has 5,000 terms.
        """
        analysis, assign = import_module(f"{self.package}.analysis"), import_module(f"{self.package}.ir").Assign
        blocks = self.func_ir.blocks
        found = analysis.compute_use_defs(blocks)
        times = Counter(each.target.name for block in blocks.values() for each in block.find_insts(assign))
        others = analysis.must_use_alloca(blocks).union(*found.usemap.values())
        once = {name for names in found.defmap.values() for name in names if times[name] == 1}
        return once.difference(others)

    def lower_block(self, block: Any) -> None:
        """Numba's hook: a block, statement by statement."""
        self.pre_block(block)
        for inst in block.body:
            self.loc = inst.loc
            try:
                self.lower_inst(inst)
            except import_module(f"{self.package}.errors").NumbaError as error:
                error.add_context(f'lowering "{inst}" at {inst.loc}')
                raise
        self.post_block(block)

    def lower_inst(self, inst: Any) -> None:
        """Numba's hook: a statement."""
        if type(inst).__name__ == "Assign":
            name = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        else:
            super().lower_inst(inst)  # type: ignore[misc]


def counts_references(state: Any) -> bool:
    """Whether a plain function (``FastPasses.is_plain``) may hold the only reference to an array, or calls what may.

    It does not where its arrays are its arguments and basic slices of those: whoever calls it holds them.
    """
    types, calls = state.typemap, state.calltypes
    models = state.targetctx.data_model_manager

    def counted(*kinds: Any) -> bool:
        return any(models[kind].contains_nrt_meminfo() for kind in kinds if kind is not None)

    def may_make(value: Any, result: Any) -> bool:
        if value.op in ("getitem", "static_getitem"):
            # An array as an index makes a copy.
            return calls.get(value) is not None and counted(calls[value].args[1])
        if value.op in _BORROWING:
            return False
        if value.op == "getattr" or (value.op == "call" and isinstance(types[value.func.name], DeviceFunction | Intrinsic)):
            return counted(result)
        return counted(result, *(types[each.name] for each in value.list_vars()))

    def may_hold(statement: Any) -> bool:
        kind = type(statement).__name__
        if kind == "SetItem":
            return counted(*calls[statement].args[1:])
        if kind == "Return":
            return counted(types[statement.value.name])
        return (
            kind == "Assign"
            and type(statement.value).__name__ == "Expr"
            and may_make(statement.value, types[statement.target.name])
        )

    return any(may_hold(statement) for block in state.func_ir.blocks.values() for statement in block.body)
