"""Places in device scratch: kernel scalars, serial loops' variables, conditions, partial results of reductions."""

from __future__ import annotations

from qgraph.records import dataclass

# What a kernel scalar can be, with its size in bytes.
SCALAR_DTYPES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


def itemsize(dtype: str) -> int:
    """The bytes of one value of ``dtype``."""
    return SCALAR_DTYPES[dtype]


# Bytes of a word of scratch.
WORD = 8


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in device scratch: a kernel scalar, a serial loop's variable, a condition, partial results of a reduction.

    ``index`` is its first 8-byte word, ``words`` how many it has. ``dtype`` is a NumPy dtype name, or empty for a kernel
    scalar, whose type lowering infers from what is assigned to it. ``told`` is what plans call it: the user's name, or words.
    """

    index: int
    name: str
    dtype: str = "int64"
    words: int = 1
    told: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the statements of a program that is watched publish how far it is.

    ``ring`` is the leaf (``operations.progress_ring``), ``number`` the slot with the number of the row written last, ``run``
    that with the number of the launch. The order of rows is that of what touches ``number``.
    """

    ring: str
    number: Slot
    run: Slot
