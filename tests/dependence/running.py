"""Loops run in plain Python, on arrays that remember who touched which element: what verdicts are compared with."""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from qgraph import language

GROUP = {"+": "add", "-": "add", "|": "or", "min": "min", "max": "max"}
SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.BitOr: "|", ast.Mult: "*"}

Element = tuple[str, tuple[int, ...]]
Iteration = tuple[int, ...]


class Undefined(Exception):
    """What the loop does has no meaning: an index is out of bounds, shapes differ."""


@dataclass(frozen=True)
class Touch:
    """One event of a run: which iteration touched the element, and how.

    ``group``: of an update that may be reordered; ``value``: what is stored, where no iteration stores another; ``where``: the
    statement of an update.
    """

    iteration: Iteration
    kind: str
    group: str = ""
    value: str = ""
    where: tuple[int, int] = (0, 0)


class Log:
    """What a run touched."""

    def __init__(self) -> None:
        self.iteration: Iteration = ()
        self.touches: dict[Element, set[Touch]] = defaultdict(set)

    def begin(self, *iteration: int) -> None:
        """What follows is another iteration."""
        self.iteration = iteration

    def conflicts(self) -> Iterator[tuple[Iteration, Iteration, Element]]:
        """Two iterations, in both orders, that touch an element, one of them changing it: reordered updates aside."""
        for element, touches in self.touches.items():
            changes = [touch for touch in touches if touch.kind != "read"]
            for one, other in itertools.product(changes, touches):
                if one.iteration != other.iteration and not _in_any_order(one, other):
                    yield one.iteration, other.iteration, element
                    yield other.iteration, one.iteration, element

    def conflict(self) -> bool:
        """Whether there is a conflict."""
        return next(self.conflicts(), None) is not None

    def shared(self, statements: set[tuple[int, int]]) -> bool:
        """Whether what one of ``statements`` updates is updated by another iteration as well."""
        for touches in self.touches.values():
            updates = [touch for touch in touches if touch.kind == "update"]
            if any(touch.where in statements for touch in updates) and len({touch.iteration for touch in updates}) > 1:
                return True
        return False


def _in_any_order(one: Touch, other: Touch) -> bool:
    if one.kind == other.kind == "atomic" or (one.group and one.group == other.group):
        return True
    return one.kind == other.kind == "write" and one.value != "" and one.value == other.value


@dataclass(frozen=True)
class Stored:
    """A value that all iterations store."""

    value: object
    label: str


@dataclass(frozen=True)
class Update:
    """What ``place += e`` and ``place = max(place, e)`` assign."""

    sign: str
    where: tuple[int, int]


class Elements:
    """A value of several elements, which were read."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def _with(self, other: object) -> Elements:
        if isinstance(other, Memory):
            other = other.values()
        if isinstance(other, Elements) and other.shape != self.shape:
            raise Undefined
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _with


class Memory:
    """Part of an array that remembers who touched what: ``dims`` has an index, or those that are left, for each dimension."""

    def __init__(self, log: Log, name: str, dims: tuple[int | range, ...], data: Sequence[int] = ()) -> None:
        self.log, self.name, self.dims, self.data = log, name, dims, data

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(dim) for dim in self.dims if isinstance(dim, range))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def part(self, index: object) -> Memory:
        """The part that ``index`` means."""
        indices = list(index) if isinstance(index, tuple) else [index]
        dims = list(self.dims)
        free = [at for at, dim in enumerate(dims) if isinstance(dim, range)]
        if ... in indices:
            at = indices.index(...)
            indices[at : at + 1] = [slice(None)] * (len(free) - len(indices) + 1)
        if len(indices) > len(free):
            raise Undefined
        for at, each in zip(free, indices):
            try:
                dims[at] = dims[at][each]  # type: ignore[index]
            except IndexError:
                raise Undefined from None
        return Memory(self.log, self.name, tuple(dims), self.data)

    def places(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(dim if isinstance(dim, range) else (dim,) for dim in self.dims))

    def values(self) -> Elements:
        """All of it, read."""
        for place in self.places():
            self.touch(place, Touch(self.log.iteration, "read"))
        return Elements(self.shape)

    def touch(self, place: tuple[int, ...], touch: Touch) -> None:
        self.log.touches[self.name, place].add(touch)

    def __getitem__(self, index: object) -> Any:
        part = self.part(index)
        if part.shape or any(isinstance(dim, range) for dim in part.dims):
            return part
        (place,) = part.places()
        self.touch(place, Touch(self.log.iteration, "read"))
        return self.data[place[0]] if self.data else 1

    def __setitem__(self, index: object, value: object) -> None:
        part, now = self.part(index), self.log.iteration
        if isinstance(value, Memory):
            value = value.values()
        if isinstance(value, Elements) and value.shape != part.shape:
            raise Undefined
        for place in part.places():
            if not isinstance(value, Update):
                self.touch(place, Touch(now, "write", value=value.label if isinstance(value, Stored) else ""))
            elif part.shape:
                self.touch(place, Touch(now, "read"))
                self.touch(place, Touch(now, "write"))
            else:
                self.touch(place, Touch(now, "update", GROUP.get(value.sign, ""), where=value.where))

    def __add__(self, other: object) -> Elements:
        return self.values() + other

    __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __add__

    def atomic_add(self, index: object, by: int) -> int:
        """``atomic_add``: old values of a counter count."""
        (place,) = self.part(index).places()
        before = self.log.touches[self.name, place]
        old = len([touch for touch in before if touch.kind == "atomic"])
        # Each is an event of its own.
        self.touch(place, Touch(self.log.iteration, "atomic", "add", where=(0, old)))
        return old * by


class Instrument(ast.NodeTransformer):
    """Updates and stores of one value say what they are; ``begin`` is called in the loop whose variables are ``axes``."""

    def __init__(self, constants: Sequence[str]) -> None:
        self.constants = constants

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Subscript):
            return node
        return self.update(node, node.target, SIGNS[type(node.op)], node.value)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Subscript):
            return node
        match value:
            case ast.Call(func=ast.Name(id="max" | "min" as sign), args=[first, other]) if ast.unparse(first) == ast.unparse(
                target
            ):
                return self.update(node, target, sign, other)
        if isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id in self.constants):
            node.value = _called("Stored", value, ast.Constant(ast.unparse(value)))
        return node

    def update(self, node: ast.stmt, target: ast.Subscript, sign: str, value: ast.expr) -> ast.stmt:
        assigned = _called("Update", ast.Constant(sign), ast.Constant((node.lineno, node.col_offset)))
        # The operand is evaluated, too.
        both = ast.Subscript(ast.Tuple([value, assigned], ast.Load()), ast.Constant(1), ast.Load())
        return ast.Assign([target], both)


def _called(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def instrumented(source: str, functions: Mapping[str, ast.FunctionDef], constants: Sequence[str]) -> CodeType:
    """A loop (loops over ``serial`` around it, maybe) and the functions that it calls, as code for ``run``."""
    tree = ast.parse(textwrap.dedent(source))
    loop = tree.body[0]
    assert isinstance(loop, ast.For)
    if ast.unparse(loop.iter).startswith("serial("):
        loop.body.insert(0, ast.parse("turn()").body[0])
        inner = loop.body[1]
        assert isinstance(inner, ast.For)
        loop = inner
    loop.body.insert(0, ast.parse(f"begin({ast.unparse(loop.target).strip('()')})").body[0])
    tree.body[:0] = [copy.deepcopy(each) for each in functions.values()]
    return compile(ast.fix_missing_locations(Instrument(constants).visit(tree)), "loop", "exec")


def run(
    code: CodeType,
    shapes: Mapping[str, tuple[int, ...]],
    scalars: Mapping[str, int],
    *,
    same: str = "",
    data: Mapping[str, Sequence[int]] | None = None,
) -> list[Log] | None:
    """What a loop touches, in plain Python: a log for each turn of the serial loop around; None where it has no meaning."""
    logs = [Log()]
    contents = data or {}
    first = logs[0]
    arrays = {name: Memory(first, name, tuple(map(range, shape)), contents.get(name, ())) for name, shape in shapes.items()}
    for pair in same.split():
        name, other = pair.split("=")
        arrays[name] = arrays[other]

    def turn() -> None:
        logs.append(Log())
        for array in arrays.values():
            array.log = logs[-1]

    def begin(*iteration: int) -> None:
        logs[-1].begin(*iteration)

    def atomic_add(array: Memory, index: object, by: int) -> int:
        return array.atomic_add(index, by)

    numbers = {"sqrt": np.sqrt, "int8": np.int8, "uint8": np.uint8, "int64": np.int64}
    words = {"ndrange": language.ndrange, "serial": language.serial, "atomic_add": atomic_add, "turn": turn, "begin": begin}
    scope: dict[str, Any] = {**vars(builtins), **numbers, **words, "Stored": Stored, "Update": Update, **arrays, **scalars}
    try:
        with np.errstate(over="ignore"):
            exec(code, scope)
    except (Undefined, ZeroDivisionError):
        return None
    except ValueError as error:
        if "must not be zero" in str(error):
            return None
        raise
    return logs
