"""Numbers read out of scratch, and what calls give."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

from qgraph.ir.program import Result
from qgraph.ir.slots import SCALAR_DTYPES, Slot
from qgraph.runtime.values.results import ResultReader, assembler
from qgraph.runtime.values.struct_formats import FORMATS

VALUES = {"b": True, "i": -5, "u": 250, "f": -1.5, "c": 2.5 - 0.25j}


def result_of(*slots):
    return Result(None, tuple, tuple(Result(slot) for slot in slots))


@pytest.mark.parametrize("dtype", SCALAR_DTYPES)
def test_every_dtype_becomes_a_python_number(dtype):
    scratch = np.full(6, -1, np.int64)
    value = VALUES[np.dtype(dtype).kind]
    words = 2 if dtype == "complex128" else 1
    scratch[2 : 2 + words].view(dtype)[0] = value
    # A kernel scalar: its type is what was inferred.
    reader = ResultReader(result_of(Slot(2, "s", "", words)), {"s": dtype})
    assert (reader.first, reader.words) == (2, words)
    for got in (reader.read(scratch), reader.read(scratch[2 : 2 + words], 2), reader.read(bytes(scratch))):
        assert got == (value,)
        assert type(got[0]) is type(value)


def test_formats_have_the_sizes_of_their_dtypes():
    import struct

    assert {dtype: struct.calcsize("=" + form) for dtype, form in FORMATS.items()} == SCALAR_DTYPES


def test_the_range_that_is_read_holds_all_numbers_in_any_order():
    late, early = Slot(7, "late", "int64"), Slot(3, "early", "float64")
    reader = ResultReader(result_of(late, early, late), {})
    assert (reader.first, reader.words) == (3, 5)
    scratch = np.arange(10)
    scratch[3:4].view(np.float64)[0] = 0.5
    assert reader.read(scratch[3:8], 3) == (7, 0.5, 7)


def test_no_numbers():
    reader = ResultReader(result_of(), {})
    assert (reader.words, reader.read(b"")) == (0, ())


class Pair(NamedTuple):
    a: int
    b: int


@dataclass
class Record:
    computed: int = field(init=False, default=9)
    x: int = 0
    _: KW_ONLY
    pair: Pair = Pair(0, 0)
    y: int = 0


def test_values_of_calls():
    one, two = Result(Slot(0, "a")), Result(Slot(1, "b"))
    pair = Result(None, Pair, (one, two))
    assert assembler(None)(None) is None
    assert assembler(one)((5,)) == 5
    assert assembler(Result(None, tuple, (one, pair)))((1, 2, 3)) == (1, Pair(2, 3))
    assert assembler(Result(None, tuple))(()) == ()
    record = assembler(Result(None, Record, (one, pair, two)))((1, 2, 3, 4))
    assert record == Record(1, pair=Pair(2, 3), y=4)
    assert type(record.pair) is Pair
