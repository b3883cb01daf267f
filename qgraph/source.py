"""Where something stands in the user's source: every record and every error carries a ``Span``."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from typing import Any, TypeVar

from qgraph.records import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source: lines count from 1, columns from 0, the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.AST, file: str) -> Span:
        """The span of an AST node whose positions are those of ``file``."""
        line = getattr(node, "lineno", 1)
        column = getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None) or column + 1
        return cls(file, line, column, end_line, end_column)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def first_line(self) -> str:
        """The text of the span's first line, without its indentation."""
        return linecache.getline(self.file, self.line).strip()

    def text(self) -> str:
        """What is written there; empty where it takes several lines, or the file cannot be read."""
        line = linecache.getline(self.file, self.line).encode() if self.end_line == self.line else b""
        return line[self.column : self.end_column].decode(errors="replace").strip()

    def excerpt(self) -> str:
        """The first line of the span with carets under it; empty where the file cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        # ast columns count UTF-8 bytes, carets count characters.
        raw = text.encode()
        start = len(raw[: self.column].decode(errors="replace"))
        stop = len(raw[: self.end_column].decode(errors="replace"))
        if self.end_line != self.line:
            stop = len(text)
        number = str(self.line)
        gutter = " " * len(number)
        carets = " " * start + "^" * max(1, stop - start)
        return f"{gutter} |\n{number} | {text}\n{gutter} | {carets}"


_PLAIN = (int, str, type(None))
_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


def copied(node: _T) -> _T:
    """A syntax tree of its own, or several, as ``copy.deepcopy`` makes them, in a tenth of the time: a tree has no cycles."""
    if isinstance(node, ast.AST):
        if isinstance(node, _SHARED):
            # One object for all trees of a process, to which other libraries add attributes that lead all through theirs.
            return node
        new: Any = node.__class__.__new__(node.__class__)
        # Most of what nodes hold are numbers and texts, and most of those say where a node is.
        found = node.__dict__.items()
        new.__dict__.update({name: value if type(value) in _PLAIN else copied(value) for name, value in found})
        node = new
    elif type(node) in (list, tuple):
        parts: Any = node
        node = type(parts)(map(copied, parts))
    return node


def children_of(node: ast.AST) -> list[ast.AST]:
    """What ``ast.iter_child_nodes`` gives, in less time."""
    found: list[ast.AST] = []
    parts = node.__dict__
    for name in node._fields:
        value = parts.get(name)
        if isinstance(value, ast.AST):
            found.append(value)
        elif type(value) is list:
            found += [each for each in value if isinstance(each, ast.AST)]
    return found


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """What ``ast.walk`` gives, in less time: compiling a kernel looks at its nodes hundreds of times."""
    nodes = [tree]
    for node in nodes:
        nodes += children_of(node)
        yield node


# The attribute of a node that stands for an expression of the user's: the source of that, by itself and inside another one.
# Copies of a node keep it.
_WRITTEN = "written"
_ATOMS = (ast.Name, ast.Call, ast.Subscript, ast.Attribute, ast.Constant, ast.Tuple)


def as_written(node: ast.AST) -> str:
    """The source of ``node`` for messages: what stands for an expression of the user's is written as that."""
    text, _ = vars(node).get(_WRITTEN, ("", ""))
    if text:
        return str(text)
    if any(_WRITTEN in vars(child) for child in nodes_of(node)):
        node = _AsWritten().visit(copied(node))
    return ast.unparse(node)


def standing_for(node: _T, user: ast.AST, text: str = "") -> _T:
    """``node``, in messages written as ``user`` is, or as ``text``."""
    known = None if text else vars(user).get(_WRITTEN)
    text = text or as_written(user)
    vars(node)[_WRITTEN] = known or (text, text if isinstance(user, _ATOMS) else f"({text})")
    return node


class _AsWritten(ast.NodeTransformer):
    """Each node that stands for an expression of the user's becomes that expression."""

    def visit(self, node: ast.AST) -> ast.AST:
        _, inside = vars(node).get(_WRITTEN, ("", ""))
        result: ast.AST = ast.Name(inside, ast.Load()) if inside else self.generic_visit(node)
        return result
