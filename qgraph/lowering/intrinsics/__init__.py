"""Typing and LLVM code of intrinsics, by subject.

Atomics, checked arithmetic, shuffles, the while condition and its counters, the poll of CPU loops, addressing of elements.
"""
