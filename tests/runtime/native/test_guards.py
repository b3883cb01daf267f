"""Functions of machine code that look at arguments: objects known by weak references, and a library's stream."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import ClassVar

import numpy as np
import pytest

from qgraph.runtime.arguments.guards import repeater
from qgraph.runtime.native import identity_guard, stream_guard
from qgraph.runtime.values.prepared_call import CHANGED, ReplayCode


class Thing:
    """Whatever can be held weakly."""


@pytest.fixture(autouse=True)
def compiler():
    """Where it is loaded there is machine code."""
    import llvmlite.binding  # noqa: F401


def test_the_same_objects():
    assert identity_guard.can_look()
    a, b = Thing(), Thing()
    same = identity_guard.look_at([a, b, a], [])
    assert same(a, b, a) is True
    for others in ((b, a, a), (a, b, b), (a, b, None), (None, b, a), (), (a, b), (a, b, a, b)):
        assert same(*others) is False
    gone = weakref.ref(b)
    del b, others
    gc.collect()
    assert gone() is None
    # What is gone is nothing that can be given, and None stands for nothing else.
    assert same(a, None, a) is False
    assert identity_guard.look_at([], [])() is True


def test_the_same_objects_behind_them():
    a, shape = Thing(), tuple(range(3, 5))
    equal = tuple(range(3, 5))
    same = identity_guard.look_at([a], [shape, None, 0])
    assert same(a, shape, None, 0) is True
    for others in ((a, shape, None, 1), (a, equal, None, 0), (a, shape, 0, 0), (shape, a, None, 0), (a, shape, None)):
        assert same(*others) is False
    assert identity_guard.look_at([], [shape])(shape) is True
    assert identity_guard.look_at([], [shape])(equal) is False


def test_another_object_in_the_place_of_one_that_is_gone():
    thing = Thing()
    place, same = id(thing), identity_guard.look_at([thing], [])
    assert same(thing) is True
    del thing
    others = []
    while not others or id(others[-1]) != place:
        others.append(Thing())
        assert len(others) < 10_000, "the place is not used again"
    assert same(others[-1]) is False


def test_objects_that_go_in_a_cycle_or_come_back():
    kept = []

    class Coming(Thing):
        def __del__(self):
            kept.append(self)

    a, b = Thing(), Thing()
    a.other, b.other = b, a
    look_a, look_b = identity_guard.look_at([a], []), identity_guard.look_at([b], [])
    places = {id(a): look_a, id(b): look_b}
    del a, b
    gc.collect()
    others = [Thing() for _ in range(10_000)]
    assert not any(places[id(other)](other) for other in others if id(other) in places)
    c = Coming()
    same = identity_guard.look_at([c], [])
    del c
    # It is the same object, and lives.
    assert same(kept[0]) is True


def test_what_is_known_weakly_is_not_held():
    thing, held = Thing(), Thing()
    same, gone, kept = identity_guard.look_at([thing], [held]), weakref.ref(thing), weakref.ref(held)
    del thing, held
    gc.collect()
    assert gone() is None
    assert kept() is not None
    del same
    assert kept() is None
    with pytest.raises(TypeError):
        identity_guard.look_at([3], [])


@pytest.mark.parametrize("looks", [True, False])
def test_an_array_that_cannot_be_held_weakly(looks, monkeypatch):
    monkeypatch.setattr(identity_guard, "can_look", lambda: looks)

    class Slots:
        """An array on a device, and nothing else."""

        __slots__ = ()
        __cuda_array_interface__: ClassVar = {"shape": (3,), "typestr": "<f8", "data": (4096, False), "version": 3}

    class Weak(Slots):
        """One that weak references can stand for."""

        __slots__ = ("__weakref__",)

    for cls in (Weak, Slots):
        again = repeater((cls(),), ReplayCode((), {}, lambda _: ["pass"]), conditions=[], done=["return None"], names={})
        # Of such an object nobody can tell whether it is another one in the same place.
        assert (again is None) is (cls is Slots)


def test_an_event_made_anew_in_the_same_object():
    class Event:
        """As libraries have them."""

        __cuda_event__ = 7

    event, other = Event(), Event()
    again = repeater((event,), ReplayCode((), {}, lambda _: ["pass"]), conditions=[], done=["return None"], names={})
    assert again((event,)) is not CHANGED
    assert again((other,)) is CHANGED
    event.__cuda_event__ = 8
    assert again((event,)) is CHANGED


def test_functions_of_one_text_have_their_own_objects():
    a, b = np.zeros(3), np.zeros(3)
    one, two = (
        repeater((x,), ReplayCode((), {}, lambda _: ["pass"]), conditions=[], done=["return None"], names={}) for x in (a, b)
    )
    assert one.__code__ is two.__code__
    assert one((a,)) is not CHANGED
    assert two((b,)) is not CHANGED
    assert one((b,)) is CHANGED
    assert two((a,)) is CHANGED


@pytest.mark.parametrize("looks", [True, False])
def test_none_is_no_function_that_is_gone(looks, monkeypatch):
    monkeypatch.setattr(identity_guard, "can_look", lambda: looks)

    def unchanged(*values):
        again = repeater(values, ReplayCode((), {}, lambda _: ["pass"]), conditions=[], done=["return None"], names={})
        return lambda *later: again(later) is not CHANGED

    def made(x):
        return x

    same = unchanged(made)
    assert same(made)
    del made
    gc.collect()
    assert not same(None)


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype|strides) on a NumPy array:DeprecationWarning")
def test_an_array_and_its_attributes(looks, monkeypatch):
    monkeypatch.setattr(identity_guard, "can_look", lambda: looks)
    x, y = np.zeros((2, 3)), np.zeros(4)
    call = ReplayCode((), {}, lambda _: ["pass"])
    again = repeater((x, y), call, conditions=[], done=["return None"], names={})
    assert again((x, y)) is not CHANGED
    for others in ((y, x), (x, y.copy()), (x, None), (None, y), (x, 3)):
        assert again(others) is CHANGED
    x.dtype = np.int64
    assert again((x, y)) is CHANGED
    x.dtype = np.float64
    assert again((x, y)) is not CHANGED
    y.flags.writeable = False
    assert again((x, y)) is CHANGED


def test_a_stream_that_a_function_gives():
    answers = [7]
    at = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: answers[0])
    ask = stream_guard.asker(ctypes.cast(at, ctypes.c_void_p).value)
    for answer in (7, 0, 2**62, -1, -2):
        answers[0] = answer
        assert ask() == answer
    with pytest.raises(TypeError):
        ask(1)


def test_what_such_a_function_raises():
    # As those of Cython: an exception is set, and -1 is returned.
    # The class by its address: Python's own variable may be too far away for such code.
    text = f"""
declare void @PyErr_SetNone(ptr)
define i64 @raising() {{
  call void @PyErr_SetNone(ptr inttoptr (i64 {id(RuntimeError)} to ptr))
  ret i64 -1
}}
"""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    with pytest.raises(RuntimeError):
        stream_guard.asker(engine.get_function_address("raising"))()
