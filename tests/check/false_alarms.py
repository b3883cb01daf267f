"""Runs feature tests through ``kernel.check``: it must find nothing, and its run leaves what plain Python leaves.

``python -m tests.check.false_alarms tests/features tests/examples``, of which ``--every N`` takes one in so many. Not a test:
it compiles each kernel once more, and takes an hour for all. Tests that look at what a kernel did besides (``stats``,
``last_launch``) fail: it is not called. For random programs: ``python -m tests.properties.fuzz --check``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from typing import Any

import pytest

from qgraph.checking import checker
from qgraph.errors import OrderDependentWarning
from qgraph.kernel import Kernel
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.results import assembler, with_arrays

OUTCOMES: Counter[str] = Counter()
ALARMS: list[str] = []


class FalseAlarm(AssertionError):
    """The checker found something in a program in which there is nothing."""


def run_checked(kernel: Any, *args: Any, **keywords: Any) -> Any:
    """Call ``kernel`` as the checker runs it: its results are in the arguments, and what it returns comes back.

    Raises:
        FalseAlarm: the checker found something.
    """
    given = kernel._bind(args, keywords)
    values, run = kernel._with_ones(lambda: _prepared(kernel, given))
    errors, raised = run.in_order()
    if errors:
        raise FalseAlarm("\n".join(map(str, errors))) from errors[0]
    if raised is not None:
        raise raised
    for value, copy in zip(values, run._values, strict=False):
        if isinstance(value, ArrayView) and not value.readonly and value.host is not None:
            value.host[...] = copy.host
    returned = _returned(run)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", OrderDependentWarning)
        run.other_orders()
    if told:
        raise FalseAlarm("\n".join(str(each.message) for each in told))
    return returned


def _prepared(kernel: Any, given: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    variant, values = kernel._describe_only(given, "cpu", checks=True)
    return values, checker._Run(variant, values)


def _returned(run: Any) -> Any:
    result = run.program.result
    if result is None or not [*result.arrays()]:
        return assembler(result)(run._numbers)
    return with_arrays(result, run._numbers, {name: view.host.copy() for name, _, view in run._arrays()})


def _counted(kernel: Any, *args: Any, **keywords: Any) -> Any:
    """The same of a test, which may catch what is raised: kept for the end."""
    try:
        returned = run_checked(kernel, *args, **keywords)
    except FalseAlarm as alarm:
        ALARMS.append(f"{kernel}: {alarm}")
        raise
    OUTCOMES["kernels"] += 1
    return returned


class Hook:
    """A plugin of pytest: each call of a kernel is checked, in one in ``every`` tests."""

    def __init__(self, every: int) -> None:
        self._every = every

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the others, and tests without a backend."""
        kept = [item for item in items if {"backend", "run"} & {*getattr(item, "fixturenames", ())}][:: self._every]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_collection_finish(self) -> None:
        """Take the place of calls."""
        Kernel.__call__ = _counted  # type: ignore[method-assign]


def main() -> int:
    """Run it; prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    options, rest = parser.parse_known_args()
    pytest.main(["-q", "-p", "no:cacheprovider", *rest], plugins=[Hook(options.every)])
    print(*ALARMS, sep="\n\n")
    print(dict(OUTCOMES))
    return 1 if ALARMS else 0


if __name__ == "__main__":
    sys.exit(main())
