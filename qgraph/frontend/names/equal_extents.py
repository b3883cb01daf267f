"""Which loops go over one range: the same numbers, or numbers that a check of the host finds to be equal before each launch."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.program import Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import load, names_in, parsed, with_names
from qgraph.polyhedral.symbolic_integers import Poly, Symbol, symbols_of
from qgraph.source import copied


class EqualExtents:
    """The numbers of the host as symbolic integers, in which symbols that a check makes known are replaced."""

    def __init__(self, unit: ProgramBuilder) -> None:
        self._sources = {value.name: value.source for value in unit.host_values}
        self._integers = unit.host_integers
        # What each of some symbols is, in others.
        self._known: dict[Symbol, Poly] = {}
        for value in unit.host_values:
            # What is checked where some condition holds has that around it.
            match parsed(value.source) if value.check in ("length", "shape") else None:
                case ast.Compare(left, [ast.Eq()], [right]):
                    one, other = self._settled(left), self._settled(right)
                    if not self._learn(one, other):
                        self._learn(other, one)

    def of(self, task: Task) -> list[Poly | str]:
        """The axes of a loop, in a form that is equal for ranges that are."""
        return [self.bound(task, part) for axis in task.axes for part in (axis.start, axis.step, axis.count)]

    def constant(self, bound: ast.expr) -> ast.expr:
        """``bound`` with numbers of the host that are constants."""
        known = {name: parsed(self._sources[name]) for name in names_in(bound) & self._sources.keys()}
        return with_names(copied(bound), {name: each for name, each in known.items() if constant_of(each) is not None})

    def bound(self, task: Task, part: ast.expr) -> Poly | str:
        """A bound of a loop of ``task``, or inside of it, in a form that is equal for numbers that are."""
        # Names that only the task gives a meaning.
        scalars: Mapping[str, Slot] = dict(task.scalars)
        named = {name: f"object {id(task.names[name])}" for name in names_in(part) if name in task.names}
        slots = {name: f"slot {scalars[name].index}" for name in names_in(part) - named.keys() if name in scalars}
        if not named and not slots:
            return self._settled(part)
        return ast.unparse(with_names(copied(part), {name: load(text) for name, text in (named | slots).items()}))

    def _settled(self, number: ast.expr) -> Poly:
        return self._integers.of(number).substitute(self._known)

    def _learn(self, one: Poly, other: Poly) -> bool:
        """Take ``one`` for ``other`` from now on, if it is a symbol that can be replaced."""
        match one.terms:
            case (((symbol,), 1),) if symbol not in symbols_of([other]):
                before = {name: number.substitute({symbol: other}) for name, number in self._known.items()}
                self._known = {**before, symbol: other}
                return True
        return False
