"""A Python function as an AST whose lines and columns are those of its file."""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import inspect
import linecache
import operator
import tokenize
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.syntax.list_displays import with_tuples
from qgraph.frontend.syntax.unsupported_syntax import reject
from qgraph.frontend.syntax.walrus import purity, without_walrus
from qgraph.language import ArrayAnnotation
from qgraph.records import dataclass
from qgraph.source import Span, nodes_of
from qgraph.stack import compiling


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

    def home(self, key: str) -> CellType:
        """The cell of a variable: the same for all functions that share it."""
        return self._cells[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


class _Signature:
    """The signature of a function: its own, whatever it wraps, with the defaults that it has now."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._read()

    def _read(self) -> None:
        function = self._function
        self._defaults, self._keywords = function.__defaults__, dict(function.__kwdefaults__ or {})
        # A decorator may have given the function the signature of another one.
        plain = FunctionType(function.__code__, {}, function.__name__, self._defaults, function.__closure__)
        plain.__kwdefaults__ = self._keywords
        self._signature = inspect.signature(plain)

    def now(self) -> inspect.Signature:
        """The same object as before, unless a default is another."""
        keywords = self._function.__kwdefaults__ or {}
        same = self._function.__defaults__ is self._defaults and keywords.keys() == self._keywords.keys()
        if not same or any(value is not self._keywords[name] for name, value in keywords.items()):
            self._read()
        return self._signature


class _Tree:
    """The tree of a function with assignments for each ``:=``, which depend on what the functions are now that it calls."""

    def __init__(self, tree: ast.FunctionDef, file: str, names: Mapping[str, object]) -> None:
        self._written, self._file = tree, file
        self._is_pure = purity(names)
        nodes = [*nodes_of(tree)]
        has_any = any(isinstance(node, ast.NamedExpr) for node in nodes)
        self._calls = [node for node in nodes if has_any and isinstance(node, ast.Call)]
        self._read()

    def _read(self) -> None:
        self._answers = [*map(self._is_pure, self._calls)]
        self._tree = without_walrus(self._written, self._file, self._is_pure)

    def now(self) -> ast.FunctionDef:
        """The same object as before, unless a function is another."""
        if [*map(self._is_pure, self._calls)] != self._answers:
            self._read()
        return self._tree


@dataclass(frozen=True, slots=True, eq=False)
class SourceFunction:
    """A function, its tree, and the namespaces its names are looked up in."""

    function: FunctionType
    # What the tree was checked against.
    code: CodeType
    _tree: _Tree
    file: str
    globals: Mapping[str, object]
    closure: Mapping[str, object]
    _signature: _Signature
    # Parameters annotated with `qgraph.Static`, and those with `qgraph.Array[...]`.
    static: frozenset[str] = frozenset()
    arrays: Mapping[str, ArrayAnnotation] = field(default_factory=dict)

    @property
    def tree(self) -> ast.FunctionDef:
        """Its statements; nobody changes them."""
        return self._tree.now()

    @property
    def builtins(self) -> Mapping[str, object]:
        """What names mean that are no others."""
        found: Mapping[str, object] = cast("Any", self.function).__builtins__
        return found

    @property
    def signature(self) -> inspect.Signature:
        """Its parameters, with the defaults that they have now."""
        return self._signature.now()

    @property
    def looks_at_types(self) -> bool:
        """Whether the function may ask for the types of its arguments at compile time."""
        names = {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in nodes_of(self.tree)
            if hasattr(node, "ctx") and isinstance(node, (ast.Name, ast.Attribute))
        }
        values = [*(self.globals.get(name) for name in names), *(self.closure.get(name) for name in names)]
        # By identity: a global may be an array, whose comparison is one.
        return any(value is language.static for value in values) or "static" in names

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def parameter_span(self, name: str) -> Span:
        """The place of a parameter, with its annotation."""
        arguments = self.tree.args
        (found,) = (each for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if each.arg == name)
        return Span.of(found, self.file)

    @property
    def span(self) -> Span:
        """The place of its ``def`` line."""
        tree = self.tree
        last = self.tree.args.args[-1] if tree.args.args else tree
        end = getattr(last, "end_col_offset", tree.col_offset + 1) if getattr(last, "lineno", 0) == tree.lineno else 10**6
        if last is tree:
            end = tree.col_offset + len("def ") + len(tree.name)
        return Span(self.file, tree.lineno, tree.col_offset, tree.lineno, end)


@compiling
def parse(function: Callable[..., Any], word: str) -> SourceFunction:
    """The source of ``function``, checked against the table of rejected syntax.

    Args:
        function: a plain Python function written in a file or a notebook cell.
        word: how the user marked it, for messages (``@qgraph.kernel``).

    Raises:
        KernelSyntaxError: there is no source, or it is not what Python compiled, it is not a ``def``, or it uses syntax that
            kernels do not have.
    """
    if not inspect.isfunction(function):
        raise KernelSyntaxError(
            f"{word} needs a plain function, not {type(function).__name__}",
            hint="mark a function that is written with `def` in a file or a notebook cell",
        )
    tree, file, compiled = _tree_of(function, word)
    reject(tree, file)
    if not __debug__:
        tree = _WithoutAssertions().visit(tree)
    _check_code(function, tree, file, compiled)
    owner = _class_of(function.__code__)
    if owner:
        tree = _Mangled(owner).visit(tree)
    tree = with_tuples(tree)
    closure = ClosureNamespace(function.__code__.co_freevars, function.__closure__ or ())
    names = function.__globals__
    annotations = {
        name: _annotation(annotation, names, closure)
        for name, annotation in function.__annotations__.items()
        if name != "return"
    }
    return SourceFunction(
        function,
        function.__code__,
        _Tree(tree, file, ChainMap(cast("Any", closure), function.__globals__)),
        file,
        function.__globals__,
        closure,
        _Signature(function),
        frozenset(name for name, annotation in annotations.items() if annotation is language.Static),
        {name: annotation for name, annotation in annotations.items() if isinstance(annotation, ArrayAnnotation)},
    )


def _annotation(annotation: object, names: dict[str, Any], closure: Mapping[str, object]) -> object:
    """What an annotation means; ``from __future__ import annotations`` leaves its text."""
    if not isinstance(annotation, str):
        return ArrayAnnotation() if annotation is language.Array else annotation
    word, bracket, _ = annotation.strip().partition("[")
    first, *rest = word.split(".")
    value = closure.get(first, names.get(first))
    for attribute in rest:
        value = getattr(value, attribute, None)
    if bracket and value is language.Array:
        try:
            return eval(annotation.strip(), names, closure)
        except NameError:  # imported for type checkers alone
            return None
    return ArrayAnnotation() if value is language.Array else value


def _tree_of(function: FunctionType, word: str) -> tuple[ast.FunctionDef, str, CodeType]:
    """What is written of a function, its file, and the code that Python makes of that."""
    code = function.__code__
    file = code.co_filename
    linecache.checkcache(file)
    try:
        # Not of what it wraps: this function is what a call runs.
        lines, first = inspect.findsource(function)
    except (OSError, TypeError) as error:
        raise _unreadable(function, word) from error
    first += 1
    options = code.co_flags & _FUTURE
    try:
        text = "".join(inspect.getblock(lines[first - 1 :]))
        header = _around(code, text)
        module = compile(header + text, file, "exec", ast.PyCF_ONLY_AST | options, dont_inherit=True)
    except (SyntaxError, tokenize.TokenError) as error:
        raise KernelSyntaxError(
            f"the source of {function.__name__}() cannot be parsed on its own ({file}:{first})",
            hint="define the function with a def statement of its own",
        ) from error
    ast.increment_lineno(module, first - 1 - header.count("\n"))
    tree: Any = module
    for _ in range(1 + header.count("\n")):
        tree = tree.body[0]
    if isinstance(tree, ast.AsyncFunctionDef):
        raise KernelSyntaxError("an async function cannot be a kernel", Span.of(tree, file), hint="write a plain `def`")
    if not isinstance(tree, ast.FunctionDef):
        if code.co_name != "<lambda>":
            # Python 3.13 keeps the text of `python -c` under the name that `exec` gives to its own.
            raise _unreadable(function, word)
        raise KernelSyntaxError(
            "a lambda cannot be a kernel", Span.of(tree, file), hint="write a `def` with for loops in its body"
        )
    with warnings.catch_warnings():
        # Python warned about the source when it was first compiled.
        warnings.simplefilter("ignore", SyntaxWarning)
        # A method of what a module imports is called in another way. pytest puts others than identifiers there.
        names = filter(str.isidentifier, code.co_names)
        modules = [name for name in names if isinstance(function.__globals__.get(name), ModuleType)]
        imports = f"import {', '.join(modules)}\n" if modules else ""
        return tree, file, compile(imports + header + text, file, "exec", options, dont_inherit=True)


def _unreadable(function: FunctionType, word: str) -> KernelSyntaxError:
    return KernelSyntaxError(
        f"the source of {function.__name__}() cannot be read ({function.__code__.co_filename})",
        hint=f"{word} reads the function's source: define it in a file or a notebook cell, not through exec or stdin",
    )


def _check_code(function: FunctionType, tree: ast.FunctionDef, file: str, compiled: CodeType) -> None:
    code = function.__code__
    if not any(_same_code(each, code) for each in _codes_in(compiled) if each.co_name == tree.name):
        name = function.__name__
        if any(each.startswith("@pytest") for each in code.co_names):
            found = f"pytest has rewritten the assertions of {name}()"
            hint = "define it in a module that holds no tests, or write PYTEST_DONT_REWRITE in the docstring of this one"
        else:
            found = f"the source of {name}() is not what Python compiled: {file} has changed since it was imported, or "
            found += "something else has rewritten the function"
            hint = "import the module anew, or start Python anew"
        raise KernelSyntaxError(found, Span.of(tree, file), hint=hint)


# The `from __future__ import` of the module, as flags of its code.
_FUTURE = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_ARGUMENTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE


def _around(code: CodeType, text: str) -> str:
    """Lines to put before the text of a function, so that it is compiled as in its place; each begins a block of one statement.

    The function keeps its indentation, so that columns and strings of several lines stay as they are.
    """
    indentation = text[: len(text) - len(text.lstrip(" \t"))]
    if not indentation:
        return ""
    # A free variable is one of a function around; and a class changes the spelling of private names.
    owner, free = _class_of(code), [name for name in code.co_freevars if name != "__class__"]
    blocks = ([f"def _({', '.join(free)}):"] if free else []) + ([f"class {owner}:"] if owner else [])
    return "".join(f"{indentation[:depth]}{block}\n" for depth, block in enumerate(blocks or ["if True:"]))


def _class_of(code: CodeType) -> str:
    """The innermost class around a function; empty where there is none."""
    parts = code.co_qualname.split(".")[:-1]
    # What comes before `<locals>` is a function.
    classes = [name for name, inner in zip(parts, [*parts[1:], ""], strict=False) if "<locals>" not in (name, inner)]
    return classes[-1] if classes else ""


class _WithoutAssertions(ast.NodeTransformer):
    """Assertions as `python -O` takes them."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)


class _Mangled(ast.NodeTransformer):
    """Private names as Python spells them inside of a class."""

    def __init__(self, owner: str) -> None:
        self._prefix = f"_{owner.lstrip('_')}" if owner.strip("_") else ""

    def _spelled(self, name: str) -> str:
        is_private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"{self._prefix}{name}" if is_private else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._spelled(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        node.attr = self._spelled(node.attr)
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._spelled(node.arg)
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.MatchAs:
        node.name = node.name and self._spelled(node.name)
        self.generic_visit(node)
        return node


def _codes_in(code: CodeType, *, deep: bool = True) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            if deep:
                yield from _codes_in(constant)


def _same_code(one: CodeType, other: CodeType) -> bool:
    """Whether two pieces of code do the same, wherever they stand."""
    names = ("co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount")
    return (
        all(getattr(one, name) == getattr(other, name) for name in names)
        and one.co_flags & _ARGUMENTS == other.co_flags & _ARGUMENTS
        and (_is_alike(one, other) or _steps(one) == _steps(other))
        and all(map(_same_code, _codes_in(one, deep=False), _codes_in(other, deep=False)))
    )


def _is_alike(one: CodeType, other: CodeType) -> bool:
    """Whether the instructions are the very same, which takes a hundredth of the time to see."""
    constants = [[repr(each) for each in code.co_consts if not isinstance(each, CodeType)] for code in (one, other)]
    return one.co_code == other.co_code and one.co_names == other.co_names and constants[0] == constants[1]


def _steps(code: CodeType) -> list[tuple[str, object]]:
    """The instructions; how a method is called depends on what else stands in the module, and is no part of them."""
    found: list[dis.Instruction] = []
    places: dict[int, int] = {}
    for each in dis.get_instructions(code):
        places[each.offset] = len(found)
        if each.opname not in ("PUSH_NULL", "EXTENDED_ARG", "NOP"):
            found.append(each)
    result: list[tuple[str, object]] = []
    for each in found:
        value: object = each.argval
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            value = places[each.argval]
        elif isinstance(value, CodeType):
            value = value.co_name
        result.append(("LOAD_ATTR" if each.opname == "LOAD_METHOD" else each.opname, (type(value), repr(value))))
    return result
