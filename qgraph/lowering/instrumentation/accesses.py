"""What instrumentation asks for: the function that is called in the place of an access to array elements."""

from __future__ import annotations

from typing import Literal, Protocol

from qgraph.ir.functions import Function
from qgraph.records import dataclass
from qgraph.source import Span

Kind = Literal["load", "store", "atomic", "index", "whole", "fill", "forget", "reduce"]


@dataclass(frozen=True, slots=True)
class Access:
    """One access, as it is written.

    ``kind`` also says what the word in its place is called with, before ``site`` and the state:

    - ``load``: (array, index) for the element. Where only the compiler knows that this is no array, or that the result is an
      array again, it is as ``array[index]`` is.
    - ``store``: (value, array, index); in this order they are evaluated, as Python does.
    - ``atomic``: (array, index, values...), the call of ``operation``; gives the old value. ``generated``: it stands for an
      update such as ``x[i] += 1``.
    - ``index``: (index, extent) for the index, counted from the start: of a view, or of a dimension of which a part is taken.
    - ``whole``: (array) for the array, all elements of which are read.
    - ``fill``: (value, array): ``array[...] = value``.
    - ``forget``: (array) for the array, which something gets that is not looked into.
    - ``reduce``: (array, index): one iteration has its part in reduction number ``reduction`` into that element.

    ``axes``: how many indices there are, 0 where that does not show. ``array`` is the leaf that is accessed, empty where it is
    another name for one or a parameter.
    """

    kind: Kind
    site: int
    span: Span
    text: str
    array: str = ""
    operation: object = None
    generated: bool = False
    reduction: int = 0
    axes: int = 0


class Words(Protocol):
    """What is called in the places of accesses."""

    # The names of parameters that each word gets behind the number of the site; whoever instruments makes them leaves, or has
    # them passed as scratch is. Functions that loops call get them as parameters.
    state: tuple[str, ...]

    def word(self, access: Access) -> object:
        """A ``Function`` or ``TypedFunction`` for an access; None to leave it as it is."""


def state_for(function: Function, words: Words) -> list[str]:
    """What of the state a function that loops call gets besides its own parameters: a generated one may have some of it."""
    own = {parameter.arg for parameter in function.tree.args.args}
    return [name for name in words.state if name not in own]
