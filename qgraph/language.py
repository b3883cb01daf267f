"""The words a kernel may use. Each is a plain Python function that means what it says; the frontend knows them by identity."""

from __future__ import annotations

import ctypes
import functools
import numbers
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from typing import Annotated, Any, TypeVar

import numpy as np

from qgraph.compat import cpython
from qgraph.errors import ArgumentError, KernelSyntaxError
from qgraph.pickling import ByName

T = TypeVar("T")


class ndrange:  # noqa: N801 - a word of the language, spelled as range is
    """The product of integer ranges, last axis fastest: ``ndrange(n, (lo, hi), ...)``.

    One axis yields ints, more yield tuples. An axis is a count ``n`` or a pair ``(lo, hi)``; an empty one makes it empty.
    """

    def __init__(self, *axes: int | tuple[int, int]) -> None:
        if not axes:
            raise ArgumentError("ndrange() needs at least one axis", hint="for one axis write ndrange(n)")
        self.axes = tuple(range(*axis) if isinstance(axis, tuple) else range(axis) for axis in axes)

    def __iter__(self) -> Iterator[Any]:
        if len(self.axes) == 1:
            return iter(self.axes[0])
        return product(*self.axes)

    def __len__(self) -> int:
        total = 1
        for axis in self.axes:
            total *= len(axis)
        return total


def serial(iterable: Iterable[T]) -> Iterable[T]:
    """``for t in serial(range(...))``: the iterations run in order; loops inside may be parallel."""
    return iterable


def parallel(iterable: Iterable[T]) -> Iterable[T]:
    """``for i in parallel(range(...))``: the author's word that the iterations are independent."""
    return iterable


def static(value: T) -> T:
    """``static(expr)``: the value of ``expr``, computed while the kernel is compiled.

    ``if static(...)`` and ``a if static(...) else b`` keep one branch, ``for`` over ``static(range(3))`` or over a tuple of
    functions, arrays or numbers unrolls.
    """
    return value


class _StaticArgument:
    """The mark of ``Static``."""

    def __repr__(self) -> str:
        return "qgraph.Static"


Static = Annotated[Any, _StaticArgument()]
"""``def kernel(x, mode: qgraph.Static)``: the value of ``mode`` is part of the specialisation, a constant in the kernel.

An integer, float, bool, enumeration member, string, None, function, or a tuple or frozen dataclass of these.
"""


def graph_do_while(flag: Any, max_iter: int | None = None) -> bool:
    """``while graph_do_while(flag)``: run the body, and again while ``flag`` is nonzero, at most ``max_iter`` times.

    Args:
        flag: an integer or bool array of one element, which the body changes.
        max_iter: at least 1, or None for no limit.

    Raises:
        KernelSyntaxError: called outside a kernel, where nothing could tell one entry of the loop from the next.
    """
    raise KernelSyntaxError(
        "graph_do_while() was called outside a kernel",
        hint="use it as the condition of a while loop in a function with @qgraph.kernel, or run kernel.reference(...)",
    )


class DoWhile:
    """One entry of a do-while, for ``kernel.reference``: true at first, then as the flag says."""

    def __init__(self, flag: Any, max_iter: int | None = None) -> None:
        if max_iter is not None and max_iter < 1:
            raise ArgumentError(f"max_iter is {max_iter}, but a do-while runs at least once")
        self._flag = flag
        self._left = max_iter
        self._first = True

    def again(self) -> bool:
        """Whether the body runs (once more)."""
        if self._first:
            self._first = False
        elif not self._flag[(0,) * self._flag.ndim]:
            return False
        if self._left is not None:
            self._left -= 1
            return self._left >= 0
        return True


def atomic_add(array: Any, index: Any, value: Any) -> Any:
    """``array[index] += value`` that no other thread can tear; returns the old value."""
    old = array[index]
    array[index] = old + value
    return old


def atomic_sub(array: Any, index: Any, value: Any) -> Any:
    """``array[index] -= value`` that no other thread can tear; returns the old value."""
    old = array[index]
    array[index] = old - value
    return old


def atomic_min(array: Any, index: Any, value: Any) -> Any:
    """``array[index] = min(array[index], value)`` that no other thread can tear; returns the old value."""
    old = array[index]
    array[index] = min(old, value)
    return old


def atomic_max(array: Any, index: Any, value: Any) -> Any:
    """``array[index] = max(array[index], value)`` that no other thread can tear; returns the old value."""
    old = array[index]
    array[index] = max(old, value)
    return old


def atomic_and_(array: Any, index: Any, value: Any) -> Any:
    """``array[index] &= value`` that no other thread can tear; integers only; returns the old value."""
    old = array[index]
    array[index] = old & value
    return old


def atomic_or_(array: Any, index: Any, value: Any) -> Any:
    """``array[index] |= value`` that no other thread can tear; integers only; returns the old value."""
    old = array[index]
    array[index] = old | value
    return old


def atomic_xor(array: Any, index: Any, value: Any) -> Any:
    """``array[index] ^= value`` that no other thread can tear; integers only; returns the old value."""
    old = array[index]
    array[index] = old ^ value
    return old


def atomic_exch(array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value`` that no other thread can tear; returns the old value."""
    old = array[index]
    array[index] = value
    return old


def atomic_cas(array: Any, index: Any, compare: Any, value: Any) -> Any:
    """Store ``value`` if ``array[index]`` equals ``compare``, as one step; returns the old value. Integers of 32 or 64 bits."""
    old = array[index]
    if old == compare:
        array[index] = value
    return old


def host_callback(fn: Callable[..., object], *scalars: Any) -> None:
    """Call ``fn`` on the host with the values that ``scalars`` have at this point of the kernel.

    At kernel level only, outside loops and branches. On CUDA ``fn`` runs on a driver's thread and may not use CUDA; what it
    raises is raised by the next call that waits. A C function made by ctypes is called without the interpreter's lock; it
    takes one pointer, ``void (*)(void *)``, which is the second argument (a ctypes object, an address, or bytes, of which it
    gets a copy that it may only read; known when the kernel is compiled) or null.
    """
    if is_c_function(fn):
        call_c_function(fn, *scalars)
    else:
        fn(*scalars)


def is_c_function(function: object) -> bool:
    """Whether ``function`` is a C function pointer made by ctypes."""
    return isinstance(function, cpython.CFuncPtr)


def takes_a_pointer(function: Any) -> bool:
    """Whether a C function was declared as ``void (*)(void *)``, and is called without the interpreter's lock."""
    if function.restype is not None or function.argtypes is None or len(function.argtypes) != 1:
        return False
    if cpython.wants_lock(function):
        return False
    (kind,) = function.argtypes
    return kind in (ctypes.c_void_p, ctypes.c_char_p) or issubclass(kind, cpython.Pointer)


def call_c_function(function: Any, data: Any = None) -> None:
    """Call a C function of one pointer.

    Raises:
        ArgumentError: it is no such function.
    """
    if not takes_a_pointer(function):
        raise ArgumentError("a C function of a host callback takes one pointer and returns nothing", hint=C_FUNCTION_HINT)
    held = copied_data(data)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pointer_to(function))(pointer_to(held))


def copied_data(data: Any) -> Any:
    """What a C function gets, for as long as this lives: bytes are copied, everything else is what it is."""
    return ctypes.create_string_buffer(data, len(data)) if isinstance(data, bytes) else data


C_FUNCTION_HINT = (
    "declare it as one: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(f), or f.restype = None; f.argtypes = [ctypes.c_void_p]"
)


def pointer_to(data: Any) -> int:
    """The address of a ctypes object, or the one that it is; 0 for None.

    Raises:
        ArgumentError: ``data`` is neither an address nor anything of ctypes.
    """
    if data is None or isinstance(data, int):
        return data or 0
    try:
        # Pointers, arrays and functions are addresses themselves,
        return ctypes.cast(data, ctypes.c_void_p).value or 0
    except ctypes.ArgumentError:
        pass
    try:
        # structures and numbers have one.
        return ctypes.addressof(data)
    except TypeError:
        raise ArgumentError(
            f"{type(data).__name__} is not data of ctypes", hint="pass a ctypes object, or an address"
        ) from None


def record(event: Any) -> None:
    """Record a CUDA event after all of the kernel before this point. At kernel level only, outside loops and branches.

    ``event``: an event of PyTorch, CuPy or cuda.core, or a handle. Nothing happens on the CPU, where None will do.
    """


def wait(event: Any) -> None:
    """Let all of the kernel after this point wait for a CUDA event. At kernel level only, outside loops and branches.

    ``event``: an event of PyTorch, CuPy or cuda.core, or a handle. Nothing happens on the CPU, where None will do.
    """


# Statements of the kernel itself: CUDA has no such nodes in the bodies of loops and branches.
HOST_WORDS = (host_callback, record, wait)

ATOMICS = (
    atomic_add,
    atomic_sub,
    atomic_min,
    atomic_max,
    atomic_and_,
    atomic_or_,
    atomic_xor,
    atomic_exch,
    atomic_cas,
)


def split_add(array: Any, index: Any, value: Any) -> None:
    """``array[index] += value`` of a 64-bit integer in shared memory, as additions of its halves: no sum is lost.

    GPUs have no such addition of 64 bits there, and repeat until they were alone. Until all are done the halves may not fit.
    """
    array[index] += value


def split_sub(array: Any, index: Any, value: Any) -> None:
    """``array[index] -= value``, as ``split_add``."""
    array[index] -= value


SPLIT = (split_add, split_sub)


def stack_array(like: Any, _most: int) -> Any:
    """An array as long as ``like``, of its type and no more than ``most`` elements, that lives until the function returns.

    What is in it at first is anything.
    """
    return like.copy()


def trip_count(start: int, stop: int, step: int) -> int:
    """``len(range(start, stop, step))``; 0 for a step of 0, which is refused before a launch where the host knows it."""
    if step > 0 and start < stop:
        return (stop - start + step - 1) // step
    if step < 0 and start > stop:
        return (start - stop - step - 1) // -step
    return 0


# No loop variable that `at_least` speaks of reaches this: sums and differences with small constants do not overflow.
INDEX_LIMIT = 1 << 62


def at_least(value: int, _bound: int) -> int:
    """``value``, which the compiler may take to be no less than a constant, itself not negative, and below ``INDEX_LIMIT``.

    It then drops the test whether ``value``, or its sum with a small constant, is an index that counts from the end.
    """
    return value


def quotient(value: int, size: int) -> int:
    """``value // size`` of a value that is not negative and a size that is positive: one instruction, and no test."""
    return value // size


def remainder(value: int, size: int) -> int:
    """``value % size``, as for ``quotient``."""
    return value % size


# Numbers below this have 32 bits.
SHORT_LIMIT = 1 << 31


def short(value: int) -> int:
    """``value``, which is not negative and below ``SHORT_LIMIT``: its products take fewer instructions."""
    return value


def round_python(value: Any, digits: int) -> Any:
    """``round(value, digits)`` of one of Python's numbers, which NumPy would scale, round and scale back."""
    return round(value.item() if isinstance(value, np.generic) else value, digits)


def round_either(value: Any, digits: int) -> Any:
    """``round(value, digits)`` of what may be Python's number or NumPy's: an integer, which both round alike."""
    return round(value, digits)


def nearest(value: Any, dtype: np.dtype[Any], keeps: str) -> Any:
    """``value`` as the closest number of ``dtype``, whose least or greatest is kept: of nan the one that never counts."""
    if dtype.kind not in "iu":
        return dtype.type(value)
    limits = np.iinfo(dtype)
    if np.isnan(value):
        return dtype.type(limits.max if keeps == "min" else limits.min)
    if value < limits.min or value > limits.max:
        return dtype.type(limits.min if value < limits.min else limits.max)
    return dtype.type(min(int(value), limits.max))


def in_place(value: Any, element: Any) -> Any:
    """``value``, which an operation in place on a whole array makes of ``element``: NumPy refuses one of a wider kind."""
    del element
    return value


def wrapped(index: int, size: int) -> int:
    """``index``, or where it is negative what it means in a dimension of ``size``: views are indexed as Python indexes.

    What is computed of it does not overflow, whatever the type of ``index``.
    """
    wide = int(index)
    return wide if wide >= 0 else wide + size


def power(base: Any, exponent: Any, noted: Any, number: int, slots: Any, failed: int) -> Any:
    """``base ** exponent``; an integer to a negative power notes the fault ``number``, and that there is one.

    The error comes when the work is done; until then the value is the integer part.
    """
    if not all(isinstance(each, numbers.Integral) for each in (base, exponent)) or exponent >= 0:
        return base**exponent
    slots[failed] = 1
    if noted[0] == 0:
        noted[0] = number
    one = base - base + 1
    return one - 1 if base not in (1, -1) else base if exponent % 2 else one


def divisor(value: Any, noted: Any, number: int, slots: Any, failed: int) -> Any:
    """``value``, by which an integer is divided; 0 notes the fault ``number``, and that there is one.

    The error comes when the work is done; until then what is divided by it is 0, as with NumPy's integers.
    """
    if not isinstance(value, numbers.Integral) or value != 0:
        return value
    slots[failed] = 1
    if noted[0] == 0:
        noted[0] = number
    return np.int64(0)


def shift_count(value: Any, noted: Any, number: int, slots: Any, failed: int) -> Any:
    """``value``, by which an integer is shifted; a negative one notes a fault as for ``divisor``, and shifts all bits out."""
    if not isinstance(value, numbers.Integral) or int(value) >= 0:
        return value
    divisor(0, noted, number, slots, failed)
    return np.int64(value)


def step(value: Any, noted: Any, number: int, slots: Any, failed: int) -> Any:
    """``value``, the step of a range; 0 notes a fault as for ``divisor``, and is a step beyond every end until it is told."""
    divisor(value, noted, number, slots, failed)
    return value if value != 0 else 2**62


def across(value: Any, offset: int) -> Any:
    """The ``value`` of the thread that is ``offset``, a power of two, before or behind in pairs of stretches of that length.

    All threads of a warp call it together.
    """
    raise AssertionError("generated code for CUDA calls this, and in the simulator the threads pause here")


def empty_sum(value: Any) -> Any:
    """The number, of the type of ``value``, that changes no sum: of floats -0.0, since x + -0.0 is x for zeros too."""
    zero = value.__class__(0)
    return zero if isinstance(value, numbers.Integral | np.bool_) else -zero


def empty_product(value: Any) -> Any:
    """The number, of the type of ``value``, that changes no product."""
    return value.__class__(1)


def call_host(address: int, data: Any) -> int:
    """Call the C function at ``address`` with the address of the array ``data``, or with ``data``; gives its result."""
    raise AssertionError("generated code for the CPU calls this")


_Maker = TypeVar("_Maker", bound=Callable[..., Any])
# Filled while the modules are imported, and only then.
_MAKERS: dict[int, tuple[object, str]] = {}


def makes_array(kind: str) -> Callable[[_Maker], _Maker]:
    """Mark a function that makes an array on the host as one that a kernel may call, to make a temporary."""

    def mark(function: _Maker) -> _Maker:
        _MAKERS[id(function)] = (function, kind)
        return function

    return mark


def array_maker(function: object) -> str | None:
    """What kind of array ``function`` makes (``zeros``, ``empty_like``, ...), None where it makes none."""
    import numpy as np

    numpy_makers = (np.empty, np.zeros, np.full, np.empty_like, np.zeros_like, np.full_like)
    if any(function is maker for maker in numpy_makers):
        return str(getattr(function, "__name__", ""))
    found = _MAKERS.get(id(function))
    return None if found is None or found[0] is not function else found[1]


def in_reference() -> bool:
    """Whether a kernel is running as plain Python, as its specification."""
    return _REFERENCE.get() is not None


def match_subject(value: int) -> int:
    """``value``, which must be an integer: kernels match nothing else."""
    return value


def loose_add(a: Any, b: Any) -> Any:
    """``a + b``, one of many whose order the compiler may choose."""
    return a + b


def loose_subtract(a: Any, b: Any) -> Any:
    """``a - b``, one of many whose order the compiler may choose."""
    return a - b


def loose_multiply(a: Any, b: Any) -> Any:
    """``a * b``, one of many whose order the compiler may choose."""
    return a * b


def loose_min(a: Any, b: Any) -> Any:
    """``min(a, b)``, one of many whose order the compiler may choose; a nan may win or lose."""
    return min(a, b)


def loose_max(a: Any, b: Any) -> Any:
    """``max(a, b)``, one of many whose order the compiler may choose; a nan may win or lose."""
    return max(a, b)


def set_condition(slots: Any, index: int, handle: int, value: int) -> None:
    """Decide a kernel-level loop or branch: through its conditional handle in a graph, else in scratch slot ``index``."""
    slots[index] = value


def peek(words: Any, index: int) -> int:
    """``words[index]``, read at once, before earlier kernels are waited for; -1 from a large grid, which had better read later.

    What it reads must have been written by a kernel that those before this one have waited for, and be no -1.
    """
    value: int = words[index]
    return value


# What many blocks look at before they wait lies so many times in scratch, each time in a line of its own: all warps of a grid
# that read one word do so one after the other.
SPREAD = 64
LINE_WORDS = 16
# The largest number of 31 bits.
MOST = 0x7FFFFFFF


def peek_spread(words: Any, index: int, most: int) -> int:
    """The same of a number that ``spread`` wrote to ``words``, for a grid of no more than ``most`` blocks.

    Blocks read different ones of its places. From index 0 nothing is read: then it is the largest number.
    """
    if index == 0:
        return MOST
    return int(words[index]) if most > 0 else -1


def spread(words: Any, index: int, number: int) -> None:
    """Write ``number``, or ``MOST`` where it is above that, to ``SPREAD`` words from ``index`` on, ``LINE_WORDS`` apart."""
    for line in range(SPREAD):
        words[index + LINE_WORDS * line] = min(number, MOST)


def is_over(words: Any, index: int, seen: int, number: int) -> bool:
    """Whether a copy of an unrolled body has nothing to do: ``seen``, or ``words[index]`` where that is -1, is not above."""
    return int(words[index] if seen < 0 else seen) <= number


class Func(ByName):
    """A function with ``@qgraph.func``: callable from kernels and funcs, and from plain Python as what it is.

    ``source`` is its parsed source, ``frontend.parse.SourceFunction``.
    """

    def __init__(self, function: Callable[..., Any], source: Any) -> None:
        functools.update_wrapper(self, function)
        # Last: what ``function`` wraps may be a func, whose attributes it has then.
        self.function, self.source = function, source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as plain Python."""
        run = _REFERENCE.get()
        return (self.function if run is None else run(self))(*args, **kwargs)

    def __get__(self, owner: object, _cls: type | None = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self) -> str:
        return f"<qgraph.func {self.function.__qualname__}>"


@contextmanager
def as_reference(run: Callable[[Func], Callable[..., Any]]) -> Iterator[None]:
    """While this lasts, a func that is called runs as ``run(func)``: the function as the specification reads it."""
    token = _REFERENCE.set(run)
    try:
        yield
    finally:
        _REFERENCE.reset(token)


_REFERENCE: ContextVar[Callable[[Func], Callable[..., Any]] | None] = ContextVar("qgraph_reference", default=None)
