"""Pictures of plans: every node, edge and line of source is in them, and nothing lies on anything else."""

from __future__ import annotations

import itertools
import random
import re
import unicodedata
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import qgraph
from qgraph.ir.drawing import Arrow, Block, Picture, Row, to_svg
from tests.typed_program import norm

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    right: float
    bottom: float

    def holds(self, other: Rect) -> bool:
        return self.x <= other.x and self.y <= other.y and other.right <= self.right and other.bottom <= self.bottom

    def is_apart(self, other: Rect) -> bool:
        return self.right <= other.x or other.right <= self.x or self.bottom <= other.y or other.bottom <= self.y


def rect(element: ElementTree.Element) -> Rect:
    x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
    return Rect(x, y, x + width, y + height)


def text_rect(element: ElementTree.Element) -> Rect:
    """Where text is, in a font whose characters are 0.6 of its size wide."""
    size = 11 if element.get("class") in ("label", "word") else 12
    text = element.text or ""
    width = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text) * 0.6 * size
    x, y = float(element.get("x", 0)), float(element.get("y", 0))
    x -= width / 2 if element.get("text-anchor") == "middle" else 0
    return Rect(x, y - 0.75 * size, x + width, y + 0.2 * size)


def points(path: str) -> list[tuple[float, float]]:
    """Places on a path of M, V and C."""
    found: list[tuple[float, float]] = []
    x = y = 0.0
    for command, numbers in re.findall(r"([MVC])([^MVC]*)", path):
        values = [float(number) for number in re.findall(r"-?[\d.]+", numbers)]
        if command == "M":
            x, y = values
        elif command == "V":
            found += [(x, y + (values[0] - y) * t / 10) for t in range(11)]
            y = values[0]
        else:
            x1, y1, x2, y2, x3, y3 = values
            for t in (step / 20 for step in range(21)):
                a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
                found.append((a * x + b * x1 + c * x2 + d * x3, a * y + b * y1 + c * y2 + d * y3))
            x, y = x3, y3
    return found


def assert_is_clear(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    page = Rect(0, 0, float(root.get("width", 0)), float(root.get("height", 0)))
    boxes = [rect(element) for element in root.iter(f"{SVG}rect") if element.get("class") in ("box", "body")]
    for one, other in itertools.combinations(boxes, 2):
        assert one.is_apart(other) or one.holds(other) or other.holds(one)
    texts = [text_rect(element) for element in root.iter(f"{SVG}text")]
    for text in texts:
        assert page.holds(text)
        assert all(box.is_apart(text) or box.holds(text) for box in boxes)
    for one, other in itertools.combinations(texts, 2):
        assert one.is_apart(other)
    for element in root.iter(f"{SVG}path"):
        if element.get("class") == "line":
            way = points(element.get("d", ""))
            (x0, y0), (x1, y1) = way[0], way[-1]
            ends = Rect(min(x0, x1), y0, max(x0, x1), y1)
            strange = [box for box in (*boxes, *texts) if not box.holds(ends)]
            crossed = [box for box in strange for x, y in way if box.x < x < box.right and box.y + 1 < y < box.bottom - 1]
            assert not crossed
    return root


def texts_of(root: ElementTree.Element, kind: str) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text") if element.get("class") == kind]


def note(*_values: float) -> None:
    """A host callback."""


def everything(x, y, n, counter):
    x[:] = 0
    y[1:] = x[:-1]
    s = 0.0
    for i in range(x.shape[0]):
        s += y[i] * n
    qgraph.host_callback(note, s)
    while qgraph.graph_do_while(counter, max_iter=7):
        if s > 1:
            for i in range(x.shape[0]):
                x[i] += y[i]
            for t in qgraph.serial(range(5)):
                for i in range(x.shape[0]):
                    y[i] += x[i] if x[i] < 3 and y[i] > 4 else x[i] * 123456789.0 + y[i] * 987654321.0 - x[i]  # 漢字 & <tag>
        else:
            for i in range(x.shape[0]):
                x[i] = -y[i]
        match n:
            case 1:
                for i in range(x.shape[0]):
                    y[i] = 1
            case _:
                for i in range(x.shape[0]):
                    y[i] = x[i] * 3
        counter[()] -= 1
    for i in range(x.shape[0]):
        x[i] = y[i] + s
    return s


def crossing(a, b, c, d):
    for i in range(a.shape[0]):
        a[i] = 1.0 * i
    for i in range(a.shape[0]):
        b[i] = 2.0 * i
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]
    for i in range(a.shape[0]):
        d[i] = a[i] - b[i]
    for i in range(a.shape[0]):
        a[i] = c[i] * d[i]


def leaving(x, limit):
    turns = 0
    total = 1.0
    while total > 0:
        total = norm(x)
        if turns == limit:
            break
        for i in range(x.shape[0]):
            x[i] -= 1
        turns += 1
    return turns


def plans() -> dict[str, Any]:
    x, y, four = np.zeros(8), np.zeros(8), tuple(np.zeros(8) for _ in range(4))
    return {
        "everything": qgraph.kernel(everything).plan(x, y, 2, np.array(3)),
        "crossing": qgraph.kernel(crossing).plan(*four),
        "fused": qgraph.kernel(fuse=True)(crossing).plan(*four),
        "leaving": qgraph.kernel(leaving).plan(x, 3),
        "shared": qgraph.kernel(crossing).plan(x, x, y, y[::-1]),
    }


PLANS = plans()


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_drawn_whole(name):
    plan = PLANS[name]
    root = assert_is_clear(plan.to_svg())
    titles = texts_of(root, "title")
    assert {title.split()[0] for title in titles[1:]} == {f"n{node.index}" for node in plan.nodes}
    assert len(titles) == len(plan.nodes) + 1
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "line"]) == len(plan.edges)
    bodies = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "body"]
    assert len(bodies) == len(plan.regions) - 1
    code = "\n".join(texts_of(root, "code"))
    for task in plan.tasks:
        assert re.search(rf"^ *{task.span.line} {re.escape(task.span.first_line()[:60])}", code, re.MULTILINE)


def test_edges_have_the_names_of_arrays_and_branches_have_words():
    root = assert_is_clear(PLANS["crossing"].to_svg())
    assert sorted(texts_of(root, "label")) == ["a", "a", "a, c", "a, d", "b", "b"]
    root = assert_is_clear(PLANS["everything"].to_svg())
    assert sorted(texts_of(root, "word")) == ["case 0", "case 1", "else", "if"]
    labels = texts_of(root, "label")
    assert {"x", "y", "x, y", "everything", "condition"} <= set(labels)
    assert not [label for label in labels if re.search("again|left|runs|partials", label)]


def test_what_the_frontend_adds_has_words_of_the_users():
    plan = PLANS["leaving"]
    root = assert_is_clear(plan.to_svg())
    line = leaving.__code__.co_firstlineno
    assert f"if not (broke in the loop of line {line + 3}), line {line + 7}" in "\n".join(texts_of(root, "title"))
    assert "broke" not in "".join(texts_of(root, "label"))
    code = texts_of(root, "code")
    assert [text.split()[0] for text in code if "while" in text] == []
    assert any(text.endswith("turns = 0") for text in code)
    # The lines of a func in another file have that file's numbers.
    first = norm.source.span.line
    assert any(re.match(rf" *{first + 2} for i in range", text) for text in code)
    assert "in typed_program.py" in texts_of(root, "note")


def test_a_notebook_shows_the_picture_and_nothing_is_needed_for_it():
    plan = PLANS["crossing"]
    assert plan._repr_svg_() == plan.to_svg()
    assert "prefers-color-scheme: dark" in plan.to_svg()


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_are_clear(seed):
    draw = random.Random(seed)
    count = draw.choice([1, 5, 12, 25])

    def block(key: int, depth: int) -> Block:
        rows = (Row(draw.choice("xx漢") * draw.randrange(1, 200), "code") for _ in range(draw.randrange(1, 5)))
        many = draw.choice([0, 0, 0, 2]) if depth < 2 else 0
        bodies = tuple((draw.choice(["", "else"]), picture(depth + 1)) for _ in range(many))
        return Block(key, (Row(f"n{key}", "title"), *rows), "a tip", draw.choice(["kernel", "control", "other"]), bodies)

    def picture(depth: int) -> Picture:
        keys = range(count if depth == 0 else draw.randrange(1, 4))
        edges = [(before, after) for after in keys for before in range(after) if draw.random() < 2 / len(keys)]
        labels = ["", "a", "some, names, of, arrays, which, take, two, lines"]
        arrows = tuple(Arrow(*edge, draw.choice(labels)) for edge in edges)
        return Picture(tuple(block(key, depth) for key in keys), arrows)

    assert_is_clear(to_svg(picture(0), "a heading"))
