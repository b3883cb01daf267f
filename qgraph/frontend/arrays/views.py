"""Views of arrays by NumPy's basic indexing: the start, step and length of each dimension."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace

from qgraph.errors import ArgumentError
from qgraph.frontend.inference.host_expressions import host_expression
from qgraph.frontend.inference.indexing import (
    ONE,
    ZERO,
    bounds_of,
    is_natural,
    is_whole,
    join,
    number,
    placed,
    plus,
    times,
    word,
)
from qgraph.frontend.inference.ranks import ViewWord, is_ellipsis, is_new_axis, known, new_array, rank, view_word
from qgraph.frontend.names.bindings import Extent, HostExpr, LeafRef, SlotRef, Value, ViewAxis, ViewRef
from qgraph.frontend.names.host_integers import never_negative
from qgraph.frontend.names.program_builder import SHARED, ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.frontend.statements.inlining import bind_value
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Check
from qgraph.ir.trees import at_place, load, parsed, parts_of
from qgraph.operations import intrinsics
from qgraph.polyhedral.symbolic_integers import Poly, least
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of

# Slices of which only the device knows the bounds, as written, with the size that clips them: each is computed once.
Seen = dict[tuple[str, str], tuple[Extent, Extent]]


def view_of(region: Region, scope: Scope, node: ast.expr, *, keep: bool = False, seen: Seen | None = None) -> ViewRef:
    """The part of an array that ``node`` means.

    ``keep``: it gets a name, so that its indices are what they are now. What only the device knows of its bounds is computed
    here, by a statement of one thread. ``seen``: what other views of the same statement have computed.

    Raises:
        KernelSyntaxError: indices that are no integers and slices; or ``node`` makes a new array.
    """
    return _Viewer(region, scope, keep, {} if seen is None else seen).view(node)


def size_of(unit: ProgramBuilder, leaf: Leaf, axis: int) -> ast.expr:
    """The size of a dimension of an array, as the host computes it."""
    host_name = unit.host_name(leaf)
    extents = unit.extents.get(host_name)
    return parsed(f"{host_name}.shape[{axis}]") if extents is None else copied(extents[axis])


def computed(region: Region, scope: Scope, value: ast.expr, node: ast.AST) -> Extent:
    """An integer that one thread computes now, under a name that means the same everywhere."""
    name = f"{SHARED}at{len(region.unit.slots)}"
    region.run(scope).assign(scope, name, at_place(value, node))
    return _named(name, node, None)


def _named(name: str, node: ast.AST, host: ast.expr | None) -> Extent:
    return Extent(at_place(load(name), node), host)


class _Viewer:
    def __init__(self, region: Region, scope: Scope, keep: bool, seen: Seen) -> None:
        self._seen = seen
        self._region = region
        self._unit = region.unit
        self._scope = scope
        self._keep = keep

    def view(self, node: ast.expr) -> ViewRef:
        bound = known(self._scope, node)
        if isinstance(bound, ViewRef):
            return bound
        if isinstance(bound, LeafRef):
            leaf = bound.leaf
            assert isinstance(leaf.type, ArrayType)
            return ViewRef(leaf, {}, tuple(ViewAxis(axis, ZERO, ONE, self._size(leaf, axis)) for axis in range(leaf.type.ndim)))
        match node:
            case ast.Attribute(value=value, attr="T"):
                base = self.view(value)
                return replace(base, along=base.along[::-1])
            case ast.Subscript():
                return self._select(self.view(node.value), node)
            case ast.Call() if (word := view_word(self._scope, node)) is not None:
                return self._ordered(self.view(word.array), word, node)
            case ast.IfExp():
                raise self._scope.error(
                    f"`{as_written(node)}` is one array or another",
                    node,
                    "write an `if` statement, and use the array in its branches",
                )
        raise new_array(self._scope, node)

    def _size(self, leaf: Leaf, axis: int) -> Extent:
        name = f"{SHARED}{leaf.name}.shape[{axis}]"
        size = self._unit.sizes.get(name) or self._unit.sizes.setdefault(name, self._known_size(leaf, axis))
        self._scope.bind(name, size)
        return Extent(load(name), size.expr)

    def _known_size(self, leaf: Leaf, axis: int) -> HostExpr:
        size, unit = size_of(self._unit, leaf, axis), self._unit
        # Only the host can call what a library's function is asked with.
        asks = any(isinstance(child, ast.Name) and child.id in unit.host_names for child in nodes_of(size))
        span = next(each.span for each in unit.temporaries if each.leaf.name == unit.host_name(leaf)) if asks else None
        return HostExpr(size) if span is None else HostExpr(size, unit.host_value(size, span, text=ast.unparse(size)).id)

    def _ordered(self, base: ViewRef, word: ViewWord, node: ast.Call) -> ViewRef:
        new = ViewAxis(-1, ZERO, ONE, ONE)
        along = [new if axis < 0 else base.along[axis] for axis in word.order]
        backwards = ast.copy_location(ast.Slice(None, None, ast.Constant(-1)), node)
        turned = (self._sliced(each, backwards) if k in word.backwards else each for k, each in enumerate(along))
        return replace(base, along=tuple(turned))

    def _select(self, base: ViewRef, node: ast.Subscript) -> ViewRef:
        fixed, along = dict(base.fixed), []
        left = iter(base.along)
        for part in self._expanded(base, node):
            if is_new_axis(self._scope, part):
                along.append(ViewAxis(-1, ZERO, ONE, ONE))
            elif isinstance(part, ast.Slice):
                along.append(self._sliced(next(left), part))
            else:
                self._fix(fixed, next(left), part)
        return ViewRef(base.leaf, fixed, tuple(along))

    def _expanded(self, base: ViewRef, node: ast.Subscript) -> list[ast.expr]:
        """The indices with ``...`` and what is left out written as ``:``."""
        parts = parts_of(node)
        taken = sum(not is_new_axis(self._scope, part) and not is_ellipsis(part) for part in parts)
        if taken > len(base.along):
            raise self._scope.error(
                f"`{as_written(node)}` has {taken} indices, and `{as_written(node.value)}` {len(base.along)} dimensions",
                node,
                "give one index for each dimension",
            )
        rest: list[ast.expr] = [ast.copy_location(ast.Slice(), node) for _ in range(len(base.along) - taken)]
        for at, part in enumerate(parts):
            if is_ellipsis(part):
                return [*parts[:at], *rest, *parts[at + 1 :]]
        return [*parts, *rest]

    # --- one index ---

    def _fix(self, fixed: dict[int, ast.expr], base: ViewAxis, part: ast.expr) -> None:
        """One element of a dimension."""
        bound = known(self._scope, part)
        wrong = isinstance(part, (ast.Compare, ast.BoolOp)) or (isinstance(part, ast.Constant) and type(part.value) is not int)
        if wrong or rank(self._scope, part) or (isinstance(bound, Value) and not isinstance(bound.value, int)):
            raise self._scope.error(
                f"the index `{as_written(part)}` is no integer and no slice",
                part,
                "an index is an integer, a slice, None, or an array of integers or booleans",
            )
        if base.axis < 0:
            return
        index: ast.expr = part
        natural = is_natural(self._scope, part)
        if self._keep or self._reads_array(part):
            index = self._held(part).code
        if base.start.constant != 0 or base.step.constant != 1 or not is_whole(base):
            constant = constant_of(part)
            if constant is not None and not self._scope.checks_indices:
                inside = index if constant >= 0 else join(base.count.code, ast.Add(), ast.Constant(constant))
            else:
                wrap = intrinsics.view_index if self._scope.checks_indices else intrinsics.wrap_index
                inside = self._word(wrap, index, base.count.code)
            index = join(base.start.code, ast.Add(), join(inside, ast.Mult(), base.step.code))
        elif natural and constant_of(part) is None and not self._keep:
            index = self._word(intrinsics.assume_ge, index, ast.Constant(0))
        fixed[base.axis] = placed(index, part)

    def _reads_array(self, part: ast.expr) -> bool:
        return host_expression(self._unit, self._scope, part) is None and any(
            isinstance(child, (ast.Subscript, ast.Call)) for child in nodes_of(part)
        )

    def _held(self, part: ast.expr) -> Extent:
        """An integer of the user's as it is now, under a name that means the same everywhere."""
        constant = constant_of(part)
        if constant is not None:
            return number(constant)
        host = host_expression(self._unit, self._scope, part)
        if host is not None:
            return self._host(host, part)
        affine = self._affine(part)
        if affine is not None:
            # It is what it is as long as its turn lasts.
            return self._extent(affine, part)
        name = f"{SHARED}{len(self._unit.slots)}_{part.lineno}_{part.col_offset}"
        self._scope.bind(name, bind_value(self._region, self._scope, part))
        return _named(name, part, None)

    def _host(self, host: ast.expr, node: ast.expr, role: Check = "") -> Extent:
        """The result of a host expression, as which ``role`` it is checked; ``node`` is what the user wrote."""
        host = ast.fix_missing_locations(ast.copy_location(host, node))
        value = self._unit.host_value(host, self._scope.span(node), role, text=as_written(node))
        name = f"{SHARED}{value.id}"
        self._scope.bind(name, HostExpr(host, value.id))
        return _named(name, node, host)

    def _word(self, function: object, *arguments: ast.expr) -> ast.expr:
        return word(self._scope, function, *arguments)

    # --- one slice ---

    def _sliced(self, base: ViewAxis, part: ast.Slice) -> ViewAxis:
        lower, upper, step = bounds_of(self._scope, part)
        by = ONE if step is None else self._step(step)
        if lower is upper is None and by.constant == 1:
            return base
        if not hasattr(part, "lineno"):
            ast.copy_location(part, next(bound for bound in (lower, upper, step) if bound is not None))
        if lower is upper is None and by.constant == -1:
            start = plus(base.count, number(-1))
            return replace(base, start=plus(base.start, times(start, base.step)), step=times(base.step, by))
        hosts = [None if bound is None else host_expression(self._unit, self._scope, bound) for bound in (lower, upper)]
        on_host = all((bound is None) == (host is None) for bound, host in zip((lower, upper), hosts, strict=True))
        if on_host and base.count.host is not None and by.host is not None:
            start, count = self._on_host(base.count, (lower, upper), hosts, by, part)
        else:
            start, count = self._on_device(base.count, lower, upper, by, part)
        if base.axis < 0:
            return ViewAxis(-1, ZERO, ONE, count)
        return ViewAxis(base.axis, plus(base.start, times(start, base.step)), times(base.step, by), count)

    def _step(self, step: ast.expr) -> Extent:
        constant = constant_of(step)
        if constant == 0:
            raise ArgumentError("the step of a slice is 0", self._scope.span(step), hint="a slice needs a step other than 0")
        if constant is not None:
            return number(constant)
        host = host_expression(self._unit, self._scope, step)
        if host is None:
            raise self._scope.error(
                f"the step `{as_written(step)}` is known on the device only",
                step,
                "use a constant, a shape or a scalar argument; or write a loop over a range",
            )
        return self._host(host, step, "step")

    def _on_host(
        self, size: Extent, bounds: Sequence[ast.expr | None], hosts: Sequence[ast.expr | None], by: Extent, part: ast.Slice
    ) -> tuple[Extent, Extent]:
        """The start of a slice that the host knows, and its length. The start of an empty slice does not matter."""
        lower, upper = (None if bound is None else constant_of(bound) for bound in bounds)
        assert size.host is not None
        assert by.host is not None
        first, last, step = (ast.unparse(each) if each is not None else "None" for each in (*hosts, by.host))
        n = f"({ast.unparse(size.host)})"
        count = f"len(range(*slice({first}, {last}, {step}).indices({n})))"
        start = f"slice({first}, {last}, {step}).indices({n})[0]"
        forward = by.constant is not None and by.constant > 0
        from_start = forward and (bounds[0] is None or (lower is not None and lower >= 0))
        if from_start and by.constant == 1 and (bounds[1] is None or (upper is not None and upper < 0)):
            count = f"len(range({lower or 0}, {n}{'' if upper is None else f' - {-upper}'}))"
        length = self._host(parsed(count), part)
        if self._unit.knows_ones and by.constant == 1 and _takes_one(*bounds):
            found = f"`{as_written(part)}` takes one element, and the array has none there"
            test = parsed(f"{count} == 1")
            hint = "its length was repeated as one of 1 when the kernel was compiled: leave empty arrays out"
            self._unit.host_value(test, self._scope.span(part), "shape", text=hint, note=repr(found))
            length = ONE
        if from_start:
            return number(lower or 0), length
        if by.constant is not None and by.constant < 0 and bounds[0] is None:
            return plus(size, number(-1)), length
        return self._host(parsed(start), part), length

    def _on_device(
        self, size: Extent, lower: ast.expr | None, upper: ast.expr | None, by: Extent, part: ast.Slice
    ) -> tuple[Extent, Extent]:
        """The same where a bound is read on the device: clipped there, as ``slice.indices`` does."""
        step = by.constant
        if step is None:
            raise self._scope.error(
                f"`{as_written(part)}` has bounds that only the device knows, and a step that is no constant",
                part,
                "write a loop over a range",
            )
        within = self._within(size, lower, upper, part) if step == 1 else None
        if within is not None:
            return within
        left_out = _left_out(lower, upper) if step == 1 else None
        text = ast.unparse(part) if left_out is None else f"all but {left_out}"
        key = text, ast.unparse(size.code)
        if key in self._seen:
            start, length = self._seen[key]
            return start if left_out is None else number(_first(lower)), length
        if left_out is not None:
            # Of one length, however the elements that are left out stand at both ends.
            start, stop = number(left_out), size
            return number(_first(lower)), self._counted(key, start, stop, step, size, part)[1]
        least = number(0 if step > 0 else -1)
        most = size if step > 0 else plus(size, number(-1))
        start = self._clipped(lower, size, least, most, least if step > 0 else most)
        stop = self._clipped(upper, size, least, most, most if step > 0 else least)
        if upper is not None and stop.code is upper:
            stop = self._scalar(self._word(min, upper, most.code), upper)
        return self._counted(key, start, stop, step, size, part)

    def _within(
        self, size: Extent, lower: ast.expr | None, upper: ast.expr | None, part: ast.Slice
    ) -> tuple[Extent, Extent] | None:
        """The start and the length of `i + c:`, `1:i`, `2 * i:2 * i + k`, if the range of the serial loop of i clips nothing.

        Where both bounds move alike the host knows the length.
        """
        if size.host is None:
            return None
        integers = self._unit.host_integers
        first = self._affine(lower or ast.Constant(0))
        last = _Affine(None, 0, size.host) if upper is None else self._affine(upper)
        if first is None or last is None:
            return None
        limits, whole = [self._limits(each) for each in (first, last)], integers.of(size.host)
        if limits[0] is None or limits[1] is None:
            return None
        alike = first.variable is last.variable and first.factor == last.factor
        long = integers.of(last.rest) - integers.of(first.rest) if alike else limits[1][0] - limits[0][1]
        if not all(never_negative(least(each)) for each in (limits[0][0], long, whole - limits[1][1])):
            return None
        start = self._extent(first, part)
        if alike:
            none = constant_of(first.rest) == 0
            return start, self._host(last.rest if none else ast.BinOp(last.rest, ast.Sub(), first.rest), part)
        length = plus(self._extent(last, part), times(number(-1), start))
        return start, length if self._keep else replace(length, bounds=(ast.unparse(part), size))

    def _affine(self, node: ast.expr) -> _Affine | None:
        """What the host knows, or the variable of a serial loop, perhaps times a constant, plus or less what the host knows."""
        host = host_expression(self._unit, self._scope, node)
        if host is not None:
            return _Affine(None, 0, host)
        rest: ast.expr = ast.Constant(0)
        match node:
            case ast.BinOp(left, ast.Add(), right):
                node, rest = left, right
            case ast.BinOp(left, ast.Sub(), right):
                node, rest = left, ast.copy_location(ast.UnaryOp(ast.USub(), right), right)
        factor, name = _multiple(node)
        bound, host = self._scope.names.get(name), host_expression(self._unit, self._scope, rest)
        return _Affine(bound, factor, host) if isinstance(bound, SlotRef) and host is not None else None

    def _limits(self, number: _Affine) -> tuple[Poly, Poly] | None:
        """What ``number`` is at least and at most; None where only the device knows the range of its variable."""
        integers = self._unit.host_integers
        rest, variable = integers.of(number.rest), number.variable
        if variable is None:
            return rest, rest
        if variable.slot.name not in self._unit.serial_ranges:
            return None
        start, stop, step = self._unit.serial_ranges[variable.slot.name]
        by, factor, one = constant_of(step), Poly.const(number.factor), Poly.const(1)
        if not by:
            return None
        first, behind = integers.of(start), integers.of(stop)
        ends = (first, behind - one) if by > 0 else (behind + one, first)
        return ends[0] * factor + rest, ends[1] * factor + rest

    def _extent(self, affine: _Affine, node: ast.expr) -> Extent:
        constant = constant_of(affine.rest)
        rest = self._host(affine.rest, node) if constant is None else number(constant)
        if affine.variable is None:
            return rest
        # Where a view is known, the loop's own name may mean something else.
        name = f"{SHARED}turn{affine.variable.slot.index}"
        self._scope.bind(name, affine.variable)
        return plus(times(number(affine.factor), _named(name, node, None)), rest)

    def _counted(
        self, key: tuple[str, str], start: Extent, stop: Extent, step: int, size: Extent, part: ast.Slice
    ) -> tuple[Extent, Extent]:
        count = self._word(intrinsics.trip_count, start.code, stop.code, ast.Constant(step))
        length = self._scalar(count, part)
        found = start, length if self._keep else replace(length, bounds=(key[0], size))
        self._seen[key] = found
        return found

    def _clipped(self, bound: ast.expr | None, size: Extent, least: Extent, most: Extent, missing: Extent) -> Extent:
        if bound is None:
            return missing
        if least.constant == 0 and not self._keep and is_natural(self._scope, bound):
            # Beyond the end the slice is empty, and then its start does not matter: the race analysis sees it as written.
            return Extent(bound, None)
        held = self._scalar(self._word(operator.index, bound), bound).code
        wrapped = self._word(intrinsics.wrap_index, held, size.code)
        clipped = self._word(min, self._word(max, wrapped, least.code), most.code)
        return self._scalar(clipped, bound)

    def _scalar(self, value: ast.expr, node: ast.AST) -> Extent:
        return computed(self._region, self._scope, value, node)


@dataclass(frozen=True, slots=True)
class _Affine:
    """``factor`` times the variable of a serial loop, None for none, and what the host knows."""

    variable: SlotRef | None
    factor: int
    rest: ast.expr


def _multiple(node: ast.expr) -> tuple[int, str]:
    """``c`` and ``i`` of ``c * i``, ``i * c`` and ``i``; no name for anything else."""
    match node:
        case ast.Name(id=name):
            return 1, name
        case ast.BinOp(ast.Constant(int(each)), ast.Mult(), ast.Name(id=name)) if each > 0:
            return each, name
        case ast.BinOp(ast.Name(id=name), ast.Mult(), ast.Constant(int(each))) if each > 0:
            return each, name
    return 1, ""


def _takes_one(lower: ast.expr | None, upper: ast.expr | None) -> bool:
    """Whether a slice with constant bounds, as `0:1` and `-1:`, takes one element of an array that has it."""
    first = 0 if lower is None else constant_of(lower)
    last = None if upper is None else constant_of(upper)
    if first is None or (upper is not None and last is None):
        return False
    return first == -1 if last is None else last == first + 1 != 0


def _first(lower: ast.expr | None) -> int:
    return (0 if lower is None else constant_of(lower)) or 0


def _left_out(lower: ast.expr | None, upper: ast.expr | None) -> int | None:
    """How many elements `c:-d` leaves out of a dimension that is long enough; None where the bounds are of another kind."""
    first = 0 if lower is None else constant_of(lower)
    last = None if upper is None else constant_of(upper)
    if first is None or first < 0 or (upper is not None and (last is None or last >= 0)):
        return None
    return first - (last or 0)
