"""Kernel scalars that are sums, products, `min` and `max` of what a loop's analysis knows: `low = max(1, step - n)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.dependence.access_collector import integer_of
from qgraph.frontend.facts.loop_facts import LoopFacts
from qgraph.frontend.names.bindings import ScalarRef, Value
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.program_builder import KnownScalar, ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.trees import operands_of
from qgraph.polyhedral.symbolic_integers import Poly, symbols_of
from qgraph.source import Span

_FUNCTIONS = (min, max, abs, len)


@contextmanager
def known_in_block(unit: ProgramBuilder) -> Iterator[None]:
    """What is noted in a block is forgotten behind it: it may not run, or run again with other numbers."""
    before = dict(unit.known_scalars)
    try:
        yield
    finally:
        kept = {slot: known for slot, known in unit.known_scalars.items() if before.get(slot) is known}
        unit.known_scalars.clear()
        unit.known_scalars.update(kept)


@contextmanager
def known_behind(unit: ProgramBuilder, scope: Scope, node: ast.stmt) -> Iterator[None]:
    """Around a statement: forget what it assigns, and what is made of that; behind an assignment note what it says."""
    assigned = names_assigned([node])
    _forget(unit, scope, assigned)
    yield
    _forget(unit, scope, assigned)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return
    (target,) = node.targets
    targets, values = [target], [node.value]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == len(node.value.elts):
        targets, values = target.elts, node.value.elts
    for place, value in zip(targets, values, strict=True):
        names = {child.id for child in ast.walk(value) if isinstance(child, ast.Name)}
        ref = scope.names.get(place.id) if isinstance(place, ast.Name) else None
        if isinstance(ref, ScalarRef) and names.isdisjoint(assigned) and _is_followed(scope, value):
            unit.known_scalars.pop(ref.slot.name, None)
            unit.known_scalars[ref.slot.name] = KnownScalar(scope, value, frozenset(names))


def _forget(unit: ProgramBuilder, scope: Scope, assigned: Mapping[str, object]) -> None:
    gone = {ref.slot.name for name in assigned if isinstance(ref := scope.names.get(name), ScalarRef)}
    for slot, known in list(unit.known_scalars.items()):
        # An array that a name then stands for has other extents.
        if slot in gone or not known.names.isdisjoint(assigned):
            del unit.known_scalars[slot]


def _is_followed(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression may be one of integers of which the analysis knows the meaning, and reads no memory."""
    match node:
        case ast.Constant():
            return constant_of(node) is not None
        case ast.Name():
            return True
        case ast.Attribute(value=ast.Name(), attr="size"):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=ast.Constant()):
            return True
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), left=left, right=right):
            return bool(constant_of(right)) and _is_followed(scope, left)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()) | ast.UnaryOp(op=ast.USub()):
            return all(_is_followed(scope, part) for part in operands_of(node))
        case ast.Call(func=func, args=args, keywords=[]):
            function = quietly_static(scope, func)
            return isinstance(function, Value) and function.value in _FUNCTIONS and all(_is_followed(scope, a) for a in args)
    return False


def integers_of(unit: ProgramBuilder, body: Body) -> dict[str, Any]:
    """What is known of the integers in a body, for its ``LoopFacts``."""
    host = unit.host_integers
    probe = Body(unit)
    found: list[tuple[str, ast.expr]] = []
    for slot, known in reversed(unit.known_scalars.items()):
        # Those that are noted later are made of earlier ones.
        local = next((name for name, each in (body.scalars | probe.scalars).items() if each.name == slot), None)
        if local is not None:
            found.append((local, probe.expression(known.scope, known.value)))
    serial = unit.serial_variables(body.scalars | probe.scalars)
    integers = host.scalars() | {str(each.symbol): Poly((((each.symbol,), 1),)) for each in serial}
    result: dict[str, Any] = {
        "floats": host.floats(),
        "narrow": host.narrow(),
        "sizes": unit.extents_of_arrays(),
        "serial": serial,
    }
    if found:
        facts = LoopFacts((), (), probe.names.values, unit.array_dimensions(), unit.same, {}, "", _NOWHERE, "", **result)
        for local, value in reversed(found):
            number = integer_of(replace(facts, integers=integers), value)
            if number is not None and all(symbol.kind != "device" for symbol in symbols_of([number])):
                integers = integers | {local: number}
    return {**result, "integers": integers}


_NOWHERE = Span("", 0, 0, 0, 0)
