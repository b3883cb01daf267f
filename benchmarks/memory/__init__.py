"""Memory-bound loops in each library: one file a library, with a dictionary ``MAKERS`` of operations and ways to write them.

Each maker takes a problem and its arrays on the device, which all libraries share, and gives a ``Run`` whose answer is ``y``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.memory.problems import Problem
from benchmarks.peers import Device, Run

# qgraph's arrays, by name: the problem's inputs, and ``y``.
Arrays = Mapping[str, Any]
Maker = Callable[[Problem, Arrays, Device], Run]
# By operation, then by peer: a library may write an operation in several ways.
Makers = dict[str, dict[str, Maker]]
