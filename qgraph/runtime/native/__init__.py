"""Machine code through llvmlite: identity guards of arguments, launches and node updates in one call without Python in between.

Each has a Python way with the same answer, which runs where no compiler is loaded. ``machine_code.py`` makes functions of
LLVM text.
"""
