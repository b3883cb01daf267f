"""Mutation test of the test suite: ``python -m tests.mutants [--only PATTERN] [--jobs N] [--json FILE]``.

Each mutant is one wrong line of qgraph, planted in a copy of the tree. ``make test`` runs there until a test fails; a mutant
that survives it meets the tests that only ``make test-all`` runs. The table says by which of the two each is killed. The
command exits with 1 if a mutant survives both. It takes hours on 2 cores, and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutant:
    """In ``file`` of qgraph, ``before``, which stands there once, becomes ``after``: ``what`` goes wrong."""

    what: str
    file: str
    before: str
    after: str


MUTANTS = (
    Mutant(
        "loops of one iteration are any loops",
        "polyhedral/quick_tests.py",
        "all(length == 1 for length in lengths)",
        "any(length == 1 for length in lengths)",
    ),
    Mutant(
        "an edge for a write after a read is missing",
        "lowering/graph/dependencies.py",
        "if not (first.writes or second.writes):",
        "if not first.writes:",
    ),
    Mutant(
        "arrays that are read and written do not alias",
        "runtime/values/aliasing.py",
        "if written[index] or written[other_index]:",
        "if written[index] and written[other_index]:",
    ),
    Mutant(
        "the identity of + is +0.0",
        "operations/combinations.py",
        '"-0.0" if np.dtype(dtype).kind in "fc" else "0"',
        '"0.0" if np.dtype(dtype).kind in "fc" else "0"',
    ),
    Mutant(
        "the identity of max is that of min",
        "operations/combinations.py",
        "lambda dtype: limit(dtype, largest=False)",
        "lambda dtype: limit(dtype, largest=True)",
    ),
    Mutant(
        "a negative divisor's remainder counts as an index that is not negative",
        "lowering/codegen/nonnegative_indices.py",
        "0 < node.value < intrinsics.INDEX_LIMIT",
        "node.value < intrinsics.INDEX_LIMIT",
    ),
    Mutant(
        "a name of an augmented assignment is not read",
        "frontend/names/definite_assignment.py",
        "read = node.target if isinstance(node, ast.AugAssign) else node",
        "read = node",
    ),
    Mutant(
        "a memset of four bytes for a pattern of eight",
        "nodes/memset.py",
        "if pattern != pattern[:size] * (len(pattern) // size):",
        "if not pattern:",
    ),
    Mutant(
        "integers are compared in the type of the first",
        "lowering/numbers/typing_rules.py",
        "return Choice(tuple(map(_exact, args)), types.boolean, emit)",
        "return Choice((_exact(args[0]),) * 2, types.boolean, emit)",
    ),
    Mutant(
        "float16 computes in float16",
        "lowering/numbers/typing_rules.py",
        "return types.float32 if joined == types.float16 else joined",
        "return joined",
    ),
    Mutant(
        "horizontal fusion takes loops with reductions",
        "lowering/graph/horizontal_fusion.py",
        "not task.reductions and not task.on_device",
        "not task.on_device",
    ),
    Mutant(
        "break in a nested if does not guard what follows",
        "frontend/desugar/break_continue.py",
        "return [*result, unless(flags, guarded, rest[0])], flags | more",
        "return [*result, *guarded], flags | more",
    ),
    Mutant(
        "a cached call runs with an older executable",
        "dispatch_cache.py",
        'conditions.append("specialisation.executable is executable")',
        "conditions.append('True')",
    ),
    Mutant(
        "guards do not ask what was compiled in",
        "dispatch_cache.py",
        '["defaults.backend is default", "holds()"]',
        '["defaults.backend is default"]',
    ),
    Mutant(
        "a repeated call launches a graph that was patched for another one",
        "runtime/executors/base.py",
        "            repeat.close()\n",
        "            pass\n",
    ),
    Mutant(
        "machine code launches in whatever context is current",
        "runtime/driver/native.py",
        "%same.context = and i1 %there.is.one, %same.id",
        "%same.context = or i1 %there.is.one, %same.id",
    ),
    Mutant(
        "an empty ^ over the threads of a row starts at 1",
        "lowering/codegen/cooperative_rows.py",
        '"^": "_empty_sum"',
        '"^": "_empty_product"',
    ),
    Mutant(
        "a copy of an unrolled body does not wait for the condition of the one before",
        "lowering/codegen/unrolling.py",
        "if decides(before, node) or _ordered(",
        "if _ordered(",
    ),
    Mutant(
        "Python's floats are rounded to digits as NumPy's",
        "frontend/checks/rounding.py",
        "if owners == _NUMPY:",
        "if owners in (_NUMPY, _PYTHON):",
    ),
    Mutant(
        "a comparison of arrays is a truth value",
        "frontend/checks/truthiness.py",
        "for op in ops) and any(map(self._is_array, operands_of(node)))",
        "for op in ops) and all(map(self._is_array, operands_of(node)))",
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
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the table there, too")
    options = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if options.only in each.file or options.only in each.what]
    with ThreadPoolExecutor(options.jobs) as threads:
        rows = list(threads.map(lambda mutant: tested(mutant, options.workers, options.pytest), chosen))
    for row in rows:
        print(f"{row['killed by']:16}{row['seconds']:7.0f} s  {row['file']}: {row['what']}")
    for target in ("make test", "make test-all"):
        print(f"killed by {target}: {sum(row['killed by'] in ('make test', target) for row in rows)} of {len(rows)}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["killed by"] == "nothing" for row in rows))


def tested(mutant: Mutant, workers: str, more: str) -> dict[str, str | float]:
    """The row of a mutant."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "out", "__pycache__"))
        file = tree / "qgraph" / mutant.file
        source = file.read_text()
        if source.count(mutant.before) != 1:
            raise SystemExit(f"qgraph/{mutant.file} does not have {mutant.before!r} once: {mutant.what}")
        file.write_text(source.replace(mutant.before, mutant.after))
        killed = next((target for target in ("test", "test-all") if fails(tree, target, workers, more)), "")
    print(f"{killed or 'nothing':10}{mutant.what}", file=sys.stderr, flush=True)
    killer = f"make {killed}" if killed else "nothing"
    return {"what": mutant.what, "file": mutant.file, "killed by": killer, "seconds": time.monotonic() - start}


def fails(tree: Path, target: str, workers: str, more: str) -> bool:
    """Whether a target of the Makefile finds a test that fails."""
    pytest = f"-m pytest -q -x -n {workers} --dist worksteal -p no:cacheprovider {more}"
    command = ["make", target, f"PYTHON={sys.executable}", f"PYTEST={pytest}"]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    # A suite that cannot be collected kills nothing.
    if run.returncode and " failed" not in run.stdout and " error" not in run.stdout:
        raise SystemExit(f"make {target} ends without a verdict:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode != 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
