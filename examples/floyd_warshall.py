"""All shortest paths of a graph, by Floyd and Warshall.

python -m examples.floyd_warshall
"""

from __future__ import annotations

import numpy as np

import qgraph


@qgraph.kernel
def floyd_warshall(d, before):
    """Shortest paths between all pairs, in place; there must be no cycle of negative length.

    ``d`` (n, n) holds the length of each edge, ``inf`` where there is none and 0 on the diagonal, and gets the length of the
    shortest path; ``before`` (n, n; integers) gets the node before the last on it, -1 where there is no path.
    """
    n = d.shape[0]
    for i, j in qgraph.ndrange(n, n):
        before[i, j] = i if i != j and d[i, j] < np.inf else -1
    for k in qgraph.serial(range(n)):
        # Parallel: what others read, row k and column k, nobody changes in this step, since d[k, k] is 0.
        for i, j in qgraph.parallel(qgraph.ndrange(n, n)):
            through = d[i, k] + d[k, j]
            if through < d[i, j]:
                d[i, j] = through
                before[i, j] = before[k, j]


def lengths(edges: np.ndarray) -> np.ndarray:
    """``edges`` (n, n) with 0 for no edge, as the first ``d``."""
    d = np.where(edges != 0, edges, np.inf)
    np.fill_diagonal(d, 0.0)
    return d


def main() -> None:
    """A ring road with shortcuts."""
    n = 200
    rng = np.random.default_rng(1)
    edges = np.zeros((n, n))
    edges[np.arange(n), (np.arange(n) + 1) % n] = 1.0
    edges[rng.integers(0, n, n), rng.integers(0, n, n)] = rng.uniform(1, 20, n)
    d = qgraph.asarray(lengths(edges))
    floyd_warshall(d, qgraph.asarray(np.zeros((n, n), np.int64)))
    longest = qgraph.to_numpy(d).max()
    path = floyd_warshall.last_launch.path
    print(f"Floyd-Warshall: {n} nodes, the longest of the shortest paths is {longest:.2f}, path {path}")


if __name__ == "__main__":
    main()
