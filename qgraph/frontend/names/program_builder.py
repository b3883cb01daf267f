"""What one Program is built from: leaves, scratch slots, host values, and reserved names."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

from qgraph.frontend.facts.loop_facts import LoopFacts
from qgraph.frontend.names.bindings import HostExpr
from qgraph.frontend.names.host_integers import HostIntegers
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.faults import EarlyExits, Fault
from qgraph.ir.program import Cast, Check, Effects, HostValue, Selection, Temporary
from qgraph.ir.slots import Progress, Slot
from qgraph.ir.trees import load, parsed
from qgraph.language import Func
from qgraph.polyhedral.questions import Variable
from qgraph.polyhedral.symbolic_integers import Poly, Symbol
from qgraph.records import dataclass
from qgraph.source import Span

# Names that the frontend adds at kernel level begin with this; no Python identifier of a user does. After a user's name comes
# the part of the tuple under it: `t.0`.
ADDED = "."
# Names that mean the same in every function: the integers of views.
SHARED = f"{ADDED}{ADDED}"
# What plans call slots that no name of the user's stands for.
_WORDS = {
    "again": "whether to go on",
    "branch": "which branch",
    "left": "iterations left",
    "runs": "iterations so far",
    "failed": "whether a check failed",
    "first": "the first error",
    "published": "the progress",
    "run": "the number of the launch",
    "entered": "whether the loop was entered",
    **dict.fromkeys(("start", "step", "count", "stop"), "bounds"),
}
_ADDED_NAME = re.compile(rf"{re.escape(ADDED)}+(?P<word>[a-z_]*[a-z])(?P<number>\d*)(_(?P<line>\d+))?(_\d+)?")
# Of these the number is the line.
_OF_LINE = {"broke": "`break`", "skipped": "`continue`", "subject": "subject of `match`", "tested": "the test"}
_NO_LINE = {"at": "a bound", "argument": "what a func is given", "result": "the result", "returned": "whether it has returned"}


def _with_ones(leaf: Leaf) -> tuple[ast.expr, ...]:
    """The extents of an array of which some are known to be 1; none of any other."""
    type_ = leaf.type
    if not isinstance(type_, ArrayType) or not type_.ones:
        return ()
    return tuple(ast.Constant(1) if axis in type_.ones else parsed(f"{leaf.name}.shape[{axis}]") for axis in range(type_.ndim))


@dataclass(slots=True)
class Fronts:
    """Nests of serial loops, by their places: how many schedules those have that were met, and which one some get."""

    met: dict[Span, int] = field(default_factory=dict)
    chosen: dict[Span, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownScalar:
    """What a kernel scalar is now made of, as written in ``scope``; ``names``: those in it, of scalars and of arrays."""

    scope: Any
    value: ast.expr
    names: frozenset[str]


def told_of(name: str) -> str:
    """What plans call the kernel scalar ``name``: its name, `t[0]` for a part of a tuple, or words where nobody wrote it."""
    if not name.startswith(ADDED):
        return re.sub(r"\.(\d+)", r"[\1]", name)
    match = _ADDED_NAME.fullmatch(name)
    if match is None:
        return name.strip(ADDED)
    word, line = match["word"], match["line"]
    if word in _OF_LINE:
        word, line = _OF_LINE[word], match["number"]
    return f"{word.replace('_', ' ')} of line {line}" if line else _NO_LINE.get(word, word)


class ProgramBuilder:
    """Mutable while the frontend runs, and gone with it: the Program holds what it collected."""

    def __init__(
        self,
        name: str,
        leaves: tuple[Leaf, ...],
        float_type: Literal["float32", "float64"],
        same: Mapping[str, str],
        overlapping: frozenset[frozenset[str]],
        funcs: Mapping[str, Func],
        fronts: Fronts | None = None,
    ) -> None:
        self.name = name
        # Those of the package: what is written in the language of kernels, by name.
        self.funcs = funcs
        # Nests of serial loops that are laid out in another order; None where all are as written.
        self.fronts = fronts
        self.leaves = {leaf.name: leaf for leaf in leaves}
        self.float_type = float_type
        # For arrays that are the identical memory: the first of them. Pairs that share some memory.
        self.same = dict(same)
        self.overlapping = set(overlapping)
        self.temporaries: list[Temporary] = []
        # Temporaries that have the shape of an argument, or of another temporary, whose path this is.
        self.like: dict[str, str] = {}
        # By leaf name, the extents of temporaries as expressions of the host, and those of arguments with known ones.
        self.extents = {leaf.name: extents for leaf in leaves if (extents := _with_ones(leaf))}
        # Whether the kernel is compiled for which lengths are 1.
        self.knows_ones = any(isinstance(leaf.type, ArrayType) and leaf.type.ones is not None for leaf in leaves)
        # Sizes of arrays that views have looked at: one object each, so that all paths agree on what the name means.
        self.sizes: dict[str, HostExpr] = {}
        # By slot, a number of the type that a kernel scalar is of, where that is known: None where it is not.
        self.number_types: dict[str, Any] = {}
        # Copies of arrays with which they share their elements in NumPy, by leaf name, and what has been written of arrays.
        self.copies: dict[str, str] = {}
        self.filled: set[str] = set()
        # Pairs that are the identical memory at some moments, and disjoint at others.
        self.sometimes_same: set[frozenset[str]] = set()
        self.slots: list[Slot] = []
        self.host_values: list[HostValue] = []
        self.host_names: dict[str, object] = {}
        # The bounds of serial loops which the host knows, by the slot of the variable.
        self.serial_ranges: dict[str, tuple[ast.expr, ast.expr, ast.expr]] = {}
        # Kernel scalars of which the analysis of loops may follow what they are now made of, by slot, in program order.
        self.known_scalars: dict[str, KnownScalar] = {}
        self.flags: list[tuple[str, Span]] = []
        # Functions being inlined or compiled, outermost first: a second entry is a recursion.
        self.calling: list[object] = []
        # How many loops are laid out now that may have no iteration.
        self._maybe_empty = 0
        # How many loops of the device are around what is laid out now.
        self._depth = 0
        self.faults: list[Fault] = []
        self.progress: Progress | None = None
        # Whether some loop looks at ``failed``.
        self.stops = False
        # What was judged of each parallel loop, by the name of its task.
        self.judged: dict[str, LoopFacts] = {}
        self._task_names: Counter[str] = Counter()
        self._words = 0
        self._casts: dict[str, Cast] = {}
        # Arrays that change places at run time, by the names that stand for them.
        self.selections: dict[str, Selection] = {}
        # The conditions of the branches that are being laid out, outermost first; None for one that only the device knows.
        self._conditions: list[ast.expr | None] = []
        self._host_by_source: dict[tuple[str, str], str] = {}
        self._host_sources: dict[str, str] = {}
        # The integers of the host as symbols.
        self.host_integers = HostIntegers(self.leaves, self.host_names, self._host_sources, self.extents)

    def may_share(self, first: str, second: str) -> bool:
        """Whether two arrays, by their names, may have memory in common."""
        names = frozenset({first, second})
        same = self.same.get(first, first) == self.same.get(second, second)
        return same or names in self.overlapping or names in self.sometimes_same

    def array_dimensions(self) -> dict[str, int]:
        """The number of dimensions of each array leaf."""
        return {name: leaf.type.ndim for name, leaf in self.leaves.items() if isinstance(leaf.type, ArrayType)}

    def task_name(self, line: int, role: str) -> str:
        """A unique name that tells the line, such as ``jacobi_L12``."""
        suffix = "" if role in ("loop", "serial") else f"_{role}"
        base = f"{self.name}_L{line}{suffix}"
        self._task_names[base] += 1
        count = self._task_names[base]
        return base if count == 1 else f"{base}_{count - 1}"

    def slot(self, name: str, dtype: str = "int64", words: int = 1, told: str = "") -> Slot:
        """A new scratch slot; ``name`` is made unique and cannot be a user's name. Plans call it ``told``, or by ``_WORDS``."""
        # What has several words may hold complex128, which has two.
        self._words += self._words % 2 if words > 1 else 0
        slot = Slot(self._words, f"_{name}_{len(self.slots)}", dtype, words, told or _WORDS.get(name, name))
        self.slots.append(slot)
        self._words += words
        return slot

    def scalar(self, name: str) -> Slot:
        """A new kernel scalar for a name, of a type that lowering infers: there is room for any."""
        return self.slot(name.strip(ADDED).replace(ADDED, "_"), "", 2, told_of(name))

    @cached_property
    def failed(self) -> Slot:
        """A slot that is not 0 once a task of this launch has noted a fault; there is one from the first use on."""
        return self.slot("failed")

    @property
    def fails(self) -> bool:
        """Whether some task uses ``failed``."""
        return "failed" in vars(self)

    @cached_property
    def exits(self) -> EarlyExits:
        """Where it is kept that an iteration has ended at a fault; there is such a place from the first use on."""
        return EarlyExits(self.failed, self.slot("first", words=2))

    @property
    def leaves_early(self) -> bool:
        """Whether some iteration may end at a fault."""
        return "exits" in vars(self)

    def publish(self, ring: str) -> Progress:
        """How rows of the array ``ring`` are numbered; there is such a thing from the first use on."""
        if self.progress is None:
            self.progress = Progress(ring, self.slot("published"), self.slot("run"))
        return self.progress

    def fault(self, fault: Fault) -> int:
        """The number of a new fault."""
        self.faults.append(fault)
        return len(self.faults)

    def selection(self, path: str, leaves: tuple[Leaf, ...]) -> Leaf:
        """A new name for one of ``leaves``, arrays of one type, as a number in a slot tells; it is a leaf itself."""
        slot = self.slot(f"which_{path}", told=f"which array {path} is")
        leaf = Leaf(self.array_name(path), path, leaves[0].type)
        self.leaves[leaf.name] = leaf
        self.selections[leaf.name] = Selection(leaf.name, slot, tuple(each.name for each in leaves))
        return leaf

    def alike(self, leaves: Sequence[Leaf], made: Sequence[Leaf], before: Sequence[Leaf]) -> None:
        """Note that each of ``made`` stands for one of ``leaves``, no two for the same one, and for one of ``before`` now."""
        names, sources = {leaf.name for leaf in leaves}, {leaf.name for leaf in before}
        groups = {self.same.get(name, name) for name in names}
        related = {name for pair in self.overlapping if pair & names for name in pair - self.selections.keys()}
        identical = {name for name in self.leaves if self.same.get(name, name) in groups and name not in self.selections}
        identical |= sources & self.selections.keys()
        # What other names stand for that may be one of these.
        identical |= {name for pair in self.sometimes_same if pair & sources for name in pair - sources}
        related |= {name for pair in self.overlapping if pair & sources for name in pair - sources}
        apart = not any(pair & names for pair in self.overlapping)
        if apart and len(groups) == 1 < len(names):
            # One memory under several names, which stays that whatever their order.
            self.same |= {leaf.name: next(iter(groups)) for leaf in made}
            return
        shared = len(groups) < len(names) or any(pair <= names for pair in self.overlapping)
        self.overlapping |= {frozenset({name, leaf.name}) for name in related for leaf in made}
        self.sometimes_same |= {frozenset({name, leaf.name}) for name in identical - related for leaf in made}
        if shared:
            self.overlapping |= {frozenset({a.name, b.name}) for a in made for b in made if a is not b}

    def host_name(self, leaf: Leaf) -> str:
        """The name by which the host knows the shape of ``leaf``: arrays that change places have one shape."""
        selection = self.selections.get(leaf.name)
        return leaf.name if selection is None else selection.leaves[0]

    def array_name(self, path: str) -> str:
        """A new name for an array that is no argument."""
        return f"_{path.strip('.').replace('.', '_')}_a{len(self.leaves)}"

    def add_temporary(self, temporary: Temporary, extents: tuple[ast.expr, ...]) -> None:
        """Take note of a temporary: from now on its leaf is one."""
        self.temporaries.append(replace(temporary, depth=self._depth))
        self.leaves[temporary.leaf.name] = temporary.leaf
        self.extents[temporary.leaf.name] = extents

    def host_object(self, value: object, wish: str) -> str:
        """The name by which expressions of the host have ``value``, much as wished."""
        name = f"_host_{wish}"
        while self.host_names.setdefault(name, value) is not value:
            name += "_"
        return name

    def shape_of(self, name: str) -> str:
        """The code by which the host knows the shape of the array ``name``: of several that change places all have the same."""
        if name in self.selections:
            return self.shape_of(self.selections[name].leaves[0])
        extents = self.extents.get(name)
        return f"{name}.shape" if extents is None else f"({''.join(f'{ast.unparse(extent)}, ' for extent in extents)})"

    def touched(self, effects: Effects) -> Effects:
        """Effects on the arrays themselves: a name for several of them may be any."""
        selected = {name: self.selections[name] for name in effects.touched & self.selections.keys()}

        def arrays(names: frozenset[str]) -> frozenset[str]:
            found = (selected[name].leaves if name in selected else (name,) for name in names)
            return frozenset(itertools.chain.from_iterable(found))

        return Effects(arrays(effects.reads).union(each.slot.name for each in selected.values()), arrays(effects.writes))

    def cast(self, slot: Slot) -> Cast:
        """The conversion to the type of ``slot``: one object a slot, since names go by identity."""
        return self._casts.setdefault(slot.name, Cast(slot))

    def element_cast(self, dtype: str, keeps: Literal["", "min", "max", "^"] = "") -> Cast:
        """The conversion to the type of an array's elements, where the argument and one are combined: one object a type."""
        return self._casts.setdefault(f"{keeps} {dtype}", Cast(None, dtype, keeps=keeps))

    def host_value(self, expr: ast.expr, span: Span, check: Check = "", *, text: str, note: str = "") -> ast.Name:
        """The name of an integer that the host computes from ``expr``, written ``text``; equal expressions share one."""
        source = self._given(ast.unparse(expr), check)
        name = self._host_by_source.setdefault((source, check), f"_h{len(self.host_values)}")
        if name not in self._host_sources:
            self.host_values.append(HostValue(name, source, span, check, text, note))
            self._host_sources[name] = source
        return ast.copy_location(load(name), expr)

    @contextmanager
    def where(self, condition: ast.expr | None) -> Iterator[None]:
        """What is laid out meanwhile runs where ``condition`` is true: an expression of the host, None if it does not know."""
        self._conditions.append(condition)
        yield
        self._conditions.pop()

    @property
    def may_be_skipped(self) -> bool:
        """Whether only the device knows if what is laid out now runs at all, loops aside."""
        return None in self._conditions

    @contextmanager
    def inside_a_loop(self) -> Iterator[None]:
        """What is laid out meanwhile is the body of a loop that may have no iteration."""
        self._maybe_empty += 1
        yield
        self._maybe_empty -= 1

    @contextmanager
    def in_turns(self) -> Iterator[None]:
        """What is laid out meanwhile is done again in each turn of a loop."""
        self._depth += 1
        yield
        self._depth -= 1

    @property
    def surely_runs(self) -> bool:
        """Whether what is laid out now runs where the conditions hold which the host knows."""
        return not self.may_be_skipped and not self._maybe_empty

    def extents_of_arrays(self) -> dict[str, tuple[Poly, ...]]:
        """The extents of each array leaf."""
        return {name: self.host_integers.sizes(self.host_name(self.leaves[name])) for name in self.array_dimensions()}

    def serial_variables(self, scalars: Mapping[str, Slot]) -> tuple[Variable, ...]:
        """The variables of serial loops among ``scalars``, where the host knows their ranges."""
        return tuple(
            Variable(Symbol.of(local, "serial"), *map(self.host_integers.of, self.serial_ranges[slot.name]))
            for local, slot in scalars.items()
            if slot.name in self.serial_ranges
        )

    def _given(self, source: str, check: Check) -> str:
        """``source`` where all conditions hold, which the host knows; elsewhere nothing is computed, and nothing is wrong."""
        known = [f"({ast.unparse(condition)})" for condition in self._conditions if condition is not None]
        if not known:
            return source
        return f"({source}) if {' and '.join(known)} else {0 if check in ('', 'size') else 1}"

    def local_name(self, name: str) -> str:
        """How generated code spells a user's local name: unlike every leaf and every generated name."""
        if name.startswith(ADDED):
            name = f"_{name.lstrip(ADDED)}"
            while name in self.leaves:
                name += "_"
            return name
        base = name.rstrip("_")
        ends = [len(leaf) - len(base) for leaf in self.leaves if leaf.rstrip("_") == base]
        # Of names that differ in underscores at their ends each gets as many: they stay different.
        return name + "_" * (1 + max(ends, default=0)) if ends or name.startswith("_") else name
