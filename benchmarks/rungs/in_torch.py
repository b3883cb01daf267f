"""In PyTorch: ``torch.cuda.CUDAGraph``; its arrays are copied into where they change, its loop is the host's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.peers import Device, Run
from benchmarks.rungs import SETS, Loop, N


def _array() -> Any:
    return torch.zeros(N, device="cuda")


def _captured(work: Callable[[], None]) -> Any:
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def _warm() -> None:
    """Load what is captured later."""
    torch.zeros(N, device="cuda").add_(1.0)
    torch.zeros((), dtype=torch.int32, device="cuda").sub_(1)
    torch.cuda.synchronize()


def _adder(x: Any, loops: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(loops):
            x.add_(1.0)

    return work


def chain(loops: int, device: Device) -> Run:
    """Loops in a row."""
    _warm()
    x = _array()
    graph = _captured(_adder(x, loops))
    return Run(graph.replay, torch.cuda.synchronize, lambda: {"x": x.cpu().numpy()})


def loop(loops: int, device: Device) -> Loop:
    """The body is a graph, the host reads the counter in each iteration."""
    _warm()
    x, counter = _array(), torch.zeros((), dtype=torch.int32, device="cuda")
    add = _adder(x, loops)

    def body() -> None:
        add()
        counter.sub_(1)

    graph = _captured(body)

    def prepare(count: int) -> None:
        counter.fill_(count)
        torch.cuda.synchronize()

    def run(_: int) -> None:
        graph.replay()
        while counter.item():
            graph.replay()

    return Loop(prepare, run, lambda: x.cpu().numpy())


def changed(loops: int, device: Device) -> Run:
    """Each array is copied into the graph's own, and back."""
    _warm()
    arrays, own = [_array() for _ in range(SETS)], _array()
    graph = _captured(_adder(own, loops))
    following = itertools.cycle(arrays).__next__

    def action() -> None:
        x = following()
        own.copy_(x)
        graph.replay()
        x.copy_(own)

    return Run(action, torch.cuda.synchronize, lambda: {"x": np.stack([x.cpu().numpy() for x in arrays])})


def branches(count: int, device: Device) -> Run:
    """A stream each, forked and joined in a capture."""
    _warm()
    arrays, streams = [_array() for _ in range(count)], [torch.cuda.Stream() for _ in range(count)]

    def work() -> None:
        main = torch.cuda.current_stream()
        for x, stream in zip(arrays, streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                x.add_(1.0)
        for stream in streams:
            main.wait_stream(stream)

    graph = _captured(work)
    return Run(graph.replay, torch.cuda.synchronize, lambda: {"x": np.stack([x.cpu().numpy() for x in arrays])})
