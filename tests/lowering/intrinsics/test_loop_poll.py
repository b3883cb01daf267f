"""The clock of polled loops on a processor that this machine may not have."""

from __future__ import annotations

import pytest
from llvmlite import binding, ir

from qgraph.lowering.intrinsics import loop_poll


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(
    ("arm", "triple", "found"),
    [
        (True, "aarch64-unknown-linux-gnu", ["CNTVCT_EL0", "CNTFRQ_EL0"]),
        (True, "arm64-apple-darwin", ["CNTVCT_EL0", "CNTFRQ_EL0"]),
        (False, "x86_64-unknown-linux-gnu", ["rdtsc"]),
    ],
)
def test_the_clock_in_assembly(monkeypatch, arm, triple, found):
    """Inline assembly would end the process where there is no parser for it, as here."""
    monkeypatch.setattr(loop_poll, "_ARM", arm)
    module = ir.Module()
    module.triple = triple
    function = ir.Function(module, ir.FunctionType(ir.IntType(64), []), "ticks")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.add(loop_poll._ticks(builder), loop_poll._period(builder)))
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(triple).create_target_machine()
    text = machine.emit_assembly(binding.parse_assembly(str(module)))
    assert all(each in text for each in found), text
