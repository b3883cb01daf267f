"""The short way of a call that comes back: who may take it, and that nobody launches who does not hold the lock.

Each test runs for launches that Python looks at, and for those of machine code.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
import types

import numpy as np
import pytest

import qgraph
from qgraph.errors import CudaError
from qgraph.runtime.driver import native
from qgraph.runtime.driver.driver import ExecutableClosed
from qgraph.runtime.driver.native import MachineCode
from qgraph.runtime.executors import base, relaunch
from qgraph.runtime.executors.relaunch import Relaunch, again
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
    """An executable whose launches the long way are noted."""

    def __init__(self):
        self.lock, self.ready, self.looked, self.counter = threading.RLock(), None, [], ctypes.c_int64()

    @property
    def replays(self):
        return self.counter.value

    def launch(self, request, repeat):
        with self.lock:
            self.stop()
            self.looked.append(request)
            repeat.open(request.stream, CONTEXT, GRAPH)
            self.ready = repeat
        return None

    def stop(self):
        if self.ready is not None:
            self.ready.close()
            self.ready = None


def runner(owner, request, find_stream):
    """A function that runs a call once more."""
    return function_of(again(Relaunch(owner, owner.lock, owner.counter, request), find_stream))


@pytest.fixture(params=["Python", "machine code"])
def driver(request, monkeypatch):
    made = Driver() if request.param == "Python" else MachineDriver()
    monkeypatch.setattr(relaunch, "driver", made)
    monkeypatch.setattr(native, "may_launch", lambda: isinstance(made, MachineDriver))
    if request.param == "machine code":
        monkeypatch.setattr(native, "address_of", made.address_of)
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
    assert owner.replays == 3
    assert (owner.ready.direct is not None) == isinstance(driver, MachineDriver)


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_launches_that_come_often_are_made_directly(driver, owner, monkeypatch):
    code = MachineCode(native._CODE._text, native._CODE._calls)
    monkeypatch.setattr(native, "_CODE", code)
    monkeypatch.setattr(native, "may_launch", lambda: code._wanted)
    monkeypatch.setattr(relaunch, "_OFTEN", 3)
    run = runner(owner, call(), lambda: 0)
    direct = []
    for _ in range(7):
        run()
        direct.append(owner.ready is not None and owner.ready.direct is not None)
    assert direct == [False] * 3 + [True] * 4
    assert (len(owner.looked), len(driver.launched), owner.replays) == (2, 5, 5)


@pytest.fixture
def asked():
    """The driver is asked once a process what it has; not by these tests."""
    native._driver_has_all.cache_clear()
    yield
    native._driver_has_all.cache_clear()


@pytest.mark.parametrize("lacking", ["", "cuCtxGetId", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams"])
def test_a_driver_that_lacks_a_function_is_not_called_directly(lacking, asked, monkeypatch):
    def address_of(name):
        if name == lacking:
            raise CudaError(f"no {name}")
        return 1

    monkeypatch.setattr(native, "driver", types.ModuleType("driver"))
    monkeypatch.setattr(native, "_CODE", types.SimpleNamespace(usable=True))
    monkeypatch.setattr(native, "address_of", address_of)
    assert native.may_launch() == (not lacking)


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_the_machine_code(driver, owner):
    runner(owner, call(), lambda: 0)()
    direct = owner.ready.direct
    assert direct(-1) is direct("stream") is direct(2**64) is None
    assert direct(0) == 0
    driver.code = 719
    assert direct(0) == 719
    driver.code = -1
    assert direct(0) == -1
    owner.stop()
    gc.collect()
    # What it looks at lives as long as it does. It was closed.
    assert direct(0) is None
    assert owner.replays == 1
    nones = sys.getrefcount(None)
    for _ in range(1000):
        direct(0)
    assert sys.getrefcount(None) > nones - 500


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_another_graph_closes_the_one_before(driver, owner):
    """Some thread may have got this far, and the graph is gone by then."""
    runner(owner, call(), lambda: 0)()
    direct = owner.ready.direct
    owner.ready.open(0, CONTEXT, GRAPH + 1)
    assert direct(0) is None
    assert owner.ready.direct(0) == 0
    assert driver.launched == [(GRAPH + 1, 0)]


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_machine_code_gives_the_lock_back(driver, owner):
    class Lock:
        held, raises = 0, False

        def acquire(self):
            if self.raises:
                raise KeyboardInterrupt
            self.held += 1

        def release(self):
            self.held -= 1

    lock, seen = Lock(), []
    direct, words = native.launcher(9, CONTEXT, GRAPH, lock, owner.counter)
    driver.before = driver.during = lambda: seen.append(lock.held)
    assert (direct(9), lock.held) == (0, 0)
    for change in ({"code": 5}, {"captured": (0, 1)}, {"context": (0, 1)}):
        vars(driver).update(change)
        assert (direct(9), direct(3), lock.held) == (5 if "code" in change else None, None, 0)
    words[0] = 0
    assert (direct(9), lock.held) == (None, 0)
    assert set(seen) == {1}
    lock.raises, launched = True, len(driver.launched)
    with pytest.raises(KeyboardInterrupt):
        direct(9)
    assert (lock.held, len(driver.launched), owner.replays) == (0, launched, 1)


@pytest.mark.parametrize("driver", ["machine code"], indirect=True)
def test_other_threads_run_while_the_driver_is_called(driver, owner, monkeypatch):
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value
    monkeypatch.setattr(native, "address_of", lambda name: usleep if name == "cuGraphLaunch" else driver.address_of(name))
    direct, _ = native.launcher(0, CONTEXT, 500_000, owner.lock, owner.counter)
    done, ticks = threading.Event(), []

    def tick():
        while not done.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    assert direct(0) == 0
    done.set()
    thread.join(10)
    assert len(ticks) > 5


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


def test_another_thread(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert (len(owner.looked), driver.launched) == (1, [(GRAPH, 0)])


def test_who_holds_the_lock_waits(driver, owner):
    run = runner(owner, call(), lambda: 0)
    run()
    inside, leave, order = threading.Event(), threading.Event(), []

    def during():
        inside.set()
        leave.wait(10)
        order.append("launched")

    def other():
        inside.wait(10)
        with owner.lock:
            owner.stop()
            order.append("stopped")

    driver.during = during
    waiting = threading.Thread(target=other)
    waiting.start()
    threading.Thread(target=lambda: (waiting.join(0.2), leave.set())).start()
    run()
    waiting.join(10)
    assert order == ["launched", "stopped"]


@pytest.mark.parametrize("driver", ["Python"], indirect=True)
@pytest.mark.parametrize("stream", [0, 9])
def test_stopped_between_the_first_look_and_the_launch(driver, owner, stream):
    """As by a signal's handler."""
    run = runner(owner, call(stream), lambda: stream)
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
    assert owner.replays == 0
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
    assert owner.replays == 0
    nobody_waits(owner)


def nobody_waits(owner):
    def wait():
        with owner.lock:
            owner.stop()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_call_in_the_midst_of_one(driver, owner):
    """As from a signal's handler, with these arguments or with others."""
    run, other = runner(owner, call(), lambda: 0), runner(owner, call(), lambda: 0)
    run()

    def during():
        driver.during = lambda: None
        run()
        other()

    driver.during = during
    run()
    assert (len(owner.looked), len(driver.launched)) == (2, 2)
    run()
    assert (len(owner.looked), len(driver.launched), owner.replays) == (3, 2, 2)


def test_many_threads(driver):
    """No launch while somebody holds the lock, and no two at once."""

    class Watched(Owner):
        inside = 0

        def launch(self, request, repeat):
            with self.lock:
                enter()
                self.inside -= 1
                return super().launch(request, repeat)

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
    assert owner.replays == len(driver.launched) == 1200 - len(owner.looked)


@pytest.mark.parametrize("bound", [False, True])
def test_what_another_thread_closed_is_built_again(bound):
    @qgraph.kernel(backend="cpu")
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += 1

    x = np.zeros(3)
    run = kernel.bind(x).launch if bound else lambda: kernel(x)
    run()
    (specialisation,) = kernel._cache.specialisations.values()
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


class Executable(base.CudaExecutable):
    """One that is on no device, and whose launch is ``ran``."""

    def __init__(self):
        self._lock, self._inside, self._ready, self._context_id = threading.RLock(), False, None, CONTEXT
        self._resources = types.SimpleNamespace(kept=None, loops=None, let_go=lambda: None)
        self._finalizer = types.SimpleNamespace(detach=lambda: None)
        self._token = self._block = self._results = None
        self._launched, self._unfinished, self._replays = True, False, ctypes.c_int64()
        self.ran = lambda: None

    def _build(self):
        raise AssertionError

    def _run(self, stream):
        self.ran()

    def _patch(self, request):
        pass

    def _enter(self):
        raise ExecutableClosed("this executable was closed")


def test_an_executable_that_was_closed_meanwhile_is_not_launched(monkeypatch):
    """By a thread without a context, of which the driver says that it has none."""
    monkeypatch.setattr(base, "driver", types.SimpleNamespace(cuCtxGetId=lambda _context: (201, None)))
    executable = Executable()
    executable.close()
    for _ in range(2):
        with pytest.raises(ExecutableClosed):
            executable.launch(call())


@pytest.mark.parametrize("use", ["launch", "replay", "close"])
def test_a_handler_that_uses_the_executable_in_the_midst_of_its_launch(use, monkeypatch):
    """It would find the graph half changed; and it cannot wait for the thread that it interrupted."""
    monkeypatch.setattr(base, "driver", types.SimpleNamespace(cuCtxGetId=lambda _context: (0, CONTEXT)))
    executable = Executable()
    uses = {"launch": lambda: executable.launch(call()), "replay": lambda: executable.replay(0), "close": executable.close}

    def handler():
        with pytest.raises(CudaError, match="called the kernel whose launch it interrupted: nothing ran"):
            uses[use]()

    executable.ran = handler
    for _ in range(2):
        executable.launch(call())
    assert executable.replays == 2

    def interrupted():
        raise KeyboardInterrupt

    executable.ran = interrupted
    with pytest.raises(KeyboardInterrupt):
        executable.launch(call())
    # It is over: another use is none in between.
    executable.ran = lambda: None
    with contextlib.suppress(ExecutableClosed):
        uses[use]()
