"""``x[i] = np.linalg.solve(a[i], b[i])`` in a parallel loop: a small system for each iteration.

The statement becomes a call of one of ``matrix_funcs.py``, with a work array of the iteration's own, and a status that is set
where a matrix is singular. The work arrays are one temporary whose last axes are those of the loop: accesses are coalesced.
Of an argument whose last axes are the matrix the size is known, since the kernel is compiled for it: a system that fits is then
solved in registers, and the threads of a warp solve larger ones together.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

import numpy as np

from qgraph.errors import LinAlgError
from qgraph.frontend import matrix_funcs
from qgraph.frontend.arrays.library_calls import TEST_FIRST, takes_all
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.host_expressions import host_expression
from qgraph.frontend.inference.indexing import placed, word
from qgraph.frontend.inference.iteration_space import LoopCall, WrittenAxis, loop_call, ranges_of
from qgraph.frontend.inference.ranks import known, rank
from qgraph.frontend.names.bindings import Binding, HostExpr, LeafRef, Value
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.program_builder import ADDED, SHARED
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import constant_of, known_test
from qgraph.frontend.statements import loops
from qgraph.frontend.statements.region import Region
from qgraph.frontend.statements.temporaries import one_element, temporary
from qgraph.ir.argument_types import ArrayType, Leaf, TailFound
from qgraph.ir.faults import Fault
from qgraph.ir.trees import at_place, call_of, load, names_in, parsed, stored
from qgraph.language import Func, atomic_exch, serial
from qgraph.operations.library_functions import LibraryFunction, library_function
from qgraph.operations.small_systems import MOST_IN_ROW, MOST_REGISTERS, WARP, solve_in_registers
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of, standing_for

_DTYPES = ("float32", "float64", "complex64", "complex128")
_WHOLE_PARTS = (
    "write parts with whole axes, such as a[i], a[i, :, :] or a[:, :, i], of an array that has a name outside of the loop"
)


def for_loop(region: Region, scope: Scope, node: ast.For) -> None:
    """A loop of the kernel, with such statements in its body or without."""
    found = loop_call(scope, node.iter) if any(_record(scope, child) for child in nodes_of(node)) else None
    if found is None or found.word is serial:
        loops.for_loop(region, scope, node)
        return
    rewriting = _Rewriting(region, scope, node, found)
    node = copy.copy(node)
    node.body = rewriting.block(copied(node.body))
    loops.for_loop(region, scope, node)
    for value, fine, fault in rewriting.checks:
        region.run(scope).check(scope, placed(fine, value), fault, (), value)


def _argument(bound: Binding | None, temporaries: Sequence[str]) -> tuple[str, tuple[int, ...]] | None:
    """Of an array that is an argument its path, and the extents of its last axes that are known; None of anything else."""
    match bound:
        case LeafRef(leaf=Leaf(type=ArrayType(tail=tail), path=path, name=name)) if path and name not in temporaries:
            return path, tail
    return None


def _record(scope: Scope, node: ast.AST) -> LibraryFunction | None:
    """The function of ``x[...] = np.linalg.solve(...)``; None where ``node`` is something else."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return None
    if len(node.targets) > 1 or not isinstance(node.targets[0], ast.Subscript):
        return None
    bound = quietly_static(scope, node.value.func)
    found = library_function(bound.value) if isinstance(bound, Value) else None
    return found if found is not None and found.module == "numpy.linalg" and found.name in _KNOWN else None


_KNOWN = ("solve", "inv", "cholesky")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an array with whole axes: how it is written, its indices, and its extents as expressions of the scope."""

    node: ast.expr
    base: ast.expr
    inside: tuple[ast.expr, ...]
    extents: tuple[ast.expr, ...]

    def element(self, *places: int) -> ast.Subscript:
        """The element at these places along the whole axes."""
        left = iter(places)
        indices = [ast.Constant(next(left)) if isinstance(each, ast.Slice) else copied(each) for each in self.inside]
        return ast.Subscript(copied(self.base), ast.Tuple(indices, ast.Load()), ast.Load())


class _Rewriting(ast.NodeTransformer):
    """Rewrites the statements of one loop; ``checks`` are conditions to test after it, each with its fault."""

    def __init__(self, region: Region, scope: Scope, loop: ast.For, found: LoopCall) -> None:
        self._region, self._scope = region, scope
        self._loop, self._found = loop, found
        self._own = names_assigned([loop.target, *loop.body])
        self.checks: list[tuple[ast.expr, ast.expr, Fault]] = []

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements that are there for ``statements``."""
        return self.visit(ast.Module(statements, [])).body  # type: ignore[no-any-return]

    def visit_If(self, node: ast.If) -> ast.stmt:
        known = known_test(self._scope, node.test)
        # A branch that is dropped may hold anything.
        if known is not False:
            node.body = self.block(node.body)
        if known is not True:
            node.orelse = self.block(node.orelse)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        record = _record(self._scope, node)
        if record is None:
            return node
        scope, value, target = self._scope, node.value, node.targets[0]
        assert isinstance(value, ast.Call)
        assert isinstance(target, ast.Subscript)
        if value.keywords or len(value.args) != record.arrays:
            raise scope.error(f"`{as_written(value)}` is not understood in a loop", value, "pass its arrays, and nothing else")
        parts = [self._part(each) for each in value.args]
        into = self._part(target)
        func, columns = self._chosen(value, record, parts, into)
        size = parts[0].extents[0]
        dtype = self._dtype(value, parts, into)
        rows, columns_known = self._size(parts, into, dtype)
        words = 1 + (dtype == "float64")
        if func is matrix_funcs.solve_vector and 0 < rows * rows * words <= MOST_REGISTERS:
            return self._in_registers(node, value, self._status(value, record), parts, into, rows)
        of_columns = func is matrix_funcs.solve_columns
        in_row = rows + (rows if func is matrix_funcs.invert else columns_known if of_columns else 1)
        same = str(element_type(scope, into.base)) == dtype
        if not same or rows > WARP or in_row * words > MOST_IN_ROW or (of_columns and not columns_known):
            rows = columns_known = 0
        sizes = [rows, columns_known] if of_columns else [rows]
        work = self._work(value, dtype, [size, ast.BinOp(copied(size), ast.Add(), copied(columns))])
        status = self._status(value, record)
        call = word(scope, func, target, *(each.node for each in parts), work, *map(ast.Constant, sizes))
        for child in nodes_of(call):
            if isinstance(child, (ast.Name, ast.Subscript, ast.Attribute, ast.Tuple)):
                child.ctx = ast.Load()
        return self._unless_failed(node, call, status, [])

    def _unless_failed(self, node: ast.stmt, failed: ast.expr, status: ast.Subscript, then: list[ast.stmt]) -> ast.stmt:
        # An atomic rather than a reduction: it is nearly never executed.
        noted = ast.Expr(word(self._scope, atomic_exch, status.value, ast.Constant(0), ast.Constant(1)))
        test = ast.Compare(failed, [ast.NotEq()], [ast.Constant(0)])
        made = at_place(ast.If(test, [noted], then), node)
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _size(self, parts: Sequence[_Part], into: _Part, dtype: str) -> tuple[int, int]:
        """How many rows the matrix, the first part, has, and columns the last one; 0 where that is not known.

        Raises:
            TailFound: it will be known.
        """
        every = [*parts, into]
        bound = [known(self._scope, each.base) for each in every]
        plain = all(isinstance(each, (ast.Name, ast.Constant)) for part in every for each in part.inside[: -len(part.extents)])
        last = all(isinstance(each, ast.Slice) for part in every for each in part.inside[-len(part.extents) :])
        real = not dtype.startswith("complex")
        if not plain or not last or not real or not all(isinstance(each, LeafRef) for each in bound):
            return 0, 0
        temporaries = [each.leaf.name for each in self._region.unit.temporaries]
        found = []
        for part, each in zip(parts, bound, strict=False):
            leaf = _argument(each, temporaries) if len(part.extents) == 2 else None
            if leaf is not None and len(leaf[1]) < 2:
                raise TailFound(leaf[0], 2)
            found.append((0, 0) if leaf is None else leaf[1][-2:])
        rows, columns = found[0]
        return (rows, found[-1][1]) if rows == columns else (0, 0)

    def _in_registers(
        self, node: ast.stmt, value: ast.expr, status: ast.Subscript, parts: Sequence[_Part], into: _Part, rows: int
    ) -> list[ast.stmt]:
        matrix, right = parts
        numbers = [matrix.element(i, j) for i in range(rows) for j in range(rows)] + [right.element(i) for i in range(rows)]
        call = at_place(word(self._scope, solve_in_registers, *numbers), value)
        names = [f"{ADDED}{ADDED}x{k}" for k in range(rows + 1)]
        made = ast.Assign([ast.Tuple([stored(each) for each in names], ast.Store())], call)
        stores: list[ast.stmt] = []
        for k in range(rows):
            place = into.element(k)
            place.ctx = ast.Store()
            stores.append(ast.Assign([place], load(names[k])))
        done = self._unless_failed(node, load(names[rows]), status, [at_place(each, node) for each in stores])
        return [ast.fix_missing_locations(ast.copy_location(at_place(made, node), node)), done]

    def _chosen(self, value: ast.expr, record: LibraryFunction, parts: Sequence[_Part], into: _Part) -> tuple[Func, ast.expr]:
        """The func, and how many columns it needs beside the matrix; calls are refused whose shapes do not fit."""
        matrix = parts[0]
        size = matrix.extents[0]
        self._expect(value, matrix, [size, size])
        if record.name == "inv":
            self._expect(value, into, [size, size])
            return matrix_funcs.invert, size
        if record.name == "cholesky":
            self._expect(value, into, [size, size])
            return matrix_funcs.factor_cholesky, ast.Constant(0)
        right = parts[1]
        columns = right.extents[1:2]
        self._expect(value, right, [size, *columns])
        self._expect(value, into, [size, *columns])
        return (matrix_funcs.solve_columns, columns[0]) if columns else (matrix_funcs.solve_vector, ast.Constant(1))

    # --- what it works on ------------------------------------------------------------------------------------------------

    def _part(self, node: ast.expr) -> _Part:
        base, parts = (node.value, node.slice) if isinstance(node, ast.Subscript) else (node, None)
        inside = [] if parts is None else parts.elts if isinstance(parts, ast.Tuple) else [parts]
        known = isinstance(base, (ast.Name, ast.Attribute)) and not names_in(base) & self._own.keys()
        axes = rank(self._scope, base) if known else 0
        dots = [at for at, each in enumerate(inside) if isinstance(each, ast.Constant) and each.value is ...]
        if dots:
            inside[dots[0] : dots[0] + 1] = [ast.Slice()] * (axes - len(inside) + 1)
        inside = [*inside, *[ast.Slice()] * (axes - len(inside))]
        none = any(isinstance(each, ast.Constant) and each.value is None for each in inside)
        if (
            not axes
            or len(inside) != axes
            or none
            or any(isinstance(each, ast.Slice) and not takes_all(each) for each in inside)
        ):
            found = f"`{as_written(node)}` is no matrix or vector that is known before the loop"
            raise self._scope.error(found, node, _WHOLE_PARTS)
        extents = [_extent(base, axis) for axis, each in enumerate(inside) if isinstance(each, ast.Slice)]
        return _Part(node, base, tuple(inside), tuple(at_place(each, node) for each in extents))

    def _dtype(self, value: ast.expr, parts: Sequence[_Part], into: _Part) -> str:
        found = [element_type(self._scope, each.base) for each in parts]
        names = {str(each) for each in found}
        if len(names) > 1 or not names <= {*_DTYPES}:
            raise self._scope.error(
                f"`{as_written(value)}` is of {' and '.join(sorted(names))}",
                value,
                "in a loop its arrays have one type, float32, float64, complex64 or complex128: convert them before",
            )
        (dtype,) = names
        if dtype.startswith("complex") and not str(element_type(self._scope, into.base)).startswith("complex"):
            found_ = f"`{as_written(value)}` is complex, and `{as_written(into.node)}` is not"
            raise self._scope.error(found_, into.node, "assign it to a complex array, and take the real parts in a loop")
        return dtype

    def _expect(self, value: ast.expr, part: _Part, wanted: Sequence[ast.expr]) -> None:
        """Let calls be refused where ``part`` has other extents than ``wanted``."""
        unit, scope = self._region.unit, self._scope
        if len(part.extents) != len(wanted):
            found = f"`{as_written(part.node)}` has {len(part.extents)} dimensions, and {len(wanted)} are wanted here"
            raise scope.error(found, part.node, _WHOLE_PARTS)
        for axis, pair in enumerate(zip(part.extents, wanted, strict=True)):
            extent, other = (host_expression(unit, scope, each) for each in pair)
            assert extent is not None
            assert other is not None
            if ast.unparse(extent) == ast.unparse(other):
                continue
            text, written = (as_written(each).replace("%", "%%") for each in (value, part.node))
            words = f"`{text}` does not fit: `{written}` has %d along axis {axis}, and %d are wanted"
            told = f"{words!r} % ({ast.unparse(extent)}, {ast.unparse(other)})"
            test = at_place(ast.Compare(extent, [ast.Eq()], [other]), value)
            unit.host_value(test, scope.span(value), "shape", text="matrices are square, and vectors as long", note=told)

    def _work(self, value: ast.expr, dtype: str, shape: Sequence[ast.expr]) -> ast.expr:
        """The work array of an iteration."""
        scope = self._scope
        again = names_assigned(self._loop.body)
        for name in names_assigned([self._loop.target]).keys() & again.keys():
            found = f"`{name}` is assigned again in a loop whose iterations have memory by that number"
            raise scope.error(found, again[name][0], "take another name")
        axes = [self._axis(axis) for axis in ranges_of(self._found.scope, self._found.call)]
        counts = [count for count, _, _ in axes]
        made = word(scope, np.empty, ast.Tuple([copied(each) for each in (*shape, *counts)], ast.Load()), ast.Constant(dtype))
        made = standing_for(at_place(made, value), value)
        leaf = temporary(self._region, scope, stored("of_matrices"), made)
        assert leaf is not None
        hidden = f"{ADDED}{leaf.leaf.name}"
        scope.names[hidden] = leaf
        places = [
            ast.BinOp(start, ast.Sub(), variable) if backwards else _from(variable, start)
            for variable, (_, start, backwards) in zip(self._variables(len(axes)), axes, strict=True)
        ]
        return ast.Subscript(load(hidden), ast.Tuple([ast.Slice(), ast.Slice(), *places], ast.Load()), ast.Load())

    def _variables(self, axes: int) -> Sequence[ast.expr]:
        target = self._loop.target
        if isinstance(target, ast.Tuple):
            return [copied(each) for each in target.elts]
        if axes == 1:
            return [copied(target)]
        return [ast.Subscript(copied(target), ast.Constant(axis), ast.Load()) for axis in range(axes)]

    def _axis(self, axis: WrittenAxis) -> tuple[ast.expr, ast.expr, bool]:
        """The extent of the work arrays along an axis of the loop, the start of that axis, and whether its step is negative."""
        unit, scope, step = self._region.unit, self._found.scope, constant_of(axis.step)
        start, stop = (host_expression(unit, scope, each) for each in (axis.start, axis.stop))
        if step is None or start is None or stop is None:
            raise scope.error(
                f"`{as_written(axis.node)}` is known on the device only, or its step is no constant",
                axis.node,
                "take bounds from shapes and arguments: the memory for the matrices is taken before the launch",
            )
        low, high = (stop, start) if step < 0 else (start, stop)
        count = call_of("max", ast.Constant(0), ast.BinOp(copied(high), ast.Sub(), copied(low)))
        written = parsed(axis.extent)
        return standing_for(self._known(count, axis.node), written), self._known(start, axis.start), step < 0

    def _known(self, known: ast.expr, node: ast.expr) -> ast.expr:
        """What the host knows, under a name that means the same in every scope."""
        if isinstance(known, ast.Constant):
            return known
        known = ast.fix_missing_locations(at_place(known, node))
        value = self._region.unit.host_value(known, self._found.scope.span(node), text=as_written(node))
        name = f"{SHARED}known{value.id}"
        self._scope.bind(name, HostExpr(known, value.id))
        return at_place(load(name), node)

    def _status(self, value: ast.Call, record: LibraryFunction) -> ast.Subscript:
        """A word that is 0 before the loop, and is tested after it."""
        scope = self._scope
        leaf = one_element(self._region, scope, "int32", value, f"status of {as_written(value)}")
        hidden = f"{ADDED}{leaf.name}"
        scope.names[hidden] = LeafRef(leaf)
        word_ = ast.Subscript(load(hidden), ast.Constant(0), ast.Load())
        clear = ast.Assign([ast.Subscript(word_.value, word_.slice, ast.Store())], ast.Constant(0))
        self._region.block(scope, [at_place(clear, value)])
        fault = Fault(LinAlgError, scope.span(value), f"`{as_written(value)}` met {record.fails}", TEST_FIRST)
        self.checks.append((value, ast.Compare(copied(word_), [ast.Eq()], [ast.Constant(0)]), fault))
        return word_


def _extent(base: ast.expr, axis: int) -> ast.expr:
    return ast.Subscript(ast.Attribute(copied(base), "shape", ast.Load()), ast.Constant(axis), ast.Load())


def _from(variable: ast.expr, start: ast.expr) -> ast.expr:
    return variable if constant_of(start) == 0 else ast.BinOp(variable, ast.Sub(), start)
