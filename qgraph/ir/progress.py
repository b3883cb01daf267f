"""What a program that is watched has besides: where its statements publish how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from qgraph.ir.slots import Slot


@dataclass(frozen=True, slots=True)
class Progress:
    """``ring`` is the leaf (``operations.progress_ring``), ``number`` the slot with the number of the row written last.

    ``run``: the slot with the number of the launch. The order of rows is that of what touches ``number``.
    """

    ring: str
    number: Slot
    run: Slot
