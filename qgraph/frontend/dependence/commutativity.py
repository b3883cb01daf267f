"""Which accesses to one element may be done in any order."""

from __future__ import annotations

from qgraph.frontend.facts.loop_facts import Access

# Updates in one group may be done in any order: they become atomics where they collide, and are no race.
_GROUPS = {"+": "add", "-": "add", "&": "and", "|": "or", "^": "xor", "min": "min", "max": "max"}


def order_unseen(first: Access, second: Access) -> bool:
    """Whether both are atomic updates whose old values nobody takes, in any order to the same effect."""
    unseen = first.kind == second.kind == "atomic" and first.discarded and second.discarded
    return unseen and atomic_group(first) == atomic_group(second) in _GROUPS.values()


def group(access: Access) -> str:
    """The kind of combination that an update does; "" if its order matters."""
    return _GROUPS.get(access.operator, "") if access.kind == "update" else ""


def commute(first: Access, second: Access) -> bool:
    """Whether two accesses to one element are no race: both are atomic, or will be, and their order is free."""
    if first.kind == second.kind == "atomic":
        return True
    groups = {atomic_group(access) if access.kind == "atomic" else group(access) for access in (first, second)}
    return len(groups) == 1 and "" not in groups


def atomic_group(access: Access) -> str:
    """The group of an atomic that the author wrote: ``atomic_sub`` goes with ``+=``, ``atomic_or_`` with ``|=``."""
    return access.operator.rstrip("_").replace("sub", "add")
