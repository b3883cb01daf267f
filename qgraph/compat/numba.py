"""Numba's private parts, read from 0.68.1. What needs a compiler is handed in, so that to import this module loads none."""

from __future__ import annotations

import builtins
import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Collection, Sequence
from types import FunctionType
from typing import Any

from qgraph.compat import Library
from qgraph.errors import BackendError

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
    return _RUNTIME.launched or (parallel is not None and bool(getattr(parallel, "_is_initialized", True)))


# --- the runtime without the compiler ----------------------------------------------------------------------------------

# The extension modules of the threading layers that need nothing looked at before they are loaded.
_LAYERS = {"omp": "omppool", "workqueue": "workqueue"}
# What has a say in which layer there is, and in the number of its threads, and is read by Numba alone.
_READ_BY_NUMBA = ("NUMBA_THREADING_LAYER", "NUMBA_THREADING_LAYER_PRIORITY")
_SETTINGS_FILE = ".numba_config.yaml"
# The C functions that compiled code may call: they keep nothing that Numba's Python has to prepare.
_HELPERS = re.compile(
    r"adapt_ndarray|complex_adaptor|do_raise|gil_ensure|gil_release|runtime_build_excinfo_struct|unpickle|"
    r"(cpow|erfc?|fixed_fmod|frexp|l?gamma|ldexp|nextafter)f?"
)
# Those of C's own mathematics, and for memory.
_MATH = re.compile(r"(a?(cos|sin|tan)h?|atan2|ceil|exp|expm1|fabs|floor|fmod|log|log10|log1p|pow|round|sqrt|trunc)f?")
_MEMORY = re.compile(r"Allocate|Free|MemInfo_(alloc_aligned|call_dtor)")
# Settings that decide code, with what they are where the environment says nothing.
_DEFAULTS = {"OPT": 3, "CPU_NAME": None, "CPU_FEATURES": None, "LOOP_VECTORIZE": 1, "SLP_VECTORIZE": 0, "DEBUGINFO_DEFAULT": 0}


class _Runtime:
    """The parts of Numba that are machine code: extension modules, which a process can load without the package.

    They are loaded under their own names: a later import of the package gets the same ones.
    """

    def __init__(self) -> None:
        self.launched = False

    @functools.cached_property
    def helpers(self) -> dict[str, int]:
        """The addresses of C functions, by the names that compiled code has for them."""
        helpers = _extension("numba._helperlib").c_helpers
        memory = _extension("numba.core.runtime._nrt_python")
        # As whoever imports Numba has it: memory may be given back after that.
        memory.memsys_use_cpython_allocator()
        found = {f"numba_{name}": address for name, address in helpers.items() if _HELPERS.fullmatch(name)}
        found |= {name: address for name, address in helpers.items() if _MATH.fullmatch(name)}
        return found | {f"NRT_{name}": each for name, each in memory.c_helpers.items() if _MEMORY.fullmatch(name)}

    @functools.cached_property
    def environment(self) -> Any:
        """The class of objects that hold the constants of compiled code."""
        return _extension("numba._dynfunc").Environment


_RUNTIME = _Runtime()


def _extension(name: str) -> Any:
    """An extension module of Numba's.

    Raises:
        BackendError: there is none.
    """
    if "numba" in sys.modules:
        return importlib.import_module(name)
    package = importlib.util.find_spec("numba")
    places = (package.submodule_search_locations if package is not None else None) or []
    files = (os.path.join(place, *name.split(".")[1:]) for place in places)
    for file in (f"{file}{suffix}" for file in files for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        spec = importlib.util.spec_from_file_location(name, file) if os.path.exists(file) else None
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            # The package shall import it once more, and find what this import has made.
            sys.modules.pop(name, None)
            return module
    raise NUMBA.lacks(f"extension module {name}")


def runtime_symbols() -> dict[str, int]:
    """The addresses of what Numba defines for compiled code, by name; without its compiler, where that was not imported.

    Raises:
        BackendError: they have other places.
    """
    classes = {f"PyExc_{name}": id(each) for name, each in vars(builtins).items() if isinstance(each, type)}
    # Where C has a variable that points to the class, Numba's code has the class.
    return {**_RUNTIME.helpers, **classes, "_Py_NoneStruct": id(None)}


def environment(constants: Sequence[Any]) -> Any:
    """An object that holds the constants of a compiled function, as its code looks for them."""
    made = _RUNTIME.environment({})
    made.consts.extend(constants)
    return made


def launch(layer: str) -> dict[str, int] | None:
    """Start the threads of a layer as Numba does, without Numba; returns the addresses of what compiled code calls.

    None where only Numba can: where it was imported, has settings that it alone reads, or must look at a library first.
    """
    count = os.environ.get("NUMBA_NUM_THREADS", "") or str(_cores())
    told = any(name in os.environ for name in _READ_BY_NUMBA) or os.path.exists(_SETTINGS_FILE)
    if "numba" in sys.modules or told or layer not in _LAYERS or not count.isdecimal() or not int(count):
        return None
    try:
        library = _extension(f"numba.np.ufunc.{_LAYERS[layer]}")
    except (ImportError, BackendError):  # a library that it needs is gone
        return None
    for function in (library.launch_threads, library.set_num_threads):
        ctypes.CFUNCTYPE(None, ctypes.c_int)(function)(int(count))
    _RUNTIME.launched = True
    return {"numba_parallel_for": library.parallel_for, "get_num_threads": library.get_num_threads}


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity is not None else os.cpu_count()) or 1


def changed_settings() -> list[str]:
    """What decides code, and was set otherwise than by the environment, which another process would not know."""
    config = sys.modules.get("numba.core.config")
    if config is None or os.path.exists(_SETTINGS_FILE):
        return []
    names = [name for name in _DEFAULTS if f"NUMBA_{name.removesuffix('_DEFAULT')}" not in os.environ]
    return [name for name in names if getattr(config, name, None) != _DEFAULTS[name]]


def object_code(library: Any) -> bytes:
    """The machine code of a library that was told to keep it."""
    found: bytes = NUMBA.part(library, "_get_compiled_object")()
    return found


# --- the CPU target ----------------------------------------------------------------------------------------------------


def set_codegen(target: Any, codegen: Any) -> None:
    """Let a target context make its code with ``codegen`` from now on."""
    NUMBA.replace(target, "_internal_codegen", codegen)


def final_module(library: Any) -> Any:
    """All of a code library, as one module of llvmlite.binding."""
    return NUMBA.part(library, "_final_module")


def engine(library: Any) -> Any:
    """llvmlite's execution engine, in which a code library puts its machine code."""
    return NUMBA.part(NUMBA.part(NUMBA.part(library, "_codegen"), "_engine"), "_ee")


def set_final_module(library: Any, module: Any) -> None:
    """Let a code library put all that it is given into ``module``."""
    NUMBA.replace(library, "_final_module", module)


def module_for_linking(library: Any) -> Any:
    """All of a code library, for other ones, as one module of llvmlite.binding."""
    return NUMBA.part(library, "_get_module_for_linking")()


def optimize_as_a_whole(library: Any) -> None:
    """Let a code library run LLVM's passes on the module that it becomes alone.

    Numba runs those of a function on each function before, and the passes of a module begin with them anyway: an eighth of the
    time of a compilation, without which programs of NPBench ran no slower. They need a pass manager and a builder each,
    of which 1.5 KB stay where ``llvmlite.free_passes`` cannot free them.
    """
    codegen = NUMBA.part(library, "_codegen")
    NUMBA.replace(library, "_optimize_functions", functools.partial(_lay_out, codegen))


def vectorize_first(codegen: Any) -> None:
    """Let code of the CPU target ``codegen`` have its loops vectorised before LLVM's passes of the highest level, too.

    Those forward what an iteration loads to the next one (partial redundancy elimination, of a stencil's neighbours), and a
    reduction in such a loop is no longer recognised. Numba runs the passes of a lower level before them anyway, for what it
    inlines; here they are those of level 1, and vectorise.
    """
    from numba.core import config

    if config.OPT:
        NUMBA.replace(codegen, "_opt_level", max(NUMBA.part(codegen, "_opt_level"), 1))
        NUMBA.replace(codegen, "_loopvect", bool(config.LOOP_VECTORIZE))


def _lay_out(codegen: Any, module: Any) -> None:
    module.data_layout = NUMBA.part(codegen, "_data_layout")


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


# --- passes: numba-cuda's have the same parts --------------------------------------------------------------------------


def pass_of(cls: Any, manager: Any, machinery: Any) -> Any:
    """The one object of a pass in the module ``machinery``, with what others found out about the passes of ``manager``."""
    instance = NUMBA.part(machinery, "_pass_registry").get(cls).pass_inst
    instance.analysis = NUMBA.part(manager, "_analysis")
    return instance


def set_definitions(function: Any, definitions: Any) -> None:
    """Tell a function of Numba's IR what is assigned to its variables."""
    NUMBA.replace(function, "_definitions", definitions)


def without_phis(function: Any, strip: Any) -> Any:
    """A function of Numba's IR without phi nodes; ``strip`` is the pass that takes them out."""
    return NUMBA.part(strip, "_strip_phi_nodes")(function)


# --- lowering: numba-cuda's has the same parts -------------------------------------------------------------------------


class LocalValues:
    """Mixin of a ``Lower``: a variable of ``values_of_a_block`` is a value, and has no memory."""

    builder: Any
    getvar: Any
    _NAMES = ("_singly_assigned_vars", "_blk_local_varmap")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        numbas = NUMBA.part(super(), "_find_singly_assigned_variable")
        if not set(LocalValues._NAMES) <= set(numbas.__code__.co_names):
            raise NUMBA.lacks(f"attributes {' and '.join(LocalValues._NAMES)} where it looks for such variables")

    def values_of_a_block(self) -> Collection[str]:
        """The names of variables that are assigned once, and used only in the same block."""
        raise NotImplementedError

    def _find_singly_assigned_variable(self) -> None:
        """Numba's hook."""
        self._singly_assigned_vars = set(self.values_of_a_block())
        self._blk_local_varmap: dict[str, Any] = {}

    def loadvar(self, name: str) -> Any:
        """Numba's hook: the value of a variable."""
        found = self._blk_local_varmap.get(name)
        return self.builder.load(self.getvar(name)) if found is None else found

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Numba's hook: assign to a variable."""
        del argidx
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


# --- flags: numba-cuda's have the same parts ---------------------------------------------------------------------------


@functools.cache
def quick_flags(flags: Any) -> Any:
    """A class of flags, compared by what was set: Numba looks for what is compiled already by them, and goes through all."""

    class Flags(flags):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Flags) and bool(self._values == other._values)

        def __hash__(self) -> int:
            return len(self._values)

    NUMBA.part(flags(), "_values")
    return Flags


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
