"""What users see of rows of the corpus: a call is refused before anything changed, or gives what plain Python gives."""

from __future__ import annotations

import importlib.util
import re
import textwrap
import warnings

import numpy as np
import pytest

import qgraph
from tests.dependence import corpus

CALLED = textwrap.dedent(
    """
    import qgraph
    from qgraph import ndrange, serial

    @qgraph.func
    def put(r, k, e):
        r[k] = e

    @qgraph.func
    def left(r, k):
        if k > 0:
            return r[k - 1]
        return r[k]

    @qgraph.func
    def dot(r, q):
        s = 0.0
        for k in range(len(r)):
            s += r[k] * q[k]
        return s
    """
)
SHAPES = {"x": (30,), "y": (30,), "s": (2,), "a": (9, 9)}
SCALARS = ("n", "m", "q", "f")


def kernel_of(source: str, folder) -> tuple[object, list[str]]:
    """The loop as a kernel of a module, and the names of its parameters."""
    names = [name for name in (*SHAPES, *SCALARS) if re.search(rf"\b{name}\b", source)]
    path = folder / "loops.py"
    path.write_text(f"{CALLED}\n\ndef kernel({', '.join(names)}):\n{textwrap.indent(source, '    ')}\n")
    spec = importlib.util.spec_from_file_location("loops", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return qgraph.kernel(backend="cpu")(module.kernel), names


def arguments(names: list[str], scalars: dict[str, int]) -> list[object]:
    arrays = {name: np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for name, shape in SHAPES.items()}
    return [arrays[name] if name in arrays else scalars[name] for name in names]


def writable(source: str) -> bool:
    """Whether the row uses only what is at hand here, and says nothing of aliases."""
    names = set(re.findall(r"\b[a-z]\w*\b(?=[\[(])", source)) - {"range", "len", "max", "min", "abs", "int"}
    return names <= {*SHAPES, "put", "left", "dot", "ndrange", "serial"} and "#" not in source and "[:" not in source


# Each condition once or twice: a kernel takes a second to compile.
ROWS = [
    (condition, source)
    for condition, sources in corpus.REFUSED.items()
    for source in [row for row in sources if writable(row)][:: max(1, len(sources) // 3)]
]


@pytest.mark.parametrize(("condition", "source"), ROWS)
def test_a_call_is_refused_or_right(condition: str, source: str, tmp_path) -> None:
    kernel, names = kernel_of(source, tmp_path)
    shapes = {name: type("Array", (), {"shape": shape}) for name, shape in SHAPES.items()}
    seen = set()
    for scalars in ({"n": 9, "m": 3, "q": 2, "f": True}, {"n": 0, "m": 0, "q": 1, "f": False}):
        given, expected = arguments(names, scalars), arguments(names, scalars)
        refused = bool(eval(condition, {}, {**shapes, **scalars}))
        if refused in seen:
            continue
        seen.add(refused)
        if refused:
            with pytest.raises(qgraph.DataRaceError, match="different|not independent"):
                kernel(*given)
        else:
            assert "refused where" in str(kernel.plan(*given))
            kernel(*given)
            kernel.reference(*expected)
        for one, other in zip(given, expected):
            np.testing.assert_array_equal(one, other)
    assert True in seen


@pytest.mark.parametrize("source", [row for row in corpus.UNDECIDED if row.startswith("for i in range(n):\n  if y[i] > 0: s")])
def test_an_undecided_loop_is_told(source: str, tmp_path) -> None:
    kernel, names = kernel_of(source, tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(*arguments(names, {"n": 3}))
    assert [each.category for each in caught] == [qgraph.AssumedParallelWarning]


# --- numbers of NumPy's that wrap ---------------------------------------------------------------------------------------


def as_often_as_a_difference(x, n, m):
    for i in range(n - m):
        x[0] = i


def in_a_difference_is_left(x, n, m):
    k = n - m
    for i in range(x.shape[0]):
        if k > 0:
            x[0] = i


@pytest.mark.parametrize("function", [as_often_as_a_difference, in_a_difference_is_left])
def test_differences_of_unsigned_scalars_wrap(rig, function):
    """3 - 5 is 254 of them, and so often is the element written."""
    kernel = rig.kernel(function)
    x = rig.device(np.zeros(8))
    with np.errstate(over="ignore"), pytest.raises(qgraph.DataRaceError):
        kernel(x, np.uint8(3), np.uint8(5))
    kernel(x, 3, 5)
    assert (qgraph.to_numpy(x) == 0).all()


def from_the_end(x, y, n):
    for i in range(n):
        x[n - 1 - i] = y[i]
    for i in range(n // 2):
        x[(i + n) % n] += 1


def test_indices_of_a_narrow_scalar_are_known(rig):
    kernel = rig.check(from_the_end, lambda: (np.zeros(9), np.arange(9.0), np.int32(9)))
    tasks = kernel.plan(np.zeros(9), np.arange(9.0), np.int32(9)).tasks
    assert [task.verdict.kind for task in tasks] == ["independent", "independent"]
