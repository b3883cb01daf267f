"""What is hashed of a specialisation, as texts that are equal in every process and on every checkout.

Generated code is written with what its names stand for, since `_loop` alone says nothing. Left out of it are addresses, files,
modules of this project, and the numbers of lines: a line is the how-manieth that the specialisation's texts name.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from qgraph.captured_state import numba_function
from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.functions import Function
from qgraph.source import Span, copied

_OURS = ("qgraph", "tests", "examples")
# Generated names have lines, too: `f_L12`, `sum0_12`.
_LINE = re.compile(r"(?P<before>_L|\b(?:lines?|and line) |[a-z]{3}\d+_)(?P<number>\d+)(?:(?P<to>-| to | and )(?P<last>\d+))?")
_ADDRESS = re.compile(r"inttoptr \(i64 \d+|inttoptr i64 \d+|\b0x[0-9a-f]{9,}\b")
# Where a process has its memory, in LLVM's text: from 0x550000000000 on.
_PLACE = re.compile(r"\b(?:9[3-9]\d{12}|1[0-3]\d{13}|140\d{12})\b")
_STRING = re.compile(r'\[\d+ x i8\] c"[^"]*"')
_DEFINED = re.compile(r'^(?:define\b[^@\n]*|(?=@))@(?P<name>"[^"]+"|[\w.$]+)', re.M)
_SYMBOL = re.compile(r'@(?:"[^"]+"|[\w.$]+)')
_COMDAT = re.compile(r'(?:^|(?<=comdat\())\$(?:"[^"]+"|[\w.$]+)', re.M)
_APART = re.compile(r"(?:^ +no order with .*\n)+", re.M)
_FILE = re.compile(r"(?:/[\w.@+-]+)+/(?=[\w.-]+\.py\b)")


def digest(text: str, digits: int = 16) -> str:
    """The first hexadecimal digits of a hash."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


class Lines:
    """Gives lines other numbers: 1 for the one that is named first, and so on."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        """``text`` without files, addresses, and numbers of lines."""
        return _ADDRESS.sub("ADDRESS", _FILE.sub("", _LINE.sub(self._line, text)))

    def _line(self, match: re.Match[str]) -> str:
        last = f"{match['to']}{self._number(match['last'])}" if match["last"] else ""
        return f"{match['before']}{self._number(match['number'])}{last}"

    def _number(self, line: str) -> int:
        return self._known.setdefault(line, len(self._known) + 1)


def llvm_text(module: str) -> str:
    """LLVM's text without what differs between processes: the names of what it defines, addresses, and Numba's messages."""
    names: dict[str, str] = {}
    defined = {match["name"] for match in _DEFINED.finditer(module)}

    def rename(match: re.Match[str]) -> str:
        name = match.group()[1:]
        return f"@{names.setdefault(name, str(len(names)))}" if name in defined else match.group()

    # What is not in a function comes in the order of Numba's names, with the lengths of its messages.
    lines = (line for line in module.splitlines() if not line.startswith((";", "source_filename", "!", "target ", "@")))
    body = _STRING.sub("STRING", _COMDAT.sub("COMDAT", "\n".join(lines)))
    return _SYMBOL.sub(rename, _PLACE.sub("ADDRESS", _ADDRESS.sub("ADDRESS", body)))


def plan_text(plan: str) -> str:
    """A printed plan, whose lines about pairs without an order come as sets have them."""
    return _APART.sub(lambda match: "".join(sorted(match.group().splitlines(keepends=True))), plan)


def function_text(function: Function) -> str:
    """Generated code, and below it the functions that it calls and what its other names stand for."""
    writer = _Writer()
    writer.number(function)
    return writer.text()


def described(value: object) -> str:
    """A value of a plan or of code as a text; what has none is its kind alone."""
    return _Writer().describe(value)


class _Writer:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._functions: list[Function] = []

    def number(self, function: Function) -> int:
        if id(function) not in self._numbers:
            self._numbers[id(function)] = len(self._functions)
            self._functions.append(function)
        return self._numbers[id(function)]

    def text(self) -> str:
        # The list grows while it is gone through.
        return "\n\n".join(self._function(number, function) for number, function in enumerate(self._functions))

    def _function(self, number: int, function: Function) -> str:
        # As they are met: in order of the alphabet, lines of two digits would come before some of one.
        used = dict.fromkeys(node.id for node in ast.walk(function.tree) if isinstance(node, ast.Name))
        names = [f"# {name} is {self.describe(function.names[name])}" for name in used if name in function.names]
        return "\n".join([f"# function {number}", *names, ast.unparse(_Bare().visit(copied(function.tree)))])

    def describe(self, value: Any) -> str:
        """A text for ``value``, without what another process or place in the tree would have otherwise."""
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{value.dtype}{value.tolist()!r}"
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            return repr(value)
        if isinstance(value, Function):
            return f"function {self.number(value)}"
        if isinstance(value, Span):
            return f"line {value.line}"
        if isinstance(value, ast.AST):
            return ast.unparse(value)
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(self.describe, value))})"
        if isinstance(value, (set, frozenset)):
            return f"{{{', '.join(sorted(map(self.describe, value)))}}}"
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{self.describe(key)}: {self.describe(each)}' for key, each in value.items())}}}"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return f"{type(value).__name__}({', '.join(self.fields(value))})"
        return _named(value)

    def fields(self, record: Any, without: Iterable[str] = ()) -> list[str]:
        """The fields of a record that differ from nothing."""
        found = ((field.name, getattr(record, field.name)) for field in dataclasses.fields(record) if field.repr)
        return [f"{name}={self.describe(value)}" for name, value in found if name not in without]


class _Bare(ast.NodeTransformer):
    """Functions without docstrings and annotations."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def record_text(record: Any, without: Iterable[str]) -> str:
    """A record, a field a line."""
    return "\n".join(_Writer().fields(record, without))


def _named(value: Any) -> str:
    """What code calls or looks into, by name; of this project's without the module, which may be moved."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__.rpartition('.')[2]}"
    python = numba_function(value)
    if isinstance(python, FunctionType):
        return f"compiled {python.__name__} {digest(python.__code__.co_code.hex())}"
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(name, str):
        return f"a {type(value).__name__}"
    module = str(getattr(value, "__module__", None) or "")
    return name if module.partition(".")[0] in _OURS else f"{module}.{name}"


def type_text(kind: Any) -> str:
    """The type of an argument, with everything that makes another specialisation."""
    if isinstance(kind, ArrayType):
        return f"{kind} {kind.layout}{' readonly' if kind.readonly else ''}"
    return str(kind) if isinstance(kind, ScalarType) else described(kind)
