"""Blocks of a pool: no two meet, none is lost, and freed ones are had by those who may have them."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from qgraph.runtime.values.pool_blocks import ALIGNMENT, Blocks, Order

ORDERS = st.sampled_from([None, Order(None), Order(1), Order(2), Order(1, 5), Order(None, 5)])


class Naive(RuleBasedStateMachine):
    """Blocks beside a table with an entry a unit: ``taken``, None where free for all, or the order of who may have it."""

    blocks_taken = Bundle("blocks_taken")

    @initialize(units=st.integers(1, 24), rest=st.integers(0, ALIGNMENT - 1))
    def begin(self, units, rest):
        self.blocks = Blocks(units * ALIGNMENT + rest)
        self.table: list[object] = [None] * units

    @rule(target=blocks_taken, nbytes=st.integers(0, 8 * ALIGNMENT), order=ORDERS)
    def take(self, nbytes, order):
        units = max(1, -(-nbytes // ALIGNMENT))
        holes = [size for size, entry in self.runs() if self.may_have(order, entry)]
        assert self.blocks.largest(order) == max(holes, default=0) * ALIGNMENT
        offset = self.blocks.take(nbytes, order)
        fitting = [size for size in holes if size >= units]
        assert (offset is None) == (not fitting)
        if offset is None:
            return multiple()
        first, rest = divmod(offset, ALIGNMENT)
        assert rest == 0
        entries = self.table[first : first + units]
        assert len(entries) == units and all(self.may_have(order, entry) for entry in entries)
        # The smallest that fits.
        assert min(fitting) == next(size for start, size in self.starts() if start <= first < start + size)
        self.table[first : first + units] = ["taken"] * units
        return first, units

    @rule(block=consumes(blocks_taken), order=ORDERS)
    def give(self, block, order):
        first, units = block
        self.blocks.give(first * ALIGNMENT, order)
        self.table[first : first + units] = [order] * units

    @rule(old=ORDERS, new=ORDERS)
    def reorder(self, old, new):
        self.blocks.reorder(lambda each: new if each == old else each)
        self.table = [new if entry == old and entry is not None else entry for entry in self.table]

    @invariant()
    def the_same_bytes_are_used(self):
        if hasattr(self, "blocks"):
            used = self.table.count("taken") * ALIGNMENT
            assert (self.blocks.used, self.blocks.free) == (used, self.blocks.nbytes - used)
            assert self.blocks.orders() == {entry for entry in self.table if isinstance(entry, Order)}

    def runs(self):
        return [(size, self.table[start]) for start, size in self.starts()]

    def starts(self):
        """Each run of equal entries that are free, and its length."""
        found, at = [], 0
        while at < len(self.table):
            end = at
            while end < len(self.table) and self.table[end] == self.table[at]:
                end += 1
            if self.table[at] != "taken":
                found.append((at, end - at))
            at = end
        return found

    @staticmethod
    def may_have(order, entry):
        return entry is None or (isinstance(entry, Order) and entry == order and entry.stream is not None)


TestBlocks = Naive.TestCase
TestBlocks.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_what_is_given_back_twice_is_told():
    blocks = Blocks(4 * ALIGNMENT)
    offset = blocks.take(1)
    blocks.give(offset)
    with pytest.raises(KeyError):
        blocks.give(offset)
    assert blocks.largest() == 4 * ALIGNMENT
