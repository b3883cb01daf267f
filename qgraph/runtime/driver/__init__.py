"""The CUDA driver: contexts, streams, memory."""
