"""Frames, and the animated WebP that they become."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAPER, INK, FAINT, ACCENT = (15, 23, 42), (226, 232, 240), (100, 116, 139), (251, 146, 60)
_EDGE, _CAPTION = 12, 34


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve beside a picture that grows from frame to frame: ``values`` down to ``least`` over their numbers up to ``most``.

    Both axes are logarithmic.
    """

    values: Sequence[float]
    most: int
    least: float
    title: str


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture, (rows, columns, 3) of uint8, and the line below it."""

    picture: np.ndarray[Any, Any]
    caption: str
    curve: Curve | None = None


def coloured(field: np.ndarray[Any, Any], colours: str, low: float, high: float) -> np.ndarray[Any, Any]:
    """A picture of numbers between ``low`` and ``high``, by a map of colours of matplotlib's."""
    import matplotlib

    scaled = np.clip((field - low) / (high - low), 0, 1)
    picture: np.ndarray[Any, Any] = (matplotlib.colormaps[colours](scaled)[..., :3] * 255).astype(np.uint8)
    return picture


def drawn(frame: Frame, side: int) -> Any:
    """The frame as an image of Pillow's: the picture ``side`` high, the curve beside it, the caption below."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", 13)
    rows, columns = frame.picture.shape[:2]
    across = round(side * columns / rows)
    beside = 0 if frame.curve is None else side * 3 // 4
    image = Image.new("RGB", (across + beside + 2 * _EDGE, side + _CAPTION + _EDGE), PAPER)
    grows = side > rows
    image.paste(
        Image.fromarray(frame.picture).resize((across, side), Image.Resampling.BICUBIC if grows else Image.Resampling.LANCZOS),
        (_EDGE, _EDGE),
    )
    pen = ImageDraw.Draw(image)
    pen.text((_EDGE, _EDGE + side + 8), frame.caption, fill=INK, font=font)
    if frame.curve is not None:
        _plot(pen, frame.curve, (across + 3 * _EDGE, 2 * _EDGE, across + beside, side), font)
    return image


def _plot(pen: Any, curve: Curve, box: tuple[int, int, int, int], font: Any) -> None:
    left, top, right, bottom = box
    highest = max(curve.values)
    decades = math.log10(highest / curve.least)

    def at(number: int, value: float) -> tuple[float, float]:
        down = math.log10(highest / max(value, curve.least)) / decades
        return left + (right - left) * math.log(number + 1) / math.log(curve.most), top + 20 + (bottom - top - 20) * down

    pen.text((left, top - 4), curve.title, fill=INK, font=font)
    for decade in range(math.ceil(math.log10(curve.least)), math.floor(math.log10(highest)) + 1):
        _, y = at(0, 10.0**decade)
        pen.line([(left, y), (right, y)], fill=FAINT)
        pen.text((right - 2, y + 2), f"1e{decade}" if decade else "1", fill=FAINT, font=font, anchor="ra")
    points = [at(number, value) for number, value in enumerate(curve.values)]
    pen.line(points if len(points) > 1 else points * 2, fill=ACCENT, width=2)
    x, y = points[-1]
    pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=ACCENT)


def save(frames: Iterable[Frame], file: Path, *, side: int, quality: int, milliseconds: int = 60, last: int = 1500) -> int:
    """Write the animation; it shows its last frame for longer, and begins again. Gives its bytes."""
    images = [drawn(frame, side) for frame in frames]
    times = [milliseconds] * (len(images) - 1) + [last]
    first, *others = images
    first.save(file, save_all=True, append_images=others, duration=times, loop=0, quality=quality, method=6)
    return file.stat().st_size
