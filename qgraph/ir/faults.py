"""Mistakes that only the device can find: how a task notes one, and where a launch keeps that it did."""

from __future__ import annotations

from dataclasses import field

from qgraph.errors import QGraphError
from qgraph.ir.slots import Slot
from qgraph.records import dataclass
from qgraph.source import Span

# The parameter through which tasks note a fault: a word for its number, and what it tells.
FAULTS = "_faults"
FAULT_DETAILS = 4
FAULT_WORDS = 1 + FAULT_DETAILS
# In a body: what orders the faults of a launch at which an iteration ends, the number of its task and that of the iteration.
KEY = "_key"
KEY_BITS = 44
NO_KEY = 2**63 - 1
# The hint of such a fault.
UNSPECIFIED = "the kernel ended there: what its arrays hold now is not specified"


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake that only the device can find: whoever waits next gets an ``error`` at ``span``.

    A task notes the first one that it meets: the number of the fault (its place in ``Program.faults``, from 1 on) and up to
    ``FAULT_DETAILS`` integers. ``found`` is a %-format of that many ``details``, or plain text where there are none.
    ``ends``: the iteration ends there, of several the first in program order is told, and its key comes before the details.
    """

    error: type[QGraphError] = field(compare=False)
    span: Span
    found: str
    hint: str
    details: int = 0
    ends: bool = False


@dataclass(frozen=True, slots=True)
class EarlyExits:
    """Where a launch keeps that a fault has ended an iteration: ``failed`` is then not 0, ``first`` as for ``note_least``."""

    failed: Slot
    first: Slot
