"""A graph of ten loops in Quadrants, its own cache on, from the start of the process to its first result."""

from __future__ import annotations

import os

from benchmarks.starts import Marks

marks = Marks()

import numpy as np  # noqa: E402 - what is measured

marks.add("import numpy")

import quadrants as qd  # noqa: E402

marks.add("import quadrants")
qd.init(arch=qd.cuda, offline_cache=True, offline_cache_file_path=os.environ["QGRAPH_BENCHMARK_CACHE"], log_level=qd.WARN)
Array = qd.types.ndarray(qd.f32, ndim=1)


@qd.kernel(graph=True)
def ten(x: Array, a: qd.f32):  # noqa: C901 - it is what is measured
    """The loops of ``in_qgraph``."""
    for i in range(1024):
        x[i] = x[i] + a
    for i in range(1024):
        x[i] = x[i] * 2
    for i in range(1024):
        x[i] = x[i] - a
    for i in range(1024):
        x[i] = x[i] + i
    for i in range(1024):
        x[i] = x[i] * a
    for i in range(1024):
        x[i] = x[i] + 2 * a
    for i in range(1024):
        x[i] = x[i] * 3
    for i in range(1024):
        x[i] = x[i] - i
    for i in range(1024):
        x[i] = x[i] + 1
    for i in range(1024):
        x[i] = x[i] * 0.5


x = qd.ndarray(qd.f32, shape=(1024,))
x.from_numpy(np.arange(1024, dtype=np.float32))
ten(x, 2.0)
found = x.to_numpy()
marks.add("first result")
t = np.arange(1024, dtype=np.float32)
wanted = ((((t + 2) * 2 - 2 + t) * 2 + 4) * 3 - t + 1) * np.float32(0.5)
np.testing.assert_allclose(found, wanted, rtol=1e-5)
marks.tell()
