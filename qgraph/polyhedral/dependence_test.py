"""The dependence test: a cheap look, what was answered before, and then isl."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar

from qgraph.polyhedral.questions import Answer, Question
from qgraph.polyhedral.quick_tests import cheap_answer

# What was answered already, by ``Question.key``; whoever builds a program says where that is kept.
Answers = MutableMapping[str, Answer]
_KNOWN: ContextVar[Answers] = ContextVar("answers of dependence tests")


@contextmanager
def remembering(answers: Answers) -> Iterator[None]:
    """What is answered meanwhile is looked up in ``answers`` first, and noted there."""
    token = _KNOWN.set(answers)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def answer_to(question: Question) -> Answer:
    """What is known of two accesses in two iterations."""
    found = cheap_answer(question)
    if found is not None:
        return found
    known = _KNOWN.get({})
    key = question.key()
    found = known.get(key)
    if found is None:
        # 40 ms, and only now needed.
        from qgraph.polyhedral.isl_sets import answer

        found = known[key] = answer(question)
    return found
