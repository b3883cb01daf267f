"""Several loops in one function: whose names are whose, new ones where two mean different things, and how much is too much."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Axis, Carried, Effects, Reduction, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import load, with_names
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of

_Tree = TypeVar("_Tree", bound=ast.AST)

# Words of parameters and nodes of the syntax tree that one kernel of several loops may have: the first because older drivers
# take 4096 bytes of parameters, the second because compilers take longer than in proportion, and registers run out.
MOST_WORDS = 448
MOST_NODES = 1500
# Of an array: numba-cuda passes five words, and two for each dimension.
_ARRAY_WORDS = 5


@dataclass(frozen=True, slots=True)
class ReservedNames:
    """The names of a function so far: all identifiers, and what those stand for that its iterations do not assign."""

    names: frozenset[str]
    meanings: Mapping[str, object]

    @classmethod
    def by(cls, task: Task, others: Iterable[str] = ()) -> ReservedNames:
        """What ``task`` takes, besides ``others``, which mean the same in every task."""
        return cls(frozenset(others) | identifiers(task), _meanings(task))

    def __or__(self, other: ReservedNames) -> ReservedNames:
        return ReservedNames(self.names | other.names, {**self.meanings, **other.meanings})


def identifiers(task: Task) -> frozenset[str]:
    """Every name that the code of ``task`` has or brings along."""
    trees: list[ast.AST] = [*task.body]
    for axis in task.axes:
        trees += [axis.start, axis.step, axis.count]
    trees += [carried.element for carried in _carried(task) if carried.element is not None]
    return own_names(task) | {name for tree in trees for node in nodes_of(tree) for name in _names_of(node)}


def own_names(task: Task) -> frozenset[str]:
    """The names that mean something in ``task`` alone: its globals, its loop variables, and what its iterations assign."""
    own = {name for statement in task.body for node in nodes_of(statement) for name in _names_of(node) if _binds(node)}
    own |= _meanings(task).keys() | {axis.variable for axis in task.axes} | {carried.local for carried in _carried(task)}
    return frozenset(own | {task.index_tuple}) - {""}


def apart_from(task: Task, taken: ReservedNames, known: Mapping[str, str] | None = None) -> tuple[Task, dict[str, str]]:
    """``task`` with other names where ``taken`` has them for something else, and which became which.

    ``known`` are names that are replaced whatever ``taken`` says: variables that are the same in both.
    """
    new = dict(known or {})
    meanings = _meanings(task)
    used = taken.names | identifiers(task)
    for name in sorted(own_names(task) - new.keys()):
        if name not in taken.names or (name in meanings and _same(meanings[name], taken.meanings.get(name, new))):
            continue
        number = 2
        while f"{name}_{number}" in used:
            number += 1
        new[name] = f"{name}_{number}"
        used |= {new[name]}
    return renamed(task, new), new


def renamed(task: Task, new: Mapping[str, str]) -> Task:
    """``task`` with the names that are keys of ``new`` replaced everywhere: names of its own, and none of an array."""
    if not new:
        return task

    def name(old: str) -> str:
        return new.get(old, old)

    def tree(old: _Tree) -> _Tree:
        made = copied(old)
        for node in nodes_of(made):
            for attribute in _PLACES.get(type(node), ()):
                setattr(node, attribute, name(getattr(node, attribute)))
        return made

    def axis(old: Axis) -> Axis:
        return replace(old, variable=name(old.variable), start=tree(old.start), step=tree(old.step), count=tree(old.count))

    def carried(old: Carried) -> Carried:
        return replace(old, local=name(old.local), element=old.element and tree(old.element))

    def reduction(old: Reduction) -> Reduction:
        return replace(old, variables=tuple(map(carried, old.variables)), at=old.at and carried(old.at))

    return replace(
        task,
        axes=tuple(map(axis, task.axes)),
        body=tuple(map(tree, task.body)),
        names={name(key): value for key, value in task.names.items()},
        index_tuple=name(task.index_tuple),
        scalars=tuple((name(local), slot) for local, slot in task.scalars),
        reductions=tuple(map(reduction, task.reductions)),
    )


def in_one_array(task: Task, old: str, new: str) -> Task:
    """``task`` with the array ``new`` in the place of the array ``old``, too."""
    body = tuple(with_names(copied(each), {old: load(new)}) for each in task.body)
    sections = {name: parts for name, parts in task.sections.items() if name not in (old, new)}
    if task.sections.keys() >= {old, new}:
        sections[new] = tuple(replace(each, array=new) for name in (new, old) for each in task.sections[name])
    joined = tuple(replace(each, effects=_in_one(each.effects, old, new)) for each in task.joined)
    return replace(task, body=body, effects=_in_one(task.effects, old, new), sections=sections, joined=joined)


def _in_one(effects: Effects, old: str, new: str) -> Effects:
    return Effects(*(frozenset(new if each == old else each for each in some) for some in (effects.reads, effects.writes)))


def words_of(leaves: Iterable[Leaf]) -> int:
    """Words of parameters that a kernel with these leaves takes."""
    return sum(_ARRAY_WORDS + 2 * leaf.type.ndim if isinstance(leaf.type, ArrayType) else 2 for leaf in leaves)


def node_count(task: Task) -> int:
    """Nodes of the syntax tree of the body."""
    return sum(1 for statement in task.body for _ in nodes_of(statement))


def _carried(task: Task) -> Iterator[Carried]:
    for reduction in task.reductions:
        yield from reduction.variables
        if reduction.at is not None:
            yield reduction.at


def _meanings(task: Task) -> dict[str, object]:
    return {**task.names, **dict(task.scalars)}


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, Slot) and one == other)


# Where identifiers stand in a body; attributes and keywords are none.
_PLACES: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Name: ("id",),
    ast.arg: ("arg",),
    ast.MatchAs: ("name",),
    ast.MatchStar: ("name",),
    ast.MatchMapping: ("rest",),
}


def _names_of(node: ast.AST) -> Iterator[str]:
    for attribute in _PLACES.get(type(node), ()):
        name = getattr(node, attribute)
        if name is not None:
            yield name


def _binds(node: ast.AST) -> bool:
    return not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Store)
