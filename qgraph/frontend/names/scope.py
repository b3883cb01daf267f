"""Names by identity: what a name means is what Python would find, never how it is spelled."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import ModuleType

import numpy as np

from qgraph.captured_state import CHANGING, Attributes, CompiledIn, numba_function
from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Binding, BoundFunc, LeafRef, Private, StructRef, Value, ViewRef
from qgraph.frontend.names.function_frame import Frame
from qgraph.frontend.names.program_builder import SHARED
from qgraph.frontend.names.static_eval import constant_of, is_static_call, known_test, static_value
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ArrayType, Leaf, is_csr, names_its_fields
from qgraph.ir.global_arrays import GlobalArray, GlobalArrayFound, Namespace, Place, holds_arrays, is_array
from qgraph.language import Func
from qgraph.operations.vectors import METHODS, Components
from qgraph.source import Span, as_written

_MISSING = object()
# What a dtype has that is a number or a string.
_OF_DTYPES = frozenset({"itemsize", "alignment", "num", "kind", "char", "name", "str"})

CUDA_HINT = "write the loop itself: qgraph chooses threads, blocks and atomics"


class Globals:
    """What a kernel uses of globals and closures.

    ``arrays`` are those that it was given as arguments, by place; None where they are values like any other.
    ``checks_indices``, ``rings``: as ``build_program`` says.
    """

    def __init__(
        self,
        arrays: Mapping[Place, Binding] | None = None,
        *,
        checks_indices: bool = False,
        rings: Namespace | None = None,
    ) -> None:
        self.arrays = arrays
        self.checks_indices = checks_indices
        self.rings = rings
        # Names that mean the same in every function.
        self.shared: dict[str, Binding] = {}
        self.used: set[Place] = set()
        self.compiled_in = CompiledIn()
        # What was asked of whole functions, which each of their bodies asks again.
        self.answers: dict[tuple[Callable[[SourceFunction], bool], SourceFunction], bool] = {}

    def enter(self, source: SourceFunction) -> None:
        """The function of ``source`` is compiled in.

        Its code is looked at when it is compiled, not at each call: to ask for it takes as long as a tenth of a call.

        Raises:
            KernelSyntaxError: it has other code than its source says.
        """
        if source.function.__code__ is not source.code:
            raise KernelSyntaxError(
                f"the code of {source.name}() was replaced after it was decorated",
                source.span,
                hint="decorate the function that has the new code",
            )

    def array(self, namespace: Namespace, key: str, value: object, node: ast.expr) -> Binding | None:
        """What a variable stands for that holds an array: an argument. None for anything else, which is compiled in.

        Raises:
            GlobalArrayFound: it is no argument yet.
        """
        if self.arrays is None or not is_array(value):
            return None
        array = GlobalArray(namespace, key, as_written(node))
        if array.place not in self.arrays:
            raise GlobalArrayFound(array)
        self.used.add(array.place)
        return self.arrays[array.place]

    def ring(self) -> Binding | None:
        """The array that takes what is published; None where nobody watches."""
        return (
            None if self.rings is None else self.array(self.rings, "ring", self.rings.get("ring", None), ast.Name("_progress"))
        )


class Scope:
    """The names of one function at one point: local bindings first, then closure, globals and builtins.

    Everything that is looked at outside of the function is recorded in ``globals_``: it was compiled in, and must still be the
    same when the kernel is called again. Arrays are arguments.
    """

    def __init__(
        self,
        source: SourceFunction,
        names: Mapping[str, Binding],
        globals_: Globals,
        frame: Frame | None = None,
        entry: Mapping[str, Binding] | None = None,
        caller: Scope | None = None,
    ) -> None:
        self.source = source
        self.names = dict(names)
        # What names meant where the loop's body or branch begins; nothing for a function.
        self.entry = entry or {}
        self.caller = caller
        # At kernel level: what is known of the function as a whole.
        self.frame = frame
        self._globals = globals_

    @property
    def file(self) -> str:
        """The file of the function."""
        return self.source.file

    @property
    def checks_indices(self) -> bool:
        """Whether somebody will look at the indices of views in bodies."""
        return self._globals.checks_indices

    @property
    def ring(self) -> Binding | None:
        """The array that takes what is published; None where nobody watches."""
        return self._globals.ring()

    def asked(self, question: Callable[[SourceFunction], bool], source: SourceFunction) -> bool:
        """The answer to a question that walks a whole function; it is walked once a program."""
        answers = self._globals.answers
        if (question, source) not in answers:
            answers[question, source] = question(source)
        return answers[question, source]

    def span(self, node: ast.AST) -> Span:
        """The place of a node of this function."""
        return Span.of(node, self.source.file)

    def error(self, found: str, node: ast.AST, hint: str, *, in_order: bool = False) -> KernelSyntaxError:
        """What is wrong at a node of this function; ``in_order`` as of ``KernelSyntaxError``."""
        error = KernelSyntaxError(found, self.span(node), hint=hint)
        error.in_order = in_order
        return error

    def inner(self, names: Mapping[str, Binding]) -> Scope:
        """The same function with some names bound anew, as in the body of a loop."""
        entry = {**self.names, **names}
        return Scope(self.source, entry, self._globals, self.frame, entry, self.caller)

    def of(self, source: SourceFunction, names: Mapping[str, Binding], frame: Frame | None = None) -> Scope:
        """The scope of another function, called from this one."""
        self._globals.enter(source)
        return Scope(source, names, self._globals, frame, caller=self)

    def bind(self, name: str, bound: Binding) -> None:
        """Let ``name`` stand for ``bound``: here, or in every function if it is such a name."""
        names = self._globals.shared if name.startswith(SHARED) else self.names
        names[name] = bound

    def name_for(self, value: object, text: str) -> str:
        """A name that stands for ``value`` in every function, which messages show as ``text``."""
        name = f"{SHARED}{text}"
        while (known := self._globals.shared.get(name)) is not None and not (isinstance(known, Value) and known.value is value):
            name += "'"
        self.bind(name, Value(value))
        return name

    def lookup(self, node: ast.Name) -> Binding:
        """What ``node`` stands for; ``KernelSyntaxError`` if nothing does."""
        bound = self.names.get(node.id) or self._globals.shared.get(node.id)
        if bound is not None:
            return bound
        if node.id in self.source.function.__code__.co_varnames:
            raise self.error(f"`{node.id}` is read before it is assigned", node, "assign it on every path before this line")
        source = self.source
        # A free variable without a value is no global.
        is_free = node.id in source.function.__code__.co_freevars
        outside = (source.closure,) if is_free else (source.globals, source.builtins)
        for namespace in outside:
            value = namespace.get(node.id, _MISSING)
            if value is not _MISSING:
                bound = self._globals.array(namespace, node.id, value, node)
                if bound is None:
                    self._globals.compiled_in.name(source.function, node.id, value)
                return bound or Value(value)
        if is_free:
            hint = "assign it in the function around before the kernel is called"
            raise self.error(f"`{node.id}` has no value yet", node, hint)
        raise self.error(f"the name `{node.id}` does not exist", node, self._suggestion(node.id))

    def static(self, node: ast.expr) -> Binding | None:
        """What a name, attribute chain or constant subscript stands for, if that is known at compile time."""
        match node:
            case ast.Name():
                return self.lookup(node)
            case ast.Attribute():
                base = self.static(node.value)
                return self._of_dtype(node) if base is None else self._attribute(base, node)
            case ast.Subscript():
                match self.static(node.value):
                    case StructRef() as base:
                        return self._item(base.type.cls, [*base.children.values()], node)
                    case Value(value=tuple(items)):
                        return self._item(tuple, [Value(each) for each in items], node)
            case ast.Call() if is_static_call(self, node):
                return static_value(self, node)
            case ast.Call(func=ast.Name() as name, args=[ast.Name() | ast.Attribute() | ast.Subscript() as held], keywords=[]):
                bound = self.lookup(name)
                whole = self.static(held) if isinstance(bound, Value) and bound.value is len else None
                if isinstance(whole, StructRef) and issubclass(whole.type.cls, tuple):
                    return Value(len(whole.children))
            case ast.IfExp():
                known = known_test(self, node.test)
                return None if known is None else self.static(node.body if known else node.orelse)
        return None

    def _of_dtype(self, node: ast.Attribute) -> Value | None:
        """What ``x.dtype`` of an array has: its type is known before anything runs."""
        if node.attr not in _OF_DTYPES or not isinstance(node.value, ast.Attribute) or node.value.attr != "dtype":
            return None
        match self.static(node.value.value):
            case (
                LeafRef(leaf=Leaf(type=ArrayType() as array))
                | ViewRef(leaf=Leaf(type=ArrayType() as array))
                | Private(array=ArrayType() as array)
            ):
                return Value(getattr(np.dtype(array.dtype), node.attr))
        return None

    def _attribute(self, base: Binding, node: ast.Attribute) -> Binding | None:
        if isinstance(base, StructRef):
            return self._field(base, node)
        if not isinstance(base, Value):
            return self._of_array(base, node)
        owner = base.value
        if isinstance(owner, np.ufunc) and node.attr == "outer":
            # A method, and another object each time.
            return None
        try:
            value = getattr(owner, node.attr, _MISSING)
        except ImportError as absent:
            raise self.error(f"`{as_written(node.value)}` has no attribute `{node.attr}`", node, str(absent)) from None
        if value is _MISSING:
            raise self._without(owner, node)
        if isinstance(owner, ModuleType):
            namespace = vars(owner) if node.attr in vars(owner) else Attributes(owner)
            bound = self._globals.array(namespace, node.attr, value, node)
            if bound is not None:
                return bound
        elif is_cuda_object(owner):
            raise self.error(f"`{as_written(node)}` is a CUDA intrinsic", node, CUDA_HINT)
        elif (method := self._of_object(base, node)) is not None:
            return method
        self.watch(owner, node.attr, value, node)
        return Value(value)

    def _of_array(self, base: Binding, node: ast.Attribute) -> Binding | None:
        """None; raise where ``base`` is an array, and no array has the attribute."""
        is_array = isinstance(base, LeafRef | ViewRef) and isinstance(base.leaf.type, ArrayType)
        if is_array and not hasattr(np.ndarray, node.attr):
            raise self._without(np.ndarray, node)
        return None

    def _without(self, owner: object, node: ast.Attribute) -> KernelSyntaxError:
        """The error for an attribute that ``owner`` does not have."""
        text = as_written(node.value)
        if owner is None or isinstance(owner, str):
            what = "None" if owner is None else "a text"
            return self.error(f"`{text}` is {what}, which has no `{node.attr}`", node, "pass an array for it")
        return self.error(f"`{text}` has no attribute `{node.attr}`", node, _suggested(text, node.attr, dir(owner)))

    def _of_object(self, base: Value, node: ast.Attribute) -> BoundFunc | None:
        """A method of an object that is no argument, None for a constant of it."""
        owner = base.value
        member = getattr(type(owner), node.attr, None)
        if names_its_fields(type(owner)):
            raise self.error(
                f"`{as_written(node.value)}` is a {type(owner).__name__} that is not an argument",
                node,
                "pass it as an argument: a call takes a step of each of those",
            )
        if isinstance(member, Func) and node.attr not in getattr(owner, "__dict__", ()):
            self._watch_method(owner, node, member)
            return BoundFunc(member, base)
        if isinstance(owner, str):
            hint = 'compare texts, mode == "add", or compute it before the call, and pass what it gives'
            raise self.error(f"`{as_written(node)}` is a method of a text", node, hint)
        if not _is_constant_owner(owner):
            raise self.error(
                f"`{as_written(node)}` reads an attribute of a {type(owner).__name__} that is not an argument",
                node,
                "pass the object as an argument (a dataclass of arrays and numbers), or make the value a module constant",
            )
        return None

    def _field(self, base: StructRef, node: ast.Attribute) -> Binding | None:
        child = base.children.get(node.attr)
        if child is not None:
            return child
        if issubclass(base.type.cls, Components) and (node.attr in METHODS or node.attr == "T"):
            return None
        member = getattr(base.type.cls, node.attr, _MISSING)
        if isinstance(member, Func):
            self.watch(base.type.cls, node.attr, member, node)
            return BoundFunc(member, base)
        names = ", ".join(base.children) or "none"
        others = "a product is written `A @ x`" if is_csr(base.type.cls) else "methods must be marked with @qgraph.func"
        raise self.error(
            f"`{as_written(node.value)}` has no field `{node.attr}`",
            node,
            f"the fields of {base.type.cls.__name__} are {names}; {others}",
        )

    def watch(self, owner: object, key: str, value: object, node: ast.expr) -> None:
        """``value``, which is ``owner.key``, is compiled in.

        Raises:
            KernelSyntaxError: it is something else each time, as methods of NumPy's ufuncs are.
        """
        if isinstance(owner, np.ufunc) and callable(value):
            raise self.error(
                f"`{ast.unparse(node)}` is a method of a ufunc that kernels do not know here",
                node,
                "known are np.add.outer of whole arrays, and np.add.at as a statement; to reduce write np.sum, np.prod, np.max "
                "or np.min, to accumulate np.cumsum or np.cumprod",
            )
        if not self._globals.compiled_in.attribute(owner, key, value):
            raise self._another_each_time(ast.unparse(node), node)

    def _watch_method(self, owner: object, node: ast.Attribute, member: Func) -> None:
        """The func that ``owner``, which is no argument, has of its class is compiled in."""
        self.watch(owner, "__class__", type(owner), node)
        self.watch(type(owner), node.attr, member, node)
        place = ("own", id(owner), node.attr)
        self.computed(node, place, lambda: node.attr in getattr(owner, "__dict__", ()), False)

    def watch_default(self, source: SourceFunction, parameter: inspect.Parameter) -> None:
        """A default of a function is compiled in."""
        function, compiled_in = source.function, self._globals.compiled_in
        if parameter.kind is parameter.KEYWORD_ONLY:
            compiled_in.computed(("keywords", id(function)), lambda: function.__kwdefaults__, function.__kwdefaults__)
        else:
            compiled_in.attribute(function, "__defaults__", function.__defaults__)

    def computed(self, node: ast.expr, place: Hashable, compute: Callable[[], object], value: object) -> None:
        """``value``, which Python computed of things that may change, is compiled in; ``compute`` does it again.

        Raises:
            KernelSyntaxError: it is something else each time.
        """
        if not self._globals.compiled_in.computed(place, compute, value):
            raise self._another_each_time(ast.unparse(node), node)

    def watch_class(self, cls: type) -> None:
        """What making a named tuple or a dataclass does is compiled in."""
        compiled_in = self._globals.compiled_in
        for name in ("__init__", "__new__", "_fields", "__dataclass_fields__"):
            if hasattr(cls, name):
                compiled_in.attribute(cls, name, found := getattr(cls, name))
                if hasattr(found, "__defaults__"):
                    compiled_in.attribute(found, "__defaults__", found.__defaults__)
        compiled_in.computed(("post", cls), lambda: hasattr(cls, "__post_init__"), hasattr(cls, "__post_init__"))

    def look_into(self, value: object, node: ast.expr) -> None:
        """Everything that a function looks at which Numba compiles is compiled in.

        Raises:
            KernelSyntaxError: an array, whose elements Numba compiles in, or something else each time.
        """
        python = numba_function(value)
        if python is None:
            return
        for text, found in self._globals.compiled_in.python(python):
            if found is CHANGING:
                raise self._another_each_time(text, node)
            if holds_arrays(found, written=True):
                raise self.error(
                    f"`{ast.unparse(node)}` uses the array `{text}`, whose elements Numba compiles in as they are now",
                    node,
                    f"pass `{text}` as an argument, or mark {python.__name__}() with @qgraph.func instead",
                )

    def _item(self, cls: type, children: Sequence[Binding], node: ast.Subscript) -> Binding | None:
        index = self._index(node.slice)
        if index is None:
            return None
        if not issubclass(cls, tuple):
            raise self.error(
                f"`{as_written(node.value)}` is a {cls.__name__}, and has no elements",
                node,
                "name its fields",
            )
        if not -len(children) <= index < len(children):
            raise self.error(
                f"`{as_written(node.value)}` has {len(children)} elements, there is no element {index}",
                node,
                "count from 0, or from -1 for the last one",
            )
        return children[index]

    def _index(self, node: ast.expr) -> int | None:
        """An integer that is written, or known at compile time, or a sum, difference or product of such."""
        index = constant_of(node)
        if index is not None:
            return index
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                index = self._index(operand)
                return None if index is None else -index
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
                one, other = self._index(left), self._index(right)
                if one is None or other is None:
                    return None
                return one * other if isinstance(op, ast.Mult) else one + other if isinstance(op, ast.Add) else one - other
        bound = self.static(node)
        return bound.value if isinstance(bound, Value) and type(bound.value) is int else None

    def _another_each_time(self, text: str, node: ast.AST) -> KernelSyntaxError:
        return self.error(
            f"`{text}` is something else each time it is looked at, and it is compiled in",
            node,
            "compute it once, before the kernel is called, and give it a name in the module",
        )

    def _suggestion(self, name: str) -> str:
        # Only where something is wrong.
        import difflib

        caller = self.caller
        while caller is not None:
            if name in caller.names:
                return f"`{name}` belongs to {caller.source.name}(): pass it to {self.source.name}() as an argument"
            caller = caller.caller
        known = [*self.names, *self.source.closure, *self.source.globals, *dir(builtins)]
        close = difflib.get_close_matches(name, [word for word in known if not word.startswith("__")], 1)
        return f"did you mean `{close[0]}`?" if close else "define it before the call, or pass it as an argument"


def _suggested(owner: str, attribute: str, known: list[str]) -> str:
    """What is said of an attribute that ``owner`` does not have."""
    # Only where something is wrong.
    import difflib

    close = difflib.get_close_matches(attribute, [word for word in known if not word.startswith("_")], 1, 0.75)
    if close:
        return f"did you mean `{owner}.{close[0]}`?"
    return "check the spelling; attributes of globals are looked up when the kernel is compiled"


def is_random(function: object) -> bool:
    """Whether ``function`` draws random numbers, of Python or of NumPy: each draw changes what the next one gives."""
    drawers = (*type(getattr(function, "__self__", None)).__mro__, function)
    homes = (getattr(each, "__module__", None) or "" for each in drawers)
    return any(home == "random" or home.startswith("numpy.random") for home in homes)


def is_cuda_object(value: object) -> bool:
    """Whether ``value`` belongs to numba.cuda: its intrinsics have no meaning in plain Python."""
    module = getattr(value, "__module__", None) or getattr(type(value), "__module__", "") or ""
    name = str(getattr(value, "__name__", ""))
    return (str(module).startswith("numba.cuda") or name.startswith("numba.cuda")) and numba_function(value) is None


def _is_constant_owner(owner: object) -> bool:
    if isinstance(owner, (type, enum.Enum)) or callable(owner):
        return True
    parameters = getattr(owner, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def quietly_static(scope: Scope, node: ast.expr) -> Binding | None:
    """``scope.static(node)``; None also where something is wrong with it."""
    # Names that the function itself assigns are no funcs; what is wrong with others is said where they are used.
    try:
        return scope.static(node)
    except KernelSyntaxError:
        return None
