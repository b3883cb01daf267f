"""Arguments taken apart: types, leaves, names; and the two short cuts of later calls."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import gc
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgraph.errors import ArgumentError
from qgraph.ir.argument_types import ArrayType, ConstantType, ScalarType, StructType
from qgraph.runtime.arguments import array_adapters
from qgraph.runtime.arguments.flatten import describe
from qgraph.runtime.arguments.guards import key_maker, numbers_among, reader, repeater
from qgraph.runtime.driver import native
from qgraph.runtime.values.aliasing import alias_pattern
from qgraph.runtime.values.array_view import ArrayView, view_of_host
from qgraph.runtime.values.prepared_call import CHANGED, ReplayCode


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Grid:
    x: Any
    h: Any = 0.5


@dataclass(frozen=True)
class State:
    grid: Grid
    parts: tuple[Any, ...] = ()


@dataclass(slots=True)
class Slotted:
    x: Any
    n: Any = 1


class Mode(enum.IntEnum):
    SLOW = 3
    FAST = 7


class Shade(enum.Enum):
    DARK = "dark"


def one(value: Any) -> Any:
    """What describe says of a single argument ``a``."""
    return describe(("a",), (value,))


# --- types and values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (True, "bool", True),
        (3, "int64", True),
        (2.5, "float64", True),
        (1j, "complex128", True),
        (Mode.FAST, "int64", True),
        (np.float32(1), "float32", False),
        (np.float64(1), "float64", False),
        (np.bool_(1), "bool", False),
        (np.uint8(1), "uint8", False),
        (np.longlong(1), "int64", False),
        (np.complex64(1), "complex64", False),
        (-(2**63), "int64", True),
        (2**63 - 1, "int64", True),
    ],
)
def test_scalars(value, dtype, weak):
    found = one(value)
    assert found.types == (("a", ScalarType(dtype, weak)),)
    assert found.values == (value,)
    assert found.leaves[0].name == found.leaves[0].path == "a"


def test_an_int_enumeration_becomes_an_int():
    assert type(one(Mode.FAST).values[0]) is int


@pytest.mark.parametrize("value", [None, "text", len, lambda: 1, int, Shade.DARK, np.sqrt])
def test_constants_are_part_of_the_type(value):
    found = one(value)
    assert found.types == (("a", ConstantType(value)),)
    assert found.leaves == found.values == ()


def test_arrays():
    x = np.zeros((3, 4), np.float32)
    frozen = x.view()
    frozen.flags.writeable = False
    cases = [(x, "C"), (x.T, "F"), (x[:, ::2], "A"), (x[:1], "C"), (np.zeros((0, 3))[:, ::-1], "C"), (np.array(1), "C")]
    for array, layout in cases:
        assert one(array).types == (("a", ArrayType(array.dtype.name, array.ndim, layout)),)
    assert one(frozen).types == (("a", ArrayType("float32", 2, "C", readonly=True)),)
    view = one(x[1:, ::2]).values[0]
    assert isinstance(view, ArrayView)
    assert (view.pointer, view.shape, view.strides) == (x.ctypes.data + 16, (2, 2), (16, 8))
    assert view.device is None and view.host is view.owner


def test_structures_names_and_order():
    state = State(Grid(np.zeros(3), 0.25), (np.zeros(2, np.int32), Pair(1, None)))
    found = describe(("state", "t"), (state, (np.float32(2), 3)))
    assert [leaf.name for leaf in found.leaves] == [
        *("state_grid_x", "state_grid_h", "state_parts_0", "state_parts_1_first"),
        *("t_0", "t_1"),
    ]
    assert [leaf.path for leaf in found.leaves] == [
        *("state.grid.x", "state.grid.h", "state.parts[0]", "state.parts[1].first"),
        *("t[0]", "t[1]"),
    ]
    types = dict(found.types)
    weak_float = ScalarType("float64", weak=True)
    weak_int = ScalarType("int64", weak=True)
    assert types["t"] == StructType(tuple, (("0", ScalarType("float32", weak=False)), ("1", weak_int)))
    grid = StructType(Grid, (("x", ArrayType("float64", 1, "C")), ("h", weak_float)))
    pair = StructType(Pair, (("first", weak_int), ("second", ConstantType(None))))
    parts = StructType(tuple, (("0", ArrayType("int32", 1, "C")), ("1", pair)))
    assert types["state"] == StructType(State, (("grid", grid), ("parts", parts)))
    assert hash(found.types) == hash(describe(("state", "t"), (state, (np.float32(7), 4))).types)


def test_the_class_is_part_of_the_type():
    Other = dataclasses.make_dataclass("Grid", ["x", "h"])
    assert one(Grid(1, 2)).types != one(Other(1, 2)).types
    assert one((1, 2)).types != one(Pair(1, 2)).types


def test_names_are_unique_and_parameters_keep_theirs():
    found = describe(("a", "a_x", "a_0"), (Grid(1, 2), 3, (4,)))
    assert [leaf.name for leaf in found.leaves] == ["a_x_2", "a_h", "a_x", "a_0_0"]
    clash = dataclasses.make_dataclass("clash", ["x_y", "x"])
    inner = dataclasses.make_dataclass("inner", ["y"])
    found = describe(("a",), (clash(1, inner(2)),))
    assert [leaf.name for leaf in found.leaves] == ["a_x_y", "a_x_y_2"]
    found = describe(("a",), (Grid(1, 2),), reserved=frozenset({"a_x", "a_x_2"}))
    assert [leaf.name for leaf in found.leaves] == ["a_x_3", "a_h"]


TREES = st.recursive(
    st.sampled_from([1, 2.5, None, True]),
    lambda inner: st.one_of(
        st.tuples(inner), st.tuples(inner, inner), st.builds(Pair, inner, inner), st.builds(Grid, inner, inner)
    ),
    max_leaves=12,
)


@given(st.lists(TREES, min_size=1, max_size=4))
def test_paths_lead_to_the_values_and_names_are_distinct_identifiers(values):
    parameters = tuple(f"p{k}" for k in range(len(values)))
    found = describe(parameters, values)
    scope = dict(zip(parameters, values, strict=True))
    assert [eval(leaf.path, scope) for leaf in found.leaves] == list(found.values)
    names = [leaf.name for leaf in found.leaves]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    assert all(leaf.name == leaf.path for leaf in found.leaves if leaf.path in parameters)
    again = describe(parameters, values)
    assert again.types == found.types and again.leaves == found.leaves
    assert reader(parameters, values, found)(values) == (found.values, True)
    assert unchanged(values)(values)


# --- what is refused ----------------------------------------------------------------------------------------------------


class Thing:
    def __init__(self) -> None:
        self.x = 1


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ([1, 2], "a", ("list", "tuple")),
        (Grid({"k": 1}), "a.x", ("dict", "dataclass")),
        ((1, {2}), "a[1]", ("set", "array")),
        (Pair(1, b"x"), "a.second", ("bytes", "frombuffer")),
        (State(Grid(Thing())), "a.grid.x", ("Thing", "dataclass")),
        (2**63, "a", ("64 bits", "uint64")),
        (-(2**63) - 1, "a", ("64 bits",)),
        (np.longdouble(1), "a", ("longdouble",)),
        (np.datetime64("2020-01-01"), "a", ("datetime64",)),
        (np.array([1, "x"], object), "a", ("Python objects",)),
        ((np.zeros(3, "M8[s]"),), "a[0]", ("dates",)),
    ],
)
def test_refused_with_path_type_and_what_to_pass_instead(value, path, words):
    with pytest.raises(ArgumentError) as caught:
        one(value)
    assert f"argument `{path}`:" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_unhashable_callable_is_refused():
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> None: ...

    with pytest.raises(ArgumentError, match="`a`.*cannot be hashed"):
        one(Odd())


def test_a_structure_that_contains_itself():
    grid = Grid(1)
    grid.x = (grid,)
    with pytest.raises(ArgumentError, match=r"`a\.x\[0\]`: this Grid contains itself"):
        one(grid)
    shared = Grid(1)
    assert len(one((shared, shared)).leaves) == 4


def test_nested_too_deep():
    value: Any = 1
    for _ in range(100):
        value = (value,)
    with pytest.raises(ArgumentError, match="deep"):
        one(value)


def test_512_leaves_and_no_more():
    assert len(one(tuple(range(512))).leaves) == 512
    with pytest.raises(ArgumentError, match="512"):
        one(tuple(range(513)))


def test_a_field_that_was_never_set():
    @dataclass
    class Late:
        x: Any = field(init=False)

    with pytest.raises(ArgumentError, match=r"`a\.x`.*never set"):
        one(Late())


# --- reader -------------------------------------------------------------------------------------------------------------


def reader_of(*values: Any) -> Callable[[Sequence[object]], tuple[Any, ...] | None]:
    parameters = tuple(f"p{k}" for k in range(len(values)))
    read = reader(parameters, values, describe(parameters, values))
    return lambda later: None if (found := read(later)) is None else found[0]


def views_equal(a: Any, b: Any) -> bool:
    if not isinstance(a, ArrayView):
        return type(a) is type(b) and bool(a == b)
    return all(getattr(a, name) == getattr(b, name) for name in ("pointer", "shape", "strides", "dtype", "readonly", "layout"))


def test_reader_reads_what_describe_reads():
    def make(n, k):
        x = np.arange(n * 4.0).reshape(n, 4)
        frozen = x.view()
        frozen.flags.writeable = False
        return (
            State(Grid(x, k), (x.T, Pair(x[:, ::2], None))),
            (Slotted(frozen, Mode.FAST), np.float32(k), "text", True),
            np.array(k),
        )

    reader = reader_of(*make(3, 1.5))
    for n, k in ((3, 2.5), (7, 0.0), (2, -1.0)):
        values = make(n, k)
        expected = describe(("p0", "p1", "p2"), values).values
        found = reader(values)
        assert found is not None
        assert len(found) == len(expected) == 9
        assert all(map(views_equal, found, expected))
        assert found[0].owner is found[0].host is values[0].grid.x


X = np.zeros((3, 4))
READONLY = X.view()
READONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (1, 1.0),
        (1, True),
        (1, Mode.FAST),
        (1.0, np.float64(1)),
        (1, 2**63),
        (np.float32(1), np.float64(1)),
        (None, 1),
        ("a", "b"),
        (len, max),
        (X, X.astype(np.float32)),
        (X, X[0]),
        (X, X.T),
        (X.T, X),
        (X, X[:, ::2]),
        (X[:, ::2], X),
        (X[:, ::2], X.T),
        (X, READONLY),
        (READONLY, X),
        (X, 1.0),
        (X, np.ma.array(X)),
        (X, X.astype(">f8")),
        ((1, 2), (1, 2, 3)),
        ((1, 2), (1,)),
        ((1, 2), Pair(1, 2)),
        (Pair(1, 2), (1, 2)),
        (Grid(1, 2), Slotted(1, 2)),
        (Grid(X), Grid(1.0)),
    ],
)
def test_reader_gives_up_where_a_type_differs(first, other):
    reader = reader_of(first, 5)
    assert reader((first, 5)) is not None
    assert reader((other, 5)) is None


def test_reader_gives_up_on_fields_that_are_gone():
    grid = Grid(1, 2)
    reader = reader_of(grid)
    del grid.x
    assert reader((grid,)) is None


def test_reader_takes_equal_bound_methods():
    grid = Grid(X)

    class Holder:
        def method(self) -> None: ...

    holder = Holder()
    reader = reader_of(holder.method, grid)
    assert reader((holder.method, grid)) is not None
    assert reader((Holder().method, grid)) is None


def test_reader_reads_memory_that_moved():
    x = np.zeros(4)
    reader = reader_of(x)
    x.resize(4000, refcheck=False)
    (view,) = reader((x,))
    assert view.pointer == x.ctypes.data
    assert view.shape == (4000,)


# --- unchanged ----------------------------------------------------------------------------------------------------------


def unchanged(values):
    """Whether later values would run a call with these again."""
    call = ReplayCode((), {}, lambda _arrays: ["pass"])
    run = repeater(values, call, conditions=[], done=["return None"], names={})
    return lambda later: run is not None and run(later) is not CHANGED


def test_the_same_arrays_and_scalars_are_unchanged():
    state = State(Grid(X, 0.5), (X.T, Pair(2, None), "s", Slotted(np.zeros(3), Mode.FAST)))
    values = (X, state, 3, 2.5, True, np.float32(1), len, 1j)
    same = unchanged(values)
    assert same(values) is True
    assert same(list(values)) is True
    assert same(values) is True


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0j, -0j),
        (complex(0.0, 1.0), complex(-0.0, 1.0)),
        (np.float32(0), np.float32(-0.0)),
        (np.float32(1), np.float64(1)),
        (1.0, np.float64(1.0)),
        (math.nan, math.nan),
        ("a", "b"),
        (None, 0),
        (Mode.FAST, 7),
        (X, X[:]),
        (X, None),
        ((1, X), (1, X[:])),
        (Grid(X), Grid(X[:])),
        (Grid(X), Slotted(X)),
        (State(Grid(X)), State(Grid(X.copy()))),
    ],
)
def test_other_values_are_changed(first, other):
    assert not unchanged((first, 1))((other, 1))
    if first is not other:
        assert unchanged((first, 1))((first, 1))


class Identified:
    """An array that says which one it is, as those of qgraph on a device."""

    def __init__(self):
        self.held = np.zeros(3)
        self.__qgraph_identity__ = object()

    def __qgraph_view__(self):
        return view_of_host(self.held, self)


Identified.__qgraph_identity__ = None


def test_an_array_that_says_which_one_it_is():
    x, y = Identified(), Identified()
    same = unchanged((x,))
    assert same((x,))
    assert not same((y,))
    assert not same((x.held,))
    died = weakref.ref(x.held)
    del x
    gc.collect()
    assert died() is None


class FromNumba:
    """What is asked of an array of numba-cuda."""

    def __init__(self, n=3):
        self.shape, self.stream, self.gpu_data = (n,), 0, Identified()

    __cuda_array_interface__ = property(lambda self: pytest.fail("to make the interface takes long"))


def test_an_array_of_numba_is_asked_for_what_can_change(monkeypatch):
    monkeypatch.setattr(array_adapters, "_numba_arrays", lambda: (FromNumba,))
    x = FromNumba()
    same = unchanged((x,))
    assert same((x,))
    assert not same((FromNumba(),))
    for name, other in (("shape", (4,)), ("stream", 7), ("gpu_data", Identified())):
        before = getattr(x, name)
        setattr(x, name, other)
        assert not same((x,)), name
        setattr(x, name, before)
        assert same((x,))
    died = weakref.ref(x.gpu_data)
    del x, before
    gc.collect()
    assert died() is None


def test_equal_scalars_of_new_objects_are_unchanged():
    same = unchanged((10**6, 0.1, np.float32(0.5), "text"))
    assert same((int("1000000"), float("0.1"), np.float32("0.5"), "".join("text")))


def test_a_field_of_a_mutable_dataclass():
    state = State(Grid(X, 1.0), (Slotted(X),))
    same = unchanged((state,))
    assert same((state,))
    # An equal structure of the same arrays is as good.
    assert same((State(Grid(X, 1.0), (Slotted(X),)),))
    state.grid.h = 2.0
    assert not same((state,))
    state.grid.h = 1.0
    assert same((state,))
    state.parts[0].x = X.copy()
    assert not same((state,))
    del state.grid.x
    assert not same((state,))


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype|strides) on a NumPy array:DeprecationWarning")
def test_an_array_changed_in_place():
    x = np.zeros((2, 6))
    same = unchanged((x,))
    x[0, 0] = 1.0
    assert same((x,))
    x.shape = (3, 4)
    assert not same((x,))
    x.shape = (2, 6)
    assert same((x,))
    x.flags.writeable = False
    assert not same((x,))
    x.flags.writeable = True
    x.dtype = np.int64
    assert not same((x,))


@pytest.mark.filterwarnings("ignore:Setting the strides")
@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: np.zeros((3, 3)), (8, 24)),
        (lambda: np.zeros((3, 3), order="F"), (24, 8)),
        (lambda: np.zeros(20)[:4], (16,)),
        (lambda: np.zeros((3, 20))[0:1, :4], (8, 16)),
        (lambda: np.zeros(9)[::2][:2], (32,)),
    ],
)
def test_strides_that_are_set_in_place(make, strides):
    x = make()
    before = x.strides
    same = unchanged((x,))
    assert same((x,))
    x.strides = strides
    assert not same((x,))
    x.strides = before
    assert same((x,))


def test_numpy_does_not_move_memory_that_is_watched():
    # What watches arrays relies on this: resize refuses while there is a weak reference.
    x = np.zeros(4)
    same = unchanged((x,))
    with pytest.raises(ValueError, match="resize"):
        x.resize(8, refcheck=False)
    assert same((x,))


def test_arrays_are_not_kept_alive():
    def make():
        x = np.zeros(3)
        return weakref.ref(x), (Grid(x, (x[:],)), lambda: x)

    alive, values = make()
    holder = weakref.ref(values[0])
    same = unchanged(values)
    assert same(values)
    del values
    gc.collect()
    assert alive() is None
    assert holder() is None
    y = np.zeros(3)
    assert not same((Grid(y, (y[:],)), lambda: y))


class Interface:
    """An array of no library that is known by name."""

    __slots__ = ("__weakref__", "interface")

    def __init__(self, **changes):
        self.interface = {"version": 3, "shape": (2,), "typestr": "<f8", "data": (4096, False), **changes}

    @property
    def __cuda_array_interface__(self):
        return self.interface


def test_arrays_known_by_their_interface_alone():
    value = Interface()
    same = unchanged((value,))
    assert same((value,))
    assert not same((Interface(),))
    value.interface = dict(value.interface)
    assert same((value,))
    # The very dictionary changes.
    for key, other in (("data", (8192, False)), ("shape", (1,)), ("stream", 2)):
        before = value.interface.get(key)
        value.interface[key] = other
        assert not same((value,))
        value.interface[key] = before
    del value.interface["stream"]
    assert same((value,))


@pytest.mark.parametrize("others", [(), (1,), (1, 2, 3)])
def test_another_number_of_values(others):
    assert not unchanged((1, 2))(others)
    assert not unchanged(())((1, 2))


def test_what_cannot_be_watched_is_never_unchanged():
    class Device:
        __slots__ = ()
        __cuda_array_interface__ = {"version": 3, "shape": (2,), "typestr": "<f8", "data": (4096, False)}

    value = Device()
    assert not unchanged((value,))((value,))

    # Each look-up makes another bound method; the one that was passed is gone.
    grid = Grid(X)
    assert not unchanged((grid.__repr__,))((grid.__repr__,))


def test_torch_tensors_changed_in_place():
    torch = pytest.importorskip("torch")
    x = torch.arange(4.0).reshape(2, 2)
    same = unchanged((x, 1))
    assert same((x, 1))
    x[0, 0] = 5.0
    assert same((x, 1))
    assert not same((x[:1], 1))
    assert not same((x.clone(), 1))
    x.t_()
    assert not same((x, 1))
    x.t_()
    assert same((x, 1))
    x.data = torch.zeros(2, 2)
    assert not same((x, 1))
    reader = reader_of(x)
    assert reader((torch.zeros(5, 3),))[0].shape == (5, 3)
    assert reader((torch.zeros(5, 3).T,)) is None
    assert reader((torch.zeros(5, 3, dtype=torch.int32),)) is None


@pytest.fixture
def compiler():
    """Looks at tensors are made where it is loaded."""
    import llvmlite.binding  # noqa: F401


TENSOR_CHANGES = {
    "resized": lambda torch, x: x.resize_(3, 2),
    "smaller": lambda torch, x: x.resize_(2, 2),
    "fewer rows": lambda torch, x: x.resize_(1, 3),
    "fewer columns": lambda torch, x: x.as_strided_((2, 2), (3, 1)),
    "transposed": lambda torch, x: x.t_(),
    "another axis": lambda torch, x: x.unsqueeze_(0),
    "other strides": lambda torch, x: x.as_strided_((2, 3), (1, 1)),
    "other memory": lambda torch, x: setattr(x, "data", torch.zeros(2, 3)),
    "memory of another type": lambda torch, x: setattr(x, "data", torch.zeros(2, 3, dtype=torch.float64)),
    "the same bits of another type": lambda torch, x: setattr(x, "data", x.detach().view(torch.int32)),
    "memory set": lambda torch, x: x.set_(torch.zeros(2, 3)),
    "part of the same memory": lambda torch, x: setattr(x, "data", x.detach()[1:]),
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("change", TENSOR_CHANGES)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_tensor_may_change_in_any_way(change, together, which, compiler, monkeypatch):
    torch = pytest.importorskip("torch")
    if not together:
        monkeypatch.setattr(array_adapters, "may_look", lambda _value: False)
    tensors = torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3, 2).t()
    base = np.zeros(3)
    assert [array_adapters.are_seen_together(x) for x in tensors] == [together] * 3
    same = unchanged((*tensors, base))
    assert same((*tensors, base))
    assert not same((*tensors[::-1], base))
    TENSOR_CHANGES[change](torch, tensors[which])
    assert not same((*tensors, base))


def test_another_tensor_in_the_same_place_is_as_good(compiler):
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 3)
    same = unchanged((x,))
    assert same((x[:],))
    for other in (x[1:], x.t(), x.view(3, 2), x.view(torch.int32), x.clone(), x.view(6), torch.nn.Parameter(x), x.numpy()):
        assert not same((other,))
    for others in ((), (x, x), (None,), (3,)):
        assert not same(others)


@pytest.mark.parametrize("together", [True, False])
def test_elements_that_are_negated_when_they_are_read(together, compiler, monkeypatch):
    torch = pytest.importorskip("torch")
    if not together:
        monkeypatch.setattr(array_adapters, "may_look", lambda _value: False)
    z = torch.tensor([[1 + 2j, 3 + 4j]])
    without_gaps = torch.view_as_real(z).view(-1)[1:3], z.conj().imag.as_strided((2,), (1,))
    assert without_gaps[1].is_contiguous()
    assert without_gaps[1].data_ptr() == without_gaps[0].data_ptr()
    for x, other in (without_gaps, (z.imag, z.conj().imag), (z, z.conj()), (z[:1, :1].imag, z[:1, :1].conj().imag)):
        assert array_adapters.are_seen_together(x) == (together and not x.is_complex())
        same = unchanged((x,))
        assert same((x,))
        assert not same((other,))
        x.data = other
        assert not same((x,))


def test_a_tensor_that_is_negated_from_the_start(compiler):
    torch = pytest.importorskip("torch")
    z = torch.tensor([[1 + 2j, 3 + 4j]])
    x, plain = z.conj().imag, z.imag
    assert x.is_neg()
    assert not array_adapters.are_seen_together(x)
    same = unchanged((x,))
    assert same((x,))
    assert not same((plain,))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1, 1)])
def test_tensors_of_few_elements(compiler, shape):
    torch = pytest.importorskip("torch")
    x = torch.zeros(shape)
    same = unchanged((x, x))
    assert same((x, x))
    assert not same((x, x.unsqueeze(0)))
    assert not same((x, x.view(torch.int32)))
    assert same((x, x.view(shape)))


def test_tensors_are_not_held_by_what_watches_them(compiler):
    torch = pytest.importorskip("torch")
    x = torch.zeros(3)
    same, held = unchanged((x,)), weakref.ref(x)
    assert same((x,))
    del x
    assert held() is None


def test_tensors_of_libraries_that_give_no_look(monkeypatch):
    torch = pytest.importorskip("torch")
    (capsule,) = (torch.Tensor.__dlpack_c_exchange_api__,)
    function_of = native._find_function
    assert function_of(type("Same", (), {"__dlpack_c_exchange_api__": capsule})) == function_of(torch.Tensor) != 0
    assert function_of(object) == 0
    assert function_of(type("Other", (), {"__dlpack_c_exchange_api__": 3})) == 0
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    later = (ctypes.c_uint64 * 8)(2, 0, 1, 1, 1, 1, 1, 0)
    for name in (b"dlpack_exchange_api", b"another"):
        made = make(ctypes.addressof(later), name, None)
        assert function_of(type("Later", (), {"__dlpack_c_exchange_api__": made})) == 0


def test_a_look_that_fails_is_no_error():
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 3)
    look = native.look_at((x, x))
    assert look(x, x) is True
    assert look(x, torch.Tensor) is False
    # The library itself finds that this has no elements in a row.
    assert look(x.to_sparse(), x) is False
    assert look(x) is look(x, x, x) is False


def test_a_look_holds_the_classes_that_it_compares(compiler):
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        pass

    x = torch.zeros(3).as_subclass(Mine)
    look, held = native.look_at((x,)), weakref.ref(Mine)
    assert look(x)
    del x, Mine
    native._function_of.cache_clear()
    gc.collect()
    assert held() is not None
    assert not look(torch.zeros(3))


def test_addresses_are_sums():
    """DLPack allows an offset in bytes, which PyTorch does not use; here without any library."""
    found = [4096, 2 | 1 << 32, 1 | 2 << 32 | 32 << 40 | 1 << 48, 0, 0, 64]
    numbers = (ctypes.c_int64 * 2)(7, 1)
    found[3], found[4] = ctypes.addressof(numbers), ctypes.addressof(numbers) + 8

    def describe_it(_value, place):
        ctypes.memmove(place, (ctypes.c_int64 * 6)(*found), 48)
        return 0

    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(describe_it)
    table = (ctypes.c_uint64 * 8)(1 | 3 << 32, 0, 0, 0, 0, ctypes.cast(function, ctypes.c_void_p).value, 0)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = b"dlpack_exchange_api"
    negated = [False]
    members = {"__dlpack_c_exchange_api__": make(ctypes.addressof(table), name, None), "is_neg": lambda _: negated[0]}
    value = type("Array", (), members)()
    look = native.look_at([value])
    assert look(value)
    # Whether it is negated is asked each time. What cannot answer is another one.
    for answer in (True, None, 0, ""):
        negated[0] = answer
        assert look(value) is False
    del negated[0]
    assert look(value) is False
    negated.append(False)
    assert look(value) is True
    for index, other in ((0, 4160), (5, 0), (1, 2), (2, found[2] + (1 << 40))):
        before, found[index] = found[index], other
        assert not look(value)
        found[index] = before
    found[0], found[5] = 4160, 0
    assert look(value)
    for changed in ((8, 1), (7, 2)):
        numbers[:] = changed
        assert not look(value)
    # One without axes has no extents.
    found[2], found[3], found[4] = 2 << 32 | 32 << 40 | 1 << 48, 0, 0
    before, look = look, native.look_at([value])
    assert look(value)
    assert not before(value)


def test_jax_arrays_that_were_donated():
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(3)
    same = unchanged((x,))
    assert same((x,))
    x.delete()
    assert not same((x,))


def test_no_arguments():
    assert unchanged(())(())
    assert reader((), (), describe((), ()))(()) == ((), True)


# --- at a glance --------------------------------------------------------------------------------------------------------


def glance(views: list[Any], written: list[bool]) -> bool:
    parameters = tuple(f"p{k}" for k in range(len(views)))
    arguments = describe(parameters, views)
    chosen = frozenset(index for index, flag in enumerate(written) if flag)
    found = reader(parameters, views, arguments, chosen)(views)
    assert found is not None
    return found[1]


@given(
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.sampled_from([1, 1, 2])), min_size=1, max_size=8),
    data=st.data(),
)
def test_a_glance_never_overlooks_shared_memory(spans, data):
    memory = np.zeros(80)
    views = [memory[start : start + step * count : step] for start, count, step in spans]
    written = data.draw(st.lists(st.booleans(), min_size=len(views), max_size=len(views)))
    leaves = describe(tuple(f"p{k}" for k in range(len(views))), views).values
    if glance(views, written):
        assert alias_pattern(leaves, written) == ()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("every", [False, True])
def test_a_glance_is_enough_for_neighbours(count, every):
    memory = np.zeros((20, 2, 3))
    views = [memory[k] for k in range(count)]
    assert glance(views[::-1], [k == 0 or every for k in range(count)])
    assert glance([*views, views[0]], [False] * (count + 1))
    assert not glance([*views, views[0]], [True] * (count + 1))


def test_a_glance_leaves_written_strides_and_sizes_to_a_closer_look():
    x = np.zeros((4, 4))
    assert not glance([x[:, ::2]], [True])
    assert glance([x[:, ::2], np.zeros(3)], [False, True])
    arguments = describe(("flag",), (np.zeros(1),))
    read = reader(("flag",), (np.zeros(1),), arguments, single=frozenset({0}))
    assert [read((np.zeros(size),))[1] for size in (1, 2, 0)] == [True, False, False]


def test_keys_go_by_the_values_of_numbers():
    values = (X, 1.5, np.float32(2), "text", True)
    numbers = numbers_among(values)
    assert numbers == (1, 2, 4)
    key = key_maker(5, numbers)
    assert key(*values) == key(X, float("1.5"), np.float32("2"), values[3], True)
    assert key(*values) != key(X.copy(), 1.5, np.float32(2), values[3], True)
    assert key(*values) != key(X, 2.5, np.float32(2), values[3], True)
    # Anything may stand where a number was, also what has no hash.
    assert key(*values) != key(X, [], X, values[3], None)
    with pytest.raises(TypeError):
        key(1, 2)


def test_a_field_that_is_gone_is_a_change():
    state = State(Grid(X, 1.0))
    check = unchanged((state,))
    del state.grid.x
    assert check((state,)) is False


@pytest.mark.parametrize("more", [0, 7])
def test_a_glance_sees_one_shared_element(more):
    memory = np.zeros(40)
    others = [memory[20 + 2 * k : 22 + 2 * k] for k in range(more)]
    for first, second in ((memory[0:5], memory[5:9]), (memory[5:9], memory[0:5])):
        assert glance([first, second, *others], [True] * (2 + more))
    for first, second in ((memory[0:6], memory[5:9]), (memory[5:9], memory[0:6]), (memory[0:9], memory[5:6])):
        assert not glance([first, second, *others], [True] * (2 + more))
