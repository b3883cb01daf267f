"""The specification: a kernel as CPython runs it, with each do-while starting afresh at its entry."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.name_resolution import is_do_while
from qgraph.frontend.bodies.value_resolution import at
from qgraph.frontend.names.scope import Globals, Scope
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.trees import assign, load
from qgraph.language import DoWhile, Func, as_reference
from qgraph.source import copied
from qgraph.stack import compiling


def run_reference(source: SourceFunction, arguments: dict[str, Any]) -> Any:
    """Run the function of ``source`` as plain Python; funcs that it calls are run the same way."""
    functions: dict[Func, Callable[..., Any]] = {}

    def run(func: Func) -> Callable[..., Any]:
        if func not in functions:
            functions[func] = _plain(func.source)
        return functions[func]

    with as_reference(run):
        bound = source.signature.bind_partial()
        bound.arguments.update((name, arguments[name]) for name in source.signature.parameters)
        return _plain(source)(*bound.args, **bound.kwargs)


@compiling
def _plain(source: SourceFunction) -> Callable[..., Any]:
    """The function itself, or where it has a do-while, a copy in which that is a plain loop."""
    scope = Scope(source, {}, Globals())
    rewriter = _DoWhiles(scope)
    tree = rewriter.visit(copied(source.tree))
    if not rewriter.found:
        return source.function
    tree.decorator_list = []
    tree.returns = None
    for argument in [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]:
        argument.annotation = None
    tree.args.defaults, tree.args.kw_defaults = [], [None] * len(tree.args.kwonlyargs)
    module = ast.fix_missing_locations(ast.Module([tree], []))
    namespace: dict[str, Any] = {**source.globals, **source.closure, _WORD: DoWhile}
    exec(compile(module, source.file, "exec"), namespace)  # the user's own function
    function: Callable[..., Any] = namespace[source.tree.name]
    function.__defaults__ = source.function.__defaults__
    function.__kwdefaults__ = source.function.__kwdefaults__
    return function


_WORD = "__qgraph_do_while"


class _DoWhiles(ast.NodeTransformer):
    """``while graph_do_while(f):`` becomes ``w = DoWhile(f)`` and ``while w.again():``."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.found = 0

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        try:
            found = is_do_while(self._scope, node.test)
        except KernelSyntaxError:  # a name of the function itself: it is no word of ours
            found = False
        if not found:
            return node
        assert isinstance(node.test, ast.Call)
        self.found += 1
        name = f"{_WORD}_{self.found}"
        entry = assign(name, ast.Call(load(_WORD), node.test.args, node.test.keywords))
        node.test = at(ast.Call(ast.Attribute(load(name), "again", ast.Load()), [], []), node.test)
        return [at(entry, node), node]
