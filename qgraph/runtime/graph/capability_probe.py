"""Capability probe: whether conditional nodes work on a device, found out by running some."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from qgraph.errors import QGraphError
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import DeviceContext, call, driver, driver_version
from qgraph.runtime.driver.memory import Buffer, copy_in, copy_out
from qgraph.runtime.graph.graph_builder import GraphInstance, add_conditional, connect, new_condition
from qgraph.runtime.graph.kernels import LoadedCode
from qgraph.runtime.graph.launch_serialiser import LaunchSerialiser

_TURNS = 5
_NOTE = "probe"

# Counters: turns of the loop; odd and even ones, by an IF node; the first and the second, by a SWITCH node.
_COUNTERS = struct.Struct("=5i")
_EXPECTED = (_TURNS, _TURNS // 2, _TURNS - _TURNS // 2, 1, 1)

# What `qgraph_probe_decide` sets its condition to.
_PARITY, _TURN, _AGAIN = range(3)

# One thread each. decide: the turn's parity, its number, or, after counting it, whether there is another. count: counter += 1.
_PTX = """
.version 7.8
.target sm_{target}
.address_size 64

.extern .func cudaGraphSetConditional
(
    .param .b64 condition,
    .param .b32 value
);

.visible .entry qgraph_probe_decide(
    .param .u64 condition,
    .param .u64 counters,
    .param .u32 what
)
{{
    .reg .pred %test;
    .reg .b32 %turn, %value, %what;
    .reg .b64 %handle, %at;

    ld.param.u64 %handle, [condition];
    ld.param.u64 %at, [counters];
    ld.param.u32 %what, [what];
    cvta.to.global.u64 %at, %at;
    ld.global.u32 %turn, [%at];
    and.b32 %value, %turn, 1;
    setp.eq.u32 %test, %what, {parity};
    @%test bra SET;
    mov.u32 %value, %turn;
    setp.eq.u32 %test, %what, {turn};
    @%test bra SET;
    add.u32 %turn, %turn, 1;
    st.global.u32 [%at], %turn;
    setp.lt.u32 %test, %turn, {turns};
    selp.u32 %value, 1, 0, %test;
SET:
    {{
        .param .b64 first;
        .param .b32 second;
        st.param.b64 [first], %handle;
        st.param.b32 [second], %value;
        call.uni cudaGraphSetConditional, (first, second);
    }}
    ret;
}}

.visible .entry qgraph_probe_count(
    .param .u64 counter
)
{{
    .reg .b32 %count;
    .reg .b64 %at;

    ld.param.u64 %at, [counter];
    cvta.to.global.u64 %at, %at;
    ld.global.u32 %count, [%at];
    add.u32 %count, %count, 1;
    st.global.u32 [%at], %count;
    ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a device can do. ``reason`` says how that is known, as a sentence."""

    device_loops: bool
    device_branches: bool
    reason: str


def probe_ptx(capability: tuple[int, int]) -> str:
    """The PTX of the probe's kernels."""
    major, minor = min(capability, (7, 5))  # newer devices run PTX of older targets
    return _PTX.format(target=f"{major}{minor}", parity=_PARITY, turn=_TURN, turns=_TURNS)


def probe(context: DeviceContext, cubin_of: Callable[[str], bytes]) -> Probe:
    """Whether conditional nodes work on this device; decided on the first call for it, and again after a reset.

    Args:
        context: the device.
        cubin_of: links PTX to a cubin for this device, with libcudadevrt where there is one.
    """
    # Two threads that ask at once get one probe.
    with context.lock:
        context.refresh()
        known = context.notes.get(_NOTE)
        if isinstance(known, Probe):
            return known
        result = _decide(context, cubin_of)
        context.notes[_NOTE] = result
        return result


def _decide(context: DeviceContext, cubin_of: Callable[[str], bytes]) -> Probe:
    where = f"{context.name}, driver for CUDA {'.'.join(map(str, driver_version()))}"
    try:
        cubin = cubin_of(probe_ptx(context.capability))
    except Exception as error:  # noqa: BLE001 - whatever the linker raised, device loops do not work here
        return Probe(False, False, f"the kernels of a test loop do not link on {where}: {_words(error)}")
    # A while node whose body has the others: some drivers run branches wrongly, or inside loops only.
    trouble = _trouble(context, cubin, branches=True)
    if not trouble:
        return Probe(True, True, f"a test loop with branches ran on the device ({where})")
    loop_trouble = _trouble(context, cubin, branches=False)
    if not loop_trouble:
        return Probe(True, False, f"a test loop ran on the device, but branches inside one do not work on {where}: {trouble}")
    return Probe(False, False, f"conditional nodes do not work on {where}: {loop_trouble}")


def _trouble(context: DeviceContext, cubin: bytes, *, branches: bool) -> str:
    """What went wrong with a test graph, empty if nothing did."""
    try:
        counted = _run(context, cubin, branches=branches)
    except Exception as error:  # noqa: BLE001 - bindings, driver: whatever it was, such a graph does not work here
        return _words(error)
    expected = _EXPECTED if branches else (_TURNS, 0, 0, 0, 0)
    return "" if counted == expected else f"its bodies ran {counted} times instead of {expected}"


def _words(error: Exception) -> str:
    return (error.found if isinstance(error, QGraphError) else f"{type(error).__name__}: {error}").split("\n")[0]


def _run(context: DeviceContext, cubin: bytes, *, branches: bool) -> tuple[int, ...]:
    """Run a test graph; gives what it counted."""
    with context.activate():
        code = LoadedCode(cubin)
        counters = Buffer(context, _COUNTERS.size)
        memory = ctypes.create_string_buffer(_COUNTERS.size)
        copy_in(counters, ctypes.addressof(memory), _COUNTERS.size)
        instance = GraphInstance()
        try:
            _TestGraph(instance.graph, code, counters).fill(branches)
            instance.instantiate(())
            call(context.once(LaunchSerialiser).launch, instance.executable, 0)
            call(driver.cuStreamSynchronize, 0)
            copy_out(counters, ctypes.addressof(memory), _COUNTERS.size)
            return _COUNTERS.unpack(memory.raw)
        finally:
            instance.destroy()
            code.unload()
            counters.free()


class _TestGraph:
    """``while: [if odd: count, else: count; switch turn: count, count]``, and the counters behind it."""

    def __init__(self, root: Any, code: LoadedCode, counters: Buffer) -> None:
        self._root = root
        self._counters = counters.pointer
        self._decide = code.function("qgraph_probe_decide")
        self._count = code.function("qgraph_probe_count")

    def fill(self, branches: bool) -> None:
        again = new_condition(self._root)
        _, (body,) = add_conditional(self._root, "while", again, 1)
        last = self._add_branches(body) if branches else None
        self._kernel(body, self._decide, self._arguments(again, _AGAIN), last)

    def _add_branches(self, body: Any) -> Any:
        parity, choice = new_condition(self._root), new_condition(self._root)
        by_parity, regions = add_conditional(body, "if", parity, 2)
        by_turn, more_regions = add_conditional(body, "switch", choice, 2)
        for place, region in enumerate((*regions, *more_regions), start=1):
            self._kernel(region, self._count, (ctypes.c_uint64(self._counters + 4 * place),), None)
        deciding = self._kernel(body, self._decide, self._arguments(parity, _PARITY), None)
        connect(body, [(deciding, by_parity)], programmatic=False)
        deciding = self._kernel(body, self._decide, self._arguments(choice, _TURN), by_parity)
        connect(body, [(deciding, by_turn)], programmatic=False)
        return by_turn

    def _arguments(self, condition: Any, what: int) -> tuple[Any, ...]:
        return ctypes.c_uint64(int(condition)), ctypes.c_uint64(self._counters), ctypes.c_uint32(what)

    def _kernel(self, body: Any, function: Any, arguments: tuple[Any, ...], after: Any) -> Any:
        # The driver copies the parameters while the node is added: they need not outlive this function.
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = function
        node.gridDimX = node.gridDimY = node.gridDimZ = 1
        node.blockDimX = node.blockDimY = node.blockDimZ = 1
        node.kernelParams = ctypes.addressof(pointers)
        before = None if after is None else [after]
        return call(driver.cuGraphAddKernelNode, body, before, 0 if before is None else 1, node)
