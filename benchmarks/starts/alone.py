"""A process that imports NumPy and makes the CUDA context: what every start pays."""

from __future__ import annotations

import ctypes

from benchmarks.starts import Marks

marks = Marks()

import numpy  # noqa: E402, F401 - what is measured

marks.add("import numpy")
driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
for code in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context)):
    if code:
        raise SystemExit(f"the driver answered {code}")
marks.add("CUDA context")
marks.tell()
