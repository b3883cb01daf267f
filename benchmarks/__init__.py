"""Measurements, one file a question: ``python -m benchmarks.run``. Each checks the answers before it times anything."""
