"""A kernel of ten loops, from the start of the process to its first result: ``... in_qgraph cuda|cpu``."""

from __future__ import annotations

import sys

from benchmarks.starts import Marks

marks = Marks()

import numpy as np  # noqa: E402 - what is measured

marks.add("import numpy")

import qgraph  # noqa: E402

marks.add("import qgraph")


@qgraph.kernel
def ten(x, a):  # noqa: C901 - it is what is measured
    """Each loop reads what the one before wrote."""
    for i in range(x.shape[0]):
        x[i] = x[i] + a
    for i in range(x.shape[0]):
        x[i] = x[i] * 2
    for i in range(x.shape[0]):
        x[i] = x[i] - a
    for i in range(x.shape[0]):
        x[i] = x[i] + i
    for i in range(x.shape[0]):
        x[i] = x[i] * a
    for i in range(x.shape[0]):
        x[i] = x[i] + 2 * a
    for i in range(x.shape[0]):
        x[i] = x[i] * 3
    for i in range(x.shape[0]):
        x[i] = x[i] - i
    for i in range(x.shape[0]):
        x[i] = x[i] + 1
    for i in range(x.shape[0]):
        x[i] = x[i] * 0.5


backend = sys.argv[1]
x = qgraph.asarray(np.arange(1024, dtype=np.float32), backend=backend)
marks.add("an array")
ten(x, 2.0)
marks.add("the call")
found = qgraph.to_numpy(x)
marks.add("first result")
wanted = np.arange(1024, dtype=np.float32)
ten.reference(wanted, np.float32(2.0))
np.testing.assert_allclose(found, wanted, rtol=1e-5)
marks.tell(compilations=ten.stats.compilations)
