"""What is ranked, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

TITLE = "PageRank, CSR"
DAMPING = 0.85


class Links(NamedTuple):
    """The links into each node, and 1 over the number of links out of each (0 where there are none, such nodes link to all).

    Node ``i`` is linked from ``source[k]`` for ``k`` in ``start[i]`` to ``start[i + 1]``; 32 bits each.
    """

    start: Any
    source: Any
    inverse: Any


@dataclass(frozen=True)
class Problem:
    """A random graph of ``nodes`` nodes with about ``degree`` links into each, nine in ten of them from nodes close by.

    The iteration ends when the ranks change by no more than ``tolerance`` in sum, or after ``limit`` iterations.
    """

    nodes: int
    degree: int
    tolerance: float = 1e-5
    limit: int = 1000

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.nodes:,} nodes, {len(self.links.source):,} links"

    @functools.cached_property
    def links(self) -> Links:
        """The graph."""
        rng = np.random.default_rng(3)
        counts = rng.integers(self.degree // 2, self.degree * 3 // 2 + 1, self.nodes)
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        target = np.repeat(np.arange(self.nodes), counts)
        source = (target + rng.integers(-32, 33, len(target))) % self.nodes
        far = rng.random(len(target)) < 0.1
        source[far] = rng.integers(0, self.nodes, far.sum())
        # One node in twenty links to none.
        stuck = source % 20 == 7
        source[stuck] = (source[stuck] + 1) % self.nodes
        out = np.bincount(source, minlength=self.nodes)
        inverse = np.divide(1.0, out, where=out > 0, out=np.zeros(self.nodes))
        return Links(start, source.astype(np.int32), inverse.astype(np.float32))

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if the ranks or the number of iterations are wrong: against float64."""
        wanted, iterations = pagerank(self)
        # Two float32 answers may each stop an iteration away.
        error = (np.abs(found["rank"] - wanted) / wanted).max()
        if not error <= 1e-3:
            raise AssertionError(f"a rank is off by a share {error:.1e}")
        if abs(found["iterations"] - iterations) > 2:
            raise AssertionError(f"{found['iterations']} iterations, not {iterations}")


@functools.lru_cache(maxsize=1)
def pagerank(problem: Problem) -> tuple[np.ndarray[Any, Any], int]:
    """Ranks and iterations, in float64."""
    links, n = problem.links, problem.nodes
    target = np.repeat(np.arange(n), np.diff(links.start))
    inverse = links.inverse.astype(float)
    rank = np.full(n, 1.0 / n)
    iterations, change = 0, np.inf
    while change > problem.tolerance and iterations < problem.limit:
        arriving = np.bincount(target, weights=(rank * inverse)[links.source], minlength=n)
        new = DAMPING * (arriving + rank[inverse == 0.0].sum() / n) + (1.0 - DAMPING) / n
        change = np.abs(new - rank).sum()
        rank = new
        iterations += 1
    return rank, iterations


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(2000, 8),)
    return Problem(2**14, 16), Problem(2**17, 16), Problem(2**20, 16)
