"""Calls of funcs: which argument each parameter gets, and which arguments are compiled into a copy of the function."""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Hashable
from typing import Any

import numpy as np

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Binding, BoundFunc, LeafRef, ScalarRef, SlotRef, StructRef, Value, ViewAxis, ViewRef
from qgraph.frontend.names.definite_assignment import falls_through, gives_value, names_assigned
from qgraph.frontend.names.foreign_calls import refuse_stars
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import known_value
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ConstantType
from qgraph.ir.trees import load
from qgraph.language import Func
from qgraph.source import as_written


def callee(scope: Scope, node: ast.Call) -> tuple[Func, StructRef | Value | None] | None:
    """The func, or the kernel as one, that a call calls, and the object it is a method of."""
    bound = quietly_static(scope, node.func)
    if isinstance(bound, BoundFunc):
        assert isinstance(bound.function, Func)
        return bound.function, bound.owner
    if isinstance(bound, Value):
        # A kernel in a kernel is its statements.
        function = getattr(bound.value, "__qgraph_kernel__", bound.value)
        if isinstance(function, Func):
            return function, None
    return None


def bind_call(scope: Scope, source: SourceFunction, owner: StructRef | Value | None, node: ast.Call) -> dict[str, Any]:
    """The arguments of a call by parameter: the caller's expression, or what is known: a default, ``owner``, a ``Static``."""
    refuse_stars(scope, node)
    positional: list[Any] = [*([] if owner is None else [owner]), *node.args]
    try:
        bound = source.signature.bind(*positional, **{str(k.arg): k.value for k in node.keywords})
    except TypeError as error:
        raise KernelSyntaxError(
            f"{source.name}() does not take these arguments: {error}",
            scope.span(node),
            also=((f"{source.name}() is defined here", source.span),),
            hint=f"its parameters are {', '.join(source.signature.parameters) or 'none'}",
        ) from None
    for parameter in source.signature.parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise KernelSyntaxError(
                f"{source.name}() takes `*{parameter.name}`", source.span, hint="give each parameter a name of its own"
            )
    result: dict[str, Any] = {}
    for name, parameter in source.signature.parameters.items():
        value = bound.arguments.get(name)
        is_static = name in source.static
        if name not in bound.arguments:
            # A default is an expression of no caller: its value stands in for it.
            scope.watch_default(source, parameter)
            value = Value(parameter.default)
            if _is_number(parameter.default) and not is_static:
                value = ast.copy_location(_number(scope, parameter.default, f"{source.name}.{name}"), node)
        elif is_static and isinstance(value, ast.expr):
            value = known_value(scope, value, f"`{name}` of {source.name}(), which is Static,")
        result[name] = value
    return result


def refuse_recursion(unit: ProgramBuilder, func: object, scope: Scope, node: ast.AST) -> None:
    """Raise for a function that is being inlined already."""
    if func in unit.calling:
        name = getattr(func, "__name__", "the function")
        raise scope.error(f"{name}() calls itself", node, "recursion is not supported; write a loop")


def without_docstring(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements after a docstring."""
    first = statements[0].value if statements and isinstance(statements[0], ast.Expr) else None
    return statements[1:] if isinstance(first, ast.Constant) and isinstance(first.value, str) else statements


def is_fixed(bound: Binding, source: SourceFunction, parameter: str) -> bool:
    """Whether an argument is compiled into a copy of the function."""
    if isinstance(bound, ViewRef):
        return not is_slice(bound) and parameter not in names_assigned(source.tree.body)
    if isinstance(bound, LeafRef):
        return bound.is_array and source.looks_at_types
    return isinstance(bound, (StructRef, BoundFunc)) or (isinstance(bound, Value) and not _is_number(bound.value))


def identity(bound: Binding) -> object:
    """What tells the copy of a function for this argument from others."""
    if isinstance(bound, StructRef):
        return (bound.path, *map(identity, bound.children.values()))
    if isinstance(bound, BoundFunc):
        return (id(bound.function), identity(bound.owner))
    if isinstance(bound, (LeafRef, SlotRef, ScalarRef)):
        return (bound.leaf if isinstance(bound, LeafRef) else bound.slot).name
    if isinstance(bound, Value):
        return ConstantType(bound.value) if isinstance(bound.value, Hashable) else id(bound.value)
    return id(bound)


def is_slice(view: ViewRef) -> bool:
    """Whether a view is a slice of its array with positive steps, which Numba's functions take as it is."""
    axes = [along.axis for along in view.along]
    return axes == sorted(axes) and -1 not in axes and all(map(is_forward, view.along))


def is_forward(along: ViewAxis) -> bool:
    """Whether a dimension of a view surely has the order of the array's."""
    return (along.step.constant or 0) >= 1


def _number(scope: Scope, value: Any, text: str) -> ast.expr:
    """Code that stands for a number: a literal has one of Python's types, what else there is has a name."""
    if type(value) in (bool, int, float, complex):
        return ast.Constant(value)
    return load(scope.name_for(value, text))


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex, np.generic)) and not isinstance(value, (np.str_, np.bytes_, enum.Enum))


def refuse_without_value(scope: Scope, source: SourceFunction, node: ast.Call) -> None:
    """A func whose value is taken does not raise on each path; one without a `return` gives None, which may be all right."""
    if not gives_value(source.tree.body) and not falls_through(source.tree.body):
        raise without_value(scope, source, node)


def without_value(scope: Scope, source: SourceFunction, node: ast.Call) -> KernelSyntaxError:
    """The error for a call of a func that gives no value, where one is needed."""
    text = as_written(node)
    if falls_through(source.tree.body):
        return scope.error(f"`{text}` returns nothing", node, "give the func a `return`")
    hint = f"call it as a statement, `{text}`, on the path that shall raise"
    return scope.error(f"`{text}` raises on each path, and gives no value", node, hint)
