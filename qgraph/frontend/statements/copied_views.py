"""Arrays that share their elements with another one in NumPy, and are copies here, such as `t = np.reshape(x, (2, 3))`.

Nobody can tell as long as neither changes. Where the other one does, names of the copy have no meaning any more, which is told
where they are read; a statement that writes the copy is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Binding, LeafRef, Poisoned, StructRef, ViewRef
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.ir.program import HOST, Branch, Loop, Statement, effects_of

_HINT = "copy the elements where it is made, np.copy(...), as NumPy does then, too"


def refuse_changed_copies(unit: ProgramBuilder, scope: Scope, node: ast.stmt, statements: Sequence[Statement]) -> None:
    """Look at ``statements``, which were added last, for ``node``; names of copies that are none any more lose their meaning.

    Raises:
        KernelSyntaxError: one writes a copy.
    """
    for statement in statements:
        if isinstance(statement, (Loop, Branch)):
            # Looked at when their bodies were laid out.
            continue
        writes = effects_of(statement).writes
        for written in writes | ({*unit.copies.values()} if HOST in writes else set()):
            if written in unit.copies and written in unit.filled:
                copy, base = unit.leaves[written], unit.leaves[unit.copies[written]]
                raise KernelSyntaxError(
                    f"this changes `{copy.path}`, which shares its elements with `{base.path}` in NumPy, and is a copy here",
                    scope.span(node),
                    hint=f"change `{base.path}`; or {_HINT}",
                )
            unit.filled.add(written)
            for copy_name in _copies_of(unit, written):
                _forget(unit, scope, node, copy_name, written)


def _copies_of(unit: ProgramBuilder, base: str) -> list[str]:
    # What is written before a copy is made is in it.
    found = [copy for copy, of in unit.copies.items() if copy in unit.filled and unit.may_share(of, base)]
    return [*found, *(further for each in found for further in _copies_of(unit, each))]


def _forget(unit: ProgramBuilder, scope: Scope, node: ast.stmt, copy: str, base: str) -> None:
    path, changed = unit.leaves[copy].path, unit.leaves[base].path
    reason = (
        f"`{path}` shares its elements with `{changed}` in NumPy, and is a copy here: it is read after `{changed}` has changed"
    )
    gone = Poisoned(reason, scope.span(node), f"make it again after the change; or {_HINT}", number=False)
    inside: Scope | None = scope
    while inside is not None:
        for name, bound in inside.names.items():
            if _is_of(bound, copy):
                inside.names[name] = gone
        inside = inside.caller


def _is_of(bound: Binding, leaf: str) -> bool:
    match bound:
        case LeafRef() | ViewRef():
            return bound.leaf.name == leaf
        case StructRef():
            return any(_is_of(child, leaf) for child in bound.children.values())
    return False
