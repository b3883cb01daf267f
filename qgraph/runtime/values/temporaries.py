"""The temporaries of a kernel: their shapes for the values of one call, and host arrays for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Program, Temporary
from qgraph.runtime.values.array_view import ArrayView


def array_shapes(program: Program, values: Sequence[object], host: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of a call's arrays, by leaf: of its ``values``, and of what it returns and temporaries by ``host`` values."""
    given = zip(program.leaves, values, strict=False)
    found = {leaf.name: value.shape for leaf, value in given if isinstance(value, ArrayView)}
    for own in (*program.returned, *program.temporaries):
        if all(name in host for name in own.shape):
            found[own.leaf.name] = tuple(host[name] for name in own.shape)
    return found


class Temporaries:
    """What a program's temporaries need, or those of ``which``.

    ``empty`` says that there are none, ``names`` what their leaves are called, and ``memories`` in whose memory each lies.
    """

    __slots__ = ("_dtypes", "_places", "_returned", "empty", "memories", "names")

    def __init__(self, program: Program, which: Sequence[Temporary] | None = None) -> None:
        which = program.temporaries if which is None else which
        index = {value.name: position for position, value in enumerate(program.host_values)}
        self._places = [tuple(index[name] for name in temporary.shape) for temporary in which]
        types = [temporary.leaf.type for temporary in which]
        self._dtypes = [np.dtype(type_.dtype) for type_ in types if isinstance(type_, ArrayType)]
        self.names = tuple(temporary.leaf.name for temporary in which)
        self.memories = tuple(temporary.memory or temporary.leaf.name for temporary in which)
        # Some may lie in arrays that a call makes for its caller.
        self._returned = tuple(each.leaf.name for each in program.returned)
        self.empty = not self._places

    def shapes(self, host: Sequence[int]) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of each, for the host values of a call."""
        shapes = (tuple(host[position] for position in places) for places in self._places)
        return list(zip(shapes, self._dtypes, strict=True))

    def sizes(self, host: Sequence[int]) -> dict[str, int]:
        """The bytes that each of ``memories`` needs: those of the largest array in it."""
        sizes = dict.fromkeys(self.memories, 0)
        for name, (shape, dtype) in zip(self.memories, self.shapes(host), strict=True):
            sizes[name] = max(sizes[name], math.prod(shape) * dtype.itemsize)
        return sizes

    def on_host(self, host: Sequence[int], *returned: np.ndarray) -> list[np.ndarray]:
        """New NumPy arrays for one call, which returns ``returned``; those in one memory are parts of one."""
        memory = dict(zip(self._returned, returned, strict=False))
        memory |= {name: np.empty(size, np.uint8) for name, size in self.sizes(host).items() if name not in memory}
        places = zip(self.memories, self.shapes(host), strict=True)
        return [np.ndarray(shape, dtype, memory[name]) for name, (shape, dtype) in places]

    def statements(
        self, host: Sequence[int], variables: Sequence[str], returned: Mapping[str, tuple[tuple[int, ...], np.dtype]]
    ) -> tuple[list[str], dict[str, object]]:
        """The same in straight-line code, for calls with the same host values: the statements, and the names in them.

        ``variables`` get the arrays; those of ``returned`` hold what the call returns, with shapes and dtypes.
        """
        lines, names = [], {"empty": np.empty, "ndarray": np.ndarray}
        placed = list(zip(variables, self.memories, self.shapes(host), strict=True))
        # Of each memory the variable that holds it, and which array that is, where it can be taken for one of them.
        held = dict(zip(self._returned, returned.items(), strict=False))
        for name, size in self.sizes(host).items():
            if name not in held:
                kinds = {found for _, memory, found in placed if memory == name}
                made = kinds.pop() if len(kinds) == 1 else ((size,), np.dtype(np.uint8))
                held[name] = variable, _ = f"memory{len(held)}", made
                names[f"of_{variable}"] = made
                lines.append(f"{variable} = empty(*of_{variable})")
        for variable, memory, found in placed:
            whole, made = held[memory]
            names[f"of_{variable}"] = found
            lines.append(f"{variable} = {whole if made == found else f'ndarray(*of_{variable}, {whole})'}")
        return lines, names
