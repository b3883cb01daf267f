"""A task as PTX, by numba-cuda with qgraph's number rules. Needs neither a GPU nor a driver.

Also the same task as a plain Python kernel for Numba's CUDA simulator, in which arithmetic is NumPy's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.np.numpy_support import from_dtype

from qgraph import forks
from qgraph.compat import numba, numba_cuda
from qgraph.compat.numpy import as_before_2_5
from qgraph.errors import BackendError
from qgraph.ir.artifacts import PROGRAMMATIC, TRIGGERS_FIRST, TRIGGERS_LATER, WAITS_LAST
from qgraph.ir.functions import Function, TypedFunction
from qgraph.ir.program import Cast
from qgraph.lowering.intrinsics.array_addressing import ElementAddressing
from qgraph.lowering.intrinsics.operation_code import TYPING_RULES, intrinsic_types
from qgraph.lowering.intrinsics.typed_functions import typed_word
from qgraph.lowering.intrinsics.value_intrinsics import cast_word
from qgraph.lowering.intrinsics.while_condition import (
    PEEKED,
)
from qgraph.lowering.numba_backend.registry_cache import RefreshedOnce, ResolvedOnce, SearchedOnce
from qgraph.lowering.number_types.compile_errors import kernel_errors, place_of
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.typing_contexts import Compilers, NumberTarget, NumberTyping, Session, python_function
from qgraph.lowering.ptx import link
from qgraph.lowering.ptx.constant_loads import misread
from qgraph.lowering.ptx.ptx_rewrite import (
    canonical,
    with_shared_by_launch,
    with_unfused,
    without_fused_negations,
    without_results,
    without_unread_parameters,
)
from qgraph.records import dataclass


def cuda_module() -> Any:
    """``numba.cuda``, or its simulator: what a generated kernel takes thread indices from."""
    return numba_cuda.cuda


def libdevice_path() -> str:
    """Where the library of mathematical functions is, which kernels are compiled with."""
    from numba.cuda.cudadrv.libs import get_libdevice

    return str(get_libdevice())


def simulator_active() -> bool:
    """Whether numba.cuda was imported as the simulator (NUMBA_ENABLE_CUDASIM=1)."""
    from numba.core import config

    return bool(getattr(config, "ENABLE_CUDASIM", False))


# --- contexts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Compiler:
    typing: Any
    target: Any


# NVVM compiles one program at a time.
_NVVM_LOCK = forks.lock()


@as_before_2_5()
def _make_compiler(float_type: str) -> _Compiler:
    if simulator_active():
        raise BackendError("PTX cannot be made while numba.cuda is its simulator", hint="unset NUMBA_ENABLE_CUDASIM")
    # These modules exist in the real numba.cuda only, so the classes are made here.
    from numba.cuda import nvvmutils
    from numba.cuda.core.errors import TypingError
    from numba.cuda.target import CUDATargetContext, CUDATypingContext
    from numba.cuda.typing.templates import signature

    class Typing(NumberTyping, ResolvedOnce, RefreshedOnce, CUDATypingContext):
        typing_rules = TYPING_RULES
        typing_error = TypingError
        make_signature = staticmethod(signature)

        def compile_function(self, function: Any, args: tuple[Any, ...], key: Callable[[Any], object]) -> Any:
            assert self.session is not None
            result = _compile(self, target, function, args, None, self.session.flags)
            name = key(signature(result.signature.return_type, *args))
            self.session.descriptors[name] = result.fndesc
            target.insert_user_function(name, result.fndesc, [result.library])
            return result.signature.return_type

        def special_word(self, value: Any) -> Any:
            if isinstance(value, Cast):
                return self._words.setdefault(id(value), cast_word(from_dtype(np.dtype(value.dtype)), value.keeps))
            if isinstance(value, TypedFunction):
                assert self.session is not None
                return self.session.words.setdefault(id(value), typed_word(value))
            return self.special.get(id(value))

    class Target(ElementAddressing, NumberTarget, SearchedOnce, CUDATargetContext):
        libdevice = True
        # Numba has a setting for all of a process. Here no references are counted, see `cuda_lower`.
        enable_nrt = False

        def init(self) -> None:
            super().init()
            numba_cuda.set_codegen(self, "qgraph")

        make_signature = staticmethod(signature)

        def atomic_float_add(self, builder: Any, pointer: Any, value: Any) -> Any:
            declare = nvvmutils.declare_atomic_add_float32
            if pointer.type.pointee.intrinsic_name == "f64":
                declare = nvvmutils.declare_atomic_add_float64
            return builder.call(declare(builder.module), (pointer, value))

        def fence(self, builder: Any) -> None:
            # Of the system: the host reads it, too.
            function_type = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function_type, "llvm.nvvm.membar.sys"), ())

    typing = Typing()
    typing.resolved = {}
    typing.float_type = getattr(types, float_type)
    typing._words = {}
    typing.special = intrinsic_types()
    target = Target(typing)
    typing.refresh()
    target.refresh()
    return _Compiler(typing, target)


_COMPILERS = Compilers(_make_compiler)


def _compile(typing: Any, target: Any, function: Any, args: tuple[Any, ...], result: Any, flags: Any) -> Any:
    from numba.cuda import compiler
    from numba.cuda.core.callconv import CUDACallConv

    from qgraph.lowering.numba_backend.fast_pipeline import Compiler

    return compiler.compile_extra(
        typingctx=typing,
        targetctx=target,
        func=function,
        args=args,
        return_type=result,
        flags=flags.copy(),
        locals={},
        pipeline_class=Compiler,
        call_conv=CUDACallConv(target),
        abi_info={},
    )


def _flags(capability: tuple[int, int], fastmath: bool) -> Any:
    from numba.cuda.flags import CUDAFlags

    flags = numba.quick_flags(CUDAFlags)()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.fastmath = fastmath
    flags.nvvm_options = _nvvm_options(fastmath)
    flags.compute_capability = capability
    return flags


def _nvvm_options(fastmath: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"opt": 3}
    if fastmath:
        options |= {"ftz": True, "fma": True, "prec_div": False, "prec_sqrt": False}
    return options


# What a kernel does first where it can start before those that it depends on have ended: it lets others start, before or
# after it has waited itself.
_START = f"{{ .reg .pred %early; setp.eq.u32 %early, $0, {TRIGGERS_FIRST}; @%early griddepcontrol.launch_dependents; }}"
_WAIT = (
    f"{{ .reg .pred %late; griddepcontrol.wait; setp.eq.u32 %late, $0, {TRIGGERS_LATER}; "
    "@%late griddepcontrol.launch_dependents; }"
)
# The same where it may depend on none of those: then it waits last of all, so that it does not end before them.
_START_IN_ROW = (
    f"{{ .reg .pred %early; .reg .b32 %bit; and.b32 %bit, $0, {TRIGGERS_FIRST}; setp.ne.u32 %early, %bit, 0; "
    "@%early griddepcontrol.launch_dependents; }"
)
_WAIT_IN_ROW = (
    f"{{ .reg .pred %first, %late; setp.lt.u32 %first, $0, {WAITS_LAST}; @%first griddepcontrol.wait; "
    f"setp.eq.u32 %late, $0, {TRIGGERS_LATER}; @%late griddepcontrol.launch_dependents; }}"
)
_WAIT_LAST = "griddepcontrol.wait;"

_TOUCHES_MEMORY = re.compile(r"\b(ld|st|atom|red)\.(?!param)[\w.]*")
# Comments, instructions on registers and parameters alone, and the load of ``intrinsics.peek``, but no other volatile one.
_BEFORE_WAIT = re.compile(
    rf"\s*(//.*|\{{.*{PEEKED}|(mov|cvt|cvta|add|sub|mul|mad|shl|shr|and|or|xor|not|neg|setp|selp|min|max|div|rem|ld\.param)\b.*)?"
)

# --- PTX --------------------------------------------------------------------------------------------------------------


def compile_ptx(
    function: Function,
    argument_types: tuple[Any, ...],
    *,
    float_type: str,
    capability: tuple[int, int],
    fastmath: bool,
    entry: str,
    launch_bound: int | None,
    constant: Sequence[bool] = (),
    index64: bool = False,
    extents: Sequence[int] = (),
    waits_last: bool = False,
) -> Callable[[], str]:
    """What gives the PTX of one kernel, whose only visible name is ``entry``. The same text in every process for one source.

    Numba's part is done when this returns. What it gives is NVVM's part: it may be called once, in any thread, and leaves
    Python to others meanwhile.

    Args:
        function: the task; what it calls is compiled with it, under the same number rules.
        argument_types: Numba types, from ``numba_types.numba_type``.
        float_type: F of the number rules, "float32" or "float64".
        capability: the compute capability to compile for.
        launch_bound: the most threads a block will have, if that is fixed.
        constant: for each argument, whether it is an array that nothing changes while the kernel runs.
        index64: whether arrays of several dimensions may have ``intrinsics.U32_LIMIT`` elements or more.
        extents: for each argument the one whose extents are also its own.
        waits_last: whether it may be told to wait for earlier kernels when it is done, and not before.

    Raises:
        KernelTypeError: Numba cannot compile it.
    """
    from numba.cuda.utils import numba_target_override

    # Methods that others declared for CUDA alone are refused by a context that is made for another target.
    with numba_target_override():
        compiler = _COMPILERS.get(float_type)
    flags = _flags(capability, fastmath)
    session = Session(library=None, flags=flags)
    missing, failing = _toolkit_errors(function, session.owners), kernel_errors(function, session.owners)
    with missing, failing, global_compiler_lock, numba_target_override():
        python = python_function(function)
        compiler.typing.session = session
        compiler.typing.fresh = compiler.target.fresh = False
        compiler.target.index64 = index64
        # These belong to the flags that they were compiled with.
        compiler.target.cached_internal_func.clear()
        compiler.typing.resolve_for(flags)
        try:
            result = _compile(compiler.typing, compiler.target, python, argument_types, types.void, flags)
        finally:
            compiler.target.forget(session)
            compiler.typing.session = None
        parts = _parts(argument_types, constant, extents)
        modules, options = _modules(result, capability, launch_bound, fastmath, parts, waits_last)
    name = result.fndesc.llvm_func_name

    def finish() -> str:
        with _toolkit_errors(function, ()):
            return _finished(_compiled(modules, options, parts, name), capability, name, entry)

    return finish


@contextmanager
def _toolkit_errors(function: Function, called: Sequence[object]) -> Iterator[None]:
    """Say which part of CUDA is not there: ``BackendError``."""
    from numba.cuda.cudadrv.error import CudaSupportError, NvvmSupportError

    try:
        yield
    except (link.missing(), NvvmSupportError) as error:
        name = next((each for each in ("nvrtc", "nvvm") if each in str(error).lower()), "a library")
        raise BackendError(
            f"{name} of the CUDA toolkit was not found, without which no PTX is made", hint=link.INSTALL
        ) from error
    except CudaSupportError as error:
        raise BackendError(
            "Numba compiles something here for the GPU of this machine alone, and there is none with a driver",
            place_of(error, function, called),
            hint="write operations on whole arrays as loops, or with numbers alone",
        ) from error


def _compiled(modules: list[str], options: dict[str, Any], parts: _Parts, name: str) -> str:
    """What NVVM makes of the kernel ``name``."""
    constants = set(parts.constants)
    while True:
        with _NVVM_LOCK:
            text: str = _nvvm(modules, options).compile().decode().strip("\x00").strip()
        wrong = misread(text, constants, {*parts.arrays} - constants)
        if not wrong:
            return text
        constants -= wrong
        fewer = [_with_constants(module, name, constants) for module in modules]
        if fewer == modules:
            raise BackendError("the compiler reads an array that changes as one that does not", hint="please report it")
        modules = fewer


def _with_constants(module: str, name: str, constants: Collection[int]) -> str:
    """An LLVM module in which only these parameters of the kernel ``name`` are addresses of constant arrays."""

    def define(line: re.Match[str]) -> str:
        parameters = line["parameters"].split(", ")
        return line["before"] + ", ".join(
            each if number in constants else each.replace(" noalias ", " ") for number, each in enumerate(parameters)
        )

    return re.sub(rf'^(?P<before>define [^\n]*@"?{re.escape(name)}"?\()(?P<parameters>[^)\n]*)', define, module, flags=re.M)


def _finished(text: str, capability: tuple[int, int], name: str, entry: str) -> str:
    text = with_shared_by_launch(text)
    text = without_unread_parameters(without_fused_negations(without_results(with_unfused(text))))
    if capability >= PROGRAMMATIC:
        _check_waits_first(text)
        text = _wait_late(text)
    return canonical(text, name, entry)


def _parts(argument_types: Sequence[Any], constant: Sequence[bool], extents_of: Sequence[int]) -> _Parts:
    arrays: list[int] = []
    constants: list[int] = []
    extents: dict[int, int] = {}
    # Where the extents of each argument begin.
    begin: list[int] = []
    position = 0
    for number, (item, alone) in enumerate(zip(argument_types, constant, strict=False)):
        begin.append(position + 5)
        if isinstance(item, types.Array):
            arrays.append(position + 4)
            constants += [position + 4] if alone else []
            if item.ndim > 1:
                other = begin[extents_of[number]] if extents_of else begin[number]
                extents |= {begin[number] + axis: other + axis for axis in range(item.ndim)}
            position += 5 + 2 * item.ndim
        else:
            position += 2 if isinstance(item, types.Complex) else 1
    return _Parts(arrays, constants, extents)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Where parts of arrays stand among the flattened arguments: an array is 5 + 2 * ndim of them.

    ``arrays``: the addresses of all. ``constants``: those of constant arrays. ``extents``: the extents of arrays of several
    dimensions, which have 32 bits, each with the one that has its value.
    """

    arrays: Sequence[int]
    constants: Sequence[int]
    extents: Mapping[int, int]


# The lower half of a parameter.
_LOW = (1 << 32) - 1


def _narrow(kernel: ir.Function, extents: Mapping[int, int]) -> None:
    """Tell LLVM which extents are the same, and that they have 32 bits: products then take an instruction, and not four."""
    builder = ir.IRBuilder(kernel.blocks[0])
    builder.position_at_start(kernel.blocks[0])
    # The arguments are put together to arrays first of all.
    inserted = [each for each in kernel.blocks[0].instructions if isinstance(each, ir.instructions.InsertValue)]
    for position, same in extents.items():
        argument = kernel.args[same]
        narrow = builder.and_(argument, ir.Constant(argument.type, _LOW))
        for instruction in inserted:
            if instruction.value is kernel.args[position]:
                instruction.value = narrow


def _wait_for_earlier(kernel: ir.Function, waits_last: bool) -> None:
    """First of all, wait until the kernels that this one depends on are done and their writes can be seen.

    Before that, where the last argument says so, let those that depend on this one start. They wait in turn for this one. With
    ``waits_last`` that argument may say, too, that it depends on none: then it waits at its end.
    """
    builder = ir.IRBuilder(kernel.blocks[0])
    builder.position_at_start(kernel.blocks[0])
    early = kernel.args[-1]
    # The memory clobber keeps loads behind it.
    for text in (_START_IN_ROW, _WAIT_IN_ROW) if waits_last else (_START, _WAIT):
        builder.asm(ir.FunctionType(ir.VoidType(), [early.type]), text, "r,~{memory}", [early], True)
    if waits_last:
        # All threads do it, however they leave: those of no iteration, too.
        for block in kernel.blocks:
            if isinstance(block.terminator, ir.instructions.Ret):
                builder.position_before(block.terminator)
                builder.asm(ir.FunctionType(ir.VoidType(), []), _WAIT_LAST, "~{memory}", [], True)


def _check_waits_first(ptx: str) -> None:
    """NVVM may move a load of an array that nothing changes; one before the wait would read what is not yet written."""
    before = ptx[ptx.index(".entry") : ptx.index("griddepcontrol.wait")]
    found = _TOUCHES_MEMORY.search(before)
    if found is not None:
        raise BackendError(f"the compiler moved `{found.group()}` before the wait for earlier kernels", hint="please report it")


def _wait_late(ptx: str) -> str:
    """What a kernel computes of its parameters and the thread's place before it looks at memory, it does before the wait.

    So that is done while the kernels before it still run. A branch may leave the kernel, which must not be before the wait.
    """
    lines = ptx.split("\n")
    wait = next(number for number, line in enumerate(lines) if "griddepcontrol.wait" in line)
    behind = next(number for number in range(wait + 1, len(lines)) if not _BEFORE_WAIT.fullmatch(lines[number]))
    return "\n".join([*lines[:wait], *lines[wait + 1 : behind], lines[wait], *lines[behind:]])


def _modules(
    result: Any, capability: tuple[int, int], launch_bound: int | None, fastmath: bool, parts: _Parts, waits_last: bool
) -> tuple[list[str], dict[str, Any]]:
    """What Numba made of a kernel, as LLVM modules, and NVVM's options for them."""
    from numba.cuda.compiler import kernel_fixup
    from numba.cuda.cudadrv import nvrtc, nvvm

    library = result.library
    numba_cuda.set_entry(library, result.fndesc.llvm_func_name, _nvvm_options(fastmath))
    # Device functions become discardable, so that those which were inlined are not in the text.
    library.finalize()
    kernel = library.get_function(result.fndesc.llvm_func_name)
    kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, launch_bound)
    # Loads of these may then pass stores to others: several iterations of a thread overlap. An array that is written must not
    # have it: NVVM overlooks stores to strided arrays, whose addresses are computed as integers, and would then read such an
    # array as one that never changes (ld.global.nc).
    _narrow(kernel, parts.extents)
    for position in parts.constants:
        kernel.args[position].add_attribute("noalias")
    if capability >= PROGRAMMATIC:
        _wait_for_earlier(kernel, waits_last)
    return list(library.llvm_strs), {**_nvvm_options(fastmath), "arch": nvrtc.get_arch_option(*capability)}


def _nvvm(modules: Sequence[str], options: dict[str, Any]) -> Any:
    """LLVM modules as one program. Numba's own way verifies them too, and always reads the library of functions."""
    from numba.cuda.cudadrv import nvvm

    unit = nvvm.CompilationUnit(options)
    for module in modules:
        unit.add_module(nvvm.llvm_replace(module).encode())
    if any("@__nv_" in module or '@"__nv_' in module for module in modules):
        unit.lazy_add_module(nvvm.LibDevice().get())
    return unit


# --- simulator --------------------------------------------------------------------------------------------------------
