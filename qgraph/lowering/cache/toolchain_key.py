"""Versions and settings of the toolchain, found without importing it: the first part of every key on the disk.

Versions are those of installed distributions, read off the folders' names; qgraph itself counts by its own source, since
that changes between versions too. Libraries that are no Python packages (NVVM, libdevice, nvJitLink) may come from anywhere:
an entry remembers the files that made it, and counts while these are the same.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qgraph.compat import numba
from qgraph.lowering.cache.key_texts import Unstable, digest

# What compiles for CUDA, as folders of Python's path.
COMPILERS = ("numba", "numba_cuda", "llvmlite")
_DISTRIBUTION = re.compile(
    r"(?P<name>numba|numba_cuda|llvmlite|numpy|cuda_\w+|nvidia_\w+)-(?P<version>[^-]+)\.(?:dist|egg)-info(?:\b.*)?"
)
# Where a toolkit is looked for.
_TOOLKIT = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")
_NUMBA_SETTINGS = ".numba_config.yaml"
# Records whose meaning generated code depends on; all of this folder does besides.
_OWN_SOURCE = ("language.py", "options.py", "compat", "ir", "lowering", "nodes", "operations", "polyhedral")
# Whose extensions of Numba are as old as their version.
_KNOWN_EXTENSIONS = frozenset({"numba", "qgraph"})

# Path, size, and time of the last change in nanoseconds.
Stamp = tuple[str, int, int]


def toolchain_text(compilers: tuple[str, ...] = COMPILERS) -> str:
    """What decides the code that some source becomes by these compilers.

    Raises:
        Unstable: that cannot be told: a compiler that is no installed distribution, or one that somebody has extended.
    """
    foreign = _extended_by(sys.modules)
    if foreign:
        raise Unstable(f"compiled by Numba with the extensions of {', '.join(foreign)}")
    return digest(_installed(tuple(sys.path), compilers), *_settings())


@functools.cache
def _installed(path: tuple[str, ...], compilers: tuple[str, ...] = COMPILERS) -> str:
    return digest(
        *(sys.version, sys.implementation.cache_tag or "", sys.platform, np.__version__),
        *_distributions(path, compilers),
        *_own_source(),
    )


def confirm(modules: Mapping[str, Any], compilers: Sequence[str] = COMPILERS) -> None:
    """See that the compilers that were imported meanwhile are those that the keys name.

    Raises:
        Unstable: they are others, found by some other way than Python's path.
    """
    found = _distributions(sys.path, compilers)
    for package in compilers:
        version = getattr(modules.get(package), "__version__", None)
        if f"{package} {version}" not in found:
            raise Unstable(f"compiled by {package} {version}, which is not the installed one")


def _distributions(path: Sequence[str], compilers: Sequence[str] = COMPILERS) -> list[str]:
    """The distributions on ``path`` that have a part in compiling."""
    found: list[str] = []
    missing = set(compilers)
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        matches = [match for name in sorted(names) if (match := _DISTRIBUTION.fullmatch(name))]
        found += [f"{match['name']} {match['version']}" for match in matches]
        versioned = {match["name"] for match in matches}
        # A folder of scripts has a file `numba`, and is on the path of a process that began with a script of it.
        for package in {name for name in missing & set(names) if os.path.isdir(os.path.join(folder or ".", name))}:
            if package not in versioned:
                raise Unstable(f"compiled by {package} in {folder}, which tells no version")
            missing.discard(package)
    if missing:
        raise Unstable(f"compiled by {min(missing)}, which is nowhere on Python's path")
    return found


def _own_source() -> Iterator[str]:
    package = Path(__file__).parents[2]
    parts = [package / name for name in _OWN_SOURCE]
    files = [file for part in parts for file in (sorted(part.rglob("*.py")) if part.is_dir() else [part])]
    try:
        for file in files:
            yield f"{file.relative_to(package)} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    except OSError as error:
        raise Unstable(f"compiled by a qgraph whose source cannot be read: {error.strerror}") from None


def _settings() -> Iterator[str]:
    """What the environment tells Numba, and where it says that the toolkit is."""
    for name, value in sorted(os.environ.items()):
        if name.startswith("NUMBA_") or name in _TOOLKIT:
            yield f"{name}={value}"
    try:
        yield Path(_NUMBA_SETTINGS).read_text(errors="replace")
    except OSError:
        yield ""


def _extended_by(modules: Mapping[str, Any]) -> list[str]:
    """The packages that have taught Numba other meanings of what it knows; nothing where it was not imported."""
    found = set()
    for name in ("numba.core.typing.templates", "numba.cuda.typing.templates"):
        registry = getattr(modules.get(name), "builtin_registry", None)
        if registry is not None:
            found |= _owners((*registry.functions, *registry.attributes))
    return sorted(found - _KNOWN_EXTENSIONS)


def _owners(templates: Iterable[Any]) -> set[str]:
    """The packages whose code the templates run to type a call."""
    found = set()
    for template in templates:
        function = numba.typing_function(template)
        module = getattr(function, "__globals__", {}).get("__name__") or template.__module__
        found.add(str(module).partition(".")[0])
    return found


# --- files ---------------------------------------------------------------------------------------------------------------


def stamps(paths: Iterable[str]) -> list[Stamp]:
    """What tells these files from others that take their places."""
    found = []
    for path in paths:
        about = os.stat(path)
        found.append((path, about.st_size, about.st_mtime_ns))
    return found


def unchanged(files: Iterable[Sequence[Any]]) -> bool:
    """Whether every file is as it was when it was stamped."""
    try:
        return all(stamps([path]) == [(path, size, time)] for path, size, time in files)
    except OSError:
        return False
