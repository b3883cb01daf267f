"""What the functions of words have in common: they are made of text, for the types of an access."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from typing import Any

from qgraph.ir.functions import Function
from qgraph.lowering.number_types.number_llvm import types


def word_function(head: str, body: str, names: Mapping[str, object]) -> Function:
    """``def head: body``."""
    (tree,) = ast.parse(f"def {head}:\n{textwrap.indent(body, '    ')}").body
    assert isinstance(tree, ast.FunctionDef)
    return Function(tree.name, tree, names, __file__)


def is_element(array: Any, index: Any) -> bool:
    """Whether these are an array, and an integer for each of its axes."""
    if not isinstance(array, types.Array):
        return False
    parts = tuple(index.types) if isinstance(index, types.BaseTuple) else (index,)
    return len(parts) == array.ndim and all(isinstance(part, types.Integer | types.Boolean) for part in parts)
