"""Source + argument types -> Program: the statements of a kernel, one handler each, in program order."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from qgraph.errors import ArgumentError, KernelSyntaxError, QGraphError
from qgraph.frontend import binning, matrices_in_loops, places_of_true
from qgraph.frontend.arrays import array_reductions, assignments, new_arrays
from qgraph.frontend.bodies.array_contraction import contract_arrays
from qgraph.frontend.bodies.loop_fusion import join_loops
from qgraph.frontend.bodies.loop_interchange import interchange_loops
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.checks.elements import refuse_elements_of_numbers, refuse_missing_arrays
from qgraph.frontend.checks.signedness import refuse_mixed_signs
from qgraph.frontend.checks.truthiness import refuse_arrays_as_conditions
from qgraph.frontend.desugar.raised_errors import as_branch
from qgraph.frontend.inference.float_type import float_type_of
from qgraph.frontend.inference.trip_counts import with_inner_lengths
from qgraph.frontend.names.bindings import Binding, LeafRef, Poisoned, ScalarRef, StructRef, ViewRef, bind_type
from qgraph.frontend.names.function_frame import Frame, Structure
from qgraph.frontend.names.program_builder import Fronts, ProgramBuilder
from qgraph.frontend.names.scope import Globals, Scope
from qgraph.frontend.products_of_loops import with_products
from qgraph.frontend.statements import branches, loops, temporaries
from qgraph.frontend.statements.inlining import enter_function, pruned
from qgraph.frontend.statements.region import ArrayWords, Region, task_statements
from qgraph.frontend.statements.returns import place_of_result, value_of_result
from qgraph.frontend.statements.task_builder import set_slot, small_task
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ArrayType, Leaf, StructType, Type
from qgraph.ir.faults import FAULTS, NO_KEY
from qgraph.ir.global_arrays import GlobalArray, Namespace
from qgraph.ir.program import (
    HOST,
    Branch,
    Effects,
    Loop,
    NodeStatement,
    Program,
    Result,
    Statement,
    TaskStatement,
    node_statements,
    parts_of,
)
from qgraph.ir.slots import Slot
from qgraph.ir.trees import parsed
from qgraph.operations.progress_ring import LAST, RUNS
from qgraph.source import Span, nodes_of
from qgraph.stack import compiling


@compiling
def build_program(
    source: SourceFunction,
    types: tuple[tuple[str, Type], ...],
    leaves: tuple[Leaf, ...],
    aliases: tuple[tuple[str, str, str], ...] = (),
    global_arrays: tuple[GlobalArray, ...] = (),
    *,
    fuse: bool = False,
    fronts: bool = False,
    products: bool = False,
    checks_indices: bool = False,
    rings: Namespace | None = None,
) -> Program:
    """The Program of a kernel for arguments of these types.

    Args:
        source: the kernel.
        types: its parameters and their types, in order, then those of ``global_arrays``.
        leaves: the arrays and scalars inside them.
        aliases: pairs of leaf names that share memory, and how.
        global_arrays: arrays in global variables that are passed besides the arguments; it may use fewer of them.
        fuse: join neighbouring loops where that changes nothing.
        products: with ``fuse``, loops that add up products are elements of one that a library computes.
        fronts: nests of serial loops may run along wavefronts, where that changes nothing.
        checks_indices: every index of a view, even one that is surely not negative, is the operand of ``wrap_index`` in bodies:
            whoever checks it there finds the extent of the view as well.
        rings: the variable ``ring`` in it holds the array that takes what is published; None where nobody watches.

    Raises:
        GlobalArrayFound: it uses another one.
        KernelSyntaxError, KernelTypeError, DataRaceError, ArgumentError: the kernel says something that cannot be run as
            it reads; nothing has run.
    """
    by_path = {leaf.path: leaf for leaf in leaves}
    bound = {name: bind_type(name, type_, by_path) for name, type_ in types}
    arrays = {array.place: bound.pop(array.path) for array in global_arrays}
    globals_ = Globals(arrays, checks_indices=checks_indices, rings=rings)
    for _, type_ in types:
        _watch_fields(globals_, type_)
    float_type = float_type_of(leaves)
    build = functools.partial(_built, source, bound, leaves, aliases, globals_, fuse, products)
    nests = Fronts() if fronts else None
    program = build(float_type, nests)
    # An array that this specialisation does not use says nothing about its numbers.
    unused = [binding for place, binding in arrays.items() if place not in globals_.used]
    used = float_type_of(tuple(leaf for leaf in leaves if LeafRef(leaf) not in unused))
    # NumPy makes a new array of float64 of integers, also beside float32: it must have the numbers of one.
    made = [each.leaf.type for each in (*program.returned, *program.temporaries) if each.computed]
    if any(isinstance(type_, ArrayType) and type_.dtype in ("float64", "complex128") for type_ in made):
        used = "float64"
    if used != float_type:
        program = build(used, nests)
    if nests is not None:
        program = _along_fronts(functools.partial(build, used), nests, program)
    _check_readonly(program)
    refuse_elements_of_numbers(program)
    refuse_mixed_signs(program)
    refuse_arrays_as_conditions(program)
    # Only now: what became numbers in registers has decided the float type, too.
    touched = frozenset(name for part in parts_of(program.body) for name in part.effects.touched)
    needed = tuple(each for each in program.temporaries if not each.computed or each.leaf.name in touched)
    return replace(program, temporaries=needed)


def _along_fronts(build: Callable[[Fronts], Program], nests: Fronts, program: Program) -> Program:
    """``program``, whose nests of serial loops each have the first schedule that keeps all dependences, if there is one."""
    chosen: dict[Span, int] = {}
    for place, count in nests.met.items():
        for number in range(count if _is_in_order(program.body, place) else 0):
            try:
                program = build(Fronts(chosen={**chosen, place: number}))
            except QGraphError:
                continue
            chosen[place] = number
            break
    return program


def _is_in_order(statements: Sequence[Statement], place: Span) -> bool:
    """Whether the nest at ``place`` is one loop in another still, or one thread's: else nobody waits for its iterations."""
    for each in statements:
        if isinstance(each, Loop) and each.span.line == place.line:
            return any(isinstance(part, Loop) or _loops_of_one_thread(part) for part in each.body)
        if any(loop.lineno == place.line for loop in _loops_of_one_thread(each)):
            return True
        blocks = [each.body] if isinstance(each, Loop) else each.regions if isinstance(each, Branch) else []
        if any(_is_in_order(block, place) for block in blocks):
            return True
    return False


def _loops_of_one_thread(statement: Statement) -> list[ast.For]:
    if not isinstance(statement, TaskStatement) or statement.task.role != "serial":
        return []
    return [node for part in statement.task.body for node in nodes_of(part) if isinstance(node, ast.For)]


def _watch_fields(globals_: Globals, type_: Type) -> None:
    """What the fields of dataclasses are is compiled in."""
    if isinstance(type_, StructType):
        if hasattr(type_.cls, "__dataclass_fields__"):
            globals_.compiled_in.attribute(type_.cls, "__dataclass_fields__", type_.cls.__dataclass_fields__)
        for _, inner in type_.fields:
            _watch_fields(globals_, inner)


def _built(
    source: SourceFunction,
    names: dict[str, Binding],
    leaves: tuple[Leaf, ...],
    aliases: tuple[tuple[str, str, str], ...],
    globals_: Globals,
    fuse: bool,
    products: bool,
    float_type: Literal["float32", "float64"],
    fronts: Fronts | None = None,
) -> Program:
    globals_.enter(source)
    same = _representatives(aliases)
    overlapping = frozenset(frozenset(pair[:2]) for pair in aliases if pair[2] == "overlap")
    unit = ProgramBuilder(source.name, leaves, float_type, same, overlapping, _FUNCS, fronts)
    tree = pruned(unit, Scope(source, names, globals_), source.tree)
    frame = Frame(unit, tree)
    scope = Scope(source, names, globals_, frame)
    refuse_missing_arrays(scope, tree)
    if globals_.checks_indices:
        # Loops look at what is noted there.
        _ = unit.exits
    unit.calling.append(source.function)
    words = ArrayWords(new_arrays.bind_array, array_reductions.reduce_arrays, new_arrays.makes_array)
    region = Region(unit, _HANDLERS, words)
    enter_function(region, scope, tree)
    parted: list[tuple[Leaf, Span]] = []
    result = None if frame.returns is None else _result(region, scope, frame.returns, parted)
    given = frozenset() if result is None else frozenset(result.arrays())
    _refuse_shared_parts(given, parted)
    body = tuple(_as_barrier(unit, statement) for statement in (*_start(unit, source.span), *region.finish()))
    pairs = tuple((a, b) for a, b, _ in aliases)
    if fuse:
        body = contract_arrays(unit, join_loops(unit, pairs, interchange_loops(unit, body, result)), result)
        body = with_products(unit, body) if products else body
    # Last: whose loops are inside is not known before those that can be are axes, and joined.
    body = with_inner_lengths(unit, body)
    return Program(
        name=source.name,
        span=source.span,
        float_type=unit.float_type,
        leaves=leaves,
        host_values=tuple(unit.host_values),
        host_names=unit.host_names,
        slots=tuple(unit.slots),
        body=body,
        aliases=pairs,
        flags=tuple(unit.flags),
        compiled_in=globals_.compiled_in,
        result=result,
        returned=tuple(each for each in unit.temporaries if each.leaf.name in given),
        temporaries=tuple(each for each in unit.temporaries if each.leaf.name not in given),
        faults=tuple(unit.faults),
        exits=unit.exits if unit.leaves_early else None,
        progress=unit.progress,
    )


def _start(unit: ProgramBuilder, span: Span) -> list[Statement]:
    """Where loops and iterations end at a fault, for which there is none yet, or rows are published: the task before others."""
    resets: list[ast.stmt] = []
    slots: list[Slot] = []
    if unit.progress is not None:
        # Whatever launch it was that published last: rows and launches are counted on.
        place = unit.progress
        words = (place.number, parsed(f"{place.ring}[{LAST}]")), (place.run, parsed(f"{place.ring}[{RUNS}] + 1"))
        resets += (set_slot(slot, value) for slot, value in words)
        slots += (slot for slot, _ in words)
    if unit.stops or unit.leaves_early:
        resets.append(set_slot(unit.failed, ast.Constant(0)))
        slots.append(unit.failed)
    if unit.leaves_early:
        first = unit.exits.first
        # What an earlier launch noted stays until somebody is told.
        noted = parsed(f"{NO_KEY} if {FAULTS}[0] == 0 else -1")
        words = (replace(first, index=first.index + 1), noted), (first, ast.Constant(0))
        resets += (set_slot(slot, value) for slot, value in words)
        slots.append(first)
    if not resets:
        return []
    return task_statements(small_task(unit, "start", span, Body(unit), resets, writes=slots))


def _as_barrier(unit: ProgramBuilder, statement: Statement) -> Statement:
    """What comes after everything before it, or before everything after it, touches all there is."""
    if next(node_statements((statement,)), None) is None:
        return statement
    if isinstance(statement, Loop):
        return replace(statement, body=tuple(_as_barrier(unit, each) for each in statement.body))
    if isinstance(statement, Branch):
        regions = (tuple(_as_barrier(unit, each) for each in region) for region in statement.regions)
        return replace(statement, regions=tuple(regions))
    assert isinstance(statement, NodeStatement)
    everything = frozenset({HOST, *unit.leaves, *(slot.name for slot in unit.slots)})
    effects = statement.effects
    touched = (names | everything if HOST in names else names for names in (effects.reads, effects.writes))
    return replace(statement, effects=Effects(*touched))


def _result(region: Region, scope: Scope, structure: Structure, parted: list[tuple[Leaf, Span]]) -> Result:
    """Where the numbers are that the kernel returns, at its end; ``parted`` gets the arrays of which a part is copied."""
    if not structure.name:
        return Result(None, structure.cls, tuple(_result(region, scope, part, parted) for part in structure.parts))
    assert scope.frame is not None
    bound = scope.frame.result(structure.name, scope.names.get(structure.name))
    if isinstance(bound, StructRef):
        # That it is one was not known before the body was.
        parts = {f"{structure.name}{k}": child for k, child in enumerate(bound.children.values())}
        scope.names.update(parts)
        return Result(None, bound.type.cls, tuple(_result(region, scope, Structure(name), parted) for name in parts))
    if isinstance(bound, (LeafRef, ViewRef)) and _is_copied(region.unit, bound):
        if isinstance(bound, ViewRef):
            parted.append((bound.leaf, place_of_result(scope, structure.name)))
        bound = new_arrays.bind_copy(region, scope, value_of_result(scope, structure.name))
    if (isinstance(bound, LeafRef) and bound.is_array) or isinstance(bound, ViewRef):
        return Result(leaf=_returned(region.unit, place_of_result(scope, structure.name), bound))
    if isinstance(bound, Poisoned) and not bound.number:
        raise KernelSyntaxError(
            f"{scope.source.name}() returns an array from a loop or branch, and only a call decides which",
            place_of_result(scope, structure.name),
            also=(("here", bound.span),),
            hint="return one array, at the end of the kernel: write the elements in the branches",
        )
    if not isinstance(bound, ScalarRef):
        region.run(scope).assign(scope, structure.name, value_of_result(scope, structure.name))
        bound = scope.names[structure.name]
        assert isinstance(bound, ScalarRef)
    return Result(bound.slot)


def _is_copied(unit: ProgramBuilder, bound: LeafRef | ViewRef) -> bool:
    """Whether what is returned is a part of an array of the kernel's own, or one of several: then it is a new one."""
    selection = unit.selections.get(bound.leaf.name)
    if selection is None and not isinstance(bound, ViewRef):
        return False
    leaves = {bound.leaf.name} if selection is None else {*selection.leaves}
    return leaves <= {each.leaf.name for each in unit.temporaries}


def _refuse_shared_parts(given: frozenset[str], parted: list[tuple[Leaf, Span]]) -> None:
    """A part that is returned is a copy, which nobody can tell from it where nothing else of the array is."""
    names = [leaf.name for leaf, _ in parted]
    for leaf, place in parted:
        if leaf.name not in given and names.count(leaf.name) == 1:
            continue
        raise KernelSyntaxError(
            f"a kernel cannot return a part of `{leaf.path}` together with another part, or all, of it",
            place,
            hint="return the array, and take the parts of it after the call",
        )


def _is_of_argument(unit: ProgramBuilder, name: str) -> bool:
    """Whether a new array shares its elements with an argument in NumPy."""
    while name in unit.copies:
        name = unit.copies[name]
        if all(each.leaf.name != name for each in unit.temporaries):
            return True
    return False


def _returned(unit: ProgramBuilder, span: Span, bound: LeafRef | ViewRef) -> str:
    """The leaf of an array that the kernel returns: an argument, or memory that the call makes for the caller."""
    leaf = bound.leaf
    made = [each for each in unit.temporaries if each.leaf.name == leaf.name]
    if isinstance(bound, ViewRef):
        found, hint = f"a part of `{leaf.path}`", f"return `{leaf.path}`, and take the part of it after the call"
    elif leaf.name in unit.selections:
        found = f"`{leaf.path}`, which changes places with another array where only the device knows it"
        hint = f"return a copy, np.copy({leaf.path}), or assign the elements to an array that stays, out[:] = {leaf.path}"
    elif _is_of_argument(unit, leaf.name):
        found, hint = (
            f"`{leaf.path}`, which is a part of an argument in NumPy",
            "copy it, np.copy(...), or make it after the call",
        )
    elif any(each.in_graph for each in made):
        found, hint = f"`{leaf.path}`, whose memory the graph itself takes and frees", "leave out alloc=True"
    else:
        return leaf.name
    raise KernelSyntaxError(f"a kernel cannot return {found}", span, hint=hint)


def _representatives(aliases: tuple[tuple[str, str, str], ...]) -> dict[str, str]:
    """For leaves that are the identical memory: the first of each group.

    Of two that are only read nobody says that they are; a third one, which is written, says it of both.
    """
    pairs = [pair for *pair, how in aliases if how == "same"]
    order = {name: place for place, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
    group = {name: name for name in order}
    for first, second in pairs:
        one, other = sorted((group[first], group[second]), key=order.__getitem__)
        group = {name: one if known == other else known for name, known in group.items()}
    return {name: known for name, known in group.items() if name != known}


def _check_readonly(program: Program) -> None:
    for leaf in program.leaves:
        stores = (span for names, span in program.stores if leaf.name in names)
        span = next(stores, None) if isinstance(leaf.type, ArrayType) and leaf.type.readonly else None
        if span is not None:
            raise ArgumentError(
                f"`{leaf.path}` is read-only, and the kernel writes it",
                span,
                hint=f"pass a writable array, such as `{leaf.path}.copy()`",
            )


# What is written in the language of kernels itself.
_FUNCS = {
    function.function.__name__: function
    for function in (
        places_of_true.places_of_true,
        binning.edges_below,
        binning.interpolated,
        binning.interp,
        binning.searchsorted,
        binning.counted,
        binning.binned,
        binning.even_edges,
    )
}
_HANDLERS: dict[type[ast.stmt], Any] = {
    ast.Assert: lambda region, scope, node: branches.if_statement(region, scope, as_branch(scope, node)),
    ast.Raise: lambda region, scope, node: region.run(scope).statement(scope, node),
    ast.For: matrices_in_loops.for_loop,
    ast.While: loops.while_loop,
    ast.If: branches.if_statement,
    ast.Match: branches.match_statement,
    ast.Assign: assignments.assign,
    ast.AnnAssign: assignments.annotated,
    ast.AugAssign: assignments.augmented,
    ast.Expr: assignments.expression,
    ast.Delete: temporaries.delete,
    ast.Pass: lambda region, scope, node: None,
}
