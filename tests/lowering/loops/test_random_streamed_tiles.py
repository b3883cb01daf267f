"""Random loops of stencils over three axes, streamed through blocks, against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conftest import thorough
from tests.lowering.loops.test_overlapped_tiles import defined, in_tiles

INDICES = ("i", "j", "k")


def random_program(seed):
    """The source of a loop of random stencils over two or three arrays: in place, or changing places, periodic or not."""
    choose = random.Random(seed)
    arrays = ("u", "v", "w")[: choose.choice((2, 2, 3))]
    lines = [f"def program_{seed}({', '.join(arrays)}, n):", "    for _ in qgraph.serial(range(n)):"]
    periodic = choose.random() < 0.3
    swaps = choose.random() < 0.6
    reach = [choose.randrange(3), choose.randrange(3), choose.randrange(4)]

    def index(name, axis, by):
        moved = f"{name} + {by}" if by > 0 else f"{name} - {-by}" if by else name
        return f"({moved}) % u.shape[{axis}]" if periodic and by > 0 else moved

    def element(array):
        by = [choose.randrange(-most, most + 1) if choose.random() < 0.6 else 0 for most in reach]
        return (
            f"{array}[{', '.join(index(name, axis, each) for axis, (name, each) in enumerate(zip(INDICES, by, strict=True)))}]"
        )

    for number in range(1 if swaps else choose.randrange(1, 4)):
        written = arrays[-1] if swaps else choose.choice(arrays)
        others = [name for name in arrays if name != written]
        ends = [(most + choose.randrange(2), most + choose.randrange(2)) for most in reach]
        bounds = (
            f"({low}, u.shape[{axis}] - {high})" if not periodic else f"u.shape[{axis}]"
            for axis, (low, high) in enumerate(ends)
        )
        lines.append(f"        for i, j, k in qgraph.ndrange({', '.join(bounds)}):")
        terms = [f"{choose.randrange(1, 9)} * {element(choose.choice(others))}" for _ in range(choose.randrange(1, 5))]
        terms += choose.sample([f"{written}[i, j, k]", "i - 2 * j + k", str(number)], choose.randrange(3))
        if choose.random() < 0.3:
            lines.append(f"            t = {terms.pop()}")
            terms.append("t")
        lines.append(f"            {written}[i, j, k] = ({' + '.join(terms)}) % 1009")
        if not periodic and choose.random() < 0.3:
            row = choose.choice(["0", "u.shape[0] - 1"])
            beside = "1" if row == "0" else "u.shape[0] - 2"
            lines.append("        for j, k in qgraph.ndrange(u.shape[1], u.shape[2]):")
            lines.append(f"            {written}[{row}, j, k] = {written}[{beside}, j, k] + {number}")
    if swaps:
        lines.append(f"        {', '.join(arrays)} = {', '.join((*arrays[1:], arrays[0]))}")
    return "\n".join(lines) + "\n"


# Of 70 programs in tiles these are some that differ; the first one moves nothing but what it computes.
@pytest.mark.parametrize("seed", [0, *thorough(1, 13, 14, 16, 25)])
def test_random_streamed_tiles(rig, small_streamed_tiles, seed):
    source = random_program(seed)
    kernel = rig.kernel(defined(source, f"program_{seed}"), fuse=True)
    choose = np.random.default_rng(seed)
    # Each loop has an iteration: they begin and end up to three elements inside.
    shape = [int(choose.integers(7, most)) for most in (9, 20, 150 if seed % 4 == 0 else 30)]
    arrays = [choose.integers(0, 1000, shape).astype(np.int32) for _ in range(source.split(":")[0].count(","))]
    found, plan = in_tiles(kernel, *arrays, 30)
    assert found == (kernel.options.backend != "cpu"), plan
    rig.compare(kernel, lambda: (*(array.copy() for array in arrays), 7))
