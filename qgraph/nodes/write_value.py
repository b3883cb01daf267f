"""Batch memory operation nodes: ``qgraph.write_value(flag, value)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qgraph.errors import ArgumentError, KernelSyntaxError, KernelTypeError
from qgraph.ir.argument_types import ArrayType, Leaf, ScalarType
from qgraph.ir.plan import Node
from qgraph.ir.program import HOST, Effects
from qgraph.nodes.kind import CpuCode, GraphNode, HostRun, Owner, Planned, StatementKind, WrittenCall
from qgraph.nodes.memory_region import allocation_of
from qgraph.records import dataclass
from qgraph.source import as_written

_DTYPES = ("int32", "int64", "uint32", "uint64")


def write_value(flag: Any, value: int) -> None:
    """Write ``value`` to ``flag``, after all that the kernel wrote before this point, for whoever watches the flag meanwhile.

    At kernel level only, outside loops and branches. ``flag``: an argument of the kernel, an array of one integer of 32 or 64
    bits. ``value``: an integer that is known when the kernel is compiled, or an argument of the flag's type. On CUDA no kernel
    runs: whoever sees the value, on the host or on another GPU, sees what was written before.

    Raises:
        ArgumentError: ``flag`` is no array of one element.
    """
    if getattr(flag, "size", None) != 1:
        raise ArgumentError("the flag of write_value is no array of one element", hint="pass np.zeros(1, np.int32), for one")
    flag[(0,) * flag.ndim] = value


@dataclass(frozen=True, slots=True)
class WriteValue(StatementKind):
    """Write ``value``, a number or a leaf, to the one element of ``flag``."""

    flag: str
    type: ArrayType
    value: int | Leaf

    @staticmethod
    def words() -> tuple[Callable[..., None], ...]:
        """One."""
        return (write_value,)

    @classmethod
    def statement(cls, word: object, call: WrittenCall) -> WriteValue:
        """A flag, and an integer that the host knows."""
        node = call.node
        if len(node.args) != 2:
            raise KernelSyntaxError(
                f"`{as_written(node)}` does not say what to write where", call.span(node), hint="write write_value(flag, 1)"
            )
        flag = call.meaning(node.args[0])
        if isinstance(flag, KernelSyntaxError):
            raise flag
        if not isinstance(flag, Leaf) or not isinstance(flag.type, ArrayType):
            raise KernelSyntaxError(
                f"the flag `{as_written(node.args[0])}` is not an array argument",
                call.span(node.args[0]),
                hint="pass the one-element array itself, or a field of an argument: write_value(state.done, 1)",
            )
        if flag.type.dtype not in _DTYPES:
            raise KernelTypeError(
                f"the flag `{flag.path}` is an array of {flag.type.dtype}",
                call.span(node.args[0]),
                hint="the flag of write_value is an array of one integer of 32 or 64 bits, with or without a sign",
            )
        call.expect_one_element(flag, node.args[0])
        # Of what is written before it sees all, so nothing that comes before may be written after it.
        effects = Effects(frozenset({HOST}), frozenset({flag.name}))
        label = f"write {as_written(node.args[1])} to {as_written(node.args[0])}"
        return cls(flag.name, flag.type, _value(call, flag.type), span=call.span(node), label=label, effects=effects)

    def planned(self) -> Sequence[Planned]:
        """One node."""
        return (Planned("write", self.label, self.effects),)

    @property
    def not_in_block(self) -> str:
        """Whoever watches would see it before the kernel is done."""
        return "it writes a value for who watches it"

    def cpu_code(self, out: CpuCode) -> None:
        """A plain store."""
        value = out.leaf(self.value.name) if isinstance(self.value, Leaf) else self.value
        out.line(f"{out.leaf(self.flag)}[{', '.join('0' * self.type.ndim) or '()'}] = {value}")

    def run_on_host(self, node: Node, run: HostRun) -> None:
        """A plain store."""
        run.leaf(self.flag)[(0,) * self.type.ndim] = run.leaf(self.value.name) if isinstance(self.value, Leaf) else self.value

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """A batch of one memory operation, on two words of nobody until a call tells."""
        return WriteNode(node, owner, self)


def _value(call: WrittenCall, flag: ArrayType) -> int | Leaf:
    node = call.node.args[1]
    found = call.meaning(node)
    if isinstance(found, KernelSyntaxError):
        raise found
    if isinstance(found, Leaf):
        if isinstance(found.type, ScalarType) and found.type.dtype == flag.dtype:
            return found
        raise KernelTypeError(
            f"`{found.path}` is {found.type}, and the flag has {flag.dtype}",
            call.span(node),
            hint=f"pass the number as np.{flag.dtype}(...), or a flag of int64 for a Python int",
        )
    number = None if found is None else found.value
    if not isinstance(number, (int, np.integer)):
        raise KernelSyntaxError(
            f"`{as_written(node)}` is not a number that write_value takes",
            call.span(node),
            hint="write an integer, static(...) of one, or an argument of the kernel; what is computed goes to `flag[0] = ...`",
        )
    limits = np.iinfo(flag.dtype)
    if not limits.min <= int(number) <= limits.max:
        raise KernelTypeError(
            f"{int(number)} does not fit {flag.dtype}, the type of the flag",
            call.span(node),
            hint=f"write a number from {limits.min} to {limits.max}, or use a flag of another type",
        )
    return int(number)


class WriteNode(GraphNode):
    """Writes the value of the last call to its flag."""

    changes = True

    def __init__(self, node: Node, owner: Owner, write: WriteValue) -> None:
        super().__init__(node, owner)
        self._flag = owner.leaves[write.flag]
        self._value = write.value if isinstance(write.value, int) else 0
        self._value_leaf = owner.leaves[write.value.name] if isinstance(write.value, Leaf) else None
        self._bits = 8 * np.dtype(write.type.dtype).itemsize
        self._placeholder = owner.room()
        kinds = self.driver.CUstreamBatchMemOpType
        wide = self._bits == 64
        self._operation = self.driver.CUstreamBatchMemOpParams()
        self._operation.operation = kinds.CU_STREAM_MEM_OP_WRITE_VALUE_64 if wide else kinds.CU_STREAM_MEM_OP_WRITE_VALUE_32
        # CU_STREAM_WRITE_VALUE_DEFAULT: behind a barrier for all memory.
        self._operation.writeValue.flags = 0
        self._parameters = self.driver.CUDA_BATCH_MEM_OP_NODE_PARAMS()
        self._parameters.count, self._parameters.flags = 1, 0
        self._known: tuple[int, int, int | None] | None = None
        self.forget()

    def forget(self) -> None:
        """Write to the placeholder."""
        self._known = None
        self._set(self._placeholder, 0)

    def add(self, graph: Any) -> Any:
        """Add a batch memory operation node."""
        self._parameters.ctx = self.call(self.driver.cuCtxGetCurrent)
        self.handle = self.call(self.driver.cuGraphAddBatchMemOpNode, graph, None, 0, self._parameters)
        return self.handle

    def run(self, stream: int) -> None:
        """Write after the work that the stream has now."""
        self.call(self.driver.cuStreamBatchMemOp, stream, 1, [self._operation], 0)

    def define(self) -> None:
        """Give the definition the address and the value."""
        self.call(self.driver.cuGraphBatchMemOpNodeSetParams, self.handle, self._parameters)

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the flag and the value of a call."""
        value = self._value if self._value_leaf is None else int(values[self._value_leaf])
        pointer = values[self._flag].pointer
        allocation = allocation_of(self.driver, pointer)
        wanted = pointer, value, allocation
        if wanted == self._known and allocation is not None:
            return False
        # Forgotten first: should the driver refuse, the next call sets both again.
        self._known = None
        self._set(pointer, value)
        if self.executable is not None:
            self.call(self.driver.cuGraphExecBatchMemOpNodeSetParams, self.executable, self.handle, self._parameters)
        self._known = wanted
        return True

    def _set(self, pointer: int, value: int) -> None:
        operation = self._operation.writeValue
        operation.address = pointer
        if self._bits == 64:
            operation.value64 = value % (1 << 64)
        else:
            operation.value = value % (1 << 32)
        # Copied by the assignment.
        self._parameters.paramArray = [self._operation]
