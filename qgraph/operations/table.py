"""All operations."""

from __future__ import annotations

from qgraph.operations.arithmetic import ARITHMETIC
from qgraph.operations.functions import FUNCTIONS
from qgraph.operations.record import Operation, Registry
from qgraph.operations.words import WORDS

OPERATIONS = Registry((*ARITHMETIC, *FUNCTIONS, *WORDS))


def operation(function: object) -> Operation:
    """The record of a function, whatever it is: one of its kind where it has none of its own."""
    return OPERATIONS.of(function)
