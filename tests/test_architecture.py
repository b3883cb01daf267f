"""Imports point one way. The layers, from the top::

__main__, __init__
kernel and what it runs on                      (every other module of the package itself)
frontend/   lowering/   runtime/                (never each other)
dependence/
compiled_in, program, plan, compiled, combining, accumulating, language, options
errors, source, stack, forks, pickling
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import qgraph

PACKAGE = Path(qgraph.__file__).parent
RECORDS = {"dependence", "compiled_in", "program", "plan", "compiled", "combining", "accumulating", "language", "options"}
BASE = {"errors", "source", "stack", "forks", "pickling"}
STAGES = {"frontend", "lowering", "runtime"}
PUBLIC = {"__init__", "__main__"}


def layer(module: str) -> int:
    """0 is the lowest. ``module`` is dotted and without the package's own name."""
    top = module.split(".")[0]
    if top in BASE:
        return 0
    if top in RECORDS:
        return 1
    if top in STAGES:
        return 2
    return 4 if top in PUBLIC else 3


@functools.cache
def modules() -> list[str]:
    names = (path.relative_to(PACKAGE).with_suffix("").parts for path in PACKAGE.rglob("*.py"))
    return sorted(".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts) for parts in names)


@functools.cache
def tree_of(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(), filename=str(file))


def imports_of(module: str) -> Iterator[str]:
    """Full dotted names of what ``module`` imports, inside functions too; of ``from a import b`` both a and a.b."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} line {node.lineno}: imports are absolute here"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def own_imports(module: str) -> set[str]:
    """The modules of the package that ``module`` imports, without the package's own name."""
    known = set(modules())
    names = {name for name in imports_of(module) if name.split(".")[0] == "qgraph"}
    inner = {name.removeprefix("qgraph.") for name in names} & known
    # `from qgraph import plan` needs the package only for its module; any other use of the bare package needs its names.
    if "qgraph" in names and not any(name.count(".") == 1 and name.removeprefix("qgraph.") in known for name in names):
        inner.add("__init__")
    return inner - {module}


def test_there_is_something_to_check():
    names = modules()
    assert {"kernel", "program", "errors", "frontend", "lowering", "runtime", "lowering.numba_cuda"} <= set(names)
    assert len(names) > 20
    assert "plan" in own_imports("lowering.build")


@pytest.mark.parametrize("module", modules())
def test_imports_only_go_down(module):
    mine = layer(module)
    for other in own_imports(module):
        assert layer(other) <= mine, f"{module} imports {other}, which is above it"
        if layer(other) == mine == 2:
            assert other.split(".")[0] == module.split(".")[0], f"{module} imports {other}: the stages never meet"


@pytest.mark.parametrize("module", modules())
def test_no_module_is_part_of_an_import_cycle(module):
    seen: set[str] = set()
    frontier = own_imports(module)
    while frontier:
        seen |= frontier
        frontier = set().union(*(own_imports(name) for name in frontier)) - seen
    if module != "__init__":
        assert module not in seen, f"{module} is part of an import cycle: {sorted(seen)}"


@pytest.mark.parametrize("module", modules())
def test_numba_cuda_has_one_importer(module):
    if module not in ("lowering.numba_cuda", "lowering.cuda_passes", "lowering.cuda_lower"):
        users = [name for name in imports_of(module) if name == "numba.cuda" or name.startswith("numba.cuda.")]
        assert not users, f"{module} imports {users}"


@pytest.mark.parametrize("module", modules())
def test_the_driver_is_reached_from_the_runtime(module):
    if module.split(".")[0] != "runtime" and module != "lowering.link":
        users = [name for name in imports_of(module) if name == "cuda" or name.startswith("cuda.")]
        assert not users, f"{module} imports {users}"


def test_numba_stays_out_of_frontend_and_records():
    for module in modules():
        if layer(module) < 2 or module.split(".")[0] == "frontend":
            users = [name for name in imports_of(module) if name.split(".")[0] in ("numba", "llvmlite")]
            assert not users, f"{module} imports {users}"


def test_import_qgraph_loads_neither_numba_nor_cuda():
    code = "import sys, qgraph; print(*(m for m in ('numba', 'llvmlite', 'cuda', 'torch') if m in sys.modules), sep=',')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_no_module_is_long():
    long = {module: lines for module in modules() if (lines := _lines(module)) > 1200}
    assert not long


def _lines(module: str) -> int:
    path = PACKAGE.joinpath(*module.split("."))
    return len((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text().splitlines())
