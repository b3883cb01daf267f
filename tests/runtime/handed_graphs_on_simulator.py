"""Loops that hand results on, on the driver of graphs_on_simulator.py: a script for test_unrolled.py.

Blocks run one after the other, forwards or backwards: what the first block stores the others must not read.
"""

from __future__ import annotations

import itertools
import random
import sys

import numpy as np

import qgraph
from qgraph.lowering.numba_backend import simt_interpreter
from qgraph.operations.progress_ring import ITERATION, VALUE
from qgraph.runtime.values.array_view import view_of_host
from qgraph.runtime.values.prepared_call import Call
from qgraph.watching.rings import Ring
from qgraph.watching.watched_kernel import WatchedKernel
from tests.handed_kernels import (
    ALL,
    FLOATS,
    REFUSED,
    behind_another,
    broken_off,
    decided_before,
    entered_again,
    extremes,
    given,
    greatest,
    like_cg,
    of_complex,
    sums,
    two_in_a_row,
)
from tests.runtime import graphs_on_simulator as simulated

chosen = random.Random(3)
forwards = simt_interpreter._places


def in_any_order(extents):
    """Blocks and threads of a kernel: the interpreter takes them in this order."""
    places = forwards(extents)
    return places if chosen.random() < 0.5 else places[::-1]


class Kernel(simulated.Kernel):
    """A kernel that gives what it returns."""

    def __call__(self, *args, stream=0):
        values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
        return self.executable.launch(Call(values, self.host_values(values), stream))

    def agrees(self, *args, stream=0):
        mine = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        wanted = self.kernel.reference(*args)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = self(*mine, stream=stream)
        assert found == wanted, (self.kernel, args[2:], found, wanted)
        for one, other in zip(mine, args, strict=True):
            np.testing.assert_array_equal(one, other)
        return found


def handed():
    for function in ALL:
        kernel = Kernel(function, *given(function, 3), unrolled=True)
        (each,) = kernel.plan.unrolled
        assert each.handed is not None, function
        for most in (0, 1, 2, each.copies - 1, each.copies, each.copies + 1, 2 * each.copies, 2 * each.copies + 3):
            kernel.agrees(*given(function, most))
            assert kernel.unrolled
            if function in (greatest, like_cg) and most:
                assert kernel.executable._iterations.tolist() == [most]
    for function in REFUSED:
        assert all(each.handed is None for each in Kernel(function, *given(function, 3), unrolled=True).plan.unrolled)


def every_remainder():
    """A loop may end with any copy, by what it computes."""
    for function in (greatest, two_in_a_row, like_cg):
        kernel = Kernel(function, *given(function, 3), unrolled=True)
        copies = kernel.plan.unrolled[0].copies
        for most in range(2 * copies + 2):
            kernel.agrees(*given(function, most, n=20))
    # The value behind so many iterations is where it shall end.
    for function in (two_in_a_row, behind_another, decided_before):
        kernel = Kernel(function, *given(function, 3), unrolled=True)
        for most in range(1, 2 * kernel.plan.unrolled[0].copies + 2):
            args = given(function, most, n=33)
            wanted = kernel.kernel.reference(*given(function, most, n=33))
            ends = kernel.agrees(*args[:2], wanted[1], 1000)
            assert ends[0] <= most


def sizes():
    """One block and many, none with work, and grids that grow and shrink: the results of so many blocks are combined."""
    for function in (*ALL, greatest):
        kernel = Kernel(function, *given(function, 3), unrolled=True)
        for n in (200, 1, 0, 2000, 3, 33, 70):
            if n or function is not broken_off:
                kernel.agrees(*given(function, 9, n=n))

    # The plain graph has grids of its own, whatever those of copies are.
    kernel = Kernel(like_cg, *given(like_cg, 3))
    for n, most in ((70, 40), (70, 40), (70, 40), (5000, 1), (5000, 1), (5000, 1)):
        kernel.agrees(*given(like_cg, most, n=n))
    assert not kernel.unrolled
    # Of two loops only one changes: the other one has other results to combine.
    kernel = Kernel(two_in_a_row, *given(two_in_a_row, 3), unrolled=True)
    for n in (40, 2000, 300, 40):
        x, _, tolerance, most = given(two_in_a_row, 9, n=n)
        kernel.agrees(x, x[:40].copy(), tolerance, most)


def floats():
    """The plain graph and the unrolled one give the same bits; nan and both zeros are as in plain Python."""
    special = [0.0, -0.0, 1.5, float("nan"), -float("inf"), float("inf"), -3.0]
    for function in FLOATS:
        zeros = np.zeros(4, np.complex128 if function is of_complex else np.float64)
        plain, unrolled = (Kernel(function, zeros, zeros.copy(), 1.0, 3, unrolled=choice) for choice in (False, True))
        assert unrolled.plan.unrolled[0].handed is not None
        for n in (1, 2, 50, 300):
            for most in (1, 2, 9, 18):
                for start in range(len(special) if function is extremes else 1):
                    x = np.array([special[(start + k) % len(special)] for k in range(n)]) if function is extremes else None
                    x = np.sin(np.arange(n) + 1.0) if x is None else x
                    x = x + 0.5j if function is of_complex else x
                    answers = [
                        kernel(x.copy(), x[::-1].copy(), 1e9 if function is extremes else -1.0, most)
                        for kernel in (plain, unrolled)
                    ]
                    if function is extremes:
                        np.testing.assert_array_equal(answers[0], plain.kernel.reference(x.copy(), x[::-1].copy(), 1e9, most))
                    assert np.array(answers[0]).tobytes() == np.array(answers[1]).tobytes(), (function, n, most, answers)
    kernel = Kernel(sums, np.zeros(4), np.zeros(4), 1.0, 3, unrolled=True)
    x = np.sin(np.arange(300) + 1.0)
    wanted = kernel.kernel.reference(x.copy(), x[::-1].copy(), -1.0, 11)
    np.testing.assert_allclose(kernel(x.copy(), x[::-1].copy(), -1.0, 11), wanted, rtol=1e-12)


def other_widths():
    """Where the kernels of a body have blocks of different sizes the plain graph runs, in which a last block finishes."""
    kernel = Kernel(uneven, np.zeros((9, 9), np.int64), np.zeros((2, 2), np.int64), 3, unrolled=True, block_size=64)
    for rows, columns in ((9, 9), (2, 2), (9, 9)):
        for _ in range(2):
            kernel.agrees(np.arange(81).reshape(9, 9), np.arange(rows * columns).reshape(rows, columns), 20)
        assert kernel.unrolled == (rows == 9)


def uneven(x, y, most):
    """Two loops of planes."""
    k = 0
    other = 0
    while k < most:
        total = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] = (x[i, j] + other) % 97
                total += x[i, j]
        other = 0
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] = (y[i, j] + total) % 89
                other += y[i, j]
        k += 1
    return k, other


def adapted():
    """From the plain graph to the unrolled one and back, as long as loops ran."""
    kernel = Kernel(like_cg, *given(like_cg, 3))
    for most in (1, 1, 40, 40, 40, 1, 1, 1, 33):
        kernel.agrees(*given(like_cg, most))
    assert not kernel.unrolled or kernel.executable._runs != "plain"


def stopped():
    """The word that the host writes ends a loop behind a turn; later launches are whole again."""
    for function in (greatest, like_cg, entered_again):
        kernel = Kernel(function, *given(function, 3), unrolled=True)
        loops = kernel.executable._resources.loops
        for after in (1, 30):
            ran = itertools.count()
            simulated.before_kernels.append(lambda ran=ran, after=after, loops=loops: next(ran) == after and loops.write(1))
            kernel(*given(function, 1 << 40))
            simulated.before_kernels.clear()
            assert after < next(ran) < after + 150, function
            loops.write(0)
            kernel.agrees(*given(function, 12))


def deciding_first(x, y, most):
    """The kernel that decides is not the last one, and what is told is known at several places."""
    k = 0
    total = 0
    while k < most:
        total = 0
        for i in range(x.shape[0]):
            x[i] = (x[i] * 5 + k) % 997
            total += x[i]
        k += 1
        qgraph.progress(k, total, every=2)
        if total % 3 == 0:
            qgraph.progress(-k, total / 2)
        for i in range(y.shape[0]):
            y[i] = (y[i] + x[i]) % 991
    return k, total


def deciding_last(x, y, most):
    """Both kernels reduce, and tell."""
    k = 0
    norm = 0
    while k < most:
        total = 0
        for i in range(x.shape[0]):
            x[i] = (x[i] * 5 + k) % 997
            total += x[i]
        qgraph.progress(k, total)
        norm = 0
        for i in range(y.shape[0]):
            y[i] = (y[i] + x[i] + total) % 991
            norm += y[i]
        qgraph.progress(k, norm, every=3)
        k += 1
    return k, norm


class Watched(Kernel):
    """A kernel whose rows go to a ring."""

    def __init__(self, function, *args):
        self.function = function
        self.ring = Ring("cpu", 0)
        super().__init__(function, *args, unrolled=True)

    def made(self, function):
        return WatchedKernel(qgraph.kernel(function))

    def tells(self, *args):
        """The rows are those that plain Python tells."""
        wanted = []

        def note(iteration, residual, every=1):
            if iteration % every == 0:
                wanted.append((iteration, float(residual)))

        qgraph.progress, progress = note, qgraph.progress
        answer = self.function(*(each.copy() if isinstance(each, np.ndarray) else each for each in args))
        qgraph.progress = progress
        found = self(*args, self.ring.array)
        assert found == answer
        rows = self.ring.take(ended=True)
        values = rows[:, VALUE].copy().view(np.float64)
        assert list(zip(rows[:, ITERATION].tolist(), values.tolist(), strict=True)) == wanted
        assert self.ring.lost == 0


def told():
    """Each iteration tells once, wherever a turn ends, and one launch behind another."""
    for function in (deciding_first, deciding_last):
        x = np.arange(33) * 7919 % 1000
        kernel = Watched(function, x, x, 3)
        (each,) = kernel.plan.unrolled
        assert each.handed is not None
        for most in range(2 * each.copies + 2):
            kernel.tells(x.copy(), x[::-1].copy(), most)
        for n in (1, 300):
            kernel.tells(np.arange(n), np.arange(n), 20)


PARTS = ("handed", "every_remainder", "sizes", "floats", "other_widths", "adapted", "stopped", "told")

if __name__ == "__main__":
    simulated.install()
    simt_interpreter._places = in_any_order
    for part in sys.argv[1:] or PARTS:
        globals()[part]()
    print("as plain Python")
