"""What the programs and ladders in Warp share: work that is captured once, and replayed."""

from __future__ import annotations

from collections.abc import Callable

import warp as wp

from benchmarks.peers import Device


def captured(work: Callable[[], object], device: Device) -> Callable[[], object]:
    """A replay of ``work``, or itself on the CPU. It holds ``work``, and so its arrays: the graph holds none of them."""
    if device == "cpu":
        return work
    wp.load_module(module=work.__module__, device=wp.get_device())
    with wp.ScopedCapture() as capture:
        work()

    def replay() -> None:
        wp.capture_launch(capture.graph)

    replay.work = work  # type: ignore[attr-defined]
    return replay
