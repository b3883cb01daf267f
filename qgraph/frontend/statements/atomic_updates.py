"""Updates that collide become atomics, in the bodies of loops and in functions that they call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import cast

from qgraph.errors import KernelTypeError
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.facts.loop_facts import Access
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.functions import Function
from qgraph.ir.trees import call_of
from qgraph.operations.combinations import BY_SYMBOL
from qgraph.source import standing_for

_ATOMIC_INTEGERS = ("int32", "int64", "uint32", "uint64")

_ATOMIC_TYPES = (*_ATOMIC_INTEGERS, "float32", "float64")

# Each part is an atomic of its own: sums are right, and nothing else of the loop reads what they are meanwhile.
_IN_PARTS = ("complex64", "complex128")

_COMPLEX_HINT = "keep real and imaginary parts in two arrays of floats, or let qgraph.serial run the iterations in order"


def make_atomic(unit: ProgramBuilder, body: Body, statements: list[ast.stmt], colliding: Iterable[Access]) -> None:
    """Turn colliding updates into atomics, in the body and in the device functions that it calls."""
    updates = {id(access.node): access for access in colliding}
    if not updates:
        return
    for access in updates.values():
        type_ = unit.leaves[access.array].type
        combination = BY_SYMBOL[access.operator][0]
        types = _ATOMIC_INTEGERS if combination.integers_only else _ATOMIC_TYPES
        if type_.dtype not in types and not (combination.name == "+" and type_.dtype in _IN_PARTS):
            raise KernelTypeError(
                f"several iterations may update the same element of `{unit.leaves[access.array].path}`, "
                f"and {type_.dtype} has no atomic `{access.operator}`",
                access.span,
                hint=_COMPLEX_HINT if type_.dtype.startswith("complex") else f"use an array of {_one_of(types)}",
            )
    paths = {name: leaf.path for name, leaf in unit.leaves.items()}
    statements[:] = _Atomics(updates, body.names.values, paths).block(statements)
    _functions_atomic(updates, body.names.values, set())


def _functions_atomic(updates: dict[int, Access], names: dict[str, object], seen: set[int]) -> None:
    for value in list(names.values()):
        if isinstance(value, Function) and id(value) not in seen:
            seen.add(id(value))
            inner = value.names
            assert isinstance(inner, dict)
            value.tree.body[:] = _Atomics(updates, inner, {}).block(value.tree.body)
            _functions_atomic(updates, inner, seen)


class _Atomics(ast.NodeTransformer):
    """Replaces update statements by calls of atomic words, which in messages are the elements that they update."""

    def __init__(self, updates: dict[int, Access], names: dict[str, object], paths: Mapping[str, str]) -> None:
        self._updates = updates
        self._names = names
        self._paths = paths

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [cast(ast.stmt, self.visit(statement)) for statement in statements]

    def visit(self, node: ast.AST) -> ast.AST:
        access = self._updates.get(id(node))
        if access is None:
            return self.generic_visit(node)
        target, value = _update_parts(node)
        word = BY_SYMBOL[access.operator][1].atomic
        name = f"_{word.__name__}"
        self._names[name] = word
        call = call_of(name, target.value, target.slice, value)
        standing_for(call, target, user_text(target, self._paths))
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def _one_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _update_parts(node: ast.AST) -> tuple[ast.Subscript, ast.expr]:
    """The element and the operand of ``a[k] += e`` or ``a[k] = min(a[k], e)``."""
    if isinstance(node, ast.AugAssign):
        assert isinstance(node.target, ast.Subscript)
        return node.target, node.value
    assert isinstance(node, ast.Assign)
    (target,) = node.targets
    assert isinstance(target, ast.Subscript)
    assert isinstance(node.value, ast.Call)
    element = ast.unparse(target)
    operands = [argument for argument in node.value.args if ast.unparse(argument) != element]
    return target, operands[0] if operands else node.value.args[0]
