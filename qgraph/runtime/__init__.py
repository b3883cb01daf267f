"""Arguments, memory, streams, and the executors that run compiled plans."""
