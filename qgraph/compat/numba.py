"""Numba's private parts, read from 0.68.1. What needs a compiler is handed in, so that to import this module loads none."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from qgraph.compat import Library

NUMBA = Library("numba", "0.68.1")

# --- processes that were forked ----------------------------------------------------------------------------------------


def fork_lock() -> Any:
    """The lock of whoever compiles; None where Numba was not imported.

    Raises:
        BackendError: it has another place.
    """
    module = sys.modules.get("numba.core.compiler_lock")
    return None if module is None else NUMBA.part(NUMBA.part(module, "global_compiler_lock"), "_lock")


def has_threads() -> bool:
    """Whether Numba's threads were started; True, too, where that cannot be told."""
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return parallel is not None and bool(getattr(parallel, "_is_initialized", True))


# --- the CPU target ----------------------------------------------------------------------------------------------------


def set_codegen(target: Any, codegen: Any) -> None:
    """Let a target context make its code with ``codegen`` from now on."""
    NUMBA.replace(target, "_internal_codegen", codegen)


def final_module(library: Any) -> Any:
    """All of a code library, as one module of llvmlite.binding."""
    return NUMBA.part(library, "_final_module")


def parallel_for(builder: Any, worker: Any, bases: Any, counts: Any, steps: Any, data: Any) -> None:
    """Emit a call of ``worker`` on Numba's threads, as its own gufuncs do: for one loop and one operand, with ``data``."""
    from llvmlite import ir
    from numba.core import cgutils

    number, size = ir.IntType(32), ir.IntType(64)
    get_threads = cgutils.get_or_insert_function(builder.module, ir.FunctionType(size, []), "get_num_threads")
    threads = builder.trunc(builder.call(get_threads, []), number)
    one = ir.Constant(size, 1)
    arguments = [builder.bitcast(worker, ir.IntType(8).as_pointer()), bases, counts, steps, data, one, one, threads]
    function_type = ir.FunctionType(ir.VoidType(), [value.type for value in arguments])
    builder.call(cgutils.get_or_insert_function(builder.module, function_type, "numba_parallel_for"), arguments)


# --- contexts: numba-cuda's have the same parts ------------------------------------------------------------------------


def first_registry(target: Any) -> Any:
    """The registry that a target context read first."""
    return next(iter(NUMBA.part(target, "_registries")))


def definitions(target: Any) -> dict[Any, Any]:
    """The code of functions that a target context knows."""
    found: dict[Any, Any] = NUMBA.part(target, "_defns")
    return found


def forget_types(target: Any, types: set[Any]) -> None:
    """Let go of types: their models, and what was looked up for them."""
    from numba.core.datamodel import default_manager

    models = NUMBA.part(default_manager, "_cache")
    for each in types:
        # The model of a type holds the type, for which it is kept.
        models.pop(each, None)
    for selector in ("_casts", "_get_constants"):
        found = NUMBA.part(NUMBA.part(target, selector), "_cache")
        for asked in [each for each in found if not types.isdisjoint(each)]:
            del found[asked]


# --- templates ---------------------------------------------------------------------------------------------------------


@functools.cache
def _check_overloads() -> None:
    """Templates of overloads are known by these parts: without them there would seem to be none."""
    from numba.core.typing.templates import make_overload_template

    template = make_overload_template(_check_overloads, _check_overloads, {}, True, "never")
    for name in ("_overload_func", "_inline"):
        NUMBA.part(template, name)


def overloads(function: Any) -> tuple[Any, ...]:
    """The templates of a Numba function that compile a Python function, those that Numba inlines excepted."""
    _check_overloads()
    templates = (template for template in getattr(function, "templates", ()) if hasattr(template, "_overload_func"))
    return tuple(template for template in templates if template._inline.is_never_inline)


def overload_function(template: Any) -> Any:
    """The function of an overload, which takes the types of arguments."""
    return NUMBA.part(template, "_overload_func")


def typing_function(template: Any) -> Any:
    """The function that a template runs to type a call; None where its class does it."""
    function = getattr(template, "_overload_func", None) or getattr(template, "_definition_func", None)
    if function is None and template.__module__ == "abc":
        # Made by type_callable: the function is in the closure of its method.
        closure: Sequence[Any] = vars(template)["generic"].__closure__ or ()
        contents = (cell.cell_contents for cell in closure)
        function = next((value for value in contents if isinstance(value, FunctionType) and value is not template.key), None)
    return function
