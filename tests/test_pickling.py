"""Kernels, funcs and methods are pickled by module and name, and a copy of one is itself."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import qgraph
from qgraph.errors import ArgumentError
from tests import pickled_kernels
from tests.pickled_kernels import State, add, local, subtract, twice

NAMED = [add, subtract, twice, State.step, State.half, State.Inner.add]
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("thing", NAMED, ids=repr)
def test_what_has_a_name_comes_back_as_itself(thing, protocol):
    assert pickle.loads(pickle.dumps(thing, protocol)) is thing
    # Within other things too.
    assert pickle.loads(pickle.dumps({"a": (thing, [thing])}, protocol)) == {"a": (thing, [thing])}


@pytest.mark.parametrize("thing", [*NAMED, *local()], ids=repr)
def test_a_copy_is_the_thing_itself(thing):
    assert copy.copy(thing) is copy.deepcopy(thing) is thing
    assert copy.deepcopy([thing])[0] is thing


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("how", ["pickle", "copy"])
def test_methods_bring_their_instance(protocol, how):
    state = State(np.zeros(3))
    method = state.step
    made = pickle.loads(pickle.dumps(method, protocol)) if how == "pickle" else copy.deepcopy(method)
    made(2.0)
    assert np.array_equal(made._owner.x, np.full(3, 2.0))
    assert np.array_equal(state.x, np.zeros(3))
    half = state.half
    other = pickle.loads(pickle.dumps(half, protocol)) if how == "pickle" else copy.deepcopy(half)
    assert other() == 0.0


@pytest.mark.parametrize("thing", local(), ids=repr)
def test_what_has_no_name_is_refused(thing):
    with pytest.raises(ArgumentError) as caught:
        pickle.dumps(thing)
    kind = type(thing).__name__.lower()
    name = thing.__qualname__
    assert str(caught.value) == (
        f"<qgraph.{kind} {name}> cannot be pickled: it is not found as tests.pickled_kernels.{name}\n"
        "help: a pickle holds its name, as it does a function's: define it at the top of a module, or in a class there"
    )


def test_another_thing_under_the_name_is_not_taken_for_it(monkeypatch):
    kernel = qgraph.kernel(add.__wrapped__)
    with pytest.raises(ArgumentError, match="cannot be pickled"):
        pickle.dumps(kernel)
    # Under any name of its module it is found.
    monkeypatch.setattr(pickled_kernels, "again", kernel, raising=False)
    assert pickle.loads(pickle.dumps(kernel)) is kernel


def test_what_is_bound_belongs_to_its_process():
    bound = qgraph.kernel(backend="cpu")(add.__wrapped__).bind(np.zeros(2), 1.0)
    for use in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(ArgumentError, match="a bound kernel cannot be pickled or copied"):
            use(bound)


@pytest.mark.needs("compiler")
# JAX, where it was imported, warns of it.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_get_kernels_as_arguments(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        for kernel, expected in ((add, 2.0), (subtract, -2.0)):
            assert pool.apply(applied, (kernel, 2.0)) == [expected] * 4


def applied(kernel, m):
    x = np.zeros(4)
    kernel(x, m)
    return x.tolist()
