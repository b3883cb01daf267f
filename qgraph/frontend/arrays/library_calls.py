"""Assignments of what a library's function of whole arrays gives: `y[:] = a @ x`, `x[:] = np.linalg.solve(a, b)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qgraph.errors import KernelTypeError, LinAlgError
from qgraph.frontend.arrays.axis_reductions import reduce_axes
from qgraph.frontend.arrays.product_loops import has_unknown_size, is_integer_product, product_loop, sums_of_rows
from qgraph.frontend.arrays.views import size_of
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import placed
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import is_ellipsis, known, library_call, library_operands, new_array, rank
from qgraph.frontend.names.bindings import LeafRef, Value, ViewRef
from qgraph.frontend.names.program_builder import ADDED, ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.statements.inlining import evaluated_arguments, in_order
from qgraph.frontend.statements.node_statements import add_library_call, library_statement
from qgraph.frontend.statements.region import Region
from qgraph.frontend.statements.temporaries import one_element
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.faults import Fault
from qgraph.ir.program import Temporary
from qgraph.ir.slots import SCALAR_DTYPES
from qgraph.ir.trees import constants_of, load, parsed
from qgraph.nodes.library_call import LibraryCall, Operand, call
from qgraph.operations.library_functions import LibraryFunction, Shape, library_function
from qgraph.source import as_written, standing_for

MATRIX = 2
TEST_FIRST = "what the arrays hold is not specified then; test the matrix first, or catch numpy.linalg.LinAlgError"


def assign_library_call(region: Region, scope: Scope, node: ast.Assign) -> bool:
    """Add the statement, if the value is such a function's.

    Raises:
        KernelSyntaxError, KernelTypeError: the target is no whole array, or an operand is none.
    """
    value = node.value
    if not isinstance(value, ast.Call | ast.BinOp) or len(node.targets) > 1:
        return False
    function = _function(scope, value)
    record = library_function(function)
    if record is None and function is not call:
        return False
    single = record is not None and record.results == 1 and not isinstance(node.targets[0], ast.Tuple)
    if single and not _is_direct(scope, node.targets[0], value):
        return False
    if record is not None and record.name == "matmul" and is_integer_product(scope, value, library_operands(record, value)):
        return False
    wanted = 1 if record is None else record.results
    written = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else [node.targets[0]]
    if len(written) != wanted:
        what, hint = ("one array", "write y[:] = ...") if wanted == 1 else (f"{wanted} arrays", "write q[:], r[:] = ...")
        raise scope.error(f"`{as_written(value)}` gives {what}", node.targets[0], hint)
    targets = dict(_whole(scope, each) for each in written)
    if len({leaf.name for leaf in targets.values()}) < wanted:
        raise scope.error(f"`{as_written(node.targets[0])}` names one array twice", node.targets[0], "name several arrays")
    _add(region, scope, value, record, targets)
    return True


def library_array(region: Region, scope: Scope, node: ast.expr, *, whole: Callable[[ast.expr], LeafRef]) -> LeafRef | ViewRef:
    """The new array that a library's function gives; ``whole`` makes a copy of an operand that is no whole array.

    Raises:
        KernelSyntaxError: an operand is a number; or only the device knows how large it is.
    """
    node = _evaluated(region, scope, node)
    record = library_call(scope, node)
    if record is None:
        raise new_array(scope, node)
    operands = library_operands(record, node)
    number = next((each for each in operands if rank(scope, each) == 0), None)
    if number is not None or len(operands) != record.arrays:
        found = f"`{as_written(node)}` is not given {record.arrays} {'array' if record.arrays == 1 else 'arrays'} by position"
        raise scope.error(found, number or node, f"options have keywords: {', '.join(record.keywords) or 'here are none'}")
    if record.name == "matmul" and has_unknown_size(region, scope, operands):
        return product_loop(region, scope, node, operands)
    if record.name == "matmul" and (sums := sums_of_rows(region, scope, node, operands)) is not None:
        return reduce_axes(region, scope, sums)
    operands = [_as_whole(scope, each, whole) for each in operands]
    if record.name == "matmul" and is_integer_product(scope, node, operands):
        return product_loop(region, scope, node, operands)
    value: ast.Call | ast.BinOp
    if isinstance(node, ast.BinOp):
        value = ast.BinOp(operands[0], node.op, operands[1])
    else:
        assert isinstance(node, ast.Call)
        value = ast.Call(node.func, operands, node.keywords)
    value = standing_for(ast.copy_location(value, node), node)
    dtype = type_of_new_array(scope, value)
    if dtype is None or dtype.name not in SCALAR_DTYPES:
        raise scope.error(
            f"the type of the elements of `{as_written(node)}` is not known before the launch",
            node,
            "make the array first: t = qgraph.empty(n, dtype), then t[:] = ...",
        )
    unit, span = region.unit, scope.span(node)
    extents = _extents(unit, record, [_shape_of(unit, scope, each) for each in operands], constants_of(node))
    sizes = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in extents)
    leaf = Leaf(unit.array_name("of_library"), as_written(node), ArrayType(dtype.name, len(sizes), "C"))
    unit.add_temporary(Temporary(leaf, sizes, span, computed=True), tuple(extents))
    _add(region, scope, value, record, {"": leaf})
    return LeafRef(leaf)


def _evaluated(region: Region, scope: Scope, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call):
        return evaluated_arguments(region, scope, node)
    assert isinstance(node, ast.BinOp)
    left, right = in_order(region, scope, [node.left, node.right])
    return standing_for(ast.copy_location(ast.BinOp(left, node.op, right), node), node)


def _as_whole(scope: Scope, node: ast.expr, whole: Callable[[ast.expr], LeafRef]) -> ast.expr:
    """An operand that is a number, a whole array or its transpose as it is; a name for a copy of any other."""
    base = node.value if isinstance(node, ast.Attribute) and node.attr == "T" else node
    if rank(scope, node) == 0 or isinstance(known(scope, base), LeafRef):
        return node
    made = whole(node)
    name = f"{ADDED}{made.leaf.name}"
    scope.names[name] = made
    return standing_for(ast.copy_location(load(name), node), node)


def _shape_of(unit: ProgramBuilder, scope: Scope, node: ast.expr) -> list[ast.expr]:
    """The extents of an operand, as the host computes them."""
    bound = scope.static(node.value if isinstance(node, ast.Attribute) and node.attr == "T" else node)
    assert isinstance(bound, LeafRef)
    extents = [size_of(unit, bound.leaf, axis) for axis in range(rank(scope, node))]
    return extents if known(scope, node) is not None else extents[::-1]


def _extents(
    unit: ProgramBuilder, record: LibraryFunction, shapes: Sequence[list[ast.expr]], keywords: dict[str, Any]
) -> list[ast.expr]:
    """The extents of what the function gives: written out where they are those of the operands."""
    first, last = shapes[0], shapes[-1]
    if record.name == "matmul" and max(map(len, shapes)) == MATRIX:
        return [*first[:-1], *(last[1:] if len(last) == MATRIX else [])]
    if record.as_first:
        return first
    asked = unit.host_object(partial(_result_shape, record, keywords), f"shape_of_{record.name}")
    given = ", ".join(f"({''.join(f'{ast.unparse(each)}, ' for each in shape)})" for shape in shapes)
    ndim = len(record.shape([(2,) * len(shape) for shape in shapes], keywords))
    return [parsed(f"{asked}({given})[{axis}]") for axis in range(ndim)]


def _result_shape(record: LibraryFunction, keywords: dict[str, Any], *shapes: Shape) -> Shape:
    """The shape of the result; of what cannot be computed one with as many zeros, and the call is refused."""
    try:
        found: Shape = record.shape(shapes, keywords)
    except ValueError:
        return (0,) * len(record.shape([(2,) * len(shape) for shape in shapes], keywords))
    return found


def library_number(region: Region, scope: Scope, node: ast.expr, function: object) -> ast.expr:
    """The number that a function of one matrix gives, as the element of an array that the statement before it writes."""
    record = library_function(function)
    assert record is not None
    assert isinstance(node, ast.Call)
    dtype = element_type(scope, node.args[0]) if len(node.args) == 1 and rank(scope, node.args[0]) else None
    if dtype is None or node.keywords:
        raise scope.error(
            f"`{as_written(node)}` is not understood in a kernel", node, f"pass one array to {record.module}.{record.name}"
        )
    found = record.dtype([dtype])
    assert found is not None
    leaf = one_element(region, scope, found.name, node, f"{record.name} of {as_written(node.args[0])}")
    _add(region, scope, node, record, {leaf.path: leaf})
    return standing_for(placed(_only_element(scope, leaf), node), node)


def _is_direct(scope: Scope, target: ast.expr, value: ast.Call | ast.BinOp) -> bool:
    """Whether the library itself writes the target: it is all of an array, as the operands are; else a new array is copied."""
    if not isinstance(target, ast.Subscript) or not isinstance(known(scope, target.value), LeafRef):
        return False
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    operands = [value.left, value.right] if isinstance(value, ast.BinOp) else value.args
    bases = [each.value if isinstance(each, ast.Attribute) and each.attr == "T" else each for each in operands]
    arrays = [base for base in bases if rank(scope, base)]
    return all(map(takes_all, parts)) and all(isinstance(known(scope, base), LeafRef) for base in arrays)


def _only_element(scope: Scope, leaf: Leaf) -> ast.expr:
    hidden = f"{ADDED}{leaf.name}"
    scope.names[hidden] = LeafRef(leaf)
    return ast.Subscript(load(hidden), ast.Constant(0), ast.Load())


def _add(
    region: Region, scope: Scope, value: ast.Call | ast.BinOp, record: LibraryFunction | None, targets: Mapping[str, Leaf]
) -> None:
    statement = library_statement(region, scope, value, record, targets)
    if record is not None:
        for target in list(targets.values())[: len(targets) - record.integers]:
            _check_dtype(scope, statement, record, target, value, region)
        _check_shapes(region, scope, statement, record, value)
    if record is None or not record.fails:
        add_library_call(region, scope, statement, value)
        return
    # On CUDA nobody raises before the host waits.
    status = one_element(region, scope, "int32", value, f"status of {as_written(value)}")
    written_too = replace(statement.effects, writes=statement.effects.writes | {status.name})
    add_library_call(region, scope, replace(statement, status=status.name, effects=written_too), value)
    fault = Fault(LinAlgError, scope.span(value), f"`{as_written(value)}` met {record.fails}", TEST_FIRST)
    fine = ast.Compare(_only_element(scope, status), [ast.Eq()], [ast.Constant(0)])
    region.run(scope).check(scope, placed(fine, value), fault, (), value)


def _function(scope: Scope, value: ast.Call | ast.BinOp) -> object:
    if isinstance(value, ast.BinOp):
        return np.matmul if isinstance(value.op, ast.MatMult) and rank(scope, value) > 0 else None
    bound = quietly_static(scope, value.func)
    function = bound.value if isinstance(bound, Value) else None
    if function is np.dot and len(value.args) == 2 and {rank(scope, each) for each in value.args} in ({2}, {1, 2}):
        # The same of vectors and matrices.
        return np.matmul
    return function


def _whole(scope: Scope, target: ast.expr) -> tuple[str, Leaf]:
    """A target that is all of an array: how it is written, and its leaf."""
    inside = target.slice if isinstance(target, ast.Subscript) else ast.Constant(None)
    parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    bound = scope.static(target.value) if isinstance(target, ast.Subscript) else None
    if isinstance(bound, LeafRef) and isinstance(bound.leaf.type, ArrayType) and all(map(takes_all, parts)):
        return as_written(target), bound.leaf
    raise scope.error(
        f"`{as_written(target)}` is not a whole array, and a library's result is assigned to one",
        target,
        "assign to all of an argument or of a temporary, `y[:] = ...`, and copy what is needed of it",
    )


def takes_all(part: ast.expr) -> bool:
    """Whether an index takes all of an array."""
    if isinstance(part, ast.Slice):
        return part.lower is part.upper is part.step is None
    return is_ellipsis(part)


def _operands(region: Region, statement: LibraryCall) -> list[tuple[Operand, ArrayType]]:
    found = []
    for each in statement.operands:
        assert isinstance(each, Operand)
        type_ = region.unit.leaves[each.leaf].type
        assert isinstance(type_, ArrayType)
        found.append((each, type_))
    return found


def _check_dtype(
    scope: Scope, statement: LibraryCall, record: LibraryFunction, target: Leaf, node: ast.expr, region: Region
) -> None:
    """A complex result does not fit an array of real numbers."""
    types = [type_ for _, type_ in _operands(region, statement)]
    is_complex = record.gives == "complex" or (record.gives == "as given" and any("complex" in each.dtype for each in types))
    assert isinstance(target.type, ArrayType)
    if is_complex and "complex" not in target.type.dtype:
        raise KernelTypeError(
            f"`{as_written(node)}` is complex, and `{target.path}` is an array of {target.type.dtype}",
            scope.span(node),
            hint="assign it to a complex array, and take the real parts in a loop",
        )


def _check_shapes(region: Region, scope: Scope, statement: LibraryCall, record: LibraryFunction, node: ast.expr) -> None:
    """Let calls be refused whose arrays do not fit the function, or each other."""
    unit = region.unit
    arrays = [each for each, _ in _operands(region, statement)]
    told = partial(_trouble, record, tuple(each.transposed for each in arrays), statement.constants, as_written(node))
    fits, trouble = unit.host_object(partial(_fits, told), "fits"), unit.host_object(told, "trouble")
    names = [*(each.leaf for each in arrays), *statement.targets]
    shapes = ", ".join(map(unit.shape_of, names))
    test = ast.copy_location(parsed(f"{fits}({shapes})"), node)
    hint = f"the shape of the result is that of {record.module}.{record.name}"
    unit.host_value(test, scope.span(node), "shape", text=hint, note=f"{trouble}({shapes})")


def _fits(told: Callable[..., str], *shapes: Shape) -> bool:
    return not told(*shapes)


def _trouble(record: LibraryFunction, transposed: Sequence[bool], keywords: dict[str, Any], text: str, *shapes: Shape) -> str:
    """What is wrong with the shapes of the operands and of the targets; empty if nothing is."""
    given, targets = shapes[: record.arrays], shapes[record.arrays :]
    try:
        found = record.shape([each[::-1] if turned else each for each, turned in zip(given, transposed, strict=True)], keywords)
    except ValueError as error:
        return f"`{text}` cannot be computed: {error}"
    for each, target in zip([found] if record.results == 1 else found, targets, strict=True):
        if each != target:
            return f"`{text}` has the shape {each}, and it is assigned to an array of shape {tuple(target)}"
    return ""
