"""Program -> GraphPlan -> code: dependencies, task sources, and Numba as the compiler of bodies."""
