"""Numba's failures as qgraph's: the user's line, and the one sentence that matters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.errors import NumbaError, UnsupportedBytecodeError

from qgraph.errors import KernelTypeError
from qgraph.program import Function
from qgraph.source import Span

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_MATCH = re.compile(r"No implementation of function (?P<type>.+?) found for signature:\s*>>> (?P<call>.+)")
_INVALID = re.compile(r"Invalid use of (?P<type>.+?) with parameters (?P<args>\(.*\))")
_TYPE_NAME = re.compile(r"(?:Bound)?Function\(<(?:built-in function|function|ufunc|class) '?(?P<name>[\w.]+)'?.*?>\)")
# Lines that say where Numba was, not what is wrong.
_NOISE = (
    "Failed in ",
    "During:",
    'File "',
    "There are ",
    "- Of which",
    "Overload ",
    "No match",
    "Known signatures",
    "raised from ",
    "<source ",
    "This is not usually a problem",
    "To see Python/NumPy",
    "For more information",
    "* ",
)


@contextmanager
def kernel_errors(function: Function) -> Iterator[None]:
    """Turn what Numba raises into ``KernelTypeError`` at the user's line; the function's own span where Numba has none."""
    unsupported: tuple[type[Exception], ...] = (NumbaError, UnsupportedBytecodeError, NotImplementedError, AssertionError)
    try:
        yield
    except unsupported as error:
        raise KernelTypeError(sentence(error), _span(error, function)) from error


def sentence(error: BaseException) -> str:
    """The essential sentence of a Numba error."""
    text = _COLOUR.sub("", str(error.args[0]) if error.args else "")
    inner = re.findall(r"(?:TypingError|NumbaError|LoweringError|NumbaValueError|NumbaTypeError): (.+)", text)
    match = _NO_MATCH.search(text)
    if inner:
        return str(inner[-1]).strip()
    if match:
        return f"no implementation of {_call(match['type'], match['call'])} for these types"
    match = _INVALID.search(text)
    if match:
        return f"{_name(match['type'])} cannot be called with {match['args']}"
    lines = (line.strip() for line in text.splitlines())
    useful = [line for line in lines if line and not line.startswith(_NOISE)]
    return useful[0] if useful else f"Numba cannot compile this ({type(error).__name__})"


def _name(type_text: str) -> str:
    match = _TYPE_NAME.search(type_text)
    return match["name"] if match else type_text


def _call(type_text: str, call: str) -> str:
    name = _name(type_text)
    arguments = call[call.index("(") :] if "(" in call else ""
    return f"{name}{arguments.strip()}"


def _span(error: BaseException, function: Function) -> Span:
    place: Any = getattr(error, "loc", None)
    tree = function.tree
    line = getattr(place, "line", None)
    if line is None or getattr(place, "filename", None) is None:
        found = re.findall(r'File "(.+?)", line (\d+)', _COLOUR.sub("", str(error)))
        if not found:
            return Span.of(_outermost(tree), function.file)
        filename, line = found[-1][0], int(found[-1][1])
    else:
        filename = place.filename
    if not _same_file(filename, function.file):
        return Span(filename, line, 0, line, 1)
    return _statement_span(tree, function.file, line)


def _same_file(left: str, right: str) -> bool:
    # Numba shortens the names of files outside its working directory.
    return left == right or right.endswith(left.lstrip("./")) or left.endswith(right.lstrip("./"))


def _outermost(tree: ast.FunctionDef) -> ast.AST:
    return tree.body[0] if tree.body else tree


def _statement_span(tree: ast.FunctionDef, file: str, line: int) -> Span:
    """The innermost statement that starts on ``line``, else the smallest one that covers it."""
    best: ast.AST | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or node is tree:
            continue
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if best is None or _height(node) <= _height(best):
            best = node
    if best is None:
        return Span(file, line, 0, line, 1)
    if getattr(best, "body", None) and best.lineno == line:  # a compound statement: its first line
        column = getattr(best, "col_offset", 0)
        return Span(file, line, column, line, column + 1)
    return Span.of(best, file)


def _height(node: ast.AST) -> int:
    return (getattr(node, "end_lineno", 0) or 0) - getattr(node, "lineno", 0)
