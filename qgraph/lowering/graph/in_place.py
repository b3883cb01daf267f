"""Loops that work in place: what they fill has the memory of what they are the last to read, as in NumPy's ``(x + y) / 2``."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from qgraph.ir.program import Task
from qgraph.ir.renaming import in_one_array
from qgraph.ir.trees import parts_of
from qgraph.source import nodes_of


def element_filled(task: Task) -> tuple[str, frozenset[str]]:
    """The array whose own element each iteration fills, as the last that it does, and those of which it has that element only.

    An element is an iteration's own where its indices are the variables of the loop. "" where there is no such array.
    """
    nothing = "", frozenset[str]()
    if task.block is not None:
        return nothing
    match task.body:
        case [*_, ast.Assign(targets=[ast.Subscript(ast.Name(target)) as filled])]:
            own = ast.unparse(filled.slice)
        case _:
            return nothing
    variables = sorted(axis.variable for axis in task.axes)
    if sorted(map(ast.unparse, parts_of(filled))) != variables:
        return nothing
    named, taken = Counter[str](), Counter[str]()
    bounds = (bound for axis in task.axes for bound in (axis.start, axis.step, axis.count))
    for node in (node for tree in (*task.body, *bounds) for node in nodes_of(tree)):
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
    note = "; ".join(filter(None, (task.note, f"in the memory of `{paths[old]}`")))
    return replace(in_one_array(task, old, target), note=note)
