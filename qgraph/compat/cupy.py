"""CuPy's private parts, read from 13.6."""

from __future__ import annotations

import sys
from typing import Any


def current_stream_function() -> Any:
    """A capsule with the C function that CuPy itself asks for the current stream; None where it has none.

    The capsule's name is the signature of the function: ``intptr_t (void)``, as far as qgraph knows it.
    """
    module = sys.modules.get("cupy_backends.cuda.stream")
    return getattr(module, "__pyx_capi__", {}).get("get_current_stream_ptr")
