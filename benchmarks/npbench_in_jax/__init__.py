"""The programs of ``examples.npbench`` as they are written in JAX: ``linear_algebra``, ``grids`` and ``data`` register them."""
