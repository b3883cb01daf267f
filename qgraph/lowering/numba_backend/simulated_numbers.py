"""Numbers on the simulator where plain Python raises and compiled code does not: inf and nan, and 0 for integers."""

from __future__ import annotations

import ast
import builtins
import cmath
import functools
import math
import operator
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from qgraph.ir.trees import load
from qgraph.operations.table import is_one_of

# NumPy's functions that compute what those of math do, where these raise.
_INSTEAD: Mapping[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in [
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "exp",
            "exp2",
            "expm1",
            "sinh",
            "cosh",
            "sin",
            "cos",
            "tan",
            "fmod",
            "hypot",
        ]
    },
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "cosh", "tanh")},
    "pow": np.power,
    "gamma": lambda x: np.nan if x < 0 else np.copysign(np.inf, x),
    "lgamma": lambda x: np.inf,
    "ldexp": lambda x, exponent: np.ldexp(x, int(exponent)),
}
# Those that make integers of floats.
_TO_INTEGERS = (builtins.int, builtins.round, math.floor, math.ceil, math.trunc)
_RAISED = (ZeroDivisionError, OverflowError, ValueError)


def without_domain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of math that is inf or nan where Python's raises."""
    instead = _INSTEAD.get(function.__name__)
    return function if instead is None else functools.partial(_computed, float, function, instead)


def _computed(kind: type, function: Callable[..., Any], instead: Callable[..., Any], *operands: Any) -> Any:
    """What ``function`` gives, or where it raises ``instead`` of operands of that ``kind``."""
    try:
        return function(*operands)
    except _RAISED:
        with np.errstate(all="ignore"):
            return kind(instead(*map(kind, operands)))


def _whole(function: Callable[..., Any], *operands: Any) -> Any:
    """The integer that ``function`` makes of a float: of one that 64 bits do not hold that which the machine makes."""
    if function is math.trunc and isinstance(operands[0], np.floating):
        # Only a float64 has the method that it asks for.
        function = builtins.int
    try:
        found = function(*operands)
        if type(found) is not int or not isinstance(operands[0], float | np.floating) or -(2**63) <= found < 2**63:
            return found
    except _RAISED:
        pass
    with np.errstate(all="ignore"):
        return int(np.float64(operands[0]).astype(np.int64))


def _shifted(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """``a << b`` or ``a >> b`` as of NumPy's numbers, where Python raises for its own."""
    try:
        return function(a, b)
    except _RAISED:
        return int(function(np.int64(Int64(a)), np.int64(Int64(b))))


def _operated(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """``a / b``, ``a // b``, ``a % b`` or ``a ** b`` as of NumPy's numbers, where Python raises for its own."""
    try:
        return function(a, b)
    except _RAISED:
        whole = function in (operator.floordiv, operator.mod) and all(isinstance(each, int) for each in (a, b))
        if whole:
            return 0
        kind = complex if isinstance(a, complex) or isinstance(b, complex) else float
        with np.errstate(all="ignore"):
            return kind(function(np.asarray(a, kind)[()], np.asarray(b, kind)[()]))


class Operators(ast.NodeTransformer):
    """Operators that raise become calls."""

    FUNCTIONS: ClassVar[dict[type[ast.operator], tuple[str, Callable[..., Any]]]] = {
        ast.Div: ("_qgraph_div", functools.partial(_operated, operator.truediv)),
        ast.FloorDiv: ("_qgraph_floordiv", functools.partial(_operated, operator.floordiv)),
        ast.Mod: ("_qgraph_mod", functools.partial(_operated, operator.mod)),
        ast.Pow: ("_qgraph_pow", functools.partial(_operated, operator.pow)),
        ast.LShift: ("_qgraph_lshift", functools.partial(_shifted, operator.lshift)),
        ast.RShift: ("_qgraph_rshift", functools.partial(_shifted, operator.rshift)),
    }
    NAMES: ClassVar[dict[str, Callable[..., Any]]] = dict(FUNCTIONS.values())

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operator as a call, unless the right operand is a literal other than 0 and no power may overflow."""
        self.generic_visit(node)
        found = self.FUNCTIONS.get(type(node.op))
        if found is None or (isinstance(node.right, ast.Constant) and node.right.value and not isinstance(node.op, ast.Pow)):
            return node
        return ast.copy_location(ast.Call(ast.copy_location(load(found[0]), node), [node.left, node.right], []), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """Of a name an assignment; elements are NumPy's numbers."""
        if type(node.op) not in self.FUNCTIONS or not isinstance(node.target, ast.Name):
            return self.generic_visit(node)  # type: ignore[return-value]
        value = ast.copy_location(ast.BinOp(load(node.target.id), node.op, node.value), node)
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([node.target], self.visit(value)), node))


def _extreme(function: np.ufunc, a: Any, b: Any) -> Any:
    """``np.maximum`` and its kin, also of a Python integer that the other's type does not hold: of the type of both."""
    try:
        return function(a, b)
    except OverflowError:
        return function(np.asarray(a), np.asarray(b))


class Int64(int):
    """A number of 64 bits, Python's or NumPy's: what it meets keeps its type, but for booleans and narrower integers.

    As NumPy's it would make float64 of a uint64 and of a float32; as Python's it would wrap, or raise, beside an int8.
    """

    def __new__(cls, value: Any) -> Int64:
        """``value`` as an integer, wrapped."""
        return super().__new__(cls, (_whole(int, value) + 2**63) % 2**64 - 2**63)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """What NumPy makes of it and its own numbers, by operators too."""
        others = {np.asarray(each).dtype for each in inputs if not isinstance(each, int)}
        wide = any(dtype.kind not in "iub" or dtype.itemsize == 8 for dtype in others)
        kind = int if wide else np.int64
        result = getattr(ufunc, method)(*[kind(each) if isinstance(each, Int64) else each for each in inputs], **options)
        return result if wide else _of_64_bits(np.int64, result)


def _of_64_bits(kind: type, result: Any) -> Any:
    """A result, or the parts of one, as an ``Int64`` where it is of ``kind``."""
    if isinstance(result, tuple):
        return tuple(_of_64_bits(kind, each) for each in result)
    return Int64(result) if type(result) is kind else result


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: _of_64_bits(int, function(*operands))


for _name in ("add", "sub", "mul", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor"):
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(Int64, _operator, _kept(getattr(int, _operator)))
for _operator in ("__neg__", "__pos__", "__abs__", "__invert__"):
    setattr(Int64, _operator, _kept(getattr(int, _operator)))


class Memory(np.ndarray):
    """An array whose elements take the last bits of any integer, and what the machine makes of a float, as in compiled code."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store ``value``, wrapped where it is an integer."""
        if self.dtype.kind in "iu" and isinstance(value, int | np.integer):
            value = np.uint64(int(value) % 2**64).astype(self.dtype)
        elif self.dtype.kind in "iu" and isinstance(value, float | np.floating):
            with np.errstate(all="ignore"):
                value = np.asarray(value).astype(self.dtype)
        super().__setitem__(index, value)


def _numpys(value: Any) -> Any:
    if isinstance(value, int):
        return np.uint64(int(value) % 2**64)
    return np.float64(value) if isinstance(value, float) else value


class Conversions(ast.NodeTransformer):
    """``np.int8(n)`` of a Python number is that of one of NumPy's, which wraps, as in compiled code."""

    NAMES: ClassVar[dict[str, Callable[..., Any]]] = {"_qgraph_numpys": _numpys}

    def __init__(self, names: Mapping[str, object]) -> None:
        self._types = {name for name, value in names.items() if isinstance(value, type) and issubclass(value, np.integer)}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """The call, of what NumPy takes as its own."""
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in self._types and len(node.args) == 1):
            return node
        node.args = [ast.copy_location(ast.Call(ast.copy_location(load("_qgraph_numpys"), node), node.args, []), node)]
        return node


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    return _operated(operator.floordiv, a, b), _operated(operator.mod, a, b)


def simulated_function(value: Any) -> Any:
    """What raises for some numbers as a function of all that does not; anything else as it is."""
    if value is divmod:
        return _divmod
    if value is np.maximum or value is np.minimum:
        return functools.partial(_extreme, value)
    if is_one_of(value, _TO_INTEGERS):
        return functools.partial(_whole, value)
    if _is_of(cmath, value) and hasattr(np, value.__name__):
        return functools.partial(_computed, complex, value, getattr(np, value.__name__))
    return without_domain(value) if _is_of(math, value) else value


def _is_of(module: ModuleType, value: Any) -> bool:
    name = getattr(value, "__name__", "")
    return isinstance(name, str) and callable(value) and getattr(module, name, None) is value
