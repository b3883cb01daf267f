"""`break` and `continue` of loops that are no Python loops any more, as flags.

What follows a statement that may leave is put under `if not flag:`; the loop's condition looks at the flag first. The flags are
scalars under names that no user can write.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

from qgraph.frontend.names.function_frame import ADDED
from qgraph.ir.trees import assign, at_place, load
from qgraph.records import dataclass

LOOPS = (ast.For, ast.While)
_Node = TypeVar("_Node", bound=ast.AST)
_Block = tuple[list[ast.stmt], frozenset[str]]


@dataclass(frozen=True, slots=True)
class LoopBody:
    """A loop's body without `break` and `continue`; ``broke`` names the flag that a `break` sets, if there is one."""

    statements: list[ast.stmt]
    broke: str | None


def lower_loop(node: ast.For | ast.While) -> LoopBody:
    """The body of a kernel-level loop whose `break` and `continue` are flags."""
    broke, skipped = f"{ADDED}broke{node.lineno}_{node.col_offset}", f"{ADDED}skipped{node.lineno}_{node.col_offset}"
    statements, flags = _loop_block(node.body, broke, skipped)
    if skipped in flags:
        statements = [assign(skipped, ast.Constant(False), node), *statements]
    return LoopBody(statements, broke if broke in flags else None)


def _loop_block(statements: Sequence[ast.stmt], broke: str, skipped: str) -> _Block:
    result: list[ast.stmt] = []
    for position, node in enumerate(statements):
        if isinstance(node, (ast.Break, ast.Continue)):
            flag = broke if isinstance(node, ast.Break) else skipped
            return [*result, assign(flag, ast.Constant(True), node)], frozenset({flag})
        lowered, flags = within(node, lambda block: _loop_block(block, broke, skipped))
        result.append(lowered)
        rest = statements[position + 1 :]
        if flags:
            if not rest:
                return result, flags
            guarded, more = _loop_block(rest, broke, skipped)
            return [*result, unless(flags, guarded, rest[0])], flags | more
    return result, frozenset()


def within(node: ast.stmt, lower: Callable[[Sequence[ast.stmt]], _Block]) -> tuple[ast.stmt, frozenset[str]]:
    """``node`` with the blocks in it lowered, and the flags that they set; a loop's body is the loop's own."""
    if not isinstance(node, (ast.If, ast.For, ast.While, ast.Match)):
        return node, frozenset()
    flags: frozenset[str] = frozenset()
    node = copy.copy(node)
    if isinstance(node, ast.Match):
        node.cases = [copy.copy(case) for case in node.cases]
        for case in node.cases:
            case.body, more = lower(case.body)
            flags |= more
        return node, flags
    if isinstance(node, ast.If):
        node.body, flags = lower(node.body)
    node.orelse, more = lower(node.orelse)
    return node, flags | more


def unless(flags: frozenset[str], statements: list[ast.stmt], node: ast.AST) -> ast.stmt:
    """``if not (flag or ...):`` around ``statements``."""
    names: list[ast.expr] = [load(flag) for flag in sorted(flags)]
    any_set = names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names)
    return at_place(ast.If(ast.UnaryOp(ast.Not(), any_set), statements, []), node)
