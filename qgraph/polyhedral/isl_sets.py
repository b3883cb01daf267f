"""Dependence tests by isl, the library of integer sets: which iterations conflict, and for which parameters surely.

The only importer of islpy, which takes 40 ms: a question comes here when ``quick_tests.py`` has left it open.

Two sets are made of a question. What *may* happen leaves out every constraint that is not known; what *surely* happens leaves
out every access of which that holds. Parameters that only the device knows are for all values in the second, for some in the
first. Each set is bounded in work, deterministically (``_MAX_OPERATIONS``); where that is not enough, the answer is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import islpy

from qgraph.polyhedral.isl_encoding import Encoder
from qgraph.polyhedral.questions import APART, UNDECIDED, Answer, Example, Question
from qgraph.polyhedral.symbolic_integers import (
    Poly,
    symbols_of,
)

# What one question may cost: 0.1 to 10 ms as a rule.
_MAX_OPERATIONS = 400_000
# A condition that is longer tells no more than that there is doubt.
_LONGEST_DOUBT = 400
_PARAM, _SET = islpy.dim_type.param, islpy.dim_type.set


def answer(question: Question) -> Answer:
    """What is known of two accesses in two iterations."""
    context = islpy.Context()
    context.set_max_operations(_MAX_OPERATIONS)
    try:
        return _answer(question, context)
    except islpy.Error:
        return UNDECIDED


def example(conflict: str, values: Mapping[str, int], axes: int) -> Example | None:
    """The first two iterations of a set of conflicts, where its parameters have ``values``."""
    found = islpy.Set.read_from_str(islpy.Context(), conflict)
    for name, value in values.items():
        at = found.find_dim_by_name(_PARAM, name)
        if at >= 0:
            found = found.fix_val(_PARAM, at, value)
    if found.is_empty():
        return None
    # Serial variables, and what only the device knows, may have any value.
    found = found.project_out_all_params()
    both = _first(found.project_out(_SET, 2 * axes, found.dim(_SET) - 2 * axes))
    if both is None:
        # The values of a range whose step is a parameter are products: of such an axis the set holds none.
        return None
    for at, value in enumerate(both):
        found = found.fix_val(_SET, at, value)
    count = sum(found.get_dim_name(_SET, at).startswith("el") for at in range(found.dim(_SET)))
    found = found.project_out(_SET, 2 * axes + count, found.dim(_SET) - 2 * axes - count)
    # One that was compared by its strides has no number.
    place = _first(found.project_out(_SET, 0, 2 * axes))
    return Example(both[:axes], both[axes:], place or ())


def _first(found: islpy.Set) -> tuple[int, ...] | None:
    """The first point of a set that has one, in the dimensions that are limited below; None where one is not limited at all."""
    for at in range(found.dim(_SET)):
        # ``lexmin`` fails for some sets, and the least value of a part without points is any.
        parts = [islpy.Set.from_basic_set(part) for part in found.get_basic_sets() if not part.is_empty()]
        least = [part.dim_min_val(at) for part in parts]
        if all(value.is_int() for value in least):
            found = found.fix_val(_SET, at, min(each.to_python() for each in least))
        elif not all(part.dim_max_val(at).is_int() for part in parts):
            return None
    point = found.sample_point()
    return tuple(point.get_coordinate_val(_SET, at).to_python() for at in range(found.dim(_SET)))


def _answer(question: Question, context: islpy.Context) -> Answer:
    # Both sets have the same names for parameters.
    parameters: dict[Poly, str] = {}
    may = Encoder(question, context, parameters, sure=False)
    conflicts = may.conflicts()
    if conflicts.is_empty():
        return APART
    sure = Encoder(question, context, parameters, sure=True)
    certain = sure.conflicts()
    # Whether there are conflicts is known; for which parameters may take as long again.
    context.reset_operations()
    possible = _for_some(conflicts.params(), [*may.serial_parameters(), *chain(*may.device_parameters(frozenset()))])
    known = _surely(question, certain, sure)
    known, possible, around = _aligned(known, possible, sure.around())
    names = sure.host_parameters()
    sources = {key: source for key, source, _ in names}
    doubt = _doubt(possible.subtract(known), around, sources)
    if known.is_empty():
        return Answer(never=False, doubt=doubt)
    always = around.is_subset(known)
    # Which elements are reached at all is not what makes them meet: extents of 0 are left out of the words.
    short = known.gist(around).coalesce()
    with _printing(known):
        conflict = str(certain)
    return Answer(
        never=False,
        doubt=doubt,
        condition="True" if always else _code(short, around, sources),
        always=always,
        text="always" if always else _text(short, {key: word for key, _, word in names}),
        conflict=conflict,
        parameters=tuple((key, source) for key, source, _ in names),
    )


def _surely(question: Question, certain: islpy.Set, sure: Encoder) -> islpy.Set:
    """The parameters for which there surely is a conflict."""
    # A range that only the device knows counts as a large one: some value of its bound is enough.
    indices = [index for reach in (question.first, question.second) for index in reach.indices or () if index is not None]
    bound, free = sure.device_parameters(symbols_of([*indices, *question.sizes]))
    return _for_some(_for_all(_for_some(certain.params(), free), bound), sure.serial_parameters()).coalesce()


def _doubt(open_: islpy.Set, around: islpy.Set, sources: Mapping[str, str]) -> str:
    """The parameters for which it is not known, as a condition; long ones count as all."""
    if open_.is_empty():
        return ""
    short = open_.coalesce().gist(around).coalesce()
    code = _code(short, around, sources)
    return "True" if len(code) > _LONGEST_DOUBT or around.is_subset(short) else code


def _aligned(*sets: islpy.Set) -> list[islpy.Set]:
    """The sets with the same parameters."""
    space = sets[0].get_space()
    for each in sets[1:]:
        space = space.align_params(each.get_space())
    return [each.align_params(space) for each in sets]


def _for_some(found: islpy.Set, names: Sequence[str]) -> islpy.Set:
    """For which of the other parameters there are values of ``names``."""
    for name in names:
        at = found.find_dim_by_name(_PARAM, name)
        if at >= 0:
            found = found.project_out(_PARAM, at, 1)
    return found


def _for_all(found: islpy.Set, names: Sequence[str]) -> islpy.Set:
    """For which of the other parameters it holds whatever ``names`` are."""
    if not any(found.find_dim_by_name(_PARAM, name) >= 0 for name in names):
        return found
    return _for_some(found.complement(), names).complement()


# --- conditions as code and words --------------------------------------------------------------------------------------

_OPERATORS = {
    islpy.ast_expr_op_type.and_: "and",
    islpy.ast_expr_op_type.and_then: "and",
    islpy.ast_expr_op_type.or_: "or",
    islpy.ast_expr_op_type.or_else: "or",
    islpy.ast_expr_op_type.add: "+",
    islpy.ast_expr_op_type.sub: "-",
    islpy.ast_expr_op_type.mul: "*",
    # All of them are exact, or of operands that are not negative, or rounded down.
    islpy.ast_expr_op_type.div: "//",
    islpy.ast_expr_op_type.fdiv_q: "//",
    islpy.ast_expr_op_type.pdiv_q: "//",
    islpy.ast_expr_op_type.pdiv_r: "%",
    islpy.ast_expr_op_type.zdiv_r: "%",
    islpy.ast_expr_op_type.eq: "==",
    islpy.ast_expr_op_type.le: "<=",
    islpy.ast_expr_op_type.lt: "<",
    islpy.ast_expr_op_type.ge: ">=",
    islpy.ast_expr_op_type.gt: ">",
}
_FUNCTIONS = {islpy.ast_expr_op_type.min: "min", islpy.ast_expr_op_type.max: "max"}


def _code(condition: islpy.Set, around: islpy.Set, sources: Mapping[str, str]) -> str:
    """A set of parameters as a Python condition over integers of any length."""
    expression = islpy.AstBuild.from_context(around).expr_from_set(condition)
    with _printing(condition):
        return _expression(expression, sources)


@contextmanager
def _printing(found: islpy.Set) -> Iterator[None]:
    """Texts and numbers are read without the bound: where it is reached isl gives none, and says nothing."""
    context = found.get_ctx()
    context.set_max_operations(0)
    yield
    context.set_max_operations(_MAX_OPERATIONS)


def _expression(node: Any, sources: Mapping[str, str]) -> str:
    kind = node.get_type()
    if kind == islpy.ast_expr_type.int:
        return str(node.get_val().to_python())
    if kind == islpy.ast_expr_type.id:
        return f"({sources[node.get_id().get_name()]})"
    operation = node.op_get_type()
    operands = [_expression(node.op_get_arg(at), sources) for at in range(node.op_get_n_arg())]
    if operation == islpy.ast_expr_op_type.minus:
        return f"(-{operands[0]})"
    if operation in _FUNCTIONS:
        return f"{_FUNCTIONS[operation]}({', '.join(operands)})"
    if operation in (islpy.ast_expr_op_type.cond, islpy.ast_expr_op_type.select):
        return f"({operands[1]} if {operands[0]} else {operands[2]})"
    return f"({f' {_OPERATORS[operation]} '.join(operands)})"


def _text(condition: islpy.Set, words: Mapping[str, str]) -> str:
    """A set of parameters as isl writes its constraints, with the words of the user."""
    with _printing(condition):
        written = str(condition)
    inside = written.split("{", 1)[1].rsplit("}", 1)[0].strip().removeprefix(":").strip()
    inside = inside.replace(";  :", " or").replace("; :", " or")
    return re.sub(r"\b(\d*)(p\d+)\b", lambda found: f"{found[1]}*{words[found[2]]}" if found[1] else words[found[2]], inside)
