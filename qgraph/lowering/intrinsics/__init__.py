"""Typing and LLVM code of operations and intrinsics.

``type_promotion.py`` decides float32 or float64: NumPy 2's promotion with weak Python numbers, as mixins of Numba's contexts.
``typing_rules.py`` has the rules that records of ``qgraph.operations`` name, ``number_llvm.py`` their code. The others are
intrinsics by subject: atomics, checked arithmetic, shuffles, the while condition and its counters, addressing of array
elements.
"""
