"""Arrays whose numbers are written out, `np.array(((a, b), (c, d)))`, as tuples or lists in each other."""

from __future__ import annotations

import ast

from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class WrittenArray:
    """The shape of such an array, and what is written for its elements, in order."""

    shape: tuple[int, ...]
    values: list[ast.expr]


def written_out(node: ast.expr) -> WrittenArray | None:
    """What ``node`` has written out; None where it is no tuple or list, or its rows have different lengths or none."""
    if not isinstance(node, (ast.Tuple, ast.List)) or not node.elts:
        return None
    rows = [written_out(each) if isinstance(each, (ast.Tuple, ast.List)) else WrittenArray((), [each]) for each in node.elts]
    found = [row for row in rows if row is not None]
    if len(found) < len(rows) or len({row.shape for row in found}) > 1:
        return None
    return WrittenArray((len(rows), *found[0].shape), [value for row in found for value in row.values])
