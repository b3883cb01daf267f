"""Program -> GraphPlan: one node a task, one while node a device loop, edges from effects."""

from __future__ import annotations

from qgraph.lowering.dependencies import edges_of
from qgraph.plan import GraphPlan, Node, Region
from qgraph.program import Effects, Loop, Program, Statement, Task, TaskStatement, effects_of


def build_plan(program: Program) -> GraphPlan:
    """The graph of ``program``, bodies of device loops included."""
    builder = _Builder(program)
    builder.region(program.body, None, None)
    return GraphPlan(
        program,
        tuple(builder.nodes),
        tuple(sorted(builder.edges)),
        tuple(Region(index, parent, tuple(nodes)) for index, (parent, nodes) in enumerate(builder.regions)),
    )


class _Builder:
    """Nodes are numbered in program order; a while node comes before the nodes of its body."""

    def __init__(self, program: Program) -> None:
        self._resources = resources_of(program)
        self.nodes: list[Node] = []
        self.edges: list[tuple[int, int]] = []
        self.regions: list[tuple[int | None, list[int]]] = []

    def region(self, statements: tuple[Statement, ...], parent: int | None, condition: Task | None) -> int:
        """Add a region for ``statements``, and behind them the condition of the loop whose body it is."""
        index = len(self.regions)
        self.regions.append((parent, []))
        touched: list[tuple[int, Effects]] = []
        for statement in statements:
            if isinstance(statement, TaskStatement):
                touched.append((self._kernel(index, statement.task), statement.task.effects))
                continue
            if statement.enter is not None:
                touched.append((self._kernel(index, statement.enter), statement.enter.effects))
            touched.append((self._while(index, statement), self._loop_effects(statement)))
        if condition is not None:
            touched.append((self._kernel(index, condition), condition.effects))
        self.edges += edges_of(touched, self._resources)
        return index

    def _kernel(self, region: int, task: Task) -> int:
        index = len(self.nodes)
        label = task.name if task.role == "loop" else f"{task.name} ({task.role})"
        self.nodes.append(Node(index, "kernel", label, task.span, region, task=task))
        self.regions[region][1].append(index)
        return index

    def _while(self, region: int, loop: Loop) -> int:
        index = len(self.nodes)
        node = Node(index, "while", loop.label, loop.span, region, loop=loop, body=len(self.regions))
        self.nodes.append(node)
        self.regions[region][1].append(index)
        self.region(loop.body, index, loop.condition)
        return index

    def _loop_effects(self, loop: Loop) -> Effects:
        # The loop reads its own condition, which its enter task may have set.
        return effects_of(loop) | Effects(frozenset({loop.condition_slot.name}))


def resources_of(program: Program) -> dict[str, str]:
    """For each leaf, the resource it is: leaves that share memory are one."""
    parent = {leaf.name: leaf.name for leaf in program.leaves}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for first, second in program.aliases:
        parent[root(second)] = root(first)
    return {name: root(name) for name in parent}
