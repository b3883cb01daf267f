"""Arguments of a call: arrays of every library, their guards, their copies, their streams.

``flatten.py`` takes arguments apart into leaves and types, ``array_adapters.py`` an array of any library (NumPy, PyTorch,
CuPy, DLPack, the CUDA array interface). Later calls with arguments of known types go through a generated straight-line guard
(``guards.py``): arrays by identity, tensors by their attributes, numbers by value.
"""
