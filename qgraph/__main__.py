"""``python -m qgraph info``, ``inspect``, ``check`` and ``profile MODULE:KERNEL --args EXPR``, and ``cache [clear]``."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import qgraph
from qgraph.errors import ArgumentError, QGraphError
from qgraph.info import table

USAGE_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns 0, 1 where qgraph refused something, 2 where the command line was wrong."""
    options = _parser().parse_args(arguments)
    try:
        command: Callable[[argparse.Namespace], None] = options.command
        command(options)
    except _UsageError as error:
        print(f"qgraph: {error}", file=sys.stderr)
        return USAGE_ERROR
    except QGraphError as error:
        for each in error.findings or (error,):
            print(f"{type(each).__name__}: {each}", file=sys.stderr)
        for note in error.unchecked:
            print(f"not checked: {note}", file=sys.stderr)
        return 1
    return 0


class _UsageError(Exception):
    """The command line names something that is not there."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m qgraph", description="What qgraph sees, on this machine and in a kernel.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    info = commands.add_parser("info", help="device, driver, toolkit, and which path loops take")
    info.set_defaults(command=_info)
    look = commands.add_parser("inspect", help="a kernel's parameters, options and loops; with --args, its graph")
    look.add_argument("kernel", metavar="MODULE:KERNEL", help="as in package.module:function or module:Class.method")
    look.add_argument("--args", metavar="EXPR", help='example arguments, such as "np.zeros(8), 3"; np is NumPy')
    look.add_argument("--dot", action="store_true", help="with --args: print the graph in Graphviz' language instead")
    look.add_argument("--svg", metavar="PATH", help="with --args: write a picture of the graph to this file; - prints it")
    look.set_defaults(command=_inspect)
    check = commands.add_parser("check", help="run a kernel on copies of example arguments: races, bounds, unwritten reads")
    check.set_defaults(command=_check)
    profile = commands.add_parser(
        "profile", help="call a kernel twice: the time of each loop of the second call, by source line"
    )
    profile.add_argument(
        "--perfetto", metavar="PATH", help="write a trace for https://ui.perfetto.dev to this file; - prints it"
    )
    profile.set_defaults(command=_profile)
    for command in (check, profile):
        command.add_argument("kernel", metavar="MODULE:KERNEL", help="as for inspect")
        command.add_argument(
            "--args",
            metavar="EXPR",
            required=True,
            help="example arguments as for inspect, or `*name()` for what a function of the module gives",
        )
    cache = commands.add_parser("cache", help="compiled kernels on the disk: where, how many, how large; `cache clear`")
    cache.add_argument("action", nargs="?", choices=["clear"], help="remove them all")
    cache.set_defaults(command=_cache)
    return parser


# --- info ---------------------------------------------------------------------------------------------------------------


def _info(_: argparse.Namespace) -> None:
    print(qgraph.info())


# --- cache --------------------------------------------------------------------------------------------------------------


def _cache(options: argparse.Namespace) -> None:
    from qgraph.lowering.cache.disk_cache import store

    found = store()
    if found is None:
        print("the cache is off")
        return
    if options.action == "clear":
        print(f"removed {found.clear()} entries from {found.folder}")
        return
    usage = found.usage()
    limit = f"{found.limit / 2**20:.0f} MiB, set by QGRAPH_CACHE_SIZE"
    print(table({"folder": found.folder, "entries": usage.entries, "size": f"{usage.size / 2**20:.1f} MiB", "limit": limit}))


# --- inspect and check -------------------------------------------------------------------------------------------------


def _inspect(options: argparse.Namespace) -> None:
    for option in ("dot", "svg"):
        if getattr(options, option) and options.args is None:
            raise _UsageError(f'--{option} draws a graph, which needs arguments: add --args "np.zeros(8), 3"')
    kernel = _load(options.kernel)
    if options.args is None:
        print(_describe(options.kernel, kernel))
        return
    args, keywords = _example_arguments(options.args)
    plan = kernel.plan(*args, **keywords)
    if options.dot:
        print(plan.to_dot(), end="")
        return
    if options.svg:
        _write(options.svg, plan.to_svg())
        return
    print(_describe(options.kernel, kernel))
    print()
    print(plan)


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text, end="")
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _UsageError(f"{path} cannot be written: {error.strerror}") from error


def _check(options: argparse.Namespace) -> None:
    kernel = _load(options.kernel)
    module = sys.modules[options.kernel.partition(":")[0]]
    args, keywords = _example_arguments(options.args, vars(module))
    print(kernel.check(*args, **keywords))


def _profile(options: argparse.Namespace) -> None:
    kernel = _load(options.kernel)
    names = vars(sys.modules[options.kernel.partition(":")[0]])
    for _ in range(2):
        # New arguments each time: the first call compiles, and may have changed them.
        args, keywords = _example_arguments(options.args, names)
        profile = kernel.profile(*args, **keywords)
    if options.perfetto:
        _write(options.perfetto, profile.to_perfetto())
        return
    print(profile)


def _load(place: str) -> Any:
    """The kernel that ``MODULE:KERNEL`` names."""
    module_name, colon, path = place.partition(":")
    if not colon or not module_name or not path:
        raise _UsageError(f"{place!r} is not of the form MODULE:KERNEL")
    # As `python -m` does for modules, so that files in the current folder are found.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _UsageError(f"there is no module {error.name!r}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            kernels = sorted(key for key, value in getattr(found, "__dict__", {}).items() if _is_kernel(value))
            raise _UsageError(f"{module_name} has no {path!r}; its kernels: {', '.join(kernels) or 'none'}")
        found = getattr(found, name)
    if not _is_kernel(found):
        raise _UsageError(f"{place} is a {type(found).__name__}, not a kernel: is @qgraph.kernel missing?")
    return found


def _is_kernel(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("plan", "reference"))


def _example_arguments(text: str, names: Mapping[str, Any] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values of ``text``, written as between the parentheses of a call; ``names`` are those of the kernel's module."""
    import numpy

    try:
        # The user's own command line, on the user's own machine: it may say what Python may say.
        collect = eval(f"lambda call: call({text})", {"np": numpy, "numpy": numpy, "qgraph": qgraph, **(names or {})})
        result: tuple[tuple[Any, ...], dict[str, Any]] = collect(lambda *args, **keywords: (args, keywords))
    except QGraphError:
        raise
    except SyntaxError as error:
        raise _UsageError(f"--args {text!r} is not Python: {error.msg}") from error
    except Exception as error:  # whatever the user's expression raises is reported, by name
        raise ArgumentError(f"--args {text!r} failed: {type(error).__name__}: {error}") from error
    return result


def _describe(place: str, kernel: Any) -> str:
    function = inspect.unwrap(kernel)
    file, lines, first = _source(function)
    head = {
        "kernel": place,
        "source": f"{file}:{first}",
        "parameters": str(inspect.signature(function)),
        "options": ", ".join(f"{name}={value!r}" for name, value in dataclasses.asdict(kernel.options).items()),
    }
    loops = [f"  line {number:>4}  {'  ' * depth}{text}" for number, depth, text in _loops(lines, first)]
    return "\n".join([table(head), "", "loops", *(loops or ["  none"])])


def _source(function: Callable[..., Any]) -> tuple[str, list[str], int]:
    try:
        lines, first = inspect.getsourcelines(function)
    except OSError as error:
        raise QGraphError(f"the source of {function.__name__}() cannot be read") from error
    return function.__code__.co_filename, lines, first


def _loops(lines: list[str], first: int) -> Iterator[tuple[int, int, str]]:
    """(line, depth, text) of every for and while of a function whose source is ``lines``."""
    # Kept under an `if`, so that a method's indentation may stay.
    head = ["if True:\n"] if lines[0][:1] in " \t" else []
    tree = ast.increment_lineno(ast.parse("".join(head + lines)), first - 1 - len(head))

    def walk(node: ast.AST, depth: int) -> Iterator[tuple[int, int, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.For, ast.While)):
                yield child.lineno, depth, lines[child.lineno - first].strip()
                yield from walk(child, depth + 1)
            else:
                yield from walk(child, depth)

    yield from walk(tree, 0)


if __name__ == "__main__":
    raise SystemExit(main())
