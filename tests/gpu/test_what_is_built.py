"""What CUDA is given: how many nodes, of which kinds, where conditional nodes do not work, and with which toolkit's library."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.dispatch import executables
from qgraph.lowering.ptx.link import device_runtime_path
from qgraph.runtime.driver.driver import call, device, driver
from qgraph.runtime.graph import graph_builder
from tests.processes import printed_by


def on_device(*values, dtype=np.float64):
    return qgraph.asarray(np.array(values, dtype), backend="cuda")


def types_of(handle):
    """The types of a graph's nodes, by the names of the driver's enumeration."""
    with device().activate():
        count = call(driver.cuGraphGetNodes, handle)[1]
        nodes = call(driver.cuGraphGetNodes, handle, count)[0]
        types = [driver.CUgraphNodeType(int(call(driver.cuGraphNodeGetType, node))) for node in nodes]
    return [each.name.removeprefix("CU_GRAPH_NODE_TYPE_") for each in types]


def nine(x):
    for i in range(x.shape[0]):
        x[i] += 1
    for i in range(x.shape[0]):
        x[i] *= 2
    for i in range(x.shape[0]):
        x[i] -= 3
    for i in range(x.shape[0]):
        x[i] *= x[i]
    for i in range(x.shape[0]):
        x[i] += 5
    for i in range(x.shape[0]):
        x[i] *= 7
    for i in range(x.shape[0]):
        x[i] -= 11
    for i in range(x.shape[0]):
        x[i] *= 3
    for i in range(x.shape[0]):
        x[i] += 2


@pytest.mark.without_bounds_check
def test_nine_tasks_are_nine_nodes():
    k = qgraph.kernel(backend="cuda")(nine)
    host = np.arange(1000.0)
    x = qgraph.asarray(host, backend="cuda")
    plan = k.plan(x)
    assert len(plan.tasks) == len(plan.nodes) == 9
    k(x)
    assert (k.last_launch.tasks, k.last_launch.nodes, k.last_launch.path) == (9, 9, "cuda-graph")
    assert types_of(k.bind(x).graph.handle) == ["KERNEL"] * 9
    k.reference(host)
    np.testing.assert_allclose(x.numpy(), host)


# --- kinds of conditional nodes -----------------------------------------------------------------------------------------


@pytest.fixture
def conditionals(monkeypatch):
    """The conditional nodes that are added: kind and number of bodies."""
    added, add = [], graph_builder._add_any_node

    def recording(*arguments):
        parameters = arguments[-1]
        if parameters.type == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL:
            kind = driver.CUgraphConditionalNodeType(int(parameters.conditional.type)).name
            added.append((kind.removeprefix("CU_GRAPH_COND_TYPE_"), int(parameters.conditional.size)))
        return add(*arguments)

    recording.__name__ = add.__name__
    # The probe's own are not of interest.
    found = executables.loop_probe(0)
    if not (found.device_loops and found.device_branches):
        pytest.skip(f"conditional nodes do not work here: {found.reason}")
    monkeypatch.setattr(graph_builder, "_add_any_node", recording)
    return added


def a_while(x, n):
    while n[0] > 0:
        for i in range(x.shape[0]):
            x[i] += 1
        n[0] -= 1


def a_do_while(x, n):
    while qgraph.graph_do_while(n):
        for i in range(x.shape[0]):
            x[i] += 1
        n[0] -= 1


def a_counted_loop(x, n):
    for _ in qgraph.serial(range(n[0])):
        for i in range(x.shape[0]):
            x[i] += 1


def an_if(x, n):
    if n[0] > 2:
        for i in range(x.shape[0]):
            x[i] += 1


def an_if_with_else(x, n):
    if n[0] > 2:
        for i in range(x.shape[0]):
            x[i] += 1
    else:
        for i in range(x.shape[0]):
            x[i] -= 1


def a_match(x, n):
    match n[0]:
        case 0:
            for i in range(x.shape[0]):
                x[i] += 1
        case 1:
            for i in range(x.shape[0]):
                x[i] += 2
        case _:
            for i in range(x.shape[0]):
                x[i] += 3


def an_if_in_a_while(x, n):
    while n[0] > 0:
        if n[0] > 2:
            for i in range(x.shape[0]):
                x[i] += 1
        n[0] -= 1


LOOPS = [a_while, a_do_while, a_counted_loop, an_if_in_a_while]


@pytest.mark.parametrize("function", [*LOOPS, an_if, an_if_with_else, a_match], ids=lambda function: function.__name__)
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_the_kind_of_each_conditional_node(conditionals, function, count):
    if count == 0 and function is a_do_while:
        count = 3
    k = qgraph.kernel(backend="cuda", conditional="device")(function)
    x, n = on_device(1.0, 2.0, 3.0), on_device(count, dtype=np.int64)
    host, flag = np.array([1.0, 2.0, 3.0]), np.array([count])
    k(x, n)
    k.reference(host, flag)
    np.testing.assert_array_equal(x.numpy(), host)
    assert k.last_launch.path == "cuda-graph"
    # Which kinds the plan has decides: a loop may have several graphs, and in one of them two nodes.
    planned = [node for node in k.plan(x, n).nodes if node.control is not None]
    sizes = {"while": {1}, "if": {1, 2}, "switch": {2, 3}}
    assert {kind.lower() for kind, _ in conditionals} == {node.kind for node in planned}
    for node in planned:
        assert (node.kind.upper(), len(node.bodies)) in conditionals
        assert len(node.bodies) in sizes[node.kind]
    assert ("WHILE" in {kind for kind, _ in conditionals}) == (function in LOOPS)


# --- where conditional nodes do not work --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("count", [1, 2, 40])
def test_the_host_drives_what_the_probe_found_no_loops_for(monkeypatch, function, count):
    found = SimpleNamespace(device_loops=False, device_branches=False, reason="a test says so")
    monkeypatch.setattr(executables, "loop_probe", lambda ordinal: found)
    k = qgraph.kernel(backend="cuda")(function)
    x, n = on_device(1.0, 2.0, 3.0), on_device(count, dtype=np.int64)
    with pytest.warns(qgraph.PerformanceWarning, match="the host drives loops and branches: a test says so"):
        k(x, n)
    host, flag = np.array([1.0, 2.0, 3.0]), np.array([count])
    k.reference(host, flag)
    np.testing.assert_array_equal(x.numpy(), host)
    np.testing.assert_array_equal(n.numpy(), flag)
    assert k.last_launch.path == "cuda-host-loop"
    assert "a test says so" in k.last_launch.reason
    insisting = qgraph.kernel(backend="cuda", conditional="device")(function)
    with pytest.raises(qgraph.BackendError, match="do not work here: a test says so"):
        insisting(x, n)


# --- the toolkit's library ----------------------------------------------------------------------------------------------

# The library comes from where the environment says, though there are wheels that have one.
PROGRAM = """
    import numpy as np
    from cuda.pathfinder._static_libs import find_static_lib
    find_static_lib._FindStaticLib.try_site_packages = lambda self: None
    import qgraph
    from qgraph.lowering.ptx.link import device_runtime_path

    @qgraph.kernel(backend="cuda")
    def k(x, n):
        while n[0] > 0:
            for i in range(x.shape[0]):
                x[i] += 1
            n[0] -= 1

    x = qgraph.zeros(4, backend="cuda")
    k(x, qgraph.asarray(np.array([5]), backend="cuda"))
    assert (x.numpy() == 5).all()
    print(device_runtime_path(), k.last_launch.path)
    """


def environment_of(home):
    return {"CUDA_HOME": str(home), "CUDA_PATH": str(home), "CONDA_PREFIX": "", "QGRAPH_BACKEND": "", "QGRAPH_CACHE": "0"}


def test_a_toolkit_at_cuda_home(tmp_path):
    folder = tmp_path / "toolkit" / "lib64"
    folder.mkdir(parents=True)
    found = device_runtime_path()
    assert found is not None
    os.symlink(found, folder / "libcudadevrt.a")
    path, way = printed_by(PROGRAM, tmp_path, **environment_of(tmp_path / "toolkit")).split()
    assert Path(path).resolve() == Path(found).resolve()
    assert way == "cuda-graph"


def test_a_toolkit_at_its_usual_place(tmp_path):
    usual = Path("/usr/local/cuda")
    if not list(usual.glob("**/libcudadevrt.a")):
        pytest.skip("there is none")
    path, way = printed_by(PROGRAM, tmp_path, **environment_of(usual)).split()
    assert usual.resolve() in Path(path).resolve().parents
    assert way == "cuda-graph"
