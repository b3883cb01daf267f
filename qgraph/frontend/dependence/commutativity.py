"""Commutativity: which updates of one element may be done in any order."""

from __future__ import annotations

from qgraph.frontend.facts.loop_facts import Access
from qgraph.operations.combinations import BY_SYMBOL, Combination


def order_unseen(first: Access, second: Access) -> bool:
    """Whether both are atomic updates whose old values nobody takes, in any order to the same effect."""
    unseen = first.kind == second.kind == "atomic" and first.discarded and second.discarded
    return unseen and combination(first) is combination(second) is not None


def combination(access: Access) -> Combination | None:
    """The operation that an update or an author's atomic does; None if its order matters. ``x -= e`` goes with ``x += e``.

    Updates that collide become atomics.
    """
    found = BY_SYMBOL.get(access.operator) if access.kind in ("update", "atomic") else None
    return None if found is None else found[0]


def commute(first: Access, second: Access) -> bool:
    """Whether two accesses to one element are no race: both are atomic, or will be, and their order is free."""
    if first.kind == second.kind == "atomic" and first.operator == second.operator:
        # Whoever writes one that gives the old value, or that stores a new one, asks for no order.
        return True
    return combination(first) is combination(second) is not None
