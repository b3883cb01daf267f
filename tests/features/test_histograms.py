"""Updates of few elements by many iterations: on CUDA blocks collect them in shared memory, where the array is short enough."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

# What fits a block's shared memory: so many elements of 32 bits.
LIMIT = 4096


def counting(keys, bins):
    for i in range(keys.shape[0]):
        bins[keys[i]] += 1


def adding(keys, values, bins):
    for i in range(keys.shape[0]):
        if values[i] == 3:
            continue
        bins[keys[i]] += values[i]
        bins[keys[i]] -= 2


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 130, 700])
def test_sums_are_exact(rig, dtype, n):
    def args():
        rng = np.random.default_rng(n)
        # The last bin stays as it is.
        return rng.integers(0, 4, n, np.uint8), rng.integers(0, 9, n).astype(dtype), np.array([1, 2, 3, 4, 5], dtype)

    rig.check(adding, args, noop=n == 0)


def test_elements_that_no_iteration_touches_stay_bit_for_bit(rig):
    kernel = rig.kernel(counting)
    words = np.array([0, 0x80000000, 0x7FC12345, 0x00000001, 0], np.uint32)
    bins = words.copy().view(np.float32)
    rig.run(kernel, np.full(600, 4), bins)
    assert bins.view(np.uint32).tolist() == [*words[:4].tolist(), np.float32(600).view(np.uint32)]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
def test_sums_wrap(rig, dtype):
    """Carries and borrows go to the upper half, where an addition is one of two halves."""
    limits = np.iinfo(dtype)

    def args():
        values = np.array([limits.max, 1, limits.min, limits.max // 3, 0xFFFF_FFFF & limits.max, 7] * 60, dtype)
        return np.arange(values.size) % 3, values, np.array([limits.max - 5, 0, limits.min], dtype)

    rig.check(adding, args)


@pytest.mark.parametrize("keys", ["uint8", "int8", "int64"])
@pytest.mark.parametrize("extent", [256, 1023, 1024, 2049, LIMIT, LIMIT + 1])
def test_lengths_on_both_sides_of_what_fits(rig, keys, extent):
    n = 32 * extent + 100
    picked = np.random.default_rng(0).integers(0, 100, n).astype(keys)

    def args():
        return picked, np.zeros(extent, np.int32)

    if rig.backend == "cuda":
        bins = np.zeros(extent, np.int32)
        rig.run(rig.kernel(counting), picked, bins)
        np.testing.assert_array_equal(bins, np.bincount(picked.astype(np.int64), minlength=extent))
    else:
        rig.check(counting, args)


def test_negative_indices_count_from_the_end(rig):
    rig.check(counting, lambda: (np.arange(500) % 7 - 3, np.zeros(7, np.int64)))


def several(keys, low, high, ored, anded, xored, counts):
    for i in range(keys.shape[0]):
        k = keys[i]
        low[k] = min(low[k], i + 30)
        high[k] = max(high[k], i)
        ored[k] |= i
        anded[k] &= i | 5
        xored[-1 - k] ^= i * 77
        counts[k % counts.shape[0]] += 1


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_several_arrays_in_one_loop(rig, dtype):
    limits = np.iinfo(dtype)

    def args():
        keys = np.random.default_rng(2).integers(0, 3, 800)
        low, high = np.full(3, limits.max, dtype), np.full(4, limits.min, dtype)
        return keys, low, high, np.zeros(3, dtype), np.full(3, limits.max, dtype), np.full(3, 9, dtype), np.zeros(2, dtype)

    rig.check(signed if limits.min else several, args)


def signed(keys, low, high, ored, anded, xored, counts):
    for i in range(keys.shape[0]):
        k = keys[i]
        low[k] = min(low[k], 30 - i)
        high[k] = max(high[k], i - 900)
        ored[k] |= i
        anded[k] &= ~i
        xored[-1 - k] ^= i * 77
        counts[k % counts.shape[0]] -= 1


def beside_other_work(keys, weights, bins, doubled, limit):
    for i in range(keys.shape[0]):
        doubled[i] = 2 * weights[i]
        for j in range(limit[0]):
            if keys[i] > j:
                bins[keys[i] - j] += weights[i]


def test_a_loop_that_also_writes_elements_of_its_own(rig):
    def args():
        rng = np.random.default_rng(3)
        return rng.integers(0, 4, 400), rng.integers(0, 5, 400), np.zeros(9, int), np.full(400, 77), np.array([3])

    rig.check(beside_other_work, args)


def of_a_length_that_the_device_knows(keys, counts, bins):
    for i in range(counts[0]):
        bins[keys[i]] += 1


def test_a_loop_whose_extent_the_device_reads(rig):
    rig.check(of_a_length_that_the_device_knows, lambda: (np.arange(600) % 5, np.array([444]), np.zeros(5, np.int32)))


def on_two_axes(image, bins):
    for i, j in qgraph.ndrange(image.shape[0], image.shape[1]):
        bins[image[i, j]] += 1


def test_an_image(rig):
    rig.check(on_two_axes, lambda: (np.arange(1200).reshape(30, 40) % 6, np.zeros(6, np.uint32)))


def test_an_array_with_strides(rig):
    def args():
        room = np.arange(12, dtype=np.int32)
        return np.arange(500) % 4, room[::3]

    rig.check(counting, args)


def looked_at(keys, bins, other):
    for i in qgraph.parallel(range(keys.shape[0])):
        bins[keys[i]] += 1
        qgraph.atomic_add(other, keys[i], 1)
        if qgraph.atomic_max(other, 3, -1) < 0:
            qgraph.atomic_add(bins, 0, 1000)


def test_an_array_whose_values_are_taken_stays_where_it_is(rig):
    rig.check(looked_at, lambda: (np.arange(400) % 3, np.zeros(4, np.int32), np.zeros(4, np.int32)))


def into_two(keys, first, second):
    for i in range(keys.shape[0]):
        first[keys[i]] += 1
        second[keys[i] + 1] += 2


def test_one_array_under_two_names(rig):
    def args():
        bins = np.zeros(5, np.int64)
        return np.arange(700) % 4, bins, bins

    rig.check(into_two, args)


def test_in_a_device_loop_each_iteration_begins_anew(rig):
    def rounds(keys, bins, left):
        while qgraph.graph_do_while(left):
            for i in range(keys.shape[0]):
                bins[keys[i]] += left[0]
            left[0] -= 1

    def args():
        return np.arange(300) % 5, np.zeros(5, np.int32), np.array([3])

    rig.check(rounds, args)


@pytest.mark.parametrize("bins", [np.zeros(5, np.int32), np.zeros(5, np.float64)])
def test_explain_tells_it(bins):
    most = LIMIT * 4 // bins.itemsize
    text = str(qgraph.kernel(counting, backend="cuda").explain(np.zeros(9, np.uint8), bins))
    assert f"collisions in shared memory, up to {most} elements: bins" in text


def test_explain_does_not_tell_it_of_arrays_whose_values_are_taken():
    keys, bins = np.zeros(9, int), np.zeros(4, np.int32)
    text = str(qgraph.kernel(looked_at, backend="cuda").explain(keys, bins, bins.copy()))
    assert "up to 4096 elements: bins" in text
    assert "other" not in text.split("elements: ")[1].splitlines()[0]


def test_explain_does_not_tell_it_of_one_array_under_two_names():
    keys, bins = np.zeros(9, int), np.zeros(5, np.int64)
    assert "shared memory" not in str(qgraph.kernel(into_two, backend="cuda").explain(keys, bins, bins))
    assert "shared memory" in str(qgraph.kernel(into_two, backend="cuda").explain(keys, bins, bins.copy()))
