"""Thousands of small contact problems at once, each by Newton's method with a line search, until all have converged."""
