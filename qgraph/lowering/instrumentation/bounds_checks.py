"""The words of ``bounds_check=True``: an index out of bounds is noted, and ends the iteration before anything is touched."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from qgraph import language
from qgraph.errors import BoundsError
from qgraph.ir.faults import FAULTS, KEY, UNSPECIFIED, EarlyExits, Fault
from qgraph.ir.functions import Function, TypedFunction
from qgraph.ir.program import SLOTS, Program
from qgraph.lowering.instrumentation.accesses import Access
from qgraph.lowering.instrumentation.check_functions import is_element, word_function
from qgraph.lowering.instrumentation.rewrite import instrument
from qgraph.lowering.number_types.number_llvm import types
from qgraph.operations import intrinsics
from qgraph.records import dataclass

_STATE = (FAULTS, SLOTS, KEY)
_GIVEN = ", ".join(_STATE)
_INSIDE = f"""
place = int(index)
if place < 0:
    place += extent
if place < 0 or place >= extent:
    note({FAULTS}, site + %d, {SLOTS}, %d, %d, {KEY}, int(index), axis, extent)
    raise Left
return place
"""
# By kind: the parameters, and what is done with the element.
_ELEMENTS = {
    "load": ("array, index", "return array[{at}]"),
    "store": ("value, array, index", "array[{at}] = value"),
    "atomic": ("array, index, value", "return atomic(array, {at}, value)"),
    "reduce": ("array, index", "pass"),
}
_CAS = ("array, index, compared, value", "return atomic(array, {at}, compared, value)")


def with_bounds_checks(program: Program) -> Program:
    """``program`` with words at all accesses, and one more fault for each of them."""
    assert program.exits is not None
    made = instrument(program, _BoundsWords(program.exits, len(program.faults) + 1))
    return replace(made.program, faults=(*program.faults, *map(_fault, made.sites)))


def _fault(site: Access) -> Fault:
    place = "axis %d, which has %d elements" if site.axes > 1 else "axis %d of %d elements"
    found = f"the index of `{site.text.replace('%', '%%')}` is out of bounds: %d on {place}"
    return Fault(BoundsError, site.span, found, UNSPECIFIED, details=3, ends=True)


@dataclass(slots=True)
class _BoundsWords:
    """One function a kind of access and type; ``first`` is the number of the first access's fault."""

    exits: EarlyExits
    first: int
    state: tuple[str, ...] = _STATE
    _words: dict[object, object] = field(default_factory=dict)
    _functions: dict[object, Function] = field(default_factory=dict)

    def word(self, access: Access) -> object:
        """The function for an access; None where no index is written."""
        kind, operation = access.kind, access.operation
        if kind == "index":
            return self._function("index, extent", "return inside(index, extent, 0, site, {given})", {})
        if kind not in _ELEMENTS:
            return None
        key = kind, operation
        if key not in self._words:
            self._words[key] = TypedFunction(kind, lambda operands: self._element(kind, operation, operands))
        return self._words[key]

    def _element(self, kind: str, operation: Any, operands: tuple[Any, ...]) -> Function:
        """What an access to one element does; where the types are no array with an index for each axis, nothing is checked."""
        parameters, does = _CAS if operation is language.atomic_cas else _ELEMENTS[kind]
        array, index = operands[1:3] if kind == "store" else operands[:2]
        at = "index"
        if is_element(array, index):
            names = [f"index[{axis}]" for axis in range(array.ndim)] if isinstance(index, types.BaseTuple) else ["index"]
            calls = (f"inside({name}, array.shape[{axis}], {axis}, site, {_GIVEN})" for axis, name in enumerate(names))
            at = f"({''.join(f'{call}, ' for call in calls)})"
        # An index that is evaluated and thrown away is looked at, too.
        does = at if does == "pass" else does.format(at=at)
        return self._function(parameters, does, {"atomic": operation})

    def _function(self, parameters: str, does: str, names: dict[str, object]) -> Function:
        key = parameters, does, names.get("atomic")
        if key not in self._functions:
            body = does.format(given=_GIVEN)
            self._functions[key] = word_function(
                f"word({parameters}, site, {_GIVEN})", body, {"inside": self._inside(), **names}
            )
        return self._functions[key]

    def _inside(self) -> Function:
        if "inside" not in self._functions:
            body = _INSIDE % (self.first, self.exits.failed.index, self.exits.first.index)
            names = {"note": intrinsics.note_least, "Left": intrinsics.Left, "int": int}
            self._functions["inside"] = word_function(f"inside(index, extent, axis, site, {_GIVEN})", body, names)
        return self._functions["inside"]
