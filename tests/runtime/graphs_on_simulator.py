"""A CUDA driver in plain Python, for graphs of kernels: a script for test_unrolled_graphs.py, in a process of the simulator.

Device memory is host memory. A graph runs when it is launched: its kernels, which Numba's simulator runs with the parameters
that their nodes have in the executable, in any order that the edges allow, and its conditional nodes.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import functools
import gc
import itertools
import random
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import qgraph
from benchmarks import chains
from qgraph.errors import CudaError
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import ANY_EXTENTS, COPIED, TRIGGERS_FIRST, TRIGGERS_LATER, WAITS_LAST, CudaPlan, Extents, slots_dtype
from qgraph.lowering.compile import compile_simulator
from qgraph.lowering.numba_backend import cuda_simulator
from qgraph.operations import intrinsics
from qgraph.runtime.driver import arena, native, side_stream
from qgraph.runtime.driver import driver as cuda_driver
from qgraph.runtime.driver import memory as cuda_memory
from qgraph.runtime.driver import stream as cuda_stream
from qgraph.runtime.driver.driver import NeedsIndex64, NeedsOwnExtents
from qgraph.runtime.executors import base, graph_exec_cache, relaunch, resources
from qgraph.runtime.executors import graph as cuda_graph
from qgraph.runtime.executors import unrolled as cuda_unrolled
from qgraph.runtime.graph import graph_builder, kernel_parameters, kernels, launch_serialiser, node_updates, nodes
from qgraph.runtime.values.array_view import view_of_host
from qgraph.runtime.values.host_values import HostValues
from qgraph.runtime.values.pending_errors import PendingErrors
from qgraph.runtime.values.prepared_call import Call
from qgraph.runtime.values.running_loops import RunningLoops
from qgraph.runtime.values.struct_formats import FORMATS
from tests.loop_kernels import COUNTED, trading
from tests.running_again import function_of

real = cuda_driver.driver
numbers = itertools.count(1000)
memory = {}
# By the address in `memory`: no two allocations have one number.
allocations = {}
functions = {}
handles = {}
# What guarded each kernel in the body of an unrolled loop that ran.
guards = []
random_order = random.Random(5)


class Node(types.SimpleNamespace):
    """A node, which is its own handle."""

    def __int__(self):
        return self.number


class Graph:
    """A graph, or a body: nodes in order of their creation, and edges."""

    def __init__(self, root=None):
        self.root = root or self
        self.nodes, self.edges = [], []
        self.defaults = {}
        # What is told when it is gone.
        self.owned = []

    def add(self, kind, what):
        node = Node(kind=kind, what=what, bodies=[], number=next(numbers), graph=self, given=None, child=None)
        self.nodes.append(node)
        return node

    def __iter__(self):
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body


class Executable:
    """What every kernel node was last given, and which nodes are on."""

    def __init__(self, graph):
        self.graph = graph
        self.parameters = {node.number: node.what for node in graph if not node.bodies}
        self.off = set()

    def run(self):
        handles.clear()
        handles.update(self.graph.defaults)
        self.region(self.graph)

    def region(self, graph):
        """Its nodes, in any order that the edges allow."""
        there = {node.number for node in graph.nodes}
        edges = [(before, after) for before, after in graph.edges if {before.number, after.number} <= there]
        waits = collections.Counter(after.number for _, after in edges)
        afters = collections.defaultdict(list)
        for before, after in edges:
            afters[before.number].append(after)
        free, done = [node for node in graph.nodes if not waits[node.number]], 0
        while free:
            node = free.pop(random_order.randrange(len(free)))
            self.node(node)
            done += 1
            for after in afters[node.number]:
                waits[after.number] -= 1
                if not waits[after.number]:
                    free.append(after)
        assert done == len(graph.nodes), "the edges go round"

    def node(self, node):
        if node.kind == "while":
            turns = 0
            while handles[node.what]:
                self.region(node.bodies[0])
                turns += 1
                assert turns < 1000, "a loop without an end"
        elif node.kind == "if":
            if handles[node.what]:
                self.region(node.bodies[0])
            elif len(node.bodies) > 1:
                self.region(node.bodies[1])
        elif node.kind == "kernel":
            run_kernel(*self.parameters[node.number])
        elif callable(self.parameters[node.number]):
            if node.number not in self.off:
                self.parameters[node.number]()
        elif node.number not in self.off:
            pointer, value, size, count = self.parameters[node.number]
            ctypes.memmove(pointer, int(value).to_bytes(size, "little") * count, size * count)


def snapshot(launch):
    """Function, grid, block, and a copy of the parameters as they are now."""
    kernel, code, sizes = functions[int(launch.func)]
    places = (ctypes.c_void_p * len(sizes)).from_address(int(launch.kernelParams))
    values = [ctypes.string_at(place, size) for place, size in zip(places, sizes, strict=True)]
    grid, block = (launch.gridDimX, launch.gridDimY, launch.gridDimZ), (launch.blockDimX, launch.blockDimY)
    return code, kernel, grid, block, values


# Called before each kernel.
before_kernels = []


def run_kernel(code, kernel, grid, block, values):
    for each in before_kernels:
        each()
    left = iter(values)
    arguments = []
    for parameter in code.parameters:
        if parameter.is_array:
            kind = parameter.type if isinstance(parameter.type, ArrayType) else ArrayType("int64", 1, "C")
            dtype = kind.dtype if parameter.kind == "leaf" else slots_dtype(parameter)
            words = [int.from_bytes(next(left), "little", signed=True) for _ in range(5 + 2 * kind.ndim)]
            pointer, shape, strides = words[4], words[5 : 5 + kind.ndim], words[5 + kind.ndim :]
            # NumPy takes the null pointer for a wish for memory.
            assert pointer or 0 in shape, f"no memory for {parameter.name}"
            size = max(1, sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + words[3])
            raw = (ctypes.c_byte * size).from_address(pointer)
            arguments.append(cuda_simulator.simulator_array(np.ndarray(shape, dtype, raw, 0, strides)))
        elif parameter.kind == "leaf":
            form = FORMATS[kernel_parameters.scalar_dtype(parameter.type, "float64")]
            arguments.append(np.frombuffer(next(left), form)[0].item())
        else:
            arguments.append(int.from_bytes(next(left), "little", signed=parameter.kind not in ("handle", "whole")))
            if parameter.kind == "guard":
                guards.append(arguments[-1])
    kernel[grid, block](*arguments)


def set_condition(slots, index, handle, value):
    if handle:
        assert handle in handles, "a handle of another graph"
        handles[handle] = value
    else:
        slots[index] = value


class Driver:
    """The calls that graphs need; everything else is the real module."""

    launched: list = []
    waited: list = []

    def __getattr__(self, name):
        return getattr(real, name)

    def cuMemAlloc(self, size):
        made = ctypes.create_string_buffer(b"\x55" * size, size)
        memory[ctypes.addressof(made)] = made
        allocations[ctypes.addressof(made)] = next(numbers)
        return 0, ctypes.addressof(made)

    def cuPointerGetAttribute(self, attribute, pointer):
        assert attribute == real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID
        starts = [start for start, made in memory.items() if start <= pointer < start + max(len(made), 1)]
        # Arrays of NumPy's live as long as the test.
        return 0, allocations[starts[0]] if starts else 1

    def cuMemHostAlloc(self, size, flags):
        return self.cuMemAlloc(size)

    def cuMemsetD8Async(self, address, value, count, stream):
        ctypes.memset(address, value, count)
        return (0,)

    def cuMemcpyHtoDAsync(self, target, source, size, stream):
        ctypes.memmove(target, source, size)
        return (0,)

    cuMemcpyDtoHAsync = cuMemcpyHtoDAsync

    def cuGraphCreate(self, flags):
        return 0, Graph()

    def cuGraphConditionalHandleCreate(self, graph, context, default, flags):
        assert graph.root is graph
        assert flags == 1
        handle = next(numbers)
        graph.defaults[handle] = default
        return 0, handle

    def CUgraphNodeParams(self):
        return types.SimpleNamespace(conditional=types.SimpleNamespace())

    def add_any_node(self, graph, befores, data, count, parameters):
        assert parameters.type == real.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        what = parameters.conditional
        node = graph.add(what.type.name.rpartition("_")[2].lower(), what.handle)
        node.bodies = what.phGraph_out = [Graph(graph.root) for _ in range(what.size)]
        return 0, node

    def cuGraphAddKernelNode(self, graph, _before, _count, launch):
        return 0, graph.add("kernel", snapshot(launch))

    def cuGraphAddMemsetNode(self, graph, _before, _count, what, _context):
        return 0, graph.add("memset", self.memset(what))

    def memset(self, what):
        assert what.height == 1
        return int(what.dst), int(what.value), int(what.elementSize), int(what.width)

    def cuGraphExecMemsetNodeSetParams(self, executable, node, what, _context):
        executable.parameters[node.number] = self.memset(what)
        return (0,)

    def cuGraphNodeSetEnabled(self, executable, node, on):
        (executable.off.discard if on else executable.off.add)(node.number)
        return (0,)

    def cuGraphAddEmptyNode(self, graph, _before, _count):
        return 0, graph.add("empty", (0, 0, 1, 0))

    def cuGraphInstantiate(self, graph, flags):
        return 0, Executable(graph)

    def cuGraphExecKernelNodeSetParams(self, executable, node, launch):
        executable.parameters[node.number] = snapshot(launch)
        return (0,)

    def cuGraphLaunch(self, executable, stream):
        self.launched.append(executable)
        executable.run()
        return (0,)

    def cuEventRecord(self, event, stream):
        self.waited.append(("record", stream))
        return (0,)

    def cuStreamWaitEvent(self, stream, event, flags):
        self.waited.append(("wait", stream))
        return (0,)

    def cuStreamCreate(self, flags):
        return 0, 0

    def cuCtxGetStreamPriorityRange(self):
        return 0, 0, -5

    def cuStreamCreateWithPriority(self, flags, priority):
        assert (flags, priority) == (1, -5)
        return 0, 99

    def cuStreamWriteValue32(self, stream, target, value, flags):
        ctypes.memmove(target, value.to_bytes(4, "little"), 4)
        return (0,)

    def cuStreamDestroy(self, stream):
        return (0,)

    def cuStreamIsCapturing(self, stream):
        return 0, 0

    def cuEventCreate(self, flags):
        return 0, next(numbers)

    def cuLibraryLoadData(self, *_):
        return 0, 1

    def cuLibraryGetKernel(self, library, entry):
        return 0, entry

    def cuKernelGetFunction(self, entry):
        number = next(numbers)
        code = self.plan.codes[entry.decode()]
        functions[number] = [self.kernels[entry.decode()], code, None]
        return 0, number

    def cuFuncGetAttribute(self, *_):
        return 0, 1024

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *_):
        return 0, 8

    def cuCtxGetId(self, _context):
        return 0, Device.context_id

    def _nothing(self, *_):
        return 0, 0

    cuStreamSynchronize = cuCtxSynchronize = cuCtxGetCurrent = cuGraphExecDestroy = cuGraphDestroy = cuLibraryUnload = _nothing
    cuMemFree = cuMemFreeHost = cuEventDestroy = cuThreadExchangeStreamCaptureMode = _nothing


class Device:
    """A device that is always there."""

    ordinal, epoch, context_id, multiprocessors, capability = 0, 1, 77, 4, (9, 0)

    def __init__(self):
        self.kept = PendingErrors()
        self.running = RunningLoops(lambda: None, self.kept.keep)
        self.made = {}

    def alive(self, epoch):
        return True

    def once(self, make):
        if make not in self.made:
            self.made[make] = make(self)
        return self.made[make]

    @contextlib.contextmanager
    def activate(self):
        yield self

    def push(self, stays=False):
        return False

    def _nothing(self, *_):
        pass

    pop = retire = free_retired = wait = wait_for = wait_at_exit = trim = _nothing


driver = Driver()


def add_dependencies(graph, befores, afters, data, count):
    graph.edges += zip(befores, afters, strict=True)
    return (0,)


def install():
    for module in (
        arena,
        native,
        cuda_driver,
        base,
        cuda_graph,
        graph_exec_cache,
        kernels,
        graph_builder,
        launch_serialiser,
        cuda_memory,
        nodes,
        node_updates,
        relaunch,
        resources,
        side_stream,
        cuda_stream,
        cuda_unrolled,
    ):
        module.driver = driver
    graph_builder.add_dependencies = add_dependencies
    graph_builder._add_any_node = driver.add_any_node
    for module in (cuda_graph, graph_exec_cache, resources, kernels, graph_builder, cuda_memory, cuda_unrolled, side_stream):
        module.outside_captures = contextlib.nullcontext
    kernels.verify_layout = lambda function, entry, sizes: functions[int(function)].__setitem__(2, sizes)
    plainly = cuda_simulator._simulated_value

    def simulated(value, *rest):
        return set_condition if value is intrinsics.set_condition else plainly(value, *rest)

    cuda_simulator._simulated_value = simulated


class Kernel:
    """A kernel on that driver."""

    executables = cuda_unrolled.CudaUnrollingExecutable

    def __init__(self, function, *args, extents=ANY_EXTENTS, capability=(9, 0), block_size=8, **options):
        self.kernel = self.made(function)
        plan = self.kernel.plan(*args)
        compiled = compile_simulator(plan)
        driver.plan, driver.kernels = compiled, compiled.kernels
        self.plan = plan
        self.host_values = HostValues(plan.program).of
        made = CudaPlan(plan, compiled.codes, {}, b"", capability, True, compiled.dtypes, extents=extents)
        self.executable = self.executables(made, Device(), block_size=block_size, **options)

    def made(self, function):
        return qgraph.kernel(function)

    def __call__(self, *args, stream=0):
        values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
        request = Call(values, self.host_values(values), stream)
        self.executable.launch(request)
        return driver.launched[-1]

    @property
    def unrolled(self):
        return self.executable._runs != "plain"

    def agrees(self, *args, stream=0):
        mine = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        self.kernel.reference(*args)
        launched = self(*mine, stream=stream)
        for found, wanted in zip(mine, args, strict=True):
            np.testing.assert_array_equal(found, wanted)
        return launched


# --- the kernels --------------------------------------------------------------------------------------------------------


def do_while(x, y, flag, a):
    y[:] = 0
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            y[i] = y[i] * 2 + x[i] * 3 + a
        for i in range(x.shape[0]):
            x[i] = y[x.shape[0] - 1 - i] * 5 + i
        flag[()] -= 1


def nested(x, y, turns, a):
    for t in qgraph.serial(range(3)):
        s = 0
        while s < turns[()] + t:
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + s
            s += 1
        if t > 0:
            for i in range(y.shape[0]):
                y[i] = y[i] * a + x[i]


def arguments(function, turns, n=5, a=7):
    x = np.arange(n) + turns
    return x, np.full(n, 77), np.array(turns), a


def forced():
    for function in (do_while, nested):
        kernel = Kernel(function, *arguments(function, 3), unrolled=True)
        for turns in (1, 8, 9, 17):
            kernel.agrees(*arguments(function, turns))
            kernel.agrees(*arguments(function, turns, n=turns + 10, a=turns))
            assert kernel.unrolled
        assert len({id(each) for each in driver.launched[-8:]}) == 1


def counted():
    for function in COUNTED:
        copies = 63 if function.__name__ == "three_in_turn" else 64
        kernel = Kernel(function, *arguments(function, 3), unrolled=True)
        assert {each.counted.copies for each in kernel.plan.unrolled} == {copies}, function
        for turns in (0, 1, 2, 31, 63, 64, 65, 71, 129):
            if function.__name__ != "last_of" or turns:
                kernel.agrees(*arguments(function, turns))
                kernel.agrees(*arguments(function, turns, n=turns + 10, a=turns + 1))
        assert kernel.unrolled
        each = kernel.plan.unrolled[0]
        words = np.ctypeslib.as_array((ctypes.c_int64 * kernel.plan.scratch_words).from_address(scratch_of(kernel)))
        assert words[each.turns] & 0xFFFFFFFF == 0
        assert set(words[each.spread :: 16][:64]) == {words[each.counted.left]}
    # One that is too short for all these copies has few, and a very short one runs the plain graph, which counts as well.
    for function in COUNTED:
        kernel = Kernel(function, *arguments(function, 3))
        few, many = {"marching": (4, 41), "trading": (5, 33), "three_in_turn": (4, 25)}.get(function.__name__, (3, 33))
        several, form, seen = function.__name__ in ("from_the_start", "stepping", "last_of"), "plain", set()
        for turns in (few - 1, few, few + 1, many - 1, many, many + 1, 63, many - 1, few - 1, 17, 1, 60, few, 1, 1):
            kernel.agrees(*arguments(function, turns, a=turns + 1))
            seen.add(kernel.executable._runs)
            assert several or kernel.executable._runs == form, (function, turns)
            form = "plain" if turns < few else "few" if turns < many else "many"
        assert seen == {"plain", "few", "many"}, function


def stopped():
    """The word that the host writes ends a loop that would not end, in every form; later launches are whole again."""
    small = cuda_unrolled._SMALL
    for function in (do_while, nested, *COUNTED):
        for unrolled, most in ((False, small), (True, small), (True, 2)):
            cuda_unrolled._SMALL = most
            n = 40 if most == 2 else 5
            kernel = Kernel(function, *arguments(function, 3), unrolled=unrolled)
            loops = kernel.executable._resources.loops
            assert [span.line for span in loops.spans] == [node.span.line for node in kernel.plan.nodes if node.kind == "while"]
            for after in (1, 100):
                kernel.agrees(*arguments(function, 9, n=n))
                ran = itertools.count()
                before_kernels.append(lambda ran=ran, after=after, loops=loops: next(ran) == after and loops.write(1))
                with np.errstate(over="ignore"):
                    kernel(*arguments(function, 1 << 40, n=n))
                before_kernels.clear()
                assert after < next(ran) < after + 600, (function, unrolled)
                loops.write(0)
                kernel.agrees(*arguments(function, 12, n=n))
    cuda_unrolled._SMALL = small


def large():
    """Large grids have turns of which no copy has nothing to do, and a kernel may go from one graph to another."""
    cuda_unrolled._SMALL = 2
    for function in COUNTED:
        kernel = Kernel(function, *arguments(function, 3), unrolled=True)
        whole, few = (63, 6) if function.__name__ == "three_in_turn" else (64, 8)
        assert {(each.counted.whole, each.counted.few) for each in kernel.plan.unrolled} == {(whole, few)}
        rest = (1, few - 1, few, few + 1)
        on_large = (*rest, whole, *(whole + each for each in rest), 3 * whole)
        for turns, n in ((1, 5), *((turns, 40 + turns % 3) for turns in on_large), (9, 4)):
            kernel.agrees(*arguments(function, turns, n=n))
            # A graph is built with the arguments of the call after the one that wanted it. Others reach all of its kernels.
            kernel.agrees(*arguments(function, turns + 1, n=n, a=2 + turns % 5))
            assert kernel.executable._runs == ("large" if n >= 32 else "many"), (function, n)
        assert set(kernel.executable._graphs) == {"plain", "many", "large"}
    # As many iterations as before, on grids of another size.
    kernel = Kernel(trading, *arguments(trading, 100))
    for n, form in ((5, "many"), (40, "large"), (5, "many")):
        for _ in range(3):
            kernel.agrees(*arguments(trading, 100, n=n))
        assert kernel.executable._runs == form, n


def relaxing(x, y, most, found):
    """Sweeps until one changes little, or there were enough."""
    sweeps = 0
    change = most[0] + 1
    while change > most[0] and sweeps < most[1]:
        change = 0
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                y[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) // 4 + 1
                change = max(change, abs(y[i, j] - x[i, j]))
        x, y = y, x
        sweeps += 1
    found[0] = sweeps
    found[1] = change


def traded_halfway(x, y, most, found):
    """What is behind the trade of names sees other arrays than what is before it, in the same sweep."""
    sweeps = 0
    change = most[0] + 1
    while change > most[0] and sweeps < most[1]:
        change = 0
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                y[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) // 4 + 1
        x, y = y, x
        sweeps += 1
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                change = max(change, abs(y[i, j] - x[i, j]))
    found[0] = sweeps
    found[1] = change


def converging():
    """Each copy has its arrays, whichever copy the loop ends with, and the plain graph asks for them."""

    def given(rows, columns, change, sweeps):
        x = np.arange(rows * columns).reshape(rows, columns) * 7919 % 1000
        return x, x.copy(), np.array([change, sweeps]), np.zeros(2, np.int64)

    for function in (relaxing, traded_halfway):
        for unrolled in (True, False):
            kernel = Kernel(function, *given(5, 5, 0, 3), unrolled=unrolled)
            (each,) = kernel.plan.unrolled
            assert (each.handed or each).arrays
            assert any(name.endswith(COPIED) for name in kernel.executable.plan.codes)
            for sweeps in (1, 2, 7, 8, 9, 16, 17):
                kernel.agrees(*given(5, 9, 0, sweeps))
            # Both axes are longer than the grid, and it ends by itself.
            kernel.agrees(*given(19, 70, 40, 60))
            kernel.agrees(*given(70, 6, 40, 60))


def whole_turns():
    """How many kernels without guards a launch runs: those of all whole turns, and none of what is left then."""
    cuda_unrolled._SMALL = 2
    kernel = Kernel(trading, *arguments(trading, 3, n=40), unrolled=True)
    for turns in (1, 2):
        kernel.agrees(*arguments(trading, turns, n=40))
    (unrolling,) = kernel.plan.unrolled
    body = sum(len(kernel.plan.regions[each].nodes) for each in kernel.plan.nodes[unrolling.node].bodies) - 1
    for turns in (0, 1, 8, 9, 63, 64, 65, 128, 129, 200):
        guards.clear()
        kernel.agrees(*arguments(trading, turns, n=40))
        whole = max(0, turns - 1) // 64
        rest = -(-(turns - 64 * whole) // 8)
        # In each turn one counts; the first copy of a turn has an iteration in any case.
        assert guards.count(0) == whole * (64 * body + 1) + rest * (body + 1), turns
        assert guards.count(unrolling.spread) == rest * 7 * body, turns


def scratch_of(kernel):
    return kernel.executable._resources.scratch.pointer


def adapted():
    kernel = Kernel(do_while, *arguments(do_while, 3))
    plain = kernel.agrees(*arguments(do_while, 3))
    assert kernel.agrees(*arguments(do_while, 3)) is plain
    assert kernel.agrees(*arguments(do_while, 8, n=30), stream=5) is plain
    assert "unrolled" not in kernel.executable.reason
    # What ran long is seen before the next launch. That one comes after it, on whatever stream.
    del driver.waited[:]
    unrolled = kernel.agrees(*arguments(do_while, 20, n=12, a=11), stream=6)
    assert unrolled is not plain
    assert driver.waited == [("wait", 6), ("record", 6)]
    assert "unrolled" in kernel.executable.reason
    # Other arguments and sizes reach both.
    assert kernel.agrees(*arguments(do_while, 1, n=40, a=12)) is unrolled
    assert kernel.agrees(*arguments(do_while, 2, n=3, a=13)) is plain
    assert kernel.agrees(*arguments(do_while, 20, n=3, a=13)) is plain
    for turns in (1, 20, 1, 20, 20, 20, 2, 2, 2):
        kernel.agrees(*arguments(do_while, turns, n=turns, a=turns))
    assert not kernel.unrolled
    executable = kernel.executable
    assert (executable.rebuilds, executable.replays) == (0, 16)
    assert len(executable._resources.graphs) == 2
    changes = executable.argument_updates
    found = arguments(do_while, 20)
    values = (*(view_of_host(each, each) for each in found[:3]), 7)
    same = Call(values, kernel.host_values(values), 0)
    for _ in range(6):
        found[2][()] = 20
        executable.launch(same)
    assert kernel.unrolled
    assert executable.argument_updates == changes + 1
    # Whoever holds the plain graph launches it when he likes.
    raw = executable.graph(same)
    assert raw.executable is plain
    assert kernel.agrees(*arguments(do_while, 20)) is plain
    assert kernel.agrees(*arguments(do_while, 20)) is plain
    assert kernel.agrees(*arguments(do_while, 20)) is plain
    executable.close()


def the_same():
    kernel = Kernel(do_while, *arguments(do_while, 3))
    found = arguments(do_while, 60)
    values = (*(view_of_host(each, each) for each in found[:3]), 7)
    same = Call(values, kernel.host_values(values), 0)
    for _ in range(5):
        found[2][()] = 60
        kernel.executable.launch(same)
    assert kernel.unrolled
    assert kernel.executable.argument_updates == 0
    # Without the arguments of a call the second graph is not built, and after it a replay runs it.
    kernel = Kernel(do_while, *arguments(do_while, 3))
    found[2][()] = 60
    kernel.executable.launch(same)
    for _ in range(3):
        found[2][()] = 60
        kernel.executable.replay(0)
    assert not kernel.unrolled
    found[2][()] = 60
    kernel.executable.launch(same)
    assert kernel.unrolled
    found[2][()] = 3
    kernel.executable.replay(0)
    assert found[2] == 0


def never():
    kernel = Kernel(nested, *arguments(nested, 3), unrolled=False)
    for _ in range(4):
        kernel.agrees(*arguments(nested, 60))
        assert not kernel.unrolled
    assert len(kernel.executable._resources.graphs) == 1


def is_closed(run):
    """Whether launching says that the executable was closed."""
    try:
        run()
    except CudaError as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("a closed executable was launched")


class ReplayCode:
    """One call of a kernel again and again; ``looked`` counts the launches that were not just those of the driver."""

    def __init__(self, kernel, *args):
        self.kernel, self.args, self.stream, self.looked = kernel, args, 0, 0
        values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
        executable = self.executable = kernel.executable
        plainly = executable.launch

        def launch(request, repeat=None):
            self.looked += 1
            return plainly(request, repeat)

        executable.launch = launch
        found = executable.again(Call(values, kernel.host_values(values), 0), lambda: self.stream)
        self.run = function_of(found)

    def __call__(self, turns=None, *, looks, stream=0):
        """Run with the arrays as they are, but for the flag, which is set to ``turns`` where there is one."""
        if turns is not None:
            self.args[2][()] = turns
        mine = [each.copy() if isinstance(each, np.ndarray) else each for each in self.args]
        self.kernel.kernel.reference(*mine)
        self.stream, before, replays = stream, self.looked, self.executable.replays
        assert self.run() is None
        for found, wanted in zip(self.args, mine, strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert self.looked - before == looks
        assert self.executable.replays == replays + 1


class Plain(Kernel):
    """One without loops."""

    executables = cuda_graph.CudaGraphExecutable


class Turn:
    """One of some calls that take turns, each with arrays of its own; ``looked`` counts as above."""

    def __init__(self, kernel, *args):
        self.kernel, self.args, self.stream, self.looked = kernel, args, 0, 0
        values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
        plainly = kernel.executable.launch

        def launch(request, repeat=None):
            self.looked += 1
            return plainly(request, repeat)

        # Its own way to the executable, which counts.
        owner, call = types.SimpleNamespace(launch=launch), Call(values, kernel.host_values(values), 0)
        repeat = relaunch.Relaunch(owner, kernel.executable._lock, ctypes.c_int64(), call)
        self.run = function_of(relaunch.again(repeat, lambda: self.stream))

    def __call__(self, *, looks=None):
        mine = [each.copy() if isinstance(each, np.ndarray) else each for each in self.args]
        self.kernel.kernel.reference(*mine)
        before = self.looked
        assert self.run() is None
        for found, wanted in zip(self.args, mine, strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert looks in (None, self.looked - before)


def scaled(x, y, a):
    for i in range(x.shape[0]):
        y[i] = x[i] * a
    for i in range(x.shape[0]):
        x[i] = x[i] + y[i]


def in_turn():
    """Calls that take turns get graphs of their own, as many as there may be, on one stream."""
    arguments = [(np.arange(1.0, 4 + 2 * k), np.zeros(3 + 2 * k), 2.0 + k) for k in range(graph_exec_cache.MAX_KEPT + 1)]
    kernel = Plain(scaled, *arguments[0])
    executable, launched = kernel.executable, driver.launched
    calls = [Turn(kernel, *args) for args in arguments]
    for _ in range(graph_exec_cache.KEEP_AFTER + 1):
        for each in calls:
            each(looks=1)
    assert len(set(map(id, launched[-len(calls) :]))) == 1
    # The last one found no room.
    updates = executable.argument_updates
    for number, each in enumerate(calls):
        each(looks=int(number == graph_exec_cache.MAX_KEPT))
    assert len(set(map(id, launched[-len(calls) :]))) == len(calls)
    # A call with new arguments changes none of them.
    fresh = (np.arange(1.0, 5), np.zeros(4), 9.0)
    kernel.agrees(*fresh)
    for each in calls[:-1]:
        each(looks=0)
    assert executable.argument_updates == updates + 1
    # One that is gone makes room.
    del calls[0], each
    gc.collect()
    calls[-1](looks=1)
    calls[-1](looks=0)
    # They share nothing, so nobody need wait for another; each has its stream.
    kernel.agrees(*fresh, stream=3)
    for each in calls:
        each(looks=0)
    for stream in (3, 0):
        for _ in range(2):
            for each in calls:
                each.stream = stream
                each()
        for each in calls:
            each(looks=0)
    executable.close()


def summed(x, out):
    for i in range(x.shape[0]):
        out[0] += x[i]


def in_turn_with_scratch():
    """Graphs that share scratch memory follow one another on the default stream; the handle of another may be a new one's."""
    for stream, looks in ((0, 0), (3, 1)):
        kernel = Plain(summed, np.ones(3), np.zeros(1))
        assert kernel.plan.scratch_words
        calls = [Turn(kernel, np.arange(float(n)), np.zeros(1)) for n in (3, 5)]
        for each in calls:
            each.stream = stream
        for _ in range(4):
            for each in calls:
                each()
        for each in calls:
            each(looks=looks)


def kept_for_all_threads():
    """The default stream is one for all threads; where each has its own, graphs that share scratch memory keep no arguments."""
    kernel = Plain(summed, np.ones(3), np.zeros(1))
    calls = [Turn(kernel, np.arange(float(n)), np.zeros(1)) for n in (3, 5)]
    for _ in range(4):
        for each in calls:
            each()
    for each in calls:
        each(looks=0)
    with ThreadPoolExecutor(1) as pool:
        for each in calls:
            pool.submit(each, looks=0).result()
    graph_exec_cache.ONE_DEFAULT = False
    kernel = Plain(summed, np.ones(3), np.zeros(1))
    calls = [Turn(kernel, np.arange(float(n)), np.zeros(1)) for n in (3, 5)]
    for _ in range(6):
        for each in calls:
            each(looks=1)
    graph_exec_cache.ONE_DEFAULT = True


def copied(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j]


def is_refused(kernel, error, x, y):
    """Each time, and before anything runs."""
    for _ in range(2):
        try:
            kernel(x, y)
        except error:
            pass
        else:
            raise AssertionError("it ran")
    assert (y == 7).all()


def index64():
    """Arrays with more elements than the code can tell apart are refused before anything runs."""
    most, kernel_parameters._INDEX64_FROM = kernel_parameters._INDEX64_FROM, 20
    kernel = Plain(copied, np.ones((4, 4)), np.zeros((4, 4)))
    kernel.agrees(np.ones((4, 4)), np.zeros((4, 4)))
    x, y = np.ones((4, 5)), np.full((4, 5), 7.0)
    is_refused(kernel, NeedsIndex64, x, y)
    kernel.agrees(np.ones((4, 4)), np.zeros((4, 4)))
    assert not kernel.executable.plan.extents.index64
    kernel = Plain(copied, x, y, extents=Extents(index64=True))
    kernel.agrees(x, y)
    kernel.agrees(np.ones((4, 4)), np.zeros((4, 4)))
    kernel_parameters._INDEX64_FROM = most


def equal_extents():
    """Arrays with shapes of their own are refused before anything runs by code that has one for both."""
    kernel = Plain(copied, np.ones((4, 4)), np.zeros((4, 4)), extents=Extents(equal=(("x", "y"),)))
    kernel.agrees(np.ones((4, 4)), np.zeros((4, 4)))
    is_refused(kernel, NeedsOwnExtents, np.ones((4, 5)), np.full((4, 6), 7.0))
    kernel.agrees(np.ones((3, 5)), np.zeros((3, 5)))


def graph_at_first():
    """Whoever asks for the graph before anything was launched gets one with the arguments."""
    kernel = Plain(scaled, np.ones(3), np.ones(3), 1.0)
    x, y = np.arange(1.0, 6), np.zeros(5)
    values = (view_of_host(x, x), view_of_host(y, y), 3.0)
    request = Call(values, kernel.host_values(values), 0)
    for turn in range(2):
        kernel.executable.graph(request).executable.run()
        np.testing.assert_array_equal(x, np.arange(1.0, 6) * 4.0 ** (turn + 1))
    # Nor does it change any more: there is no row.
    for before in (False, True):
        args = np.arange(4.0), np.arange(3.0), np.arange(2.0), np.zeros(3), 2.0
        kernel = Plain(independent, *args)
        wanted = [each.copy() for each in args[:4]]
        for _ in range(1 + before):
            kernel.kernel.reference(*wanted, 2.0)
        if before:
            kernel(*args)
        values = (*(view_of_host(each, each) for each in args[:4]), 2.0)
        raw = kernel.executable.graph(Call(values, kernel.host_values(values), 0))
        assert len(raw.handle.edges) == 2
        raw.executable.run()
        for mine, each in zip(args, wanted, strict=False):
            np.testing.assert_array_equal(mine, each)
        kernel.agrees(np.arange(100.0), *(np.arange(3.0) for _ in range(3)), 2.0)
        assert kernel.executable._instance.executable is raw.executable


def independent(x, y, z, out, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + a
    for i in range(y.shape[0]):
        y[i] = y[i] * 5 + a
    for i in range(z.shape[0]):
        z[i] = z[i] * 7 + a
    for i in range(out.shape[0]):
        out[i] = out[i] * 2 + x[0] - z[0]


def two(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + 1
    for i in range(y.shape[0]):
        y[i] = y[i] * 5 + 2


def summed_beside(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + 1
    for i in range(1, y.shape[0]):
        y[0] += y[i]


def rows():
    """Kernels without an order stand in a row until one of them needs more of the device, and from then on never again."""

    def sets(n, m=4):
        return np.arange(float(n)), np.arange(float(m)) + 1, np.arange(2.0), np.arange(3.0), 2.0 + n

    def looks(kernel):
        """The edges, and what each kernel is told in the launched graph."""
        graph = kernel.executable._instance.graph
        assert driver.launched[-1].graph is graph
        place = {id(node): number for number, node in enumerate(graph.nodes)}
        edges = sorted((place[id(before)], place[id(after)]) for before, after in graph.edges)
        told = [int.from_bytes(driver.launched[-1].parameters[node.number][4][-1], "little") for node in graph.nodes]
        return edges, told

    true = [(0, 3), (2, 3)]
    # 32 blocks of 8 threads fill the device.
    in_row = sorted([*true, (0, 1), (1, 2)]), [TRIGGERS_LATER, TRIGGERS_FIRST | WAITS_LAST, TRIGGERS_FIRST | WAITS_LAST, 0]
    at_once = true, [TRIGGERS_LATER, 0, TRIGGERS_FIRST, 0]
    kernel = Plain(independent, *sets(5))
    assert kernel.plan.row == (0, 1, 2)
    for n in (5, 1, 80, 5):
        kernel.agrees(*sets(n))
        assert looks(kernel) == in_row, (n, looks(kernel))
    left = kernel.executable._instance
    kernel.agrees(*sets(5, m=81))
    # It may still run.
    assert kernel.executable._resources.graphs == [left, kernel.executable._instance]
    assert left.executable is not None
    assert looks(kernel) == at_once, looks(kernel)
    for n in (5, 200, 1):
        kernel.agrees(*sets(n))
        found = looks(kernel)
        assert found[0] == true
        assert not any(each & WAITS_LAST for each in found[1])
    # One that comes after all of them and does not fit beside them starts when they have ended, but they start early.
    kernel = Plain(independent, *sets(5))
    kernel.agrees(*sets(5)[:3], np.arange(400.0), 2.0)
    assert looks(kernel)[1] == [TRIGGERS_LATER, TRIGGERS_FIRST | WAITS_LAST, WAITS_LAST, 0]
    # The last has nobody behind it.
    kernel = Plain(two, *sets(5)[:2])
    kernel.agrees(*sets(5)[:2])
    assert looks(kernel) == ([(0, 1)], [TRIGGERS_LATER, WAITS_LAST])
    kernel = Plain(chains.independent(10), *(np.arange(3.0) for _ in range(10)), 2.0)
    kernel.agrees(*(np.arange(3.0) for _ in range(10)), 3.0)
    assert looks(kernel)[1] == [TRIGGERS_LATER, *[TRIGGERS_FIRST | WAITS_LAST] * 8, WAITS_LAST]
    # What shares scratch memory with a graph that may still run does not change its graph.
    kernel = Plain(summed_beside, *sets(5)[:2])
    kernel.agrees(*sets(5)[:2])
    assert kernel.plan.row == ()
    assert looks(kernel)[0] == []
    # Of sizes that are large from the start there never is a row, nor on devices whose kernels do not wait.
    kernel = Plain(independent, *sets(200))
    graph = kernel.executable._instance.graph
    kernel.agrees(*sets(200))
    assert looks(kernel)[0] == true
    assert kernel.executable._instance.graph is graph
    kernel = Plain(independent, *sets(5), capability=(8, 0))
    kernel.agrees(*sets(5))
    assert looks(kernel) == (true, [0, 0, 0, 0])


def rows_in_turn():
    """Graphs that keep arguments stand in a row, too; when that ends they are made again."""
    kernel = Plain(independent, *(np.ones(3) for _ in range(4)), 1.0)
    kept = lambda: kernel.executable._resources.kept  # noqa: E731
    calls = [Turn(kernel, *(np.arange(3.0 + n) for _ in range(4)), 1.0 + n) for n in (0, 2)]
    for _ in range(5):
        for each in calls:
            each()
    first = kept()
    assert len({id(each) for each in driver.launched[-2:]}) == 2
    kernel.agrees(np.arange(100.0), *(np.arange(3.0) for _ in range(3)), 2.0)
    assert kept() is None
    for _ in range(5):
        for each in calls:
            each()
    assert kept() is not None
    assert kept() is not first
    assert len({id(each) for each in driver.launched[-2:]}) == 2
    for each in calls:
        each(looks=0)
    # Who launches the graph himself gets the only one, whether there were others before or not.
    for again in (kernel, Plain(independent, *(np.ones(3) for _ in range(4)), 1.0)):
        raw = again.executable.graph(request_of(again, *calls[0].args))
        calls = [Turn(again, *each.args) for each in calls]
        for _ in range(5):
            for each in calls:
                each()
        assert {id(each) for each in driver.launched[-2:]} == {id(raw.executable)}
        again.executable.close()


def request_of(kernel, *args):
    values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
    return Call(values, kernel.host_values(values), 0)


def filled_beside(x, y, out, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + a
    for i in range(y.shape[0]):
        y[i] = y[i] * 5 + a
    out[:] = 0


def rows_interrupted():
    """Whatever keeps a graph from being built, or built again, the next launch does it, fills included."""

    def small():
        return np.arange(5.0), np.arange(4.0), np.ones(6), 2.0

    def large():
        return np.arange(100.0), np.arange(4.0), np.ones(6), 2.0

    interrupted = set()
    for name in ("_complete", "_begin_anew", "_leave_row", "_begin", "_let_start_early"):
        for before, after in itertools.product((small, large, None), (small, large)):
            kernel = Plain(filled_beside, *small())
            executable = kernel.executable
            if before is not None:
                kernel.agrees(*before())
            setattr(executable, name, Interrupting(getattr(executable, name), 0))
            try:
                kernel(*after())
            except KeyboardInterrupt:
                interrupted.add(name)
            delattr(executable, name)
            for args in (after, after, small, large):
                kernel.agrees(*args())
            assert executable._row == frozenset()
            assert sorted(node.kind for node in executable._instance.graph.nodes) == ["kernel", "kernel", "memset"]
    assert interrupted == {"_complete", "_begin_anew", "_leave_row", "_begin", "_let_start_early"}
    # Somebody asked for the graph, and gave up: the launch before it, once more.
    args = small()
    kernel = Plain(filled_beside, *args)
    request = dataclasses.replace(request_of(kernel, *args), token=object())
    kernel.executable.launch(request)
    kernel.executable._begin_anew = Interrupting(kernel.executable._begin_anew, 0)
    with contextlib.suppress(KeyboardInterrupt):
        kernel.executable.graph(request)
    del kernel.executable._begin_anew
    kernel.executable.launch(request)
    wanted = small()
    for _ in range(2):
        kernel.kernel.reference(*wanted)
    for mine, plain in zip(args, wanted, strict=True):
        np.testing.assert_array_equal(mine, plain)


def rows_refused():
    """The driver refuses a graph once, the first one or that without a row: the same call again has all its arguments."""
    for grows in (False, True):
        kernel = Plain(filled_beside, np.arange(5.0), np.arange(4.0), np.ones(6), 2.0)
        call = Turn(kernel, np.arange(100.0 if grows else 5.0), np.arange(4.0), np.ones(6), 2.0)
        if grows:
            kernel.agrees(np.arange(5.0), np.arange(4.0), np.ones(6), 2.0)
        plainly = Driver.cuGraphInstantiate

        def no_memory(*_):
            raise CudaError("cuGraphInstantiate failed")

        Driver.cuGraphInstantiate = no_memory
        refused = 0
        for _ in range(3):
            try:
                call.run()
            except CudaError:
                refused += 1
        Driver.cuGraphInstantiate = plainly
        assert refused == 3
        for _ in range(5):
            call.args[2][:] = 1
            call()
            assert (call.args[2] == 0).all()
        assert len(kernel.executable._resources.graphs) == 1 + grows
        kernel.executable.close()


def kept_until_closed():
    kernel = Plain(scaled, np.ones(3), np.ones(3), 1.0)
    calls = [Turn(kernel, np.ones(n), np.ones(n), 1.0) for n in (3, 5)]
    for _ in range(4):
        for each in calls:
            each()
    kernel.executable.close()
    launched = len(driver.launched)
    for each in calls:
        is_closed(each.run)
    assert len(driver.launched) == launched


def repeated_without_loops():
    given = np.arange(1.0, 4), np.zeros(3), 2.0
    kernel = Plain(scaled, *given)
    again, executable = ReplayCode(kernel, *given), kernel.executable
    for looks in (1, 1, 0, 0):
        again(looks=looks)
    kernel.agrees(np.arange(5.0), np.zeros(5), 3.0)
    changes = executable.argument_updates
    again(looks=1)
    assert executable.argument_updates == changes + 1
    for looks in (1, 0):
        again(looks=looks)
    for stream, looks in ((1, 1), (1, 0), (0, 1), (0, 0)):
        again(looks=looks, stream=stream)
    Device.context_id += 1
    for looks in (1, 0):
        again(looks=looks)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(again, looks=0).result()
    again(looks=0)
    executable.replay(5)
    again(looks=1)
    again(looks=0)
    values = (*(view_of_host(each, each) for each in (np.ones(4), np.ones(4))), 7.0)
    executable.graph(Call(values, kernel.host_values(values), 0))
    for looks in (1, 1, 0):
        again(looks=looks)
    executable.close()
    is_closed(again.run)


def repeated():
    kernel = Kernel(do_while, *arguments(do_while, 3), unrolled=False)
    again, executable = ReplayCode(kernel, *arguments(do_while, 3)), kernel.executable
    for looks in (1, 1, 0, 0):
        again(2, looks=looks)
    # Another call in between, another stream, another context; each is looked at, and the one after. Another thread is not.
    kernel.agrees(*arguments(do_while, 3, n=9, a=5))
    changes = executable.argument_updates
    again(2, looks=1)
    assert executable.argument_updates == changes + 1
    for looks in (1, 0):
        again(3, looks=looks)
    for stream, looks in ((1, 1), (1, 0), (0, 1), (0, 0)):
        again(1, looks=looks, stream=stream)
    Device.context_id += 1
    for looks in (1, 0):
        again(4, looks=looks)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(again, 2, looks=0).result()
    again(2, looks=0)
    again.args[2][()] = 1
    executable.replay(5)
    again(2, looks=1)
    again(2, looks=0)
    values = (*(view_of_host(each, each) for each in arguments(do_while, 1)[:3]), 7)
    executable.graph(Call(values, kernel.host_values(values), 0))
    for looks in (1, 1, 0):
        again(2, looks=looks)
    executable.close()
    is_closed(again.run)


def repeated_and_adapted():
    """Which graph is launched is looked at each time."""
    kernel = Kernel(do_while, *arguments(do_while, 3))
    again = ReplayCode(kernel, *arguments(do_while, 3))
    # Before anything is known; the first of each length, the change (which is prepared first), and then again.
    for turns, looks, unrolled in (
        *((2, 1, False), (2, 1, False), (2, 0, False)),
        *((20, 0, False), (20, 1, False), (20, 1, True), (20, 1, True), (20, 0, True)),
        *((2, 0, True), (2, 1, False), (2, 0, False)),
        *((20, 0, False), (20, 1, True), (20, 0, True)),
        *((2, 0, True), (2, 1, False), (2, 0, False)),
        *((20, 0, False), (2, 1, True), (2, 1, False), (2, 0, False)),
    ):
        again(turns, looks=looks)
        assert kernel.unrolled == unrolled


class Interrupting:
    """Stands for ``inner``, and raises when it has done what it was asked for: so many items are set, or it was called."""

    def __init__(self, inner, items):
        self.inner, self.items = inner, items

    def __setitem__(self, index, value):
        self.inner[index] = value
        self.items -= 1
        if not self.items:
            raise KeyboardInterrupt

    def __call__(self, *args):
        self.inner(*args)
        raise KeyboardInterrupt

    def pack_into(self, *args):
        self.inner.pack_into(*args)
        raise KeyboardInterrupt


def interrupted():
    """A call that was interrupted while arguments and sizes are changed, then one with the old arguments, and with the new."""
    wide, narrow = (
        lambda: (np.arange(9) + 1, np.zeros(9, int), np.array(1), 7),
        lambda: (np.arange(3) + 1, np.zeros(3, int), np.array(2), 9),
    )
    for unrolled in (False, True):
        kernel = Kernel(do_while, *wide(), unrolled=unrolled)
        kernel.agrees(*wide())
        executable = kernel.executable
        parameters = executable._parameters
        places = (
            (parameters, "_integers"),
            (parameters._arrays[0], "layout"),
            *((type(each), "take_shape") for each in executable._sized[:1]),
            *((executable, name) for name in ("_let_start_early", "_place", "_apply")),
            *((parameters, name) for name in ("update_host", "update")),
        )
        cases = itertools.product(places, (wide, narrow), (wide, narrow), (0, 1))
        # Each case in one of the two forms.
        half = [case for number, case in enumerate(cases) if (number + number // 2) % 2 == unrolled]
        for (where, name), old, new, first in half:
            if name == "_integers" and old is new:
                # Of an address alone it is noted at once that it was written: nothing comes between.
                continue
            before, after = old(), new()
            given = [tuple(each.copy() if isinstance(each, np.ndarray) else each for each in args) for args in (before, after)]
            kernel(*given[0])
            plainly = getattr(where, name)
            broken = Interrupting(plainly, len(parameters.host))
            # A method of all, or an attribute of this one.
            setattr(where, name, functools.partialmethod(broken) if isinstance(where, type) else broken)
            with contextlib.suppress(KeyboardInterrupt):
                kernel(*given[1])
            setattr(where, name, plainly)
            for args, fresh in ((given[first], (before, after)[first]), (given[1 - first], (before, after)[1 - first])):
                # In the very arrays that were passed before, as they were at first.
                for mine, value in zip(args, fresh, strict=True):
                    if isinstance(mine, np.ndarray):
                        mine[...] = value
                wanted = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in fresh)
                kernel.kernel.reference(*wanted)
                kernel(*args)
                for mine, value in zip(args, wanted, strict=True):
                    np.testing.assert_array_equal(mine, value, f"{name}, {unrolled}, {old is wide}, {new is wide}, {first}")


PARTS = ("forced", "adapted", "the_same", "never", "repeated", "repeated_and_adapted", "interrupted")

if __name__ == "__main__":
    install()
    for part in sys.argv[1:] or PARTS:
        globals()[part]()
    print("as plain Python")
