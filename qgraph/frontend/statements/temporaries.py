"""Temporaries: arrays that a kernel makes for itself, of a size that the host knows, gone with the launch."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence

import numpy as np

from qgraph.errors import KernelSyntaxError, KernelTypeError
from qgraph.frontend.inference.host_expressions import host_expression
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import extents_of, rank
from qgraph.frontend.names.bindings import LeafRef, Poisoned, StructRef, Value, ViewRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.frontend.statements.region import Region, made_array
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Temporary
from qgraph.ir.slots import SCALAR_DTYPES
from qgraph.ir.trees import call_of, load, names_in, stored
from qgraph.language import ndrange
from qgraph.source import as_written, copied, nodes_of, standing_for

_DEFAULT = "float64"


def temporary(region: Region, scope: Scope, name: ast.Name, value: ast.expr) -> LeafRef | None:
    """The array that ``value``, a call such as ``qgraph.zeros(n)``, makes for ``name``; None where it is no such call.

    The statements that fill it are added to ``region``.

    Raises:
        KernelSyntaxError: only the device knows its size, or an argument is not understood.
        KernelTypeError: its dtype is none of an array of a kernel.
    """
    kind = made_array(scope, value)
    if kind is None:
        return None
    assert isinstance(value, ast.Call)
    arguments = _arguments(scope, value, kind)
    in_graph = _in_graph(region, scope, value, arguments.pop("alloc", None))
    like = _array(region, scope, arguments["like"]) if "like" in arguments else None
    if "like" in arguments and like is None:
        raise KernelSyntaxError(
            f"`{as_written(arguments['like'])}` is no array", scope.span(arguments["like"]), hint="pass an array argument"
        )
    shape = _shape(region, scope, arguments["shape"] if like is None else _shape_of(scope, like, arguments["like"]))
    dtype = _dtype(scope, arguments.get("dtype"), like)
    if "dtype" not in arguments and like is None and kind == "full":
        dtype = _dtype_of_value(scope, arguments["value"])
    unit = region.unit
    names = []
    for extent, text in shape:
        known = unit.host_value(extent, scope.span(value), "size", text=text)
        names.append(known.id)
    tail = like.leaf.type.tail if isinstance(like, LeafRef) and isinstance(like.leaf.type, ArrayType) else _tail(shape)
    leaf = Leaf(unit.array_name(name.id), as_written(name), ArrayType(dtype, len(names), "C", tail=tail))
    if isinstance(like, LeafRef):
        unit.like[leaf.name] = unit.like.get(like.leaf.name, like.leaf.path)
    unit.add_temporary(Temporary(leaf, tuple(names), scope.span(value), in_graph), tuple(extent for extent, _ in shape))
    filler = {"zeros": ast.Constant(0), "ones": ast.Constant(1), "full": arguments.get("value")}.get(kind.removesuffix("_like"))
    if filler is not None:
        _fill(region, scope, leaf, filler, value)
    return LeafRef(leaf)


def _tail(shape: Sequence[tuple[ast.expr, str]]) -> tuple[int, ...]:
    """The extents of the last axes, as far as they are constants."""
    constants = [constant_of(extent) for extent, _ in shape]
    found = itertools.takewhile(lambda extent: extent is not None, reversed(constants))
    return tuple(extent for extent in found if extent is not None)[::-1]


def one_element(region: Region, scope: Scope, dtype: str, node: ast.expr, what: str) -> Leaf:
    """An array of one element, ``what``, which no name of the user's means; ``node`` needs it."""
    unit = region.unit
    one = ast.Constant(1)
    length = unit.host_value(one, scope.span(node), "size", text="1")
    leaf = Leaf(unit.array_name("of_library"), what, ArrayType(dtype, 1, "C"))
    unit.add_temporary(Temporary(leaf, (length.id,), scope.span(node), False), (one,))
    return leaf


_PARAMETERS = {
    "empty": ("shape", "dtype"),
    "zeros": ("shape", "dtype"),
    "ones": ("shape", "dtype"),
    "full": ("shape", "value", "dtype"),
    "empty_like": ("like", "dtype"),
    "zeros_like": ("like", "dtype"),
    "ones_like": ("like", "dtype"),
    "full_like": ("like", "value", "dtype"),
}
_SPELLINGS = {"fill_value": "value", "a": "like", "x": "like", "prototype": "like"}


def _arguments(scope: Scope, call: ast.Call, kind: str) -> dict[str, ast.expr]:
    names = _PARAMETERS[kind]
    found = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        found[_SPELLINGS.get(str(keyword.arg), str(keyword.arg))] = keyword.value
    required = names[:-1]
    known = set(names) if _is_numpy(scope, call) else {*names, "alloc"}
    if not set(required) <= found.keys() <= known or len(call.args) + len(call.keywords) != len(found):
        raise KernelSyntaxError(
            f"`{as_written(call)}` is not understood in a kernel",
            scope.span(call),
            hint=f"its arguments are {', '.join(names)}",
        )
    return found


def _array(region: Region, scope: Scope, node: ast.expr) -> LeafRef | ViewRef | None:
    """The array, or part of one, that ``node`` means."""
    bound = scope.static(node) or region.arrays.bind(region, scope, node)
    return bound if isinstance(bound, (LeafRef, ViewRef)) and rank(scope, node) else None


def _shape_of(scope: Scope, like: LeafRef | ViewRef, node: ast.expr) -> ast.expr:
    """The shape of an array, under a name for it that no user has."""
    hidden = ".like"
    scope.names[hidden] = like
    name = standing_for(load(hidden), node)
    return ast.fix_missing_locations(ast.copy_location(ast.Attribute(name, "shape", ast.Load()), node))


def _is_numpy(scope: Scope, call: ast.Call) -> bool:
    bound = scope.static(call.func)
    return isinstance(bound, Value) and (getattr(bound.value, "__module__", None) or "").partition(".")[0] == "numpy"


def _in_graph(region: Region, scope: Scope, call: ast.Call, alloc: ast.expr | None) -> bool:
    """Whether ``alloc=True`` asks for memory that the graph takes and frees itself."""
    if alloc is None:
        return False
    bound = Value(alloc.value) if isinstance(alloc, ast.Constant) else scope.static(alloc)
    if isinstance(bound, Value) and isinstance(bound.value, str):
        raise KernelSyntaxError(
            f"`alloc={as_written(alloc)}` asks for memory that CUDA's allocation nodes do not have: theirs is of one device",
            scope.span(alloc),
            hint="write alloc=True for such memory, which lives as long as the launch, or pass an array that lives elsewhere",
        )
    if not isinstance(bound, Value) or not isinstance(bound.value, bool):
        raise KernelSyntaxError(
            f"`alloc={as_written(alloc)}` is not True or False when the kernel is compiled",
            scope.span(alloc),
            hint="write alloc=True, or pass a qgraph.Static argument",
        )
    if bound.value and region.depth > 0:
        raise KernelSyntaxError(
            f"`{as_written(call)}` is inside a device loop or branch, whose body CUDA keeps free of allocations",
            scope.span(call),
            hint="make the array before it, or leave `alloc` out: the memory is then taken once, before the launch",
        )
    return bound.value


def delete(region: Region, scope: Scope, node: ast.stmt) -> None:
    """``del t``: the temporary has no name any more. Its memory is free after its last use, with or without this.

    Raises:
        KernelSyntaxError: it is no name of a temporary.
    """
    assert isinstance(node, ast.Delete)
    temporaries = {temporary.leaf.name for temporary in region.unit.temporaries}
    for target in node.targets:
        bound = scope.names.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(bound, Poisoned):
            raise KernelSyntaxError(bound.reason, scope.span(target), also=(("here", bound.span),), hint=bound.hint)
        if not isinstance(bound, LeafRef) or bound.leaf.name not in temporaries:
            raise KernelSyntaxError(
                f"`{as_written(target)}` is no temporary of this function, and cannot be deleted",
                scope.span(target),
                hint="`del` frees what qgraph.empty and its kin made; leave other names alone, they end with the kernel",
            )
        assert isinstance(target, ast.Name)
        scope.names[target.id] = Poisoned(
            f"`{target.id}` is used after `{as_written(node)}` has freed it", scope.span(node), "delete it after its last use"
        )


def _shape(region: Region, scope: Scope, node: ast.expr) -> list[tuple[ast.expr, str]]:
    """The extents: expressions of the host, and how the user wrote them."""
    source: ast.expr = node
    if extents := extents_of(scope, source):
        return [_extent(region, scope, part) for part in extents]
    if isinstance(source, (ast.Tuple, ast.List)):
        return [_extent(region, scope, part) for part in source.elts]
    bound = scope.static(source)
    if isinstance(bound, StructRef):
        elements = [ast.Subscript(copied(source), ast.Constant(k), ast.Load()) for k in range(len(bound.children))]
        return [_extent(region, scope, ast.fix_missing_locations(ast.copy_location(part, node))) for part in elements]
    return [_extent(region, scope, source)]


def _extent(region: Region, scope: Scope, node: ast.expr) -> tuple[ast.expr, str]:
    known = host_expression(region.unit, scope, node)
    if known is None:
        raise KernelSyntaxError(
            f"the size `{as_written(node)}` of a temporary is known on the device only",
            scope.span(node),
            hint="use shapes, scalar arguments and constants, and unroll loops that it varies with, qgraph.static(range(3)): "
            "memory is taken before the launch"
            + (", and a name that a loop or branch assigns again is a number of the device" if _varies(scope, node) else ""),
        )
    return known, as_written(node)


def _varies(scope: Scope, node: ast.expr) -> bool:
    """Whether a name in ``node`` is assigned in a loop or branch, and elsewhere too."""
    frame = scope.frame
    return frame is not None and any(not name.startswith(ADDED) and frame.varies(name) for name in names_in(node))


def _dtype(scope: Scope, node: ast.expr | None, like: object) -> str:
    if node is None:
        return like.leaf.type.dtype if isinstance(like, (LeafRef, ViewRef)) else _DEFAULT
    return dtype_of(scope, node)


def dtype_of(scope: Scope, node: ast.expr) -> str:
    """The name of the dtype that ``node`` means; ``KernelTypeError`` where it means none of an array of a kernel."""
    value: object = None
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        bound = scope.static(node.value)
        value = bound.leaf.type.dtype if isinstance(bound, (LeafRef, ViewRef)) else None
    elif isinstance(node, ast.Constant):
        value = node.value
    else:
        known = scope.static(node)
        value = known.value if isinstance(known, Value) else None
    try:
        name = np.dtype(value).name if value is not None else ""  # type: ignore[call-overload]
    except TypeError:
        name = ""
    if name not in SCALAR_DTYPES:
        raise KernelTypeError(
            f"`{as_written(node)}` is no dtype of an array in a kernel",
            scope.span(node),
            hint="write numpy.float32, float, int, bool or x.dtype",
        )
    return name


def _dtype_of_value(scope: Scope, node: ast.expr) -> str:
    found = type_of_new_array(scope, node)
    if found is None or found.kind not in "biufc" or rank(scope, node):
        raise KernelTypeError(
            f"the dtype of an array full of `{as_written(node)}` is not known", scope.span(node), hint="give a dtype"
        )
    return found.name


def _fill(region: Region, scope: Scope, leaf: Leaf, value: ast.expr, node: ast.expr) -> None:
    """The loop that fills a temporary, at its place in the program."""
    hidden = ".filled"
    scope.names[hidden] = LeafRef(leaf)
    assert isinstance(leaf.type, ArrayType)
    axes = range(leaf.type.ndim)
    index = ast.Tuple([load(f"_z{axis}") for axis in axes], ast.Load())
    target = ast.Subscript(load(hidden), index, ast.Store())
    statement: ast.stmt = ast.Assign([target], copied(value))
    if axes:
        word = ".ndrange"
        scope.names[word] = Value(ndrange)
        extents: list[ast.expr] = [
            ast.Subscript(ast.Attribute(load(hidden), "shape", ast.Load()), ast.Constant(axis), ast.Load()) for axis in axes
        ]
        names: list[ast.expr] = [stored(f"_z{axis}") for axis in axes]
        over = names[0] if len(names) == 1 else ast.Tuple(names, ast.Store())
        if len(names) == 1:
            target.slice = load("_z0")
        statement = ast.For(over, call_of(word, *extents), [statement], [])
    for child in nodes_of(statement):
        if isinstance(child, (ast.expr, ast.stmt)):
            ast.copy_location(child, node)
    region.block(scope, [statement])
