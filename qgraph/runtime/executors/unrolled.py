"""Unrolled device loops: several graphs of one plan, a plain one and those with copies of the bodies.

In those an iteration of the while node runs several guarded copies of the body; copies past the end exit. The device reports
trip counts, which the host reads without waiting before each launch. All graphs give the same answers. They share scratch: the
launch serialiser orders them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from qgraph.ir.artifacts import COPIED, ENDING, CudaPlan
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.unrolling import Form, Unrolling
from qgraph.runtime.driver.driver import DeviceContext, call, driver, failure, outside_captures
from qgraph.runtime.executors.graph import CudaGraphExecutable
from qgraph.runtime.executors.relaunch import Relaunch
from qgraph.runtime.graph.graph_builder import Ends, GraphInstance, Layout, RawGraph, add_conditional, new_condition
from qgraph.runtime.graph.kernel_parameters import Parameters
from qgraph.runtime.graph.kernels import KernelNode, LoadedCode
from qgraph.runtime.graph.nodes import NonKernelNodes
from qgraph.runtime.graph.unrolled_bodies import (
    VariantGraph,
    add_copies,
    add_counted_copies,
    add_handed_copies,
    around_told,
    followed_in,
    one_block,
)

# Blocks of a grid from which on it takes a while to do nothing, as copies behind the end of a loop do, and to look whether that
# is so: most blocks start when others have ended.
_SMALL = 128


class UnrolledLayout(Layout):
    """A graph with copies of bodies: of those of all unrolled loops, or of those that the plain graph needs.

    Those are the bodies of counted loops in which names of arrays change places: each copy has its arrays as parameters.
    In other loops the plain graph has the kernels that ask slots for them.

    Attributes:
        kernels: all kernels in it.
        followed: each kernel, copies once, with those that wait for it inside.
    """

    def __init__(
        self,
        plan: GraphPlan,
        kernels: Mapping[int, KernelNode],
        variants: Mapping[int, KernelNode],
        endings: Mapping[int, KernelNode],
        others: NonKernelNodes,
        programmatic: Set[tuple[int, int]],
        parameters: Parameters,
        *,
        waits_inside: bool,
        form: Form,
    ) -> None:
        self._bodies = {
            body: each
            for each in plan.unrolled
            for body in plan.nodes[each.node].bodies
            if form != "plain" or (each.counted is not None and each.counted.period > 1)
        }
        guards = {index: each for body, each in self._bodies.items() for index in plan.regions[body].nodes}

        def copies_of(index: int, form: Form) -> list[KernelNode]:
            variant = variants.get(index, kernels[index])
            return [variant.copied(number, parameters, form) for number in _numbers(guards.get(index), index, form)]

        # By node, its copies: one of what is in no such body, and in the plain graph itself.
        self._copies = {
            index: copies_of(index, form) if index in guards or form != "plain" else [kernel]
            for index, kernel in kernels.items()
        }
        # The same of those that look at no guard, by body.
        self._whole = {
            body: {index: copies_of(index, "whole") for index in plan.regions[body].nodes}
            for body, each in self._bodies.items()
            if form == "large" and each.counted is not None
        }
        groups = (self._copies, *self._whole.values())
        self._waits_inside = waits_inside
        # By body, what ends a turn of a loop that hands results on.
        self._endings = {
            body: endings[each.handed.nodes[each.handed.deciding]].copied(each.copies, parameters, form)
            for body, each in self._bodies.items()
            if each.handed is not None
        }
        self.kernels = [kernel for group in groups for copies in group.values() for kernel in copies]
        self.kernels += self._endings.values()
        carried = [edge for each in self._bodies.values() for edge in (each.counted or each).carried if waits_inside]
        carried += [edge for each in self._bodies.values() for edge in around_told(each, (*programmatic, *carried))]
        firsts = [{index: copies[0] for index, copies in group.items()} for group in groups]
        self.followed = [pair for first in firsts for pair in followed_in(first, (*programmatic, *carried))]

        def set_handle(node: int, handle: int) -> None:
            parameters.set_handle(node, handle, form)

        self._parameters = parameters
        # By body, the handle of its turns without guards.
        self._conditions: dict[int, Any] = {}
        super().__init__(plan, {**firsts[0], **others.nodes}, programmatic, set_handle)

    def fill(self, root: Any, graph: Any, region: int) -> Ends:
        """Add a region of the plan, copies included; of these the ends are not told."""
        unrolling = self._bodies.get(region)
        if unrolling is None:
            return super().fill(root, graph, region)
        if region in self._endings:
            add_handed_copies(graph, unrolling, self._copies, self._endings[region], waits_inside=self._waits_inside)
            return [], []
        add = add_copies if unrolling.counted is None else add_counted_copies
        add(graph, self._plan, unrolling, self._copies, waits_inside=self._waits_inside)
        return [], []

    def _condition(self, root: Any, node: Node) -> Any:
        for body in self._whole.keys() & set(node.bodies):
            self._conditions[body] = new_condition(root)
            self._parameters.set_handle(node.index, int(self._conditions[body]), "whole")
        return super()._condition(root, node)

    def _before(self, graph: Any, node: Node) -> Any:
        for body in self._whole.keys() & set(node.bodies):
            turns, (inside,) = add_conditional(graph, "while", self._conditions[body], 1)
            copies, unrolling = self._whole[body], self._bodies[body]
            add_counted_copies(inside, self._plan, unrolling, copies, waits_inside=self._waits_inside)
            return turns
        return None


def cost(turns: Sequence[tuple[int, int]], iterations: Sequence[int]) -> int:
    """What so many iterations of loops cost, of each of which a turn has so many and costs so much."""
    return sum(-(-count // copies) * each for (copies, each), count in zip(turns, iterations, strict=True))


def _numbers(unrolling: Unrolling | None, index: int, form: Form) -> Sequence[int]:
    """The numbers of the copies of node ``index``, whose loop is unrolled so."""
    if unrolling is None:
        return range(1)
    if unrolling.counted is None:
        return range(unrolling.copies)
    return unrolling.copies_of(index, form)


class CudaUnrollingExecutable(CudaGraphExecutable):
    """The plan as one CUDA graph, and others that are built when loops turn out to run long.

    Args:
        plan: compiled for the device's compute capability.
        device: where it runs.
        block_size: threads in a block, None for the default.
        reason: why the plan is a graph.
        unrolled: always a graph with copies, or never; None decides by how long the loops ran.
    """

    def __init__(
        self,
        plan: CudaPlan,
        device: DeviceContext,
        *,
        block_size: int | None = None,
        reason: str = "the whole kernel is one CUDA graph",
        unrolled: bool | None = None,
    ) -> None:
        self._choice = unrolled
        self._reasons = (reason, f"{reason}; its loops are unrolled, for as many iterations as they had last")
        # The graph that launches run; the iterations that loops had, and the graph that is best for so many.
        self._runs: Form = "plain"
        self._judged: tuple[list[int], Form] | None = None
        self._large = False
        # Whether all kernels of each loop that hands results on have as many threads in a block.
        self._alike = True
        self._graphs: dict[Form, VariantGraph] = {}
        # The nodes besides kernels of each graph but the plain one.
        self._more_others: list[NonKernelNodes] = []
        self._loops = plan.plan.unrolled
        self._counts = any(each.counted is not None for each in self._loops)
        forms: tuple[Form, ...] = ("plain", "many", "few") if self._counts else ("plain", "many")
        # Of each loop, in each of the graphs for small grids: iterations of a turn, and what one costs.
        self._turns_of = {form: [each.turn(form) for each in self._loops] for form in forms}
        super().__init__(plan, device, block_size=block_size, reason=reason)

    def _build(self) -> None:
        assert self._turns is not None
        self._iterations = memoryview(self._turns.words).cast("B").cast("q")
        super()._build()

    def _make_kernels(self, plan: CudaPlan, loaded: LoadedCode, block_size: int | None) -> None:
        super()._make_kernels(plan, loaded, block_size)
        self._variants, self._endings = self._further(COPIED), self._further(ENDING)
        # The same nodes as copies.
        self._handing = {index for each in self._loops if each.handed is not None for index in each.handed.nodes}

    def _complete(self) -> None:
        self._graphs["plain"] = self._make_graph("plain", self._instance, self._others)

    def _make_graph(self, form: Form, instance: GraphInstance, others: NonKernelNodes) -> VariantGraph:
        layout = UnrolledLayout(
            self.plan.plan,
            self._kernels,
            self._variants,
            self._endings,
            others,
            self._programmatic,
            self._parameters,
            waits_inside=self.plan.waits_inside,
            form=form,
        )
        self._let_start_early_at_first(layout.followed)
        layout.fill(instance.graph, instance.graph, 0)
        instance.instantiate([*layout.kernels, *others.nodes.values()])
        return VariantGraph(instance, layout.kernels, layout.followed)

    def _further(self, ending: str) -> dict[int, KernelNode]:
        """The kernels of copies that are others than those of their nodes, by the end of their names."""
        found = {}
        for index, kernel in self._kernels.items():
            code = self.plan.codes.get(f"{kernel.code.task.name}{ending}")
            if code is not None:
                found[index] = KernelNode(index, code, kernel.bit, kernel.loop, self._setting)
        return found

    def _wanted(self) -> Form:
        iterations, judged = self._iterations.tolist(), self._judged
        if judged is None or judged[0] != iterations:
            judged = self._judged = iterations, self._best(iterations)
        return judged[1]

    def _best(self, iterations: Sequence[int]) -> Form:
        """The graph that takes the shortest for loops of so many iterations."""
        long: Form = "large" if self._large and self._counts else "many"
        if not self._alike:
            return "plain"
        if self._choice is not None:
            return long if self._choice else "plain"
        if self._large:
            return long if sum(iterations) >= sum(each.long for each in self._loops) else "plain"
        return min(self._turns_of, key=lambda form: cost(self._turns_of[form], iterations))

    def _running(self) -> Any:
        return self._graphs[self._runs].instance.executable

    def _launch_again(self, repeat: Relaunch) -> Any:
        return super()._launch_again(repeat) if self._choice is not None or self._wanted() == self._runs else None

    def _run(self, stream: int) -> None:
        wanted = self._wanted()
        if wanted != self._runs and wanted in self._graphs:
            self._change(wanted)
        graph = self._graphs[self._runs]
        graph.bring_up_to_date()
        code = self._launch_graph(graph.instance.executable, stream)[0]
        if code != 0:
            raise failure(code, "cuGraphLaunch")
        if wanted != self._runs:
            # A graph needs the arguments of a call to be built: the next one is as if they were new.
            self._token = None

    def _change(self, form: Form) -> None:
        self._runs = form
        self.reason = self._reasons[form != "plain"]

    def _patch(self, request: Any) -> None:
        wanted = self._wanted()
        if wanted not in self._graphs:
            self._build_unrolled(wanted)
        super()._patch(request)

    def _build_unrolled(self, form: Form) -> None:
        scratch = self._resources.scratch
        assert scratch is not None
        with outside_captures():
            others = self._make_others(scratch.pointer)
            self._resources.more.append(others)
            self._graphs[form] = self._make_graph(form, self._begin(), others)
        self._more_others.append(others)
        if not self._launched:
            self._change(form)

    def _update_others(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        changed = super()._update_others(values, host)
        for others in self._more_others:
            others.update(values, host)
            if others.rejected:
                self._instantiate_again()
        return changed

    def _resize(self, host: tuple[int, ...]) -> None:
        # May be refused, so before anything changes.
        own = {index: self._variants[index].shape_for(host) for index in self._handing if not self._kernels[index].code.reduces}
        super()._resize(host)
        for index, variant in self._variants.items():
            shape = own.get(index, self._kernels[index].shape)
            if shape != variant.shape:
                self._parameters.changed |= variant.bit
                variant.take_shape(shape)
        self._hand_on()
        copies = {**self._kernels, **self._variants}
        for form, graph in self._graphs.items():
            graph.take_shapes(self._kernels if form == "plain" else copies)
            self._let_start_early(graph.followed)
        self._large = max((kernel.shape.all_blocks for kernel in self._sized), default=1) > _SMALL
        self._judged = None

    def _hand_on(self) -> None:
        """Tell kernels how many blocks those before them have."""
        self._alike = True
        for each in self._loops:
            if each.handed is not None:
                shapes = [self._variants[index].shape for index in each.handed.nodes]
                self._alike &= len({shape.threads * shape.threads_down for shape in shapes}) == 1
                for index, shape in zip(each.handed.nodes, shapes, strict=True):
                    self._parameters.set_parts(index, shape.all_blocks)
        for index, ending in self._endings.items():
            ending.take_shape(one_block(self._variants[index].shape))

    def _apply(self, changed: int) -> None:
        # The graph that is launched next is patched then.
        for graph in self._graphs.values():
            graph.stale |= changed

    def _raw(self) -> RawGraph:
        # Who launches it knows nothing of the other graphs, so from now on there are none.
        self._choice, self._judged = False, None
        if self._runs != "plain":
            call(driver.cuCtxSynchronize)
            self._change("plain")
        self._graphs["plain"].bring_up_to_date()
        return super()._raw()
