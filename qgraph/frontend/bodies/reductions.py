"""Reductions of a parallel loop: which statements combine values of all iterations into one place, and how.

A place is a kernel scalar or an array element whose index does not vary. Every statement that touches it must be one of the
forms below, and all of them the same operation; then the body gets a private local instead, and the rest is lowering's.
For an array element that fails, nothing changes: the race analysis judges it. For a kernel scalar it is an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np

from qgraph.errors import DataRaceError, KernelTypeError
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.bodies.value_resolution import at
from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.dependence.loop_verdict import NOTHING_WRITTEN, always_apart
from qgraph.frontend.desugar.augmented_assignment import as_assignment
from qgraph.frontend.facts.loop_facts import Access, Accesses, LoopFacts
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.function_frame import occurrences
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import MAX_PARTIALS, NUMBER, Carried, Effects, Reduction
from qgraph.ir.slots import WORD, Slot, itemsize
from qgraph.ir.trees import assign, call_of, load, parts_of
from qgraph.ir.update_patterns import Combining, Match
from qgraph.ir.verdicts import Verdict
from qgraph.polyhedral.symbolic_integers import Poly
from qgraph.records import dataclass
from qgraph.source import Span, copied, nodes_of, standing_for

_HINT = (
    "all iterations may combine values in it: += -= *= &= |= ^=, `{0} = min({0}, e)`, `{0} = max({0}, e)`, `{0} = {0} and e`, "
    "`{0} = {0} or e`, `if e < {0}: {0} = e` with companions, or one constant; not more than one of these, and no other use. "
    "To run the iterations in order, use `qgraph.serial({1})`"
)
# What an index that does not vary is made of.
_INDEX = (
    *(ast.Constant, ast.Name, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Attribute, ast.Subscript),
    *(ast.operator, ast.unaryop, ast.expr_context),
)
_CONSTANT = (ast.Constant, ast.Name, ast.UnaryOp, ast.BinOp, ast.Call, ast.operator, ast.unaryop, ast.expr_context)


@dataclass(frozen=True, slots=True)
class FoundReductions:
    """The reductions of a loop, its body with their locals, and what the loop touches as the user wrote it."""

    reductions: tuple[Reduction, ...]
    statements: list[ast.stmt]
    touched: Accesses
    effects: Effects
    words: str
    ticket: Slot

    @property
    def elements(self) -> Iterator[ast.Subscript]:
        """The array elements among the places."""
        variables = (variable for reduction in self.reductions for variable in reduction.variables)
        return (variable.element for variable in variables if variable.element is not None)

    def verdict(self, verdict: Verdict, nested: str) -> Verdict:
        """The verdict on the rest of the loop, with the reductions in it; ``nested`` tells of inner loops that are axes."""
        if verdict.reason == NOTHING_WRITTEN:
            return replace(verdict, reason=self.words + nested, span=self.reductions[0].span)
        return replace(verdict, reason=f"{verdict.reason}{nested}; {self.words}")


def find_reductions(body: Body, facts: LoopFacts) -> FoundReductions | None:
    """The reductions of a loop, or None where it has none.

    Raises:
        DataRaceError: the loop assigns a kernel scalar in a way that is no reduction.
    """
    finder = _Finder(body, facts)
    finder.block(facts.body)
    if not finder.matches and not body.assigned:
        return None
    return finder.found()


class _Finder(Combining):
    """Collects the statements that combine, by place. The key of a scalar is its name, of an element its source."""

    def __init__(self, body: Body, facts: LoopFacts) -> None:
        super().__init__(body.names.values)
        self.body = body
        self.unit = body.unit
        self.facts = facts
        private = names_assigned(facts.body).keys() - body.assigned.keys()
        self.varying = {*private, facts.index_tuple, *(axis.variable for axis in facts.axes)} | body.assigned.keys()

    # --- places ---

    def key(self, node: ast.AST) -> str:
        """The place that ``node`` names, or ""."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.body.assigned else ""
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return ""
        array = node.value.id
        parts = parts_of(node)
        if array not in self.facts.ndim or len(parts) != self.facts.ndim[array] or not self._invariant(node.slice, _INDEX):
            return ""
        return f"{self.unit.same.get(array, array)}[{ast.unparse(node.slice)}]"

    def _invariant(self, node: ast.expr, kinds: tuple[type[ast.AST], ...]) -> bool:
        return self.varying.isdisjoint(occurrences([node])) and all(isinstance(child, kinds) for child in nodes_of(node))

    def is_bool(self, key: str) -> bool:
        return self.dtype(key) in ("bool", "")

    def is_constant(self, value: ast.expr) -> bool:
        """Whether every iteration computes the same value, from constants and scalars."""
        converted = all(self._converts(child) for child in nodes_of(value) if isinstance(child, ast.Call))
        return converted and self.facts.ndim.keys().isdisjoint(occurrences([value])) and self._invariant(value, _CONSTANT)

    def _converts(self, call: ast.Call) -> bool:
        word = self.body.names.values.get(call.func.id) if isinstance(call.func, ast.Name) else None
        return any(word is kind for kind in (np.float32, np.complex64, float, int, bool))

    # --- judging ---

    def found(self) -> FoundReductions | None:
        touched = collect(self.facts)
        own = {node for match in self.matches for node in match.own}
        places = [place for statement in self.facts.body for place in self.keys(statement)]
        # The first one of each place.
        stray = {key: node for key, node in reversed(places) if id(node) not in own}
        self._drop({key for key in self._elements() if key in stray or not self._alone(key, touched)})
        self._drop({key for key in self._elements() if self.conflict(key) is not None})
        for key in self.body.assigned:
            self._check_scalar(key, stray)
        return self._made_reductions(touched) if self.matches else None

    def _elements(self) -> set[str]:
        return {key for match in self.matches for key in match.keys if key not in self.body.assigned}

    def _drop(self, keys: set[str]) -> None:
        """Forget elements that are no reductions, and the statements that assign them."""
        while keys:
            bad = [match for match in self.matches if keys.intersection(match.keys)]
            self.matches = [match for match in self.matches if match not in bad]
            keys = {key for match in bad for key in match.keys} & self._elements()

    def _alone(self, key: str, touched: Accesses) -> bool:
        """Whether nothing else in the loop touches the element."""
        own = {node for match in self.matches if key in match.keys for node in match.own}
        memory = key.split("[", maxsplit=1)[0]
        same = [access for access in touched.all if self.unit.same.get(access.array, access.array) == memory]
        mine = [access for access in same if id(access.node) in own and not access.in_function and self._element(access) == key]
        indices = mine[0].reach.indices if mine else None
        if indices is None or any(not isinstance(index, Poly) or index.varies for index in indices):
            return False
        others = [access for access in same if access not in mine]
        return all(always_apart(one, other, touched, self.facts) for one in mine for other in others)

    def _element(self, access: Access) -> str:
        node = access.node
        place = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(node, ast.Assign) else node
        return self.key(place)

    def _check_scalar(self, key: str, stray: Mapping[str, ast.AST]) -> None:
        name = self.text(key)
        matched = [match for match in self.matches if key in match.keys]
        if key in stray:
            self._refuse(name, stray[key], matched)
        if not matched:
            places = (node for statement in self.facts.body for found, node in self.keys(statement) if found == key)
            self._refuse(name, next(node for node in places if _is_store(node)), ())
        conflict = self.conflict(key)
        if conflict is not None:
            first, other = conflict
            what = "set to two values" if first.operator == other.operator == "store" else "combined in two ways"
            raise DataRaceError(
                f"the kernel scalar `{name}` is {what} by the iterations of one parallel loop",
                Span.of(other.statement, self.facts.file),
                also=(("the other place is here", Span.of(first.statement, self.facts.file)),),
                hint=_HINT.format(name, self.facts.text),
            )

    def _refuse(self, name: str, node: ast.AST, matched: Sequence[Match]) -> None:
        if matched:
            also = ("it is combined here", Span.of(matched[0].statement, self.facts.file))
            what = "assigned" if _is_store(node) else "used"
            found = f"the iterations of a parallel loop combine values in the kernel scalar `{name}`, which is also {what} here"
        else:
            also = ("the loop is here", self.facts.span)
            found = f"the iterations of a parallel loop assign the kernel scalar `{name}` in a way that depends on their order"
        raise DataRaceError(found, Span.of(node, self.facts.file), also=(also,), hint=_HINT.format(name, self.facts.text))

    # --- records ---

    def dtype(self, key: str) -> str:
        """The dtype of an element; "" for a kernel scalar whose type is inferred."""
        if key in self.body.assigned:
            return self.body.assigned[key].dtype
        type_ = self.unit.leaves[key.split("[", maxsplit=1)[0]].type
        assert isinstance(type_, ArrayType)
        return type_.dtype

    def keeps(self, key: str) -> Literal["", "min", "max"]:
        """Whether the least or the greatest number is kept in a place."""
        for match in self.matches:
            if match.keys[0] == key and (match.operator in ("min", "max") or match.test):
                return "min" if match.operator == "min" or "<" in match.test else "max"
        return ""

    def _made_reductions(self, touched: Accesses) -> FoundReductions:
        groups: dict[frozenset[str], list[Match]] = {}
        for match in self.matches:
            groups.setdefault(frozenset(match.keys), []).append(match)
        locals_: dict[str, str] = {}
        ats: dict[int, str] = {}
        reductions = []
        places = {key: node for match in self.matches for key, node in self.keys(match.statement)}
        for number, matches in enumerate(groups.values()):
            first = matches[0]
            for position, key in enumerate(first.keys):
                locals_[key] = f"_r{number}{position or ''}_{re.split(r'[^a-zA-Z0-9_]', key)[0].strip('_')}"
            when = None
            if first.operator in ("first", "last", "store"):
                when = self._carried(f"_at{number}", None, "int64")
                ats |= {id(match.statement): when.local for match in matches}
            variables = tuple(self._variable(key, locals_[key], places[key]) for key in first.keys)
            span = Span.of(first.statement, self.facts.file)
            reductions.append(Reduction(first.operator, variables, span, first.test, when))
        body = ast.Module([*self.facts.body], [])
        _Locals(self, locals_, ats).visit(body)
        slots = frozenset(each.slot.name for made in reductions for each in made.variables if each.slot is not None)
        texts = [self.text(key, places[key]) for match in self.matches for key in match.keys]
        return FoundReductions(
            tuple(reductions),
            body.body,
            touched,
            Effects(slots, slots),
            f"reduction into {', '.join(f'`{text}`' for text in dict.fromkeys(texts))}",
            self.unit.slot("ticket"),
        )

    def text(self, key: str, node: ast.AST | None = None) -> str:
        """A place as the user writes it."""
        if node is not None and key not in self.body.assigned:
            return user_text(node, self.facts.paths)
        return self.body.assigned[key].told

    def _variable(self, key: str, local: str, node: ast.AST) -> Carried:
        element = None
        if isinstance(node, ast.Subscript):
            element = copied(node)
            element.ctx = ast.Load()
        return self._carried(local, self.body.assigned.get(key), self.dtype(key), element)

    def _carried(self, local: str, slot: Slot | None, dtype: str, element: ast.Subscript | None = None) -> Carried:
        size = itemsize(dtype or "complex128")
        partials = self.unit.slot(f"partials{local}", dtype, max(1, MAX_PARTIALS * size // WORD))
        return Carried(local, slot, element, dtype, partials)


def _is_store(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


class _Locals(ast.NodeTransformer):
    """The body with a private local for each place; where it matters, the number of the iteration that assigned is kept."""

    def __init__(self, finder: _Finder, locals_: Mapping[str, str], ats: Mapping[int, str]) -> None:
        self._finder = finder
        self._locals = locals_
        self._ats = ats

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        key = self._finder.key(node)
        if key in self._locals:
            assert isinstance(node, ast.expr)
            local = at(ast.Name(self._locals[key], getattr(node, "ctx", ast.Load())), node)
            return standing_for(local, node, self._finder.text(key, node))
        result = cast("ast.AST | list[ast.stmt]", super().visit(node))
        if id(node) not in self._ats:
            return result
        assert isinstance(result, ast.stmt)
        number = assign(self._ats[id(node)], load(NUMBER), result)
        if isinstance(result, ast.If):
            result.body.append(number)
            return result
        return [result, number]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if self._finder.key(node.target) not in self._locals:
            self.generic_visit(node)
            return node
        return self.visit_Assign(as_assignment(node))

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple() as whole) if len(parts) == len(whole.elts):
                whole.elts = list(map(self._cast, parts, whole.elts))
            case ast.Assign(targets=[target]):
                node.value = self._cast(target, node.value)
        self.generic_visit(node)
        return node

    def _cast(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """``value`` as the type of an element; a kernel scalar has its conversion already."""
        key = self._finder.key(target)
        if key not in self._locals or key in self._finder.body.assigned:
            return value
        finder = self._finder
        dtype = finder.dtype(key)
        if np.dtype(dtype).kind in "iu" and isinstance(value, ast.BinOp) and _is_float(finder.unit, value):
            raise KernelTypeError(
                f"floats are combined in elements of type {dtype}, where Python drops the fraction after each iteration",
                Span.of(value, finder.facts.file),
                hint="use an array of floats, or make an integer of what is combined: int(...)",
            )
        keeps = finder.keeps(key)
        if keeps and isinstance(value, ast.Call):
            value.args = [self._kept(argument, key, keeps) for argument in value.args]
        elif keeps and isinstance(value, ast.IfExp):
            value.body, value.orelse = (self._kept(each, key, keeps) for each in (value.body, value.orelse))
        elif keeps:
            return self._kept(value, key, keeps)
        elif dtype == "bool" and isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitXor):
            value.left, value.right = (self._kept(each, key, "^") for each in (value.left, value.right))
        return self._converted(value, dtype)

    def _kept(self, value: ast.expr, key: str, keeps: Literal["min", "max", "^"]) -> ast.expr:
        """``value``, which is combined with an element, as the type of that; the element as it is."""
        return value if self._finder.key(value) == key else self._converted(value, self._finder.dtype(key), keeps)

    def _converted(self, value: ast.expr, dtype: str, keeps: Literal["", "min", "max", "^"] = "") -> ast.expr:
        conversion = self._finder.unit.element_cast(dtype, keeps)
        return at(call_of(self._finder.body.names.add(conversion, f"_{keeps or 'as'}_{dtype}"), value), value)


def _is_float(unit: ProgramBuilder, node: ast.expr) -> bool:
    """Whether an expression of a body is surely a float, by its literals, scalar arguments and arrays."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, float)
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return name in unit.leaves and np.dtype(unit.leaves[name].type.dtype).kind == "f"
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, ast.Div) or _is_float(unit, left) or _is_float(unit, right)
        case ast.UnaryOp(operand=operand):
            return not isinstance(node.op, ast.Not) and _is_float(unit, operand)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_float(unit, body) or _is_float(unit, orelse)
    return False
