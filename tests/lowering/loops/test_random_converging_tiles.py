"""Random loops that end by what they compute, in tiles: the same iterations, elements and numbers as plain loops have."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conftest import thorough
from tests.lowering.loops.test_converging_tiles import small_tiles  # noqa: F401
from tests.lowering.loops.test_overlapped_tiles import defined, random_program

# Reductions of an element, and from where they start.
_REDUCTIONS = {
    "{at} = max({at}, {value})": 0,
    "{at} = min({at}, {value} + 3)": 5000,
    "{at} += {value}": 0,
    "{at} *= 2 * {value} + 1": 1,
    "{at} ^= {value}": 0,
}


def _reduction(choose, at, low):
    """A loop over a part of the arrays that computes the element ``at``, and stores elements besides or does not."""
    update, start = choose.choice([*_REDUCTIONS.items()])
    array = choose.choice("uvw")
    first, stop = ([low + choose.randrange(3) for _ in range(2)] for _ in range(2))
    index = choose.choice(["i, j", f"i - {low}, j", f"i + {low}, j - {low}"])
    value = f"{array}[{index}]"
    stored = f"{array}[i, j] = ({array}[i, j] * 3 + 1) % 1009"
    inside = [update.format(at=at, value=value if index == "i, j" else f"abs({value} - 500)")]
    if index == "i, j" and choose.random() < 0.6:
        inside.insert(choose.randrange(2), stored)
    if choose.random() < 0.3:
        inside = [f"if (i + 2 * j) % {choose.randrange(2, 5)} != 0:", *(f"    {each}" for each in inside)]
    lines = [
        f"for i in range({first[0]}, u.shape[0] - {stop[0]}):",
        f"    for j in range({first[1]}, u.shape[1] - {stop[1]}):",
        *(f"        {each}" for each in inside),
    ]
    return [f"{at} = {start}", *lines] if choose.random() < 0.7 else lines


def _numbers(choose):
    """Statements with kernel scalars: carried from one iteration to the next, or assigned in each."""
    found = []
    for _ in range(choose.randrange(4)):
        name, other = choose.sample(["a", "b"], 2)
        forms = [
            f"{name} = ({name} + res[0]) % 977",
            f"{name} = res[{choose.randrange(2)}] % 101 + {other}",
            f"{name} = {other} % 50 + it",
            f"{name} = it if {other} % 3 == 1 else {name}",
            f"{name}, {other} = {other}, {name}",
        ]
        found.append(choose.choice(forms))
    return found


def converging(seed):
    """The source of a loop of random stencils, one or two reductions, and numbers."""
    choose = random.Random(seed)
    header, _, *stencils = random_program(seed).splitlines()
    # Each group is a loop as written.
    groups: list[list[str]] = []
    for line in stencils:
        if line[8] != " ":
            groups.append([])
        groups[-1].append(line[8:])
    groups = groups[: choose.randrange(1, 3)]
    groups += [_reduction(choose, f"res[{k}]", choose.randrange(1, 3)) for k in range(choose.randrange(1, 3))]
    groups += [[each] for each in _numbers(choose)]
    choose.shuffle(groups)
    if choose.random() < 0.4:
        groups.append([choose.choice(["u, v = v, u", "u, v, w = v, w, u", "v, w = w, v"])])
    groups.insert(choose.randrange(len(groups) + 1), [f"it += {choose.randrange(1, 3)}"])
    modulus = choose.choice([5, 13, 1000])
    test = f"it < most and (res[0] + {choose.choice(['0', 'a', 'b'])}) % {modulus} != {choose.randrange(modulus)}"
    body = [line for group in groups for line in group]
    match choose.randrange(3):
        case 0:
            loop = f"while {test}:"
        case 1:
            loop, body = "while True:", [*body, f"if not ({test}):", "    break"]
        case _:
            loop, body = "while going:", [*body, f"going = {test}"]
    lines = [
        "it = 0",
        "a = 1",
        "b = 2",
        "going = True",
        "res[0] = 1",
        loop,
        *(f"    {each}" for each in body),
        "return it, a, b",
    ]
    return "\n".join([header.replace("c, n", "c, res, most"), *(f"    {each}" for each in lines)]) + "\n"


@pytest.mark.parametrize("seed", [1, 28, *thorough(2, 9, 16, 18, 31, 32, 33, 34, 36)])
def test_random_loops_that_converge(rig, seed):
    kernel = rig.kernel(defined(converging(seed), f"program_{seed}"), fuse=True)
    rest = np.arange(5)
    for shape in ((20, 31), (17, 12)):
        for most in (3, 6, 13, 40):
            rng = np.random.default_rng(most)
            given = [*rng.integers(0, 1000, (3, *shape)), rest.copy(), np.full(2, 7)]
            expected = [each.copy() for each in given]
            if most == 3:
                assert "iterations in two passes over memory" in str(kernel.plan(*given, most))
            # Products wrap around.
            with np.errstate(over="ignore"):
                assert rig.run(kernel, *given, most) == kernel.reference(*expected, most), (shape, most)
            for mine, theirs in zip(given, expected, strict=True):
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{shape}, {most}")
