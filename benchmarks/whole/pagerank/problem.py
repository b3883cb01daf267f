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

    @property
    def traffic(self) -> None:
        """None: it depends on the number of iterations, for which `traffic_of` has it."""
        return

    @property
    def operations(self) -> None:
        """None: they depend on the number of iterations, for which `operations_of` has them."""
        return

    def traffic_of(self, iterations: int) -> int:
        """Bytes that one call must move: each sweep reads and writes an element of an array once.

        The first sweep of an iteration reads ``inverse``, and the ranks where it is 0; the second one everything, and writes
        ranks. Ranks are also filled at first and copied at the end.
        """
        n = self.nodes
        return 4 * (3 * n + iterations * (n + self._stuck + 4 * n + 1 + len(self.links.source)))

    def operations_of(self, iterations: int) -> int:
        """Additions and multiplications of one call, as in_qgraph.py has them, but for those of single numbers.

        An iteration has 2 a link, 5 a node, and 1 for a node without links out.
        """
        return iterations * (2 * len(self.links.source) + 5 * self.nodes + self._stuck)

    @property
    def _stuck(self) -> int:
        return int((self.links.inverse == 0.0).sum())

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
