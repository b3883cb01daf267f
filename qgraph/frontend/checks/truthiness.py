"""Arrays as conditions: Python asks an array of one element for its truth, and an array of several refuses. Refused by name.

What a condition is made of is looked at where a task, or a function that it calls, is complete.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from qgraph.errors import KernelTypeError
from qgraph.frontend.syntax import unsupported_functions
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import Program, Task
from qgraph.ir.trees import MEMBERSHIP, operands_of, parts_of
from qgraph.operations.table import OPERATIONS
from qgraph.source import Span, nodes_of


def refuse_arrays_as_conditions(program: Program) -> None:
    """Raise where an array, or a comparison with one, decides something.

    Raises:
        KernelTypeError: at the condition.
    """
    arrays = {leaf.name: leaf.type.ndim for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}
    paths = {leaf.name: leaf.path for leaf in program.arrays_and_scalars}
    for task in program.tasks():
        _Conditions(task, arrays, paths).look(task.body)


class _Conditions:
    """One task, and the functions that it calls."""

    def __init__(self, task: Task, arrays: Mapping[str, int], paths: Mapping[str, str]) -> None:
        self._paths = paths
        # Names of arrays, each with its number of axes; None where it is not known here.
        self._arrays: Mapping[str, int | None] = {
            **arrays,
            **{selection.local: arrays.get(selection.leaves[0]) for selection in task.selections},
        }
        # Names that are surely no tuples, where they index.
        self._numbers = frozenset(axis.variable for axis in task.axes)
        self._names: Mapping[str, object] = task.names
        self._file = task.span.file
        # Functions with what they were passed, each looked at once: they may be called from many places.
        self._looked: set[tuple[int, frozenset[tuple[str, int | None]]]] = set()

    def look(self, nodes: Sequence[ast.AST]) -> None:
        """Look at all conditions in statements."""
        self._arrays = {**dict.fromkeys(self._parts_among(nodes)), **self._arrays}
        for node in (child for each in nodes for child in nodes_of(each)):
            match node:
                case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                    self._condition(test)
                case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                    for operand in operands_of(node):
                        self._condition(operand)
                case ast.Call(func=ast.Name(id=name)) if isinstance(self._names.get(name), Function):
                    self._function(self._names[name], node)

    def _parts_among(self, nodes: Sequence[ast.AST]) -> set[str]:
        """Local names that are parts of arrays, whatever is assigned to them."""
        values: dict[str, list[ast.expr]] = {}
        stores: Counter[str] = Counter()
        for node in (child for each in nodes for child in nodes_of(each)):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stores[node.id] += 1
        return {name for name, found in values.items() if stores[name] == len(found) and all(map(self._is_array, found))}

    def _condition(self, node: ast.expr) -> None:
        if self._is_array(node):
            span = Span.of(node, self._file)
            raise KernelTypeError(
                f"the condition `{span.text() or user_text(node, self._paths)}` is an array",
                span,
                hint="take an element of it: a[0], or a[()] of an array without axes",
            )

    def _is_array(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._arrays
            case ast.Subscript(value=array) if self._is_array(array):
                parts = parts_of(node)
                if any(isinstance(part, ast.Slice) or self._is_array(part) for part in parts):
                    return True
                axes = self._arrays.get(array.id) if isinstance(array, ast.Name) else None
                return axes is not None and len(parts) < axes and all(map(self._is_number, parts))
            case ast.Attribute(value=array, attr=attr) if attr == "T" or unsupported_functions.of_attribute(attr):
                return self._is_array(array)
            case ast.Compare(ops=ops):
                return not any(isinstance(op, MEMBERSHIP) for op in ops) and any(map(self._is_array, operands_of(node)))
            case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
                return any(map(self._is_array, operands_of(node)))
            case ast.Call():
                return self._makes_array(node)
        return False

    def _makes_array(self, node: ast.Call) -> bool:
        """Whether a function of NumPy's, or a method of an array, gives one."""
        if isinstance(node.func, ast.Attribute):
            return (
                unsupported_functions.of_method(node.func.attr)
                and node.func.attr not in OPERATIONS.methods
                and self._is_array(node.func.value)
            )
        function = self._names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        of_arrays = any(map(self._is_array, node.args))
        if isinstance(function, np.ufunc):
            return of_arrays and function is not np.matmul
        return not OPERATIONS.of(function).reduces and unsupported_functions.of_function(function, of_arrays=of_arrays)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether an index is surely one number, and no tuple."""
        if isinstance(node, ast.Name):
            return node.id in self._numbers
        return isinstance(node, ast.BinOp | ast.UnaryOp) or (isinstance(node, ast.Constant) and isinstance(node.value, int))

    def _function(self, function: object, call: ast.Call) -> None:
        assert isinstance(function, Function)
        parameters = [parameter.arg for parameter in (*function.tree.args.posonlyargs, *function.tree.args.args)]
        given = [*zip(parameters, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
        # A parameter that is assigned to may be another value by then.
        stored = {node.id for node in nodes_of(function.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        passed = {
            name: self._arrays.get(value.id) if isinstance(value, ast.Name) else None
            for name, value in given
            if name is not None and name not in stored and self._is_array(value)
        }
        key = id(function), frozenset(passed.items())
        if key in self._looked:
            return
        self._looked.add(key)
        inner = copy.copy(self)
        inner._arrays, inner._numbers, inner._names, inner._file = passed, frozenset(), function.names, function.file
        inner.look(function.tree.body)
