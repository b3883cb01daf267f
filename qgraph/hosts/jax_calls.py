"""Kernels inside ``jax.jit``: as custom calls of XLA, which run on JAX's device, in its stream, into its memory.

One handler serves all: the number that comes with a call says which kernel it is for, and with what numbers. The handler's name
holds a number of this process, so that no executable that JAX keeps on the disk for one process is run by another.
"""

from __future__ import annotations

import functools
import secrets
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy

from qgraph import forks
from qgraph.compat.xla_ffi import CustomCall, Memory, handler
from qgraph.errors import ArgumentError, BackendError, CudaError
from qgraph.hosts.gradients import gradients
from qgraph.hosts.meaning import Meaning, StandIn, changed_since, meaning_of
from qgraph.hosts.parts import Parts, parts_of
from qgraph.records import dataclass
from qgraph.runtime.arguments.array_adapters import DTYPE_NAMES, adopt, device_of_pointer, refuse
from qgraph.runtime.values.array_view import ArrayView, contiguous_strides
from qgraph.runtime.values.prepared_call import Call
from qgraph.runtime.values.results import with_arrays

_HOST = "jax.jit"
_TARGET = f"qgraph_{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class _Site:
    """What a number stands for: a kernel and its arguments, of which the arrays come with each call."""

    kernel: Any
    meaning: Meaning
    parts: Parts


# Executables of JAX's have the numbers, and nobody says when one is gone.
_SITES: list[_Site] = []
_KNOWN: weakref.WeakKeyDictionary[Any, tuple[dict[Any, Meaning], dict[Any, int]]] = weakref.WeakKeyDictionary()
_LOCK = forks.lock()


def call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel with tracers among its arguments: a custom call in the program that JAX traces.

    Raises:
        QGraphError: a call with such arguments is refused, or writes some of them.
    """
    values = kernel._bind(args, kwargs)
    parts = parts_of(kernel._names, values, kernel._source.static, _kind_of, _HOST)
    is_array = [_kind_of(item) == "array" for item in parts.items]
    items = [jax.numpy.asarray(item) if array else item for item, array in zip(parts.items, is_array, strict=True)]
    stand_ins = [
        _stand_in(item, path) if array else item for item, path, array in zip(items, parts.paths, is_array, strict=True)
    ]
    with _LOCK:
        meanings, sites = _KNOWN.setdefault(kernel, ({}, {}))
        meaning = meaning_of(kernel, parts, stand_ins, _HOST, meanings)
        for leaf in meaning.written:
            raise ArgumentError(
                f"the kernel writes `{meaning.program.leaves[leaf].path}`, and no array of {_HOST} can be changed",
                meaning.program.span,
                hint="make an array in the kernel, such as np.empty(x.shape, x.dtype), write to that, and return it",
            )
        # Their types are the meaning's; -0.0 is another number than 0.0.
        numbers = tuple(repr(item) for item, array in zip(items, is_array, strict=True) if not array)
        key = id(meaning), tuple(place.index for place in parts.places), numbers
        site = sites.get(key)
        if site is None:
            kept = tuple(None if array else item for item, array in zip(items, is_array, strict=True))
            site = sites[key] = len(_SITES)
            _SITES.append(_Site(kernel, meaning, Parts(kept, parts.paths, parts.structure, parts.places)))
    shapes = meaning.shapes([stand_ins[place.index] for place in parts.places])
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    made_by = jax.ffi.ffi_call(_target(), results, vmap_method="sequential")
    function = _differentiable(
        functools.partial(made_by, site=numpy.int64(site)), kernel, meaning, replace(parts, items=tuple(items))
    )
    made = function(*(item for item, array in zip(items, is_array, strict=True) if array))
    given = {leaf.name: items[place.index] for leaf, place in zip(meaning.program.leaves, parts.places, strict=True)}
    assert meaning.program.result is not None
    return with_arrays(meaning.program.result, None, {**given, **dict(zip(meaning.returned, made, strict=True))})


def _differentiable(function: Callable[..., Any], kernel: Any, meaning: Meaning, parts: Parts) -> Callable[..., Any]:
    """``function`` of the arrays among the items, with the gradients that the ``vjp`` of ``kernel`` gives."""
    places = [index for index, item in enumerate(parts.items) if _kind_of(item) == "array"]
    # What is given to gradients comes with the call: nothing of a trace may be kept.
    numbers = [None if index in places else item for index, item in enumerate(parts.items)]

    def backward(saved: tuple[Any, Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        arrays, results = saved
        items = list(numbers)
        for index, array in zip(places, arrays, strict=True):
            items[index] = array
        leaves = zip(parts.places, meaning.program.leaves, strict=True)
        wanted = [
            (place.index, leaf.path) for place, leaf in leaves if place.index in places and _is_continuous(items[place.index])
        ]
        given = [each for each, result in zip(cotangents, results, strict=True) if _is_continuous(result)]
        named = [(path, items[index]) for index, path in wanted]
        found = gradients(kernel, parts.filled(items), results, given, named)
        summed: dict[int, Any] = {}
        for (index, _), gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                summed[index] = summed[index] + gradient if index in summed else gradient
        return tuple(summed.get(index) for index in places)

    differentiable = jax.custom_vjp(function)

    def forward(*arrays: Any) -> tuple[Any, Any]:
        results = differentiable(*arrays)
        return results, (arrays, results)

    differentiable.defvjp(forward, backward)
    found: Callable[..., Any] = differentiable
    return found


def _is_continuous(array: Any) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.inexact))


def _kind_of(value: Any) -> str | None:
    return "array" if isinstance(value, jax.Array | numpy.ndarray) else None


def _stand_in(array: Any, path: str) -> StandIn:
    if array.dtype.name not in DTYPE_NAMES:
        refuse(path, f"dtype {array.dtype.name} is not supported", f"the dtypes are {', '.join(DTYPE_NAMES)}")
    shape = tuple(array.shape)
    if not all(isinstance(extent, int) for extent in shape):
        refuse(path, f"its shape {shape} is not known when it is traced", "export the function with shapes that are numbers")
    return StandIn(array, lambda: shape, numpy.dtype(array.dtype.name), "C")


@functools.cache
def _target() -> str:
    """The name of the handlers, which are known to XLA from now on."""
    for platform, on_device in (("cpu", False), ("CUDA", True)):
        called = handler(functools.partial(_run, on_device=on_device))
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(called), platform=platform)
        _HANDLERS.append(called)
    return _TARGET


# XLA calls them as long as the process lives.
_HANDLERS: list[Any] = []


@dataclass(frozen=True, slots=True, eq=False)
class _OnDevice:
    """An array in memory of XLA's on a device."""

    memory: Memory
    device: int

    def __qgraph_view__(self) -> ArrayView:
        memory = self.memory
        strides = contiguous_strides(memory.shape, memory.dtype.itemsize)
        return ArrayView(memory.pointer, memory.shape, strides, memory.dtype, False, self.device, self)


def _run(call: CustomCall, *, on_device: bool) -> None:
    """Run the kernel that a call is for, in a thread of XLA's."""
    site = _SITES[call.number]
    if not site.meaning.holds():
        raise changed_since(site.kernel, site.meaning, _HOST, "call jax.clear_caches()")
    if on_device:
        pointer = next((each.pointer for each in (*call.results, *call.arguments) if each.pointer), 0)
        array_of: Any = functools.partial(_OnDevice, device=device_of_pointer(pointer))
        stream = call.stream()
    else:
        array_of, stream = Memory.on_host, 0
    arrays = map(array_of, call.arguments)
    items = [next(arrays) if item is None else item for item in site.parts.items]
    made = [adopt(array_of(memory), "the array that is returned") for memory in call.results]
    _launch(site.kernel, site.parts.filled(items), made, stream, on_device=on_device)


def _launch(kernel: Any, values: tuple[Any, ...], made: list[Any], stream: int, *, on_device: bool) -> None:
    _, guard, leaves, simple = kernel._read(values)
    variant = guard.variant
    if (variant.backend == "cuda") != on_device:
        raise BackendError(
            f"the kernel runs on the {variant.backend} backend, and JAX on {'a GPU' if on_device else 'the CPU'}",
            hint="let both run in one place, by jax.default_device or qgraph.set_backend",
        )
    aliases = () if simple else variant.check(leaves)

    def launch() -> None:
        specialisation = kernel._cache.find(variant, aliases, leaves)
        kernel.run_prepared(specialisation, Call((*leaves, *made), specialisation.host_values(leaves), stream))

    try:
        launch()
    except CudaError as error:
        kernel._recover(error, variant)
        launch()
