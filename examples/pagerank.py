"""PageRank by power iteration on a weighted directed graph: it stops where the ranks stop changing.

python -m examples.pagerank
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import qgraph


class Links(NamedTuple):
    """The links into each node: node ``i`` is linked from ``source[k]`` with ``weight[k]``, ``k`` in start[i]:start[i + 1]."""

    start: Any
    source: Any
    weight: Any


@qgraph.kernel
def pagerank(links, out, rank, damping, tolerance, limit):
    """The PageRank of each node into ``rank``; returns iterations and the last change, summed over the nodes.

    ``out`` (as long as ``rank``) gets the weight of all links out of each node. A node without any links to all nodes alike.
    """
    n = rank.shape[0]
    out[:] = 0.0
    for i in range(n):
        for k in range(links.start[i], links.start[i + 1]):
            out[links.source[k]] += links.weight[k]

    old, new = rank, qgraph.empty(n, rank.dtype)
    old[:] = 1.0 / n
    iterations = 0
    change = tolerance + 1.0
    while change > tolerance and iterations < limit:
        stuck = 0.0
        for i in range(n):
            if out[i] == 0.0:
                stuck += old[i]
        change = 0.0
        for i in range(n):
            arriving = 0.0
            for k in range(links.start[i], links.start[i + 1]):
                j = links.source[k]
                arriving += old[j] * links.weight[k] / out[j]
            new[i] = damping * (arriving + stuck / n) + (1.0 - damping) / n
            change += abs(new[i] - old[i])
        old, new = new, old
        iterations += 1
    rank[:] = old
    return iterations, change


def links_of(graph: Any) -> Links:
    """The links of a networkx graph, its nodes in their order; an edge without a ``weight`` weighs 1."""
    import networkx

    matrix = networkx.to_scipy_sparse_array(graph, format="csc", dtype=float)
    return Links(matrix.indptr, matrix.indices, matrix.data)


def main() -> None:
    """Who matters most in Les Misérables?"""
    import networkx

    graph = networkx.les_miserables_graph()
    names = list(graph)
    rank = qgraph.zeros(len(names))
    links = Links(*(qgraph.asarray(part) for part in links_of(graph)))
    iterations, _ = pagerank(links, qgraph.zeros(len(names)), rank, 0.85, 1e-10, 1000)
    best = [names[i] for i in np.argsort(-qgraph.to_numpy(rank))[:3]]
    print(f"PageRank: {', '.join(best)} lead after {iterations} iterations, path {pagerank.last_launch.path}")


if __name__ == "__main__":
    main()
