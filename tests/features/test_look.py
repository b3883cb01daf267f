"""What one may look at: plan (records, text, DOT), reference, PTX, info."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import qgraph
from tests.processes import run_python

POISON = 77


def diamond(a, b, c, d):
    for i in range(a.shape[0]):
        a[i] = i
    for i in range(b.shape[0]):
        b[i] = 2.0 * a[i]
    for i in range(c.shape[0]):
        c[i] = 3.0 * a[i]
    for i in range(d.shape[0]):
        d[i] = b[i] + c[i]


def arrays(count, n=8):
    return tuple(np.full(n, float(POISON)) for _ in range(count))


def test_independent_loops_have_no_edge(check):
    kernel = check(diamond, lambda: arrays(4))
    plan = kernel.plan(*arrays(4))
    assert set(plan.edges) == {(0, 1), (0, 2), (1, 3), (2, 3)}


def many_edges(a, b, c):
    for i in range(a.shape[0]):
        a[i] = 1
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]
    for i in range(a.shape[0]):
        a[i] = 2
    for i in range(b.shape[0]):
        b[i] += 1


def test_edges_are_reduced_and_cover_every_hazard():
    plan = qgraph.kernel(many_edges).plan(*arrays(3))
    # 1 reads what 0 wrote; 2 reads what 1 wrote; 3 overwrites what 2 read; 4 updates what 2 read. 0->2, 0->3, 1->4 follow.
    assert set(plan.edges) == {(0, 1), (1, 2), (2, 3), (2, 4)}


def writes_only(a, b):
    for i in range(a.shape[0]):
        a[i] = 1
    for i in range(b.shape[0]):
        b[i] = 1
    for i in range(a.shape[0]):
        a[i] = 2


def test_two_writes_of_one_array_keep_their_order():
    assert set(qgraph.kernel(writes_only).plan(*arrays(2)).edges) == {(0, 2)}


def nested(x, outer, inner):
    for i in range(x.shape[0]):
        x[i] = 0.0
    while qgraph.graph_do_while(outer):
        inner[()] = 2
        while qgraph.graph_do_while(inner):
            for i in range(x.shape[0]):
                x[i] += 1.0
            inner[()] -= 1
        outer[()] -= 1


def test_the_text_of_a_plan():
    plan = qgraph.kernel(nested).plan(np.zeros(4), np.array(1), np.array(1))
    text = str(plan)
    assert repr(plan) == text
    assert text.startswith(f"nested: {len(plan.tasks)} tasks, {len(plan.nodes)} nodes, {len(plan.edges)} edges, float64")
    assert len(plan.tasks) == 5  # two loops, three statements
    line = nested.__code__.co_firstlineno
    for offset in (1, 3, 4, 5, 6, 8, 9):
        assert f"[line {line + offset}]" in text
    assert len([node for node in plan.nodes if node.kind == "while"]) == 2
    assert len(plan.regions) == 3


def test_the_dot_of_a_plan_is_a_graph_with_a_cluster_a_while():
    plan = qgraph.kernel(nested).plan(np.zeros(4), np.array(1), np.array(1))
    dot = plan.to_dot()
    assert dot.startswith('digraph "nested" {')
    assert dot.count("{") == dot.count("}")
    assert dot.count("subgraph cluster_") == 2
    for before, after in plan.edges:
        assert f"n{before} -> n{after};" in dot
    assert dot.count("->") == len(plan.edges)


def test_a_plan_is_the_same_each_time_and_for_every_size():
    kernel = qgraph.kernel(diamond)
    assert str(kernel.plan(*arrays(4))) == str(kernel.plan(*arrays(4, n=100)))
    assert kernel.plan(*arrays(4)).edges == kernel.plan(*arrays(4)).edges


def test_looking_runs_nothing():
    x, outer, inner = np.ones(4), np.array(3), np.array(3)
    kernel = qgraph.kernel(nested)
    kernel.plan(x, outer, inner)
    assert (x == 1.0).all()
    assert outer == 3
    assert kernel.stats.replays == 0


def test_a_plan_has_no_name_of_its_own_for_an_underscore():
    @qgraph.kernel
    def steps(x, y, n):
        for _ in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                y[i] = x[i] + 1
            x, y = y, x

    text = str(steps.plan(np.zeros(4), np.zeros(4), 3))
    assert "reads _, iterations left, whether the loop was entered" in text
    assert "___" not in text


def test_a_plan_says_in_words_what_nobody_gave_a_name():
    @qgraph.kernel
    def solve(x, n):
        it = 0
        while np.sum(x) < 100 and it < n:
            for i in range(x.shape[0]):
                x[i] += 1
            if np.dot(x, x) > 50:
                break
            it += 1
        for t in qgraph.serial(range(n)):
            if x[t] > 1:
                continue
            for i in range(x.shape[0]):
                x[i] += t
        pair = (x[0], it)
        return pair

    plan = solve.plan(np.ones(4), 3)
    line = plan.program.span.line
    assert f"if not (skipped in the loop of line {line + 8})" in str(plan)
    for text in (str(plan), str(solve.explain(np.ones(4), 3))):
        assert f"reduction into `sum of line {line + 2}`" in text
        assert f"reads dot of line {line + 5}" in text
        assert "writes whether to go on" in text
        assert f"`break` of line {line + 2}" in text
        assert not re.search(r"\b[a-z]+\d+_\d+\b|\bagain\b|\bargument\d|(?<![\w.])_\w|\.skipped", text), text


def test_a_plan_says_what_each_task_reads_and_writes():
    plan = qgraph.kernel(diamond).plan(*arrays(4))
    last = plan.tasks[-1]
    names = {leaf.name: leaf.path for leaf in plan.program.leaves}
    assert {names[name] for name in last.effects.reads} == {"b", "c"}
    assert {names[name] for name in last.effects.writes} == {"d"}


# --- the reference ------------------------------------------------------------------------------------------------------


def test_reference_is_plain_python_in_place():
    x, outer, inner = np.full(4, 9.0), np.array(3), np.array(0)
    qgraph.kernel(nested).reference(x, outer, inner)
    assert (x == 6.0).all()
    assert outer == 0


def test_reference_takes_keywords_and_defaults():
    def body(x, a=2.0, *, b=1.0):
        for i in range(x.shape[0]):
            x[i] = a * i + b

    kernel = qgraph.kernel(body)
    x = np.zeros(3)
    kernel.reference(x)
    assert x.tolist() == [1.0, 3.0, 5.0]
    kernel.reference(x, b=0.0, a=1.0)
    assert x.tolist() == [0.0, 1.0, 2.0]


def make_counting(limit):
    def body(x, flag):
        while qgraph.graph_do_while(flag, max_iter=limit):
            for i in range(x.shape[0]):
                x[i] += limit

    return body


def test_reference_of_a_do_while_sees_closures_and_starts_afresh():
    kernel = qgraph.kernel(make_counting(3))
    for turn in (1, 2):
        x = np.zeros(2)
        kernel.reference(x, np.array(1))
        assert (x == 9).all(), turn


# --- PTX ----------------------------------------------------------------------------------------------------------------


@pytest.mark.needs("compiler")
def test_ptx_of_every_task_without_a_gpu():
    kernel = qgraph.kernel(diamond)
    texts = kernel.ptx(*arrays(4))
    assert len(texts) == 4
    for name, text in texts.items():
        assert ".target sm_90" in text, name
        assert ".visible .entry" in text, name
    assert set(texts) == {task.name for task in kernel.plan(*arrays(4)).tasks}


@pytest.mark.needs("compiler")
def written(x, n):
    for i in range(n):
        x[i] += 1


@pytest.mark.parametrize("look", ["plan", "explain", "ptx", "profile", "check"])
def test_a_number_in_the_place_of_an_array_is_told_by_whatever_looks(look):
    """Some escaped as a KeyError, others told nothing."""
    with pytest.raises(qgraph.KernelTypeError, match="`x` is a number, which has no elements"):
        getattr(qgraph.kernel(written), look)(2.5, 3)


def one_way_or_the_other(x, y, mode: qgraph.Static):
    for i in range(x.shape[0]):
        if mode == 1:
            y[i] += 1
            x[i] = y[i]
        x[i] += y[i] if mode == 1 else 2
        if x.ndim == 2:
            x[i, 0] = 1
        if mode == 0:
            continue
        y[i] = 3


@pytest.mark.parametrize("nothing", [2.5, None])
@pytest.mark.parametrize("fuse", [False, True])
def test_an_argument_is_no_array_where_nothing_asks_it_for_elements(nothing, fuse):
    """The call ran, and what compiles for CUDA raised a KeyError."""
    kernel, x = qgraph.kernel(one_way_or_the_other, fuse=fuse), np.arange(4.0)
    kernel(x, nothing, 0)
    assert (x == np.arange(4.0) + 2).all()
    kernel.check(x, nothing, 0)
    assert "independent" in str(kernel.explain(x, nothing, 0))
    assert all(".entry" in text for text in kernel.ptx(x, nothing, 0).values())
    assert (kernel.profile(x, nothing, 0).rows[0].count, x[0]) == (1, 4.0)


def test_ptx_for_another_capability():
    (text,) = qgraph.kernel(one_loop).ptx(np.zeros(4), cc=(8, 0)).values()
    assert ".target sm_80" in text


def one_loop(x):
    for i in range(x.shape[0]):
        x[i] += 1.0


@pytest.mark.needs("compiler")
def test_ptx_is_the_same_each_time():
    assert qgraph.kernel(one_loop).ptx(np.zeros(4)) == qgraph.kernel(one_loop).ptx(np.zeros(4))


# --- info ---------------------------------------------------------------------------------------------------------------


def test_info_tells_the_path_of_loops():
    text = str(qgraph.info())
    for word in ("device", "driver", "toolkit"):
        assert word in text.lower(), text


def test_python_m_qgraph_info():
    done = run_python("-m", "qgraph", "info")
    assert done.returncode == 0, done.stderr
    assert "driver" in done.stdout.lower()


def test_python_m_qgraph_inspect(tmp_path):
    (tmp_path / "shapes.py").write_text(
        "import qgraph\n\n\n@qgraph.kernel\ndef fill(x):\n    for i in range(x.shape[0]):\n        x[i] = i\n"
    )
    done = run_python("-m", "qgraph", "inspect", "shapes:fill", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.getcwd()}")
    assert done.returncode == 0, done.stderr
    assert "fill" in done.stdout
    missing = run_python("-m", "qgraph", "inspect", "shapes:nothing", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.getcwd()}")
    assert missing.returncode != 0
    assert "nothing" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_import_loads_neither_numba_nor_cuda():
    code = "import sys, qgraph; print(sorted(m for m in sys.modules if m.split('.')[0] in ('numba', 'cuda', 'llvmlite')))"
    done = run_python("-c", code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_all_names_are_there():
    for name in qgraph.__all__:
        assert hasattr(qgraph, name), name
    wanted = {
        *("kernel", "func", "ndrange", "serial", "parallel", "graph_do_while"),
        *("atomic_add", "atomic_sub", "atomic_min", "atomic_max", "atomic_and_", "atomic_or_", "atomic_xor"),
        *("atomic_exch", "atomic_cas", "asarray", "empty", "zeros", "full", "to_numpy", "synchronize", "stream"),
        *("set_backend", "info", "reset", "QGraphError", "KernelSyntaxError", "KernelTypeError", "ArgumentError"),
        *("DataRaceError", "BoundsError", "BackendError", "CudaError", "PerformanceWarning"),
    }
    assert wanted <= set(qgraph.__all__)
