"""What a call in a loop's body is, and does to arrays: it is followed where its body or its meaning is known."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from qgraph import language
from qgraph.frontend.affine import Poly
from qgraph.frontend.definite import names_assigned
from qgraph.frontend.evaluate import Evaluator, Frame
from qgraph.frontend.symbolic import UNKNOWN, Env, Value, integer, is_integral, join, opaque, vague, views_in
from qgraph.program import Function
from qgraph.source import Span

# Deeper calls are not followed: what they are given is then accessed "somewhere".
_MAX_DEPTH = 12
_READING_METHODS = frozenset(
    {"sum", "min", "max", "mean", "any", "all", "dot", "copy", "item", "std", "var", "prod", "argmin", "argmax", "astype"}
)
_WRITING_FUNCTIONS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"})
_ELEMENTWISE_MODULES = ("math", "cmath", "builtins", "operator", "_operator")


class Caller(Evaluator):
    """An environment in which calls have values, too; what statements do is still open."""

    def call(self, node: ast.Call) -> Value:
        """A call: followed if its body or its meaning is known."""
        function = self.resolve(node.func)
        if any(function is atomic for atomic in language.ATOMICS) and not node.keywords and len(node.args) >= 3:
            return self.atomic(node, function)
        arguments = [self.expression(argument) for argument in node.args]
        named = {keyword.arg or "**": self.expression(keyword.value) for keyword in node.keywords}
        values = [*arguments, *named.values()]
        if isinstance(function, Function) and self.depth < _MAX_DEPTH:
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if not starred and "**" not in named:
                return self.inline(node, function, arguments, named)
        if any(function is word for word in (language.at_least, language.divisor, language.step)):
            return arguments[0]
        if function is language.wrapped:
            return self.wrapped(arguments[0], arguments[1].poly)
        if function is len and len(arguments) == 1:
            return self.length(arguments[0])
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, values)
        if _is_pure(function):
            return self.pure(node, function, arguments, named)
        # Whatever else it is, it may do anything to the arrays that it is given.
        for value in values:
            self.record_all(value, "read", node, maybe=True)
            self.record_all(value, "write", node, maybe=True)
        return vague(values)

    def wrapped(self, index: Value, size: Poly | None) -> Value:
        """An index that counts from the end where it is negative, if it is known which."""
        if self.is_natural(index.poly):
            return index
        negative = index.poly is not None and self.is_natural(Poly.const(-1) - index.poly)
        return integer(index.poly + size) if negative and index.poly is not None and size is not None else UNKNOWN

    def is_natural(self, poly: Poly | None) -> bool:
        """Whether an index is surely not negative, by its signs and those of the loops' variables."""
        if poly is None:
            return False
        for variable in (*self.loops[::-1], *self.axes):
            value = variable.start + variable.step * Poly.symbol("#t")
            if variable.stop is not None and (variable.step.constant or 0) < 0:
                # What counts down stays above where it stops.
                value = variable.stop + Poly.const(1) + Poly.symbol("#t")
            poly = poly.substitute({variable.symbol: value})
        return all(c >= 0 and all(name.startswith("#") for name in monomial) for monomial, c in poly.terms)

    def pure(self, node: ast.Call, function: object, arguments: list[Value], named: dict[str, Value]) -> Value:
        """A function of NumPy, math or Python: reads its arguments, writes those meant for output."""
        outputs = [named["out"]] if "out" in named else []
        if isinstance(function, np.ufunc):
            outputs += arguments[function.nin :]
        if getattr(function, "__name__", "") in _WRITING_FUNCTIONS:
            outputs += arguments[:1]
        values = [*arguments, *named.values()]
        for value in values:
            self.record_all(value, "read", node)
        for value in outputs:
            self.record_all(value, "write", node)
        if any(function is word for word in (int, np.int32, np.int64)) and len(values) == 1 and is_integral(values[0].poly):
            return values[0]
        views = views_in(values)
        if views:  # A reshaped array is still the array.
            return vague(values) if not _is_reducing(function) else UNKNOWN
        words = [getattr(function, "__module__", ""), getattr(function, "__name__", repr(function)), *named]
        return opaque(f"Call {' '.join(map(str, words))}", values) if values else UNKNOWN

    def length(self, value: Value) -> Value:
        """What ``len`` gives."""
        if value.items is not None:
            return integer(Poly.const(len(value.items)))
        views = views_in([value])
        sizes = self.sizes(next(iter(views))) if len(views) == 1 else None
        return integer(sizes[0]) if sizes and sizes[0] is not None else UNKNOWN

    def method(self, node: ast.Call, function: ast.Attribute, values: Sequence[Value]) -> Value:
        """A method of an array: unless it is known only to read, it may write."""
        base = self.expression(function.value)
        every = [base, *values]
        reading = function.attr in _READING_METHODS
        self.record_all(Value(items=tuple(every)), "read", node, maybe=True)
        if not reading:
            self.record_all(Value(items=tuple(every)), "write", node, maybe=True)
        return UNKNOWN if reading else vague(every)

    def atomic(self, node: ast.Call, function: object) -> Value:
        """One of the author's atomics."""
        base = self.expression(node.args[0])
        index = node.args[1]
        indices = self.indices(index.elts if isinstance(index, ast.Tuple) else [index])
        for argument in node.args[2:]:
            self.use(argument)
        places = Value(views=frozenset(self.select(view, indices) for view in views_in([base])))
        sign = getattr(function, "__name__", "").removeprefix("atomic_")
        self.record_all(places, "atomic", node, sign)
        return UNKNOWN

    def inline(self, node: ast.Call, function: Function, arguments: list[Value], named: dict[str, Value]) -> Value:
        """Walk the body of a called function with its parameters bound to the arguments."""
        parameters = function.tree.args
        places = [*parameters.posonlyargs, *parameters.args]
        env: Env = {place.arg: value for place, value in zip(places, arguments, strict=False)}
        for place in places + parameters.kwonlyargs:
            if place.arg in named:
                env[place.arg] = named[place.arg]
            env.setdefault(place.arg, UNKNOWN)
        rest = [*arguments[len(places) :], *(value for name, value in named.items() if name not in env)]
        for extra in (parameters.vararg, parameters.kwarg):
            if extra is not None:
                env[extra.arg] = vague(rest)
        call = self.frame.call or Span.of(node, self.frame.file)
        frame = Frame(function.names, function.file, call, frozenset(names_assigned(function.tree.body)), len(self.loops), [])
        outer = (self.env, self.frame, self.escaped)
        self.env, self.frame, self.depth = env, frame, self.depth + 1
        self.block(function.tree.body)
        (self.env, self.frame, self.escaped), self.depth = outer, self.depth - 1
        if not frame.returned:
            return UNKNOWN
        result = frame.returned[0]
        for value in frame.returned[1:]:
            result = join(result, value)
        return result


def _is_pure(function: object) -> bool:
    """Whether a function only reads what it is given (outputs aside): NumPy's, math's and Python's own."""
    if isinstance(function, np.ufunc):
        return True
    module = getattr(function, "__module__", None) or ""
    if module in _ELEMENTWISE_MODULES or module.split(".")[0] == "numpy":
        return True
    return any(function is word for word in (language.serial, language.parallel, language.ndrange))


def _is_reducing(function: object) -> bool:
    """Whether a function's result is never a view of an array that it was given."""
    if isinstance(function, np.ufunc):
        return True
    module = getattr(function, "__module__", None) or ""
    return module in _ELEMENTWISE_MODULES or getattr(function, "__name__", "") in _READING_METHODS
