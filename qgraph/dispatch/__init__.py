"""From the arguments of a call to what runs: which variant and specialisation of a kernel they mean, kept and found again.

``variant`` is a kernel for argument types, a backend and a device; ``specialisation`` that for one alias pattern, with what
``executables`` builds for it. ``specialisation_cache`` keeps both for a kernel, with the guards of arguments whose types were
seen, and lets go of the oldest. ``dispatch_cache`` finds a repeated call by the identity of its arguments, and launches it;
``bound_kernel`` holds arguments, and launches with nothing looked at. Start with ``Kernel.__call__``, which asks them in turn.

Invariants: where a guard fails nothing has run; no cache keeps an array alive; what a kernel forgets, its next call finds anew.
"""
