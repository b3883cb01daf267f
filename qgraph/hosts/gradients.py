"""Gradients of a kernel by its user's own function, ``@kernel.vjp``: what it is called with, and what it must give."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from qgraph.errors import ArgumentError


def needs_gradient(values: Any) -> bool:
    """Whether PyTorch's autograd records a call with these arguments, which are of any kinds."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_grad_enabled() and any(each.requires_grad for each in _tensors(torch, values))


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(torch, each)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _tensors(torch, getattr(value, name, None))


def gradients(
    kernel: Any,
    arguments: Sequence[Any],
    results: Sequence[Any],
    cotangents: Sequence[Any],
    arrays: Sequence[tuple[str, Any]],
) -> tuple[Any, ...]:
    """The gradients of ``arrays``, with their names, as the ``vjp`` of ``kernel`` gives them.

    Raises:
        ArgumentError: there is no ``vjp``, or it gave another number of gradients, or one of another shape.
    """
    if kernel._vjp is None:
        raise ArgumentError(
            f"no gradient flows through the kernel `{kernel.__name__}`",
            kernel._source.span,
            hint=f"write a function of its gradients, and decorate it with @{kernel.__name__}.vjp",
        )
    if needs_gradient((arguments, results, cotangents)) and hasattr(kernel._vjp, "_vjp") and kernel._vjp._vjp is None:
        raise ArgumentError(
            f"a second derivative of `{kernel.__name__}` is wanted, and no gradient flows through its vjp",
            kernel._source.span,
            hint=f"decorate a function of the gradients of `{kernel._vjp.__name__}` with @{kernel._vjp.__name__}.vjp",
        )
    found = kernel._vjp(*arguments, *results, *cotangents)
    given = found if isinstance(found, tuple) else (found,)
    names = ", ".join(f"`{name}`" for name, _ in arrays)
    told = f"the vjp of `{kernel.__name__}`"
    if len(given) != len(arrays):
        raise ArgumentError(
            f"{told} returned {len(given)} value{'' if len(given) == 1 else 's'}, where {len(arrays)} are wanted",
            kernel._source.span,
            hint=f"return a gradient, or None, for each of {names}, in this order",
        )
    for (name, array), gradient in zip(arrays, given, strict=True):
        if gradient is not None and tuple(getattr(gradient, "shape", ())) != tuple(array.shape):
            shape = tuple(getattr(gradient, "shape", ()))
            raise ArgumentError(
                f"{told} returned a gradient of shape {shape} for `{name}`, which has shape {tuple(array.shape)}",
                kernel._source.span,
                hint=f"return a gradient, or None, for each of {names}, in this order",
            )
    return given
