"""Kernels as operations of ``torch.library``, with a function of what they return, and gradients where they have a ``vjp``.

An operation is made for each kernel and types of arguments. Its name holds a number of this process, so that nothing that
PyTorch keeps on the disk for one process is taken by another, where the name might mean another kernel.

Two forms: one changes the tensors that the kernel writes; the other, for gradients, since autograd wants functions, gives new
tensors for them, which are copied into the old ones behind it.
"""

from __future__ import annotations

import re
import secrets
import weakref
from dataclasses import replace
from typing import Any

import numpy
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from qgraph import forks
from qgraph.errors import ArgumentError, QGraphError
from qgraph.hosts.gradients import gradients
from qgraph.hosts.meaning import Meaning, StandIn, changed_since, meaning_of
from qgraph.hosts.names import kernel_named
from qgraph.hosts.parts import REFUSED, Parts, parts_of
from qgraph.records import dataclass
from qgraph.runtime.arguments.array_adapters import DTYPE_NAMES, refuse
from qgraph.runtime.arguments.gradient_warning import grad_warning
from qgraph.runtime.values.results import with_arrays
from qgraph.stack import hide_frames

_HOST = "torch.compile"
_PROCESS = secrets.token_hex(4)
_OPEN_NUMBERS = ((torch.SymBool, "bool"), (torch.SymInt, "int"), (torch.SymFloat, "float"))
_SCHEMA = {"array": "Tensor", "bool": "bool", "int": "SymInt", "float": "float", "complex": "complex"}


class _TorchRefusalError(QGraphError):
    """An error in the words of PyTorch, which shows the ``repr`` of what it met."""

    def __init__(self, text: str) -> None:
        super().__init__(text)

    def __repr__(self) -> str:
        return f"\n\n{self}\n"


class Gone(QGraphError):  # noqa: N818 - says what happened
    """A kernel that a compiled graph calls lives no more."""


@dataclass(slots=True)
class _Known:
    """What is known of one kernel: its meanings by types, and its operations."""

    meanings: dict[Any, Meaning]
    operations: dict[Any, _Operation]


_KNOWN: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()
_LOCK = forks.lock()


def passable(value: Any) -> Any:
    """``value`` where Dynamo can pass it on, else what names it to the function that refuses it. Dynamo reads it."""
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return type(value)(*[passable(each) for each in value])
        return tuple([passable(each) for each in value])
    if value is None or isinstance(value, torch.Tensor | numpy.ndarray | int | float | complex | str):
        return value
    return REFUSED + type(value).__name__


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator, unused-ignore]
def call_in_graph(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the kernel with that name: one node of Dynamo's graph."""
    try:
        return call(kernel_named(name), args, kwargs)
    except QGraphError as error:
        raise _TorchRefusalError(f"{type(error).__name__}: {error}") from None


def call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel through its operation: what traces is told what it does, and autograd records it where it has a ``vjp``.

    Raises:
        QGraphError: a call with such arguments is refused, or cannot be an operation.
    """
    values = kernel._bind(args, kwargs)
    parts = parts_of(kernel._names, values, kernel._source.static, _kind_of, _HOST)
    tensors = [each for each in parts.items if isinstance(each, torch.Tensor)]
    differentiated = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    operation = _operation(kernel, parts, functional=differentiated and kernel._vjp is not None)
    meaning = operation.meaning
    operation.check_apart(parts)
    if differentiated and kernel._vjp is None and meaning.written:
        grad_warning.say()
    # An open float that is an argument of an operation is one for PyTorch to compile anew for; a factor of a tensor is not.
    items = [_factor(each) if isinstance(each, torch.SymFloat) else each for each in parts.items]
    if operation.functional:
        for index in operation.written:
            # As it was, for the gradients.
            items[index] = items[index].clone()
    outputs = operation.op(*items)
    outputs = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs or ())
    if operation.functional:
        for index, changed in zip(operation.written, outputs, strict=False):
            parts.items[index].copy_(changed)
        outputs = outputs[len(operation.written) :]
    if meaning.program.result is None:
        return None
    given = {leaf.name: parts.items[place.index] for leaf, place in zip(meaning.program.leaves, parts.places, strict=True)}
    return with_arrays(meaning.program.result, None, {**given, **dict(zip(meaning.returned, outputs, strict=True))})


def _factor(number: Any) -> Any:
    return torch.ones((), dtype=torch.float64, device="cpu") * number


def _kind_of(value: Any) -> str | None:
    if isinstance(value, torch.Tensor):
        return "array"
    return next((kind for cls, kind in _OPEN_NUMBERS if isinstance(value, cls)), None)


def _operation(kernel: Any, parts: Parts, *, functional: bool) -> _Operation:
    with _LOCK:
        known = _KNOWN.setdefault(kernel, _Known({}, {}))
        items = _stand_ins(kernel, parts)
        meaning = meaning_of(kernel, parts, items, _HOST, known.meanings)
        is_open = tuple(isinstance(item, torch.SymFloat) for item in parts.items)
        key = id(meaning), tuple(place.index for place in parts.places), is_open, functional
        operation = known.operations.get(key)
        if operation is None:
            number = len(known.operations)
            operation = _Operation(kernel, parts, meaning, number, is_open=is_open, functional=functional)
            known.operations[key] = operation
        return operation


def _stand_ins(kernel: Any, parts: Parts) -> list[Any]:
    """Arrays for tensors, and for numbers that are open any of their kind: no type depends on them."""
    numbers: dict[str, Any] = {"bool": False, "int": 1, "float": 1.0}
    found: list[Any] = []
    for item, path in zip(parts.items, parts.paths, strict=True):
        if isinstance(item, torch.Tensor):
            found.append(_stand_in(kernel, item, path))
        else:
            found.append(next((numbers[kind] for cls, kind in _OPEN_NUMBERS if isinstance(item, cls)), item))
    return found


def _stand_in(kernel: Any, tensor: Any, path: str = "") -> StandIn:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPE_NAMES or tensor.layout is not torch.strided:
        what = f"dtype {name}" if tensor.layout is torch.strided else f"a sparse tensor ({tensor.layout})"
        refuse(path, f"{what} is not supported in {_HOST}", f"pass a dense tensor of {', '.join(DTYPE_NAMES)}")
    contiguous = tensor.is_contiguous()
    packed = contiguous or tensor.permute(*reversed(range(tensor.ndim))).is_contiguous()
    shape = tuple(tensor.shape)

    def extents() -> tuple[Any, ...]:
        # A kernel that is compiled for extents has them in its types; then they are not left open.
        return tuple(map(int, shape)) if kernel._tails or kernel._ones else shape

    return StandIn(tensor, extents, numpy.dtype(name), "C" if contiguous else "F" if packed else "A")


class _Operation:
    """A kernel for some types as an operation.

    Attributes:
        written: the numbers of the items that the kernel writes.
    """

    def __init__(
        self, kernel: Any, parts: Parts, meaning: Meaning, number: int, *, is_open: tuple[bool, ...], functional: bool
    ) -> None:
        # Of each item, whether it is a float that comes as a tensor.
        self._is_open = is_open
        self.meaning, self.functional = meaning, functional
        self.written = tuple(dict.fromkeys(parts.places[leaf].index for leaf in meaning.written))
        self._leaves = tuple(place.index for place in parts.places)
        self._parts = replace(parts, items=())
        # The kernel has the operation.
        self._kernel = weakref.ref(kernel)
        kinds = {place.index: "Tensor" if is_open[place.index] else _SCHEMA[place.kind] for place in parts.places}
        changed = () if functional else self.written
        arguments = [f"{kind}{f'(a{i}!)' if i in changed else ''} arg{i}" for i, kind in sorted(kinds.items())]
        count = len(meaning.returned) + (len(self.written) if functional else 0)
        outputs = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        name = re.sub(r"\W", "_", kernel.__name__, flags=re.ASCII)
        self.op = torch.library.custom_op(
            f"qgraph::{name}_{_PROCESS}_{kernel._traced_name.rpartition('_')[2]}_{number}",
            self._run,
            mutates_args=tuple(f"arg{i}" for i in changed),
            schema=f"({', '.join(arguments)}) -> {outputs}",
            # A call that makes arrays is no part of a graph that is captured, which PyTorch is told where it asks.
            **({"tags": (torch.Tag.cudagraph_unsafe,)} if meaning.returned and hasattr(torch.Tag, "cudagraph_unsafe") else {}),
        )
        self.op.register_fake(self._fake)
        if functional or not changed:
            self.op.register_autograd(self._backward, setup_context=self._save)

    # --- running --------------------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Any:
        """The kernel.

        Raises:
            Gone: it is not there any more.
        """
        kernel = self._kernel()
        if kernel is None:
            raise Gone("the kernel that this compiled function calls is gone", hint="keep it as long as the function")
        return kernel

    def _run(self, *items: Any) -> Any:
        kernel = self.kernel
        if not self.meaning.holds():
            raise changed_since(kernel, self.meaning, _HOST, "call torch.compiler.reset()")
        given = [item.item() if is_open else item for item, is_open in zip(items, self._is_open, strict=True)]
        changed = []
        if self.functional:
            for index in self.written:
                given[index] = given[index].clone()
                changed.append(given[index])
        values = self._parts.filled(given)
        count = kernel._positional
        try:
            result = kernel(*values[:count], **dict(zip(kernel._names[count:], values[count:], strict=True)))
        except QGraphError as error:
            hide_frames(error)
            raise
        made = self.meaning.arrays_in(result)
        return _as_output([*changed, *(made[name] for name in self.meaning.returned)])

    def _fake(self, *items: Any) -> Any:
        """The tensors that it gives, without elements."""
        changed = [torch.empty_like(items[index]) for index in self.written] if self.functional else []
        # No shape is made of a float.
        items = tuple(0.0 if is_open else item for item, is_open in zip(items, self._is_open, strict=True))
        side = next(item for item in items if isinstance(item, torch.Tensor))
        leaves = [_stand_in(self.kernel, item) if isinstance(item, torch.Tensor) else item for item in items]
        shapes = self.meaning.shapes([leaves[index] for index in self._leaves])
        made = [side.new_empty(shape, dtype=getattr(torch, dtype.name)) for shape, dtype in shapes]
        return _as_output([*changed, *made])

    def check_apart(self, parts: Parts) -> None:
        """Refuse a tensor that is written and shares memory with another one: what traces does not see that.

        Raises:
            ArgumentError: by their names.
        """
        paths = parts.paths
        for index in self.written:
            if self.functional and self._leaves.count(index) > 1:
                raise ArgumentError(
                    f"`{paths[index]}` is written, and passed twice: gradients of it are not defined",
                    self.meaning.program.span,
                    hint="pass a copy",
                )
            for other, item in enumerate(parts.items):
                if other != index and isinstance(item, torch.Tensor) and _overlap(parts.items[index], item):
                    raise ArgumentError(
                        f"`{paths[index]}` is written, and may share memory with `{paths[other]}`, which {_HOST} does not see",
                        self.meaning.program.span,
                        hint="pass parts that lie one behind the other in memory, or a copy; or call the kernel outside",
                    )

    # --- gradients ------------------------------------------------------------------------------------------------------

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = (output,) if isinstance(output, torch.Tensor) else output
        arrays = [index for index, item in enumerate(inputs) if isinstance(item, torch.Tensor)]
        ctx.arrays, ctx.numbers = arrays, [None if index in arrays else item for index, item in enumerate(inputs)]
        ctx.save_for_backward(*(inputs[index] for index in arrays), *outputs)

    def _backward(self, ctx: Any, *cotangents: Any) -> Any:
        kernel = self.kernel
        saved = ctx.saved_tensors
        if not torch.is_grad_enabled():
            saved = tuple(each.detach() for each in saved)
        items = list(ctx.numbers)
        for index, tensor in zip(ctx.arrays, saved, strict=False):
            items[index] = tensor.item() if self._is_open[index] else tensor
        results = saved[len(ctx.arrays) :]
        leaves = zip(self._leaves, self.meaning.program.leaves, strict=True)
        wanted = [(index, leaf.path) for index, leaf in leaves if _is_continuous(items[index])]
        arrays = [(path, items[index]) for index, path in wanted]
        given = [each for each, result in zip(cotangents, results, strict=True) if _is_continuous(result)]
        found = gradients(kernel, self._parts.filled(items), results, given, arrays)
        summed: list[Any] = [None] * len(items)
        for (index, _), gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                summed[index] = gradient if summed[index] is None else summed[index] + gradient
        return tuple(summed)


def _is_continuous(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex())


def _as_output(tensors: list[Any]) -> Any:
    return None if not tensors else tensors[0] if len(tensors) == 1 else tuple(tensors)


def _overlap(one: Any, other: Any) -> bool:
    """Whether two tensors have bytes in common, as far as the first and last of each say."""
    if StorageWeakRef(one.untyped_storage()) != StorageWeakRef(other.untyped_storage()):
        return False
    (low, high), (first, last) = _span(one), _span(other)
    return bool(low < last and first < high)


def _span(tensor: Any) -> tuple[Any, Any]:
    start = tensor.storage_offset() * tensor.element_size()
    if tensor.numel() == 0:
        return start, start
    reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (reach + 1) * tensor.element_size()
