"""Pictures of several panels: one for each part of a question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.plots import COLOURS, INK, save
from benchmarks.results import place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)
# By size, then by peer, the rows of a part.
Sizes = dict[str, dict[str, dict[str, Any]]]


def ratios(record: dict[str, Any], file: Path, title: str, peers: tuple[str, ...], names: dict[str, str]) -> None:
    """A group of bars a size, each the time of a peer over qgraph's: to the left of the line a peer is ahead."""
    key = record["columns"][0]
    groups = {part: _sizes(record["rows"], key, part) for part in names}
    groups = {part: sizes for part, sizes in groups.items() if sizes}
    heights = [len(sizes) for sizes in groups.values()]
    drawn = _figure(record, title, width=9.0, height=1.3 + 0.5 * sum(heights) + 0.45 * len(heights))
    rows = drawn.subplots(max(len(groups), 1), 1, squeeze=False, gridspec_kw={"height_ratios": heights or [1]}, sharex=True)
    for axes, (part, sizes) in zip(rows[:, 0], groups.items(), strict=False):
        _bars(axes, sizes, peers)
        axes.set_title(names[part], loc="left", fontsize=9.5, color=INK)
    rows[-1, 0].set_xlabel("time / time of qgraph, whose time is on the left (line: 1)")
    _legend(drawn, list(rows[:, 0]))
    save(drawn, file)


def lines(record: dict[str, Any], file: Path, title: str, peers: tuple[str, ...], names: dict[str, str]) -> None:
    """Time over the size, one line a peer, both logarithmic."""
    key = record["columns"][0]
    measured = [part for part in names if any(row[key] == part for row in record["rows"])]
    down, across = -(-len(measured) // 2) or 1, 2 if len(measured) > 1 else 1
    drawn = _figure(record, title, width=11.0, height=1.2 + 3.4 * down)
    places = list(drawn.subplots(down, across, squeeze=False).ravel())
    for axes in places[len(measured) :]:
        axes.set_visible(False)
    for axes, part in zip(places, measured, strict=False):
        _lines(axes, [row for row in record["rows"] if row[key] == part], peers)
        axes.set_title(f"{part}: {names[part]}", loc="left", fontsize=8.5, color=INK)
    _legend(drawn, places)
    save(drawn, file)


def _figure(record: dict[str, Any], title: str, *, width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), dpi=120, facecolor="white", layout="constrained")
    under = f"{place(record)}, {record['date'][:10]}, commit {record['commit']}"
    # The second line of the title is room for what was measured.
    drawn.suptitle(f"{title}\n", x=0.01, ha="left", color=INK, fontweight="bold", fontsize=12)
    drawn.text(0.01, 1 - 0.42 / height, under, color="#616e7c", fontsize=8.5, va="center")
    return drawn


def _legend(drawn: Figure, places: list[Axes]) -> None:
    """One for all panels."""
    found = {}
    for axes in places:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    drawn.legend(
        found.values(), found.keys(), frameon=False, fontsize=9, ncols=min(len(found), 6) or 1, loc="outside lower left"
    )


def _bare(axes: Axes, grid: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis=grid, color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def _sizes(rows: list[dict[str, Any]], key: str, part: str) -> Sizes:
    """Those that qgraph has, too."""
    sizes: Sizes = {}
    for row in rows:
        if row[key] == part:
            sizes.setdefault(str(row["size"]), {})[row["peer"]] = row
    return {size: found for size, found in sizes.items() if "qgraph" in found}


def _bars(axes: Axes, sizes: Sizes, peers: tuple[str, ...]) -> None:
    present = [peer for peer in peers if any(peer in found for found in sizes.values())]
    thickness = 0.8 / max(len(present), 1)
    axes.set_xscale("log")
    for group, found in enumerate(sizes.values()):
        for k, peer in enumerate(present):
            if peer in found:
                ratio, place = found[peer]["ratio"], group - 0.4 + (k + 0.5) * thickness
                axes.barh(place, ratio - 1.0, thickness * 0.9, left=1.0, color=COLOURS.get(peer, INK), label=peer)
                text = f" {ratio:,.0f}" if ratio >= 100 else f" {ratio:.3g}"
                axes.text(max(ratio, 1.0), place, text, va="center", ha="left", fontsize=7, color=INK)
    labels = [f"{size}: {_time(found['qgraph']['us']['median'])}" for size, found in sizes.items()]
    axes.set_yticks(range(len(sizes)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1.0, color=COLOURS["qgraph"], linewidth=1.4)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), max(high, 2.0) * 1.3)
    ticks = [tick for tick in TICKS if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.minorticks_off()
    _bare(axes, "x")


def _size(number: int) -> str:
    """A size below an axis, short where it is a power of two."""
    return str(number) if number < 1000 or number.bit_count() > 1 else f"$2^{{{number.bit_length() - 1}}}$"


def _time(microseconds: float) -> str:
    return f"{microseconds:.3g} us" if microseconds < 1000 else f"{microseconds / 1000:.3g} ms"


def _lines(axes: Axes, rows: list[dict[str, Any]], peers: tuple[str, ...]) -> None:
    for peer in peers:
        points = [(row["size"], row["us"]["median"]) for row in rows if row["peer"] == peer]
        if points:
            xs, ys = zip(*points, strict=True)
            above, dashes = (4, "-") if peer == "qgraph" else (3, ":" if "," in peer else "-")
            colour = COLOURS.get(peer, INK)
            axes.plot(xs, ys, dashes, color=colour, marker="o", markersize=4, linewidth=1.6, zorder=above, label=peer)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({row["size"] for row in rows})
    axes.set_xticks(ticks, [_size(tick) for tick in ticks])
    axes.xaxis.minorticks_off()
    _bare(axes, "y")
