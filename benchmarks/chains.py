"""Kernels of K loops, and their do-while, written to a file so that they are functions with a source like any user's."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

N = 1024
BLOCK = 256


def chain(loops: int) -> Callable[..., Any]:
    """``chain(x, a)``: ``loops`` times in a row, a loop ``x[i] = x[i] + a``."""
    return _function(f"chain_{loops}", "x, a", _loops(loops, 1))


def counted(loops: int) -> Callable[..., Any]:
    """``counted(x, a, counter)``: the chain, repeated until ``counter``, one less each time, is zero."""
    body = ["    while qgraph.graph_do_while(counter):", *_loops(loops, 2), "        counter[()] -= 1"]
    return _function(f"counted_{loops}", "x, a, counter", body)


def nested(depth: int) -> Callable[..., Any]:
    """``nested(x, a, turns, c1, ..., cd)``: a loop ``x[i] = x[i] + a`` in so many do-whiles, each of ``turns`` iterations."""
    counters = [f"c{number}" for number in range(1, depth + 1)]
    body, end = [], []
    for level, counter in enumerate(counters, 1):
        pad = "    " * level
        body += [f"{pad}{counter}[()] = turns", f"{pad}while qgraph.graph_do_while({counter}):"]
        end.insert(0, f"{pad}    {counter}[()] -= 1")
    return _function(f"nested_{depth}", ", ".join(["x, a, turns", *counters]), [*body, *_loops(1, depth + 1), *end])


def of_leaves(count: int) -> Callable[..., Any]:
    """``of_leaves(fields)``: the first of ``count`` arrays ``x0``, ``x1``, ... becomes its sum with the last."""
    body = ["    for i in range(fields.x0.shape[0]):", f"        fields.x0[i] = fields.x0[i] + fields.x{count - 1}[i]"]
    return _function(f"of_{count}_leaves", "fields", body)


def mirrored(loops: int) -> Callable[..., Any]:
    """``mirrored(x, y, a, counter)``: the same in ``x``, by way of ``y`` and back to front, so that no two loops can be joined.

    An odd loop too many is one of ``x`` alone.
    """
    body = ["    while qgraph.graph_do_while(counter):"]
    for read, written in (("x", "y"), ("y", "x")) * (loops // 2) + (("x", "x"),) * (loops % 2):
        place = "i" if read == written else "x.shape[0] - 1 - i"
        body += ["        for i in range(x.shape[0]):", f"            {written}[{place}] = {read}[i] + a"]
    return _function(f"mirrored_{loops}", "x, y, a, counter", [*body, "        counter[()] -= 1"])


def independent(loops: int) -> Callable[..., Any]:
    """``independent(x0, x1, ..., a)``: as many loops as arrays, each over its own."""
    names = [f"x{number}" for number in range(loops)]
    body = [line for x in names for line in (f"    for i in range({x}.shape[0]):", f"        {x}[i] = {x}[i] + a")]
    return _function(f"independent_{loops}", ", ".join([*names, "a"]), body)


def _loops(loops: int, depth: int) -> list[str]:
    pad = "    " * depth
    return [f"{pad}for i in range(x.shape[0]):", f"{pad}    x[i] = x[i] + a"] * loops


def _function(name: str, parameters: str, body: list[str]) -> Callable[..., Any]:
    return load(name, ["import qgraph", "", "", f"def {name}({parameters}):", *body])


def load(name: str, lines: list[str]) -> Callable[..., Any]:
    """The function ``name`` of the Python source ``lines``."""
    file = _folder() / f"{name}.py"
    file.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, name)
    return found


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="qgraph-bench-"))
