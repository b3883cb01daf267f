"""Which loops hand the results of their reductions on, where these lie, and the PTX of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.ir.artifacts import COPIED, ENDING
from qgraph.ir.unrolling import HandedOn
from qgraph.lowering.ptx import link
from tests.conftest import thorough
from tests.handed_kernels import ALL, FLOATS, REFUSED, extremes, greatest, like_cg, of_complex, two_in_a_row


def given(function):
    if function is greatest:
        return np.ones((4, 5), int), np.ones((4, 5), int), -1, 5
    if function in FLOATS:
        dtype = complex if function is of_complex else float
        return np.ones(4, dtype), np.ones(4, dtype), -1.0, 5
    return np.ones(4, int), np.ones(4, int), -1, 5


def plan_of(function, **options):
    return qgraph.kernel(function, **options).plan(*given(function))


def named(function):
    return function.__name__


@pytest.mark.parametrize("function", [*ALL, *FLOATS], ids=named)
def test_loops_that_hand_on(function):
    plan = plan_of(function)
    (unrolling,) = plan.unrolled
    assert unrolling.handed is not None
    assert "no last block" in str(plan)
    # No two of these words are the same.
    slots = [range(each.index, each.index + each.words) for each in plan.program.slots]
    guards = [range(unrolling.turns, unrolling.guards + unrolling.copies + 1)]
    own = [range(unrolling.shared, unrolling.shared + 2)]
    places = [eval(unrolling.scalars_at(done)) for done in ("1", "2")]
    own += [range(first, first + unrolling.handed.place_words) for first in places]
    own += [range(first := unrolling.partials_at(each), first + each.words) for each in unrolling.handed.partials]
    words = [word for each in (*slots, *guards, *own, [plan.stop]) for word in each]
    assert len(set(words)) == len(words)
    assert max(words) < plan.scratch_words
    # The widest numbers are elements of two words.
    assert unrolling.shared % 2 == 0
    assert all(unrolling.partials_at(each) % 2 == 0 for each in unrolling.handed.partials)


@pytest.mark.parametrize("function", REFUSED, ids=named)
def test_loops_that_a_last_block_finishes(function):
    plan = plan_of(function)
    assert all(each.handed is None for each in plan.unrolled)
    assert "last block" not in str(plan)


def test_order_of_epilogues():
    found = [plan_of(function).unrolled[0].handed for function in (greatest, two_in_a_row, like_cg)]
    assert [(each.reduces, each.deciding, each.wraps, each.epilogues) for each in found] == [
        ((True,), 0, True, 1),
        ((True, True), 1, True, 2),
        ((True, True, False), 1, False, 2),
    ]
    # How many of a turn were evaluated when a kernel begins, and whose it then evaluates.
    assert [[(each.evaluated(place), each.before(place)) for place in range(len(each.nodes))] for each in found] == [
        [(-1, 0)],
        [(-1, 1), (0, 0)],
        [(0, None), (0, 0), (1, 1)],
    ]


def test_the_model_counts_as_the_plan_does():
    from tests.consumer_model import bodies, epilogues_before

    for body in bodies():
        handed = HandedOn(tuple(range(len(body.kernels))), body.kernels, body.deciding, (), (), ())
        assert handed.wraps == body.wraps
        for place in range(len(body.kernels)):
            for copy in range(body.copies):
                found = copy * handed.epilogues + handed.evaluated(place)
                assert found == epilogues_before(body, copy, place), (body, copy, place)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [greatest, extremes, *thorough(like_cg, of_complex)], ids=named)
def test_ptx(function):
    texts = qgraph.kernel(function, backend="cuda").ptx(*given(function), cc=(9, 0))
    copies = {name: text for name, text in texts.items() if name.endswith((COPIED, ENDING))}
    assert len(copies) == (4 if function is like_cg else 2)
    for name, text in copies.items():
        body = text[text.index(".entry") :]
        before, _, after = body.partition("griddepcontrol.wait")
        # Nothing is loaded before the wait, and nobody returns.
        assert "global." not in before.replace("cvta.to.global.", "")
        assert "ret;" not in before
        # No ticket, no fence; one block decides.
        assert not re.search(r"\b(atom|red|membar|fence)\b", after), name
        assert ("cudaGraphSetConditional" in text) == name.endswith(ENDING)
    assert link.link(list(dict.fromkeys(texts.values())), (9, 0), device_runtime=link.device_runtime_path() is not None)
