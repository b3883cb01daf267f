"""The statements of a body: calls of words in the places of stores and updates."""

from __future__ import annotations

import ast

from qgraph.lowering.instrumentation.body_expressions import Expressions, has_slices
from qgraph.lowering.instrumentation.kinds import Elements, Items, Number, Unknown
from qgraph.source import copied, nodes_of


class Body(Expressions):
    """The body of one task or function."""

    # How many names it has got.
    _temporaries = 0

    def rewritten(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """``statements``, which are all of it, with calls of words."""
        self.kinds.collect(statements)
        result = self._block(statements)
        for statement in result:
            ast.fix_missing_locations(statement)
        return result

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            visited = self.visit(statement)
            new = visited if isinstance(visited, list) else [visited]
            result += new
            result += self._reductions(statement)
        return result

    def _temporary(self, value: ast.expr, node: ast.AST) -> tuple[str, ast.stmt]:
        self._temporaries += 1
        name = f"_watched_{self._temporaries}"
        self.kinds.names[name] = self.kinds.of(value)
        return name, ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)

    # --- statements -----------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> ast.stmt:
        """A loop inside; over an array, it reads all of it, unless it may end before."""
        if isinstance(self.kinds.of(node.iter), Elements):
            leaves = any(isinstance(child, ast.Break | ast.Return) for child in nodes_of(node))
            written = node.iter
            node.iter = self._all_of(written, self.visit(copied(written)), written, reads=not leaves)
        else:
            node.iter = self.visit(node.iter)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt:
        """Both branches."""
        node.test = self.visit(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        """A loop inside."""
        node.test = self.visit(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """Stores: the value first, then the targets from the left."""
        stores = any(isinstance(child, ast.Subscript) for target in node.targets for child in _targets(target))
        if not stores:
            node.value = self.visit(node.value)
            return node
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            return self._store(node.targets[0], self._stored(node.value), node)
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        if len(node.targets) == 1 and isinstance(node.value, ast.Tuple):
            value = self._parts(node.targets[0], node.value, before)
        else:
            name, statement = self._temporary(node.value, node)
            assert isinstance(statement, ast.Assign)
            statement.value = self._stored(node.value)
            before.append(statement)
            value = ast.Name(name, ast.Load())
        for target in node.targets:
            after += self._unpacked(target, value, node)
        return [*before, *after]

    def _parts(self, target: ast.expr, value: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """The names of the parts of a tuple, which are computed first."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            parts = [self._parts(*pair, before) for pair in zip(target.elts, value.elts, strict=True)]
            return ast.copy_location(ast.Tuple(parts, ast.Load()), value)
        name, statement = self._temporary(value, value)
        assert isinstance(statement, ast.Assign)
        statement.value = self._stored(value)
        before.append(statement)
        return ast.copy_location(ast.Name(name, ast.Load()), value)

    def _unpacked(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(target, ast.Tuple):
            parts = (
                value.elts
                if isinstance(value, ast.Tuple)
                else [ast.Subscript(copied(value), ast.Constant(k), ast.Load()) for k in range(len(target.elts))]
            )
            pairs = zip(target.elts, parts, strict=True)
            return [each for part, source in pairs for each in self._unpacked(part, source, node)]
        if isinstance(target, ast.Subscript):
            stored = self._store(target, copied(value), node)
            return stored if isinstance(stored, list) else [stored]
        return [ast.copy_location(ast.Assign([target], copied(value)), node)]

    def _stored(self, value: ast.expr) -> ast.expr:
        """A value that is stored: of an array, the elements."""
        return self._operand(value)

    def _store(self, target: ast.Subscript, value: ast.expr, node: ast.stmt) -> ast.stmt | list[ast.stmt]:
        """``target = value``, where ``value`` is rewritten already."""
        base, part = self.kinds.of(target.value), self.kinds.of(target)
        written = copied(target)
        if isinstance(base, Elements) and isinstance(part, Elements):
            target.ctx = ast.Load()
            filled = self.call("fill", written, value, self._part(target))
            if filled is not None:
                return ast.copy_location(ast.Expr(filled), node)
        elif isinstance(base, Elements | Unknown) and not has_slices(target.slice):
            stored = self.call("store", written, value, self.visit(target.value), self.visit(target.slice))
            if stored is not None:
                return ast.copy_location(ast.Expr(stored), node)
        else:
            target.slice = self.visit(target.slice)
        target.ctx = ast.Store()
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        """An update: the place once, its value, the operand, the store."""
        target = node.target
        if isinstance(target, ast.Name) and isinstance(self.kinds.of(_loaded(target)), Elements):
            loaded = _loaded(target)
            value = ast.copy_location(ast.BinOp(loaded, node.op, node.value), node)
            filled = self.call("fill", copied(loaded), self.visit(value), copied(loaded))
            return node if filled is None else ast.copy_location(ast.Expr(filled), node)
        if not isinstance(target, ast.Subscript) or isinstance(self.kinds.of(target.value), Number | Items):
            node.value = self._operand(node.value)
            if isinstance(target, ast.Subscript):
                target.slice = self.visit(target.slice)
            return node
        before: list[ast.stmt] = []
        if not isinstance(target.value, ast.Name):
            name, statement = self._temporary(target.value, node)
            before += self._visited(statement)
            target.value = ast.copy_location(ast.Name(name, ast.Load()), target.value)
        if any(isinstance(child, ast.Call | ast.Subscript) for child in nodes_of(target.slice)) and not has_slices(
            target.slice
        ):
            name, statement = self._temporary(target.slice, node)
            before += self._visited(statement)
            target.slice = ast.copy_location(ast.Name(name, ast.Load()), target.slice)
        old = copied(target)
        old.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
        stored = self._store(target, self.visit(value), node)
        return [*before, *(stored if isinstance(stored, list) else [stored])]

    def _visited(self, statement: ast.stmt) -> list[ast.stmt]:
        assert isinstance(statement, ast.Assign)
        statement.value = self.visit(statement.value)
        return [statement]

    def _reductions(self, statement: ast.stmt) -> list[ast.stmt]:
        """Behind a statement that assigns what is reduced into elements: that the iteration has a part in it."""
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = [part for target in statement.targets for part in _targets(target)]
        elif isinstance(statement, ast.AugAssign):
            targets = [statement.target]
        found: list[ast.stmt] = []
        for target in targets:
            if isinstance(target, ast.Name) and target.id in self._reduced:
                element, number = self._reduced[target.id]
                place = ast.copy_location(copied(element), target)
                arguments = [
                    ast.fix_missing_locations(ast.copy_location(copied(each), target)) for each in (place.value, place.slice)
                ]
                call = self.call("reduce", place, *arguments, reduction=number)
                if call is not None:
                    found.append(ast.copy_location(ast.Expr(call), statement))
        return found


def _loaded(name: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(name.id, ast.Load()), name)


def _targets(target: ast.expr) -> list[ast.expr]:
    return [part for each in target.elts for part in _targets(each)] if isinstance(target, ast.Tuple) else [target]
