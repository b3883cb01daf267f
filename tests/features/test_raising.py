"""`assert` and `raise`: where Python raises, the call does, with the line and the first iteration."""

from __future__ import annotations

import builtins
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import qgraph
from tests.conftest import THOROUGH, has_gpu
from tests.features import raising_kernels as kernels

# The others mean nothing without a GPU.
OPTIONS = [{"fuse": True}, *([{"graph": False}, {"conditional": "host"}] if has_gpu() else [])]


def raises(rig, function, *arguments, **options):
    """The error of the kernel and of plain Python, which are of one class; the kernel works again afterwards."""
    kernel = rig.kernel(function, **options)
    wanted = None
    try:
        kernel.reference(*[each.copy() if isinstance(each, np.ndarray) else each for each in arguments])
    except Exception as error:  # noqa: BLE001 - whichever it is
        wanted = error
    assert wanted is not None, "plain Python raises nothing"
    given = [rig.device(each) if isinstance(each, np.ndarray) else each for each in arguments]
    with pytest.raises(type(wanted)) as caught:
        kernel(*given)
        qgraph.synchronize()
    assert isinstance(caught.value, qgraph.QGraphError)
    assert caught.value.span.file == kernels.__file__
    assert caught.value.span.line == traceback.extract_tb(wanted.__traceback__)[-1].lineno
    return caught.value


def arange(n=6, dtype="float64"):
    return np.arange(n).astype(dtype)


def test_nothing_is_raised_where_python_raises_nothing(rig):
    check, n = rig.check, rig.size(300)
    check(kernels.checked, lambda: (arange(n), np.full(n, 77.0), n + 0.0))
    check(kernels.of_several_axes, lambda: (arange(24).reshape(4, 6), -1.0))
    check(kernels.backwards, lambda: (arange(7),))
    check(kernels.statements, lambda: (arange(n), 10.0**6))
    check(kernels.reduced, lambda: (np.cos(arange(20)),))
    check(kernels.of_arrays, lambda: (arange(), np.full(6, 77.0)))
    check(kernels.called, lambda: (arange() + 1, 4), tolerance=1e-9)
    check(kernels.iterated, lambda: (arange(), 200))
    check(kernels.endless, lambda: (arange(), np.zeros(1, np.int64)))
    check(kernels.guarding, lambda: (arange(), np.array([4]), arange()))
    for kind in (0, 2):
        check(kernels.branches, lambda kind=kind: (arange(), kind))
    check(kernels.assigned_or_raised, lambda: (arange() + 1, 0))
    check(kernels.of_rows, lambda: (np.array([0, 2, 2, 6]), arange(), np.full(3, 77.0)))
    check(kernels.stepped, lambda: (np.zeros(4), 3))


def test_the_first_iteration_is_told(rig):
    n = rig.size(5000)
    x = arange(n)
    error = raises(rig, kernels.checked, x, x.copy(), n // 3 + 0.5)
    assert error.found == f"the assertion `x[i] < limit` failed: too large, where i = {n // 3 + 1}"
    (words, place), *_ = error.also
    assert words == "the loop is here"
    assert place.line == error.span.line - 1
    assert "in iteration 1, from 0" in raises(rig, kernels.backwards, np.array([-1.0, 1, -1, 1, -1, 1, 1])).found
    assert "in iteration 11, from 0" in raises(rig, kernels.of_several_axes, arange(24).reshape(4, 6), 14.0).found


def test_statements_outside_loops(rig):
    assert raises(rig, kernels.statements, arange(), 5.0).found == "the assertion `s < n` failed"
    assert raises(rig, kernels.of_arrays, -arange(), arange()).found == "the assertion `np.all(x >= 0)` failed: negative"
    assert raises(rig, kernels.of_lengths, arange(), arange(7)).found == "the assertion `len(x) == len(y)` failed"


def test_reductions(rig):
    x = np.cos(arange(30))
    x[17] = np.nan
    assert "where i = 17" in raises(rig, kernels.reduced, x).found


def test_funcs(rig):
    error = raises(rig, kernels.called, np.array([4.0, 9, -1, 2, -3]), 3)
    assert error.found == "('no root of a negative number', 2), where i = 2"
    assert raises(rig, kernels.called, arange() + 1, 0).found == "the assertion `k > 0` failed, where i = 0"
    assert raises(rig, kernels.called, arange() - 1000, 1).found == "ArithmeticError"
    assert "where i = 2" in raises(rig, kernels.of_rows, np.array([0, 2, 2, 6]), 3 - arange(), np.zeros(3)).found


def test_device_loops_end(rig):
    assert raises(rig, kernels.iterated, arange(), 10).found == "no convergence"
    assert "where i = 5" in raises(rig, kernels.endless, arange(), np.ones(1, np.int64)).found
    assert "where i = 0" in raises(rig, kernels.stepped, np.zeros(4), 10**12).found


def test_what_an_assertion_guards_does_not_run(rig):
    n = np.array([2**40])
    raises(rig, kernels.guarding, arange(), n, arange())
    assert n[0] == 2**40


def test_branches(rig):
    assert isinstance(raises(rig, kernels.branches, arange(), 1), KeyError)
    raises(rig, kernels.branches, arange(), 3)
    raises(rig, kernels.assigned_or_raised, arange() + 1, 1)
    raises(rig, kernels.assigned_or_raised, arange(), 0)


def test_a_call_after_an_error(rig):
    kernel = rig.kernel(kernels.checked)
    x, y = rig.device(arange()), rig.device(np.zeros(6))
    for limit in (10.0, 3.5, 10.0, 2.5):
        if limit < 5:
            with pytest.raises(AssertionError, match=f"where i = {int(limit + 1)}"):
                kernel(x, y, limit)
                qgraph.synchronize()
        else:
            kernel(x, y, limit)
            np.testing.assert_array_equal(qgraph.to_numpy(y), arange() + 1)


@pytest.mark.parametrize("options", OPTIONS)
def test_with_options(rig, options):
    rig.check(kernels.iterated, lambda: (arange(), 200), **options)
    raises(rig, kernels.iterated, arange(), 10, **options)
    raises(rig, kernels.guarding, arange(), np.array([2**40]), arange(), **options)


def test_the_error_is_pythons_and_shows_the_place(rig):
    error = raises(rig, kernels.branches, arange(), 1)
    assert isinstance(error, builtins.KeyError)
    assert str(error).startswith("'one'\n  --> ")
    assert 'raise KeyError("one")' in str(error)


@THOROUGH
def test_without_debug_there_are_no_assertions(rig, tmp_path):
    program = (
        "import numpy as np\nfrom tests.features import raising_kernels as kernels\nimport qgraph\n"
        f"kernel = qgraph.kernel(backend={rig.backend!r})(kernels.checked)\n"
        f"x = qgraph.asarray(np.arange(6.0), backend={rig.backend!r})\nkernel(x, x, 2.0)\nprint(qgraph.to_numpy(x).sum())\n"
        "kernel = qgraph.kernel(kernels.branches)\n"
        "try:\n    kernel(np.zeros(3), 1)\nexcept KeyError:\n    print('raised')"
    )
    environment = {"PATH": "", "QGRAPH_BACKEND": rig.backend, "QGRAPH_CACHE": str(tmp_path)}
    for flags, wanted in (((), ""), (("-O",), "21.0\nraised\n")):
        command, root = [sys.executable, *flags, "-c", program], Path(__file__).parents[2]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
        assert done.stdout == wanted, done.stderr
        assert ("AssertionError" in done.stderr) == (not flags)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("options", [{}, {"fuse": True}])
def test_ptx(options):
    kernel = qgraph.kernel(**options)(kernels.reduced)
    text = "".join(kernel.ptx(arange(), cc=(9, 0)).values())
    assert text.count("atom.global.cas.b64") >= 1
    # Code that can fail is there once for each place where it stands, and no function is called.
    assert "call" not in text


@pytest.mark.parametrize("options", [{}, {"fuse": True}])
def test_what_stands_behind_a_raise_that_nothing_passes_needs_no_type(rig, options):
    raises(rig, kernels.returns_behind, arange(), 3, **options)
    raises(rig, kernels.computes_behind, arange(), 3, **options)
    for n in (1, 4):
        raises(rig, kernels.never_ends_well, arange(), n, **options)


def test_nothing_passes_an_assertion_of_a_false_constant(rig):
    for kind in (0, 1):
        rig.check(kernels.of_no_kind, lambda kind=kind: (arange() + 1, kind), noop=kind == 1)
        rig.check(kernels.choosing, lambda kind=kind: (arange(), kind))
    raises(rig, kernels.of_no_kind, arange() + 1, 2)
    raises(rig, kernels.of_no_kind, arange(), 0)
    raises(rig, kernels.choosing, arange(), 2)
