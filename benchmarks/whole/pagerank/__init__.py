"""PageRank by power iteration on a random sparse graph, until the ranks stop changing."""
