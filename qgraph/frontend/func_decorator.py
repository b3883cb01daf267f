"""``@qgraph.func``."""

from __future__ import annotations

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
    return Func(function, parse(function, "@qgraph.func"))
