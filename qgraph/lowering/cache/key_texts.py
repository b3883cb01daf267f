"""What decides machine code, as a text that is equal in every process: the names of files in the cache are digests of it.

Only what has an identity that survives a process has a place in it: statements, numbers, what NumPy, math and Python itself
define under a name, and the bytecode of functions with all that their globals and closures hold. For anything else there is no
such text, ``Unstable`` says why, and what is compiled of it is not kept. So a key may say too much, never too little.

Lines are no part of it, nor is the file.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import hashlib
import struct
import sys
from collections.abc import Mapping, Set
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from qgraph.captured_state import PACKAGES, attributes_of, is_known, looked_up, numba_function
from qgraph.ir.argument_types import ConstantType, Leaf
from qgraph.ir.artifacts import TaskCode
from qgraph.ir.faults import Fault
from qgraph.ir.functions import Function
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Branch, Cast, HostValue, Loop, NodeStatement, Program, Task
from qgraph.ir.slots import Slot
from qgraph.lowering.cache.bound_names import names_in, names_of
from qgraph.source import Span

# Fields of records that have no part in the code: words for people, and what the host calls.
_SKIPPED: Mapping[type, frozenset[str]] = {
    Task: frozenset({"verdict", "races", "sections"}),
    Loop: frozenset({"label"}),
    Branch: frozenset({"label"}),
    HostValue: frozenset({"text", "note"}),
    # Code notes the number of a fault.
    Fault: frozenset({"error"}),
    # What was seen in one call.
    Leaf: frozenset({"extents"}),
    Program: frozenset({"host_names", "compiled_in", "result", "flags", "places"}),
    # What a node controls is part of the program.
    Node: frozenset({"label", "span", "control", "note"}),
}

# Modules of our own whose functions code may call.
_OWN = ("qgraph.language", "qgraph.operations.")
# Statements and patterns that name things by strings of their own.
_NAMING = (ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_PATTERNS = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)


class Unstable(Exception):  # noqa: N818 - no error: it is compiled all the same
    """Something has no identity that another process would find again."""


def digest(*texts: str) -> str:
    """64 hexadecimal digits that stand for ``texts``."""
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def plan_text(plan: GraphPlan) -> str:
    """Everything about a plan that its code, and the names in it, depend on.

    Raises:
        Unstable: it uses something without an identity.
    """
    writer = _Writer(None)
    writer.record(plan.program)
    tasks = {id(task) for task in plan.program.tasks()}
    for node in plan.nodes:
        writer.node(node, tasks)
    writer.raw(plan.edges)
    writer.raw(plan.has_block)
    if plan.timed is not None:
        writer.record(plan.timed)
    return writer.text()


def types_text(program: Program) -> str:
    """Everything about a program that the types of its kernel scalars depend on, whatever its names are.

    Raises:
        Unstable: it uses something without an identity.
    """
    writer = _Writer(names_of(program))
    writer.raw(program.float_type)
    for leaf in program.arrays_and_scalars:
        writer.name(leaf.name)
        writer.record(leaf.type)
    for value in program.host_values:
        writer.name(value.name)
    for slot in program.slots:
        writer.slot(slot)
    for task in program.tasks():
        writer.typed_task(task)
    return writer.text()


def task_text(code: TaskCode, function: Function) -> str:
    """Everything about a task that its PTX depends on but for the compiler's settings, whatever its names are.

    Raises:
        Unstable: it uses something without an identity.
    """
    writer = _Writer(names_in([function.tree], function.names))
    writer.function(function)
    for parameter in code.parameters:
        writer.raw(parameter.kind)
        writer.value(parameter.type)
    return writer.text()


# --- names that may be others --------------------------------------------------------------------------------------------


# --- writing -------------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes values one after another, each in a form that tells where it ends.

    ``renamed``: names that become numbers, in the order in which they are met; None keeps every name. One table serves the
    whole text, so two texts are equal only where one renaming makes all names of the one those of the other.
    """

    def __init__(self, renamed: frozenset[str] | None) -> None:
        self._renamed = renamed
        self._numbers: dict[str, int] = {}
        self._parts: list[str] = []
        # Functions that were begun, by identity: what they are is written once.
        self._begun: dict[int, int] = {}
        # The same of modules, by identity and what is looked up in them.
        self._modules: dict[tuple[int, frozenset[str]], int] = {}
        # The globals of the code that is being written, and those that were written.
        self._globals: Mapping[str, object] = {}
        self._written: set[str] = set()

    def text(self) -> str:
        return "\x1e".join(self._parts)

    def tag(self, word: str) -> None:
        """What comes next; no value begins like it."""
        self._parts.append(f"@{word}")

    def raw(self, *parts: object) -> None:
        """Strings, bytes, numbers, truth values, and tuples of these."""
        self._parts += map(repr, parts)

    def name(self, name: str) -> None:
        if self._renamed is None or name not in self._renamed:
            self._parts.append(repr(name))
        else:
            self._parts.append(f"#{self._numbers.setdefault(name, len(self._numbers))}")

    # --- records -------------------------------------------------------------------------------------------------------

    def record(self, record: Any) -> None:
        """A record of the program, field by field."""
        kind = type(record)
        statement = isinstance(record, NodeStatement)
        skipped = _SKIPPED.get(kind, frozenset({"label"}) if statement else frozenset())
        self.tag(kind.__name__)
        if isinstance(record, Task):
            self._enter(record.names)
        for field in dataclasses.fields(record):
            value = getattr(record, field.name)
            if field.name in skipped or (statement and not field.compare):
                continue
            if not isinstance(value, Span) and not isinstance(value, Mapping):
                self._part(value)

    def _part(self, value: Any) -> None:
        if isinstance(value, (tuple, list)):
            self.raw(len(value))
            for item in value:
                self._part(item)
        elif isinstance(value, frozenset):
            self.raw(len(value), *sorted(value))
        elif isinstance(value, ast.AST):
            self.tree(value)
        elif isinstance(value, (Span, ConstantType)):
            # What a host function is given: no code sees it.
            self.raw(None)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self.record(value)
        elif value is None or isinstance(value, (bool, int, str)):
            self.raw(value)
        else:
            raise Unstable(f"a {type(value).__name__} in the program")

    def node(self, node: Node, tasks: Set[int]) -> None:
        """A node of the plan, field by field; ``tasks`` are those that were written with the program, by identity."""
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if field.name in _SKIPPED[Node]:
                continue
            if isinstance(value, tuple) and all(isinstance(item, Task) for item in value):
                self.raw(len(value))
                for task in value:
                    self._task(task, tasks)
            elif isinstance(value, Task):
                self._task(value, tasks)
            else:
                self._part(value)

    def _task(self, task: Task, tasks: Set[int]) -> None:
        self.tag("task")
        self.raw(task.name, id(task) in tasks)
        if id(task) not in tasks:
            self.record(task)

    def slot(self, slot: Slot) -> None:
        self.name(slot.name)
        self.raw(slot.index, slot.dtype, slot.words)

    def typed_task(self, task: Task) -> None:
        """What the types of the scalars that a task assigns depend on."""
        self._enter(task.names)
        self.raw(task.role, len(task.axes))
        for axis in task.axes:
            self.name(axis.variable)
        self.name(task.index_tuple)
        for pairs in (task.scalars, task.results):
            self.raw(len(pairs))
            for local, slot in pairs:
                self.name(local)
                self.slot(slot)
        self.raw(len(task.selections))
        for selection in task.selections:
            self.name(selection.local)
            self.slot(selection.slot)
            self.raw(len(selection.leaves))
            for leaf in selection.leaves:
                self.name(leaf)
        self.raw(len(task.reductions))
        for reduction in task.reductions:
            variables = (*reduction.variables, *(() if reduction.at is None else (reduction.at,)))
            self.raw(reduction.operator, reduction.test, reduction.at is not None, len(variables))
            for variable in variables:
                self.name(variable.local)
                self.raw(variable.dtype, variable.slot is not None, variable.element is not None)
                for slot in (variable.partials, *(() if variable.slot is None else (variable.slot,))):
                    self.slot(slot)
                if variable.element is not None:
                    self.tree(variable.element)
        self._part(task.body)

    # --- code ----------------------------------------------------------------------------------------------------------

    def _enter(self, names: Mapping[str, object]) -> None:
        self._globals, self._written = names, set()

    def function(self, function: Function) -> None:
        if self._seen(function):
            return
        outside = self._globals, self._written
        self._enter(function.names)
        self.tag("function")
        self.tree(function.tree.args)
        self._part(function.tree.body)
        self._globals, self._written = outside

    def tree(self, node: ast.AST) -> None:
        """A piece of syntax, with what its global names stand for where they are met first."""
        if self._renamed is not None and _names_by_strings(node):
            raise Unstable(f"a {type(node).__name__} in generated code")
        if isinstance(node, ast.Name):
            self.tag(f"Name {type(node.ctx).__name__}")
            self.name(node.id)
            self._global(node.id)
            return
        if isinstance(node, ast.Constant):
            self.tag("Constant")
            self.value(node.value)
            return
        self.tag(type(node).__name__)
        if isinstance(node, (ast.arg, ast.keyword)):
            # A callee that is no function of ours knows its parameters by their own names.
            self.raw(node.arg if isinstance(node, ast.keyword) else None)
            self.name(node.arg or "")
        for field in node._fields:
            if isinstance(node, (ast.arg, ast.keyword)) and field == "arg":
                continue
            self._field(getattr(node, field, None))

    def _field(self, value: Any) -> None:
        if isinstance(value, list):
            self.raw(len(value))
            for item in value:
                self._field(item)
        elif isinstance(value, ast.AST):
            self.tree(value)
        else:
            self.value(value)

    def _global(self, name: str) -> None:
        if name in self._globals and name not in self._written:
            self._written.add(name)
            self.tag("is")
            try:
                self.value(self._globals[name])
            except Unstable as why:
                raise Unstable(f"`{name}` is {why}") from None

    def _seen(self, thing: object) -> bool:
        """Whether this function was begun before; then its number says which it is."""
        if id(thing) in self._begun:
            self.tag("again")
            self.raw(self._begun[id(thing)])
            return True
        self._begun[id(thing)] = len(self._begun)
        return False

    # --- values ----------------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> None:
        """What a name or a constant stands for.

        Raises:
            Unstable: it has no identity that another process would find again.
        """
        kind = type(value)
        if value is None or value is Ellipsis or kind in (bool, int, str, bytes):
            self.raw(value)
        elif kind is float:
            self.tag("float")
            self.raw(struct.pack("<d", value))
        elif kind is complex:
            self.tag("complex")
            self.raw(struct.pack("<dd", value.real, value.imag))
        elif isinstance(value, Function):
            self.function(value)
        elif isinstance(value, Cast):
            self.tag("cast")
            self.raw(value.dtype, value.scalar, value.keeps)
            if value.slot is not None:
                self.slot(value.slot)
        elif isinstance(value, (tuple, frozenset, enum.Enum, np.generic, np.ndarray, np.dtype)):
            self._compound(value)
        elif dataclasses.is_dataclass(value) and kind.__module__.startswith("qgraph.ir."):
            self.record(value)
        elif (python := numba_function(value)) is not None:
            self.python(python)
        else:
            self.tag("named")
            self.raw(*_place(value))

    def _compound(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, enum.Enum):
            self.tag("enum")
            members = list(type(value))
            self.raw(kind.__qualname__, value.name, len(members))
            for member in members:
                self.raw(member.name)
                self.value(member.value)
        elif isinstance(value, np.dtype):
            self.tag("dtype")
            self.raw(_plain_dtype(value))
        elif isinstance(value, np.generic):
            self.tag("scalar")
            self.raw(_plain_dtype(value.dtype), value.tobytes())
        elif kind is np.ndarray:
            text = hashlib.sha256(value.tobytes()).hexdigest()
            self.tag("array")
            self.raw(_plain_dtype(value.dtype), value.shape, value.strides, value.flags.aligned, text)
        elif kind is frozenset:
            writers = [_Writer(None) for _ in value]
            for writer, item in zip(writers, value, strict=True):
                writer.value(item)
            self.tag("frozenset")
            self.raw(len(value), *sorted(writer.text() for writer in writers))
        elif kind is tuple or hasattr(kind, "_fields"):
            self.tag("tuple")
            self.raw("" if kind is tuple else kind.__qualname__, getattr(kind, "_fields", ()), len(value))
            for item in value:
                self.value(item)
        else:
            raise Unstable(f"a {kind.__name__}")

    # --- Python functions ------------------------------------------------------------------------------------------------

    def python(self, function: FunctionType) -> None:
        """A Python function that Numba compiles: its bytecode, and all that this looks at."""
        if self._seen(function):
            return
        if vars(function).keys() & {"__wrapped__", "__signature__"}:
            raise Unstable(f"the decorated function {function.__name__}()")
        self.tag("python")
        self.raw(function.__name__)
        self._code(function.__code__)
        self.value(function.__defaults__)
        keywords = function.__kwdefaults__ or {}
        self.raw(len(keywords))
        for name, default in sorted(keywords.items()):
            self.raw(name)
            self.value(default)
        attributes = attributes_of(function.__code__)
        known = dict(looked_up(function))
        for name in function.__code__.co_freevars:
            if name not in known:
                raise Unstable(f"{function.__name__}(), whose `{name}` has no value yet")
        for name, value in known.items():
            self.raw(name)
            try:
                self._member(value, attributes)
            except Unstable as why:
                raise Unstable(f"{function.__name__}(), whose `{name}` is {why}") from None

    def _code(self, code: CodeType) -> None:
        self.raw(code.co_code, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self.raw(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.raw(getattr(code, "co_exceptiontable", b""), len(code.co_consts))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self.value(constant)

    def _module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        """A module, and what lies in it under the names that somebody may look up there."""
        known = is_known(module)
        if not known and type(module) is not ModuleType:
            raise Unstable(f"the module {module.__name__}, which computes what it holds")
        place = (id(module), attributes)
        if place in self._modules:
            self.tag("module again")
            self.raw(self._modules[place])
            return
        self._modules[place] = len(self._modules)
        self.tag("module")
        self.raw(module.__name__)
        for name in sorted(attributes):
            # What a known package computes when asked is as old as its version.
            if name in vars(module) or (not known and hasattr(module, name)):
                self.raw(name)
                self._member(getattr(module, name), attributes)
        self.tag("end")

    def _member(self, value: object, attributes: frozenset[str]) -> None:
        if isinstance(value, ModuleType):
            self._module(value, attributes)
        else:
            self.value(value)


def _names_by_strings(node: ast.AST) -> bool:
    """Whether names stand in the node that are no names to ``ast``, so that they cannot become others."""
    if isinstance(node, _PATTERNS):
        return any(isinstance(getattr(node, field, None), str) for field in ("name", "rest"))
    return isinstance(node, _NAMING)


def _plain_dtype(dtype: np.dtype[Any]) -> str:
    if dtype.fields is not None or dtype.subdtype is not None or dtype.kind in "OV":
        raise Unstable(f"of dtype {dtype}")
    return dtype.str


def _place(value: Any) -> tuple[str, str]:
    """The module and name under which a function, type or word is found; only one that is found there counts."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    # NumPy's ufuncs do not tell their module.
    module = getattr(value, "__module__", None) or ("numpy" if isinstance(value, np.ufunc) else "")
    if isinstance(name, str) and (str(module).split(".")[0] in PACKAGES or str(module).startswith(_OWN)):
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            return module, name
    number = _numba_type(value)
    if number:
        return "numba.core.types", number
    raise Unstable(f"a {type(value).__name__}, which another process would not know again")


def _numba_type(value: object) -> str:
    """The name of a number type of Numba's, which is what its text says; empty for anything else."""
    if not type(value).__module__.startswith("numba.core.types"):
        return ""
    name = str(value)
    return name if getattr(sys.modules.get("numba.core.types"), name, None) is value else ""
