"""Numbers on the simulator where plain Python raises and compiled code does not: inf and nan, and 0 for integers."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from qgraph.ir.trees import load

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
}
_RAISED = (ZeroDivisionError, OverflowError, ValueError)


def without_domain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of math that is inf or nan where Python's raises."""
    instead = _INSTEAD.get(function.__name__)
    return function if instead is None else functools.partial(_computed, function, instead)


def _computed(function: Callable[..., Any], instead: Callable[..., Any], *operands: Any) -> Any:
    try:
        return function(*operands)
    except _RAISED:
        with np.errstate(all="ignore"):
            return float(instead(*map(float, operands)))


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
    }
    NAMES: ClassVar[dict[str, Callable[..., Any]]] = dict(FUNCTIONS.values())

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operator as a call, unless the right operand is a literal other than 0 and no power may overflow."""
        self.generic_visit(node)
        found = self.FUNCTIONS.get(type(node.op))
        if found is None or (isinstance(node.right, ast.Constant) and node.right.value and not isinstance(node.op, ast.Pow)):
            return node
        return ast.copy_location(ast.Call(ast.copy_location(load(found[0]), node), [node.left, node.right], []), node)


def _extreme(function: np.ufunc, a: Any, b: Any) -> Any:
    """``np.maximum`` and its kin, also of a Python integer that the other's type does not hold: of the type of both."""
    try:
        return function(a, b)
    except OverflowError:
        return function(np.asarray(a), np.asarray(b))


def simulated_function(value: Any) -> Any:
    """A function of math as ``without_domain``, an extreme of any integers; anything else as it is."""
    if value is np.maximum or value is np.minimum:
        return functools.partial(_extreme, value)
    name = getattr(value, "__name__", "")
    of_math = isinstance(name, str) and callable(value) and getattr(math, name, None) is value
    return without_domain(value) if of_math else value
