"""Type promotion: NumPy 2's rules with weak Python numbers, as mixins for Numba's typing and target contexts.

Numba sees every operator and builtin as a function; here each is an ``OperationType``, whose ``Rule`` takes the operand types
and chooses in which type to compute, and with which code. Where a rule has no opinion (arrays, tuples, strings), Numba's own
typing goes on. Both Numba's CPU target and numba-cuda's use these: their type objects are the same.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.datamodel import default_manager, models
from numba.core.errors import NumbaError, TypingError
from numba.np.numpy_support import as_dtype, from_dtype

from qgraph.captured_state import numba_function
from qgraph.compat import numba
from qgraph.ir.program import Function, ParallelFunction
from qgraph.lowering.numbers import ambiguous_integers
from qgraph.lowering.numbers.ambiguous_integers import Either, bare, on_a_path
from qgraph.lowering.numbers.compile_errors import of_own_code
from qgraph.lowering.numbers.long_ranges import LongRange, iterator_of
from qgraph.lowering.numbers.number_llvm import Emitter, half_truth, make_complex, types
from qgraph.lowering.numbers.rounded_floats import Rounded, meeting, refusal
from qgraph.operations.table import operation
from qgraph.source import copied

# mypy cannot see Numba's types; at run time Callable is the base of everything that can be called.
_Callable: Any = types.Callable
_Opaque: Any = types.Opaque


class NumberError(Exception):
    """Operand types that have no right answer; the text says what to write instead."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Compute with operands converted to ``args``, giving ``result``; ``emit`` is None where Numba's own code does it."""

    args: tuple[Any, ...]
    result: Any = None
    emit: Emitter | None = None


Rule = Callable[["NumberTyping", tuple[Any, ...]], Choice | None]


@dataclass(frozen=True, slots=True)
class PythonImpl:
    """A word that means a plain Python function, compiled under the same rules."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Alias:
    """A word that is another one for complex numbers: ``np.exp`` is then ``cmath.exp``."""

    rule: Rule
    other: object


TypingRule = Rule | PythonImpl | Alias

# --- joining ----------------------------------------------------------------------------------------------------------


def is_number(item: Any) -> bool:
    """Whether a Numba type, literal or not, is a boolean, integer, real or complex number."""
    return isinstance(item, types.Integer | types.Float | types.Complex | types.Boolean)


def is_integral(item: Any) -> bool:
    """Whether a Numba type is an integer or a boolean."""
    return isinstance(item, types.Integer | types.Boolean)


def plain(item: Any) -> Any:
    """The type without its literal value, and without what else is known of a number."""
    return item.base if isinstance(item, Rounded | Either) else types.unliteral(item)


def is_real(item: Any) -> bool:
    """Whether a Numba type is a real number whose code is emitted here: float16 and complex are Numba's."""
    return is_integral(item) or item in (types.float32, types.float64)


def join(left: Any, right: Any) -> Any:
    """The type in which two numbers meet.

    An integer or boolean gives way to any float; a literal that fits gives way to the other's integer type; of two other
    integers NumPy's promotion decides, but for int64, which may be a Python int: it gives way to uint64, and to no float.
    """
    a, b = plain(left), plain(right)
    if a == b:
        return a
    if isinstance(a, types.Complex) or isinstance(b, types.Complex):
        return _join_complex(a, b)
    if isinstance(a, types.Float) and isinstance(b, types.Float):
        return max(a, b, key=lambda item: item.bitwidth)
    if isinstance(a, types.Float) or isinstance(b, types.Float):
        return a if isinstance(a, types.Float) else b
    if isinstance(a, types.Boolean) or isinstance(b, types.Boolean):
        return b if isinstance(a, types.Boolean) else a
    if isinstance(left, types.IntegerLiteral) != isinstance(right, types.IntegerLiteral):
        return _join_literal(left, b) if isinstance(left, types.IntegerLiteral) else _join_literal(right, a)
    if {a, b} == {types.int64, types.uint64}:
        return types.uint64
    if types.int64 in (a, b):
        return types.int64
    return from_dtype(np.promote_types(as_dtype(a), as_dtype(b)))


def _join_literal(literal: Any, strong: Any) -> Any:
    if fits(literal.literal_value, strong):
        return strong
    raise NumberError(f"the Python integer {literal.literal_value} is out of bounds for {strong}")


def fits(value: int, integer: Any) -> bool:
    """Whether a Python int is a value of a Numba integer type."""
    return bool(integer.minval <= value <= integer.maxval)


def _join_complex(a: Any, b: Any) -> Any:
    wide = {types.complex128, types.float64}
    return types.complex128 if a in wide or b in wide else types.complex64


def join_all(items: tuple[Any, ...]) -> Any:
    """The type in which several numbers meet."""
    result = items[0]
    for item in items[1:]:
        result = join(result, item)
    return plain(result)


# --- words ------------------------------------------------------------------------------------------------------------


class OperationType(_Callable, _Opaque):
    """The Numba type of an operator, builtin or NumPy function: asks its rule, then Numba (``native``)."""

    def __init__(self, value: object, name: str, meaning: TypingRule | None, native: Any) -> None:
        self._identity = object()
        self._value = value
        self._meaning = meaning
        self._native = native
        self._operation = operation(value)
        self._choices: dict[tuple[Any, ...], Emitter | Any] = {}
        super().__init__(name=name)

    @property
    def key(self) -> object:
        """What makes two of these types equal."""
        return self._identity

    @property
    def templates(self) -> tuple[Any, ...]:
        """Numba's hook: what its own methods of arrays look for inlined code in."""
        return tuple(getattr(self._native, "templates", ()))

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """The signature of a call; the code that goes with it is kept for ``implementation``."""
        if self._meaning is not None and all(is_number(arg) for arg in (*args, *kws.values())):
            signature = self._from_meaning(context, args, kws)
            if signature is not None:
                return signature
        return self._from_numba(context, args, kws)

    def _from_meaning(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        meaning = self._meaning
        if isinstance(meaning, PythonImpl):
            self._check_either(context, args)
            return self._delegate(context, context.function_word(meaning.function), args, kws)
        if isinstance(meaning, Alias):
            if any(isinstance(arg, types.Complex) for arg in args):
                return self._delegate(context, _other_word(context, meaning.other), args, kws)
            meaning = meaning.rule
        if meaning is None or kws:
            return None
        try:
            choice = self._of_rounded(self._of_either(meaning, context, args), args)
        except NumberError as error:
            raise context.typing_error(str(error)) from error
        if choice is None:
            return None
        if choice.emit is None:
            return self._from_numba(context, choice.args, {})
        self._choices[choice.args] = choice.emit
        return context.make_signature(choice.result, *choice.args)

    def _of_either(self, rule: Rule, context: Any, args: tuple[Any, ...]) -> Choice | None:
        """What ``rule`` says, whichever numbers it is that are ``Either``."""
        if ambiguous_integers.is_pythons(args):
            return _folded(rule(context, args), ambiguous_integers.of_literals(self._value, args))
        if not ambiguous_integers.holds(args) or self._operation.takes_ambiguous:
            return rule(context, args)
        first, *others = ambiguous_integers.cases(args)
        choice = rule(context, first)
        if choice is None:
            return None
        try:
            differ = [case for case in others if getattr(rule(context, case), "result", None) != choice.result]
        except NumberError as error:
            raise NumberError(ambiguous_integers.refusal(args)) from error
        if not differ:
            return choice
        result = ambiguous_integers.of_pythons(self._value, choice.result, args)
        if result is None or not all(map(ambiguous_integers.is_pythons, differ)):
            raise NumberError(ambiguous_integers.refusal(args))
        return replace(choice, result=result)

    def _check_either(self, context: Any, args: tuple[Any, ...]) -> None:
        """NumPy's functions of Python integers give int64, which is left to those with a rule."""
        if ambiguous_integers.holds(args) and _is_numpys(self._value):
            raise context.typing_error(ambiguous_integers.refusal(args))

    def _of_rounded(self, choice: Choice | None, args: tuple[Any, ...]) -> Choice | None:
        """Operations that give integers of integers: what they make of a ``Rounded`` and integers, is one too."""
        loose = any(isinstance(arg, Rounded) for arg in args)
        if choice is None or choice.emit is None or not loose or not self._operation.integers_of_integers:
            return choice
        return replace(choice, result=meeting(choice.result, args)) if all(map(_may_be_integer, args)) else choice

    def _from_numba(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        self._check_either(context, args)
        args = tuple(plain(arg) if isinstance(arg, Rounded | Either) else arg for arg in args)
        if self._native is None:
            raise context.typing_error(f"{self.name} does not take ({_shown(args, kws)}) here")
        args = self._as_defined(context, args)
        overload = context.overload(self._native, args, kws)
        if overload is None:
            return self._delegate(context, _without_overloads(self._native), args, kws)
        try:
            return self._delegate(context, overload, args, kws)
        except NumbaError as error:
            if not overload.function.__module__.startswith("numba."):
                raise
            raise context.typing_error(of_own_code(f"{self.name}({_shown(args, kws)})", error)) from error

    def _as_defined(self, context: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, float32 as F where ``math`` computes with Python's floats; no float16 comes out of integers."""
        if isinstance(self._value, np.ufunc) and args and all(map(is_integral, args)) and _makes_halves(self._value, args):
            raise context.typing_error(half_made(self.name, plain(args[0])))
        if getattr(self._value, "__module__", None) != "math":
            return args
        return tuple(context.float_type if arg == types.float32 else arg for arg in args)

    def _delegate(self, context: Any, word: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        signature = context.resolve_function_type(word, args, kws)
        if signature is not None:
            self._choices[signature.args] = word
        return signature

    def implementation(self, signature: Any) -> Emitter | Any:
        """What lowers a call with this signature: an emitter, or the function type that Numba lowers."""
        try:
            return self._choices[signature.args]
        except KeyError:
            # As Numba itself says that it has no code for a call.
            raise NotImplementedError(f"{self.name}{signature.args}") from None

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Numba's hook for its messages: no fixed signatures."""
        return [], True

    def get_impl_key(self, sig: Any) -> object:
        """Numba's hook: what finds the code."""
        return (self._identity, sig.args)


def half_made(name: str, kind: Any) -> str:
    """What to say where NumPy makes a float16 of integers."""
    found = f"{name} of {kind} is a float16 in NumPy, which kernels do not compute with"
    return f"{found}: convert it, as in {name}(numpy.float32(a))"


def _makes_halves(function: np.ufunc, args: tuple[Any, ...]) -> bool:
    given = tuple(as_dtype(plain(arg)) for arg in args)
    if len(given) != function.nin:
        return False
    try:
        return np.float16 in function.resolve_dtypes((*given, *(None,) * function.nout))[function.nin :]
    except TypeError:
        return False


def _folded(choice: Choice | None, result: Any) -> Choice | None:
    """Of literals a literal: what a name may be, before it is known that it may be NumPy's, takes the type of that."""
    known = choice is not None and choice.emit is not None and choice.result == types.int64 and result is not None
    return replace(choice, result=result) if choice is not None and known else choice


def _is_numpys(function: object) -> bool:
    return isinstance(function, np.ufunc) or (getattr(function, "__module__", None) or "").startswith("numpy")


def _may_be_integer(item: Any) -> bool:
    return is_integral(item) or isinstance(item, Rounded)


def _shown(args: tuple[Any, ...], kws: Mapping[str, Any]) -> str:
    return ", ".join([*(str(plain(arg)) for arg in args), *(f"{name}={plain(arg)}" for name, arg in kws.items())])


def _without_keyword_only(signature: inspect.Signature) -> inspect.Signature:
    """The same parameters, as Numba's lowering can bind them: it has no keyword-only ones."""
    parameters = [
        parameter.replace(kind=parameter.POSITIONAL_OR_KEYWORD) if parameter.kind is parameter.KEYWORD_ONLY else parameter
        for parameter in signature.parameters.values()
    ]
    return inspect.Signature(parameters, __validate_parameters__=False)


def _other_word(context: Any, other: object) -> Any:
    if isinstance(other, PythonImpl):
        return context.function_word(other.function)
    return context.resolve_value_type(other)


class DeviceFunction(_Callable, _Opaque):
    """The Numba type of a Python function that is compiled where it is called, once for each choice of argument types."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._identity = object()
        self.function = function
        self.signature = inspect.signature(function)
        self._compiled: dict[tuple[Any, ...], Any] = {}
        self._open: set[tuple[Any, ...]] = set()
        super().__init__(name=function.__name__)

    @property
    def key(self) -> object:
        """What makes two of these types equal."""
        return self._identity

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """The signature of a call; compiles the function for these argument types."""
        folded = tuple(types.unliteral(arg) for arg in self._fold(context, args, kws))
        if folded in self._compiled:
            return self._compiled[folded]
        if folded in self._open:
            raise context.typing_error(f"{self.name}() calls itself; recursion is not supported")
        if inspect.isgeneratorfunction(self.function):
            raise context.typing_error(
                f"{self.name}() is a generator, which cannot be compiled into a kernel: return the values"
            )
        self._open.add(folded)
        try:
            result = context.compile_function(self.function, folded, self.get_impl_key)
        finally:
            self._open.discard(folded)
        signature = context.make_signature(result, *folded).replace(pysig=_without_keyword_only(self.signature))
        self._compiled[folded] = signature
        return signature

    def _fold(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self.signature.bind(*args, **kws)
        except TypeError as error:
            raise context.typing_error(f"{self.name}(): {error}") from error
        folded: list[Any] = []
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                folded.append(types.BaseTuple.from_types(tuple(plain(arg) for arg in bound.arguments.get(name, ()))))
            elif parameter.kind is parameter.VAR_KEYWORD:
                raise context.typing_error(f"{self.name}() takes **{name}, which cannot be compiled")
            elif name in bound.arguments:
                folded.append(bound.arguments[name])
            else:
                folded.append(context.resolve_value_type(parameter.default))
        return tuple(folded)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Numba's hook for its messages: no fixed signatures."""
        return [], True

    def get_impl_key(self, sig: Any) -> object:
        """Numba's hook: what finds the code."""
        return (self._identity, sig.args)


default_manager.register(OperationType, models.OpaqueModel)
default_manager.register(DeviceFunction, models.OpaqueModel)


# --- contexts ---------------------------------------------------------------------------------------------------------


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


if TYPE_CHECKING:
    _Context = Any
else:
    _Context = object


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
        if isinstance(value, Rounded) and isinstance(getattr(target, "dtype", None), types.Integer):
            raise self.typing_error(refusal("an array of integers is given"))
        return super().resolve_setitem(target, bare(index), bare(value))

    def _of_rounded(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call, of which some are ``Rounded``, as the function takes them."""
        if isinstance(func, DeviceFunction | OperationType):
            return args
        if isinstance(func, types.NumberClass) and isinstance(func.instance_type, types.Integer):
            raise self.typing_error(refusal(f"{func.instance_type} is made of"))
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
                return super().unify_pairs(plain(first), plain(second))
        for one, other in ((first, second), (second, first)):
            if one == types.none and is_number(other):
                raise self.typing_error(f"a value is None on one path and {plain(other)} on another")
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
        words = {word._identity for word in session.words.values()}
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


def _without_overloads(function: Any) -> Any:
    """The same Numba function with the templates that are not compiled from Python; itself if there are none."""
    overloads = numba.overloads(function)
    rest = tuple(template for template in getattr(function, "templates", ()) if template not in overloads)
    return types.Function(rest) if overloads and rest else function


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
    for argument in ast.walk(tree.args):
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
