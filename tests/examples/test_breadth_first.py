"""Breadth-first search against networkx, on the graphs that it ships."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from examples.breadth_first import breadth_first, edges_of

GRAPHS = [
    nx.karate_club_graph,
    nx.davis_southern_women_graph,
    nx.florentine_families_graph,
    nx.les_miserables_graph,
    lambda: nx.path_graph(9),
    lambda: nx.gn_graph(25, seed=3),
    lambda: nx.disjoint_union(nx.cycle_graph(5), nx.complete_graph(4)),
    lambda: nx.empty_graph(3),
]


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("which", [0, -1])
def test_distances(run, make, which):
    graph = make()
    nodes = list(graph)
    source = range(len(nodes))[which]
    distance = np.full(len(nodes), 77)
    levels, reached = run(breadth_first, edges_of(graph), source, distance)
    expected = nx.single_source_shortest_path_length(graph, nodes[source])
    assert distance.tolist() == [expected.get(node, -1) for node in nodes]
    assert levels == max(expected.values())
    assert reached == len(expected)
