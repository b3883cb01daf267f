"""Kernel-level statements for the host: ``host_callback``, ``record`` and ``wait``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from qgraph import language
from qgraph.compat import cpython
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import Gone, LeafRef, ScalarRef, StructRef, Value
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import evaluated
from qgraph.frontend.statements.region import Region
from qgraph.ir.program import ConstantType, EventMark, HostCall, Leaf, ScalarType, Slot
from qgraph.source import as_written

_NUMBERS = (bool, int, float, complex, np.generic)


def host_statement(region: Region, scope: Scope, node: ast.Call, word: object) -> None:
    """A call of one of ``language.HOST_WORDS`` as a statement.

    Raises:
        KernelSyntaxError: it stands in a device loop or branch, or its arguments are not what the word takes.
    """
    text = as_written(node.func)
    if region.depth > 0:
        raise KernelSyntaxError(
            f"`{text}(...)` is inside a device loop or branch, whose body CUDA keeps free of host calls and events",
            scope.span(node),
            hint=f"call `{text}` before or after it, or keep the loop in Python and call a kernel in each iteration",
        )
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise KernelSyntaxError(
            f"`{text}(...)` takes plain arguments", scope.span(node), hint="pass them by position, without `*`"
        )
    if word is language.host_callback:
        _host_call(region, scope, node)
    else:
        _event_mark(region, scope, node, "record" if word is language.record else "wait")


# --- host calls --------------------------------------------------------------------------------------------------------


def _host_call(region: Region, scope: Scope, node: ast.Call) -> None:
    if not node.args:
        raise KernelSyntaxError(
            f"`{as_written(node)}` names no function", scope.span(node), hint="write host_callback(fn, *scalars)"
        )
    function = _function(scope, node.args[0])
    arguments: tuple[Slot | ConstantType, ...]
    if language.is_c_function(function):
        if not language.takes_a_pointer(function):
            raise KernelSyntaxError(
                f"`{ast.unparse(node.args[0])}` is a C function, but no `void (*)(void *)`: {_declared(function)}",
                scope.span(node.args[0]),
                hint=language.C_FUNCTION_HINT,
            )
        arguments = _c_arguments(scope, node)
    else:
        arguments = tuple(_argument(region, scope, argument) for argument in node.args[1:])
    name = region.unit.task_name(node.lineno, "callback")
    label = f"{as_written(node.args[0])}(...)" if len(node.args) > 1 else f"{as_written(node.args[0])}()"
    region.add(HostCall(name, scope.span(node), function, arguments, label))


def _function(scope: Scope, node: ast.expr) -> Callable[..., object]:
    """The function to call, which must be known when the kernel is compiled."""
    bound = None if isinstance(node, ast.Lambda) else scope.static(node)
    if isinstance(bound, Gone):
        raise KernelSyntaxError(bound.reason, scope.span(node), hint=bound.hint)
    if isinstance(bound, Value) and callable(bound.value):
        return bound.value
    raise KernelSyntaxError(
        f"`{as_written(node)}` is not a function that is known when the kernel is compiled",
        scope.span(node),
        hint="name a function of the module or of the function around, or pass it as an argument of the kernel",
    )


def _argument(region: Region, scope: Scope, node: ast.expr) -> Slot | ConstantType:
    """A constant, or the slot of a kernel scalar that holds the value."""
    try:
        return ConstantType(ast.literal_eval(node))
    except ValueError:
        bound = scope.static(node)
    if isinstance(bound, ScalarRef):
        return bound.slot
    if isinstance(bound, Value) and (bound.value is None or isinstance(bound.value, (str, *_NUMBERS))):
        return ConstantType(bound.value)
    if isinstance(bound, (StructRef, Value)) or rank(scope, node) > 0:
        raise KernelSyntaxError(
            f"`{as_written(node)}` is not a number, and a host callback takes numbers",
            scope.span(node),
            hint="pass elements of arrays, such as x[0], or read the array after the kernel has run",
        )
    name = f"{ADDED}passed{len(region.unit.slots)}"
    # What it is made of may be loops, which end the run that there is.
    value = evaluated(region, scope, node)
    region.run(scope).assign(scope, name, value)
    made = scope.names.pop(name)
    assert isinstance(made, ScalarRef)
    return made.slot


def _c_arguments(scope: Scope, node: ast.Call) -> tuple[ConstantType, ...]:
    """The pointer that a C function gets, if it gets one."""
    extra = node.args[1:]
    if not extra:
        return ()
    known = _known(scope, extra[0])
    if len(extra) > 1 or not (known is None or isinstance(known, (int, bytes, *cpython.C_DATA))):
        raise KernelSyntaxError(
            f"`{as_written(node.args[0])}` is a C function, which gets one pointer",
            scope.span(extra[-1]),
            hint="pass nothing, or bytes, a ctypes object or an address that is known when the kernel is compiled",
        )
    return (ConstantType(language.copied_data(known)),)


def _known(scope: Scope, node: ast.expr) -> object:
    """The value of an expression that is known when the kernel is compiled."""
    if isinstance(node, ast.Constant):
        return node.value
    bound = scope.static(node)
    return bound.value if isinstance(bound, Value) else _MISSING


def _declared(function: Any) -> str:
    """What ctypes was told of a function."""
    if function.argtypes is None:
        return "ctypes was not told its parameters"
    takes = ", ".join(kind.__name__ for kind in function.argtypes) or "nothing"
    gives = "nothing" if function.restype is None else getattr(function.restype, "__name__", "something")
    lock = ", and wants the interpreter's lock" if cpython.wants_lock(function) else ""
    return f"it takes {takes} and returns {gives}{lock}"


_MISSING = object()


# --- events ------------------------------------------------------------------------------------------------------------


def _event_mark(region: Region, scope: Scope, node: ast.Call, kind: Literal["record", "wait"]) -> None:
    if len(node.args) != 1:
        raise KernelSyntaxError(f"`{as_written(node)}` takes one event", scope.span(node), hint=f"write {kind}(event)")
    event = _event(scope, node.args[0])
    region.add(EventMark(kind, scope.span(node), event, f"{kind} {as_written(node.args[0])}"))


def _event(scope: Scope, node: ast.expr) -> Leaf | ConstantType:
    try:
        return ConstantType(ast.literal_eval(node))
    except ValueError:
        bound = scope.static(node)
    if isinstance(bound, LeafRef) and isinstance(bound.leaf.type, ScalarType) and "int" in bound.leaf.type.dtype:
        return bound.leaf
    if isinstance(bound, Value):
        return ConstantType(bound.value)
    if isinstance(bound, Gone):
        raise KernelSyntaxError(bound.reason, scope.span(node), hint=bound.hint)
    raise KernelSyntaxError(
        f"`{as_written(node)}` is not an event",
        scope.span(node),
        hint="pass an event of PyTorch, CuPy or cuda.core, or its handle, as an argument of the kernel",
    )
