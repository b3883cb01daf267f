"""Calls within calls: more than Python's limit allows, in a thread of their own, and nothing of it stays."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading

import pytest

from qgraph import stack
from qgraph.errors import KernelSyntaxError
from qgraph.stack import compiling


def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + depth(levels - 1)


@compiling
def roomy_depth(levels: int) -> tuple[int, threading.Thread]:
    return depth(levels), threading.current_thread()


def test_what_is_deep_runs_in_a_thread_of_its_own_and_the_limit_is_as_before():
    before = sys.getrecursionlimit(), threading.stack_size()
    assert roomy_depth(10) == (10, threading.current_thread())
    found, thread = roomy_depth(20_000)
    assert (found, thread.name) == (20_000, "qgraph-deep")
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


@pytest.mark.parametrize("usual", [True, False])
def test_nothing_is_collected_meanwhile_and_then_as_before(usual: bool):
    @compiling
    def collecting(levels: int) -> list[bool]:
        if levels < 0:
            raise ValueError
        return [gc.isenabled(), *(collecting(levels - 1) if levels else [])]

    before = gc.isenabled()
    try:
        (gc.enable if usual else gc.disable)()
        assert collecting(2) == [False, False, False]
        assert gc.isenabled() == usual
        with pytest.raises(ValueError):  # noqa: PT011 - it has no words
            collecting(-1)
        assert gc.isenabled() == usual
    finally:
        (gc.enable if before else gc.disable)()


def test_too_deep_is_refused_by_name():
    with pytest.raises(KernelSyntaxError, match=f"more than {stack.DEEPEST} calls within calls"):
        roomy_depth(stack.DEEPEST + 1)
    assert roomy_depth(3)[0] == 3


def test_a_wrapped_error_counts_too_and_any_other_passes():
    tries: list[bool] = []

    @compiling
    def wrapping(levels: int, kind: type[Exception]) -> int:
        tries.append(threading.current_thread() is threading.main_thread())
        if levels < 0:
            raise kind("own")
        try:
            return depth(levels)
        except RecursionError as error:
            raise kind("wrapped") from error

    assert wrapping(20_000, ValueError) == 20_000
    assert tries == [True, False]
    with pytest.raises(ValueError, match="own"):
        wrapping(-1, ValueError)
    assert len(tries) == 3


def test_an_error_on_the_deep_stack_is_the_callers():
    @compiling
    def failing() -> None:
        depth(20_000)
        raise KeyError("after all")

    with pytest.raises(KeyError, match="after all"):
        failing()
    assert sys.getrecursionlimit() < stack.DEEPEST


def test_deep_within_deep_is_one_thread():
    @compiling
    def outer() -> tuple[threading.Thread, threading.Thread]:
        depth(20_000)
        return threading.current_thread(), roomy_depth(20_000)[1]

    first, second = outer()
    assert first is second


def test_context_variables_hold_there():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    @compiling
    def looking() -> str:
        depth(20_000)
        return variable.get()

    token = variable.set("set")
    assert looking() == "set"
    variable.reset(token)


def test_several_threads_at_once_leave_the_limit_as_it_was():
    before = sys.getrecursionlimit()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(roomy_depth(20_000)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20_000] * 4
    assert sys.getrecursionlimit() == before
