"""A plan with loops that can be unrolled, as two graphs: a plain one, and one for loops that run long.

In the second a turn of a loop runs several copies of its body, guarded so that those behind the end do nothing. The device
tells how many iterations the loops had, and the host looks at what it knows of that before each launch. Both graphs give the
same answers, so it does not matter which one runs. They share scratch: that they take turns is seen to where graphs with
loops are launched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from qgraph.compiled import COPIED, PROGRAMMATIC, CudaPlan
from qgraph.plan import GraphPlan, Unrolling
from qgraph.runtime.cuda_copies import Form, add_copies, add_counted_copies, followed_in
from qgraph.runtime.cuda_driver import DeviceContext, call, driver, failure, outside_captures
from qgraph.runtime.cuda_graph import CudaGraphExecutable
from qgraph.runtime.cuda_kernels import KernelNode, Parameters
from qgraph.runtime.cuda_layout import Layout, RawGraph
from qgraph.runtime.cuda_nodes import OtherNodes


class CopiesLayout(Layout):
    """A graph with copies of bodies: of those of all unrolled loops, or of those that the plain graph needs.

    Those are the bodies of counted loops in which names of arrays change places: each copy has its arrays as parameters.

    Attributes:
        kernels: all kernels in it.
        followed: each kernel, copies once, with those that wait for it inside.
    """

    def __init__(
        self,
        plan: GraphPlan,
        kernels: Mapping[int, KernelNode],
        variants: Mapping[int, KernelNode],
        others: OtherNodes,
        programmatic: Set[tuple[int, int]],
        parameters: Parameters,
        *,
        waits_inside: bool,
        plain: bool,
    ) -> None:
        self._bodies = {
            body: each
            for each in plan.unrolled
            for body in plan.nodes[each.node].bodies
            if not plain or (each.counted is not None and each.counted.period > 1)
        }
        guards = {index: each for body, each in self._bodies.items() for index in plan.regions[body].nodes}
        # By node, its copies: one of what is in no such body, and in the plain graph itself.
        self._copies = {
            index: [
                variants.get(index, kernel).copied(number, parameters)
                for number in _numbers(guards.get(index), index, plain=plain)
            ]
            if index in guards or not plain
            else [kernel]
            for index, kernel in kernels.items()
        }
        first = {index: copies[0] for index, copies in self._copies.items()}
        self._waits_inside = waits_inside
        self.kernels = [kernel for copies in self._copies.values() for kernel in copies]
        carried = [edge for each in self._bodies.values() for edge in (each.counted or each).carried if waits_inside]
        self.followed = followed_in(first, (*programmatic, *carried))

        def set_handle(node: int, handle: int) -> None:
            parameters.set_handle(node, handle, unrolled=not plain)

        super().__init__(plan, {**first, **others.nodes}, programmatic, set_handle)

    def fill(self, root: Any, graph: Any, region: int) -> None:
        """Add a region of the plan, copies included."""
        unrolling = self._bodies.get(region)
        if unrolling is None:
            super().fill(root, graph, region)
        else:
            add = add_copies if unrolling.counted is None else add_counted_copies
            add(graph, self._plan, unrolling, self._copies, waits_inside=self._waits_inside)


def _numbers(unrolling: Unrolling | None, index: int, *, plain: bool) -> range:
    """The numbers of the copies of node ``index``, whose loop is unrolled so."""
    if unrolling is None:
        return range(1)
    if unrolling.counted is None:
        return range(unrolling.copies)
    numbers = unrolling.counted_numbers(plain=plain)
    return numbers[:1] if index == unrolling.counted.node else numbers


class CudaUnrollingExecutable(CudaGraphExecutable):
    """The plan as one CUDA graph, and a second one that is built when loops turn out to run long.

    Args:
        plan: compiled for the device's compute capability.
        device: where it runs.
        block_size: threads in a block, None for the default.
        reason: why the plan is a graph.
        unrolled: always the second graph, or never; None decides by how long the loops ran.
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
        self._reasons = (reason, f"{reason}; its loops run long, and are unrolled")
        # Whether launches run the second graph.
        self._runs_unrolled = False
        super().__init__(plan, device, block_size=block_size, reason=reason)

    def _build(self) -> None:
        super()._build()
        assert self._turns is not None
        self._iterations = memoryview(self._turns.words).cast("B").cast("q")
        self._many = sum(each.long for each in self.plan.plan.unrolled)
        kernels, followed = self._plain_copies
        self._plain = Form(self._instance, kernels, followed)
        self._unrolled: Form | None = None
        self._more_others: OtherNodes | None = None

    def _complete(self) -> None:
        layout = self._layout(self._others, plain=True)
        self._let_start_early_at_first(layout.followed)
        instance = self._instance
        layout.fill(instance.graph, instance.graph, 0)
        instance.instantiate([*layout.kernels, *self._others.nodes.values()])
        self._plain_copies = layout.kernels, layout.followed

    def _layout(self, others: OtherNodes, *, plain: bool) -> CopiesLayout:
        return CopiesLayout(
            self.plan.plan,
            self._kernels,
            self._variants(),
            others,
            self._programmatic,
            self._parameters,
            waits_inside=self.plan.capability >= PROGRAMMATIC,
            plain=plain,
        )

    def _wanted(self) -> bool:
        if self._choice is not None:
            return self._choice
        return sum(self._iterations) >= self._many

    def _form(self) -> Form:
        return self._unrolled if self._unrolled is not None and self._runs_unrolled else self._plain

    def _running(self) -> tuple[Any, Callable[[], bool] | None]:
        unrolled, wanted = self._runs_unrolled, self._wanted
        return self._form().instance.executable, None if self._choice is not None else lambda: wanted() == unrolled

    def _run(self, stream: int) -> None:
        wanted = self._wanted()
        if wanted != self._runs_unrolled and (self._unrolled is not None or not wanted):
            self._change(wanted)
        form = self._form()
        form.bring_up_to_date()
        code = self._launch_graph(form.instance.executable, stream)[0]
        if code != 0:
            raise failure(code, "cuGraphLaunch")
        if wanted != self._runs_unrolled:
            # The second graph needs the arguments of a call: the next one is as if they were new.
            self._token = None

    def _change(self, unrolled: bool) -> None:
        self._runs_unrolled = unrolled
        self.reason = self._reasons[unrolled]

    def _patch(self, request: Any) -> None:
        if self._unrolled is None and self._wanted():
            self._build_unrolled()
        super()._patch(request)

    def _build_unrolled(self) -> None:
        scratch = self._resources.scratch
        assert scratch is not None
        with outside_captures():
            others = self._make_others(scratch.pointer)
            self._resources.more.append(others)
            layout = self._layout(others, plain=False)
            self._let_start_early_at_first(layout.followed)
            instance = self._begin()
            layout.fill(instance.graph, instance.graph, 0)
            instance.instantiate([*layout.kernels, *others.nodes.values()])
        self._more_others = others
        self._unrolled = Form(instance, layout.kernels, layout.followed)
        if not self._launched:
            self._change(True)

    def _variants(self) -> dict[int, KernelNode]:
        """The kernels of copies that are others than those of the plain graph, with their shapes."""
        found = {}
        for index, kernel in self._kernels.items():
            code = self.plan.codes.get(f"{kernel.code.task.name}{COPIED}")
            if code is not None:
                found[index] = KernelNode(index, code, kernel.bit, None, self._setting)
                found[index].take_shape(kernel.shape)
        return found

    def _update_others(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        changed = super()._update_others(values, host)
        if self._more_others is not None:
            self._more_others.update(values, host)
            if self._more_others.rejected:
                self._instantiate_again()
        return changed

    def _resize(self, host: tuple[int, ...]) -> None:
        super()._resize(host)
        for form in (self._plain, self._unrolled):
            if form is not None:
                form.take_shapes(self._kernels)
                self._let_start_early(form.followed)

    def _apply(self, changed: int) -> None:
        # The graph that is launched next is patched then.
        self._plain.stale |= changed
        if self._unrolled is not None:
            self._unrolled.stale |= changed

    def _raw(self) -> RawGraph:
        # Who launches it knows nothing of the other graph, so from now on there is none.
        self._choice = False
        if self._runs_unrolled:
            call(driver.cuCtxSynchronize)
            self._change(False)
        self._plain.bring_up_to_date()
        return super()._raw()
