"""Kernel-level statements that become nodes of a kind of their own (``qgraph/nodes``), such as ``host_callback``."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from typing import Literal

import numpy as np

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import LeafRef, Poisoned, ScalarRef, StructRef, Value
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.condition_tasks import decide
from qgraph.frontend.statements.inlining import evaluated
from qgraph.frontend.statements.region import Region
from qgraph.frontend.statements.task_builder import get_slot, small_task
from qgraph.ir.argument_types import ConstantType, Leaf
from qgraph.ir.program import Branch, Statement
from qgraph.ir.slots import Slot
from qgraph.nodes.kind import StatementKind
from qgraph.nodes.library_call import LibraryCall, made
from qgraph.operations.library_functions import LibraryFunction
from qgraph.source import Span, as_written

_NUMBERS = (bool, int, float, complex, np.generic)


def node_statement(region: Region, scope: Scope, node: ast.Call, kind: type[StatementKind], word: object) -> None:
    """A call of one of the words of ``kind`` as a statement.

    Raises:
        KernelSyntaxError: it stands in a device loop or branch, or its arguments are not what the word takes.
    """
    text = as_written(node.func)
    others = {keyword.arg for keyword in node.keywords} - {*kind.keywords}
    if others or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise KernelSyntaxError(
            f"`{text}(...)` takes plain arguments{_and_keywords(kind)}",
            scope.span(node),
            hint="pass them by position, without `*`" if not kind.keywords else "pass nothing else",
        )
    statement = kind.statement(word, _Call(region, scope, node))
    if region.depth > 0 and statement.not_in_body:
        raise KernelSyntaxError(
            f"`{text}(...)` is inside a device loop or branch, {statement.not_in_body}",
            scope.span(node),
            hint=f"call `{text}` before or after it, or keep the loop in Python and call a kernel in each iteration",
        )
    if isinstance(statement, LibraryCall):
        add_library_call(region, scope, statement, node)
    else:
        for part in statement.parts:
            region.add(part)


def _and_keywords(kind: type[StatementKind]) -> str:
    return "".join(f", and {name}=..." for name in kind.keywords)


def library_statement(
    region: Region, scope: Scope, node: ast.Call | ast.BinOp, record: LibraryFunction | None, targets: Mapping[str, Leaf]
) -> LibraryCall:
    """``targets = node``, where ``node`` calls a library's function, as a statement; it is not added yet."""
    return made(_Call(region, scope, node), node, record, targets)


def add_library_call(region: Region, scope: Scope, statement: LibraryCall, node: ast.expr) -> None:
    """Add ``statement``, written ``node``; where arrays of it change places, a branch with one for each way they may stand."""
    unit = region.unit
    moving = [unit.selections[name] for name in sorted({*statement.arrays} & unit.selections.keys())]
    if not moving:
        region.add(statement)
        return
    region.flush()
    decided, span, body = unit.slot("branch"), scope.span(node), Body(unit)
    number = "-1"
    regions: list[tuple[Statement, ...]] = []
    for way in itertools.product(*(range(len(each.leaves)) for each in moving)):
        chosen = list(zip(moving, way, strict=True))
        # Names that change places with each other are never the same array.
        if len({(each.leaves, at) for each, at in chosen}) < len(moving):
            continue
        tests = [f"{ast.unparse(get_slot(each.slot))} == {at}" for each, at in chosen]
        number = f"{len(regions)} if {' and '.join(tests)} else {number}"
        stands = {each.local: each.leaves[at] for each, at in chosen}
        regions.append((statement.with_arrays(stands, unit.task_name(node.lineno, "library")),))
    choose = decide(body, decided, number)
    reads = [each.slot for each in moving]
    deciding = small_task(unit, "decide", span, body, [choose], reads=reads, writes=[decided])
    region.add(Branch("switch", span, decided, deciding, tuple(regions), f"arrays of {statement.label}"))


class _Call:
    """The call, and what its arguments are (``WrittenCall``)."""

    def __init__(self, region: Region, scope: Scope, node: ast.Call | ast.BinOp) -> None:
        self._region = region
        self._scope = scope
        self._line = node.lineno
        if isinstance(node, ast.Call):
            self.node = node

    def span(self, node: ast.AST) -> Span:
        return self._scope.span(node)

    def name(self, role: str) -> str:
        return self._region.unit.task_name(self._line, role)

    def shares(self, first: Leaf, second: Leaf) -> Literal["", "same", "overlap"]:
        unit = self._region.unit
        if unit.same.get(first.name, first.name) == unit.same.get(second.name, second.name):
            return "same"
        return "overlap" if frozenset((first.name, second.name)) in unit.overlapping else ""

    def expect_one_element(self, flag: Leaf, node: ast.expr) -> None:
        self._region.unit.flags.append((flag.name, self.span(node)))

    def meaning(self, node: ast.expr, *, several: bool = False) -> ConstantType | Leaf | KernelSyntaxError | None:
        try:
            return ConstantType(ast.literal_eval(node))
        except ValueError:
            bound = self._scope.static(node)
        match bound:
            case LeafRef() if bound.leaf.name in self._region.unit.selections and not several:
                return KernelSyntaxError(
                    f"`{as_written(node)}` stands for several arrays here, which change places in a loop",
                    self.span(node),
                    hint="copy the elements in a loop instead of exchanging the names",
                )
            case LeafRef():
                return bound.leaf
            case Value():
                return ConstantType(bound.value)
            case Poisoned():
                return KernelSyntaxError(bound.reason, self.span(node), hint=bound.hint)
        return None

    def number(self, node: ast.expr) -> Slot | ConstantType | None:
        region, scope = self._region, self._scope
        try:
            return ConstantType(ast.literal_eval(node))
        except ValueError:
            bound = scope.static(node)
        if isinstance(bound, ScalarRef):
            return bound.slot
        if isinstance(bound, Value) and (bound.value is None or isinstance(bound.value, (str, *_NUMBERS))):
            return ConstantType(bound.value)
        if isinstance(bound, (StructRef, Value)) or rank(scope, node) > 0:
            return None
        name = f"{ADDED}passed{len(region.unit.slots)}"
        # What it is made of may be loops, which end the run that there is.
        value = evaluated(region, scope, node)
        region.run(scope).assign(scope, name, value)
        made = scope.names.pop(name)
        assert isinstance(made, ScalarRef)
        return made.slot
