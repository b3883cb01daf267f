"""Every row of the corpus: its verdict, for which values it is refused, and that plain Python agrees; users see the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from qgraph.errors import DataRaceError
from qgraph.frontend.dependence.loop_verdict import judge
from tests.dependence import corpus
from tests.dependence.brute import DATA, Case, Outcome, cases_of, compare, owned_statements
from tests.dependence.facts import NDIM, facts_of
from tests.dependence.nests import Nest
from tests.dependence.running import Log, instrumented, run

DIMENSIONS = {name: int(n) for name, n in (pair.split(":") for pair in NDIM.split())}
SCALARS = {"n": range(-1, 11), "m": range(-1, 6), "q": (-2, -1, 1, 2, 3), "f": (False, True)}
# So many calls of a loop, of all small ones.
CALLS = 200
# Arrays whose elements are used as integers.
DATA_ARRAYS = ("d", "idx", "ptr", "c")

REFUSED = [(condition, source) for condition, sources in corpus.REFUSED.items() for source in sources]
LOOPS = [
    *((source, "dependent") for _, source in REFUSED),
    *((source, "always") for source in corpus.ALWAYS),
    *((source, "independent") for source in corpus.INDEPENDENT),
    *((source, "assumed") for source in corpus.UNDECIDED),
]


def nest_of(text: str) -> Nest:
    source, _, same = text.partition("  # ")
    return Nest(source + "\n", same.replace(" is ", "="), frozenset())


def functions_in(source: str) -> dict[str, object]:
    return {name: value for name, value in corpus.FUNCTIONS.items() if name in source}


def facts(each: Nest):
    return facts_of(each.source, same=each.same, mystery=SimpleNamespace(), W=2, **functions_in(each.source))


def runs_of(each: Nest) -> list[tuple[Case, list[list[Log]]]]:
    """What the loop does in all small calls in which it has a meaning, with several contents of arrays."""
    trees = {name: value.tree for name, value in functions_in(each.source).items()}
    code = instrumented(each.source, trees, [*SCALARS, "W"])
    found = []
    for case in cases_of(each, DIMENSIONS, SCALARS, CALLS):
        logs = []
        for fill in DATA if any(name in case.shapes for name in DATA_ARRAYS) else DATA[:1]:
            data = {name: [fill(at) for at in range(case.shapes[name][0])] for name in DATA_ARRAYS if name in case.shapes}
            logs.append(run(code, case.shapes, {**case.scalars, "W": 2}, same=each.same, data=data))
        if all(log is not None for log in logs):
            found.append((case, logs))
    return found


def judged(each: Nest):
    """The judgement, or None where the loop is refused whatever the call."""
    try:
        return judge(facts(each))
    except DataRaceError:
        return None


@pytest.mark.parametrize(("text", "expected"), LOOPS)
def test_verdicts(text: str, expected: str) -> None:
    judgement = judged(nest_of(text))
    assert (judgement.verdict.kind if judgement is not None else "always") == expected


def agree(text: str, expected: str, condition: str = "") -> Outcome:
    """Compare the judgement with what plain Python does, and its condition with ``condition``."""
    each = nest_of(text)
    judgement = judged(each)
    races = judgement.races if judgement is not None else ()
    outcome = Outcome(expected)
    owned = owned_statements(judgement, judgement.accesses if judgement is not None else None)
    for case, logs in runs_of(each):
        refused = any(eval(race.condition, {}, case.scope) for race in races)
        if condition:
            assert refused == bool(eval(condition, {}, case.scope)), (case, [race.text for race in races])
        compare(each, outcome, races, case, logs, owned)
        assert not outcome.wrong
    return outcome


@pytest.mark.parametrize(("condition", "text"), REFUSED)
def test_for_which_values_a_loop_is_refused(condition: str, text: str) -> None:
    outcome = agree(text, "dependent", condition)
    assert 0 < outcome.conflicts <= outcome.calls
    assert (outcome.conflicts == outcome.calls) == (condition == "True")


# Not run: unknown functions, values of which only the engine sees that they are one, and a loop that does not end.
NOT_RUN = ("mystery", "atomic_exch", ".fill", "= y[0]", "while y[i] > 0")
KNOWN = [(text, expected) for text, expected in LOOPS if expected != "dependent" and not any(word in text for word in NOT_RUN)]


@pytest.mark.parametrize(("text", "expected"), KNOWN)
def test_plain_python_agrees(text: str, expected: str) -> None:
    outcome = agree(text, expected)
    assert outcome.calls
    if expected == "always":
        assert outcome.conflicts == outcome.calls
    elif expected == "independent":
        assert not outcome.conflicts
