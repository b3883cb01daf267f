"""Kernel-level `if` and `match`: statements of one thread where they can be, nodes with regions where loops are inside."""

from __future__ import annotations

import ast

from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.desugar.match_statement import as_if, cases_of, chosen_case, is_one_of
from qgraph.frontend.inference.host_expressions import host_test
from qgraph.frontend.inference.indexing import placed
from qgraph.frontend.names.bindings import Value
from qgraph.frontend.names.definite_assignment import falls_through
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.array_joins import join_new_arrays
from qgraph.frontend.statements.array_swaps import arrays_that_move, put_back
from qgraph.frontend.statements.condition_tasks import decide, decide_test
from qgraph.frontend.statements.inlining import evaluated
from qgraph.frontend.statements.region import Region, header, merge, needs_region, statically
from qgraph.frontend.statements.task_builder import small_task
from qgraph.ir.program import Branch
from qgraph.ir.trees import assign, call_of
from qgraph.operations import intrinsics
from qgraph.source import Span, as_written


def if_statement(region: Region, scope: Scope, node: ast.If) -> None:
    """A branch that is known at compile time, one thread's work, or an IF node."""
    known = statically(scope, node.test)
    if known is not None:
        region.block(scope, node.body if known else node.orelse)
        return
    if not needs_region(region.unit, scope, [node]):
        region.run(scope).compound(scope, node)
        return
    blocks = [node.body, node.orelse] if node.orelse else [node.body]
    places = arrays_that_move(region, scope, [node.body, node.orelse], node)
    test = evaluated(region, scope, node.test)
    region.flush()
    unit, span = region.unit, header(scope, node)
    decided = unit.slot("branch")
    body = Body(unit)
    host = host_test(unit, scope, test)
    conditions: list[ast.expr | None] = [host, None if host is None else ast.UnaryOp(ast.Not(), host)]
    # What the host knows it decides: it checks sizes and shapes only where they are used.
    tested = body.expression(scope, test) if host is None else _by_host(unit, host, span)
    deciding = small_task(unit, "decide", span, body, [decide_test(body, decided, tested)], writes=[decided])
    scopes = [scope.inner({}) for _ in blocks]
    inners = [region.inner() for _ in blocks]
    for inner, inner_scope, block, condition in zip(inners, scopes, blocks, conditions, strict=False):
        with unit.where(condition):
            inner.block(inner_scope, block)
            put_back(inner, inner_scope, places, node)
    if node.orelse:
        join_new_arrays(unit, inners, scopes, conditions, node)
    regions = tuple(inner.finish() for inner in inners)
    region.add(Branch("if", span, decided, deciding, regions, f"if {as_written(node.test)}"))
    merge(scope, [*_leading_on(scopes, blocks), *([] if node.orelse else [scope.inner({})])], span)


def _leading_on(scopes: list[Scope], blocks: list[list[ast.stmt]]) -> list[Scope]:
    """Those of ``scopes`` whose blocks do not always raise: what names mean behind all of them is decided by these."""
    return [scope for scope, block in zip(scopes, blocks, strict=True) if falls_through(block)] or scopes


def _by_host(unit: ProgramBuilder, test: ast.expr, span: Span) -> ast.expr:
    chosen = placed(ast.IfExp(test, ast.Constant(1), ast.Constant(0)), test)
    assert isinstance(chosen, ast.expr)
    return unit.host_value(chosen, span, text=as_written(test))


def match_statement(region: Region, scope: Scope, node: ast.Match) -> None:
    """A case that is known at compile time, a SWITCH node, or one thread's `if`/`elif`."""
    taken = chosen_case(scope, node)
    if taken is not None:
        region.block(scope, taken)
        return
    cases = cases_of(scope, node)
    if not all(case.is_plain for case in cases) or not needs_region(region.unit, scope, [node]):
        callee, held = f"{ADDED}match_subject", f"{ADDED}subject{node.lineno}_{node.col_offset}"
        scope.names[callee] = Value(intrinsics.match_subject)
        keep = assign(held, call_of(callee, node.subject), node.subject)
        region.block(scope, [keep, *as_if(node, cases, held)])
        return
    complete = any(case.values is None for case in cases)
    places = arrays_that_move(region, scope, [*(case.body for case in cases), *([] if complete else [[]])], node)
    subject = evaluated(region, scope, node.subject)
    region.flush()
    unit, span = region.unit, header(scope, node)
    decided = unit.slot("branch")
    body = Body(unit)
    word = body.names.add(intrinsics.match_subject, "_match_subject")
    matched = body.expression(scope, subject)
    value = ast.copy_location(call_of(word, matched), node.subject)
    number: ast.expr = ast.Constant(len(cases))
    for position, case in reversed(list(enumerate(cases))):
        chosen = ast.Constant(position)
        number = chosen if case.values is None else ast.IfExp(is_one_of("_subject", case.values), chosen, number)
    keep = ast.copy_location(assign("_subject", value), node.subject)
    choose = decide(body, decided, as_written(number))
    deciding = small_task(unit, "decide", span, body, [keep, choose], writes=[decided])
    scopes = [scope.inner({}) for _ in cases]
    regions = []
    for inner_scope, case in zip(scopes, cases, strict=True):
        inner = region.inner()
        with unit.where(None):
            inner.block(inner_scope, case.body)
            put_back(inner, inner_scope, places, node)
            regions.append(inner.finish())
    region.add(Branch("switch", span, decided, deciding, tuple(regions), f"match {as_written(node.subject)}"))
    merge(scope, [*_leading_on(scopes, [case.body for case in cases]), *([] if complete else [scope.inner({})])], span)
