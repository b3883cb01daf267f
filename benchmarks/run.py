"""All questions, each in a process of its own: ``python -m benchmarks.run [--quick] [--out DIR] [--only NAME ...]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.results import RESULTS

QUESTIONS = (
    "launch",
    "do_while",
    "fusion",
    "independent",
    "rules",
    "row_rules",
    "reductions",
    "shapes",
    "overlapped_tiles",
    "slow_to_fast",
    "bandwidth",
    "call_cost",
    "argument_cost",
    "growth",
    "barriers",
    "ladders",
    "programs",
    "cpu",
    "cpu_programs",
    "array_chain",
    "peak_memory",
    "bounds",
    "check_speed",
    "profile_overhead",
    "profile_sums",
    "progress_overhead",
    "histogram",
    "library_calls",
    "small_solves",
    "random_numbers",
    "scalar_update",
    "sparse",
    "memory_bound",
    "startup",
    "long_code",
    "npbench",
)
NO_GPU = 3


def main() -> int:
    """Ask every question; returns 1 if one failed. A question that needs a GPU is named where there is none."""
    parser = argparse.ArgumentParser(description="Measure qgraph, and write JSON, plots and tables.")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result files go")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats: to see that it works")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS, metavar="NAME")
    options = parser.parse_args()
    outcomes = {}
    for question in options.only:
        command = [sys.executable, "-m", f"benchmarks.{question}", "--out", str(options.out)]
        start = time.perf_counter()
        status = subprocess.run([*command, "--quick"] if options.quick else command, check=False).returncode
        words = {0: "measured", NO_GPU: "not measured: it needs a GPU"}.get(status, f"FAILED with status {status}")
        outcomes[question] = words
        print(f"-- {question}: {words} ({time.perf_counter() - start:.0f} s)\n", flush=True)
    print("\n".join(f"{question:<12} {words}" for question, words in outcomes.items()))
    return int(any(words.startswith("FAILED") for words in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main())
