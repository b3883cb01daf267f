"""Whether loops can run on the device, found out by running one."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass

from qgraph.errors import QGraphError
from qgraph.runtime.cuda_driver import DeviceContext, call, device, driver, driver_version
from qgraph.runtime.cuda_graph import GraphInstance
from qgraph.runtime.cuda_kernels import LoadedCode
from qgraph.runtime.cuda_memory import Buffer, copy_in, copy_out

ENTRY = "qgraph_probe"
_TURNS = 3
_NOTE = "probe"

# One thread: counters[0] -= 1; counters[1] += 1; again if counters[0] > 0.
_PTX = """
.version 7.8
.target sm_{target}
.address_size 64

.extern .func cudaGraphSetConditional
(
    .param .b64 condition,
    .param .b32 value
);

.visible .entry qgraph_probe(
    .param .u64 condition,
    .param .u64 counters
)
{{
    .reg .pred %again;
    .reg .b32 %left, %turns, %value;
    .reg .b64 %handle, %at;

    ld.param.u64 %handle, [condition];
    ld.param.u64 %at, [counters];
    cvta.to.global.u64 %at, %at;
    ld.global.u32 %left, [%at];
    add.s32 %left, %left, -1;
    st.global.u32 [%at], %left;
    ld.global.u32 %turns, [%at+4];
    add.s32 %turns, %turns, 1;
    st.global.u32 [%at+4], %turns;
    setp.gt.s32 %again, %left, 0;
    selp.u32 %value, 1, 0, %again;
    {{
        .param .b64 first;
        .param .b32 second;
        st.param.b64 [first], %handle;
        st.param.b32 [second], %value;
        call.uni cudaGraphSetConditional, (first, second);
    }}
    ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a device can do. ``reason`` says how that is known, as a sentence."""

    device_loops: bool
    reason: str


def probe_ptx(capability: tuple[int, int]) -> str:
    """The PTX of the probe's kernel: entry ``qgraph_probe`` (uint64 handle, pointer to two int32)."""
    major, minor = min(capability, (7, 5))  # newer devices run PTX of older targets
    return _PTX.format(target=f"{major}{minor}")


def probe(context: DeviceContext, cubin_of: Callable[[str], bytes]) -> Probe:
    """Whether conditional while nodes work on this device; decided on the first call for it, and again after a reset.

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
        turns = _count_down(context, cubin_of(probe_ptx(context.capability)))
    except Exception as error:  # noqa: BLE001 - linker, cuda.core, driver: whatever it was, device loops do not work here
        first_line = (error.found if isinstance(error, QGraphError) else f"{type(error).__name__}: {error}").split("\n")[0]
        return Probe(False, f"conditional while nodes do not work on {where}: {first_line}")
    if turns != _TURNS:
        return Probe(False, f"a while node ran {turns} times instead of {_TURNS} on {where}")
    return Probe(True, f"a test loop ran on the device ({where})")


def _count_down(context: DeviceContext, cubin: bytes) -> int:
    # Run the body _TURNS times on the device; return how often it ran.
    with context.activate():
        code = LoadedCode(cubin)
        counters = Buffer(context, 8)
        start = ctypes.create_string_buffer(struct.pack("=2i", _TURNS, 0), 8)
        copy_in(counters, ctypes.addressof(start), 8)
        instance = GraphInstance()
        try:
            _build(instance, code, counters)
            call(driver.cuGraphLaunch, instance.executable, 0)
            call(driver.cuStreamSynchronize, 0)
            copy_out(counters, ctypes.addressof(start), 8)
            left, turns = struct.unpack("=2i", start.raw)
            return int(turns) if left == 0 else -1
        finally:
            instance.destroy()
            code.unload()
            counters.free()


def _build(instance: GraphInstance, code: LoadedCode, counters: Buffer) -> None:
    condition = instance.definition.create_condition(default_value=1)
    body = instance.definition.while_loop(condition).body
    # The driver copies the parameters while the node is added: they need not outlive this function.
    arguments = (ctypes.c_uint64(int(condition.handle)), ctypes.c_uint64(counters.pointer))
    pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(argument) for argument in arguments))
    node = driver.CUDA_KERNEL_NODE_PARAMS()
    node.func = code.function(ENTRY)
    node.gridDimX = node.gridDimY = node.gridDimZ = 1
    node.blockDimX = node.blockDimY = node.blockDimZ = 1
    node.kernelParams = ctypes.addressof(pointers)
    call(driver.cuGraphAddKernelNode, body.handle, None, 0, node)
    instance.instantiate(())


def known_probe(ordinal: int) -> Probe | None:
    """What ``probe`` found out about a device, None if it was not asked yet."""
    known = device(ordinal).notes.get(_NOTE)
    return known if isinstance(known, Probe) else None
