"""Functions that loops call: Python's syntax trees with their globals."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qgraph.records import dataclass
from qgraph.source import nodes_of


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function as an AST, to be compiled by Numba: a task, a chunk of one, or a device function.

    ``tree`` keeps the user's line numbers in ``file``; ``names`` are the globals its body refers to. A value in ``names`` may
    again be a ``Function``, a Numba dispatcher, a word of ``qgraph.language``, a NumPy or math function, or a constant.
    """

    name: str
    tree: ast.FunctionDef
    names: Mapping[str, object]
    file: str


def function_tree(name: str, parameters: Iterable[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """``def name(*parameters): body``, without positions."""
    (tree,) = ast.parse(f"def {name}({', '.join(parameters)}): pass").body
    assert isinstance(tree, ast.FunctionDef)
    tree.body = body or tree.body
    for node in nodes_of(tree.args):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            if hasattr(node, attribute):
                delattr(node, attribute)
    return tree


@dataclass(frozen=True, slots=True, eq=False)
class ParallelFunction:
    """On the CPU: called as ``f(chunks, *args)``, it runs ``function(chunk, *args)`` for each chunk, on all threads.

    ``disjoint``: no array that the function writes shares memory with another of its arguments. ``reduces``: its iterations
    combine their values, and store as well.
    """

    function: Function
    disjoint: bool = False
    reduces: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SeparateFunction:
    """On the CPU: called as ``function`` is, and not inlined. A long kernel is several of these."""

    function: Function


@dataclass(frozen=True, slots=True, eq=False)
class TypedFunction:
    """Called as the function that ``choose`` gives for the compiler's types of the arguments; one object for each choice."""

    name: str
    choose: Callable[[tuple[Any, ...]], Function]
