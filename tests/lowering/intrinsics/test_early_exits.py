"""What ``intrinsics.attempt`` costs on the CPU: nothing that counts references stays in a loop."""

from __future__ import annotations

import re

import pytest
from numba.core import config

import qgraph
from qgraph.compat import numba
from qgraph.lowering.numba_backend import cpu
from tests.features import bounds_kernels
from tests.features.test_bounds import CASES, copies


@pytest.mark.needs("compiler")
@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
@pytest.mark.parametrize("name", ["shifted", "func", "atomics", "in_a_loop"])
def test_nothing_counts_references(monkeypatch, name):
    libraries = []

    class Kept(cpu.Library):
        def __init__(self, *args):
            super().__init__(*args)
            libraries.append(self)

    monkeypatch.setattr(cpu, "Library", Kept)
    # As users compile it, whatever the other tests do.
    monkeypatch.setattr(config, "OPT", config._OptLevel("3"))
    cpu.forget()
    qgraph.kernel(backend="cpu", bounds_check=True)(getattr(bounds_kernels, name))(*copies(CASES[name][0]))
    text = str(numba.final_module(libraries[-1]))
    workers = re.findall(r"^define [^\n]*qgraph_worker.*?^}", text, re.MULTILINE | re.DOTALL)
    assert workers
    assert not any("NRT_" in worker for worker in workers)
