"""`for v in x`, `for k, v in enumerate(x)`, `for a, b in zip(x, y)` over arrays, as loops over a range."""

from __future__ import annotations

import ast
import copy

from qgraph import language
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import known_object, rank
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.trees import at_place, load, stored
from qgraph.source import as_written, nodes_of, standing_for

LOOP_WORDS = (language.serial, language.parallel)
Parts = list[tuple[ast.expr, ast.expr]]


def elements_iterated(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` goes over elements of arrays."""
    return _parts(scope, stored("_"), node) is not None or _pairs_of(scope, node) is not None


def over_elements(scope: Scope, node: ast.For) -> tuple[ast.For, Parts]:
    """The loop over a range, and names for the arrays, which are looked at once, before it; no names for any other loop.

    Raises:
        KernelSyntaxError: the targets do not fit the arrays.
    """
    call = node.iter
    around = isinstance(call, ast.Call) and len(call.args) == 1 and known_object(scope, call.func) in LOOP_WORDS
    iterated = call.args[0] if isinstance(call, ast.Call) and around else call
    if not elements_iterated(scope, iterated):
        return node, []
    counter, target = _counted(scope, node, iterated)
    start = 0
    if counter is not None:
        assert isinstance(iterated, ast.Call)
        start = _start(iterated) or 0
        iterated = iterated.args[0]
    parts = _parts(scope, target, iterated)
    if parts is None:
        raise scope.error(
            f"`{as_written(node.target)}` does not fit `{as_written(node.iter)}`",
            node,
            "give each array a name: for a, b in zip(x, y)",
        )
    place = f"{node.lineno}_{node.col_offset}"
    variable = counter if counter is not None else stored(_variable(scope))
    index: ast.expr = load(variable.id)
    if start:
        index = ast.BinOp(index, ast.Sub(), ast.Constant(start))
    # Names like a user's, of whom an array is not the kernel's alone.
    arrays: Parts = [(stored(f"array {k} of {place}"), array) for k, (_, array) in enumerate(parts)]
    names = [standing_for(load(name.id), array) for name, array in arrays if isinstance(name, ast.Name)]
    lengths: list[ast.expr] = [
        ast.Subscript(ast.Attribute(name, "shape", ast.Load()), ast.Constant(0), ast.Load()) for name in names
    ]
    length = lengths[0] if len(lengths) == 1 else word(scope, min, *lengths)
    loop = copy.copy(node)
    loop.target = variable
    bounds = [ast.Constant(start), ast.BinOp(length, ast.Add(), ast.Constant(start))] if start else [length]
    loop.iter = standing_for(word(scope, range, *bounds), iterated)
    if isinstance(call, ast.Call) and around:
        loop.iter = ast.Call(call.func, [loop.iter], [])
    first: list[ast.stmt] = [
        ast.Assign([each], standing_for(ast.Subscript(name, index, ast.Load()), each))
        for (each, _), name in zip(parts, names, strict=True)
    ]
    loop.body = [*(at_place(each, node.target) for each in first), *node.body]
    return at_place(loop, node), arrays


def _variable(scope: Scope) -> str:
    """A name for the number of an element, in messages too; the function has no such name."""
    taken = {child.id for child in nodes_of(scope.source.tree) if isinstance(child, ast.Name)} | scope.names.keys()
    return next(name for name in ("position", *(f"position{k}" for k in range(2, len(taken) + 3))) if name not in taken)


def _parts(scope: Scope, target: ast.expr, node: ast.expr) -> Parts | None:
    """Which target gets the elements of which array."""
    if isinstance(node, ast.Call) and known_object(scope, node.func) is zip:
        arrays = node.args if node.args and not node.keywords and all(rank(scope, each) for each in node.args) else None
        if arrays is None or not isinstance(target, ast.Tuple) or len(target.elts) != len(arrays):
            return None
        return [*zip(target.elts, arrays, strict=True)]
    return [(target, node)] if rank(scope, node) else None


def _pairs_of(scope: Scope, node: ast.expr) -> object:
    """The function that gives pairs or more, of arrays; None for anything else."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = known_object(scope, node.func)
    if function is enumerate and _start(node) is not None and elements_iterated(scope, node.args[0]):
        return function
    return function if function is zip and not node.keywords and all(rank(scope, each) for each in node.args) else None


def _start(node: ast.Call) -> int | None:
    """What ``enumerate`` counts from, where that is a constant."""
    match [*node.args[1:], *node.keywords]:
        case []:
            return 0
        case [ast.keyword(arg="start", value=start)]:
            return constant_of(start)
        case [ast.expr() as start]:
            return constant_of(start)
    return None


def _counted(scope: Scope, node: ast.For, iterated: ast.expr) -> tuple[ast.Name | None, ast.expr]:
    """The counter of ``enumerate``, if it is that, and the target of the rest."""
    if _pairs_of(scope, iterated) is not enumerate:
        return None, node.target
    match node.target:
        case ast.Tuple(elts=[ast.Name() as counter, target]):
            return counter, target
    raise scope.error(
        f"`{as_written(node.target)}` does not fit `{as_written(node.iter)}`", node, "write for k, v in enumerate(x)"
    )
