"""Loops from their text: as the frontend hands them to ``judge``, with the integers that the host knows."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping

import numpy as np

from qgraph import language
from qgraph.frontend.facts.loop_facts import Axis, LoopFacts
from qgraph.ir.functions import Function
from qgraph.polyhedral.questions import Variable
from qgraph.polyhedral.symbolic_integers import Poly, Symbol
from qgraph.source import Span

WORDS = {
    "range": range,
    "ndrange": language.ndrange,
    "serial": language.serial,
    "atomic_add": language.atomic_add,
    "atomic_exch": language.atomic_exch,
    "min": min,
    "max": max,
    "abs": abs,
    "len": len,
    "int": int,
    "sqrt": np.sqrt,
    "int8": np.int8,
    "int64": np.int64,
    "uint8": np.uint8,
}
NDIM = "x:1 y:1 s:1 v:1 c:1 ptr:1 idx:1 d:1 a:2 b:2 t:3 z:0"
# Scalars of calls, as far as the host knows them.
ARGUMENTS = "n m l lo hi q steps"
FLAGS = "f g"


def integers_of(arguments: str, flags: str) -> dict[str, Poly]:
    """Integer and boolean arguments, as what the host knows."""
    known = {name: Poly.symbol(name, "argument") for name in arguments.split()}
    return known | {name: Poly.symbol(name, "flag") for name in flags.split()}


def facts_of(
    source: str,
    ndim: str = NDIM,
    *,
    same: str = "",
    arguments: str = ARGUMENTS,
    flags: str = FLAGS,
    floats: str = "",
    **names: object,
) -> LoopFacts:
    """The first loop of ``source``, as the frontend hands it over; of loops over ``serial(...)``, the loop inside.

    ``same``: ``y=x`` where both are one array. Names that are not among ``arguments`` and ``flags`` only the device knows.
    """
    loop = ast.parse(textwrap.dedent(source)).body[0]
    serial: list[Variable] = []
    integers = integers_of(arguments, flags)
    while _word(loop) == "serial":
        assert isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
        ((start, stop, step),) = _ranges(loop.iter.args[0])
        symbol = Symbol.of(loop.target.id, "serial")
        serial.append(Variable(symbol, *(_poly(each, integers) for each in (start, stop, step))))  # type: ignore[arg-type]
        integers[loop.target.id] = Poly((((symbol,), 1),))
        loop = loop.body[0]
    assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)
    dimensions = {name: int(n) for name, n in (pair.split(":") for pair in ndim.split())}
    aliases = dict(pair.split("=") for pair in same.split())
    ranges = _ranges(loop.iter)
    target = loop.target
    index_tuple = ""
    if isinstance(target, ast.Tuple):
        variables = [name.id for name in target.elts if isinstance(name, ast.Name)]
    else:
        assert isinstance(target, ast.Name)
        index_tuple = target.id if _word(loop) == "ndrange" else ""
        variables = [f"_{at}" for at in range(len(ranges))] if index_tuple else [target.id]
    axes = tuple(
        Axis(variable, *bounds, bounds=_known(bounds, integers)) for variable, bounds in zip(variables, ranges, strict=True)
    )
    return LoopFacts(
        axes=axes,
        body=loop.body,
        names={**WORDS, **names},
        ndim=dimensions,
        same=aliases,
        paths={},
        file="loop.py",
        span=Span.of(loop.iter, "loop.py"),
        text=ast.unparse(loop.iter),
        index_tuple=index_tuple,
        integers=integers,
        floats=frozenset(floats.split()),
        serial=tuple(serial),
    )


def function(source: str, line: int = 0, **names: object) -> Function:
    """A function that loops call; its first line counts as number ``line``."""
    tree = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    ast.increment_lineno(tree, line)
    return Function(tree.name, tree, {**WORDS, **names}, "functions.py")


def _word(loop: ast.stmt) -> str:
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id=word))):
            return word
    raise AssertionError("a loop over range, ndrange or serial")


def _ranges(node: ast.expr) -> list[tuple[ast.expr, ast.expr, ast.expr]]:
    """Start, stop and step of each axis."""
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    zero, one, arguments = ast.Constant(0), ast.Constant(1), node.args
    if node.func.id == "range":
        bounds = [zero, *arguments] if len(arguments) == 1 else arguments
        return [(bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else one)]
    return [(part.elts[0], part.elts[1], one) if isinstance(part, ast.Tuple) else (zero, part, one) for part in arguments]


def _known(bounds: tuple[ast.expr, ast.expr, ast.expr], integers: Mapping[str, Poly]) -> tuple[Poly, ...]:
    """What the host knows of a range whose step is an argument: how many values it has as well."""
    if not isinstance(bounds[2], ast.Name):
        return ()
    count = f"len(range({', '.join(map(ast.unparse, bounds))}))"
    try:
        return (*(_poly(bound, integers) for bound in bounds), Poly.symbol(count, "argument"))
    except AssertionError:
        return ()


def _poly(node: ast.expr, known: Mapping[str, Poly]) -> Poly:
    """A sum of numbers and names."""
    match node:
        case ast.Constant(value=int(value)):
            return Poly.const(value)
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _poly(left, known) + _poly(right, known)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _poly(left, known) - _poly(right, known)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_poly(operand, known)
    raise AssertionError("a sum of numbers and names")
