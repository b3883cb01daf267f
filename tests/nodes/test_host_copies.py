"""Arrays of host callbacks on CUDA: what the driver is told, and that doing it gives each launch its own arrays.

The driver's records are those of the real bindings; its functions are replaced by ones that note the last parameters of each
node. A launch does what the nodes say then, with memory of the host in the place of the device's.
"""

from __future__ import annotations

import ctypes
import gc
import types
import weakref

import numpy as np
import pytest

import qgraph
from qgraph.runtime.values.array_view import view_of_host

pytestmark = pytest.mark.needs("compiler")

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class FakeDriver:
    """Nodes by number, with their parameters, and whether they are switched on."""

    def __init__(self, real):
        self._real = real
        self.allocation = 1
        self.told = []
        self.nodes = {}
        self.off = set()

    def __getattr__(self, name):
        if not name.startswith("cu"):
            return getattr(self._real, name)
        # Some are called by `call`, which raises, and some as they are, whose result tells.
        return name if name != "cuGraphExecMemcpyNodeSetParams" else lambda *given: (0, self.call(name, *given))

    def cuPointerGetAttribute(self, attribute, pointer):
        return 0, self.allocation

    def call(self, name, *given):
        if name == "cuCtxGetCurrent":
            return self._real.CUcontext(0)
        self.told.append(name)
        if name == "cuGraphNodeSetEnabled":
            (self.off.discard if given[2] else self.off.add)(given[1])
        elif name == "cuLaunchHostFunc":
            FUNCTION(int(given[1]))(given[2])
        elif name.startswith("cuGraphAdd"):
            self.nodes[len(self.nodes)] = self._noted(given[3])
            return len(self.nodes) - 1
        else:
            self.nodes[given[-3 if "Memcpy" in name and "Exec" in name else -2]] = self._noted(self._parameters(given))
        return None

    def _parameters(self, given):
        return next(each for each in given if hasattr(each, "WidthInBytes") or hasattr(each, "userData"))

    def _noted(self, parameters):
        if hasattr(parameters, "userData"):
            return int(parameters.fn), int(parameters.userData)
        host, device = self.CUmemorytype.CU_MEMORYTYPE_HOST, self.CUmemorytype.CU_MEMORYTYPE_DEVICE
        kinds = parameters.srcMemoryType, parameters.dstMemoryType
        assert kinds in ((host, device), (device, host))
        assert (parameters.Height, parameters.Depth) == (1, 1)
        back = kinds[0] == host
        source = parameters.srcHost if back else parameters.srcDevice
        target = parameters.dstDevice if back else parameters.dstHost
        return int(target), int(source), parameters.WidthInBytes

    def launched(self):
        """What a launch does: the nodes as they are now, whatever they are when it runs."""
        nodes = [parameters for number, parameters in self.nodes.items() if number not in self.off]

        def run():
            for first, *rest in nodes:
                if len(rest) == 1:
                    FUNCTION(first)(*rest)
                else:
                    ctypes.memmove(first, *rest)

        return run


class Executable:
    """The nodes of a kernel that only calls the host, as an executable owns them."""

    def __init__(self, function, *arrays):
        self.driver = FakeDriver(pytest.importorskip("cuda.bindings.driver"))
        plan = qgraph.kernel(function).plan(*arrays)
        room, made, self.errors = (ctypes.c_int64 * 2)(), {}, []
        self.blocks = []
        owner = types.SimpleNamespace(
            driver=self.driver,
            call=self.driver.call,
            leaves={leaf.name: index for index, leaf in enumerate(plan.program.arrays_and_scalars)},
            reader=lambda slots: types.SimpleNamespace(first=0, words=0, read=lambda memory, word: []),
            room=lambda: ctypes.addressof(room),
            once=lambda key, make: made.get(key) or made.setdefault(key, make()),
            pinned=lambda words: types.SimpleNamespace(words=(ctypes.c_int64 * words)()),
            page_locked=self.page_locked,
            copy_in=lambda target, source, nbytes, stream: ctypes.memmove(target, source, nbytes),
            copy_out=lambda source, target, nbytes, stream: ctypes.memmove(target, source, nbytes),
            errors=lambda: lambda error, note: self.errors.append(error),
        )
        self.kinds = [node.kind for node in plan.nodes]
        self.nodes = [node.what.in_graph(node, owner) for node in plan.nodes]
        self.held = room

    def page_locked(self, nbytes):
        block = (ctypes.c_byte * nbytes)()
        self.blocks.append(weakref.ref(block))
        return block

    def update(self, *arrays):
        """Take the arrays of a call; gives which nodes changed."""
        self.arrays = arrays
        values = tuple(view_of_host(array, array) for array in arrays)
        return [node.update(values, ()) for node in self.nodes]

    def build(self):
        for node in self.nodes:
            node.add("graph")
        self.instantiate()

    def instantiate(self):
        self.driver.off.clear()
        for node in self.nodes:
            node.executable, node.rejected = "executable", False
            node.instantiated()

    def launch(self):
        self.driver.launched()()
        assert self.errors == []


def add(x, y):
    x += y
    SEEN.append((x, y.tolist()))


SEEN: list = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def kernel(x, y):
    qgraph.host_callback(add, x, y, writes=x)


def two(n):
    return np.arange(float(n)), np.full(n, 3.0)


def test_copies_before_the_call_and_after():
    made = Executable(kernel, *two(4))
    assert made.kinds == ["memcpy", "memcpy", "callback", "memcpy"]
    made.build()
    x, y = two(4)
    assert made.update(x, y) == [True, True, True, True]
    made.launch()
    assert x.tolist() == [3, 4, 5, 6]
    made.driver.told.clear()
    assert made.update(x, y) == [False] * 4
    made.launch()
    assert x.tolist() == [6, 7, 8, 9]
    assert made.driver.told == []
    # Other arrays of the same shape: the copies are told, and nothing else.
    other, _ = two(4)
    assert made.update(other, y) == [True, False, False, True]
    assert made.driver.told == ["cuGraphExecMemcpyNodeSetParams"] * 2
    made.launch()
    assert (other.tolist(), x.tolist()) == ([3, 4, 5, 6], [6, 7, 8, 9])


def test_another_allocation_at_the_same_address():
    """The driver keeps what it knows of an allocation, not the address."""
    made = Executable(kernel, *two(4))
    made.build()
    x, y = two(4)
    made.update(x, y)
    made.driver.told.clear()
    made.driver.allocation = 2
    assert made.update(x, y) == [True, True, False, True]
    assert made.driver.told == ["cuGraphExecMemcpyNodeSetParams"] * 3
    assert made.update(x, y) == [False] * 4


def test_a_launch_in_flight_keeps_its_sizes():
    made = Executable(kernel, *two(4))
    made.build()
    calls = [two(n) for n in (4, 6, 2, 4)]
    launches = []
    for x, y in calls:
        made.update(x, y)
        launches.append(made.driver.launched())
    for launch in launches:
        launch()
    assert made.errors == []
    assert [x.tolist() for x, _ in calls] == [[value + 3 for value in range(n)] for n in (4, 6, 2, 4)]
    assert [y for _, y in SEEN] == [[3.0] * n for n in (4, 6, 2, 4)]


def test_what_no_launch_needs_is_let_go():
    made = Executable(kernel, *two(4))
    made.build()
    for n in range(1, 40):
        made.update(*two(64 * n))
        made.launch()
    SEEN.clear()
    gc.collect()
    assert sum(block() is not None for block in made.blocks) == 2


def test_a_function_may_keep_its_array():
    made = Executable(kernel, *two(4))
    made.build()
    made.update(*two(4))
    made.launch()
    kept = SEEN[0][0]
    del made
    gc.collect()
    assert kept.tolist() == [3, 4, 5, 6]


def test_empty_arrays_switch_the_copies_off():
    made = Executable(kernel, *two(0))
    x, y = two(0)
    made.update(x, y)
    made.build()
    assert made.driver.off == {0, 1, 3}
    made.launch()
    x, y = two(3)
    made.update(x, y)
    assert made.driver.off == set()
    made.launch()
    assert x.tolist() == [3, 4, 5]
    made.update(*two(0))
    made.launch()
    assert [y for _, y in SEEN] == [[], [3.0] * 3, []]


def test_another_executable_has_what_the_last_call_said():
    made = Executable(kernel, *two(4))
    made.build()
    x, y = two(5)
    made.update(x, y)
    made.driver.nodes.clear()
    for node in made.nodes:
        node.define()
    assert made.driver.told[-4:] == [
        *["cuGraphMemcpyNodeSetParams"] * 2,
        "cuGraphHostNodeSetParams",
        "cuGraphMemcpyNodeSetParams",
    ]
    made.instantiate()
    made.launch()
    assert x.tolist() == [3, 4, 5, 6, 7]


def test_in_a_stream():
    made = Executable(kernel, *two(4))
    for n in (4, 0, 7):
        x, y = two(n)
        made.update(x, y)
        for node in made.nodes:
            node.run(7)
        assert made.errors == []
        assert x.tolist() == [value + 3 for value in range(n)]


def test_orders_of_elements():
    def kernel(m, f):
        qgraph.host_callback(turned, m, f)

    m, f = np.arange(6, dtype=np.int16).reshape(2, 3), np.asfortranarray(np.zeros((3, 2), np.int16))
    made = Executable(kernel, m, f)
    made.build()
    made.update(m, f)
    made.launch()
    np.testing.assert_array_equal(f, m.T)


def turned(m, f):
    f[...] = m.T


def test_one_memory_is_one_copy():
    x = np.arange(4.0)
    made = Executable(kernel, x, x)
    assert made.kinds == ["memcpy", "callback", "memcpy"]
    made.build()
    made.update(x, x)
    made.launch()
    assert x.tolist() == [0, 2, 4, 6]


def test_what_is_not_written_is_not_copied_back_and_cannot_be():
    def kernel(x, y):
        qgraph.host_callback(flags, x, y, writes=())

    x, y = two(3)
    made = Executable(kernel, x, y)
    assert made.kinds == ["memcpy", "memcpy", "callback"]
    made.build()
    made.update(x, y)
    made.launch()
    assert SEEN == [(False, False)]


def flags(x, y):
    SEEN.append((x.flags.writeable, y.flags.writeable))


def test_page_locked_memory_is_freed_when_nobody_holds_it(monkeypatch):
    from qgraph.runtime.driver import memory

    freed, retired = [], []

    class Words:
        def __init__(self, device, count):
            self.words = (ctypes.c_int64 * count)()
            self.pointer = ctypes.addressof(self.words)

        def free(self):
            freed.append(self.pointer)

    monkeypatch.setattr(memory, "PinnedWords", Words)
    block = memory.page_locked(types.SimpleNamespace(retire=retired.append), 20)
    array = np.ndarray(5, np.float32, block)
    place = ctypes.addressof(block)
    del block
    gc.collect()
    assert retired == []
    array[:] = 1
    del array
    gc.collect()
    # Not at once: it may have died in a host callback.
    assert freed == []
    (release,) = retired
    release()
    assert freed == [place]
