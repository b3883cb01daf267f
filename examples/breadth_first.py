"""Breadth-first search, one level at a time: the device decides whether there is another level.

python -m examples.breadth_first
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import qgraph


class Neighbours(NamedTuple):
    """The edges of a graph: those out of node ``i`` lead to ``node[start[i]:start[i + 1]]``."""

    start: Any
    node: Any


@qgraph.kernel
def breadth_first(edges, source, distance):
    """The least number of edges from ``source`` to each node into ``distance`` (integers), -1 where there is no way.

    Returns the largest distance, and how many nodes were reached.
    """
    seen = qgraph.zeros(distance.shape[0], np.bool_)
    distance[:] = -1
    distance[source] = 0
    level = 0
    reached = found = 1
    while found > 0:
        # Parallel: whoever sees a node writes the same, and nobody reads it in this loop.
        for i in range(distance.shape[0]):
            if distance[i] == level:
                for k in range(edges.start[i], edges.start[i + 1]):
                    seen[edges.node[k]] = True
        found = 0
        for i in range(distance.shape[0]):
            if seen[i] and distance[i] == -1:
                distance[i] = level + 1
                found += 1
        if found > 0:
            level += 1
            reached += found
    return level, reached


def edges_of(graph: Any) -> Neighbours:
    """The edges of a networkx graph, its nodes in their order; an undirected edge leads both ways."""
    import networkx

    matrix = networkx.to_scipy_sparse_array(graph, format="csr", weight=None)
    return Neighbours(matrix.indptr, matrix.indices)


def main() -> None:
    """How far is everybody in Les Misérables from Valjean?"""
    import networkx

    graph = networkx.les_miserables_graph()
    edges = Neighbours(*(qgraph.asarray(part) for part in edges_of(graph)))
    distance = qgraph.asarray(np.zeros(len(graph), np.int64))
    levels, reached = breadth_first(edges, list(graph).index("Valjean"), distance)
    print(f"breadth-first: {reached} persons within {levels} steps of Valjean, path {breadth_first.last_launch.path}")


if __name__ == "__main__":
    main()
