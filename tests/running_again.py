"""A call that comes back, outside of the generated functions that kernels put it into."""

from __future__ import annotations


def function_of(again, *arrays):
    """A function that runs an ``ReplayCode`` once more, with these arrays; gives what the launch gives."""
    given = [f"given{number}" for number in range(len(arrays))]
    names = {**again.names, **dict(zip(given, arrays, strict=True))}
    exec("\n    ".join(["def _function():", *again.statements(given), "return numbers"]), names)
    # As kernels do: it dies when nobody needs it.
    return names.pop("_function")
