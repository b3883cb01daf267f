"""The kernel that is a whole program: where its barriers stand, what it takes, and that it compiles and links."""

from __future__ import annotations

import ast
import importlib.util
import re

import numpy as np
import pytest

import qgraph
from qgraph.lowering import compile
from qgraph.lowering.codegen import single_block_codegen
from qgraph.lowering.codegen.single_block_codegen import block_code
from qgraph.lowering.compile import compile_cuda
from qgraph.lowering.ptx import link
from qgraph.lowering.scalar_types import scalar_types
from qgraph.options import Options
from qgraph.runtime.graph.kernel_parameters import Parameters

FUSED = Options(fuse=True)


@qgraph.kernel(fuse=True)
def everything(x, y, z, n):
    k = 0
    best = -1.0
    where = -1
    while k < n:
        for i in range(x.shape[0]):
            y[i] = x[i] * 2 + z[i]
        for i in range(1, x.shape[0]):
            if y[i] > best:
                best = y[i]
                where = i
        if best > 10:
            for t in qgraph.serial(range(3)):
                for i in range(x.shape[0]):
                    x[i] = y[i] - t
        match k:
            case 0:
                x[0] = best
            case 1 | 2:
                for i, j in qgraph.ndrange(2, 3):
                    y[i] += j
        k += 1
    return best, where


ARGS = (*(np.ones(8, np.float32) for _ in range(3)), 3)


def source_of(kernel, *args):
    plan = kernel.plan(*args)
    return block_code(plan, None, scalar_types(plan.program))[0].source


def is_barrier(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("syncthreads")


def names_in(node):
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


@pytest.fixture(scope="module")
def tree():
    (tree,) = ast.parse(source_of(everything, *ARGS)).body
    return tree


def test_every_thread_meets_every_barrier(tree):
    """What a thread's number decides holds no barrier, and nobody leaves early."""
    assert sum(map(is_barrier, ast.walk(tree))) > 10
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.Return, ast.Break, ast.Continue))
        if isinstance(node, (ast.If, ast.While)) and "_lane" in names_in(node.test):
            assert not any(is_barrier(child) for statement in node.body for child in ast.walk(statement))
            assert isinstance(node, ast.If)
            assert not node.orelse


def test_what_decides_control_flow_is_the_same_in_all_threads(tree):
    """It comes out of a vote, or was read between two barriers, or is a number of the host."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While)) and "_lane" not in names_in(node.test):
            for name in names_in(node.test) - {"_part"}:
                assert name == "_held" or name.startswith("_vote") or re.fullmatch(r"_h\d+", name), name
    text = ast.unparse(tree)
    plain = re.findall(r"\n( *)(_vote\d+) = _slots\[\d+\]\n(.*)\n", text)
    assert len(plain) == 1, "the one match"
    assert plain[0][2].strip() == "_cuda.syncthreads()"


def test_a_task_is_behind_a_barrier_when_another_thread_ran_the_one_before(tree):
    """Between two statements that run tasks, unless the first thread runs both, there is a barrier."""

    def run(statements, owed):
        for statement in statements:
            if isinstance(statement, ast.While) or (isinstance(statement, ast.If) and "_lane" not in names_in(statement.test)):
                assert not owed, ast.unparse(statement)
                for _ in range(2):
                    assert not run(statement.body, False)
                assert not run(statement.orelse, False)
            elif any(map(is_barrier, ast.walk(statement))):
                owed = False
            elif any(name.startswith("everything_L") for name in names_in(statement)):
                assert not owed, ast.unparse(statement)
                owed = True
        return owed

    run(tree.body, False)


def test_only_the_first_thread_runs_statements(tree):
    """And all of them run iterations, or combine what these made."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "_lane == 0":
            calls = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
            assert calls
            assert not any({"_lane", "_width"} & names_in(argument) for call in calls for argument in call.args)


def test_the_parameters_are_those_of_all_tasks():
    plan = everything.plan(*ARGS)
    code, _ = block_code(plan, None, scalar_types(plan.program))
    names = [parameter.name for parameter in code.parameters]
    assert names[:4] == ["x", "y", "z", "n"]
    assert names[-1] == "_early"
    assert "_handle" not in names
    assert code.constant == {"z"}, "whatever some task writes is no constant"
    assert (code.entry, code.counts, code.single, code.on_device) == ("everything_block", (), False, False)


@qgraph.kernel(fuse=True)
def sums(x, y):
    steps = 0
    a = b = c = d = e = f = 0.0
    while steps < 3:
        for i in range(x.shape[0]):
            a += x[i]
            b += x[i] * 2
            c += x[i] * 3
            d += x[i] * 4
            e += x[i] * 5
            f += x[i] * 6
        low = 9
        for i in range(y.shape[0]):
            low = min(low, y[i])
        top = 0.0
        for i in range(y.shape[0]):
            top = max(top, x[i])
        steps += low
        a += top
    return a, b, c, d, e, f


def test_values_that_meet_fit_into_shared_memory():
    source = source_of(sums, np.ones(4), np.ones(4, np.int64))
    found = {dtype: int(count) for count, dtype in re.findall(r"shared\.array\((\d+), _type_(\w+)\)", source)}
    lanes = int(re.search(r"_lanes = _min\(_width, (\d+)\)", source)[1])
    assert found == {"float64": 6 * lanes, "int64": lanes}
    assert lanes == 512
    assert sum(found.values()) * 8 <= single_block_codegen._SHARED_BYTES


# --- machine code -----------------------------------------------------------------------------------------------------


@pytest.mark.needs("compiler")
def test_it_is_one_more_text_of_fused_kernels_only():
    plain = qgraph.kernel(everything.__wrapped__)
    assert "everything_block" not in plain.ptx(*ARGS)
    texts = everything.ptx(*ARGS)
    text = texts["everything_block"]
    assert set(texts) - {node.task.name for node in everything.plan(*ARGS).nodes if node.task} == {"everything_block"}
    assert text.count(".visible .entry") == 1
    assert ".maxntid 1024" in text
    assert "cudaGraphSetConditional" not in text
    assert "bar.red.or.pred" in text
    loads = set(re.findall(r"ld\.global(?:\.nc)?\.f32", text))
    assert loads == {"ld.global.f32", "ld.global.nc.f32"}, "z is never written"


@pytest.mark.needs("compiler")
def test_no_array_is_constant_that_another_task_writes():
    @qgraph.kernel(fuse=True)
    def there_and_back(x, y):
        k = 0
        while k < 3:
            for i in range(x.shape[0]):
                y[x.shape[0] - 1 - i] = x[i]
            for i in range(x.shape[0]):
                x[i] = y[i]
            k += 1

    text = there_and_back.ptx(np.ones(4), np.ones(4))["there_and_back_block"]
    assert "ld.global.f64" in text
    assert "ld.global.nc" not in text


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_it_links_with_the_other_kernels(capability):
    compiled = compile_cuda(everything.plan(*ARGS), capability, FUSED, read=False)
    assert compiled.block == "everything_block"
    assert compiled.codes[compiled.block].entry == compiled.block
    assert b"everything_block" in compiled.cubin
    assert link.link([compiled.ptx[compiled.block]], capability)[:4] == b"\x7fELF"


@pytest.mark.needs("compiler")
def test_its_parameters_have_places_of_their_own():
    compiled = compile_cuda(everything.plan(*ARGS), (9, 0), FUSED, read=False)
    parameters = Parameters(compiled, 1 << 20)
    code = compiled.codes[compiled.block]
    pointers, sizes = parameters.bind(len(compiled.plan.nodes), 1 << 40, code, None)
    assert len(pointers) == len(sizes)
    # Arrays of one dimension are seven words, of which the kernel has those that it reads.
    arrays = sum(parameter.is_array for parameter in code.parameters)
    kept = compiled.kept[code.entry]
    assert len(code.parameters) - arrays <= len(sizes) == len(kept)
    assert max(kept) < 7 * arrays + len(code.parameters) - arrays
    parameters.changed = 0
    parameters.update_host(tuple(range(1, len(compiled.plan.program.host_values) + 1)))
    assert parameters.changed == 1 << 40


MODULE = """\
import qgraph


@qgraph.kernel(fuse=True)
def kernel(x, y):
    k = 0
    while k < 3:
        for i in range(1, x.shape[0]):
            y[i] = x[i - 1]
        for i in range(x.shape[0]):
            x[i] = y[i] + k
        k += 1
    return k
"""


@pytest.mark.needs("compiler")
def test_the_disk_keeps_it(tmp_path, monkeypatch):
    """As a whole, and where the kernel has moved in its file, the PTX."""
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "cache"))

    def compiled(text):
        (tmp_path / "kernels.py").write_text(text)
        spec = importlib.util.spec_from_file_location("kernels", tmp_path / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return compile_cuda(module.kernel.plan(np.zeros(8), np.zeros(8)), (9, 0), FUSED)

    first = compiled(MODULE)
    assert (first.block, first.from_disk, first.unkept) == ("kernel_block", False, "")
    again = compiled(MODULE)
    assert again.from_disk
    assert (again.block, again.cubin, again.ptx) == (first.block, first.cubin, first.ptx)
    assert again.codes[again.block].parameters == first.codes[first.block].parameters

    def refuse(*args, **options):
        raise AssertionError("it is compiled again")

    monkeypatch.setattr("qgraph.lowering.numba_backend.cuda.compile_ptx", refuse)
    moved = compiled("\n\n" + MODULE)
    assert not moved.from_disk
    assert moved.block == "kernel_block"
    # Without one block another cubin is made, though the program is the same.
    plan = compile.replace(moved.plan, one_block=None)
    alone = compile_cuda(plan, (9, 0), FUSED)
    assert (alone.from_disk, alone.block) == (False, "")
