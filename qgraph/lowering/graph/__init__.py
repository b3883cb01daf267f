"""Nodes and edges of the graph: dependences, memset and memcpy nodes, fusion, joins."""
