"""A Hypothesis strategy that writes whole kernels as Python source, valid by construction.

Every value stays a small integer, in float arrays too, so that any order of a sum gives the same bits and results are compared
exactly. Loops are independent, or combine values in the forms that kernels have; every loop ends, by a counter of its own.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field

from hypothesis import strategies as st

HEADER = """\
import qgraph


@qgraph.func
def clamp(v):
    if v > 40:
        return 40
    return v


@qgraph.func
def total(x):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    return s % 97


@qgraph.func
def bump(x, v):
    for i in range(x.shape[0]):
        x[i] = (x[i] + v) % 97
    return x[0]


def program(a, b, c, d, e, g, h, z, f0, f1, f2, k, n, m, p):
"""

# One-dimensional arrays of n elements, by type; those of one type may change places. `h` is m by n; `z` is empty.
INTEGERS = ("a", "b", "c")
FLOATS = ("d", "e")
SMALL = ("g",)
SCALARS = ("s", "t", "u", "v")


@dataclass(frozen=True)
class Features:
    """What programs may hold."""

    scalars: bool = True
    branches: bool = True
    loops: bool = True
    reductions: bool = True
    swaps: bool = True
    calls: bool = True
    returns: bool = True
    flags: bool = True


@dataclass
class State:
    """What the statements so far allow."""

    features: Features
    depth: int = 0
    loops: int = 0
    counters: int = 0
    # Inside a device loop that may be left.
    may_leave: bool = False
    lines: list[str] = field(default_factory=list)


@st.composite
def programs(draw: st.DrawFn, features: Features = Features()) -> str:
    """The source of a module whose ``program`` is a kernel."""
    state = State(features)
    lines = [f"    {name} = {draw(st.integers(0, 9))}" for name in SCALARS]
    lines += _block(draw, state, 1, draw(st.integers(1, 5)))
    if features.returns:
        lines.append(f"    return {', '.join(SCALARS)}")
    return HEADER + "\n".join(lines) + "\n"


def _block(draw: st.DrawFn, state: State, pad: int, count: int) -> list[str]:
    lines: list[str] = []
    for _ in range(count):
        lines += _statement(draw, state, pad)
    return lines or ["    " * pad + "pass"]


def _statement(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    features = state.features
    kinds = [_parallel, _parallel, _element]
    kinds += [_assign, _swap_scalars] if features.scalars else []
    kinds += [_reduction, _best] if features.reductions else []
    kinds += [_colliding, _plane]
    kinds += [_swap] if features.swaps else []
    kinds += [_call] if features.calls else []
    if state.depth < 3:
        kinds += [_branch, _match] if features.branches else []
        kinds += [_while, _serial] if features.loops else []
        kinds += [_do_while] if features.flags else []
    if state.may_leave:
        kinds.append(_leave)
    return draw(st.sampled_from(kinds))(draw, state, pad)


def _indent(pad: int, *lines: str) -> list[str]:
    return ["    " * pad + line for line in lines]


# --- expressions -------------------------------------------------------------------------------------------------------


def _scalar(draw: st.DrawFn) -> str:
    """An integer expression over kernel scalars, arguments and elements."""
    leaf = st.sampled_from(
        ["0", "1", "2", "5", "n", "m", "p", *SCALARS, "k[()]", "a[0]", "b[n - 1]", "c[s % n]", "g[0]", "h[0, 0]"]
    )
    return _combined(draw, leaf)


def _combined(draw: st.DrawFn, leaf: st.SearchStrategy[str], *, floats: bool = False) -> str:
    left, right = draw(leaf), draw(leaf)
    form = draw(
        st.sampled_from(
            [
                "{0}",
                "({0} + {1}) % 97",
                "({0} * {1}) % 97",
                "({0} - {1}) % 97",
                "max({0}, {1})",
                "min({0}, {1})",
                "abs({0} - {1})",
            ]
            + ["{0} // 3", "({0} if {1} > 2 else {1})", "clamp({0} + {1})", "(-{0}) % 7"]
            + ([] if floats else ["({0} | {1}) % 97", "({0} ^ {1}) % 97"])
        )
    )
    return form.format(left, right)


def _condition(draw: st.DrawFn) -> str:
    form = draw(
        st.sampled_from(
            ["{0} < {1}", "{0} == {1}", "{0} % 2 == 0", "{0} > 1 and {1} < 5", "{0} > 6 or {1} > 3", "not {0} > {1}"]
        )
    )
    return form.format(_scalar(draw), _scalar(draw))


def _element_of(draw: st.DrawFn, written: set[str], index: str, *, floats: bool) -> str:
    """A value inside a loop: elements of arrays that the loop does not write anywhere, or its own element."""
    arrays = INTEGERS + SMALL + (FLOATS if floats else ())
    free = [name for name in arrays if name not in written]
    own = [f"{name}[{index}]" for name in arrays]
    other = [f"{name}[({index} + {shift}) % n]" for name in free for shift in (1, 2)] + [f"{name}[-1]" for name in free]
    leaf = st.sampled_from([*own, *other, index, "1", "3", *SCALARS, "p", "n"])
    return _combined(draw, leaf, floats=floats)


# --- statements --------------------------------------------------------------------------------------------------------


def _range(draw: st.DrawFn) -> str:
    return draw(
        st.sampled_from(
            ["range(n)", "range(1, n)", "range(0, n, 2)", "range(n - 1, -1, -1)", "range(s % (n + 1))", "range(z.shape[0])"]
            + ["range(min(k[()], n))", "qgraph.ndrange(n)", "range(n - 1, 0, -2)"]
        )
    )


def _wrapped(name: str, value: str) -> str:
    return f"({value}) % 97" if name not in SMALL else f"({value}) % 11"


def _parallel(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    targets = draw(st.lists(st.sampled_from(INTEGERS + FLOATS + SMALL), min_size=1, max_size=2, unique=True))
    written = set(targets)
    lines = _indent(pad, f"for i in {_range(draw)}:")
    if draw(st.booleans()):
        lines += _indent(pad + 1, f"x = {_element_of(draw, written, 'i', floats=False)}")
        if draw(st.booleans()):
            lines += _indent(
                pad + 1, "for j in range(3):", f"    x = (x * 2 + {_element_of(draw, written, 'i', floats=False)}) % 97"
            )
        value = "x"
    else:
        value = "1"
    if draw(st.booleans()):
        lines += _indent(pad + 1, f"if {_element_of(draw, written, 'i', floats=False)} > 30:", "    continue")
    for name in targets:
        expression = f"{_element_of(draw, written, 'i', floats=name in FLOATS)} + {value}"
        lines += _indent(pad + 1, f"{name}[i] = {_wrapped(name, expression)}")
    return lines


def _plane(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    bounds = draw(st.sampled_from(["m, n", "(1, m), n", "m, (0, n - 1)", "*h.shape"]))
    value = _element_of(draw, {"h"}, "j", floats=False)
    return _indent(pad, f"for i, j in qgraph.ndrange({bounds}):", f"    h[i, j] = (h[i, j] + {value} + i) % 97")


def _colliding(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    target = draw(st.sampled_from(["a", "b", "d"]))
    index = draw(st.sampled_from(["c[i] % n", "(i * 2) % n", "i // 2", "abs(i - s) % n"]))
    operator = draw(st.sampled_from(["+=", "-=", "+="]))
    value = draw(st.sampled_from(["1", "g[i]", "c[i]", "s", "i"]))
    lines = _indent(pad, "for i in range(n):", f"    {target}[{index}] {operator} {value}")
    # Back to small values.
    return lines + _indent(pad, "for i in range(n):", f"    {target}[i] = {target}[i] % 97")


def _element(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    target = draw(st.sampled_from(["a[0]", "b[n - 1]", "c[-1]", "k[()]", "h[0, n - 1]"]))
    return _indent(pad, f"{target} = ({_scalar(draw)}) % 97")


def _assign(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    name = draw(st.sampled_from(SCALARS))
    if draw(st.booleans()):
        return _indent(pad, f"{name} = ({_scalar(draw)}) % 97")
    return _indent(pad, f"{name} += {_scalar(draw)}", f"{name} %= 97")


def _swap_scalars(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    first, second = draw(st.permutations(SCALARS))[:2]
    return _indent(pad, f"{first}, {second} = {second}, ({first} + {second}) % 97")


def _swap(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    text = draw(st.sampled_from(["a, b = b, a", "b, c = c, b", "d, e = e, d", "a, b, c = c, a, b", "a, c = c, a"]))
    return _indent(pad, text)


def _reduction(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    name = draw(st.sampled_from(SCALARS))
    value = re.sub(rf"\b{name}\b", "p", _element_of(draw, set(), "i", floats=False))
    text = draw(
        st.sampled_from(
            [
                "{0} += {1}",
                "{0} = max({0}, {1})",
                "{0} = min({0}, {1})",
                "{0} -= {1}",
                "{0} |= {1}",
                "{0} ^= {1}",
                "{0} = {1} + {0}",
            ]
        )
    ).format(name, f"({value})")
    lines = _indent(pad, f"for i in {_range(draw).replace('s %', 'p %')}:")
    if draw(st.booleans()):
        lines += _indent(pad + 1, f"if g[i] != {draw(st.integers(0, 3))}:", f"    {text}")
    else:
        lines += _indent(pad + 1, text)
    return lines + _indent(pad, f"{name} %= 97")


def _best(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    best, where = draw(st.permutations(SCALARS))[:2]
    array = draw(st.sampled_from(INTEGERS))
    comparison = draw(st.sampled_from(["<", ">", "<=", ">="]))
    return _indent(
        pad,
        f"{best} = {array}[0]",
        f"{where} = 0",
        "for i in range(n):",
        f"    if {array}[i] {comparison} {best}:",
        f"        {best} = {array}[i]",
        f"        {where} = i",
    )


def _call(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    name = draw(st.sampled_from(SCALARS))
    text = draw(
        st.sampled_from(
            [
                "{0} = total(a)",
                "{0} = total(b)",
                "bump(c, {0})",
                "{0} = bump(a, 3) % 97",
                "{0} = (total(c) + {0}) % 97",
                "{0} = clamp({0})",
            ]
        )
    )
    return _indent(pad, text.format(name))


def _branch(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    inner = dataclasses.replace(state, depth=state.depth + 1)
    lines = _indent(pad, f"if {_condition(draw)}:")
    lines += _block(draw, inner, pad + 1, draw(st.integers(1, 2)))
    if draw(st.booleans()):
        lines += _indent(pad, "else:")
        lines += _block(draw, inner, pad + 1, draw(st.integers(1, 2)))
    return lines


def _match(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    inner = dataclasses.replace(state, depth=state.depth + 1)
    lines = _indent(pad, f"match ({_scalar(draw)}) % 4:")
    for case in draw(st.sampled_from([("0", "1"), ("0", "1 | 2", "_"), ("2", "_"), ("-1", "3", "0")])):
        lines += _indent(pad + 1, f"case {case}:")
        lines += _block(draw, inner, pad + 2, 1)
    return lines


def _counter(state: State) -> str:
    state.counters += 1
    return f"w{state.depth}_{state.counters}"


def _while(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    inner = dataclasses.replace(state, depth=state.depth + 1, may_leave=True)
    name = _counter(inner) + f"_{draw(st.integers(0, 999))}"
    limit = draw(st.integers(0, 4))
    test = f"{name} < {limit}"
    if draw(st.booleans()):
        test += f" and ({_condition(draw)})"
    lines = _indent(pad, f"{name} = 0", f"while {test}:", f"    {name} += 1")
    lines += _block(draw, inner, pad + 1, draw(st.integers(1, 3)))
    return lines + _otherwise(draw, inner, pad)


def _serial(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    inner = dataclasses.replace(state, depth=state.depth + 1, may_leave=True)
    bound = draw(st.sampled_from(["range(3)", "range(s % 4)", "range(4, 0, -2)", "range(n % 3)", "range(k[()] % 3)"]))
    lines = _indent(pad, f"for r{state.depth} in qgraph.serial({bound}):", f"    t = (t + r{state.depth}) % 97")
    lines += _block(draw, inner, pad + 1, draw(st.integers(1, 3)))
    return lines + _otherwise(draw, inner, pad)


def _do_while(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    # One flag for each depth: an inner loop must not change the outer one's.
    inner = dataclasses.replace(state, depth=state.depth + 1, may_leave=False)
    lines = _indent(pad, f"f{state.depth}[()] = {draw(st.integers(1, 3))}", f"while qgraph.graph_do_while(f{state.depth}):")
    lines += _block(draw, inner, pad + 1, draw(st.integers(1, 2)))
    return lines + _indent(pad + 1, f"f{state.depth}[()] -= 1")


def _otherwise(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    if not draw(st.booleans()):
        return []
    inner = dataclasses.replace(state, may_leave=False)
    return [*_indent(pad, "else:"), *_block(draw, inner, pad + 1, 1)]


def _leave(draw: st.DrawFn, state: State, pad: int) -> list[str]:
    word = draw(st.sampled_from(["break", "continue"]))
    return _indent(pad, f"if {_condition(draw)}:", f"    {word}")
