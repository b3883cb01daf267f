"""Verdicts on random loop nests are what brute force finds; ``python -m tests.dependence.brute`` runs more of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.dependence import brute
from tests.dependence.nests import nest

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
