"""Host nodes, and the memcpy nodes that bring them their numbers: ``qgraph.host_callback(fn, *scalars)``."""

from __future__ import annotations

import ast
import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qgraph.compat import cpython
from qgraph.errors import KernelSyntaxError
from qgraph.ir.argument_types import ConstantType
from qgraph.ir.plan import Node
from qgraph.ir.program import EVERYTHING, WORD, Effects, Slot
from qgraph.language import (
    C_FUNCTION_HINT,
    call_c_function,
    copied_data,
    is_c_function,
    pointer_to,
    takes_a_pointer,
)
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
from qgraph.source import as_written


def host_callback(fn: Callable[..., object], *scalars: Any) -> None:
    """Call ``fn`` on the host with the values that ``scalars`` have at this point of the kernel.

    At kernel level only, outside loops and branches. On CUDA ``fn`` runs on a driver's thread and may not use CUDA; what it
    raises is raised by the next call that waits. A C function made by ctypes is called without the interpreter's lock; it
    takes one pointer, ``void (*)(void *)``, which is the second argument (a ctypes object, an address, or bytes, of which it
    gets a copy that it may only read; known when the kernel is compiled) or null.
    """
    if is_c_function(fn):
        call_c_function(fn, *scalars)
    else:
        fn(*scalars)


@dataclass(frozen=True, slots=True)
class HostCall(StatementKind):
    """Call ``function`` on the host, after everything before it and before everything after it; never in a loop or branch.

    It gets ``arguments``: the numbers that lie in slots, and constants. A C function (made by ctypes) gets one pointer: its
    one constant, or none. It may look at any memory. ``name`` is unique in the kernel.
    """

    name: str
    function: Callable[..., object] = field(compare=False)
    arguments: tuple[Slot | ConstantType, ...]

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
                f"`{as_written(node)}` names no function", call.span(node), hint="write host_callback(fn, *scalars)"
            )
        function = _function(call, node.args[0])
        arguments: tuple[Slot | ConstantType, ...]
        if is_c_function(function):
            if not takes_a_pointer(function):
                raise KernelSyntaxError(
                    f"`{ast.unparse(node.args[0])}` is a C function, but no `void (*)(void *)`: {_declared(function)}",
                    call.span(node.args[0]),
                    hint=C_FUNCTION_HINT,
                )
            arguments = _c_arguments(call)
        else:
            arguments = tuple(_argument(call, argument) for argument in node.args[1:])
        name = call.name("callback")
        label = f"{as_written(node.args[0])}(...)" if len(node.args) > 1 else f"{as_written(node.args[0])}()"
        return cls(name, function, arguments, span=call.span(node), label=label, effects=EVERYTHING)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots among the arguments."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Slot))

    def planned(self) -> Sequence[Planned]:
        """First the numbers that the host gets are copied, if there are any."""
        copied = Effects(frozenset(slot.name for slot in self.slots), frozenset({self.name}))
        called = self.effects | Effects(frozenset({self.name}))
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
        numbers = Numbers(self, readers)
        return self.name, _CFunction(self) if is_c_function(self.function) else CheckedFunction(_reading(self, numbers))

    def run_on_host(self, node: Node, run: HostRun) -> None:
        """Call the function, here and now."""
        if node.kind == "callback":
            if is_c_function(self.function):
                call_c_function(self.function, c_data(self))
            else:
                self.function(*Numbers(self, run.reader).read(run.slots))

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """One of the two nodes, which share the numbers."""

        def passed() -> _CallbackData:
            numbers = Numbers(self, owner.reader)
            pinned = owner.pinned(max(1, numbers.words))
            return _CallbackData(numbers, pinned, CalledFunction(self, numbers, pinned.words, owner.errors()))

        shared = owner.once(self.name, passed)
        return NumbersNode(node, owner, shared) if node.kind == "memcpy" else CallbackNode(node, owner, shared)


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


def _argument(call: WrittenCall, node: ast.expr) -> Slot | ConstantType:
    found = call.number(node)
    if found is None:
        raise KernelSyntaxError(
            f"`{as_written(node)}` is not a number, and a host callback takes numbers",
            call.span(node),
            hint="pass elements of arrays, such as x[0], or read the array after the kernel has run",
        )
    return found


def _c_arguments(call: WrittenCall) -> tuple[ConstantType, ...]:
    """The pointer that a C function gets, if it gets one."""
    extra = call.node.args[1:]
    if not extra:
        return ()
    found = call.meaning(extra[0])
    known = found.value if isinstance(found, ConstantType) else _MISSING
    if len(extra) > 1 or not (known is None or isinstance(known, (int, bytes, *cpython.C_DATA))):
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


class Numbers:
    """What the Python function of a host call gets, read from the scratch words ``first`` to ``first + words``."""

    __slots__ = ("_arguments", "_reader", "first", "words")

    def __init__(self, call: HostCall, readers: Readers) -> None:
        self._arguments = call.arguments
        self._reader = readers(call.slots)
        self.first, self.words = self._reader.first, self._reader.words

    def read(self, memory: Any, word: int = 0) -> list[Any]:
        """The arguments, from ``memory``, which starts with word number ``word`` of scratch."""
        numbers = iter(self._reader.read(memory, word))
        return [next(numbers) if isinstance(item, Slot) else item.value for item in self._arguments]


class CalledFunction:
    """The function of a host call for CUDA: ``address`` is called with ``data``.

    Args:
        call: a Python or C function, and its arguments.
        numbers: reads them for a Python function.
        memory: the words that it reads, on the host.
        keep: takes what the function raises, and a note.
    """

    __slots__ = ("_function", "address", "data")

    def __init__(self, call: HostCall, numbers: Numbers, memory: Any, keep: Callable[[BaseException, str], None]) -> None:
        # Whoever calls the address holds this object, and so the C function or what calls the Python one.
        self._function: Any = call.function
        self.data = 0
        if is_c_function(call.function):
            self.data = c_data(call)
        else:

            def run(_data: int | None) -> None:
                try:
                    call.function(*numbers.read(memory, numbers.first))
                except BaseException as error:  # noqa: BLE001 - it cannot pass through the driver: whoever waits gets it
                    keep(error, f"raised by the host callback {call.label} at {call.span}")

            self._function = _HostFunction(run)
        self.address = pointer_to(self._function)


class CheckedFunction:
    """A function for compiled CPU code: ``address`` is called with the address of scratch, and gives not 0 if it raised."""

    __slots__ = ("_error", "_function", "address", "data")

    def __init__(self, run: Callable[[int], None]) -> None:
        self._error = threading.local()
        self._function: Any = _CheckedFunction(self._checked(run))
        self.data = 0
        self.address = pointer_to(self._function)

    def _checked(self, run: Callable[[int], None]) -> Callable[[int | None], int]:
        def checked(scratch: int | None) -> int:
            try:
                run(scratch or 0)
            except BaseException as error:  # noqa: BLE001 - it cannot pass through compiled code: `tell` raises it
                self._error.value = error
                return 1
            return 0

        return checked

    def begin(self, find: Callable[[str], Any]) -> None:
        """It looks at no array."""

    def tell(self) -> None:
        """Raise what the function raised on this thread, if it did, and forget it."""
        error: BaseException | None = getattr(self._error, "value", None)
        if error is not None:
            self._error.value = None
            raise error


def _reading(call: HostCall, numbers: Numbers) -> Callable[[int], None]:
    """The Python function of a host call, as one of the address of scratch."""

    def run(scratch: int) -> None:
        memory = (ctypes.c_int64 * numbers.words).from_address(scratch + numbers.first * WORD)
        call.function(*numbers.read(memory, numbers.first))

    return run


class _CFunction:
    """A C function for compiled CPU code."""

    def __init__(self, call: HostCall) -> None:
        self.address, self.data = pointer_to(call.function), c_data(call)

    def begin(self, find: Callable[[str], Any]) -> None:
        """It looks at no array."""

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

    numbers: Numbers
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
    """Calls the function of a host call."""

    def __init__(self, node: Node, owner: Owner, passed: _CallbackData) -> None:
        super().__init__(node, owner)
        self._function = passed.function

    def add(self, graph: Any) -> Any:
        """Add a host node."""
        parameters = self.driver.CUDA_HOST_NODE_PARAMS()
        parameters.fn = self.driver.CUhostFn(self._function.address)
        parameters.userData = self._function.data
        self.handle = self.call(self.driver.cuGraphAddHostNode, graph, None, 0, parameters)
        return self.handle

    def run(self, stream: int) -> None:
        """Call it after the work that the stream has now."""
        driver = self.driver
        self.call(driver.cuLaunchHostFunc, stream, driver.CUhostFn(self._function.address), self._function.data)
