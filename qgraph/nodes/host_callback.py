"""Host nodes, and the memcpy nodes that bring them their numbers: ``qgraph.host_callback(fn, *numbers_and_arrays)``."""

from __future__ import annotations

import ast
import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from qgraph.compat import cpython
from qgraph.errors import KernelSyntaxError
from qgraph.ir.argument_types import ConstantType
from qgraph.ir.plan import Node
from qgraph.ir.program import EVERYTHING, Effects
from qgraph.ir.slots import WORD, Slot
from qgraph.language import (
    C_FUNCTION_HINT,
    call_c_function,
    copied_data,
    is_c_function,
    pointer_to,
    takes_a_pointer,
)
from qgraph.nodes.host_copy import HostArray, HostCopies, HostCopy, block_of, copies_of, passed_arrays, read_only
from qgraph.nodes.kind import (
    CpuCode,
    GraphNode,
    HostFunction,
    HostRun,
    Owner,
    Planned,
    Readers,
    StatementKind,
    Words,
    WrittenCall,
)
from qgraph.operations.intrinsics import call_host
from qgraph.records import dataclass
from qgraph.source import as_written


def host_callback(fn: Callable[..., object], *passed: Any, writes: Any = None) -> None:
    """Call ``fn`` on the host with the values that ``passed`` have at this point of the kernel.

    At kernel level only, outside loops and branches. On CUDA ``fn`` runs on a driver's thread and may not use CUDA; what it
    raises is raised by the next call that waits. A C function made by ctypes is called without the interpreter's lock; it
    takes one pointer, ``void (*)(void *)``, which is the second argument (a ctypes object, an address, or bytes, of which it
    gets a copy that it may only read; known when the kernel is compiled) or null.

    Args:
        fn: the function.
        passed: numbers, and whole arrays without gaps between their elements, which ``fn`` gets as NumPy's: on CUDA copies,
            which are those of the next launch when the next one comes.
        writes: those of the arrays that ``fn`` may write, all if not given; it cannot write the others. What it may write is
            copied back on CUDA.
    """
    if is_c_function(fn):
        call_c_function(fn, *passed)
        return
    written = passed if writes is None else writes if isinstance(writes, tuple) else (writes,)
    fn(*(value if any(_is_same(value, each) for each in written) else _guarded(value) for value in passed))


def _is_same(value: Any, other: Any) -> bool:
    arrays = isinstance(value, np.ndarray) and isinstance(other, np.ndarray)
    return value is other or (arrays and value.__array_interface__ == other.__array_interface__)


def _guarded(value: Any) -> Any:
    return read_only(value) if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, slots=True)
class HostCall(StatementKind):
    """Call ``function`` on the host, after everything before it and before everything after it; never in a loop or branch.

    It gets ``arguments``: the numbers that lie in slots, arrays, and constants. A C function (made by ctypes) gets one pointer:
    its one constant, or none. It may look at any memory. ``name`` is unique in the kernel.
    """

    name: str
    function: Callable[..., object] = field(compare=False)
    arguments: tuple[Argument, ...]

    keywords = ("writes",)

    @staticmethod
    def words() -> tuple[Callable[..., None], ...]:
        """One."""
        return (host_callback,)

    @classmethod
    def statement(cls, word: object, call: WrittenCall) -> HostCall:
        """A function that is known when the kernel is compiled, and numbers; or a C function, and a pointer."""
        node = call.node
        if not node.args:
            raise KernelSyntaxError(
                f"`{as_written(node)}` names no function", call.span(node), hint="write host_callback(fn, *numbers_and_arrays)"
            )
        function = _function(call, node.args[0])
        arguments: tuple[Argument, ...]
        if is_c_function(function):
            if not takes_a_pointer(function):
                raise KernelSyntaxError(
                    f"`{ast.unparse(node.args[0])}` is a C function, but no `void (*)(void *)`: {_declared(function)}",
                    call.span(node.args[0]),
                    hint=C_FUNCTION_HINT,
                )
            arguments = _c_arguments(call)
        else:
            arguments = _arguments(call)
        name = call.name("callback")
        label = f"{as_written(node.args[0])}(...)" if len(node.args) > 1 else f"{as_written(node.args[0])}()"
        return cls(name, function, arguments, span=call.span(node), label=label, effects=EVERYTHING)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots among the arguments."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Slot))

    @property
    def arrays(self) -> tuple[HostArray, ...]:
        """The arrays among the arguments."""
        return tuple(argument for argument in self.arguments if isinstance(argument, HostArray))

    @property
    def parts(self) -> Sequence[StatementKind]:
        """Around the call each array is copied, and back if it may have been written."""
        blocks = {array.block: array for array in self.arrays}
        written = {array.block: array for array in self.arrays if array.written}
        before = [self._copy(array, back=False) for array in blocks.values()]
        return (*before, self, *(self._copy(array, back=True) for array in written.values()))

    def _copy(self, array: HostArray, *, back: bool) -> HostCopy:
        leaf = frozenset({array.leaf})
        effects = Effects(writes=leaf) if back else Effects(reads=leaf)
        label = f"memcpy of {array.path} {'back from' if back else 'for'} {self.label}"
        return HostCopy(self.name, array, back, span=self.span, label=label, effects=effects)

    def planned(self) -> Sequence[Planned]:
        """First the numbers that the host gets are copied, if there are any."""
        copied = Effects(frozenset(slot.name for slot in self.slots), frozenset({self.name}))
        blocks = frozenset(block_of(self.name, array) for array in self.arrays)
        called = self.effects | Effects(frozenset({self.name}) | blocks, blocks)
        callback = Planned("callback", f"callback {self.label}", called)
        copy = Planned("memcpy", f"memcpy of the numbers for {self.label}", copied)
        return (copy, callback) if self.slots else (callback,)

    @property
    def not_in_block(self) -> str:
        """No thread can call the host."""
        return "it calls the host"

    def cpu_code(self, out: CpuCode) -> None:
        """Call the function, here and now; the kernel ends where it raises."""
        out.names["_call_host"] = call_host
        address = out.callback(self.name)
        if is_c_function(self.function):
            out.line(f"_call_host({address}, {out.callback(f'{self.name}_data')})")
            return
        # Not 0 where the function raised: then the kernel ends here, as in Python.
        out.end_kernel_if(f"_call_host({address}, {out.slots()}) != 0")

    def on_cpu(self, readers: Readers) -> tuple[str, HostFunction]:
        """The function as one that compiled code can call."""
        return self.name, _CFunction(self) if is_c_function(self.function) else CheckedFunction(_reading(self, readers))

    def run_on_host(self, node: Node, run: HostRun) -> None:
        """Call the function, here and now."""
        if node.kind == "callback":
            if is_c_function(self.function):
                call_c_function(self.function, c_data(self))
            else:
                self.function(*Passed(self, run.reader).read(run.slots, 0, run.leaf))

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """One of the two nodes, which share the numbers."""

        def passed() -> _CallbackData:
            numbers = Passed(self, owner.reader)
            pinned = owner.pinned(max(1, numbers.words))
            copies = copies_of(self.name, owner) if self.arrays else None
            return _CallbackData(numbers, pinned, CalledFunction(self, numbers, pinned.words, copies, owner.errors()))

        shared = owner.once(self.name, passed)
        return NumbersNode(node, owner, shared) if node.kind == "memcpy" else CallbackNode(node, owner, self, shared)


Argument = Slot | ConstantType | HostArray

# --- arguments ---------------------------------------------------------------------------------------------------------


def _function(call: WrittenCall, node: ast.expr) -> Callable[..., object]:
    """The function to call, which must be known when the kernel is compiled."""
    bound = None if isinstance(node, ast.Lambda) else call.meaning(node)
    if isinstance(bound, KernelSyntaxError):
        raise bound
    if isinstance(bound, ConstantType) and callable(bound.value):
        return bound.value
    raise KernelSyntaxError(
        f"`{as_written(node)}` is not a function that is known when the kernel is compiled",
        call.span(node),
        hint="name a function of the module or of the function around, or pass it as an argument of the kernel",
    )


def _arguments(call: WrittenCall) -> tuple[Argument, ...]:
    """Numbers and arrays."""
    nodes = call.node.args[1:]
    return tuple(
        _number(call, node) if array is None else array for node, array in zip(nodes, passed_arrays(call), strict=True)
    )


def _number(call: WrittenCall, node: ast.expr) -> Slot | ConstantType:
    found = call.number(node)
    if found is None:
        raise KernelSyntaxError(
            f"`{as_written(node)}` is neither a number nor a whole array, and a host callback takes these",
            call.span(node),
            hint="pass the array and take its part in the function, or make one: t = qgraph.empty(n), then t[:] = ...",
        )
    return found


def _c_arguments(call: WrittenCall) -> tuple[ConstantType, ...]:
    """The pointer that a C function gets, if it gets one."""
    extra = [*call.node.args[1:], *(word.value for word in call.node.keywords)]
    if not extra:
        return ()
    found = call.meaning(extra[0])
    known = found.value if isinstance(found, ConstantType) else _MISSING
    if call.node.keywords or len(extra) > 1 or not (known is None or isinstance(known, (int, bytes, *cpython.C_DATA))):
        raise KernelSyntaxError(
            f"`{as_written(call.node.args[0])}` is a C function, which gets one pointer",
            call.span(extra[-1]),
            hint="pass nothing, or bytes, a ctypes object or an address that is known when the kernel is compiled",
        )
    return (ConstantType(copied_data(known)),)


def _declared(function: Any) -> str:
    """What ctypes was told of a function."""
    if function.argtypes is None:
        return "ctypes was not told its parameters"
    takes = ", ".join(kind.__name__ for kind in function.argtypes) or "nothing"
    gives = "nothing" if function.restype is None else getattr(function.restype, "__name__", "something")
    lock = ", and wants the interpreter's lock" if cpython.wants_lock(function) else ""
    return f"it takes {takes} and returns {gives}{lock}"


_MISSING = object()


# --- functions for whoever calls them ----------------------------------------------------------------------------------

# What CUDA calls: nothing comes back.
_HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# What a compiled CPU function calls: not 0 if it raised.
_CheckedFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Passed:
    """What the Python function of a host call gets; the numbers from the scratch words ``first`` to ``first + words``."""

    __slots__ = ("_arguments", "_reader", "first", "words")

    def __init__(self, call: HostCall, readers: Readers) -> None:
        self._arguments = call.arguments
        self._reader = readers(call.slots)
        self.first, self.words = self._reader.first, self._reader.words

    def read(self, memory: Any, word: int, find: Callable[[str], Any]) -> list[Any]:
        """The arguments, from ``memory``, which starts with word number ``word`` of scratch; ``find`` gives arrays by leaf."""
        numbers = iter(self._reader.read(memory, word))
        return [
            next(numbers) if isinstance(item, Slot) else item.of(find(item.leaf)) if isinstance(item, HostArray) else item.value
            for item in self._arguments
        ]


class CalledFunction:
    """The function of a host call for CUDA: ``address`` is called with ``data``.

    Args:
        call: a Python or C function, and its arguments.
        numbers: reads them for a Python function.
        memory: the words that it reads, on the host.
        copies: the copies of arrays, where it gets any; ``data`` is the number of those of a launch.
        keep: takes what the function raises, and a note.
    """

    __slots__ = ("_function", "address", "copies", "data")

    def __init__(
        self,
        call: HostCall,
        numbers: Passed,
        memory: Any,
        copies: HostCopies | None,
        keep: Callable[[BaseException, str], None],
    ) -> None:
        # Whoever calls the address holds this object, and so the C function or what calls the Python one.
        self._function: Any = call.function
        self.copies, self.data = copies, 0
        if is_c_function(call.function):
            self.data = c_data(call)
        else:

            def run(data: int | None) -> None:
                try:
                    arrays = {} if copies is None else copies.given(data or 0)
                    call.function(*numbers.read(memory, numbers.first, arrays.__getitem__))
                except BaseException as error:  # noqa: BLE001 - it cannot pass through the driver: whoever waits gets it
                    keep(error, f"raised by the host callback {call.label} at {call.span}")

            self._function = _HostFunction(run)
        self.address = pointer_to(self._function)


class CheckedFunction:
    """A function for compiled CPU code: ``address`` is called with the address of scratch, and gives not 0 if it raised."""

    __slots__ = ("_function", "_mine", "address", "data")

    def __init__(self, run: Callable[[int, Callable[[str], Any]], None]) -> None:
        self._mine = threading.local()
        self._function: Any = _CheckedFunction(self._checked(run))
        self.data = 0
        self.address = pointer_to(self._function)

    def _checked(self, run: Callable[[int, Callable[[str], Any]], None]) -> Callable[[int | None], int]:
        def checked(scratch: int | None) -> int:
            try:
                run(scratch or 0, self._mine.finds[-1])
            except BaseException as error:  # noqa: BLE001 - it cannot pass through compiled code: `tell` raises it
                self._mine.error = error
                return 1
            return 0

        return checked

    def begin(self, find: Callable[[str], Any]) -> None:
        """Take what finds the arrays of a call, by leaf. The function may call the kernel again."""
        if not hasattr(self._mine, "finds"):
            self._mine.finds = []
        self._mine.finds.append(find)

    def end(self) -> None:
        """Let go of the arrays."""
        self._mine.finds.pop()

    def tell(self) -> None:
        """Raise what the function raised on this thread, if it did, and forget it."""
        error: BaseException | None = getattr(self._mine, "error", None)
        if error is not None:
            self._mine.error = None
            raise error


def _reading(call: HostCall, readers: Readers) -> Callable[[int, Callable[[str], Any]], None]:
    """The Python function of a host call, as one of the address of scratch and of what finds arrays."""
    passed = Passed(call, readers)

    def run(scratch: int, find: Callable[[str], Any]) -> None:
        memory = (ctypes.c_int64 * passed.words).from_address(scratch + passed.first * WORD)
        call.function(*passed.read(memory, passed.first, find))

    return run


class _CFunction:
    """A C function for compiled CPU code."""

    def __init__(self, call: HostCall) -> None:
        self.address, self.data = pointer_to(call.function), c_data(call)

    def begin(self, find: Callable[[str], Any]) -> None:
        """It looks at no array."""

    def end(self) -> None:
        """Nothing was begun."""

    def tell(self) -> None:
        """It raises nothing."""


def c_data(call: HostCall) -> int:
    """The pointer that a C function gets."""
    if not call.arguments:
        return 0
    (argument,) = call.arguments
    assert isinstance(argument, ConstantType)
    return pointer_to(argument.value)


# --- in a graph --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CallbackData:
    """The numbers of a host call, where they go, and the function. They must outlive the graphs."""

    numbers: Passed
    pinned: Words
    function: CalledFunction


class NumbersNode(GraphNode):
    """Copies the scratch words that a host call reads to page-locked memory."""

    def __init__(self, node: Node, owner: Owner, passed: _CallbackData) -> None:
        super().__init__(node, owner)
        self._source = owner.scratch + passed.numbers.first * WORD
        self._pinned = passed.pinned
        self._nbytes = passed.numbers.words * WORD
        self._copy_out = owner.copy_out

    def add(self, graph: Any) -> Any:
        """Add a memcpy node."""
        driver, call = self.driver, self.call
        copy = driver.CUDA_MEMCPY3D()
        copy.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice = self._source
        copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.dstHost = self._pinned.pointer
        copy.WidthInBytes, copy.Height, copy.Depth = self._nbytes, 1, 1
        self.handle = call(driver.cuGraphAddMemcpyNode, graph, None, 0, copy, call(driver.cuCtxGetCurrent))
        return self.handle

    def run(self, stream: int) -> None:
        """Copy, without waiting."""
        self._copy_out(self._source, self._pinned.pointer, self._nbytes, stream)


class CallbackNode(GraphNode):
    """Calls the function of a host call, with the number of its arrays, if it gets any."""

    def __init__(self, node: Node, owner: Owner, statement: HostCall, passed: _CallbackData) -> None:
        super().__init__(node, owner)
        self._function = passed.function
        self._data = passed.function.data
        self._arrays = {array: owner.leaves[array.leaf] for array in statement.arrays}
        self.changes = bool(self._arrays)
        self._shapes: list[tuple[int, ...]] | None = None

    def add(self, graph: Any) -> Any:
        """Add a host node."""
        self.handle = self.call(self.driver.cuGraphAddHostNode, graph, None, 0, self._parameters())
        return self.handle

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the shapes of a call's arrays. Their copies have room already: their nodes come before this one."""
        views = {array: values[index] for array, index in self._arrays.items()}
        shapes = [view.shape for view in views.values()]
        if shapes == self._shapes:
            return False
        # Forgotten first: should the driver refuse, the next call sets everything again.
        self._shapes = None
        assert self._function.copies is not None
        self._data = self._function.copies.give(views)
        if self.executable is not None:
            self.call(self.driver.cuGraphExecHostNodeSetParams, self.executable, self.handle, self._parameters())
        self._shapes = shapes
        return True

    def define(self) -> None:
        """Give the definition the number of the arrays."""
        if self.changes:
            self.call(self.driver.cuGraphHostNodeSetParams, self.handle, self._parameters())

    def run(self, stream: int) -> None:
        """Call it after the work that the stream has now."""
        self.call(self.driver.cuLaunchHostFunc, stream, self.driver.CUhostFn(self._function.address), self._data)

    def _parameters(self) -> Any:
        parameters = self.driver.CUDA_HOST_NODE_PARAMS()
        parameters.fn = self.driver.CUhostFn(self._function.address)
        parameters.userData = self._data
        return parameters
