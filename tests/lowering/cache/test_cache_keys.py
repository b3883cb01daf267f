"""The keys of the disk cache: everything that decides machine code changes them, and nothing that does not."""

from __future__ import annotations

import ast
import enum
import importlib.util
import itertools
import math
import operator
import os
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import types

import qgraph
from qgraph.ir.artifacts import ANY_EXTENTS, Extents
from qgraph.ir.functions import Function
from qgraph.lowering.cache import toolchain_key
from qgraph.lowering.cache.artifact_cache import ArtifactCache
from qgraph.lowering.cache.key_texts import Unstable, _Writer
from qgraph.lowering.compile import compile_ptx
from qgraph.options import Options
from tests.lowering.cached_kernels import PLAIN, SOURCE

NUMBERS = itertools.count()
ROOT = Path(qgraph.__file__).parent.parent


COPIED = """\
import qgraph


@qgraph.kernel
def kernel(x, y):
    for i in range(x.shape[0]):
        x[i] = y[i] + 1
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def load(tmp_path):
    """``load(text)``: the module of that text, in a file of its own."""

    def make(text):
        name = f"cached_{next(NUMBERS)}"
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kernels.py").write_text(text)
        spec = importlib.util.spec_from_file_location(name, folder / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return make


def arguments(dtype=np.float32):
    return np.zeros(8, dtype), np.zeros(8, dtype), 3


def keys(plan, capability=(9, 0), options=Options(), extents=ANY_EXTENTS):
    """The keys of a plan, of its types, and of its tasks."""
    saved = ArtifactCache(plan, capability, options, extents)
    dtypes = {slot.name: "float32" for slot in plan.program.slots}
    nodes = [node for node in plan.nodes if node.task is not None]
    tasks = []

    class Keys(ArtifactCache):
        """Notes the keys that are asked for, and has everything."""

        def ptx(self, code, function, settings):
            tasks.append(self._task_key(code, function, settings))
            return ""

    compile_ptx(plan, capability, options, dtypes, saved=Keys(plan, capability, options), extents=extents)
    assert saved._unkept == ""
    assert all(tasks)
    lines = [{child.lineno for task in node.tasks for statement in task.body for child in _placed(statement)} for node in nodes]
    return SimpleNamespace(plan=saved._plan_key(), types=saved._types_key(), tasks=tasks, lines=lines)


def _placed(statement):
    return (child for child in ast.walk(statement) if hasattr(child, "lineno"))


def keys_of(module, *args):
    return keys(module.kernel.plan(*(args or arguments())))


@pytest.fixture
def base(load):
    """The keys of ``SOURCE`` as it is."""
    if not BASE:
        BASE.append(keys_of(load(SOURCE)))
    return BASE[0]


BASE: list[SimpleNamespace] = []


# --- the source --------------------------------------------------------------------------------------------------------


def test_the_same_source_in_another_file_has_the_same_keys(load, base):
    assert base == keys_of(load(SOURCE))


def test_lines_matter_to_the_names_only(load, base):
    here, moved = base, keys_of(load("# one\n# two\n" + SOURCE))
    assert here.plan != moved.plan
    assert (here.types, here.tasks) == (moved.types, moved.tasks)


def test_names_do_not_matter_to_tasks(load):
    text = SOURCE.replace("x[", "u[").replace("x.", "u.").replace("(x,", "(u,").replace("a = b =", "first = second =")
    text = text.replace("a + b", "first + second").replace("(s)", "(total)").replace("s +=", "total +=")
    here, renamed = (
        keys_of(load(SOURCE)),
        keys_of(load(text.replace("s = 0.0", "total = 0.0").replace("return s", "return total"))),
    )
    assert "total" in text
    assert here.plan != renamed.plan
    assert (here.types, here.tasks) == (renamed.types, renamed.tasks)


# What is replaced by what, and a line of the loop that it changes.
CHANGES = {
    "a statement": ("x[i] * SCALE + factor", "x[i] * SCALE - factor", "x[i] = x[i] * SCALE"),
    "a number": ("y[i] = a + b", "y[i] = a + b + 1", "y[i] = a + b"),
    "an int that is a float": ("y[i] = a + b", "y[i] = a + b + 1.0", "y[i] = a + b"),
    "an operator": ("s += kind(y[i])", "s *= kind(y[i])", "s += kind"),
    "the end of a loop": (
        "for i in range(x.shape[0]):\n            y[i] = outer",
        "for i in range(y.shape[0]):\n            y[i] = outer",
        "",
    ),
    "a global": ("SCALE = 3", "SCALE = 4", "x[i] = x[i] * SCALE"),
    "the type of a global": ("SCALE = 3", "SCALE = 3.0", "x[i] = x[i] * SCALE"),
    "a closure value": ("made(2, np.float32)", "made(5, np.float32)", "x[i] = x[i] * SCALE"),
    "a closure type": ("made(2, np.float32)", "made(2, np.float64)", "s += kind"),
    "a device function": ("return inner(v) + np.sqrt(w)", "return inner(v) - np.sqrt(w)", "y[i] = outer"),
    "the NumPy function in it": ("np.sqrt(w)", "np.exp(w)", "y[i] = outer"),
    "its default": ("def outer(v, w=2.0)", "def outer(v, w=3.0)", "y[i] = outer"),
    "its global tuple": ("TABLE = (1.5, 2.5)", "TABLE = (1.5, 3.5)", "y[i] = outer"),
    "the function that it calls": ("return v * BELOW", "return v / BELOW", "y[i] = outer"),
    "the global of that one": ("BELOW = 1.0", "BELOW = -0.0", "y[i] = outer"),
    "a func": ("return v * by", "return v + by", "y[i] = outer"),
    "the default of a func": ("def half(v, by=0.5)", "def half(v, by=0.25)", "y[i] = outer"),
    "a function of math": ("math.sin(s)", "math.cos(s)", "y[i] = a + b"),
    "a function of the same name": ("math.sin(s)", "np.sin(s)", "y[i] = a + b"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_source_is_another_key(load, base, change):
    old, new, loop = CHANGES[change]
    assert SOURCE.count(old) == 1
    changed = keys_of(load(SOURCE.replace(old, new)))
    assert base.plan != changed.plan
    line = next((number for number, text in enumerate(SOURCE.splitlines(), 1) if loop and text.strip().startswith(loop)), 0)
    for one, other, lines in zip(base.tasks, changed.tasks, base.lines, strict=True):
        assert (one != other) == (line in lines)
    assert not loop or any(line in lines for lines in base.lines)


def test_types_have_keys_of_what_they_depend_on(load, base):
    for change in ("a closure type", "a function of the same name", "an operator"):
        old, new, _ = CHANGES[change]
        assert keys_of(load(SOURCE.replace(old, new))).types != base.types
    assert keys_of(load(SOURCE.replace("c = 0\n", "c = 0.5\n"))).types != base.types


# --- arguments and options ---------------------------------------------------------------------------------------------


def test_types_and_layouts_of_arguments_are_part_of_the_keys(load):
    module = load(PLAIN)
    big, readonly = np.zeros((8, 8), np.float32), np.zeros(8, np.float32)
    readonly.flags.writeable = False
    x = np.zeros(8, np.float32)
    found = [keys_of(module, x, y) for y in (x.copy(), big[0], big[:, 0], np.zeros(8), np.zeros(8, np.int32))]
    assert found[0] == found[1]
    assert len({each.plan for each in found}) == 4
    assert len({tuple(each.tasks) for each in found}) == 4

    module = load(COPIED)
    assert keys_of(module, x, readonly).tasks != keys_of(module, x, x.copy()).tasks


def test_sizes_are_no_part_of_the_keys(load, base):
    module = load(SOURCE)
    assert keys_of(module, np.zeros(9, np.float32), np.zeros(9, np.float32), 4) == keys_of(module, *arguments()) == base


def test_what_shares_memory_is_part_of_the_keys(load):
    module = load(COPIED)
    x = np.zeros(8, np.float32)
    apart, same = keys_of(module, x, x.copy()), keys_of(module, x, x)
    assert apart.plan != same.plan
    assert apart.tasks != same.tasks


def test_scalars_of_other_types_are_other_keys(load):
    module = load(SOURCE)
    found = [keys_of(module, *arguments()[:2], n) for n in (3, 3.0, np.int32(3), True)]
    assert len({each.plan for each in found}) == 4
    assert len({each.types for each in found}) == 4
    assert keys_of(module, *arguments()[:2], 4) == found[0]


def test_capability_float_type_and_options_are_part_of_the_keys(load):
    plan = load(SOURCE).kernel.plan(*arguments())
    here = keys(plan)
    others = [
        keys(plan, (8, 0)),
        keys(replace(plan, program=replace(plan.program, float_type="float64"))),
        keys(plan, options=Options(fastmath=True)),
        keys(plan, options=Options(block_size=128)),
    ]
    for other in others:
        assert other.plan != here.plan
        assert set(other.tasks).isdisjoint(here.tasks)
    assert keys(plan, options=Options(graph=False)).plan != here.plan
    # Which path runs it is not decided by the compiler.
    assert keys(plan, options=Options(graph=False)).tasks == here.tasks


def test_equal_shapes_and_large_arrays_are_part_of_the_keys(load):
    text = COPIED.replace("x[i] = y[i]", "x[i, 0] = y[i, 0]")
    plan = load(text).kernel.plan(np.zeros((3, 4)), np.zeros((3, 4)))
    found = [keys(plan, extents=each) for each in (ANY_EXTENTS, Extents(index64=True), Extents(equal=(("x", "y"),)))]
    assert len({each.plan for each in found}) == 3
    assert len({task for each in found for task in each.tasks}) == 3
    assert len({each.types for each in found}) == 1


# --- the compiler ------------------------------------------------------------------------------------------------------


def folder(path, *names):
    path.mkdir()
    for name in names:
        (path / name).mkdir()
    return str(path)


INSTALLED = (
    "numba",
    "numba-0.68.0.dist-info",
    "numba_cuda",
    "numba_cuda-0.30.4.dist-info",
    "llvmlite",
    "llvmlite-0.50.0.dist-info",
)


def test_versions_are_part_of_the_keys(tmp_path):
    here = toolchain_key._distributions([folder(tmp_path / "a", *INSTALLED), str(tmp_path / "nowhere")])
    assert here == ["llvmlite 0.50.0", "numba 0.68.0", "numba_cuda 0.30.4"]
    newer = folder(
        tmp_path / "b", *INSTALLED[:-1], "llvmlite-0.50.1.dist-info", "nvidia_nvjitlink-13.5.dist-info", "other-1.dist-info"
    )
    assert toolchain_key._distributions([newer]) == [
        "llvmlite 0.50.1",
        "numba 0.68.0",
        "numba_cuda 0.30.4",
        "nvidia_nvjitlink 13.5",
    ]


def test_compilers_without_a_version_are_not_trusted(tmp_path):
    installed = folder(tmp_path / "a", *INSTALLED)
    checkout = folder(tmp_path / "b", "numba")
    with pytest.raises(Unstable, match="numba in .*b, which tells no version"):
        toolchain_key._distributions([checkout, installed])
    toolchain_key._distributions([installed, checkout])
    scripts = tmp_path / "bin"
    scripts.mkdir()
    (scripts / "numba").touch()
    assert toolchain_key._distributions([str(scripts), installed]) == toolchain_key._distributions([installed])
    with pytest.raises(Unstable, match="llvmlite, which is nowhere"):
        toolchain_key._distributions([folder(tmp_path / "c", *INSTALLED[:-2])])


def test_compilers_that_came_another_way_are_not_trusted():
    modules = {name: sys.modules.get(name, SimpleNamespace(__version__="?")) for name in toolchain_key.COMPILERS}
    with pytest.raises(Unstable, match="which is not the installed one"):
        toolchain_key.confirm({**modules, "numba": SimpleNamespace(__version__="0.1")})


def test_settings_of_numba_and_the_toolkit_are_part_of_the_keys(monkeypatch, tmp_path):
    found = {toolchain_key.toolchain_text()}
    for name in ("NUMBA_OPT", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "elsewhere")
            found.add(toolchain_key.toolchain_text())
    monkeypatch.chdir(tmp_path)
    found.add(toolchain_key.toolchain_text())
    (tmp_path / ".numba_config.yaml").write_text("opt: 1")
    found.add(toolchain_key.toolchain_text())
    assert len(found) == 6
    monkeypatch.setenv("QGRAPH_UNKNOWN", "1")
    assert toolchain_key.toolchain_text() in found


def test_our_own_source_is_part_of_the_keys(monkeypatch, tmp_path):
    files = {line.split()[0] for line in toolchain_key._own_source()}
    assert {"lowering/numba_backend/cuda.py", "lowering/intrinsics/atomics.py", "language.py", "ir/program.py"} <= files
    here = toolchain_key._installed(tuple(sys.path))
    monkeypatch.setattr(toolchain_key, "_own_source", lambda: ["words.py 0"])
    monkeypatch.setattr(toolchain_key, "_installed", toolchain_key._installed.__wrapped__)
    assert toolchain_key._installed(tuple(sys.path)) != here


def test_a_numba_that_somebody_extended_is_not_trusted():
    assert toolchain_key._extended_by(sys.modules) == []
    from numba.core.typing.templates import builtin_registry
    from numba.extending import overload

    def word():
        """Nothing that a test compiles."""

    count = len(builtin_registry.functions)
    overload(word)(lambda: None)
    try:
        assert toolchain_key._extended_by(sys.modules) == [__name__.partition(".")[0]]
        with pytest.raises(Unstable, match="extensions"):
            toolchain_key.toolchain_text()
    finally:
        del builtin_registry.functions[count:]


def test_files_that_changed_do_not_count(tmp_path):
    file = tmp_path / "libnvvm.so"
    file.write_bytes(b"one")
    before = toolchain_key.stamps([str(file)])
    assert toolchain_key.unchanged(before)
    os.utime(file, ns=(1, 1))
    assert not toolchain_key.unchanged(before)
    file.write_bytes(b"other")
    assert not toolchain_key.unchanged(before)
    file.unlink()
    assert not toolchain_key.unchanged(before)


# --- values ------------------------------------------------------------------------------------------------------------


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


Pair = namedtuple("Pair", "left right")
Other = namedtuple("Other", "right left")


def text(value):
    writer = _Writer(None)
    writer.value(value)
    return writer.text()


VALUES = [
    *(None, True, 1, 1.0, -0.0, 0.0, 1j, complex(0.0, -0.0), "1", b"1", ..., "float", "@float", math.inf, -math.inf),
    *((), (1,), (1.0,), ((1,),), ("float", 1), Pair(1, 2), Pair(2, 1), Other(1, 2), (1, 2), frozenset({1}), frozenset({1, 2})),
    *(np.float32(1), np.float64(1), np.int8(1), np.bool_(True), np.dtype("f4"), np.dtype("f8"), np.dtype(">f4")),
    *(np.zeros(3), np.zeros(4), np.ones(3), np.zeros(3, np.float32), np.zeros((2, 2)), np.ones((2, 2)).T[:1]),
    *(math.sin, np.sin, np.cos, np.sum, abs, min, max, int, float, np.float32, operator.add, Colour.RED, Colour.BLUE),
    *(qgraph.atomic_add, qgraph.atomic_sub, types.float32, types.int64),
]


def test_different_values_are_different_texts():
    texts = [text(value) for value in VALUES]
    assert len(set(texts)) == len(texts)
    assert text(float("nan")) == text(float("nan"))


def noted(value):
    @numba.njit
    def function(v):
        return v + value

    return function


def test_functions_are_told_by_what_they_look_at():
    assert text(noted(1)) == text(noted(1))
    assert len({text(noted(value)) for value in (1, 2, 1.0, math.pi, (1,), noted(1), noted(2))}) == 7


def test_running_a_function_does_not_change_its_text():
    function = noted(3)
    before = text(function)
    for _ in range(100):
        function.py_func(2)
    assert text(function) == before


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda v: v,
        SimpleNamespace(a=1),
        [1],
        {1: 2},
        np.array([None]),
        np.zeros(2, "i4,f4"),
        numba.vectorize(lambda v: v),
        os.path.join,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_lasting_identity_has_no_text(value):
    with pytest.raises(Unstable):
        text(value)
    with pytest.raises(Unstable, match="`value` is "):
        text(noted(value))


def test_a_module_is_what_is_looked_up_in_it(load):
    first, second, third = load("G = 1\nH = 2"), load("G = 1\nH = 3"), load("G = 2\nH = 2")
    for module in (first, second, third):
        module.__name__ = "constants"

    def looking(constants):
        return numba.njit(lambda v: v + constants.G)

    assert text(looking(first)) == text(looking(second)) != text(looking(third))


def test_the_same_module_is_read_again_for_other_names(load):
    """Two functions look at one module: what the second one sees counts too."""

    def pair(constants):
        return (numba.njit(lambda v: v + constants.G), numba.njit(lambda v: v + constants.H))

    first, second = load("G = 1\nH = 2"), load("G = 1\nH = 3")
    first.__name__ = second.__name__ = "constants"
    assert text(pair(first)) != text(pair(second))


def test_a_function_that_only_claims_to_be_a_known_one_is_not_it():
    def sin(v):
        return v

    sin.__module__, sin.__qualname__ = "math", "sin"
    with pytest.raises(Unstable):
        text(sin)


def test_a_function_that_replaced_a_known_one_is_not_it(monkeypatch):
    before = text(numba.njit(lambda v: np.hypot(v, v)))
    monkeypatch.setattr(np, "hypot", noted(1))
    assert text(numba.njit(lambda v: np.hypot(v, v))) != before


def test_a_local_name_does_not_hide_a_free_one():
    """Names are numbered where the code binds them only: `len` and `abs` stay what they are."""

    def tree(line):
        (found,) = ast.parse(f"def f(x):\n    y = {line}\n    return y").body
        return found

    def of(line, **names):
        from qgraph.lowering.cache.bound_names import names_in

        function = Function("f", tree(line), names, "<f>")
        writer = _Writer(names_in([function.tree], names))
        writer.function(function)
        return writer.text()

    assert of("len(x)") != of("abs(x)")
    assert of("g(x, a=x)", g=min) != of("g(x, b=x)", g=min)
    # A keyword is the callee's name, whatever is called so here.
    assert of("[p := x, g(x, p=x)]", g=min) != of("[q := x, g(x, q=x)]", g=min)
    assert of("g(x)", g=min) == of("h(x)", h=min) != of("g(x)", g=max)
    assert of("[x for x in x]") != of("[z for z in x]")
    with pytest.raises(Unstable):
        of("(lambda: 0)()\n    global z")


# --- other processes ---------------------------------------------------------------------------------------------------

PRINT = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
from kernels import kernel
from qgraph.lowering.cache.artifact_cache import ArtifactCache
from qgraph.options import Options
plan = kernel.plan(np.zeros(8, np.float32), np.zeros(8, np.float32), 3)
saved = ArtifactCache(plan, (9, 0), Options())
print(saved._plan_key(), saved._types_key(), list({*"abcdefghijk"}))
"""


def test_another_process_finds_the_same_keys(tmp_path, load):
    """Whatever its hash seed is, and wherever the file is."""
    text = SOURCE.replace("TABLE[0]", "(1.0 if v in {'a', 'b', 'c'} else TABLE[0])")
    here = keys_of(load(text))
    (tmp_path / "kernels.py").write_text(text)
    env = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2", "PYTHONPATH": ""}
    command = [sys.executable, "-c", PRINT, str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    plan, types_, order = done.stdout.split(" ", 2)
    assert (plan, types_) == (here.plan, here.types)
    assert order.strip() != str([*{*"abcdefghijk"}]), "the seeds make no difference"
