"""Global arrays that kernels use, and where they were found."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import numpy as np

from qgraph.captured_state import Attributes
from qgraph.records import dataclass

Place = tuple[int, str]
Namespace = Mapping[str, object] | Attributes


@dataclass(frozen=True, slots=True, eq=False)
class GlobalArray:
    """An array in a global or closure variable that a kernel uses: an argument that no caller passes.

    ``namespace.get(key)`` is looked up at each call; ``path`` is how the user writes it.
    """

    namespace: Namespace
    key: str
    path: str

    @property
    def place(self) -> Place:
        """What tells the variable from others."""
        return place_of(self.namespace, self.key)

    @property
    def value(self) -> object:
        """What the variable holds now; None where it is gone."""
        return self.namespace.get(self.key, None)


class GlobalArrayFound(Exception):  # noqa: N818 - no error: the kernel takes one more argument
    """A kernel uses an array in a global or closure variable that is not among its arguments yet."""

    def __init__(self, array: GlobalArray) -> None:
        super().__init__(array.path)
        self.array = array


def place_of(namespace: Namespace, key: str) -> Place:
    """What tells a variable from all others that live: where it is kept."""
    home = getattr(namespace, "home", None)
    return id(namespace if home is None else home(key)), key


def is_array(value: object) -> bool:
    """Whether ``value`` is an array of any library: what a kernel can take as an argument only."""
    if isinstance(value, np.ndarray):
        return True
    return not isinstance(value, (type, ModuleType)) and (
        hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__")
    )


def holds_arrays(value: object, *, written: bool = False) -> bool:
    """Whether ``value`` is an array, or a tuple of some; ``written``: one that somebody may write."""
    if isinstance(value, tuple):
        return any(holds_arrays(part, written=written) for part in value)
    return is_array(value) and not (written and _is_constant(value))


def _is_constant(value: object) -> bool:
    while isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.base
    return value is None or isinstance(value, bytes)
