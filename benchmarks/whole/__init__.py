"""Whole programs in qgraph and in its peers: one folder a program, one file a library, ``problem.py`` for what they share."""
