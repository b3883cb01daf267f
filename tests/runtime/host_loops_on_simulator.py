"""Loops that the host drives, on a driver whose streams run late: a script for test_host_loops.py.

It is the driver of graphs_on_simulator.py, but what is put in a stream runs some time later: when the host waits for it, or at
random before that, in the order that streams and events allow.
"""

from __future__ import annotations

import collections
import copy
import inspect
import itertools
import random
import sys
import types

import numpy as np

import qgraph
from qgraph.ir.artifacts import CudaPlan
from qgraph.lowering.compile import compile_simulator
from qgraph.runtime.executors import host_loop
from qgraph.runtime.values.array_view import view_of_host
from qgraph.runtime.values.host_values import HostValues
from qgraph.runtime.values.prepared_call import Call
from tests.loop_kernels import faulty, leaving, trading
from tests.runtime import graphs_on_simulator as simulated
from tests.runtime.graphs_on_simulator import nested

COUNTS = (1, 2, 3, 7, 8, 9, 10, 11, 16, 17, 18, 24, 25, 26, 27, 100)
chosen = random.Random(7)


class Later(simulated.Driver):
    """Streams are queues."""

    def __init__(self):
        self.queues = collections.defaultdict(collections.deque)
        # How often each event was recorded, and how often it happened.
        self.recorded, self.happened = collections.Counter(), collections.Counter()
        # What the host did, in order.
        self.log = []
        self.interrupted_after = None

    def put(self, stream, work, ready=lambda: True):
        self.queues[stream].append((ready, work))
        while chosen.random() < 0.3:
            self.step()
        return (0,)

    def step(self):
        """Run one thing that may run; whether there was one."""
        heads = [queue for queue in self.queues.values() if queue and queue[0][0]()]
        if not heads:
            return False
        _, work = chosen.choice(heads).popleft()
        work()
        return True

    def until(self, reached):
        while not reached():
            assert self.step(), "the host waits for what never comes"
        return 0, 0

    def cuMemsetD8Async(self, address, value, count, stream):
        return self.put(stream, lambda: simulated.Driver.cuMemsetD8Async(self, address, value, count, stream))

    def cuMemcpyHtoDAsync(self, target, source, size, stream):
        return self.put(stream, lambda: simulated.Driver.cuMemcpyHtoDAsync(self, target, source, size, stream))

    cuMemcpyDtoHAsync = cuMemcpyHtoDAsync

    def cuGraphLaunch(self, executable, stream):
        self.log.append(executable)
        # With the parameters that it has now.
        now = copy.copy(executable)
        now.parameters, now.off = dict(executable.parameters), set(executable.off)
        return self.put(stream, now.run)

    def cuLaunchKernel(self, function, blocks, down, times, threads, threads_down, _tz, _shared, stream, parameters, _extra):
        self.log.append(function)
        grid, block = (
            {"gridDimX": blocks, "gridDimY": down, "gridDimZ": times},
            {"blockDimX": threads, "blockDimY": threads_down},
        )
        launch = types.SimpleNamespace(func=function, **grid, **block, kernelParams=parameters)
        kernel = simulated.snapshot(launch)
        return self.put(stream, lambda: simulated.run_kernel(*kernel))

    def cuEventRecord(self, event, stream):
        self.recorded[event] += 1
        number = self.recorded[event]
        return self.put(stream, lambda: self.happened.__setitem__(event, number))

    def cuStreamWaitEvent(self, stream, event, flags):
        number = self.recorded[event]
        return self.put(stream, lambda: None, lambda: self.happened[event] >= number)

    def cuEventSynchronize(self, event):
        self.log.append("wait")
        self.interrupt()
        return self.until(lambda: self.happened[event] >= self.recorded[event])

    def interrupt(self):
        if self.interrupted_after is not None:
            self.interrupted_after -= 1
            if self.interrupted_after < 0:
                self.interrupted_after = None
                raise KeyboardInterrupt

    def cuStreamSynchronize(self, stream):
        self.interrupt()
        return self.until(lambda: not self.queues[stream])

    def cuCtxSynchronize(self):
        return self.until(lambda: not any(self.queues.values()))


driver = simulated.driver = Later()


class Device(simulated.Device):
    def wait(self):
        driver.cuCtxSynchronize()


class Kernel(simulated.Kernel):
    """A kernel whose loops the host drives."""

    def __init__(self, function, *args, as_graphs=True, capability=(9, 0), **options):
        self.function, self.kernel = function, qgraph.kernel(function, **options)
        plan = self.plan = self.kernel.plan(*args)
        compiled = compile_simulator(plan)
        driver.plan, driver.kernels = compiled, compiled.kernels
        self.host_values = HostValues(plan.program).of
        made = CudaPlan(plan, compiled.codes, {}, b"", capability, True, compiled.dtypes)
        self.executable = host_loop.CudaHostLoopExecutable(
            made, Device(), block_size=8, as_graphs=as_graphs, reason="a test asks for it"
        )

    def start(self, *args, stream=0):
        """Launch, and wait for nothing else than the launch does."""
        values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
        found = self.executable.launch(Call(values, self.host_values(values), stream))
        return found if found is None else tuple(int(each) for each in found)

    @property
    def ran_ahead(self):
        return "ahead" in self.executable.reason


# --- the kernels --------------------------------------------------------------------------------------------------------


def do_while(x, y, turns, a):
    y[:] = 0
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            y[i] = y[i] * 2 + x[i] * 3 + a
        for i in range(x.shape[0]):
            x[i] = y[x.shape[0] - 1 - i] * 5 + i
        turns[()] -= 1
    for i in range(y.shape[0]):
        y[i] += x[i]


def independent(x, y, turns, a):
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + a
        for i in range(y.shape[0]):
            y[i] = y[i] * 5 + 2
        turns[()] -= 1


def limited(x, y, turns, a):
    y[0] = 0
    while qgraph.graph_do_while(turns, max_iter=a):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + 1
        turns[()] -= 1
        y[0] += 1


def tested_first(x, y, turns, a):
    n = 0
    while n < turns[()] - 1:
        n += 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + n + a
    return n


def counted(x, y, turns, a):
    n = 0
    for t in qgraph.serial(range(turns[()] - 1)):
        n += t
        for i in range(x.shape[0]):
            x[i] = x[i] * a + t
        for i in range(y.shape[0]):
            y[i] -= n + x[i]
    return n


def several(x, y, turns, a):
    more = turns[()] % 12
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + a
        turns[()] -= 1
    for i in range(x.shape[0]):
        y[i] += x[i]
    while more > 0:
        for i in range(x.shape[0]):
            y[i] = y[i] * 5 + more
        more -= 1
    for _ in qgraph.serial(range(9)):
        for i in range(x.shape[0]):
            x[i] = x[i] * 7 + y[i]
    return more


def deciding_sum(x, y, turns, a):
    total = 0
    n = 0
    while total < turns[()] * 10:
        total = 0
        for i in range(x.shape[0]):
            x[i] = i % 2 + n
        for i in range(x.shape[0]):
            total += x[i]
        for i in range(y.shape[0]):
            y[i] = y[i] * 3 + total
        n += 1
    return n


KERNELS = (do_while, independent, limited, tested_first, counted, several, nested, leaving, deciding_sum, trading)


def arguments(function, turns, n=5, a=7):
    """Those that the function has."""
    given = {"x": np.arange(n) + turns, "y": np.full(n, 77), "turns": np.array(turns), "a": a}
    return tuple(given[name] for name in inspect.signature(function).parameters)


def check(kernel, turns, *, n=5, a=7, stream=0):
    """Launch; what it must leave, and what it will."""
    mine, plain = (arguments(kernel.function, turns, n, a) for _ in range(2))
    found = kernel.start(*mine, stream=stream)
    with np.errstate(over="ignore"):
        wanted = kernel.kernel.reference(*plain)
    assert found == (None if wanted is None else (wanted,)), (kernel.plan.program.name, turns, found, wanted)
    return mine, plain, (kernel.plan.program.name, turns)


def settle(pairs):
    driver.cuCtxSynchronize()
    for mine, plain, name in pairs:
        for found, wanted in zip(mine, plain, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=str(name))


def any_number_of_turns():
    for function, capability in [*((each, (9, 0)) for each in KERNELS), (independent, (8, 0))]:
        kernel = Kernel(function, *arguments(function, 3), capability=capability)
        assert len(kernel.plan.unrolled) == (3 if function is several else 1), function
        pairs = []
        # A loop that ran long is run ahead of at once, another one later.
        counts = (*chosen.sample(COUNTS[:-1], 1), 9, 17)
        if function is independent and capability == (9, 0):
            counts = (*COUNTS, *itertools.chain.from_iterable((turns, 16) for turns in (1, 9, 17)))
        for turns in counts:
            # Several calls are in flight, each with arguments and sizes of its own, on one stream or another.
            n = chosen.choice([1, 5, 9])
            pairs.append(check(kernel, turns, n=n, a=chosen.choice([1, 2, 30]), stream=chosen.choice([0, 1, 2])))
            if chosen.random() < 0.3:
                settle(pairs)
                pairs = []
        settle(pairs)
        assert kernel.executable.rebuilds == 0
        kernel.executable.close()


def launches():
    """How much is launched for so many turns, and that the host is ahead."""
    for function in (independent, leaving):
        kernel = Kernel(function, *arguments(function, 3))
        settle([check(kernel, 50)])
        before = 50
        for turns in (*COUNTS[:-1], 1, 16, 2, 16, 9, 16, 10, 17, 18, 60):
            driver.log.clear()
            settle([check(kernel, turns)])
            turns = min(turns, 60) if function is leaving else turns
            alone = 1 if before >= 16 else 8
            before = turns
            batches = max(0, -(-(turns - alone) // 8))
            waits = driver.log.count("wait")
            launched = len(driver.log) - waits
            # One more is on its way, where the first was not enough; and a graph before the loop and one behind it.
            assert waits == batches, (turns, driver.log)
            outside = 2 * (function is leaving)
            assert launched == min(turns, alone) + batches + (batches > 1) + outside, (turns, driver.log)
            assert kernel.ran_ahead == (turns > alone)
        first = [number for number, each in enumerate(driver.log) if each == "wait"]
        # One launch, the wait for it; then two, and one more before each further wait.
        assert [second - one for one, second in itertools.pairwise(first)][:3] == [3, 2, 2]


def unchanged():
    """The same arguments again are no update, and no graph is built twice."""
    kernel = Kernel(do_while, *arguments(do_while, 3))
    mine = arguments(do_while, 30)
    values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in mine)
    same = Call(values, kernel.host_values(values), 0)
    for _ in range(4):
        mine[2][()] = 30
        kernel.executable.launch(same)
    for _ in range(2):
        mine[2][()] = 30
        kernel.executable.replay(1)
    assert kernel.executable.argument_updates == 0
    assert len(kernel.executable._resources.graphs) == 5
    driver.cuCtxSynchronize()
    x, y = arguments(do_while, 30)[:2]
    with np.errstate(over="ignore"):
        for _ in range(6):
            kernel.kernel.reference(x, y, np.array(30), 7)
    driver.cuCtxSynchronize()
    np.testing.assert_array_equal(mine[0], x)
    np.testing.assert_array_equal(mine[1], y)
    settle([check(kernel, 30, n=40), check(kernel, 3, n=2), check(kernel, 30, a=2)])
    assert len(kernel.executable._resources.graphs) == 5


def interrupted():
    """Whoever interrupts the host leaves launches behind; later ones are right, whatever stream they take."""
    # First each iteration is waited for; then copies run ahead, where there are graphs.
    for function, as_graphs in ((independent, True), (nested, True), (several, True), (several, False)):
        kernel = Kernel(function, *arguments(function, 3), as_graphs=as_graphs)
        for after in (0, 7, 9, 11):
            driver.interrupted_after = after
            lost = arguments(function, 90)
            try:
                kernel.start(*lost, stream=1)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("nothing was interrupted")
            for turns in (12, 1, 20):
                settle([check(kernel, turns, stream=chosen.choice([1, 2]))])
        kernel.executable.close()


def faults():
    """A loop ends where a task finds a fault, and the copies behind it do nothing."""
    given = np.zeros(24), np.arange(24.0), np.array([1, 23]), np.array([12, 11])
    kernel = Kernel(faulty, *given)
    assert len(kernel.plan.unrolled) == 1
    for last in (1, 9, 11):
        x, y, ends, turns = np.zeros(24), np.arange(24.0), np.array([1, 23]), np.array([12, last])
        try:
            kernel.start(x, y, ends, turns)
        except qgraph.ArgumentError as error:
            assert f"has length {last + 1}, and `x[:ends[0]]` has length {last + 2}" in str(error), error
        else:
            raise AssertionError("a fault was not told")
        driver.cuCtxSynchronize()
        assert np.array_equal(x[:last], y[24 - last :] + last - 1)
        assert (x[last:] == 0).all()
        x, y, ends, turns = np.zeros(24), np.arange(24.0), np.array([1, 23]), np.array([12, 50])
        assert kernel.start(x, y, ends, turns) == (12,)
        driver.cuCtxSynchronize()
        assert np.array_equal(x[:12], y[12:] + 11)


def one_by_one():
    """Without graphs each iteration is waited for, and nothing is guarded."""
    for function in (independent, several):
        kernel = Kernel(function, *arguments(function, 3), as_graphs=False)
        for turns in (1, 12, 30):
            driver.log.clear()
            settle([check(kernel, turns)])
            assert "wait" not in driver.log
            assert not kernel.ran_ahead
        assert not kernel.executable._resources.graphs


if __name__ == "__main__":
    host_loop.driver = driver
    host_loop.outside_captures = simulated.contextlib.nullcontext
    simulated.install()
    for part in sys.argv[1:]:
        globals()[part]()
    print("as plain Python")
