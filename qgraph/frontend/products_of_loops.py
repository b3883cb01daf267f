"""Loops that add up products are elements of a product of matrices, which a library computes before them.

With ``fuse=True``: where iterations of two axes each add up ``a[i, k] * b[k, j]`` over all ``k``, as in ``s += ...`` or in a
row times a matrix, ``a @ b`` becomes a node of its own, and an iteration takes its element. Which of them it takes, and what it
does with it, is as it was: a triangle takes half of them, and the library is still several times as fast.

Not where the product has many more elements than there are iterations, or stored elements, nor where few products are known to
be added up.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

import numpy as np

from qgraph.frontend.arrays.views import size_of
from qgraph.frontend.bodies.loop_fusion import prints
from qgraph.frontend.names.equal_extents import EqualExtents
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Branch, Effects, Loop, Statement, Task, TaskStatement, Temporary
from qgraph.ir.trees import asks_for, at_place, load, names_in, stored
from qgraph.nodes.library_call import LibraryCall, Operand
from qgraph.operations import intrinsics
from qgraph.operations.library_functions import leading_matmul, library_function
from qgraph.operations.table import operation
from qgraph.polyhedral.symbolic_integers import Poly
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

_MATRIX = 2
_TYPES: dict[object, str] = {np.float32: "float32", np.float64: "float64"}
# Sums of fewer products, where their number is known, are quicker where they are: a guess.
_FEWEST = 32


def with_products(unit: ProgramBuilder, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """``statements`` with products of matrices before the loops that take their elements."""
    done: list[Statement] = []
    for statement in statements:
        match statement:
            case TaskStatement(task=task) if task.role == "loop" and len(task.axes) > 1 and not (task.joined or task.plain):
                products = _Products(unit, task)
                done += [*products.found, TaskStatement(products.task)]
            case Loop():
                done.append(replace(statement, body=with_products(unit, statement.body)))
            case Branch():
                done.append(replace(statement, regions=tuple(with_products(unit, region) for region in statement.regions)))
            case _:
                done.append(statement)
    return tuple(done)


@dataclass(frozen=True, slots=True)
class _Factor:
    """``array[index, k]``, or transposed; ``length`` is how many k there are, and ``size`` how many indices."""

    array: Leaf
    index: ast.expr
    first: bool
    length: ast.expr
    size: ast.expr


class _Products(ast.NodeTransformer):
    """The products in a parallel loop: ``found`` are the calls, and ``task`` the loop with their elements."""

    def __init__(self, unit: ProgramBuilder, task: Task) -> None:
        self._unit = unit
        self._task = task
        self.found: list[LibraryCall] = []
        self.task = task
        if prints(task.names) or not any(isinstance(node, ast.For) for each in task.body for node in nodes_of(each)):
            return
        self._extents = EqualExtents(unit)
        body = [self.visit(copied(each)) for each in task.body]
        if not self.found:
            return
        arrays = unit.array_dimensions()
        # What changes places is read by another name.
        left = {name for each in body for name in names_in(each)}
        left |= {leaf for selection in task.selections for leaf in selection.leaves}
        gone = {name for call in self.found for name in call.effects.reads} - left
        made = {target for call in self.found for target in call.targets}
        effects = Effects((task.effects.reads - gone) | made, task.effects.writes)
        said = "; ".join(f"takes elements of `{call.label}`" for call in self.found)
        note = f"{task.note}; {said}" if task.note else said
        sections = {name: each for name, each in task.sections.items() if name not in gone}
        self.task = replace(task, body=tuple(body), effects=effects, sections=sections, note=note)
        unit.judged[task.name] = replace(unit.judged[task.name], body=body, ndim=arrays)

    def visit_For(self, node: ast.For) -> ast.stmt:
        """An element of a product, where the loop adds up one."""
        self.generic_visit(node)
        match node:
            case ast.For(ast.Name(k), ast.Call(ast.Name(word), [ast.Constant(0), stop, ast.Constant(1)]), [step], orelse=[]):
                if self._task.names.get(word) is not builtins.range or any(asks_for(each, k) for each in self._task.body):
                    return node
            case _:
                return node
        total, factors = self._summed(step, k)
        if not total or len(factors) < 2 or not self._is_of_one_type(total, factors[0].array):
            return node
        first, second = factors
        if self._bound(first.length) != self._bound(stop):
            first, second = second, first
        if not self._is_product(first, second, stop):
            return node
        place = ast.Tuple([copied(first.index), copied(second.index)], ast.Load())
        element = ast.Subscript(load(self._product(first, second, node)), place, ast.Load())
        return at_place(ast.Assign([stored(total)], ast.BinOp(load(total), ast.Add(), element)), node)

    def _summed(self, step: ast.stmt, k: str) -> tuple[str, list[_Factor]]:
        """The name that a statement adds a product to, and its factors; none where it does something else."""
        names = self._task.names
        match step:
            case ast.AugAssign(ast.Name(total), ast.Add(), value):
                pass
            case ast.Assign([ast.Name(total)], ast.BinOp(ast.Name(again), ast.Add(), value)) if total == again:
                pass
            case ast.Assign([ast.Name(total)], ast.Call(ast.Name(word), [ast.Name(again), value])) if total == again:
                if names.get(word) is not intrinsics.reassociable_add:
                    return "", []
            case _:
                return "", []
        of_type = ""
        match value:
            case ast.Call(ast.Name(word), [inner], []):
                of_type, value = _TYPES.get(names.get(word), "another"), inner
        match value:
            case ast.BinOp(ast.Subscript() as one, ast.Mult(), ast.Subscript() as other):
                factors = [found for each in (one, other) if (found := self._factor(each, total, k)) is not None]
                types = {each.array.type.dtype for each in factors if isinstance(each.array.type, ArrayType)}
                if len(types) == 1 and types <= {*_TYPES.values()} and of_type in ("", *types):
                    return total, factors
        return "", []

    def _factor(self, node: ast.Subscript, total: str, k: str) -> _Factor | None:
        match node:
            case ast.Subscript(ast.Name(name), ast.Tuple([one, other])):
                leaf = self._unit.leaves.get(name)
            case _:
                return None
        if leaf is None or not isinstance(leaf.type, ArrayType) or leaf.type.ndim != _MATRIX or name in self._unit.selections:
            return None
        if any(self._unit.may_share(name, each) for each in self._task.effects.writes & self._unit.array_dimensions().keys()):
            return None
        counts = [_is_name(part, k) for part in (one, other)]
        if sum(counts) != 1 or not self._is_fixed(other if counts[0] else one, {k, total}):
            return None
        sizes = [size_of(self._unit, leaf, axis) for axis in range(_MATRIX)]
        at = counts.index(True)
        return _Factor(leaf, other if at == 0 else one, at == 0, sizes[at], sizes[1 - at])

    def _is_fixed(self, index: ast.expr, changing: Set[str]) -> bool:
        """Whether an index is the same for all products that are added up, and asking for it once is as good as often."""
        if names_in(index) & changing:
            return False
        calls = [node for node in nodes_of(index) if isinstance(node, ast.Call)]
        named = [self._task.names.get(each.func.id) for each in calls if isinstance(each.func, ast.Name)]
        return len(named) == len(calls) and all(operation(each).pure for each in named)

    def _is_of_one_type(self, total: str, array: Leaf) -> bool:
        """Whether nothing shows that single precision is added up in double: what a library computes is single."""
        assert isinstance(array.type, ArrayType)
        if array.type.dtype != "float32":
            return True
        nodes = [node for each in self._task.body for node in nodes_of(each)]
        stores = sum(isinstance(node, ast.Name) and node.id == total and isinstance(node.ctx, ast.Store) for node in nodes)
        assigned = [
            node for node in nodes if isinstance(node, ast.Assign) and any(_is_name(each, total) for each in node.targets)
        ]
        changed = [node for node in nodes if isinstance(node, ast.AugAssign) and _is_name(node.target, total)]
        values = [*(each.value for each in assigned), *(each.value for each in changed)]
        begun = any(total not in names_in(each.value) for each in assigned)
        return begun and stores == len(values) and all(self._is_single(each, total) for each in values)

    def _is_single(self, value: ast.expr, total: str) -> bool:
        """Whether a number has single precision, or is Python's."""
        match value:
            case ast.Constant():
                return True
            case ast.Name(name):
                return name == total
            case ast.Subscript(ast.Name(name)) if name in self._unit.leaves:
                type_ = self._unit.leaves[name].type
                return isinstance(type_, ArrayType) and type_.dtype == "float32"
            case ast.Call(ast.Name(word), parts):
                function = self._task.names.get(word)
                if function is np.float32:
                    return True
                added = function in (intrinsics.empty_sum, intrinsics.reassociable_add)
                return added and all(self._is_single(each, total) for each in parts)
            case ast.BinOp(left, _, right):
                return self._is_single(left, total) and self._is_single(right, total)
            case ast.UnaryOp(_, operand):
                return self._is_single(operand, total)
        return False

    def _is_product(self, first: _Factor, second: _Factor, stop: ast.expr) -> bool:
        """Whether all of the first array is multiplied, and most of the elements are asked for."""
        length = self._bound(stop)
        if length != self._bound(first.length):
            return False
        sizes = self._bound(first.size), self._bound(second.size)
        counts = [self._bound(axis.count) for axis in self._task.axes]
        asked = (*itertools.permutations(counts, 2), *self._stored())
        few = isinstance(length, Poly) and length.constant is not None and length.constant < _FEWEST
        return sizes in asked and not few

    def _bound(self, number: ast.expr) -> Poly | str:
        return self._extents.bound(self._task, number)

    def _stored(self) -> Iterator[tuple[Poly | str, Poly | str]]:
        """The extents of the matrices that an iteration stores elements in, either way round."""
        arrays = self._unit.array_dimensions()
        for name in self._task.effects.writes - self._unit.selections.keys():
            if arrays.get(name) == _MATRIX:
                rows, columns = (self._bound(size_of(self._unit, self._unit.leaves[name], axis)) for axis in range(_MATRIX))
                yield from ((rows, columns), (columns, rows))

    def _product(self, first: _Factor, second: _Factor, node: ast.For) -> str:
        """The array that a library's function fills with all elements, a new one."""
        unit = self._unit
        operands = Operand(first.array.name, first.first), Operand(second.array.name, not second.first)
        for call in self.found:
            if call.operands == operands:
                return call.targets[0]
        paths = [unit.leaves[each.leaf].path + (".T" if each.transposed else "") for each in operands]
        label = " @ ".join(path if " " not in path else f"({path})" for path in paths)
        assert isinstance(first.array.type, ArrayType)
        span = replace(self._task.span, line=node.lineno)
        sizes = first.size, second.size
        names = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in sizes)
        leaf = Leaf(unit.array_name("product"), label, ArrayType(first.array.type.dtype, _MATRIX, "C"))
        unit.add_temporary(Temporary(leaf, names, span, computed=True), sizes)
        function = np.matmul if self._bound(first.length) == self._bound(second.length) else leading_matmul
        record = library_function(function)
        assert record is not None
        effects = Effects(frozenset(each.leaf for each in operands), frozenset({leaf.name}))
        call = LibraryCall(
            unit.task_name(node.lineno, "library"),
            function,
            record,
            operands,
            (),
            (leaf.name,),
            new=True,
            span=span,
            label=label,
            effects=effects,
        )
        self.found.append(call)
        return leaf.name


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
