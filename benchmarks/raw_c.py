"""Builds and runs the programs in CUDA C, raw_c.cu above all, where there is an nvcc."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().with_suffix(".cu")


# Seconds after which a run of the C program has failed.
LONGEST = 60


class Missing(Exception):
    """A peer that cannot be measured here; the message says why."""


@functools.cache
def program(source: Path = SOURCE) -> Path:
    """A compiled program. ``Missing`` where there is no nvcc, or it refuses."""
    nvcc = shutil.which("nvcc") or shutil.which(
        "nvcc", path=os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
    )
    if nvcc is None:
        raise Missing("no nvcc on the PATH or under CUDA_HOME")
    target = Path(tempfile.mkdtemp(prefix="qgraph-bench-")) / source.stem
    # -arch=native asks the driver for the GPU; -rdc for cudaGraphSetConditional in libcudadevrt.
    command = [nvcc, "-O2", "-rdc=true", "-arch=native", "-o", str(target), str(source), "-lcudadevrt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"nvcc failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
    return target


def measure(what: str, kernels: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    """One run of ``raw_c what K...``: its answer for each K."""
    return {row["kernels"]: row for row in answers(SOURCE, [what, *map(str, kernels)])}


def answers(source: Path, words: Sequence[str]) -> list[dict[str, Any]]:
    """What the program of ``source`` says, line by line, when it is called with ``words``."""
    what = f"{source.stem} {words[0]}"
    try:
        done = subprocess.run([str(program(source)), *words], capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        raise Missing(f"{what} did not end within {LONGEST} s") from None
    if done.returncode != 0:
        raise Missing(f"{what} failed: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]
