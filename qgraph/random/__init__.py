"""Random numbers out of a seed and counters: the same in kernels, on every backend, and in plain Python.

The words are pure functions, ``operations/random_numbers.py``; what they compute is ``operations/philox.py``. A ``Generator``
is an argument of kernels that is another seed in each call.
"""

from qgraph.operations.random_numbers import exponential, integers, normal, uniform
from qgraph.random.generator import Generator

__all__ = ["Generator", "exponential", "integers", "normal", "uniform"]
