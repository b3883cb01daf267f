"""Make moving pictures: ``python -m examples.animations [NAME ...] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from examples.animations.canvas import save
from examples.animations.scenes import LOOKS, SCENES

HOME = Path(__file__).resolve().parent.parent.parent


def main(arguments: list[str] | None = None) -> None:
    """Write each picture, and say how large it is."""
    parser = argparse.ArgumentParser(description="Make moving pictures of the examples.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENES)}; all of them where none is given")
    parser.add_argument("--out", type=Path, default=HOME / "docs" / "images", help="where they go")
    parser.add_argument("--frames", type=int, help="no more than so many")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in SCENES]
    if unknown:
        parser.error(f"there is no {unknown[0]}: there are {', '.join(SCENES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or SCENES:
        side, quality = LOOKS[name]
        frames = list(itertools.islice(SCENES[name](), options.frames))
        size = save(frames, options.out / f"{name}.webp", side=side, quality=quality)
        print(f"{name}: {len(frames)} frames, {size / 1000:.0f} kB in {options.out / f'{name}.webp'}", flush=True)


if __name__ == "__main__":
    main()
