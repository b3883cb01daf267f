"""Elements of what is no array: a number or None was passed where a loop indexes. Refused by name, at the first use."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

import numpy as np

from qgraph.errors import KernelTypeError
from qgraph.frontend.inference.ranks import known_object
from qgraph.frontend.names.bindings import Binding, LeafRef, Value
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.argument_types import Leaf, ScalarType
from qgraph.ir.program import Program, Task
from qgraph.source import Span, as_written, children_of, nodes_of

# What may leave out a part of itself, and what ends an iteration, so that there is nothing behind it.
_DECIDE = (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.Match)
_ENDS = (ast.Continue, ast.Break, ast.Return, ast.Raise)


def refuse_missing_arrays(scope: Scope, tree: ast.FunctionDef) -> None:
    """Raise where a kernel surely asks a parameter for what arrays have, and got a number, a text or None for it.

    Raises:
        KernelTypeError: at that place.
    """
    parameters = scope.names.keys() - names_assigned(tree.body)
    for node in _certain(tree.body):
        match node:
            case ast.Subscript(value=asked) | ast.Attribute(value=asked):
                pass
            case ast.Call(func=func, args=[asked]) if known_object(scope, func) is len:
                pass
            case _:
                continue
        named = asked
        while isinstance(named, ast.Attribute):
            named = named.value
        if not isinstance(named, ast.Name) or named.id not in parameters:
            continue
        bound = quietly_static(scope, asked)
        what, wanted = _no_array(bound), _wanted(node, bound)
        if what and wanted:
            found = f"`{as_written(asked)}` is {what}, which has no {wanted}"
            raise KernelTypeError(found, scope.span(node), hint="pass an array for it")


def _wanted(node: ast.AST, bound: Binding | None) -> str:
    """What ``node`` asks for that ``bound``, which is no array, has not; "" where it has."""
    is_text = isinstance(bound, Value) and isinstance(bound.value, str)
    match node:
        case ast.Subscript(ctx=context):
            return "" if is_text and not isinstance(context, ast.Store) else "elements"
        case ast.Attribute(attr=attr):
            return f"`{attr}`" if hasattr(np.ndarray, attr) and not hasattr(_like(bound), attr) else ""
    return "" if is_text else "length"


def _no_array(bound: Binding | None) -> str:
    """What a parameter got that is no array; "" for an array, and for what may hold some."""
    match bound:
        case LeafRef(is_array=False):
            return "a number"
        case Value(value=None):
            return "None"
        case Value(value=str(text)):
            return f"the text {text[:40]!r}"
    return ""


def _like(bound: Binding | None) -> object:
    """What has the attributes of a parameter that got no array: NumPy's numbers have nearly all that arrays have."""
    match bound:
        case LeafRef(leaf=Leaf(type=ScalarType(weak=weak))):
            return 1j if weak else np.float64(1)
        case Value(value=value):
            return value
    return None


def refuse_elements_of_numbers(program: Program) -> None:
    """Raise where a task asks a scalar argument, None or its own loop variable for an element, its length or its shape.

    Raises:
        KernelTypeError: at that place.
    """
    paths = {leaf.name: leaf.path for leaf in program.leaves if isinstance(leaf.type, ScalarType)}
    for task in program.tasks():
        nodes = [node for statement in task.body for node in nodes_of(statement)]
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in _certain(task.body):
            match node:
                case ast.Subscript(value=asked):
                    _look(node, asked, "elements", task, paths, stored)
                case ast.Attribute(value=asked, attr="shape"):
                    _look(node, asked, "`shape`", task, paths, stored)
                case ast.Call(func=ast.Name(id=name), args=[asked]) if (
                    task.names.get(name, getattr(builtins, name, None)) is len
                ):
                    _look(node, asked, "length", task, paths, stored)


def _certain(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes that each iteration comes to, whatever is known while compiling: what is behind a condition may not exist."""
    left: list[ast.AST] = [*reversed(body)]
    while left:
        node = left.pop()
        if isinstance(node, _DECIDE):
            if any(isinstance(inner, _ENDS) for inner in nodes_of(node)):
                return
            continue
        yield node
        left += reversed([*children_of(node)])


def _look(node: ast.expr, asked: ast.expr, wanted: str, task: Task, paths: dict[str, str], stored: set[str]) -> None:
    match asked:
        case ast.Name(id=name) if name in paths and name not in stored:
            what, hint = "a number", "pass an array for it"
        case ast.Name(id=name) if any(axis.variable == name for axis in task.axes):
            what, hint = "the number of an iteration", "take the element of an array: x[i]"
        case ast.Constant(value=None):
            what, hint = "None", "pass an array for it"
        case _:
            return
    text = Span.of(asked, task.span.file).text() or user_text(asked, paths)
    raise KernelTypeError(f"`{text}` is {what}, which has no {wanted}", Span.of(node, task.span.file), hint=hint)
