"""Every call of the CUDA driver fails once: ``python -m tests.faults [--kernels NAME ...] [--phases NAME ...] [--every N]``.

Kernels that together use all kinds of things are called for the first time, again with the same arguments, others, and
other sizes. Each driver call is refused in turn. There must be an error that names what failed, nothing changed
where nothing was launched, the right answer the next time, and nothing left in the end. Then the context is lost at each of
them: all later calls are refused, too. Without a GPU the driver is that of tests/played_driver.py.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

if not os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/dxg"):
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import qgraph
from qgraph.errors import CudaError, PerformanceWarning
from qgraph.runtime.driver import driver as cuda_driver
from qgraph.runtime.driver.captures import KeptForGraphs
from qgraph.runtime.graph.library_recorder import LibraryRecorder
from tests.fault_kernels import CASES, Case

PHASES = ("first call", "same again", "other arrays", "kept", "in turn", "other size", "let go")

# --- what fails how ----------------------------------------------------------------------------------------------------

INVALID_VALUE, OUT_OF_MEMORY, INVALID_IMAGE, NOT_FOUND, ILLEGAL_ADDRESS, OUT_OF_RESOURCES = 1, 2, 200, 500, 700, 701
CAPTURE_INVALIDATED, UPDATE_FAILURE, UNKNOWN = 901, 910, 999


def code_of(name: str) -> int:
    """What the driver says where it refuses this call."""
    if name in ("cuMemFree", "cuMemFreeHost") or "Destroy" in name or "Unload" in name:
        return INVALID_VALUE
    if "Launch" in name:
        return OUT_OF_RESOURCES
    if name == "cuLibraryLoadData":
        return INVALID_IMAGE
    if name in ("cuLibraryGetKernel", "cuKernelGetFunction"):
        return NOT_FOUND
    if name == "cuStreamEndCapture":
        return CAPTURE_INVALIDATED
    if "SetParams" in name:
        return UPDATE_FAILURE
    if "Alloc" in name or "Create" in name or "Instantiate" in name or "GraphAdd" in name:
        return OUT_OF_MEMORY
    return UNKNOWN


# The driver answers these whatever happened to the context.
_NO_CONTEXT = ("cuInit", "cuDriver", "cuDevice", "cuCtxGet", "cuCtxSet", "cuCtxPush", "cuCtxPop", "cuThread")


def lost(name: str) -> int | None:
    """The same after the context was lost."""
    return None if name.startswith(_NO_CONTEXT) else ILLEGAL_ADDRESS


def all_lost(name: str) -> int | None:
    """The same, where the driver answers nothing any more."""
    return ILLEGAL_ADDRESS


# What starts work: only before it nothing may have changed.
_STARTS = ("cuGraphLaunch", "cuLaunch")
_LETS_GO = ("Destroy", "Free", "Unload")

# --- running -----------------------------------------------------------------------------------------------------------


class Violation(AssertionError):
    """What must not be."""


@dataclasses.dataclass
class Figures:
    """What became of the calls of one phase."""

    calls: int = 0
    named: int = 0
    absorbed: int = 0
    recovered: int = 0
    # What the driver did not take back; and how much may be left since the last look.
    stays: int = 0
    may_stay: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)


class Runner:
    """One kernel, and its arguments."""

    def __init__(self, case: Case, driver: Any) -> None:
        self.case, self.driver = case, driver
        stands_in = isinstance(case.function, type)
        made = case.function if stands_in else functools.partial(qgraph.kernel, case.function, backend="cuda")
        self.kernel: Any = made(**case.options)
        self.pool = qgraph.pool(1 << 20, backend="cuda") if case.pool else None
        # By size and set, so that arrays come again.
        self._arrays: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._more: dict[int, tuple[Any, ...]] = {}

    def arrays(self, n: int, which: int) -> tuple[Any, ...]:
        if (n, which) not in self._arrays:
            made = tuple(np.zeros(n) for _ in range(2))
            self._arrays[n, which] = made if self.case.staged else tuple(qgraph.asarray(x, backend="cuda") for x in made)
        return self._arrays[n, which]

    def more(self, which: int) -> tuple[Any, ...]:
        """What a call gets besides: a flag, or events."""
        if which not in self._more:
            flags = [qgraph.asarray(np.zeros(1, np.int64), backend="cuda")] * self.case.flag
            with cuda_driver.device().activate():
                made = [int(cuda_driver.call(cuda_driver.driver.cuEventCreate, 0)) for _ in range(self.case.events)]
            self._more[which] = (*flags, *made)
        return self._more[which]

    def given(self, n: int, which: int) -> tuple[Any, ...]:
        more = [np.zeros(1, np.int64)] * self.case.flag + [None] * self.case.events
        return np.arange(float(n)) + which, np.arange(float(n)) * 2 + 1, self.case.a + which, *more

    def prepare(self, n: int, which: int) -> tuple[Any, ...]:
        """The arguments, with the values that they have at first."""
        *values, a = self.given(n, which)[:3]
        arrays = self.arrays(n, which)
        for array, value in zip(arrays, values, strict=True):
            array[:] = value
        return (*arrays, a, *self.more(which))

    def call(self, arguments: tuple[Any, ...]) -> Any:
        with self.pool if self.pool is not None else contextlib.nullcontext():
            return self.kernel(*arguments)

    def found(self, n: int, which: int) -> list[np.ndarray]:
        return [np.array(qgraph.to_numpy(each)) for each in self.arrays(n, which)]

    def agrees(self, n: int, which: int, result: Any, of: Any = None) -> None:
        """Whether the arrays are what plain Python leaves."""
        wanted = self.given(n, which)
        value = self.kernel.reference(*wanted)
        qgraph.synchronize()
        for mine, plain in zip(self.found(n, which), wanted, strict=False):
            if not np.array_equal(mine, plain):
                raise Violation(f"wrong numbers: {mine} instead of {plain}")
        if value is not None and result != value:
            raise Violation(f"wrong result: {result} instead of {value}")

    def good(self, n: int, which: int) -> None:
        """A call in which nothing fails."""
        self.agrees(n, which, self.call(self.prepare(n, which)))

    def unchanged(self, n: int, which: int) -> None:
        for mine, plain in zip(self.found(n, which), self.given(n, which), strict=False):
            if not np.array_equal(mine, plain):
                raise Violation(f"nothing was launched, and {plain} became {mine}")

    def clear(self) -> None:
        """Let go of everything but the arrays."""
        self.kernel.clear_cache()
        gc.collect()
        settle()

    def left(self) -> dict[str, int]:
        return {kind: count for kind, count in self.driver.alive.items() if kind and count}


def settle() -> None:
    """Wait, and free what finalizers left."""
    for device in cuda_driver.devices_in_use():
        device.wait()
        # What libraries launched is recorded again.
        device._once.pop(LibraryRecorder, None)
        device.free_retired()
        # What graphs kept that are gone, as a thread of the driver tells a little later; else the next capture lets go of it.
        kept = device.once(KeptForGraphs)
        until = time.perf_counter() + 0.2
        while kept._alive and time.perf_counter() < until:
            kept._alive = [each for each in kept._alive if not each[1].over]
        device.free_retired()


# For each phase what was called before, and what is called: sizes and sets of arrays.
_BEFORE = {"first call": (), "same again": ((5, 0),) * 3, "other arrays": ((5, 0),) * 2, "other size": ((5, 0),) * 2}
# Then the next one gets a graph of its own, where that is possible; and when it has one.
_BEFORE["kept"], _BEFORE["in turn"] = ((5, 0), (5, 1)) * 3, ((5, 0), (5, 1)) * 4
_BEFORE["let go"] = _BEFORE["in turn"]
_CALL = {
    "first call": (5, 0),
    "same again": (5, 0),
    "other arrays": (5, 1),
    "kept": (5, 0),
    "in turn": (5, 0),
    "other size": (70, 1),
    "let go": (5, 0),
}


def refuse_each(runner: Runner, phase: str, every: int) -> Figures:
    """Refuse each driver call of a phase, one in each run."""
    figures = Figures()
    n, which = _CALL[phase]
    # Its arrays, and what a process makes once.
    for each in {*_BEFORE[phase], (n, which)}:
        runner.good(*each)
    runner.clear()
    before = runner.left()
    number = 0
    while True:
        try:
            name = refuse(runner, phase, number, figures)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            name = (runner.driver.refused or ["?"])[0]
            figures.wrong.append(f"{number} {name}: {type(error).__name__}: {error}")
        runner.driver.end()
        if name is None:
            break
        if phase not in ("same again", "other arrays"):
            runner.clear()
            note_left(runner, before, f"{number} {name}", figures)
        number += every
    runner.clear()
    note_left(runner, before, "in the end", figures)
    return figures


def note_left(runner: Runner, before: dict[str, int], when: str, figures: Figures) -> None:
    """Whether what was made is gone, but for what the driver was asked in vain to take back."""
    left = runner.left()
    stays = sum(left.values()) - sum(before.values())
    if stays < 0 or stays > figures.may_stay:
        figures.wrong.append(f"{when}: left {left}, before {before}")
    figures.stays += stays
    figures.may_stay = 0
    before.clear()
    before.update(left)


def may_stay(name: str, case: Case) -> int:
    """How much may be left where the driver refused this call: what it was to take back, and what that keeps."""
    if not any(word in name for word in _LETS_GO):
        return 0
    # An executable keeps the memory and code of recorded nodes.
    return 1000 if case.renews and name == "cuGraphExecDestroy" else 1


def refuse(runner: Runner, phase: str, number: int, figures: Figures) -> str | None:
    """Refuse one driver call; gives which, None where there are not so many."""
    n, which = _CALL[phase]
    for each in _BEFORE[phase]:
        runner.good(*each)
    arguments = runner.prepare(n, which)
    replays = runner.kernel.stats.replays
    driver, error, result = runner.driver, None, None
    driver.begin(number, code_of)
    try:
        result = runner.kernel.clear_cache() if phase == "let go" else runner.call(arguments)
    except CudaError as caught:
        error = caught
    finally:
        driver.end()
    if not driver.refused:
        return None
    figures.calls += 1
    (name,) = driver.refused
    launched = any(each.startswith(_STARTS) for each in driver.names[:number])
    if phase == "let go":
        # Nobody is told: what the driver does not take back stays; all of it where work may still use it.
        if error is not None:
            raise Violation(f"who lets go of a kernel was told: {error}")
        figures.may_stay += may_stay(name, runner.case) or 1000
        figures.absorbed += 1
    elif error is None:
        runner.agrees(n, which, result)
        # It may have been that of a finalizer, or of who lets go of graphs: all of them stay where work may still use them.
        figures.may_stay += may_stay(name, runner.case) or (1000 if runner.case.renews else 1)
        figures.absorbed += 1
    else:
        figures.may_stay += may_stay(name, runner.case)
        if name not in str(error):
            raise Violation(f"the message does not name the call: {error}")
        figures.named += 1
        if not launched:
            runner.unchanged(n, which)
            if runner.kernel.stats.replays != replays:
                raise Violation("a launch was counted that was none")
    # It holds all that the call had.
    del error
    for each in ((n, which), (5, 0), (n, which)):
        runner.good(*each)
    figures.recovered += 1
    return name


def lose_at_each(runner: Runner, phase: str, every: int, answer: Callable[[str], int | None]) -> Figures:
    """Lose the context at each driver call of a phase."""
    figures = Figures()
    n, which = _CALL[phase]
    number = 0
    while True:
        for each in _BEFORE[phase]:
            runner.good(*each)
        arguments = runner.prepare(n, which)
        driver = runner.driver
        driver.begin(number, answer, sticks=True)
        try:
            lose(runner, arguments, figures)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            figures.wrong.append(f"{number} {driver.names[number]}: {type(error).__name__}: {error}")
        over = len(driver.names) <= number
        driver.end()
        # Here it comes back, so that one process can look at the next; what was noted for whoever waits is of the one before.
        for device in cuda_driver.devices_in_use():
            with contextlib.suppress(CudaError):
                device.kept.tell()
        runner.clear()
        if over:
            break
        number += every
    runner.good(n, which)
    return figures


def lose(runner: Runner, arguments: tuple[Any, ...], figures: Figures) -> None:
    began = time.perf_counter()
    told = []
    for attempt in range(3):
        try:
            runner.call(arguments)
            qgraph.synchronize()
        except CudaError as error:
            told.append(str(error))
        if not runner.driver.refused:
            return
        if len(told) <= attempt:
            raise Violation("a lost context went unnoticed")
    figures.calls += 1
    for message in told:
        if "CUDA_ERROR_ILLEGAL_ADDRESS" not in message or "context" not in message or "restart the process" not in message:
            raise Violation(f"the message does not say that the context is lost: {message}")
    figures.named += 1
    if time.perf_counter() - began > 5:
        raise Violation("it took too long to say so")
    figures.recovered += 1


def refuse_each_at_start(driver: Any) -> Figures:
    """Refuse each call with which a process begins to use a device."""
    from qgraph.runtime.driver import driver as cuda_driver

    figures, known = Figures(), cuda_driver._DEVICES
    try:
        while not figures.calls or driver.refused:
            cuda_driver._DEVICES = cuda_driver._Devices()
            driver.begin(figures.calls, code_of)
            message = ""
            try:
                cuda_driver.device(0)
            except (CudaError, qgraph.BackendError) as error:
                message = str(error)
            driver.end()
            if driver.refused:
                figures.calls += 1
                if driver.refused[0] in message:
                    figures.named += 1
                else:
                    figures.wrong.append(f"{figures.calls - 1} {driver.refused[0]}: {message!r}")
                # Whether there is a driver is asked once.
                if driver.refused[0] not in ("cuInit", "cuDeviceGetCount"):
                    cuda_driver.device(0)
                    figures.recovered += 1
    finally:
        cuda_driver._DEVICES = known
    return figures


def end_with_lost_context(driver: Any) -> None:
    """Lose the context for good, with everything alive, and end."""
    runners = [
        Runner(case, driver) for case in CASES if case.name in ("loop", "memset, memcpy", "host callback", "host arrays")
    ]
    for runner in runners:
        runner.good(5, 0)
    driver.begin(0, lost, sticks=True)
    told = set()
    for runner in runners:
        try:
            runner.call((*runner.arrays(5, 0), 2))
            qgraph.synchronize()
        except CudaError as error:
            told.add(str(error).partition(" failed with ")[2])
    assert len(told) == 1, told
    print(*told)


def ends_cleanly() -> str:
    """What is wrong with how such a process ends; nothing, if nothing is."""
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.faults", "--lost"], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    return "" if ended.returncode == 0 and not ended.stderr else f"exit code {ended.returncode}\n{ended.stderr}"


PLAYED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def install() -> Any:
    """The driver whose calls can be made to fail."""
    from tests import played_driver

    return played_driver.install_played() if PLAYED else played_driver.install_real()


def has_library(driver: Any) -> bool:
    """Whether a library computes; on the played driver a played one does, from now on."""
    if PLAYED and "cupy" not in sys.modules:
        from tests.runtime import played_library

        played_library.install(driver)
    return PLAYED or any(find_spec(name) is not None for name in ("torch", "cupy"))


def look_at(runner: Runner, phases: list[str], every: int) -> bool:
    """All phases of a kernel; gives whether all was well."""
    well = True
    looks: list[tuple[str, Callable[[], Figures]]] = []
    for phase in phases[:1] if runner.case.alike else phases:
        looks.append((phase, lambda phase=phase: refuse_each(runner, phase, every)))
        if phase == "let go":
            continue
        for words, answer in (("context lost", lost), ("all lost", all_lost)):
            looks.append((f"{phase}, {words}", lambda phase=phase, answer=answer: lose_at_each(runner, phase, every, answer)))
    for name, look in looks:
        well &= tell(runner.case.name, name, look())
    return well


def tell(kernel: str, phase: str, figures: Figures) -> bool:
    """Print what became of the calls; gives whether all was well."""
    print(
        f"{kernel:<20}{phase:<26}{figures.calls:>5} calls {figures.named:>5} named {figures.absorbed:>5} absorbed"
        f" {figures.recovered:>5} recovered {figures.stays:>4} left {len(figures.wrong):>3} wrong",
        flush=True,
    )
    for each in figures.wrong:
        print("   ", each, flush=True)
    return not figures.wrong


def main() -> None:
    """Run it."""
    import warnings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", nargs="+", default=[case.name for case in CASES])
    parser.add_argument("--phases", nargs="+", default=PHASES)
    parser.add_argument("--every", type=int, default=1, help="refuse each N-th call only")
    parser.add_argument("--lost", action="store_true", help="lose the context and end")
    given = parser.parse_args()
    warnings.simplefilter("ignore", PerformanceWarning)
    driver = install()
    if given.lost:
        end_with_lost_context(driver)
        return
    well = tell("a process", "begins", refuse_each_at_start(driver))
    # What there is now stays, also what a first kernel imports: without it, garbage is found faster.
    first = Runner(CASES[0], driver)
    first.good(5, 0)
    first.clear()
    del first
    gc.collect()
    gc.freeze()
    for case in CASES:
        if case.name not in given.kernels:
            continue
        if case.library and not has_library(driver):
            print(f"{case.name:<20}skipped: neither PyTorch nor CuPy is installed", flush=True)
            continue
        well &= look_at(Runner(case, driver), given.phases, given.every)
    trouble = ends_cleanly()
    print("a process whose context is lost:", trouble or "one message, and it ends")
    raise SystemExit(not well or bool(trouble))


if __name__ == "__main__":
    main()
