"""How PyTorch, CuPy and Warp tell their current stream, by parts of theirs that are private.

Read from PyTorch 2.9, CuPy 13.6 and Warp 1.19.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def torch_stream(torch: Any, device: int) -> Callable[[], int]:
    """What gives the handle of a device's current stream."""
    # The public accessor builds an object and takes forty times as long.
    raw = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return partial(raw, device)
    return lambda: int(torch.cuda.current_stream(device).cuda_stream)


def cupy_stream_function() -> Any:
    """A capsule with the C function that CuPy itself asks for the current stream; None where it has none.

    The capsule's name is the signature of the function: ``intptr_t (void)``, as far as qgraph knows it.
    """
    module = sys.modules.get("cupy_backends.cuda.stream")
    return getattr(module, "__pyx_capi__", {}).get("get_current_stream_ptr")


def warp_device(ordinal: int) -> Any:
    """Warp's object for a CUDA device on which it works; None where it does not, which this does not change."""
    # The public functions start Warp, and a context on the device.
    context = sys.modules.get("warp._src.context") or sys.modules.get("warp.context")
    devices = getattr(getattr(context, "runtime", None), "cuda_devices", ())
    found = devices[ordinal] if ordinal < len(devices) else None
    return found if found is not None and found.has_stream else None
