"""Each program run as a script says what it found."""

from __future__ import annotations

import importlib
import re

import pytest

# What the line must contain: known answers, or how a method must end.
SAYS = {
    "conjugate_gradient": r"16384 unknowns, \d{3} iterations, \|r\| = \d\.\de-0[89]",
    "bicgstab": r"2000 unknowns, \d+ iterations, \|r\| = \d\.\de-(09|1\d)",
    "jacobi": r"last change \d\.\de-0[67], 0\.2[45]\d\d in the middle",
    "gauss_seidel": r"last change \d\.\de-0[67], 0\.2[45]\d\d in the middle",
    "pagerank": r"Valjean, \w+, \w+ lead",
    "breadth_first": r"77 persons within 3 steps of Valjean",
    "floyd_warshall": r"200 nodes, the longest of the shortest paths is \d+\.\d\d",
    "kmeans": r"1797 digits, 14 iterations, inertia 1167859",
    "channel_flow": r"steady after 499 steps",
    "dormand_prince": r"\d+ steps taken, \d+ refused, energy \d+\.\d+",
    "fdtd": r"1000 steps of 200 x 200 cells",
    "langevin": r"energies 0\.7\d and 0\.7\d of 0\.75, covariance off by [0-2]\.\d%",
    "plasma": r"64000 electrons, 126 steps",
    "radiative_transfer": r"200 angles, \d+ iterations, residual \de-1[2-6], H\(1\) = 2\.85\d\d",
    "sheets": r"5000 sheets, 2000 steps, energy 0\.2\d\d \+ 0\.3\d\d, drift \de-0[56]",
    "turbulence": r"400 steps, enstrophy 12\.50 -> \d\.\d\d",
    "bose_einstein": r"interaction 0, mu = 0\.99\d+ after \d+ steps.*\n.*interaction 50, mu = 4\.14\d+",
    "sinkhorn": r"cost 0\.0508\d after \d+ iterations",
}


@pytest.mark.needs("speed")
@pytest.mark.parametrize("name", SAYS)
def test_a_program_says_what_it_found(name, capsys):
    importlib.import_module(f"examples.{name}").main()
    said = capsys.readouterr().out
    assert re.search(SAYS[name], said), said
    assert re.search(r"(cpu|cuda-graph|cuda-host-loop|cuda-stream)\n", said), said
