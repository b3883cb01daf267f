"""The syntax that kernels do not have: a table, with what to write instead."""

from __future__ import annotations

import ast

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.syntax.list_displays import unnamed_lists
from qgraph.ir.trees import parts_of
from qgraph.source import Span, nodes_of

_FIXED = "kernels have tuples of fixed length, numbers and arrays"
_LIST = f"{_FIXED}; pass an array"

REJECTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("`try`", "nothing raises on the device; test the condition with `if`"),
    ast.TryStar: ("`try`", "nothing raises on the device; test the condition with `if`"),
    ast.With: ("`with`", "open resources outside the kernel"),
    ast.AsyncWith: ("`async with`", "kernels are plain functions"),
    ast.AsyncFor: ("`async for`", "kernels are plain functions; write `for`"),
    ast.AsyncFunctionDef: ("`async def`", "kernels are plain functions"),
    ast.Await: ("`await`", "kernels are plain functions"),
    ast.FunctionDef: ("a nested `def`", "define the function outside and mark it with @qgraph.func"),
    ast.ClassDef: ("a nested class", "define the class outside the kernel"),
    ast.Lambda: ("`lambda`", "define a function outside and mark it with @qgraph.func"),
    ast.Yield: ("`yield`", "a kernel is not a generator; write results to an array"),
    ast.YieldFrom: ("`yield from`", "a kernel is not a generator; write results to an array"),
    ast.Global: ("`global`", "pass a one-element array as an argument and assign to its element"),
    ast.Nonlocal: ("`nonlocal`", "pass a one-element array as an argument and assign to its element"),
    ast.Delete: ("`del` in a loop or branch", "names end with the kernel; leave it out, or write it after the loop or branch"),
    ast.Import: ("`import`", "import at the top of the module"),
    ast.ImportFrom: ("`import`", "import at the top of the module"),
    ast.List: ("a list", f"{_FIXED}; write a tuple, (a, b), or pass an array"),
    ast.Dict: ("a dict", _LIST),
    ast.Set: ("a set", _LIST),
    ast.ListComp: ("a list comprehension", f"{_FIXED}; write a tuple, (f(a), f(b)), or a loop that fills an array"),
    ast.SetComp: ("a set comprehension", _LIST),
    ast.DictComp: ("a dict comprehension", _LIST),
    ast.GeneratorExp: ("a generator expression", "write a for loop"),
    ast.JoinedStr: ("an f-string", "kernels have no strings; format on the host"),
}


def reject(tree: ast.FunctionDef, file: str) -> None:
    """Raise ``KernelSyntaxError`` for the first construct of ``tree`` that is in the table."""
    for statement in tree.body:
        if isinstance(statement, ast.Delete):
            continue
        # What `np.array` and its kin are given, if it is that.
        lists = {each for node in nodes_of(statement) if isinstance(node, ast.Call) for each in _arrays_of(node)}
        lists |= index_lists(statement) | unnamed_lists(statement)
        for node in nodes_of(statement):
            row = REJECTED.get(type(node)) if node not in lists else None
            if isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Store):
                row = (f"`{ast.unparse(node)}`, which makes a list,", "name each part: a, b, c = values")
            if row is not None:
                found, hint = row
                raise KernelSyntaxError(f"{found} cannot be used in a kernel", _keyword_span(node, file), hint=hint)


_MAKERS = frozenset(
    {
        *("array", "empty", "zeros", "ones", "full", "ndarray", "concatenate", "stack", "hstack", "vstack", "column_stack"),
        *("reshape", "select"),
    }
)


def _arrays_of(node: ast.Call) -> list[ast.expr]:
    """The shapes and rows that are written as lists, of which such a call makes an array."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    lists = [each for each in node.args if isinstance(each, ast.List)] if name in _MAKERS else []
    rows = [row for each in node.args if name == "array" for row in _lists_in(each)]
    return [*lists, *rows]


def _lists_in(node: ast.expr) -> list[ast.expr]:
    """The rows, and rows in these, that are lists."""
    if not isinstance(node, ast.List | ast.Tuple):
        return []
    return [node, *(row for each in node.elts for row in _lists_in(each))]


def index_lists(node: ast.AST) -> set[ast.expr]:
    """The lists that are indices, as in ``x[[0, 2]]``, of which NumPy makes arrays."""
    subscripts = (each for each in nodes_of(node) if isinstance(each, ast.Subscript))
    return {part for each in subscripts for part in parts_of(each) if isinstance(part, ast.List) and part.elts}


def _keyword_span(node: ast.AST, file: str) -> Span:
    """The node's first line only: a caret under a whole `try` block tells nothing."""
    span = Span.of(node, file)
    if isinstance(node, ast.stmt) and span.end_line != span.line:
        return Span(file, span.line, span.column, span.line, 10**6)
    return span
