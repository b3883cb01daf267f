"""What is known of the types of kernel scalars before lowering infers them: a new array has the dtype that NumPy gives it."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, MappingProxyType
from typing import Any

import numpy as np

from qgraph.captured_state import numba_function
from qgraph.frontend.inference.array_dtypes import element_type, number_like, of_math
from qgraph.frontend.inference.assigned_numbers import numbers_of
from qgraph.frontend.names.bindings import Binding, HostExpr, ScalarRef
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.slots import Slot
from qgraph.language import Func
from qgraph.source import nodes_of

# What a real number of an unknown type may be like: where all give one dtype, it is that.
_REAL = (True, 1, 1.0, np.int64(1), np.float64(1))


def type_of_new_array(scope: Scope, node: ast.expr) -> np.dtype[np.generic] | None:
    """The dtype that NumPy gives an array of the elements of ``node``; None where that depends on what is not known here."""
    known = element_type(scope, node)
    if known is not None or scope.frame is None:
        return known
    unit = scope.frame.unit
    seen: list[Binding] = []
    known = element_type(scope, node, _known_numbers(unit, seen))
    if known is not None or not seen:
        return known
    # With what is not known as some number, for all of it to be seen.
    element_type(scope, node, _known_numbers(unit, seen, 1.0))
    scalars = {each.slot.name: each for each in seen if isinstance(each, ScalarRef)}
    assigned = {name: numbers_of(scope, each, _known_numbers(unit, [])) for name, each in scalars.items()}
    several = {name: each for name, each in assigned.items() if each is not None}
    others = [each for each in seen if not isinstance(each, ScalarRef) or each.slot.name not in several]
    complex_ones = [] if all(isinstance(each, HostExpr) for each in others) or not _may_be_complex(scope) else [1j]
    found = {
        element_type(scope, node, _known_numbers(unit, [], each, dict(zip(several, chosen, strict=True))))
        for chosen in itertools.product(*several.values())
        for each in ((*_REAL, *complex_ones) if others else (None,))
    }
    return found.pop() if len(found) == 1 else None


def note_number(scope: Scope, name: str, slot: Slot, value: ast.expr) -> None:
    """Take note of what a kernel scalar is like that is assigned ``value``; nothing is known of what others assign, too."""
    frame = scope.frame
    assert frame is not None
    unit = frame.unit
    once = name.startswith(ADDED) or frame.assigned_once(name)
    if name.startswith(ADDED):
        frame.values.setdefault(name, []).append(value)
    unit.number_types[slot.name] = None if slot.name in unit.number_types or not once else _like(scope, unit, value)


def _like(scope: Scope, unit: ProgramBuilder, value: ast.expr) -> Any:
    return number_like(scope, value, _known_numbers(unit, []))


def _known_numbers(
    unit: ProgramBuilder, seen: list[Binding], other: Any = None, chosen: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Binding], Any]:
    """What numbers are like, of slots those that are ``chosen``; what is not known is ``seen``, and like ``other``."""

    def number(bound: Binding) -> Any:
        found = None
        if isinstance(bound, ScalarRef):
            found = unit.number_types.get(bound.slot.name)
            found = chosen.get(bound.slot.name) if found is None else found
        elif isinstance(bound, HostExpr):
            found = _of_host(unit, bound.expr)
        else:
            return None
        if found is None:
            seen.append(bound)
        return other if found is None else found

    return number


def _of_host(unit: ProgramBuilder, node: ast.expr) -> Any:
    """A number like that which the host computes; None where that is not clear."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Attribute(attr="ndim" | "size") | ast.Subscript(value=ast.Attribute(attr="shape")):
            return 1
        case ast.Name(id=name) if name in unit.leaves and isinstance(type_ := unit.leaves[name].type, ScalarType):
            number = np.ones((), type_.dtype)[()]
            return number.item() if type_.weak else number
        case ast.Call(func=ast.Name(id=name), args=args):
            function = unit.host_names.get(name)
            if function is int or function is len:
                return 1
            given = [_of_host(unit, each) for each in args]
            if not isinstance(function, BuiltinFunctionType) or function.__module__ != math.__name__ or None in given:
                return None
            try:
                return of_math(function, given)
            except (TypeError, ValueError, ArithmeticError):
                return None
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _of_host(unit, left), _of_host(unit, right)
            if one is None or other is None:
                return None
            return one + other + (0.5 if isinstance(op, ast.Div) else 0)
    return None


def _may_be_complex(scope: Scope) -> bool:
    """Whether some number may be complex: an array or a number that is, or a function that makes one, is in sight."""
    assert scope.frame is not None
    if any(leaf.type.dtype.startswith("complex") for leaf in scope.frame.unit.leaves.values()):
        return True
    sources: list[SourceFunction] = []
    inside: Scope | None = scope
    while inside is not None:
        sources.append(inside.source)
        inside = inside.caller
    return _makes_complex(sources, set())


def _makes_complex(sources: Iterable[SourceFunction], seen: set[object]) -> bool:
    for source in sources:
        if source.function in seen:
            continue
        seen.add(source.function)
        for node in nodes_of(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, complex):
                return True
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name in _COMPLEX:
                return True
            value = source.closure.get(name, source.globals.get(name)) if isinstance(node, ast.Name) else None
            if isinstance(value, (complex, np.complexfloating)) or numba_function(value) is not None:
                return True
            if isinstance(value, Func) and _makes_complex([value.source], seen):
                return True
    return False


_COMPLEX = frozenset(
    {"complex", "complex64", "complex128", "csingle", "cdouble", "cmath", "emath", "fft", "roots", "c64", "c128"}
)
