"""Ranks, dtypes, iteration spaces and what the host can compute of an expression."""
