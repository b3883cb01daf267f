"""One specialisation as texts for both backends. What the manifest knows of the package is here and in ``recording``.

What Numba and LLVM make of the source takes most of the time, so that of some kernels only is made: of the examples, and of
others by a hash of their name, which no change of the code can alter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from qgraph.dispatch.specialisation import Specialisation
from qgraph.errors import QGraphError
from qgraph.lowering.codegen.cpu_codegen import control_function
from qgraph.lowering.compile import compile_cpu, compile_ptx
from qgraph.lowering.numba_backend import cpu, cuda
from qgraph.lowering.numba_backend.dead_zero_fills import Library
from qgraph.lowering.scalar_types import scalar_types
from qgraph.stack import compiling
from tests.manifest.entries import Entry
from tests.manifest.texts import Lines, described, digest, function_text, llvm_text, plan_text, record_text, type_text

ROOT = Path(__file__).parent.parent.parent
CAPABILITY = (9, 0)
# One kernel in so many has LLVM's text, and PTX.
LLVM_OF = 4
PTX_OF = 8
# The task is in the plan, and the source is written with what its names stand for.
_SKIPPED = ("task", "source")


@dataclass(frozen=True, slots=True)
class Lowered:
    """An entry with its texts, by column, and what it was made for; ``titles`` name the kernels that ``entry.loops`` are of."""

    entry: Entry
    types: str
    texts: dict[str, str]
    titles: list[str]


class _Stopped(BaseException):
    """LLVM's text is there: neither optimisation nor machine code is wanted."""


@compiling
def lowered(specialisation: Specialisation, known: set[object]) -> Lowered | None:
    """The texts of a specialisation; None if one of its name and source is in ``known``, where it is put."""
    file, kernel, types = _name_of(specialisation)
    plan, options = specialisation.plan, specialisation.variant.options
    lines = Lines()
    texts = {"plan": lines(_plan_text(plan))}
    sources: dict[str, str] = {}
    with _refused(texts, "cpu", lines):
        dtypes = scalar_types(plan.program)
        parameters, function = control_function(plan.program, dtypes)
        texts["cpu"] = lines(f"{described(parameters)}\n{described(dtypes)}\n\n{function_text(function)}")
        sources = {name: lines(text) for name, text in _sources(plan, options, dtypes).items()}
        texts["cuda"] = "\n\n".join(f"# {lines(name)}\n{text}" for name, text in sources.items())
    content = file, kernel, types, *map(digest, texts.values())
    if content in known:
        return None
    chosen = int(digest(f"{file} {kernel} {types}"), 16)
    whole = file.startswith("examples/")
    if "cuda" in texts and (whole or chosen % LLVM_OF == 0):
        with _refused(texts, "llvm", lines):
            texts["llvm"] = lines(llvm_text(_llvm(plan, options)))
    if "cuda" in texts and (whole or chosen % PTX_OF == 0):
        with _refused(texts, "ptx", lines):
            found = compile_ptx(plan, CAPABILITY, options, dtypes)[1]
            texts["ptx"] = lines("\n".join(dict.fromkeys(found.values())))
    hashes = tuple(digest(texts[column]) if column in texts else "" for column in ("plan", "cpu", "cuda", "llvm", "ptx"))
    known.add(content)
    entry = Entry(file, kernel, digest(types, 8), hashes, "".join(digest(text, 4) for text in sources.values()))
    return Lowered(entry, types, texts, list(sources))


def _name_of(specialisation: Specialisation) -> tuple[str, str, str]:
    variant = specialisation.variant
    function = variant.source.function
    path = Path(variant.source.file)
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else re.sub(r"_\d+(?=\.py$)", "", path.name)
    types = [f"{name}: {type_text(kind)}" for name, kind in variant.types]
    types += [f"{leaf.path}: {type_text(leaf.type)}" for leaf in variant.leaves]
    options = dataclasses.asdict(variant.options)
    given = [f"{name}={value!r}" for name, value in options.items() if name != "backend"]
    text = "\n".join([*dict.fromkeys(types), *given, f"aliases {specialisation.aliases!r}"])
    return file, function.__qualname__.replace(" ", ""), text


def _plan_text(plan: Any) -> str:
    program = plan.program
    skipped = ("span", "body", "host_names", "compiled_in", "flags")
    return f"{plan_text(str(plan))}\n{described(plan.edges)}\n{record_text(program, skipped)}"


@contextlib.contextmanager
def _refused(texts: dict[str, str], column: str, lines: Lines) -> Iterator[None]:
    """A refusal is a text, too."""
    try:
        yield
    except QGraphError as error:
        texts[column] = lines(f"{type(error).__name__}: {error}")


def _sources(plan: Any, options: Any, dtypes: Any) -> dict[str, str]:
    """What the compiler would get for each kernel of the plan on CUDA, by name."""
    functions: dict[str, str] = {}

    def noted(function: Any, types: Any, *, entry: str, **settings: Any) -> Callable[[], str]:
        functions[entry] = f"{types}\n{described(settings)}\n{function_text(function)}"
        return lambda: ""

    with mock.patch.object(cuda, "compile_ptx", noted):
        codes = compile_ptx(plan, CAPABILITY, options, dtypes)[0]
    # Loops that say the same of other arrays are one kernel.
    return {name: f"{record_text(code, _SKIPPED)}\n{functions.pop(code.entry, 'the same')}" for name, code in codes.items()}


def _llvm(plan: Any, options: Any) -> str:
    """What Numba makes for the CPU, before LLVM optimises it."""
    found: list[str] = []

    def stop(library: Any) -> None:
        found.append(str(library._final_module))
        raise _Stopped

    cpu.forget()
    with mock.patch.object(Library, "_optimize_final_module", stop), contextlib.suppress(_Stopped):
        compile_cpu(plan, options)
    return found[-1]
