"""Python's and NumPy's numbers: typing and LLVM code of operations.

``type_promotion.py`` decides float32 or float64: NumPy 2's promotion with weak Python numbers; ``typing_contexts.py`` brings it
into Numba's typing and target contexts. ``typing_rules.py`` and ``rounding_rules.py`` have the rules that records of
``qgraph.operations`` name, ``number_llvm.py`` and ``function_llvm.py`` their code.
"""
