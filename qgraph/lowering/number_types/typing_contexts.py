"""Type promotion in Numba's typing and target contexts, as mixins of those of the CPU and of CUDA."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import field
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numba.core.errors import NumbaError, TypingError

from qgraph import forks
from qgraph.captured_state import numba_function
from qgraph.compat import numba
from qgraph.ir.functions import Function, ParallelFunction
from qgraph.lowering.number_types.ambiguous_integers import Either, bare, beyond, on_a_path
from qgraph.lowering.number_types.compile_errors import NO_TEXT
from qgraph.lowering.number_types.long_ranges import LongRange, iterator_of, length_of, next_of_range
from qgraph.lowering.number_types.number_llvm import Emitter, half_truth, make_complex, types
from qgraph.lowering.number_types.rounded_floats import Rounded, meeting, unfit
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

if TYPE_CHECKING:
    _Context = Any
else:
    _Context = object
from qgraph.lowering.number_types.type_promotion import (
    DeviceFunction,
    NumberError,
    OperationType,
    TypingRule,
    is_number,
    join,
    plain,
)

_Compiler = TypeVar("_Compiler")


@dataclass(slots=True)
class Compilers(Generic[_Compiler]):
    """The one compiler of each F in this process, which ``make`` makes; they are expensive to make."""

    make: Callable[[str], _Compiler]
    lock: RLock = field(default_factory=forks.rlock)
    by_float: dict[str, _Compiler] = field(default_factory=dict)

    def get(self, float_type: str) -> _Compiler:
        """That of ``float_type``; in a forked child that must not compile an error."""
        forks.FORKS.refuse_to_compile()
        with self.lock:
            if float_type not in self.by_float:
                self.by_float[float_type] = self.make(float_type)
            return self.by_float[float_type]


@dataclass(slots=True)
class Session:
    """What belongs to one compilation: the functions compiled for it, by identity, and where their code goes."""

    library: Any
    flags: Any
    words: dict[int, Any] = field(default_factory=dict)
    # The functions that overloads gave, by template and argument types.
    overloads: dict[object, Any] = field(default_factory=dict)
    # The templates of a function that are compiled from Python.
    templates: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    # The functions inside Numba's own implementations.
    subroutines: dict[object, Any] = field(default_factory=dict)
    # How to call each compiled function, by its key.
    descriptors: dict[object, Any] = field(default_factory=dict)
    # Every function, in the order in which it was compiled.
    compiled: list[Any] = field(default_factory=list)
    # Keeps alive what the keys of words were made from.
    owners: list[object] = field(default_factory=list)
    # The Python functions whose array arguments share no memory.
    disjoint: set[object] = field(default_factory=set)
    # Those that are not inlined, and the names under which LLVM knows them.
    separate: set[object] = field(default_factory=set)
    never_inlined: set[str] = field(default_factory=set)
    # Of the arguments that Python passes, how many there are, the first ones, whose arrays a repeated call looks at.
    watched: int = 0


class NumberTyping(_Context):
    """Mixin of a Numba typing context. The class that uses it sets ``float_type``, ``typing_rules`` and ``typing_error``,
    and defines ``make_signature``, ``compile_function`` and ``special_word``.
    """

    float_type: Any
    # id of a value -> (the value, what it means)
    typing_rules: Mapping[int, tuple[object, TypingRule]]
    session: Session | None = None
    _words: dict[int, OperationType]

    @property
    def complex_type(self) -> Any:
        """The complex type of F."""
        return types.complex64 if self.float_type == types.float32 else types.complex128

    def resolve_value_type(self, value: Any) -> Any:
        """Numba's hook: the type of a global, a literal or an operator."""
        if type(value) is float:
            return self.float_type
        if type(value) is complex:
            return self.complex_type
        if type(value) is tuple and value:
            return types.BaseTuple.from_types(tuple(self.resolve_value_type(item) for item in value))
        entry = self.typing_rules.get(id(value))
        if entry is not None:
            return self._word(value, entry[1])
        function = _python_function(value)
        if function is not None:
            return self.function_word(function)
        special = self.special_word(value)
        if special is not None:
            return special
        found = super().resolve_value_type(value)
        ours = isinstance(value, np.ufunc) or getattr(value, "__module__", None) == "math"
        return self._word(value, None) if isinstance(found, types.Function) and (ours or numba.overloads(found)) else found

    def _word(self, value: Any, meaning: TypingRule | None) -> OperationType:
        word = self._words.get(id(value))
        if word is None:
            try:
                native = super().resolve_value_type(value)
            except ValueError:
                native = None
            word = self._words[id(value)] = OperationType(value, value_name(value), meaning, native)
        return word

    def function_word(self, function: Any) -> Any:
        """The type of a Python function (or a ``program.Function``) within the current compilation."""
        session = self.session
        assert session is not None, "a function is compiled outside a session"
        word = session.words.get(id(function))
        if word is None:
            python = python_function(function) if isinstance(function, Function) else function
            word = session.words[id(function)] = DeviceFunction(python)
            session.owners.append(function)
        return word

    def resolve_function_type(self, func: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """Numba's hook: the signature of a call. Adds ``numpy.complex64(real, imaginary)``, which Numba lacks."""
        if not isinstance(func, DeviceFunction | OperationType):
            args = tuple(map(bare, args))
        if func == "print_item" and not _has_text(args[0]):
            raise self.typing_error(f"{_kind_of(args[0])} {NO_TEXT}")
        if any(isinstance(arg, Rounded) for arg in args):
            args = self._of_rounded(func, args)
        if _makes_complex(func) and len(args) == 2 and not kws:
            return self.make_signature(func.instance_type, *[func.instance_type.underlying_float] * 2)
        try:
            return super().resolve_function_type(func, args, kws)
        except TypingError as error:
            if isinstance(error, self.typing_error):
                raise
            # Numba's own types raise its own class. Another target's inference adds the line to errors of the target's alone.
            raise self.typing_error(str(error)) from error

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        """Numba's hook: the signature of a store into an array."""
        refused = unfit(value, getattr(target, "dtype", None), "an array of integers is given")
        if refused is not None:
            raise self.typing_error(refused)
        return super().resolve_setitem(target, bare(index), bare(value))

    def _of_rounded(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call, of which some are ``Rounded``, as the function takes them."""
        if isinstance(func, DeviceFunction | OperationType) or getattr(func, "keeps_rounded", False):
            return args
        if isinstance(func, types.NumberClass):
            refused = unfit(args[0], func.instance_type, f"{func.instance_type} is made of")
            if refused is not None:
                raise self.typing_error(refused)
        return tuple(map(plain, args))

    def overload(self, function: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """The Python function that ``numba.extending.overload`` gives for these types, compiled as any other, or None.

        Numba itself would compile it in its own contexts, where ours could not find it.
        """
        assert self.session is not None
        templates = self.session.templates.get(function)
        if templates is None:
            templates = self.session.templates[function] = numba.overloads(function)
        for template in templates:
            key = (template, args, tuple(kws.items()))
            if key not in self.session.overloads:
                try:
                    self.session.overloads[key] = _implementation(template, args, kws)
                except NumbaError:
                    # It refused these types; another one, or Numba's own typing, may take them.
                    self.session.overloads[key] = None
            found = self.session.overloads[key]
            if found is not None:
                return self.function_word(found)
        return None

    def unify_pairs(self, first: Any, second: Any) -> Any:
        """Numba's hook: the type of a variable that holds both."""
        if first != second and is_number(first) and is_number(second):
            try:
                return on_a_path(meeting(join(first, second), (first, second)), (first, second))
            except NumberError:
                return beyond((first, second)) or super().unify_pairs(plain(first), plain(second))
        for one, other in ((first, second), (second, first)):
            # What Numba makes of them has no code for what tuples and arrays are asked.
            if one == types.none and (is_number(other) or isinstance(other, types.BaseTuple | types.Array)):
                what = plain(other) if is_number(other) else "a tuple" if isinstance(other, types.BaseTuple) else "an array"
                raise self.typing_error(f"a value is None on one path and {what} on another")
        return super().unify_pairs(first, second)


class NumberTarget(_Context):
    """Mixin of a Numba target context: finds the code that a word chose."""

    # Whether library functions are CUDA's libdevice.
    libdevice = False

    def cast(self, builder: Any, val: Any, fromty: Any, toty: Any) -> Any:
        """Numba's hook: the code of a conversion."""
        source, target = (item.base if isinstance(item, Rounded | Either) else item for item in (fromty, toty))
        return val if source == target else super().cast(builder, val, source, target)

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Numba's hook: the code of a call."""
        if isinstance(fn, OperationType):
            found = fn.implementation(sig)
            if isinstance(found, types.Type):
                return self.get_function(found, sig)
            return Emitted(self, found, sig.replace(return_type=plain(sig.return_type)))
        if fn == "getiter" and isinstance(sig.args[0], LongRange):
            return Emitted(self, iterator_of, sig)
        if getattr(fn, "typing_key", None) is len and isinstance(sig.args[0], LongRange):
            return Emitted(self, length_of, sig)
        if fn == "iternext" and self.libdevice and sig.args[0] in (types.range_iter32_type, types.range_iter64_type):
            return Emitted(self, next_of_range, sig)
        if _makes_complex(fn) and len(sig.args) == 2:
            return Emitted(self, make_complex, sig)
        if hasattr(fn, "emit"):
            return Emitted(self, fn.emit, sig)
        if isinstance(fn, DeviceFunction):
            return super().get_function(fn.get_impl_key(sig), sig, _firstcall)
        if sig.args == (types.float16,) and getattr(fn, "typing_key", None) is bool:
            # Numba's own compares the bits, which are an integer for LLVM, with a float.
            return Emitted(self, half_truth, sig)
        return super().get_function(fn, sig, _firstcall)

    def forget(self, session: Session) -> None:
        """Let go of the functions of a compilation: Numba would find them by their keys, and nobody has those any more."""
        words = {word.key for word in session.words.values()}
        entries = {each.entry_point for each in session.compiled}
        known = numba.definitions(self)
        for key in [key for key in known if key in entries or (type(key) is tuple and key and key[0] in words)]:
            del known[key]
        numba.forget_types(self, set(session.words.values()))


@dataclass(frozen=True, slots=True)
class Emitted:
    """An emitter as Numba's lowering calls it."""

    context: Any
    emit: Emitter
    signature: Any
    libs: tuple[Any, ...] = ()

    def __call__(self, builder: Any, args: Any, loc: object = None) -> Any:
        """Numba's hook: emit it."""
        return self.emit(self.context, builder, self.signature, args)


def _implementation(template: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
    overload = numba.overload_function(template)
    choices = [(args, kws), (tuple(map(plain, args)), {name: plain(arg) for name, arg in kws.items()})]
    for choice, names in choices if template.prefer_literal else reversed(choices):
        try:
            inspect.signature(overload).bind(*choice, **names)
        except TypeError:
            continue
        found = overload(*choice, **names)
        if inspect.isfunction(found):
            return found
    return None


def _has_text(item: Any) -> bool:
    """Whether every backend can print a value of this type."""
    if isinstance(item, types.BaseTuple):
        return not isinstance(item, types.BaseNamedTuple) and all(map(_has_text, item.types))
    return isinstance(item, types.Boolean | types.Integer | types.Float | types.UnicodeType | types.StringLiteral)


def _kind_of(item: Any) -> str:
    if isinstance(item, types.Array):
        return "an array"
    return "a complex number" if isinstance(item, types.Complex) else "what is neither a number nor a text"


def _makes_complex(item: Any) -> bool:
    return isinstance(item, types.NumberClass) and isinstance(item.instance_type, types.Complex)


def value_name(value: Any) -> str:
    """How a message names a function: ``numpy.sqrt``, ``max``."""
    name = getattr(value, "__name__", str(value))
    if isinstance(value, np.ufunc):
        return f"numpy.{name}"
    module = getattr(value, "__module__", None) or ""
    return name if module in ("", "builtins", "_operator") else f"{module}.{name}"


def _python_function(value: Any) -> Any:
    """The function that a value of ``names`` is compiled from: a Function itself, a Numba dispatcher's Python function."""
    if isinstance(value, Function):
        return value
    if isinstance(value, ParallelFunction):
        return None
    return numba_function(value)


def python_function(function: Function, names: Mapping[str, object] | None = None) -> Any:
    """The Python function of a ``program.Function``, with the user's file and line numbers, not yet compiled by Numba."""
    tree = copied(function.tree)
    tree.decorator_list, tree.returns = [], None
    for argument in nodes_of(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    module = ast.fix_missing_locations(ast.Module(body=[tree], type_ignores=[]))
    names = function.names if names is None else names
    namespace: dict[str, Any] = {"__name__": "qgraph.generated", **names}
    with warnings.catch_warnings():
        # Python warned about the user's source when it was first compiled.
        warnings.simplefilter("ignore", SyntaxWarning)
        code = compile(module, function.file, "exec")
    exec(code, namespace)
    python = namespace[tree.name]
    if tree.name in names:  # the def replaced a name that the body means
        namespace[tree.name] = names[tree.name]
    return python
