"""Mutation test of the test suite: ``python -m tests.mutants [--only PATTERN] [--jobs N] [--write]``.

Each mutant is one wrong line of qgraph, planted in a copy of the tree, and names the file of tests that should notice. That is
run first; a mutant that survives it meets the whole of ``make test``, and one that survives this, too, the tests that only
``make test-all`` runs. The table says what kills each. The command exits with 1 if a mutant survives all. It takes minutes on
2 cores where the files that are named kill theirs, and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What the last run of all found, and that as a document.
RESULTS = ROOT / "tests/mutants.json"
TABLE = ROOT / "docs/mutants.md"

Row = dict[str, str | int]


@dataclass(frozen=True)
class Mutant:
    """In ``file`` of qgraph, ``before``, which stands there once, becomes ``after``: ``what`` goes wrong.

    ``tests``: the file, or files, of tests that should notice, best such that ``make test`` runs.
    """

    what: str
    file: str
    before: str
    after: str
    tests: str

    @property
    def named(self) -> tuple[str, ...]:
        """The paths of ``tests``."""
        return tuple(f"tests/{each}" for each in self.tests.split())


MUTANTS = (
    Mutant(
        "loops of one iteration are any loops",
        "polyhedral/quick_tests.py",
        "all(length == 1 for length in lengths)",
        "any(length == 1 for length in lengths)",
        "features/test_nests.py",
    ),
    Mutant(
        "an edge for a write after a read is missing",
        "lowering/graph/dependencies.py",
        "if not (first.writes or second.writes):",
        "if not first.writes:",
        "features/test_order.py",
    ),
    Mutant(
        "arrays that are read and written do not alias",
        "runtime/values/aliasing.py",
        "if written[index] or written[other_index]:",
        "if written[index] and written[other_index]:",
        "runtime/values/test_aliasing.py",
    ),
    Mutant(
        "sweeps in a tile need one element less above",
        "lowering/loops/stencils.py",
        "max(high, above + place.offset)",
        "max(high, above + place.offset - 1)",
        "lowering/loops/test_overlapped_tiles.py",
    ),
    Mutant(
        "where a sweep in a tile stores does not matter",
        "lowering/loops/stencils.py",
        "[0] + each.places[axis].offset for each in writes",
        "[0] for each in writes",
        "lowering/loops/test_overlapped_tiles.py",
    ),
    Mutant(
        "each iteration in a tile goes as far as the last one",
        "lowering/loops/tile_codegen.py",
        "- 1 - _sweep) * {most}",
        "- 1 - _sweep) * 0",
        "lowering/loops/test_overlapped_tiles.py",
    ),
    Mutant(
        "arguments that share memory have the conditions of others",
        "dispatch/specialisation.py",
        "own = aliases or program",
        "own = program",
        "diagnostics/test_messages.py",
    ),
    Mutant(
        "the identity of + is +0.0",
        "operations/combinations.py",
        '"-0.0" if np.dtype(dtype).kind in "fc" else "0"',
        '"0.0" if np.dtype(dtype).kind in "fc" else "0"',
        "features/test_reductions.py",
    ),
    Mutant(
        "the identity of max is that of min",
        "operations/combinations.py",
        "lambda dtype: limit(dtype, largest=False)",
        "lambda dtype: limit(dtype, largest=True)",
        "features/test_reductions.py",
    ),
    Mutant(
        "a negative divisor's remainder counts as an index that is not negative",
        "lowering/number_types/nonnegative_indices.py",
        "0 < node.value < intrinsics.INDEX_LIMIT",
        "node.value < intrinsics.INDEX_LIMIT",
        "lowering/number_types/test_nonnegative_indices.py",
    ),
    Mutant(
        "a name of an augmented assignment is not read",
        "frontend/names/definite_assignment.py",
        "read = node.target if isinstance(node, ast.AugAssign) else node",
        "read = node",
        "frontend/names/test_definite_assignment.py",
    ),
    Mutant(
        "a memset of four bytes for a pattern of eight",
        "nodes/memset.py",
        "if pattern != pattern[:size] * (len(pattern) // size):",
        "if not pattern:",
        "nodes/test_memset_memcpy.py",
    ),
    Mutant(
        "integers are compared in the type of the first",
        "lowering/number_types/typing_rules.py",
        "return Choice(tuple(map(_exact, args)), types.boolean, emit)",
        "return Choice((_exact(args[0]),) * 2, types.boolean, emit)",
        "lowering/number_types/test_type_promotion.py",
    ),
    Mutant(
        "float16 computes in float16",
        "lowering/number_types/typing_rules.py",
        "kind = types.float32 if joined == types.float16 else joined",
        "kind = joined",
        "lowering/numba_backend/test_cuda.py",
    ),
    Mutant(
        "horizontal fusion takes loops with reductions",
        "lowering/graph/horizontal_fusion.py",
        "not (task.reductions or task.on_device or task.inner_length)",
        "not (task.on_device or task.inner_length)",
        "features/test_fusion.py",
    ),
    Mutant(
        "break in a nested if does not guard what follows",
        "frontend/desugar/break_continue.py",
        "return [*result, unless(flags, guarded, rest[0])], flags | more",
        "return [*result, *guarded], flags | more",
        "features/test_control_flow.py",
    ),
    Mutant(
        "a cached call runs with an older executable",
        "dispatch/dispatch_cache.py",
        'conditions.append("specialisation.executable is executable")',
        "conditions.append('True')",
        "runtime/executors/test_cpu_relaunch.py runtime/executors/test_relaunch.py",
    ),
    Mutant(
        "guards do not ask what was compiled in",
        "dispatch/dispatch_cache.py",
        '["defaults.backend is default", "holds()"]',
        '["defaults.backend is default"]',
        "runtime/executors/test_cpu_relaunch.py",
    ),
    Mutant(
        "a repeated call launches a graph that was patched for another one",
        "runtime/executors/base.py",
        "            repeat.close()\n",
        "            pass\n",
        "runtime/executors/test_unrolled.py",
    ),
    Mutant(
        "machine code launches in whatever context is current",
        "runtime/driver/native.py",
        "%same.context = and i1 %there.is.one, %same.id",
        "%same.context = or i1 %there.is.one, %same.id",
        "runtime/executors/test_relaunch.py",
    ),
    Mutant(
        "an empty ^ over the threads of a row starts at 1",
        "lowering/codegen/cooperative_rows.py",
        '"^": "_empty_sum"',
        '"^": "_empty_product"',
        "lowering/codegen/test_cooperative_rows.py",
    ),
    Mutant(
        "threads that share an iteration do not wait where others store",
        "lowering/codegen/cooperative_codegen.py",
        'return generated(*meet, "stores", *meet, stores=stores)',
        'return generated("stores", stores=stores)',
        "lowering/codegen/test_cooperative_rows.py",
    ),
    Mutant(
        "threads share a loop that reads what another iteration of it stores",
        "lowering/codegen/cooperative_rows.py",
        "if ast.unparse(node.slice) == places.get(name):",
        "if name in places:",
        "features/test_lanes_that_store.py",
    ),
    Mutant(
        "threads share a loop of which several iterations store in one element",
        "lowering/codegen/cooperative_rows.py",
        "or not self._is_own(along[0], changing)",
        "",
        "features/test_lanes_that_store.py",
    ),
    Mutant(
        "a loop over the elements of rows joins loops that go over other rows",
        "frontend/bodies/loop_fusion.py",
        "        if crossed is not None:\n            return _words(crossed",
        "        if crossed is not None and not _has_loop(first):\n            return _words(crossed",
        "features/test_fused_rows.py",
    ),
    Mutant(
        "rows lie in the place of others that do not overwrite all of them",
        "frontend/bodies/array_contraction.py",
        "(each == filled or not each.stored)",
        "True",
        "features/test_fused_rows.py",
    ),
    Mutant(
        "a copy of an unrolled body does not wait for the condition of the one before",
        "lowering/codegen/unrolling.py",
        "if decides(before, node) or _ordered(",
        "if _ordered(",
        "lowering/codegen/test_unrolled_order.py",
    ),
    Mutant(
        "Python's floats are rounded to digits as NumPy's",
        "frontend/checks/rounding.py",
        "if owners == _NUMPY:",
        "if owners in (_NUMPY, _PYTHON):",
        "diagnostics/test_messages.py",
    ),
    Mutant(
        "a comparison of arrays is a truth value",
        "frontend/checks/truthiness.py",
        "for op in ops) and any(map(self._is_array, operands_of(node)))",
        "for op in ops) and all(map(self._is_array, operands_of(node)))",
        "diagnostics/test_messages.py",
    ),
    Mutant(
        "a chunk's loop for indices that are not negative is taken for its largest",
        "lowering/codegen/cpu_chunks.py",
        'f"_min({first}, {last}) >= {low}',
        'f"_max({first}, {last}) >= {low}',
        "lowering/codegen/test_cpu_codegen.py",
    ),
    Mutant(
        "the blocks of a grid are rounded down",
        "runtime/graph/launch_shapes.py",
        "blocks_down = -(-rows // (down * share))",
        "blocks_down = rows // (down * share)",
        "runtime/graph/test_launch_shapes.py",
    ),
    Mutant(
        "the key of a function forgets what its Numba functions look at",
        "lowering/cache/memory_key.py",
        "tuple(Identity(found) for _, found in CompiledIn().python(python))",
        "()",
        "lowering/cache/test_memory_key.py",
    ),
    Mutant(
        "the disk's key of a kernel leaves out the types of its parameters",
        "lowering/cache/key_texts.py",
        "        writer.value(parameter.type)\n",
        "",
        "lowering/cache/test_cache_keys.py",
    ),
    Mutant(
        "overlapping parts that are reversed are copied the wrong way",
        "frontend/bodies/row_overlaps.py",
        "return apart // step if",
        "return apart // abs(step) if",
        "features/test_rows.py",
    ),
    Mutant(
        "an atomic's old value that is read once is not taken",
        "lowering/ptx/ptx_rewrite.py",
        'unread = read[match["old"]] == 1',
        'unread = read[match["old"]] <= 2',
        "lowering/ptx/test_ptx_rewrite.py",
    ),
    Mutant(
        "a load of an array or of a constant one is one of constant memory",
        "lowering/ptx/constant_loads.py",
        "if parameters.intersection(changing):",
        "if parameters.issubset(changing):",
        "lowering/ptx/test_constant_loads.py",
    ),
    Mutant(
        "a kernel that cannot be built while a stream is captured waits for the device",
        "runtime/executors/resources.py",
        "                if ran:\n",
        "                if True:\n",
        "runtime/executors/test_resources.py",
    ),
    Mutant(
        "a statement whose operands a loop changes runs when that ends",
        "lowering/graph/epilogue_fusion.py",
        " and not touched_places(effects.reads, places) & changed",
        "",
        "lowering/graph/test_epilogue_fusion.py",
    ),
    Mutant(
        "a pool's block of a graph that is gone is anybody's at once",
        "runtime/driver/device_pool.py",
        "lambda each: Order(None) if each.capture in gone else each",
        "lambda each: None if each.capture in gone else each",
        "runtime/driver/test_device_pool.py",
    ),
    Mutant(
        "free neighbours of a pool are joined whoever may have them",
        "runtime/values/pool_blocks.py",
        " and last.order == hole.order:",
        ":",
        "runtime/driver/test_device_pool.py",
    ),
    Mutant(
        "the last value of a remainder is its divisor",
        "operations/intervals.py",
        "return (0, b[1] - 1) if b[0] > 0",
        "return (0, b[0] - 1) if b[0] > 0",
        "operations/test_intervals.py",
    ),
    Mutant(
        "increments behind a continue count in every iteration",
        "frontend/dependence/induction_variables.py",
        "None if skipped or added is None",
        "None if added is None",
        "dependence/test_corpus.py",
    ),
    Mutant(
        "updates by different operators commute",
        "frontend/dependence/commutativity.py",
        "        return True\n    return combination(first) is combination(second) is not None",
        "        return True\n    return None not in (combination(first), combination(second))",
        "dependence/test_corpus.py",
    ),
    Mutant(
        "stores move behind loads of the same element",
        "lowering/codegen/store_sinking.py",
        "or self._meets(run.waiting, reads, names_stored(statement))",
        "or names_stored(statement) & {store.target.value.id for store in run.waiting}",
        "lowering/codegen/test_store_sinking.py",
    ),
    Mutant(
        "a limit of no iterations is not refused",
        "runtime/values/host_values.py",
        '"max_iter": f"{_IS_INTEGER} and {{0}} >= 1"',
        '"max_iter": _IS_INTEGER',
        "diagnostics/test_messages.py",
    ),
    Mutant(
        "the length is an index within bounds",
        "lowering/instrumentation/bounds_checks.py",
        "if place < 0 or place >= extent:",
        "if place < 0 or place > extent:",
        "features/test_bounds.py",
    ),
    Mutant(
        "infinities of both signs are one answer of a check",
        "checking/orders.py",
        "if not np.array_equal(one[~finite], other[~finite], equal_nan=True):",
        "if not np.array_equal(np.isnan(one), np.isnan(other)):",
        "check/test_check.py",
    ),
    Mutant(
        "arrays that share eight bytes share none",
        "runtime/values/aliasing.py",
        "other[2] > low]",
        "other[2] > low + 8]",
        "runtime/values/test_aliasing.py",
    ),
    Mutant(
        "arrays in Fortran's order run along their last index",
        "lowering/graph/tiling.py",
        '0 if layout == "F" else -1',
        "-1",
        "lowering/graph/test_tiling.py",
    ),
    Mutant(
        "a histogram whose bins are read is collected in shared memory",
        "lowering/codegen/privatised_histogram_cuda.py",
        " or name in others or name in used:",
        " or name in others:",
        "features/test_histograms.py",
    ),
    Mutant(
        "a kernel's parameters are patched in the executable that was there before",
        "runtime/graph/node_updates.py",
        "if executable is not self._executable or changed != self._changed:",
        "if changed != self._changed:",
        "runtime/graph/test_node_updates.py",
    ),
    Mutant(
        "loops are joined past what writes what they read",
        "frontend/bodies/loop_fusion.py",
        "self._all(first.writes) & second.touched or self._all(second.writes) & first.touched",
        "self._all(first.writes) & second.touched",
        "features/test_fusion.py",
    ),
    Mutant(
        "an array that another loop reads becomes a number",
        "frontend/bodies/array_contraction.py",
        "if uses[name] == 1} - moving",
        "if uses[name]} - moving",
        "features/test_fusion.py",
    ),
    Mutant(
        "an array that a name may stand for becomes a number",
        "frontend/bodies/array_contraction.py",
        "if uses[name] == 1} - moving",
        "if uses[name] == 1}",
        "features/test_fusion.py",
    ),
    Mutant(
        "an element becomes a number where the variable changes",
        "frontend/bodies/array_contraction.py",
        "set() if names_assigned(body).keys() & set(self._places) else set(self._dtypes)",
        "set(self._dtypes)",
        "features/test_interchange.py",
    ),
    Mutant(
        "a triangular loop has iterations of other turns",
        "frontend/bodies/loop_interchange.py",
        "        if space.tests:\n",
        "        if False:\n",
        "features/test_triangular_loops.py",
    ),
    Mutant(
        "wavefronts come before what they need",
        "frontend/dependence/order_test.py",
        'Order(_now(first), ">=", _now(second))',
        'Order(_now(first), "<", _now(second))',
        "features/test_wavefronts.py",
    ),
    Mutant(
        "a part of a nest has fronts of other parts",
        "frontend/desugar/wavefronts.py",
        "        if by == 0 and not _holds(rest, first, last):\n",
        "        if False:\n",
        "features/test_wavefronts.py",
    ),
    Mutant(
        "a new array begins in the memory of one that is read still",
        "lowering/graph/memory_reuse.py",
        "if both and not _is_filled_from(block[min(both)], early, late):",
        "if len(both) > 1:",
        "features/test_memory_reuse.py",
    ),
    Mutant(
        "a slice may begin below the start",
        "frontend/arrays/views.py",
        "(limits[0][0], long, whole",
        "(long, whole",
        "features/test_triangular_loops.py",
    ),
    Mutant(
        "a call looks at each of its values",
        "runtime/values/host_values.py",
        '"length": "{0}"',
        '"length": _IS_INTEGER',
        "runtime/values/test_host_values.py",
    ),
    Mutant(
        "a length of 1 of the device is not repeated",
        "frontend/arrays/shape_checks.py",
        "return variable if factor.constant == 1 else",
        "return variable if factor.constant != 0 else",
        "features/test_lengths.py",
    ),
    Mutant(
        "CPU functions that make arrays count no references",
        "lowering/numba_backend/fast_lowering.py",
        "return counted(result, *(types[each.name] for each in value.list_vars()))",
        "return False",
        "lowering/numba_backend/test_fast_pipeline.py",
    ),
    Mutant(
        "code for arrays of one shape runs with others",
        "runtime/graph/kernel_parameters.py",
        "if any(len({values[index].shape for index in group}) > 1 for group in self._equal):",
        "if any(len({values[index].shape for index in group}) > 2 for group in self._equal):",
        "runtime/test_extents.py",
    ),
    Mutant(
        "an array that another copy exchanges has the extents of the first one's",
        "ir/artifacts.py",
        "group = among.pop() if len(among) == 1 else None",
        "group = min(among, default=None, key=str)",
        "runtime/test_extents.py",
    ),
    Mutant(
        "code for arrays of one shape is that of others on the disk",
        "lowering/cache/artifact_cache.py",
        "repr(self._extents), plan_text",
        "repr(self._extents.index64), plan_text",
        "lowering/cache/test_cache_keys.py",
    ),
    Mutant(
        "loops that say the same are one kernel, whatever shapes they have in common",
        "lowering/compile.py",
        "(_twin(code, function), self.extents.same(code), waits_last)",
        "(_twin(code, function), waits_last)",
        "lowering/intrinsics/test_array_addressing.py",
    ),
    Mutant(
        "what was built for arrays of one shape stays where others came",
        "dispatch/specialisation.py",
        " or (bool(granted.equal) and not variant.equal_extents)",
        "",
        "runtime/test_extents.py",
    ),
    Mutant(
        "a bound kernel that is built anew does not look at the current stream",
        "dispatch/bound_kernel.py",
        "return self._kernel._run(self.values) if self._calls else launch()",
        "return self._kernel._run(self.values) if self._calls else _launch_as_bound(self.executable, self.call)",
        "runtime/test_extents.py",
    ),
    Mutant(
        "records that hold the same are not equal",
        "records.py",
        "names = [field.name for field in dataclasses.fields(cls) if field.compare]",
        "names = [field.name for field in dataclasses.fields(cls)]",
        "test_records.py",
    ),
    Mutant(
        "loops in a row are joined that read other elements of what they write",
        "frontend/bodies/array_contraction.py",
        'if len(places) > 1 or place[-1:] != ("*",):',
        'if place[-1:] != ("*",):',
        "features/test_fused_rows.py",
    ),
    Mutant(
        "what stands between loops in a row that are joined passes what it needs",
        "frontend/bodies/array_contraction.py",
        "if any(self._meet(between[place], each) for each in passed):",
        "if not passed:",
        "features/test_fused_rows.py",
    ),
    Mutant(
        "sums of a part of the products are those of all",
        "frontend/products_of_loops.py",
        "if length != self._bound(first.length):",
        "if length is None:",
        "features/test_products_of_loops.py",
    ),
    Mutant(
        "products are computed that few iterations ask for",
        "frontend/products_of_loops.py",
        "return sizes in asked and not few",
        "return not few",
        "features/test_products_of_loops.py",
    ),
    Mutant(
        "temporaries of another shape lie in one array of the first one's in repeated calls on the CPU",
        "runtime/values/temporaries.py",
        "whole if made == found else",
        "whole if made else",
        "features/test_memory_reuse.py",
    ),
    Mutant(
        "a matrix of one column is repeated in a product with a vector",
        "frontend/arrays/product_loops.py",
        "alone = length.is_one or all(view.along[-1].count.is_one for view in views)",
        "alone = length.is_one",
        "features/test_library_calls.py",
    ),
)


def main(arguments: list[str]) -> int:
    """The exit status: 0 where all are killed, 1 where one survives, 2 where the unchanged tree fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="", help="those that have this in their file or sentence")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that are tested at once (1)")
    parser.add_argument("--workers", default="auto", help="processes of pytest for each (auto)")
    parser.add_argument(
        "--pytest", metavar="ARGUMENTS", default="", help="further arguments of pytest, such as --deselect TEST"
    )
    parser.add_argument(
        "--write", action="store_true", help="write tests/mutants.json and docs/mutants.md; rows of others stay"
    )
    options = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if options.only in each.file or options.only in each.what]
    more = ("-n", options.workers, *options.pytest.split())
    with planted(None) as tree:
        named = sorted({name for each in chosen for name in each.named})
        if fails(tree, ("test", f"TESTS={' '.join(named)}"), more):
            print("tests fail without any mutant", file=sys.stderr)
            return 2
    with ThreadPoolExecutor(options.jobs) as threads:
        rows = list(threads.map(lambda mutant: tested(mutant, more), chosen))
    for row in rows:
        print(f"{row['killed by']:16}{row['seconds']:7} s  {row['file']}: {row['what']} ({row['by']})")
    print(summary(rows))
    if options.write:
        written(rows)
    return int(any(row["killed by"] == "nothing" for row in rows))


def summary(rows: Sequence[Row]) -> str:
    """How many are killed by what, in a sentence."""
    counts = Counter(row["killed by"] for row in rows)
    return (
        f"Of {len(rows)} mutants `make test` kills {counts['make test']}, only `make test-all` {counts['make test-all']}; "
        f"{counts['nothing']} survive."
    )


def table(rows: Sequence[Row]) -> str:
    """The document of all rows."""
    lines = [
        "# Mutants",
        "",
        "`python -m tests.mutants --write` plants wrong lines in qgraph, one at a time, and writes down which tests notice.",
        f"{summary(rows)}",
        "",
        "| what goes wrong | in `qgraph/` | killed by | tests |",
        "| --- | --- | --- | --- |",
        *(f"| {row['what']} | `{row['file']}` | {row['killed by']} | {row['by']} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def written(rows: Sequence[Row]) -> None:
    """Put ``rows`` among those of the last run, and write both files."""
    known = {row["what"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    known |= {row["what"]: row for row in rows}
    together = [known[each.what] for each in MUTANTS if each.what in known]
    RESULTS.write_text(json.dumps(together, indent=1) + "\n")
    TABLE.write_text(table(together))


@contextmanager
def planted(mutant: Mutant | None) -> Iterator[Path]:
    """A copy of the tree with a mutant, or without."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "out", "__pycache__"))
        if mutant is not None:
            file = tree / "qgraph" / mutant.file
            source = file.read_text()
            if source.count(mutant.before) != 1:
                raise SystemExit(f"qgraph/{mutant.file} does not have {mutant.before!r} once: {mutant.what}")
            file.write_text(source.replace(mutant.before, mutant.after))
        yield tree


def tested(mutant: Mutant, more: Sequence[str]) -> Row:
    """The row of a mutant."""
    start = time.monotonic()
    runs = (("test", f"TESTS={' '.join(mutant.named)}"), ("test",), ("test-all",))
    # Files that `make test` leaves out run where they are named.
    left_out = any(each in (ROOT / "Makefile").read_text() for each in mutant.tests.split())
    with planted(mutant) as tree:
        killer = next((run for run in runs if fails(tree, run, more)), None)
    target = "nothing" if killer is None else "make test-all" if killer == runs[0] and left_out else f"make {killer[0]}"
    by = " ".join(mutant.named) if killer == runs[0] else "other tests" if killer else ""
    print(f"{target:14}{mutant.what}", file=sys.stderr, flush=True)
    return {"what": mutant.what, "file": mutant.file, "killed by": target, "by": by, "seconds": round(time.monotonic() - start)}


def fails(tree: Path, target: Sequence[str], more: Sequence[str]) -> bool:
    """Whether a target of the Makefile, with its settings, finds a test that fails."""
    pytest = f"-m pytest -q -x --dist worksteal -p no:cacheprovider {' '.join(more)}"
    command = ["make", *target, f"PYTHON={sys.executable}", f"PYTEST={pytest}"]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    # A suite that cannot be collected kills nothing.
    if run.returncode and " failed" not in run.stdout and " error" not in run.stdout:
        raise SystemExit(f"make {target[0]} ends without a verdict:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode != 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
