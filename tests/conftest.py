"""One ``backend`` fixture for all feature tests, and the rig that compares a kernel with plain Python.

A process runs on ``cpu``, and on ``cuda`` too where there is a GPU. With ``QGRAPH_BACKEND=sim`` it runs on Numba's CUDA
simulator only, which must be chosen before Numba is first imported.
"""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.runtime.executors import cpu
from qgraph.runtime.values import race_warnings

# Compilers make a great many objects that live: looking through them all for garbage again and again takes a tenth of the time.
gc.set_threshold(300_000, 20, 100)

# No test reads what another process compiled, or leaves it in the user's folder; tests of the cache have folders of their own.
os.environ["QGRAPH_CACHE"] = "0"

# ``make test-all`` alone has the time.
THOROUGH = pytest.mark.thorough

SIMULATED = os.environ.get("QGRAPH_BACKEND") == "sim"

# Output arrays are filled with this before a call; it fits every dtype, and no test computes it everywhere.
POISON = 77

# What a backend cannot do, by the name given to ``@pytest.mark.needs(...)``.
SKIPS = {
    ("cpu", "float16"): "float16 arrays are refused on cpu: tests/diagnostics pins the message",
    ("sim", "float16_math"): "the simulator has no float16 rounding between operations",
    ("sim", "compiler"): "the simulator compiles nothing, so there are no types and no PTX to look at",
    ("sim", "threads"): "the simulator runs one kernel at a time",
    ("sim", "speed"): "the simulator runs plain Python, one CUDA thread after another",
    ("cpu", "graph"): "there is no CUDA graph on cpu",
    ("sim", "graph"): "there is no CUDA graph on the simulator",
    ("cuda", "host_arrays"): "on cuda the arrays live on the device",
}

TOLERANCES = {"float16": 4e-3, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-goldens`` rewrites the expected messages of tests/diagnostics; ``--parameters=3`` runs fewer tests."""
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files from what qgraph says now")
    parser.addoption("--parameters", type=int, default=0, help="run a test with so many of its sets of parameters; 0: all")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of these tests."""
    config.addinivalue_line("markers", "needs(feature): skipped on backends that conftest.SKIPS says lack the feature")
    config.addinivalue_line("markers", "thorough: only `make test-all` has the time")


def has_gpu() -> bool:
    """Whether the driver sees a device; never true in a simulator process."""
    if SIMULATED:
        return False
    from qgraph.runtime.driver.driver import device_count

    return device_count() > 0


def backends() -> tuple[str, ...]:
    """The backends that this process can test."""
    if SIMULATED:
        return ("sim",)
    return ("cpu", "cuda") if has_gpu() else ("cpu",)


def thorough(*values: Any) -> list[Any]:
    """Parameters of cases that ``make test`` leaves out."""
    return [pytest.param(value, marks=THOROUGH) for value in values]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for ``backend`` (directly or through the rig) on each one."""
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", backends(), indirect=True)


# Behind -m and -k, which leave tests out, too.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the simulator's process, leave out features that no backend runs, plans and messages: the other process has them."""
    kept = items
    if SIMULATED:
        here = Path(__file__).parent / "features"
        kept = [item for item in kept if here not in item.path.parents or "backend" in item.fixturenames]  # type: ignore[attr-defined]
    if config.option.parameters:
        kept = _spread(kept, config.option.parameters)
    left_out = set(items) - set(kept)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = kept


def _spread(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Of each test the first and the last set of parameters, and others between them, ``most`` of them or all."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {each[k * (len(each) - 1) // max(most - 1, 1)] for each in tests.values() for k in range(most)}
    return [item for item in items if item in kept]


def pytest_collection_finish() -> None:
    """What is there now stays: no search for garbage looks through all modules and tests again."""
    gc.freeze()


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The backend under test: ``"cpu"``, ``"cuda"`` or ``"sim"``."""
    name: str = request.param
    skip_what_is_missing(request, name)
    return name


@pytest.fixture(autouse=True)
def _process_needs(request: pytest.FixtureRequest) -> None:
    # Tests without a backend (PTX, imports) only care which process they are in.
    if "backend" not in request.fixturenames:
        skip_what_is_missing(request, "sim" if SIMULATED else "host")


def skip_what_is_missing(request: pytest.FixtureRequest, name: str) -> None:
    """Skip with the table's reason if the test needs something that ``name`` lacks."""
    for marker in request.node.iter_markers("needs"):
        for feature in marker.args:
            if (name, feature) in SKIPS:
                pytest.skip(SKIPS[name, feature])


@pytest.fixture(autouse=True)
def _scratch_holds_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs write their scratch before they read it: on the CPU it is poisoned before each call."""
    take = cpu._Scratch.take

    def poisoned(scratch: Any) -> tuple[np.ndarray, ...]:
        views: tuple[np.ndarray, ...] = take(scratch)
        views[0][:] = 0x5A5A5A5A5A5A5A5A
        return views

    monkeypatch.setattr(cpu._Scratch, "take", poisoned)


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop in doubt is told once a process; here, once a test."""
    monkeypatch.setattr(race_warnings, "_TOLD", set())


# --- arrays on a backend ------------------------------------------------------------------------------------------------


class DeviceView:
    """A strided view of device memory as other libraries hand it over: nothing but ``__cuda_array_interface__``."""

    def __init__(self, owner: Any, like: np.ndarray, root: np.ndarray) -> None:
        self.owner = owner
        offset = like.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        pointer = owner.__cuda_array_interface__["data"][0]
        self.__cuda_array_interface__ = {
            "shape": like.shape,
            "strides": like.strides,
            "typestr": like.dtype.str,
            "data": (pointer + offset, not like.flags.writeable),
            "version": 3,
        }


class Upload:
    """Copies a call's NumPy arrays to the device, keeping which of them share memory, and copies them back."""

    def __init__(self) -> None:
        self._roots: dict[int, tuple[np.ndarray, Any]] = {}

    def __call__(self, value: Any) -> Any:
        """``value`` with every NumPy array replaced by a device array."""
        if isinstance(value, np.ndarray):
            return self._array(value)
        return rebuild(value, self)

    def _array(self, array: np.ndarray) -> Any:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if id(root) not in self._roots:
            self._roots[id(root)] = (root, qgraph.asarray(root, backend="cuda"))
        owner = self._roots[id(root)][1]
        return owner if root is array else DeviceView(owner, array, root)

    def download(self) -> None:
        """Copy every device array over the NumPy array it came from."""
        for root, device in self._roots.values():
            if root.flags.writeable:
                root[...] = qgraph.to_numpy(device)


def is_array(value: Any) -> bool:
    """Whether it is an array on some device, or of the host."""
    return isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__")


def _downloaded(value: Any) -> Any:
    return qgraph.to_numpy(value) if is_array(value) else rebuild(value, _downloaded)


def rebuild(value: Any, convert: Callable[[Any], Any]) -> Any:
    """A tuple, named tuple or dataclass with ``convert`` applied to its parts; anything else as it is."""
    if isinstance(value, tuple):
        parts = [convert(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: convert(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value


def arrays_of(value: Any, path: str = "args") -> Iterator[tuple[str, np.ndarray]]:
    """Every NumPy array inside ``value``, with how one would write it."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            yield from arrays_of(part, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from arrays_of(part, f"{path}[{key!r}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays_of(getattr(value, field.name), f"{path}.{field.name}")


def assert_same(actual: np.ndarray, expected: np.ndarray, where: str = "", tolerance: float | None = None) -> None:
    """Integers and bools equal; floats within the tolerance of their dtype, relative to the largest magnitude near 1."""
    assert actual.dtype == expected.dtype, where
    limit = tolerance if tolerance is not None else TOLERANCES.get(actual.dtype.name)
    if limit is None:
        np.testing.assert_array_equal(actual, expected, err_msg=where)
    else:
        np.testing.assert_allclose(actual, expected, rtol=limit, atol=limit, err_msg=where)


# The kernels that were last checked, the oldest first.
_CHECKED: dict[tuple[Any, ...], Any] = {}
_KEPT = 4


class Rig:
    """Runs kernels on one backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def size(self, n: int) -> int:
        """``n``, or less where each thread is slow."""
        return min(n, 48) if self.backend == "sim" else n

    def kernel(self, function: Callable[..., Any], **options: Any) -> Any:
        """``function`` as a kernel of this backend."""
        return qgraph.kernel(backend=self.backend, **options)(function)

    def run(self, kernel: Any, *args: Any, **keywords: Any) -> Any:
        """Call ``kernel`` on NumPy arguments and leave its results in them; on cuda by way of device arrays."""
        if self.backend != "cuda":
            return kernel(*args, **keywords)
        upload = Upload()
        result = kernel(*upload(args), **{name: upload(value) for name, value in keywords.items()})
        qgraph.synchronize()
        upload.download()
        return _downloaded(result)

    def device(self, array: np.ndarray) -> Any:
        """``array`` where this backend wants it: on the device for cuda, itself elsewhere."""
        return qgraph.asarray(array, backend="cuda") if self.backend == "cuda" else array

    def check(
        self,
        function: Callable[..., Any],
        make_args: Callable[[], tuple[Any, ...]],
        *,
        tolerance: float | None = None,
        noop: bool = False,
        **options: Any,
    ) -> Any:
        """Run ``function`` as a kernel and as plain Python on equal arguments; compare every array, and what is returned.

        ``make_args`` is called for each run and must give equal arguments each time. Arrays filled with ``POISON`` must
        change somewhere, and something must change or be returned at all unless ``noop``. Returns the kernel, which an
        earlier check may have had. What is fused runs once more with a block size, which keeps it from being one block.
        """
        if options.get("fuse") and "block_size" not in options and self.backend != "cpu":
            graph = self._again(function, **options, block_size=256)
            self.compare(graph, make_args, tolerance=tolerance, noop=noop)
        kernel = self._again(function, **options)
        self.compare(kernel, make_args, tolerance=tolerance, noop=noop)
        return kernel

    def _again(self, function: Callable[..., Any], **options: Any) -> Any:
        """The kernel of an earlier check: one with other arguments of the same types, as a rule, which compiles nothing."""
        key = (self.backend, function, *sorted(options.items()))
        kernel = _CHECKED.pop(key, None) or self.kernel(function, **options)
        _CHECKED[key] = kernel
        if len(_CHECKED) > _KEPT:
            del _CHECKED[next(iter(_CHECKED))]
        return kernel

    def compare(
        self, kernel: Any, make_args: Callable[[], tuple[Any, ...]], *, tolerance: float | None = None, noop: bool = False
    ) -> None:
        """As ``check``, for a kernel that exists: later calls test its caches."""
        before, expected, actual = make_args(), make_args(), make_args()
        with np.errstate(all="ignore"):
            wanted_result = kernel.reference(*expected)
        if wanted_result is None or noop:
            _assert_not_vacuous(before, expected, noop)
        result = self.run(kernel, *actual)
        for (where, got), (_, wanted) in zip(arrays_of(actual), arrays_of(expected), strict=True):
            assert_same(got, wanted, where, tolerance)
        assert_returned(result, wanted_result, tolerance if tolerance is not None else _tolerance(before))


def _tolerance(args: Any) -> float:
    """How exact a returned number is: a kernel computes in float32 where some array is floating and none is wider."""
    floating = {array.dtype.name for _, array in arrays_of(args) if array.dtype.kind in "fc"}
    narrow = floating and floating <= {"float16", "float32", "complex64"}
    return TOLERANCES["float32" if narrow else "float64"]


def assert_returned(result: Any, wanted: Any, tolerance: float, where: str = "the result") -> None:
    """``result`` is Python numbers, in the structure of ``wanted``, of the same kind (bool, int, float, complex) and value."""
    if isinstance(wanted, np.generic):
        wanted = wanted.item()
    assert type(result) is type(wanted), f"{where} is {result!r}, and should be {wanted!r}"
    if isinstance(wanted, np.ndarray):
        assert result.shape == wanted.shape, where
        assert_same(result, wanted, where)
    elif isinstance(wanted, (float, complex)):
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance, err_msg=where)
    elif isinstance(wanted, tuple):
        for index, (part, wanted_part) in enumerate(zip(result, wanted, strict=True)):
            assert_returned(part, wanted_part, tolerance, f"{where}[{index}]")
    elif dataclasses.is_dataclass(wanted) and not isinstance(wanted, type):
        for field in dataclasses.fields(wanted):
            name = field.name
            assert_returned(getattr(result, name), getattr(wanted, name), tolerance, f"{where}.{name}")
    else:
        assert result == wanted, where


def _assert_not_vacuous(before: Any, after: Any, noop: bool) -> None:
    changed = False
    for (where, old), (_, new) in zip(arrays_of(before), arrays_of(after), strict=True):
        differs = not np.array_equal(old, new, equal_nan=old.dtype.kind in "fc")
        changed |= differs
        if not noop and old.size and (old == POISON).all():
            assert differs, f"{where} still holds the poison value: plain Python wrote nothing there"
    assert changed != noop, "plain Python changed nothing" if not noop else "plain Python changed something"


@pytest.fixture
def rig(backend: str) -> Rig:
    """Runs and checks kernels on the backend under test."""
    return Rig(backend)


@pytest.fixture
def check(rig: Rig) -> Callable[..., Any]:
    """``check(function, make_args, **options)``: the kernel does what plain Python does."""
    return rig.check


@pytest.fixture
def size(rig: Rig) -> Callable[[int], int]:
    """``size(n)``: an extent or a number of iterations that the backend can afford."""
    return rig.size
