"""Answers that need no library: most accesses of most loops are told apart, or left open, by looking at their indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qgraph.polyhedral.questions import APART, UNDECIDED, Answer, Question, Reach, Variable
from qgraph.polyhedral.symbolic_integers import FALSE, Poly, Symbol


def cheap_answer(question: Question) -> Answer | None:
    """The answer where it is plain; None where it has to be computed."""
    first, second = question.first, question.second
    if FALSE in (first.when, second.when) or (question.axes and _at_most_one(question.axes)):
        return APART
    if first.indices is None or second.indices is None or len(first.indices) != len(second.indices):
        return UNDECIDED
    pairs = list(zip(first.indices, second.indices, strict=True))
    plain = _plain(first, second)
    if any(not one.varies and (one - other).constant for one, other in plain) or _pinned(question.axes, plain):
        return APART
    unsure = first.when.partly_known or second.when.partly_known or None in first.indices or None in second.indices
    # No dimension can tell iterations apart: in each, an index is unknown or both are the same number.
    says_nothing = all(one is None or other is None or (one == other and not one.varies) for one, other in pairs)
    return UNDECIDED if unsure and says_nothing else None


def one_iteration_each(axes: Sequence[Variable], reach: Reach) -> bool:
    """Whether these indices alone say that no two iterations reach one element, by this access or another one with them."""
    return reach.indices is not None and _pinned(axes, _plain(reach, reach))


def _plain(first: Reach, second: Reach) -> list[tuple[Poly, Poly]]:
    """The indices of both in each dimension where they are known, and do not count from the end."""
    assert first.indices is not None
    assert second.indices is not None
    return [
        (one, other)
        for one, other, *wraps in zip(first.indices, second.indices, first.wraps, second.wraps, strict=True)
        if one is not None and other is not None and not any(wraps)
    ]


def _at_most_one(axes: tuple[Variable, ...]) -> bool:
    """Whether the ranges are known and have fewer than two iterations in all."""
    lengths = [_length(axis) for axis in axes]
    return 0 in lengths or all(length == 1 for length in lengths)


def _length(axis: Variable) -> int | None:
    step = axis.step.constant
    extent = (axis.stop - axis.start).constant if axis.stop is not None and axis.start is not None else None
    return max(0, -(-extent // step)) if step and extent is not None else None


def _pinned(axes: Sequence[Variable], pairs: Iterable[tuple[Poly, Poly]]) -> bool:
    """Whether each axis is, times a number, an index on both sides: then one element is one iteration."""
    left = {axis.symbol for axis in axes if _length(axis) != 1}
    for one, other in pairs:
        varying = [symbol for symbol in one.symbols if symbol.varies]
        if one == other and len(varying) == 1 and _is_linear(one, varying[0]):
            left.discard(varying[0])
    return bool(axes) and not left


def _is_linear(index: Poly, symbol: Symbol) -> bool:
    return (
        symbol.kind == "variable"
        and dict(index.terms).get((symbol,), 0) != 0
        and all(symbol not in monomial or monomial == (symbol,) for monomial, _ in index.terms)
    )
