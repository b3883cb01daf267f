"""Arguments taken apart and filled in, what a kernel does to types and shapes, and calls of XLA, without either library."""

from __future__ import annotations

import ctypes
import enum
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

from qgraph.compat import xla_ffi
from qgraph.errors import ArgumentError
from qgraph.hosts.meaning import StandIn, meaning_of
from qgraph.hosts.parts import REFUSED, Place, parts_of
from tests.hosts import kernels

Pair = namedtuple("Pair", "first second")


class Colour(enum.Enum):
    RED = 1


class Whole(enum.IntEnum):
    TWO = 2


def kind_of(value):
    return "array" if isinstance(value, np.ndarray) else None


def parts(values, names="abcdefgh", static=frozenset()):
    return parts_of(list(names[: len(values)]), values, static, kind_of, "a compiler")


def test_what_is_taken_apart_is_filled_in_again():
    x, y = np.zeros(2), np.zeros(3)
    values = (x, Pair(1, (y, True)), 2.5, None, "word", Colour.RED, np.float32(1.5), 1j)
    found = parts(values)
    assert [place.kind for place in found.places] == ["array", "int", "array", "bool", "float", "float", "complex"]
    assert found.paths == ("a", "b.first", "b.second[0]", "b.second[1]", "c", "g", "h")
    again = found.filled(found.items)
    assert again == values and type(again[1]) is Pair and type(again[6]) is np.float32
    assert found.filled([1, 2, 3, 4, 5, 6.0, 7])[1] == Pair(2, (3, 4))


def test_an_array_that_is_passed_twice_is_one_item():
    x, y = np.zeros(2), np.zeros(2)
    found = parts((x, 1, y, 1, (x,)))
    assert [place.index for place in found.places] == [0, 1, 2, 3, 0]
    assert len(found.items) == 4
    assert found.structure[4] == (Place(0, "array"),)


def test_an_enumeration_of_numbers_is_a_number():
    assert [place.kind for place in parts((Whole.TWO,)).places] == ["int"]


def test_static_arguments_stay():
    found = parts((3, np.zeros(2)), static=frozenset("a"))
    assert found.structure[0] == 3 and len(found.items) == 1


@pytest.mark.parametrize("value", [[np.zeros(2)], kernels.State(1, 2), object(), {}, f"{REFUSED}list"])
def test_what_is_refused(value):
    name = "list" if isinstance(value, str) else type(value).__name__
    for given, path in (((1, value), "b"), ((1, (2, value)), r"b\[1\]"), ((1, Pair(2, value)), r"b\.second")):
        with pytest.raises(
            ArgumentError, match=f"argument `{path}`: an object of type {name} cannot be passed to a kernel in a c"
        ):
            parts(given)


def test_a_refused_static_argument():
    with pytest.raises(ArgumentError, match="argument `a`: an object of type dict"):
        parts((f"{REFUSED}dict",), static=frozenset("a"))


# --- what a kernel does --------------------------------------------------------------------------------------------------


def meaning(kernel, *values, known=None):
    taken = parts_of(kernel._names, values, frozenset(), kind_of, "a compiler")
    items = [
        StandIn(item, lambda item=item: item.shape, item.dtype, "C") if isinstance(item, np.ndarray) else item
        for item in taken.items
    ]
    found = meaning_of(kernel, taken, items, "a compiler", {} if known is None else known)
    return found, [items[place.index] for place in taken.places]


def test_what_is_written_and_returned():
    found, leaves = meaning(kernels.axpy, 2.0, np.zeros(3), np.zeros(3))
    assert found.written == (2,) and not found.returned and found.shapes(leaves) == []
    found, leaves = meaning(kernels.several, (np.zeros(4, np.float32),), 2.5, 3, np.zeros(4, np.float32))
    assert not found.written
    assert found.shapes(leaves) == [((3, 4), np.dtype(np.float32)), ((3,), np.dtype(np.int32))]
    assert found.shapes([*leaves[:2], 7, *leaves[3:]])[0][0] == (7, 4)
    t, u, x = object(), object(), object()
    arrays = found.arrays_in((t, u, x))
    assert [arrays[name] for name in found.returned] == [t, u]


def test_it_is_remembered_by_types_until_what_was_compiled_in_changes(monkeypatch):
    known = {}
    first, leaves = meaning(kernels.of_length, np.zeros(3), known=known)
    assert meaning(kernels.of_length, np.zeros(5), known=known)[0] is first
    assert meaning(kernels.of_length, np.zeros(5, np.float32), known=known)[0] is not first
    assert first.shapes(leaves)[0][0] == (2,)
    monkeypatch.setattr(kernels, "LENGTH", 4)
    second, _ = meaning(kernels.of_length, np.zeros(3), known=known)
    assert second is not first and second.shapes(leaves)[0][0] == (4,)


# --- XLA's calls ---------------------------------------------------------------------------------------------------------


class Played:
    """XLA, as far as a handler sees of it: it holds the memory of one call."""

    def __init__(self, arguments=(), results=(), number=5, stage=3):
        self.messages, self.asked = [], []
        self.error = xla_ffi._Asked(self._error)
        self.stream = xla_ffi._Asked(self._stream)
        self.table = (ctypes.c_void_p * 24)()
        self.table[xla_ffi._ERROR_CREATE] = ctypes.cast(self.error, ctypes.c_void_p).value
        self.table[xla_ffi._STREAM_GET] = ctypes.cast(self.stream, ctypes.c_void_p).value
        api = ctypes.cast(self.table, ctypes.POINTER(xla_ffi._Api))
        api.contents.version.minor = 3
        self.number = ctypes.c_int64(number)
        self.scalar = xla_ffi._Scalar(5, ctypes.addressof(self.number))
        self.values = (ctypes.c_void_p * 1)(ctypes.addressof(self.scalar))
        self.types = (ctypes.c_int * 1)(xla_ffi._SCALAR)
        attributes = xla_ffi._Attributes(0, None, 1, self.types, None, self.values)
        self.kept = []
        self.frame = xla_ffi._CallFrame(
            ctypes.sizeof(xla_ffi._CallFrame),
            None,
            api,
            77,
            stage,
            self._buffers(arguments),
            self._buffers(results),
            attributes,
        )

    def _buffers(self, arrays):
        buffers = []
        for array in arrays:
            dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            code = {"float32": 11, "int32": 4, "bool": 1, "uint64": 9, "complex128": 18}[array.dtype.name]
            buffers.append(xla_ffi._Buffer(0, None, code, array.ctypes.data, array.ndim, dims))
        pointers = (ctypes.POINTER(xla_ffi._Buffer) * max(len(buffers), 1))(*map(ctypes.pointer, buffers))
        self.kept.append((buffers, pointers))
        return xla_ffi._Buffers(0, None, len(buffers), None, pointers)

    def _error(self, pointer):
        asked = ctypes.cast(pointer, ctypes.POINTER(xla_ffi._ErrorArguments)).contents
        self.messages.append((asked.message.decode(), asked.code))
        return 99

    def _stream(self, pointer):
        asked = ctypes.cast(pointer, ctypes.POINTER(xla_ffi._StreamArguments)).contents
        self.asked.append(asked.context)
        asked.stream = 1234
        return None

    def call(self, run):
        return xla_ffi.handler(run)(ctypes.byref(self.frame))


def test_a_call_of_xla():
    x, n, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int32), np.zeros((3, 2), np.complex128)
    seen = []

    def run(call):
        (first, second), (result,) = call.arguments, call.results
        assert (first.shape, second.shape, result.shape) == ((2, 3), (), (3, 2))
        result.on_host()[:] = first.on_host().T * second.on_host()
        seen.append((call.number, call.stream(), first.pointer))

    played = Played((x, n), (y,))
    assert not played.call(run)
    assert seen == [(5, 1234, x.ctypes.data)]
    assert played.asked == [77]
    np.testing.assert_array_equal(y, x.T * 7)


def test_dtypes_of_xla():
    for array in (np.array([True, False]), np.array([2**63], np.uint64), np.zeros(0, np.float32)):
        found = []
        assert not Played((array,)).call(lambda call, found=found: found.append(call.arguments[0].on_host().copy()))
        assert found[0].dtype == array.dtype
        np.testing.assert_array_equal(found[0], array)


def test_an_error_becomes_one_of_xla():
    def run(call):
        raise ArgumentError("it does not fit", hint="pass another")

    played = Played()
    assert played.call(run) == 99
    assert played.messages == [("ArgumentError: it does not fit\nhelp: pass another", 13)]


def test_stages_before_the_execution_do_nothing():
    for stage in range(3):
        played = Played(stage=stage)
        assert not played.call(lambda call: 1 / 0) and not played.messages


def test_xla_asks_which_version_it_is():
    metadata = xla_ffi._Metadata(traits=9)
    extension = xla_ffi._MetadataExtension(xla_ffi._Extension(0, 1, None), ctypes.pointer(metadata))
    played = Played()
    played.frame.extension_start = ctypes.cast(ctypes.pointer(extension), ctypes.POINTER(xla_ffi._Extension))
    assert not played.call(lambda call: 1 / 0) and not played.messages
    assert (metadata.api_version.major, metadata.api_version.minor, metadata.traits) == (0, 3, 0)


# --- nothing is loaded before it is needed ---------------------------------------------------------------------------------


def test_a_kernel_loads_neither_library():
    code = (
        "import sys, numpy as np\nfrom tests.hosts.kernels import square\nassert square(np.ones(2)).tolist() == [1, 1]\n"
        "print(*(m for m in ('torch', 'jax') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
