"""Ten launches in Warp, recorded as a graph, from the start of the process to their first result."""

from benchmarks.starts import Marks

marks = Marks()

import numpy as np  # noqa: E402 - what is measured

marks.add("import numpy")

import warp as wp  # noqa: E402

marks.add("import warp")
wp.config.quiet = True
wp.init()
wp.set_module_options({"enable_backward": False})


@wp.kernel
def step(x: wp.array(dtype=float), a: float):
    """One of the loops; with ``a`` another number each is another, and Warp compiles one for all."""
    i = wp.tid()
    x[i] = x[i] * 0.5 + a


x = wp.array(np.arange(1024, dtype=np.float32), dtype=float, device="cuda:0")
wp.load_module(device="cuda:0")
with wp.ScopedCapture(device="cuda:0") as capture:
    for k in range(10):
        wp.launch(step, dim=1024, inputs=[x, float(k)], device="cuda:0")
wp.capture_launch(capture.graph)
found = x.numpy()
marks.add("first result")
wanted = np.arange(1024, dtype=np.float32)
for k in range(10):
    wanted = wanted * np.float32(0.5) + np.float32(k)
np.testing.assert_allclose(found, wanted, rtol=1e-5)
marks.tell()
