"""Networks, histograms, fractals, particles, transforms, and codes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.npbench_in_jax.versions import put_row, version

# --- networks ----------------------------------------------------------------------------------------------------------


@version()
def softmax(x: Any) -> tuple[Any, ...]:
    return (jax.nn.softmax(x, axis=-1),)


@version()
def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> tuple[Any, ...]:
    x = jax.nn.relu(x @ w1 + b1)
    x = jax.nn.relu(x @ w2 + b2)
    return (jax.nn.softmax(x @ w3 + b3, axis=-1),)


def _convolved(images: Any, weights: Any) -> Any:
    return lax.conv_general_dilated(images, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _halved(x: Any) -> Any:
    """The greatest of each two by two pixels."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@version()
def conv2d_bias(images: Any, weights: Any, bias: Any) -> tuple[Any, ...]:
    return (_convolved(images, weights) + bias,)


@version()
def lenet(x: Any, c1: Any, d1: Any, c2: Any, d2: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> tuple[Any, ...]:
    x = _halved(jax.nn.relu(_convolved(x, c1) + d1))
    x = _halved(jax.nn.relu(_convolved(x, c2) + d2))
    x = jnp.reshape(x, (x.shape[0], -1))
    x = jax.nn.relu(x @ w1 + b1)
    return (jax.nn.relu(x @ w2 + b2) @ w3 + b3,)


def _normalised(x: Any) -> Any:
    apart = x - jnp.mean(x, axis=0)
    return apart / jnp.sqrt(jnp.std(x, axis=0) + 1e-5)


@version()
def resnet(images: Any, narrow: Any, middle: Any, wide: Any) -> tuple[Any, ...]:
    padded = jnp.pad(_convolved(images, narrow), ((0, 0), (1, 1), (1, 1), (0, 0)))
    x = jax.nn.relu(_normalised(padded))
    x = jax.nn.relu(_normalised(_convolved(x, middle)))
    return (jax.nn.relu(_normalised(_convolved(x, wide)) + images),)


# --- histograms, fractals, particles -----------------------------------------------------------------------------------


@version(static=("bins",))
def azimint_hist(values: Any, radius: Any, bins: Any) -> tuple[Any, ...]:
    # The bins are equally wide, so none is searched for; at an edge, rounding may be wrong by one bin.
    edges = jnp.histogram_bin_edges(radius, bins)
    place = ((radius - edges[0]) / (edges[-1] - edges[0]) * bins).astype(jnp.int32)
    place = jnp.minimum(place, bins - 1)
    place = jnp.where(radius < edges[place], place - 1, place)
    place = jnp.where((radius >= edges[place + 1]) & (place != bins - 1), place + 1, place)
    sums = jax.ops.segment_sum(values, place, bins)
    return (sums / jax.ops.segment_sum(jnp.ones_like(place), place, bins),)


@version(static=("bins",))
def azimint_naive(values: Any, radius: Any, bins: Any) -> tuple[Any, ...]:
    # The barrier keeps the division: by a constant, XLA would multiply by the inverse, and the last ring might lose its edge.
    width = jnp.max(radius) / lax.optimization_barrier(jnp.full((), bins, radius.dtype))

    def mean(k: Any) -> Any:
        ring = (k * width <= radius) & (radius < (k + 1) * width)
        return jnp.sum(jnp.where(ring, values, 0)) / jnp.sum(ring)

    return (jax.vmap(mean)(jnp.arange(bins)),)


@version(static=("columns", "rows", "most"))
def mandelbrot1(left: Any, right: Any, low: Any, high: Any, columns: Any, rows: Any, most: Any) -> tuple[Any, ...]:
    c = jnp.linspace(left, right, columns) + jnp.linspace(low, high, rows)[:, None] * 1j

    def turn(k: Any, carry: Any) -> Any:
        z, turns = carry
        near = jnp.abs(z) < 2.0
        return jnp.where(near, z * z + c, z), jnp.where(near, k, turns)

    # Eight turns in a kernel, so that eight times less goes through the memory.
    z, turns = lax.fori_loop(0, most, turn, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int64)), unroll=8)
    return z, jnp.where(turns == most - 1, 0, turns)


@version(static=("columns", "rows", "most"))
def mandelbrot2(left: Any, right: Any, low: Any, high: Any, columns: Any, rows: Any, most: Any) -> tuple[Any, ...]:
    # The turns after the last point has gone change nothing: to go on costs less than to look each time.
    c = jnp.linspace(left, right, columns) + jnp.linspace(low, high, rows)[:, None] * 1j

    def turn(k: Any, carry: Any) -> Any:
        z, turns, inside = carry
        z = jnp.where(inside, z * z + c, z)
        gone = inside & (jnp.abs(z) > 2.0)
        return z, jnp.where(gone, k + 1, turns), inside & ~gone

    start = jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int64), jnp.ones(c.shape, bool)
    z, turns, inside = lax.fori_loop(0, most, turn, start, unroll=8)
    return jnp.where(inside, 0, z), turns


def _apart(places: Any) -> tuple[Any, Any, Any]:
    """The differences of places from each particle to each, by axis."""
    x, y, z = places.T
    return x - x[:, None], y - y[:, None], z - z[:, None]


def _accelerations(places: Any, masses: Any, softening: Any) -> Any:
    dx, dy, dz = _apart(places)
    squares = dx**2 + dy**2 + dz**2 + softening**2
    # Sums, not products of a matrix with a vector: they are fused with all before, and no matrix is stored.
    pull = jnp.where(squares > 0, squares**-1.5, squares) * masses[:, 0]
    return jnp.stack([jnp.sum(each * pull, axis=1) for each in (dx, dy, dz)], axis=1)


def _energies(places: Any, speeds: Any, masses: Any) -> tuple[Any, Any]:
    dx, dy, dz = _apart(places)
    distance = jnp.sqrt(dx**2 + dy**2 + dz**2)
    inverse = jnp.where(distance > 0, 1.0 / distance, distance)
    return 0.5 * jnp.sum(masses * speeds**2), -jnp.sum(jnp.triu(masses * masses.T * inverse, 1))


@version(static=("steps",), changes=("places", "speeds"))
def nbody(masses: Any, places: Any, speeds: Any, steps: Any, dt: Any, softening: Any) -> tuple[Any, ...]:
    speeds = speeds - jnp.mean(masses * speeds, axis=0) / jnp.mean(masses)

    def step(carry: Any, _: Any) -> Any:
        places, speeds, pull = carry
        speeds = speeds + pull * (dt / 2)
        places = places + speeds * dt
        pull = _accelerations(places, masses, softening)
        speeds = speeds + pull * (dt / 2)
        return (places, speeds, pull), _energies(places, speeds, masses)

    begin = _energies(places, speeds, masses)
    start = places, speeds, _accelerations(places, masses, softening)
    (places, speeds, _), then = lax.scan(step, start, length=steps)
    kinetic, potential = (jnp.concatenate((one[None], others)) for one, others in zip(begin, then, strict=True))
    return kinetic, potential, places, speeds


@version()
def arc_distance(theta: Any, phi: Any, other_theta: Any, other_phi: Any) -> tuple[Any, ...]:
    half = jnp.sin((other_phi - phi) / 2) ** 2 * jnp.cos(theta) * jnp.cos(other_theta)
    chord = jnp.sin((other_theta - theta) / 2) ** 2 + half
    return (2 * jnp.arctan2(jnp.sqrt(chord), jnp.sqrt(1 - chord)),)


@version()
def compute(x: Any, y: Any, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    return (a * jnp.clip(x, 2, 10) + b * y + c,)


@version()
def go_fast(a: Any) -> tuple[Any, ...]:
    return (a + jnp.sum(jnp.tanh(jnp.diagonal(a))),)


@version(changes=("sigma",))
def scattering_self_energies(neighbours: Any, dh: Any, green: Any, d: Any, sigma: Any) -> tuple[Any, ...]:
    # The left factors don't depend on (q, w, j), and the sums over q and j only touch the right ones: these come first.
    left = jnp.einsum("keabxy,abiyz->keabixz", green[:, :, neighbours], dh)
    right = jnp.einsum("qwabij,abjyz->wabiyz", d, dh)
    energies, frequencies = green.shape[1], d.shape[1]
    # Zeros in front: nothing comes from an energy below the first one.
    left = jnp.pad(left, ((0, 0), (frequencies, 0), *[(0, 0)] * 5))

    def shifted(w: Any, sigma: Any) -> Any:
        lower = lax.dynamic_slice_in_dim(left, frequencies - w, energies, axis=1)
        return sigma + jnp.einsum("keabixy,abiyz->keaxz", lower, right[w])

    return (lax.fori_loop(0, frequencies, shifted, sigma),)


# --- transforms, sequences, codes --------------------------------------------------------------------------------------


@version()
def spmv(starts: Any, columns: Any, values: Any, x: Any) -> tuple[Any, ...]:
    rows = jnp.repeat(jnp.arange(starts.size - 1), jnp.diff(starts), total_repeat_length=values.size)
    return (jax.ops.segment_sum(values * x[columns], rows, starts.size - 1, indices_are_sorted=True),)


@version(static=("radix", "turns"), changes=("y",))
def stockham_fft(radix: Any, turns: Any, x: Any, y: Any) -> tuple[Any, ...]:
    # The shapes differ from turn to turn, so the loop is unrolled.
    index = jnp.arange(radix)
    butterfly = jnp.exp(-2j * jnp.pi / radix * jnp.outer(index, index))
    y = x
    for k in range(turns):
        done, left = radix**k, radix ** (turns - k - 1)
        turned = jnp.swapaxes(jnp.reshape(y, (done, radix, left)), 0, 1)
        twiddle = jnp.exp(-2j * jnp.pi / (done * radix) * jnp.outer(index, jnp.arange(done)))
        mixed = jnp.reshape(turned * twiddle[:, :, None], (radix, done * left))
        y = jnp.reshape(butterfly @ mixed, x.shape)
    return (y,)


@version()
def nussinov(bases: Any) -> tuple[Any, ...]:
    """By diagonals, whose elements are independent.

    They are stored as rows: ``by_start[d, i]`` and ``by_end[n - 1 - d, i + d]`` are the best for bases ``i`` to ``i + d``. So a
    pair is split at all places by adding two blocks. What's not yet known is 0, as is what stands behind the blocks.
    """
    n = bases.shape[0]
    index = jnp.arange(n)

    def diagonal(d: Any, carry: Any) -> Any:
        by_start, by_end = carry
        inner, inmost = by_start[d - 1], jnp.where(d > 1, by_start[jnp.maximum(d - 2, 0)], 0)
        fits = (d > 1) & (bases + jnp.roll(bases, -d) == 3)
        best = jnp.maximum(jnp.maximum(inner, jnp.roll(inner, -1)), jnp.roll(inmost, -1) + fits)
        # Row e: the best of i to i + e, and of i + e + 1 to i + d.
        splits = by_start + lax.dynamic_slice(by_end, (n - d, d), (n, n))
        best = jnp.maximum(best, jnp.max(splits, axis=0))
        best = lax.optimization_barrier(jnp.where(index + d < n, best, 0))
        ends = jnp.concatenate((jnp.roll(best, d), jnp.zeros_like(best)))
        return put_row(best, by_start, d), put_row(ends, by_end, n - 1 - d)

    start = jnp.zeros((n, n), jnp.int32), jnp.zeros((2 * n, 2 * n), jnp.int32)
    by_start, _ = lax.fori_loop(1, n, diagonal, start)
    apart = index - index[:, None]
    return (jnp.where(apart > 0, by_start[jnp.maximum(apart, 0), index[:, None]], 0),)


@version()
def crc16(data: Any) -> tuple[Any, ...]:
    def take(crc: Any, byte: Any) -> Any:
        for k in range(8):
            mixes = (crc ^ (byte >> k)) & 1
            crc = jnp.where(mixes != 0, (crc >> 1) ^ 0x8408, crc >> 1)
        return crc, None

    # The bits of 16 bytes in a turn: a turn costs the start of a kernel, which is more than what it does.
    crc, _ = lax.scan(take, jnp.full((), 0xFFFF, jnp.int64), data.astype(jnp.int64) & 0xFF, unroll=16)
    crc = ~crc & 0xFFFF
    return (((crc << 8) | (crc >> 8)) & 0xFFFF,)
