"""uint64 with int64: NumPy makes a float64 of two elements, and 64-bit code has no integer for both. Refused by name.

A Python int has no such trouble: it takes the other's type. So what is looked for is where numbers come from. That tells, too,
where a negative int64 may be the least of elements without a sign.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from qgraph import language
from qgraph.errors import KernelTypeError
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.functions import Function
from qgraph.ir.program import Cast, Program, Task
from qgraph.ir.trees import operands_of
from qgraph.operations import intrinsics
from qgraph.operations.table import is_one_of, operation
from qgraph.source import Span, children_of

# Where a number comes from: "unsigned" is uint64, "unsigned32" uint32, "signed" int64, "narrow" a signed type that is narrower,
# "python" Python's, and "negative" besides if it is a literal less than 0; "truth" is a boolean of NumPy's.
Kinds = frozenset[str]
_NOTHING: Kinds = frozenset()
_FLOAT: Kinds = frozenset({"float"})
_PYTHON: Kinds = frozenset({"python"})
_TRUTH: Kinds = frozenset({"truth"})
_DTYPES = {
    "uint64": "unsigned",
    "uint32": "unsigned32",
    "int64": "signed",
    "bool": "truth",
    **dict.fromkeys(("int8", "int16", "int32"), "narrow"),
}
_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_ATOMIC_BITS = (language.atomic_and_, language.atomic_or_, language.atomic_xor)
_TURNS = 4


def refuse_mixed_signs(program: Program) -> None:
    """Raise where a uint64 meets an int64 that is no Python int.

    Raises:
        KernelTypeError: at the operation, or at the kernel scalar that is both.
    """
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    paths = {leaf.name: leaf.path for leaf in program.arrays_and_scalars}
    names = (value for task in program.tasks() for value in task.names.values())
    made = any(value is np.uint64 or isinstance(value, np.uint64) or _keeps(value) for value in names)
    if not made and not any(type_.dtype.startswith("uint") for type_ in types.values()):
        return
    scalars: dict[str, Kinds] = {}
    # A scalar may be assigned after its use, in a loop around both.
    for _ in range(_TURNS):
        before = dict(scalars)
        for task in program.tasks():
            _Signs(task, types, scalars, paths).run()
        if scalars == before:
            break


def _keeps(value: object) -> bool:
    """Whether a global of a body keeps the least of elements and other numbers."""
    return value is language.atomic_min or (isinstance(value, Cast) and value.keeps == "min")


def _of_dtype(dtype: str) -> Kinds:
    if dtype.startswith(("float", "complex")):
        return _FLOAT
    return frozenset({_DTYPES[dtype]}) if dtype in _DTYPES else _NOTHING


def _of_type(type_: ArrayType | ScalarType) -> Kinds:
    if isinstance(type_, ScalarType) and type_.weak and type_.dtype in ("int64", "bool"):
        return _PYTHON if type_.dtype == "int64" else _NOTHING
    return _of_dtype(type_.dtype)


def _settled(kinds: Kinds) -> Kinds:
    """What a variable is that holds numbers of all ``kinds`` at some time."""
    kinds -= {"negative"}
    if "float" in kinds:
        return _FLOAT
    if "narrow" in kinds and kinds & {"python", "unsigned32"}:
        return frozenset({"signed"}) | (kinds & {"unsigned"})
    return kinds - {"python"} or kinds


def _is_natural(node: ast.expr, names: Mapping[str, object]) -> bool:
    """Whether an integer is not negative, whatever its operands are: of a literal that is not, a remainder, mask or type."""
    match node:
        case ast.BinOp(op=ast.Mod() | ast.BitAnd(), right=ast.Constant(value=int(literal))):
            return literal >= 0
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int(literal))]):
            function = names.get(name)
            return isinstance(function, type) and issubclass(function, np.integer) and literal >= 0
    return False


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and _is_literal(node.operand))


class _Signs:
    """Flow-insensitive kinds of the names of one task, or of a function that it calls."""

    def __init__(
        self, task: Task, types: Mapping[str, ArrayType | ScalarType], scalars: dict[str, Kinds], paths: Mapping[str, str]
    ) -> None:
        self._task = task
        self._types = types
        self._paths = paths
        self._scalars = scalars
        self._slots = {name: slot.name for name, slot in (*task.scalars, *task.results)}
        self._slots |= {v.local: v.slot.name for r in task.reductions for v in r.variables if v.slot is not None}
        leaves = {name: _of_type(type_) for name, type_ in types.items()}
        self._env = leaves | {each.local: leaves.get(each.leaves[0], _NOTHING) for each in task.selections}
        self._env |= {axis.variable: _PYTHON for axis in task.axes}
        # Elements of which a reduction computes bits: sums are right whatever is added.
        carried = (variable for reduction in task.reductions for variable in reduction.variables)
        self._elements = {each.local: _of_dtype(each.dtype) for each in carried if each.element is not None}
        self._names: Mapping[str, object] = task.names
        self._file = task.span.file
        self._returned: Kinds = _NOTHING

    def run(self) -> None:
        """Look at every operation; note what is assigned to kernel scalars."""
        for name, slot in self._slots.items():
            self._env[name] = self._scalars.get(slot, _NOTHING)
        self._block(self._task.body)
        for name, slot in self._slots.items():
            self._scalars[slot] = self._scalars.get(slot, _NOTHING) | self._env[name]

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        statements = list(statements)
        # Twice: what an iteration assigns, the next one reads.
        for _ in range(2):
            for node in statements:
                self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                kinds = self._of(node.value)
                for target in node.targets:
                    self._assign(target, node.value, kinds)
            case ast.AugAssign():
                if isinstance(node.op, _BITWISE):
                    self._refuse_mixed_bits(node.target, node.value, node)
                if isinstance(node.target, ast.Subscript) and not isinstance(node.op, ast.FloorDiv | ast.Mod):
                    # The element keeps its type: sums and products are right in the bits that it has.
                    self._of(node.target.slice)
                    self._of(node.value)
                else:
                    self._assign(node.target, node.value, self._meet([node.target, node.value], node))
            case ast.Return():
                self._returned |= _NOTHING if node.value is None else self._of(node.value)
            case _:
                self._parts(node)

    def _parts(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            self._env[node.target.id] = self._env.get(node.target.id, _NOTHING) | _PYTHON
        for child in children_of(node):
            if isinstance(child, ast.expr):
                self._of(child)
            elif isinstance(child, ast.stmt):
                self._statement(child)

    def _assign(self, target: ast.expr, value: ast.expr, kinds: Kinds) -> None:
        if isinstance(target, ast.Tuple):
            alike = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            for position, part in enumerate(target.elts):
                inner = value.elts[position] if alike and isinstance(value, ast.Tuple) else value
                self._assign(part, inner, self._of(inner) if alike else kinds)
        elif isinstance(target, ast.Name):
            held = self._env.get(target.id, _NOTHING) | kinds
            span = Span.of(target, self._file)
            if target.id in self._slots and {"unsigned", "signed"} <= _settled(held):
                raise _mixed("a kernel scalar is a uint64 on one line and an int64 on another", span)
            if target.id in self._slots and {"unsigned", "negative"} <= held:
                raise KernelTypeError(
                    "a kernel scalar is a uint64 on one line and a negative number on another",
                    span,
                    hint="a uint64 has no sign: take a positive number, np.float64(u) or np.int64(u)",
                )
            self._env[target.id] = held

    def _of(self, node: ast.expr) -> Kinds:
        match node:
            case ast.Name():
                known = self._names.get(node.id)
                kinds = _of_dtype(known.dtype.name) if isinstance(known, np.generic) else self._env.get(node.id, _NOTHING)
                return _settled(kinds)
            case ast.Constant():
                return _FLOAT if isinstance(node.value, float) else _PYTHON
            case ast.Attribute():
                return _NOTHING
            case ast.Call():
                return self._call(node)
            case ast.BinOp():
                self._refuse_mixed_reduction(node)
                return self._meet(operands_of(node), node)
            case ast.Compare():
                # Of Python's numbers it is True or False, which have the type of what they meet.
                return _NOTHING if all(self._of(each) <= _PYTHON for each in operands_of(node)) else _TRUTH
            case ast.IfExp():
                self._of(node.test)
                return self._meet([node.body, node.orelse], node)
        parts = [self._of(child) for child in operands_of(node)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return parts[0] | {"negative"}
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)):
            return parts[0]
        return _NOTHING

    def _call(self, node: ast.Call) -> Kinds:
        arguments = [self._of(argument) for argument in node.args]
        function = self._names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        self._refuse_negative(function, node.args)
        if function in _ATOMIC_BITS:
            self._refuse_mixed_bits(node.args[0], node.args[-1], node)
        if function is intrinsics.in_place_unsigned:
            self._refuse_signed(node.args[0])
        match function:
            case Function():
                return self._inside(function, arguments)
            case Cast():
                return arguments[0]
        kinds = self._known(function, arguments, node)
        # NumPy's functions of Python's integers give an int64.
        numpys = operation(function).owner == "numpy"
        return frozenset({"signed"}) if numpys and kinds - {"negative"} == _PYTHON else kinds

    def _known(self, function: object, arguments: list[Kinds], node: ast.Call) -> Kinds:
        if function is np.where and len(arguments) == 3:
            return self._meet(node.args[1:], node)
        if is_one_of(function, (pow, intrinsics.power, intrinsics.real_power)):
            return self._meet(node.args[:2], node)
        match operation(function).result:
            case "float":
                return _FLOAT
            case "joined":
                return self._meet(node.args, node)
            case "first" if arguments:
                return arguments[0]
        if isinstance(function, type) and issubclass(function, np.generic):
            return _of_dtype(np.dtype(function).name)
        return _NOTHING

    def _refuse_negative(self, function: object, arguments: Sequence[ast.expr]) -> None:
        """Raise where an int64 that is no Python integer may be the least of it and elements without a sign."""
        dtype = ""
        if isinstance(function, Cast) and function.keeps == "min":
            dtype = function.dtype
        elif function is language.atomic_min and isinstance(arguments[0], ast.Name) and arguments[0].id in self._types:
            dtype = self._types[arguments[0].id].dtype
        if not dtype.startswith("uint"):
            return
        value = arguments[-1]
        kinds = self._env.get(value.id, _NOTHING) if isinstance(value, ast.Name) else self._of(value)
        if kinds == {"signed"} and not _is_natural(value, self._names):
            raise KernelTypeError(
                f"the least of elements of type {dtype} and `{user_text(value, self._paths)}`, an int64, which may be negative",
                Span.of(value, self._file),
                hint=f"convert it, np.{dtype}(...), or use an array with a sign",
            )

    def _refuse_mixed_reduction(self, node: ast.BinOp) -> None:
        for local, value in ((node.left, node.right), (node.right, node.left)):
            if isinstance(node.op, _BITWISE) and isinstance(local, ast.Name) and local.id in self._elements:
                self._refuse_of_kinds(self._elements[local.id] | self._of(value), value, node)

    def _refuse_mixed_bits(self, element: ast.expr, value: ast.expr, node: ast.AST) -> None:
        """Raise where a uint64 and another integer of NumPy's with a sign are combined: NumPy has no type for both."""
        self._refuse_of_kinds(self._of(element) | self._of(value), value, node)

    def _refuse_of_kinds(self, kinds: Kinds, value: ast.expr, node: ast.AST) -> None:
        if "unsigned" in kinds and kinds & {"signed", "narrow"}:
            raise KernelTypeError(
                f"`{user_text(value, self._paths)}` and the element that it changes are a uint64 and an integer with a sign",
                Span.of(node, self._file),
                hint="NumPy refuses this too: convert one of them, np.int64(u) or np.uint64(k)",
            )

    def _refuse_signed(self, computed: ast.expr) -> None:
        """Raise where an array without signs is updated in place by an integer of NumPy's that has one."""
        if isinstance(computed, ast.BinOp) and self._of(computed.right) & {"signed", "narrow"}:
            raise KernelTypeError(
                "elements without a sign are updated in place by an integer of NumPy's that has one",
                Span.of(computed, self._file),
                hint="NumPy refuses this too: write `x[...] = x[...] + k`, which converts, or int(k) for a Python integer",
            )

    def _inside(self, function: Function, arguments: list[Kinds]) -> Kinds:
        """What a function returns; its parameters are what was passed, and leaves of the same names."""
        inner = copy.copy(self)
        parameters = [parameter.arg for parameter in function.tree.args.args]
        inner._env = dict(zip(parameters, arguments, strict=False))
        inner._names, inner._file, inner._returned, inner._slots = function.names, function.file, _NOTHING, {}
        inner._block(function.tree.body)
        return _settled(inner._returned)

    def _meet(self, operands: Sequence[ast.expr], node: ast.expr | ast.stmt) -> Kinds:
        """What an operation gives."""
        each = [self._of(operand) for operand in operands]
        if _FLOAT in each or isinstance(getattr(node, "op", None), ast.Div):
            return _FLOAT
        weak = any(of == _PYTHON and not _is_literal(part) for part, of in zip(operands, each, strict=True))
        if any("python" in of for of in each) and not self._takes_one(node):
            # NumPy's boolean and a Python integer are an int64.
            each = [(of - {"truth"}) | {"signed"} if "truth" in of else of for of in each]
        if weak or any("unsigned32" in of for of in each):
            # No narrower type holds a signed one and uint32, nor one and numbers that are Python's and no literals.
            each = [(of - {"narrow"}) | {"signed"} if "narrow" in of else of for of in each]
        kinds = frozenset().union(*each) - {"negative"}
        if {"unsigned", "signed"} <= kinds:
            unsigned, signed = (
                next(user_text(part, self._paths) for part, of in zip(operands, each, strict=True) if kind in of)
                for kind in ("unsigned", "signed")
            )
            raise _mixed(f"`{unsigned}` is a uint64 and `{signed}` an int64 here", Span.of(node, self._file))
        if {"unsigned", "narrow"} <= kinds:
            return _FLOAT
        # Of a narrow type and int64 comes int64; a Python int takes the other's type.
        if kinds & {"unsigned", "signed"}:
            return kinds - {"narrow", "python", "unsigned32", "truth"}
        return (kinds if self._takes_one(node) else kinds - {"truth"}) - {"python"} or kinds

    def _takes_one(self, node: ast.expr | ast.stmt) -> bool:
        """Whether one of the operands is taken as it is."""
        function = self._names.get(node.func.id) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        return isinstance(node, ast.IfExp) or is_one_of(function, (min, max))


def _mixed(found: str, span: Span) -> KernelTypeError:
    return KernelTypeError(
        f"{found}: NumPy makes float64 of the two, since no integer of 64 bits holds both",
        span,
        hint="convert one of them: np.float64(u) as NumPy does, np.int64(u), or np.uint64(k)",
    )
