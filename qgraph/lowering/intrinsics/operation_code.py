"""What the records of ``qgraph.operations`` name: their typing rules, and the function types of intrinsics."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from qgraph.lowering.intrinsics import (
    array_addressing,
    atomics,
    checked_arithmetic,
    clock,
    early_exits,
    loop_chunks,
    loop_poll,
    progress,
    random_numbers,
    value_intrinsics,
    vectors,
    warp_shuffles,
    while_condition,
)
from qgraph.lowering.number_types import function_llvm, number_llvm, rounding_rules, typing_rules
from qgraph.lowering.number_types.type_promotion import Alias, PythonImpl, TypingRule
from qgraph.operations.record import Operation
from qgraph.operations.table import OPERATIONS

_MODULES = (
    *(array_addressing, atomics, checked_arithmetic, clock, early_exits, loop_chunks, loop_poll),
    *(progress, random_numbers, while_condition, value_intrinsics, vectors, warp_shuffles),
)
_INTRINSICS = SimpleNamespace(
    **{name: value for module in _MODULES for name, value in vars(module).items() if name.endswith("_word")}
)
_RULES = SimpleNamespace(**{**vars(rounding_rules), **vars(typing_rules)})
_CODE = SimpleNamespace(**{**vars(function_llvm), **vars(number_llvm)})


def _typed() -> Mapping[int, tuple[object, TypingRule]]:
    rules = [each for each in OPERATIONS.all if each.typing is not None]
    made = [(each, each.typing(_RULES, _CODE)) for each in rules if each.typing is not None]
    spelled = [(function, rule) for each, rule in made for function in each.functions]
    # CUDA has no complex universal functions: what an operator means too is then that operator.
    spelled += [(ufunc, _of_ufunc(each, rule)) for each, rule in made for ufunc in each.ufuncs]
    return {id(function): (function, rule) for function, rule in spelled}


def _of_ufunc(record: Operation, rule: TypingRule) -> TypingRule:
    return rule if record.syntax is None or isinstance(rule, PythonImpl | Alias) else Alias(rule, record.functions[0])


# By identity, so that an alias works and a shadowed name is honest. The values are kept alive beside their ids.
TYPING_RULES = _typed()


def intrinsic_types() -> dict[int, Any]:
    """The function types of intrinsics, by the ids of their functions: new ones for a compiler."""
    return {
        id(function): each.intrinsic(_INTRINSICS)
        for each in OPERATIONS.all
        if each.intrinsic is not None
        for function in each.functions
    }
