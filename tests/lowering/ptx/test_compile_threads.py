"""NVVM and nvJitLink beside Numba."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import pytest

from qgraph.errors import BackendError
from qgraph.lowering.ptx import compile_threads
from qgraph.lowering.ptx.compile_threads import CompileThreads


class Pretended:
    """Takes texts as nvJitLink does."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.closed = False
        self.threads = {threading.get_ident()}

    def add(self, text: str) -> None:
        self.threads.add(threading.get_ident())
        if text == "bad":
            raise BackendError("it does not link")
        self.texts.append(text)

    def cubin(self) -> bytes:
        self.threads.add(threading.get_ident())
        return "".join(self.texts).encode()

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed = True


def test_texts_are_linked_in_order_while_others_are_made():
    linking, going = Pretended(), threading.Event()
    with CompileThreads(lambda: linking) as beside:
        first = beside.begin(lambda: (going.wait(10), "a")[1])
        beside.link(lambda: "b")
        last = beside.begin(lambda: "c")
        going.set()
        assert (first(), last()) == ("a", "c")
        assert beside.cubin() == b"abc"
    assert linking.closed


@pytest.mark.parametrize("text", ["a", "bad"])
def test_one_thread_links_from_beginning_to_end(text):
    """nvJitLink corrupts the heap where one thread ends what another one began."""
    made: list[Pretended] = []
    with contextlib.suppress(BackendError), CompileThreads(lambda: made.append(Pretended()) or made[-1]) as beside:
        beside.begin(lambda: text)
        beside.cubin()
    (linking,) = made
    assert linking.closed
    assert len(linking.threads) == 1
    assert threading.get_ident() not in linking.threads


def test_nothing_to_link_is_no_linker():
    def refused():
        raise AssertionError("made")

    with CompileThreads(refused) as beside:
        assert beside.cubin() == b""
    with CompileThreads(None) as beside:
        assert beside.begin(lambda: "a")() == "a"


@pytest.mark.parametrize("text", ["bad", None])
def test_what_fails_there_is_told_here(text):
    linking = Pretended()

    def finish():
        if text is None:
            raise BackendError("it does not compile")
        return text

    with CompileThreads(lambda: linking) as beside, pytest.raises(BackendError, match="does not"):
        beside.begin(finish)
        beside.cubin()


def test_threads_give_way_sooner_as_long_as_anybody_compiles():
    usual = sys.getswitchinterval()
    outer, inner = CompileThreads(None), CompileThreads(None)
    with outer:
        assert sys.getswitchinterval() < usual
        inner.__enter__()
    assert sys.getswitchinterval() < usual
    inner.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual


def test_threads_give_way_as_usual_after_an_interrupt(monkeypatch):
    def interrupted(futures):
        raise KeyboardInterrupt

    usual = sys.getswitchinterval()
    monkeypatch.setattr(compile_threads, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), CompileThreads(None):
        pass
    assert sys.getswitchinterval() == usual


def names(before: set[threading.Thread]) -> list[str]:
    """The threads for compilations that there are, but for those of ``before``."""
    return sorted(each.name for each in {*threading.enumerate()} - before if each.name.startswith("qgraph-nv"))


def used() -> int:
    """The thread of a compilation."""
    found: list[int] = []
    with CompileThreads(Pretended) as beside:
        beside.begin(lambda: (found.append(threading.get_ident()), "a")[1])
        assert beside.cubin() == b"a"
    return found[0]


def test_the_next_compilation_takes_the_same_threads():
    compile_threads._end_idle()
    # An interrupted compilation leaves its thread until it is collected.
    before = {*threading.enumerate()}
    assert used() == used()
    assert len(names(before)) == 2
    outer = CompileThreads(None)
    with outer:
        used()
    # Those of one of two at once are enough.
    assert len(names(before)) == 2
    compile_threads._end_idle()
    assert names(before) == []


def test_what_was_not_begun_is_given_up():
    started, going, made = threading.Event(), threading.Event(), []
    with pytest.raises(ZeroDivisionError), CompileThreads(None) as beside:
        beside.begin(lambda: (started.set(), going.wait(10), "a")[2])
        beside.begin(lambda: made.append("b"))
        started.wait(10)
        threading.Timer(0.05, going.set).start()
        raise ZeroDivisionError
    assert not made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_process_that_forks_has_no_idle_threads_nor_has_its_child():
    compile_threads._end_idle()
    before = {*threading.enumerate()}
    used()
    child = os.fork()
    if not child:
        os._exit(bool(compile_threads._IDLE) or not used())
    assert os.waitpid(child, 0)[1] == 0
    assert names(before) == []
