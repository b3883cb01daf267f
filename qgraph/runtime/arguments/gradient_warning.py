"""The warning that a call of a kernel takes no part in automatic differentiation."""

from __future__ import annotations

import warnings


class _Once:
    """Says a warning the first time only."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._said = False

    def say(self) -> None:
        if not self._said:
            self._said = True
            warnings.warn(self._message, UserWarning, stacklevel=2)


#: Said where a call takes no part in automatic differentiation.
grad_warning = _Once(
    "a tensor with requires_grad was passed to a qgraph kernel without a vjp: its elements are used, but no gradient flows "
    "through the kernel"
)
