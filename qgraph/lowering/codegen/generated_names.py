"""How generated code names scratch and shared memory, and stands in the user's file: what all generators of code share."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from qgraph.ir import program
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import Parameter
from qgraph.ir.faults import FAULTS
from qgraph.ir.program import TURNS, Cast
from qgraph.ir.slots import SCALAR_DTYPES, WORD, Slot, itemsize
from qgraph.source import Span, copied, nodes_of

SLOTS = Parameter("slots", program.SLOTS)
NOTED = Parameter("faults", FAULTS)
# The conditional handle of the loop or branch that a task decides, and of the turns without guards of a loop that it enters.
HANDLE = Parameter("handle", "_handle")
WHOLE = Parameter("whole", "_whole")
GUARD = Parameter("guard", "_guard")
COPY = Parameter("copy", "_copy")
PEEKS = Parameter("peeks", "_peeks")
PARTS = Parameter("parts", "_parts")
NEXT = Parameter("next", "_next")
TOLD = Parameter("turns", TURNS)
# Scratch as an array of another type.
VIEWS = tuple(
    Parameter("slots", f"{SLOTS.name}_{dtype}", ArrayType(dtype, 1, "C")) for dtype in SCALAR_DTYPES if dtype != "int64"
)
KEEPS: tuple[Literal["min", "max"], ...] = ("min", "max")
# The types of kernel scalars, by slot name.
Dtypes = Mapping[str, str]
# What the names in code stand for.
Globals = Mapping[str, object]
Statements = Sequence[ast.stmt]
# One object a dtype: what makes two tasks equal is the identity of their globals.
CASTS = {dtype: Cast(None, dtype, scalar=True) for dtype in SCALAR_DTYPES}
KEPT_CASTS = {(dtype, keeps): Cast(None, dtype, keeps=keeps) for dtype in SCALAR_DTYPES for keeps in KEEPS}
ELEMENT_CASTS = {dtype: Cast(None, dtype) for dtype in SCALAR_DTYPES}


def dtype_of(slot: Slot, dtypes: Dtypes) -> str:
    """The dtype of what lies in ``slot``."""
    return slot.dtype or dtypes[slot.name]


def slot_place(slot: Slot, dtypes: Dtypes, element: str = "0") -> str:
    """The code that names value number ``element`` of ``slot``: an element of the scratch array of its type."""
    return typed_place(slot, dtype_of(slot, dtypes), element)


def typed_place(slot: Slot, dtype: str, element: str = "0") -> str:
    """The same for values of ``dtype``."""
    first = slot.index * WORD // itemsize(dtype)
    return f"{slots_name(dtype)}[{first if element == '0' else f'{first} + {element}'}]"


def slots_name(dtype: str) -> str:
    """The parameter through which scratch is seen as an array of ``dtype``."""
    return SLOTS.name if dtype == "int64" else f"{SLOTS.name}_{dtype}"


def generated(*lines: str, **parts: Statements) -> list[ast.stmt]:
    """Generated statements, without positions. A line that is the name of one of ``parts`` becomes a copy of its statements."""
    tree = ast.parse("\n".join(lines))
    for child in nodes_of(tree):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            vars(child).pop(attribute, None)
    return (_Template(parts).visit(tree) if parts else tree).body


class _Template(ast.NodeTransformer):
    """Statements for the lines that name them. Expressions are not looked into."""

    def __init__(self, parts: Mapping[str, Statements]) -> None:
        self._parts = parts

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        named = isinstance(node.value, ast.Name) and node.value.id in self._parts
        return copied(list(self._parts[ast.unparse(node)])) if named else node


def shared_arrays(span: Span, lines: Sequence[str]) -> list[ast.stmt]:
    """Statements that make shared arrays, each on a line of its own from ``span`` on: so the simulator tells them apart."""
    statements = generated(*lines)
    for number, statement in enumerate(statements):
        for child in nodes_of(statement):
            place_at(child, span, number)
    return statements


def place_at(node: ast.AST, span: Span, below: int = 0) -> None:
    """Let ``node``, if it has no position, stand at ``span``, or so many lines ``below``."""
    if isinstance(node, (ast.stmt, ast.expr, ast.arg)) and not hasattr(node, "lineno"):
        node.lineno = node.end_lineno = span.line + below
        node.col_offset, node.end_col_offset = span.column, span.column + 1


def walk(trees: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of several syntax trees."""
    return itertools.chain.from_iterable(map(nodes_of, trees))


def indented(lines: Sequence[str], depth: int = 1) -> list[str]:
    """Lines of code, so many blocks deeper."""
    return ["    " * depth + line for line in lines]
