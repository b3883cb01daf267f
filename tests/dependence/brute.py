"""Verdicts on random loop nests against brute force: the loop is run for all small sizes and arguments.

``python -m tests.dependence.brute --count 20000 --seed 0`` prints how many were independent, refused for some values, refused
always and undecided, and what the undecided ones are made of.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import CodeType, SimpleNamespace
from typing import Any

from qgraph.errors import DataRaceError
from qgraph.frontend.dependence.loop_verdict import Judgement, judge
from qgraph.frontend.facts.loop_facts import Accesses
from qgraph.ir.verdicts import Race
from qgraph.polyhedral.isl_sets import example
from tests.dependence.facts import facts_of
from tests.dependence.nests import FUNCTIONS, Nest, nest
from tests.dependence.running import Log, instrumented, run

DIMENSIONS = {"x": 1, "y": 1, "a": 2, "d": 1}
SIZES: dict[int, Sequence[tuple[int, ...]]] = {
    0: [()],
    1: [(size,) for size in (0, 1, 2, 3, 4, 5, 7, 12, 30)],
    2: list(itertools.product((0, 1, 2, 3, 5, 8), repeat=2)),
    3: [(2, 3, 2), (1, 2, 3), (0, 1, 2)],
}
SCALARS: dict[str, Sequence[int]] = {"n": range(-1, 7), "m": range(-1, 6), "q": (-2, -1, 1, 2, 3), "f": (False, True)}
# So many calls of a loop are tried, of all that there are.
MOST = 500
# What is in arrays whose elements are used: each call is tried with all of these.
DATA = (lambda at: at % 3, lambda at: 1, lambda at: 0, lambda at: at)
MADE_OF_DATA = frozenset({"data as an index", "guard on data"})
# What isl cannot hold in general: these are decided where strides or ranges fit.
BEYOND = frozenset({"flattened", "products", "// by a size", "% by a size", "a symbolic step"})


@dataclass(frozen=True)
class Case:
    """One call of a loop: the shapes of its arrays, and its scalars."""

    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, int]

    @property
    def scope(self) -> dict[str, Any]:
        """What conditions are evaluated in."""
        return {**{name: SimpleNamespace(shape=shape) for name, shape in self.shapes.items()}, **self.scalars}


@dataclass
class Outcome:
    """What was found of a nest. ``verdict``: ``always`` for one that is refused whatever the call."""

    verdict: str
    reason: str = ""
    wrong: list[str] = field(default_factory=list)
    # Calls that had a meaning, and those of them with a conflict.
    calls: int = 0
    conflicts: int = 0
    seconds: float = 0.0


def cases_of(
    each: Nest,
    dimensions: Mapping[str, int] = DIMENSIONS,
    values_of: Mapping[str, Sequence[int]] = SCALARS,
    most: int = MOST,
) -> list[Case]:
    """Small calls of a loop: all of them, or ``most``."""
    aliases = dict(pair.split("=") for pair in each.same.split())
    names = set(re.findall(r"\b[a-z]\w*\b", each.source)) | set(aliases.values())
    arrays = [name for name in dimensions if name in names and name not in aliases]
    scalars = [name for name in values_of if name in names]
    ranges = [*(SIZES[dimensions[name]] for name in arrays), *(values_of[name] for name in scalars)]
    found = []
    total = 1
    for values in ranges:
        total *= len(values)
    if total <= most:
        chosen: Iterator[tuple[Any, ...]] = itertools.product(*ranges)
    else:
        random = Random(each.source)
        chosen = (tuple(random.choice(values) for values in ranges) for _ in range(most))
    for values in chosen:
        found.append(Case(dict(zip(arrays, values)), dict(zip(scalars, values[len(arrays) :]))))
    return found


def tried(each: Nest) -> Outcome:
    """Judge a nest, and run it."""
    functions = {name: value for name, value in FUNCTIONS.items() if name in each.source}
    facts = facts_of(each.source, " ".join(f"{n}:{k}" for n, k in DIMENSIONS.items()), same=each.same, **functions)
    started = time.perf_counter()
    judgement: Judgement | None
    try:
        judgement = judge(facts)
        races: tuple[Race, ...] = judgement.races
        outcome = Outcome(judgement.verdict.kind, judgement.verdict.reason)
        accesses = judgement.accesses
    except DataRaceError:
        judgement, races, outcome, accesses = None, (), Outcome("always"), None
    outcome.seconds = time.perf_counter() - started
    owned = owned_statements(judgement, accesses)
    code = instrumented(each.source, {name: value.tree for name, value in functions.items()}, list(SCALARS))
    fills = DATA if each.made_of & MADE_OF_DATA else DATA[:1]
    for case in cases_of(each):
        found = []
        for fill in fills:
            data = {"d": [fill(at) for at in range(case.shapes["d"][0])]} if "d" in case.shapes else {}
            logs = run(code, case.shapes, case.scalars, same=each.same, data=data)
            if logs is not None:
                found.append(logs)
        if len(found) == len(fills):
            compare(each, outcome, races, case, found, owned)
            if outcome.wrong:
                break
    return outcome


def owned_statements(judgement: Judgement | None, accesses: Accesses | None) -> set[tuple[int, int]]:
    """Where the updates are that each iteration has to itself."""
    if judgement is None or accesses is None:
        return set()
    nodes = {id(access.node): access.node for access in accesses.all}
    return {(nodes[at].lineno, nodes[at].col_offset) for at in judgement.owned}  # type: ignore[attr-defined]


def compare(
    each: Nest, outcome: Outcome, races: tuple[Race, ...], case: Case, found: list[list[Log]], owned: set[tuple[int, int]]
) -> None:
    """Compare what was said of a call with what its runs did, one for each way to fill the arrays."""
    conflicts = [any(log.conflict() for log in logs) for logs in found]
    outcome.calls += 1
    outcome.conflicts += any(conflicts)
    scope = case.scope
    refusing = [race for race in races if eval(compiled(race.condition), {}, scope)]
    where = f"{ {**case.shapes, **case.scalars} }"
    if (refusing or outcome.verdict == "always") and not all(conflicts):
        outcome.wrong.append(f"refused without a conflict: {where}: {[race.text for race in refusing]}")
    elif any(conflicts) and not refusing and outcome.verdict not in ("always", "assumed"):
        at = next(found_ for logs in found for log in logs for found_ in log.conflicts())
        outcome.wrong.append(f"{outcome.verdict}, with a conflict: {where}: {at}; {[race.text for race in races]}")
    elif any(log.shared(owned) for logs in found for log in logs):
        outcome.wrong.append(f"an update that is owned is shared: {where}: {owned}")
    else:
        for race in refusing:
            problem = wrong_witness(race, scope, found[0], each.same, each.source)
            if problem:
                outcome.wrong.append(f"{problem}: {where}: {race.text}")
                break


@functools.lru_cache(100)
def compiled(text: str) -> CodeType:
    """An expression of the host: a nest has one set of them for hundreds of calls."""
    return compile(text, "<host>", "eval")


def wrong_witness(race: Race, scope: dict[str, Any], logs: list[Log], same: str, source: str) -> str:
    """What is wrong with the example of a race; "" where nothing is."""
    values = {name: int(eval(compiled(text), {}, scope)) for name, text, _ in race.parameters}
    aliases = dict(pair.split("=") for pair in same.split())
    shown = example(race.conflict, values, len(race.variables))
    if shown is None:
        # Values of a range by a symbolic step are in no set.
        return "" if re.search(r"range\(.*, q\)", source) else "no example"
    for log in logs:
        for first, second, (array, element) in log.conflicts():
            if (
                (first, second) == (shown.first, shown.second)
                and shown.element in ((), element)
                and array == aliases.get(race.array, race.array)
            ):
                return ""
    return f"the example does not conflict: {shown}"


# --- all of them -------------------------------------------------------------------------------------------------------


def smaller(each: Nest, still: Callable[[Nest], object]) -> Nest:
    """The nest with lines left out as long as ``still`` holds."""
    lines = each.source.splitlines()
    at = 1
    while at < len(lines):
        fewer = lines[:at] + lines[at + 1 :]
        candidate = Nest("\n".join(fewer) + "\n", each.same, each.made_of)
        try:
            compile(candidate.source, "", "exec")
            good = still(candidate)
        except Exception:  # noqa: BLE001 - whatever is wrong with it
            good = False
        if good:
            lines = fewer
        else:
            at += 1
    return Nest("\n".join(lines) + "\n", each.same, each.made_of)


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--show", type=int, default=0, help="print so many undecided loops without data in them")
    options = parser.parse_args()
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    made: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    wrong = crashes = calls = vacuous = shown = plain = affine = affines = 0
    slowest: list[tuple[float, str]] = []
    for number in range(options.count):
        each = nest(f"{options.seed}.{number}")
        try:
            outcome = tried(each)
        except Exception as error:  # noqa: BLE001 - it is counted
            crashes += 1
            print(f"--- crash {number}: {type(error).__name__}: {error}\n{each.source}", flush=True)
            continue
        verdicts[outcome.verdict] += 1
        calls += outcome.calls
        vacuous += not outcome.calls
        affines += not each.made_of & (MADE_OF_DATA | BEYOND)
        made.update(each.made_of)
        slowest = sorted([*slowest, (outcome.seconds, each.source)], reverse=True)[:3]
        if outcome.wrong:
            wrong += 1
            still = smaller(each, lambda it: tried(it).wrong)
            print(f"--- wrong {number} same={each.same}: {tried(still).wrong[0]}\n{still.source}", flush=True)
        if outcome.verdict == "assumed" and not each.made_of & MADE_OF_DATA:
            plain += 1
            affine += not each.made_of & BEYOND
            undecided.update(each.made_of)
            reasons[re.sub(r"`[^`]*`", "`..`", outcome.reason)] += 1
            if shown < options.show and not each.made_of & BEYOND:
                shown += 1
                still = smaller(each, lambda it: tried(it).verdict == "assumed")
                print(f"--- undecided {number} same={each.same}: {tried(still).reason}\n{still.source}", flush=True)
    print(
        f"{options.count} loops of {options.seed}: {dict(verdicts)}; {crashes} crashes; {calls} calls, {vacuous} loops of none"
    )
    print(f"wrong: {wrong}; undecided: {verdicts['assumed']}, {plain} of them without data, {affine} of {affines} affine ones")
    print("reasons:", *(f"\n  {number:5} {reason}" for reason, number in reasons.most_common()))
    print("undecided of those made of:", *(f"\n  {undecided[word]:5} of {made[word]:5} {word}" for word in sorted(made)))
    print("slowest:", *(f"\n{seconds:.2f} s\n{source}" for seconds, source in slowest))
    return 1 if wrong or crashes else 0


if __name__ == "__main__":
    sys.exit(main())
