"""``kernel.check``: runs a kernel on copies of its arguments and tells races, bounds and unwritten reads.

``checker.py`` is the whole of it: the instrumented program (``lowering/instrumentation``) runs once in order on one thread;
what shadow memory found becomes errors in ``findings.py``. Where nothing was found it runs again in other orders of
iterations, and ``orders.py`` compares. Read when a kernel is first checked: it needs compilers.
"""
