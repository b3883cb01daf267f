"""The words a kernel may use. Each is a plain Python function that means what it says; the frontend knows them by identity."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Generic, Literal, Self, get_args, get_origin, overload

import numpy as np

from qgraph.compat import cpython
from qgraph.errors import ArgumentError, KernelSyntaxError
from qgraph.pickling import ByName
from qgraph.records import dataclass
from qgraph.stack import hide_frames, raises_to_user

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeAliasType, TypeVar

    # A kernel's own parameters and result; where nobody says which, they are any.
    Parameters = ParamSpec("Parameters", default=...)
    Result = TypeVar("Result", default=Any)
    _Element = TypeVar("_Element", bound=np.generic, default=Any)
    _Dimensions = TypeVar("_Dimensions", default=Any)
else:
    from typing import ParamSpec, TypeVar

    Parameters, Result = ParamSpec("Parameters"), TypeVar("Result")

# The parameters of a method behind the first one.
Rest = ParamSpec("Rest")
T = TypeVar("T")


class ndrange:  # noqa: N801 - a word of the language, spelled as range is
    """The product of integer ranges, last axis fastest: ``ndrange(n, (lo, hi), ...)``.

    One axis yields ints, more yield tuples. An axis is a count ``n`` or a pair ``(lo, hi)``; an empty one makes it empty.
    """

    @raises_to_user
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


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """What ``Array[...]`` is at run time: the class of the elements, and how many dimensions; None where any will do.

    ``optional``: so will ``None`` in the place of the array.
    """

    element: type[np.generic] | None = None
    ndim: int | None = None
    optional: bool = False

    def __repr__(self) -> str:
        element = "Any" if self.element is None else f"np.{self.element.__name__}"
        dimensions = "" if self.ndim is None else f", {self.ndim}"
        return f"qgraph.Array[{element}{dimensions}]{' | None' if self.optional else ''}"

    def __or__(self, other: object) -> Any:
        # What may be something else besides is not checked.
        return replace(self, optional=True) if other is None else Any

    __ror__ = __or__

    def takes_dtype(self, dtype: str) -> bool:
        """Whether elements may be of the dtype with this name."""
        return self.element is None or np.issubdtype(np.dtype(dtype), self.element)


if TYPE_CHECKING:
    Array = TypeAliasType("Array", np.ndarray[Any, np.dtype[_Element]], type_params=(_Element, _Dimensions))
else:

    class Array:
        """``def kernel(x: qgraph.Array[np.float32, 2])``: an array of these elements, of so many dimensions.

        A call with another argument is an ``ArgumentError``. ``Array[np.float32]`` has any number of dimensions; the elements
        may be of an abstract class of NumPy's (``np.floating``), or ``Any``. A number is no type to type checkers:
        ``Array[np.float32, Literal[2]]`` means the same, and is an array of NumPy's to them.
        """

        @raises_to_user
        def __class_getitem__(cls, item: object) -> ArrayAnnotation:
            """What is checked.

            Raises:
                ArgumentError: it is no class of elements, or no number of dimensions.
            """
            element, ndim = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            if get_origin(ndim) is Literal:
                (ndim,) = get_args(ndim)
            ndim = None if ndim is Any else ndim
            if ndim is not None and (not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < 0):
                raise ArgumentError(f"{ndim!r} is no number of dimensions", hint=_ARRAY_HINT)
            try:
                return ArrayAnnotation(None if element is Any else _element_class(element), ndim)
            except (TypeError, ValueError):
                raise ArgumentError(f"{element!r} is no class of elements of arrays", hint=_ARRAY_HINT) from None


_ARRAY_HINT = "write it as qgraph.Array[np.float32, 2]"


def _element_class(element: Any) -> type[np.generic]:
    """A class of NumPy's scalars, abstract ones included, as in ``np.floating`` and ``np.floating[Any]``."""
    element = get_origin(element) or element
    is_numpys = isinstance(element, type) and issubclass(element, np.generic)
    found: type[np.generic] = element if is_numpys else np.dtype(element).type
    return found


@raises_to_user
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


@raises_to_user
def progress(iteration: int, residual: float, every: int = 1) -> None:
    """Tell whoever watches the kernel (``qgraph.watch``) how far it is: ``residual`` after ``iteration``; nothing else happens.

    At kernel level, as in a device loop. Without a watch, and in plain Python, it does nothing.

    Args:
        iteration: an integer.
        residual: a real number, told as float64.
        every: a constant, a ``Static`` argument, or an expression of these: only iterations that are multiples of it are told.

    Raises:
        ArgumentError: ``every`` is less than 1.
    """
    if every < 1:
        raise ArgumentError(
            f"every is {every}, and is to be at least 1", hint="the iterations that are told are multiples of it"
        )


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

    numpy_makers = (np.empty, np.zeros, np.ones, np.full, np.empty_like, np.zeros_like, np.ones_like, np.full_like)
    if any(function is maker for maker in numpy_makers):
        return str(getattr(function, "__name__", ""))
    if function is np.ndarray:
        return "empty"
    found = _MAKERS.get(id(function))
    return None if found is None or found[0] is not function else found[1]


def in_reference() -> bool:
    """Whether a kernel is running as plain Python, as its specification."""
    return _REFERENCE.get() is not None


class Func(ByName, Generic[Parameters, Result]):
    """A function with ``@qgraph.func``: callable from kernels and funcs, and from plain Python as what it is.

    ``read`` gives its parsed source, ``frontend.parse.SourceFunction``. ``is_word``: it is a word of this package, for kernel
    level, which takes arrays of one dimension.
    """

    is_word = False

    def __init__(self, function: Callable[Parameters, Result], read: Callable[[], Any]) -> None:
        functools.update_wrapper(self, function)
        # Last: what ``function`` wraps may be a func, whose attributes it has then.
        self.function, self._read = function, read

    @property
    def source(self) -> Any:
        """Its parsed source."""
        return self._read()

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call it as plain Python."""
        run = _REFERENCE.get()
        function: Callable[..., Result] = self.function if run is None else run(self)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    @overload
    def __get__(self, owner: None, _cls: type) -> Self: ...
    @overload
    def __get__(
        self: Func[Concatenate[Any, Rest], Result], owner: object, _cls: type | None = None
    ) -> Callable[Rest, Result]: ...
    def __get__(self, owner: object, _cls: type | None = None) -> Any:
        function: Callable[..., Result] = self
        return self if owner is None else functools.partial(function, owner)

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
