"""One record for each operation that bodies have: operators, functions of numbers, words of the language, intrinsics.

A record (``record.Operation``) says how Python spells the operation, how it is typed and which code it has, and what each
analysis asks: whether it is pure, elementwise, what it makes of integers. What an analysis knows of a function, it asks here.
Lowering's rules and emitters are named, and looked up when Numba is imported: a warm start does without.

To add a function of numbers: a record in ``functions.py``, and a rule in ``lowering/number_types/typing_rules.py`` or code in
``number_llvm.py`` where none there does.
"""
