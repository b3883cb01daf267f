"""Imports point one way, between folders and between files. From the bottom::

records, source, errors          what everything may use
compat/                          what is private in other libraries: nothing else touches that
language, stack, forks, ...      what everything else may use
polyhedral/                      sets of integers: what a dependence test asks of isl
operations/                      one record for each operation that bodies have
ir/                              the records that one stage hands to the next
nodes/                           the kinds of nodes that are neither kernels nor conditional
frontend/  lowering/  runtime/   the stages, which never meet; the folders inside each have an order, below
checking/, hosts/, kernel, ...   every other module of the package itself
__init__, __main__
"""

from __future__ import annotations

import ast
import functools
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import qgraph
from qgraph.lowering.cache import toolchain_key

PACKAGE = Path(qgraph.__file__).parent
BASE = {"stack", "forks", "pickling", "language", "options", "captured_state"}
PUBLIC = {"__init__", "__main__"}
# Below the stages, from the bottom.
BETWEEN = ("polyhedral", "operations", "ir", "nodes")
# The folders of each stage, from the bottom; what lies beside them is above them all.
STAGES = {
    "frontend": "syntax facts names inference checks dependence desugar bodies statements arrays".split(),
    "lowering": "number_types intrinsics ptx cache graph codegen loops instrumentation numba_backend".split(),
    "runtime": "values driver arguments graph executors".split(),
}
MOST_FILES = 18


def layer(module: str) -> tuple[int, int]:
    """The lowest is (0, 0). ``module`` is dotted and without the package's own name."""
    top, *inside = module.split(".")
    if top in ("records", "source", "errors"):
        return 0, 0
    if top == "compat":
        return 0, 1
    if top in BASE:
        return 0, 2
    if top in BETWEEN:
        return BETWEEN.index(top) + 1, 0
    if top in STAGES:
        order = STAGES[top]
        return 5, order.index(inside[0]) if len(inside) > 1 or (inside and inside[0] in order) else len(order)
    return (7, 0) if top in PUBLIC else (6, 0)


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
    above = ("checking", "dispatch", "explaining", "hosts", "profiling", "random", "watching")
    placed = {(), ("compat",), *((folder,) for folder in (*above, *BETWEEN, *STAGES))}
    assert folders == placed | {(stage, folder) for stage, order in STAGES.items() for folder in order}


def test_what_decides_code_is_in_the_keys_of_the_cache():
    assert {*BETWEEN, "lowering"} <= set(toolchain_key._OWN_SOURCE)


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
    if module.rpartition(".")[2] not in ("cuda", "cuda_simulator", "fast_pipeline", "numba_cuda"):
        users = [name for name in imports_of(module) if name == "numba.cuda" or name.startswith("numba.cuda.")]
        assert not users, f"{module} imports {users}"


@pytest.mark.parametrize("module", modules())
def test_the_driver_is_reached_from_the_runtime(module):
    if module.split(".")[0] != "runtime" and module != "lowering.ptx.link":
        users = [name for name in imports_of(module) if name == "cuda" or name.startswith("cuda.")]
        assert not users, f"{module} imports {users}"


def test_numba_stays_out_of_frontend_and_records():
    for module in modules():
        if (layer(module)[0] < 5 and not module.startswith("compat.")) or stage_of(module) == "frontend":
            users = [name for name in imports_of(module) if name.split(".")[0] in ("numba", "llvmlite")]
            assert not users, f"{module} imports {users}"


# --- what is private in other libraries ---------------------------------------------------------------------------------

# Names with an underscore that are documented where they come from: named tuples and ctypes' structures, ast's nodes, sys, and
# the structs of Numba's extension guide.
DOCUMENTED = {"_fields", "_replace", "_fields_", "_getframe", "_is_gil_enabled", "_getvalue"}
# Objects of qgraph's whose class lies in another module, by where they are used and as what.
OURS = {
    ("bound_kernel", "kernel"),
    ("bound_kernel", "self._kernel"),
    *((f"hosts.{module}", "kernel") for module in ("gradients", "jax_calls", "meaning", "ranges", "torch_ops", "traced")),
    ("hosts.gradients", "kernel._vjp"),
    ("hosts.jax_calls", "site.kernel"),
    ("lowering.numba_backend.cpu", "typing"),
    ("lowering.numba_backend.cuda", "typing"),
    *(("watching.watch", each) for each in ("kernel", "self._watched")),
    ("watching.watched_kernel", "kernel"),
}
# Modules that belong to their library alone though their names have no underscore.
PRIVATE_MODULES = ("_", "cupy_backends")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED


@functools.cache
def own_names(module: str) -> set[str]:
    """The names with an underscore that ``module`` itself gives to something: functions, classes, variables, attributes."""
    found: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            found |= {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
    return {name for name in found if is_private(name)}


@functools.cache
def inherited_names() -> set[str]:
    """Those that a class of the package may have of another one's."""
    return set().union(*(own_names(module) for module in modules() if not module.startswith("compat.")))


def touched(module: str, node: ast.AST) -> str:
    """What of another library's a node touches that is private, as it is written; nothing for any other node."""
    match node:
        case ast.Import(names):
            private = [each.name for each in names if any(part.startswith(PRIVATE_MODULES) for part in _parts(each.name))]
            return ", ".join(private)
        case ast.ImportFrom(names=names) if node.module != "__future__":
            private = [each.name for each in names if any(map(is_private, _parts(f"{node.module}.{each.name}")))]
            return ", ".join(private)
        case ast.Attribute(owner, name) if is_private(name) and not _is_own(module, owner, name):
            return ast.unparse(node)
        case ast.Call(ast.Name("getattr" | "hasattr" | "setattr" | "delattr"), [owner, ast.Constant(str(name)), *_]):
            return ast.unparse(node) if is_private(name) and not _is_own(module, owner, name) else ""
        case ast.Constant(str(text)) if text.startswith(("numba", "llvmlite", "cuda.", "numpy.", "torch.", "cupy")):
            parts = _parts(text)
            return text if len(parts) > 1 and text.isascii() and " " not in text and any(map(_is_private_module, parts)) else ""
        case ast.Attribute(ast.Name("ctypes"), "pythonapi") | ast.Attribute(ast.Name("object"), "__basicsize__"):
            return ast.unparse(node)
    return ""


def _parts(name: str) -> list[str]:
    return [part for part in name.split(".") if part != "__future__"]


def _is_private_module(part: str) -> bool:
    return part.startswith(PRIVATE_MODULES)


def _is_own(module: str, owner: ast.expr, name: str) -> bool:
    """Whether ``owner.name`` is qgraph's: by the class, which is this one or its base, or since this module made it."""
    text = ast.unparse(owner)
    if text in ("self", "cls", "super()"):
        return name in inherited_names()
    return name in own_names(module) or (module, text) in OURS


@pytest.mark.parametrize("module", [module for module in modules() if module.split(".")[0] != "compat"])
def test_what_is_private_elsewhere_is_touched_in_compat_alone(module):
    found = [
        f"line {getattr(node, 'lineno', 0)}: {text}" for node in ast.walk(tree_of(module)) if (text := touched(module, node))
    ]
    assert not found, f"{module} touches what is private in another library: {found}"


@pytest.mark.parametrize("module", [module for module in modules() if stage_of(module) == "lowering"])
def test_no_private_hook_of_another_library_is_overridden(module):
    loaded = importlib.import_module(f"qgraph.{module}")
    for cls in vars(loaded).values():
        if isinstance(cls, type) and cls.__module__ == loaded.__name__:
            foreign = [base for base in cls.__mro__ if not base.__module__.startswith("qgraph.")]
            hooks = [name for name, value in vars(cls).items() if is_private(name) and callable(value)]
            found = [name for name in hooks if any(name in vars(base) for base in foreign)]
            assert not found, f"{module}.{cls.__name__} overrides {found}"


@pytest.mark.parametrize(
    "source",
    [
        "import _ctypes",
        "from _ctypes import CFuncPtr",
        "from numba.core.compiler_machinery import _pass_registry",
        "from numba._helperlib import f",
        "library._final_module",
        "self._internal_codegen",
        "super()._find_singly_assigned_variable()",
        "getattr(torch._C, name)",
        "hasattr(template, '_overload_func')",
        "sys.modules.get('numba.np.ufunc._internal')",
        "ctypes.pythonapi.PyCapsule_New",
        "object.__basicsize__",
    ],
)
def test_the_fence_sees(source):
    assert any(touched("kernel", node) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize("source", ["sys._getframe(1)", "point._replace(x=1)", "state._getvalue()", "self._read", "a.__dict__"])
def test_the_fence_lets_pass(source):
    assert not any(touched("kernel", node) for node in ast.walk(ast.parse(source)))


ON_THE_CPU = """\
import sys
import numpy as np
import qgraph

@qgraph.kernel(backend="cpu")
def total(x):
    return np.sum(x)

print(total(np.ones(4)), "cuda.bindings" in sys.modules)
"""


def test_import_qgraph_loads_neither_numba_nor_cuda():
    code = "import sys, qgraph; print(*(m for m in ('numba', 'llvmlite', 'cuda', 'torch') if m in sys.modules), sep=',')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_call_on_the_cpu_does_not_load_cudas_bindings(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(ON_THE_CPU)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4.0", "False"]


def test_no_module_is_long():
    long = {module: lines for module in modules() if (lines := _lines(module)) > 1200}
    assert not long


def _lines(module: str) -> int:
    path = PACKAGE.joinpath(*module.split("."))
    return len((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text().splitlines())
