"""Names by identity: what a name means is what Python would find, never how it is spelled."""

from __future__ import annotations

import ast
import builtins
import difflib
import enum
from collections.abc import Mapping
from types import ModuleType

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bindings import Binding, BoundFunc, StructRef, Value
from qgraph.frontend.compile_time import constant_of, is_static_call, known_test, static_value
from qgraph.frontend.frames import Frame
from qgraph.frontend.parse import SourceFunction
from qgraph.frontend.unit import SHARED
from qgraph.language import Func
from qgraph.program import FrozenName, GlobalArray, GlobalArrayFound, Place, is_array
from qgraph.source import Span, as_written

_MISSING = object()

CUDA_HINT = "write the loop itself: qgraph chooses threads, blocks and atomics"


class Globals:
    """What a kernel uses of globals and closures.

    ``arrays`` are those that it was given as arguments, by place; None where they are values like any other.
    """

    def __init__(self, arrays: Mapping[Place, Binding] | None = None) -> None:
        self.arrays = arrays
        # Names that mean the same in every function.
        self.shared: dict[str, Binding] = {}
        self.used: set[Place] = set()
        self.frozen: dict[Place, FrozenName] = {}

    def bind(self, namespace: Mapping[str, object], key: str, value: object, node: ast.expr, span: Span) -> Binding:
        """What the variable stands for: an array is an argument, and anything else is compiled in.

        Raises:
            GlobalArrayFound: it is an array that is no argument yet.
        """
        if self.arrays is None or not is_array(value):
            self.frozen.setdefault((id(namespace), key), FrozenName(namespace, key, value, span))
            return Value(value)
        array = GlobalArray(namespace, key, as_written(node))
        if array.place not in self.arrays:
            raise GlobalArrayFound(array)
        self.used.add(array.place)
        return self.arrays[array.place]


class Scope:
    """The names of one function at one point: local bindings first, then closure, globals and builtins.

    Every global or closure value that is looked at is recorded in ``globals_``: it was compiled in, and must still be the same
    object when the kernel is called again. Arrays are arguments.
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

    def span(self, node: ast.AST) -> Span:
        """The place of a node of this function."""
        return Span.of(node, self.source.file)

    def inner(self, names: Mapping[str, Binding]) -> Scope:
        """The same function with some names bound anew, as in the body of a loop."""
        entry = {**self.names, **names}
        return Scope(self.source, entry, self._globals, self.frame, entry, self.caller)

    def of(self, source: SourceFunction, names: Mapping[str, Binding], frame: Frame | None = None) -> Scope:
        """The scope of another function, called from this one."""
        return Scope(source, names, self._globals, frame, caller=self)

    def bind(self, name: str, bound: Binding) -> None:
        """Let ``name`` stand for ``bound``: here, or in every function if it is such a name."""
        names = self._globals.shared if name.startswith(SHARED) else self.names
        names[name] = bound

    def lookup(self, node: ast.Name) -> Binding:
        """What ``node`` stands for; ``KernelSyntaxError`` if nothing does."""
        bound = self.names.get(node.id) or self._globals.shared.get(node.id)
        if bound is not None:
            return bound
        if node.id in self.source.function.__code__.co_varnames:
            raise KernelSyntaxError(
                f"`{node.id}` is read before it is assigned", self.span(node), hint="assign it on every path before this line"
            )
        for namespace in (self.source.closure, self.source.globals):
            value = namespace.get(node.id, _MISSING)
            if value is not _MISSING:
                return self._globals.bind(namespace, node.id, value, node, self.span(node))
        value = getattr(builtins, node.id, _MISSING)
        if value is not _MISSING:
            return Value(value)
        raise KernelSyntaxError(f"the name `{node.id}` does not exist", self.span(node), hint=self._suggestion(node.id))

    def static(self, node: ast.expr) -> Binding | None:
        """What a name, attribute chain or constant subscript stands for, if that is known at compile time."""
        if isinstance(node, ast.Name):
            return self.lookup(node)
        if isinstance(node, ast.Attribute):
            base = self.static(node.value)
            return None if base is None else self._attribute(base, node)
        if isinstance(node, ast.Subscript):
            base = self.static(node.value)
            index = constant_of(node.slice)
            if index is not None and isinstance(base, StructRef):
                return self._item(base, index, node)
            if index is not None and isinstance(base, Value) and isinstance(base.value, tuple):
                return Value(base.value[index])
        if isinstance(node, ast.Call) and is_static_call(self, node):
            return static_value(self, node)
        if isinstance(node, ast.IfExp):
            known = known_test(self, node.test)
            return None if known is None else self.static(node.body if known else node.orelse)
        return None

    def _attribute(self, base: Binding, node: ast.Attribute) -> Binding | None:
        if isinstance(base, StructRef):
            child = base.children.get(node.attr)
            if child is not None:
                return child
            member = getattr(base.type.cls, node.attr, _MISSING)
            if isinstance(member, Func):
                return BoundFunc(member, base)
            names = ", ".join(base.children) or "none"
            raise KernelSyntaxError(
                f"`{as_written(node.value)}` has no field `{node.attr}`",
                self.span(node),
                hint=f"the fields of {base.type.cls.__name__} are {names}; methods must be marked with @qgraph.func",
            )
        if not isinstance(base, Value):
            return None
        owner = base.value
        value = getattr(owner, node.attr, _MISSING)
        if value is _MISSING:
            raise KernelSyntaxError(
                f"`{as_written(node.value)}` has no attribute `{node.attr}`",
                self.span(node),
                hint="check the spelling; attributes of globals are looked up when the kernel is compiled",
            )
        if isinstance(owner, ModuleType):
            return self._globals.bind(vars(owner), node.attr, value, node, self.span(node))
        if is_cuda_object(owner):
            raise KernelSyntaxError(f"`{as_written(node)}` is a CUDA intrinsic", self.span(node), hint=CUDA_HINT)
        if isinstance(getattr(type(owner), node.attr, None), Func):
            return BoundFunc(getattr(type(owner), node.attr), base)
        if not _is_constant_owner(owner):
            raise KernelSyntaxError(
                f"`{as_written(node)}` reads an attribute of a {type(owner).__name__} that is not an argument",
                self.span(node),
                hint="pass the object as an argument (a dataclass of arrays and numbers), or make the value a module constant",
            )
        return Value(value)

    def _item(self, base: StructRef, index: int, node: ast.Subscript) -> Binding:
        if not issubclass(base.type.cls, tuple):
            raise KernelSyntaxError(
                f"`{as_written(node.value)}` is a {base.type.cls.__name__}, and has no elements",
                self.span(node),
                hint="name its fields",
            )
        children = tuple(base.children.values())
        if not -len(children) <= index < len(children):
            raise KernelSyntaxError(
                f"`{as_written(node.value)}` has {len(children)} elements, there is no element {index}",
                self.span(node),
                hint="count from 0, or from -1 for the last one",
            )
        return children[index]

    def _suggestion(self, name: str) -> str:
        caller = self.caller
        while caller is not None:
            if name in caller.names:
                return f"`{name}` belongs to {caller.source.name}(): pass it to {self.source.name}() as an argument"
            caller = caller.caller
        known = [*self.names, *self.source.closure, *self.source.globals, *dir(builtins)]
        close = difflib.get_close_matches(name, [word for word in known if not word.startswith("__")], 1)
        return f"did you mean `{close[0]}`?" if close else "define it before the call, or pass it as an argument"


def is_random(function: object) -> bool:
    """Whether ``function`` draws random numbers, of Python or of NumPy: each draw changes what the next one gives."""
    drawers = (*type(getattr(function, "__self__", None)).__mro__, function)
    homes = (getattr(each, "__module__", None) or "" for each in drawers)
    return any(home == "random" or home.startswith("numpy.random") for home in homes)


def is_cuda_object(value: object) -> bool:
    """Whether ``value`` belongs to numba.cuda: its intrinsics have no meaning in plain Python."""
    module = getattr(value, "__module__", None) or getattr(type(value), "__module__", "") or ""
    name = str(getattr(value, "__name__", ""))
    return (str(module).startswith("numba.cuda") or name.startswith("numba.cuda")) and not hasattr(value, "py_func")


def _is_constant_owner(owner: object) -> bool:
    if isinstance(owner, (type, enum.Enum)) or callable(owner):
        return True
    parameters = getattr(owner, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)
