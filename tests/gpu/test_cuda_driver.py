"""The driver layer on its own: errors, contexts, memory, streams, and the probe for device loops."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import pytest

from qgraph.compat.numba_cuda import cuda
from qgraph.errors import ArgumentError, BackendError, CudaError
from qgraph.runtime.driver.driver import call, check, current_device, device, device_count, driver, driver_version
from qgraph.runtime.driver.memory import Buffer, PinnedWords, copy_device, copy_in, copy_out, fill
from qgraph.runtime.driver.stream import Event, handle_of, is_capturing, order_after, synchronize
from tests.processes import printed_by


@pytest.fixture
def gpu():
    context = device(0)
    with context.activate():
        yield context


def upload(context, array):
    buffer = Buffer(context, array.nbytes)
    copy_in(buffer, array.ctypes.data, array.nbytes)
    return buffer


def download(buffer, like):
    result = np.full_like(like, 77)
    copy_out(buffer, result.ctypes.data, result.nbytes)
    return result


def free_bytes():
    return call(driver.cuMemGetInfo)[0]


def link(ptx, capability, with_library=True):
    from cuda.core import Linker, LinkerOptions, ObjectCode
    from cuda.pathfinder import find_static_lib

    objects = [ObjectCode.from_ptx(ptx.encode())]
    if with_library:
        with open(find_static_lib("cudadevrt"), "rb") as file:
            objects.append(ObjectCode.from_library(file.read()))
    options = LinkerOptions(arch="sm_{}{}".format(*capability))
    return Linker(*objects, options=options).link("cubin").code


# --- calls and contexts -------------------------------------------------------------------------------------------------


def test_a_failing_call_names_itself_and_the_error(gpu):
    with pytest.raises(CudaError, match=r"cuMemFree.*CUDA_ERROR_INVALID_VALUE.*invalid argument"):
        call(driver.cuMemFree, 12345)
    with pytest.raises(CudaError, match=r"CUDA_ERROR_INVALID_DEVICE"):
        check(driver.cuDeviceGet(10_000), "cuDeviceGet")


def test_versions_and_devices():
    assert device_count() >= 1
    assert driver_version() >= (12, 0)
    context = device(0)
    assert device(0) is context
    assert context.capability >= (5, 0)
    assert context.multiprocessors >= 1
    assert context.name
    with pytest.raises(BackendError, match="no CUDA device"):
        device(device_count())
    with pytest.raises(BackendError, match="no CUDA device"):
        device(-1)


def test_activation_nests_and_leaves_what_was_current():
    context, seen = device(0), []

    def work():
        seen.append(int(driver.cuCtxGetCurrent()[1]))
        with context.activate():
            seen.append(int(driver.cuCtxGetCurrent()[1]))
            with context.activate():
                pass
            seen.append(int(driver.cuCtxGetCurrent()[1]))
            seen.append(current_device())
        seen.append(int(driver.cuCtxGetCurrent()[1]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before, inside, still, ordinal, after = seen
    assert before == after == 0
    assert inside == still != 0
    assert ordinal == 0


def test_waiting_keeps_the_epoch(gpu):
    epoch = gpu.epoch
    gpu.notes["something"] = 1
    gpu.reset()
    assert gpu.epoch == gpu.refresh() == epoch
    assert gpu.alive(epoch)
    assert "something" not in gpu.notes


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.unsanitized(reason="destroys the context")
def test_a_reset_from_outside_is_noticed(again, tmp_path):
    # With `again`, somebody else has brought the context back before we look: only its id tells.
    printed = printed_by(
        f"""
        import gc, numpy
        from qgraph.runtime.driver.driver import call, device, driver
        from qgraph.runtime.driver.memory import Buffer, fill, copy_out
        d = device(0)
        epoch = d.epoch
        old = Buffer(d, 1 << 20)
        call(driver.cuDevicePrimaryCtxReset, 0)
        if {again}:
            call(driver.cuDevicePrimaryCtxRetain, 0)
        print(d.alive(epoch))
        new = Buffer(d, 1 << 20)
        print(d.epoch - epoch)
        del old; gc.collect()   # must not free what may now be `new`
        with d.activate():
            fill(new, b"\\7", 1 << 20)
            host = numpy.zeros(1 << 20, "u1")
            copy_out(new, host.ctypes.data, host.nbytes)
        print((host == 7).all())
    """,
        tmp_path,
    ).split()
    assert printed == ["False", "1", "True"]


@pytest.mark.unsanitized(reason="destroys the context")
def test_reset_that_destroys_changes_the_epoch(tmp_path):
    printed = printed_by(
        """
        from qgraph.runtime.driver.driver import device
        from qgraph.runtime.driver.memory import Buffer
        d = device(0)
        epoch = d.epoch
        b = Buffer(d, 100)
        d.reset(destroy=True)
        print(d.epoch - epoch, d.alive(epoch), Buffer(d, 100).pointer != 0)
        b.free()
        print("fine")
    """,
        tmp_path,
    ).split()
    assert printed == ["1", "False", "True", "fine"]


# --- memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [1, 7, 4096, 1 << 22])
def test_copies_there_across_and_back(gpu, nbytes):
    sent = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    first, second = upload(gpu, sent), Buffer(gpu, nbytes)
    copy_device(second, first, nbytes)
    np.testing.assert_array_equal(download(second, sent), sent)


def test_an_empty_buffer_is_fine(gpu):
    buffer = Buffer(gpu, 0)
    assert buffer.pointer == 0
    nothing = np.zeros(0)
    copy_in(buffer, nothing.ctypes.data, 0)
    fill(buffer, b"\0", 0)
    copy_out(buffer, nothing.ctypes.data, 0)
    buffer.free()


FILLS = [
    *((dtype, value) for dtype in ("int8", "int32", "int64", "float16", "float32", "float64") for value in (0, -2, 19)),
    *((dtype, value) for dtype in ("float16", "float32", "float64", "complex128") for value in (1.5, float("nan"))),
    *((dtype, 3 + 4j) for dtype in ("complex64", "complex128")),
    *((dtype, 200) for dtype in ("uint8", "uint16", "uint32", "uint64")),
]


@pytest.mark.parametrize(("dtype", "value"), FILLS)
@pytest.mark.parametrize("count", [1, 5, 1000])
def test_fill(gpu, dtype, value, count):
    expected = np.full(count, value, dtype)
    guard = np.full(count + 2, 77, dtype)
    buffer = upload(gpu, guard)
    fill(buffer.pointer + expected.itemsize, expected[:1].tobytes(), count)
    got = download(buffer, guard)
    assert got[1:-1].tobytes() == expected.tobytes()
    assert got[0] == guard[0]
    assert got[-1] == guard[-1]


def test_fill_at_an_odd_address(gpu):
    buffer = upload(gpu, np.zeros(64, np.uint8))
    fill(buffer.pointer + 1, b"\1\2\3\4", 10)
    expected = np.zeros(64, np.uint8)
    expected[1:41] = [1, 2, 3, 4] * 10
    np.testing.assert_array_equal(download(buffer, expected), expected)


@pytest.mark.unsanitized(reason="counts memory, and the tool takes some")
def test_dropped_buffers_give_their_memory_back(gpu):
    gc.collect()
    before = free_bytes()
    for _ in range(64):
        Buffer(gpu, 64 << 20)
    gc.collect()
    assert abs(before - free_bytes()) <= 64 << 20
    buffer = Buffer(gpu, 100)
    buffer.free()
    buffer.free()
    assert buffer.pointer == 0


def test_pinned_words_take_copies(gpu):
    pinned = PinnedWords(gpu, 2)
    buffer = upload(gpu, np.array([-5, 2**40]))
    copy_out(buffer.pointer + 8, pinned.pointer, 8)
    assert pinned.words[0] == 2**40
    copy_out(buffer, pinned.pointer, 16)
    assert list(pinned.words) == [-5, 2**40]
    pinned.free()


def test_a_buffer_may_be_dropped_during_a_capture(gpu):
    # Numba's own arrays, left by other tests, are freed with cuMemFree, which no capture survives.
    gc.collect()
    cuda.current_context().deallocations.clear()
    buffer = Buffer(gpu, 1 << 20)
    stream = call(driver.cuStreamCreate, 1)
    call(driver.cuStreamBeginCapture, stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    assert is_capturing(int(stream))
    del buffer
    gc.collect()
    Buffer(gpu, 1 << 20)
    graph = call(driver.cuStreamEndCapture, stream)
    call(driver.cuGraphDestroy, graph)
    assert not is_capturing(int(stream))
    call(driver.cuStreamDestroy, stream)


# --- streams ------------------------------------------------------------------------------------------------------------


class WithMethod:
    def __cuda_stream__(self):
        return (0, 4660)


class WithPair:
    __cuda_stream__ = (0, 4660)


class LikeTorch:
    cuda_stream = 4660


class LikeCupy:
    ptr = 4660


class LikeNumba:
    handle = ctypes.c_void_p(4660)


@pytest.mark.parametrize("stream", [WithMethod(), WithPair(), LikeTorch(), LikeCupy(), LikeNumba(), 4660])
def test_handles(stream):
    assert handle_of(stream) == 4660


def test_default_streams_and_what_is_no_stream():
    assert handle_of(None) == handle_of(0) == handle_of(1) == 0
    assert handle_of(2) == 2
    null = LikeNumba()
    null.handle = ctypes.c_void_p(0)
    assert handle_of(null) == 0
    for wrong in ("stream", 1.5, -1, object(), True):
        with pytest.raises(ArgumentError):
            handle_of(wrong)


def test_handle_of_a_real_stream(gpu):
    from cuda.core import Device

    ours = Device(0)
    ours.set_current()
    stream = ours.create_stream()
    assert handle_of(stream) == int(stream.handle) != 0
    synchronize(handle_of(stream))


def test_order_between_streams(gpu):
    # A large fill on one stream, a copy of it on another: without order the copy would see zeros.
    size = 256 << 20
    one, two = (call(driver.cuStreamCreate, 1) for _ in range(2))
    source, target = Buffer(gpu, size), Buffer(gpu, size)
    for value, ordered in ((1, "order_after"), (2, "event")):
        fill(target, b"\0", size)
        gpu.synchronize()
        for _ in range(20):
            fill(source, bytes([9]), size, int(one))
        fill(source, bytes([value]), size, int(one))
        if ordered == "order_after":
            order_after(int(two), int(one))
        else:
            event = Event(gpu)
            event.record(int(one))
            event.wait(int(two))
        copy_device(target, source, size, int(two))
        synchronize(int(two))
        got = np.zeros(4, np.uint8)
        copy_out(target.pointer + size - 4, got.ctypes.data, 4)
        assert (got == value).all()
    order_after(0, 1)
    for stream in (one, two):
        call(driver.cuStreamDestroy, stream)


# --- the probe ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_library", [True, False])
def test_the_probe_runs_a_loop_where_the_driver_can(gpu, with_library):
    from qgraph.runtime.graph.capability_probe import probe

    asked = []

    def cubin_of(ptx):
        asked.append(ptx)
        return link(ptx, gpu.capability, with_library)

    gpu.notes.clear()
    result = probe(gpu, cubin_of)
    assert probe(gpu, cubin_of) is result
    assert len(asked) == 1
    assert result.reason
    if with_library and driver_version() >= (12, 4):
        assert result.device_loops, result.reason
    if with_library and driver_version() >= (13, 0):
        assert result.device_branches, result.reason
    gpu.notes.clear()


def test_a_driver_that_only_mishandles_branches_still_runs_loops(gpu, monkeypatch):
    from qgraph.runtime.graph import capability_probe

    # As if the first region of an IF node had run in the wrong turns.
    turns, odd, even, *rest = capability_probe._EXPECTED
    monkeypatch.setattr(capability_probe, "_EXPECTED", (turns, even, odd, *rest))
    gpu.notes.clear()
    result = capability_probe.probe(gpu, lambda ptx: link(ptx, gpu.capability))
    gpu.notes.clear()
    if driver_version() >= (12, 4):
        assert result.device_loops, result.reason
    assert not result.device_branches
    assert "branches" in result.reason


def test_a_probe_that_cannot_link_says_why(gpu):
    from qgraph.runtime.graph.capability_probe import probe

    def cubin_of(ptx):
        raise OSError("no linker in this test")

    gpu.notes.clear()
    result = probe(gpu, cubin_of)
    gpu.notes.clear()
    assert not result.device_loops
    assert "no linker in this test" in result.reason


def test_a_probe_with_a_broken_cubin_leaves_the_device_usable(gpu):
    from qgraph.runtime.graph.capability_probe import probe

    gpu.notes.clear()
    result = probe(gpu, lambda ptx: b"not a cubin")
    gpu.notes.clear()
    assert not result.device_loops
    assert "cuLibrary" in result.reason
    np.testing.assert_array_equal(download(upload(gpu, np.arange(5)), np.arange(5)), np.arange(5))


# --- the executors, on kernels written by hand ----------------------------------------------------------------------------
#
#   pre -> enter_0 -> while { enter_1 -> while { add -> condition_1 } -> condition_0 } -> post
#
# x: float64[:] as numba-cuda passes it (7 words), n: int64; slots 0 and 1 are the conditions, 2 and 3 the counters.

ARRAY = ", ".join(f".param .u64 x{k}" for k in range(7))
SLOTS = ", ".join(f".param .u64 s{k}" for k in range(7))
HEADER = """
.version 7.8
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);
"""


def elementwise(name, operation):
    """``x[i] = operation(x[i], a)`` for i < n, one thread an element."""
    return f"""
.visible .entry {name}({ARRAY}, .param .f64 a, .param .u64 n) {{
    .reg .pred %out; .reg .b32 %b, %d, %t; .reg .b64 %i, %n, %x, %step; .reg .f64 %v, %a;
    mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mov.u32 %t, %tid.x;
    mad.wide.u32 %i, %b, %d, 0; cvt.u64.u32 %n, %t; add.s64 %i, %i, %n;
    ld.param.u64 %n, [n]; setp.ge.s64 %out, %i, %n; @%out ret;
    ld.param.u64 %x, [x4]; ld.param.u64 %step, [x6]; mad.lo.s64 %x, %i, %step, %x;
    ld.global.f64 %v, [%x]; ld.param.f64 %a, [a]; {operation}.f64 %v, %v, %a; st.global.f64 [%x], %v;
    ret;
}}"""


def decide(name, counter, slot, first, limit):
    """One thread: counter = 0 and again (``first``), else counter += 1 and again while it is below ``limit``."""
    count = f"mov.s64 %c, {0 if first else 1};" + (
        "" if first else f" ld.global.s64 %v, [%s+{8 * counter}]; add.s64 %c, %c, %v;"
    )
    return f"""
.visible .entry {name}({SLOTS}, .param .u64 h) {{
    .reg .pred %more, %host; .reg .b32 %w; .reg .b64 %s, %h, %c, %v;
    ld.param.u64 %s, [s4]; ld.param.u64 %h, [h];
    {count} st.global.s64 [%s+{8 * counter}], %c;
    setp.lt.s64 %more, %c, {limit}; selp.u32 %w, 1, 0, %more;
    setp.eq.u64 %host, %h, 0; @%host bra HOST;
    {{ .param .b64 p; .param .b32 q; st.param.b64 [p], %h; st.param.b32 [q], %w;
       call.uni cudaGraphSetConditional, (p, q); }}
    ret;
HOST:
    cvt.u64.u32 %v, %w; st.global.s64 [%s+{8 * slot}], %v;
    ret;
}}"""


def nested_plan(capability, outer, inner):
    from qgraph.ir.argument_types import ArrayType, Leaf, ScalarType
    from qgraph.ir.artifacts import CudaPlan, Parameter, TaskCode
    from qgraph.ir.plan import GraphPlan, Node, Region
    from qgraph.ir.program import Effects, HostValue, Loop, Program, Task, TaskStatement
    from qgraph.ir.slots import Slot
    from qgraph.source import Span

    place = Span("by_hand.py", 1, 0, 1, 1)
    x = Leaf("x", "x", ArrayType("float64", 1, "A"))
    a = Leaf("a", "a", ScalarType("float64", True))
    of_array = (Parameter("leaf", "x", x.type), Parameter("leaf", "a", a.type), Parameter("host", "n"))
    of_slots = (Parameter("slots", "_slots"), Parameter("handle", "_handle"))
    kernels = {
        "pre": elementwise("pre", "mul"),
        "enter_0": decide("enter_0", 2, 0, True, outer),
        "enter_1": decide("enter_1", 3, 1, True, inner),
        "add": elementwise("add", "add"),
        "condition_1": decide("condition_1", 3, 1, False, inner),
        "condition_0": decide("condition_0", 2, 0, False, outer),
        "post": elementwise("post", "mul"),
    }
    tasks, codes = {}, {}
    for name in kernels:
        role = name.split("_", maxsplit=1)[0] if "_" in name else "loop"
        tasks[name] = Task(name, role, place, (), (), {}, Effects())
        parameters, counts = (of_array, ("n",)) if role == "loop" else (of_slots, ())
        codes[name] = TaskCode(tasks[name], name, "", parameters, counts, role != "loop", False)
    slots = tuple(Slot(index, f"slot_{index}") for index in range(4))
    loop_1 = Loop(
        "serial", place, slots[1], tasks["enter_1"], True, (TaskStatement(tasks["add"]),), tasks["condition_1"], "inner"
    )
    loop_0 = Loop("serial", place, slots[0], tasks["enter_0"], True, (loop_1,), tasks["condition_0"], "outer")
    body = (TaskStatement(tasks["pre"]), loop_0, TaskStatement(tasks["post"]))
    program = Program("by_hand", place, "float64", (x, a), (HostValue("n", "len(x)", place),), {}, slots, body, (), (), ())

    def kernel(index, name, region):
        return Node(index, "kernel", name, place, region, task=tasks[name])

    nodes = (
        kernel(0, "pre", 0),
        kernel(1, "enter_0", 0),
        Node(2, "while", "outer", place, 0, control=loop_0, bodies=(1,)),
        kernel(3, "enter_1", 1),
        Node(4, "while", "inner", place, 1, control=loop_1, bodies=(2,)),
        kernel(5, "add", 2),
        kernel(6, "condition_1", 2),
        kernel(7, "condition_0", 1),
        kernel(8, "post", 0),
    )
    edges = ((0, 2), (1, 2), (2, 8), (3, 4), (4, 7), (5, 6))
    regions = (Region(0, None, (0, 1, 2, 8)), Region(1, 2, (3, 4, 7)), Region(2, 4, (5, 6)))
    plan = GraphPlan(program, nodes, edges, regions)
    texts = {name: HEADER + text for name, text in kernels.items()}
    cubin = link(HEADER + "\n".join(kernels.values()), capability)
    return CudaPlan(plan, codes, texts, cubin, capability, True)


def make_executable(kind, plan, context, block_size=None):
    from qgraph.runtime.executors.graph import CudaGraphExecutable
    from qgraph.runtime.executors.host_loop import CudaHostLoopExecutable

    if kind == "device":
        return CudaGraphExecutable(plan, context, block_size=block_size)
    return CudaHostLoopExecutable(plan, context, block_size=block_size, as_graphs=kind == "host", reason="a test asks for it")


def request_for(context, x, a, stream=0):
    from qgraph.runtime.values.array_view import ArrayView
    from qgraph.runtime.values.prepared_call import Call

    buffer = upload(context, x)
    view = ArrayView(buffer.pointer, x.shape, x.strides, x.dtype, False, context.ordinal, buffer)
    return buffer, Call((view, a), (len(x),), stream)


def expected_of(x, a, turns):
    x = x * a
    for _ in range(turns):
        x = x + a
    return x * a


@pytest.mark.parametrize(("kind", "path"), [("device", "cuda-graph"), ("host", "cuda-host-loop"), ("stream", "cuda-stream")])
@pytest.mark.parametrize(("outer", "inner"), [(3, 4), (0, 5), (5, 0), (1, 1), (20, 30)])
def test_nested_loops_by_hand(gpu, kind, path, outer, inner):
    executable = make_executable(kind, nested_plan(gpu.capability, outer, inner), gpu, 64)
    assert executable.path == path
    assert executable.nodes == 9
    held = []
    for turn, (n, a) in enumerate([(5, 0.5), (1000, 0.75), (0, 1.0), (1000, -0.5), (64, 2.0), (65, 2.0)]):
        x = np.random.default_rng(n).uniform(-1, 1, n)
        buffer, request = request_for(gpu, x, a)
        held.append((buffer, x, a))
        executable.launch(request)
        assert executable.replays == turn + 1
    for buffer, x, a in held:
        np.testing.assert_allclose(download(buffer, x), expected_of(x, a, outer * inner), rtol=1e-12)
    assert executable.argument_updates == 5
    executable.close()
    executable.close()
    with pytest.raises(CudaError, match="closed"):
        executable.launch(request_for(gpu, np.zeros(3), 1.0)[1])


@pytest.mark.parametrize("kind", ["device", "host", "stream"])
def test_replay_repeats_the_last_arguments(gpu, kind):
    executable = make_executable(kind, nested_plan(gpu.capability, 2, 3), gpu)
    with pytest.raises(CudaError, match="launch before it"):
        executable.replay(0)
    x = np.linspace(-1, 1, 300)
    buffer, request = request_for(gpu, x, 0.5)
    executable.launch(request)
    executable.launch(request)
    executable.replay(0)
    wanted = x
    for _ in range(3):
        wanted = expected_of(wanted, 0.5, 6)
    np.testing.assert_allclose(download(buffer, x), wanted, rtol=1e-12)
    assert (executable.replays, executable.argument_updates) == (3, 0)


@pytest.mark.parametrize("kind", ["device", "host", "stream"])
def test_a_refused_launch_changes_nothing(gpu, kind):
    from dataclasses import replace

    executable = make_executable(kind, nested_plan(gpu.capability, 1, 1), gpu)
    x = np.linspace(-1, 1, 10)
    buffer, request = request_for(gpu, x, 0.5)
    with pytest.raises(ArgumentError, match="iterations"):
        executable.launch(replace(request, host=(2**60,), token=object()))
    assert executable.replays == 0
    np.testing.assert_array_equal(download(buffer, x), x)
    executable.launch(request)
    np.testing.assert_allclose(download(buffer, x), expected_of(x, 0.5, 1), rtol=1e-12)


@pytest.mark.parametrize("kind", ["device", "host", "stream"])
@pytest.mark.unsanitized(reason="30,000 launches: they take a minute under the tool")
def test_closing_waits_for_the_launches_in_flight(gpu, kind):
    executable = make_executable(kind, nested_plan(gpu.capability, 100, 100), gpu)
    x = np.zeros(1000)
    stream = call(driver.cuStreamCreate, 1)
    buffer, request = request_for(gpu, x, 1.0, int(stream))
    gpu.synchronize()
    executable.launch(request)
    executable.close()
    del executable
    gc.collect()
    np.testing.assert_array_equal(download(buffer, x), np.full(1000, 10_000.0))
    call(driver.cuStreamDestroy, stream)


def test_code_with_another_calling_convention_is_refused(gpu):
    from dataclasses import replace

    plan = nested_plan(gpu.capability, 1, 1)
    code = plan.codes["add"]
    fewer = {**plan.codes, "add": replace(code, parameters=code.parameters[:2])}
    if driver_version() < (12, 4):
        pytest.skip("the driver cannot tell the parameters of a kernel")
    with pytest.raises(CudaError, match="add takes parameters"):
        make_executable("device", replace(plan, codes=fewer), gpu)


@pytest.mark.unsanitized(reason="measures time")
def test_what_a_launch_costs_the_host(gpu):
    # Generous limits: they catch a hidden synchronisation or a rebuild, not a slow machine.
    import time

    executable = make_executable("device", nested_plan(gpu.capability, 1, 1), gpu)
    calls = [request_for(gpu, np.zeros(100), 1.0) for _ in range(2)]
    costs = {}
    for name, work in (
        ("replay", lambda turn: executable.replay(0)),
        ("same call", lambda turn: executable.launch(calls[0][1])),
        ("other arrays", lambda turn: executable.launch(calls[turn % 2][1])),
    ):
        executable.launch(calls[0][1])
        gpu.synchronize()
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for turn in range(20):
                work(turn)
            best = min(best, (time.perf_counter() - start) / 20)
            gpu.synchronize()
        costs[name] = best * 1e6
    print({name: f"{cost:.2f} us" for name, cost in costs.items()})
    assert costs["replay"] < 20
    assert costs["same call"] < 20
    assert costs["other arrays"] < 30
