"""When is a loop parallel: every row of the three verdicts, and random loops against what Python does."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qgraph import language
from qgraph.errors import DataRaceError
from qgraph.frontend.accesses import Axis, LoopFacts
from qgraph.frontend.races import Judgement, judge
from qgraph.frontend.walk import collect
from qgraph.program import Function
from qgraph.source import Span

WORDS = {
    "range": range,
    "ndrange": language.ndrange,
    "serial": language.serial,
    "atomic_add": language.atomic_add,
    "atomic_exch": language.atomic_exch,
    "min": min,
    "max": max,
    "len": len,
    "sqrt": np.sqrt,
}


def facts_of(source: str, ndim: str = "x:1 y:1 s:1 a:2 b:2", *, same: str = "", **names: object) -> LoopFacts:
    """The first loop of ``source``, as the frontend hands it over."""
    tree = ast.parse(textwrap.dedent(source))
    loop = tree.body[0]
    assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)
    dimensions = {name: int(n) for name, n in (pair.split(":") for pair in ndim.split())}
    aliases = dict(pair.split("=") for pair in same.split())
    word = loop.iter.func
    assert isinstance(word, ast.Name)
    zero, one = ast.Constant(0), ast.Constant(1)
    arguments = loop.iter.args
    if word.id == "range":
        bounds = [zero, *arguments] if len(arguments) == 1 else arguments
        ranges = [(bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else one)]
    else:
        ranges = [(*part.elts, one) if isinstance(part, ast.Tuple) else (zero, part, one) for part in arguments]
    target = loop.target
    index_tuple = ""
    if isinstance(target, ast.Tuple):
        variables = [name.id for name in target.elts if isinstance(name, ast.Name)]
    else:
        assert isinstance(target, ast.Name)
        index_tuple = target.id if word.id == "ndrange" else ""
        variables = [f"_{at}" for at in range(len(ranges))] if index_tuple else [target.id]
    axes = tuple(Axis(variable, *bounds) for variable, bounds in zip(variables, ranges, strict=True))
    return LoopFacts(
        axes=axes,
        body=loop.body,
        names={**WORDS, **names},
        ndim=dimensions,
        same=aliases,
        paths={},
        file="loop.py",
        span=Span.of(loop.iter, "loop.py"),
        text=ast.unparse(loop.iter),
        index_tuple=index_tuple,
    )


def verdict(source: str, ndim: str = "x:1 y:1 s:1 a:2 b:2", **more: object) -> str:
    """One word for a loop: its verdict, and the operators of its atomics."""
    try:
        judgement = judge(facts_of(source, ndim, **more))  # type: ignore[arg-type]
    except DataRaceError:
        return "dependent"
    return " ".join([judgement.verdict.kind, *(access.operator for access in judgement.atomics)])


def function(source: str, **names: object) -> Function:
    tree = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return Function(tree.name, tree, {**WORDS, **names}, "functions.py")


CASES = {
    "independent": [
        "for i in range(n): y[i] = x[i] + x[i - 1]",
        "for i in range(n): x[i] = x[i] * 2",
        "for i in range(n): x[i] *= 2",
        "for i in range(n): x[i] += y[i]",
        "for i in range(1, n - 1): y[i] = x[i - 1] + x[i + 1]",
        "for i, j in ndrange(n, m): a[i, j] = b[j, i]",
        "for i, j in ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)): b[i, j] = a[i - 1, j] + a[i, j + 1]",
        "for I in ndrange(*shape2): a[I] = b[I]".replace("*shape2", "a.shape[0], a.shape[1]"),
        "for i, j in ndrange(n, m): x[i * m + j] = a[i, j]",
        "for i, j in ndrange(n, m): x[i + j * n] = a[i, j]",
        "for i in range(n):\n  for j in range(m):\n    x[i * m + j] = a[i, j]",
        "for i in range(n):\n  for j in range(4):\n    x[4 * i + j] = y[i]",
        "for i in range(n):\n  for j in range(m):\n    x[j * n + i] = a[i, j]",
        "for i in range(0, n, 2): x[i] = x[i + 1]",  # red-black
        "for i in range(n): x[2 * i] = x[2 * i + 1]",
        "for i in range(n): x[i] = x[i + n]",
        "for i in range(n): x[i] = x[2 * n - i - 1 + 0]",
        "for i in range(8): x[i] = x[i + 8]",
        "for i in range(1, n): x[i] = x[i] - x[0]",
        "for i in range(x.shape[0] - 1): x[i] = x[-1]",
        "for i in range(n - 1, -1, -1): x[i] = y[i]",
        "for i in range(n): x[n - 1 - i] = y[i]",
        "for i in range(n):\n  row = a[i]\n  for j in range(m):\n    row[j] = row[j] + row[j - 1]",
        "for i in range(n): a[i, :] = 0",
        "for i in range(n):\n  if x[i] > 0: x[i] = 0",
        "for i in range(n):\n  k = i + 1\n  y[k] = x[k]",
        "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): y[i] += v[k] * x[c[k]]",
        "for i in range(n):\n  for j in range(i): a[i, j], a[j, i] = a[j, i], a[i, j]",  # in-place transpose
        "for i in range(n):\n  for j in range(i + 1, n): a[i, j] = a[j, i]",
        "for i in range(1): s[0] = s[0] + 1",
        "for i in range(5, 5): x[0] = i",
        "for i in range(n): x[i] = len(x)",
        "for i in range(lo, hi): x[i - lo] = y[i]",
        "for i in range(3, n): x[i] = x[2] + x[1]",
        "for i in range(n): print(x[i])",
        "for i in range(-1, x.shape[0] - 1): x[i] = 0",
        "for i, j in ndrange(n, m):\n  for k in range(3): t[i, j, k] = t[i, j, k] + t[i, j, k - 1]",
        "for i, j, k in ndrange(n, m, l): x[(i * m + j) * l + k] = 1",
        "for i, j, k in ndrange(t.shape[0], t.shape[1], t.shape[2]): t[i, j, k] = t[i, j, k] / 2",
        "for i in range(n): x[i], y[i] = y[i], x[i]",
        "for i in range(n): x[i] = sqrt(x[i])",
        "for i in range(n):\n  u, v2 = x, y\n  for k in range(3):\n    v2[i] = u[i]",
        "for i, j in ndrange((m, n), (n, m)): s[0] = i",  # one of the two is empty
    ],
    "dependent": [
        "for i in range(1, n): x[i] = x[i - 1]",
        "for i in range(n): x[i] = x[i + 1]",
        "for i in range(n): x[i] = x[i + 10]",
        "for i in range(n, 0, -1): x[i] = x[i - 1]",
        "for t in range(steps):\n  for i in range(n): x[i] = x[i] * 2",
        "for t in range(steps):\n  for i in range(n): x[i] = t",
        "for i in range(n): s[0] = i",
        "for i in range(n): s[0] *= 2",
        "for i in range(n): s[0] = s[0] + x[i]",
        "for i in range(n): x[i] = x[i] / x[0]",
        "for i in range(n): x[i] = x[i] / x[n - 1]",
        "for i in range(lo, n): x[i] = x[i] / x[lo]",
        "for i in range(x.shape[0]): x[i] = x[i] / x[-1]",
        "for i in range(n): x[i] = x[n - 1 - i]",
        "for i, j in ndrange(n, n): a[i, j] = a[j, i]",
        "for i, j in ndrange(a.shape[0], a.shape[1]): a[i, j] = a[j, i]",
        "for i, j in ndrange((1, n), (1, m)): a[i, j] = a[i - 1, j]",
        "for i, j in ndrange((1, n), (1, m)): a[i, j] = a[i, j] + a[i, j + 1]",
        "for i, j, k in ndrange(n, n, n): t[i, j, k] = t[i, j, k + 1] + t[i, j + 1, k]",
        "for i, j in ndrange(n, m): x[i] = j",
        "for i, j in ndrange(n, m): x[i + j] = j",
        "for i in range(n):\n  for j in range(i): x[j] = i",
        "for i in range(n):\n  s[0] += x[i]\n  y[i] = s[0]",
        "for i in range(n):\n  x[i] += 1\n  y[i] = x[i + 1]",
        "for i in range(n):\n  s[0] += 1\n  s[0] = max(s[0], x[i])",
        "for i in range(n): a[0, :] = x[i]",
        "for i in range(n):\n  row = a[0]\n  row[3] = x[i]",
        "for i in range(0, 10, 3): x[i] = x[i + 6]",
        "for i in range(n):\n  for j in range(3): x[2 * i + j] = 1",
    ],
    "assumed": [
        "for i in range(n): x[idx[i]] = y[i]",
        "for i in range(n):\n  if y[i] > 0: s[0] = 1",
        "for i in range(n):\n  if y[i] > 0: x[i] = x[i - 1]",
        "for i in range(n): x[i] = x[m]",
        "for i in range(n): x[i] = x[i + m]",
        "for i in range(lo, hi): x[i] = 1",
        "for i in range(n): x[i // 2] = 1",
        "for i in range(n):\n  k = i\n  if y[i] > 0: k = 0\n  x[k] = 1",
        "for i in range(n):\n  while y[i] > 0: s[0] = 1",
        "for i in range(n):\n  if y[i] > 0: continue\n  s[0] = 1",
        "for i in range(n):\n  for j in range(m):\n    if y[j] > 0: break\n    s[0] = 1",
        "for i in range(n):\n  atomic_add(x, i, 1)\n  y[i] = x[i + 1]",
        "for i in range(n): mystery(x, i)",
        "for i in range(n): y[i] = x[i] if idx[i] else mystery(y)",
        "for i in range(n):\n  r = x if y[i] > 0 else s\n  r[0] = 1",
        "for i in range(n): x[0:2] = y[i]",
        "for i in range(n): x.fill(i)",
        "for i in range(n): a.T[i, 0] = 1",
        "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): x[k] = i",
        "for i in range(0, n, q): x[i] = 1",
        "for i in range(n):\n  u, w = x, y\n  for k in range(3):\n    u[i] = w[i + 1]\n    u, w = w, u",
        "for i in range(n): (y[i] > 0) and s.fill(0)",
        "for i in range(n):\n  x[i] = 1\n  for r in a: r[0] = 1",
        "for i in range(n):\n  k = i\n  for q in range(3):\n    x[k] = 1\n    k = k + 1",
        "for i in range(x.shape[0], 2): s[0] = i",
        "for i in range(n):\n  k = x[i] > 0 and (m2 := i)\n  x[m2] = 1",
    ],
    "independent +": [
        "for i in range(n): s[0] += x[i]",
        "for i in range(n): x[idx[i]] += 1",  # histogram
        "for i in range(n):\n  for j in range(m): s[j] += a[i, j]",
        "for t in range(steps):\n  for i in range(n): x[i] += 1",
        "for i in range(n): s[()] += x[i]".replace("s[()]", "z[()]"),
    ],
    "independent + +": [
        "for i in range(n):\n  x[i] += 1\n  x[i + 1] += 1",
        "for i in range(n):\n  atomic_add(x, 0, 1)\n  x[i] += 1\n  x[idx[i]] += 1",
    ],
    "independent -": ["for i in range(n): s[0] -= x[i]"],
    "independent max": ["for i in range(n): s[0] = max(s[0], x[i])"],
    "independent min": ["for i in range(n): s[0] = min(x[i], s[0])"],
    "independent |": ["for i in range(n): s[idx[i]] |= 1"],
}
NDIM = "x:1 y:1 s:1 v:1 c:1 ptr:1 idx:1 a:2 b:2 t:3 z:0"


@pytest.mark.parametrize(("expected", "source"), [(kind, source) for kind, sources in CASES.items() for source in sources])
def test_verdicts(expected: str, source: str) -> None:
    assert verdict(source, NDIM, mystery=SimpleNamespace()) == expected


# --- random loops against what Python does -----------------------------------------------------------------------------

GROUP = {"+": "add", "-": "add", "|": "or", "max": "max"}
PUT = "def put(r, k, e):\n  r[k] = e"
GET = "def get(r, k):\n  return r[k] + r[k + 1]"
ADD = "def add(r, k, e):\n  r[k] += e"


@dataclass
class Touch:
    """One event of a run: which iteration touched the element, and how (``group``: of an update that may be reordered)."""

    iteration: object
    kind: str
    group: str


class Memory:
    """An array that remembers who touched what. Rows are views; ``sizes`` None: any index is in bounds, and is recorded."""

    def __init__(self, log: Log, name: str, ndim: int, sizes: tuple[int, ...] | None, prefix: tuple[int, ...] = ()) -> None:
        self.log, self.name, self.ndim, self.sizes, self.prefix = log, name, ndim, sizes, prefix

    @property
    def shape(self) -> tuple[int, ...]:
        assert self.sizes is not None
        return self.sizes[len(self.prefix) :]

    def key(self, index: object) -> tuple[int, ...]:
        key = self.prefix + (index if isinstance(index, tuple) else (index,))  # type: ignore[operator]
        self.log.indices[self.name].append(key)
        if self.sizes is None:
            return key
        if not all(-size <= k < size for k, size in zip(key, self.sizes, strict=False)):
            raise IndexError
        return tuple(k % size for k, size in zip(key, self.sizes, strict=False))

    def __getitem__(self, index: object) -> object:
        key = self.key(index)
        if len(key) < self.ndim:
            return Memory(self.log, self.name, self.ndim, self.sizes, key)
        self.log.touch(self.name, key, "read")
        return 1

    def __setitem__(self, index: object, value: object) -> None:
        self.log.touch(self.name, self.key(index), "write")

    def update(self, index: object, sign: str, value: object, node: object) -> None:
        key = self.key(index)
        self.log.touch(self.name, key, "update", GROUP.get(sign, ""))
        self.log.updates[node].add((self.log.iteration, self.name, key))


class Log:
    def __init__(self) -> None:
        self.iteration: object = None
        self.touches: dict[object, list[Touch]] = defaultdict(list)
        self.updates: dict[object, set[tuple[object, str, tuple[int, ...]]]] = defaultdict(set)
        self.indices: dict[str, list[tuple[int, ...]]] = defaultdict(list)

    def begin(self, *iteration: int) -> None:
        self.iteration = iteration

    def iterations_of(self, element: object, statements: set[tuple[int, int]]) -> set[object]:
        """The iterations that update ``element`` by one of ``statements``."""
        return {iteration for at in statements for iteration, *place in self.updates[at] if tuple(place) == element}

    def touch(self, name: str, key: tuple[int, ...], kind: str, group: str = "") -> None:
        self.touches[name, key].append(Touch(self.iteration, kind, group))

    def conflicts(self) -> bool:
        """Whether some element is changed by one iteration and touched by another, reordered updates aside."""
        for touches in self.touches.values():
            groups = {touch.group for touch in touches}
            free = len(groups) == 1 and "" not in groups
            changed = {touch.iteration for touch in touches if touch.kind != "read"}
            if not free and changed and len(changed | {touch.iteration for touch in touches}) > 1:
                return True
        return False


class Instrument(ast.NodeTransformer):
    """Updates become calls that know their statement, so that they are not taken for a read and a write."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        assert isinstance(node.target, ast.Subscript)
        sign = {ast.Add: "+", ast.Sub: "-", ast.BitOr: "|", ast.Mult: "*"}[type(node.op)]
        return self.call(node.target, sign, node.value, node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Subscript) and isinstance(value, ast.Call) and ast.unparse(value).startswith("max("):
            return self.call(target, "max", value.args[1], node)
        return node

    def call(self, target: ast.Subscript, sign: str, value: ast.expr, node: ast.stmt) -> ast.stmt:
        method = ast.Attribute(target.value, "update", ast.Load())
        index = ast.parse(ast.unparse(target.slice), mode="eval").body
        where = ast.Constant((node.lineno, node.col_offset))
        call = ast.Expr(ast.Call(method, [index, ast.Constant(sign), value, where], []))
        return ast.fix_missing_locations(ast.copy_location(call, node))


def run(source: str, scalars: Mapping[str, int], sizes: Mapping[str, tuple[int, ...] | None], same: str) -> Log:
    """Run a loop in order, in plain Python."""
    tree = Instrument().visit(ast.parse(PUT + "\n" + GET + "\n" + source))
    log = Log()
    arrays = {name: Memory(log, name, len(DIMS[name]), sizes[name]) for name in DIMS}
    if same:
        arrays["y"] = arrays["x"]
    code = compile(ast.fix_missing_locations(tree), "loop", "exec")
    exec(code, {**vars(builtins), "ndrange": language.ndrange, "begin": log.begin, **arrays, **scalars})
    return log


DIMS = {"x": (0,), "y": (0,), "a": (0, 0)}


def fitting(log: Log, extra: tuple[int, int]) -> dict[str, tuple[int, ...] | None]:
    """The smallest arrays in which all indices are in bounds (negative ones from the end), and ``extra`` elements more."""
    sizes: dict[str, tuple[int, ...] | None] = {}
    for name, dims in DIMS.items():
        keys = log.indices["x" if name == "y" and not log.indices[name] else name]
        used = [[key[at] for key in keys if len(key) > at] or [0] for at in range(len(dims))]
        sizes[name] = tuple(max(max(k) + 1, -min(k), 1) + more for k, more in zip(used, extra, strict=False))
    return sizes


class Source:
    """Draws the text of a loop, part by part."""

    def __init__(self, draw: st.DrawFn, symbolic: bool) -> None:
        self.draw, self.symbolic = draw, symbolic

    def pick(self, *items: str) -> str:
        return self.draw(st.sampled_from(items))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def bounds(self, outer: list[str]) -> str:
        """The arguments of a range."""
        start = str(self.number(-3, 3))
        stop = str(self.number(0, 6))
        if self.symbolic:
            start = self.pick("0", "0", "1", start, "lo")
            stop = self.pick("n", "n", "n + 2", "n - 1", "m", stop)
        if outer and self.number(0, 3) == 0:
            start, stop = self.pick(f"0, {outer[0]}", f"{outer[0]}, {stop}", f"{outer[0]} + 1, {stop}").split(", ")
        step = self.pick("1", "1", "1", "2", "3", "-1", "-2")
        return f"{stop}, {start}, {step}" if step.startswith("-") else f"{start}, {stop}, {step}"

    def index(self, variables: list[str]) -> str:
        """An affine expression of the variables."""
        words = [
            self.pick("", "", name, name, f"2*{name}", f"-{name}", f"3*{name}", *([f"n*{name}"] if self.symbolic else []))
            for name in variables
        ]
        constant = self.number(-3, 4) if self.number(0, 1) else 0
        words += [str(constant)] if constant else []
        words += [self.pick("n", "m", "-n", "lo")] if self.symbolic and self.number(0, 5) == 0 else []
        return " + ".join(word for word in words if word) or "0"

    def place(self, variables: list[str]) -> str:
        """An element."""
        shape = self.number(0, 4)
        if shape == 0:
            return f"a[{self.index(variables)}, {self.index(variables)}]"
        if shape == 1:
            return f"r[{self.index(variables)}]"
        return f"{self.pick('x', 'x', 'y')}[{self.index(variables)}]"

    def statement(self, variables: list[str]) -> str:
        place, other = self.place(variables), self.place(variables)
        array, index = other.split("[", 1)
        call = f"get({array}, {index[:-1]})" if array != "a" else other
        return self.pick(
            f"{place} = {other}",
            f"{place} = {place} + {other}",
            f"{place} = {call}",
            f"{place} = 1",
            f"{place} += {other}",
            f"{place} += 1",
            f"{place} -= 1",
            f"{place} *= 2",
            f"{place} = max({place}, {other})",
            f"{other} if {variables[0]} % 2 else {place}",
            f"if {variables[0]} % 2: {place} = 1",
            f"if {variables[0]} % 2: {place} = 1",
            f"if {variables[-1]} % 3: k = 0\n{place} = k",
            f"x[k] = {other}; k = k + 1",
            "x[k] *= 2",
            f"k = {self.index(variables)}; x[k] = x[k + 1]",
            *([f"put({array}, {index[:-1]}, 1)"] if array != "a" else []),
        )

    def loop(self) -> str:
        if self.number(0, 2) == 0:
            variables = ["i", "j"]
            ends = [self.bounds([]).split(", ")[:2] for _ in variables]
            header = f"for i, j in ndrange({', '.join('(' + ', '.join(end) + ')' for end in ends)}):"
        else:
            variables = ["i"]
            header = f"for i in range({self.bounds([])}):"
        row = self.pick("x", f"a[{self.index(variables)}]", f"a[{variables[0]}]")
        lines = [header, f"  begin({', '.join(variables)})", f"  r = {row}; k = {variables[0]}"]
        lines += [textwrap.indent(self.statement(variables), "  ") for _ in range(self.number(0, 2))]
        if self.number(0, 1) or len(lines) == 3:
            lines.append(f"  for q in range({self.bounds(variables)}):")
            lines += [textwrap.indent(self.statement([*variables, "q"]), "    ") for _ in range(self.number(1, 2))]
        return "\n".join(lines)


@st.composite
def loops(draw: st.DrawFn, symbolic: bool) -> str:
    return Source(draw, symbolic).loop()


def judged(source: str, same: str) -> Judgement | None:
    """The judgement, None for a refusal."""
    functions = {"put": function(PUT), "get": function(GET), "begin": print}
    try:
        return judge(facts_of(source, "x:1 y:1 a:2", same=same, **functions))
    except DataRaceError:
        return None


def check_sound(source: str, same: str, samples: list[dict[str, int]], long: list[dict[str, int]]) -> None:
    """What was proved is true in every sample; a refused loop has a conflict in some sample with long ranges."""
    judgement = judged(source, same)
    if judgement is None:
        logs = (run(source, scalars, dict.fromkeys(DIMS), same) for scalars in long)
        assert any(log.conflicts() for log in logs)
        return
    nodes = {id(access.node): access.node for access in judgement.accesses.all if access.kind == "update"}
    # The functions come before the loop in what is run.
    lines = PUT.count("\n") + GET.count("\n") + 2
    owned = {(nodes[at].lineno + lines, nodes[at].col_offset) for at in judgement.owned}  # type: ignore[attr-defined]
    for scalars in samples:
        free = run(source, scalars, dict.fromkeys(DIMS), same)
        for extra in ((0, 0), (1, 0), (0, 2)):
            log = run(source, scalars, fitting(free, extra), same)
            if judgement.verdict.kind == "independent":
                assert not log.conflicts(), (scalars, str(judgement.verdict))
            assert all(len(log.iterations_of(element, owned)) <= 1 for element in log.touches), scalars


@settings(max_examples=200, deadline=None)
@given(source=loops(symbolic=False), same=st.sampled_from(["", "", "y=x"]))
def test_what_is_proved_of_constant_ranges_is_true(source: str, same: str) -> None:
    check_sound(source, same, [{}], [{}])


def scalars_of(values: list[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [dict(zip(("n", "m", "lo"), value, strict=True)) for value in values]


SAMPLES = scalars_of([(0, 1, 0), (1, 3, -1), (2, 2, 1), (3, 1, -2), (4, 4, -4), (5, 3, 2), (-2, 4, -5), (7, 6, -7)])
# A range counts as long whichever way it runs; the last ones are for those from one variable to the other.
LONG = scalars_of([(n, m, lo) for lo in (1, -80, 80) for n in (40, -40) for m in (38, -42)])
LONG += scalars_of([(n, m, lo) for lo in (1, -80, 80) for n, m in ((-40, -80), (40, 80), (-80, -40), (80, 40), (-40, 40))])


LONG_BETWEEN_TWO = """\
for i, j in ndrange((m, 0), (n, 0)):
  begin(i, j)
  r = x
  for q in range(i + 1, n, 1):
    x[j + q] = r[n]
"""


@settings(max_examples=25, deadline=None)
@given(source=loops(symbolic=True), same=st.sampled_from(["", "", "y=x"]))
@example(source=LONG_BETWEEN_TWO, same="")
def test_what_is_proved_for_all_sizes_is_true_for_some(source: str, same: str) -> None:
    check_sound(source, same, SAMPLES, LONG)


# --- what the author sees ----------------------------------------------------------------------------------------------


def refusal(source: str, ndim: str = NDIM, **more: object) -> DataRaceError:
    with pytest.raises(DataRaceError) as caught:
        judge(facts_of(source, ndim, **more))  # type: ignore[arg-type]
    return caught.value


def test_time_loop_is_told_to_be_serial() -> None:
    error = refusal("for t in range(steps):\n  for i in range(n): x[i] = x[i] + 1")
    assert error.hint is not None
    assert error.hint.startswith("to run the iterations in order, use `qgraph.serial(range(steps))`")
    assert error.span is not None
    assert (error.span.line, error.span.column) == (2, 21)


def test_both_places_are_marked() -> None:
    error = refusal("for i in range(1, n):\n  x[i] = (\n    x[i - 1])")
    assert error.found == (
        "iterations of this parallel loop are not independent: one writes `x[i]`, another reads it "
        "(for example i = 1 and i = 2)"
    )
    assert error.span == Span("loop.py", 2, 2, 2, 6)
    ((words, place),) = error.also
    assert words == "and here another iteration touches the same element (read)"
    assert place == Span("loop.py", 3, 4, 3, 12)
    assert error.hint is not None
    assert all(way in error.hint for way in ("qgraph.serial(range(1, n))", "second array", "qgraph.parallel(range(1, n))"))


def test_a_sum_is_told_to_be_an_update() -> None:
    error = refusal("for i in range(n): s[0] = s[0] + x[i]")
    assert error.hint is not None
    assert "`s[0] += ...`" in error.hint


def test_messages_use_the_paths_of_the_arguments() -> None:
    facts = facts_of("for i in range(1, n): x[i] = x[i - 1]")
    renamed = LoopFacts(**{**vars(facts), "paths": {"x": "state.grid.x"}})
    with pytest.raises(DataRaceError, match=r"one writes `state\.grid\.x\[i\]`"):
        judge(renamed)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("x[idx[i]] = 2", "the element that `x[idx[i]]` means is known only when it runs"),
        ("mystery(x, i)", "what `mystery(x, i)` does to its arrays is not known"),
        ("x[i + q] = 2", "`x[i + q]` may have a negative index, which counts from the end"),
        ("if y[i]: s[0] = 2", "`s[0]` is written only under a condition"),
        ("x[i], c = x[q], 1", "`x[i]` and `x[q]` may be the same element in different iterations"),
    ],
)
def test_assumed_names_the_line_that_decides(statement: str, reason: str) -> None:
    judgement = judge(facts_of(f"for i in range(n):\n  y[i] = 1\n  {statement}", NDIM, mystery=SimpleNamespace()))
    assert str(judgement.verdict) == f"assumed independent: {reason}"
    assert judgement.verdict.span is not None
    assert judgement.verdict.span.line == 3


def test_the_authors_word_is_taken_but_updates_stay_atomic() -> None:
    facts = facts_of("for i in range(n):\n  x[i] = x[i - 1]\n  s[0] += 1")
    judgement = judge(LoopFacts(**{**vars(facts), "asserted": True}))
    assert judgement.verdict.kind == "asserted"
    assert [(access.array, access.operator) for access in judgement.atomics] == [("s", "+")]
    assert judgement.owned == frozenset()


def test_owned_updates_stay_plain() -> None:
    facts = facts_of("for i in range(n):\n  x[i] += 1\n  s[0] += 1")
    judgement = judge(facts)
    assert judgement.owned == {id(facts.body[0])}
    assert [access.node for access in judgement.atomics] == [facts.body[1]]


# --- aliases and functions ---------------------------------------------------------------------------------------------


def test_identical_arrays_are_analysed_as_one() -> None:
    source = "for i in range(1, n): y[i] = x[i - 1]"
    assert verdict(source) == "independent"
    assert verdict(source, same="y=x") == "dependent"
    assert verdict("for i in range(n): y[i] = 2 * x[i]", same="y=x") == "independent"
    assert verdict("for i in range(n):\n  x[i] += 1\n  y[i + 1] += 1", same="y=x") == "independent + +"


def test_functions_are_followed() -> None:
    put = function("def put(r, k, e):\n  j = k + 1\n  r[j] = e")
    left = function("def left(r, k):\n  if k > 0:\n    return r[k - 1]\n  return r[k]")
    assert verdict("for i in range(n): put(x, i, y[i])", put=put) == "independent"
    assert verdict("for i in range(n): put(x, 0, y[i])", put=put) == "dependent"
    assert verdict("for i in range(n): put(a[i], 3, y[i])", put=put) == "independent"
    assert verdict("for i in range(n): put(e=1, k=i // 2, r=x)", put=put) == "assumed"
    assert verdict("for i in range(n): y[i] = left(x, i)", left=left) == "independent"
    assert verdict("for i in range(n): x[i] = left(x, i)", left=left) == "assumed"


def test_a_function_that_calls_functions() -> None:
    get = function("def get(r, k):\n  return r[k]")
    both = function("def both(r, k):\n  return get(r, k) + get(r, k + 1)", get=get)
    assert verdict("for i in range(n): y[i] = both(x, i)", both=both) == "independent"
    error = refusal("for i in range(n): x[i] = both(x, i)", both=both)
    assert [(words, span.file) for words, span in error.also] == [
        ("and here another iteration touches the same element (read)", "functions.py"),
        ("called here", "loop.py"),
    ]


def test_updates_in_functions_are_found() -> None:
    bump = function("def bump(r, k):\n  r[k] += 1")
    judgement = judge(facts_of("for i in range(n): bump(x, idx[i])", NDIM, bump=bump))
    (access,) = judgement.atomics
    assert access.in_function
    assert access.node is bump.tree.body[0]
    # One of its calls collides: the statement must be atomic in all.
    judgement = judge(facts_of("for i in range(n):\n  bump(x, i)\n  bump(s, 0)", NDIM, bump=bump))
    assert len(judgement.atomics) == 1
    assert judgement.owned == frozenset()


def test_a_function_may_return_the_array() -> None:
    pick = function("def pick(r, q, k):\n  if k > 0:\n    return r\n  return q")
    source = "for i in range(n):\n  r = pick(x, y, i)\n  r[0] = 1"
    assert verdict(source, pick=pick) == "assumed"
    first = function("def first(r, k):\n  for j in range(3):\n    if r[j] > k:\n      return j\n  return 0")
    assert verdict("for i in range(n): y[first(x, i)] = 1", first=first) == "assumed"


def test_constants_of_the_kernel_are_known() -> None:
    assert verdict("for i in range(n): x[i * W] = x[i * W + 1]", W=2) == "independent"
    assert verdict("for i in range(n): x[i * W] = x[i * W + 1]", W=1) == "dependent"


def test_an_element_is_an_unknown_number_where_the_loop_writes_its_array() -> None:
    (load,) = (a for a in collect(facts_of("for i in range(n): y[i] = x[idx[0]]", NDIM)).all if a.array == "x")
    assert load.indices != (None,)
    (load,) = (a for a in collect(facts_of("for i in range(n): y[i] = x[y[0]]", NDIM)).all if a.array == "x")
    assert load.indices == (None,)


def test_metadata_is_not_data() -> None:
    accesses = collect(facts_of("for i in range(n): y[i] = x.shape[0] + len(x) + x.size", NDIM))
    assert accesses.reads == frozenset()
    assert accesses.written == {"y"}


@pytest.mark.parametrize(
    ("body", "reads", "written"),
    [
        ("y[i] = x[i]", {"x"}, {"y"}),
        ("y[i] += x[i]", {"x", "y"}, {"y"}),
        ("y[idx[i]] = 1", {"idx"}, {"y"}),
        ("r = x\n  q = r\n  q[i] = 1", set(), {"x"}),
        ("for r in (x, y): r[i] = s[0]", {"s"}, {"x", "y"}),
        ("y[i] = x[i] if v[i] else c[i]", {"x", "v", "c"}, {"y"}),
        ("y[i] = sum([x[k] for k in range(3)])", {"x"}, {"y"}),
        ("a[i] = b[i]", {"b"}, {"a"}),
        ("row = a[i]\n  row += 1", {"a"}, {"a"}),
        ("mystery(x[i], a[i])", {"x", "a"}, {"a"}),
        ("u = [x, y]\n  u[k][i] = 1", set(), {"x", "y"}),
        ("(r := x)[i] = 1", set(), {"x"}),
        ("r = x\n  while v[i]:\n    r[i] = 1\n    r = y", {"v"}, {"x", "y"}),
    ],
)
def test_what_is_read_and_written(body: str, reads: set[str], written: set[str]) -> None:
    accesses = collect(facts_of(f"for i in range(n):\n  {body}", NDIM, mystery=SimpleNamespace()))
    assert (accesses.reads, accesses.written) == (reads, written)
