"""A Python function as an AST whose lines and columns are those of its file."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CellType
from typing import Any

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.rejected import reject
from qgraph.frontend.walrus import without_walrus
from qgraph.source import Span
from qgraph.stack import roomy


class ClosureNamespace(Mapping[str, object]):
    """The free variables of a function as a mapping; an empty cell is a missing key."""

    def __init__(self, names: tuple[str, ...], cells: tuple[CellType, ...]) -> None:
        self._cells = dict(zip(names, cells, strict=True))

    def __getitem__(self, key: str) -> object:
        try:
            contents: object = self._cells[key].cell_contents
        except ValueError:
            raise KeyError(key) from None
        return contents

    def cell(self, key: str) -> CellType:
        """The cell of a variable: the same for all functions that share it."""
        return self._cells[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


@dataclass(frozen=True, slots=True, eq=False)
class SourceFunction:
    """A function, its tree, and the namespaces its names are looked up in."""

    function: Callable[..., Any]
    tree: ast.FunctionDef
    file: str
    globals: Mapping[str, object]
    closure: Mapping[str, object]
    signature: inspect.Signature
    # Parameters annotated with `qgraph.Static`.
    static: frozenset[str] = frozenset()

    @property
    def looks_at_types(self) -> bool:
        """Whether the function may ask for the types of its arguments at compile time."""
        names = {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(self.tree)
            if hasattr(node, "ctx") and isinstance(node, (ast.Name, ast.Attribute))
        }
        values = [*(self.globals.get(name) for name in names), *(self.closure.get(name) for name in names)]
        # By identity: a global may be an array, whose comparison is one.
        return any(value is language.static for value in values) or "static" in names

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def span(self) -> Span:
        """The place of its ``def`` line."""
        tree = self.tree
        last = self.tree.args.args[-1] if tree.args.args else tree
        end = getattr(last, "end_col_offset", tree.col_offset + 1) if getattr(last, "lineno", 0) == tree.lineno else 10**6
        if last is tree:
            end = tree.col_offset + len("def ") + len(tree.name)
        return Span(self.file, tree.lineno, tree.col_offset, tree.lineno, end)


@roomy
def parse(function: Callable[..., Any], word: str) -> SourceFunction:
    """The source of ``function``, checked against the table of rejected syntax.

    Args:
        function: a plain Python function written in a file or a notebook cell.
        word: how the user marked it, for messages (``@qgraph.kernel``).

    Raises:
        KernelSyntaxError: there is no source, it is not a ``def``, or it uses syntax that kernels do not have.
    """
    if not inspect.isfunction(function):
        raise KernelSyntaxError(
            f"{word} needs a plain function, not {type(function).__name__}",
            hint="mark a function that is written with `def` in a file or a notebook cell",
        )
    tree, file = _tree_of(function, word)
    reject(tree, file)
    closure = ClosureNamespace(function.__code__.co_freevars, function.__closure__ or ())
    return SourceFunction(
        function,
        without_walrus(tree, file, ChainMap(dict(closure), function.__globals__)),
        file,
        function.__globals__,
        closure,
        inspect.signature(function),
        _static_parameters(function),
    )


def _static_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters whose annotation is ``qgraph.Static``, written out or as a string."""
    closure = ClosureNamespace(function.__code__.co_freevars, function.__closure__ or ())
    return frozenset(
        name
        for name, annotation in function.__annotations__.items()
        if _annotation(annotation, function.__globals__, closure) is language.Static
    )


def _annotation(annotation: object, names: Mapping[str, Any], closure: Mapping[str, object]) -> object:
    """What an annotation means; ``from __future__ import annotations`` leaves its text."""
    if not isinstance(annotation, str):
        return annotation
    first, *rest = annotation.strip().split(".")
    value = closure.get(first, names.get(first))
    for attribute in rest:
        value = getattr(value, attribute, None)
    return value


def _tree_of(function: Callable[..., Any], word: str) -> tuple[ast.FunctionDef, str]:
    code = function.__code__
    file = code.co_filename
    linecache.checkcache(file)
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise KernelSyntaxError(
            f"the source of {function.__name__}() cannot be read ({file})",
            hint=f"{word} reads the function's source: define it in a file or a notebook cell, not through exec or stdin",
        ) from error
    text = "".join(lines)
    # The function's own indentation is kept under an `if True:` line, so that columns and multi-line strings stay as they are.
    indented = text[:1] in " \t"
    try:
        module = ast.parse(f"if True:\n{text}" if indented else text, filename=file)
    except SyntaxError as error:
        raise KernelSyntaxError(
            f"the source of {function.__name__}() cannot be parsed on its own ({file}:{first})",
            hint="define the function with a def statement of its own",
        ) from error
    ast.increment_lineno(module, first - (2 if indented else 1))
    statements = module.body[0].body if indented else module.body  # type: ignore[attr-defined]
    tree = statements[0]
    if isinstance(tree, ast.AsyncFunctionDef):
        raise KernelSyntaxError("an async function cannot be a kernel", Span.of(tree, file), hint="write a plain `def`")
    if not isinstance(tree, ast.FunctionDef):
        raise KernelSyntaxError(
            "a lambda cannot be a kernel", Span.of(tree, file), hint="write a `def` with for loops in its body"
        )
    return tree, file
