"""What is parsed is what Python compiled: a function is accepted wherever it stands, and refused where its file is another."""

from __future__ import annotations

import importlib.util
import itertools
import random
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import qgraph
from qgraph.frontend.syntax.parse import parse

NUMBERS = itertools.count()

BODIES = [
    "for i in range(x.shape[0]):\n    x[i] = a * i",
    "s = 0\nfor i in range(x.shape[0]):\n    s += x[i] if i > 2 else math.sqrt(x[i])\nreturn s",
    "'''Two\nlines.'''\nfor i in range(x.shape[0]): x[i] = FREE * i + __private(i)",
    "t = (1, 2.5, 'text', None, -0.0)\nwhile a > 1:\n    a = a // 2\nreturn a, t[0]",
    "for i in qgraph.serial(range(3)):\n    for j in qgraph.ndrange(i, 2):\n        x[j] += np.sqrt(FREE) * Other.value(j)",
    "match a:\n    case 1 | 2:\n        x[0] = 1\n    case _:\n        x[0] = 2",
    "if (n := x.shape[0]) > 3:\n    x[:] = x[::-1] * n",
    "__t = x[0]\nx.__field = __t\nx[0] = __t + a.__class__.__name__.__len__()",
]
PLACES: dict[str, Callable[[str], str]] = {
    "module": lambda text: f"{text}\nfound = f",
    "branch": lambda text: f"if True:\n{indented(text)}\nfound = f",
    "closure": lambda text: f"def around(FREE):\n{indented(text)}\n    return f\nfound = around(2)",
    "closures": lambda text: (
        f"def one(FREE):\n    def two(math):\n{indented(text, 8)}\n        return f\n    return two(0)\nfound = one(2)"
    ),
    "class": lambda text: f"class Own:\n{indented(text)}\nfound = Own.f",
    "class of one column": lambda text: f"class Own:\n{indented(text, 1)}\nfound = Own.f",
    "class with underscores": lambda text: f"class __Own:\n{indented(text)}\nfound = __Own.f",
    "class of nothing else": lambda text: f"class __:\n{indented(text)}\nfound = __.f",
    "nested class": lambda text: f"class A:\n  class B:\n{indented(text)}\nfound = A.B.f",
    "class in a function": lambda text: f"def g(FREE):\n    class C:\n{indented(text, 8)}\n    return C.f\nfound = g(1)",
    "function in a class": lambda text: (
        f"class C:\n    def m(self, FREE, __private):\n{indented(text, 8)}\n        return f\nfound = C().m(1, 2)"
    ),
    "tabs": lambda text: f"def g(FREE):\n{textwrap.indent(text, chr(9))}\n\treturn f\nfound = g(1)",
}
HEADS = [
    "def f(x, a=1):",
    "@same\n@same\ndef f(x, a=1, *, k: int = 3) -> None:",
    "def f(x,\n      a=2):",
    "def f(x, a=1):  # ü",
]
IMPORTS = "import math\nimport numpy as np\nfrom qgraph import func as Other\nimport qgraph\ndef same(f): return f\n"
STARTS = ["", "from __future__ import annotations\n", IMPORTS, f"'''Text.'''\nfrom __future__ import annotations\n{IMPORTS}"]


def indented(text: str, columns: int = 4) -> str:
    """Every line, those of strings too, which are then others in both."""
    return textwrap.indent(text, " " * columns)


@pytest.fixture
def written(tmp_path) -> Callable[[str], tuple[Any, Any]]:
    """A module of this text: the function that it calls ``found``, and its file."""

    def write(text: str) -> tuple[Any, Any]:
        file = tmp_path / f"parsed_{next(NUMBERS)}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.same = lambda function: function  # type: ignore[attr-defined]
        spec.loader.exec_module(module)
        return module.found, file

    return write


def texts(body: str, place: str) -> list[str]:
    return [
        start + PLACES[place](f"{head}\n{indented(body)}")
        for start in STARTS
        for head in (HEADS if "same" in start else [HEADS[0], *HEADS[2:]])
    ]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_function_is_accepted_wherever_it_stands(written, body, place):
    for text in texts(body, place):
        function, _ = written(text)
        source = parse(function, "@qgraph.kernel")
        assert source.tree.name == "f"
        names = {*function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]}
        assert {each.arg for each in [*source.tree.args.args, *source.tree.args.kwonlyargs]} == names


def _another_number(text: str, chance: random.Random) -> str:
    places = [place for place, sign in enumerate(text) if sign in "12"]
    place = chance.choice(places)
    return f"{text[:place]}{3 - int(text[place])}{text[place + 1 :]}"


def _another_name(text: str, chance: random.Random) -> str:
    # Of a name that is looked up, and of one that is none.
    old, new = chance.choice([("range(", "reversed("), ("[i]", "[a]"), ("x[", "a["), ("sqrt", "exp")])
    return text.replace(old, new)


def _another_operator(text: str, chance: random.Random) -> str:
    return text.replace(*chance.choice([(" * ", " + "), (" += ", " -= "), (" > ", " >= "), ("//", "%")]))


def _a_line_less(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    del lines[chance.randrange(len(lines))]
    return "\n".join(lines)


def _a_line_more(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    before = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    lines.insert(place, f"{before}a = 7")
    return "\n".join(lines)


EDITS = [_another_number, _another_name, _another_operator, _a_line_less, _a_line_more]


@pytest.mark.parametrize("seed", range(60))
def test_another_text_is_refused(written, seed):
    """Where it would be another function; where it is the same one after all, it is accepted."""
    chance = random.Random(seed)
    place = chance.choice([*PLACES])
    text = STARTS[-1] + PLACES[place](f"{HEADS[0]}\n{indented(chance.choice(BODIES))}")
    function, file = written(text)
    edited = chance.choice(EDITS)(text, chance)
    file.write_text(edited)
    try:
        found = parse(function, "@qgraph.kernel")
    except qgraph.KernelSyntaxError as error:
        assert edited != text
        assert error.hint
        return
    # It is the function that Python has: at the same line, of the same statements.
    file.write_text(text)
    assert unparsed(parse(function, "@qgraph.kernel")) == unparsed(found)


def unparsed(source: Any) -> str:
    import ast

    tree = source.tree
    body = tree.body[1:] if ast.get_docstring(tree) else tree.body
    return "\n".join(map(ast.unparse, body))


def test_another_text_is_told(written):
    function, file = written("def f(x):\n    x[0] = 1\nfound = f\n")
    file.write_text("def f(x):\n    x[0] = 2\nfound = f\n")
    with pytest.raises(qgraph.KernelSyntaxError, match="is not what Python compiled") as caught:
        qgraph.func(function)
    assert "import the module anew" in str(caught.value)
