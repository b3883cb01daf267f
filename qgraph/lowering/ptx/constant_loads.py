"""Whether loads that NVVM made loads of constant memory (``ld.global.nc``) read constant arrays alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection

_INSTRUCTION = re.compile(r"^[ \t]*(?:@!?%p\d+[ \t]+)?(?P<name>[a-z][\w.]*)[ \t]+(?P<operands>[^;]*%rd[^;]*);", re.M)
_ADDRESS = re.compile(r"%rd\d+")
_PARAMETER = re.compile(r"_param_(\d+)\b")


def misread(ptx: str, constants: Collection[int], changing: Collection[int]) -> set[int]:
    """Those of ``constants`` that have to be compiled as if they changed.

    LLVM makes one load of ``x[i] if c else y[j]``, at either address. Where ``x`` is a parameter that nothing writes and that
    no other one aliases, NVVM (seen with CUDA 13.0 and 13.5) takes the load for one of ``x``: it moves it past stores to ``y``,
    and reads it as memory that never changes.

    Args:
        ptx: what NVVM made of one kernel.
        constants: the numbers of its parameters that are addresses of constant arrays.
        changing: those of other arrays.
    """
    # What each 64-bit register is made of, by any of its definitions: registers, and numbers of parameters.
    made: dict[str, set[str]] = defaultdict(set)
    read: set[str] = set()
    for instruction in _INSTRUCTION.finditer(ptx):
        name, operands = instruction["name"], instruction["operands"]
        target, *sources = _ADDRESS.findall(operands)
        if name.startswith("ld.param"):
            made[target].update(_PARAMETER.findall(operands))
        elif name.startswith("ld.global.nc"):
            read.update(_ADDRESS.findall(operands.rpartition("[")[2]))
        elif not name.startswith(("ld.", "st.", "atom.", "red.")):
            made[target].update(sources)
    found: set[int] = set()
    for register in read:
        parameters = _parameters(register, made)
        if parameters.intersection(changing):
            # Of those that the address was made of, if LLVM has left one in it.
            found |= parameters.intersection(constants) or {*constants}
    return found


def _parameters(register: str, made: dict[str, set[str]]) -> set[int]:
    """The numbers of the parameters that ``register`` is made of."""
    seen: set[str] = set()
    open_ = [register]
    while open_:
        each = open_.pop()
        if each not in seen:
            seen.add(each)
            open_ += made.get(each, ())
    return {int(each) for each in seen if each.isdigit()}
