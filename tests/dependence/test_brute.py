"""Verdicts on random loop nests are what brute force finds; ``python -m tests.dependence.brute`` runs more of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.dependence import brute
from tests.dependence.nests import Nest, nest

# Several tests, so that processes share them.
PARTS, EACH = 10, 30


@pytest.mark.parametrize("part", range(PARTS))
def test_no_verdict_is_wrong(part: int) -> None:
    verdicts: Counter[str] = Counter()
    calls = 0
    for number in range(part * EACH, (part + 1) * EACH):
        each = nest(f"test.{number}")
        outcome = brute.tried(each)
        assert not outcome.wrong, f"{each.source}\n{outcome.wrong}"
        verdicts[outcome.verdict] += 1
        calls += outcome.calls
    # Most loops are decided, either way.
    assert min(verdicts["independent"], verdicts["dependent"]) > EACH // 10
    assert calls > 50 * EACH


def test_a_question_whose_work_ends_while_its_condition_is_printed() -> None:
    """isl gives no text then, and says nothing."""
    source = (
        "for i in range(n - 1, m - 1, -1):\n"
        "  for p in range(i + 1): x[-1] = y[i + 2 * p] + i\n"
        "  if i % 3 == 0: a[i + 4, (2 * i) % x.shape[0]] = a[i, -i - 1 + x.shape[0]] + i\n"
    )
    assert brute.tried(Nest(source, "", frozenset())).verdict == "assumed"
