"""Intrinsics: functions that the compiler puts into bodies and no user calls. Each is plain Python that means what it says."""

from __future__ import annotations

import math
import numbers
import time
from typing import Any

import numpy as np


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


def thread_array(like: Any, *_shape: int) -> Any:
    """Memory of constant shape, of one thread. What is in it at first is anything.

    On CUDA it is ``like``, whose elements lie between those of other threads, so that accesses are coalesced; on the CPU they
    lie together, on the stack.
    """
    return like


def local_array(dtype: Any, *shape: int) -> Any:
    """An array of constant ``shape`` that lives until the function returns. What is in it at first is anything.

    ``dtype``: the type of an element, or a number of that type.
    """
    return np.empty(shape, dtype if isinstance(dtype, type) else np.asarray(dtype).dtype)


def heap_array(dtype: Any, *shape: int) -> Any:
    """The same, too large for the stack: its memory is taken from the heap, on the CPU alone."""
    return np.empty(shape, dtype)


def trip_count(start: int, stop: int, step: int) -> int:
    """``len(range(start, stop, step))``; 0 for a step of 0, which is refused before a launch where the host knows it."""
    if step > 0 and start < stop:
        return (stop - start + step - 1) // step
    if step < 0 and start > stop:
        return (start - stop - step - 1) // -step
    return 0


# No loop variable that `assume_ge` speaks of reaches this: sums and differences with small constants do not overflow.
INDEX_LIMIT = 1 << 62


def assume_ge(value: int, _bound: int) -> int:
    """``value``, which the compiler may take to be no less than a constant, itself not negative, and below ``INDEX_LIMIT``.

    It then drops the test whether ``value``, or its sum with a small constant, is an index that counts from the end.
    """
    return value


def quotient(value: int, size: int) -> int:
    """``value // size`` of a value that is not negative and a size that is positive: one instruction, and no test.

    In a loop without iterations a size may be 0: no axis has so many, as what a GPU gives is beyond all of them.
    """
    return value // size if size else INDEX_LIMIT


def remainder(value: int, size: int) -> int:
    """``value % size``, as for ``quotient``."""
    return value % size if size else 0


# Numbers below this have 32 bits.
U32_LIMIT = 1 << 31


def assume_u32(value: int) -> int:
    """``value``, which is not negative and below ``U32_LIMIT``: its products take fewer instructions."""
    return value


# What PTX says where it is called.
UNFUSED = "/* unfused */"


def unfused(value: Any) -> Any:
    """``value``, with which no later operation is contracted: as if an array had held it meanwhile."""
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


def in_place_unsigned(value: Any, element: Any) -> Any:
    """The same of an array without signs: NumPy refuses what is computed of its elements and integers of its own with one."""
    del element
    return value


def wrap_index(index: int, size: int) -> int:
    """``index``, or where it is negative what it means in a dimension of ``size``: views are indexed as Python indexes.

    What is computed of it does not overflow, whatever the type of ``index``.
    """
    wide = int(index)
    return wide if wide >= 0 else wide + size


def view_index(index: int, size: int) -> int:
    """``wrap_index`` of an index that must lie in the view: instrumentation looks at it."""
    return wrap_index(index, size)


def same_bits(left: Any, right: Any) -> bool:
    """Whether two numbers of one type have the same bits: nan has those of itself, 0.0 not those of -0.0."""
    return np.asarray(left).tobytes() == np.asarray(right).tobytes()


def address_of(array: Any, index: tuple[int, ...]) -> int:
    """The address of the element of ``array`` at ``index``, which is inside."""
    place: int = array[tuple(slice(at, at + 1) for at in index)].ctypes.data
    return place


def power(base: Any, exponent: Any, noted: Any, number: int, slots: Any, failed: int) -> Any:
    """``base ** exponent``; an integer to a negative power notes the fault ``number``, and that there is one.

    The error comes when the work is done; until then the value is the integer part.
    """
    if not all(isinstance(each, numbers.Integral) for each in (base, exponent)) or exponent >= 0:
        return base**exponent
    divisor(0, noted, number, slots, failed)
    one = base - base + 1
    return one - 1 if base not in (1, -1) else base if exponent % 2 else one


def real_power(base: Any, exponent: Any, noted: Any, number: int, slots: Any, failed: int) -> Any:
    """As ``power``, of Python's numbers: a negative one to a power that is no integer, a complex number, notes the fault, too.

    Until the error comes the value is nan.
    """
    if all(isinstance(each, numbers.Real) for each in (base, exponent)) and is_complex_power(base, exponent):
        divisor(0, noted, number, slots, failed)
        return math.nan
    return power(base, exponent, noted, number, slots, failed)


def is_complex_power(base: Any, exponent: Any) -> bool:
    """Whether a power of two real numbers of Python's is a complex one."""
    return -math.inf < base < 0 and math.isfinite(exponent) and exponent != math.floor(exponent)


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


def length_of(value: Any, otherwise: int) -> int:
    """How many parts a tuple has; of a number ``otherwise``."""
    return len(value) if isinstance(value, tuple) else otherwise


def same_length(value: int, other: int, noted: Any, number: int, slots: Any, failed: int) -> int:
    """``value``, a length that is the same as ``other``; where it is not, 0, and the fault ``number`` is noted."""
    if value == other:
        return value
    divisor(0, noted, number, slots, failed)
    return 0


class Left(Exception):  # noqa: N818 - no error: what a fault ends
    """An iteration, or a run of statements, ends at a fault; ``attempt`` goes on behind it."""


def note_least(noted: Any, number: int, slots: Any, failed: int, first: int, key: int, *details: int) -> None:
    """Note the fault ``number`` with ``key`` and ``details``, unless one of a smaller key is noted, and that there is one.

    ``first`` is the place of two words of scratch: a lock, and the least key so far.
    """
    slots[failed] = 1
    if key < slots[first + 1]:
        slots[first + 1] = key
        for place, word in enumerate((number, key, *details)):
            noted[place] = word


def least_key(slots: Any, place: int) -> int:
    """``slots[place]``, the least key of ``note_least``, as other multiprocessors know it, too."""
    return int(slots[place])


def attempt(function: Any, otherwise: Any, *arguments: Any) -> Any:
    """``function(*arguments)``, and ``otherwise`` where it ends at a fault."""
    try:
        return function(*arguments)
    except Left:
        return otherwise


# What notes a fault of arithmetic of its first operand, and gives that otherwise.
CHECKED = (divisor, shift_count, step)


def across(value: Any, offset: int) -> Any:
    """The ``value`` of the thread that is ``offset``, a power of two, before or behind in pairs of stretches of that length.

    All threads of a warp call it together.
    """
    raise AssertionError("generated code for CUDA calls this, and in the simulator the threads pause here")


def across_warps(value: Any, own: int, other: int) -> Any:
    """The ``value`` of the threads of the warp ``other`` of a block, which all have the same; the caller's warp is ``own``.

    All threads of a block call it together.
    """
    raise AssertionError("generated code for CUDA calls this, where more threads than a warp share an iteration")


def of_lane(value: Any, lane: int) -> Any:
    """The ``value`` of the thread of the warp with the number ``lane``, modulo how many there are.

    All threads of a warp call it together.
    """
    raise AssertionError("generated code for CUDA calls this, and in the simulator the threads pause here")


# Elements that `load_vector` and `store_vector` move with one instruction, or with two where they have 64 bits.
VECTOR = 4


def load_vector(to: Any, first: int, array: Any, *index: int) -> None:
    """``VECTOR`` elements of ``array``, from ``index`` on along the last axis, to those of ``to`` from ``first`` on.

    ``array`` is contiguous, and in global memory if it has several axes. The first of the elements is aligned as all of them
    are together, to 16 bytes at most.
    """
    *outer, last = index
    to[first : first + VECTOR] = array[(*outer, slice(last, last + VECTOR))]


def store_vector(values: Any, first: int, array: Any, *index: int) -> None:
    """The same from ``values`` to ``array``."""
    *outer, last = index
    array[(*outer, slice(last, last + VECTOR))] = values[first : first + VECTOR]


def holds_vectors(array: Any) -> bool:
    """Whether rows of ``array``, which is contiguous, are as many ``VECTOR`` elements as fit, each aligned for a vector."""
    size = min(VECTOR * array.itemsize, 16)
    return bool(array.ctypes.data % size == 0 and array.shape[-1] % VECTOR == 0)


def empty_sum(value: Any) -> Any:
    """The number, of the type of ``value``, that changes no sum: of floats -0.0, since x + -0.0 is x for zeros too.

    Of a vector or matrix, that of each component.
    """
    if isinstance(value, tuple):
        return value.__class__(*map(empty_sum, value))
    zero = value.__class__(0)
    return zero if isinstance(value, numbers.Integral | np.bool_) else -zero


def summed(value: Any) -> Any:
    """``value`` as NumPy adds it up: integers and booleans as those of 64 bits."""
    kind = np.asarray(value).dtype.kind
    return np.int64(value) if kind in "bi" else np.uint64(value) if kind == "u" else value


def empty_product(value: Any) -> Any:
    """The number, of the type of ``value``, that changes no product; of a vector or matrix, that of each component."""
    if isinstance(value, tuple):
        return value.__class__(*map(empty_product, value))
    return value.__class__(1)


def call_host(address: int, data: Any) -> int:
    """Call the C function at ``address`` with the address of the array ``data``, or with ``data``; gives its result."""
    raise AssertionError("generated code for the CPU calls this")


def match_subject(value: int) -> int:
    """``value``, which must be an integer: kernels match nothing else."""
    return value


def reassociable_add(a: Any, b: Any) -> Any:
    """``a + b``, one of many whose order the compiler may choose."""
    return a + b


def reassociable_subtract(a: Any, b: Any) -> Any:
    """``a - b``, one of many whose order the compiler may choose."""
    return a - b


def reassociable_multiply(a: Any, b: Any) -> Any:
    """``a * b``, one of many whose order the compiler may choose."""
    return a * b


def reassociable_min(a: Any, b: Any) -> Any:
    """``min(a, b)``, one of many whose order the compiler may choose; a nan may win or lose."""
    return min(a, b)


def reassociable_max(a: Any, b: Any) -> Any:
    """``max(a, b)``, one of many whose order the compiler may choose; a nan may win or lose."""
    return max(a, b)


def reassociable_minimum(a: Any, b: Any) -> Any:
    """``np.minimum(a, b)``, one of many whose order the compiler may choose: a nan wins, and of two zeros either."""
    return np.minimum(a, b)


def reassociable_maximum(a: Any, b: Any) -> Any:
    """``np.maximum(a, b)`` in the same way."""
    return np.maximum(a, b)


def set_condition(slots: Any, index: int, handle: int, value: int) -> None:
    """Decide a kernel-level loop or branch: through its conditional handle in a graph, else in scratch slot ``index``."""
    slots[index] = value


def stopped(words: Any, index: int) -> bool:
    """Whether ``words[index]`` is not 0 now: the host may write it at any time."""
    return bool(words[index] != 0)


def split_rows(rows: int, cols: int, grain: int, most: int) -> tuple[int, int, int]:
    """Chunks, rows a chunk, columns a chunk: of whole rows if there are enough of them, of parts of a row otherwise.

    Up to ``grain`` elements are one chunk; there are about ``most`` at most, a power of two.
    """
    total = rows * cols
    if total <= 0:
        return 0, 1, 1
    if total <= grain:
        return 1, rows, cols
    # A power of two, the nearest: three chunks on two threads would take as long as four.
    wanted = 2
    while wanted < most and 3 * wanted * grain < 2 * total:
        wanted *= 2
    if rows >= wanted:
        row_step = (rows + wanted - 1) // wanted
        return (rows + row_step - 1) // row_step, row_step, cols
    across = (wanted + rows - 1) // rows
    col_step = (cols + across - 1) // across
    return rows * ((cols + col_step - 1) // col_step), 1, col_step


def ticks() -> int:
    """What the processor's counter of time says now; how many a second there are is its own matter."""
    raise AssertionError("generated code for the CPU calls this")


def clock() -> int:
    """Nanoseconds since some moment: on the CPU by the clock of ``time.perf_counter_ns``, on a GPU by its global timer."""
    return time.perf_counter_ns()


def poll(now: int, last: int, entered: int, loop: int) -> int:
    """Now and then call the Python object at the address ``loop`` with ``entered``: what it raises ends the kernel.

    ``last`` is when that was, in ``ticks``, and ``entered`` when the loop was entered. Gives the ``last`` of the next look.
    """
    raise AssertionError("generated code for the CPU calls this")


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
