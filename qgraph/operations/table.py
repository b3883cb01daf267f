"""All operations."""

from __future__ import annotations

from collections.abc import Iterable

from qgraph.operations.arithmetic import ARITHMETIC
from qgraph.operations.functions import FUNCTIONS
from qgraph.operations.record import Operation, Registry
from qgraph.operations.words import WORDS

OPERATIONS = Registry((*ARITHMETIC, *FUNCTIONS, *WORDS))


def is_one_of(function: object, known: Iterable[object]) -> bool:
    """Whether ``function`` is one of ``known``, by identity: what the user's objects are equal to is their own matter."""
    return any(function is each for each in known)


def operation(function: object) -> Operation:
    """The record of a function, whatever it is: one of its kind where it has none of its own."""
    return OPERATIONS.of(function)
