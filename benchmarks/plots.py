"""How every plot of the benchmarks looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.results import place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2933"
# One colour a peer, in every plot.
COLOURS = {
    "qgraph": "#c2410c",
    "qgraph, graph=False": "#f59e0b",
    "qgraph, host loop": "#f59e0b",
    "qgraph, fuse=True": "#fb923c",
    "qgraph, nest": "#fb923c",
    "qgraph, joined": "#fb923c",
    "qgraph, one block": "#fdba74",
    "qgraph, one number of each block": "#fb923c",
    "qgraph, new arrays": "#fb923c",
    "CPU of the call": "#7b8794",
    "NumPy": "#7b8794",
    "the same lines": "#7c2d12",
    "one loop": "#c2410c",
    "looks seldom": "#f59e0b",
    "fuse=True": "#fdba74",
    "by hand": "#0f766e",
    "raw C": INK,
    "device copy": INK,
    "raw C, one kernel for both": "#7b8794",
    "raw C, host loop": "#9aa5b1",
    "PyTorch graph": "#7c3aed",
    "PyTorch": "#7c3aed",
    "PyTorch, unchecked": "#a78bfa",
    "qgraph, one library call": "#fb923c",
    "recorded alone": "#7b8794",
    "cuda.compute": "#0f766e",
    "numba-cuda": "#0f766e",
    "numba prange": "#0f766e",
    "Quadrants": "#1d4ed8",
    "Warp": "#65a30d",
    "numba-cuda, 8 threads a row": "#5eaaa8",
    "CuPy": "#be185d",
    "JAX": "#0891b2",
    "JAX, barriers": "#67c5d8",
}


def figure(title: str, record: dict[str, Any], *, width: float = 7.5, height: float = 4.2) -> tuple[Figure, Axes]:
    """An empty figure with a title and, under it, the machine that was measured."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), dpi=120, facecolor="white", layout="constrained")
    axes = drawn.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    drawn.suptitle(title, x=0.01, ha="left", color=INK, fontweight="bold", fontsize=12)
    commit = record["commit"][:10].rstrip(";")
    axes.set_title(f"{place(record)}, {record['date'][:10]}, commit {commit}", loc="left", color="#616e7c", fontsize=8.5)
    return drawn, axes


def lines(axes: Axes, record: dict[str, Any], x: str, peers: tuple[str, ...]) -> None:
    """One line a peer over the column ``x``, for the peers that were measured."""
    for peer in peers:
        points = [(row[x], row[peer]["median"]) for row in record["rows"] if row.get(peer)]
        if points:
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, color=COLOURS.get(peer, INK), marker="o", markersize=4.5, linewidth=1.8, label=peer)
    axes.legend(frameon=False, fontsize=9)


def bars(axes: Axes, record: dict[str, Any], x: str, peers: tuple[str, ...]) -> None:
    """Groups of bars, one group a row, one bar a measured peer, its value above."""
    present = [peer for peer in peers if any(row.get(peer) for row in record["rows"])]
    width = 0.8 / max(len(present), 1)
    for k, peer in enumerate(present):
        measured = [(group, row[peer]["median"]) for group, row in enumerate(record["rows"]) if row.get(peer)]
        places = [group - 0.4 + (k + 0.5) * width for group, _ in measured]
        axes.bar(places, [height for _, height in measured], width * 0.92, color=COLOURS.get(peer, INK), label=peer)
        for at, (_, height) in zip(places, measured, strict=True):
            axes.text(at, height, f"{height:.3g}", ha="center", va="bottom", fontsize=7.5, color=INK)
    axes.set_xticks(range(len(record["rows"])), [str(row[x]).replace(", ", ",\n") for row in record["rows"]])
    axes.grid(visible=False, axis="x")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.3)
    axes.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)


def ratios(record: dict[str, Any], file: Path, key: str, peers: tuple[str, ...], *, title: str, what: str) -> None:
    """Bars: the time of ``what`` over qgraph's, a group for each ``key`` and a bar for each of ``peers``."""
    names = dict.fromkeys(row[key] for row in record["rows"])
    rows = [{key: name, **{r["peer"]: {"median": r["ratio"]} for r in record["rows"] if r[key] == name}} for name in names]
    drawn, axes = figure(title, record)
    bars(axes, {**record, "rows": rows}, key, peers)
    axes.axhline(1, color=COLOURS["qgraph"], linewidth=1.2)
    axes.set_ylabel(f"time of {what} over qgraph's")
    save(drawn, file)


def below(record: dict[str, Any], file: Path, keys: tuple[str, str], limit: float, *, title: str, what: str) -> None:
    """A bar a row, called by two of its columns: the time over that of ``what``, which shall stay below ``limit``."""
    drawn, axes = figure(title, record, height=3.6)
    found = [row["ratio"] for row in record["rows"]]
    axes.bar_label(axes.bar(range(len(found)), found, color=COLOURS["qgraph"], width=0.6), fmt="%.2f", fontsize=8, padding=2)
    # Names of several words take a line each, so that none meets the next one.
    names = ["\n".join(str(row[key]) for key in keys).replace(" in ", "\nin ").replace(", ", ",\n") for row in record["rows"]]
    axes.set_xticks(range(len(found)), names, fontsize=7 if len(found) < 10 else 6)
    axes.axhline(limit, color="#7b8794", linestyle=":", linewidth=1.2, label=f"limit {limit}")
    axes.set_ylim(0, 1.25 * max(*found, limit))
    axes.set_ylabel(f"time / time of {what}")
    axes.legend(frameon=False, fontsize=9)
    save(drawn, file)


def save(drawn: Figure, file: Path) -> None:
    """Write the PNG."""
    drawn.savefig(file)
