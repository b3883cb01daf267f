"""Statements that are rewritten into simpler ones: break and continue, match, choices between tuples."""
