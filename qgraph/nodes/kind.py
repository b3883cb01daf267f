"""What a kind of node is, and what the stages give it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from qgraph.errors import KernelSyntaxError
from qgraph.ir.argument_types import ConstantType, Leaf
from qgraph.ir.plan import Node
from qgraph.ir.program import Effects, NodeRecord, NodeStatement, Program, Task
from qgraph.ir.slots import Slot
from qgraph.records import dataclass
from qgraph.source import Span

T = TypeVar("T")

# --- what the stages pass in -------------------------------------------------------------------------------------------


class WrittenCall(Protocol):
    """A call of a kind's word at kernel level, as the frontend reads it; it has plain arguments."""

    node: ast.Call

    def span(self, node: ast.AST) -> Span:
        """The place of a node of the call."""

    def meaning(self, node: ast.expr, *, several: bool = False) -> ConstantType | Leaf | KernelSyntaxError | None:
        """What an expression is before the kernel runs: a constant, an argument, or why it is nothing any more.

        ``several``: a name for arrays that change places is a leaf, too.
        """

    def number(self, node: ast.expr) -> Slot | ConstantType | None:
        """A constant, or the slot in which a number lies when the statement is reached; None where it is no number."""

    def name(self, role: str) -> str:
        """A unique name that tells the line."""

    def shares(self, first: Leaf, second: Leaf) -> Literal["", "same", "overlap"]:
        """Whether two arguments of this call are the same array, or else share memory, where the kernel writes one of them."""

    def expect_one_element(self, flag: Leaf, node: ast.expr) -> None:
        """Let calls be refused in which the array ``flag``, an argument, has more elements than one, or none."""


class CpuCode(Protocol):
    """The function for the CPU that is being written."""

    @property
    def names(self) -> dict[str, object]:
        """The globals of the function."""

    def line(self, text: str) -> None:
        """Append a line, in the block where the statement stands."""

    def leaf(self, name: str) -> str:
        """The parameter that is a leaf."""

    def slots(self) -> str:
        """The parameter that is scratch."""

    def callback(self, name: str) -> str:
        """A parameter for an address that ``on_cpu`` gives: that of ``name``, or of its ``_data``."""

    def end_kernel_if(self, test: str) -> None:
        """End the kernel where ``test`` holds."""


class Reader(Protocol):
    """Reads the numbers in some slots: ``words`` words of scratch, from word ``first`` on."""

    first: int
    words: int

    def read(self, memory: Any, word: int = 0) -> Sequence[Any]:
        """The numbers, in order, from ``memory``, which starts with word number ``word`` of scratch."""


Readers = Callable[[Sequence[Slot]], Reader]


class HostFunction(Protocol):
    """A C function that compiled code for the CPU calls: ``address``, with ``data``."""

    address: int
    data: int

    def begin(self, find: Callable[[str], Any]) -> None:
        """Before a call on this thread: ``find`` gives its arrays, as NumPy's, by leaf."""

    def end(self) -> None:
        """After it, however it ended."""

    def tell(self) -> None:
        """Raise what the function raised on this thread, if it did, and forget it."""


class HostRun(Protocol):
    """A launch without a graph, one node after another in plain Python."""

    @property
    def slots(self) -> Any:
        """All of scratch, as int64."""

    @property
    def reader(self) -> Readers:
        """Makes readers of numbers in it."""

    def leaf(self, name: str) -> Any:
        """An array as NumPy's, or a number."""


class Words(Protocol):
    """Page-locked memory: ``words`` at ``pointer``."""

    pointer: int
    words: Any


class Owner(Protocol):
    """The executable that a node is made for, and the driver.

    Attributes:
        driver: ``cuda.bindings.driver``.
        call: calls one of its functions, and raises where that fails.
        leaves: the place of each leaf among the values of a call.
        hosts: the place of each host value.
        scratch: the address of scratch memory.
        in_graphs: whether nodes live in graphs, else each is launched by itself.
        one_graph: whether there is one graph, which may take and free memory.
        ordinal: the number of the device.
        allocations: by leaf, what takes the memory of temporaries in the graph.
    """

    driver: Any
    call: Callable[..., Any]
    leaves: Mapping[str, int]
    hosts: Mapping[str, int]
    scratch: int
    in_graphs: bool
    one_graph: bool
    ordinal: int
    allocations: dict[str, Allocating]
    reader: Readers

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What ``make`` made for the first node that asked for ``key``."""

    def pinned(self, words: int) -> Words:
        """Page-locked memory for as long as graphs may run."""

    def room(self) -> int:
        """The address of two words of device memory that no kernel uses: where nodes point before the first call."""

    def event(self) -> int:
        """An event of its own, where a node points before the first call."""

    def page_locked(self, nbytes: int) -> Any:
        """Page-locked bytes, as an array of ctypes, for as long as anybody holds it."""

    def copy_out(self, source: int, target: int, nbytes: int, stream: int) -> None:
        """Copy device memory to page-locked memory, without waiting."""

    def copy_in(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """The other way round."""

    def recorder(self, statement: Any) -> Callable[[Sequence[Any]], Any]:
        """What records a ``LibraryCall`` for given arrays, as a ``RecordedGraph``: the same one for the same arrays."""

    def errors(self) -> Callable[[BaseException, str], None]:
        """Takes an exception, which whoever waits next raises, and a note. The process waits for the device when it ends."""


# --- nodes of a CUDA graph ---------------------------------------------------------------------------------------------


class GraphNode(ABC):
    """A node of an executable, in a graph or launched by itself.

    Attributes:
        index: its place in the plan.
        executable: the CUgraphExec it can be patched in.
        handle: its CUgraphNode.
        rejected: the last update could not be made in the executable graph, which must be made again.
        changes: whether ``update`` may change it.
        off: whether it has nothing to do for the values of the last ``update``.
    """

    changes = False
    off = False

    def __init__(self, node: Node, owner: Owner) -> None:
        self.index = node.index
        self.driver, self.call = owner.driver, owner.call
        self.executable: Any = None
        self.handle: Any = None
        self.rejected = False

    @abstractmethod
    def add(self, graph: Any) -> Any:
        """Add it without edges to ``graph`` (a CUgraph); gives the CUgraphNode."""

    @abstractmethod
    def run(self, stream: int) -> None:
        """Do the same in ``stream``'s order."""

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the leaves and host values of a call; gives whether anything changed."""
        return False

    def define(self) -> None:  # noqa: B027 - most nodes never change
        """Give the definition what the last update said, before it is made executable again."""

    def instantiated(self) -> None:  # noqa: B027 - most nodes are always on
        """Do what can only be done in an executable that was just made."""

    def forget(self) -> None:  # noqa: B027 - most nodes hold no addresses
        """Let go of the arrays of the last call: the node is about to enter another graph."""


class Allocating(Protocol):
    """A node that takes memory of its graph, at ``pointer``."""

    handle: Any
    pointer: int

    def allocate(self, graph: Any, nbytes: int) -> None:
        """Add it to ``graph`` (a CUgraph) without edges: it takes ``nbytes`` bytes, at least 1."""


# --- kinds -------------------------------------------------------------------------------------------------------------


class NodeKind(NodeRecord, ABC):
    """What a node of the plan works on, and all that is done with it."""

    __slots__ = ()

    @property
    @abstractmethod
    def touched(self) -> Effects:
        """What it reads and writes."""

    @abstractmethod
    def in_graph(self, node: Node, owner: Owner) -> GraphNode | None:
        """``node`` in an executable; None where a kernel runs the node's task instead."""

    def run_on_host(self, node: Node, run: HostRun) -> None:
        """Do what ``node`` does, unless it has a task: that runs by itself. All before it has been done."""


class LoopKind(NodeKind):
    """A kind of node that does what some loops do: where nodes live in a graph, it takes the place of their kernels."""

    __slots__ = ()
    name = ""

    @classmethod
    @abstractmethod
    def of_loop(cls, program: Program, task: Task) -> LoopKind | None:
        """What the node of ``task`` works on; None where the loop is something else."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A node that a statement becomes: its kind and label in the plan, and what gives it edges."""

    kind: str
    label: str
    effects: Effects


class StatementKind(NodeStatement, NodeKind):
    """A statement of the kernel itself that becomes nodes of its own.

    Attributes:
        keywords: the names of its keyword arguments.
        not_in_body: why CUDA keeps it out of loops and branches of the device, as the end of a sentence; empty where it may.
        only_on_cuda: why no other backend runs it, as a sentence; empty where they do.
    """

    __slots__ = ()
    keywords: tuple[str, ...] = ()
    not_in_body = "whose body CUDA keeps free of host calls and events"
    only_on_cuda = ""

    @classmethod
    def is_word(cls, called: object) -> bool:
        """Whether a call of ``called`` is such a statement."""
        return any(called is word for word in cls.words())

    @staticmethod
    def words() -> tuple[Callable[..., None], ...]:
        """The functions that a user calls."""
        return ()

    @classmethod
    @abstractmethod
    def statement(cls, word: object, call: WrittenCall) -> StatementKind:
        """The statement of a call of ``word``.

        Raises:
            KernelSyntaxError: the arguments are not what the word takes.
        """

    @property
    def parts(self) -> Sequence[StatementKind]:
        """The statement, with what comes right before and after it."""
        return (self,)

    @abstractmethod
    def planned(self) -> Sequence[Planned]:
        """The nodes, in order."""

    @property
    @abstractmethod
    def not_in_block(self) -> str:
        """Why the kernel cannot run as one block of threads, as what it does."""

    @property
    def touched(self) -> Effects:
        """The effects."""
        return self.effects

    def cpu_code(self, out: CpuCode) -> None:
        """Write what the statement does on the CPU, where all before it has been done."""

    def on_cpu(self, readers: Readers) -> tuple[str, HostFunction] | None:
        """The function whose address ``cpu_code`` has as a parameter, with its name there."""
        return None


def kind_of(record: NodeRecord) -> NodeKind:
    """What is asked about a node, or a statement that becomes one."""
    assert isinstance(record, NodeKind)
    return record


def statement_kind(statement: NodeStatement) -> StatementKind:
    """The same for a statement."""
    assert isinstance(statement, StatementKind)
    return statement
