"""What must have happened before a kernel of an unrolled body looks at its guard, and before it begins its work.

A model of programmatic edges. A kernel starts when all before it have let it; it has waited when all before it have ended, as
they do only when they have waited. It lets others start when it starts itself (``early`` is 1), when it has waited (2), or when
it has ended (0). Each of these needs all that it follows from: so what must precede it is all from which it can be reached.
"""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.ir.artifacts import TRIGGERS_FIRST, TRIGGERS_LATER
from qgraph.ir.plan import Node
from qgraph.ir.program import Effects
from qgraph.lowering.codegen.unrolling import unroll_loops
from qgraph.lowering.graph.dependencies import edges_of, touched_places

COPIES = 3


def loop(x, n):
    while qgraph.graph_do_while(n):
        for i in range(x.shape[0]):
            x[i] = x[i] + 1
        n[()] -= 1


PLAN = qgraph.kernel(loop).plan(np.ones(4), np.array(3))
WHILE = next(node for node in PLAN.nodes if node.kind == "while")


def random_body(chance):
    """Effects of up to five kernels, and which of them decides: it alone writes the flag."""
    effects = []
    for _ in range(chance.randint(1, 5)):
        reads, writes = (frozenset(place for place in "abcn" if chance.random() < odds) for odds in (0.3, 0.25))
        effects.append(Effects(reads, writes - {"n"}))
    decides = chance.randrange(len(effects))
    effects[decides] = effects[decides] | Effects(frozenset("n"), frozenset("n"))
    return effects, decides


def plan_of(effects, decides):
    """A plan of one loop whose body has kernels with these effects, unrolled as qgraph does it."""
    (region,) = WHILE.bodies
    task = PLAN.nodes[PLAN.regions[region].nodes[0]].task
    nodes = [replace(WHILE, index=0, region=0)]
    for index, each in enumerate(effects, 1):
        mine = replace(WHILE.control.condition if index == decides + 1 else task, effects=each)
        nodes.append(Node(index, "kernel", f"k{index}", task.span, region, task=mine))
    nodes[0] = replace(nodes[0], control=replace(WHILE.control, condition=nodes[decides + 1].task))
    numbers = tuple(range(1, len(nodes)))
    edges = tuple(edges_of(list(zip(numbers, effects, strict=True)), {}))
    regions = (replace(PLAN.regions[0], nodes=(0,)), replace(PLAN.regions[region], nodes=numbers))
    return unroll_loops(replace(PLAN, nodes=tuple(nodes), edges=edges, regions=regions))


def edges_between_copies(plan, unrolling, monkeypatch):
    """The edges of the graph, between (node, copy), as the runtime connects them."""
    runtime = pytest.importorskip("qgraph.runtime.graph.unrolled_bodies")
    found = []
    monkeypatch.setattr(runtime, "add_node", lambda graph, kernel: kernel)
    monkeypatch.setattr(runtime, "connect", lambda graph, pairs, programmatic: found.extend(pairs))
    body = plan.regions[plan.nodes[unrolling.node].bodies[0]]
    copies = {index: [(index, number) for number in range(unrolling.copies)] for index in body.nodes}
    runtime.add_copies(None, plan, unrolling, copies, waits_inside=True)
    return found


def early_of(plan, index, early, handed=""):
    """The parameter of that name, as the runtime sets it."""
    kernels = pytest.importorskip("qgraph.runtime.graph.kernels")
    words = {}
    own = {"_guards": plan.guards, "_behind": frozenset(), "_integers": words, "_early_words": {"many": {index: 0}}}
    parameters = SimpleNamespace(changed=0, **own)
    kernel = SimpleNamespace(bit=1, copy=0, form="many", index=index, code=SimpleNamespace(handed=handed))
    kernels.Parameters.set_early(parameters, kernel, early)
    return words[0]


def before_each(edges, early):
    """For each event of each kernel in the first copies, all events that must precede it. ``edges`` lead to later kernels."""
    before = {}
    for kernel in sorted({kernel for edge in edges for kernel in edge}, key=lambda kernel: kernel[::-1]):
        earlier = [first for first, second in edges if second == kernel]

        def add(event, *causes, kernel=kernel):
            before[event, kernel] = frozenset(causes).union(*(before[cause] for cause in causes))

        add("start", *(("let", first) for first in earlier))
        add("waited", ("start", kernel), *(("ended", first) for first in earlier))
        add("ended", ("waited", kernel))
        add("let", ({0: "ended", 1: "start", 2: "waited"}[early[kernel[0]]], kernel))
    return before


def test_nobody_looks_at_a_guard_or_works_too_soon(monkeypatch):
    chance = random.Random(4)
    for number in range(600):
        effects, decides = random_body(chance)
        plan = plan_of(effects, decides)
        (unrolling,) = plan.unrolled
        edges = [edge for edge in edges_between_copies(plan, unrolling, monkeypatch) if edge[1][1] < COPIES]
        # Most is allowed where all let others start early; but those that do not are others each time.
        early = {index: early_of(plan, index, number % 2 == 0 or chance.random() < 0.5) for index in plan.guards}
        before = before_each(edges, early)
        places = [(touched_places(e.reads | e.writes, {}), touched_places(e.writes, {})) for e in effects]
        for index, copy in [(index, copy) for index in plan.guards for copy in range(COPIES)]:
            looks = "start" if index in unrolling.followers else "waited"
            if copy:
                assert ("ended", (decides + 1, copy - 1)) in before[looks, (index, copy)], (effects, decides, index)
            for other, earlier in [(other, earlier) for other in plan.guards for earlier in range(copy + 1)]:
                touched, written = places[index - 1], places[other - 1]
                if (earlier, other) < (copy, index) and (written[1] & touched[0] or written[0] & touched[1]):
                    assert ("ended", (other, earlier)) in before["waited", (index, copy)], (effects, other, index)


def sweeping(u, v, least):
    change = least + 1.0
    while change > least:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            v[i] = u[i - 1] + u[i + 1]
            change = max(change, abs(v[i] - u[i]))
        u, v = v, u


def adding(u, v, least):
    change = least + 1.0
    while change > least:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            u[i] += v[i]
            change = max(change, u[i])


@pytest.mark.parametrize(("function", "word"), [(sweeping, TRIGGERS_LATER), (adding, TRIGGERS_FIRST)])
def test_copies_with_arrays_of_their_own_start_one_after_another(function, word):
    plan = qgraph.kernel(function).plan(np.zeros(9), np.zeros(9), 1.0)
    (unrolling,) = plan.unrolled
    (index,) = plan.guards
    assert bool(unrolling.handed.arrays) == (function is sweeping)
    assert early_of(plan, index, True) == word
    assert early_of(plan, index, False) == 0
    # Copies that hand results on do, of whatever arrays.
    assert early_of(plan, index, True, "copy") == TRIGGERS_LATER
