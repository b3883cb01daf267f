"""Imports point one way, between folders and between files. From the bottom::

source, errors, stack, ...       what everything may use
polyhedral/                      sets of integers: what a dependence test asks of isl
operations/                      one record for each operation that bodies have
ir/                              the records that one stage hands to the next
nodes/                           the kinds of nodes that are neither kernels nor conditional
frontend/  lowering/  runtime/   the stages, which never meet; the folders inside each have an order, below
kernel and what it runs on       every other module of the package itself
__init__, __main__
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
from qgraph.lowering.cache import toolchain_fingerprint

PACKAGE = Path(qgraph.__file__).parent
BASE = {"errors", "source", "stack", "forks", "pickling", "language", "options", "captured_state"}
PUBLIC = {"__init__", "__main__"}
# Below the stages, from the bottom.
BETWEEN = ("polyhedral", "operations", "ir", "nodes")
# The folders of each stage, from the bottom; what lies beside them is above them all.
STAGES = {
    "frontend": "syntax facts names inference checks dependence desugar bodies statements arrays".split(),
    "lowering": "intrinsics ptx cache graph codegen numba_backend".split(),
    "runtime": "values driver native arguments graph executors".split(),
}
MOST_FILES = 18


def layer(module: str) -> tuple[int, int]:
    """The lowest is (0, 0). ``module`` is dotted and without the package's own name."""
    top, *inside = module.split(".")
    if top in BASE:
        return 0, 0
    if top in BETWEEN:
        return BETWEEN.index(top) + 1, 0
    if top in STAGES:
        order = STAGES[top]
        return 4, order.index(inside[0]) if len(inside) > 1 or (inside and inside[0] in order) else len(order)
    return (6, 0) if top in PUBLIC else (5, 0)


def stage_of(module: str) -> str:
    top = module.split(".")[0]
    return top if top in STAGES else ""


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
    assert {"kernel", "ir.program", "errors", "frontend", "lowering", "runtime", "lowering.numba_backend.cuda"} <= set(names)
    assert len(names) > 20
    assert "ir.plan" in own_imports("lowering.plan_builder")


@pytest.mark.parametrize("module", modules())
def test_imports_only_go_down(module):
    for other in own_imports(module):
        assert layer(other) <= layer(module), f"{module} imports {other}, which is above it"
        if stage_of(other) and stage_of(module):
            assert stage_of(other) == stage_of(module), f"{module} imports {other}: the stages never meet"


def test_every_folder_has_its_place():
    folders = {path.parent.relative_to(PACKAGE).parts for path in PACKAGE.rglob("*.py")}
    placed = {(), *((folder,) for folder in (*BETWEEN, *STAGES))}
    assert folders == placed | {(stage, folder) for stage, order in STAGES.items() for folder in order}


def test_what_decides_code_is_in_the_keys_of_the_cache():
    assert {*BETWEEN, "lowering"} <= set(toolchain_fingerprint._OWN_SOURCE)


def test_no_folder_is_crowded():
    for folder in {path.parent for path in PACKAGE.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= MOST_FILES, folder


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
    if module.rpartition(".")[2] not in ("cuda", "fast_pipeline", "fast_lowering"):
        users = [name for name in imports_of(module) if name == "numba.cuda" or name.startswith("numba.cuda.")]
        assert not users, f"{module} imports {users}"


@pytest.mark.parametrize("module", modules())
def test_the_driver_is_reached_from_the_runtime(module):
    if module.split(".")[0] != "runtime" and module != "lowering.ptx.link":
        users = [name for name in imports_of(module) if name == "cuda" or name.startswith("cuda.")]
        assert not users, f"{module} imports {users}"


def test_numba_stays_out_of_frontend_and_records():
    for module in modules():
        if layer(module)[0] < 4 or stage_of(module) == "frontend":
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
