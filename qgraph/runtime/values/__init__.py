"""Arguments and results as values: array views, aliases, numbers of the host, deferred errors."""
