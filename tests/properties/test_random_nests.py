"""Random nests of serial loops, with ``fuse=True``: along wavefronts where that keeps all dependences, or as they are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from qgraph.dispatch import variant
from qgraph.options import BACKENDS
from tests.conftest import thorough
from tests.properties.written import check_integers, first_that_runs, fused_plan

SIZE = 6
OUTER = ("n", "n", "1, n", "n - 1, -1, -1", "n - 2, 0, -1", "1, n - 1")
INNER = (
    *("n", "m", "i", "i + 1", "i + 1, n", "i, n", "1, m - 1", "n - 1, -1, -1", "m - 2, 0, -1", "i - 1, -1, -1", "n - i"),
    *("n - 1, i, -1", "i - 1, i + 2"),
)
# Texts of the plan that tell what a nest became, so that the generator is seen to make all kinds.
KINDS = ("fronts of i + j", "fronts of 2*i", "fronts of j (", "j, i", "`serial front` runs inside", "serial i")


def index(rng: random.Random, variable: str) -> str:
    """Mostly inside of the array, where 2 more than the variable is its middle."""
    if rng.random() < 0.75:
        return f"{variable} + {2 + rng.choice([0, 0, 0, -1, -1, 1, -2])}"
    return rng.choice([variable, variable, f"{variable} - 1", f"n - {variable}", "1", "n - 1"])


def element(rng: random.Random, j: str) -> str:
    both = f"a[{index(rng, 'i')}, {index(rng, j)}]"
    return rng.choice(
        [both] * 6 + [f"a[{index(rng, j)}, {index(rng, 'i')}]", f"b[{index(rng, 'i')}]", f"x[{index(rng, j)}, i]"]
    )


def value(rng: random.Random, j: str, deep: int = 0) -> str:
    kind = rng.random()
    if kind < 0.12 and j == "j":
        return rng.choice(
            ["np.dot(a[i, :j], a[j, :j])", "(a[i, :j] @ a[:j, j])", "np.sum(a[j:, i])", "a[i + 1:j + 1, 0].sum()"]
        )
    if kind < 0.2:
        return f"max({element(rng, j)}, {element(rng, j)})"
    if deep < 2 and kind < 0.7:
        return f"({value(rng, j, deep + 1)} {rng.choice('+-')} {value(rng, j, deep + 1)})"
    return rng.choice(["1", "i", "w"]) if kind < 0.75 else element(rng, j)


def target(rng: random.Random, j: str) -> str:
    plain = f"a[i + 2, {j} + 2]" if rng.random() < 0.6 else f"a[i, {j}]"
    other = rng.choice([f"a[{index(rng, 'i')}, {index(rng, j)}]", "b[i + 2]", f"b[{j} + 2]"])
    return plain if rng.random() < 0.75 else other


def body(rng: random.Random, pad: str, j: str) -> list[str]:
    lines = []
    for number in range(rng.choice([1, 1, 2])):
        kind = rng.random()
        if kind < 0.6:
            lines.append(f"{target(rng, j)} = {value(rng, j)}")
        elif kind < 0.75:
            lines.append(f"{target(rng, j)} {rng.choice('+-')}= {value(rng, j)}")
        elif kind < 0.85:
            lines += [f"if {element(rng, j)} > 0:", f"    {target(rng, j)} = {value(rng, j)}"]
        elif kind < 0.95 or j != "j":
            lines += [f"t{number} = {value(rng, j)}", f"{target(rng, j)} = t{number} * 2"]
        else:
            place = target(rng, j)
            lines += [f"for k in range({rng.choice(['j', 'i + 1, j'])}):", f"    {place} = max({place}, a[i, k] - a[k, j])"]
    return [pad + line for line in lines]


def program(seed: int) -> str:
    """The first one of this seed that plain Python runs: others have an index too large, or a name without a value."""
    rng = random.Random(seed)
    return first_that_runs(lambda: written(rng), lambda: arguments(seed), IndexError, UnboundLocalError)


def written(rng: random.Random) -> str:
    lines = ["import numpy as np", "import qgraph", "", "def kernel(a, b, x, w):"]
    lines += ["    n, m = a.shape[0] - 4, b.shape[0] - 4"]
    pad = "    "
    if rng.random() < 0.15:
        lines.append("    for t in qgraph.serial(range(2)):")
        pad *= 2
    lines.append(f"{pad}for i in qgraph.serial(range({rng.choice(OUTER)})):")
    pad += "    "
    for part in rng.choice(["S"] * 6 + ["SU", "US", "ST", "TS"]):
        if part == "U":
            lines += body(rng, pad, "i")
        else:
            around = "qgraph.serial(range(%s))" if part == "S" else "range(%s)"
            lines += [f"{pad}for j in {around % rng.choice(INNER)}:", *body(rng, pad + "    ", "j")]
    return "\n".join(lines) + "\n"


def arguments(seed: int):
    rng = np.random.default_rng(seed)
    a, x = rng.integers(-3, 4, (2, SIZE + 4, SIZE + 4))
    return a, rng.integers(-3, 4, SIZE + int(rng.integers(3, 6))), x, int(rng.integers(-2, 3))


@pytest.mark.parametrize("seed", [*range(24), *thorough(*range(24, 120))])
def test_random_nests(rig, tmp_path, monkeypatch, seed):
    """Integers, bit for bit; what is refused is refused before anything ran."""
    monkeypatch.setattr(variant, "_IN_FRONTS", BACKENDS)
    check_integers(rig, tmp_path / f"nest{seed}.py", program(seed), lambda: arguments(seed), fuse=True)


def test_the_generator_makes_all_kinds(tmp_path):
    made = [fused_plan(tmp_path / f"nest{seed}.py", program(seed), lambda: arguments(seed)) for seed in range(120)]
    counts = {kind: sum(kind in plan for plan in (*made,)) for kind in (*KINDS, "refused")}
    assert min(counts.values()) >= 1, counts
    assert counts["refused"] < 40, counts
