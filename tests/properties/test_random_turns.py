"""Random serial loops of statements of arrays, with ``fuse=True``: as axes, inside of parallel loops, or as they are."""

from __future__ import annotations

import random

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough
from tests.properties.written import found

ROWS, COLUMNS = 7, 9
# What a program did, so that the generator is seen to make all kinds.
KINDS = ("is an axis of it", "runs inside of each", "serial t")


def operand(rng: random.Random, names: list[str], part: str) -> str:
    offset = rng.choice(["t", "t", "t - 1", "t - 2", "t + 1", "early", "3"])
    array = rng.choice("xyz")
    column = {"all": f"{array}[:, {offset}]", "some": f"{array}[1:, {offset}]", "row": f"{array}[{offset}, :]"}[part]
    moved = {"all": column, "some": f"{array}[:-1, {offset}]", "row": column}[part]
    return rng.choice([column, column, column, moved, *(names or ["1"]), "2", "weight"])


def expression(rng: random.Random, names: list[str], part: str) -> str:
    made = operand(rng, names, part)
    for _ in range(rng.randrange(3)):
        made = f"({made} {rng.choice('+-*')} {operand(rng, names, part)})"
    return made


def program(seed: int) -> str:
    rng = random.Random(seed)
    part = rng.choice(["all", "all", "some", "row"])
    last = (ROWS if part == "row" else COLUMNS) - 2
    bounds = rng.choice([f"2, {last}", f"{last} - 1, 1, -1", f"2, {last}, 2"])
    lines = ["import numpy as np", "import qgraph", "", "def kernel(x, y, z):", f"    for t in qgraph.serial(range({bounds})):"]
    lines += ["        early = max(t - 2, 0)", "        weight = min(t, 3)"]
    names: list[str] = []
    for number in range(rng.randrange(1, 5)):
        made = expression(rng, names, part)
        array, offset = rng.choice("yz"), rng.choice(["t", "t", "t", "t - 1", "t + 1"])
        target = {"all": f"{array}[:, {offset}]", "some": f"{array}[1:, {offset}]", "row": f"{array}[{offset}, :]"}[part]
        kind = rng.randrange(5)
        if kind == 0 and "[" in made:
            lines.append(f"        v{number} = {made} + 0")
            names.append(f"v{number}")
        elif kind == 1 and part == "all":
            width = rng.choice([2, 3, 4])
            lines.append(f"        {target} = np.sum(x[:, t : t + {width}], axis=1) + {made}")
        elif kind == 2 and part != "row":
            lines.append(f"        {target} = np.where({made} > {operand(rng, names, part)}, {made}, 0)")
        else:
            lines.append(f"        {target} = {made}")
    if lines[-1].lstrip().startswith("v"):
        place = {"all": "y[:, t]", "some": "y[1:, t]", "row": "y[t, :]"}[part]
        lines.append(f"        {place} = {names[-1]}")
    return "\n".join(lines) + "\n"


def arrays(dtype: str) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(5)
    return tuple(rng.integers(-3, 4, (ROWS, COLUMNS)).astype(dtype) for _ in range(3))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", [*range(12), *thorough(*range(12, 60))])
def test_random_turns(rig, tmp_path, seed):
    """Integers wrap as in NumPy, bit for bit."""
    file = tmp_path / f"turns{seed}.py"
    file.write_text(program(seed))
    kernel = rig.kernel(found(file), fuse=True)
    for dtype in ("int64", "float64"):
        given, expected = arrays(dtype), arrays(dtype)
        rig.run(kernel, *given)
        kernel.reference(*expected)
        if dtype == "int64":
            np.testing.assert_array_equal(given, expected, err_msg=file.read_text())
        elif np.isfinite(expected).all():
            np.testing.assert_allclose(given, expected, 1e-9, err_msg=file.read_text())


def test_the_generator_makes_all_kinds(tmp_path):
    made = []
    for seed in range(30):
        file = tmp_path / f"turns{seed}.py"
        file.write_text(program(seed))
        made.append(str(qgraph.kernel(fuse=True, backend="cpu")(found(file)).plan(*arrays("int64"))))
    assert all(sum(kind in plan for plan in made) >= 4 for kind in KINDS)
