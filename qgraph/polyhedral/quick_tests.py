"""Answers that need no library: most accesses of most loops are told apart, or left open, by looking at their indices."""

from __future__ import annotations

from qgraph.polyhedral.questions import APART, UNDECIDED, Answer, Question, Reach, Variable
from qgraph.polyhedral.symbolic_integers import FALSE, Poly, Symbol


def cheap_answer(question: Question) -> Answer | None:
    """The answer where it is plain; None where it has to be computed."""
    first, second = question.first, question.second
    if FALSE in (first.when, second.when) or (question.axes and _at_most_one(question.axes)):
        return APART
    if first.indices is None or second.indices is None or len(first.indices) != len(second.indices):
        return UNDECIDED
    if _constants_differ(question) or _pinned(question):
        return APART
    unsure = first.when.partly_known or second.when.partly_known or None in first.indices or None in second.indices
    return UNDECIDED if unsure and _says_nothing(question) else None


def _at_most_one(axes: tuple[Variable, ...]) -> bool:
    """Whether the ranges are known and have fewer than two iterations in all."""
    lengths = [_length(axis) for axis in axes]
    return 0 in lengths or all(length == 1 for length in lengths)


def _length(axis: Variable) -> int | None:
    step = axis.step.constant
    extent = (axis.stop - axis.start).constant if axis.stop is not None and axis.start is not None else None
    return max(0, -(-extent // step)) if step and extent is not None else None


def _plain(reach: Reach, at: int) -> Poly | None:
    """An index that is known, and does not count from the end."""
    assert reach.indices is not None
    return None if reach.wraps[at] else reach.indices[at]


def _constants_differ(question: Question) -> bool:
    for at in range(len(question.sizes)):
        one, other = _plain(question.first, at), _plain(question.second, at)
        if one is not None and other is not None and not one.varies and (one - other).constant:
            return True
    return False


def _pinned(question: Question) -> bool:
    """Whether each axis is, times a number, an index on both sides: then one element is one iteration."""
    if not question.axes:
        return False
    left = {axis.symbol for axis in question.axes if _length(axis) != 1}
    for at in range(len(question.sizes)):
        one, other = _plain(question.first, at), _plain(question.second, at)
        if one is None or one != other:
            continue
        varying = [symbol for symbol in one.symbols if symbol.varies]
        if len(varying) == 1 and _is_linear(one, varying[0]):
            left.discard(varying[0])
    return not left


def _is_linear(index: Poly, symbol: Symbol) -> bool:
    return (
        symbol.kind == "variable"
        and dict(index.terms).get((symbol,), 0) != 0
        and all(symbol not in monomial or monomial == (symbol,) for monomial, _ in index.terms)
    )


def _says_nothing(question: Question) -> bool:
    """Whether no dimension can tell iterations apart: in each, an index is unknown or both are the same number."""
    first, second = question.first, question.second
    assert first.indices is not None
    assert second.indices is not None
    return all(
        one is None or other is None or (one == other and not one.varies)
        for one, other in zip(first.indices, second.indices, strict=True)
    )
