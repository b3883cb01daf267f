"""PageRank against networkx, on the graphs that it ships."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from examples.pagerank import links_of, pagerank

GRAPHS = [nx.karate_club_graph, nx.davis_southern_women_graph, nx.florentine_families_graph, nx.les_miserables_graph]


def ranked(run, graph, damping=0.85):
    n = len(graph)
    rank = np.full(n, 77.0)
    tolerance = run.tolerance(1e-12, 1e-5)
    iterations, change = run(pagerank, links_of(graph), np.full(n, 77.0), rank, damping, tolerance, 1000)
    assert change <= tolerance
    return iterations, rank


@pytest.mark.parametrize("make", GRAPHS)
def test_networkx_graphs(run, make):
    graph = make()
    iterations, rank = ranked(run, graph)
    expected = nx.pagerank(graph, tol=1e-14, max_iter=1000)
    np.testing.assert_allclose(rank, [expected[node] for node in graph], rtol=run.tolerance(1e-9, 1e-3))
    assert iterations > 10


@pytest.mark.parametrize("damping", [0.5, 0.85])
def test_a_directed_graph_with_nodes_that_link_to_nobody(run, damping):
    graph = nx.gn_graph(20, seed=1)
    graph.add_node("alone")
    assert any(degree == 0 for _, degree in graph.out_degree)
    _, rank = ranked(run, graph, damping)
    expected = nx.pagerank(graph, alpha=damping, tol=1e-14, max_iter=1000)
    np.testing.assert_allclose(rank, [expected[node] for node in graph], rtol=run.tolerance(1e-9, 1e-3))


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_the_last_ranks_are_handed_over_after_any_number_of_swaps(run, limit):
    graph = nx.les_miserables_graph()
    matrix = nx.to_numpy_array(graph)
    expected = np.full(len(graph), 1 / len(graph))
    for _ in range(limit):
        expected = 0.85 * (matrix / matrix.sum(0)) @ expected + 0.15 / len(graph)
    rank = np.full(len(graph), 77.0)
    iterations, _ = run(pagerank, links_of(graph), rank.copy(), rank, 0.85, 1e-12, limit)
    assert iterations == limit
    np.testing.assert_allclose(rank, expected, rtol=1e-12)
