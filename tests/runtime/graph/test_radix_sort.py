"""Which tensors cuda.compute sorts; that it does is shown with a GPU, in tests/gpu/test_library_calls.py."""

from __future__ import annotations

import numpy as np
import pytest

from qgraph.runtime.graph import radix_sort


class Tensor:
    """Of a tensor what is asked."""

    def __init__(self, array):
        self.ndim, self._array = array.ndim, array
        self.dtype = type("dtype", (), {"itemsize": array.itemsize, "is_complex": array.dtype.kind == "c"})

    def __len__(self):
        return len(self._array)

    def is_contiguous(self):
        return self._array.flags.c_contiguous


@pytest.mark.parametrize(
    ("array", "taken"),
    [
        (np.zeros(1 << 16), True),
        (np.zeros((1 << 16) - 1), False),
        (np.zeros(1 << 17)[::2], False),
        (np.zeros((1 << 16, 1)), False),
        (np.zeros(1 << 16, bool), False),
        (np.zeros(1 << 16, complex), False),
    ],
)
def test_long_vectors_are_taken(monkeypatch, array, taken):
    monkeypatch.setattr(radix_sort, "find_spec", lambda name: name)
    assert radix_sort.takes(Tensor(array)) == taken
    monkeypatch.setattr(radix_sort, "find_spec", lambda name: None)
    assert not radix_sort.takes(Tensor(array))
