"""Loops that work in place: what they fill has the memory of what they are the last to read, as in NumPy's ``(x + y) / 2``."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from qgraph.ir.program import Effects, Task
from qgraph.source import copied


def element_filled(task: Task) -> tuple[str, frozenset[str]]:
    """The array whose own element each iteration fills, as the last that it does, and those of which it has that element only.

    An element is an iteration's own where its indices are the variables of the loop. "" where there is no such array.
    """
    nothing = "", frozenset[str]()
    if task.block is not None:
        return nothing
    match task.body:
        case [*_, ast.Assign(targets=[ast.Subscript(ast.Name(target), index)])]:
            own = ast.unparse(index)
        case _:
            return nothing
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    variables = sorted(axis.variable for axis in task.axes)
    if sorted(map(ast.unparse, parts)) != variables:
        return nothing
    named, taken = Counter[str](), Counter[str]()
    for node in _nodes((*task.body, *(bound for axis in task.axes for bound in (axis.start, axis.step, axis.count)))):
        match node:
            case ast.Name(name):
                named[name] += 1
                if name in variables and not isinstance(node.ctx, ast.Load):
                    return nothing
            case ast.Subscript(ast.Name(name), index) if ast.unparse(index) == own:
                taken[name] += 1
    if named[target] > 1:
        return nothing
    return target, frozenset(name for name in taken if name != target and named[name] == taken[name])


def in_place(task: Task, memory: Mapping[str, str], paths: Mapping[str, str]) -> Task:
    """``task`` with one name for two arrays in one memory, by which it is known everywhere that it changes what it reads."""
    touched = task.effects.touched
    if len({memory.get(name, name) for name in touched}) == len(touched):
        return task
    target, _ = element_filled(task)
    (old,) = (name for name in touched - {target} if memory.get(name, name) == memory.get(target, target))
    body = copied(list(task.body))
    for node in _nodes(body):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = target
    effects = Effects(task.effects.reads - {old} | {target}, task.effects.writes - {old})
    sections = {name: parts for name, parts in task.sections.items() if name not in (old, target)}
    if task.sections.keys() >= {old, target}:
        sections[target] = tuple(replace(each, array=target) for name in (target, old) for each in task.sections[name])
    note = "; ".join(filter(None, (task.note, f"in the memory of `{paths[old]}`")))
    return replace(task, body=tuple(body), effects=effects, sections=sections, note=note)


def _nodes(trees: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (node for tree in trees for node in ast.walk(tree))
