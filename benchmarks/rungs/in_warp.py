"""In Warp: captured graphs; launches recorded once where the arrays change, which its graphs cannot follow."""

import itertools
from typing import Any

import numpy as np
import warp as wp

from benchmarks.peers import Device, Run
from benchmarks.rungs import BLOCK, SETS, Loop, N, zeros
from benchmarks.warp_graphs import captured

# Nothing here is differentiated.
wp.set_module_options({"enable_backward": False})


@wp.kernel
def add(x: wp.array(dtype=float), a: float):
    """The loop."""
    i = wp.tid()
    x[i] = x[i] + a


@wp.kernel
def count_down(counter: wp.array(dtype=int)):
    """The counter."""
    counter[0] = counter[0] - 1


def _array() -> Any:
    return wp.array(zeros(), dtype=float)


def _launch(x: Any) -> None:
    wp.launch(add, dim=N, inputs=[x, 1.0], block_dim=BLOCK)


def chain(loops: int, device: Device) -> Run:
    """Loops in a row."""
    x = _array()

    def work() -> None:
        for _ in range(loops):
            _launch(x)

    return Run(captured(work, device), wp.synchronize_device, lambda: {"x": x.numpy()})


def loop(loops: int, device: Device) -> Loop:
    """A loop on the device."""
    x, counter = _array(), wp.zeros(1, dtype=int)

    def body() -> None:
        for _ in range(loops):
            _launch(x)
        wp.launch(count_down, dim=1, inputs=[counter])

    replay = captured(lambda: wp.capture_while(counter, body), device)

    def prepare(count: int) -> None:
        counter.fill_(count)
        wp.synchronize_device()

    def run(_: int) -> None:
        replay()
        wp.synchronize_device()

    return Loop(prepare, run, x.numpy)


def changed(loops: int, device: Device) -> Run:
    """Recorded launches that get another array each call."""
    arrays = [_array() for _ in range(SETS)]
    following = itertools.cycle(arrays).__next__
    command = wp.launch(add, dim=N, inputs=[wp.zeros_like(arrays[0]), 1.0], block_dim=BLOCK, record_cmd=True)

    def action() -> None:
        command.set_param_at_index(0, following())
        for _ in range(loops):
            command.launch()

    return Run(action, wp.synchronize_device, lambda: {"x": np.stack([x.numpy() for x in arrays])})


def branches(count: int, device: Device) -> Run:
    """A stream each, forked and joined in a capture."""
    arrays = [_array() for _ in range(count)]
    streams = [wp.Stream() for _ in arrays] if device == "cuda" else []

    def work() -> None:
        if not streams:
            for x in arrays:
                _launch(x)
            return
        main = wp.get_stream()
        for x, stream in zip(arrays, streams, strict=True):
            stream.wait_stream(main)
            wp.launch(add, dim=N, inputs=[x, 1.0], block_dim=BLOCK, stream=stream)
        for stream in streams:
            main.wait_stream(stream)

    return Run(captured(work, device), wp.synchronize_device, lambda: {"x": np.stack([x.numpy() for x in arrays])})
