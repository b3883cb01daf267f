"""Calls of other libraries' functions: ``x[:] = np.linalg.solve(a, b)``, ``y[:] = a @ x``, ``qgraph.call(fn, x, y)``.

On CUDA what the function launches is recorded, for arrays at these addresses, and is a child-graph node; other arrays are
recorded again. On the other backends the function is called with NumPy arrays.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from qgraph.compat.numpy import linalg_to_place
from qgraph.errors import KernelSyntaxError
from qgraph.ir.argument_types import ArrayType, ConstantType, Leaf
from qgraph.ir.plan import Node
from qgraph.ir.program import Effects
from qgraph.nodes.child_graph import RecordedGraph
from qgraph.nodes.host_callback import CheckedFunction
from qgraph.nodes.kind import CpuCode, GraphNode, HostRun, Owner, Planned, Readers, StatementKind, WrittenCall
from qgraph.operations.intrinsics import call_host
from qgraph.operations.library_functions import LIBRARIES, LibraryFunction
from qgraph.records import dataclass
from qgraph.source import as_written

NAMES = {"torch": "PyTorch", "cupy": "CuPy"}
_WITHOUT_KIND = "leave it out: equal elements come in any order; where theirs matters, sort before the call and pass the result"


def call(fn: Callable[..., Any], *arrays: Any, reads: Any = None, writes: Any = None) -> Any:
    """Call a function of PyTorch or CuPy, or one that calls such functions, with ``arrays``.

    As a statement of the kernel, ``qgraph.call(fn, x, y)`` for a function that works in place, ``y[:] = qgraph.call(fn, x)``
    for one that gives an array. On CUDA ``fn`` is called when there are arrays at addresses that it was not called with yet,
    and what it launches is recorded: first with copies, then with the arrays. It may not wait for the device. It gets tensors
    where PyTorch's were passed or it is PyTorch's, else CuPy's arrays; on the other backends NumPy's.

    Args:
        fn: the function, known when the kernel is compiled.
        arrays: arguments of the kernel, temporaries, or their ``.T``; constants are passed as they are.
        reads: the arrays that it reads, all if not given; for the order of what the kernel does.
        writes: those that it writes, all if not given; none in an assignment.
    """
    return fn(*arrays)


@dataclass(frozen=True, slots=True)
class Operand:
    """A whole array, by its leaf, or its transpose."""

    leaf: str
    transposed: bool = False

    def of(self, array: Any) -> Any:
        """What the function gets."""
        if not self.transposed:
            return array
        # PyTorch has no `.T` of more than two axes.
        return array.permute(*reversed(range(array.ndim))) if hasattr(array, "permute") else array.T


@dataclass(frozen=True, slots=True)
class LibraryCall(StatementKind):
    """Call ``function`` with ``operands``, and assign the arrays that it gives to all of the ``targets``, where there are any.

    ``record`` is the function's, where it is one that is known; else it is called as it is. ``status`` is an array of one
    element, not 0 where the function had no answer. ``new``: the target is a new array, which nobody sees after an error.
    """

    name: str
    function: Callable[..., Any] = field(compare=False)
    record: LibraryFunction | None = field(compare=False)
    operands: tuple[Operand | ConstantType, ...]
    keywords_given: tuple[tuple[str, ConstantType], ...] = ()
    targets: tuple[str, ...] = ()
    status: str = ""
    new: bool = False

    not_in_body = ""
    keywords = ("reads", "writes")

    @staticmethod
    def words() -> tuple[Callable[..., None], ...]:
        """One."""
        return (call,)

    @classmethod
    def statement(cls, word: object, call: WrittenCall) -> LibraryCall:
        """A function that works in place, and arrays."""
        return made(call, call.node, None, {})

    @property
    def arrays(self) -> tuple[str, ...]:
        """The leaves: operands, then the targets and the status."""
        found = [each.leaf for each in self.operands if isinstance(each, Operand)]
        return (*found, *self.targets, *([self.status] if self.status else []))

    @property
    def constants(self) -> dict[str, Any]:
        """The keyword arguments."""
        return {name: constant.value for name, constant in self.keywords_given}

    def packed(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands as the function takes them: the first in a tuple, if it wants that."""
        first = 0 if self.record is None else self.record.packed
        return (tuple(operands[:first]), *operands[first:]) if first else operands

    def results(self, result: Any) -> Sequence[Any]:
        """The arrays of ``result``, one for each target."""
        return result if len(self.targets) > 1 else (result,) * len(self.targets)

    def with_arrays(self, names: Mapping[str, str], name: str) -> LibraryCall:
        """The same of other arrays, by leaf; ``name`` is its own."""
        operands = tuple(
            replace(each, leaf=names.get(each.leaf, each.leaf)) if isinstance(each, Operand) else each for each in self.operands
        )
        reads, writes = (
            frozenset(names.get(each, each) for each in some) for some in (self.effects.reads, self.effects.writes)
        )
        targets = tuple(names.get(each, each) for each in self.targets)
        new = self.new and targets == self.targets
        return replace(self, name=name, operands=operands, targets=targets, new=new, effects=Effects(reads, writes))

    def planned(self) -> Sequence[Planned]:
        """One node."""
        return (Planned("library", self.label, self.effects),)

    @property
    def is_short(self) -> bool:
        """Products, transforms, sorts and scans are; a factorisation has tens of kernels."""
        return self.record is not None and not self.record.module.endswith("linalg")

    @property
    def libraries(self) -> tuple[str, ...]:
        """Who can compute it, by the names of modules."""
        return LIBRARIES if self.record is None else self.record.libraries

    @property
    def told(self) -> str:  # type: ignore[override]
        """Who computes it."""
        names = " or ".join(NAMES[each] for each in self.libraries)
        chosen = ": the one whose arrays are passed, else that is imported, else installed" if len(self.libraries) > 1 else ""
        return f"on CUDA by {names}{chosen}"

    @property
    def not_in_block(self) -> str:
        """Its kernels have grids of their own."""
        return "it calls a library"

    def call_on_host(self, find: Callable[[str], Any]) -> None:
        """Call the function with NumPy arrays."""
        operands: list[Any] = [each.of(find(each.leaf)) if isinstance(each, Operand) else each.value for each in self.operands]
        try:
            with np.errstate(all="ignore"):
                if not self._to_place(operands, find):
                    result = self.function(*self.packed(operands), **self.constants)
                    for target, each in zip(self.targets, self.results(result), strict=True):
                        find(target)[...] = each
        except Exception as error:
            error.add_note(f"raised by `{self.label}` at {self.span}")
            raise
        if self.status:
            find(self.status)[...] = 0

    def _to_place(self, operands: Sequence[Any], find: Callable[[str], Any]) -> bool:
        """Whether the result is computed to its place, of which there need not be two then."""
        if self._is_product(operands):
            # NumPy sees where that is one of the operands.
            first, second = operands
            np.matmul(first, second, out=find(self.targets[0]))
            return True
        return self.new and self.record is not None and linalg_to_place(self.record.name, operands, find(self.targets[0]))

    def _is_product(self, operands: Sequence[Any]) -> bool:
        """Whether it is what ``np.matmul`` computes of matrices, or of stacks of them."""
        if self.function not in (np.dot, np.matmul):
            return False
        least, most = min(operand.ndim for operand in operands), max(operand.ndim for operand in operands)
        return least >= 2 and (most == 2 or self.function is np.matmul)

    def cpu_code(self, out: CpuCode) -> None:
        """Call the function, here and now; the kernel ends where it raises."""
        out.names["_call_host"] = call_host
        out.end_kernel_if(f"_call_host({out.callback(self.name)}, {out.slots()}) != 0")

    def on_cpu(self, readers: Readers) -> tuple[str, CheckedFunction]:
        """The function as one that compiled code can call."""
        return self.name, CheckedFunction(lambda _scratch, find: self.call_on_host(find))

    def run_on_host(self, node: Node, run: HostRun) -> None:
        """Call the function, here and now."""
        self.call_on_host(run.leaf)

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """A child graph, which is empty until a call tells what it works on."""
        return LibraryNode(node, owner, self)


def made(
    call: WrittenCall, node: ast.Call | ast.BinOp, record: LibraryFunction | None, target: Mapping[str, Leaf]
) -> LibraryCall:
    """The statement of ``node``, which calls the function of ``record``, or the first argument of ``qgraph.call``.

    Args:
        call: the kernel's call, for what its parts mean.
        node: a call, or a product with ``@``.
        record: of the function; None for ``qgraph.call``.
        target: by how they are written, the arrays that the results are assigned to; empty if there are none.
    """
    arguments = [node.left, node.right] if isinstance(node, ast.BinOp) else list(node.args)
    if record is not None and record.packed and arguments and isinstance(arguments[0], ast.Tuple):
        arguments[:1] = arguments[0].elts
    given = [] if isinstance(node, ast.BinOp) else node.keywords
    function: Any = None if record is None else record.function
    if record is None:
        function = _function(call, node, arguments.pop(0) if arguments else None)
    if record is not None and len(arguments) != record.arrays:
        raise KernelSyntaxError(
            f"`{as_written(node)}` has not {record.arrays} arguments by position, the arrays",
            call.span(node),
            hint=f"options have keywords: {', '.join(record.keywords) or 'here are none'}",
        )
    operands = tuple(_operand(call, each, array=record is not None) for each in arguments)
    allowed = ("reads", "writes") if record is None else record.keywords
    constants, named = {}, {}
    for keyword in given:
        if keyword.arg not in allowed:
            raise KernelSyntaxError(
                f"`{as_written(node)}` has the argument `{keyword.arg}`, which kernels do not know",
                call.span(keyword.value),
                hint=_WITHOUT_KIND if keyword.arg == "kind" else f"known are {', '.join(allowed) or 'none'}",
            )
        if record is None:
            named[keyword.arg] = _leaves(call, keyword.value)
        else:
            constants[keyword.arg] = _constant(call, keyword.value)
    used = frozenset(each.leaf for each in operands if isinstance(each, Operand))
    written = frozenset(leaf.name for leaf in target.values())
    effects = Effects(named.get("reads", used), named.get("writes", frozenset() if written else used) | written)
    if not effects.writes:
        raise KernelSyntaxError(
            f"`{as_written(node)}` writes nothing",
            call.span(node),
            hint="name what it writes, writes=(y,), or assign what it gives: y[:] = qgraph.call(...)",
        )
    # A new array has no name yet.
    label = " = ".join(each for each in (", ".join(target), as_written(node)) if each)
    return LibraryCall(
        call.name("library"),
        function,
        record,
        operands,
        tuple(constants.items()),
        tuple(leaf.name for leaf in target.values()),
        new="" in target,
        span=call.span(node),
        label=label,
        effects=effects,
    )


def _function(call: WrittenCall, node: ast.expr, first: ast.expr | None) -> Callable[..., Any]:
    bound = None if first is None or isinstance(first, ast.Lambda) else call.meaning(first)
    if isinstance(bound, KernelSyntaxError):
        raise bound
    if isinstance(bound, ConstantType) and callable(bound.value):
        function: Callable[..., Any] = bound.value
        return function
    raise KernelSyntaxError(
        f"`{as_written(node)}` names no function that is known when the kernel is compiled",
        call.span(node),
        hint="write qgraph.call(fn, *arrays), where fn is a function of the module or of the function around",
    )


def _operand(call: WrittenCall, node: ast.expr, *, array: bool) -> Operand | ConstantType:
    transposed = isinstance(node, ast.Attribute) and node.attr == "T"
    found = call.meaning(node.value if isinstance(node, ast.Attribute) and transposed else node, several=True)
    if isinstance(found, KernelSyntaxError):
        raise found
    if isinstance(found, Leaf) and isinstance(found.type, ArrayType):
        return Operand(found.name, transposed)
    if isinstance(found, ConstantType) and not array and not transposed:
        return found
    raise KernelSyntaxError(
        f"`{as_written(node)}` is not a whole array, and a library's function takes whole arrays",
        call.span(node),
        hint="name an argument or a temporary, or its transpose x.T; or make one: t = qgraph.empty_like(x), then t[:] = ...",
    )


def _leaves(call: WrittenCall, node: ast.expr) -> frozenset[str]:
    operands = [_operand(call, each, array=True) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]
    return frozenset(each.leaf for each in operands if isinstance(each, Operand))


def _constant(call: WrittenCall, node: ast.expr) -> ConstantType:
    found = call.meaning(node)
    if isinstance(found, ConstantType):
        return found
    raise KernelSyntaxError(
        f"`{as_written(node)}` is not known when the kernel is compiled",
        call.span(node),
        hint="write the value, or pass a qgraph.Static argument",
    )


# --- in a graph --------------------------------------------------------------------------------------------------------


class LibraryNode(GraphNode):
    """A copy of what was recorded for the arrays of the last call."""

    changes = True

    def __init__(self, node: Node, owner: Owner, statement: LibraryCall) -> None:
        super().__init__(node, owner)
        self._arrays = tuple(owner.leaves[name] for name in statement.arrays)
        self._record = owner.recorder(statement)
        self._recorded: RecordedGraph | None = None
        # What the node of the definition is a copy of.
        self._defined: RecordedGraph | None = None
        self._graph: Any = None

    def add(self, graph: Any) -> Any:
        """Add a child-graph node, for now an empty one if no call has told yet."""
        self._graph, self._defined = graph, self._recorded
        if self._recorded is not None:
            self.handle = self._recorded.add_to(graph)
            return self.handle
        nothing = self.call(self.driver.cuGraphCreate, 0)
        try:
            self.call(self.driver.cuGraphAddEmptyNode, nothing, None, 0)
            self.handle = self.call(self.driver.cuGraphAddChildGraphNode, graph, None, 0, nothing)
        finally:
            self.call(self.driver.cuGraphDestroy, nothing)
        return self.handle

    def run(self, stream: int) -> None:
        """Launch what was recorded."""
        assert self._recorded is not None
        self._recorded.run(stream)

    def forget(self) -> None:
        """Wait for the next call to tell."""
        self._recorded = None

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the arrays of a call."""
        recorded = self._record([values[index] for index in self._arrays])
        if recorded is self._recorded:
            return False
        self._recorded = recorded
        defined, executable = self._defined, self.executable
        self.rejected = defined is None or executable is None or not recorded.patch(executable, self.handle, defined)
        return True

    def define(self) -> None:
        """Put what was recorded in the place of the node."""
        assert self._recorded is not None
        self.handle = self._recorded.replace(self._graph, self.handle)
        # The executable graph that there is has the node before it.
        self._defined, self.executable = self._recorded, None
