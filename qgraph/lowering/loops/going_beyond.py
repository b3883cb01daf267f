"""What iterations beyond a loop's end may do: a block of sweeps goes on with elements that plain loops never have.

Their results are dropped, but they must end, and look at no element that there is not: so no index but those of arrays in
tiles, and no number of iterations inside of one, may depend on elements that the loops write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from qgraph.ir.functions import Function
from qgraph.lowering.codegen.cooperative_rows import stored_in
from qgraph.lowering.codegen.generated_names import walk
from qgraph.lowering.codegen.task_codegen import operations
from qgraph.lowering.loops.register_tiles import values_in
from qgraph.lowering.loops.stencils import NotTiled, Stage

_LEAVES = (ast.Break, ast.Continue, ast.Return)


def may_go_beyond(stage: Stage) -> None:
    """Refuse a loop that might not.

    Raises:
        NotTiled: it might read beside an array, or go on without end.
    """
    changing = _changing(stage)
    line = f"line {stage.task.span.line}"
    for node in walk(stage.task.body):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple()) if name in stage.arrays:
                pass
            case ast.Subscript(slice=index) if values_in(index) & changing:
                raise NotTiled(f"{line} computes indices from what changes from one iteration to the next")
            case ast.For(iter=decides) | (ast.While() as decides) if values_in(decides) & changing:
                raise NotTiled(f"{line} has a loop inside whose end depends on what changes from one iteration to the next")
            case ast.Call(func=ast.Name(id=name)) if isinstance(function := stage.task.names.get(name), Function):
                if values_in(node) & changing and not _is_plain(function):
                    raise NotTiled(
                        f"{line} hands to `{name}`, which has loops or indices, what changes from one iteration to the next"
                    )


def _changing(stage: Stage) -> set[str]:
    """The names of what depends on elements that the loops write."""
    found = {*stage.arrays}
    before = 0
    while before != len(found):
        before = len(found)
        for node in walk(stage.task.body):
            for value, targets in _given(node, stage):
                if values_in(value) & found:
                    found |= targets
    return found


def _given(node: ast.AST, stage: Stage) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """What a statement assigns, or decides by, and the names that depend on it."""
    match node:
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            yield node, stored_in([node])
        case ast.NamedExpr(target=target, value=value):
            yield value, frozenset({target.id})
        case ast.If() | ast.For() | ast.While():
            leaves = any(isinstance(each, _LEAVES) for each in walk([node]))
            decides = node.iter if isinstance(node, ast.For) else node.test
            yield decides, stored_in(stage.task.body if leaves else [node])


def _is_plain(function: Function) -> bool:
    """Whether a function ends, and looks at nothing but what it is given."""
    nodes = operations(function.tree.body, function.names)
    return not any(isinstance(each, ast.Subscript | ast.For | ast.While) for each in nodes)
