"""What a dependence test is asked and what it answers: plain records, which can be compared, kept and read again."""

from __future__ import annotations

from typing import Literal

from qgraph.polyhedral.symbolic_integers import Condition, Poly, Symbol
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """A loop variable: ``start + step * t`` for t = 0, 1, ... before ``stop``.

    ``start`` or ``stop`` None: nothing limits it there, since only the device knows, and then a range counts as large.
    ``count``: how many values there are, where the host knows it and the step is no constant.
    """

    symbol: Symbol
    start: Poly | None
    stop: Poly | None
    step: Poly
    count: Poly | None = None

    @property
    def number(self) -> Poly:
        """The variable as a number."""
        return self.symbol.poly


@dataclass(frozen=True, slots=True)
class Reach:
    """The elements of an array that an access reaches.

    ``indices``: one a dimension, None where it is not known; None: anywhere. ``wraps``: whether an index may be negative, which
    counts from the end. ``loops``: the loops around it inside the iteration, outermost first. ``when``: the iterations in which
    it happens.
    """

    indices: tuple[Poly | None, ...] | None
    wraps: tuple[bool, ...]
    loops: tuple[Variable, ...]
    when: Condition


@dataclass(frozen=True, slots=True)
class Order:
    """That a vector of ``first`` comes before one of ``second`` (``<``), or at the same time or behind it (``>=``).

    Vectors are compared as words are, by the first number in which they differ.
    """

    first: tuple[Poly, ...]
    sign: Literal["<", ">="]
    second: tuple[Poly, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Can ``first`` and ``second`` reach one element in two iterations?

    ``axes``: the variables of the loop, which have other values on the two sides (at least one of them), and none where any
    two moments are meant, ``first`` and ``second`` having all their loops to themselves. ``sizes``: the extents of the array.
    ``serial``: the variables of serial loops around, the same on both sides. ``nonzero``: steps that the host checks.
    ``orders``: what holds of the two iterations besides.
    """

    axes: tuple[Variable, ...]
    first: Reach
    second: Reach
    sizes: tuple[Poly, ...]
    serial: tuple[Variable, ...] = ()
    nonzero: tuple[Poly, ...] = ()
    orders: tuple[Order, ...] = ()

    def key(self) -> str:
        """A text that two questions share only where they are the same."""
        return repr(self)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of two accesses.

    ``never``: no two iterations reach one element, whatever the parameters. ``doubt``: a Python expression over host values,
    true where that is not known; empty where the conflicts are just those of
    ``condition``. ``condition``: a Python expression over host values, true where a conflict surely happens, whatever the data;
    empty where that is never. ``always``: it is true for all parameters. ``text``: the condition for people. ``conflict``: the
    conflicts themselves, as isl writes the set; its parameters are ``parameters``: (name in it, host expression).
    """

    never: bool
    doubt: str
    condition: str = ""
    always: bool = False
    text: str = ""
    conflict: str = ""
    parameters: tuple[tuple[str, str], ...] = ()


APART = Answer(never=True, doubt="")
UNDECIDED = Answer(never=False, doubt="True")


@dataclass(frozen=True, slots=True)
class Example:
    """Two iterations that reach one element: a value for each axis, and the element's indices where they are known."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    element: tuple[int, ...]
