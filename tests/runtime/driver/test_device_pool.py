"""A pool on a played device: nobody gets memory that work in flight or a captured graph may still use."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule

from qgraph.errors import CudaError, PoolError
from qgraph.runtime.arguments.pool import Pool
from qgraph.runtime.driver import device_pool
from qgraph.runtime.driver.device_pool import DevicePoolMemory
from qgraph.runtime.values.pool_blocks import ALIGNMENT
from qgraph.runtime.values.pool_memory import CURRENT_POOL

BASE = 1 << 20


class PlayedDevice:
    """A device with streams, of which each may be captured into a graph; graphs live until somebody drops them."""

    ordinal = 0

    def __init__(self):
        self.epoch = 1
        self.waits = 0
        # Whoever captures works on that stream, too.
        self.current = [0]
        self.captures: dict[int, int] = {}
        self.begun = 0
        self.alive: set[int] = set()
        self.kept: list[tuple[object, int]] = []
        self.live_buffers = 0

    def activate(self):
        return contextlib.nullcontext(self)

    def wait(self):
        assert not self.captures, "the wait broke a capture"
        self.waits += 1

    def once(self, _make):
        return SimpleNamespace(keep=lambda what, graph: self.kept.append((what, graph)))

    def begin(self, stream):
        self.begun += 1
        self.captures[stream] = self.begun
        self.alive.add(self.begun)

    def drop(self, graph):
        self.alive.discard(graph)
        self.kept = [each for each in self.kept if each[1] != graph]

    def is_capturing(self, stream):
        return stream in self.captures


class PlayedBuffer:
    """Memory that counts, or a block of a pool."""

    def __init__(self, device, nbytes, pointer=BASE, release=None):
        self.device, self.nbytes, self.pointer = device, nbytes, pointer
        if release is None:
            device.live_buffers += 1
            release = lambda: setattr(device, "live_buffers", device.live_buffers - 1)  # noqa: E731
        self.free = weakref.finalize(self, release)


@contextlib.contextmanager
def played():
    device = PlayedDevice()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_pool, "Buffer", PlayedBuffer)
        patch.setattr(device_pool, "outside_captures", contextlib.nullcontext)
        patch.setattr(device_pool, "current_streams", lambda: [*device.current, *device.captures])
        patch.setattr(device_pool, "is_capturing", device.is_capturing)
        patch.setattr(device_pool, "captures", lambda: any(map(device.is_capturing, (*device.current, *device.captures))))

        def number(stream):
            assert not device.is_capturing(stream), "cuStreamGetId is refused while the stream is captured"
            return stream

        patch.setattr(device_pool, "_number", number)

        def on(stream):
            return SimpleNamespace(number=device.captures[stream], graph=device.captures[stream])

        patch.setattr(device_pool, "Capture", SimpleNamespace(on=on))

        class Lifetime:
            def __init__(self, graph):
                self.graph = graph

            @property
            def over(self):
                return self.graph not in device.alive

        patch.setattr(device_pool, "GraphLifetime", Lifetime)
        yield device


@pytest.fixture
def device():
    with played() as made:
        yield made


class InFlight(RuleBasedStateMachine):
    """Each unit knows who had it last, until the device was waited for after that, and its graph was gone by then."""

    blocks = Bundle("blocks")

    @initialize(units=st.integers(1, 12))
    def begin(self, units):
        self.playing = played()
        self.device = self.playing.__enter__()
        self.pool = DevicePoolMemory(self.device, units * ALIGNMENT)
        self.taken: set[int] = set()
        self.last: dict[int, tuple[int | None, int]] = {}
        # What the device was waited for.
        wait = self.device.wait

        def waited():
            wait()
            self.last = {unit: who for unit, who in self.last.items() if who[1] in self.device.alive}

        self.device.wait = waited

    def teardown(self):
        if hasattr(self, "playing"):
            self.playing.__exit__(None, None, None)

    @rule(target=blocks, nbytes=st.integers(0, 4 * ALIGNMENT), stream=st.sampled_from([None, 7, 8]))
    def take(self, nbytes, stream):
        asked = list(self.device.captures) if stream is None else [stream]
        capture = next((self.device.captures[each] for each in asked if each in self.device.captures), 0)
        try:
            pointer, order = self.pool.take(nbytes, stream)
        except PoolError:
            # No wait could have helped, or none was allowed.
            assert self.taken or self.last or nbytes > self.pool.nbytes
            return multiple()
        first = (pointer - BASE) // ALIGNMENT
        units = range(first, first + max(1, -(-nbytes // ALIGNMENT)))
        for unit in units:
            assert unit not in self.taken
            before = self.last.get(unit)
            assert before is None or (before == (stream, capture) and stream is not None), "it may still be in use"
            self.last.pop(unit, None)
        self.taken.update(units)
        return pointer, order, units, stream, capture

    @rule(block=consumes(blocks))
    def give(self, block):
        pointer, order, units, stream, capture = block
        self.pool.give(pointer, order)
        self.taken.difference_update(units)
        self.last.update((unit, (stream, capture)) for unit in units)

    @rule(stream=st.sampled_from([7, 8]))
    def begin_or_end_capture(self, stream):
        if self.device.captures.pop(stream, None) is None:
            self.device.begin(stream)

    @rule(graph=st.integers(1, 6))
    def drop_graph(self, graph):
        if graph not in self.device.captures.values():
            self.device.drop(graph)
            # It had ended: what of its stream follows is in its order.
            self.last = {unit: (who[0], 0) if who[1] == graph else who for unit, who in self.last.items()}


TestInFlight = InFlight.TestCase
TestInFlight.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_the_same_stream_has_it_at_once_and_others_after_a_wait(device):
    pool = Pool(DevicePoolMemory(device, 2 * ALIGNMENT))
    first, second = pool.malloc(1, 7), pool.malloc(1, 7)
    pool.free_block(first)
    assert pool.malloc(1, 7) == first and device.waits == 0
    pool.free_block(first)
    assert pool.malloc(1, 8) == first and device.waits == 1
    pool.free_block(second)
    # Nobody knows its stream.
    assert pool.malloc(1) == second and device.waits == 2
    pool.free_block(second)
    assert pool.malloc(1) == second and device.waits == 3


def test_nothing_waits_while_a_stream_is_captured(device):
    pool = Pool(DevicePoolMemory(device, ALIGNMENT))
    pool.free_block(pool.malloc(1, 7))
    device.begin(9)
    message = (
        r"512 bytes were asked of a pool of 512 bytes, and no block that is surely out of use is large enough, and waiting "
        r"would break the capture that goes on: 512 bytes are free, 0 of them in the largest block that may be had\n"
        r"help: call pool\.settle\(\) before the capture, or make a larger pool"
    )
    with pytest.raises(PoolError, match=message):
        pool.malloc(512)
    with pytest.raises(CudaError, match="waiting would break that"):
        pool.settle()
    assert device.waits == 0
    device.captures.clear()
    pool.settle()
    device.begin(9)
    pool.malloc(512)


@pytest.mark.parametrize("after", [None, 8, 9])
def test_what_was_taken_in_a_capture_belongs_to_the_graph(device, after):
    pool = Pool(DevicePoolMemory(device, ALIGNMENT))
    device.begin(9)
    pointer = pool.malloc(1, 9)
    pool.free_block(pointer)
    # In the same capture the same stream has it again.
    assert pool.malloc(1, 9) == pointer
    pool.free_block(pointer)
    device.captures.clear()
    assert (pool.used, pool.free) == (0, 512)
    message = "no block is large enough that no captured graph works on: 512 bytes are free, 0 of them"
    for stream in (9, 8, None):
        with pytest.raises(PoolError, match=message):
            pool.malloc(1, stream)
    device.drop(1)
    # The graph may have been launched on any stream.
    assert pool.malloc(1, after) == pointer and device.waits == 1


def test_what_a_graph_had_is_nobodys_while_another_is_captured(device):
    pool = Pool(DevicePoolMemory(device, ALIGNMENT))
    device.begin(9)
    pool.free_block(pool.malloc(1, 9))
    device.captures.clear()
    device.drop(1)
    # The graph may still run, on any stream.
    device.begin(8)
    with pytest.raises(PoolError, match="waiting would break the capture"):
        pool.malloc(1, 9)


def test_the_memory_lives_as_long_as_pool_blocks_and_graphs(device):
    pool = Pool(DevicePoolMemory(device, 4 * ALIGNMENT))
    block = pool._memory.buffer(10)
    device.begin(9)
    pool.free_block(pool.malloc(1, 9))
    device.captures.clear()
    del pool
    gc.collect()
    assert device.live_buffers == 1
    del block
    gc.collect()
    assert device.live_buffers == 1
    device.drop(1)
    gc.collect()
    assert device.live_buffers == 0


def test_buffers_come_from_the_pool_that_is_current(device):
    pool = Pool(DevicePoolMemory(device, 4 * ALIGNMENT))
    with pool:
        inside = device_pool.buffer(device, 513)
        with contextlib.suppress(ZeroDivisionError), Pool(DevicePoolMemory(device, ALIGNMENT)):
            assert device_pool.buffer(device, 1).pointer == BASE
            raise ZeroDivisionError
        assert device_pool.buffer(device, 1).pointer == BASE + 2 * ALIGNMENT
        assert device_pool.buffer(PlayedDevice(), 1).pointer == BASE
        seen = []
        thread = threading.Thread(target=lambda: seen.append(CURRENT_POOL.get()))
        thread.start(), thread.join()
        # Of this thread alone.
        assert seen == [None]
    assert CURRENT_POOL.get() is None
    assert pool.used == 2 * ALIGNMENT
    inside.free()
    assert pool.used == 0


def test_a_reset_takes_the_memory(device):
    pool = Pool(DevicePoolMemory(device, ALIGNMENT))
    device.epoch += 1
    with pytest.raises(PoolError, match=r"memory is gone: its device was reset\nhelp: make the pool again"):
        pool.malloc(1)
