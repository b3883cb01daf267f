"""Long vectors of PyTorch's are sorted by cuda.compute (cuda-cccl), where it is installed.

PyTorch sorts the places of the elements, too. The first sort of a type waits some seconds for the library's compiler.
"""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from qgraph.operations.library_functions import sort_keys

_LONG = 1 << 16


def takes(x: Any) -> bool:
    """Whether it sorts ``x``, a tensor."""
    plain = x.ndim == 1 and x.is_contiguous() and x.dtype.itemsize > 1 and not x.dtype.is_complex
    return plain and len(x) >= _LONG and find_spec("cuda.compute") is not None


def radix_sort(torch: Any, x: Any, *, out: Any = None, **_axis: Any) -> Any:
    """``x`` in order, in ``out`` or a new tensor, on PyTorch's current stream."""
    from cuda import compute

    keys = sort_keys(torch, x)
    out = torch.empty_like(keys) if out is None else out
    given = {"d_in_keys": keys, "d_out_keys": out, "d_in_values": None, "d_out_values": None}
    sort = compute.make_radix_sort(**given, order=compute.SortOrder.ASCENDING)
    size = sort(temp_storage=None, num_items=len(x), **given)
    current = torch.cuda.current_stream().cuda_stream
    stream = SimpleNamespace(__cuda_stream__=lambda: (0, current))
    sort(temp_storage=x.new_empty(size, dtype=torch.uint8), num_items=len(x), stream=stream, **given)
    return out
