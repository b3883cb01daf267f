"""Some of the driver's calls fail once, and lose the context: ``make faults`` lets all of them."""

from __future__ import annotations

import pytest

from tests.processes import run_python

pytest.importorskip("cuda.bindings")


@pytest.mark.parametrize(
    ("kernels", "phases", "every", "looks"),
    [
        # There is no kernel to let go of where there are only arrays.
        (("loop", "memset, memcpy", "arrays"), ("first call", "kept", "let go"), 5, 2 * (3 + 3 + 1) + 3),
        # What the library launches for other sizes takes the place of a node.
        (("library",), ("other size",), 3, 3),
        # Some of them while a stream is captured.
        (("captured",), ("first call",), 8, 3),
    ],
)
def test_refused_calls_are_named_the_next_are_right_and_all_is_freed(kernels, phases, every, looks):
    given = ("--kernels", *kernels, "--phases", *phases, "--every", every)
    done = run_python("-m", "tests.faults", *given, NUMBA_ENABLE_CUDASIM="1", QGRAPH_CACHE="0")
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "a process whose context is lost: one message, and it ends"
    # Each phase, and losing the context in it.
    assert len(lines) == 1 + looks
    for line in lines:
        assert " 0 calls" not in line, line
        assert line.endswith(" 0 wrong"), line
