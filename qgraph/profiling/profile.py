"""What ``kernel.profile`` gives: the times between stamps, by the statements of the user's source."""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qgraph.dispatch.specialisation import Specialisation
from qgraph.errors import BackendError
from qgraph.ir.plan import GraphPlan
from qgraph.ir.profile_places import CAPACITY, EACH, ELAPSED, END, HEAD, IDLE, NEXT_STAMP, TIMES, TOTALS, Place
from qgraph.ir.program import Loop
from qgraph.records import dataclass
from qgraph.runtime.executors.launch_records import LastLaunch
from qgraph.source import Span
from qgraph.watching.rings import HISTORY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = f"{'total us':>12} {'count':>9} {'mean us':>11} {'share':>6}"
_MORE = f" {'gap us':>7}", f" {'GB/s':>7}", f" {'of a copy':>9}"


@dataclass(frozen=True, slots=True)
class Row:
    """One statement of the kernel. Times are nanoseconds, by the clock of where it ran.

    Attributes:
        kind: ``task``, ``loop`` (on the device, or of the host that stands for it) or ``branch``.
        spans: where it is written: several places where statements share a kernel, or where nothing orders neighbours and they
            run side by side.
        depth: in how many loops and branches it is.
        count: how often it ran; of a loop, its iterations.
        total: from its begin to that of what ran after it, in all; with what is inside.
        gap: how much of that was between the end of the last blocks of a kernel and the begin of what ran after it, the launch
            gaps, in ``profile_gaps``. 0 elsewhere, and where kernels do not tell: on the CPU, in one block of threads, and of
            what is no kernel.
        moved: bytes of memory that one run of a parallel loop loads and stores, as ``explain`` counts them; None where that is
            not known.
        form: how a loop ran: unrolled, in tiles, in one block and so on, or why not; empty for anything else. Of a loop in
            tiles two passes over memory are one iteration, and a row of their own each.
    """

    kind: str
    spans: tuple[Span, ...]
    depth: int
    count: int
    total: int
    gap: int = 0
    moved: int | None = None
    form: str = ""

    @property
    def bandwidth(self) -> float | None:
        """Bytes a nanosecond, which are GB/s."""
        return None if self.moved is None or not self.total else self.moved * self.count / self.total

    @property
    def mean(self) -> float:
        """Of one run, or of one iteration of a loop."""
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time: a statement as a whole, or one iteration of a device loop.

    Attributes:
        row: the place of the statement in ``Profile.rows``.
        iteration: which one of this entry of the loop, from 0; None for the whole statement.
        start: nanoseconds since the first stamp that was kept.
        stop: the same, of its end.
    """

    row: int
    iteration: int | None
    start: int
    stop: int


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """The times of one call; ``str()`` is the kernel's source with the times beside it.

    Attributes:
        kernel: its name.
        source: the file, and the first and the last line, of the kernel's function.
        result: what the call returned.
        launched: what ran: the path, and why that one.
        total: nanoseconds from before the first statement to after the last one.
        rows: each statement, in program order.
        slices: when each ran, in the order in which they ended: of the last 65,536 stamps.
        copied: bytes a nanosecond, which are GB/s, that a copy of an array loads and stores there; None where that was not
            measured: no loop's bytes are known, or on the simulator.
        history: the rows that ``qgraph.progress`` told, as those of ``watch``, their ``time`` in nanoseconds since the first
            stamp that was kept; empty outside of a block that watches the kernel.
    """

    kernel: str
    source: tuple[str, int, int]
    result: Any
    launched: LastLaunch
    total: int
    rows: tuple[Row, ...]
    slices: tuple[Slice, ...]
    copied: float | None
    history: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values; times are nanoseconds."""
        rows = [
            {
                "kind": row.kind,
                "file": row.spans[0].file,
                "lines": [span.line for span in row.spans],
                "count": row.count,
                "total": row.total,
                "mean": row.mean,
                "gap": row.gap,
                "bytes": row.moved,
                "form": row.form,
                "share": self._share(row),
                "share of a copy": self._of_copy(row),
            }
            for row in self.rows
        ]
        launched = self.launched
        return {
            "kernel": self.kernel,
            "path": launched.path,
            "reason": launched.reason,
            "total": self.total,
            "copy": self.copied,
            "rows": rows,
        }

    def to_perfetto(self, path: str | os.PathLike[str] | None = None) -> str:
        """The slices as a trace that https://ui.perfetto.dev opens, in the Trace Event Format; written to ``path``, too.

        Rows of ``history`` are a counter for each line that tells; what is no number is left out.
        """
        events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": self.kernel}}]
        for each in sorted(self.slices, key=lambda each: (each.start, -each.stop, each.row, each.iteration is not None)):
            row = self.rows[each.row]
            name = _text(row.spans[0]) if each.iteration is None else f"iteration {each.iteration}"
            times = {"ts": each.start / 1e3, "dur": (each.stop - each.start) / 1e3}
            where = {"file": row.spans[0].file, "line": row.spans[0].line}
            events.append({"name": name, "cat": row.kind, "ph": "X", "pid": 1, "tid": 1, **times, "args": where})
        for told in self.history[np.isfinite(self.history["residual"])]:
            counter = {"name": f"residual, line {told['line']}", "ph": "C", "pid": 1, "ts": int(told["time"]) / 1e3}
            events.append({**counter, "args": {"residual": float(told["residual"])}})
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def plot(self) -> Figure:
        """A timeline: a row a statement, in microseconds; iterations of loops by turns darker and lighter.

        Raises:
            BackendError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise BackendError(
                "a timeline is drawn by matplotlib, which is not installed", hint="pip install matplotlib"
            ) from error
        figure = Figure(figsize=(10, 0.6 + 0.35 * len(self.rows)), layout="constrained")
        axes = figure.add_subplot()
        for number, row in enumerate(self.rows):
            mine = [each for each in self.slices if each.row == number and (each.iteration is None) == (row.kind != "loop")]
            bars = [(each.start / 1e3, (each.stop - each.start) / 1e3) for each in mine]
            axes.broken_barh(
                bars, (number - 0.4, 0.8), facecolors=["#c2410c" if k % 2 else "#fb923c" for k in range(len(bars))]
            )
        axes.set_yticks(range(len(self.rows)), [f"{'  ' * row.depth}{_text(row.spans[0])}"[:60] for row in self.rows])
        axes.invert_yaxis()
        axes.set_xlabel("us")
        axes.set_title(f"{self.kernel}, {self.launched.path}", loc="left")
        return figure

    def __str__(self) -> str:
        file, first, last = self.source
        beside: dict[int, list[Row]] = {}
        others: list[Row] = []
        for row in self.rows:
            inside = row.spans[0].file == file and first <= row.spans[0].line <= last
            (beside.setdefault(row.spans[0].line, []) if inside else others).append(row)
        head = f"{self.kernel}: {self.total / 1e3:.1f} us, {self.launched.path}: {self.launched.reason}"
        columns = _COLUMNS + "".join(column for column, is_there in zip(_MORE, self._more(), strict=True) if is_there)
        lines = [head, f"{columns}  line"]
        shared = {
            span.line: f"with line {row.spans[0].line}" for row in self.rows for span in row.spans[1:] if span.file == file
        }
        for number in range(first, last + 1):
            here = [self._numbers(row) for row in beside.get(number, [])] or [shared.get(number, "").rjust(len(columns))]
            code = linecache.getline(file, number).rstrip()
            lines += [f"{here[0]}  {number:4d}  {code}".rstrip(), *(f"{more}  {number:4d}" for more in here[1:])]
        lines += [f"{self._numbers(row)}  {row.spans[0].file}:{_text(row.spans[0])}" for row in others]
        lines += [f"line {row.spans[0].line}: {row.form}" for row in self.rows if row.form]
        return "\n".join(lines)

    # What shells and notebooks show.
    __repr__ = __str__

    def _share(self, row: Row) -> float:
        return row.total / self.total if self.total else 0.0

    def _of_copy(self, row: Row) -> float | None:
        return None if row.bandwidth is None or self.copied is None else row.bandwidth / self.copied

    def _numbers(self, row: Row) -> str:
        times = f"{row.total / 1e3:12.1f} {row.count:9d} {row.mean / 1e3:11.2f} {100 * self._share(row):5.1f}%"
        gap = f"{row.gap / row.count / 1e3:.2f}" if row.gap and row.count else ""
        bandwidth = "" if row.bandwidth is None else f"{row.bandwidth:.1f}"
        share = self._of_copy(row)
        values = gap, bandwidth, "" if share is None else f"{100 * share:.0f}%"
        shown = zip(_MORE, values, self._more(), strict=True)
        return times + "".join(f"{value:>{len(column)}}" for column, value, is_there in shown if is_there)

    def _more(self) -> tuple[bool, ...]:
        """Which of the columns that not every profile has are shown."""
        known = any(row.moved is not None for row in self.rows)
        return any(row.gap for row in self.rows), known, known and self.copied is not None


def profile_of(
    name: str,
    source: tuple[str, int, int],
    result: Any,
    ran: Specialisation,
    words: np.ndarray,
    moved: Mapping[Span, int],
    copied: float | None,
    history: np.ndarray | None,
) -> Profile:
    """The profile of a call of ``ran`` that left ``words`` (``qgraph.ir.profile_places``) behind.

    Loops have ``moved`` so many bytes of memory, a copy so many a nanosecond; ``history`` is what was told to a watch.
    """
    plan, launched = ran.plan, ran.launched
    assert launched is not None
    # Of the one block that may take the place of the graph: what ran has stamps.
    in_block = plan.timed is not None and _counted(plan.timed.places, words) > 0
    places = plan.timed.places if plan.timed is not None and in_block else plan.program.places
    forms = _forms(plan, in_block=in_block, on_cpu=launched.path == "cpu")
    rows = tuple(_row(place, depth, words, moved, forms) for place, depth in _placed(places, 0))
    total = sum(row.total for row in rows if row.depth == 0)
    kept, history = _kept(words), np.empty(0, HISTORY) if history is None else history.copy()
    history["time"] -= kept[0][1] if kept else 0
    return Profile(name, source, result, launched, total, rows, tuple(_slices(places, words, kept)), copied, history)


def _text(span: Span) -> str:
    return f"{span.line}: {linecache.getline(span.file, span.line).strip()}"


def _placed(places: Sequence[Place], depth: int) -> Iterator[tuple[Place, int]]:
    for place in places:
        yield place, depth
        yield from _placed(tuple(place.inside), depth + 1)


def _counted(places: Sequence[Place], words: np.ndarray) -> int:
    return sum(_total(words, TIMES, place.stamps) for place in places)


def _total(words: np.ndarray, which: int, stamps: Iterable[int]) -> int:
    return sum(int(words[TOTALS + which + EACH * number]) for number in stamps)


def _forms(plan: GraphPlan, *, in_block: bool, on_cpu: bool) -> dict[Span, str]:
    """By the place of a device loop: how it ran, in the words of the plan."""
    found: dict[Span, dict[str, None]] = {}
    for node in plan.nodes:
        loop = node.control
        if isinstance(loop, Loop):
            tiled = loop.label.partition(", ")[2] if loop.times > 1 else ""
            told = (tiled, loop.note, "in one block of threads" if in_block else "" if on_cpu else node.note)
            found.setdefault(node.span, {}).update(dict.fromkeys(filter(None, told)))
    return {span: "; ".join(told) for span, told in found.items()}


def _row(place: Place, depth: int, words: np.ndarray, moved: Mapping[Span, int], forms: Mapping[Span, str]) -> Row:
    count = _total(words, TIMES, place.counts)
    total, gap = (_total(words, which, place.stamps) for which in (ELAPSED, IDLE))
    known = place.kind == "task" and all(span in moved for span in place.spans)
    mine = sum(moved[span] for span in place.spans) if known else None
    form = forms.get(place.spans[0], "") if place.kind == "loop" else ""
    return Row(place.kind, (*place.spans, *place.also), depth, count, total, gap, mine, form)


# --- slices -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A statement that runs: since when, and of a loop which iteration, and since when that."""

    row: int
    start: int
    # Whether the stamp that it began with was kept.
    whole: bool
    iteration: int = -1
    began: int = 0

    def close(self, now: int) -> Iterator[Slice]:
        """The slices of the iteration and of the statement, which end now."""
        if self.iteration >= 0 and (self.whole or self.iteration):
            yield Slice(self.row, self.iteration, self.began, now)
        if self.whole:
            yield Slice(self.row, None, self.start, now)


def _kept(words: np.ndarray) -> list[tuple[int, int]]:
    """The stamps that were kept, in order: numbers and times."""
    count, following = int(words[TOTALS + TIMES :: EACH].sum()), int(words[NEXT_STAMP])
    kept = np.roll(words[HEAD:TOTALS], HEAD - following) if count > CAPACITY else words[HEAD:following]
    return [*map(tuple, kept.reshape(-1, 2).tolist())]


def _slices(places: Sequence[Place], words: np.ndarray, kept: Sequence[tuple[int, int]]) -> Iterator[Slice]:
    """What lies between the stamps that were kept: each ends what is not around it, and begins what is."""
    wrapped = int(words[TOTALS + TIMES :: EACH].sum()) > CAPACITY
    placed = [place for place, _ in _placed(places, 0)]
    around, loops = _around(places)
    zero = kept[0][1] if kept else 0
    running: list[_Open] = []
    for position, (number, time) in enumerate(kept):
        now, path = time - zero, around.get(number, ())
        same = 0
        while same < min(len(path), len(running)) and running[same].row == path[same]:
            row = placed[path[same]]
            if row.kind == "task" or number in row.enters:
                break
            same += 1
        for each in reversed(running[same:]):
            yield from each.close(now)
        whole = position > 0 or not wrapped
        running[same:] = [_Open(row, now, whole) for row in path[same:]]
        for each in running:
            if each.row in loops.get(number, ()):
                if each.iteration >= 0 and (each.whole or each.iteration):
                    yield Slice(each.row, each.iteration, each.began, now)
                each.iteration, each.began = each.iteration + 1, now
        assert number != END or not running


def _around(places: Sequence[Place]) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """By stamp: the rows around it, the outermost first, and those of which it begins an iteration."""
    around: dict[int, tuple[int, ...]] = {}
    loops: dict[int, tuple[int, ...]] = {}
    path: list[int] = []
    for row, (place, depth) in enumerate(_placed(places, 0)):
        path = [*path[:depth], row]
        around |= dict.fromkeys(place.own, tuple(path))
        if place.kind == "loop":
            loops |= {number: (*loops.get(number, ()), row) for number in place.counts}
    return around, loops
