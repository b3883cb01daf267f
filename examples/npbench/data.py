"""Networks, histograms, fractals, particles, transforms, and codes."""

from __future__ import annotations

from typing import Any

import numpy as np

import qgraph
from examples.npbench.programs import numbers, program

# --- networks ----------------------------------------------------------------------------------------------------------


@qgraph.func
def relu(x: Any) -> Any:
    return np.maximum(x, 0)


@qgraph.func
def exponential_shares(x: Any) -> Any:
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


@program(lambda n: (numbers(n, n, n + 1),), size=4)
def softmax(x: Any) -> Any:
    return exponential_shares(x)


def _layer(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return numbers(rows, columns) - 0.5, numbers(columns) - 0.5


@program(lambda n: (numbers(n, 3), *_layer(3, n + 2), *_layer(n + 2, n + 1), *_layer(n + 1, 5)))
def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    return exponential_shares(relu(relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3)


@qgraph.func
def convolved(images: Any, weights: Any) -> Any:
    k = weights.shape[0]
    rows, columns = images.shape[1] - k + 1, images.shape[2] - k + 1
    out = np.empty((images.shape[0], rows, columns, weights.shape[3]), dtype=images.dtype)
    for i in qgraph.serial(range(rows)):
        for j in qgraph.serial(range(columns)):
            window = images[:, i : i + k, j : j + k, :, None]
            out[:, i, j] = np.sum(window * weights[None], axis=(1, 2, 3))
    return out


@program(lambda n: (numbers(2, n, n, 3), numbers(2, 2, 3, 4), numbers(4)), size=4)
def conv2d_bias(images: Any, weights: Any, bias: Any) -> Any:
    return convolved(images, weights) + bias


@qgraph.func
def halved(x: Any) -> Any:
    """The greatest of each two by two pixels."""
    out = np.empty((x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]), dtype=x.dtype)
    for i in qgraph.serial(range(x.shape[1] // 2)):
        for j in qgraph.serial(range(x.shape[2] // 2)):
            out[:, i, j] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2], axis=(1, 2))
    return out


def _images(n: int) -> tuple[np.ndarray, ...]:
    first, second = (numbers(3, 3, 1, 2) - 0.5, numbers(2)), (numbers(2, 2, 2, 3) - 0.5, numbers(3))
    return numbers(n, 12, 12, 1), *first, *second, *_layer(12, 6), *_layer(6, 5), *_layer(5, 4)


@program(_images, size=2)
def lenet(x: Any, c1: Any, d1: Any, c2: Any, d2: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    x = halved(relu(convolved(x, c1) + d1))
    y = halved(relu(convolved(x, c2) + d2))
    flat = np.reshape(y, (y.shape[0], w1.shape[0]))
    return relu(relu(flat @ w1 + b1) @ w2 + b2) @ w3 + b3


@qgraph.func
def normalised(x: Any) -> Any:
    apart = x - np.mean(x, axis=0, keepdims=True)
    return apart / np.sqrt(np.std(x, axis=0, keepdims=True) + 1e-5)


@program(lambda n: (numbers(3, n, n, 4), numbers(1, 1, 4, 2), numbers(3, 3, 2, 2), numbers(1, 1, 2, 4)), size=4)
def resnet(images: Any, narrow: Any, middle: Any, wide: Any) -> Any:
    padded = np.zeros((images.shape[0], images.shape[1] + 2, images.shape[2] + 2, narrow.shape[3]))
    padded[:, 1:-1, 1:-1] = convolved(images, narrow)
    first = relu(normalised(padded))
    second = relu(normalised(convolved(first, middle)))
    return relu(normalised(convolved(second, wide)) + images)


# --- histograms, fractals, particles -----------------------------------------------------------------------------------


@program(lambda n: (numbers(9 * n), numbers(9 * n, seed=1), 5))
def azimint_hist(values: Any, radius: Any, bins: int) -> Any:
    return np.histogram(radius, bins, weights=values)[0] / np.histogram(radius, bins)[0]


@program(lambda n: (numbers(9 * n), numbers(9 * n, seed=1), 5))
def azimint_naive(values: Any, radius: Any, bins: int) -> Any:
    means, width = np.zeros(bins), np.max(radius) / bins
    for k in qgraph.serial(range(bins)):
        ring = np.logical_and(k * width <= radius, radius < (k + 1) * width)
        means[k] = values[ring].mean()
    return means


@program(lambda n: (-1.75, 0.25, -1.0, 1.0, n, n + 1, 9))
def mandelbrot1(left: float, right: float, low: float, high: float, columns: int, rows: int, most: int) -> Any:
    c = np.linspace(left, right, columns) + np.linspace(low, high, rows)[:, None] * 1j
    turns, z = np.zeros(c.shape, dtype=np.int64), np.zeros(c.shape, dtype=np.complex128)
    for k in qgraph.serial(range(most)):
        near = np.less(abs(z), 2.0)
        turns[near] = k
        z[near] = z[near] ** 2 + c[near]
    turns[turns == most - 1] = 0
    return z, turns


@program(lambda n: (-2.0, 0.5, -1.25, 1.25, n, n + 1, 9))
def mandelbrot2(left: float, right: float, low: float, high: float, columns: int, rows: int, most: int) -> Any:
    # The points that are left keep their places, and a mask says which: arrays that shrink have no size before the launch.
    c = np.linspace(left, right, columns)[:, None] + np.linspace(low, high, rows) * 1j
    turns, z = np.zeros(c.shape, dtype=np.int64), np.zeros(c.shape, dtype=np.complex128)
    inside = np.ones(c.shape, dtype=bool)
    for k in qgraph.serial(range(most)):
        if not np.any(inside):
            break
        z[:] = np.where(inside, z * z + c, z)
        gone = inside & (abs(z) > 2.0)
        turns[gone] = k + 1
        inside[gone] = False
    z[inside] = 0
    return z.T, turns.T


@qgraph.func
def accelerations(places: Any, masses: Any, softening: float) -> Any:
    x, y, z = places[:, 0:1], places[:, 1:2], places[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    cubes = dx**2 + dy**2 + dz**2 + softening**2
    cubes[cubes > 0] = cubes[cubes > 0] ** -1.5
    return np.hstack(((dx * cubes) @ masses, (dy * cubes) @ masses, (dz * cubes) @ masses))


@qgraph.func
def energies(places: Any, speeds: Any, masses: Any) -> Any:
    x, y, z = places[:, 0:1], places[:, 1:2], places[:, 2:3]
    inverse = np.sqrt((x.T - x) ** 2 + (y.T - y) ** 2 + (z.T - z) ** 2)
    inverse[inverse > 0] = 1.0 / inverse[inverse > 0]
    return 0.5 * np.sum(masses * speeds**2), -np.sum(np.triu(masses * masses.T * inverse, 1))


@program(lambda n: (numbers(n, 1), numbers(n, 3), numbers(n, 3, seed=1), 3, 0.05, 0.1), size=4)
def nbody(masses: Any, places: Any, speeds: Any, steps: int, dt: float, softening: float) -> Any:
    speeds -= np.mean(masses * speeds, axis=0) / np.mean(masses)
    kinetic, potential = np.zeros(steps + 1), np.zeros(steps + 1)
    kinetic[0], potential[0] = energies(places, speeds, masses)
    pull = accelerations(places, masses, softening)
    for k in qgraph.serial(range(steps)):
        speeds += pull * (dt / 2)
        places += speeds * dt
        pull = accelerations(places, masses, softening)
        speeds += pull * (dt / 2)
        kinetic[k + 1], potential[k + 1] = energies(places, speeds, masses)
    return kinetic, potential


@program(lambda n: tuple(numbers(n, seed=k) for k in range(4)))
def arc_distance(theta: Any, phi: Any, other_theta: Any, other_phi: Any) -> Any:
    half = np.sin((other_phi - phi) / 2) ** 2 * np.cos(theta) * np.cos(other_theta)
    chord = np.sin((other_theta - theta) / 2) ** 2 + half
    return 2 * np.arctan2(np.sqrt(chord), np.sqrt(1 - chord))


@program(lambda n: (np.arange(n * n).reshape(n, n), np.arange(n * n).reshape(n, n)[::-1].copy(), 4, 3, 9))
def compute(x: Any, y: Any, a: int, b: int, c: int) -> Any:
    return a * np.clip(x, 2, 10) + b * y + c


@program(lambda n: (numbers(n, n),))
def go_fast(a: Any) -> Any:
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def _devices(n: int) -> tuple[np.ndarray, ...]:
    neighbours = np.arange(2 * n).reshape(n, 2) % n
    return neighbours, numbers(n, 2, 2, 3, 3), numbers(2, 3, n, 3, 3), numbers(2, 2, n, 2, 2, 2), np.zeros((2, 3, n, 3, 3))


@program(_devices, size=3)
def scattering_self_energies(neighbours: Any, dh: Any, green: Any, d: Any, sigma: Any) -> None:
    for k, e in qgraph.serial(qgraph.ndrange(green.shape[0], green.shape[1])):
        for q, w in qgraph.serial(qgraph.ndrange(d.shape[0], d.shape[1])):
            if e >= w:
                for i, j in qgraph.serial(qgraph.ndrange(d.shape[-2], d.shape[-1])):
                    for a, b in qgraph.serial(qgraph.ndrange(neighbours.shape[0], neighbours.shape[1])):
                        left = green[k, e - w, neighbours[a, b]] @ dh[a, b, i]
                        sigma[k, e, a] += left @ (dh[a, b, j] * d[q, w, a, b, i, j])


# --- transforms, sequences, codes --------------------------------------------------------------------------------------


def _sparse(n: int) -> tuple[np.ndarray, ...]:
    return np.arange(n + 1) * 2, np.arange(2 * n) * 3 % n, numbers(2 * n), numbers(n)


@program(_sparse)
def spmv(starts: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        here = columns[starts[i] : starts[i + 1]]
        y[i] = values[starts[i] : starts[i + 1]] @ x[here]
    return y


@program(lambda n: (2, n, numbers(2**n) + 1j, np.zeros(2**n, dtype=np.complex128)), size=3)
def stockham_fft(radix: qgraph.Static, turns: qgraph.Static, x: Any, y: Any) -> None:
    # The shapes differ from turn to turn, so the loop is unrolled.
    i, j = np.mgrid[0:radix, 0:radix]
    butterfly = np.exp(-2j * np.pi * i * j / radix)
    row, column = np.mgrid[0:radix, 0 : radix**turns]
    y[:] = x
    for k in qgraph.static(range(turns)):
        done, left = radix**k, radix ** (turns - k - 1)
        turned = np.transpose(np.reshape(y, (done, radix, left)), axes=(1, 0, 2))
        twiddle = np.exp(-2j * np.pi * row[:, :done] * column[:, :done] / (done * radix))
        mixed = np.reshape(turned * twiddle[:, :, None], (radix, done * left))
        y[:] = np.reshape(butterfly @ mixed, (y.shape[0],))


@program(lambda n: (np.arange(n) * 7 % 4,))
def nussinov(bases: Any) -> Any:
    n = bases.shape[0]
    pairs = np.zeros((n, n), np.int32)
    for i in qgraph.serial(range(n - 1, -1, -1)):
        for j in qgraph.serial(range(i + 1, n)):
            pairs[i, j] = max(pairs[i, j], pairs[i, j - 1])
            if i + 1 < n:
                pairs[i, j] = max(pairs[i, j], pairs[i + 1, j])
                fits = 1 if i < j - 1 and bases[i] + bases[j] == 3 else 0
                pairs[i, j] = max(pairs[i, j], pairs[i + 1, j - 1] + fits)
            for k in range(i + 1, j):
                pairs[i, j] = max(pairs[i, j], pairs[i, k] + pairs[k + 1, j])
    return pairs


@program(lambda n: (np.arange(n) * 37 % 256,))
def crc16(data: Any) -> Any:
    crc = 0xFFFF
    for byte in qgraph.serial(data):
        rest = byte & 0xFF
        for _ in qgraph.serial(range(8)):
            mixes = (crc ^ rest) & 1
            crc >>= 1
            if mixes:
                crc ^= 0x8408
            rest >>= 1
    crc = ~crc & 0xFFFF
    return ((crc << 8) | (crc >> 8)) & 0xFFFF
