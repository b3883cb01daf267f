"""A CPU kernel's machine code in another process: what of it can be kept, and how it is run without Numba's compiler.

Code has addresses of the process that made it in two ways. What it calls it names, and LLVM puts the addresses in, here as
there: every name must be known to be the same thing everywhere. Numbers cannot be told from addresses, so no number in it may
be one: where a process has memory at a number in the code, the code is not kept.
"""

from __future__ import annotations

import bisect
import ctypes
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qgraph.compat import numba
from qgraph.compat.cpython import TUPLE_AND_MAPPING, MethodDef, new_function
from qgraph.errors import BackendError
from qgraph.forks import FORKS
from qgraph.lowering.cache.cpu_artifacts import ObjectCode
from qgraph.lowering.cache.key_texts import Unstable
from qgraph.lowering.numba_backend import elf
from qgraph.lowering.numba_backend.cpu_runtime import OWN, add_symbols, guarded, start_threads, threading_layer

# What the threading layer defines.
_PARALLEL = ("numba_parallel_for", "get_num_threads")
# Functions of Python's C API, and those of C that LLVM calls by itself: a process that runs Python and LLVM has them.
_ANYWHERE = re.compile(
    r"_?Py[A-Z][A-Za-z]*_\w+|_?Py_[A-Z]\w+|bcmp|mem(cmp|cpy|move|set)|strlen|(erfc?|[lt]gamma|cbrt|copysign|exp10|exp2|fma|fmax"
    r"|fmin|hypot|ldexp|log2|nearbyint|nextafter|rint|roundeven|sincos)f?"
)
# Numbers that are no part of a name.
_NUMBER = re.compile(r"(?<![\w.%@!#$\"-])\d{5,}\b")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)")
# Below it a file is mapped where the executable says: at one place in every process.
_FIXED = 1 << 32


# --- keeping it --------------------------------------------------------------------------------------------------------


def code_of(library: Any, entry: str, environments: Mapping[str, Any]) -> ObjectCode:
    """What to keep of a compiled kernel: its library, the name of what Python calls, and its functions' constants by name.

    Raises:
        Unstable: another process cannot run it.
    """
    data = numba.object_code(library)
    try:
        symbols = elf.symbols_of(data)
    except ValueError as error:
        raise Unstable(f"machine code in another format: {error}") from None
    known = {*_PARALLEL, *OWN, *numba.runtime_symbols()}
    strange = sorted(name for name in symbols.undefined - known if not _ANYWHERE.fullmatch(name))
    if strange:
        raise Unstable(f"machine code that calls {strange[0]}()")
    if library.has_dynamic_globals or _has_address(library.get_llvm_str()):
        raise Unstable("machine code with an address of this process")
    constants = {name: _constants(made) for name, made in environments.items() if name in symbols.used}
    return ObjectCode(data, entry, constants, threading_layer() if symbols.undefined.intersection(_PARALLEL) else "")


def _constants(environment: Any) -> tuple[str, ...]:
    """The Python objects of a function, which are words of a ``print``."""
    found = tuple(environment.consts)
    if not all(type(each) is str for each in found):
        raise Unstable("machine code with objects of Python's")
    return found


def _has_address(text: str) -> bool:
    """Whether a number in LLVM's text is one at which this process has memory."""
    starts, ends = _memory()
    numbers = ((int(each), bisect.bisect_right(starts, int(each))) for each in set(_NUMBER.findall(text)))
    return any(place and number < ends[place - 1] for number, place in numbers)


def _memory() -> tuple[list[int], list[int]]:
    """Where the memory of this process begins and ends, in order, but for what lies at the same place in all processes."""
    try:
        with open("/proc/self/maps") as file:
            found = [match for line in file if (match := _MAPPING.match(line))]
    except OSError as error:
        raise Unstable(f"machine code, in which addresses cannot be found here: {error.strerror}") from None
    ranges = sorted((int(match[1], 16), int(match[2], 16)) for match in found if not _is_fixed(match))
    return [start for start, _ in ranges], [end for _, end in ranges]


def _is_fixed(mapping: re.Match[str]) -> bool:
    return mapping[3].startswith("/") and int(mapping[2], 16) <= _FIXED


# --- running it --------------------------------------------------------------------------------------------------------


class _Loaded:
    """The memory of machine code, for as long as something can call it."""

    def __init__(self, code: ObjectCode, engine: Any) -> None:
        self._engine = engine
        self._environments = {name: numba.environment(constants) for name, constants in code.environments.items()}
        for name, made in self._environments.items():
            ctypes.c_void_p.from_address(engine.get_global_value_address(name)).value = id(made)
        self.definition = MethodDef(b"kernel", engine.get_function_address(code.entry), TUPLE_AND_MAPPING, None)


def load(code: ObjectCode) -> Callable[..., bool] | None:
    """What Python calls, as ``cpu.compile_control`` and ``guarded`` give it; None where this process lacks what the code calls.

    Raises:
        BackendError: this process must not use LLVM, or has no threads.
    """
    FORKS.refuse_to_compile()
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True)
    # With an engine LLVM finds what the process itself has. One of its own, which gives its memory back with it.
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    if code.layer:
        start_threads(code.layer)
    try:
        if not _define(elf.symbols_of(code.data).undefined):
            return None
    except (ValueError, BackendError):  # no object file; a Numba whose runtime has another place
        return None
    engine.add_object_file(binding.ObjectFileRef.from_data(code.data))
    engine.finalize_object()
    loaded = _Loaded(code, engine)
    call: Callable[..., bool] = new_function(loaded.definition, loaded, None)
    return guarded(call) if code.layer else call


def _define(names: Iterable[str]) -> bool:
    """Tell LLVM where all ``names`` are; False where one is nowhere, which LLVM would end the process for."""
    from llvmlite import binding

    known = {**numba.runtime_symbols(), **OWN}
    add_symbols({name: known[name] for name in names if name in known})
    return all(binding.address_of_symbol(name) for name in names)
