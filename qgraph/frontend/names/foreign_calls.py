"""Calls in bodies of what is no func: which are refused, each by name, and how the arguments of others are given."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import inspect
import math
from collections.abc import Iterable, Sequence
from types import BuiltinFunctionType, FunctionType

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.scope import CUDA_HINT, Scope, is_cuda_object, is_random
from qgraph.ir.trees import is_none
from qgraph.nodes.registry import statement_of_word
from qgraph.operations.table import OPERATIONS, is_one_of
from qgraph.source import as_written

# What builtin functions call their parameters.
_PARAMETERS: tuple[tuple[object, tuple[str, ...]], ...] = (
    (round, ("number", "ndigits")),
    (pow, ("base", "exp", "mod")),
    (complex, ("real", "imag")),
    (enumerate, ("iterable", "start")),
)
# Functions of numbers that one backend or another has no code for.
_LACKING = (np.ldexp, np.nextafter, np.spacing, np.logaddexp2, math.remainder, math.modf)
_ON_HOST = "do it on the host, before or after the call"
_NO_OBJECTS = "kernels have tuples of fixed length, numbers and arrays; write a tuple, (a, b), or pass an array"
_OF_TYPES = 'what is known of types is computed while compiling: qgraph.static(x.dtype.kind == "f"), for an array `x`'
_REFUSED_BUILTINS = {
    **dict.fromkeys(("open", "input", "eval", "exec", "getattr", "setattr", "hasattr", "delattr", "callable"), _ON_HOST),
    **dict.fromkeys(("globals", "locals", "vars", "dir", "id", "iter", "next", "object", "super", "memoryview"), _ON_HOST),
    **dict.fromkeys(("repr", "ascii", "format", "bin", "oct", "hex", "ord", "chr", "str", "bytes", "bytearray"), _ON_HOST),
    **dict.fromkeys(("type", "isinstance", "issubclass"), _OF_TYPES),
    **dict.fromkeys(("list", "dict", "set", "frozenset"), _NO_OBJECTS),
    **dict.fromkeys(("map", "filter"), "write a loop over the values"),
    "sorted": "sort whole arrays at kernel level: y[:] = np.sort(x)",
}
# What is given by keyword, and kernels have not.
_REFUSED_KEYWORDS: tuple[tuple[object, str], ...] = (
    (print, "each call prints one line of what it is given, with spaces between"),
    *((function, "compare the keys, or write an `if`: m = a if abs(a) > abs(b) else b") for function in (min, max)),
)


def refuse_callee(scope: Scope, callee: object, node: ast.Call) -> None:
    """Raise ``KernelSyntaxError`` where a body may not call this, by name and with what to do instead."""
    text = as_written(node.func)
    _refuse_words(scope, callee, node, text)
    if is_cuda_object(callee):
        raise scope.error(f"`{text}` is a CUDA intrinsic", node, CUDA_HINT)
    if is_random(callee):
        raise scope.error(
            f"`{text}()` draws a random number, and iterations have no order to draw in",
            node,
            "compute it from the iteration's number, qgraph.random.normal(seed, i), or draw before the call and pass an array",
        )
    refuse_own_code(scope, callee, node)
    _refuse_builtins(scope, callee, node, text)
    if is_one_of(callee, _LACKING):
        raise scope.error(
            f"`{text}()` is a function that not every backend has",
            node,
            "write what it computes with operators, or with other functions of math and NumPy",
        )
    if callee is reversed:
        raise refused_reversed(scope, node)
    if callee is functools.reduce:
        raise scope.error(f"`{text}()` cannot be used in a kernel", node, "write a loop over the values")
    if hasattr(callee, "__qgraph_kernel__"):
        raise scope.error(f"`{text}` is a kernel", node, "mark the function with @qgraph.func to call it from a loop")
    if isinstance(callee, FunctionType) and not _known_module(callee) and not OPERATIONS.knows(callee):
        raise scope.error(
            f"`{text}` is a plain Python function",
            node,
            "mark it with @qgraph.func (or @numba.njit) to call it from a kernel",
        )


def _refuse_builtins(scope: Scope, callee: object, node: ast.Call, text: str) -> None:
    """Python's functions of objects and texts, and what of ``print`` is not everywhere."""
    hint = next((hint for function, hint in _REFUSED_KEYWORDS if function is callee), "")
    if hint and node.keywords:
        found = f"`{node.keywords[0].arg}` of `{text}` cannot be used in a kernel"
        raise scope.error(found, node.keywords[0].value, hint)
    if callee is pow and len(node.args) + len(node.keywords) > 2:
        what = f"`{as_written(node)}` has a modulus, which kernels do not take"
        raise scope.error(what, node, "multiply in a loop, and take `%` of each product")
    if callee is math.log and len(node.args) == 2:
        x, base = map(as_written, node.args)
        raise scope.error(f"`{as_written(node)}` has a base", node, f"write {text}({x}) / {text}({base})")
    if callee is any or callee is all:
        name = callee.__name__
        raise scope.error(
            f"`{text}()` of Python's goes over objects, which a kernel has none of", node, f"write np.{name}(...)"
        )
    name = getattr(callee, "__name__", "")
    if name in _REFUSED_BUILTINS and callee is vars(builtins).get(name):
        raise scope.error(f"`{text}()` cannot be used in a kernel", node, _REFUSED_BUILTINS[name])


def refused_reversed(scope: Scope, node: ast.Call) -> KernelSyntaxError:
    """The error for a call of ``reversed`` that no loop goes over, or of what is no range."""
    match node.args:
        case [ast.Call(func=ast.Name("range"))]:
            hint = (
                "a loop goes over it, `for i in reversed(range(n))`, where its step is a literal and its start calls nothing; "
                "else write it from its end, `range(n - 1, -1, -step)`"
            )
        case [ast.Tuple(elts=items)]:
            hint = f"unroll it from its end: `qgraph.static({as_written(ast.Tuple(items[::-1], ast.Load()))})`"
        case [ast.Name() | ast.Attribute() | ast.Subscript() as array]:
            hint = f"an array is turned round by `{as_written(array)}[::-1]`"
        case _:
            hint = "write a range from its end, `range(n - 1, -1, -1)`; an array is turned round by `x[::-1]`"
    return scope.error(f"`{as_written(node)}` is no range, and no array", node, hint)


def _refuse_words(scope: Scope, callee: object, node: ast.Call, text: str) -> None:
    """The words of the language that are statements, or belong to kernel level."""
    if callee is language.graph_do_while:
        raise scope.error("graph_do_while() is not the condition of a `while`", node, "write `while graph_do_while(flag):`")
    if callee is language.progress:
        raise scope.error(f"`{text}(...)` is used as a value, and gives none", node, "call it as a statement")
    if statement_of_word(callee) is not None:
        raise scope.error(
            f"`{text}(...)` is used in the body of a loop, or as a value: it is a statement of the kernel itself",
            node,
            "call it as a statement at kernel level: before or after the loop",
        )
    if language.array_maker(callee) is not None:
        raise scope.error(
            f"`{as_written(node)}` makes an array in an iteration of a loop, or inside an expression",
            node,
            "name it at kernel level, with a row for each iteration: t = qgraph.empty((n, 3)), then t[i, 0] = ...",
            in_order=True,
        )
    if callee in (language.serial, language.parallel, language.ndrange):
        raise scope.error(f"`{text}(...)` is used as a value", node, f"write `for ... in {text}(...)`")


def _makes_itself(cls: type) -> bool:
    """Whether a named tuple or dataclass runs code of its own when it is made; what Python generated is in no file."""
    is_tuple = issubclass(cls, tuple) and hasattr(cls, "_fields")
    if not is_tuple and not dataclasses.is_dataclass(cls):
        return False
    code = getattr(getattr(cls, "__new__" if is_tuple else "__init__"), "__code__", None)
    return hasattr(cls, "__post_init__") or code is None or not code.co_filename.startswith("<string>")


def refuse_own_code(scope: Scope, cls: object, node: ast.Call) -> None:
    """Raise ``KernelSyntaxError`` where a named tuple or dataclass is made of its fields, and would run code of its own."""
    if not isinstance(cls, type):
        return
    scope.watch_class(cls)
    if _makes_itself(cls):
        raise scope.error(
            f"`{as_written(node)}` runs code of {cls.__name__}, which has a constructor of its own",
            node,
            "use a class without __init__, __new__ or __post_init__, or names for the fields",
        )


def fields_of(cls: type) -> tuple[str, ...] | None:
    """The names of the fields that the constructor of a named tuple or a dataclass takes; None for other classes."""
    if issubclass(cls, tuple):
        found: tuple[str, ...] | None = getattr(cls, "_fields", None)
        return found
    if not dataclasses.is_dataclass(cls):
        return None
    return tuple(field.name for field in dataclasses.fields(cls) if field.init)


def given_fields(scope: Scope, cls: type, fields: tuple[str, ...], node: ast.Call) -> dict[str, ast.expr]:
    """The values of the fields of the named tuple or dataclass that ``node`` makes, in Python's order, and then the defaults.

    Raises:
        KernelSyntaxError: a field is given twice, or not at all.
    """
    refuse_stars(scope, node)
    given = dict(zip(fields, node.args, strict=False)) | {str(each.arg): each.value for each in node.keywords}
    defaults = {
        name: ast.copy_location(ast.Constant(each.default), node)
        for name, each in inspect.signature(cls).parameters.items()
        # Numbers that can be written: neither inf nor nan.
        if name not in given and type(each.default) in (bool, int, float, complex) and each.default - each.default == 0
    }
    if {*given, *defaults} != set(fields) or len(node.args) + len(node.keywords) > len(given):
        raise scope.error(
            f"`{as_written(node)}` does not give each field of {cls.__name__} once", node, f"its fields are {', '.join(fields)}"
        )
    return given | defaults


def refuse_stars(scope: Scope, node: ast.Call) -> None:
    """Raise ``KernelSyntaxError`` where a call has a `*` or `**` in it: what has a known length has been written out."""
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise refused_star(scope, argument)
    if any(keyword.arg is None for keyword in node.keywords):
        raise scope.error("`**` cannot be used in this call", node, "write the arguments out")


def refused_star(scope: Scope, node: ast.Starred) -> KernelSyntaxError:
    """The error for a `*` of something whose length is not known."""
    text = as_written(node.value)
    return scope.error(
        f"how many values `*{text}` gives is not known before the call",
        node,
        "write them out, t[0], t[1]; known are rows, `*x[i]`, shapes, and names that are given tuples of one length alone",
    )


def give_defaults(scope: Scope, cls: object, node: ast.Call) -> None:
    """Give the named tuple that ``node`` makes, if it does, each of its fields: Numba leaves the others without a value.

    Raises:
        KernelSyntaxError: it makes a dataclass, or a field is given twice, or not at all.
    """
    fields = fields_of(cls) if isinstance(cls, type) else None
    if not isinstance(cls, type) or fields is None:
        return
    if not issubclass(cls, tuple):
        found = f"`{as_written(node)}` makes a dataclass in a loop, or inside an expression"
        raise scope.error(found, node, "make a named tuple, or give each field a name")
    given = given_fields(scope, cls, fields, node)
    if len(given) > len(node.args) + len(node.keywords):
        node.args, node.keywords = [], [ast.keyword(*each) for each in given.items()]


def by_position(scope: Scope, callee: object, node: ast.Call) -> None:
    """Arguments of builtin functions by position: Numba has no keywords there, and takes no argument for none.

    Raises:
        KernelSyntaxError: there are too few, or too many.
    """
    if callee in (int, float, complex, bool) and not node.args and not node.keywords:
        node.args = [ast.copy_location(ast.Constant(0), node)]
    _check_arguments(scope, callee, node)
    names = next((names for function, names in _PARAMETERS if function is callee), ())
    if not names or not node.keywords:
        return
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    wanted = list(names[len(node.args) :])
    if callee is complex and "real" in wanted and "real" not in given:
        given["real"] = ast.copy_location(ast.Constant(0), node)
    if set(given) != set(wanted[: len(given)]):
        raise scope.error(
            f"`{as_written(node)}` has wrong arguments",
            node,
            f"write them in order: {as_written(node.func)}({', '.join(names)})",
        )
    node.args += [given[name] for name in wanted[: len(given)]]
    node.keywords = []


def _check_arguments(scope: Scope, callee: object, node: ast.Call) -> None:
    """Raise where one of Python's functions of numbers, or a ufunc, does not take as many arguments as it is given."""
    if isinstance(callee, np.ufunc):
        fits = callee.nin <= len(node.args) <= callee.nin + callee.nout
        wanted: Iterable[str] = "abcdefgh"[: callee.nin]
    elif isinstance(callee, BuiltinFunctionType) and callee.__module__ in ("builtins", "math", "cmath"):
        try:
            signature = inspect.signature(callee)
        except ValueError:
            return
        wanted = signature.parameters
        try:
            signature.bind(*node.args, **{str(each.arg): each.value for each in node.keywords})
            fits = True
        except TypeError:
            fits = False
    else:
        return
    if not fits and not any(isinstance(each, ast.Starred) for each in node.args):
        raise scope.error(
            f"`{as_written(node)}` has wrong arguments", node, f"write {as_written(node.func)}({', '.join(wanted)})"
        )


def one_limit(scope: Scope, node: ast.Call) -> np.ufunc | None:
    """What ``np.clip(x, 0, None)`` is, and ``np.clip(x, None, 1)``: of its two arguments that are left; None with two limits.

    Raises:
        KernelSyntaxError: there is no limit.
    """
    none = [is_none(each) for each in node.args]
    if none == [False, True, True]:
        raise scope.error(f"`{as_written(node)}` has no limit", node, "give one, or write a copy: np.copy(x)")
    if none not in ([False, False, True], [False, True, False]):
        return None
    del node.args[none.index(True)]
    return np.maximum if none[2] else np.minimum


def _known_module(function: FunctionType) -> bool:
    return (function.__module__ or "").split(".")[0] in ("numpy", "math", "cmath", "numba")


# Functions that look numbers up in tables: of one number the func of that name is, among those of the package. Which argument
# is looked up, and what is found is like.
_LOOKUPS = ((np.interp, "interp", 0, np.float64(1)), (np.searchsorted, "searchsorted", 1, np.int64(1)))


def looks_up_number(function: object, ranks: Sequence[int]) -> tuple[str, np.generic] | None:
    """The name of the func that a function is whose arguments have ``ranks``, and what it gives; None for other calls."""
    found = (entry for entry in _LOOKUPS if entry[0] is function)
    return next(((name, number) for _, name, at, number in found if len(ranks) > at and ranks[at] == 0), None)
