"""Graphs of boxes as SVG: boxes in layers from top to bottom, boxes in boxes, arrows with labels. No Graphviz, no dependency.

Labels take part in the layout as boxes do, so that nothing lies on anything else.
"""

from __future__ import annotations

import html
import itertools
import linecache
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Literal

from qgraph.records import dataclass
from qgraph.source import Span


@dataclass(frozen=True, slots=True)
class Row:
    """A line of text in a box: its ``title``, source ``code``, or a ``note``."""

    text: str
    kind: Literal["title", "code", "note"] = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """A box: what it says, what is told of it where the mouse rests, and the pictures in it, each with a word."""

    key: int
    rows: tuple[Row, ...]
    tip: str = ""
    kind: Literal["kernel", "control", "other"] = "kernel"
    bodies: tuple[tuple[str, Picture], ...] = ()


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another, of which no way leads back."""

    before: int
    after: int
    label: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and arrows between them."""

    blocks: tuple[Block, ...]
    arrows: tuple[Arrow, ...] = ()


# Pixels. A character of a monospaced font is 0.6 of its size wide, or a little more.
_FONT, _CHARACTER, _LINE = 12, 7.4, 17
_LABEL_FONT, _LABEL_CHARACTER, _LABEL_LINE = 11, 6.8, 15
_PADDING, _MARGIN, _APART, _GAP, _HEAD = 10, 12, 26, 15, 7
_WIDEST, _WIDEST_LABEL = 92, 34
# Lines of a statement that are shown.
_MOST_LINES = 8
# A row of boxes without arrows is no wider, where there is not one that is.
_ROW = 1100
_SWEEPS = 12


def columns(text: str) -> int:
    """How many characters of a monospaced font are as wide as ``text``."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def source_rows(span: Span, numbers: Sequence[int] = ()) -> list[Row]:
    """Lines of a statement with their numbers: those of ``numbers``, or all, and of a loop what is indented below its first."""
    lines = linecache.getlines(span.file)
    if len(lines) < span.line:
        return [Row(f"line {span.line}", "note")]
    depth = _indentation(lines[span.line - 1])
    if not numbers:
        end = span.end_line
        while end < len(lines) and begins_block(span) and (_indentation(lines[end]) > depth or not lines[end].strip()):
            end += 1
        numbers = range(span.line, end + 1)
    shown = [(number, line) for number in numbers if (line := lines[number - 1].rstrip())]
    rows = [Row(f"{number:>3} {line[min(depth, _indentation(line)) :]}") for number, line in shown[:_MOST_LINES]]
    return [*rows, *([Row("    ...", "note")] if len(shown) > _MOST_LINES else [])]


def begins_block(span: Span) -> bool:
    """Whether a statement with others in it is written there."""
    return re.match(r"(for|while|if|match)\b", span.first_line()) is not None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def wrapped(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows that are not too wide; what does not fit is in rows of its own, indented."""
    for row in rows:
        text = "".join(c if c.isprintable() else " " for c in row.text)
        if columns(text) <= _WIDEST:
            yield Row(text.rstrip(), row.kind)
            continue
        # Below the code, not below its number.
        head = re.match(r"\s*\d+\s+" if row.kind == "code" else r"\s*", text)
        indent = " " * (4 + (head.end() if head else 0))
        lines = textwrap.wrap(text, _WIDEST, subsequent_indent=indent, drop_whitespace=False, break_on_hyphens=False)
        yield from (Row(line.rstrip(), row.kind) for line in lines)


@dataclass(slots=True, eq=False)
class Item:
    """What has a place in a layer: a box, or where an arrow passes, with its label or without.

    ``x`` is its middle, ``y`` its top, and ``floor`` where its layer ends.
    """

    width: float
    height: float
    block: Block | None = None
    label: tuple[str, ...] = ()
    inner: list[tuple[str, Layout]] = field(default_factory=list)
    rows: tuple[Row, ...] = ()
    x: float = 0.0
    y: float = 0.0
    floor: float = 0.0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)


class Layout:
    """Where everything of a picture is: ``items`` with their places, ``paths`` of arrows from item to item."""

    def __init__(self, picture: Picture) -> None:
        self.boxes = {block.key: _box(block) for block in picture.blocks}
        self.paths: list[tuple[Arrow, list[Item]]] = []
        ends = {end for arrow in picture.arrows for end in (arrow.before, arrow.after)}
        self.layers = self._layered([block for block in picture.blocks if block.key in ends], picture.arrows)
        _order(self.layers)
        _spread(self.layers)
        self._set_down()
        self._place_rest([block for block in picture.blocks if block.key not in ends])

    @property
    def items(self) -> list[Item]:
        """All that has a place."""
        passed = [item for _, path in self.paths for item in path[1:-1]]
        return [*self.boxes.values(), *passed]

    def _layered(self, blocks: Sequence[Block], arrows: Sequence[Arrow]) -> list[list[Item]]:
        """Boxes in every other layer, labels in those between, and what an arrow passes in each that it crosses."""
        rank = {block.key: 0 for block in blocks}
        # Keys grow along arrows.
        for arrow in sorted(arrows, key=lambda each: each.before):
            rank[arrow.after] = max(rank[arrow.after], rank[arrow.before] + 2)
        layers: list[list[Item]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
        for block in blocks:
            layers[rank[block.key]].append(self.boxes[block.key])
        for arrow in arrows:
            path = [self.boxes[arrow.before]]
            for number in range(rank[arrow.before] + 1, rank[arrow.after]):
                lines = tuple(textwrap.wrap(arrow.label, _WIDEST_LABEL)) if len(path) == 1 else ()
                width = max((columns(line) for line in lines), default=0) * _LABEL_CHARACTER
                path.append(Item(width, len(lines) * _LABEL_LINE, label=lines))
                layers[number].append(path[-1])
            path.append(self.boxes[arrow.after])
            for one, other in itertools.pairwise(path):
                one.below.append(other)
                other.above.append(one)
            self.paths.append((arrow, path))
        return layers

    def _set_down(self) -> None:
        left = min((item.x - item.width / 2 for layer in self.layers for item in layer), default=0.0)
        self.width = self.height = 0.0
        for item in itertools.chain(*self.layers):
            item.x -= left
        for number, layer in enumerate(self.layers):
            across = max((abs(item.x - other.x) for item in layer for other in item.above), default=0.0)
            self.height += (_GAP + min(40.0, across / 12)) if number else 0.0
            floor = self.height + max(item.height for item in layer)
            for item in layer:
                item.y, item.floor = self.height, floor
                self.width = max(self.width, item.x + item.width / 2)
            self.height = floor

    def _place_rest(self, blocks: Sequence[Block]) -> None:
        """Boxes without arrows stand in rows below all others."""
        limit = max(_ROW, self.width)
        x, y, row = 0.0, self.height + (_APART if self.height and blocks else 0), 0.0
        for block in blocks:
            item = self.boxes[block.key]
            if x and x + item.width > limit:
                x, y, row = 0.0, y + row + _APART, 0.0
            item.x, item.y = x + item.width / 2, y
            self.width, row = max(self.width, x + item.width), max(row, item.height)
            x += item.width + _APART
        self.height = y + row


def _box(block: Block) -> Item:
    rows = tuple(wrapped(block.rows))
    inner = [(word, Layout(body)) for word, body in block.bodies]
    width = max(columns(row.text) for row in rows) * _CHARACTER
    height = float(len(rows) * _LINE + 2 * _PADDING - 4)
    if inner:
        width = max(width, sum(_framed(word, layout)[0] for word, layout in inner) + _MARGIN * (len(inner) - 1))
        height += max(_framed(word, layout)[1] for word, layout in inner) + 4
    return Item(width + 2 * _PADDING, height, block, inner=inner, rows=rows)


def _framed(word: str, layout: Layout) -> tuple[float, float]:
    """Width and height of a picture in a box, with its frame."""
    width = max(layout.width, columns(word) * _LABEL_CHARACTER)
    return width + 2 * _MARGIN, layout.height + 2 * _MARGIN + (_LABEL_LINE if word else 0)


def _order(layers: Sequence[list[Item]]) -> None:
    """Sort each layer by where the neighbours are, so that few arrows cross."""
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        place = {id(item): (number + 0.5) / len(layer) for layer in layers for number, item in enumerate(layer)}
        for layer in layers if down else reversed(layers):
            middle = {}
            for item in layer:
                near = item.above if down else item.below
                middle[id(item)] = sum(place[id(each)] for each in near) / len(near) if near else place[id(item)]
            layer.sort(key=lambda item: middle[id(item)])
            place.update({id(item): (number + 0.5) / len(layer) for number, item in enumerate(layer)})


def _spread(layers: Sequence[list[Item]]) -> None:
    """Give each item a place near the middle of its neighbours', beside those of its layer."""
    for layer in layers:
        _side_by_side(layer, [0.0] * len(layer))
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted = []
            for item in layer:
                near = (item.above if down else item.below) or item.above or item.below
                wanted.append(sum(each.x for each in near) / len(near) if near else item.x)
            _side_by_side(layer, wanted)


def _side_by_side(layer: Sequence[Item], wanted: Sequence[float]) -> None:
    """The mean of what pushing to the right and pushing to the left make of ``wanted`` keeps all distances, as each does."""
    apart = [(one.width + other.width) / 2 + _APART for one, other in itertools.pairwise(layer)]
    right, left = [*wanted], [*wanted]
    for number in range(1, len(layer)):
        right[number] = max(right[number], right[number - 1] + apart[number - 1])
    for number in range(len(layer) - 2, -1, -1):
        left[number] = min(left[number], left[number + 1] - apart[number])
    for item, one, other in zip(layer, right, left, strict=True):
        item.x = (one + other) / 2


# --- SVG ----------------------------------------------------------------------------------------------------------------


# On light pages, and on dark ones.
_COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "frame": ("#8c959f", "#6e7681"),
    "box": ("#f6f8fa", "#1c2128"),
    "control": ("#eef6ff", "#10233b"),
    "control_frame": ("#4a90d9", "#388bfd"),
    "other": ("#fff8e5", "#2b2411"),
    "other_frame": ("#bf8700", "#9e6a03"),
    "text": ("#1f2328", "#e6edf3"),
    "muted": ("#59636e", "#9198a1"),
    "label": ("#0550ae", "#79c0ff"),
    "line": ("#57606a", "#9198a1"),
}
_RULES = """
.qgraph .page, .qgraph .body {{ fill: {page}; }}
.qgraph .body {{ stroke: {frame}; stroke-dasharray: 4 3; }}
.qgraph .box {{ fill: {box}; stroke: {frame}; }}
.qgraph .control > .box {{ fill: {control}; stroke: {control_frame}; }}
.qgraph .other > .box {{ fill: {other}; stroke: {other_frame}; }}
.qgraph .code, .qgraph .title {{ fill: {text}; }}
.qgraph .note, .qgraph .word {{ fill: {muted}; }}
.qgraph .label {{ fill: {label}; }}
.qgraph .line {{ fill: none; stroke: {line}; }}
.qgraph .head {{ fill: {line}; }}
"""
_LIGHT, _DARK = (_RULES.format(**{name: colours[page] for name, colours in _COLOURS.items()}) for page in (0, 1))
_STYLE = f""".qgraph text {{ font-size: {_FONT}px; }}
.qgraph .title {{ font-weight: bold; }}
.qgraph .label, .qgraph .word {{ font-size: {_LABEL_FONT}px; }}{_LIGHT}@media (prefers-color-scheme: dark) {{{_DARK}}}"""


def to_svg(picture: Picture, heading: str) -> str:
    """The picture as an SVG document, readable on light and dark pages."""
    layout = Layout(picture)
    title = [*wrapped([Row(heading, "title")])]
    top = _MARGIN + len(title) * _LINE + _MARGIN
    width = max(layout.width, max(columns(row.text) for row in title) * _CHARACTER) + 2 * _MARGIN
    height = top + layout.height + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="qgraph" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace">',
            f"<style>{_STYLE}</style>",
            f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
            *_texts(title, _MARGIN, _MARGIN),
            *_drawn(layout, (width - layout.width) / 2, top),
            "</svg>\n",
        ]
    )


def _drawn(layout: Layout, x: float, y: float) -> Iterator[str]:
    """``layout`` with its left upper corner at a place: arrows first, so that nothing is under one."""
    for arrow, path in layout.paths:
        yield from _arrow(arrow, path, x, y)
    for item in layout.boxes.values():
        yield from _drawn_box(item, x + item.x - item.width / 2, y + item.y)


def _drawn_box(item: Item, x: float, y: float) -> Iterator[str]:
    assert item.block is not None
    yield f'<g class="{item.block.kind}"><title>{_escaped(item.block.tip)}</title>'
    yield f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{item.width:.1f}" height="{item.height:.1f}" rx="5"/>'
    yield from _texts(item.rows, x + _PADDING, y + _PADDING - 2)
    yield "</g>"
    inner_x, inner_y = x + _PADDING, y + len(item.rows) * _LINE + _PADDING + 2
    total = sum(_framed(word, layout)[0] for word, layout in item.inner) + _MARGIN * (len(item.inner) - 1)
    # Where the text is wider than the bodies they share what is left.
    more = (item.width - 2 * _PADDING - total) / max(1, len(item.inner))
    tallest = max((_framed(word, layout)[1] for word, layout in item.inner), default=0.0)
    for word, layout in item.inner:
        width = _framed(word, layout)[0] + more
        yield f'<rect class="body" x="{inner_x:.1f}" y="{inner_y:.1f}" width="{width:.1f}" height="{tallest:.1f}" rx="4"/>'
        top = inner_y + _MARGIN
        if word:
            yield _text(word, "word", inner_x + _MARGIN, inner_y + _LABEL_LINE)
            top += _LABEL_LINE
        yield from _drawn(layout, inner_x + (width - layout.width) / 2, top)
        inner_x += width + _MARGIN


def _arrow(arrow: Arrow, path: list[Item], x: float, y: float) -> Iterator[str]:
    """Curves between layers, and a straight line through each; none through the label."""
    parts: list[str] = []
    for one, other in itertools.pairwise(path):
        start = x + _port(one, one.below, other)
        end = x + _port(other, other.above, one)
        low, high = y + one.floor, y + other.y - (_HEAD if other is path[-1] else 0)
        parts.append(f"M{start:.1f},{y + one.y + one.height:.1f}V{low:.1f}")
        middle = (low + high) / 2
        parts.append(f"C{start:.1f},{middle:.1f} {end:.1f},{middle:.1f} {end:.1f},{high:.1f}")
        if other.block is None and not other.label:
            parts.append(f"V{y + other.y + other.height:.1f}")
    tip_y = y + path[-1].y
    yield f'<g class="edge"><title>{_escaped(arrow.tip or arrow.label)}</title><path class="line" d="{"".join(parts)}"/>'
    yield f'<path class="head" d="M{end - 4:.1f},{tip_y - _HEAD - 1:.1f}h8L{end:.1f},{tip_y:.1f}z"/>'
    for item in path[1:-1]:
        for number, line in enumerate(item.label):
            yield _text(line, "label", x + item.x, y + item.y + number * _LABEL_LINE + _LABEL_FONT, middle=True)
    yield "</g>"


def _port(item: Item, others: Sequence[Item], other: Item) -> float:
    """Where an arrow meets a box: side by side with the others, in the order in which they go."""
    if item.block is None or len(others) < 2:
        return item.x
    number = sorted(range(len(others)), key=lambda each: others[each].x).index(
        next(i for i, o in enumerate(others) if o is other)
    )
    step = min(24.0, item.width * 0.7 / len(others))
    return item.x + (number - (len(others) - 1) / 2) * step


def _texts(rows: Sequence[Row], x: float, y: float) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield _text(row.text, row.kind, x, y + number * _LINE + _FONT)


def _text(text: str, kind: str, x: float, y: float, *, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{anchor} xml:space="preserve">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return html.escape("".join(c if c.isprintable() or c == "\n" else " " for c in text), quote=False)
