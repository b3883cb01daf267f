"""The programs of docs/coming_from on a GPU: ours and those of the peers that are installed make as many sweeps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.raw_c import Missing, program
from tests.documents.pages import DOCS, ROOT, blocks

SWEEPS = "69"
# The page of each peer, which has the name of its library.
PAGES = {"Numba": "numba", "Warp": "warp", "CuPy": "cupy"}
# numba-cuda 0.30 needs a name that NumPy 2.5 has no more.
_BEFORE = {"Numba": "import numpy\nif not hasattr(numpy, 'row_stack'):\n    numpy.row_stack = numpy.vstack\n"}


def block(page: str, title: str) -> str:
    return "\n".join(each.text for each in blocks((DOCS / "coming_from" / f"{page}.md").read_text()) if each.title == title)


def printed(source: str, folder, **environment: str) -> str:
    file = folder / "plate.py"
    file.write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


@pytest.mark.parametrize("peer", PAGES)
def test_a_program_of_a_peer_prints_what_the_page_says(peer, tmp_path):
    pytest.importorskip(PAGES[peer])
    assert printed(_BEFORE.get(peer, "") + block(PAGES[peer], peer), tmp_path) == SWEEPS


@pytest.mark.parametrize("page", [*PAGES.values(), "taichi", "cuda_graphs"])
def test_our_program_does_on_the_device(page, tmp_path):
    shown = "\nimport sys\nsys.exit(relax.last_launch.path[:4] != 'cuda')\n"
    assert printed(block(page, "plate.py") + shown, tmp_path, QGRAPH_BACKEND="cuda") == SWEEPS


def test_the_program_in_cuda_does(tmp_path):
    source = tmp_path / "plate.cu"
    source.write_text(block("cuda_graphs", "CUDA C++"))
    try:
        target = program(source)
    except Missing as why:
        pytest.skip(str(why))
    done = subprocess.run([str(target)], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == [SWEEPS], done.stderr
