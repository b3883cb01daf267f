"""Operations that combine values in any order: reductions, and updates of elements that become atomics."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from qgraph import language
from qgraph.operations import intrinsics
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A statement that combines a value with an element.

    Attributes:
        symbol: how messages write it, ``+`` for ``x[i] += e``, ``min`` for ``x[i] = min(x[i], e)``.
        atomic: the word that does it as one step.
        syntax: the operator of the augmented assignment, if it is one.
        in_halves: the intrinsic for 64-bit integers in shared memory, which has no such atomic.
    """

    symbol: str
    atomic: Callable[..., Any]
    syntax: type[ast.operator] | None = None
    in_halves: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """An associative and commutative operation.

    Attributes:
        name: that of reductions: ``+ * & | ^ min max and or``.
        identity: of a dtype's name, Python's text of the value that changes nothing; ``_infinity`` stands for that float.
        updates: the statements that combine; what they left out of an array goes there by the first.
        syntax: operators of augmented assignments without atomics.
        functions: of two numbers, each combines them.
        keeps: which of two numbers is kept, where one is.
        better: how a number that is kept compares with the one before.
        integers_only: its atomics are those of integers.
    """

    name: str
    identity: Callable[[str], str]
    updates: tuple[Update, ...] = ()
    syntax: tuple[type[ast.operator], ...] = ()
    functions: tuple[Callable[..., Any], ...] = ()
    keeps: Literal["", "min", "max"] = ""
    better: Literal["", "<", ">"] = ""
    integers_only: bool = False


def limit(dtype: str, *, largest: bool) -> str:
    """The text of the largest or least value of a dtype."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return str(largest)
    if kind in "iu":
        limits = np.iinfo(dtype)
        return str(limits.max if largest else limits.min)
    return "_infinity" if largest else "-_infinity"


def _nothing(dtype: str) -> str:
    return "False" if np.dtype(dtype).kind == "b" else "0"


def _all_bits(dtype: str) -> str:
    return limit(dtype, largest=True) if np.dtype(dtype).kind in "bu" else "-1"


COMBINATIONS = (
    Combination(
        "+",
        # x + -0.0 is x, for zeros too.
        lambda dtype: "-0.0" if np.dtype(dtype).kind in "fc" else "0",
        updates=(
            Update("+", language.atomic_add, ast.Add, intrinsics.split_add),
            Update("-", language.atomic_sub, ast.Sub, intrinsics.split_sub),
        ),
        functions=(intrinsics.reassociable_add,),
    ),
    Combination("*", lambda _: "1", syntax=(ast.Mult,)),
    Combination(
        "min",
        lambda dtype: limit(dtype, largest=True),
        updates=(Update("min", language.atomic_min),),
        functions=(builtins.min, np.minimum),
        keeps="min",
        better="<",
    ),
    Combination(
        "max",
        lambda dtype: limit(dtype, largest=False),
        updates=(Update("max", language.atomic_max),),
        functions=(builtins.max, np.maximum),
        keeps="max",
        better=">",
    ),
    Combination(
        "&",
        _all_bits,
        updates=(Update("&", language.atomic_and_, ast.BitAnd),),
        integers_only=True,
    ),
    Combination(
        "|",
        _nothing,
        updates=(Update("|", language.atomic_or_, ast.BitOr),),
        integers_only=True,
    ),
    Combination(
        "^",
        _nothing,
        updates=(Update("^", language.atomic_xor, ast.BitXor),),
        integers_only=True,
    ),
    Combination("and", _all_bits),
    Combination("or", _nothing),
)
BY_NAME = {each.name: each for each in COMBINATIONS}
BY_SYNTAX = {
    syntax: each
    for each in COMBINATIONS
    for syntax in (*each.syntax, *(update.syntax for update in each.updates))
    if syntax is not None
}
# By the text of the update, and by the atomic that an author may write for it.
BY_SYMBOL = {update.symbol: (each, update) for each in COMBINATIONS for update in each.updates}
BY_ATOMIC = {update.atomic: (each, update) for each in COMBINATIONS for update in each.updates}


def combined_by(function: object) -> str:
    """The name of the combination that a function of two numbers is, if it is one."""
    return next((each.name for each in COMBINATIONS if any(function is known for known in each.functions)), "")
