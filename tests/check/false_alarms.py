"""Runs feature tests through ``kernel.check``: it must find nothing, and its run leaves what plain Python leaves.

``python -m tests.check.false_alarms tests/features tests/examples``, of which ``--every N`` takes one in so many; with
``--programs N`` that many random programs instead. Not a test: it compiles each kernel once more, and takes an hour for all.
Tests that look at what a kernel did besides (``stats``, ``last_launch``) fail: it is not called.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections import Counter
from typing import Any

import pytest

from qgraph.checking import checker
from qgraph.errors import OrderDependentWarning
from qgraph.kernel import Kernel
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.results import assembler

OUTCOMES: Counter[str] = Counter()
ALARMS: list[str] = []


def run_checked(kernel: Any, *args: Any, **keywords: Any) -> Any:
    """Call ``kernel`` as the checker runs it: its results are in the arguments, and what it returns comes back."""
    variant, values = kernel._describe_only(kernel._bind(args, keywords), "cpu", checks=True)
    run = checker._Run(variant, values)
    errors, raised = run.in_order()
    for error in errors:
        OUTCOMES[type(error).__name__] += 1
        ALARMS.append(f"{kernel}: {error}")
    if raised is not None and not errors:
        raise raised
    for value, copy in zip(values, run._values, strict=False):
        if isinstance(value, ArrayView) and not value.readonly and value.host is not None:
            value.host[...] = copy.host
    returned = assembler(run.program.result)(run._numbers)
    if not errors:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", OrderDependentWarning)
            run.other_orders()
        OUTCOMES["kernels"] += 1
        for each in told:
            OUTCOMES["orders"] += 1
            ALARMS.append(f"{kernel}: {each.message}")
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
        Kernel.__call__ = run_checked  # type: ignore[method-assign]


def _programs(count: int) -> None:
    from tests.properties import running
    from tests.properties.test_random_programs import drawn

    Kernel.__call__ = run_checked  # type: ignore[method-assign]
    runner = running.Runner("cpu")
    for number, program in enumerate(drawn(count)):
        known = len(ALARMS)
        try:
            runner(program)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is an alarm
            ALARMS.append(f"program {number}: {type(error).__name__}: {error}")
        OUTCOMES["programs"] += 1
        if len(ALARMS) > known:
            ALARMS.append(program.source)
            print(*ALARMS[known:], sep="\n", flush=True)
    runner.close()


def main() -> int:
    """Run it; prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    options, rest = parser.parse_known_args()
    if options.programs:
        with contextlib.suppress(KeyboardInterrupt):
            _programs(options.programs)
    else:
        pytest.main(["-q", "-p", "no:cacheprovider", *rest], plugins=[Hook(options.every)])
    print(*ALARMS, sep="\n\n")
    print(dict(OUTCOMES))
    return 1 if ALARMS else 0


if __name__ == "__main__":
    sys.exit(main())
