"""Dependence tests: which elements accesses reach, and whether two of them may, or surely do, reach the same one."""
