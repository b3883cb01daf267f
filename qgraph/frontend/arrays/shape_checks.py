"""The lengths of an array statement: told to be the same, checked by the host before a launch, or by the device in it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qgraph.errors import ArgumentError
from qgraph.frontend.arrays.views import computed
from qgraph.frontend.inference.indexing import ONE, ZERO, placed
from qgraph.frontend.names.bindings import Extent
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import LengthOfOne
from qgraph.ir.faults import Fault
from qgraph.ir.program import Check
from qgraph.source import as_written, copied

_HINT = "the arrays of a statement have one shape; a length of 1 is repeated if it is an array's, or written: x[:, None]"
_DEVICE_HINT = "the arrays of a statement have one shape, or lengths of 1; this statement did nothing"
_NOTHING_HINT = "NumPy refuses this too"


class Lengths:
    """The lengths of the loop that a statement becomes, one an axis. Other lengths are compared with them.

    What only the device can compare, a statement of one thread compares before the loop: where it fails, the loop has no
    iterations, and whoever waits is told. A length of 1 that only the device knows is repeated, as NumPy does it.

    Args:
        nums: the lengths.
        texts: for each, the source of the operand that it is of.
        exact: a length of 1 is not repeated, as in ``np.dot``.
    """

    def __init__(
        self, region: Region, scope: Scope, nums: Sequence[Extent], texts: Sequence[str], *, exact: bool = False
    ) -> None:
        self._region = region
        self._scope = scope
        self._nums = list(nums)
        self._texts = list(texts)
        self._exact = exact
        # By axis and length, what an index is multiplied with: 0 where a length of 1 is repeated.
        self._factors: dict[tuple[int, str], Extent] = {}
        self._tests: list[ast.expr] = []
        self._guarded: Extent | None = None

    def __len__(self) -> int:
        return len(self._nums)

    @property
    def last_text(self) -> str:
        """The source of the operand that has the last axis."""
        return self._texts[-1]

    def index(self, axis: int, length: Extent, variable: ast.expr, node: ast.expr) -> ast.expr:
        """The index along ``axis`` into the operand ``node``, of this ``length``, for the loop's ``variable``."""
        wanted = self._nums[axis]
        if length.is_one and not wanted.is_one and not self._exact:
            return ast.Constant(0)
        if _surely_same(wanted, length):
            return variable
        if wanted.host is not None and length.host is not None:
            self._compared_by_host(axis, length.host, wanted.host, node)
            return variable
        key = axis, ast.unparse(length.code)
        if key not in self._factors:
            self._factors[key] = self._compared_by_device(axis, length, node)
        factor = self._factors[key]
        return variable if factor.constant == 1 else ast.BinOp(variable, ast.Mult(), copied(factor.code))

    def join(self, axis: int, lengths: Sequence[tuple[Extent, str]], node: ast.expr) -> None:
        """Let ``axis`` be of the length that NumPy gives the operands together, which are ``lengths`` long."""
        several = [(length, text) for length, text in lengths if not length.is_one or self._exact]
        if not several:
            return
        (first, self._texts[axis]), rest = several[0], several[1:]
        self._nums[axis] = first
        on_host = first.host is not None
        if self._exact or all(_surely_same(first, length) or (on_host and length.host is not None) for length, _ in rest):
            return
        joined = first
        for length, _ in rest:
            longer = ast.IfExp(compare(joined, ast.Eq(), ONE), copied(length.code), copied(joined.code))
            joined = computed(self._region, self._scope, longer, node)
        self._nums[axis] = joined
        if len(rest) > 1:
            self._texts[axis] = as_written(node)

    def settled(self, node: ast.AST) -> list[Extent]:
        """The lengths of the loop, once all operands were compared; none where the device finds that one does not fit."""
        if not self._tests:
            return self._nums
        if self._guarded is None:
            length = ast.IfExp(copied(every(self._tests)), copied(self._nums[0].code), ast.Constant(0))
            self._guarded = computed(self._region, self._scope, length, node)
        return [self._guarded, *self._nums[1:]]

    def need_elements(self, node: ast.expr, axes: Sequence[int], *, by_device: bool) -> list[Extent]:
        """Check that there are elements along ``axes``, as for a maximum; gives the lengths that the device has to look at.

        ``by_device``: among them those that the host knows, where only the device knows whether the statement runs.
        """
        skipped = by_device and self._region.unit.may_be_skipped
        found = f"`{as_written(node)}` is of an array without elements"
        unknown = []
        lengths = self.settled(node)
        for length in (lengths[axis] for axis in axes):
            if length.host is None or (skipped and length.constant is None):
                unknown.append(length)
            elif length.constant is None:
                self._check_on_host(length.host, node, repr(found), _NOTHING_HINT)
        if unknown:
            self._check_on_device(every([compare(each, ast.Gt(), ZERO) for each in unknown]), found, _NOTHING_HINT, (), node)
        return unknown

    def _compared_by_host(self, axis: int, length: ast.expr, wanted: ast.expr, node: ast.expr) -> None:
        first, second = ast.unparse(length), ast.unparse(wanted)
        if first == second:
            return
        note = f"{self._difference(axis, node)!r} % ({first}, {second})"
        found, other = self._seen(length), self._seen(wanted)
        known = found is not None and other is not None and not self._region.unit.knows_ones
        if known and not self._exact and found != other and 1 in (found, other):
            # The call would find it out when all is built.
            raise LengthOfOne(self._difference(axis, node) % (found, other), self._scope.span(node), hint=_HINT)
        test = ast.Compare(length, [ast.Eq()], [wanted])
        self._check_on_host(test, node, note, _HINT, "shape" if self._exact else "length")

    def _seen(self, length: ast.expr) -> int | None:
        """The number that an extent of an argument is in the call that the kernel is built for; None for other numbers."""
        match length:
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(int(axis))):
                leaf = self._region.unit.leaves.get(name)
                return leaf.extents[axis] if leaf is not None and leaf.extents else None
        return None

    def _compared_by_device(self, axis: int, length: Extent, node: ast.expr) -> Extent:
        wanted = self._nums[axis]
        same = compare(length, ast.Eq(), wanted)
        test = same if self._exact else ast.BoolOp(ast.Or(), [same, compare(length, ast.Eq(), ONE)])
        self._tests.append(test)
        self._check_on_device(test, self._difference(axis, node), _DEVICE_HINT, (length, wanted), node)
        if self._exact:
            return ONE
        factor = ast.IfExp(compare(length, ast.Eq(), ONE), ast.Constant(0), ast.Constant(1))
        return computed(self._region, self._scope, factor, node)

    def _difference(self, axis: int, node: ast.expr) -> str:
        """The format of the message that two lengths differ."""
        along = f" along axis {axis}" if len(self._nums) > 1 else ""
        text, other = (source.replace("%", "%%") for source in (as_written(node), self._texts[axis]))
        return f"`{text}` has length %d{along}, and `{other}` has length %d"

    def _check_on_host(self, test: ast.expr, node: ast.expr, note: str, hint: str, check: Check = "shape") -> None:
        self._region.unit.host_value(test, self._scope.span(node), check, text=hint, note=note)

    def _check_on_device(self, test: ast.expr, found: str, hint: str, details: Sequence[Extent], node: ast.expr) -> None:
        fault = Fault(ArgumentError, self._scope.span(node), found, hint, len(details))
        codes = [placed(detail.code, node) for detail in details]
        self._region.run(self._scope).check(self._scope, placed(test, node), fault, codes, node)


def _surely_same(first: Extent, second: Extent) -> bool:
    if ast.unparse(first.code) == ast.unparse(second.code):
        return True
    if first.bounds is None or second.bounds is None or first.bounds[0] != second.bounds[0]:
        return False
    # The same bounds, clipped to sizes that are the same.
    sizes = [None if size.host is None else ast.unparse(size.host) for size in (first.bounds[1], second.bounds[1])]
    return sizes[0] is not None and sizes[0] == sizes[1]


def compare(left: Extent, op: ast.cmpop, right: Extent) -> ast.expr:
    """A comparison of two lengths."""
    return ast.Compare(copied(left.code), [op], [copied(right.code)])


def every(tests: list[ast.expr]) -> ast.expr:
    """The conjunction of tests."""
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
