"""All shortest paths against SciPy, and the paths themselves against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse.csgraph

from examples.floyd_warshall import floyd_warshall, lengths


def solved(run, edges):
    d, before = lengths(edges), np.full(edges.shape, 77)
    run(floyd_warshall, d, before)
    return d, before


def test_a_weighted_directed_graph(run):
    n = run.size(24, 8)
    rng = np.random.default_rng(1)
    edges = np.where(rng.random((n, n)) < 3 / n, rng.uniform(1, 10, (n, n)), 0)
    np.fill_diagonal(edges, 0)
    d, before = solved(run, edges)
    expected, predecessors = scipy.sparse.csgraph.floyd_warshall(edges, return_predecessors=True)
    assert np.isinf(expected).any()
    np.testing.assert_allclose(d, expected, rtol=1e-12)
    np.testing.assert_array_equal(before, np.where(predecessors < 0, -1, predecessors))


def test_negative_lengths(run):
    edges = np.array([[0, 4, 0, 5], [0, 0, -3, 0], [0, 0, 0, 1.5], [0, 0, 6, 0]])
    d, _ = solved(run, edges)
    np.testing.assert_array_equal(d, scipy.sparse.csgraph.johnson(edges))


def test_the_paths_of_florentine_families(run):
    graph = nx.florentine_families_graph()
    d, before = solved(run, nx.to_numpy_array(graph))
    nodes = list(graph)
    expected = nx.floyd_warshall_numpy(graph)
    np.testing.assert_array_equal(d, expected)
    for i in range(len(nodes)):
        for j in range(len(nodes)):
            path = [j]
            while before[i, path[-1]] >= 0:
                path.append(before[i, path[-1]])
            assert len(path) - 1 == d[i, j]
            assert nx.is_path(graph, [nodes[k] for k in path])
