"""``explain``: the reasons of a plan, and float64 that a float32 kernel did not mean."""

from __future__ import annotations

import importlib
import inspect
import json
import math

import numba
import numpy as np
import pytest

import qgraph
from qgraph.kernel import Kernel
from tests.conftest import THOROUGH, thorough


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def solver(x, y, tol):
    s = tol + 1.0
    while s > tol:
        for i in range(x.shape[0]):
            y[i] = 0.5 * x[i]
        s = 0.0
        for i in range(x.shape[0]):
            s += y[i]
            x[i] = y[i]
    return s


def test_each_edge_has_its_reason():
    explained = qgraph.kernel(solver).explain(np.ones(4), np.ones(4), 1e-3)
    assert set(explained.edges) == set(explained.plan.edges)
    (inside,) = [text for (before, _), text in explained.edges.items() if explained.plan.nodes[before].region == 1]
    assert inside.startswith("reads y, which n")
    assert inside.count("x") == 1
    text = str(explained)
    assert repr(explained) == text
    for statement in ("while s > tol:", "for i in range(x.shape[0]):", "return s"):
        assert statement in text
    assert "independent: no iteration touches what another writes; reduction into `s`" in text
    assert f"[line {line_of(solver, 's = 0.0')}]" in text
    assert "float64 in" not in text


def test_an_edge_through_shared_memory_has_a_reason():
    def kernel(x, y):
        for i in range(x.shape[0]):
            x[i] = 1.0
        for i in range(y.shape[0]):
            y[i] = 2.0

    x = np.zeros(8)
    explained = qgraph.kernel(kernel).explain(x[:5], x[3:])
    assert list(explained.edges.values()) == ["writes y, which n0 writes too"]
    assert not qgraph.kernel(kernel).explain(x[:3], x[3:]).edges


TENTH = np.float64(0.1)


@qgraph.func
def twice(a):
    return a * np.float64(2.0)


def precise(x, y, n, total):
    s = 0.0
    for i in range(x.shape[0]):
        x[i] = x[i] * 0.1
        y[i] = x[i] * TENTH  # wide
        y[i] += twice(x[i])  # wide
        y[i] = n[i] / 2 + i
        s += x[i] * i
    t = s * TENTH  # wide
    for i in range(x.shape[0]):
        x[i] = x[i] + t  # wide
    total[0] = s


@pytest.mark.needs("compiler")
def test_float64_in_a_float32_kernel_is_told_by_line():
    arrays = np.zeros(4, np.float32), np.zeros(4, np.float32), np.zeros(4, np.int32), np.zeros(1, np.float32)
    explained = qgraph.kernel(precise).explain(*arrays)
    lines, first = inspect.getsourcelines(precise)
    wide = {first + number for number, line in enumerate(lines) if "# wide" in line}
    inner = line_of(twice.__wrapped__ if hasattr(twice, "__wrapped__") else twice.function, "return")
    assert {span.line for span in explained.doubles} == wide | {inner}
    for span in explained.doubles:
        assert f"{span.file}:{span.line}: {span.first_line()}" in str(explained)
    # The same kernel on float64 has nothing to tell.
    assert not qgraph.kernel(precise).explain(*(np.zeros(4) for _ in range(4))).doubles


def phases(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2
        x[i] = x[i] + TURN  # wide


TURN = np.complex128(1j)


@pytest.mark.needs("compiler")
def test_complex128_in_a_complex64_kernel_is_told_too():
    explained = qgraph.kernel(phases).explain(np.zeros(4, np.complex64), np.zeros(4, np.float32))
    assert [span.line for span in explained.doubles] == [line_of(phases, "# wide")]


# --- what iterations take, grids, and what could be otherwise --------------------------------------------------------------


@qgraph.func
def beside(u, i, j):
    return u[i, j] + 2 * u[i, j + 1]


def taking(x, u, v, k, n):
    for i in range(1, x.shape[0] - 1):
        x[i] = 0.5 * (x[i] + 3) + math.sqrt(x[i])
    for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    for i in range(k.shape[0]):
        x[k[i]] += v[i, 0]
    for i in range(x.shape[0]):
        x[i] = 1.0
        if x[i] > v[0, i]:
            v[0, i] = x[i] + x[i]
    for i in range(u.shape[0] - 1):
        s = 0.0
        for j in range(3):
            s += beside(u, i, j) * v[i, 0]
        x[i] = s
    for i in range(u.shape[0]):
        s = 0.0
        for j in range(n):
            s += u[i, j]
        x[i] = s
    for i in range(u.shape[0]):
        while x[i] > 1:
            x[i] *= 0.5
    for i in range(u.shape[0]):
        x[i] = doubled(x[i])
    for i in range(2):
        x[i] = 3.0


@numba.njit
def doubled(v):
    return 2 * v


def pairs_that_meet(u, a, v, b, n):
    for _ in qgraph.serial(range(n)):
        for i in range(1, u.shape[0]):
            a[i] = u[i - 1] + u[i]
            b[i] = v[i - 1] + v[i]
        u, a, v, b = a, b, u, v


def test_each_name_of_arrays_that_change_places_is_an_array():
    explained = qgraph.kernel(pairs_that_meet).explain(*(np.ones(12, np.float32) for _ in range(4)), 3)
    (found,) = (t for cost in costs_of(explained) if not (t := cost.traffic).why_not)
    assert (found.loads, found.stores, found.memory, found.operations) == (16, 8, 16, 2)


def costs_of(explained):
    return {cost.span.first_line() + str(cost.span.line): cost for each in explained.costs.values() for cost in each}.values()


def test_what_iterations_take():
    x, u, v, k = np.ones(12, np.float32), np.ones((12, 12), np.float32), np.ones((12, 12), np.float32), np.arange(12)
    explained = qgraph.kernel(taking).explain(x, u, v, k, 3)
    found = [
        (t.loads, t.stores, t.memory, t.operations, t.at_most)
        for cost in costs_of(explained)
        if not (t := cost.traffic).why_not
    ]
    assert found == [
        # x[i] twice is one element.
        (4, 4, 8, 4, False),
        # Four neighbours, of which memory gives one.
        (16, 4, 8, 4, False),
        # The index, the element that it names, and what is added.
        (8 + 4 + 4, 4, 20, 1, False),
        # What was just stored is not loaded.
        (4, 8, 12, 2, True),
        # Three times two elements, and one that stays; a product and a sum in the func, and outside.
        (3 * 8 + 4, 4, 32, 3 * 4, False),
        (0, 4, 4, 0, False),
    ]
    assert [cost.iterations for cost in costs_of(explained)] == [10, 100, 12, 12, 11, 12, 12, 12, 2]
    lines, first = inspect.getsourcelines(taking)
    reasons = [cost.traffic.why_not for cost in costs_of(explained) if cost.traffic.why_not]
    assert len(reasons) == 3
    for reason, text in zip(reasons, ("in range(n)", "while x[i]", "doubled(x[i])"), strict=True):
        assert f"line {first + next(number for number, line in enumerate(lines) if text in line)}" in reason
    assert all(f"  {cost.traffic}" in str(explained) or f"; {cost.traffic}" in str(explained) for cost in costs_of(explained))


@pytest.mark.needs("compiler")
def test_counted_accesses_are_those_that_a_check_sees():
    def kernel(x, y, z):
        for i in range(1, x.shape[0] - 1):
            y[i] = x[i - 1] + x[i + 1] * z[i]
        for i in range(x.shape[0]):
            z[i] = y[i]

    arrays = np.ones(50), np.ones(50), np.ones(50)
    report = qgraph.kernel(kernel).check(*arrays)
    found = costs_of(qgraph.kernel(kernel).explain(*arrays))
    assert report.accesses == sum((cost.traffic.loads + cost.traffic.stores) // 8 * cost.iterations for cost in found)


def covered(x, u, w, k, starts):
    for i in range(x.shape[0]):
        x[i] = 2.0 * x[i]
    for i, j in qgraph.ndrange(*u.shape):
        u[i, j] = u[i, j] + 1
    for i, j in qgraph.ndrange(*u.shape):
        w[i, j] = u[j, i]
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    for i in range(k[0]):
        x[i] = s
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for j in range(starts[i], starts[i + 1]):
            total += x[j]
        u[i, 0] = total


def test_grids_have_reasons():
    u = np.ones((300, 300), np.float32)
    args = np.ones(1000, np.float32), u, u.copy(), np.array([3]), np.arange(0, 310, 10)
    explained = qgraph.kernel(covered).explain(*args)
    plan = explained.plan
    by_line = {plan.nodes[index].span.line: note for index, note in explained.launches.items()}
    lines, first = inspect.getsourcelines(covered)
    notes = [
        by_line[first + number] for number, line in enumerate(lines) if line.startswith("    for") and first + number in by_line
    ]
    assert [note.partition(":")[0] for note in notes] == [
        "4 blocks of 256",
        "10 x 38 blocks of 32 x 8",
        "10 x 10 blocks of 256, in tiles",
        "at most 4 blocks of 256, which stride",
        "as many blocks of 256 as run at once, which stride",
        "blocks of 256, of which up to 32 threads share an iteration, as long as the loop inside is",
    ]
    small = qgraph.kernel(covered, block_size=64).explain(*args)
    assert next(iter(small.launches.values())).startswith("16 blocks of 64: a thread an iteration")
    # The CPU has no grids.
    assert not qgraph.kernel(backend="cpu")(covered).explain(*args).launches


def test_what_could_be_otherwise(recwarn):
    def kernel(x, y, k):
        for i in range(x.shape[0]):
            y[i] = x[i] * TENTH  # wide
        for i in range(x.shape[0]):
            x[i] = y[i] + 1
        for i in range(k.shape[0]):
            x[k[i]] = y[i]

    arrays = np.zeros(8, np.float32), np.zeros(8, np.float32), np.arange(8)
    made = qgraph.kernel(kernel)
    explained = made.explain(*arrays)
    texts = {change.line: change.text for change in explained.changes}
    assert "qgraph.parallel(range(k.shape[0]))" in texts[line_of(kernel, "in range(k.shape[0])")]
    assert f"because of line {line_of(kernel, 'x[k[i]]')}" in texts[line_of(kernel, "in range(k.shape[0])")]
    assert "float64" in texts[line_of(kernel, "# wide")]
    assert "fuse=True): 2 nodes instead of 3; one block" in texts[line_of(kernel, "def kernel")]
    assert str(explained).count("what could be otherwise:") == 1
    fused = qgraph.kernel(kernel, fuse=True).explain(*arrays)
    assert not any("fuse=True" in change.text for change in fused.changes)
    # To look is no call: that one is told of the loop.
    assert not [each for each in recwarn if issubclass(each.category, qgraph.AssumedParallelWarning)]
    with pytest.warns(qgraph.AssumedParallelWarning):
        qgraph.kernel(kernel, backend="cpu")(*arrays)


def test_why_the_next_kernel_does_not_finish_a_reduction():
    def kernel(x, y, tolerance):
        change = tolerance + 1.0
        while change > tolerance:
            change = 0.0
            for i in range(x.shape[0]):
                x[i] = 0.5 * x[i]
                change = max(change, x[i])
            y[0] = change
        return change

    explained = qgraph.kernel(kernel).explain(np.ones(8), np.ones(2), 0.1)
    (note,) = [note for note in explained.notes.values() if "a last block" in note]
    assert note.endswith("statements behind a reduction write arrays")
    assert note in str(explained)
    assert not any("a last block" in note for note in qgraph.kernel(solver).explain(np.ones(4), np.ones(4), 0.1).notes.values())


def test_a_call_that_is_refused_can_be_explained():
    def kernel(x):
        for i in range(1, x.shape[0]):
            x[i] = x[i - 1] + 1

    explained = qgraph.kernel(kernel).explain(np.ones(8))
    assert "dependent" in str(explained)
    assert next(iter(costs_of(explained))).iterations == 7


def test_as_plain_values_and_in_notebooks():
    explained = qgraph.kernel(solver).explain(np.ones(4), np.ones(4), 1e-3)
    found = json.loads(json.dumps(explained.to_dict()))
    assert [node["line"] for node in found["nodes"]] == [node.span.line for node in explained.plan.nodes]
    (loop,) = [node for node in found["nodes"] if node["kind"] == "while"]
    inside = [found["nodes"][number] for number in loop["bodies"][0]]
    assert [node["costs"][0]["iterations"] for node in inside] == [4, 4]
    assert inside[1]["after"][0]["reason"].startswith("reads y")
    assert inside[1]["loops"][0]["verdict"]["kind"] == "independent"
    assert inside[1]["loops"][0]["reductions"] == [{"operator": "+", "line": line_of(solver, "s += y[i]")}]
    assert all(node["launch"] for node in inside)
    page = explained._repr_html_()
    assert "<code>" in page
    assert "while s &gt; tol" in page
    assert "s > tol" not in page
    assert page.count("<tr>") == 1 + len(found["nodes"])


class Caught(Exception):
    """Carries a call that was not made."""


def first_call(name, monkeypatch):
    """The kernel that an example calls first, and its arguments."""

    def catch(kernel, *args, **kwargs):
        raise Caught(kernel, args, kwargs)

    with monkeypatch.context() as patch, pytest.raises(Caught) as caught:
        patch.setattr(Kernel, "__call__", catch)
        importlib.import_module(f"examples.{name}").main()
    return caught.value.args


def narrow(value):
    """Arrays of float64 as float32, in tuples too."""
    if isinstance(value, tuple):
        parts = [narrow(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value


EXAMPLES = (
    *("bicgstab", "bose_einstein", "channel_flow", "conjugate_gradient", "dormand_prince", "fdtd", "floyd_warshall"),
    *("gauss_seidel", "jacobi", "kmeans", "pagerank", "plasma", "sinkhorn"),
)


@pytest.mark.needs("compiler")
@THOROUGH
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_compute_in_float32_where_their_arrays_are(name, monkeypatch):
    monkeypatch.setenv("QGRAPH_BACKEND", "cpu")
    kernel, args, kwargs = first_call(name, monkeypatch)
    explained = kernel.explain(*(narrow(arg) for arg in args), **kwargs)
    assert explained.plan.program.float_type == "float32"
    assert not explained.doubles


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("name", ["jacobi", *thorough("plasma")])
def test_no_double_is_in_the_ptx_of_float32_examples(name, monkeypatch):
    monkeypatch.setenv("QGRAPH_BACKEND", "cpu")
    kernel, args, kwargs = first_call(name, monkeypatch)
    text = "".join(kernel.ptx(*(narrow(arg) for arg in args), **kwargs).values())
    assert ".f32" in text
    assert ".f64" not in text
