"""What was compiled in is looked at, whatever holds it: each holder changes between calls, and Python's answer must come out.

A holder is text: what stands in the module, an expression, and what changes it. Kernels and funcs around it are generated.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import sys
import types
from typing import Any

import numba
import numpy as np
import pytest

import qgraph

pytestmark = pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")


@dataclasses.dataclass(frozen=True)
class Holder:
    """``module`` is at the top of the module, ``around`` in the function around the kernels; both define ``change(value)``."""

    expression: str
    module: str = ""
    around: str = ""


def named(prelude: str, expression: str, statement: str) -> Holder:
    """A holder in the module, changed by one statement."""
    return Holder(expression, f"{prelude}\ndef change(value):\n    {statement}")


GLOBAL = "globals()['HELD'] = value"
INNER = "import types; outer = types.ModuleType('outer'); outer.inner = types.ModuleType('inner'); outer.inner.K = 3"
LAZY = """
import types
lazy, held = types.ModuleType("lazy"), [3.25]
vars(lazy)["__getattr__"] = lambda name: float(str(held[0]))
"""
PROPERTY = """
class Meta(type):
    @property
    def K(cls): return 2 * cls.half + 0.5
class Computed(metaclass=Meta):
    half = 1
"""
FROZEN = "@dataclasses.dataclass(frozen=True)\nclass Settings:\n    k: int = 3\nSETTINGS = Settings()"
CALLABLE = "class Scale:\n    k = 3\n    def __call__(self): return 0\nSCALE = Scale()"
SIZED = "class Sized:\n    n = 3\n    def __len__(self): return self.n - 3\nSIZED = Sized()"
METHOD = """
@dataclasses.dataclass(frozen=True)
class Method:
    s: int
    @qgraph.func
    def f(self, a): return a + self.s
@qgraph.func
def other(self, a): return a + 10 * self.s
first = Method.f
METHOD = Method(3)
"""
FUNCS = "@qgraph.func\ndef one(a): return a + 1\n@qgraph.func\ndef ten(a): return a + 10\nHELD = one"
DEFAULT = "@qgraph.func\ndef by_default(a, k=3, *, m=1): return a * k + m"
NJIT = "HELD = 3\n@numba.njit\ndef compiled(a): return a * HELD\n"
NESTED = f"{NJIT}\n@numba.njit\ndef outside(a): return compiled(a) + 1\n"
IN_MODULE = "import types; consts = types.ModuleType('consts'); consts.K = 3\n@numba.njit\ndef reads(a): return a * consts.K"
CLOSURE = """
def made(k):
    @numba.njit
    def inner(a): return a + k
    def change(value):
        nonlocal k
        k = value
    return inner, change
inner, change = made(3)
"""

HOLDERS: dict[str, Holder] = {
    "global": named("HELD = 3", "HELD", GLOBAL),
    "closure": Holder("held", around="held = 3\ndef change(value):\n    nonlocal held\n    held = value"),
    "a class": named("class Config: K = 3", "Config.K", "Config.K = value"),
    "a class that inherits": named(
        "class Base: K = 3\nclass Config(Base): pass", "Config.K", "setattr(Base if value == 3 else Config, 'K', value)"
    ),
    "a nested class": named("class A:\n    class B: K = 3", "A.B.K", "A.B.K = value"),
    "a class in a closure": Holder("C.K", around="class C: K = 3\ndef change(value): C.K = value"),
    "a module": named(INNER, "outer.inner.K", "outer.inner.K = value"),
    "a module in a module": named(INNER, "outer.inner.K", "outer.inner = types.ModuleType('inner'); outer.inner.K = value"),
    "a module that computes": named(LAZY, "lazy.K", "held[0] = value + 0.25"),
    "a property": named(PROPERTY, "Computed.K", "Computed.half = value"),
    "a function": named("def f(): pass\nf.K = 3", "f.K", "f.K = value"),
    "a frozen dataclass": named(FROZEN, "SETTINGS.k", "object.__setattr__(SETTINGS, 'k', value)"),
    "a callable object": named(CALLABLE, "SCALE.k", "SCALE.k = value"),
    "a callable object's class": named(CALLABLE, "SCALE.k", "Scale.k = value"),
    "a tuple": named("HELD = (1, 3)", "HELD[1]", "globals()['HELD'] = (1, value)"),
    "a NumPy scalar": named("HELD = np.int32(3)", "HELD", "globals()['HELD'] = np.int32(value)"),
    "a type": named("HELD = np.float64", "HELD(2.75)", "globals()['HELD'] = np.int64 if value == 5 else np.float64"),
    "a dict": named("D = {'k': 3}", "qgraph.static(D['k'])", "D['k'] = value"),
    "a dict that grows": named("D = {'k': 3}", "qgraph.static(len(D))", "D[value] = 0"),
    "a list": named("L = [1]", "qgraph.static(len(L)) * 10 + qgraph.static(L[-1])", "L.append(value)"),
    "a list in a dict": named("D = {'l': [3, 4]}", "qgraph.static(sum(D['l']))", "D['l'][0] = value"),
    "a list in a class": named("class C: L = [3]", "qgraph.static(C.L[0])", "C.L[0] = value"),
    "an argument that is static": named(
        "D = {'k': 3}\n@qgraph.func\ndef with_static(n: qgraph.Static, a): return a + n",
        "with_static(D['k'], 2)",
        "D['k'] = value",
    ),
    "a set": named("S = {1}", "(2 if qgraph.static(5 in S) else 1)", "S.add(value) if value == 5 else S.discard(5)"),
    "the truth of an object": named(SIZED, "(2 if qgraph.static(SIZED) else 1)", "SIZED.n = value"),
    "what Python computes": named("L = [3]\ndef compute(k): return L[0] * k", "qgraph.static(compute(2))", "L[0] = value"),
    "a method": named(METHOD, "METHOD.f(1)", "Method.f = other if value == 5 else first"),
    "a func": named(FUNCS, "HELD(1)", "globals()['HELD'] = ten if value == 5 else one"),
    "a func in a class": named(f"{FUNCS}\nclass C: f = one", "C.f(1)", "C.f = ten if value == 5 else one"),
    "a builtin that a global hides": named(
        "@qgraph.func\ndef seven(a): return 7.0",
        "abs(-2.0)",
        "globals().update(abs=seven) if value == 5 else globals().pop('abs', None)",
    ),
    "builtins": named("", "max(2.0, 3.0)", "BUILTINS['max'] = min if value == 5 else ORIGINAL['max']"),
    "a default": named(DEFAULT, "by_default(1)", "by_default.function.__defaults__ = (value,)"),
    "a keyword's default": named(DEFAULT, "by_default(1, 1)", "by_default.function.__kwdefaults__ = {'m': value}"),
    "a keyword's default in place": named(DEFAULT, "by_default(1, 1)", "by_default.function.__kwdefaults__['m'] = value"),
    "a global of Numba's function": named(NJIT, "compiled(2)", GLOBAL),
    "a global of a function that Numba's calls": named(NESTED, "outside(2)", GLOBAL),
    "a module of Numba's function": named(IN_MODULE, "reads(2)", "consts.K = value"),
    "a closure of Numba's function": Holder("inner(2)", CLOSURE),
    "a default of Numba's function": named(
        "@numba.njit\ndef g(a, k=3): return a * k", "g(2)", "g.py_func.__defaults__ = (value,)"
    ),
    "a function that Numba's calls": named(
        f"{NJIT}\n@numba.njit\ndef ten(a): return a + 10\n@numba.njit\ndef outside(a): return HELD2(a)\nHELD2 = compiled",
        "outside(2)",
        "globals()['HELD2'] = ten if value == 5 else compiled",
    ),
}

KERNELS = """
def build():
{around}
    def direct(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + ({expression})
    def device(a):
        return a * 0.5 + ({expression})
    device = qgraph.func(device)
    def loops(x, scale):
        for i in range(x.shape[0]):
            x[i] = x[i] * scale + ({expression})
    loops = qgraph.func(loops)
    def through_funcs(x):
        for i in range(x.shape[0]):
            x[i] = device(x[i])
        loops(x, 0.5)
    return direct, through_funcs, {change}
"""

DISPATCHER = type(numba.njit(lambda: 0))
NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module out of text, with builtins of its own."""

    def make(text: str) -> dict[str, Any]:
        file = tmp_path / f"held_{next(NUMBERS)}.py"
        file.write_text(text)
        made = types.ModuleType(file.stem)
        monkeypatch.setitem(sys.modules, file.stem, made)
        original = dict(vars(__import__("builtins")))
        names = {"__builtins__": dict(original), "np": np, "numba": numba, "qgraph": qgraph, "dataclasses": dataclasses}
        vars(made).update(names, BUILTINS=names["__builtins__"], ORIGINAL=original, types=types)
        exec(compile(text, str(file), "exec"), vars(made))
        return vars(made)

    return make


def build(module, name: str):
    """Two plain functions that use the holder, and what changes it."""
    holder = HOLDERS[name]
    around = "\n".join(f"    {line}" for line in holder.around.splitlines())
    made = module(holder.module + KERNELS.format(around=around, expression=holder.expression, change="change"))
    direct, through_funcs, change = made["build"]()
    return (direct, through_funcs), change


def as_python(function, *args):
    """Plain Python, for which Numba's functions are what is written: Numba itself does not see what they look at change."""
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("held_")]
    compiled = [(names, key, value) for names in modules for key, value in names.items() if type(value) is DISPATCHER]
    for names, key, value in compiled:
        names[key] = value.py_func
    function(*args)
    for names, key, value in compiled:
        names[key] = value


class Ways:
    """A plain function as a kernel, by a call and by a bound launch; each answer is compared with plain Python's."""

    def __init__(self, rig, function):
        self.rig, self.function, self.kernel = rig, function, rig.kernel(function)
        self.x = rig.device(np.ones(3))
        self.bound = self.kernel.bind(self.x)

    def check(self, launch):
        expected = np.array(qgraph.to_numpy(self.x))
        as_python(self.function, expected)
        launch()
        np.testing.assert_array_equal(qgraph.to_numpy(self.x), expected)

    def call(self):
        self.check(lambda: self.kernel(self.x))

    def launch(self):
        self.check(self.bound.launch)


@pytest.mark.parametrize("name", HOLDERS)
def test_a_holder_that_changes(rig, module, name):
    functions, change = build(module, name)
    ways = [Ways(rig, function) for function in functions]
    for changes, value in enumerate((3, 5, 3)):
        change(value)
        for each in ways:
            # Calls that come back take a short way; either way is the first to see the change.
            runs = (each.launch, each.call, each.call, each.call)
            for run in runs[::-1] if changes == 1 else runs:
                run()
            # An unchanged call compiles nothing.
            assert each.kernel.stats.compilations <= 2 + changes


@pytest.mark.parametrize("seed", range(6))
def test_several_holders_that_change_in_turn(rig, module, seed):
    """Holders of any kinds in one expression, with names of their own in modules of their own."""
    chance = random.Random(seed)
    free = [name for name, holder in HOLDERS.items() if not holder.around and "HELD" not in holder.module]
    names = chance.sample(free, 4)
    texts = []
    for number, name in enumerate(names):
        holder = HOLDERS[name]
        inner = module(f"{holder.module}\n@qgraph.func\ndef held(a):\n    return a + ({holder.expression})\n")
        texts.append((f"part{number}", inner))
    outer = module(
        "def kernel(x):\n    for i in range(x.shape[0]):\n        x[i] = "
        + "x[i] * 0.5"
        + "".join(f" + part{number}(i)" for number in range(len(names)))
        + "\n"
    )
    outer.update({part: inner["held"] for part, inner in texts})
    ways = Ways(rig, outer["kernel"])
    for _ in range(8):
        chance.choice([each for _, each in texts])["change"](chance.choice((3, 5)))
        for _ in range(3):
            chance.choice((ways.call, ways.launch))()


# --- what is not in an expression -----------------------------------------------------------------------------------------


def iterated(x):
    for k in qgraph.static(LIST):
        for i in range(x.shape[0]):
            x[i] += k


def chosen(x):
    match qgraph.static(CHOICE["mode"]):
        case "twice":
            x[:] = x * 2
        case _:
            x[:] = x + 1


class Steps:
    """Iterates over as many numbers as it has now."""

    count = 2

    def __iter__(self):
        return iter(range(self.count))


def unrolled(x):
    for i in range(x.shape[0]):
        for k in qgraph.static(STEPS):
            x[i] += k + 1


LIST = [1, 2]
CHOICE = {"mode": "twice"}
STEPS = Steps()
CHANGES = {
    iterated: lambda backend: LIST.__setitem__(slice(2, None), [5]),
    chosen: lambda backend: CHOICE.update(mode="once"),
    unrolled: lambda backend: setattr(STEPS, "count", 4),
}


@pytest.mark.parametrize("function", CHANGES, ids=lambda function: function.__name__)
def test_statements_of_things_that_change(rig, function, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "LIST", [1, 2])
    monkeypatch.setattr(sys.modules[__name__], "CHOICE", {"mode": "twice"})
    monkeypatch.setattr(sys.modules[__name__], "STEPS", Steps())
    ways = Ways(rig, function)
    for _ in range(2):
        for run in (ways.call, ways.launch, ways.call, ways.call):
            run()
        CHANGES[function](rig)
    assert ways.kernel.stats.compilations == 2


@dataclasses.dataclass
class Scaled:
    """An argument with a func."""

    x: Any
    n: int

    @qgraph.func
    def of(self, a):
        return a + self.n


@qgraph.func
def scaled_more(self, a):
    return a + 100 * self.n


FIRST = Scaled.of


def use_scaled(p):
    for i in range(p.x.shape[0]):
        p.x[i] = p.of(p.x[i])


def test_a_method_of_an_argument(rig, monkeypatch):
    kernel = rig.kernel(use_scaled)
    x, wanted = rig.device(np.zeros(3)), 0
    bound = kernel.bind(Scaled(x, 2))
    for step in (2, 200, 2):
        monkeypatch.setattr(Scaled, "of", scaled_more if step == 200 else FIRST)
        for _ in range(3):
            kernel(Scaled(x, 2))
            bound.launch()
            wanted += 2 * step
        assert qgraph.to_numpy(x).tolist() == [wanted] * 3


def test_a_func_that_an_argument_hides(rig):
    kernel = rig.kernel(use_scaled)
    p = Scaled(rig.device(np.zeros(3)), 2)
    bound = kernel.bind(p)
    for _ in range(4):
        kernel(p)
    vars(p)["of"] = lambda a: 0
    for _ in range(2):
        with pytest.raises(qgraph.ArgumentError, match="has a `of` of its own, which hides the func of Scaled"):
            kernel(p)
    del vars(p)["of"]
    kernel(p)
    assert qgraph.to_numpy(p.x).tolist() == [10.0] * 3
    bound.launch()


def test_a_func_that_an_object_of_the_module_hides(rig, module):
    made = module(f"{METHOD}def kernel(x):\n    for i in range(x.shape[0]):\n        x[i] = METHOD.f(x[i])\n")
    kernel, x = rig.kernel(made["kernel"]), np.zeros(2)
    for _ in range(4):
        rig.run(kernel, x)
    vars(made["METHOD"])["f"] = made["hidden"] = qgraph.func(plain_seven)
    rig.run(kernel, x)
    assert x.tolist() == [7.0] * 2
    del vars(made["METHOD"])["f"]
    rig.run(kernel, x)
    assert x.tolist() == [10.0] * 2


def plain_seven(a):
    return 7.0


def add_fields(p):
    for i in range(p.x.shape[0]):
        p.x[i] += p.n


def test_a_class_that_becomes_a_dataclass_and_gets_other_fields(rig):
    kernel = rig.kernel(add_fields)

    class Late:
        pass

    late: Any = Late()
    late.x, late.n = rig.device(np.zeros(2)), 3
    with pytest.raises(qgraph.ArgumentError, match="make Late a dataclass"):
        kernel(late)
    made: Any = Late
    made.__annotations__ = {"x": Any, "n": int}
    dataclasses.dataclass(made)
    x = rig.device(np.zeros(2))
    for _ in range(3):
        kernel(made(x, 3))
    del made.__init__
    made.__annotations__ = {"n": int, "x": Any, "m": float}
    made.__dataclass_fields__ = {}
    dataclasses.dataclass(made)
    for _ in range(3):
        kernel(made(2, x, 0.5))
    assert qgraph.to_numpy(x).tolist() == [15.0] * 2
    assert kernel.stats.compilations == 2


def test_a_class_that_becomes_an_array(backend):
    kernel: Any = qgraph.kernel(backend=backend)(to_zero)

    class Unlike:
        pass

    with pytest.raises(qgraph.ArgumentError, match="cannot be passed"):
        kernel(Unlike())
    Unlike.__cuda_array_interface__ = {"version": 1}  # type: ignore[attr-defined]
    with pytest.raises(qgraph.ArgumentError, match="version 1 of the CUDA array interface is too old"):
        kernel(Unlike())


def to_zero(x):
    for i in range(x.shape[0]):
        x[i] = 0


def positions(x, f=2.0, *, g=1.0):
    for i in range(x.shape[0]):
        x[i] = x[i] * f + g


def test_defaults_of_a_kernel(rig, monkeypatch):
    kernel = rig.kernel(positions)
    x = rig.device(np.ones(2))
    for _ in range(3):
        kernel(x)
    assert qgraph.to_numpy(x).tolist() == [15.0] * 2
    monkeypatch.setattr(positions, "__defaults__", (3.0,))
    kernel(x)
    monkeypatch.setitem(positions.__kwdefaults__, "g", 0.0)
    kernel(x)
    assert qgraph.to_numpy(x).tolist() == [138.0] * 2
    monkeypatch.setattr(positions, "__defaults__", None)
    with pytest.raises(qgraph.ArgumentError, match="missing a required argument: 'f'"):
        kernel(x)


def walrus(x):
    s = rounded(x[1]) + (t := x[0])
    return s + t


rounded: Any = np.floor


@qgraph.func
def rounded_up(v):
    return np.ceil(v)


def test_a_function_beside_an_assignment_expression(rig, monkeypatch):
    """A func before it may write what it reads, which a function of NumPy does not."""
    kernel = rig.kernel(walrus)
    x = np.array([0.5, 1.25])
    for _ in range(2):
        assert rig.run(kernel, x) == walrus(x)
        with monkeypatch.context() as changed:
            changed.setattr(sys.modules[__name__], "rounded", rounded_up)
            with pytest.raises(qgraph.KernelSyntaxError, match="comes after something in its statement"):
                rig.run(kernel, x)


def test_an_array_that_a_module_computes(rig):
    made = types.ModuleType("made")
    arrays = {"TABLE": rig.device(np.arange(3.0))}
    vars(made)["__getattr__"] = arrays.__getitem__

    def look_up(x):
        for i in range(x.shape[0]):
            x[i] += made.TABLE[i]

    kernel = rig.kernel(look_up)
    x = rig.device(np.zeros(3))
    kernel(x)
    arrays["TABLE"] = rig.device(np.full(3, 10.0))
    kernel(x)
    assert qgraph.to_numpy(x).tolist() == [10.0, 11.0, 12.0]
    assert kernel.stats.compilations == 1


def test_bound_arrays_stay_where_a_number_changes(rig, module):
    made = module("K = 1\nTABLE = None\ndef kernel(x):\n    for i in range(x.shape[0]):\n        x[i] = TABLE[i] * K\n")
    made["TABLE"] = rig.device(np.arange(3.0))
    x = rig.device(np.zeros(3))
    bound = rig.kernel(made["kernel"]).bind(x)
    made["TABLE"] = rig.device(np.full(3, 50.0))
    made["K"] = 2
    for _ in range(2):
        bound.launch()
        assert qgraph.to_numpy(x).tolist() == [0.0, 2.0, 4.0]


def test_a_func_is_what_it_was_when_it_was_decorated(rig, tmp_path, monkeypatch):
    """Its file may be edited afterwards."""
    file = tmp_path / "edited_later.py"
    lines = ["import qgraph", "@qgraph.func", "def helper(a): return a + 1.0", "@qgraph.func", "def other(a): return a * 100.0"]
    file.write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import edited_later  # type: ignore[import-not-found]

    file.write_text("\n".join([lines[0], *lines[3:]]))

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = edited_later.helper(x[i])

    x = np.ones(2)
    rig.run(rig.kernel(kernel), x)
    assert x.tolist() == [2.0, 2.0]


def times(number):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(b, k=2):
            return number * function(b) + k

        return wrapper

    return decorate


def plus_one(a):
    return a + 1


def add_one(x):
    for i in range(x.shape[0]):
        x[i] += 1


def twice(function):
    @functools.wraps(function)
    def wrapper(x):
        function(x)
        function(x)

    return wrapper


MARKS = {"plain": lambda function: function, "func": qgraph.func, "njit": numba.njit, "kernel": qgraph.kernel}


@pytest.mark.parametrize("outer", ["plain", "func"])
@pytest.mark.parametrize("inner", ["plain", "func", "njit"])
def test_a_wrapper_of_a_function_is_what_runs(rig, inner, outer):
    wrapped = MARKS[outer](times(10)(MARKS[inner](plus_one)))

    def use(x):
        for i in range(x.shape[0]):
            x[i] = wrapped(x[i])

    x = np.arange(3.0)
    if "plain" in (inner, outer):
        with pytest.raises(qgraph.KernelSyntaxError, match="is a plain Python function"):
            rig.run(rig.kernel(use), x)
    else:
        rig.run(rig.kernel(use), x)
        assert x.tolist() == [12.0, 22.0, 32.0]


@pytest.mark.parametrize("outer", ["plain", "func", "kernel"])
@pytest.mark.parametrize("inner", ["plain", "func", "kernel"])
def test_a_wrapper_of_loops_is_what_runs(rig, inner, outer):
    wrapped = MARKS[outer](twice(MARKS[inner](add_one)))

    def use(x):
        wrapped(x)

    x = np.arange(3.0)
    if "plain" in (inner, outer):
        with pytest.raises(qgraph.KernelSyntaxError):
            rig.run(rig.kernel(use), x)
    else:
        rig.run(rig.kernel(use), x)
        assert x.tolist() == [2.0, 3.0, 4.0]


class _Private:
    __held = 3

    @staticmethod
    def kernel(x, __n=1):
        for i in range(x.shape[0]):
            __t = x[i] + __n
            x[i] = __t * _Private.__held

    def around(self):
        __free = 5

        def kernel(x):
            for i in range(x.shape[0]):
                x[i] += __free

        return kernel


@pytest.mark.parametrize("function", [_Private.kernel, _Private().around()], ids=["method", "nested"])
def test_private_names_of_a_class(check, function):
    check(function, lambda: (np.arange(4.0),))


def test_code_that_is_replaced_is_told_where_it_would_be_compiled(rig, module):
    made = module("@qgraph.func\ndef inner(a): return 1\ndef other(a): return 2\ndef kernel(x):\n    x[0] = inner(x[0])\n")
    kernel = rig.kernel(made["kernel"])
    kernel(rig.device(np.zeros(1)))
    made["inner"].function.__code__ = made["other"].__code__
    with pytest.raises(qgraph.KernelSyntaxError, match=r"the code of inner\(\) was replaced"):
        kernel(rig.device(np.zeros(1, np.int64)))


def test_a_constructor_that_is_replaced_after_calls(rig):
    @dataclasses.dataclass
    class Pair:
        a: float
        b: float

    def make(x):
        pair = Pair(x[0], x[1])
        x[0] = pair.a * 10 + pair.b

    kernel = rig.kernel(make)
    for _ in range(4):
        x = np.array([1.0, 2.0])
        rig.run(kernel, x)
        assert x[0] == 12.0
    Pair.__post_init__ = lambda self: setattr(self, "a", 0)  # type: ignore[attr-defined]
    with pytest.raises(qgraph.KernelSyntaxError, match="runs code of Pair"):
        rig.run(kernel, x)
