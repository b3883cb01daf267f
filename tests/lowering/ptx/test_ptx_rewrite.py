"""PTX that is rewritten for what ptxas makes of it; other rewriting is tested where it matters."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.ptx.ptx_rewrite import without_fused_negations, without_results
from tests.features.test_regressions import extremes_of_negations


def test_negations_are_two_instructions():
    text = "neg.s32 \t%r9, %r2;\nneg.s16 %rs1, %rs2;\nneg.s64 %rd1, %rd2;\nneg.f32 %f1, %f2;\n"
    assert (
        without_fused_negations(text).split()
        == (
            "not.b32 %r9, %r2; add.s32 %r9, %r9, 1; not.b16 %rs1, %rs2; add.s16 %rs1, %rs1, 1; "
            "neg.s64 %rd1, %rd2; neg.f32 %f1, %f2;"
        ).split()
    )


def test_an_atomic_whose_old_value_is_read_keeps_it():
    read = "atom.global.add.u32 \t%r1, [%rd1], %r2;\nst.global.u32 [%rd2], %r1;\n"
    unread = "atom.global.add.u32 \t%r3, [%rd1], %r2;\n"
    assert without_results(read) == read
    assert without_results(read + unread).split() == (read + "red.global.add.u32 [%rd1], %r2;").split()


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_no_extreme_takes_a_negation(dtype):
    arrays = (np.zeros(9, dtype) for _ in range(5))
    (text,) = qgraph.kernel(backend="cuda")(extremes_of_negations).ptx(*arrays).values()
    assert "not.b" in text
    assert f"max.s{dtype[3:]}" in text
    assert f"neg.s{dtype[3:]}" not in text
