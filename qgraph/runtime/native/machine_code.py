"""Functions for Python from machine code: LLVM's text, compiled once a process with llvmlite.

For what every call does, where a line of Python takes as long as all of it. Each such function holds what it reads, and has a
slower twin in Python for processes that have compiled nothing: to import llvmlite takes a tenth of a second.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from qgraph import forks
from qgraph.compat.cpython import MethodDef, new_function

# How functions that answer with True or False end, at their labels ``yes`` and ``no``; and what must be declared for that.
NEEDED = "declare void @Py_IncRef(ptr)\n"
ANSWERS = "\n".join(
    f"{label}:\n  call void @Py_IncRef(ptr inttoptr (i64 {id(answer)} to ptr))\n  ret ptr inttoptr (i64 {id(answer)} to ptr)\n"
    for label, answer in (("yes", True), ("no", False))
)


class MachineCode:
    """Some functions: their text, and by name how each is called. They are ``ptr (ptr self, ...)``, as CPython has it."""

    def __init__(self, text: str, calls: Mapping[str, int]) -> None:
        self._text, self._calls = text, calls
        self._wanted = self._fails = False
        # A signal's handler may want it while this very thread compiles.
        self._lock = forks.rlock()
        # Code lives as long as its engine, and functions look at methods: nothing leaves this list, and the first is used.
        self._made: list[tuple[Any, dict[str, MethodDef]]] = []

    def want(self) -> None:
        """It is worth loading the compiler."""
        self._wanted = True

    @property
    def usable(self) -> bool:
        """Whether it can be had without a wait, and compiles here.

        To be asked first: an error of the compiler would be taken for one of the call that is to be made faster.
        """
        if self._made:
            return True
        if self._fails or not (self._wanted or "llvmlite.binding" in sys.modules):
            return False
        try:
            self._compile()
        except (ImportError, RuntimeError):
            self._fails = True
        return not self._fails

    def function(self, name: str, own: object) -> Any:
        """A function for Python whose ``self`` is ``own``: that lives as long as it does, also while it is being called."""
        if not self._made:
            self._compile()
        # As its module it holds this object.
        return new_function(self._made[0][1][name], own, self)

    def _compile(self) -> None:
        with self._lock:
            if not self._made:
                self._made.append(self._compiled())

    def _compiled(self) -> tuple[Any, dict[str, MethodDef]]:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(self._text)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        return engine, {
            name: MethodDef(name.encode(), engine.get_function_address(name), how, None) for name, how in self._calls.items()
        }


def new_words(values: Sequence[int]) -> tuple[bytearray, Any]:
    """A buffer of 64-bit words with these values, and an array that is the same memory."""
    buffer = bytearray(8 * len(values))
    words = (ctypes.c_int64 * len(values)).from_buffer(buffer)
    words[:] = [*values]
    return buffer, words
