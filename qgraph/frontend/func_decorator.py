"""``@qgraph.func``."""

from __future__ import annotations

import functools
from collections.abc import Callable

from qgraph.frontend.syntax.parse import parse
from qgraph.language import Func, Parameters, Result
from qgraph.stack import raises_to_user


@raises_to_user
def func(function: Callable[Parameters, Result]) -> Func[Parameters, Result]:
    """Mark ``function`` as callable from kernels and funcs.

    Called as a kernel-level statement, its loops become the kernel's loops; inside a loop it is a device function.

    Raises:
        KernelSyntaxError: the function has no source, or uses syntax that kernels do not have.
    """
    source = parse(function, "@qgraph.func")
    return Func(function, lambda: source)


def own_func(function: Callable[Parameters, Result]) -> Func[Parameters, Result]:
    """The same for what this package is written in: parsed when a kernel first calls it."""
    return Func(function, functools.cache(lambda: parse(function, "@qgraph.func")))
