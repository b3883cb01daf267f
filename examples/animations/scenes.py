"""The moving pictures: each runs a program of this folder for a few steps a frame, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import qgraph
from examples.animations.canvas import Curve, Frame, coloured
from examples.bose_einstein import ground_state, harmonic
from examples.breadth_first import Neighbours, breadth_first
from examples.fdtd import fdtd
from examples.inpaint import damage, psnr, restore
from examples.plasma import plasma
from examples.turbulence import decay, random_vorticity

Field = np.ndarray[Any, Any]


def photograph(frames: int = 44, tolerance: float = 1e-5) -> Iterator[Frame]:
    """A photograph of which 40% is lost; the curve is the largest change of a pixel in a sweep."""
    from skimage import data

    original = data.camera().astype(np.float32) / 255
    lost = damage(original.shape, 0.4, 7)
    damaged = np.where(lost, np.float32(0), original)
    kernel = qgraph.kernel(restore)

    def sweeps(u: Any, limit: int) -> Field:
        change, history = qgraph.zeros(1, np.float32), qgraph.zeros(limit, np.float32)
        done, running = qgraph.zeros(1, np.int32), qgraph.zeros(1, np.int32)
        kernel(u, qgraph.asarray(damaged.copy()), qgraph.asarray(lost), change, history, done, running, tolerance)
        return qgraph.to_numpy(history)[: int(qgraph.to_numpy(done)[0])]

    whole = sweeps(qgraph.asarray(damaged.copy()), 20_000)
    u = qgraph.asarray(damaged.copy())
    told: list[float] = []
    for frame in range(frames + 1):
        # About as many sweeps again from frame to frame: most is to be seen in the first ones.
        until = round(len(whole) ** (frame / frames)) if frame else 0
        if until > len(told):
            told += sweeps(u, until - len(told)).tolist()
        restored = qgraph.to_numpy(u)
        curve = Curve(list(told) or [float(whole[0])], len(whole), float(whole[-1]), "largest change of a pixel")
        caption = f"sweep {len(told):,}     {psnr(restored, original):.1f} dB"
        yield Frame(coloured(restored, "gray", 0, 1), caption, curve)


def fluid(frames: int = 50, n: int = 128) -> Iterator[Frame]:
    """The vorticity of decaying turbulence: eddies of one sign merge."""
    w_hat, w = qgraph.asarray(random_vorticity(n, 1)), qgraph.zeros((n, n), complex)
    wave = qgraph.asarray(np.fft.fftfreq(n, 1 / n))
    dt, total = 5e-3, 0
    for frame in range(frames):
        steps = 12 if frame else 0
        total += steps
        enstrophy = decay(w_hat, w, wave, 2e-3, dt, steps)
        field = qgraph.to_numpy(w).real
        yield Frame(coloured(field, "RdBu_r", -10, 10), f"vorticity, t = {total * dt:.2f}, enstrophy {enstrophy:.2f}")


def waves(frames: int = 64, n: int = 240) -> Iterator[Frame]:
    """The electric field of two pulses in a box with conducting walls."""
    x, y = np.ogrid[: n + 1, : n + 1]
    pulses = ((0.32, 0.3, 1.0), (0.62, 0.7, -1.0))
    field = sum(sign * np.exp(-((x - a * n) ** 2 + (y - b * n) ** 2) / 40) for a, b, sign in pulses)
    ez, hx, hy = qgraph.asarray(field), qgraph.zeros((n + 1, n)), qgraph.zeros((n, n + 1))
    steps = 7
    for frame in range(frames):
        electric, magnetic = fdtd(ez, hx, hy, 1 / math.sqrt(2), steps if frame else 0)
        caption = f"electric field, step {frame * steps}, energy {electric + magnetic:.2f}"
        yield Frame(coloured(qgraph.to_numpy(ez), "PuOr_r", -0.25, 0.25), caption)


def condensate(frames: int = 48, side: int = 160) -> Iterator[Frame]:
    """The density of a condensate in a trap with a lattice of light, on the way to the ground state."""
    spacing = 0.1
    along = (np.arange(side) - (side - 1) / 2) * spacing
    lattice = 14 * np.sin(1.6 * along[:, None]) ** 2 + 14 * np.sin(1.6 * along[None, :]) ** 2
    trap = qgraph.asarray(0.35 * harmonic(side, spacing) + lattice)
    rng = np.random.default_rng(2)
    wave = qgraph.asarray(rng.random((side, side)) * np.exp(-harmonic(side, spacing) / 60))
    total = 0
    for frame in range(frames):
        steps, mu = ground_state(wave, trap, 400.0, spacing, 0.003, 0.0, round(1.11**frame))
        total += steps
        density = qgraph.to_numpy(wave) ** 2
        yield Frame(coloured(density, "inferno", 0, density.max()), f"density, step {total:,}, mu = {mu:.3f}")


def particles(frames: int = 64, electrons: int = 160_000) -> Iterator[Frame]:
    """Two beams of electrons through each other: their phase space, positions along, velocities upwards."""
    cells = 256
    rng = np.random.default_rng(3)
    rest = (np.arange(electrons) + 0.5) * cells / electrons
    beam = np.where(np.arange(electrons) % 2 == 0, 1.0, -1.0) * 12.0
    x = qgraph.asarray((rest + 0.4 * np.sin(2 * np.pi * 3 * rest / cells)) % cells)
    v = qgraph.asarray(beam + 0.6 * rng.standard_normal(electrons))
    density, field = qgraph.zeros(cells), qgraph.zeros(cells)
    a_cell, dt, total = electrons / cells, 0.1, 0
    for frame in range(frames):
        steps = 5 if frame else 0
        total += steps
        plasma(x, v, density, field, 1 / a_cell, dt, steps)
        where = (qgraph.to_numpy(v), qgraph.to_numpy(x))
        seen, _, _ = np.histogram2d(*where, bins=(150, 225), range=((-40, 40), (0, cells)))
        shade = np.log1p(seen[::-1])
        yield Frame(coloured(shade, "magma", 0, 4.2), f"two beams in phase space, t = {total * dt:.1f}")


def maze(cells: int, seed: int) -> Field:
    """Where one can go in a labyrinth of so many cells a side, (2 cells + 1) squared of bool, with a few walls taken out."""
    rng = np.random.default_rng(seed)
    free = np.zeros((2 * cells + 1, 2 * cells + 1), bool)
    path = [(0, 0)]
    free[1, 1] = True
    while path:
        row, column = path[-1]
        ways = [(row + down, column + across) for down, across in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        ways = [(r, c) for r, c in ways if 0 <= r < cells and 0 <= c < cells and not free[2 * r + 1, 2 * c + 1]]
        if not ways:
            path.pop()
            continue
        r, c = ways[rng.integers(len(ways))]
        free[2 * r + 1, 2 * c + 1] = free[row + r + 1, column + c + 1] = True
        path.append((r, c))
    inside = np.zeros_like(free)
    inside[1:-1, 1:-1] = True
    return free | (inside & (rng.random(free.shape) < 0.02))


def graph(frames: int = 72, cells: int = 60) -> Iterator[Frame]:
    """Breadth-first search through a labyrinth, a graph with a node for each free square."""
    free = maze(cells, 5)
    node = np.cumsum(free).reshape(free.shape) - 1
    pairs = []
    for axis in (0, 1):
        both = free[:-1] & free[1:] if axis == 0 else free[:, :-1] & free[:, 1:]
        one, other = (node[:-1], node[1:]) if axis == 0 else (node[:, :-1], node[:, 1:])
        pairs += [np.stack([one[both], other[both]]), np.stack([other[both], one[both]])]
    out, into = np.concatenate(pairs, axis=1)
    order = np.argsort(out, kind="stable")
    start = np.searchsorted(out[order], np.arange(free.sum() + 1))
    edges = Neighbours(qgraph.asarray(start), qgraph.asarray(into[order]))
    distance = qgraph.asarray(np.zeros(int(free.sum()), np.int64))
    levels, _ = breadth_first(edges, int(node[cells | 1, cells | 1]), distance)
    far = np.full(free.shape, -1)
    far[free] = qgraph.to_numpy(distance)
    for frame in range(frames):
        level = round(levels * frame / (frames - 1))
        picture = coloured(far % 120, "viridis", 0, 120)
        picture[~free] = (15, 23, 42)
        picture[free & (far > level)] = (51, 65, 85)
        known = int(((far >= 0) & (far <= level)).sum())
        yield Frame(picture, f"breadth-first search, level {level} of {levels}, {known:,} nodes")


# By name, in the order of the gallery.
SCENES = {
    "photograph": photograph,
    "fluid": fluid,
    "waves": waves,
    "condensate": condensate,
    "particles": particles,
    "graph": graph,
}
# Of each: the height of its picture, and the quality of the WebP.
LOOKS = {
    "photograph": (360, 55),
    "fluid": (280, 45),
    "waves": (280, 55),
    "condensate": (280, 60),
    "particles": (240, 50),
    "graph": (363, 55),
}
