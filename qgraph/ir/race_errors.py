"""The error of a loop that is refused for the values of one call: two iterations, and the element that both reach."""

from __future__ import annotations

from collections.abc import Mapping

from qgraph.errors import DataRaceError
from qgraph.ir.verdicts import Race


def refusal(race: Race, values: Mapping[str, int]) -> DataRaceError:
    """The error; ``values``: the parameters of the race in this call, none where it is refused for all."""
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
