"""What is shown of a watched kernel: a curve for each place in a terminal or a notebook, or a line now and then."""

from __future__ import annotations

import html
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from qgraph.records import dataclass

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 32
# The width, the height and the margin of a curve in a notebook.
_SVG = (320, 48, 4)
_JUST_NOW = 0.2


@dataclass(slots=True)
class Place:
    """What one statement told in the last run: its newest record, and as many residuals as a curve has columns."""

    run: int
    iteration: int = 0
    residual: float = math.nan
    since: float = field(default_factory=time.perf_counter)
    first: int | None = None
    residuals: list[float] = field(default_factory=list)
    # Of so many residuals the curve keeps one.
    stride: int = 1
    seen: int = 0

    def take(self, records: np.ndarray) -> None:
        """Records of this run and line."""
        if self.first is None:
            self.first = int(records["iteration"][0])
        self.iteration, self.residual = int(records["iteration"][-1]), float(records["residual"][-1])
        for value in records["residual"].tolist():
            if self.seen % self.stride == 0:
                self.residuals.append(value)
            self.seen += 1
            if len(self.residuals) >= 2 * _WIDTH:
                self.residuals, self.stride = self.residuals[::2], 2 * self.stride

    @property
    def rate(self) -> str:
        """Iterations a second since the first record came; empty while that was just now."""
        passed = time.perf_counter() - self.since
        return f"{(self.iteration - (self.first or 0)) / passed:,.0f}" if passed > _JUST_NOW else ""

    @property
    def curve(self) -> str:
        """The residuals, by their logarithms where all are positive."""
        return curve(self.residuals)


class Places:
    """The statements that told something, each with what it told last."""

    def __init__(self) -> None:
        self.by_line: dict[int, Place] = {}

    def take(self, new: Sequence[np.ndarray]) -> None:
        """These records came, in order."""
        for records in new:
            for line in dict.fromkeys(records["line"].tolist()):
                mine = records[records["line"] == line]
                run = int(mine["run"][-1])
                place = self.by_line.get(line)
                if place is None or place.run != run:
                    place = self.by_line[line] = Place(run)
                place.take(mine[mine["run"] == run])


def heights(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """The values from 0 for the least to 1 for the largest, by their logarithms where all are positive; else nan."""
    found = np.asarray(values, np.float64)
    finite = np.isfinite(found)
    if not finite.any():
        return np.full(len(found), np.nan)
    found = np.where(finite, found, np.nan)
    if np.nanmin(found) > 0:
        found = np.log10(found)
    low, high = np.nanmin(found), np.nanmax(found)
    scaled: np.ndarray = (found - low) / (high - low if high > low else 1.0)
    return scaled


def curve(values: Sequence[float]) -> str:
    """At most ``_WIDTH`` bars, the highest for the largest value; what is no number is a space."""
    found = np.asarray(values, np.float64)
    if len(found) > _WIDTH:
        found = found[np.linspace(0, len(found) - 1, _WIDTH).round().astype(int)]
    return "".join(" " if math.isnan(height) else _BARS[round(height * (len(_BARS) - 1))] for height in heights(found).tolist())


def svg_curve(values: Sequence[float]) -> str:
    """The same as a line in an SVG picture, which has a gap where there is no number."""
    wide, high, edge = _SVG
    points: list[list[str]] = [[]]
    for number, height in enumerate(heights(values).tolist()):
        if math.isnan(height):
            points.append([])
            continue
        across = edge + (wide - 2 * edge) * number / max(len(values) - 1, 1)
        points[-1].append(f"{across:.1f},{high - edge - (high - 2 * edge) * height:.1f}")
    style = 'fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"'
    lines = "".join(f'<polyline points="{" ".join(part)}" {style}/>' for part in points if part)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" role="img">{lines}</svg>'


class Display(ABC):
    """Shows what comes, not more often than every ``between`` seconds, and at the end."""

    between: float

    def __init__(self, name: str) -> None:
        self._name, self._places = name, Places()
        self._shown, self._changed = 0.0, False

    def show(self, new: Sequence[np.ndarray]) -> None:
        """These records came since the last time."""
        self._places.take(new)
        self._changed |= bool(new)
        if self._changed and time.perf_counter() - self._shown >= self.between:
            self._shown, self._changed = time.perf_counter(), False
            self._draw()

    def compiling(self) -> None:
        """A call compiles, and that takes long."""
        print(f"{self._name}: compiling", flush=True)

    def end(self, new: Sequence[np.ndarray], lost: int) -> None:
        """These were the last ones, and so many rows nobody has read."""
        self._places.take(new)
        if self._changed or new:
            self._draw()
        self._close()
        if not self._places.by_line:
            print(f"{self._name}: nothing was told by qgraph.progress: no call ran that has it, or only what was bound before")
        elif lost:
            print(f"{self._name}: {lost} rows came too fast to be read: tell fewer, every=...")

    @abstractmethod
    def _draw(self) -> None:
        """Show the places as they are."""

    def _close(self) -> None:  # noqa: B027 - lines need no end
        """Nothing follows."""


class Lines(Display):
    """A line for each place."""

    between = 1.0

    def _draw(self) -> None:
        for line, place in self._places.by_line.items():
            told = f"iteration {place.iteration:,}, residual {place.residual:.3e}"
            rate = f", {place.rate} a second" if place.rate else ""
            print(f"{self._name}, line {line}, run {place.run}: {told}{rate}", flush=True)


class Picture(Display):
    """A curve for each place, drawn anew by rich."""

    between = 0.1

    def __init__(self, name: str, live: Any) -> None:
        super().__init__(name)
        self._live = live

    def _draw(self) -> None:
        from rich.table import Table

        table = Table("line", "run", "iteration", "residual", "a second", "", title=self._name, title_justify="left", box=None)
        for line, place in self._places.by_line.items():
            numbers = (str(line), str(place.run), f"{place.iteration:,}", f"{place.residual:.3e}", place.rate)
            table.add_row(*numbers, place.curve)
        self._live.start()
        self._live.update(table, refresh=True)

    def _close(self) -> None:
        self._live.stop()


class Notebook(Display):
    """A table with a curve for each place, in the output of a cell, drawn anew."""

    between = 0.2

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The output, when there is one.
        self._output: Any = None

    def compiling(self) -> None:
        """A call compiles, and that takes long."""
        self._put("compiling")

    def _draw(self) -> None:
        heads = ("line", "run", "iteration", "residual", "a second", "")
        rows = [
            (str(line), str(place.run), f"{place.iteration:,}", f"{place.residual:.3e}", place.rate, svg_curve(place.residuals))
            for line, place in self._places.by_line.items()
        ]
        cells = "".join(f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in rows)
        self._put(f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{cells}</table>")

    def _put(self, inside: str) -> None:
        from IPython.display import HTML
        from IPython.display import display as show

        shown = HTML(f"<div><b>{html.escape(self._name)}</b> {inside}</div>")
        if self._output is None:
            self._output = show(shown, display_id=True)
        else:
            self._output.update(shown)


def in_notebook() -> bool:
    """Whether the output is that of a cell: IPython runs, and not in a terminal."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and all(each.__name__ != "TerminalInteractiveShell" for each in type(shell).__mro__)


def display(name: str) -> Display:
    """What shows the progress of kernel ``name`` in the cell of a notebook, or on the standard output as it is now."""
    if in_notebook():
        return Notebook(name)
    if not sys.stdout.isatty():
        return Lines(name)
    try:
        from rich.live import Live
    except ImportError:
        return Lines(name)
    return Picture(name, Live(auto_refresh=False))
