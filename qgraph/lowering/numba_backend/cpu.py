"""A whole kernel as one compiled CPU function, by Numba with qgraph's number rules.

Serial code and control flow are one function; each parallel loop is a function of a chunk number, run on Numba's threads.
Everything a kernel needs is compiled into one library, optimised and turned into machine code once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir
from numba.core import compiler
from numba.core import ir as numba_ir
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.cpu import CPUContext
from numba.core.errors import TypingError
from numba.core.lowering import Lower
from numba.core.target_extension import target_override
from numba.core.typed_passes import AnnotateTypes, IRLegalization, NativeLowering, NopythonTypeInference
from numba.core.typing import Context, signature
from numba.np.numpy_support import from_dtype

from qgraph.compat import llvmlite, numba
from qgraph.ir.functions import Function, ParallelFunction, SeparateFunction, TypedFunction
from qgraph.ir.program import Cast
from qgraph.lowering.cache.memory_key import structural_key
from qgraph.lowering.intrinsics.array_addressing import ElementAddressing
from qgraph.lowering.intrinsics.intrinsic import Intrinsic, check_scalar
from qgraph.lowering.intrinsics.operation_code import TYPING_RULES, intrinsic_types
from qgraph.lowering.intrinsics.typed_functions import typed_word
from qgraph.lowering.intrinsics.value_intrinsics import cast_word
from qgraph.lowering.numba_backend.cpu_call_wrapper import Wrapper
from qgraph.lowering.numba_backend.cpu_parallel import parallel_word
from qgraph.lowering.numba_backend.cpu_runtime import OWN, add_symbols, start_threads
from qgraph.lowering.numba_backend.dead_zero_fills import Library
from qgraph.lowering.numba_backend.fast_lowering import FastLower, counts_references
from qgraph.lowering.numba_backend.fast_passes import FastPipeline
from qgraph.lowering.number_types.compile_errors import kernel_errors
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import plain
from qgraph.lowering.number_types.typing_contexts import Compilers, NumberTarget, NumberTyping, Session, python_function
from qgraph.records import dataclass

# Kernels whose machine code a process keeps for others that mean the same.
MAX_LATELY = 64


class _Typing(NumberTyping, Context):
    """Numba's CPU typing with qgraph's number rules."""

    typing_rules = TYPING_RULES
    typing_error = TypingError
    make_signature = staticmethod(signature)
    special: Mapping[int, Any]
    target: Any

    def compile_function(self, function: Any, args: tuple[Any, ...], key: Callable[[Any], object]) -> Any:
        """Compile into the session's library; returns the result type."""
        assert self.session is not None
        compiled = _compile(self, function, args, None, noalias=function in self.session.disjoint)
        if function in self.session.separate:
            self.session.never_inlined.add(compiled.fndesc.llvm_func_name)
        result = compiled.signature.return_type
        name = key(signature(result, *args))
        self.session.descriptors[name] = compiled.fndesc
        self.target.insert_user_function(name, compiled.fndesc, [])
        return result

    def special_word(self, value: Any) -> Any:
        """The type of an atomic, of ``set_condition``, of a conversion, or of a parallel, separate or typed function."""
        if isinstance(value, ParallelFunction):
            assert self.session is not None
            if value.disjoint:
                self.session.disjoint.add(self.function_word(value.function).function)
            if value.reduces and self.session.library is not None:
                numba.vectorize_first(self.session.library.codegen)
            return self.session.words.setdefault(id(value), parallel_word(value))
        if isinstance(value, SeparateFunction):
            assert self.session is not None
            word = self.function_word(value.function)
            self.session.separate.add(word.function)
            return word
        if isinstance(value, TypedFunction):
            assert self.session is not None
            return self.session.words.setdefault(id(value), typed_word(value))
        if isinstance(value, Recorder):
            assert self.session is not None
            return self.session.words.setdefault(id(value), _recorder_word(value))
        if isinstance(value, Cast):
            return self._words.setdefault(id(value), cast_word(dtype_type(value.dtype), value.keeps))
        return self.special.get(id(value))


class _Target(ElementAddressing, NumberTarget, CPUContext):
    """Numba's CPU target that finds the code of qgraph's words."""

    libdevice = False
    index64 = True
    make_signature = staticmethod(signature)
    # By the type's text: Numba has a module parsed each time it asks.
    sizes: dict[str, int]

    def get_abi_sizeof(self, ty: ir.Type) -> int:
        """Numba's hook: the bytes of a value."""
        text = str(ty)
        if text not in self.sizes:
            size = int(super().get_abi_sizeof(ty))
            # What has a name is another type in another module.
            if "%" in text:
                return size
            self.sizes[text] = size
        return self.sizes[text]

    def compile_subroutine(
        self, _builder: Any, impl: Any, sig: Any, locals: Any = None, flags: Any = None, caching: bool = True
    ) -> Any:
        """Numba's hook: Python functions in its own implementations go into the same library as everything else."""
        del locals, flags  # as Numba's default: those of the session
        typing = self.typing_context
        subroutines = typing.session.subroutines
        key = (impl.__code__, sig) if caching and not impl.__closure__ else object()
        if key not in subroutines:
            subroutines[key] = _compile(typing, impl, sig.args, sig.return_type)
        return subroutines[key]

    def create_cpython_wrapper(self, library: Any, fndesc: Any, env: Any, call_helper: Any, release_gil: bool = False) -> None:
        """Numba's hook, for what Python calls."""
        module = self.create_module("wrapper")
        kind = self.call_conv.get_function_type(fndesc.restype, fndesc.argtypes)
        function = ir.Function(module, kind, fndesc.llvm_func_name)
        # The arguments are alive until it returns, so that nobody need count them.
        target, watched = self.subtarget(enable_nrt=False), self.typing_context.session.watched
        Wrapper(target, module, function, fndesc, env, call_helper, release_gil, watched=watched).build()
        library.add_ir_module(module)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """Numba's hook, before machine code is made: what only this library calls need not exist by itself."""
        apart = self.typing_context.session.never_inlined
        visible = (fndesc.llvm_func_name, fndesc.llvm_cpython_wrapper_name)
        for function in numba.final_module(library).functions:
            if not function.is_declaration and function.name not in visible:
                function.linkage = "internal"
            if function.name in apart:
                function.add_function_attribute("noinline")
        return super().get_executable(library, fndesc, env)

    def atomic_float_add(self, builder: Any, pointer: Any, value: Any) -> Any:
        """``*pointer += value`` as one step; returns the old value."""
        return builder.atomic_rmw("fadd", pointer, value, "monotonic")

    def fence(self, builder: Any) -> None:
        """What was stored before it is seen before what is stored after it."""
        builder.fence("seq_cst")


def _make_typing(float_type: str) -> _Typing:
    llvmlite.free_passes()
    typing = _Typing()
    typing.float_type = getattr(types, float_type)
    typing._words = {}
    typing.special = intrinsic_types()
    typing.target = _Target(typing, "cpu")
    typing.target.sizes = {}
    typing.refresh()
    typing.target.refresh()
    return typing


_COMPILERS = Compilers(_make_typing)
# What was compiled lately, by meaning, with the function that keeps the meaning's objects alive.
_LATELY: OrderedDict[object, tuple[Compiled, Function]] = OrderedDict()


# --- typing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Recorder:
    """A function of code that is only typed: tells the type of its operand to ``note``, which answers with its own type."""

    note: Callable[[Any], Any]


def _recorder_word(recorder: Recorder) -> Intrinsic:
    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        (item,) = args
        check_scalar(context, item)
        return signature(recorder.note(plain(item)), plain(item))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        raise AssertionError("code with a recorder is only typed")

    return Intrinsic("scalar", typer, emit)


def dtype_type(dtype: str) -> Any:
    """The Numba type of a NumPy dtype name."""
    return from_dtype(np.dtype(dtype))


def literal_type(value: bool | float, float_type: str) -> Any:
    """The Numba type of a Python number: a float takes F."""
    kinds = {bool: types.boolean, int: types.int64, float: getattr(types, float_type)}
    return kinds[type(value)]


def index_tuple_type(count: int) -> Any:
    """The Numba type of the tuple of loop variables."""
    return types.UniTuple(types.int64, count)


def _annotate(state: Any) -> None:
    """What ``expressions`` looks at of Numba's annotation, which is a text besides."""
    state.type_annotation = SimpleNamespace(
        filename=state.func_ir.loc.filename, blocks=state.func_ir.blocks, typemap=state.typemap
    )


class _Lower(FastLower, numba.LocalValues, Lower):
    """Numba's hook."""

    package = "numba.core"


class _FastLowering(NativeLowering):
    """Numba's pass."""

    lowering_class = _Lower


def _legalize(state: Any) -> None:
    """Numba's pass, for functions that count references."""
    if counts_references(state):
        IRLegalization().run_pass(state)
    else:
        state.targetctx = state.targetctx.subtarget(enable_nrt=False)


def _lower(state: Any) -> None:
    (NativeLowering if state.targetctx.enable_nrt else _FastLowering)().run_pass(state)


class _Compiler(FastPipeline, compiler.Compiler):
    """Numba's hook for a pipeline."""

    package = "numba.core"
    instead: ClassVar[Any] = {AnnotateTypes: _annotate, IRLegalization: _legalize, NativeLowering: _lower}


class _UpToTypes(compiler.CompilerBase):
    """Numba's pipeline up to the types of all variables."""

    def define_pipelines(self) -> list[Any]:
        """Numba's hook."""
        manager = compiler.DefaultPassBuilder.define_untyped_pipeline(self.state)
        manager.add_pass(NopythonTypeInference, "types")
        manager.add_pass(_Typed, "done")
        manager.finalize()
        return [manager]


class _Typer(FastPipeline, _UpToTypes):
    """Numba's hook for that."""

    package = "numba.core"


@register_pass(mutates_CFG=False, analysis_only=True)
class _Typed(AnalysisPass):
    """The end of the pipeline: Numba wants some result."""

    _name = "qgraph_typed"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Numba's hook."""
        _annotate(state)
        state["cr"] = compiler.compile_result(
            typing_context=state.typingctx, target_context=state.targetctx, type_annotation=state.type_annotation
        )
        return False


def infer(function: Function, argument_types: Sequence[Any], *, float_type: str) -> None:
    """Type ``function`` and what it calls, for the sake of the recorders in it.

    Raises:
        KernelTypeError: Numba cannot type it.
    """
    _typed(function, argument_types, float_type)


def expressions(function: Function, argument_types: Sequence[Any], *, float_type: str) -> Iterator[tuple[str, int, Any]]:
    """File, line and type of everything that ``function``, and what it calls, computes.

    Raises:
        KernelTypeError: Numba cannot type it.
    """
    for annotation in _typed(function, argument_types, float_type):
        for statement in (each for block in annotation.blocks.values() for each in block.body):
            if isinstance(statement, numba_ir.Assign) and isinstance(statement.value, numba_ir.Expr):
                yield annotation.filename, statement.loc.line, annotation.typemap[statement.target.name]


def _typed(function: Function, argument_types: Sequence[Any], float_type: str) -> list[Any]:
    """Numba's annotations of ``function`` and of what it calls."""
    typing = _COMPILERS.get(float_type)
    session = Session(library=None, flags=_flags(fastmath=False))
    with kernel_errors(function, session.owners), global_compiler_lock, target_override("cpu"):
        session.library = typing.target.codegen().create_library(function.name)
        typing.session = session
        try:
            whole = compiler.compile_extra(
                typing,
                typing.target,
                python_function(function),
                tuple(argument_types),
                None,
                session.flags,
                {},
                library=session.library,
                pipeline_class=_Typer,
            )
        finally:
            typing.target.forget(session)
            typing.session = None
    return [each.type_annotation for each in (whole, *session.compiled)]


# --- compiling --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A kernel that was compiled: what Python calls, and what ``object_code.code_of`` keeps of it."""

    call: Callable[..., bool]
    library: Any
    entry: str
    environments: Mapping[str, Any]


def compile_control(
    control: Function,
    argument_types: Sequence[Any],
    *,
    watched: int,
    float_type: str,
    fastmath: bool,
) -> Compiled:
    """Compile a kernel's control function, with all it calls, to one callable that releases the GIL: ``Wrapper``.

    Functions of one meaning are compiled once: those of a notebook's cell that runs again, or of a factory.

    Args:
        control: calls ``Function``s directly, and ``ParallelFunction``s as ``f(chunks, *args)``.
        argument_types: Numba types, from ``numba_types.numba_type``; the callable takes exactly these, and an address.
        watched: how many of the arguments, the first ones, have the arrays that the words at the address are about.
        float_type: F of the number rules, "float32" or "float64".
        fastmath: let LLVM reassociate and ignore nan.

    Raises:
        KernelTypeError: Numba cannot compile it.
    """
    typing = _COMPILERS.get(float_type)
    start_threads()
    add_symbols(OWN)
    with global_compiler_lock:
        key = structural_key(control), tuple(argument_types), watched, float_type, fastmath
        if key not in _LATELY:
            _LATELY[key] = _compile_control(typing, control, argument_types, watched, fastmath), control
        _LATELY.move_to_end(key)
        if len(_LATELY) > MAX_LATELY:
            _LATELY.popitem(last=False)
        return _LATELY[key][0]


def forget() -> None:
    """Let go of what was compiled lately."""
    with global_compiler_lock:
        _LATELY.clear()


def _compile_control(
    typing: _Typing, control: Function, argument_types: Sequence[Any], watched: int, fastmath: bool
) -> Compiled:
    session = Session(library=None, flags=_flags(fastmath), watched=watched)
    with kernel_errors(control, session.owners), global_compiler_lock, target_override("cpu"):
        # An engine gives nothing of its memory back before it goes, so each kernel has one of its own.
        numba.set_codegen(typing.target, JITCPUCodegen(control.name))
        session.library = library = Library(typing.target.codegen(), control.name)
        library.enable_object_caching()
        typing.session = session
        try:
            compiled = _compile(typing, python_function(control), tuple(argument_types), None, entry=True)
            environments = _set_environments(typing.target, session)
        finally:
            typing.target.forget(session)
            typing.session = None
        return Compiled(compiled.entry_point, library, compiled.fndesc.llvm_cpython_wrapper_name, environments)


def _flags(fastmath: bool) -> Any:
    flags = numba.quick_flags(compiler.Flags)()
    flags.error_model = "numpy"
    flags.nrt = True
    flags.no_cfunc_wrapper = True
    flags.enable_looplift = False
    flags.enable_pyobject = False
    flags.force_pyobject = False
    flags.fastmath = fastmath
    return flags


def _compile(
    typing: _Typing, function: Any, args: tuple[Any, ...], result: Any, *, entry: bool = False, noalias: bool = False
) -> Any:
    session = typing.session
    assert session is not None
    flags = session.flags.copy()
    # Only the entry is finished to machine code; the rest are parts of its library.
    flags.no_compile = not entry
    flags.no_cpython_wrapper = not entry
    flags.release_gil = entry
    flags.noalias = noalias
    compiled = compiler.compile_extra(
        typing, typing.target, function, args, result, flags, {}, library=session.library, pipeline_class=_Compiler
    )
    session.compiled.append(compiled)
    return compiled


def _set_environments(target: Any, session: Session) -> dict[str, Any]:
    """Give each function the Python objects that it refers to, as ``print`` does. Numba does it for the entry only.

    Returns them by name.
    """
    library = session.library
    present = {variable.name for variable in numba.final_module(library).global_variables}
    found = {target.get_env_name(compiled.fndesc): compiled.environment for compiled in session.compiled}
    for name in found.keys() & present:
        library.codegen.set_env(name, found[name])
    # The machine code keeps plain pointers; the entry point owns the library.
    library.environments = list(found.values())
    return found
