"""Calls of kernels with values that have no memory yet: those of a compiler that looks at the function around them.

There is no word for it: a function that calls a kernel means the same when it is compiled, and a function of somebody else's
may be. An operation that a user would have to ask for could not be one for all types of arguments, since its schema says which
tensors it changes and how many it returns. Dynamo alone reads source instead of calling, and so is told what to read; whatever
else traces, PyTorch below Dynamo and JAX, calls the kernel, which sees by its arguments what they are. Nothing of that costs
other calls any time, or imports either library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from qgraph.compat.torch_dynamo import looked_into
from qgraph.hosts.ranges import in_range

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


def call_traced(library: str, kernel: Callable[..., Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """Call ``kernel`` with tracers of a library, torch or jax: it becomes an operation in what they record."""
    if library == "torch":
        from qgraph.hosts.torch_ops import call
    else:
        from qgraph.hosts.jax_calls import call
    result: Result = call(kernel, args, kwargs)
    return result


def _call_in_dynamo(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    # Read by Dynamo, which follows it to one function that it takes as it is: what that gets must be tensors and numbers.
    from qgraph.hosts.torch_ops import call_in_graph, passable

    return call_in_graph(
        kernel._traced_name,
        tuple([passable(value) for value in args]),
        {name: passable(value) for name, value in kwargs.items()},
    )


def for_dynamo(call: Function) -> Function:
    """``call``, a ``__call__`` of kernels, with what ``torch.compile`` reads in its place, and in a range if asked."""
    return looked_into(in_range(call), _call_in_dynamo)
