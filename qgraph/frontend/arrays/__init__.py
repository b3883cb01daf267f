"""Views, assignments and array statements."""
