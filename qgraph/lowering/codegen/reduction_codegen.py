"""Reductions in generated code: locals start at the identity, partial results combine in a fixed order.

On CUDA the threads of a warp combine what they have by shuffles, as a tree, then the warps of a block; the last block to
finish does the same with the results of all blocks. On the CPU one thread combines the results of the chunks, in order.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping

import numpy as np

from qgraph import language
from qgraph.errors import KernelTypeError
from qgraph.ir.artifacts import REDUCTION_BLOCK, WARP
from qgraph.ir.program import NUMBER, Carried, Reduction, Task
from qgraph.ir.slots import WORD, Slot, itemsize
from qgraph.lowering.codegen.generated_names import (
    CASTS,
    ELEMENT_CASTS,
    SLOTS,
    Dtypes,
    Globals,
    Statements,
    dtype_of,
    generated,
    indented,
    shared_arrays,
    slot_place,
    slots_name,
    typed_place,
)
from qgraph.lowering.codegen.task_codegen import BUILTINS, task_names
from qgraph.operations import intrinsics
from qgraph.operations.combinations import BY_NAME, limit
from qgraph.operations.table import OPERATIONS, operation
from qgraph.source import copied

_WARP_BITS = WARP.bit_length() - 1
# The most warps of a block that combines values. A power of two.
_WARPS = REDUCTION_BLOCK // WARP
# Results of blocks that a thread loads together.
_AT_ONCE = 4
# The code of a partial result, by its number.
_Partial = Callable[[Carried, str], str]


class ReductionCode:
    """The code of the reductions of ``task``, which may have none. ``into``: a local that stands for its only kernel scalar."""

    def __init__(self, task: Task, dtypes: Dtypes, into: str = "") -> None:
        self._task = task
        self._into = into
        self._dtypes = dtypes
        self._carried = [
            each for reduction in task.reductions for each in (*reduction.variables, reduction.at) if each is not None
        ]

    @property
    def names(self) -> Globals:
        """The globals of the generated statements, and of the task's own."""
        return {**task_names(self._task, self._dtypes), **self.own_names, **BUILTINS}

    @property
    def own_names(self) -> Globals:
        """The globals of the generated statements alone."""
        names: dict[str, object] = {"_infinity": math.inf, "_copysign": math.copysign}
        names |= {"_word": np.dtype("int64"), "_atomic_add": language.atomic_add}
        for variable in self._carried:
            dtype = self._dtype(variable)
            names[self._cast(variable)] = (CASTS if variable.element is None else ELEMENT_CASTS)[dtype]
            names[f"_type_{dtype}"] = np.dtype(dtype)
        return names

    @property
    def cuda_names(self) -> Globals:
        """Those of a kernel with reductions."""
        return {**self.names, "_across": intrinsics.across}

    @property
    def next_names(self) -> Globals:
        """Those of ``cuda_next``, in the kernel of another task."""
        return {**self.own_names, "_across": intrinsics.across}

    def numbering(self, number: str = "_t") -> Statements:
        """The statement that keeps the ``number`` of the iteration, where the body asks for it."""
        asked = any(reduction.at is not None for reduction in self._task.reductions)
        return generated(f"{NUMBER} = {number}") if asked else []

    @property
    def identities(self) -> list[str]:
        """Lines that set each local to the value that changes nothing."""
        lines = []
        for reduction in self._task.reductions:
            for variable in reduction.variables:
                dtype = self._dtype(variable)
                _check(reduction, dtype)
                lines.append(f"{variable.local} = {self._cast(variable)}({_identity(reduction, dtype)})")
            if reduction.at is not None:
                lines.append(f"{reduction.at.local} = {self._cast(reduction.at)}(-1)")
        return lines

    def _dtype(self, variable: Carried) -> str:
        return variable.dtype if variable.slot is None else dtype_of(variable.slot, self._dtypes)

    def _cast(self, variable: Carried) -> str:
        """The name of the conversion to the variable's type: an int64 that is an element is no Python number."""
        return f"_to_{self._dtype(variable)}{'' if variable.element is None else '_element'}"

    # --- combining ----------------------------------------------------------------------------------------------------

    @property
    def _combine(self) -> list[str]:
        """Lines that combine each local with its ``_b``, the result of other iterations."""
        return [line for reduction in self._task.reductions for line in self._combine_one(reduction)]

    def _combine_one(self, reduction: Reduction) -> list[str]:
        first = reduction.variables[0]
        new, old = f"{first.local}_b", first.local
        if reduction.at is None:
            return self._apply(reduction, old, new)
        at_new, at_old = f"{reduction.at.local}_b", reduction.at.local
        test = later = f"{at_new} > {at_old}"
        if reduction.operator != "store":
            tie = later if reduction.operator == "last" else f"{at_new} < {at_old}"
            test = f"{at_new} >= 0 and ({at_old} < 0 or {new} {reduction.test[0]} {old} or ({new} == {old} and {tie}))"
        locals_ = [*(variable.local for variable in reduction.variables), at_old]
        return [f"if {test}:", *(f"    {local} = {local}_b" for local in locals_)]

    def _apply(self, reduction: Reduction, place: str, value: str) -> list[str]:
        """Lines that combine ``place`` with ``value``, for an operator without ``at``."""
        variable = reduction.variables[0]
        nan = np.dtype(self._dtype(variable)).kind == "f"
        return applied(reduction.operator, place, value, self._cast(variable), nan=nan)

    @property
    def _finish(self) -> list[str]:
        """Lines that combine the kernel scalar or element of each reduction with the result of all iterations."""
        lines = []
        for reduction in self._task.reductions:
            places = [self._target(variable) for variable in reduction.variables]
            first = reduction.variables[0]
            if reduction.at is None:
                combined = self._apply(reduction, places[0], first.local)
                # No iteration that ran may have had this statement, and then the element need not exist.
                element = first.element is not None
                lines += [f"if {self._changes(reduction, first)}:", *indented(combined)] if element else combined
                continue
            test = f"{reduction.at.local} >= 0"
            if reduction.operator != "store":
                test += f" and {first.local} {reduction.test} {places[0]}"
            stores = zip(places, reduction.variables, strict=True)
            lines += [f"if {test}:", *(f"    {place} = {variable.local}" for place, variable in stores)]
        return lines

    def _changes(self, reduction: Reduction, variable: Carried) -> str:
        """A condition: the local is not the value that changes nothing. Of -0.0, which equals 0.0, the sign tells."""
        dtype, local, cast = self._dtype(variable), variable.local, self._cast(variable)
        identity = _identity(reduction, dtype)
        if identity != "-0.0":
            return f"{local} != {cast}({identity})"
        if np.dtype(dtype).kind == "c":
            return f"{local}.imag != 0 or {local}.real != 0 or _copysign(1.0, {local}.real) > 0"
        return f"{local} != 0 or _copysign({cast}(1.0), {local}) > 0"

    def _target(self, variable: Carried) -> str:
        if variable.element is not None:
            return ast.unparse(variable.element)
        if self._into:
            return self._into
        assert variable.slot is not None
        return slot_place(variable.slot, self._dtypes)

    def _load(self, number: str) -> list[str]:
        """Lines that load partial results into the ``_b`` of each local."""
        return [f"{v.local}_b = {self._partial(v, number)}" for v in self._carried]

    def _store(self, number: str) -> list[str]:
        return [f"{self._partial(v, number)} = {v.local}" for v in self._carried]

    def _partial(self, variable: Carried, number: str) -> str:
        return typed_place(variable.partials, self._dtype(variable), number)

    # --- CUDA ---------------------------------------------------------------------------------------------------------

    def cuda_finish(self, first: Statements, then: Statements) -> Statements:
        """What a kernel does after its iterations: ``_n`` is how many there are in all, ``_lane`` and ``_width`` the thread's.

        Two rounds at most: the threads of the block, which are whole warps, then, in the block that finishes last, the results
        of all blocks. One thread stores them, with ``first`` before and ``then`` behind.
        """
        ticket = self._task.ticket
        assert ticket is not None
        statements = generated(
            "_blocks = _assume_u32(_cuda.gridDim.x * _cuda.gridDim.y)",
            "for _round in _range(2):",
            *indented(self._in_block("_shared")),
            "    if _round == 1 or _blocks == 1:",
            "        break",
            "    if _lane == 0:",
            "        _block = _assume_u32(_cuda.blockIdx.y * _cuda.gridDim.x + _cuda.blockIdx.x)",
            *indented(self._store("_block"), 2),
            # The results are in memory before the ticket says so, and are read after it was seen.
            "        _cuda.threadfence()",
            f"        _done = _atomic_add({SLOTS.name}, {ticket.index}, 1)",
            "        _shared_ticket[0] = _done",
            # For the whole block, which the barrier keeps behind it.
            "        if _done == _blocks - 1: _cuda.threadfence()",
            "    _cuda.syncthreads()",
            "    if _shared_ticket[0] != _blocks - 1:",
            "        return",
            *indented(self.identities),
            *indented(self._of_blocks(self._partial)),
            "if _lane == 0:",
            "    if _blocks > 1:",
            f"        {SLOTS.name}[{ticket.index}] = 0",
            "    first",
            "    if _n > 0:",
            *indented(self._finish, 2),
            "    then",
            first=first,
            then=then,
        )
        shared = [*self._shared("_shared"), "_shared_ticket = _cuda.shared.array(1, _word)"]
        return [*shared_arrays(self._task.span, shared), *statements]

    def _shared(self, prefix: str) -> list[str]:
        """Lines that make the shared memory of ``_in_block``."""
        return [f"{prefix}{v.local} = _cuda.shared.array({_WARPS}, _type_{self._dtype(v)})" for v in self._carried]

    def _in_block(self, prefix: str) -> list[str]:
        """Lines that combine the locals of all threads of a block; every thread has the result then."""
        locals_ = [variable.local for variable in self._carried]
        # Every lane has the result then: no barrier, and one warp more would not take longer.
        halves = ["while _offset > 0:", *indented(self._halves("_offset")), "    _offset >>= 1"]
        return [
            f"_offset = _min(_width, {WARP}) >> 1",
            *halves,
            f"if _width > {WARP}:",
            f"    if _lane & {WARP - 1} == 0:",
            *(f"        {prefix}{local}[_lane >> {_WARP_BITS}] = {local}" for local in locals_),
            "    _cuda.syncthreads()",
            *indented(self.identities),
            f"    _warp = _lane & {_WARPS - 1}",
            f"    if _warp < _width >> {_WARP_BITS}:",
            *(f"        {local} = {prefix}{local}[_warp]" for local in locals_),
            f"    _offset = {_WARPS // 2}",
            *indented(halves),
        ]

    def _halves(self, offset: str) -> list[str]:
        """Lines that combine the locals of lanes so far apart; both have the result then."""
        return [*(f"{local}_b = _across({local}, {offset})" for local, _ in self.locals), *self._combine]

    def in_warp(self, lanes: int) -> list[str]:
        """Lines that combine the locals of so many neighbouring lanes, a power of two; each of them has the result then."""
        offsets = (lanes >> bit for bit in range(1, lanes.bit_length()))
        return [line for offset in offsets for line in self._halves(str(offset))]

    def in_one_block(self, count: str, part: str) -> Statements:
        """Let one block of threads combine ``count`` results: ``part`` is the code of one, with its number ``_part``."""
        lines = [
            "_lane, _width = _cuda.threadIdx.x, _cuda.blockDim.x",
            f"_blocks = {count}",
            *self.identities,
            *self._of_blocks(lambda _, number: part.replace("_part", number)),
            *self._in_block("_shared"),
        ]
        return [*shared_arrays(self._task.span, self._shared("_shared")), *generated(*lines)]

    def _of_blocks(self, partial: _Partial) -> list[str]:
        """Lines that combine the identity with results of ``_blocks`` blocks: those that the thread has of them."""
        return [
            "_block = _lane",
            "while _block < _blocks:",
            *indented(self._load_several("_block", "_width", "_blocks", partial)),
            f"    _block += {_AT_ONCE} * _width",
        ]

    def cuda_leave(self, copy: str, second: Callable[[Slot], int]) -> Statements:
        """What a kernel does after its iterations that hands its results on, in copy number ``copy``.

        ``second`` gives the second place of partial results, for copies of odd number.
        """
        at = self._places(copy, second)
        return [
            *shared_arrays(self._task.span, self._shared("_shared")),
            *generated(
                *self._in_block("_shared"),
                "if _lane == 0:",
                "    _block = _assume_u32(_cuda.blockIdx.y * _cuda.gridDim.x + _cuda.blockIdx.x)",
                *(f"    {line}" for line in at),
                *(f"    {self._handed(v, '_block')} = {v.local}" for v in self._carried),
            ),
        ]

    def cuda_next(self, copy: str, second: Callable[[Slot], int]) -> tuple[Statements, Statements]:
        """What the next kernel does with what ``_blocks`` blocks of copy number ``copy`` left: the same as a last block does.

        Shared memory, and the code, with which every thread has the scalars combined with the results.
        """
        code = generated(
            *self._places(copy, second),
            *self.identities,
            *self._of_blocks(self._handed),
            *self._in_block("_left"),
            "if _n > 0:",
            *indented(self._finish),
        )
        return shared_arrays(self._task.span, self._shared("_left")), code

    def _places(self, copy: str, second: Callable[[Slot], int]) -> list[str]:
        """Lines that find the places of partial results."""
        lines = []
        for v in self._carried:
            size = itemsize(self._dtype(v))
            first, other = (word * WORD // size for word in (v.partials.index, second(v.partials)))
            lines.append(f"_at{v.local} = {first} if ({copy}) & 1 == 0 else {other}")
        return lines

    def _handed(self, variable: Carried, number: str) -> str:
        """As ``_partial``, behind ``_places``."""
        return f"{slots_name(self._dtype(variable))}[_at{variable.local} + {number}]"

    def _load_several(self, number: str, step: str, count: str, partial: _Partial) -> list[str]:
        """Lines that combine partial results ``number``, ``number + step`` and so on, which are loaded together.

        Past the end the last one is loaded again, and forgotten.
        """
        lines = []
        for part in range(_AT_ONCE):
            at = f"{number} + {part} * {step}" if part else number
            lines += [f"_part{part} = {at}", f"_from{part} = _min(_part{part}, {count} - 1)"]
            lines += [f"{v.local}_{part} = {partial(v, f'_from{part}')}" for v in self._carried]
        for part in range(_AT_ONCE):
            taken = [*(f"{v.local}_b = {v.local}_{part}" for v in self._carried), *self._combine]
            lines += [f"if _part{part} < {count}:", *indented(taken)]
        return lines

    # --- one block of CUDA: ``places`` are subscripts up to the thread's number -----------------------------------------

    @property
    def locals(self) -> list[tuple[str, str]]:
        """The locals that the iterations combine, each with its dtype."""
        return [(variable.local, self._dtype(variable)) for variable in self._carried]

    def block_store(self, places: Mapping[str, str]) -> list[str]:
        """Lines that store what the thread's iterations made."""
        return [f"{places[local]}_lane] = {local}" for local, _ in self.locals]

    def block_combine(self, places: Mapping[str, str]) -> Statements:
        """Combine the value of thread ``_lane`` with those of every ``_part``-th one behind it, of ``_held``."""
        return generated(
            *_loads(places, "_lane"),
            "for _other in _range(_lane + _part, _held, _part):",
            *(f"    {local}_b = {place}_other]" for local, place in places.items()),
            *indented(self._combine),
            *self.block_store(places),
        )

    def block_finish(self, places: Mapping[str, str]) -> Statements:
        """Combine the kernel scalars and elements with what is left in the place of the first thread."""
        return generated(*_loads(places, "0"), *self._finish)

    # --- CPU ----------------------------------------------------------------------------------------------------------

    def chunk_partials(self) -> Statements:
        """Store the results of a chunk."""
        return generated(*self._store("_chunk"))

    def cpu_finish(self) -> Statements:
        """Combine the results of ``_chunks`` chunks, in order, and then the places with them."""
        combine = indented([*self._load("_part"), *self._combine])
        return generated(*self.identities, "for _part in _range(_chunks):", *combine, *self._finish)

    @property
    def local(self) -> str:
        """The local of the only variable that the iterations combine."""
        (variable,) = self._carried
        return variable.local

    @property
    def dtype(self) -> str:
        """The type of that."""
        ((_, dtype),) = self.locals
        return dtype

    def combined(self, count: str, part: str) -> list[str]:
        """Lines that combine ``count`` results of one reduction, in order: ``part`` is the code of one, number ``_part``."""
        combine = indented([f"{self.local}_b = {part}", *self._combine])
        return [*self.identities, f"for _part in _range({count}):", *combine]

    def of_parts(self, count: str, part: str) -> list[str]:
        """The same, and lines that combine the place of the reduction with them."""
        return [*self.combined(count, part), *self._finish]

    def reassociable_sums(self) -> tuple[list[ast.stmt], dict[str, object]]:
        """The body with sums, products and extremes of floats in whatever order vectorises, and the globals that this needs."""
        locals_ = {
            first.local
            for reduction in self._task.reductions
            if reduction.operator in ("+", "*", "min", "max")
            and self._dtype(first := reduction.variables[0]) in ("float32", "float64")
        }
        body = list(self._task.body)
        if not locals_:
            return body, {}
        words = (each.reassociable for each in OPERATIONS.all)
        names: dict[str, object] = {f"_{word.__name__}": word for word in words if word is not None}
        rewriter = _Reassociable(locals_, self._task.names)
        return [rewriter.visit(statement) for statement in copied(body)], names


def _loads(places: Mapping[str, str], number: str) -> list[str]:
    return [f"{local} = {place}{number}]" for local, place in places.items()]


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


def applied(operator: str, place: str, value: str, cast: str = "", *, nan: bool = False) -> list[str]:
    """Lines that combine ``place`` with ``value``; ``cast`` converts to the type of the place.

    ``nan``: a value that is one, as np.minimum makes of one (and the builtin `min` of none), is kept.
    """
    symbol = BY_NAME[operator].better
    if symbol:
        return [f"if {value} {symbol} {place}{f' or {value} != {value}' if nan else ''}:", f"    {place} = {value}"]
    operator = {"and": "&", "or": "|"}.get(operator, operator)
    return [f"{place} = {cast}({place} {operator} {value})"]


class _Reassociable(ast.NodeTransformer):
    """``s + e`` of a local to a call of ``reassociable_add``, ``min(s, e)`` to one of ``reassociable_min``."""

    def __init__(self, locals_: set[str], names: Globals) -> None:
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
