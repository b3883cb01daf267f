"""``qgraph.random``: the words of Philox, the same numbers in kernels and in plain Python, their distributions, generators."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph import random
from qgraph.operations import philox, random_numbers
from tests.conftest import SIMULATED

# Random123's kat_vectors of philox4x32 with 10 rounds: counter, key, words.
VECTORS = (
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each, 16) for each in text.split())


def signed(low: int, high: int) -> int:
    """Two words as an integer of 64 bits."""
    return int(np.uint64(low | high << 32).astype(np.int64))


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_vectors_of_random123(counter, key, words):
    assert philox.block(random_numbers._WORDS, numbers(key), numbers(counter)) == numbers(words)


def all_bits(seeds, counters, u, w):
    for n in range(seeds.shape[0]):
        u[n, 0], u[n, 1], u[n, 2], u[n, 3] = random.uniform(seeds[n], counters[n, 0], counters[n, 1], size=4)
        w[n, 0], w[n, 1] = random.integers(seeds[n], counters[n, 0], counters[n, 1], high=2**32, size=2)
        # Twice 2**63, so that the word before the last bit is what comes out.
        w[n, 2], w[n, 3] = random.integers(seeds[n], counters[n, 0], counters[n, 1], low=-(2**62), high=2**62, size=2)


def test_vectors_in_kernels(rig):
    kernel = rig.kernel(all_bits)
    seeds = np.array([signed(*numbers(key)) for _, key, _ in VECTORS])
    counters = np.array([[signed(*numbers(c)[:2]), signed(*numbers(c)[2:])] for c, _, _ in VECTORS])
    u, w = np.zeros((3, 4)), np.zeros((3, 4), np.int64)
    rig.run(kernel, seeds, counters, u, w)
    for n, (_, _, words) in enumerate(VECTORS):
        a, b, c, d = numbers(words)
        assert [int(each * 2**24) for each in u[n]] == [each >> 8 for each in (a, b, c, d)]
        assert w[n].tolist() == [a, c, ((a << 32 | b) >> 1) - 2**62, ((c << 32 | d) >> 1) - 2**62]


# --- the same numbers everywhere ----------------------------------------------------------------------------------------


def everything(x, y, m, seed, step):
    for i in range(x.shape[0]):
        x[i, 0] = random.uniform(seed, i, step)
        x[i, 1] = qgraph.random.normal(seed, i, step)
        x[i, 2] = random.exponential(seed, -i, step)
        x[i, 3], x[i, 4], x[i, 5], x[i, 6] = random.normal(seed, i, step, 7, size=4)
        x[i, 7], x[i, 8], x[i, 9] = random.exponential(seed, i, step, 7, -i, size=3)
        x[i, 10] = random.normal(seed, i, dtype=np.float32) + random.uniform(dtype=np.float32, seed=seed, i=i)
        y[i, 0], y[i, 1] = random.normal(seed, i, step, 1, 2, dtype=np.float64, size=2)
        y[i, 2], y[i, 3] = random.exponential(seed, i, dtype=np.float64, size=2)
        y[i, 4] = random.uniform(seed, i * 2**40, dtype=np.float64)
        m[i, 0] = random.integers(seed, i, step, low=-5, high=1000)
        m[i, 1], m[i, 2] = random.integers(seed, i, low=-(2**63), high=2**63 - 1, size=2)
        m[i, 3] = random.integers(seed, i, low=i, high=3)
        # Both halves of the extent count, and what is carried from one to the other.
        m[i, 4], m[i, 5] = random.integers(seed, i, low=-(2**62) - 12345, high=2**60 + 2**31 - 77, size=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_are_those_of_plain_python(rig, dtype):
    n = rig.size(512)
    for seed, step in ((3, 4), (-(2**63), -1), (np.uint64(2**64 - 1), np.int8(-7)), (np.uint32(5), True)):

        def make_args(seed=seed, step=step):
            return np.zeros((n, 11), dtype), np.zeros((n, 5)), np.zeros((n, 6), np.int64), seed, step

        rig.check(everything, make_args, tolerance=0)


@pytest.mark.needs("compiler")
def test_floats_that_come_close_to_a_function():
    """The steps for floats are those of the logarithm, the cosine and the sine."""
    rng = np.random.default_rng(0)
    words = [int(each) >> int(shift) for each in rng.integers(0, 2**63, 2000) for shift in rng.integers(0, 60, 2)]
    words += [2**64 - 1 - word for word in words] + [0, 2**64 - 1, 2**61, 2**62, 3 << 61]
    for reals, kind in ((random_numbers._NARROW, np.float32), (random_numbers._WIDE, np.float64)):
        for word in words:
            word >>= 64 - reals.bits
            value = philox._positive(reals, word)
            quarter, rest = reals.turned(word)
            cosine, sine = philox._cosine_and_sine(reals, word)
            turn = (math.cos(math.pi * rest), math.sin(math.pi * rest))
            wanted = (turn, (-turn[1], turn[0]), (-turn[0], -turn[1]), (turn[1], -turn[0]))[quarter % 4]
            for got, exact in zip((philox._log(reals, value), cosine, sine), (math.log(value), *wanted), strict=True):
                assert abs(got - exact) <= 1.5 * np.spacing(kind(abs(exact)))


# --- distributions ------------------------------------------------------------------------------------------------------


def sampled(u, n, e, m, seed):
    for i in range(u.shape[0]):
        u[i] = random.uniform(seed, i)
        n[i] = random.normal(seed, i, 1)
        e[i] = random.exponential(seed, i, 2)
        m[i] = random.integers(seed, i, 3, low=-100, high=900)


def sampled_in_blocks(u, n, e, m, seed):
    for i in range(u.shape[0] // 2):
        u[2 * i], u[2 * i + 1] = random.uniform(seed, i, dtype=np.float64, size=2)
        n[2 * i], n[2 * i + 1] = random.normal(seed, i, 1, dtype=np.float64, size=2)
        e[2 * i], e[2 * i + 1] = random.exponential(seed, i, 2, size=2)
        m[2 * i], m[2 * i + 1] = random.integers(seed, i, 3, low=-100, high=900, size=2)


# One in a thousand samples is worse: the seed is one of the others.
_SURPRISE = 1e-3
_QUANTILE = 3.0902


def kolmogorov_smirnov(parts: np.ndarray) -> None:
    """``parts``, which the distribution function gave, are uniform: Smirnov's asymptotic formula."""
    n = len(parts)
    steps = np.arange(n + 1) / n
    ordered = np.sort(parts)
    distance = max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1]))
    assert distance < math.sqrt(-0.5 * math.log(_SURPRISE / 2) / n)


def chi_square(parts: np.ndarray, bins: int = 64) -> None:
    """The same in bins of one size, by Wilson's and Hilferty's approximation."""
    counts, expected = np.bincount(np.floor(parts * bins).astype(int).clip(0, bins - 1), minlength=bins), len(parts) / bins
    free = bins - 1
    limit = free * (1 - 2 / (9 * free) + _QUANTILE * math.sqrt(2 / (9 * free))) ** 3
    assert np.sum((counts - expected) ** 2 / expected) < limit


@pytest.mark.needs("speed")
@pytest.mark.parametrize("function", [sampled, sampled_in_blocks])
def test_distributions(rig, function):
    n = 200_000
    u, normals, e, m = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    rig.run(rig.kernel(function), u, normals, e, m, 11)
    assert u.min() >= 0
    assert u.max() < 1
    phi = np.array([0.5 + 0.5 * math.erf(each / math.sqrt(2)) for each in normals])
    # Integers as the middles of intervals: 1000 of them are fine enough for this many samples.
    for parts in (u, phi, -np.expm1(-e), (m + 100.5) / 1000):
        kolmogorov_smirnov(parts)
        chi_square(parts, 50)
    chi_square((m + 100.5) / 1000, 1000)
    # Neighbours have nothing to do with each other: the mean of a product of independent numbers of mean 0 and variance 1.
    assert abs(np.mean(normals[1:] * normals[:-1])) < 4 / math.sqrt(n)
    assert abs(np.mean(normals[::2] * normals[1::2])) < 4 / math.sqrt(n / 2)


# --- code ---------------------------------------------------------------------------------------------------------------


def four_of_a_block(x, seed, step):
    for i in range(x.shape[1]):
        x[0, i], x[1, i], x[2, i], x[3, i] = random.normal(seed, i, step, size=4)


def two_words_of_a_block(x, seed, step):
    for i in range(x.shape[1]):
        x[0, i] = random.uniform(seed, i, step)
        x[1, i] = random.normal(seed, i, step)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [four_of_a_block, two_words_of_a_block])
def test_a_block_is_made_once_of_words_of_32_bits(function):
    kernel = qgraph.kernel(backend="cpu", block_size=128)(function)
    (ptx,) = kernel.ptx(np.zeros((4, 8), np.float32), 3, 4).values()
    loops = ptx.count("st.global.f32") // (4 if function is four_of_a_block else 2)
    assert ptx.count("mul.wide.u32") <= 20 * loops
    # Nothing else of 64 bits than indices.
    assert "xor.b64" not in ptx
    assert ".f64" not in ptx
    assert "sqrt.rn.f32" in ptx


@pytest.mark.needs("compiler")
def test_products_of_doubles_are_not_fused():
    def double(x, seed):
        for i in range(x.shape[0]):
            x[i] = random.normal(seed, i, dtype=np.float64)

    (ptx,) = qgraph.kernel(backend="cpu")(double).ptx(np.zeros(8), 3).values()
    assert "mul.rn.f64" in ptx
    assert "fma.rn.f64" not in ptx


# --- plain Python -------------------------------------------------------------------------------------------------------


def test_arguments_of_the_words():
    with pytest.raises(TypeError, match="seed must be an integer, not float"):
        random.uniform(1.5)
    with pytest.raises(TypeError, match="k must be an integer, not str"):
        random.normal(1, 2, 3, "4")
    with pytest.raises(TypeError, match="dtype must be"):
        random.normal(1, dtype=np.int32)
    with pytest.raises(ValueError, match="1 to 4 numbers of 32 bits"):
        random.exponential(1, size=5)
    with pytest.raises(ValueError, match="1 to 2 numbers of 64 bits"):
        random.integers(1, high=3, size=3)
    with pytest.raises(TypeError, match="high"):
        random.integers(1, 2)


def test_counters():
    assert random.uniform(1, 5) == random.uniform(1, 5, 0, 0, 0) == random.uniform(np.int8(1), np.uint64(5))
    different = {random.uniform(*numbers) for numbers in ((1,), (2,), (1, 1), (1, 2**32), (1, 0, 1), (1, 0, 2**32), (1, -1))}
    different |= {random.uniform(1, 0, 0, 1, 2), random.uniform(1, 0, 0, 2, 1), random.uniform(2**32), random.uniform(-1)}
    # As the highest half of i and j where these have 64 bits.
    assert random.uniform(1, 0, 0, 0, 1) == random.uniform(1, 2**32)
    assert len(different) == 11


def test_types():
    assert type(random.uniform(1)) is float
    assert type(random.normal(1, dtype=np.float32)) is np.float32
    assert type(random.normal(1, dtype=np.float64)) is np.float64
    assert type(random.integers(1, high=np.int8(5))) is int
    assert random.uniform(1) == random.uniform(1, dtype=np.float32) == random.uniform(1, size=1)[0]


# --- generators ---------------------------------------------------------------------------------------------------------


def drawn(x, rng):
    for i in range(x.shape[0]):
        x[i, 0], x[i, 1] = rng.normal(i, size=2)
        x[i, 2] = rng.uniform(i, 1, dtype=np.float64) + rng.integers(i, 2, low=1, high=4)
        x[i, 3] = rng.exponential(i, 3)


def test_calls_and_launches_go_on(rig):
    kernel, mine, theirs = rig.kernel(drawn), random.Generator(5), random.Generator(5)
    x, y = np.zeros((6, 4)), np.zeros((6, 4))
    seen = set()
    for step in range(4):
        rig.run(kernel, x, mine)
        kernel.reference(y, theirs)
        np.testing.assert_array_equal(x, y)
        assert mine.step == theirs.step == step + 1
        seen.add(x[0, 0])
    array = rig.device(x)
    bound = kernel.bind(array, mine)
    assert mine.step == 4
    for step in range(4, 7):
        bound.launch()
        kernel.reference(y, theirs)
        np.testing.assert_array_equal(qgraph.to_numpy(array), y)
        assert mine.step == theirs.step == step + 1
        seen.add(y[0, 0])
    assert len(seen) == 7
    assert kernel.stats.compilations == kernel.stats.graph_builds == 1
    # Step 0 has the seed itself.
    mine.step = 0
    rig.run(kernel, x, mine)
    assert x[3, 0] == random.normal(5, 3)


def test_looking_takes_no_step(rig):
    rng, x = random.Generator(5), np.zeros((6, 4))
    kernel = rig.kernel(drawn)
    kernel.plan(x, rng)
    kernel.check(x, rng)
    assert rng.step == 0
    with pytest.raises(qgraph.QGraphError):
        rig.run(kernel, np.zeros((6, 4), "U1"), rng)
    with pytest.raises(IndexError):
        kernel.reference(np.zeros((6, 3)), rng)
    assert rng.step == 0


@dataclass
class State:
    x: Any
    parts: Any


def nested(state, other):
    for i in range(state.x.shape[0]):
        state.x[i] = state.parts[1].uniform(i) + 10 * other.uniform(i) + 100 * state.parts[0]


def test_generators_in_structures(rig):
    kernel = rig.kernel(nested)
    rng, other = random.Generator(1), random.Generator(2)
    results = []
    for run in (lambda *args: rig.run(kernel, *args), kernel.reference):
        state = State(np.zeros(4), (2, random.Generator(1)))
        # One generator in two places has one step.
        run(state, random.Generator(2))
        run(state, state.parts[1])
        assert state.parts[1].step == 2
        results.append(state.x)
    np.testing.assert_array_equal(*results)
    assert results[0][1] == pytest.approx(11 * random.uniform(rng.key_of(1), 1) + 200)
    assert other.step == 0


def test_plain_python_stays_at_its_step():
    rng, x = random.Generator(5), np.zeros((2, 4))
    drawn(x, rng)
    first = x.copy()
    drawn(x, rng)
    np.testing.assert_array_equal(x, first)
    assert rng.advance() == 0
    drawn(x, rng)
    assert (x[:, 0] != first[:, 0]).all()


def test_a_generator_is_copied_with_its_step():
    rng = random.Generator(2**63 + 1, step=3)
    for twin in (copy.copy(rng), copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))):
        assert (twin.seed, twin.step, twin.key) == (rng.seed, 3, rng.key)
        twin.advance(2)
        assert (twin.step, rng.step) == (5, 3)
    assert -(2**63) <= rng.key < 2**63


@pytest.mark.needs("threads")
def test_threads_share_a_generator(rig):
    kernel, rng, found = rig.kernel(drawn), random.Generator(5), []
    rig.run(kernel, np.zeros((1, 4)), rng)

    def work(run):
        for _ in range(8):
            x = np.zeros((1, 4))
            run(x, rng)
            found.append(x[0, 0])

    runs = [lambda *args: rig.run(kernel, *args), kernel.reference] * 2
    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rng.step == 33
    assert set(found) == {random.normal(rng.key_of(step), 0) for step in range(1, 33)}


def test_a_generator_wants_a_counter():
    def twice(x, rng):
        for i in range(x.shape[0]):
            x[i] = rng.normal() + rng.normal()

    with pytest.raises(qgraph.KernelSyntaxError, match="missing a required argument: 'i'"):
        qgraph.kernel(twice).plan(np.zeros(3), random.Generator(1))


@pytest.mark.skipif(SIMULATED, reason="there are no graphs to look at")
def test_a_bound_generator_has_no_graph_of_its_own(rig):
    bound = rig.kernel(drawn).bind(rig.device(np.zeros((6, 4))), random.Generator(5))
    with pytest.raises(qgraph.BackendError, match="generator" if rig.backend == "cuda" else "no CUDA graph"):
        _ = bound.graph
