"""Event record and event wait nodes: ``qgraph.record(event)`` and ``qgraph.wait(event)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from qgraph.errors import ArgumentError, KernelSyntaxError
from qgraph.ir.argument_types import ConstantType, Leaf, ScalarType
from qgraph.ir.plan import Node
from qgraph.ir.program import EVERYTHING
from qgraph.nodes.kind import GraphNode, Owner, Planned, StatementKind, WrittenCall
from qgraph.records import dataclass
from qgraph.source import as_written

_LIBRARIES = ("torch", "cupy", "cuda")


def record(event: Any) -> None:
    """Record a CUDA event after all of the kernel before this point. At kernel level only, outside loops and branches.

    ``event``: an event of PyTorch, CuPy or cuda.core, or a handle. Nothing happens on the CPU, where None will do.
    """


def wait(event: Any) -> None:
    """Let all of the kernel after this point wait for a CUDA event. At kernel level only, outside loops and branches.

    ``event``: an event of PyTorch, CuPy or cuda.core, or a handle. Nothing happens on the CPU, where None will do.
    """


@dataclass(frozen=True, slots=True)
class EventMark(StatementKind):
    """Record ``event`` after everything before it, or let everything after it wait for ``event``; never in a loop or branch.

    ``event`` is a leaf that holds the handle, or a constant: an event object, a handle, or None, which only backends without
    events accept. They need no code for it: what they were told before has been done.
    """

    kind: Literal["record", "wait"]
    event: Leaf | ConstantType

    @staticmethod
    def words() -> tuple[Callable[..., None], ...]:
        """Both."""
        return record, wait

    @classmethod
    def statement(cls, word: object, call: WrittenCall) -> EventMark:
        """One event: a constant, or an argument of the kernel."""
        node = call.node
        kind: Literal["record", "wait"] = "record" if word is record else "wait"
        if len(node.args) != 1:
            raise KernelSyntaxError(f"`{as_written(node)}` takes one event", call.span(node), hint=f"write {kind}(event)")
        (argument,) = node.args
        event = call.meaning(argument)
        if isinstance(event, KernelSyntaxError):
            raise event
        handle = not isinstance(event, Leaf) or (isinstance(event.type, ScalarType) and "int" in event.type.dtype)
        if event is None or not handle:
            raise KernelSyntaxError(
                f"`{as_written(argument)}` is not an event",
                call.span(argument),
                hint="pass an event of PyTorch, CuPy or cuda.core, or its handle, as an argument of the kernel",
            )
        label = f"{kind} {as_written(argument)}"
        return cls(kind, event, span=call.span(node), label=label, effects=EVERYTHING)

    def planned(self) -> Sequence[Planned]:
        """One node."""
        return (Planned(self.kind, self.label, self.effects),)

    @property
    def not_in_block(self) -> str:
        """No thread can record or wait for an event."""
        return "it has an event"

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """The node, with an event of its own until a call tells which."""
        return EventNode(node, owner, self)


class EventNode(GraphNode):
    """Records an event, or waits for one. Until the first call tells which, it is one of its own."""

    changes = True

    def __init__(self, node: Node, owner: Owner, mark: EventMark) -> None:
        super().__init__(node, owner)
        self._records = mark.kind == "record"
        self._leaf = None if isinstance(mark.event, ConstantType) else owner.leaves[mark.event.name]
        self._event = owner.event()
        if isinstance(mark.event, ConstantType):
            self._event = _constant_event(mark, mark.event.value)

    def add(self, graph: Any) -> Any:
        """Add an event record or wait node."""
        driver = self.driver
        add = driver.cuGraphAddEventRecordNode if self._records else driver.cuGraphAddEventWaitNode
        self.handle = self.call(add, graph, None, 0, self._event)
        return self.handle

    def run(self, stream: int) -> None:
        """Record after, or wait before, what the stream gets."""
        if self._records:
            self.call(self.driver.cuEventRecord, self._event, stream)
        else:
            self.call(self.driver.cuStreamWaitEvent, stream, self._event, 0)

    def define(self) -> None:
        """Give the definition the event."""
        driver = self.driver
        change = driver.cuGraphEventRecordNodeSetEvent if self._records else driver.cuGraphEventWaitNodeSetEvent
        self.call(change, self.handle, self._event)

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the event of a call."""
        if self._leaf is None:
            return False
        event = event_handle(values[self._leaf])
        if event == int(self._event):
            return False
        if self.executable is not None:
            driver = self.driver
            change = driver.cuGraphExecEventRecordNodeSetEvent if self._records else driver.cuGraphExecEventWaitNodeSetEvent
            self.call(change, self.executable, self.handle, event)
        self._event = event
        return True


def _constant_event(mark: EventMark, event: object) -> int:
    try:
        return event_handle(event)
    except ArgumentError as error:
        raise ArgumentError(error.found, mark.span, hint=error.hint) from None


# --- events of other libraries -----------------------------------------------------------------------------------------


def is_event_class(cls: type) -> bool:
    """Whether objects of ``cls`` are CUDA events: of PyTorch, CuPy or cuda.core, or with ``__cuda_event__``."""
    if hasattr(cls, "__cuda_event__"):
        return True
    return any(base.__name__ == "Event" and base.__module__.partition(".")[0] in _LIBRARIES for base in cls.__mro__)


def event_handle(event: Any) -> int:
    """The handle of an event.

    Args:
        event: a handle, or an object with ``__cuda_event__`` (a handle, or a method that gives one), ``cuda_event`` (PyTorch),
            ``ptr`` (CuPy) or ``handle`` (cuda.core).

    Raises:
        ArgumentError: it is none of these, or no event has been made for it yet.
    """
    for name in ("__cuda_event__", "cuda_event", "ptr", "handle"):
        handle = getattr(event, name, None)
        if handle is not None:
            return _valid(handle() if callable(handle) else handle, event)
    if isinstance(event, bool) or not hasattr(event, "__index__"):
        raise ArgumentError(
            f"{type(event).__name__} is not a CUDA event",
            hint="pass an event of PyTorch, CuPy or cuda.core, or its handle as an int",
        )
    return _valid(event, event)


def _valid(handle: Any, event: object) -> int:
    try:
        number = int(handle)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"the event handle {handle!r} of {type(event).__name__} is not a number") from error
    if number <= 0:
        raise ArgumentError(
            f"this {type(event).__name__} has no event of CUDA yet: its handle is {number}",
            hint="PyTorch makes the event when it is first recorded: call event.record() once before",
        )
    return number
