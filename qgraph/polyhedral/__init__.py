"""Symbolic integers and sets of them: the questions that dependence tests ask, answered at once or by isl."""
