"""The short way past the lock of an executable: who may take it, and that who holds the lock waits for who is on it.

Each test runs for launches that Python looks at, and for those of machine code.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import types

import numpy as np
import pytest

import qgraph
from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import ExecutableClosed
from qgraph.runtime.executors import base, relaunch
from qgraph.runtime.executors.relaunch import GraphLaunch, again, make_ready, stop
from qgraph.runtime.native import native_launch
from qgraph.runtime.native.machine_code import MachineCode
from qgraph.runtime.native.native_launch import Counter
from qgraph.runtime.values.prepared_call import Call, ReplayCode
from tests.running_again import function_of

CONTEXT, GRAPH = 7, 1234


class Driver:
    """Launches are noted; ``during`` is called in the midst of one, ``before`` when it looks for the context."""

    def __init__(self):
        self.launched = []
        self.context = 0, CONTEXT
        self.code = 0
        # What is said of a stream: whether that went well, and whether it is being captured.
        self.captured = 0, 0
        self.asked = []
        self.before = self.during = lambda: None

    def cuCtxGetId(self, _context):
        self.before()
        return self.context

    def cuGraphLaunch(self, executable, stream):
        self.launched.append((executable, stream))
        self.during()
        return (self.code,)

    def cuStreamIsCapturing(self, stream):
        self.asked.append(stream)
        return self.captured

    def CUstream(self, stream):
        return stream

    def CUresult(self, code):
        return code


class MachineDriver(Driver):
    """The same for machine code, which calls it by addresses."""

    def __init__(self):
        super().__init__()
        launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self._launch)
        get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))(self._get)
        # One object, as a function of a module is.
        self.cuGraphLaunch = super().cuGraphLaunch
        asked = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))(self._asked)
        self.functions = {"cuGraphLaunch": launch, "cuCtxGetId": get, "cuStreamIsCapturing": asked}

    def _launch(self, executable, stream):
        return self.cuGraphLaunch(executable, stream or 0)[0]

    def _get(self, context, place):
        assert context is None
        code, number = self.cuCtxGetId(context)
        # Whoever does not look at the code must not take this for a context.
        place[0] = number if code == 0 else CONTEXT
        return code

    def _asked(self, stream, place):
        code, place[0] = self.cuStreamIsCapturing(stream)
        return code

    def address_of(self, name):
        return ctypes.cast(self.functions[name], ctypes.c_void_p).value


class Owner:
    """An executable whose launches are looked at closely."""

    def __init__(self):
        self.ready = None
        self.lock = threading.Lock()
        self.settled = None
        self.looked = []
        self.counter = Counter()

    def launch(self, request, repeat):
        with self.lock:
            self.stop()
            self.looked.append(request)
            self.make_ready(repeat, request.stream, self.settled)
        return None

    def make_ready(self, repeat, stream, settled=None):
        launch = relaunch.driver.cuGraphLaunch
        self.ready = make_ready(stream, GraphLaunch(CONTEXT, GRAPH, launch, self.counter, settled))
        if self.ready is not None:
            repeat.go = self.ready.go

    def stop(self):
        if self.ready is not None:
            stop((self.ready,))
            self.ready = None


def runner(owner, request, find_stream):
    """A function that runs a call once more."""
    return function_of(again(owner, request, find_stream))


@pytest.fixture(params=["Python", "machine code"])
def driver(request, monkeypatch):
    made = Driver() if request.param == "Python" else MachineDriver()
    monkeypatch.setattr(relaunch, "driver", made)
    if request.param == "machine code":
        monkeypatch.setattr(native_launch, "address_of", made.address_of)
        monkeypatch.setattr(native_launch, "is_worth_it", lambda: True)
    monkeypatch.setattr(relaunch, "failure", lambda code, name: CudaError(f"{name} failed with {code}"))
    return made


@pytest.fixture
def owner():
    return Owner()


def call(stream=0):
    return Call((), (), stream)


def test_the_same_launch_is_the_drivers_alone(driver, owner):
    run = runner(owner, call(3), lambda: 3)
    for _ in range(4):
        assert run() is None
    assert len(owner.looked) == 1
    assert driver.launched == [(GRAPH, 3)] * 3
    assert owner.counter.value == 3


def test_who_looks(driver, owner):
    runner(owner, call(), lambda: 0)()
    assert isinstance(owner.ready, relaunch._Direct if isinstance(driver, MachineDriver) else relaunch._Checked)


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_launches_that_come_often_are_made_directly(driver, owner, monkeypatch):
    code = MachineCode(native_launch._CODE._text, native_launch._CODE._calls)
    monkeypatch.setattr(native_launch, "_CODE", code)
    monkeypatch.setattr(native_launch, "is_worth_it", lambda: code._wanted)
    monkeypatch.setattr(relaunch, "_OFTEN", 3)
    run = runner(owner, call(), lambda: 0)
    kinds = []
    for _ in range(7):
        run()
        kinds.append(type(owner.ready))
    assert kinds == [relaunch._Checked] * 4 + [relaunch._Direct] * 3
    assert (len(owner.looked), len(driver.launched), owner.counter.value) == (2, 5, 5)


@pytest.fixture
def asked():
    """The driver is asked once a process what it has; not by these tests."""
    native_launch._driver_has_all.cache_clear()
    yield
    native_launch._driver_has_all.cache_clear()


@pytest.mark.parametrize("lacking", ["", "cuCtxGetId", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams"])
def test_a_driver_that_lacks_a_function_is_not_called_directly(lacking, asked, monkeypatch):
    def address_of(name):
        if name == lacking:
            raise CudaError(f"no {name}")
        return 1

    monkeypatch.setattr(native_launch, "driver", types.ModuleType("driver"))
    monkeypatch.setattr(native_launch, "_CODE", types.SimpleNamespace(usable=True))
    monkeypatch.setattr(native_launch, "address_of", address_of)
    assert native_launch.is_worth_it() == (not lacking)


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_the_machine_code(driver, owner):
    runner(owner, call(), lambda: 0)()
    go = owner.ready.go
    with pytest.raises(TypeError, match="integer"):
        go("stream")
    assert go(-1) is None
    assert go(0) == 0
    driver.code = 719
    assert go(0) == 719
    owner.stop()
    gc.collect()
    # What it looks at lives as long as it does.
    assert go(0) is None
    assert owner.counter.value == 1
    nones = sys.getrefcount(None)
    for _ in range(1000):
        go(0)
    assert sys.getrefcount(None) > nones - 500


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_other_threads_run_while_the_driver_is_called(driver, owner, monkeypatch):
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value
    monkeypatch.setattr(
        native_launch, "address_of", lambda name: usleep if name == "cuGraphLaunch" else driver.address_of(name)
    )
    ready = make_ready(0, GraphLaunch(CONTEXT, 500_000, driver.cuGraphLaunch, owner.counter))
    done, ticks = threading.Event(), []

    def tick():
        while not done.wait(0.001):
            ticks.append(ready.busy)

    thread = threading.Thread(target=tick)
    thread.start()
    assert ready.go(0) == 0
    done.set()
    thread.join(10)
    assert any(ticks)
    assert not ready.busy


def test_another_call_in_between(driver, owner):
    first, second = runner(owner, call(), lambda: 0), runner(owner, call(), lambda: 0)
    for run in (first, second, second, first, first):
        run()
    assert len(owner.looked) == 3
    assert len(driver.launched) == 2


def test_another_stream(driver, owner):
    stream = 0
    request = call()
    run = runner(owner, request, lambda: stream)
    run()
    stream = 9
    run()
    run()
    assert [looked.stream for looked in owner.looked] == [0, 9]
    first, second = (looked.token for looked in owner.looked)
    assert first is second is not None
    assert driver.launched == [(GRAPH, 9)]


@pytest.mark.parametrize("captured", [(0, 1), (0, 2), (900, 0)])
def test_a_stream_that_is_captured_takes_the_long_way(driver, owner, captured):
    run = runner(owner, call(9), lambda: 9)
    run()
    run()
    driver.captured = captured
    run()
    assert (len(owner.looked), driver.launched) == (2, [(GRAPH, 9)])
    driver.captured = 0, 0
    run()
    assert (len(owner.looked), driver.launched) == (2, [(GRAPH, 9)] * 2)


@pytest.mark.parametrize("stream", [0, 1, 2, 9])
def test_of_the_default_stream_nobody_asks_whether_it_is_captured(driver, owner, stream):
    run = runner(owner, call(stream), lambda: stream)
    for _ in range(3):
        run()
    assert driver.asked == ([] if stream in (0, 1) else [stream] * 2)
    assert driver.launched == [(GRAPH, stream)] * 2


@pytest.mark.parametrize("context", [(0, CONTEXT + 1), (201, None)])
def test_another_context_or_none(driver, owner, context):
    run = runner(owner, call(), lambda: 0)
    run()
    driver.context = context
    run()
    assert (len(owner.looked), driver.launched) == (2, [])


def test_what_is_not_settled(driver, owner):
    answers = [True, False]
    owner.settled = answers.pop
    run = runner(owner, call(), lambda: 0)
    for _ in range(3):
        run()
    assert (len(owner.looked), len(driver.launched), answers) == (2, 1, [])


def test_another_thread_looks_for_itself(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert (len(owner.looked), driver.launched) == (2, [])


def test_who_holds_the_lock_waits(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    inside, leave, order = threading.Event(), threading.Event(), []

    def during():
        inside.set()
        leave.wait(10)
        order.append("launched")

    def other():
        with owner.lock:
            owner.stop()
            order.append("stopped")

    driver.during = during
    # The owner's thread is this one, so the other waits in it while a third lets it go on.
    waiting = threading.Thread(target=lambda: (inside.wait(10), other()))
    waiting.start()
    threading.Thread(target=lambda: (waiting.join(0.2), leave.set())).start()
    run()
    waiting.join(10)
    assert order == ["launched", "stopped"]
    assert owner.ready is None


def test_a_wait_that_is_interrupted_is_the_next_ones(owner, driver, monkeypatch):
    runner(owner, call(), lambda: 0)()
    ready = owner.ready
    ready.thread = -1

    def make_busy(busy):
        if isinstance(ready, relaunch._Direct):
            ready._words[native_launch.BUSY] = busy
        else:
            ready._busy = bool(busy)

    make_busy(1)

    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(relaunch.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        owner.stop()
    waits = []

    def waited(seconds):
        waits.append(seconds)
        make_busy(0)

    monkeypatch.setattr(relaunch.time, "sleep", waited)
    owner.stop()
    assert len(waits) == 1
    assert owner.ready is None


@pytest.mark.parametrize("driver", ["Python"], indirect=True)
def test_stopped_between_the_first_look_and_the_launch(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()

    driver.before = owner.stop
    run()
    assert (len(owner.looked), driver.launched) == (2, [])


def test_a_launch_that_fails_keeps_nobody_waiting(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    driver.code = 1
    with pytest.raises(CudaError, match="cuGraphLaunch failed with 1"):
        run()
    assert owner.counter.value == 0
    nobody_waits(owner)


@pytest.mark.parametrize("driver", ["Python"], indirect=True)
def test_a_launch_that_is_interrupted_keeps_nobody_waiting(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()

    def during():
        raise KeyboardInterrupt

    driver.during = during
    with pytest.raises(KeyboardInterrupt):
        run()
    assert owner.counter.value == 0
    nobody_waits(owner)


def nobody_waits(owner):
    waiting = threading.Thread(target=owner.stop, daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()


def test_the_thread_on_the_way_does_not_wait_for_itself(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    driver.during = lambda: owner.stop()
    run()
    assert owner.ready is None


def test_a_call_in_the_midst_of_one_leaves_the_thread_on_the_way(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    seen = []

    def during():
        driver.during = lambda: None
        # As from a signal's handler.
        run()
        seen.append(owner.ready.busy)

    driver.during = during
    run()
    assert seen == [True]
    assert not owner.ready.busy
    assert len(driver.launched) == 2


def test_threads_that_run_at_once_have_no_short_way(driver, owner, monkeypatch):
    monkeypatch.setattr(relaunch, "_ONE_AT_A_TIME", False)
    run = runner(owner, call(), lambda: 0)
    for _ in range(3):
        run()
    assert (len(owner.looked), driver.launched) == (3, [])


def test_many_threads(driver):
    """No launch while somebody holds the lock, and no two at once."""

    class Watched(Owner):
        inside = 0

        def launch(self, request, repeat):
            with self.lock:
                self.stop()
                enter()
                self.inside -= 1
                self.make_ready(repeat, request.stream)
            return None

    owner, wrong = Watched(), []

    def enter():
        owner.inside += 1
        if owner.inside != 1:
            wrong.append(owner.inside)
        # The driver's functions let other threads run.
        threading.Event().wait(1e-6)

    driver.during = lambda: (enter(), setattr(owner, "inside", owner.inside - 1))
    runs = [runner(owner, call(), lambda: 0) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda k=k: [runs[(k + i // 7) % 2]() for i in range(300)]) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not wrong
    assert driver.launched


@pytest.mark.parametrize("bound", [False, True])
def test_what_another_thread_closed_is_built_again(bound):
    @qgraph.kernel(backend="cpu")
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += 1

    x = np.zeros(3)
    run = kernel.bind(x).launch if bound else lambda: kernel(x)
    run()
    (specialisation,) = kernel._specialisations.values()
    plainly = specialisation.executable

    def evicted(*_):
        # As if it came between the look at the executable and its lock.
        if specialisation.executable is plainly:
            specialisation.close()
        raise ExecutableClosed("this executable was closed")

    again_ = ReplayCode((), {"run": evicted}, lambda _arrays: ["numbers = run()"])
    plainly.launch, plainly.again = evicted, lambda _call, held: again_
    if bound:
        run = kernel.bind(x).launch
    run()
    assert specialisation.executable is not plainly
    np.testing.assert_array_equal(x, 2)


def test_an_executable_that_was_closed_meanwhile_is_not_launched(monkeypatch):
    """By a thread without a context, of which the driver says that it has none."""
    monkeypatch.setattr(base, "driver", types.SimpleNamespace(cuCtxGetId=lambda _context: (201, None)))

    class Executable(base.CudaExecutable):
        def _build(self):
            raise AssertionError

        def _run(self, stream):
            raise AssertionError

        def _patch(self, request):
            raise AssertionError

        def _enter(self):
            raise ExecutableClosed("this executable was closed")

    executable = object.__new__(Executable)
    executable._lock, executable._ready, executable._context_id = threading.Lock(), None, CONTEXT
    executable._resources = types.SimpleNamespace(kept=None, release=lambda: None)
    executable._finalizer = types.SimpleNamespace(detach=lambda: None)
    executable.close()
    with pytest.raises(ExecutableClosed):
        executable.launch(call())
