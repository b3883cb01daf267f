"""The driver of graphs_on_simulator.py with contexts, resources and errors: the whole cuda backend runs on it.

``install_played()`` puts it in the place of the real one, and Numba's simulator in that of the compiler, in a process of the
simulator. ``install_real()`` puts the real one where its calls can be made to fail, too.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import importlib
import itertools
import types
from collections.abc import Callable
from typing import Any

from tests.runtime import graphs_on_simulator as simulated
from tests.runtime.played_captures import Captures

CONTEXT = 4711
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# What gives a resource, and what takes it back: each by the position of the handle among its arguments.
MADE = {
    "cuMemAlloc": "memory",
    "cuMemHostAlloc": "host memory",
    "cuGraphCreate": "graphs",
    "cuStreamEndCapture": "graphs",
    "cuGraphInstantiate": "executables",
    "cuEventCreate": "events",
    "cuStreamCreate": "streams",
    "cuLibraryLoadData": "libraries",
}
FREED = {
    "cuMemFree": "memory",
    "cuMemFreeHost": "host memory",
    "cuGraphDestroy": "graphs",
    "cuGraphExecDestroy": "executables",
    "cuEventDestroy": "events",
    "cuStreamDestroy": "streams",
    "cuLibraryUnload": "libraries",
}
# How many values a call gives, where it is not one or none.
_VALUES = {"cuFuncGetParamInfo": 2, "cuDevicePrimaryCtxGetState": 2, "cuGraphGetNodes": 2, "cuStreamGetCaptureInfo": 6}
_VALUES |= {"cuGraphNodeGetDependencies": 3, "cuGraphNodeGetDependentNodes": 3}
# Functions that modules made of the driver's when they were imported, which cuda-bindings 12 has in two forms.
_MADE_OF_IT = (
    ("qgraph.runtime.graph.graph_builder", "add_dependencies", "cuGraphAddDependencies"),
    ("qgraph.runtime.graph.graph_builder", "_add_any_node", "cuGraphAddNode"),
    ("qgraph.runtime.graph.graph_builder", "_get_dependencies", "cuGraphNodeGetDependencies"),
    ("qgraph.runtime.graph.graph_builder", "_get_dependents", "cuGraphNodeGetDependentNodes"),
    ("qgraph.runtime.graph.recorded_nodes", "_get_edges", "cuGraphGetEdges"),
    ("qgraph.runtime.driver.captures", "_get_info", "cuStreamGetCaptureInfo"),
    ("qgraph.runtime.driver.captures", "_update_dependencies", "cuStreamUpdateCaptureDependencies"),
    ("qgraph.runtime.driver.captures", "_add_dependencies", "cuGraphAddDependencies"),
)


class Played(Captures):
    """One device with one context, and streams that are done at once."""

    def __init__(self) -> None:
        super().__init__()
        self.current = [0]
        self.codes: dict[bytes, Any] = {}
        self.attributes = {16: 4, 75: 9, 76: 0, 97: 227 * 1024}

    # --- the device and its context ---

    def cuInit(self, flags):
        return (0,)

    def cuDriverGetVersion(self):
        return 0, 13000

    def cuDeviceGetCount(self):
        return 0, 1

    def cuDeviceGet(self, ordinal):
        return 0, ordinal

    def cuDeviceGetName(self, length, device):
        return 0, b"played\0"

    def cuDeviceGetAttribute(self, attribute, device):
        return 0, self.attributes[int(attribute)]

    def cuDevicePrimaryCtxRetain(self, device):
        return 0, CONTEXT

    def cuDevicePrimaryCtxGetState(self, device):
        return 0, 0, 1

    def cuCtxGetId(self, context):
        return (0, 77) if context is not None or self.current[-1] else (201, 0)

    def cuCtxGetCurrent(self):
        return 0, self.current[-1]

    def cuCtxGetDevice(self):
        return (0, 0) if self.current[-1] else (201, 0)

    def cuCtxSetCurrent(self, context):
        self.current[-1] = int(context)
        return (0,)

    def cuCtxPushCurrent(self, context):
        self.current.append(int(context))
        return (0,)

    def cuCtxPopCurrent(self):
        return 0, self.current.pop()

    def cuGetErrorName(self, code):
        with contextlib.suppress(ValueError):
            return 0, simulated.real.CUresult(int(code)).name.encode()
        return 1, None

    def cuGetErrorString(self, code):
        return 0, b"as the played driver was told"

    # --- memory ---

    def cuMemAllocManaged(self, size, flags):
        return self.cuMemAlloc(size)

    def cuMemFree(self, pointer):
        del simulated.memory[int(pointer)]
        return (0,)

    cuMemFreeHost = cuMemFree

    def cuMemsetD32Async(self, address, value, count, stream):
        ctypes.memmove(address, int(value).to_bytes(4, "little") * count, 4 * count)
        return (0,)

    def cuStreamWriteValue64(self, stream, address, value, flags):
        ctypes.memmove(address, int(value).to_bytes(8, "little"), 8)
        return (0,)

    def cuDeviceGraphMemTrim(self, device):
        return (0,)

    # --- code ---

    def cuLibraryLoadData(self, cubin, *_):
        return 0, self.codes[bytes(cubin)]

    def cuLibraryGetKernel(self, library, entry):
        return 0, (library, entry.decode())

    def cuKernelGetFunction(self, kernel):
        library, entry = kernel
        number = next(simulated.numbers)
        simulated.functions[number] = [library.kernels[entry], library.codes[entry], None]
        return 0, number

    def cuFuncGetAttribute(self, *_):
        # Blocks of eight threads: each of them costs.
        return 0, 8

    def cuFuncSetAttribute(self, *_):
        return (0,)

    def cuFuncGetParamInfo(self, function, index):
        sizes = simulated.functions[int(function)][2]
        return (0, 0, sizes[index]) if index < len(sizes) else (1, 0, 0)

    def cuLaunchKernel(self, function, blocks, down, times, threads, threads_down, _tz, _shared, stream, parameters, _extra):
        launch = types.SimpleNamespace(func=function, gridDimX=blocks, gridDimY=down, gridDimZ=times)
        launch.blockDimX, launch.blockDimY, launch.kernelParams = threads, threads_down, parameters
        self.issue(stream, "kernel", simulated.snapshot(launch))
        return (0,)

    def cuEventSynchronize(self, event):
        return (0,)

    def cuStreamQuery(self, stream):
        return (0,)

    # --- graphs ---

    def cuGraphAddEmptyNode(self, graph, before, count):
        node = graph.add("empty", lambda: None)
        graph.edges += [(each, node) for each in before or ()]
        return 0, node

    def memset(self, what):
        pointer, value, size, width = int(what.dst), int(what.value), int(what.elementSize), int(what.width)
        pitch, data = int(what.pitch), int(what.value).to_bytes(size, "little") * width
        del value
        return lambda height=int(what.height): [ctypes.memmove(pointer + row * pitch, data, len(data)) for row in range(height)]

    def memcpy(self, what):
        host = simulated.real.CUmemorytype.CU_MEMORYTYPE_HOST
        source = int(what.srcHost if what.srcMemoryType == host else what.srcDevice)
        target = int(what.dstHost if what.dstMemoryType == host else what.dstDevice)
        width, height, pitches = int(what.WidthInBytes), int(what.Height), (int(what.dstPitch), int(what.srcPitch))
        return lambda: [ctypes.memmove(target + row * pitches[0], source + row * pitches[1], width) for row in range(height)]

    def host(self, what):
        function, data = int(what.fn), int(what.userData)
        return lambda: _CALLBACK(function)(data)

    def cuGraphAddMemcpyNode(self, graph, _before, _count, what, _context):
        return 0, self.add_copy(graph, self.memcpy(what), what)

    def cuGraphExecMemcpyNodeSetParams(self, executable, node, what, _context):
        executable.parameters[node.number] = self.memcpy(what)
        return (0,)

    def cuGraphMemcpyNodeSetParams(self, node, what):
        node.what = self.memcpy(what)
        return (0,)

    def cuGraphMemsetNodeSetParams(self, node, what):
        node.what = self.memset(what)
        return (0,)

    def cuGraphAddHostNode(self, graph, _before, _count, what):
        return 0, graph.add("host", self.host(what))

    def cuGraphExecHostNodeSetParams(self, executable, node, what):
        executable.parameters[node.number] = self.host(what)
        return (0,)

    def cuGraphHostNodeSetParams(self, node, what):
        node.what = self.host(what)
        return (0,)

    def event(self, event):
        assert int(event) > 0
        return lambda: None

    def cuGraphAddEventRecordNode(self, graph, _before, _count, event):
        return 0, graph.add("event", self.event(event))

    def cuGraphExecEventRecordNodeSetEvent(self, executable, node, event):
        executable.parameters[node.number] = self.event(event)
        return (0,)

    def cuGraphEventRecordNodeSetEvent(self, node, event):
        node.what = self.event(event)
        return (0,)

    cuGraphAddEventWaitNode = cuGraphAddEventRecordNode
    cuGraphExecEventWaitNodeSetEvent = cuGraphExecEventRecordNodeSetEvent
    cuGraphEventWaitNodeSetEvent = cuGraphEventRecordNodeSetEvent

    def write(self, operation):
        value = operation.writeValue
        address, written = int(value.address), int(value.value64)
        return lambda: ctypes.memmove(address, written.to_bytes(8, "little"), 8)

    def cuGraphAddBatchMemOpNode(self, graph, _before, _count, what):
        return 0, graph.add("write", self.write(what.paramArray[0]))

    def cuGraphExecBatchMemOpNodeSetParams(self, executable, node, what):
        executable.parameters[node.number] = self.write(what.paramArray[0])
        return (0,)

    def cuGraphBatchMemOpNodeSetParams(self, node, what):
        node.what = self.write(what.paramArray[0])
        return (0,)

    def cuStreamBatchMemOp(self, stream, count, operations, flags):
        self.write(operations[0])()
        return (0,)

    def cuLaunchHostFunc(self, stream, function, data):
        _CALLBACK(int(function))(int(data))
        return (0,)

    def cuGraphAddMemAllocNode(self, graph, _before, _count, what):
        # It lasts as long as the graph.
        node = graph.add("alloc", lambda: None)
        node.memory = ctypes.create_string_buffer(b"\x55" * int(what.bytesize), int(what.bytesize))
        what.dptr = ctypes.addressof(node.memory)
        return 0, node

    def cuGraphAddMemFreeNode(self, graph, before, count, pointer):
        node = graph.add("free", lambda: None)
        graph.edges += [(each, node) for each in before]
        return 0, node


class Driver:
    """Stands for a driver, real or played: counts its calls and what is made and freed, and lets calls fail.

    Attributes:
        names: the calls that were made since ``begin``.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.names: list[str] = []
        self.refused: list[str] = []
        # Which call fails, by its number since ``begin``, and with what code; or all of them from there on.
        self._fails: int | None = None
        self._code_of: Any = None
        self._sticks = False
        self._counting = False
        self.alive: collections.Counter[str] = collections.Counter()
        # The streams that are being captured.
        self._captured: set[int] = set()

    def begin(self, fails: int | None = None, code_of: Any = None, *, sticks: bool = False) -> None:
        """Count calls from here on; let number ``fails`` fail, and with ``sticks`` all after it."""
        self.names, self.refused, self._counting = [], [], True
        self._fails, self._code_of, self._sticks = fails, code_of, sticks

    def end(self) -> None:
        """Let no call fail any more, and count none. What was launched before goes on where the context was not really lost."""
        if self._sticks:
            for stream in list(self._captured):
                self._end_capture(stream)
            self._inner.cuCtxSynchronize()
        self._counting, self._fails, self._sticks = False, None, False

    def _end_capture(self, stream: Any) -> None:
        """The driver ends a broken capture, too, and its graph is gone."""
        self._captured.discard(int(stream))
        code, graph = self._inner.cuStreamEndCapture(stream)
        if int(code) == 0:
            self._inner.cuGraphDestroy(graph)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not name.startswith("cu") or name in ("cuGetErrorName", "cuGetErrorString"):
            return found
        wrapped = self._wrapped(name, found)
        # There is one object for each function: who compares them finds the same.
        setattr(self, name, wrapped)
        return wrapped

    def _wrapped(self, name: str, function: Any) -> Any:
        kind = name.partition("_v")[0]

        @functools.wraps(function)
        def wrapped(*arguments):
            if self._counting:
                number = len(self.names)
                self.names.append(kind)
                if self._fails is not None and (number == self._fails or (self._sticks and number > self._fails)):
                    code = self._code_of(kind)
                    if code is not None:
                        self.refused.append(kind)
                        if kind == "cuStreamEndCapture":
                            self._end_capture(arguments[0])
                        return (simulated.real.CUresult(code), *itertools.repeat(0, _VALUES.get(kind, 1)))
            result = function(*arguments)
            if result[0] == 0:
                if kind.endswith("Capture"):
                    (self._captured.add if "Begin" in kind else self._captured.discard)(int(arguments[0]))
                self.alive[MADE.get(kind, "")] += 1
                self.alive[FREED.get(kind, "")] -= 1
            return result

        wrapped.__name__ = wrapped.__qualname__ = name
        return wrapped


def install_played() -> Driver:
    """The played driver, for the whole package; must come before any executable is made."""
    from numba import config

    from qgraph.dispatch import executables
    from qgraph.ir.artifacts import ANY_EXTENTS, CudaPlan
    from qgraph.lowering import compile as lowering
    from qgraph.lowering.numba_backend import cuda_simulator
    from qgraph.operations import intrinsics
    from qgraph.runtime.arguments import backends
    from qgraph.runtime.graph import kernels
    from qgraph.runtime.graph.capability_probe import Probe

    assert config.ENABLE_CUDASIM
    played = Played()
    driver = Driver(played)
    put_in_place(driver)
    plainly = cuda_simulator._simulated_value
    known: dict[Any, Any] = {}

    def simulated_value(value, *rest):
        return simulated.set_condition if value is intrinsics.set_condition else plainly(value, *rest)

    def compile_cuda(plan, capability, options, *, extents=ANY_EXTENTS, read=True):
        # The same plan is built again and again.
        key = plan.program.name, options, extents
        if key not in known:
            made = lowering.compile_simulator(plan)
            # Not the plan, which holds the recorded graphs that are called in it.
            parts = {name: getattr(made, name) for name in ("kernels", "codes", "dtypes", "block")}
            known[key] = types.SimpleNamespace(**parts)
        compiled = known[key]
        cubin = str(next(simulated.numbers)).encode()
        played.codes[cubin] = types.SimpleNamespace(kernels=compiled.kernels, codes=compiled.codes)
        filled = {node.task.name for node in plan.nodes if node.task is not None and node.what is not None and options.graph}
        codes = {name: code for name, code in compiled.codes.items() if name not in filled}
        return CudaPlan(plan, codes, {}, cubin, capability, True, compiled.dtypes, compiled.block, extents=extents)

    verify = kernels.verify_layout

    def verify_layout(function, entry, sizes):
        simulated.functions[int(function)][2] = sizes
        verify(function, entry, sizes)

    cuda_simulator._simulated_value = simulated_value
    lowering.compile_cuda = compile_cuda
    kernels.verify_layout = verify_layout
    backends._simulating = lambda: False
    executables.loop_probe = lambda ordinal: Probe(True, True, "the played driver says so")
    played.cuGraphAddDependencies, played.cuGraphAddNode = simulated.add_dependencies, played.add_any_node
    put_in_modules(lambda name: getattr(driver, name))
    return driver


def install_real() -> Driver:
    """The real driver, wrapped."""
    from qgraph.compat.cuda_bindings import with_edge_data

    driver = Driver(simulated.real)
    put_in_place(driver)
    put_in_modules(lambda name: with_edge_data(driver, name, "v3" if name == "cuStreamGetCaptureInfo" else "v2"))
    return driver


def put_in_modules(function: Callable[[str], Any]) -> None:
    """What modules have made of functions of the driver's."""
    for module, name, called in _MADE_OF_IT:
        setattr(importlib.import_module(module), name, function(called))


def put_in_place(driver: Driver) -> None:
    """Let every module of the package that has the driver have this one."""
    import pkgutil
    import sys

    import qgraph

    for module in pkgutil.walk_packages(qgraph.__path__, "qgraph."):
        if module.name.startswith("qgraph.runtime"):
            importlib.import_module(module.name)
    for name, module in list(sys.modules.items()):
        if name.startswith("qgraph.") and getattr(module, "driver", None) is simulated.real:
            module.driver = driver
