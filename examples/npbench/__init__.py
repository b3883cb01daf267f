"""The programs of NPBench (Ziogas et al., ICS 2021) as kernels: the same algorithms in words of our own, at small sizes."""
