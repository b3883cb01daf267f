"""Instrumentation: a Program whose bodies call words at each access to array elements.

``rewrite.py`` goes through tasks and the functions that they call; ``body_statements.py`` and ``body_expressions.py`` find the
accesses in their bodies, and put calls of words in their place;
``accesses.py`` says what a word is asked and called with; ``kinds.py`` tells arrays from numbers. Order, short circuits, single
evaluation, line numbers and the types of numbers stay what they were. Later passes see calls that they leave alone.

``race_checks.py`` are the words of ``kernel.check``, ``shadow_memory.py`` the code that they run.
"""
