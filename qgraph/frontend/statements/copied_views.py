"""Arrays that share their elements with another one in NumPy, and are copies here, such as `t = np.reshape(x, (2, 3))`.

Nobody can tell as long as neither changes. Where the other one does, names of the copy have no meaning any more, which is told
where they are read; a statement that writes the copy is refused, and so is a loop or branch that reads it and writes the other
one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Binding, LeafRef, Poisoned, StructRef, ViewRef
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.ir.program import HOST, Branch, Loop, Statement, effects_of
from qgraph.source import nodes_of

_HINT = "copy the elements where it is made, np.copy(...), as NumPy does then, too"
# Of these one statement of a plan may read after it has written.
_COMPOUND = (ast.For, ast.While, ast.If, ast.Match)


def refuse_changed_copies(unit: ProgramBuilder, scope: Scope, node: ast.stmt, statements: Sequence[Statement]) -> None:
    """Look at ``statements``, which were added last, for ``node``; names of copies that are none any more lose their meaning.

    Raises:
        KernelSyntaxError: one writes a copy, or reads it when the other array may have changed in ``node``.
    """
    gone: dict[str, str] = {}
    for statement in statements:
        effects = effects_of(statement)
        writes = effects.writes | ({*unit.copies.values()} if HOST in effects.writes else set())
        changed = {each: written for written in writes for each in _copies_of(unit, written)}
        # The next iteration of a loop sees what this one has written. In a branch, names have lost their meaning in time.
        in_any_order = isinstance(statement, Loop) or (_reads_late(scope, node, changed) and not isinstance(statement, Branch))
        for each, other in (gone | changed if in_any_order else gone).items():
            if each in effects.reads and each not in writes:
                shared = f"`{unit.leaves[each].path}` shares its elements with `{unit.leaves[other].path}` in NumPy"
                raise KernelSyntaxError(
                    f"{shared}, and is a copy here: this statement reads it, and changes the other array",
                    scope.span(node),
                    hint=_HINT,
                )
        gone |= changed
        if isinstance(statement, (Loop, Branch)):
            # Looked at when their bodies were laid out.
            continue
        for written in writes:
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


def _reads_late(scope: Scope, node: ast.stmt, copies: Iterable[str]) -> bool:
    """Whether a task of ``node`` may read one of ``copies`` after it has written something; most statements read first."""
    if not isinstance(node, ast.Assign):
        return isinstance(node, _COMPOUND)
    several = len(node.targets) > 1 or isinstance(node.targets[0], (ast.Tuple, ast.List))
    names = {each.id for target in node.targets for each in nodes_of(target) if isinstance(each, ast.Name)}
    return several and any(_is_of(scope.names[name], copy) for name in names & scope.names.keys() for copy in copies)


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
