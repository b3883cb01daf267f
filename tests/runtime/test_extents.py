"""What code for CUDA takes for granted of the extents of arrays."""

from __future__ import annotations

import pytest

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import Extents, Parameter, TaskCode, equal_shapes
from tests.processes import agrees_on_the_simulator


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("part", ["calls", "bound", "captured"])
def test_calls_on_the_played_driver(part):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.extents_on_simulator", part)


def test_groups_of_one_shape():
    shapes = {"a": (3, 4), "b": (4, 3), "c": (3, 4), "d": (5,), "e": (5,), "f": (), "g": (), "h": (4, 3), "i": (9, 9)}
    assert equal_shapes(shapes) == (("a", "c"), ("b", "h"))


def kernel(*names, arrays=()):
    """A kernel with parameters of these names: one that begins with `host` is a number of the host's."""
    array = ArrayType("float32", 2, "C")
    parameters = tuple(Parameter("host" if name.startswith("host") else "leaf", name, array) for name in names)
    return TaskCode(None, "k", "", parameters, (), single=False, on_device=False, arrays=arrays)


def test_parameters_that_have_the_extents_of_another():
    extents = Extents(equal=(("a", "c", "d"), ("b", "h")))
    assert extents.same(kernel("x", "a", "b", "c", "h", "host a", "d")) == (0, 1, 2, 1, 2, 5, 1)
    assert Extents().same(kernel("a", "c")) == (0, 1)


def test_parameters_that_are_other_arrays_in_other_copies():
    extents = Extents(equal=(("a", "c", "d"), ("b", "h")))
    trading = kernel("p", "q", "a", "b", arrays=(("p", ("a", "c")), ("q", ("c", "b"))))
    # One that is an array of either group has extents of its own.
    assert extents.same(trading) == (0, 1, 0, 3)
