"""``qgraph.static(expr)``: its value, computed by Python while the kernel is compiled.

Constants, functions and ``Static`` arguments stand for themselves. Everything else is a token, which can be put in a tuple and
taken out again; an array's also has ``ndim``, ``dtype``, and the length of ``shape``. Whatever asks a token for its value is
refused, and told which one it was.
"""

from __future__ import annotations

import ast
import enum
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from types import FunctionType
from typing import Any, Protocol, TypeGuard

import numpy as np

from qgraph import language
from qgraph.captured_state import is_known, numba_function, snapshot
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Binding, BoundFunc, HostExpr, LeafRef, Poisoned, StructRef, Value, ViewRef, part_of
from qgraph.ir.argument_types import ArrayType, StructType
from qgraph.ir.trees import is_none, load
from qgraph.operations.table import OPERATIONS
from qgraph.source import as_written, copied, nodes_of


class Names(Protocol):
    """What a scope is here."""

    def static(self, node: ast.expr) -> Binding | None:
        """What ``node`` stands for, if that is known at compile time."""

    def error(self, found: str, node: ast.AST, hint: str) -> KernelSyntaxError:
        """What is wrong at ``node``."""

    def computed(self, node: ast.expr, place: Hashable, compute: Callable[[], object], value: object) -> None:
        """``compute`` must give ``value`` at each call."""


# Of what powers and shifts of literals make.
_MOST_BITS = 1 << 16


def constant_of(node: ast.expr) -> int | None:
    """The integer that is written, if it is one."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def written_integer(scope: Names, node: ast.expr) -> int | None:
    """The integer that an expression of integer literals is, as Python's; None of another one, and where Python raises.

    Raises:
        KernelSyntaxError: a power or shift in it has more than 65,536 bits.
    """
    match node:
        case ast.Constant(value=value):
            return value if type(value) is int else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = written_integer(scope, operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.Div | ast.MatMult):
            # Long expressions are long to the left.
            second = written_integer(scope, right)
            first = None if second is None else written_integer(scope, left)
            if first is None or second is None:
                return None
            if isinstance(op, ast.Pow | ast.LShift | ast.RShift) and second < 0:
                return None
            if isinstance(op, ast.FloorDiv | ast.Mod) and not second:
                return None
            bits = {ast.Pow: first.bit_length() * second, ast.LShift: first.bit_length() + second}
            if bits.get(type(op), 0) > _MOST_BITS:
                raise scope.error("an integer of more than 65,536 bits", node, "write a float, or the number that it gives")
            found: int = OPERATIONS.by_syntax[type(op)].functions[0](first, second)
            return found
        case ast.Call(func=ast.Name() as called, args=[_, _, *_] as args, keywords=[]):
            given = _written_integers(scope, args)
            known = scope.static(called) if given else None
            if given and isinstance(known, Value) and (known.value is max or known.value is min):
                return max(given) if known.value is max else min(given)
    return None


def _written_integers(scope: Names, nodes: Iterable[ast.expr]) -> list[int] | None:
    """What ``written_integer`` gives of each; None where one is no such expression."""
    found: list[int] = []
    for node in nodes:
        number = written_integer(scope, node)
        if number is None:
            return None
        found.append(number)
    return found


def is_static_call(scope: Names, node: ast.AST) -> bool:
    """Whether ``node`` is a call of ``qgraph.static``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return False
    bound = scope.static(node.func)
    return isinstance(bound, Value) and bound.value is language.static


def static_value(scope: Names, node: ast.Call, use: _Use = None) -> Binding:
    """What ``static(expr)`` stands for: a value, or an array or tuple as it is. ``use``: what of the value is compiled in.

    Raises:
        KernelSyntaxError: the value is not known at compile time, or the expression fails.
    """
    if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        raise scope.error("static() takes one expression", node, "write `qgraph.static(expr)`")
    return known_value(scope, node.args[0], "static()", use)


def known_value(scope: Names, node: ast.expr, what: str, use: _Use = None) -> Binding:
    """The value of an expression that must be known at compile time; ``what`` wants it, for the message."""
    bound = _as_binding(_evaluate(scope, node, what, use or _itself))
    known = isinstance(bound, (Value, StructRef, BoundFunc)) or (isinstance(bound, LeafRef) and bound.is_array)
    if not known:
        raise _unknown(scope, node, as_written(node), what)
    return bound


def static_items(scope: Names, node: ast.expr) -> list[Binding] | None:
    """What ``for ... in static(...)`` iterates over; None where ``node`` is no such call.

    Raises:
        KernelSyntaxError: it cannot be iterated over at compile time.
    """
    if not isinstance(node, ast.Call) or not is_static_call(scope, node):
        return None
    bound = static_value(scope, node, _items)
    if isinstance(bound, StructRef) and issubclass(bound.type.cls, tuple):
        return list(bound.children.values())
    try:
        return [_as_binding(item) for item in bound.value]  # type: ignore[union-attr]
    except (TypeError, AttributeError):
        raise scope.error(
            f"`{as_written(node)}` cannot be iterated over",
            node,
            "unroll over a range or a tuple: for k in qgraph.static(range(3))",
        ) from None


def bind_items(scope: Any, target: ast.expr, item: Binding) -> None:
    """Bind the target of an unrolled loop to one of its items.

    Raises:
        KernelSyntaxError: the item does not fit the target.
    """
    if isinstance(target, ast.Name):
        scope.names[target.id] = item
        return
    parts: list[Binding] | None = None
    if isinstance(item, StructRef):
        parts = list(item.children.values())
    elif isinstance(item, Value) and isinstance(item.value, tuple):
        parts = [_as_binding(part) for part in item.value]
    if not isinstance(target, ast.Tuple) or parts is None or len(parts) != len(target.elts):
        raise scope.error(
            f"`{as_written(target)}` does not fit what the loop goes over",
            target,
            "give each part of an item a name",
        )
    for element, part in zip(target.elts, parts, strict=True):
        bind_items(scope, element, part)


def _known_comparison(scope: Names, node: ast.Compare) -> bool | None:
    """The outcome of ``x is None``, or of a comparison of literals, of known strings, or of the number of an array's axes."""
    match node:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[right]) if is_none(left) or is_none(right):
            bound = scope.static(right if is_none(left) else left)
            if isinstance(bound, (LeafRef, StructRef, Value, HostExpr)):
                return (isinstance(bound, Value) and bound.value is None) == isinstance(op, ast.Is)
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[right]):
            same = _is_same_object(scope, left, right, node)
            return None if same is None else same == isinstance(op, ast.Is)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]) if any(
            map(_is_text, (left, right))
        ):
            known = [each if isinstance(each, ast.Constant) else scope.static(each) for each in (left, right)]
            one, other = (each.value if isinstance(each, Value | ast.Constant) else None for each in known)
            if isinstance(one, str) and isinstance(other, str):
                return (one == other) == isinstance(op, ast.Eq)
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(number))]) if (
            type(op) in OPERATIONS.by_syntax
        ):
            axes = _axes(scope, left)
            if axes is not None:
                return bool(OPERATIONS.by_syntax[type(op)].functions[0](axes, number))
    return _compared_literals(scope, node)


def _is_same_object(scope: Names, left: ast.expr, right: ast.expr, node: ast.Compare) -> bool | None:
    """Whether two things that are compiled in are one object, as far as that follows from what they are.

    Raises:
        KernelSyntaxError: they are alike, and only Python could tell them apart.
    """
    known = (Value(each.value) if _is_truth(each) else scope.static(each) for each in (left, right))
    match tuple(known):
        case Value(value=one), Value(value=other) if one is not other and snapshot(one) == snapshot(other):
            what = f"`{as_written(node)}` asks which object a value is, and these are two objects of one value"
            raise scope.error(what, node, "write `==` or `!=` to compare values")
        case Value(value=one), Value(value=other):
            return one is other
    return None


def _is_truth(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def refuse_inverted_flags(scope: Names, node: ast.UnaryOp) -> None:
    """Raise ``KernelSyntaxError`` for `~` of flags, which are the others of their class: in kernels they are integers."""
    inverts = isinstance(node.op, ast.Invert) and not isinstance(node.operand, ast.Call)
    for child in nodes_of(node.operand) if inverts else ():
        bound = scope.static(child) if isinstance(child, (ast.Name, ast.Attribute)) else None
        if isinstance(bound, Value) and isinstance(bound.value, enum.Flag):
            what = (
                f"`{as_written(node)}` is the other flags of `{type(bound.value).__name__}`, and in a kernel flags are integers"
            )
            raise scope.error(what, node, "name the other flags, or write ~int(...) for the integer")


def _compared_literals(scope: Names, node: ast.Compare) -> bool | None:
    """The outcome of a comparison of expressions of integer literals, as Python's."""
    found = _written_integers(scope, (node.left, *node.comparators))
    tests = [OPERATIONS.by_syntax.get(type(op)) for op in node.ops]
    if found is None or None in tests:
        return None
    return all(test.functions[0](*pair) for test, pair in zip(tests, itertools.pairwise(found), strict=True) if test)


def _axes(scope: Names, node: ast.expr) -> int | None:
    """How many axes an array has of which ``node`` asks for that, ``x.ndim`` or ``len(x.shape)``."""
    match node:
        case ast.Attribute(value=ast.Name() as array, attr="ndim"):
            bound = scope.static(array)
        case ast.Call(func=ast.Name() as called, args=[ast.Attribute(value=ast.Name() as array, attr="shape")], keywords=[]):
            known = scope.static(called)
            bound = scope.static(array) if isinstance(known, Value) and known.value is len else None
        case _:
            return None
    if isinstance(bound, ViewRef):
        return len(bound.along)
    return bound.leaf.type.ndim if isinstance(bound, LeafRef) and isinstance(bound.leaf.type, ArrayType) else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def known_test(scope: Names, node: ast.expr) -> bool | None:
    """The outcome of a test that is decided at compile time, else None.

    That is ``static(...)``, ``x is None`` for an argument or a constant, ``x.dtype.kind == "f"``, ``x.ndim == 2``; with `not`,
    `and`, `or`.
    """
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = known_test(scope, operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            decisive = isinstance(op, ast.Or)
            for value in values:
                known = known_test(scope, value)
                if known is None or known is decisive:
                    return known
            return not decisive
        case ast.Compare():
            return _known_comparison(scope, node)
        case ast.Call() if is_static_call(scope, node):
            bound = static_value(scope, node, _truth)
            if not isinstance(bound, Value):
                raise _unknown(scope, node, as_written(node), "a test")
            return bool(bound.value)
    return None


# --- evaluation --------------------------------------------------------------------------------------------------------


def _evaluate(scope: Names, node: ast.expr, what: str, use: Callable[[Any], object]) -> Any:
    substitution = _Substitution(scope)
    expression = ast.fix_missing_locations(ast.Expression(substitution.visit(copied(node))))
    values = substitution.values
    code = compile(expression, "<static>", "eval")

    def compute() -> Any:
        result = eval(code, dict(values))
        # What can be run through once only.
        return tuple(result) if isinstance(result, Iterator) else result

    try:
        result = compute()
        if not _is_settled(expression, values.values()):
            place = (ast.dump(expression), use, *map(id, values.values()))
            scope.computed(node, place, lambda: use(compute()), use(result))
        return result
    except _NotKnownError as error:
        raise _unknown(scope, node, str(error), what) from None
    except KernelSyntaxError:
        raise
    except Exception as error:  # whatever the user's expression raises is told with its place
        raise scope.error(
            f"`{as_written(node)}` fails at compile time: {type(error).__name__}: {error}",
            node,
            "the expression is run by Python while the kernel is compiled",
        ) from error


_Use = Callable[[Any], object] | None


def _itself(value: Any) -> object:
    return value


def _truth(value: Any) -> object:
    return value if isinstance(value, _Token) else bool(value)


def _items(value: Any) -> object:
    try:
        return value if isinstance(value, _Token) else tuple(value)
    except TypeError:  # told where it is iterated over
        return value


# Functions of Python whose value depends on nothing but the arguments, if these cannot change.
_PURE = frozenset(
    {
        *(abs, all, any, bool, complex, divmod, enumerate, float, int, isinstance, issubclass, len, max, min, pow, range),
        *(reversed, round, sorted, str, sum, tuple, zip),
    }
)


def _is_settled(expression: ast.Expression, values: Iterable[object]) -> bool:
    """Whether an expression has the same value as long as its names stand for the same objects."""
    nodes = [*nodes_of(expression)]
    calls = any(isinstance(node, ast.Call) for node in nodes)
    named = not calls and not any(isinstance(node, ast.Attribute) for node in nodes)
    return all(_is_fixed(value, named) for value in values)


def _is_fixed(value: object, named: bool) -> bool:
    """Whether what is computed of ``value`` does not change; ``named``: it is not called, and no attribute of it looked at."""
    if isinstance(value, (tuple, frozenset)):
        return all(_is_fixed(part, named) for part in value)
    if value is None or type(value) in (bool, int, float, complex, str, bytes, range) or isinstance(value, (_Token, np.dtype)):
        return True
    if isinstance(value, np.generic):
        return not isinstance(value, np.void)
    if named and (isinstance(value, (FunctionType, language.Func, type, enum.Enum)) or numba_function(value) is not None):
        return True
    known = isinstance(value, np.ufunc) or (isinstance(value, Hashable) and value in _PURE)
    return known or getattr(value, "__module__", None) in ("math", "cmath") or (isinstance(value, type) and is_known(value))


def _unknown(scope: Names, node: ast.expr, text: str, what: str) -> KernelSyntaxError:
    return scope.error(
        f"`{text}` is not known at compile time, and {what} needs it",
        node,
        "use constants, `ndim` and `dtype` of arrays, and arguments annotated with qgraph.Static",
    )


class _Substitution(ast.NodeTransformer):
    """Replaces names, and attributes of arguments, by names of their values or tokens."""

    def __init__(self, scope: Names) -> None:
        self._scope = scope
        self.values: dict[str, Any] = {}

    def _visit(self, node: ast.expr) -> ast.AST:
        return self._known(node) or self.generic_visit(node)

    visit_Name = visit_Attribute = visit_Subscript = _visit

    def _known(self, node: ast.expr) -> ast.expr | None:
        bound = self._scope.static(node)
        if bound is None:
            return None
        if isinstance(bound, Poisoned):
            raise self._scope.error(bound.reason, node, bound.hint)
        name = f"v{len(self.values)}"
        self.values[name] = _as_object(bound, as_written(node))
        return ast.copy_location(load(name), node)


class _NotKnownError(Exception):
    """Something asked a token for its value; the text is how the user writes it."""


class _Token:
    """A thing that has no value at compile time."""

    def __init__(self, binding: Binding, text: str) -> None:
        self.binding = binding
        self.text = text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _NotKnownError(f"{self.text}.{name}")


def _refusing(name: str) -> Callable[..., Any]:
    def operation(token: _Token, *_: Any) -> Any:
        suffix = "[...]" if name == "__getitem__" else ""
        raise _NotKnownError(token.text + suffix)

    return operation


_UNARY = ("bool", "index", "int", "float", "complex", "len", "iter", "hash", "neg", "pos", "abs", "invert", "round", "call")
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul", "divmod")
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "getitem", "contains")
for _word in (*_UNARY, *_BINARY, *(f"r{each}" for each in _BINARY), *_COMPARED):
    setattr(_Token, f"__{_word}__", _refusing(f"__{_word}__"))


class _Array(_Token):
    """An array, of which the type is known."""

    def __init__(self, binding: LeafRef, text: str) -> None:
        super().__init__(binding, text)
        assert isinstance(binding.leaf.type, ArrayType)
        self.ndim = binding.leaf.type.ndim
        self.dtype = np.dtype(binding.leaf.type.dtype)
        self.shape = _Shape(binding, f"{text}.shape", self.ndim)


class _Shape(_Token):
    """A shape, of which the length is known."""

    def __init__(self, binding: Binding, text: str, length: int) -> None:
        super().__init__(binding, text)
        self._length = length

    def __len__(self) -> int:
        return self._length


class _Struct(_Token):
    """A dataclass argument: its fields, some of which are known."""

    def __init__(self, binding: StructRef, text: str) -> None:
        super().__init__(binding, text)
        for key, child in binding.children.items():
            setattr(self, key, _as_object(child, f"{text}.{key}"))


def _as_object(bound: Binding, text: str) -> Any:
    """What stands for a binding while Python evaluates."""
    if isinstance(bound, Value):
        return bound.value
    if isinstance(bound, LeafRef) and bound.is_array:
        return _Array(bound, text)
    if not isinstance(bound, StructRef):
        return _Token(bound, text)
    cls: Any = bound.type.cls
    if not issubclass(cls, tuple):
        return _Struct(bound, text)
    parts = tuple(_as_object(child, part_of(text, key)) for key, child in bound.children.items())
    return parts if cls is tuple else cls(*parts)


def _as_binding(value: Any) -> Binding:
    """The binding of an object that Python computed; tokens become what they stand for."""
    if isinstance(value, _Token):
        binding: Binding = value.binding
        return binding
    if isinstance(value, tuple) and _holds_tokens(value):
        fields: Iterable[str] = getattr(value, "_fields", None) or map(str, range(len(value)))
        children = {field: _as_binding(part) for field, part in zip(fields, value, strict=True)}
        return StructRef(StructType(type(value), ()), "the tuple", children)
    if isinstance(value, (zip, enumerate, reversed, map, filter)):
        return _as_binding(tuple(value))
    return Value(value)


def _holds_tokens(value: tuple[Any, ...]) -> bool:
    return any(isinstance(part, _Token) or (isinstance(part, tuple) and _holds_tokens(part)) for part in value)
