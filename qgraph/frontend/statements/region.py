"""A region under construction: kernel-level statements in program order, one handler a kind of statement."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from qgraph import language
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.name_resolution import is_do_while
from qgraph.frontend.bodies.row_elements import with_stars
from qgraph.frontend.desugar.element_loops import elements_iterated
from qgraph.frontend.desugar.index_lists import with_index_arrays
from qgraph.frontend.desugar.made_tuples import gives_tuple, makes_tuple
from qgraph.frontend.desugar.numpy_calls import as_store, with_functions
from qgraph.frontend.inference.iteration_space import loop_call
from qgraph.frontend.inference.ranks import (
    as_selection,
    library_call,
    nonzero_of,
    places_of_true,
    rank,
    reduced_along,
    reduction,
)
from qgraph.frontend.inference.stores import refuse_atomics_of_arrays, stores_slice, ufunc_at
from qgraph.frontend.names.bindings import (
    Binding,
    LeafRef,
    Poisoned,
    Private,
    Ranked,
    ScalarRef,
    StructRef,
    Value,
    ViewRef,
)
from qgraph.frontend.names.call_binding import bind_call, callee
from qgraph.frontend.names.definite_assignment import assigned_behind, names_assigned
from qgraph.frontend.names.program_builder import ADDED, ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import known_test
from qgraph.frontend.statements.copied_views import refuse_changed_copies
from qgraph.frontend.statements.known_scalars import known_behind, known_in_block
from qgraph.frontend.statements.returns import RETURNED, returns_structure
from qgraph.frontend.statements.serial_runs import SerialRun
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.program import Statement, Task, TaskStatement
from qgraph.language import Func
from qgraph.nodes.registry import statement_of_word
from qgraph.operations.table import is_one_of
from qgraph.records import dataclass
from qgraph.source import Span, as_written, nodes_of

Handler = Callable[["Region", Scope, ast.stmt], None]


@dataclass(frozen=True, slots=True)
class ArrayWords:
    """What a region does with arrays: a part of one, or a new one, gets a name; a reduction becomes the name of a number.

    ``makes``: whether an expression makes a new array by statements of its own, and is no elementwise one.
    """

    bind: Callable[[Region, Scope, ast.expr], Binding | None]
    reduce: Callable[..., ast.expr]
    makes: Callable[[Scope, ast.AST], bool]


class Region:
    """The kernel itself, or the body of a device loop or branch (``depth`` > 0).

    Consecutive statements for one thread are collected in a run, which becomes one task as soon as another kind follows.
    """

    def __init__(
        self, unit: ProgramBuilder, handlers: Mapping[type[ast.stmt], Handler], arrays: ArrayWords, depth: int = 0
    ) -> None:
        self.unit = unit
        self.arrays = arrays
        self.depth = depth
        self._handlers = handlers
        self._statements: list[Statement] = []
        self._run: SerialRun | None = None
        self._looked_at = 0

    def inner(self) -> Region:
        """An empty region inside this one."""
        return Region(self.unit, self._handlers, self.arrays, self.depth + 1)

    def block(self, scope: Scope, statements: Iterable[ast.stmt]) -> None:
        """Handle ``statements`` in order; names that they bind change ``scope``."""
        with known_in_block(self.unit):
            for statement in statements:
                self._handle(scope, statement)

    def _handle(self, scope: Scope, statement: ast.stmt) -> None:
        node = with_functions(scope, with_index_arrays(scope, with_stars(scope, self.unit, statement)))
        node = as_store(scope, node) or node
        refuse_atomics_of_arrays(scope, node)
        handler = self._handlers.get(type(node))
        if handler is None:
            raise KernelSyntaxError(
                f"`{first_word(node)}` cannot be used at kernel level",
                scope.span(node),
                hint="kernel-level statements are loops, branches, assignments and calls of funcs",
            )
        with known_behind(self.unit, scope, node):
            handler(self, scope, node)
        if isinstance(node, ast.While | ast.For) and not (isinstance(node, ast.For) and is_parallel_loop(scope, node)):
            _know_assigned(scope, node)
        if self.unit.copies:
            self.flush()
            refuse_changed_copies(self.unit, scope, node, self._statements[self._looked_at :])
        self._looked_at = len(self._statements)

    def add(self, *statements: Statement) -> None:
        """Append finished statements."""
        self.flush()
        self._statements += statements

    def run(self, scope: Scope) -> SerialRun:
        """The run that takes the next statement for one thread."""
        if self._run is not None and self._run.file != scope.file:
            self.flush()
        if self._run is None:
            self._run = SerialRun(self.unit, scope.file)
        return self._run

    def flush(self) -> None:
        """End the current run."""
        run, self._run = self._run, None
        if run is not None and not run.empty:
            self._statements.append(TaskStatement(run.task()))

    def finish(self) -> tuple[Statement, ...]:
        """The statements of the region."""
        self.flush()
        return tuple(self._statements)


# --- which statements need a region ------------------------------------------------------------------------------------


def needs_region(unit: ProgramBuilder, scope: Scope, nodes: Iterable[ast.AST]) -> bool:
    """Whether something under ``nodes`` is more than one thread's work.

    That is a loop over a range, a device loop, a call with one, an array that is made, an array or a tuple that gets another
    name, or a word for the host.
    """
    nodes = list(nodes)
    inside = [child for node in nodes for child in nodes_of(node)]
    # Variables of loops over ranges are one index each, wherever they have a value.
    counters = {name: Private(name) for child in inside for name in _counters(scope, child)}
    within = scope.inner(counters)
    if any(_is_parallel(unit, within, child) for child in inside):
        return True
    if any(_names_tuple(unit, within, child, nodes) for child in inside):
        return True
    bound = (scope.names.get(name) for name in names_assigned(nodes))
    return any((isinstance(each, LeafRef) and each.is_array) or isinstance(each, (StructRef, ViewRef)) for each in bound)


def _counters(scope: Scope, node: ast.AST) -> Iterable[str]:
    """The names that count the iterations of a loop over a range, or over several."""
    if not isinstance(node, ast.For):
        return ()
    found = loop_call(scope, node.iter)
    several = isinstance(node.target, ast.Tuple)
    if found is None or not (several or quietly_static(found.scope, found.call.func) == Value(range)):
        return ()
    return names_assigned([node.target])


def _is_parallel(unit: ProgramBuilder, scope: Scope, node: ast.AST) -> bool:
    if isinstance(node, ast.While):
        return is_do_while(scope, node.test)
    if isinstance(node, ast.For):
        # An unrolled loop binds its names to anything.
        return is_parallel_loop(scope, node) or _is_unrolled(scope, node)
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and _renames(scope, node):
        return True
    if stores_slice(scope, node) or reduction(scope, node) or as_selection(scope, node) or ufunc_at(scope, node):
        return True
    if reduced_along(scope, node) is not None or nonzero_of(scope, node) is not None or places_of_true(scope, node) is not None:
        return True
    if library_call(scope, node) is not None or as_store(scope, node) is not None:
        return True
    if isinstance(node, ast.Return):
        return node.value is not None and rank(scope, node.value) > 0
    if not isinstance(node, ast.Call):
        return False
    if is_host_word(scope, node) or made_array(scope, node) is not None:
        return True
    return callee_needs_region(unit, scope, node)


def _names_tuple(unit: ProgramBuilder, scope: Scope, child: ast.AST, nodes: Sequence[ast.AST]) -> bool:
    """Whether an assignment in ``nodes`` gives a tuple a name that is used outside of them: the kernel's names are numbers."""
    if scope.frame is None or not isinstance(child, (ast.Assign, ast.AnnAssign)) or child.value is None:
        return False
    targets = child.targets if isinstance(child, ast.Assign) else [child.target]
    pairs = [(target, child.value) for target in targets]
    for target, value in pairs:
        if isinstance(target, ast.Tuple):
            parts = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else []
            pairs += zip(target.elts, parts, strict=bool(parts))
        elif isinstance(target, ast.Name) and not any(scope.frame.is_private(target.id, node) for node in nodes):
            call = isinstance(value, ast.Call) and returns_structure(unit, scope, value)
            if call or makes_tuple(scope, value) or gives_tuple(scope, value):
                return True
    return False


def _renames(scope: Scope, node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether an array, part of one, or a tuple gets another name."""
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    places = [value for value in values if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript))]
    structures = any(isinstance(quietly_static(scope, place), StructRef) for place in places)
    return structures or any(value is not None and rank(scope, value) > 0 for value in values)


def made_array(scope: Scope, value: ast.expr) -> str | None:
    """The word of a call such as ``qgraph.zeros(n)``, which makes an array at kernel level; None for anything else."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, (ast.Name, ast.Attribute)):
        return None
    bound = scope.names.get(value.func.id) if isinstance(value.func, ast.Name) else None
    bound = bound or quietly_static(scope, value.func)
    return language.array_maker(bound.value) if isinstance(bound, Value) else None


def is_host_word(scope: Scope, node: ast.Call) -> bool:
    """Whether a call is a statement that becomes nodes of a kind of its own, such as ``host_callback``."""
    bound = quietly_static(scope, node.func)
    return isinstance(bound, Value) and statement_of_word(bound.value) is not None


def _is_unrolled(scope: Scope, node: ast.For) -> bool:
    return isinstance(node.iter, ast.Call) and quietly_static(scope, node.iter.func) == Value(language.static)


def is_parallel_loop(scope: Scope, node: ast.For) -> bool:
    """Whether a kernel-level `for` is parallel: over a range that is not ``serial``."""
    found = loop_call(scope, node.iter)
    if found is None:
        return elements_iterated(scope, node.iter)
    return found.word is not language.serial


def callee_needs_region(unit: ProgramBuilder, scope: Scope, node: ast.Call) -> bool:
    """Whether a call is of a func with kernel-level loops."""
    found = callee(scope, node)
    if found is None or found[0] in unit.calling:
        return False
    source = found[0].source
    inner = scope.of(source, _parameters(scope, source, found[1], node))
    unit.calling.append(found[0])
    result = needs_region(unit, inner, source.tree.body)
    unit.calling.pop()
    return result


def is_inlined(unit: ProgramBuilder, scope: Scope, node: ast.Call) -> bool:
    """Whether the statements of a func that is called become the kernel's: it has kernel-level loops, or stores elements."""
    return callee_needs_region(unit, scope, node) or _stores(scope, node, ())


def calls_func(unit: ProgramBuilder, scope: Scope, *nodes: ast.expr) -> bool:
    """Whether one of ``nodes`` has a call in it that may change arrays: one that is inlined, or opaque."""
    calls = (child for node in nodes for child in nodes_of(node) if isinstance(child, ast.Call))
    return any(is_inlined(unit, scope, call) or is_opaque(scope, call) for call in calls)


def is_opaque(scope: Scope, node: ast.AST) -> bool:
    """Whether a call is of a function that Numba has compiled: it may change what it is given, and nobody looks into it."""
    bound = quietly_static(scope, node.func) if isinstance(node, ast.Call) else None
    return isinstance(bound, Value) and hasattr(bound.value, "py_func")


def _stores(scope: Scope, node: ast.Call, calling: tuple[Func, ...]) -> bool:
    """Whether a func that is called, or one that it calls, stores elements."""
    found = callee(scope, node)
    if found is None or found[0] in calling:
        return False
    source = found[0].source
    inner = scope.of(source, {})
    for child in nodes_of(source.tree):
        if isinstance(child, ast.Subscript) and isinstance(child.ctx, ast.Store):
            return True
        if not isinstance(child, ast.Call):
            continue
        bound = quietly_static(inner, child.func)
        is_atomic = isinstance(bound, Value) and is_one_of(bound.value, language.ATOMICS)
        if is_atomic or is_opaque(inner, child) or _stores(inner, child, (*calling, found[0])):
            return True
    return False


def _parameters(scope: Scope, source: SourceFunction, owner: StructRef | Value | None, node: ast.Call) -> dict[str, Binding]:
    """What the parameters of a func stand for, as far as that is known before the call: arrays are."""
    known: dict[str, Binding] = dict.fromkeys(source.signature.parameters, Value(None))
    try:
        arguments = bind_call(scope, source, owner, node)
    except KernelSyntaxError:  # what is wrong with the call is said where it is made
        return known
    for name, argument in arguments.items():
        bound = quietly_static(scope, argument) if isinstance(argument, ast.expr) else argument
        ndim = rank(scope, argument) if bound is None and isinstance(argument, ast.expr) else 0
        known[name] = Ranked(ndim) if ndim else bound or Value(None)
    return known


# --- helpers of handlers -----------------------------------------------------------------------------------------------


def merge(scope: Scope, branches: Sequence[Scope], span: Span) -> None:
    """After alternatives: a name keeps a meaning that all of them agree on; one that only some gave it is gone."""
    names = {name for branch in branches for name in branch.names}
    for name in names:
        text = "this value" if name.startswith(ADDED) else f"`{name}`"
        found = [branch.names.get(name) for branch in branches]
        first = found[0]
        if first is not None and all(other == first for other in found[1:]):
            scope.names[name] = first
        elif any(isinstance(other, Poisoned) for other in found):
            scope.names[name] = next(other for other in found if isinstance(other, Poisoned))
        elif all(other is not None for other in found):
            scope.names[name] = Poisoned(
                f"{text} does not mean the same on each path that leads here",
                span,
                _instead_of_several(name, found),
                number=False,
            )
        else:
            number = all(other is None or isinstance(other, ScalarRef) for other in found)
            reason = f"{text} may be read before it is assigned"
            scope.names[name] = Poisoned(reason, span, "assign it on every path that leads here", number, on_paths=True)


def _instead_of_several(name: str, found: Sequence[Binding | None]) -> str:
    arrays = all(isinstance(each, ViewRef) or (isinstance(each, LeafRef) and each.is_array) for each in found)
    if arrays and not name.startswith(ADDED):
        return f"use it in the branches; or make an array before, {name} = x.copy(), and there copy to it, {name}[:] = y"
    if any(isinstance(each, StructRef) for each in found):
        return "let it be a tuple of one class and length on each path, with the same arrays in it; or use it in the branches"
    return "only numbers can: use it in the branches"


def _know_assigned(scope: Scope, node: ast.stmt) -> None:
    """Behind a loop: a number that is assigned before each `break`, and in the `else`, which no branch by itself tells."""
    frame = scope.frame
    poisoned = [(name, bound) for name, bound in scope.names.items() if isinstance(bound, Poisoned)]
    missing = [name for name, bound in poisoned if bound.number and bound.on_paths]
    if frame is not None and missing:
        scope.names.update({name: frame.scalar(name) for name in assigned_behind(node, missing, RETURNED)})


def header(scope: Scope, node: ast.AST) -> Span:
    """The header line of a loop or branch: what a message or a label points at."""
    span = scope.span(node)
    if isinstance(node, ast.For):
        end = scope.span(node.iter)
    elif isinstance(node, (ast.While, ast.If)):
        end = scope.span(node.test)
    elif isinstance(node, ast.Match):
        end = scope.span(node.subject)
    else:
        return span
    return Span(span.file, span.line, span.column, end.end_line, end.end_column)


def first_word(node: ast.AST) -> str:
    """The keyword of a statement."""
    try:
        text = as_written(node)
    except ValueError:
        return type(node).__name__.lower()
    return text.split()[0].rstrip(":")


def statically(scope: Scope, node: ast.expr) -> bool | None:
    """The outcome of a test that is known at compile time, or None."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    return known_test(scope, node)


def task_statements(*tasks: Task | None) -> list[Statement]:
    """Statements that run these tasks."""
    return [TaskStatement(task) for task in tasks if task is not None]
