"""Type promotion: NumPy 2's rules with weak Python numbers, as mixins for Numba's typing and target contexts.

Numba sees every operator and builtin as a function; here each is an ``OperationType``, whose ``Rule`` takes the operand types
and chooses in which type to compute, and with which code. Where a rule has no opinion (arrays, tuples, strings), Numba's own
typing goes on. Both Numba's CPU target and numba-cuda's use these: their type objects are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.datamodel import default_manager, models
from numba.core.errors import NumbaError
from numba.np.numpy_support import as_dtype, from_dtype

from qgraph.compat import numba
from qgraph.lowering.number_types import ambiguous_integers, rounded_floats, vectors
from qgraph.lowering.number_types.ambiguous_integers import Either
from qgraph.lowering.number_types.compile_errors import of_own_code
from qgraph.lowering.number_types.number_llvm import Emitter, types
from qgraph.lowering.number_types.rounded_floats import Rounded
from qgraph.operations.table import operation
from qgraph.records import dataclass

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


# Takes the typing context (``typing_contexts.NumberTyping``) and the operand types.
Rule = Callable[[Any, tuple[Any, ...]], Choice | None]


@dataclass(frozen=True, slots=True)
class PythonImpl:
    """A word that means a plain Python function, compiled under the same rules. ``alike``: of operands of one type."""

    function: Callable[..., Any]
    alike: bool = False


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


_NARROW_SUM = (
    "sum() of integers with fewer than 64 bits wraps around in Python, as their type does: np.sum() adds them up in 64 bits, "
    "and a loop as it is written"
)


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
        of_vectors = vectors.meaning(self._value, args, is_number)
        if of_vectors is not None:
            if isinstance(of_vectors, str):
                raise context.typing_error(of_vectors)
            return self._delegate(context, context.function_word(of_vectors), args, kws)
        refused = next((arg for arg in args if not self._takes(plain(arg))), None)
        if refused is not None:
            raise context.typing_error(f"{self.name} of {plain(refused)}: kernels have it of {self._operation.takes} only")
        if self._meaning is not None and all(is_number(arg) for arg in (*args, *kws.values())):
            signature = self._from_meaning(context, args, kws)
            if signature is not None:
                return signature
        return self._from_numba(context, args, kws)

    def _takes(self, item: Any) -> bool:
        """Whether every backend has code for numbers of this type; what is no number is another's matter."""
        if not is_number(item):
            return True
        match self._operation.takes:
            case "integers":
                return is_integral(item)
            case "real numbers":
                return not isinstance(item, types.Complex)
            case "numbers that are no booleans":
                return not isinstance(item, types.Boolean)
        return True

    def _from_meaning(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        meaning = self._meaning
        if isinstance(meaning, PythonImpl):
            self._check_either(context, args)
            if meaning.alike:
                args = _joined(context, args)
            return self._delegate(context, context.function_word(meaning.function), args, kws)
        if isinstance(meaning, Alias):
            if any(isinstance(arg, types.Complex) for arg in args):
                return self._delegate(context, _other_word(context, meaning.other), args, kws)
            meaning = meaning.rule
        if meaning is None or kws:
            return None
        try:
            choice = self._of_either(meaning, context, args)
            choice = self._of_rounded(choice, args, self._narrow_results(meaning, context, choice, args))
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
        if ambiguous_integers.are_literals(args):
            return _folded(rule(context, args), ambiguous_integers.of_literals(self._value, args))
        if not ambiguous_integers.holds(args) or self._operation.takes_ambiguous:
            return rule(context, args)
        choice = rule(context, tuple(map(ambiguous_integers.bare, args)))
        if choice is None:
            return None
        try:
            cases = ambiguous_integers.cases(args)
            differ = [case for case in cases if getattr(rule(context, case), "result", None) != choice.result]
        except NumberError as error:
            raise NumberError(ambiguous_integers.refusal(args)) from error
        if not differ:
            return choice
        result = ambiguous_integers.of_pythons(self._value, choice.result, args)
        if result is None or not all(map(ambiguous_integers.are_pythons, differ)):
            raise NumberError(ambiguous_integers.refusal(args))
        return replace(choice, result=result)

    def _check_either(self, context: Any, args: tuple[Any, ...]) -> None:
        """NumPy's functions of Python integers give int64, which is left to those with a rule."""
        if ambiguous_integers.holds(args) and _is_numpys(self._value):
            raise context.typing_error(ambiguous_integers.refusal(args))
        if any(True for _ in rounded_floats.cases(args)) and _is_numpys(self._value):
            raise context.typing_error(rounded_floats.narrow_refusal(args))

    def _of_rounded(self, choice: Choice | None, args: tuple[Any, ...], narrow: tuple[Any, ...]) -> Choice | None:
        """Operations that give integers of integers: what they make of a ``Rounded`` and integers, is one too."""
        if choice is not None and narrow:
            return replace(choice, result=rounded_floats.meeting(choice.result, (*args, *narrow)))
        loose = any(isinstance(arg, Rounded) for arg in args)
        if choice is None or choice.emit is None or not loose or not self._operation.integers_of_integers:
            return choice
        return replace(choice, result=rounded_floats.losing(choice.result, args)) if all(map(_may_be_integer, args)) else choice

    def _narrow_results(self, rule: Rule, context: Any, choice: Choice | None, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The narrow types of what is else a float, where a number may be a narrow integer; one that may wrap is refused."""
        results = []
        if choice is None or not isinstance(choice.result, types.Float) or self._operation.takes_ambiguous:
            return ()
        for case in rounded_floats.cases(args):
            try:
                found: Any = getattr(rule(context, case), "result", None)
            except NumberError as error:
                raise NumberError(rounded_floats.narrow_refusal(args)) from error
            if isinstance(found, types.Boolean):
                # Of truths: a product, or the least or greatest, is the number that it is of 0 and 1.
                results.append(found)
            elif is_integral(found) and found.bitwidth < 64:
                if not ambiguous_integers.keeps(self._operation.interval, found, case):
                    raise NumberError(rounded_floats.narrow_refusal(args))
                results.append(found)
        return tuple(results)

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
        if self._value is sum and _wraps(args):
            raise context.typing_error(_NARROW_SUM)
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


def _wraps(args: tuple[Any, ...]) -> bool:
    """Whether Python's ``sum`` adds up in integers with fewer than 64 bits; of booleans NumPy makes an int64."""
    item, starts = (*args, types.none)[0], args[1:]
    if not all(isinstance(start, types.IntegerLiteral) for start in starts):
        return False
    found = item.types if isinstance(item, types.BaseTuple) else [getattr(item, "dtype", types.none)]
    return any(is_integral(each) and each.bitwidth < 64 for each in map(plain, found) if each != types.boolean)


def _joined(context: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        return (join_all(args),) * len(args)
    except NumberError as error:
        raise context.typing_error(str(error)) from error


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


def without_keyword_only(signature: inspect.Signature) -> inspect.Signature:
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
        signature = context.make_signature(result, *folded).replace(pysig=without_keyword_only(self.signature))
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


if TYPE_CHECKING:
    _Context = Any
else:
    _Context = object


def _without_overloads(function: Any) -> Any:
    """The same Numba function with the templates that are not compiled from Python; itself if there are none."""
    overloads = numba.overloads(function)
    rest = tuple(template for template in getattr(function, "templates", ()) if template not in overloads)
    return types.Function(rest) if overloads and rest else function
