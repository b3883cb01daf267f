"""What is known of the iterations of a loop: verdicts, and the conflicts that refuse a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from qgraph.errors import DataRaceError
from qgraph.records import dataclass
from qgraph.source import Span


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a loop is parallel: ``independent`` is proved, ``assumed`` is not, ``asserted`` is the author's word.

    ``dependent``: proved not to be for some arguments, which are refused, and to be for all others. ``places``: of an assumed
    one, the accesses that may meet, each with a few words; ``hint``: what ends the doubt; ``where``: a Python expression over
    leaves, true for the arguments for which there is doubt.
    """

    kind: Literal["independent", "dependent", "assumed", "asserted"]
    reason: str
    span: Span | None = None
    places: tuple[tuple[str, Span], ...] = ()
    hint: str = ""
    where: str = "True"

    def __str__(self) -> str:
        words = {"assumed": "assumed independent", "asserted": "declared parallel"}
        return f"{words.get(self.kind, self.kind)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses of a parallel loop that surely reach one element in two iterations, for some values of a call.

    ``found``, ``span``, ``also`` and ``hint`` are the error's. ``condition``: a Python expression over leaves, true where the
    call is refused; ``always``: for every call; ``text``: the same for people. ``conflict``: the set of conflicts, as isl
    writes it, with ``parameters``: (name in it, expression of the host, what the user calls it). ``variables``: of the loop.
    """

    found: str
    span: Span
    also: tuple[tuple[str, Span], ...]
    hint: str
    condition: str
    always: bool
    text: str
    conflict: str
    parameters: tuple[tuple[str, str, str], ...]
    variables: tuple[str, ...]
    array: str


def refusal(race: Race, values: Mapping[str, int]) -> DataRaceError:
    """The error of a loop that is refused: two iterations, and the element that both reach.

    ``values``: the parameters of the race in this call, none where it is refused for all.
    """
    return DataRaceError(f"{race.found}{_example(race, values)}", race.span, also=race.also, hint=race.hint)


def _example(race: Race, values: Mapping[str, int]) -> str:
    from qgraph.polyhedral.isl_sets import example

    found = example(race.conflict, values, len(race.variables))
    if found is None:
        return ""
    sides = (zip(race.variables, side, strict=True) for side in (found.first, found.second))
    both = " and ".join(", ".join(f"{name} = {at}" for name, at in side) for side in sides)
    element = f": `{race.array}[{', '.join(map(str, found.element))}]`" if found.element else ""
    given = [f"{word} = {values[name]}" for name, _, word in race.parameters if name in values]
    return f" (for example {both}{element}{', with ' + ', '.join(given) if given else ''})"
