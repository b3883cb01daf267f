"""Run a random program of arrays on a backend: what it refuses by name is counted, and must be right to refuse."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any

import numpy as np

import qgraph
from tests.messages import fault_of
from tests.properties.arguments import ArrayArgument, make
from tests.properties.programs import Program
from tests.properties.running import Mismatch, Runner, same

# Says that the kernel's author is not to blame.
_BLAME = re.compile(r"internal|bug in|Numba|report|Traceback", re.IGNORECASE)


class ArrayRunner(Runner):
    """Compares shapes and types of what is returned too. ``ptx``: also compiles for CUDA what ran."""

    def __init__(self, backend: str, *, ptx: bool = False) -> None:
        super().__init__(backend)
        self.ptx = ptx
        self.refused: Counter[str] = Counter()
        # The first message of each, with its program.
        self.examples: dict[str, str] = {}
        self.ran = 0

    def _compare(self, kernel: Any, program: Program, call: int) -> None:
        expected, actual, before = (make(program.arguments, call, program.seed) for _ in range(3))
        wanted = self._wanted(kernel, expected)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", qgraph.AssumedParallelWarning)
            try:
                got = self._run(kernel, actual)
            except qgraph.QGraphError as error:
                self._refusal(error, program)
                self._unchanged(program, actual, before, error)
                return
        self.ran += 1
        narrow = _narrow(program)
        if not any(isinstance(argument, ArrayArgument) for argument in program.arguments):
            # There is no argument on whose side its arrays could be.
            got = _on_host(got)
        same(f"call {call}: the result", got, wanted, None)
        _same_types(f"call {call}: the result", got, wanted, narrow)
        for argument, mine, theirs in zip(program.arguments, actual, expected, strict=True):
            if isinstance(argument, ArrayArgument):
                same(f"call {call}: {argument.array.name}", mine, theirs, None)
        if self.ptx and call == 0:
            texts = qgraph.kernel(backend="cuda")(kernel.__wrapped__).ptx(*before)
            if not all(".entry" in text for text in texts.values()):
                raise Mismatch("PTX without an entry")

    def _refusal(self, error: qgraph.QGraphError, program: Program) -> None:
        fault = fault_of(error, program.source) if error.span is not None else ""
        if fault or _BLAME.search(str(error).split("\n")[0]) or isinstance(error, qgraph.CudaError):
            raise Mismatch(f"{fault or 'a message that blames others'}: {type(error).__name__}: {error}") from error
        kind = re.sub(r"`[^`]*`|\d+", "_", f"{type(error).__name__}: {error}".split("\n")[0])
        self.refused[kind] += 1
        self.examples.setdefault(kind, f"{error}\n{program.source}")

    def _unchanged(self, program: Program, actual: list[Any], before: list[Any], error: Exception) -> None:
        for argument, mine, old in zip(program.arguments, actual, before, strict=True):
            if isinstance(argument, ArrayArgument) and not np.array_equal(mine, old):
                raise Mismatch(f"{argument.array.name} was changed by a call that was refused: {error}") from error


def _on_host(got: Any) -> Any:
    return tuple(map(_on_host, got)) if isinstance(got, tuple) else qgraph.to_numpy(got) if hasattr(got, "shape") else got


def _narrow(program: Program) -> bool:
    dtypes = {a.array.dtype for a in program.arguments if isinstance(a, ArrayArgument)}
    return "float32" in dtypes and "float64" not in dtypes


def _same_types(where: str, got: Any, wanted: Any, narrow: bool) -> None:
    if isinstance(wanted, tuple):
        for at, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
            _same_types(f"{where}[{at}]", mine, theirs, narrow)
        return
    if not isinstance(wanted, np.ndarray):
        return
    if not isinstance(got, np.ndarray):
        raise Mismatch(f"{where} is a {type(got).__name__}, plain Python's an array")
    allowed = {wanted.dtype, np.dtype("float32")} if narrow and wanted.dtype == np.float64 else {wanted.dtype}
    if got.dtype not in allowed:
        raise Mismatch(f"{where} has type {got.dtype}, plain Python's {wanted.dtype}")
