"""``host_callback``, ``record`` and ``wait``: in program order with everything around them, with the values of that point."""

from __future__ import annotations

import ctypes
import threading
from random import Random
from typing import Any

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def note(*values):
    SEEN.append(values)


def finish(kernel, *args):
    """Call the kernel and wait: what a host callback raised is raised here at the latest."""
    result = kernel(*args)
    qgraph.synchronize()
    return result


def floats(rig, n=5):
    return rig.device(np.arange(float(n)))


def test_values_are_those_of_the_point_of_the_call(rig):
    def kernel(x, a):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
        qgraph.host_callback(note, total, x[0], a, 3, "first", x.shape[0], total > 2)
        for i in range(x.shape[0]):
            x[i] += a
        total = total * 2
        qgraph.host_callback(note, total, x[0])
        for i in range(x.shape[0]):
            x[i] = -1.0

    x = floats(rig)
    finish(rig.kernel(kernel), x, 0.5)
    assert SEEN == [(10.0, 0.0, 0.5, 3, "first", 5, True), (20.0, 0.5)]
    assert [type(value) for value in SEEN[0]] == [float, float, float, int, str, int, bool]
    assert (qgraph.to_numpy(x) == -1).all()
    got = list(SEEN)
    SEEN.clear()
    qgraph.kernel(kernel).reference(np.arange(5.0), 0.5)
    assert got == SEEN


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64", "float32", "float64", "complex128", "bool"])
def test_numbers_of_every_type_arrive_whole(rig, dtype):
    value = np.array([True if dtype == "bool" else 3 if "int" in dtype else 0.1 + 0.2]).astype(dtype)
    if dtype == "complex128":
        value = value * (1 + 2j)

    def kernel(x):
        s = x[0]
        qgraph.host_callback(note, s, x[0])

    finish(rig.kernel(kernel), rig.device(value))
    assert SEEN == [(value[0].item(), value[0].item())]


def test_two_callbacks_keep_their_order_in_a_kernel_without_memory(rig):
    def kernel():
        qgraph.host_callback(note, 1)
        qgraph.host_callback(note, 2)
        qgraph.host_callback(note)

    k = rig.kernel(kernel)
    for _ in range(3):
        finish(k)
    assert SEEN == [(1,), (2,), ()] * 3


def test_the_edges_make_a_barrier():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = 1.0
        for i in range(y.shape[0]):
            y[i] = 1.0
        qgraph.host_callback(note)
        for i in range(x.shape[0]):
            x[i] = 2.0
        for i in range(y.shape[0]):
            y[i] = 2.0

    plan = qgraph.kernel(kernel).plan(np.zeros(3), np.zeros(3))
    assert [node.kind for node in plan.nodes if node.kind == "callback"] == ["callback"]
    assert plan.edges == ((0, 2), (1, 2), (2, 3), (2, 4))
    assert "callback note()" in str(plan)
    assert "callback note()" in plan.to_dot()


def test_a_function_may_come_as_an_argument_and_each_has_its_own_graph(rig):
    def kernel(x, f):
        qgraph.host_callback(f, x[0])

    k = rig.kernel(kernel)
    x, other = floats(rig), []
    finish(k, x, note)
    finish(k, x, other.append)
    finish(k, x, note)
    assert SEEN == [(0.0,), (0.0,)]
    assert other == [0.0]
    assert k.stats.graph_builds == 2


def test_a_func_may_call_the_host(rig):
    @qgraph.func
    def report(x, f):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        qgraph.host_callback(f, s)
        return s

    def kernel(x):
        t = report(x, note)
        qgraph.host_callback(note, t + 1)

    finish(rig.kernel(kernel), floats(rig))
    assert SEEN == [(10.0,), (11.0,)]


def test_every_launch_calls_with_its_own_values(rig):
    def kernel(x, a):
        for i in range(x.shape[0]):
            x[i] += a
        qgraph.host_callback(note, x[0], x.shape[0])

    k = rig.kernel(kernel)
    for n, a in ((3, 1.0), (4, 2.0), (3, 5.0)):
        finish(k, floats(rig, n), a)
    bound = k.bind(floats(rig, 6), 7.0)
    for _ in range(3):
        bound.launch()
    qgraph.synchronize()
    assert SEEN == [(1.0, 3), (2.0, 4), (5.0, 3), (7.0, 6), (14.0, 6), (21.0, 6)]


def test_before_and_after_a_device_loop(rig):
    def kernel(x):
        n = 0
        qgraph.host_callback(note, n)
        while n < 3:
            for i in range(x.shape[0]):
                x[i] += 1.0
            n += 1
        qgraph.host_callback(note, n, x[0])

    finish(rig.kernel(kernel), floats(rig))
    assert SEEN == [(0,), (3, 3.0)]


@pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}])
def test_other_ways_to_launch(rig, options):
    def kernel(x):
        n = 0
        while n < 2:
            for i in range(x.shape[0]):
                x[i] += 1.0
            n += 1
        qgraph.host_callback(note, n, x[1])
        for i in range(x.shape[0]):
            x[i] = 9.0

    k = rig.kernel(kernel, **options)
    for _ in range(2):
        finish(k, floats(rig))
    assert SEEN == [(2, 3.0), (2, 3.0)]


# --- errors ------------------------------------------------------------------------------------------------------------


def fail(value):
    raise LookupError(f"no {value}")


def test_an_exception_reaches_whoever_waits_and_is_told_once(rig):
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = 1.0
        qgraph.host_callback(fail, x[0])

    k = rig.kernel(kernel)
    for _ in range(2):
        x = floats(rig)
        with pytest.raises(LookupError, match=r"no 1\.0"):
            finish(k, x)
        qgraph.synchronize()
        assert (qgraph.to_numpy(x) == 1).all()


def test_a_returned_value_waits_and_raises(rig):
    def kernel(x):
        s = x[1]
        qgraph.host_callback(fail, s)
        return s

    k = rig.kernel(kernel)
    with pytest.raises(LookupError, match=r"no 1\.0"):
        k(floats(rig))
    qgraph.synchronize()


def test_reading_an_array_waits_and_raises(rig):
    def kernel(x):
        qgraph.host_callback(fail, x[1])

    x = floats(rig)
    with pytest.raises(LookupError):
        rig.kernel(kernel)(x)
        qgraph.to_numpy(x)
    assert qgraph.to_numpy(x)[1] == 1


def test_on_the_host_nothing_runs_after_the_exception(rig):
    if rig.backend == "cuda":
        pytest.skip("a graph that runs cannot be stopped")

    def kernel(x):
        qgraph.host_callback(fail, x[1])
        for i in range(x.shape[0]):
            x[i] = 7.0

    x = np.arange(3.0)
    with pytest.raises(LookupError):
        rig.kernel(kernel)(x)
    assert x.tolist() == [0, 1, 2]


@pytest.mark.needs("threads")
def test_threads_get_their_own_exceptions(rig):
    if rig.backend == "cuda":
        pytest.skip("on cuda whoever waits first is told")

    def kernel(x):
        qgraph.host_callback(fail, x[0])

    k = rig.kernel(kernel)
    got: dict[int, str] = {}

    def work(number):
        try:
            k(np.array([float(number)]))
        except LookupError as error:
            got[number] = str(error.args[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {number: f"no {float(number)}" for number in range(6)}


# --- C functions -------------------------------------------------------------------------------------------------------

COUNT = ctypes.c_int(0)
ROOM = (ctypes.c_int * 3)()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def increment(pointer):
    SEEN.append(pointer)
    if pointer:
        ctypes.c_int.from_address(pointer).value += 1


def test_a_c_function_gets_its_pointer(rig):
    def kernel(x):
        qgraph.host_callback(increment, COUNT)
        qgraph.host_callback(increment, ROOM)
        qgraph.host_callback(increment)
        qgraph.host_callback(increment, ADDRESS)

    COUNT.value = 0
    ROOM[:] = [0, 0, 0]
    k = rig.kernel(kernel)
    for _ in range(2):
        finish(k, floats(rig))
    assert SEEN == [ctypes.addressof(COUNT), ctypes.addressof(ROOM), None, ADDRESS] * 2
    assert (COUNT.value, ROOM[0], ROOM[1]) == (2, 2, 2)


def test_a_c_function_may_come_as_an_argument(rig):
    def kernel(x, f):
        qgraph.host_callback(f, COUNT)

    COUNT.value = 0
    k = rig.kernel(kernel)
    for _ in range(4):
        finish(k, floats(rig), increment)
    assert COUNT.value == 4
    assert k.stats.graph_builds == 1


ADDRESS = ctypes.addressof(ROOM) + ctypes.sizeof(ctypes.c_int)


# --- events ------------------------------------------------------------------------------------------------------------


class Event:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_event__(self):
        return self.handle


def marks(x, event):
    qgraph.wait(event)
    for i in range(x.shape[0]):
        x[i] += 1.0
    qgraph.record(event)


@pytest.mark.parametrize("event", [None, 77, Event(77)])
def test_without_cuda_events_mean_nothing(rig, event):
    if rig.backend == "cuda":
        pytest.skip("tests/gpu has events of CUDA")
    x = np.zeros(3)
    k = rig.kernel(marks)
    for _ in range(4):
        k(x, event)
    assert x.tolist() == [4, 4, 4]


def test_another_event_needs_no_other_graph(rig):
    if rig.backend == "cuda":
        pytest.skip("tests/gpu has events of CUDA")
    k = rig.kernel(marks)
    x = np.zeros(3)
    for handle in (1, 2, 3):
        k(x, Event(handle))
    assert k.stats.graph_builds == 1


def test_events_stand_in_the_plan_as_barriers():
    plan = qgraph.kernel(marks).plan(np.zeros(3), Event(5))
    assert [node.kind for node in plan.nodes] == ["wait", "kernel", "record"]
    assert plan.edges == ((0, 1), (1, 2))
    assert "wait event" in str(plan)


# --- what a callback gets may be loops ----------------------------------------------------------------------------------


@qgraph.func
def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


ARGUMENTS = ["np.sum(x)", "total(x) * 2", "x[0] + np.max(x)", "3", "x[1]", "min(total(x), np.sum(x))"]


@pytest.mark.parametrize("seed", [0, 1, *thorough(2, 3, 4, 5)])
def test_arguments_are_made_of_loops(rig, seed, tmp_path):
    random = Random(seed)
    calls = [", ".join(random.choices(ARGUMENTS, k=random.randint(1, 3))) for _ in range(3)]
    loop = "    for i in range(x.shape[0]):\n        x[i] += 1\n"
    between = [random.choice([loop, "    x[0] = x[0] + 5\n", ""]) for _ in calls]
    body = "".join(f"{before}    qgraph.host_callback(see, {call})\n" for before, call in zip(between, calls, strict=True))
    seen = []
    file = tmp_path / "made.py"
    file.write_text(f"def kernel(x):\n{body}")
    names = {"qgraph": qgraph, "np": np, "total": total, "see": lambda *values: seen.append(values)}
    exec(compile(file.read_text(), str(file), "exec"), names)
    finish(rig.kernel(names["kernel"]), floats(rig))
    found = seen.copy()
    seen.clear()
    qgraph.kernel(names["kernel"]).reference(np.arange(5.0))
    assert len(found) == 3
    assert found == [pytest.approx(values) for values in seen]


# --- what is no C function of one pointer -------------------------------------------------------------------------------

OTHER_FUNCTIONS = {
    "it takes c_int, c_int and returns nothing": ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int),
    "it takes nothing and returns nothing": ctypes.CFUNCTYPE(None),
    "it takes c_long and returns nothing": ctypes.CFUNCTYPE(None, ctypes.c_long),
    "it takes c_double and returns nothing": ctypes.CFUNCTYPE(None, ctypes.c_double),
    "it takes c_void_p, c_void_p and returns nothing": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p),
    "it takes c_void_p and returns c_int": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p),
    "it takes py_object and returns nothing": ctypes.CFUNCTYPE(None, ctypes.py_object),
    "it takes c_void_p and returns nothing, and wants the interpreter's lock": ctypes.PYFUNCTYPE(None, ctypes.c_void_p),
}


@pytest.mark.parametrize("declared", OTHER_FUNCTIONS)
def test_c_functions_of_other_kinds_are_refused(rig, declared):
    called = []
    other = OTHER_FUNCTIONS[declared](lambda *values: called.append(values))

    def kernel(x):
        qgraph.host_callback(other)

    k = rig.kernel(kernel)
    with pytest.raises(qgraph.KernelSyntaxError) as caught:
        k(floats(rig))
    assert f"`other` is a C function, but no `void (*)(void *)`: {declared}" in str(caught.value)
    with pytest.raises(qgraph.ArgumentError, match="takes one pointer and returns nothing"):
        k.reference(np.ones(3))
    assert called == []


def test_a_function_of_a_library_is_to_be_declared(rig):
    function = ctypes.CDLL(None).free

    def kernel(x):
        qgraph.host_callback(function)

    with pytest.raises(qgraph.KernelSyntaxError, match="ctypes was not told its parameters"):
        rig.kernel(kernel)(floats(rig))
    function.argtypes, function.restype = [ctypes.c_void_p], None
    finish(rig.kernel(kernel), floats(rig))


def test_bytes_are_copied(rig):
    got = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def read(pointer):
        got.append(ctypes.string_at(pointer, 5))

    data = b"ab\x00cd"

    def kernel(x):
        qgraph.host_callback(read, data)
        qgraph.host_callback(read, b"12345")

    k = rig.kernel(kernel)
    for _ in range(2):
        finish(k, floats(rig))
    k.reference(np.ones(3))
    assert got == [data, b"12345"] * 3
