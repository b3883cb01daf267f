"""Restore a photograph of which 40% is lost: ``python -m examples.inpaint``.

Random pixels, scratches and a stamp are cut out of scikit-image's ``camera``. Each lost pixel becomes the mean of its four
neighbours, again and again, until no pixel changes by more than a tolerance: Jacobi's method for the Laplace equation. The
loop that repeats is part of the kernel, so the whole restoration is one call, and on a GPU one graph launch.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import qgraph

HOME = Path(__file__).resolve().parent.parent


# --- the solver ---------------------------------------------------------------------------------------------------------


@qgraph.func
def mean_of_neighbours(u, i, j):
    """The mean of the four pixels around (i, j); outside the picture its edge is repeated."""
    above = u[max(i - 1, 0), j]
    below = u[min(i + 1, u.shape[0] - 1), j]
    left = u[i, max(j - 1, 0)]
    right = u[i, min(j + 1, u.shape[1] - 1)]
    return 0.25 * (above + below + left + right)


def restore(u, v, lost, change, history, sweeps, running, tolerance):
    """Fill ``u`` where ``lost``, both (rows, columns); ``v`` is as large as ``u`` and holds the next sweep.

    ``history`` (float32) gets the largest change of each sweep and limits their number, ``sweeps`` (int32, one element)
    counts them; ``change`` (float32) and ``running`` (int32), of one element each, decide when to stop.
    """
    sweeps[0] = 0
    change[0] = 0.0
    running[0] = 1
    while qgraph.graph_do_while(running, max_iter=history.shape[0]):
        for i, j in qgraph.ndrange(u.shape[0], u.shape[1]):
            if lost[i, j]:
                v[i, j] = mean_of_neighbours(u, i, j)
        for i, j in qgraph.ndrange(u.shape[0], u.shape[1]):
            if lost[i, j]:
                change[0] = max(change[0], abs(v[i, j] - u[i, j]))
                u[i, j] = v[i, j]
        history[sweeps[0]] = change[0]
        sweeps[0] += 1
        if change[0] < tolerance:
            running[0] = 0
        change[0] = 0.0


# --- the damage ---------------------------------------------------------------------------------------------------------


def damage(shape: tuple[int, int], share: float, seed: int) -> np.ndarray:
    """A bool mask of ``shape`` with exactly ``share`` of it True: a stamp, scratches, and random pixels for the rest."""
    rng = np.random.default_rng(seed)
    lost = stamp(shape, "SPECIMEN") | scratches(shape, 24, rng)
    missing = round(share * lost.size) - int(lost.sum())
    if missing < 0:
        raise SystemExit(f"--lost {share}: the stamp and the scratches alone take {lost.mean():.0%}")
    lost.ravel()[rng.choice(np.flatnonzero(~lost), missing, replace=False)] = True
    return lost


def stamp(shape: tuple[int, int], text: str) -> np.ndarray:
    """A bool mask of ``text`` in a frame, rising across the middle of the picture."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    rows, columns = shape
    layer = Image.new("L", (columns, rows), 0)
    pen = ImageDraw.Draw(layer)
    font = ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans-Bold.ttf", columns // 9)
    middle = (columns // 2, rows // 2)
    left, top, right, bottom = pen.textbbox(middle, text, font=font, anchor="mm")
    pen.text(middle, text, fill=255, font=font, anchor="mm")
    pen.rounded_rectangle((left - 12, top - 12, right + 12, bottom + 12), radius=10, outline=255, width=5)
    return np.asarray(layer.rotate(24, translate=(0, rows // 6))) > 127


def scratches(shape: tuple[int, int], count: int, rng: np.random.Generator) -> np.ndarray:
    """A bool mask of ``count`` thin wandering lines."""
    from PIL import Image, ImageDraw

    rows, columns = shape
    layer = Image.new("L", (columns, rows), 0)
    pen = ImageDraw.Draw(layer)
    for _ in range(count):
        x, y = rng.uniform(0, columns), rng.uniform(0, rows)
        angle = rng.uniform(-0.5, 0.5) + math.pi / 2 * rng.integers(2)
        line = [(x, y)]
        for _ in range(8):
            angle += rng.normal(0, 0.12)
            step = rng.uniform(20, 60)
            x, y = x + step * math.cos(angle), y + step * math.sin(angle)
            line.append((x, y))
        pen.line(line, fill=255, width=int(rng.integers(1, 4)))
    return np.asarray(layer) > 127


def psnr(picture: np.ndarray, original: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB, of pictures between 0 and 1."""
    error = float(np.mean((picture.astype(np.float64) - original) ** 2))
    return math.inf if error == 0 else -10 * math.log10(error)


# --- running it ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one kernel did: its path, how many sweeps, the restored picture, and seconds for a call and for a sweep."""

    path: str
    sweeps: int
    changes: np.ndarray
    picture: np.ndarray
    first_call: float
    call: float

    @property
    def sweep(self) -> float:
        """Seconds a sweep."""
        return self.call / self.sweeps


def backend_here() -> str:
    """``"cuda"`` where qgraph can use a GPU, else ``"cpu"``."""
    backends = dict(qgraph.info()).get("backends", ())
    return "cuda" if "cuda" in backends else "cpu"


def solve(damaged: np.ndarray, lost: np.ndarray, tolerance: float, limit: int, **options: Any) -> Outcome:
    """Restore ``damaged`` and time it; ``limit`` is the largest number of sweeps."""
    kernel = qgraph.kernel(**options)(restore)
    host = {
        "u": damaged,
        "v": damaged,
        "lost": lost,
        "change": np.zeros(1, np.float32),
        "history": np.zeros(limit, np.float32),
        "sweeps": np.zeros(1, np.int32),
        "running": np.zeros(1, np.int32),
    }
    seconds = []
    for _ in range(4):
        # A fresh copy each time: the first call compiles, the others are timed.
        arrays = {name: qgraph.asarray(array.copy(), backend=options["backend"]) for name, array in host.items()}
        qgraph.synchronize()
        start = time.perf_counter()
        kernel(**arrays, tolerance=tolerance)
        qgraph.synchronize()
        seconds.append(time.perf_counter() - start)
    sweeps = int(qgraph.to_numpy(arrays["sweeps"])[0])
    changes = qgraph.to_numpy(arrays["history"])[:sweeps]
    path = kernel.last_launch.path
    return Outcome(path, sweeps, changes, qgraph.to_numpy(arrays["u"]), seconds[0], float(np.median(seconds[1:])))


# --- what a person sees -------------------------------------------------------------------------------------------------


@contextmanager
def step(words: str) -> Iterator[None]:
    """Say what is being done, with a spinner where there is a terminal, and how long it took."""
    start = time.perf_counter()
    try:
        from rich.console import Console

        console = Console()
    except ImportError:
        console = None
    if console is not None and console.is_terminal:
        with console.status(words):
            yield
    else:
        yield
    print(f"  {words:<44} {time.perf_counter() - start:6.2f} s", flush=True)


INK = "#1f2933"
ACCENT = "#c2410c"


def draw_pictures(original: np.ndarray, damaged: np.ndarray, restored: np.ndarray, share: float, file: Path) -> None:
    """The damaged, the restored and the original picture side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.45), dpi=100, facecolor="white")
    panels = (
        (damaged, f"{share:.0%} lost", f"{psnr(damaged, original):.1f} dB"),
        (restored, "restored", f"{psnr(restored, original):.1f} dB"),
        (original, "original", ""),
    )
    for axes, (picture, title, quality) in zip(figure.subplots(1, 3), panels, strict=True):
        axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="lanczos")
        axes.set_axis_off()
        axes.set_title(title, loc="left", color=INK, fontsize=14, fontweight="bold")
        axes.set_title(quality, loc="right", color=INK, fontsize=12)
    figure.subplots_adjust(left=0.005, right=0.995, top=0.92, bottom=0.01, wspace=0.04)
    figure.savefig(file)


def draw_convergence(changes: np.ndarray, tolerance: float, file: Path) -> None:
    """The largest change of each sweep, as the kernel recorded it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.6), dpi=125, facecolor="white", layout="constrained")
    axes = figure.subplots()
    axes.semilogy(np.arange(1, len(changes) + 1), changes, color=INK, linewidth=1.8)
    axes.axhline(tolerance, color=ACCENT, linewidth=1.2, linestyle="--")
    axes.annotate(f"tolerance {tolerance:g}", (0, tolerance), (6, 5), textcoords="offset points", color=ACCENT)
    axes.set_xlabel("sweep")
    axes.set_ylabel("largest change of a pixel (0 to 1)")
    axes.set_xlim(0, len(changes) * 1.02)
    axes.set_title("The kernel decides when to stop", loc="left", color=INK, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#e4e7eb", linewidth=0.8)
    figure.savefig(file)


def report(one: Outcome, each: Outcome, before: float, after: float, limit: int) -> None:
    """Print path, sweeps, quality and times."""
    stopped = "below the tolerance" if one.sweeps < limit else "the limit: not converged"
    print()
    print(f"  path             {one.path}")
    print(f"  sweeps           {one.sweeps} ({stopped})")
    print(f"  PSNR             {before:.2f} dB -> {after:.2f} dB")
    print(f"  restored in      {one.call * 1e3:.2f} ms (first call, compiling: {one.first_call:.2f} s)")
    print(f"  time a sweep     {one.sweep * 1e6:.2f} us   {one.path}")
    if each.path == one.path:
        print("                   graph=False is the same here: without a GPU there is no graph")
    else:
        print(f"                   {each.sweep * 1e6:.2f} us   graph=False, one launch a loop ({each.path})")
        print(f"                   {each.sweep / one.sweep:.1f} x faster as one graph")


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; see ``--help``."""
    parser = argparse.ArgumentParser(description="Restore a damaged photograph with a solver inside one launch.")
    parser.add_argument("--out", type=Path, default=HOME / "docs" / "images", help="where the two pictures go")
    parser.add_argument("--backend", choices=("cuda", "cpu"), help="default: cuda where there is a GPU")
    parser.add_argument("--lost", type=float, default=0.4, help="the share of the picture that is lost")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="stop when no pixel (0 to 1) changes by more")
    parser.add_argument("--limit", type=int, default=20_000, help="stop after so many sweeps in any case")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    try:
        from skimage import data
    except ImportError as error:
        print(f"the demo needs scikit-image and matplotlib ({error}): pip install 'qgraph-jit[demo]'", file=sys.stderr)
        return 1

    options.out.mkdir(parents=True, exist_ok=True)
    backend = options.backend or backend_here()
    print(f"qgraph: restoring a photograph on {backend}\n")
    with step(f"losing {options.lost:.0%} of scikit-image's camera"):
        original = data.camera().astype(np.float32) / 255
        lost = damage(original.shape, options.lost, options.seed)
        damaged = np.where(lost, np.float32(0), original)
    with step("restoring it: one call, one graph"):
        one = solve(damaged, lost, options.tolerance, options.limit, backend=backend)
    with step("again with graph=False, to compare"):
        each = solve(damaged, lost, options.tolerance, options.limit, backend=backend, graph=False)
    with step("drawing"):
        draw_pictures(original, damaged, one.picture, options.lost, options.out / "inpaint.png")
        draw_convergence(one.changes, options.tolerance, options.out / "inpaint-convergence.png")
    report(one, each, psnr(damaged, original), psnr(one.picture, original), options.limit)
    print(f"\n  pictures in {options.out}: inpaint.png, inpaint-convergence.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
