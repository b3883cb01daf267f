"""Side effects and results of calls in a loop's body: functions with source are inlined, known ones have a model."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qgraph import language
from qgraph.frontend.dependence.symbolic_eval import Evaluator
from qgraph.frontend.dependence.view_selection import selected, sizes_of
from qgraph.frontend.facts.abstract_values import (
    EITHER,
    UNKNOWN,
    Env,
    Value,
    as_dtype,
    integer,
    is_boolean,
    is_integral,
    join,
    of_views,
    opaque,
    part_of,
    vague,
    views_in,
)
from qgraph.frontend.facts.loop_facts import Frame
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.ir.functions import Function
from qgraph.operations import intrinsics
from qgraph.operations.combinations import BY_ATOMIC
from qgraph.operations.table import is_one_of, operation
from qgraph.polyhedral.symbolic_integers import (
    ONE,
    ZERO,
    Poly,
    Symbol,
    not_negative,
    select,
)
from qgraph.source import Span

# Deeper calls are not followed: what they are given is then accessed "somewhere".
_MAX_DEPTH = 12
_READING_METHODS = frozenset(
    {"sum", "min", "max", "mean", "any", "all", "dot", "copy", "item", "std", "var", "prod", "argmin", "argmax", "astype"}
)
_WRITING_FUNCTIONS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"})
_ELEMENTWISE_MODULES = ("math", "cmath", "builtins", "operator", "_operator")


class Caller(Evaluator):
    """The abstract interpreter of calls."""

    def visit_Call(self, node: ast.Call) -> Value:
        """A call: inlined, modelled, or else one that may read and write all that it is given."""
        function = self.resolve(node.func)
        if is_one_of(function, language.ATOMICS) and not node.keywords and len(node.args) >= 3:
            return self.atomic(node, function)
        arguments = [self.expression(argument) for argument in node.args]
        named = {keyword.arg or "**": self.expression(keyword.value) for keyword in node.keywords}
        values = [*arguments, *named.values()]
        starred = "**" in named or any(isinstance(argument, ast.Starred) for argument in node.args)
        if isinstance(function, Function) and self.depth < _MAX_DEPTH and not starred:
            return self.inline(node, function, arguments, named)
        known = self.of_index(function, arguments)
        if known is not None:
            return known
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, values)
        if _is_pure(function):
            return self.pure(node, function, arguments, named)
        # Whatever else it is, it may do anything to the parts of arrays that it is given, and gives back what it was given.
        for value in values:
            self.record(value, "read", node, region=True)
            self.record(value, "write", node, region=True)
        return part_of(values)

    def of_index(self, function: object, arguments: Sequence[Value]) -> Value | None:
        """What the words are that the frontend writes around indices, and ``len``; None for other functions."""
        if function is intrinsics.assume_ge:
            return replace(arguments[0], natural=True)
        if is_one_of(function, (*intrinsics.CHECKED, intrinsics.same_length, intrinsics.thread_array)):
            return arguments[0]
        if function is intrinsics.wrap_index or function is intrinsics.view_index:
            return self.wrap_index(arguments[0], arguments[1].poly)
        if function is not len or len(arguments) != 1:
            return None
        (value,) = arguments
        if value.items is not None:
            return integer(Poly.const(len(value.items)))
        sizes = sizes_of(value)
        return integer(sizes[0]) if sizes else UNKNOWN

    def wrap_index(self, index: Value, size: Poly | None) -> Value:
        """An index that counts from the end where it is negative, if it is known which."""
        if index.natural or self.is_natural(index.poly):
            return replace(index, natural=True)
        if index.poly is None or size is None:
            return UNKNOWN
        if self.is_natural(Poly.const(-1) - index.poly):
            return integer(index.poly + size)
        found = select(not_negative(index.poly), index.poly, index.poly + size)
        return UNKNOWN if found is None else integer(found)

    def pure(self, node: ast.Call, function: object, arguments: list[Value], named: dict[str, Value]) -> Value:
        """A function of NumPy, math or Python: reads its arguments, writes those meant for output."""
        outputs = [named["out"]] if "out" in named else []
        if isinstance(function, np.ufunc):
            outputs += arguments[function.nin :]
        if getattr(function, "__name__", "") in _WRITING_FUNCTIONS:
            outputs += arguments[:1]
        values = [*arguments, *named.values()]
        for value in values:
            self.record(value, "read", node)
        for value in outputs:
            self.record(value, "write", node)
        if views_in(values):  # A reshaped array is still the array.
            return part_of(values) if not _is_reducing(function) else UNKNOWN
        words = [getattr(function, "__module__", ""), getattr(function, "__name__", repr(function)), *named]
        result = opaque(f"Call {' '.join(map(str, words))}", values) if values else UNKNOWN
        known = self.of_integers(function, arguments) if not named else None
        return result if known is None else replace(known, key=result.key)

    def of_integers(self, function: object, values: Sequence[Value]) -> Value | None:
        """A function of integers that gives one; None where it is not followed."""
        if function is int and len(values) == 1 and is_boolean(values[0]) and not values[0].condition.partly_known:
            return integer(select(values[0].condition, ONE, ZERO) or ZERO)
        known = [value.poly for value in values if value.poly is not None]
        if not known or len(known) < len(values):
            return None
        followed = operation(function).integers_of(known)
        if followed is not None:
            dtypes = {value.dtype for value in values}
            dtype = dtypes.pop() if len(dtypes) == 1 else EITHER
            # The largest number of a dtype is below the absolute value of the least.
            return as_dtype(followed, dtype) if len(values) == 1 else Value(followed, dtype=dtype)
        if len(known) > 1 or not is_integral(known[0]):
            return None
        if is_one_of(function, (int, operator.index, np.int64)):
            return replace(values[0], dtype="")
        if isinstance(function, type) and issubclass(function, np.integer):
            dtype = np.dtype(function).name
            return values[0] if values[0].dtype == dtype else as_dtype(known[0], dtype)
        return None

    def method(self, node: ast.Call, function: ast.Attribute, values: Sequence[Value]) -> Value:
        """A method of an array: unless it is known only to read, it may write."""
        base = self.expression(function.value)
        every = Value(items=(base, *values))
        reading = function.attr in _READING_METHODS
        self.record(every, "read", node, region=not reading)
        if reading:
            return UNKNOWN
        self.record(every, "write", node, region=True)
        return part_of([every])

    def atomic(self, node: ast.Call, function: object) -> Value:
        """One of the author's atomics."""
        base = self.expression(node.args[0])
        index = node.args[1]
        indices = self.indices(index.elts if isinstance(index, ast.Tuple) else [index])
        operands = [self.use(argument) for argument in node.args[2:]]
        places = of_views(selected(view, indices, self.is_natural) for view in views_in([base]))
        known = next((update for atomic, (_, update) in BY_ATOMIC.items() if atomic is function), None)
        sign = getattr(function, "__name__", "") if known is None else known.symbol
        self.record(places, "atomic", node, sign)
        return self.ticket(node, sign, operands[0], places)

    def ticket(self, node: ast.Call, sign: str, operand: Value, places: Value) -> Value:
        """What an atomic returns: the old value of a counter that grows is another one each time."""
        by = operand.poly.constant if operand.poly is not None else None
        if sign != "+" or by is None or by < 1 or len(places.views) != 1:
            return UNKNOWN
        (view,) = places.views
        if not view.is_element or self.facts.memory(view.array) not in self.counters:
            return UNKNOWN
        symbol = Symbol.of(f"ticket {ast.unparse(node)}@{node.lineno}.{node.col_offset}", "ticket", "", [Poly.const(by)])
        return Value(Poly((((symbol,), 1),)), natural=True)

    def inline(self, node: ast.Call, function: Function, arguments: list[Value], named: dict[str, Value]) -> Value:
        """The result of a function whose body is walked with its parameters bound to the arguments."""
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
        outer = (self.env, self.frame, self.path)
        self.env, self.frame, self.depth = env, frame, self.depth + 1
        self.block(function.tree.body)
        (self.env, self.frame, self.path), self.depth = outer, self.depth - 1
        if not frame.returned:
            return UNKNOWN
        # The last one is what it returns where no other did.
        result = frame.returned[-1][1]
        for when, value in reversed(frame.returned[:-1]):
            result = join(value, result, when)
        return result


def _is_pure(function: object) -> bool:
    """Whether a function only reads what it is given (outputs aside): NumPy's, math's and Python's own."""
    module = _module(function)
    of_library = module in _ELEMENTWISE_MODULES or module.split(".")[0] == "numpy"
    return of_library or operation(function).pure or is_one_of(function, (language.serial, language.parallel, language.ndrange))


def _module(function: object) -> str:
    return getattr(function, "__module__", None) or ""


def _is_reducing(function: object) -> bool:
    """Whether a function's result is never a view of an array that it was given."""
    by_name = _module(function) in _ELEMENTWISE_MODULES or getattr(function, "__name__", "") in _READING_METHODS
    return by_name or isinstance(function, np.ufunc)
