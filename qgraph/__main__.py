"""``python -m qgraph``: ``info``, ``bench``, ``cache``, and of a kernel ``inspect``, ``check`` and ``profile``."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import qgraph
from qgraph.errors import ArgumentError, QGraphError
from qgraph.info import table
from qgraph.records import dataclass
from qgraph.source import children_of

USAGE_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns 0, 1 where qgraph refused or found something, 2 where the command line was wrong."""
    options = _parser().parse_args(arguments)
    try:
        command: _Command = options.command
        found = command(options)
        if found is not None:
            print(json.dumps(found.plain, indent=2) if options.json else found.text)
    except _UsageError as error:
        print(f"qgraph: {error}", file=sys.stderr)
        return USAGE_ERROR
    except QGraphError as error:
        if options.json:
            errors = [_as_dict(each) for each in error.findings or (error,)]
            print(json.dumps({"errors": errors, "unchecked": list(error.unchecked)}, indent=2))
            return 1
        for each in error.findings or (error,):
            print(f"{type(each).__name__}: {each}", file=sys.stderr)
        for note in error.unchecked:
            print(f"not checked: {note}", file=sys.stderr)
        return 1
    return 0


class _UsageError(Exception):
    """The command line names something that is not there."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is printed, and what ``--json`` prints instead."""

    text: object
    plain: dict[str, Any]


_Command = Callable[[argparse.Namespace], _Answer | None]


def _as_dict(error: QGraphError) -> dict[str, Any]:
    place = None if error.span is None else {"file": error.span.file, "line": error.span.line, "column": error.span.column}
    return {"error": type(error).__name__, "found": error.found, "place": place, "hint": error.hint}


_STATUS = "exit status: 0; 1 where qgraph refuses or finds something; 2 where the command line is wrong"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m qgraph", description="What qgraph sees, on this machine and in a kernel.", epilog=_STATUS
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: _Command, text: str, example: str) -> argparse.ArgumentParser:
        epilog = f"example: python -m qgraph {example}\n{_STATUS}"
        made = commands.add_parser(
            name, help=text, description=text, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        made.add_argument("--json", action="store_true", help="print one JSON object, errors too")
        made.set_defaults(command=command)
        return made

    add("info", _info, "device, driver, toolkit, and which path loops take", "info --json")
    look = add(
        "inspect",
        _inspect,
        "a kernel's parameters, options and loops; with --args, its graph",
        'inspect heat:step --args "np.zeros((64, 64)), 3" --explain',
    )
    look.add_argument("kernel", metavar="MODULE:KERNEL", help="as in package.module:function or module:Class.method")
    look.add_argument(
        "--args",
        metavar="EXPR",
        help='example arguments, such as "np.zeros(8), 3", or "*name()" for what a function of the module gives; np is NumPy',
    )
    look.add_argument("--dot", action="store_true", help="with --args: print the graph in Graphviz' language instead")
    look.add_argument("--svg", metavar="PATH", help="with --args: write a picture of the graph to this file; - prints it")
    look.add_argument("--explain", action="store_true", help="with --args: the graph with its reasons instead")
    look.add_argument("--ptx", action="store_true", help="with --args: the code of its kernels instead")
    check = add(
        "check",
        _check,
        "run a kernel on copies of example arguments: races, bounds, unwritten reads",
        'check heat:step --args "*sample()"',
    )
    profile = add(
        "profile",
        _profile,
        "call a kernel twice: the time of each loop of the second call, by source line",
        'profile heat:step --args "*sample()" --perfetto trace.json',
    )
    profile.add_argument(
        "--perfetto", metavar="PATH", help="write a trace for https://ui.perfetto.dev to this file; - prints it"
    )
    profile.add_argument("--gaps", action="store_true", help="note the ends of kernels, too: launch gaps, on CUDA")
    bench = add("bench", _bench, "the time of loops in one call, and of a call a loop, on this machine", "bench --backend cpu")
    bench.add_argument("--backend", choices=["cuda", "cpu"], help="where; by default on a GPU if there is one")
    for command in (check, profile):
        command.add_argument("kernel", metavar="MODULE:KERNEL", help="as for inspect")
        command.add_argument("--args", metavar="EXPR", required=True, help="example arguments as for inspect")
    cache = add("cache", _cache, "compiled kernels on the disk: where, how many, how large; `cache clear`", "cache clear")
    cache.add_argument("action", nargs="?", choices=["clear"], help="remove them all")
    return parser


# --- info ---------------------------------------------------------------------------------------------------------------


def _info(_: argparse.Namespace) -> _Answer:
    found = qgraph.info()
    return _Answer(found, dict(found))


def _bench(options: argparse.Namespace) -> _Answer:
    from qgraph.profiling.bench import bench

    found = bench(options.backend or ("cuda" if "cuda" in qgraph.info()["backends"] else "cpu"))
    return _Answer(found, found.to_dict())


# --- cache --------------------------------------------------------------------------------------------------------------


def _cache(options: argparse.Namespace) -> _Answer:
    from qgraph.lowering.cache.disk_cache import store

    found = store()
    if found is None:
        return _Answer("the cache is off", {"folder": None})
    folder = str(found.folder)
    if options.action == "clear":
        removed = found.clear()
        return _Answer(f"removed {removed} entries from {folder}", {"folder": folder, "removed": removed})
    usage = found.usage()
    limit = f"{found.limit / 2**20:.0f} MiB, set by QGRAPH_CACHE_SIZE"
    text = table({"folder": folder, "entries": usage.entries, "size": f"{usage.size / 2**20:.1f} MiB", "limit": limit})
    return _Answer(text, {"folder": folder, "entries": usage.entries, "bytes": usage.size, "limit": found.limit})


# --- inspect and check -------------------------------------------------------------------------------------------------


def _inspect(options: argparse.Namespace) -> _Answer | None:
    for option in ("dot", "svg", "explain", "ptx"):
        if getattr(options, option) and options.args is None:
            raise _UsageError(f'--{option} shows a graph, which needs arguments: add --args "np.zeros(8), 3"')
    kernel = _load(options.kernel)
    described = _describe(options.kernel, kernel)
    if options.args is None:
        return described
    args, keywords = _example_arguments(options)
    if options.dot:
        text = kernel.plan(*args, **keywords).to_dot().rstrip("\n")
        return _Answer(text, {"dot": text})
    if options.svg:
        return _written(options, "svg", kernel.plan(*args, **keywords).to_svg())
    if options.ptx:
        codes = kernel.ptx(*args, **keywords)
        return _Answer("\n".join(f"// {name}\n{code}" for name, code in codes.items()), {"ptx": codes})
    if options.explain or options.json:
        found = kernel.explain(*args, **keywords)
        return _Answer(found, {**described.plain, "explain": found.to_dict()})
    return _Answer(f"{described.text}\n\n{kernel.plan(*args, **keywords)}", {})


def _written(options: argparse.Namespace, option: str, text: str) -> _Answer | None:
    """``text`` in the file that an option names: then that is all, else it is what is printed."""
    path = getattr(options, option)
    _write(path, text)
    return _Answer("", {option: path}) if options.json and path != "-" else None


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text, end="")
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _UsageError(f"{path} cannot be written: {error.strerror}") from error


def _check(options: argparse.Namespace) -> _Answer:
    kernel = _load(options.kernel)
    args, keywords = _example_arguments(options)
    report = kernel.check(*args, **keywords)
    return _Answer(report, {"errors": [], **dataclasses.asdict(report)})


def _profile(options: argparse.Namespace) -> _Answer | None:
    kernel = _load(options.kernel)
    for _ in range(2):
        # New arguments each time: the first call compiles, and may have changed them.
        args, keywords = _example_arguments(options)
        profile = (kernel.profile_gaps if options.gaps else kernel.profile)(*args, **keywords)
    if options.perfetto:
        return _written(options, "perfetto", profile.to_perfetto())
    return _Answer(profile, profile.to_dict())


def _load(place: str) -> Any:
    """The kernel that ``MODULE:KERNEL`` names."""
    module_name, colon, path = place.partition(":")
    if not colon or not module_name or not path:
        module_name, dot, path = place.rpartition(".")
        instead = f": {module_name}:{path}?" if dot and path != "py" else ""
        raise _UsageError(f"{place!r} is not of the form MODULE:KERNEL{instead}")
    # As `python -m` does for modules, so that files in the current folder are found.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        module = module_name.removesuffix(".py").replace(os.sep, ".")
        instead = f"; of a file write its module, {module}:{path}" if module_name.endswith(".py") else ""
        raise _UsageError(f"there is no module {error.name!r}{instead}") from error
    except QGraphError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module raises is reported, by name
        raise ArgumentError(
            f"{module_name} cannot be imported: {type(error).__name__}: {error}",
            hint=f"its traceback: python -c 'import {module_name}'",
        ) from error
    before = ""
    for name in path.split("."):
        if not hasattr(found, name):
            names = (key for key in getattr(found, "__dict__", {}) if _is_kernel(getattr(found, key, None)))
            kernels = sorted(before + key for key in names)
            raise _UsageError(f"{module_name} has no {path!r}; its kernels: {', '.join(kernels) or 'none'}")
        found, before = getattr(found, name), f"{before}{name}."
    if not _is_kernel(found):
        raise _UsageError(f"{place} is no kernel but of type {type(found).__name__}: is @qgraph.kernel missing?")
    return found


def _is_kernel(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("plan", "reference"))


def _example_arguments(options: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values of ``--args``, written as between the parentheses of a call; names are those of the kernel's module."""
    import numpy

    text: str = options.args
    names = vars(sys.modules[options.kernel.partition(":")[0]])
    try:
        # The user's own command line, on the user's own machine: it may say what Python may say.
        collect = eval(f"lambda call: call({text})", {"np": numpy, "numpy": numpy, "qgraph": qgraph, **names})
        result: tuple[tuple[Any, ...], dict[str, Any]] = collect(lambda *args, **keywords: (args, keywords))
    except QGraphError:
        raise
    except SyntaxError as error:
        raise _UsageError(f"--args {text!r} is not Python: {error.msg}") from error
    except (Exception, SystemExit) as error:  # whatever the user's expression raises is reported, by name
        raise ArgumentError(f"--args {text!r} failed: {type(error).__name__}: {error}") from error
    return result


def _describe(place: str, kernel: Any) -> _Answer:
    function = inspect.unwrap(kernel)
    file, lines, first = _source(function)
    head = {
        "kernel": place,
        "source": f"{file}:{first}",
        "parameters": str(inspect.signature(function)),
        "options": ", ".join(f"{name}={value!r}" for name, value in dataclasses.asdict(kernel.options).items()),
    }
    found = list(_loops(lines, first))
    loops = [f"  line {number:>4}  {'  ' * depth}{text}" for number, depth, text in found]
    plain: dict[str, Any] = {**head, "options": dataclasses.asdict(kernel.options)}
    plain["loops"] = [{"line": number, "depth": depth, "text": text} for number, depth, text in found]
    return _Answer("\n".join([table(head), "", "loops", *(loops or ["  none"])]), plain)


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
        for child in children_of(node):
            if isinstance(child, (ast.For, ast.While)):
                yield child.lineno, depth, lines[child.lineno - first].strip()
                yield from walk(child, depth + 1)
            else:
                yield from walk(child, depth)

    yield from walk(tree, 0)


def _run() -> int:
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has read enough, as `| head` does. What is left goes nowhere, or Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    raise SystemExit(_run())
