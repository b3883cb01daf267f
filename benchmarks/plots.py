"""How every plot of the benchmarks looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    "by hand": "#0f766e",
    "raw C": INK,
    "raw C, one kernel for both": "#7b8794",
    "raw C, host loop": "#9aa5b1",
    "PyTorch graph": "#7c3aed",
    "numba-cuda": "#0f766e",
    "numba prange": "#0f766e",
    "Quadrants": "#1d4ed8",
    "Warp": "#65a30d",
    "CuPy": "#be185d",
    "JAX": "#0891b2",
}


def figure(title: str, record: dict[str, Any], *, width: float = 7.5, height: float = 4.2) -> tuple[Figure, Axes]:
    """An empty figure with a title and, under it, the machine that was measured."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), dpi=120, facecolor="white", layout="constrained")
    axes = drawn.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    gpu = record["machine"]["gpu"]
    where = gpu if gpu and record["question"] != "cpu" else f"{record['machine']['cpu']}, {record['machine']['cores']} cores"
    drawn.suptitle(title, x=0.01, ha="left", color=INK, fontweight="bold", fontsize=12)
    axes.set_title(f"{where}, {record['date'][:10]}, commit {record['commit']}", loc="left", color="#616e7c", fontsize=8.5)
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
        for group, row in enumerate(record["rows"]):
            if row.get(peer):
                place = group - 0.4 + (k + 0.5) * width
                height = row[peer]["median"]
                axes.bar(place, height, width * 0.92, color=COLOURS.get(peer, INK), label=peer if group == 0 else None)
                axes.text(place, height, f"{height:.3g}", ha="center", va="bottom", fontsize=7.5, color=INK)
    axes.set_xticks(range(len(record["rows"])), [str(row[x]) for row in record["rows"]])
    axes.grid(visible=False, axis="x")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.3)
    axes.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)


def panels(record: dict[str, Any], file: Path, title: str, peers: tuple[str, ...], names: dict[str, str]) -> None:
    """A panel for each part of the question: a group of bars a size, the ratio of each peer; below 1 it is ahead of qgraph."""
    from matplotlib.figure import Figure

    key = record["columns"][0]
    groups = {part: _sizes(record["rows"], key, part) for part in names}
    groups = {part: sizes for part, sizes in groups.items() if sizes}
    heights = [len(sizes) for sizes in groups.values()]
    drawn = Figure(
        figsize=(8.2, 1.2 + 0.62 * sum(heights) + 0.5 * len(heights)), dpi=120, facecolor="white", layout="constrained"
    )
    machine = record["machine"]
    where = machine["gpu"] if machine["gpu"] not in {"", "none"} else f"{machine['cpu']}, {machine['cores']} cores"
    under = f"{where}, {record['date'][:10]}, commit {record['commit']}; left of the line: ahead of qgraph"
    drawn.suptitle(f"{title}\n$\\mathregular{{{{}}}}$", x=0.01, ha="left", color=INK, fontweight="bold", fontsize=12)
    drawn.text(0.01, 1 - 0.42 / drawn.get_figheight(), under, color="#616e7c", fontsize=8.5, va="center")
    rows = drawn.subplots(max(len(groups), 1), 1, squeeze=False, gridspec_kw={"height_ratios": heights or [1]}, sharex=True)
    for axes, (part, sizes) in zip(rows[:, 0], groups.items(), strict=False):
        _panel(axes, sizes, peers)
        axes.set_title(names[part], loc="left", fontsize=9.5, color=INK)
    rows[-1, 0].set_xlabel("time / time of qgraph, whose microseconds are on the left")
    handles, labels = [], []
    for axes in rows[:, 0]:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    drawn.legend(handles, labels, frameon=False, fontsize=9, ncols=len(labels) or 1, loc="outside lower left")
    save(drawn, file)


def _sizes(rows: list[dict[str, Any]], key: str, part: str) -> dict[str, dict[str, dict[str, Any]]]:
    """By size, then by peer, the rows of a part that has qgraph's."""
    sizes: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row[key] == part:
            sizes.setdefault(str(row["size"]), {})[row["peer"]] = row
    return {size: found for size, found in sizes.items() if "qgraph" in found}


def _panel(axes: Axes, sizes: dict[str, dict[str, dict[str, Any]]], peers: tuple[str, ...]) -> None:
    present = [peer for peer in peers if any(peer in found for found in sizes.values())]
    thickness = 0.8 / max(len(present), 1)
    axes.set_xscale("log")
    for group, found in enumerate(sizes.values()):
        for k, peer in enumerate(present):
            if peer in found:
                ratio, place = found[peer]["ratio"], group - 0.4 + (k + 0.5) * thickness
                axes.barh(place, ratio - 1.0, thickness * 0.9, left=1.0, color=COLOURS.get(peer, INK), label=peer)
                text = f" {ratio:,.0f}" if ratio >= 100 else f" {ratio:.3g}"
                axes.text(max(ratio, 1.0), place, text, va="center", ha="left", fontsize=7.5, color=INK)
    labels = [f"{size}: {found['qgraph']['us']['median']:,.4g} us" for size, found in sizes.items()]
    axes.set_yticks(range(len(sizes)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1.0, color=COLOURS["qgraph"], linewidth=1.4)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), max(high, 2.0) * 1.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def save(drawn: Figure, file: Path) -> None:
    """Write the PNG."""
    drawn.savefig(file)
