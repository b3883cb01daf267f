"""Kernel-level assignments and calls: names for things known now, numbers of the host, kernel scalars, array elements."""

from __future__ import annotations

import ast
import copy

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.arrays.array_statements import assign_slice
from qgraph.frontend.arrays.index_words import grids
from qgraph.frontend.arrays.library_calls import assign_library_call
from qgraph.frontend.arrays.name_bindings import bind_all, check_scalars, flattened, held_parts, structure_of, tuple_parts
from qgraph.frontend.arrays.selections import assign_selection, assign_selections, update_at, with_named_places
from qgraph.frontend.arrays.sparse_products import assign_sparse_product
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.bodies.progress import check_progress, is_progress
from qgraph.frontend.bodies.row_elements import row_parts
from qgraph.frontend.bodies.vectors import may_be_vector
from qgraph.frontend.desugar.augmented_assignment import as_assignment
from qgraph.frontend.desugar.made_tuples import choice_of_tuples, divided, made_structure
from qgraph.frontend.inference.elementwise import check_in_place
from qgraph.frontend.inference.ranks import is_selection, known_object, rank
from qgraph.frontend.inference.stores import is_in_place, is_slice, ufunc_at, updates_only_element
from qgraph.frontend.names.bindings import Poisoned, Value
from qgraph.frontend.names.call_binding import callee
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import bind_value, call_func, evaluated, has_calls, in_order
from qgraph.frontend.statements.node_statements import node_statement
from qgraph.frontend.statements.region import Region, calls_func
from qgraph.frontend.syntax import unsupported_functions
from qgraph.ir.trees import at_place, index_with, load, parts_of, stored
from qgraph.nodes.registry import statement_of_word
from qgraph.operations.table import is_one_of
from qgraph.source import as_written, standing_for


def assign(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``targets = value``."""
    places = [place for target in node.targets for place in _places(target)]
    if any(is_selection(scope, place) for place in places):
        assign_selections(region, scope, node)
        return
    target = node.targets[0]
    if len(node.targets) == 1 and isinstance(target, ast.Subscript) and calls_func(region.unit, scope, target):
        # Whether that gives an array of indices is known when it has been called. Python takes the value first.
        value, array, *index = in_order(region, scope, [node.value, target.value, *parts_of(target)])
        assign(region, scope, ast.copy_location(ast.Assign([_at(target, array, index)], value), node))
        return
    if any(is_slice(scope, place) for place in places):
        if len(places) == 1 and may_be_vector(scope, node.value):
            _to_elements(region, scope, node)
            return
        _to_slices(region, scope, node)
        return
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.IfExp):
        chosen = choice_of_tuples(scope, node.targets[0], node.value)
        if chosen:
            region.block(scope, chosen)
            return
    if all(_stores_elements(target) for target in node.targets):
        _to_elements(region, scope, node)
        return
    _to_names(region, scope, node)


def _at(target: ast.Subscript, array: ast.expr, index: list[ast.expr]) -> ast.Subscript:
    return ast.copy_location(ast.Subscript(array, index_with(target, index), target.ctx), target)


def _to_names(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``targets = value`` where some are names."""
    if len(node.targets) > 1 and _has_arrays(scope, node.value):
        # One new array, however many names it gets: the others are names of what the first one names.
        first, *others = node.targets
        if not isinstance(first, ast.Name):
            name = f"{ADDED}value_{node.lineno}_{node.col_offset}"
            first, others = standing_for(stored(name), node.value), node.targets
        assign(region, scope, ast.copy_location(ast.Assign([first], node.value), node))
        assign(region, scope, ast.copy_location(ast.Assign([*others], standing_for(load(first.id), node.value)), node))
        return
    made = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and not isinstance(node.value, ast.Call)
    # A new array has a type, which its numbers tell before they are kernel scalars.
    named = any(isinstance(target, ast.Name) for target in node.targets)
    statements, value = divided(scope, node.value) if named else ([], node.value)
    region.block(scope, statements)
    if not made or not rank(scope, value):
        value = evaluated(region, scope, grids(scope, with_named_places(region, scope, value)))
    for target in node.targets:
        if isinstance(target, ast.Name):
            bind_all(region, scope, [(target, value)])
        elif isinstance(target, ast.Tuple):
            _unpack(region, scope, target, value)
        elif _stores_elements(target):
            _to_elements(region, scope, ast.copy_location(ast.Assign([target], value), node))
        else:
            raise _no_target(scope, target)


def _has_arrays(scope: Scope, value: ast.expr) -> bool:
    """Whether an array, or what may hold one, is assigned."""
    if isinstance(value, ast.Tuple):
        return any(_has_arrays(scope, part) for part in value.elts)
    return bool(rank(scope, value)) or made_structure(scope, value) is not None


def _no_target(scope: Scope, target: ast.expr) -> KernelSyntaxError:
    return scope.error(
        f"`{as_written(target)}` cannot be assigned at kernel level",
        target,
        "assign to elements of arrays, or bind plain names; for another shape t = np.reshape(x, (n, m))",
    )


def _places(target: ast.expr) -> list[ast.expr]:
    """What a target assigns, one by one."""
    return [place for each in target.elts for place in _places(each)] if isinstance(target, ast.Tuple) else [target]


def _refuse_slices_in_tuples(scope: Scope, node: ast.Assign) -> None:
    tuples = (_places(target) for target in node.targets if isinstance(target, ast.Tuple))
    found = next((part for parts in tuples for part in parts if is_slice(scope, part)), None)
    if found is not None:
        raise scope.error(
            f"`{as_written(found)}` is assigned together with others",
            found,
            "write one statement for each part of an array",
        )


def annotated(region: Region, scope: Scope, node: ast.AnnAssign) -> None:
    """``name: type = value``: the annotation says nothing to a kernel."""
    if node.value is not None:
        assign(region, scope, ast.copy_location(ast.Assign([node.target], node.value), node))


def augmented(region: Region, scope: Scope, node: ast.AugAssign) -> None:
    """``target += value``."""
    if updates_only_element(scope, node):
        array = node.target.value if isinstance(node.target, ast.Subscript) else node.target
        assert isinstance(array, ast.Name)
        name = standing_for(load(array.id), array)
        check_in_place(scope, node, name, node.value)
        element = ast.Subscript(name, ast.Tuple([], ast.Load()), ast.Store())
        node = ast.copy_location(ast.AugAssign(at_place(element, node.target), node.op, node.value), node)
    if isinstance(node.target, ast.Subscript):
        # Python computes the index, reads what is there, and then takes the value, which may change both.
        array, *index = in_order(region, scope, [node.target.value, *parts_of(node.target)], before=node.value)
        node = ast.copy_location(ast.AugAssign(_at(node.target, array, index), node.op, node.value), node)
    if isinstance(node.target, ast.Subscript) and is_selection(scope, node.target):
        assign_selection(region, scope, node, node.target, node.value)
        return
    if is_slice(scope, node.target) or is_in_place(scope, node):
        if may_be_vector(scope, node.value):
            region.run(scope).statement(scope, node)
        else:
            assign_slice(region, scope, node, node.target, node.value)
        return
    if _stores_elements(node.target) and not has_calls(region, scope, node.value):
        _fitting(region, scope, node.target, node.value)
        region.run(scope).statement(scope, node)
        return
    assign(region, scope, as_assignment(node))


def expression(region: Region, scope: Scope, node: ast.Expr) -> None:
    """A call whose value nobody takes."""
    value = node.value
    if isinstance(value, ast.Constant) or _tells(region, scope, node):
        return
    if isinstance(value, ast.Call):
        found = callee(scope, value)
        if found is not None:
            call_func(region, scope, *found, value)
            return
        if ufunc_at(scope, value) is not None:
            update_at(region, scope, value)
            return
        bound = scope.static(value.func)
        function = bound.value if isinstance(bound, Value) else None
        if (kind := statement_of_word(function)) is not None:
            node_statement(region, scope, value, kind, function)
            return
        if is_one_of(function, (print, *language.ATOMICS)):
            node = copy.copy(node)
            node.value = evaluated(region, scope, value)
            region.run(scope).statement(scope, node)
            return
        if not isinstance(function, np.ufunc):
            # Says what is wrong with the callee, if anything.
            Body(region.unit).expression(scope, value)
        if isinstance(value.func, ast.Attribute):
            instead = unsupported_functions.as_assignment(function, value)
            raise scope.error(f"`{as_written(node)}` is not supported as a statement", node, instead)
    raise scope.error(
        f"the statement `{as_written(node)}` has no effect here",
        node,
        "assign its value to a name, or to an element of an array",
    )


def _tells(region: Region, scope: Scope, node: ast.Expr) -> bool:
    """Whether a statement tells the progress; where nobody watches there is then no code for it."""
    if not is_progress(scope, node.value):
        return False
    assert isinstance(node.value, ast.Call)
    check_progress(scope, node.value)
    if scope.ring is not None:
        region.run(scope).statement(scope, node)
    return True


def _to_slices(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``x[:] = value``, also ``x[:] = s = value`` where the value is a number, or what a library's function gives."""
    if assign_sparse_product(region, scope, node) or assign_library_call(region, scope, node):
        return
    value = evaluated(region, scope, node.value)
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
        parts = tuple_parts(scope, value)
        if parts is not None and len(parts) == len(node.targets[0].elts):
            pairs = flattened(scope, node.targets[0], parts)
            for (target, _), part in zip(pairs, _held(region, scope, [part for _, part in pairs]), strict=True):
                assign(region, scope, ast.copy_location(ast.Assign([target], part), target))
            return
    _refuse_slices_in_tuples(scope, node)
    value = _held(region, scope, [value])[0] if len(node.targets) > 1 else value
    for target in node.targets:
        single = ast.copy_location(ast.Assign([target], value), node)
        if is_slice(scope, target):
            assign_slice(region, scope, single, target, value)
        else:
            assign(region, scope, single)


def _held(region: Region, scope: Scope, values: list[ast.expr]) -> list[ast.expr]:
    """Names for what ``values`` are now. Of a part of an array the next target sees what one has changed, as in NumPy."""
    numbers = iter(held_parts(region, scope, [value for value in values if not rank(scope, value)]))
    names: list[ast.expr] = []
    for k, value in enumerate(values):
        if not rank(scope, value):
            names.append(next(numbers))
            continue
        name = f".held_array{k}_{value.lineno}_{value.col_offset}"
        scope.names[name] = bind_value(region, scope, value)
        names.append(standing_for(ast.copy_location(load(name), value), value))
    return names


def _to_elements(region: Region, scope: Scope, node: ast.Assign) -> None:
    node = copy.copy(node)
    node.value = evaluated(region, scope, node.value)
    for target in node.targets:
        node.value = _fitting(region, scope, target, node.value)
    region.run(scope).statement(scope, node)


def _fitting(region: Region, scope: Scope, target: ast.expr, value: ast.expr) -> ast.expr:
    """``value`` for elements: a number for one, and for a tuple of them a tuple that is written out."""
    if not isinstance(target, ast.Tuple):
        if rank(scope, value) and not rank(scope, target):
            array = target
            while isinstance(array, (ast.Subscript, ast.Attribute)):
                array = array.value
            if isinstance(array, ast.Name):
                # A name that does not exist is what is wrong.
                scope.lookup(array)
            raise scope.error(
                f"`{as_written(value)}` is an array, and `{as_written(target)}` one element",
                value,
                "assign to a part of the array, `y[:] = ...`, or take one element, `x[0]`",
            )
        return value
    parts = _unpacked(region, scope, target, value)
    if parts is None:
        return value
    elements = [_fitting(region, scope, each, part) for each, part in zip(target.elts, parts, strict=True)]
    return ast.copy_location(ast.Tuple(elements, ast.Load()), value)


def _unpacked(region: Region, scope: Scope, target: ast.Tuple, value: ast.expr) -> list[ast.expr] | None:
    """The parts of ``value``, as many as ``target`` has; None for what a device function may give as a tuple."""
    cls, _ = structure_of(scope, value) or (tuple, [])
    # Python unpacks no dataclass.
    if not issubclass(cls, tuple):
        raise scope.error(
            f"`{as_written(value)}` is a {cls.__name__}, and no tuple that can be unpacked", value, "name its fields"
        )
    parts = tuple_parts(scope, value)
    if parts is None and rank(scope, value) == 1 and not isinstance(value, ast.Call):
        parts = row_parts(scope, region.unit, value, len(target.elts))
    if parts is not None and len(parts) != len(target.elts):
        raise scope.error(f"{len(parts)} values for {len(target.elts)} names", value, "unpack as many as there are")
    if parts is None and (rank(scope, value) or not isinstance(value, ast.Call)):
        bound = scope.lookup(value) if isinstance(value, ast.Name) else None
        if isinstance(bound, Poisoned):
            raise scope.error(bound.reason, value, bound.hint)
        hint = "unpack a tuple, a shape, a row of an argument, or what a func returns"
        numbers = isinstance(value, ast.Call) and unsupported_functions.of_numbers(known_object(scope, value.func))
        raise scope.error(f"`{as_written(value)}` cannot be unpacked at kernel level", value, numbers or hint)
    return parts


def _unpack(region: Region, scope: Scope, target: ast.Tuple, value: ast.expr) -> None:
    parts = _unpacked(region, scope, target, value)
    parts = parts and _with_rows_apart(region, scope, target, parts)
    pairs = [] if parts is None else flattened(scope, target, parts)
    if pairs:
        target = ast.copy_location(ast.Tuple([element for element, _ in pairs], ast.Store()), target)
    names = [element for element in target.elts if isinstance(element, ast.Name)]
    if not all(isinstance(element, ast.Name if parts is None else (ast.Name, ast.Subscript)) for element in target.elts):
        raise _no_target(scope, target)
    if parts is None:
        check_scalars(scope, names)
        region.run(scope).unpack(scope, [name.id for name in names], value)
    elif len(names) == len(pairs):
        bind_all(region, scope, [*zip(names, (part for _, part in pairs), strict=True)])
    else:
        # All values first, under names of their own.
        for element, held in zip(target.elts, held_parts(region, scope, [part for _, part in pairs]), strict=True):
            assign(region, scope, ast.copy_location(ast.Assign([element], held), element))


def _with_rows_apart(region: Region, scope: Scope, target: ast.Tuple, parts: list[ast.expr]) -> list[ast.expr]:
    """``parts``, where a row of an array that is unpacked into names is the tuple of its elements.

    Python reads these when all values are known, and what was assigned before: not where that may change them.
    """
    if not all(isinstance(place, ast.Name) for place in _places(target)) or any(
        has_calls(region, scope, each) for each in parts
    ):
        return parts
    rows = [isinstance(each, ast.Tuple) and rank(scope, part) == 1 for each, part in zip(target.elts, parts, strict=True)]
    return [
        ast.copy_location(ast.Tuple(_unpacked(region, scope, each, part) or [part], ast.Load()), part)
        if is_row and isinstance(each, ast.Tuple)
        else part
        for each, part, is_row in zip(target.elts, parts, rows, strict=True)
    ]


def _stores_elements(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_stores_elements(element) for element in target.elts)
    return isinstance(target, ast.Subscript)
