"""``kernel.explain``: the record is ``explanation.py``, what it is made of ``explainer.py`` asks the passes that made the plan.

Bytes and operations are counted in the code of loops by ``lowering/graph/traffic.py``; ``launch_notes.py`` tells the grids.
"""
