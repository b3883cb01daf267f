"""`assert` and `raise`: which error a statement means, and an assertion as a branch."""

from __future__ import annotations

import ast
from typing import Any

from qgraph.frontend.names.bindings import Value
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.ir.trees import at_place
from qgraph.source import as_written

_HINT = 'raise a built-in exception with constants: raise ValueError("no solution")'


def as_branch(scope: Scope, node: ast.Assert) -> ast.If:
    """``if not test: raise ...``, with the error as a constant.

    Raises:
        KernelSyntaxError: the message is no constant.
    """
    text = f"the assertion `{as_written(node.test)}` failed"
    if node.msg is not None:
        text += f": {_constant(scope, node.msg)}"
    error: Any = AssertionError(text)
    failing = ast.Raise(ast.Constant(error), None)
    return at_place(ast.If(ast.UnaryOp(ast.Not(), node.test), [failing], []), node)


def raised(scope: Scope, node: ast.Raise) -> Exception:
    """The exception that ``node`` raises.

    Raises:
        KernelSyntaxError: it is no built-in exception of constants.
    """
    made: Any = node.exc.value if isinstance(node.exc, ast.Constant) else None
    if isinstance(made, Exception):
        return made
    match node:
        case ast.Raise(cause=ast.expr() as cause) if not (isinstance(cause, ast.Constant) and cause.value is None):
            raise scope.error("`raise ... from ...` in a kernel", cause, "leave the cause out")
        case ast.Raise(exc=ast.Call(func=function, args=arguments, keywords=[])):
            pass
        case ast.Raise(exc=ast.expr() as function):
            arguments = []
        case _:
            raise scope.error("`raise` without an exception, where none is handled", node, _HINT)
    bound = quietly_static(scope, function)
    cls = bound.value if isinstance(bound, Value) else None
    if not (isinstance(cls, type) and issubclass(cls, Exception) and cls.__module__ == "builtins"):
        raise scope.error(f"`{as_written(function)}` is no built-in exception", function, _HINT)
    values = [_constant(scope, argument) for argument in arguments]
    try:
        cls("")
        return cls(*values)
    except TypeError as error:
        raise scope.error(f"`{as_written(node)}` is none that a kernel can raise: {error}", node, _HINT) from error


def _constant(scope: Scope, node: ast.expr) -> object:
    bound = quietly_static(scope, node)
    value = node.value if isinstance(node, ast.Constant) else bound.value if isinstance(bound, Value) else node
    if value is not None and not isinstance(value, bool | int | float | complex | str):
        raise scope.error(f"`{as_written(node)}` is no constant", node, "the device has no strings to make a message of")
    return value
