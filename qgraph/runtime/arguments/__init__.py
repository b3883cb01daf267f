"""Arguments of a call: arrays of every library, their guards, their copies, their streams.

``flatten.py`` takes arguments apart into leaves and types, ``array_adapters.py`` an array of any library (NumPy, PyTorch,
CuPy, DLPack, the CUDA array interface). Later calls go through guards, generated straight-line code (``guards.py``): a
``repeater`` knows the very arguments of a call, arrays by identity and by what their library lets change of them
(``watch_of``), numbers by value, and runs it again; a ``reader`` knows their types, and reads where the elements are.
"""
