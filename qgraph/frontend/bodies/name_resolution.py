"""Bodies with every name resolved: arguments become leaf names, everything else a key of ``Names``.

The result is still the user's Python, line by line; Numba compiles it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qgraph import language
from qgraph.errors import KernelSyntaxError, error_raised
from qgraph.frontend.bodies.array_expressions import array_of, looks_at_arrays
from qgraph.frontend.bodies.local_arrays import is_local, rebound
from qgraph.frontend.bodies.progress import ProgressResolution
from qgraph.frontend.bodies.row_elements import with_stars
from qgraph.frontend.bodies.rows import RowFunction
from qgraph.frontend.bodies.tuples_of_vectors import Kind
from qgraph.frontend.bodies.value_resolution import Divisors, ResolvedNames, at, binary, product
from qgraph.frontend.bodies.vectors import VectorResolution
from qgraph.frontend.checks.negative_power import is_power
from qgraph.frontend.checks.rounding import rounding_word
from qgraph.frontend.desugar.augmented_assignment import as_assignment
from qgraph.frontend.desugar.break_continue import lower_loop, unless
from qgraph.frontend.desugar.match_statement import as_if, cases_of, chosen_case
from qgraph.frontend.desugar.raised_errors import as_branch, raised
from qgraph.frontend.inference.indexing import element, placed
from qgraph.frontend.inference.iteration_space import WrittenAxis, loop_call, ranges_of, relocate, zero_step_fault
from qgraph.frontend.inference.ranks import known_object, may_be_tuple
from qgraph.frontend.inference.stores import refuse_changes
from qgraph.frontend.names.bindings import Binding, BoundFunc, Private, ScalarRef, StructRef, Value, ViewRef
from qgraph.frontend.names.call_binding import (
    bind_call,
    identity,
    is_fixed,
    refuse_recursion,
    refuse_without_value,
    without_docstring,
)
from qgraph.frontend.names.definite_assignment import always_fails, names_assigned
from qgraph.frontend.names.foreign_calls import by_position, give_defaults, one_limit, refuse_callee, refused_star
from qgraph.frontend.names.function_frame import ADDED, occurrences
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import bind_items, constant_of, is_static_call, known_test, static_items, static_value
from qgraph.ir.faults import FAULTS, KEY, UNSPECIFIED, Fault
from qgraph.ir.functions import Function, function_tree
from qgraph.ir.program import SLOTS
from qgraph.ir.trees import assign, call_of, load, parts_of, stored
from qgraph.language import Func
from qgraph.operations import intrinsics
from qgraph.source import Span, as_written, copied


class Body(ResolvedNames):
    """One body under construction."""

    def statements(self, scope: Scope, statements: Iterable[ast.stmt], locals_: Collection[str]) -> list[ast.stmt]:
        """``statements`` resolved in ``scope``, with ``locals_`` and every name they assign private to the body.

        Kernel scalars that they assign are not: ``assigned`` collects these.
        """
        own = list(statements)
        names = [name for name in names_assigned(own) if not isinstance(scope.names.get(name), ScalarRef)]
        private = {name: Private(self.unit.local_name(name)) for name in names}
        private |= {name: _given(scope.names.get(name), self.unit.local_name(name)) for name in locals_}
        self.names.reserve(bound.name for bound in private.values())
        # Positions all at once when the whole is done, and not at each level of what is inside it.
        rewriter = _Rewriter(self, scope.inner(private))
        rewriter.rebound = rebound(scope, [*(stored(name) for name in locals_), *own])
        result = list(map(ast.fix_missing_locations, rewriter.block(copied(own))))
        self.returned = rewriter.returned
        return result

    def expression(self, scope: Scope, node: ast.expr, *, divisors: Divisors | None = None) -> ast.expr:
        """One expression resolved in ``scope``."""
        return _Rewriter(self, scope, divisors).expression(copied(node))


class _Rewriter(ProgressResolution, VectorResolution):
    """Rewrites one body in one scope. A visitor returns the node in its place, with the user's position."""

    def _row_call(self, made: RowFunction, node: ast.AST) -> ast.expr:
        arguments = [self.visit(copied(argument)) for argument in made.arguments.values()]
        inner = Body(self._body.unit, one_thread=self._body.one_thread)
        name, extra = self._function(made.name, inner, made.scope, tuple(made.arguments), made.statements, node)
        return at(call_of(name, *arguments, *map(load, extra)), node)

    # --- assignments ---------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        checks, node = self.with_parts(node)
        stored = self.vector_assignment(node)
        if stored is not None:
            return stored
        found = self.vectors_in(node)
        result = self._assigned(node)
        self._scope.names.update(found)
        return [*self.block(checks), *(result if isinstance(result, list) else [result])] if checks else result

    def _assigned(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        made = (self.made_array(node) if self.shape(node.value) is None else None) or self.array_store(node, node.targets)
        if made is not None:
            return made
        scalars = [target for target in node.targets if self._stores_scalar(target)]
        if not scalars:
            self.generic_visit(node)
            return node
        value: ast.expr = self.visit(node.value)
        if len(node.targets) == 1 and _is_alike(node.targets[0], value):
            node.value = self._cast_parts(node.targets[0], value)
            node.targets = [self.visit(node.targets[0])]
            return node
        # `a = b = e`, or a tuple from a call: the value once, then a conversion for each name.
        whole = f"_v{node.lineno}_{node.col_offset}"
        result = [assign(whole, value, node)]
        for each in node.targets:
            for part, source in _unpacked(each, load(whole)):
                cast = self._cast(part, relocate(source, node))
                result.append(at(ast.Assign([self.visit(part)], cast), node))
        return result

    def _cast_parts(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """``value`` with the conversion of each name of ``target``, which has the same shape."""
        if not isinstance(target, ast.Tuple):
            return self._cast(target, value)
        assert isinstance(value, ast.Tuple)
        value.elts = list(map(self._cast_parts, target.elts, value.elts))
        return value

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        made = self.vector_assignment(node) or self.array_store(node, [node.target])
        if made is not None:
            return made
        if not self._stores_scalar(node.target) and not isinstance(node.op, ast.Pow):
            fault = self._fault(node.op, node.target, node.value, node)
            self.generic_visit(node)
            node.value = self.checked(node.op, node.value, fault)
            return node
        refuse_changes(self._scope, node.target)
        return self.visit_Assign(as_assignment(node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | list[ast.stmt] | None:
        if node.value is None:
            return None
        return self.visit_Assign(at(ast.Assign([node.target], node.value), node))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = self._cast(node.target, self.visit(node.value))
        node.target = self.visit(node.target)
        return node

    def _stores_scalar(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Tuple):
            return any(self._stores_scalar(element) for element in target.elts)
        return isinstance(target, ast.Name) and self._is_scalar(target.id)

    def _is_scalar(self, name: str) -> bool:
        return isinstance(self._scope.names.get(name), ScalarRef)

    def _cast(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """``value`` in the type of the kernel scalar ``target``; itself for any other target."""
        bound = self._scope.names.get(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(bound, ScalarRef):
            return value
        return at(self._call(self._body.unit.cast(bound.slot), f"_as{bound.slot.name}", value), value)

    # --- statements ----------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        items = static_items(self._scope, node.iter)
        if items is not None:
            return self._unrolled(node, items)
        found = loop_call(self._scope, node.iter)
        if found is None:
            if isinstance(node.iter, ast.Call) and known_object(self._scope, node.iter.func) in (
                language.serial,
                language.parallel,
            ):
                node.iter = node.iter.args[0]
            self.note_items(node.target, node.iter)
            node.iter = self.visit(node.iter)
        else:
            reader = _Rewriter(self._body, found.scope, "checked")
            axes = ranges_of(found.scope, found.call)
            if len(axes) > 1:
                return self._product_loop(node, axes, reader)
            node.iter = reader._range(axes[0], node.iter)
        counted = filter(self._is_scalar, names_assigned([node.target]))
        again = [assign(name, load(name), node) for name in counted]
        node.target = self.visit(node.target)
        node.body = self.block([*again, *node.body])
        node.orelse = self.block(node.orelse)
        return node

    def _unrolled(self, node: ast.For, items: Sequence[Binding]) -> list[ast.stmt]:
        """The body once for each item; a `break` is a flag."""
        lowered = lower_loop(node)
        for name in names_assigned(lowered.statements):
            if name.startswith(ADDED):
                self._scope.names[name] = Private(name.replace(ADDED, "_"))
        flags = frozenset() if lowered.broke is None else frozenset({lowered.broke})
        start = [assign(flag, ast.Constant(False), node) for flag in flags]
        result = self.block(start)
        for item in items:
            bind_items(self._scope, node.target, item)
            body = copied(lowered.statements)
            result += self.block([unless(flags, body, node)] if flags else body)
        if node.orelse:
            result += self.block([unless(flags, node.orelse, node)] if flags else node.orelse)
        return result or [at(ast.Pass(), node)]

    def _range(self, axis: WrittenAxis, node: ast.expr) -> ast.expr:
        arguments = [self.visit(copied(part)) for part in (axis.start, axis.stop, axis.step)]
        if constant_of(axis.step) is None:
            noting = self._noting(zero_step_fault(self._scope.span(axis.step)))
            arguments[2] = at(self._call(intrinsics.step, "_step", arguments[2], *noting), arguments[2])
        return at(self._call(range, "_range", *arguments), node)

    def _product_loop(self, node: ast.For, axes: tuple[WrittenAxis, ...], reader: _Rewriter) -> list[ast.stmt]:
        """``for i, j in ndrange(...)`` inside a body: one loop over the product, so that break and continue mean the same."""
        self.note_items(node.target, node.iter)
        number = len(self._body.names.values) + len(self._body.scalars)
        stem = f"_p{node.lineno}_{node.col_offset}_{number}"
        largest = self._body.names.add(max, "_max")
        lows, counts = ([f"{stem}_{part}{position}" for position in range(len(axes))] for part in ("lo", "n"))
        before: list[ast.stmt] = []
        for axis, low, count in zip(axes, lows, counts, strict=True):
            start, stop = reader.visit(copied(axis.start)), reader.visit(copied(axis.stop))
            before.append(assign(low, start, node))
            before.append(assign(count, call_of(largest, ast.Constant(0), binary(stop, ast.Sub(), load(low))), node))
        values: list[ast.expr] = []
        for position, (low, count) in enumerate(zip(lows, counts, strict=True)):
            rest = list(map(load, counts[position + 1 :]))
            value: ast.expr = binary(load(stem), ast.FloorDiv(), product(rest)) if rest else load(stem)
            if position:
                value = binary(value, ast.Mod(), load(count))
            values.append(binary(value, ast.Add(), load(low)))
        if isinstance(node.target, ast.Tuple):
            values = list(map(self._cast, node.target.elts, values))
        unpacking = at(ast.Assign([self.visit(node.target)], ast.Tuple(values, ast.Load())), node)
        total = self._call(range, "_range", product(list(map(load, counts))))
        body = [unpacking, *self.block(node.body)]
        loop = ast.For(stored(stem), total, body, self.block(node.orelse))
        return [*before, at(loop, node)]

    def visit_While(self, node: ast.While) -> ast.stmt:
        if is_do_while(self._scope, node.test):
            raise self._scope.error(
                "graph_do_while() is inside a parallel loop",
                node.test,
                "a device loop belongs at kernel level, around the loops",
            )
        self.generic_visit(node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        known = known_test(self._scope, node.test)
        if known is not None:
            result: ast.expr = self.visit(node.body if known else node.orelse)
            return result
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        known = known_test(self._scope, node.test)
        if known is not None:
            return self.block(node.body if known else node.orelse) or [at(ast.Pass(), node)]
        self.generic_visit(node)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt | list[ast.stmt]:
        branch = as_branch(self._scope, node)
        return self.block(branch.body) if always_fails(node) else self.visit_If(branch)

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        """Note the fault, and leave the iteration."""
        error, unit = raised(self._scope, node), self._body.unit
        found = str(error) or type(error).__name__
        fault = Fault(error_raised(type(error)), self._scope.span(node), found, UNSPECIFIED, ends=True)
        noting = (*self._noting(fault), ast.Constant(unit.exits.first.index), load(KEY))
        left = ast.Raise(load(self._body.names.add(intrinsics.Left, "_Left")), None)
        return [at(each, node) for each in (ast.Expr(self._call(intrinsics.note_least, "_note_least", *noting)), left)]

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        chosen = chosen_case(self._scope, node)
        if chosen is not None:
            return self.block(chosen) or [at(ast.Pass(), node)]
        cases = cases_of(self._scope, node)
        subject = f"_m{node.lineno}_{node.col_offset}"
        # Before names in the subject are replaced, of which a case takes a copy.
        branches = as_if(node, cases, subject)
        word = self._body.names.add(intrinsics.match_subject, "_match_subject")
        result = [assign(subject, relocate(call_of(word, self.visit(node.subject)), node.subject), node)]
        scope, self._scope = self._scope, self._scope.inner({subject: Private(subject)})
        result += self.block(branches)
        self._scope = scope
        return result

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            result += self.statement(with_stars(self._scope, self._body.unit, statement))
        return result

    # --- calls ---------------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if is_static_call(self._scope, node):
            return self._place(static_value(self._scope, node), node)
        bound = self._scope.static(node.func)
        if isinstance(bound, BoundFunc):
            return self._device_call(bound.function, bound.owner, node)
        if isinstance(bound, Value):
            if isinstance(bound.value, Func):
                return self._device_call(bound.value, None, node)
            refuse_callee(self._scope, bound.value, node)
            vector = self.vector_call(node)
            if vector is not None:
                return vector
            by_position(self._scope, bound.value, node)
            give_defaults(self._scope, bound.value, node)
            rewritten = self._known_call(bound.value, node)
            if rewritten is not None:
                return rewritten
        elif bound is None and (vector := self.vector_call(node)) is not None:
            return vector
        elif bound is not None and not isinstance(bound, Private):
            raise self._scope.error(
                f"`{as_written(node.func)}` is not a function", node.func, "call a @qgraph.func or a function"
            )
        self.generic_visit(node)
        return node

    def _known_call(self, callee: object, node: ast.Call) -> ast.expr | None:
        """What stands for a call of one of the functions that mean something of their own; None for any other."""
        view = self._scope.static(node.args[0]) if callee is len and len(node.args) == 1 else None
        if isinstance(view, ViewRef):
            return self.expression(placed(view.along[0].count.code, node))
        if isinstance(view, StructRef) and (known := self._scope.static(node)) is not None:
            return self._place(known, node)
        if is_power(callee, node) and (power := self.power(node.args[0], node.args[1], node)) is not None:
            return power
        if callee is np.clip and (limit := one_limit(self._scope, node)) is not None:
            self.generic_visit(node)
            node.func = at(load(self._body.names.add(limit, "_limited")), node)
            return node
        if callee is divmod and len(node.args) == 2 and not node.keywords:
            fault = self._fault(ast.Mod(), node.args[0], node.args[1], node)
            self.generic_visit(node)
            node.args[1] = self.checked(ast.Mod(), node.args[1], fault)
            return node
        number = self._integer_of_host(node)
        if number is not None:
            return self._place(number, node)
        if callee is round and len(node.args) == 2 and not node.keywords:
            rounding = rounding_word(self._body.unit, self._scope, node.args[0])
            self.generic_visit(node)
            node.func = at(load(self._body.names.add(rounding, "_rounded")), node)
            return node
        if self._body.unit.float_type == "float32" and (callee is float or callee is complex):
            return self._narrow_conversion(callee is complex, node)
        if any(callee is word for word in language.ATOMICS):
            self._index_array(node)
        return None

    def _index_array(self, node: ast.Call) -> None:
        """``atomic_add(w, i, value)`` of a view: the array, and the index in it."""
        view = self._scope.static(node.args[0]) if len(node.args) > 1 else None
        if not isinstance(view, ViewRef):
            return
        place = placed(ast.Subscript(copied(node.args[0]), copied(node.args[1]), ast.Load()), node)
        assert isinstance(place, ast.Subscript)
        indices = parts_of(place)
        if len(indices) == len(view.along):
            found = element(view, indices, self._scope, place, natural=False)
            assert isinstance(found, ast.Subscript)
            node.args[:2] = [found.value, found.slice]

    def _narrow_conversion(self, to_complex: bool, node: ast.Call) -> ast.expr:
        """``float(x)`` and ``complex(x)`` in a float32 kernel; ``complex(re, im)`` of narrow parts is narrow."""
        node.args = [self.visit(argument) for argument in node.args]
        kind: type
        kind, word = (np.complex64, "_complex") if to_complex else (np.float32, "_float")
        if to_complex and len(node.args) == 2:
            node.args = [at(self._call(np.float32, "_float", argument), argument) for argument in node.args]
            kind, word = complex, "_pair"
        node.func = at(load(self._body.names.add(kind, word)), node)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        raise refused_star(self._scope, node)

    def _device_call(self, function: object, owner: StructRef | Value | None, node: ast.Call) -> ast.expr:
        """A call of the copy of a func with what is compiled in of these arguments."""
        assert isinstance(function, Func)
        source = function.source
        if node is not self.called:
            refuse_without_value(self._scope, source, node)
        arguments = bind_call(self._scope, source, owner, node)
        fixed: dict[str, Binding] = {}
        for parameter, argument in arguments.items():
            bound = argument if not isinstance(argument, ast.expr) else self._scope.static(argument)
            if bound is not None and (parameter in source.static or is_fixed(bound, source, parameter)):
                fixed[parameter] = bound
        given = {name: each for name, each in arguments.items() if name not in fixed and isinstance(each, ast.expr)}
        dynamic = {name: Private("", is_tuple=may_be_tuple(self._scope, each)) for name, each in given.items()}
        of_local = any(is_local(self._scope, each) for each in given.values())
        if of_local or looks_at_arrays(source):
            dynamic = {name: array_of(self._scope, "", each) for name, each in given.items()}
        dynamic = {name: self.with_shape(each, given[name], source) for name, each in dynamic.items()}
        key = (function, tuple((name, identity(bound)) for name, bound in fixed.items()), *dynamic.values())
        if key not in self._body.devices:
            self._body.devices[key] = self._compile_device(function, fixed, dynamic, node)
        name, leaves = self._body.devices[key]
        values = [self.visit(arguments[parameter]) for parameter in dynamic]
        return at(call_of(name, *values, *map(load, leaves)), node)

    def kind_of_call(self, node: ast.Call) -> Kind:
        call = self.visit(copied(node))
        of_func = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        return self._body.kinds.get(call.func.id, ()) if of_func else ()

    def _compile_device(
        self, func: Func, fixed: dict[str, Binding], dynamic: Mapping[str, Private], node: ast.Call
    ) -> tuple[str, tuple[str, ...]]:
        unit, source = self._body.unit, func.source
        refuse_recursion(unit, func, self._scope, node)
        if func.is_word:
            raise self._scope.error(
                f"`{as_written(node)}` is in the body of a loop, and its loops are the kernel's",
                node,
                "call it before or after the loop; a loop around it is qgraph.serial(range(...))",
            )
        for statement in source.tree.body:
            if isinstance(statement, ast.Delete):
                raise KernelSyntaxError(
                    f"{source.name}() is called in a loop, where `del` has no meaning",
                    Span.of(statement, source.file),
                    hint="leave it out: names end with the function",
                )
        unit.calling.append(func)
        inner = Body(unit, one_thread=self._body.one_thread)
        scope = self._scope.of(source, {**fixed, **dynamic})
        result = self._function(source.name, inner, scope, tuple(dynamic), without_docstring(source.tree.body), source.tree)
        unit.calling.pop()
        if inner.returned:
            self._body.kinds[result[0]] = inner.returned
        return result

    def _function(
        self, name: str, inner: Body, scope: Scope, parameters: tuple[str, ...], body: list[ast.stmt], node: ast.AST
    ) -> tuple[str, tuple[str, ...]]:
        """The name of a function with these statements at the place of ``node``, and what it takes besides its parameters."""
        unit = self._body.unit
        statements = inner.statements(scope, body, parameters)
        used = occurrences(statements)
        # Views that were compiled in have numbers of the host and of kernel scalars.
        self._body.scalars.update(inner.scalars)
        known = (*unit.leaves, *(value.name for value in unit.host_values), *inner.scalars, FAULTS, SLOTS, KEY)
        extra = tuple(leaf for leaf in known if leaf in used)
        tree = function_tree(name, [unit.local_name(parameter) for parameter in parameters] + list(extra), statements)
        ast.fix_missing_locations(at(tree, node))
        function = Function(name, tree, inner.names.values, scope.file)
        return self._body.names.add(function, name), extra


def _given(bound: Binding | None, name: str) -> Private:
    """A parameter that is spelled ``name``, with what is known of it."""
    return replace(bound, name=name) if isinstance(bound, Private) else Private(name)


def is_do_while(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` is a call of ``graph_do_while``."""
    if not isinstance(node, ast.Call):
        return False
    bound = scope.static(node.func)
    return isinstance(bound, Value) and bound.value is language.graph_do_while


def _is_alike(target: ast.expr, value: ast.expr) -> bool:
    """Whether ``value`` is written as a tuple with a value for each name of ``target``."""
    if not isinstance(target, ast.Tuple):
        return True
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
        return False
    return all(map(_is_alike, target.elts, value.elts))


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names of ``target``, each with its part of ``value``."""
    if not isinstance(target, ast.Tuple):
        yield target, value
        return
    for position, part in enumerate(target.elts):
        yield from _unpacked(part, ast.Subscript(copied(value), ast.Constant(position), ast.Load()))
