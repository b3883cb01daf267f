"""Numbers that are of the kernel's float type whatever else lowering finds out: what tiles keep of them has that type."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Mapping

import numpy as np

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.program import Cast, Program, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import names_in
from qgraph.lowering.codegen.generated_names import walk
from qgraph.records import dataclass

_FUNCTIONS = (
    *(builtins.abs, builtins.min, builtins.max),
    *(math.sqrt, math.fabs, math.exp, math.log, math.sin, math.cos, math.tanh),
    *(np.abs, np.sqrt, np.square, np.maximum, np.minimum),
)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def assigns_floats(task: Task, slot: Slot, program: Program) -> bool:
    """Whether all that ``task`` assigns to a kernel scalar is surely of the kernel's float type."""
    casts = {name for name, value in task.names.items() if isinstance(value, Cast) and value.slot == slot}
    given = [node for node in walk(task.body) if isinstance(node, ast.Call) and names_in(node.func) & casts]
    found = _Floats(task, _types(program), np.dtype(program.float_type))
    return bool(given) and all(len(call.args) == 1 and found.surely(call.args[0]) for call in given)


def is_float(slot: Slot, program: Program) -> bool:
    """Whether a kernel scalar surely is of that type."""
    tasks = [task for task in program.tasks() if any(each == slot for _, each in task.results)]
    reducing = [task for task in program.tasks() if any(v.slot == slot for each in task.reductions for v in each.variables)]
    return all(assigns_floats(task, slot, program) for task in (*tasks, *reducing))


def _types(program: Program) -> dict[str, ArrayType | ScalarType]:
    return {leaf.name: leaf.type for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType | ScalarType)}


@dataclass(frozen=True, slots=True)
class _Floats:
    task: Task
    types: Mapping[str, ArrayType | ScalarType]
    kernel: np.dtype[np.floating]

    def surely(self, value: ast.expr) -> bool:
        """Whether an expression has the kernel's float type, or one that it holds exactly."""
        match value:
            case ast.Constant(value=float()):
                return True
            case ast.Subscript(value=ast.Name(id=name)):
                return self._of_leaf(self._leaf(name))
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _OPERATORS):
                either = self.surely(left) or self.surely(right)
                return either and all(self.surely(each) or self._is_integer(each) for each in (left, right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.surely(operand)
            case ast.IfExp(body=body, orelse=orelse):
                return self.surely(body) and self.surely(orelse)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._of_call(self.task.names.get(name), args)
            case ast.Name(id=name):
                return self._of_name(name)
        return False

    def _of_call(self, function: object, args: list[ast.expr]) -> bool:
        if function is self.kernel.type:
            return True
        return any(function is each for each in _FUNCTIONS) and all(map(self.surely, args))

    def _of_name(self, name: str) -> bool:
        """Of a local: all that is assigned to it; it is no other name there."""
        if any(name == each.local for reduction in self.task.reductions for each in reduction.variables):
            return True
        nodes = [node for node in walk(self.task.body) if isinstance(node, ast.Name) and node.id == name]
        stores = [node for node in nodes if isinstance(node.ctx, ast.Store)]
        if not stores:
            return self._of_leaf(name)
        found = [each for each in walk(self.task.body) if isinstance(each, ast.Assign) and each.targets[0] in stores]
        return len(found) == len(stores) == 1 and self.surely(found[0].value)

    def _leaf(self, name: str) -> str:
        """An array, which may have changed places with others of its type."""
        return next((each.leaves[0] for each in self.task.selections if each.local == name), name)

    def _of_leaf(self, name: str) -> bool:
        type_ = self.types.get(name)
        if type_ is None or np.dtype(type_.dtype).kind != "f":
            return False
        return np.dtype(type_.dtype).itemsize <= self.kernel.itemsize or (isinstance(type_, ScalarType) and type_.weak)

    def _is_integer(self, value: ast.expr) -> bool:
        """Whether it is a Python integer: such a one changes the type of no float."""
        match value:
            case ast.Constant(value=int()):
                return not isinstance(value.value, bool)
            case ast.Name(id=name):
                return any(name == axis.variable for axis in self.task.axes)
        return False
