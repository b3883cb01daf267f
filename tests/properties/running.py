"""Run a random program on a backend and as plain Python, and compare all that it left behind."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import qgraph
from tests.messages import fault_of
from tests.properties.arguments import ArrayArgument, make
from tests.properties.programs import Program

# Of real numbers: relative to the largest magnitude, by the narrowest float that a program has.
TOLERANCES = {"float32": 2e-3, "float64": 1e-8}

# What a setting of ``fuse`` is tried with. A block size that is asked for keeps it from running as one block.
_OPTIONS: dict[bool, list[dict[str, Any]]] = {False: [{}], True: [{"fuse": True}, {"fuse": True, "block_size": 256}]}

_NUMBERS = itertools.count()


class Mismatch(AssertionError):
    """A backend and plain Python differ."""


class InvalidProgram(Exception):
    """Plain Python refused a program: the generator is wrong."""


class Runner:
    """Runs programs on one backend, with each of ``settings`` (of ``fuse``); their modules live in a folder of its own.

    ``call`` is how a kernel is called.
    """

    def __init__(
        self,
        backend: str,
        settings: Sequence[bool] = (False,),
        call: Callable[..., Any] = lambda kernel, *arguments: kernel(*arguments),
    ) -> None:
        self.backend = backend
        self._call = call
        self.settings = tuple(settings)
        self.folder = Path(tempfile.mkdtemp(prefix="qgraph-programs-"))

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __call__(self, program: Program) -> None:
        """Compare every call.

        Raises:
            Mismatch: an array or a returned value differs.
            InvalidProgram: plain Python cannot run it.
            QGraphError, and whatever else the backend raises.
        """
        with self._module(program.source) as module:
            for options in (options for fuse in self.settings for options in _OPTIONS[fuse]):
                kernel = qgraph.kernel(backend=self.backend, **options)(module.program)
                for call in range(program.calls):
                    self._compare(kernel, program, call)
                kernel.clear_cache()

    @contextmanager
    def _module(self, source: str) -> Iterator[ModuleType]:
        """``source`` as a module with a file, where inspect finds it."""
        name = f"random_program_{next(_NUMBERS)}"
        path = self.folder / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            del sys.modules[name]
            path.unlink()

    def _compare(self, kernel: Any, program: Program, call: int) -> None:
        expected, actual = (make(program.arguments, call, program.seed) for _ in range(2))
        try:
            wanted = self._wanted(kernel, expected)
        except InvalidProgram as error:
            if not program.may_fail or not isinstance(error.__cause__, ValueError):
                raise
            self._refuses(kernel, actual, error)
            return
        got = self._run(kernel, actual)
        tolerance = _tolerance(program) if program.real else None
        same(f"call {call}: the result", got, wanted, tolerance)
        for argument, mine, theirs in zip(program.arguments, actual, expected, strict=True):
            if isinstance(argument, ArrayArgument):
                same(f"call {call}: {argument.array.name}", mine, theirs, tolerance)

    def _wanted(self, kernel: Any, arguments: list[Any]) -> Any:
        return _reference(kernel, arguments)

    def _refuses(self, kernel: Any, arguments: list[Any], error: InvalidProgram) -> None:
        """The backend must find what plain Python found; nobody says what the arrays hold then."""
        try:
            self._run(kernel, arguments)
        except qgraph.ArgumentError as said:
            fault = "no place" if said.span is None else fault_of(said, Path(said.span.file).read_text())
            if fault:
                raise Mismatch(fault) from said
            return
        raise Mismatch(f"plain Python says {error}, and the backend nothing")

    def _run(self, kernel: Any, arguments: list[Any]) -> Any:
        with warnings.catch_warnings():
            # NumPy arrays are copied to the device and back, those that share memory together.
            warnings.simplefilter("ignore", qgraph.PerformanceWarning)
            result = self._call(kernel, *arguments)
            qgraph.synchronize()
        return result


def _reference(kernel: Any, arguments: list[Any]) -> Any:
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return kernel.reference(*arguments)
    except (ArithmeticError, IndexError, TypeError, ValueError, NameError) as error:
        raise InvalidProgram(f"{type(error).__name__}: {error}") from error


def _tolerance(program: Program) -> float:
    dtypes = {a.array.dtype for a in program.arguments if isinstance(a, ArrayArgument)}
    return TOLERANCES["float32" if "float32" in dtypes or "np.float32" in program.source else "float64"]


def same(where: str, got: Any, wanted: Any, tolerance: float | None) -> None:
    """Compare a result, or an argument, with plain Python's: the shape, and the values.

    Raises:
        Mismatch: they differ.
    """
    if isinstance(wanted, tuple):
        if not isinstance(got, tuple) or len(got) != len(wanted):
            raise Mismatch(f"{where} is {got!r}, plain Python's is {wanted!r}")
        for at, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
            same(f"{where}[{at}]", mine, theirs, tolerance)
        return
    if wanted is None or got is None:
        if wanted is not got:
            raise Mismatch(f"{where} is {got!r}, plain Python's is {wanted!r}")
        return
    mine, theirs = np.asarray(got), np.asarray(wanted)
    if mine.shape != theirs.shape or not _equal(mine, theirs, tolerance):
        raise Mismatch(f"{where} is {_short(got)}, plain Python's is {_short(wanted)}{_place(mine, theirs)}")


def _equal(mine: np.ndarray, theirs: np.ndarray, tolerance: float | None) -> bool:
    if tolerance is None or mine.dtype.kind != "f":
        return bool(np.array_equal(mine, theirs))
    size = max(1.0, float(np.max(np.abs(theirs), initial=0.0)))
    return bool(np.allclose(mine, theirs, rtol=0, atol=tolerance * size))


def _short(value: Any) -> str:
    return np.array_repr(value, max_line_width=100) if isinstance(value, np.ndarray) and value.size <= 40 else repr(value)


def _place(mine: np.ndarray, theirs: np.ndarray) -> str:
    if mine.shape != theirs.shape or mine.size <= 8:
        return ""
    where = np.argwhere(mine != theirs)
    return f" (first at {where[0].tolist()}, {len(where)} in all)" if len(where) else ""


def script(program: Program) -> str:
    """The program with its arguments, as a file that can be run."""
    lines = ["", "# Arguments of each call; names that are equal share memory."]
    for call in range(program.calls):
        values = make(program.arguments, call, program.seed)
        shown = []
        for argument, value in zip(program.arguments, values, strict=True):
            if not isinstance(argument, ArrayArgument):
                shown.append(f"{argument.name} = {value!r}")
                continue
            shared = ""
            if argument.alias and argument.alias[call]:
                shared = f", shares memory {argument.array.memory}, shifted by {argument.shift}"
            array = np.array2string(value, separator=", ", threshold=40).replace("\n", "")
            shown.append(
                f"{argument.array.name} = np.array({array}, np.{value.dtype}).reshape{value.shape}  # {argument.layout}{shared}"
            )
        lines += [f"# call {call}", *(f"#   {line}" for line in shown)]
    return program.source + "\n".join(lines) + "\n"


Check = Callable[[Program], None]
