"""On a captured stream nothing runs, and what cannot be captured is refused before anything is changed or built."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.errors import ArgumentError, CudaError, StreamCaptured
from qgraph.runtime.arguments import streams
from qgraph.runtime.driver import stream as cuda_stream
from qgraph.runtime.driver.driver import _HINTS
from qgraph.runtime.driver.stream import handle_of, order_after, refuse_capture
from qgraph.runtime.executors import base
from qgraph.runtime.executors.launch_records import LastLaunch
from qgraph.runtime.values.prepared_call import Call

CAPTURED, FREE = 9, 5


@pytest.fixture
def driver(monkeypatch):
    """A driver on which ``CAPTURED`` is being captured; it does nothing else."""
    made = SimpleNamespace(cuStreamIsCapturing=lambda stream: (0, int(stream == CAPTURED)), cuCtxGetId=lambda _context: (0, 7))
    made.cuStreamIsCapturing.__name__ = "cuStreamIsCapturing"
    monkeypatch.setattr(cuda_stream, "driver", made)
    return made


REFUSED = r"the stream 0x9 is being captured into a graph, and {}: nothing ran\nhelp: "
ORDER = REFUSED.format("no other stream can wait for it")


@pytest.mark.parametrize("stream", [0, 1, 2, FREE])
def test_other_streams_are_fine(driver, stream):
    refuse_capture(stream, "it cannot", "do not")


@pytest.mark.parametrize(
    "use",
    [
        # Neither waits for the other: both would be captured.
        lambda: order_after(FREE, CAPTURED),
        lambda: order_after(CAPTURED, FREE),
        lambda: order_after(CAPTURED, 0),
    ],
)
def test_no_stream_waits_for_a_captured_one(driver, use):
    with pytest.raises(CudaError, match=ORDER):
        use()


def test_a_launch_tells_before_it_patches(driver, monkeypatch):
    class Executable(base.CudaExecutable):
        def __init__(self):
            self._lock, self._inside, self._ready, self._context_id = threading.RLock(), False, None, 7
            self._resources = SimpleNamespace(kept=None)

        def _build(self):
            raise AssertionError

        def _run(self, stream):
            raise AssertionError

        def _patch(self, request):
            raise AssertionError

    monkeypatch.setattr(base, "driver", driver)
    executable = Executable()
    call = Call((), (), CAPTURED)
    with pytest.raises(StreamCaptured) as told:
        executable.launch(call)
    assert told.value.call is call
    # It can be used again.
    with pytest.raises(StreamCaptured):
        executable.launch(call)


def test_nothing_is_built_for_a_captured_stream(driver, monkeypatch):
    monkeypatch.setattr(streams.driver, "device", lambda ordinal: SimpleNamespace(activate=contextlib.nullcontext))

    @qgraph.kernel
    def k(x):
        for i in range(x.shape[0]):
            x[i] += 1

    def built(_call):
        raise AssertionError

    specialisation = SimpleNamespace(
        executable=None, build=built, lock=threading.Lock(), variant=SimpleNamespace(device=0, streams=streams, backend="cuda")
    )
    with pytest.raises(CudaError, match=REFUSED.format("the kernel is not compiled for these arguments yet") + "call it once"):
        k._executable(specialisation, Call((), (), CAPTURED))


def test_host_arrays_are_not_copied_on_a_captured_stream(driver, monkeypatch):
    from qgraph.runtime.values.array_view import view_of_host

    monkeypatch.setattr(streams.driver, "device", lambda ordinal: SimpleNamespace(activate=contextlib.nullcontext))
    array = np.ones(3)
    variant = SimpleNamespace(arrays=(0,), device=0, written=(True,))
    with pytest.raises(CudaError, match=REFUSED.format("arrays of the host cannot be copied meanwhile")):
        streams.stage_host_arrays(variant, (view_of_host(array, array),), SimpleNamespace(current=lambda: CAPTURED))


@pytest.mark.parametrize("code", range(900, 909))
def test_every_error_of_captures_has_its_hint(code):
    bindings = pytest.importorskip("cuda.bindings.driver")
    assert "CAPTURE" in bindings.CUresult(code).name
    assert _HINTS[code]


# --- the protocol of streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, -1, None, "0.1", (0,)])
def test_only_version_0_of_the_protocol_is_known(version):
    class Stream:
        def __cuda_stream__(self):
            return version, 4660

    with pytest.raises(ArgumentError, match="has version .*, and only version 0 is known\\nhelp: pass the stream's handle"):
        handle_of(Stream())
    with pytest.raises(ArgumentError, match="only version 0 is known"), qgraph.stream(Stream()):
        pass


def test_version_0_is():
    assert handle_of(SimpleNamespace(__cuda_stream__=(0, 4660))) == 4660


@pytest.mark.needs("compiler")
def test_the_last_launch_was_captured(driver, monkeypatch):
    from qgraph.runtime.executors import captured
    from qgraph.runtime.executors.cpu import CpuExecutable

    @qgraph.kernel(backend="cpu")
    def k(x):
        for i in range(x.shape[0]):
            x[i] += 1

    launch, capturing, added = CpuExecutable.launch, [], []

    def launched(executable, call):
        if capturing:
            raise StreamCaptured(call)
        return launch(executable, call)

    def capture(executable, call):
        added.append(call)
        return SimpleNamespace(path="cuda-capture", nodes=3, reason="it is part of a graph")

    monkeypatch.setattr(CpuExecutable, "launch", launched)
    monkeypatch.setattr(captured, "capture", capture)
    # Each call is a new one, whose guard has not been seen.
    arrays = [np.zeros(n) for n in range(2, 8)]
    k(arrays[0])
    assert k.last_launch.path == "cpu"
    capturing.append(True)
    k(arrays[1])
    assert k.last_launch == LastLaunch(1, 3, "cuda-capture", "it is part of a graph")
    capturing.clear()
    k(arrays[2])
    assert (k.last_launch.path, k.last_launch.nodes) == ("cpu", 1)
    bound = k.bind(arrays[3])
    monkeypatch.setattr(
        type(bound._arguments), "launch_with", lambda arguments, numbers: arguments.launch_after(numbers["error"])
    )
    capturing.append(True)
    bound.launch(error=StreamCaptured("the call"))
    assert k.last_launch.path == "cuda-capture"
    assert added[-1] == "the call"
    capturing.clear()
    bound.launch()
    assert k.last_launch.path == "cpu"
    assert [array[0] for array in arrays] == [1, 0, 1, 1, 0, 0]
