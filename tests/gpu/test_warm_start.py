"""A new process with a warm cache: the right answer, and no compiler is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qgraph
from tests.lowering.cached_kernels import PLAIN

ROOT = Path(qgraph.__file__).parent.parent

pytestmark = pytest.mark.unsanitized(reason="runs in a process of its own")

START = """
import json, sys, time
sys.path[:0] = sys.argv[1:3]
import numpy as np
import qgraph
from kernels import kernel

x = np.arange(1, 1001, dtype=np.float32)
wanted = [x.copy(), np.zeros_like(x)]
answer = kernel.reference(*wanted)
began = time.perf_counter()
arrays = [qgraph.asarray(x, backend="cuda"), qgraph.zeros(1000, np.float32, backend="cuda")]
result = kernel(*arrays)
took = time.perf_counter() - began
close = [bool(np.allclose(qgraph.to_numpy(got), want, rtol=1e-4)) for got, want in zip(arrays, wanted)]
print(json.dumps({
    "right": close + [bool(np.allclose(result[0], answer[0], rtol=1e-4)), result[1] == answer[1]],
    "compilers": sorted(name for name in sys.modules if name in ("numba", "llvmlite", "numba.cuda", "numba_cuda")),
    "path": kernel.last_launch.path,
    "compilations": kernel.stats.compilations,
    "took": took,
}))
if len(sys.argv) > 3:
    kernel.clear_cache()
    kernel(*arrays)
    assert "numba" in sys.modules
    assert kernel.stats.compilations == 2
"""


@pytest.fixture
def start(tmp_path):
    """``start(*more)``: what a new process finds that runs a kernel of two loops, scalars and a device loop."""

    def run(*more):
        (tmp_path / "kernels.py").write_text(PLAIN)
        env = {**os.environ, "QGRAPH_CACHE": "1", "QGRAPH_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-W", "error", "-c", START, str(tmp_path), str(ROOT), *more]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.without_bounds_check
def test_a_second_process_runs_without_a_compiler(start):
    cold = start()
    assert all(cold["right"])
    assert "numba" in cold["compilers"]
    warm = start()
    assert all(warm["right"])
    assert warm["compilers"] == []
    assert (warm["path"], warm["compilations"]) == (cold["path"], 1)
    assert warm["took"] < cold["took"]
    # A cleared cache is compiled anew, whatever the disk has.
    assert start("clear")["compilers"] == []
