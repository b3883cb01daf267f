"""Guards of repeated calls: the very objects, unchanged; and a library's stream, by the C function that it asks itself."""

from __future__ import annotations

import ctypes
import gc
import types
import weakref
from typing import ClassVar

import numpy as np
import pytest

from qgraph.runtime.arguments import array_adapters
from qgraph.runtime.arguments.guards import repeater
from qgraph.runtime.values.prepared_call import CHANGED, ReplayCode


class Thing:
    """Whatever can be held weakly, and has the interface of an array."""

    __cuda_array_interface__: ClassVar = {"shape": (3,), "typestr": "<f8", "data": (4096, False), "version": 3}


def watched(*values):
    """Whether later values are those, unchanged."""
    again = repeater(values, ReplayCode((), {}, lambda _: ["pass"]), conditions=[], done=["return None"], names={})
    return lambda *later: again(later) is not CHANGED


def test_the_same_objects():
    a, b = Thing(), Thing()
    same = watched(a, b, a)
    assert same(a, b, a)
    for others in ((b, a, a), (a, b, b), (a, b, None), (None, b, a), (), (a, b), (a, b, a, b)):
        assert not same(*others)
    gone = weakref.ref(b)
    del b, others
    gc.collect()
    assert gone() is None
    # What is gone is nothing that can be given, and None stands for nothing else.
    assert not same(a, None, a)


def test_another_object_in_the_place_of_one_that_is_gone():
    # Which place is used again, and when, is the affair of Python's allocator.
    things = [Thing() for _ in range(200)]
    guards = {id(thing): watched(thing) for thing in things}
    assert all(guards[id(thing)](thing) for thing in things)
    del things
    others = []
    while not others or id(others[-1]) not in guards:
        others.append(Thing())
        assert len(others) < 500_000, "no place is used again"
    assert not guards[id(others[-1])](others[-1])


def test_an_array_that_cannot_be_held_weakly():
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


def test_none_is_no_function_that_is_gone():
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


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype|strides) on a NumPy array:DeprecationWarning")
def test_an_array_and_its_attributes():
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


def asker(monkeypatch, address):
    """What ``_cupy_stream`` gives where CuPy's own function lies at ``address``."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = b"intptr_t (void)"
    monkeypatch.setattr(array_adapters, "cupy_stream_function", lambda: make(address, name, None))
    monkeypatch.setattr(array_adapters, "sys", types.SimpleNamespace(modules={}))
    return array_adapters._cupy_stream(None)


def test_a_stream_that_a_function_gives(monkeypatch):
    answers = [7]
    at = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: answers[0])
    ask = asker(monkeypatch, ctypes.cast(at, ctypes.c_void_p).value)
    for answer in (7, 0, 2**62, -1, -2):
        answers[0] = answer
        assert ask() == answer


def test_what_such_a_function_raises(monkeypatch):
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
        asker(monkeypatch, engine.get_function_address("raising"))()
