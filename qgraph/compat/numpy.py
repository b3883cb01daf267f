"""NumPy's private parts: an array's object in memory, linear algebra to its place, what 2.5 took away that numba-cuda asks for.

Read from 2.0 to 2.5.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from qgraph.compat import Library

NUMPY = Library("numpy", "2.0 to 2.5")

# --- arrays in memory --------------------------------------------------------------------------------------------------


class _ArrayObject(ctypes.Structure):
    """An array's object up to its flags (``PyArrayObject_fields``), as every extension module reads it."""

    _fields_ = (
        ("head", ctypes.c_byte * (object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))),
        ("cls", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


# The numbers of its fields.
CLASS, DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = 1, 2, 3, 4, 5, 7, 8


def array_type() -> Any:
    """The object of an array as a type of llvmlite.

    Raises:
        BackendError: NumPy's arrays look otherwise.
    """
    from llvmlite import ir

    probe = numpy.zeros((3, 5))[1:, ::2]
    found = _ArrayObject.from_address(id(probe))
    known = (id(numpy.ndarray), probe.ctypes.data, probe.ndim, id(probe.dtype), probe.flags.num)
    if (
        (found.cls, found.data, found.ndim, found.dtype, found.flags) != known
        or tuple(found.shape[:2]) != probe.shape
        or tuple(found.strides[:2]) != probe.strides
    ):
        raise NUMPY.lacks("array object whose fields lie where its C API says")
    number, size = ir.IntType(32), ir.IntType(64)
    pointer, sizes = ir.IntType(8).as_pointer(), size.as_pointer()
    head = ir.ArrayType(ir.IntType(8), _ArrayObject.cls.offset)
    return ir.LiteralStructType([head, pointer, pointer, number, sizes, sizes, pointer, pointer, number])


_DATA_FIELD: int = _ArrayObject.data.offset


def _pointer_from_struct(array: numpy.ndarray) -> int:
    return ctypes.c_size_t.from_address(id(array) + _DATA_FIELD).value


def _pointer_from_interface(array: numpy.ndarray) -> int:
    return int(array.ctypes.data)


def _struct_is_readable() -> bool:
    probe = numpy.zeros(3)[1:]
    return sys.implementation.name == "cpython" and _pointer_from_struct(probe) == _pointer_from_interface(probe)


#: The address of a NumPy array's first element. ``array.ctypes.data`` takes six times as long, so it is the fall-back.
host_pointer: Callable[[numpy.ndarray], int] = _pointer_from_struct if _struct_is_readable() else _pointer_from_interface

# --- linear algebra ----------------------------------------------------------------------------------------------------

# By the names of functions of np.linalg: the one that each calls, and what it says where that has no answer.
_FILLING = {
    "cholesky": ("cholesky_lo", "Matrix is not positive definite"),
    "inv": ("inv", "Singular matrix"),
    "solve": ("solve", "Singular matrix"),
}


def linalg_to_place(name: str, operands: Sequence[numpy.ndarray], out: numpy.ndarray) -> bool:
    """Compute what ``np.linalg``'s function ``name`` gives into ``out``, which is no array of the caller's; False if it cannot.

    Raises:
        LinAlgError: there is no answer, as the function says; ``out`` holds anything then.
    """
    inner, error = _FILLING.get(name, ("", ""))
    if inner == "solve" and operands[1].ndim == 1:
        inner = "solve1"
    function = getattr(getattr(numpy.linalg, "_umath_linalg", None), inner or " ", None)
    if function is None or out.dtype.char not in "dD" or any(each.dtype != out.dtype for each in operands):
        return False

    def fail(*_: object) -> None:
        raise numpy.linalg.LinAlgError(error)

    with numpy.errstate(call=fail, invalid="call", over="ignore", divide="ignore", under="ignore"):
        function(*operands, out=out)
    return True


# --- NumPy 2.5 ---------------------------------------------------------------------------------------------------------


def _row_stack(*arrays: Any, **options: Any) -> Any:
    """As it was. A function of its own, since numba-cuda declares vstack besides."""
    return numpy.vstack(*arrays, **options)


@contextmanager
def as_before_2_5() -> Iterator[None]:
    """What numba-cuda 0.30.4 looks at while its modules are imported, the last of them for its first target context.

    ``row_stack`` is there, and nobody is warned about units of time that are left out.
    """
    if hasattr(numpy, "row_stack"):
        yield
        return
    numpy.row_stack = _row_stack
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The 'generic' unit", DeprecationWarning)
            yield
    finally:
        del numpy.row_stack
