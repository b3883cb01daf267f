"""Reductions in generated code: locals start at the identity, partial results combine in a fixed order.

On CUDA the threads of a block combine what they have in shared memory, as a tree; the last block to finish does the same
with the results of all blocks. On the CPU one thread combines the results of the chunks, in order.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qgraph import language
from qgraph.errors import KernelTypeError
from qgraph.ir.artifacts import REDUCTION_BLOCK
from qgraph.ir.program import Carried, Reduction, Task
from qgraph.lowering.codegen.generated_names import (
    CASTS,
    ELEMENT_CASTS,
    SLOTS,
    Dtypes,
    dtype_of,
    generated,
    indented,
    shared_arrays,
    slot_place,
    typed_place,
)
from qgraph.operations.combinations import BY_NAME, limit
from qgraph.operations.table import OPERATIONS, operation
from qgraph.source import copied


def reduction_names(task: Task, dtypes: Dtypes) -> dict[str, object]:
    """The globals of the generated statements."""
    names: dict[str, object] = {}
    for variable in _carried(task):
        dtype = _dtype(variable, dtypes)
        names[_cast(variable, dtypes)] = (CASTS if variable.element is None else ELEMENT_CASTS)[dtype]
        names[f"_type_{dtype}"] = np.dtype(dtype)
    names |= {"_infinity": math.inf, "_copysign": math.copysign}
    return {**names, "_word": np.dtype("int64"), "_atomic_add": language.atomic_add}


def numbered(task: Task) -> bool:
    """Whether the body asks for the number of the iteration."""
    return any(reduction.at is not None for reduction in task.reductions)


def identities(task: Task, dtypes: Dtypes) -> list[str]:
    """Each local at the value that changes nothing."""
    lines = []
    for reduction in task.reductions:
        for variable in reduction.variables:
            dtype = _dtype(variable, dtypes)
            _check(reduction, dtype)
            lines.append(f"{variable.local} = {_cast(variable, dtypes)}({_identity(reduction, dtype)})")
        if reduction.at is not None:
            lines.append(f"{reduction.at.local} = {_cast(reduction.at, dtypes)}(-1)")
    return lines


def _check(reduction: Reduction, dtype: str) -> None:
    if reduction.operator in ("and", "or") and dtype != "bool":
        word = reduction.operator
        raise KernelTypeError(
            f"`{word}` over the iterations of a parallel loop combines booleans, and this is {dtype}",
            reduction.span,
            hint=f"start from {word == 'and'} and write `s = s {word} e != 0`, or combine numbers with min, max, & or |",
        )


def _identity(reduction: Reduction, dtype: str) -> str:
    if reduction.operator in BY_NAME:
        return BY_NAME[reduction.operator].identity(dtype)
    chooses = reduction.operator in ("first", "last") and np.dtype(dtype).kind != "c"
    return limit(dtype, largest="<" in reduction.test) if chooses else "0"


# --- combining --------------------------------------------------------------------------------------------------------


def _carried(task: Task) -> Iterator[Carried]:
    for reduction in task.reductions:
        yield from reduction.variables
        if reduction.at is not None:
            yield reduction.at


def _dtype(variable: Carried, dtypes: Dtypes) -> str:
    return variable.dtype if variable.slot is None else dtype_of(variable.slot, dtypes)


def _cast(variable: Carried, dtypes: Dtypes) -> str:
    """The name of the conversion to the variable's type: an int64 that is an element is no Python number."""
    return f"_to_{_dtype(variable, dtypes)}{'' if variable.element is None else '_element'}"


def _combine(task: Task, dtypes: Dtypes) -> list[str]:
    """Lines that combine each local with its ``_b``, the result of other iterations."""
    return [line for reduction in task.reductions for line in _combine_one(reduction, dtypes)]


def _combine_one(reduction: Reduction, dtypes: Dtypes) -> list[str]:
    first = reduction.variables[0]
    new, old = f"{first.local}_b", first.local
    if reduction.at is None:
        return _apply(reduction, old, new, first, dtypes)
    at_new, at_old = f"{reduction.at.local}_b", reduction.at.local
    later = f"{at_new} > {at_old}"
    if reduction.operator == "store":
        test = later
    else:
        symbol = reduction.test[0]
        tie = later if reduction.operator == "last" else f"{at_new} < {at_old}"
        test = f"{at_new} >= 0 and ({at_old} < 0 or {new} {symbol} {old} or ({new} == {old} and {tie}))"
    locals_ = [*(variable.local for variable in reduction.variables), at_old]
    return [f"if {test}:", *(f"    {local} = {local}_b" for local in locals_)]


def _apply(reduction: Reduction, place: str, value: str, variable: Carried, dtypes: Dtypes) -> list[str]:
    """Lines that combine ``place`` with ``value``, for an operator without ``at``."""
    nan = np.dtype(_dtype(variable, dtypes)).kind == "f"
    return applied(reduction.operator, place, value, _cast(variable, dtypes), nan=nan)


def applied(operator: str, place: str, value: str, cast: str = "", *, nan: bool = False) -> list[str]:
    """Lines that combine ``place`` with ``value``; ``cast`` converts to the type of the place.

    ``nan``: a value that is one, as np.minimum makes of one (and the builtin `min` of none), is kept.
    """
    symbol = BY_NAME[operator].better
    if symbol:
        return [f"if {value} {symbol} {place}{f' or {value} != {value}' if nan else ''}:", f"    {place} = {value}"]
    operator = {"and": "&", "or": "|"}.get(operator, operator)
    return [f"{place} = {cast}({place} {operator} {value})"]


def _finish(task: Task, dtypes: Dtypes) -> list[str]:
    """Lines that combine the kernel scalar or element of each reduction with the result of all iterations."""
    lines = []
    for reduction in task.reductions:
        places = [_target(variable, dtypes) for variable in reduction.variables]
        first = reduction.variables[0]
        if reduction.at is None:
            applied = _apply(reduction, places[0], first.local, first, dtypes)
            if first.element is not None:
                # No iteration that ran may have had this statement, and then the element need not exist.
                applied = [f"if {_changes(reduction, first, dtypes)}:", *indented(applied, 1)]
            lines += applied
            continue
        test = f"{reduction.at.local} >= 0"
        if reduction.operator != "store":
            test += f" and {first.local} {reduction.test} {places[0]}"
        stores = zip(places, reduction.variables, strict=True)
        lines += [f"if {test}:", *(f"    {place} = {variable.local}" for place, variable in stores)]
    return lines


def _changes(reduction: Reduction, variable: Carried, dtypes: Dtypes) -> str:
    """A condition: the local is not the value that changes nothing. Of -0.0, which equals 0.0, the sign tells."""
    dtype, local = _dtype(variable, dtypes), variable.local
    identity = _identity(reduction, dtype)
    if identity != "-0.0":
        return f"{local} != {_cast(variable, dtypes)}({identity})"
    if np.dtype(dtype).kind == "c":
        return f"{local}.imag != 0 or {local}.real != 0 or _copysign(1.0, {local}.real) > 0"
    return f"{local} != 0 or _copysign({_cast(variable, dtypes)}(1.0), {local}) > 0"


def _target(variable: Carried, dtypes: Dtypes) -> str:
    if variable.element is not None:
        return ast.unparse(variable.element)
    assert variable.slot is not None
    return slot_place(variable.slot, dtypes)


def _partial(variable: Carried, dtypes: Dtypes, number: str) -> str:
    return typed_place(variable.partials, _dtype(variable, dtypes), number)


# --- CUDA -------------------------------------------------------------------------------------------------------------


def cuda_finish(task: Task, dtypes: Dtypes, first: Sequence[ast.stmt], then: Sequence[ast.stmt]) -> list[ast.stmt]:
    """What a kernel does after its iterations: ``_n`` is how many there are in all, ``_lane`` and ``_width`` are the thread's.

    Two rounds at most: the threads of the block, then, in the block that finishes last, the results of all blocks. One thread
    stores them, with ``first`` before and ``then`` behind.
    """
    assert task.ticket is not None
    variables = list(_carried(task))
    combine = _combine(task, dtypes)
    lines = [
        "_blocks = _cuda.gridDim.x",
        "_held = _min(_width, _n)",
        "for _round in _range(2):",
        *(f"    _shared{v.local}[_lane] = {v.local}" for v in variables),
        "    _cuda.syncthreads()",
        "    while _held > 1:",
        "        _half = (_held + 1) // 2",
        "        if _lane + _half < _held:",
        *(f"            {v.local}_b = _shared{v.local}[_lane + _half]" for v in variables),
        *indented(combine, 3),
        *(f"            _shared{v.local}[_lane] = {v.local}" for v in variables),
        "        _cuda.syncthreads()",
        "        _held = _half",
        "    if _round == 1 or _blocks == 1:",
        "        break",
        "    if _lane == 0:",
        *(f"        {_partial(v, dtypes, '_cuda.blockIdx.x')} = {v.local}" for v in variables),
        # The results are in memory before the ticket says so, and are read after it was seen.
        "        _cuda.threadfence()",
        f"        _shared_ticket[0] = _atomic_add({SLOTS.name}, {task.ticket.index}, 1)",
        "    _cuda.syncthreads()",
        "    if _shared_ticket[0] != _blocks - 1:",
        "        return",
        "    _cuda.threadfence()",
        *indented(identities(task, dtypes), 1),
        "    _block = _lane",
        "    while _block < _blocks:",
        *(f"        {v.local}_b = {_partial(v, dtypes, '_block')}" for v in variables),
        *indented(combine, 2),
        "        _block += _width",
        "    _held = _min(_width, _blocks)",
        "if _lane == 0:",
        "    if _blocks > 1:",
        f"        {SLOTS.name}[{task.ticket.index}] = 0",
        "    if _n > 0:",
        *indented(_finish(task, dtypes), 2),
    ]
    statements = generated("\n".join(lines))
    (last,) = statements[-1:]
    assert isinstance(last, ast.If)
    store = last.body.pop()
    last.body += [*first, store, *then]
    return [*_shared_arrays(task, variables, dtypes), *statements]


def _shared_arrays(task: Task, variables: Sequence[Carried], dtypes: Dtypes) -> list[ast.stmt]:
    lines = [f"_shared{v.local} = _cuda.shared.array({REDUCTION_BLOCK}, _type_{_dtype(v, dtypes)})" for v in variables]
    return shared_arrays(task.span, [*lines, "_shared_ticket = _cuda.shared.array(1, _word)"])


# --- one block of CUDA ------------------------------------------------------------------------------------------------


def carried_dtypes(task: Task, dtypes: Dtypes) -> list[tuple[str, str]]:
    """The locals that the iterations combine, each with its dtype."""
    return [(variable.local, _dtype(variable, dtypes)) for variable in _carried(task)]


def block_store(task: Task, dtypes: Dtypes, places: Mapping[str, str]) -> list[ast.stmt]:
    """Store what the thread's iterations made. ``places`` are subscripts up to the thread's number."""
    return generated("\n".join(f"{places[local]}_lane] = {local}" for local, _ in carried_dtypes(task, dtypes)))


def block_combine(task: Task, dtypes: Dtypes, places: Mapping[str, str]) -> list[ast.stmt]:
    """Combine the value of thread ``_lane`` with those of every ``_part``-th one behind it, of ``_held``."""
    locals_ = [local for local, _ in carried_dtypes(task, dtypes)]
    lines = [
        *(f"{local} = {places[local]}_lane]" for local in locals_),
        "for _other in _range(_lane + _part, _held, _part):",
        *(f"    {local}_b = {places[local]}_other]" for local in locals_),
        *indented(_combine(task, dtypes), 1),
        *(f"{places[local]}_lane] = {local}" for local in locals_),
    ]
    return generated("\n".join(lines))


def block_finish(task: Task, dtypes: Dtypes, places: Mapping[str, str]) -> list[ast.stmt]:
    """Combine the kernel scalars and elements with what is left in the place of the first thread."""
    lines = [f"{local} = {places[local]}0]" for local, _ in carried_dtypes(task, dtypes)]
    return generated("\n".join([*lines, *_finish(task, dtypes)]))


# --- CPU --------------------------------------------------------------------------------------------------------------


def chunk_partials(task: Task, dtypes: Dtypes) -> list[ast.stmt]:
    """Store the results of a chunk."""
    return generated("\n".join(f"{_partial(v, dtypes, '_chunk')} = {v.local}" for v in _carried(task)))


def cpu_finish(task: Task, dtypes: Dtypes) -> list[ast.stmt]:
    """Combine the results of ``_chunks`` chunks, in order, and then the places with them."""
    lines = [
        *identities(task, dtypes),
        "for _part in _range(_chunks):",
        *(f"    {v.local}_b = {_partial(v, dtypes, '_part')}" for v in _carried(task)),
        *indented(_combine(task, dtypes), 1),
        *_finish(task, dtypes),
    ]
    return generated("\n".join(lines))


def reassociable_sums(task: Task, body: Sequence[ast.stmt], dtypes: Dtypes) -> tuple[list[ast.stmt], dict[str, object]]:
    """The body with sums, products and extremes of floats in whatever order vectorises, and the globals that this needs."""
    locals_ = {
        reduction.variables[0].local
        for reduction in task.reductions
        if reduction.operator in ("+", "*", "min", "max") and _dtype(reduction.variables[0], dtypes) in ("float32", "float64")
    }
    if not locals_:
        return list(body), {}
    words = (each.reassociable for each in OPERATIONS.all)
    names: dict[str, object] = {f"_{word.__name__}": word for word in words if word is not None}
    return [_Reassociable(locals_, task.names).visit(copied(statement)) for statement in body], names


class _Reassociable(ast.NodeTransformer):
    """``s + e`` of a local to a call of ``reassociable_add``, ``min(s, e)`` to one of ``reassociable_min``."""

    def __init__(self, locals_: set[str], names: Mapping[str, object]) -> None:
        self._locals = locals_
        self._names = names

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        word = OPERATIONS.by_syntax[type(node.op)].reassociable
        if word is None or not self._local_in(node.left, node.right):
            return node
        call = ast.Call(ast.Name(f"_{word.__name__}", ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if len(node.args) == 2 and self._local_in(*node.args) and isinstance(node.func, ast.Name):
            word = operation(self._names.get(node.func.id)).reassociable
            node.func.id = node.func.id if word is None else f"_{word.__name__}"
        return node

    def _local_in(self, *operands: ast.expr) -> bool:
        return any(isinstance(operand, ast.Name) and operand.id in self._locals for operand in operands)
