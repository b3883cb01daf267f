"""The programs in the language's document that need PyTorch or JAX."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "language.md"
SECTION = re.search(r"## In PyTorch and JAX\n(.*?)\n## ", DOCUMENT.read_text(), re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", SECTION.group(1), re.DOTALL)


def program(name, tmp_path):
    """What the program that imports a library leaves."""
    pytest.importorskip(name)
    (text,) = (each for each in PROGRAMS if f"import {name}" in each)
    path = tmp_path / f"with_{name}.py"
    path.write_text(text)
    return runpy.run_path(str(path))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_torch(tmp_path):
    found = program("torch", tmp_path)
    torch, heated = found["torch"], found["heated"]
    u = torch.rand(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u: heated(u, 0.3), (u,))
    assert torch.equal(torch.autograd.grad(found["energy"](found["u"]), found["u"])[0], found["u"].grad)


def test_jax(tmp_path, capsys):
    program("jax", tmp_path)
    assert capsys.readouterr().out == "14.0\n[2. 4. 6.]\n"
