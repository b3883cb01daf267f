"""What Dynamo, the frontend of ``torch.compile``, reads instead of a function. Read from PyTorch 2.13.

It follows the attribute ``_torchdynamo_inline`` of a function, which PyTorch itself gives to functions that it has compiled.
It is set without PyTorch. Where a PyTorch does not look at it, ``torch.compile`` follows the function itself, which is not made
for that, and ends with an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def looked_into(function: Function, instead: Callable[..., Any]) -> Function:
    """``function``, which Dynamo takes for ``instead``."""
    function._torchdynamo_inline = instead  # type: ignore[attr-defined]
    return function
