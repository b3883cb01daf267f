"""The kinds of nodes that a user's call, or a loop, may become."""

from __future__ import annotations

from qgraph.nodes.child_graph import ChildGraph
from qgraph.nodes.event import EventMark
from qgraph.nodes.host_callback import HostCall
from qgraph.nodes.kind import LoopKind, StatementKind
from qgraph.nodes.library_call import LibraryCall
from qgraph.nodes.memcpy import Memcpy
from qgraph.nodes.memset import Memset
from qgraph.nodes.write_value import WriteValue

STATEMENTS: tuple[type[StatementKind], ...] = (HostCall, EventMark, WriteValue, ChildGraph, LibraryCall)
LOOPS: tuple[type[LoopKind], ...] = (Memset, Memcpy)


def statement_of_word(function: object) -> type[StatementKind] | None:
    """The kind of the statements that call ``function``; None where it is no word of any."""
    return next((kind for kind in STATEMENTS if kind.is_word(function)), None)
