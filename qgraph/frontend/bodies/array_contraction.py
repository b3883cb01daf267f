"""Array contraction: new arrays that live within an iteration of one parallel loop become numbers of that iteration.

After loops were joined (``loop_fusion.py``), or put inside of one another (``loop_interchange.py``), a new array that a later
one of them read is often touched by no other task: each iteration fills its own element and reads it there. It needs no memory
then. As in Gao, Olsen, Sarkar and Thekkath, Collective Loop Fusion for Array Contraction (1992).

Where an iteration fills a row, and loops inside read it element by element, these are joined for it, too.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from qgraph.frontend.bodies.loop_fusion import prints
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.equal_extents import EqualExtents
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Branch, Cast, Effects, Loop, Result, Statement, Task, TaskStatement
from qgraph.ir.program import parts_of as parts_of_program
from qgraph.ir.renaming import in_one_array
from qgraph.ir.trees import asks_for, at_place, call_of, load, names_in, parts_of, with_names
from qgraph.records import dataclass
from qgraph.source import children_of, copied, nodes_of

# What does not run from its begin to its end.
NOT_STRAIGHT = (ast.While, ast.Break, ast.Continue, ast.Return, ast.Raise, ast.comprehension, ast.Lambda)
# Ends the name of a number that is an element of the array before it.
_HERE = "_here"
# Types of elements that a name in a body has, too: narrower numbers are converted when they are stored.
_IN_REGISTERS = frozenset({"bool", "int64", "float32", "float64", "complex128"})


def contract_arrays(unit: ProgramBuilder, statements: Sequence[Statement], result: Result | None) -> tuple[Statement, ...]:
    """``statements`` of a kernel that returns ``result``, without arrays of which each iteration needs its element only."""
    return _contracted(unit, statements, uses_of(statements, result))


def uses_of(statements: Sequence[Statement], result: Result | None = None) -> Counter[str]:
    """How many of the tasks under ``statements`` touch each slot and array; what is returned is touched once more."""
    uses = Counter(name for part in parts_of_program(tuple(statements)) for name in part.effects.touched)
    if result is not None:
        uses.update((*(slot.name for slot in result.slots()), *result.arrays()))
    return uses


def _contracted(unit: ProgramBuilder, statements: Sequence[Statement], uses: Counter[str]) -> tuple[Statement, ...]:
    done: list[Statement] = []
    for statement in statements:
        match statement:
            case TaskStatement(task=task) if task.role == "loop":
                done.append(TaskStatement(_in_registers(unit, task, uses)))
            case Loop():
                done.append(replace(statement, body=_contracted(unit, statement.body, uses)))
            case Branch():
                regions = tuple(_contracted(unit, region, uses) for region in statement.regions)
                done.append(replace(statement, regions=regions))
            case _:
                done.append(statement)
    return tuple(done)


def _in_registers(unit: ProgramBuilder, task: Task, uses: Counter[str]) -> Task:
    # What a name that changes places stands for is read by that name.
    moving = {leaf for selection in task.selections for leaf in selection.leaves}
    own = {name for name in task.effects.touched if uses[name] == 1} - moving
    task = _with_joined_rows(unit, task, own)
    own &= task.effects.touched
    task = _in_one_array(unit, task, own, moving)
    registers = Registers(unit, [axis.variable for axis in task.axes], own)
    body = registers.promoted(task.body)
    if not registers.names:
        return task
    return _with_body(unit, task, body, registers.names, registers.casts)


def _with_body(unit: ProgramBuilder, task: Task, body: list[ast.stmt], held: Set[str], casts: Mapping[str, Cast]) -> Task:
    """A loop with another body, in which the arrays ``held`` are numbers, and ``casts`` convert to their types."""
    kept = {name: sections for name, sections in task.sections.items() if name not in held}
    # The loops as written still touch them.
    joined = tuple(replace(loop, note=_noted(unit, loop, held)) for loop in task.joined)
    names = {**task.names, **casts}
    task = replace(_without(unit, task, held), body=tuple(body), names=names, sections=kept, joined=joined)
    unit.judged[task.name] = replace(unit.judged[task.name], body=body, names=names)
    return task


def _in_one_array(unit: ProgramBuilder, task: Task, own: Set[str], moving: Set[str]) -> Task:
    """A loop over rows with one new array in the place of two: the last loop inside fills rows of the one from the ``own`` one.

    Each iteration touches its own row of that alone, and its last loop reads an element before it fills the same of the other
    one: that may have been there all the time. All that was stored there is overwritten, since loops that stored it went over
    the same range.
    """
    match task.body:
        case [*_, ast.For(ast.Name(), items, [ast.Assign([ast.Subscript(ast.Name(target))])]) as last]:
            row = [axis.variable for axis in task.axes]
        case _:
            return task
    made = {each.leaf.name: each for each in unit.temporaries if each.computed and each.leaf.name not in moving}
    touches, in_last = _touches(made.keys(), task.body), _touches(made.keys(), [last])
    filled = _Touch(True, (*row, "*"), ast.unparse(items))
    if touches.get(target) != [filled]:
        return task
    for name in sorted(own & made.keys() - {target}):
        alike = (made[name].shape, made[name].leaf.type) == (made[target].shape, made[target].leaf.type)
        own_row = all(each.place[:-1] == tuple(row) and (each == filled or not each.stored) for each in touches[name])
        if alike and own_row and all(each.place == filled.place for each in in_last.get(name, [])):
            break
    else:
        return task
    task = in_one_array(task, name, target)
    unit.judged[task.name] = replace(unit.judged[task.name], body=list(task.body))
    return task


def _with_joined_rows(unit: ProgramBuilder, task: Task, own: Set[str]) -> Task:
    """A loop with loops inside of its iterations joined, for those of its ``own`` new arrays that are numbers then."""
    rows = {each.leaf.name for each in unit.temporaries if each.computed and each.leaf.name in own}
    several = sum(isinstance(each, ast.For) for each in task.body) > 1
    if not rows or not several or task.plain is not None or prints(task.names):
        return task
    return _RowFusion(unit, task, rows).joined()


class _RowFusion:
    """Joins loops inside of an iteration of ``task``, for the ``rows``, new arrays of its own, that are numbers then."""

    def __init__(self, unit: ProgramBuilder, task: Task, rows: Set[str]) -> None:
        self._unit = unit
        self._task = task
        self._rows = rows
        self._axes = [axis.variable for axis in task.axes]
        self._arrays = unit.array_dimensions().keys()
        self._extents = EqualExtents(unit)

    def joined(self) -> Task:
        """The task; as it is where no array becomes a number."""
        task, unit = self._task, self._unit
        body, found = list(task.body), set[ast.stmt]()
        while (pair := self._pair(body, found)) is not None:
            body = pair
        done: list[ast.stmt] = []
        names, casts = frozenset[str](), dict[str, Cast]()
        for statement in body:
            if not isinstance(statement, ast.For) or statement not in found:
                done.append(statement)
                continue
            elsewhere = {name for each in body if each is not statement for name in names_in(each)}
            registers = Registers(unit, [*self._axes, _variable(statement)], self._rows - elsewhere)
            inside = registers.promoted(statement.body)
            if not registers.names:
                return task
            done.append(at_place(ast.For(statement.target, statement.iter, inside, []), statement))
            names, casts = names | registers.names, casts | registers.casts
        return _with_body(unit, task, done, names, casts) if names else task

    def _pair(self, body: Sequence[ast.stmt], found: set[ast.stmt]) -> list[ast.stmt] | None:
        """``body`` with two of its loops as one, which is ``found`` then; None where no two of them are to be joined."""
        for after, second in enumerate(body):
            for at, first in enumerate(body[:after]):
                if not (isinstance(first, ast.For) and isinstance(second, ast.For) and self._may_join(first, second)):
                    continue
                apart = self._apart(body, at, after)
                ended = any(asks_for(each, _variable(second)) for each in body)
                if apart is None or (ended and _variable(first) != _variable(second)):
                    continue
                before, behind = apart
                renamed = [with_names(copied(each), {_variable(second): load(_variable(first))}) for each in second.body]
                loop = at_place(ast.For(first.target, first.iter, [*first.body, *renamed], []), first)
                found -= {first, second}
                found.add(loop)
                return [*body[:at], *before, loop, *behind, *body[after + 1 :]]
        return None

    def _may_join(self, first: ast.For, second: ast.For) -> bool:
        """Whether the second loop reads rows that the first one fills, and each of its iterations only its own elements."""
        if not self._is_plain(first) or not self._is_plain(second) or self._range(first) != self._range(second):
            return False
        met = self._met(first, second)
        numbers = {name for pair in met for name in pair} - self._arrays
        if numbers - ({_variable(first)} & {_variable(second)}) or any(one != other for one, other in met):
            return False
        if not self._names(first)[1] & self._names(second)[0] & self._rows:
            return False
        for touches in _touches({one for one, _ in met} - numbers, [first, second]).values():
            places = {each.place for each in touches}
            place = next(iter(places))
            if len(places) > 1 or place[-1:] != ("*",):
                return False
        return True

    def _is_plain(self, loop: ast.For) -> bool:
        """Whether it counts, and its body is straight-line code with branches."""
        match loop:
            case ast.For(ast.Name(), ast.Call(ast.Name(word), [_, _, ast.Constant(1)]), orelse=[]):
                inside = [node for each in loop.body for node in nodes_of(each)]
                straight = not any(isinstance(node, (*NOT_STRAIGHT, ast.For)) for node in inside)
                return straight and self._task.names.get(word) is range and _variable(loop) not in names_assigned(loop.body)
        return False

    def _range(self, loop: ast.For) -> list[object]:
        """The bounds of a loop, in a form that is equal for equal ones."""
        assert isinstance(loop.iter, ast.Call)
        return [self._extents.bound(self._task, each) for each in loop.iter.args]

    def _apart(self, body: Sequence[ast.stmt], at: int, after: int) -> tuple[list[ast.stmt], list[ast.stmt]] | None:
        """What stands between two loops that is to be done before both, and behind; None where that would change something."""
        between = body[at + 1 : after]
        first: list[int] = []
        for place in reversed(range(len(between))):
            if any(self._meet(between[place], each) for each in (body[after], *(between[each] for each in first))):
                first.insert(0, place)
        for place in first:
            passed = [body[at], *(each for other, each in enumerate(between[:place]) if other not in first)]
            if any(self._meet(between[place], each) for each in passed):
                return None
        return [between[place] for place in first], [each for place, each in enumerate(between) if place not in first]

    def _meet(self, one: ast.stmt, other: ast.stmt) -> bool:
        """Whether one of them writes what the other touches, or leaves the iteration."""
        if any(isinstance(node, NOT_STRAIGHT) for each in (one, other) for node in nodes_of(each)):
            return True
        return bool(self._met(one, other))

    def _met(self, one: ast.stmt, other: ast.stmt) -> set[tuple[str, str]]:
        """What one of them writes, and the other touches: the same name, or an array that may share elements with it."""
        (read, written), (also_read, also_written) = self._names(one), self._names(other)
        pairs = {*itertools.product(written, also_read | also_written), *itertools.product(also_written, read | written)}
        return {pair for pair in pairs if pair[0] == pair[1] or (self._arrays >= {*pair} and self._unit.may_share(*pair))}

    def _names(self, statement: ast.stmt) -> tuple[set[str], set[str]]:
        """What a statement reads, and what it may write: a function may write any array that it is given."""
        read, written = set[str](), set[str]()
        for node in nodes_of(statement):
            match node:
                case ast.Name(name, ctx=ast.Load()):
                    read.add(name)
                case ast.Name(name):
                    written.add(name)
                case ast.Subscript(ast.Name(name), ctx=ast.Store()):
                    written.add(name)
                case ast.Call(args=arguments):
                    written |= {each.id for each in arguments if isinstance(each, ast.Name)} & self._arrays
        return read, written


def _variable(loop: ast.For) -> str:
    assert isinstance(loop.target, ast.Name)
    return loop.target.id


@dataclass(frozen=True, slots=True)
class _Touch:
    """An element, by its indices, of which the last is "*" where it is the variable of the innermost loop, over ``items``."""

    stored: bool
    place: tuple[str, ...]
    items: str


def _touches(arrays: Set[str], body: Iterable[ast.AST]) -> dict[str, list[_Touch]]:
    """How statements touch arrays; without indices where they do so as a whole."""
    found: dict[str, list[_Touch]] = {}

    def look(node: ast.AST, around: ast.For | None) -> None:
        match node:
            case ast.For(target=ast.Name(), body=inside):
                for each in inside:
                    look(each, node)
                look(node.iter, around)
                return
            case ast.Subscript(value=ast.Name(id=name), ctx=context) if name in arrays:
                variable, items = ("", "") if around is None else (ast.unparse(around.target), ast.unparse(around.iter))
                *first, last = map(ast.unparse, parts_of(node))
                place = (*first, "*" if last == variable else last)
                found.setdefault(name, []).append(_Touch(isinstance(context, ast.Store), place, items))
                look(node.slice, around)
                return
            case ast.Name(id=name) if name in arrays:
                found.setdefault(name, []).append(_Touch(False, (), ""))
        for child in children_of(node):
            look(child, around)

    for each in body:
        look(each, None)
    return found


def _without(unit: ProgramBuilder, task: Task, names: Set[str]) -> Task:
    """A loop that has what these arrays hold in registers, and says so, but for several at once: those tell it one by one."""
    effects = Effects(task.effects.reads - names, task.effects.writes - names)
    return replace(task, effects=effects, note=task.note if task.joined else _noted(unit, task, names))


def _noted(unit: ProgramBuilder, task: Task, names: Set[str]) -> str:
    """What a loop says that fills some of these arrays in registers."""
    filled = sorted(f"`{unit.leaves[name].path}`" for name in names & task.effects.writes)
    notes = [task.note] if task.note else []
    return "; ".join([*notes, f"in registers: {', '.join(filled)}"] if filled else notes)


class Registers(ast.NodeTransformer):
    """New arrays of which an iteration fills its element before it reads it, as numbers of the iteration.

    Args:
        unit: what the frontend knows of the leaves.
        places: the variables of the iteration.
        own: arrays that nothing else touches.
    """

    def __init__(self, unit: ProgramBuilder, places: Sequence[str], own: Set[str]) -> None:
        self._unit = unit
        made = (each.leaf for each in unit.temporaries if each.computed and each.leaf.name in own)
        types = {leaf.name: leaf.type for leaf in made if isinstance(leaf.type, ArrayType)}
        self._dtypes = {name: type_.dtype for name, type_ in types.items() if type_.dtype in _IN_REGISTERS}
        self._places = list(places)
        # The arrays that became numbers, and the conversions to their types.
        self.names: frozenset[str] = frozenset()
        self.casts: dict[str, Cast] = {}

    def promoted(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """``body`` with numbers in their place."""
        # A variable that the iteration assigns is another element behind that.
        candidates = set() if names_assigned(body).keys() & set(self._places) else set(self._dtypes)
        filled = set[str]()
        # How often each array is named, and how often to take or assign the iteration's element.
        named, taken = Counter[str](), Counter[str]()
        for statement in body:
            for node in nodes_of(statement):
                match node:
                    case ast.Name(name):
                        named[name] += 1
                    case ast.Assign(targets=[ast.Subscript(ast.Name(name)) as target]):
                        taken[name] += self._is_own(target)
                    case ast.Subscript(ast.Name(name), ctx=ast.Load()):
                        taken[name] += self._is_own(node)
                        if name not in filled:
                            candidates.discard(name)
            filled.add(_assigned(statement))
        self.names = frozenset(name for name in candidates & filled if named[name] == taken[name])
        return [self.visit(copied(each)) for each in body] if self.names else [*body]

    def _is_own(self, node: ast.Subscript) -> bool:
        index = [ast.unparse(part) for part in parts_of(node)]
        axes = len(self._places)
        # Axes of extent 1, as of what is summed up with `keepdims=True`, come behind those of the loop.
        return index[:axes] == self._places and all(part == "0" for part in index[axes:])

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """What is assigned to a number has the type of the array's elements."""
        name = _assigned(node)
        self.generic_visit(node)
        if name in self.names:
            dtype = self._dtypes[name]
            self.casts[f"_as_{dtype}"] = self._unit.element_cast(dtype)
            node.value = at_place(call_of(f"_as_{dtype}", node.value), node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """An element, as a number."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.names:
            return ast.copy_location(ast.Name(f"{node.value.id}{_HERE}", node.ctx), node)
        return node


def _assigned(node: ast.AST) -> str:
    """The array that a plain assignment fills an element of; "" for anything else."""
    match node:
        case ast.Assign(targets=[ast.Subscript(ast.Name(name))]):
            return name
    return ""
