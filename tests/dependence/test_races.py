"""What is told of loops beside their verdicts: which updates are atomic, words of refusals, aliases and functions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from qgraph.errors import DataRaceError
from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.dependence.loop_verdict import judge
from qgraph.frontend.facts.loop_facts import LoopFacts
from qgraph.ir.verdicts import refusal
from qgraph.source import Span
from tests.dependence.facts import facts_of, function


def verdict(source: str, **more: object) -> str:
    """One word for a loop: its verdict, and the operators of its atomics."""
    try:
        judgement = judge(facts_of(source, **more))  # type: ignore[arg-type]
    except DataRaceError:
        return "always"
    return " ".join([judgement.verdict.kind, *(access.operator for access in judgement.atomics)])


@pytest.mark.parametrize(
    ("source", "operators"),
    [
        ("for i in range(n): s[0] += x[i]", "+"),
        ("for i in range(n): x[idx[i]] += 1", "+"),
        ("for i in range(n):\n  for j in range(m): s[j] += a[i, j]", "+"),
        ("for h in range(steps):\n  for i in range(n): x[i] += 1", "+"),
        ("for i in range(n): z[()] += x[i]", "+"),
        ("for i in range(n):\n  x[i] += 1\n  x[i + 1] += 1", "+ +"),
        ("for i in range(n):\n  atomic_add(x, 0, 1)\n  x[i] += 1\n  x[idx[i]] += 1", "+ +"),
        ("for i in range(n): s[0] -= x[i]", "-"),
        ("for i in range(n): s[0] = max(s[0], x[i])", "max"),
        ("for i in range(n): s[0] = min(x[i], s[0])", "min"),
        ("for i in range(n): s[idx[i]] |= 1", "|"),
        ("for i in range(n): x[i] += y[i]", ""),
        ("for i, j in ndrange(n, m): x[i * m + j] += a[i, j]", ""),
    ],
)
def test_updates_are_atomic_where_they_may_collide(source: str, operators: str) -> None:
    assert verdict(source) == f"independent {operators}".strip()


# --- what the author sees ----------------------------------------------------------------------------------------------


def refused(facts: LoopFacts, **values: int) -> DataRaceError:
    """The error of a call with ``values``; all arrays have ten elements a dimension."""
    race = judge(facts).races[0]
    scope = {**{name: SimpleNamespace(shape=(10,) * ndim) for name, ndim in facts.ndim.items()}, **values}
    assert eval(race.condition, {}, scope)
    return refusal(race, {name: int(eval(source, {}, scope)) for name, source, _ in race.parameters})


def test_time_loop_is_told_to_be_serial() -> None:
    error = refused(facts_of("for h in range(steps):\n  for i in range(n): x[i] = x[i] + 1"), steps=2, n=3)
    assert error.hint is not None
    assert error.hint.startswith("to run the iterations in order, use `qgraph.serial(range(steps))`")
    assert error.span is not None
    assert (error.span.line, error.span.column) == (2, 21)


def test_both_places_are_marked() -> None:
    error = refused(facts_of("for i in range(1, n):\n  x[i] = (\n    x[i - 1])"), n=5)
    assert error.found == (
        "iterations of this parallel loop are not independent: one writes `x[i]`, another reads it "
        "(for example i = 1 and i = 2: `x[1]`, with n = 5, x.shape[0] = 10)"
    )
    assert error.span == Span("loop.py", 2, 2, 2, 6)
    ((words, place),) = error.also
    assert words == "and here another iteration touches the same element (read)"
    assert place == Span("loop.py", 3, 4, 3, 12)
    assert error.hint is not None
    assert all(way in error.hint for way in ("qgraph.serial(range(1, n))", "second array", "qgraph.parallel(range(1, n))"))


def test_a_sum_is_told_to_be_an_update() -> None:
    error = refused(facts_of("for i in range(n): s[0] = s[0] + x[i]"), n=2)
    assert error.hint is not None
    assert "`s[0] += ...`" in error.hint


def test_messages_use_the_paths_of_the_arguments() -> None:
    facts = facts_of("for i in range(1, n): x[i] = x[i - 1]")
    renamed = LoopFacts(**{**vars(facts), "paths": {"x": "state.grid.x"}})
    found = refused(renamed, n=5).found
    assert "one writes `state.grid.x[i]`" in found
    assert "`state.grid.x[1]`, with n = 5, state.grid.x.shape[0] = 10" in found


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("x[idx[i]] = i", "the element that `x[idx[i]]` means is known only when it runs"),
        ("mystery(x, i)", "what `mystery(x, i)` does to its arrays is not known"),
        ("if y[i]: s[0] = i", "`s[0]` is written only under a condition"),
        ("x[i], c = x[w], 1", "`x[i]` and `x[w]` may be the same element in different iterations"),
    ],
)
def test_assumed_names_the_line_that_decides(statement: str, reason: str) -> None:
    judgement = judge(facts_of(f"for i in range(n):\n  y[i] = 1\n  {statement}", mystery=SimpleNamespace()))
    assert str(judgement.verdict) == f"assumed independent: {reason}"
    assert judgement.verdict.span is not None
    assert judgement.verdict.span.line == 3


def test_the_authors_word_is_taken_but_updates_stay_atomic() -> None:
    facts = facts_of("for i in range(n):\n  x[i] = x[i - 1]\n  s[0] += 1")
    judgement = judge(LoopFacts(**{**vars(facts), "asserted": True}))
    assert judgement.verdict.kind == "asserted"
    assert [(access.array, access.operator) for access in judgement.atomics] == [("s", "+")]
    assert judgement.owned == frozenset()


def test_owned_updates_stay_plain() -> None:
    facts = facts_of("for i in range(n):\n  x[i] += 1\n  s[0] += 1")
    judgement = judge(facts)
    assert judgement.owned == {id(facts.body[0])}
    assert [access.node for access in judgement.atomics] == [facts.body[1]]


# --- aliases and functions ---------------------------------------------------------------------------------------------


def test_identical_arrays_are_analysed_as_one() -> None:
    source = "for i in range(1, n): y[i] = x[i - 1]"
    assert verdict(source) == "independent"
    assert verdict(source, same="y=x") == "dependent"
    assert verdict("for i in range(n): y[i] = 2 * x[i]", same="y=x") == "independent"
    assert verdict("for i in range(n):\n  x[i] += 1\n  y[i + 1] += 1", same="y=x") == "independent + +"


def test_functions_are_followed() -> None:
    put = function("def put(r, k, e):\n  j = k + 1\n  r[j] = e")
    left = function("def left(r, k):\n  if k > 0:\n    return r[k - 1]\n  return r[k]")
    assert verdict("for i in range(n): put(x, i, y[i])", put=put) == "independent"
    assert verdict("for i in range(n): put(x, 0, y[i])", put=put) == "dependent"
    assert verdict("for i in range(n): put(a[i], 3, y[i])", put=put) == "independent"
    assert verdict("for i in range(n): put(e=i, k=i // 2, r=x)", put=put) == "dependent"
    assert verdict("for i in range(n): y[i] = left(x, i)", left=left) == "independent"
    assert verdict("for i in range(n): x[i] = left(x, i)", left=left) == "dependent"


def test_a_function_that_calls_functions() -> None:
    get = function("def get(r, k):\n  return r[k]")
    both = function("def both(r, k):\n  return get(r, k) + get(r, k + 1)", get=get)
    assert verdict("for i in range(n): y[i] = both(x, i)", both=both) == "independent"
    error = refused(facts_of("for i in range(n): x[i] = both(x, i)", both=both), n=3)
    assert [(words, span.file) for words, span in error.also] == [
        ("and here another iteration touches the same element (read)", "functions.py"),
        ("called here", "loop.py"),
    ]


def test_updates_in_functions_are_found() -> None:
    bump = function("def bump(r, k):\n  r[k] += 1")
    judgement = judge(facts_of("for i in range(n): bump(x, idx[i])", bump=bump))
    (access,) = judgement.atomics
    assert access.in_function
    assert access.node is bump.tree.body[0]
    # One of its calls collides: the statement must be atomic in all.
    judgement = judge(facts_of("for i in range(n):\n  bump(x, i)\n  bump(s, 0)", bump=bump))
    assert len(judgement.atomics) == 1
    assert judgement.owned == frozenset()


def test_a_function_may_return_the_array() -> None:
    pick = function("def pick(r, q, k):\n  if k > 0:\n    return r\n  return q")
    source = "for i in range(n):\n  r = pick(x, y, i)\n  r[0] = i"
    assert verdict(source, pick=pick) == "assumed"
    first = function("def first(r, k):\n  for j in range(3):\n    if r[j] > k:\n      return j\n  return 0")
    assert verdict("for i in range(n): y[first(x, i)] = i", first=first) == "assumed"


def test_constants_of_the_kernel_are_known() -> None:
    assert verdict("for i in range(n): x[i * W] = x[i * W + 1]", W=2) == "independent"
    assert verdict("for i in range(n): x[i * W] = x[i * W + 1]", W=1) == "dependent"


def test_an_element_is_an_unknown_number_where_the_loop_writes_its_array() -> None:
    (load,) = (a for a in collect(facts_of("for i in range(n): y[i] = x[idx[0]]")).all if a.array == "x")
    assert load.reach.indices != (None,)
    (load,) = (a for a in collect(facts_of("for i in range(n): y[i] = x[y[0]]")).all if a.array == "x")
    assert load.reach.indices == (None,)


def test_metadata_is_not_data() -> None:
    accesses = collect(facts_of("for i in range(n): y[i] = x.shape[0] + len(x) + x.size"))
    assert accesses.reads == frozenset()
    assert accesses.written == {"y"}


@pytest.mark.parametrize(
    ("body", "reads", "written"),
    [
        ("y[i] = x[i]", {"x"}, {"y"}),
        ("y[i] += x[i]", {"x", "y"}, {"y"}),
        ("y[idx[i]] = 1", {"idx"}, {"y"}),
        ("r = x\n  q = r\n  q[i] = 1", set(), {"x"}),
        ("for r in (x, y): r[i] = s[0]", {"s"}, {"x", "y"}),
        ("y[i] = x[i] if v[i] else c[i]", {"x", "v", "c"}, {"y"}),
        ("y[i] = sum([x[k] for k in range(3)])", {"x"}, {"y"}),
        ("a[i] = b[i]", {"b"}, {"a"}),
        ("row = a[i]\n  row += 1", {"a"}, {"a"}),
        ("mystery(x[i], a[i])", {"x", "a"}, {"a"}),
        ("u = [x, y]\n  u[k][i] = 1", set(), {"x", "y"}),
        ("(r := x)[i] = 1", set(), {"x"}),
        ("r = x\n  while v[i]:\n    r[i] = 1\n    r = y", {"v"}, {"x", "y"}),
    ],
)
def test_what_is_read_and_written(body: str, reads: set[str], written: set[str]) -> None:
    accesses = collect(facts_of(f"for i in range(n):\n  {body}", mystery=SimpleNamespace()))
    assert (accesses.reads, accesses.written) == (reads, written)
