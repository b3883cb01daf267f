"""Store sinking: the loads of a parallel loop's body come before its stores, so that a thread waits for memory once.

An array that a kernel writes is one that anything else may point at, as far as NVVM knows: no load of it passes a store. That
two arrays are different memory is known here, so here the stores go behind the loads: the value is computed where it was,
under a name of its own, and stored at the end of a run of plain statements.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence, Set
from dataclasses import field, replace

from qgraph.ir.program import Program, Task
from qgraph.ir.trees import names_in
from qgraph.lowering.codegen.generated_names import Statements
from qgraph.lowering.codegen.purity import PLACES, Impure, PurityAnalysis, Reads, names_stored, purity_analysis
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

# The most values that wait in registers.
_MOST = 16


def with_stores_last(program: Program, task: Task, changing: Iterable[str]) -> Task:
    """``task``, a parallel loop, with the stores of its body moved behind loads of what is in ``changing``.

    ``changing``: the arrays that somebody writes while the kernel runs. Loads of others need no help.
    """
    pairs = {(one, other) for pair in program.aliases for one, other in (pair, pair[::-1])}
    found = frozenset(changing).union(*pairs)
    rewriter = _Rewriter(purity_analysis(program, task), pairs, found)
    body = rewriter.block(task.body)
    return replace(task, body=tuple(body)) if rewriter.count else task


@dataclass(frozen=True, slots=True)
class _Store:
    """An element that is stored: the statement, where, in which leaves that may be, what its value is and what that reads."""

    statement: ast.stmt
    target: ast.Subscript
    leaves: Reads
    value: ast.expr
    reads: Reads


@dataclass(slots=True)
class _Run:
    """Plain statements in a row: as they were, and as they become with the stores that wait for the end.

    ``helped``: something is loaded while a store waits.
    """

    before: list[ast.stmt] = field(default_factory=list)
    after: list[ast.stmt] = field(default_factory=list)
    waiting: list[_Store] = field(default_factory=list)
    stores: list[ast.stmt] = field(default_factory=list)
    helped: bool = False


class _Rewriter:
    """Rewrites the blocks of one body; ``count`` is how many stores it has moved."""

    def __init__(self, looking: PurityAnalysis, pairs: Set[tuple[str, str]], changing: Reads) -> None:
        self._looking = looking
        self._pairs = pairs
        self._changing = changing
        self.count = 0

    def block(self, statements: Statements) -> list[ast.stmt]:
        """The statements of one block."""
        result: list[ast.stmt] = []
        run = _Run()
        for statement in statements:
            try:
                touched = self._touched(statement)
            except Impure:
                result += self._ended(run)
                result.append(self._nested(statement))
                run = _Run()
                continue
            store = self._store(statement)
            reads = touched if store is None else store.reads
            if len(run.waiting) == _MOST or self._meets(run.waiting, reads, names_stored(statement)):
                result += self._ended(run)
                run = _Run()
            run.helped |= bool(run.waiting and reads & self._changing)
            run.before.append(statement)
            if store is None:
                run.after.append(statement)
            else:
                self._wait(run, store)
        return result + self._ended(run)

    def _touched(self, statement: ast.stmt) -> Reads:
        """The leaves that a statement reads or writes; ``Impure`` where it may do more than assign numbers."""
        match statement:
            case ast.Pass():
                return frozenset()
            case ast.Expr(value=value):
                return self._looking.reads(value)
            case ast.Assign(targets=targets, value=value):
                return self._looking.all_of([*targets, value])
            case ast.AugAssign(target=target, value=value):
                return self._looking.all_of([target, value])
        raise Impure

    def _store(self, statement: ast.stmt) -> _Store | None:
        """A statement that touches elements alone as a store that may wait; None where it is none, or its place may change."""
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name)) as target], value=value):
                pass
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)) as target, op=operator, value=added):
                load = copied(target)
                load.ctx = ast.Load()
                # Typed as the assignment was: an operator and its assignment have one rule.
                value = ast.copy_location(ast.BinOp(load, operator, added), statement)
            case _:
                return None
        steady = all(isinstance(node, PLACES) for node in nodes_of(target.slice))
        # In a branch that is never taken a name may be a number: what Numba prunes is still here.
        if not steady or name not in self._looking.arrays or names_in(target) & names_stored(statement):
            return None
        return _Store(statement, target, self._looking.arrays[name].leaves, value, self._looking.reads(value))

    def _meets(self, waiting: Sequence[_Store], touched: Reads, names: frozenset[str]) -> bool:
        """Whether what touches these leaves, and assigns these names, must come behind a store that waits."""
        return any(
            touched & (store.leaves | {other for one, other in self._pairs if one in store.leaves})
            or names & names_in(store.target)
            for store in waiting
        )

    def _wait(self, run: _Run, store: _Store) -> None:
        """Compute what is stored, and let the store itself wait for the end of the run."""
        name = f"_stored{self.count + len(run.waiting)}"
        place = ast.copy_location(ast.Name(name, ast.Store()), store.target)
        value = ast.copy_location(ast.Name(name, ast.Load()), store.value)
        run.after.append(ast.copy_location(ast.Assign([place], store.value), store.statement))
        run.stores.append(ast.copy_location(ast.Assign([store.target], value), store.statement))
        run.waiting.append(store)

    def _ended(self, run: _Run) -> list[ast.stmt]:
        """What becomes of a run: nothing new where no load would come earlier."""
        if not run.helped:
            return run.before
        self.count += len(run.waiting)
        return [*run.after, *run.stores]

    def _nested(self, statement: ast.stmt) -> ast.stmt:
        """A statement between two runs, with the blocks inside it rewritten."""
        if not isinstance(statement, ast.If | ast.For | ast.While):
            return statement
        new = copy.copy(statement)
        new.body = self.block(new.body)
        new.orelse = self.block(new.orelse)
        return new
