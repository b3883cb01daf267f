"""One function laid out at kernel level: which of its names are kernel scalars, where they live, and what it returns."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from qgraph.frontend.names.bindings import Binding, Poisoned, ScalarRef
from qgraph.frontend.names.definite_assignment import name_read, needed_before, preorder
from qgraph.frontend.names.program_builder import ADDED, ProgramBuilder
from qgraph.ir.slots import Slot
from qgraph.ir.trees import stored
from qgraph.records import dataclass
from qgraph.source import children_of, nodes_of, standing_for

__all__ = ["ADDED", "Frame", "Structure", "occurrences"]

_COMPOUND = (ast.For, ast.While, ast.If, ast.Match)
# Nodes that may read a name.
_READ = (ast.Name, ast.AugAssign)


@dataclass(frozen=True, slots=True)
class Structure:
    """What a function returns: the name that holds a number, or ``cls`` of parts."""

    name: str = ""
    cls: type | None = None
    parts: tuple[Structure, ...] = ()

    def names(self) -> Iterable[str]:
        """The names of all numbers in it, in order."""
        if self.name:
            yield self.name
        for part in self.parts:
            yield from part.names()

    def difference(self, other: Structure) -> tuple[str, str] | None:
        """What the two are where they are of different classes or numbers of parts; what has a name may be anything."""
        if self.cls is None or other.cls is None:
            return None
        if self.cls is not other.cls or len(self.parts) != len(other.parts):
            return f"a {self.cls.__name__} of {len(self.parts)}", f"a {other.cls.__name__} of {len(other.parts)}"
        found = (mine.difference(part) for mine, part in zip(self.parts, other.parts, strict=True))
        return next((each for each in found if each is not None), None)

    def renamed(self, name: str) -> Structure:
        """The same structure with names that start with ``name``."""
        if self.name:
            return Structure(name)
        return Structure("", self.cls, tuple(part.renamed(f"{name}{k}") for k, part in enumerate(self.parts)))

    def target(self, value: ast.expr) -> ast.expr:
        """Its names as the target of an assignment of ``value``."""
        if self.name:
            return standing_for(stored(self.name), value)
        return ast.Tuple([part.target(value) for part in self.parts], ast.Store())


class Frame:
    """A kernel, or one call of a func whose statements became the kernel's."""

    def __init__(self, unit: ProgramBuilder, tree: ast.FunctionDef, given: Mapping[str, Binding] | None = None) -> None:
        self.unit = unit
        # What a call of a func binds its parameters to.
        self.given = {} if given is None else dict(given)
        # The values that each name is assigned.
        self.values: dict[str, list[ast.expr]] = {}
        self._scalars: dict[str, ScalarRef] = {}
        # A parameter is assigned by the call.
        self._assignments: Counter[str] = Counter(node.arg for node in nodes_of(tree.args) if isinstance(node, ast.arg))
        self._uses = occurrences(tree.body) + self._assignments
        self._nested: set[str] = set()
        self._names_assigned: set[str] = set()
        self._collect(tree.body, nested=False)
        self._read_elsewhere = _read_outside_their_loops(tree.body)
        self.body = tree.body
        self.returns: Structure | None = None
        # What the first `return` gives each name of that.
        self.returned: dict[str, ast.expr] = {}
        # Arrays that change places, made for names of this function.
        self.selections: set[str] = set()
        # For those made for names of which each was such an array: these arrays.
        self.arranged: dict[frozenset[str], frozenset[str]] = {}

    def _collect(self, statements: Iterable[ast.AST], *, nested: bool) -> None:
        for node in statements:
            if isinstance(node, ast.Assign):
                self._note_values(node.targets[0], node.value)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._assignments[node.id] += 1
                self._names_assigned.add(node.id)
                if nested:
                    self._nested.add(node.id)
            inside = nested or isinstance(node, _COMPOUND)
            self._collect(children_of(node), nested=inside)

    def _note_values(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for part, given in zip(target.elts, value.elts, strict=True):
                self._note_values(part, given)

    def varies(self, name: str) -> bool:
        """Whether ``name`` is assigned in some loop or branch, and elsewhere too: then its value lives on the device."""
        owner = name.partition(ADDED)[0]
        return not owner or (owner in self._nested and self._assignments[owner] > 1)

    def assigned(self, name: str) -> bool:
        """Whether some statement assigns ``name``, besides the call."""
        return name in self._names_assigned

    def assigned_once(self, name: str) -> bool:
        """Whether one statement alone assigns ``name``."""
        return self._assignments[name] == 1

    def assigned_nested(self, name: str) -> bool:
        """Whether a loop or a branch assigns ``name``."""
        return name in self._nested

    def assigned_at_top(self, name: str) -> bool:
        """Whether statements of the function that stand in no loop or branch alone assign ``name``."""
        owner = name.partition(ADDED)[0]
        return bool(owner) and owner not in self._nested

    def outlives(self, name: str) -> bool:
        """Whether the loop variable ``name`` may be live after its loop: it is read outside of loops that assign it."""
        return name in self._read_elsewhere

    def live_after(self, name: str, node: ast.stmt) -> bool:
        """Whether something may read what ``name`` means behind ``node``: in a loop around, that is any line of the loop."""
        start, end = node.lineno, node.end_lineno or node.lineno
        around = [each for each in self.body if each.lineno < start and end <= (each.end_lineno or 0)]
        reads = (child.lineno for child in preorder(around) if name_read(child) == name and isinstance(child, _READ))
        if any(not start <= line <= end for line in reads):
            return True
        return name in needed_before([each for each in self.body if each.lineno > end], [name])

    def needed_after(self, name: str, node: ast.stmt) -> bool:
        """Whether something may read what ``name`` means behind ``node`` before it is assigned anew."""
        start, end = node.lineno, node.end_lineno or node.lineno
        block: Sequence[ast.stmt] = self.body
        while block:
            behind = [each for each in block if each.lineno > end]
            around = next((each for each in block if each.lineno < start and end <= (each.end_lineno or 0)), None)
            if isinstance(around, ast.For | ast.While):
                again = [ast.Expr(around.iter if isinstance(around, ast.For) else around.test), *around.body]
                if name in needed_before(again, [name]) or name in needed_before(around.orelse, [name]):
                    return True
            if name in needed_before(behind, [name]):
                return True
            blocks = [] if around is None else _blocks(around)
            block = next((each for each in blocks if each[0].lineno <= start and end <= (each[-1].end_lineno or 0)), ())
        return False

    def is_private(self, name: str, node: ast.AST) -> bool:
        """Whether ``name``, no parameter, is used nowhere but in the statement ``node``: nobody else sees its value."""
        return not name.startswith(ADDED) and occurrences([node])[name] == self._uses[name]

    def result(self, name: str, bound: Binding | None) -> Binding | None:
        """What the result ``name`` is at the function's end: each path has assigned it, so it is a scalar if it is a number."""
        return self.scalar(name) if isinstance(bound, Poisoned) and bound.number else bound

    def returned_as(self, name: str) -> ast.expr | None:
        """What the first `return` gives the result ``name``, or that of which it is a part."""
        while name and name not in self.returned:
            name = name[:-1]
        return self.returned.get(name)

    def name_of(self, slot: Slot) -> str:
        """The name whose numbers are in ``slot``; "" where it is none of this function."""
        return next((name for name, ref in self._scalars.items() if ref.slot is slot), "")

    def scalar(self, name: str) -> ScalarRef:
        """The kernel scalar ``name``: one slot, whatever the number of assignments."""
        if name not in self._scalars:
            slot = self.unit.scalar(name)
            self._scalars[name] = ScalarRef(slot.name, slot)
        return self._scalars[name]


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statements in a loop or branch, apart where one of them alone runs, or one after another."""
    cases = statement.cases if isinstance(statement, ast.Match) else ()
    found = [getattr(statement, "body", []), getattr(statement, "orelse", []), *(case.body for case in cases)]
    return [block for block in found if block]


def _read_outside_their_loops(statements: Iterable[ast.AST], own: frozenset[str] = frozenset()) -> set[str]:
    """The names that are read where no loop around, of which ``own`` are the variables, has them for its variable."""
    found: set[str] = set()
    for node in statements:
        name = name_read(node)
        if name is not None and name not in own:
            found.add(name)
        if isinstance(node, ast.For):
            found |= _read_outside_their_loops((node.iter, *node.orelse), own)
            found |= _read_outside_their_loops(node.body, own.union(occurrences([node.target])))
        else:
            found |= _read_outside_their_loops(children_of(node), own)
    return found


def occurrences(statements: Iterable[ast.AST]) -> Counter[str]:
    """How often each name is read or written under ``statements``."""
    return Counter(child.id for node in statements for child in nodes_of(node) if isinstance(child, ast.Name))
