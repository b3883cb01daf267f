"""``qgraph.watch``: what device loops tell by ``qgraph.progress``, while they run.

A call under a watch runs a kernel of its own, whose tasks write rows to a ring (``operations/progress_ring.py``) that the host
can read at any time; the kernel without a watch has no such statements. ``rings.py`` is the memory and who reads it,
``watched_kernel.py`` that kernel, ``display.py`` what is shown meanwhile, ``watch.py`` the word itself.
"""
