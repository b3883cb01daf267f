"""Numba's failures as qgraph's: the user's line, and the one sentence that matters."""

from __future__ import annotations

import ast
import linecache
import operator
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numba.core.errors import NumbaError, UnsupportedBytecodeError

from qgraph.compat import numba_messages as messages
from qgraph.errors import KernelTypeError
from qgraph.ir.functions import Function
from qgraph.operations.table import operation
from qgraph.source import Span, nodes_of

_NUMBA = re.compile(r"(?:^|[/\\])(numba|numba_cuda|qgraph[/\\]lowering)[/\\]")
_LOWERING = os.path.dirname(os.path.dirname(__file__))
# What is said of a function that Numba compiles from Python: its error is about code that the user has not written.
_OWN = "Numba's own code for {} does not compile here"
_OWN_CODE = re.compile(_OWN.format(".+"))
_HINT = "check the types of the values on this line; kernels hold numbers, arrays and tuples"
_HINT_OWN_CODE = "write it as a loop, or with numbers alone"
_HINT_ARRAY = "take one element, a[0], or let a loop store one in each iteration; at kernel level x[:] = ... assigns them all"
_HINT_ELEMENT = "take an element: a[0], or a[()] of an array without axes"
_STORED = "is assigned to one element of an array"
_COMPLEX = "a complex number is stored or converted as a number of type "
_HINT_COMPLEX = "take its real part: z.real, or np.real(z) of a whole array"
_INDEX = "an index of an element is a "
_HINT_INDEX = "indices are integers: write int(...), or // where a float would come out"
_SEVERAL_TYPES = re.compile(r"(?:getiter|enumerate|zip|getitem|reversed)\b.*?(\(| )(?P<type>Tuple\((?P<parts>[^()]*)\))")
_TUPLE_OF_TYPES = "is taken apart by a variable, or a loop goes over it"
_HINT_TUPLE_OF_TYPES = (
    "write numbers of one type, (1.0, 0.5); or unroll the loop: for v in qgraph.static(...), for k in qgraph.static(range(n))"
)
_TESTED = re.compile(r"contains\(Tuple\((?P<parts>[^()]*)\)")
_TESTED_TUPLE = "is what a number is looked for in"
_HINT_TESTED = "write the tuple where it is tested, `t in (a, b)`, and give what functions compute a name before: t = f(x)"
_AS_SCALAR = re.compile(r"(?P<found>a kernel scalar holds a number, not )(?P<type>\w+|\.\.\.).*")
# What is no number, by how Numba's names of types begin.
_NO_NUMBERS = {
    "array": "an array",
    "unicode_type": "a text",
    "UniTuple": "a tuple",
    "Tuple": "a tuple",
    "BoundFunction": "a method",
    "dtype": "a dtype",
    "class": "a type",
    "slice": "a slice",
    "none": "None",
    "range_": "a range",
}
# What to do instead, by what stands where a number belongs.
_HINTS_NO_NUMBER = {
    "a text": 'kernels compute with numbers and arrays; texts are compared, n == "text", and formatted on the host',
    "None": "pass a number or an array, or return one from the func; what may be None is tested before: if n is not None: ...",
    "a range": "compute its number: start + i * step",
    "a tuple": "take its numbers one by one, t[0] and t[1], or make an array of them, np.array((a, b))",
    "a slice": "write the slice where it is used, x[a:b]",
}
_TAKES_NO = re.compile(
    rf"^({'|'.join(_HINTS_NO_NUMBER)}) is (?:assigned|indexed|an index)|, not ({'|'.join(_HINTS_NO_NUMBER)})$"
)
_ARRAY_AS_SCALAR = "a kernel scalar holds a number, not an array"
_VECTOR_AS_SCALAR = re.compile(r"a kernel scalar holds a number, not (vec|mat)\d")
_HINT_VECTOR = "at kernel level a new vector is written by its components: qgraph.vec(2 * v.x, 2 * v.y)"
_OF_VECTOR = re.compile(r"Unknown attribute '(?P<name>\w+)' of type (?P<kind>vec|mat)(?P<shape>[\dx]+)\(.*")
_OF_DTYPE = re.compile(r"Unknown attribute '(?P<name>\w+)' of type dtype\(\w+\)")
_COMPARED_DTYPES = re.compile(r"no implementation of (eq|ne)\(.*(dtype|class)\(\w+\).*")
_OF_NUMBER = re.compile(
    r"(no implementation of (static_)?([gs]etitem|len)\(|Unknown attribute 'shape' of type )(u?int|float|complex|bool)\d*\b.*"
)
_ATTRIBUTE = re.compile(r"Unknown attribute '(?P<name>\w+)' of type (?P<type>(u?int|float|complex|bool)\d*)\b.*")
_OF_TEXT = re.compile(r"Unknown attribute '(?P<name>\w+)' of type unicode_type.*")
_OF_ARRAY = re.compile(r"Unknown attribute '(?P<name>\w+)' of type array\(.*")
_OF_TUPLE = re.compile(r"Unknown attribute '(?P<name>\w+)' of type (?!array|dtype|class|vec\d|mat\d)\w+\(.*")
_LENGTHS = re.compile(r".*wrong tuple length for .*expected (?P<names>\d+), got (?P<values>\d+).*")
_LACKING = "kernels have no"
_HINT_LACKING = "write what it computes as a @qgraph.func, or compute it before the call"
_VALUES = "names that are unpacked"
_HINT_VALUES = "unpack as many as there are"
_NO_ELEMENTS = "a number has no elements, and no length or shape"
_HINT_NO_ELEMENTS = "index an array here: pass one for this name, or give the number another name"
_TOO_MANY = re.compile(r"cannot index array\([^()]*?(?P<axes>\d+)d, \w+\) with (?P<given>\d+) indices: .*")
_INDICES = "indices of an array that has fewer axes"
_HINT_INDICES = "give one index for each axis of the array, or pass one with more axes"
_TYPES_COMPARED = "types are compared while the kernel runs"
_A_DTYPE = "the dtype of an array"
_HINT_DTYPE = "what is known of types is computed while compiling: qgraph.static(x.dtype == np.float32), for an array `x`"
_UNIFORM = re.compile(r"UniTuple\(.* x (?P<length>\d+)\)")
_OR_NONE = re.compile(r"is None on one path and")
_TUPLES = re.compile(r"[Tt]uple.* on one path and|on one path and .*[Tt]uple")
_HINT_TUPLES = "let it be a tuple of one class and length on each path"
_HINT_OR_NONE = "give it a number, or a tuple as long, on each path; a flag beside it, found = False, tells what None does"
_HINTS_BY_PATTERN = (
    (messages.WITHOUT_AXES, _HINT_ELEMENT),
    (_VECTOR_AS_SCALAR, _HINT_VECTOR),
    (_OR_NONE, _HINT_OR_NONE),
    (_TUPLES, _HINT_TUPLES),
)
_NO_VECTORS = re.compile(r"(can't resolve ufunc |no implementation of )(?P<name>\w+)\b( for types \[|\()(vec|mat)\d[^,]*")
_TAKES_NO_VECTOR = "takes no vector"
_HINT_NO_VECTOR = "write it by components: qgraph.vec(np.sqrt(v.x), np.sqrt(v.y)), v.x + v.y"
_WITHOUT = "has no attribute"
_NUMBER_WITHOUT = "a number of type"
_HINT_NUMBER_WITHOUT = "write a function or an operator of it: abs(v), np.round(v), v % 1 == 0"
_HINT_OF_VECTOR = (
    "vectors have x, y, z, w, dot(), cross() and norm(), matrices T, norm() and inv(); "
    "write others by components, v[0], m[0, 1]"
)
# What is said of values that `print` takes on some backends alone.
NO_TEXT = "is printed in a kernel"
_HINT_NO_TEXT = "kernels print numbers and literal texts: print(x[0], z.real), and whole arrays after the call"
_TOO_LARGE = re.compile(r"Int value is too large: (?P<value>-?\d+)")
_MATCHED = "kernels match integers"
_HINT_MATCHED = "write `if` and `elif`, which compare numbers of any type: `if v == 0.5:`"
_WIDE = "does not fit 64 bits"
_HINT_WIDE = "kernels compute with integers of 64 bits: write a float, 1e20, or let numbers stay smaller"
_TEXT_WITHOUT, _ARRAY_WITHOUT, _TUPLE_WITHOUT = (f"{what} {_WITHOUT}" for what in ("a text", "an array", "a tuple"))
_IN_PLAIN_WORDS = (
    (_OF_NUMBER, _NO_ELEMENTS),
    (_ATTRIBUTE, f"{_NUMBER_WITHOUT} {{type}} {_WITHOUT} `{{name}}`"),
    (_OF_TEXT, f"{_TEXT_WITHOUT} `{{name}}` in a kernel"),
    (_OF_ARRAY, f"{_ARRAY_WITHOUT} `{{name}}` in a kernel"),
    (_OF_TUPLE, f"{_TUPLE_WITHOUT} `{{name}}` in a kernel"),
    (_LENGTHS, f"{{values}} values for {{names}} {_VALUES}"),
    (_TOO_LARGE, f"the integer {{value}} {_WIDE}"),
    (_TOO_MANY, f"{{given}} {_INDICES}"),
    (_COMPARED_DTYPES, _TYPES_COMPARED),
    (_OF_DTYPE, f"{_A_DTYPE} has no `{{name}}` while the kernel runs"),
    (_NO_VECTORS, f"`{{name}}` {_TAKES_NO_VECTOR}"),
)
_HINTS_BY_END = {
    _TUPLE_OF_TYPES: _HINT_TUPLE_OF_TYPES,
    _TESTED_TUPLE: _HINT_TESTED,
    _TAKES_NO_VECTOR: _HINT_NO_VECTOR,
    _TYPES_COMPARED: _HINT_DTYPE,
    _NO_ELEMENTS: _HINT_NO_ELEMENTS,
    _INDICES: _HINT_INDICES,
    NO_TEXT: _HINT_NO_TEXT,
    _WIDE: _HINT_WIDE,
    _MATCHED: _HINT_MATCHED,
    _VALUES: _HINT_VALUES,
}
_HINTS_BY_START = {
    _TEXT_WITHOUT: _HINTS_NO_NUMBER["a text"],
    _LACKING: _HINT_LACKING,
    _TUPLE_WITHOUT: "tuples have the fields that they are made with; write loops over them, or make a new one",
    _ARRAY_WITHOUT: "check the spelling; or write NumPy's function of that name",
    _COMPLEX: _HINT_COMPLEX,
    _INDEX: _HINT_INDEX,
    _A_DTYPE: _HINT_DTYPE,
    _NUMBER_WITHOUT: _HINT_NUMBER_WITHOUT,
}
_INTERNAL = "an internal error of the compiler, not of the kernel"
_INTERNAL_HINT = "please report it, with this loop and the error that follows; writing the line in another way may avoid it"


@contextmanager
def kernel_errors(function: Function, called: Sequence[object] = ()) -> Iterator[None]:
    """Turn what Numba raises into ``KernelTypeError`` at the user's line.

    Where a compiler has met what it did not expect (an assertion, an operation without code), the message says that the
    compiler is to blame. ``called`` is where the compilation collects the functions it meets; the error may lie in one of them.
    """
    refused: tuple[type[Exception], ...] = (NumbaError, UnsupportedBytecodeError)
    try:
        yield
    except refused as error:
        functions = _functions(function, called)
        found = _unknown_global(error, functions) or _two_types(error) or _in_plain_words(_of_several_types(sentence(error)))
        raise KernelTypeError(found, _span(error, functions, found), hint=_hint(found)) from error
    except KeyError as error:
        ufunc = error.args[0] if error.args else None
        if not isinstance(ufunc, np.ufunc):
            raise
        raise KernelTypeError(
            f"the array operation numpy.{ufunc.__name__} is used where a number is needed",
            _span(error, _functions(function, called)),
            hint=_HINT_ELEMENT,
        ) from error
    except (NotImplementedError, AssertionError) as error:
        text = ": ".join(part for part in (type(error).__name__, str(error)) if part)
        span = _span(error, _functions(function, called))
        if str(error) == messages.NO_HALF:
            raise KernelTypeError("the CPU cannot compute with float16", span, hint="use np.float32") from error
        raise KernelTypeError(f"{_INTERNAL}: {text}", span, hint=_INTERNAL_HINT) from error


def place_of(error: BaseException, function: Function, called: Sequence[object]) -> Span:
    """Where in ``function``, or in what it calls, an error lies."""
    return _span(error, _functions(function, called))


def _functions(function: Function, called: Sequence[object]) -> tuple[Function, ...]:
    """Those with lines of the user's: what instrumentation puts in the place of an access has none."""
    return (function, *(item for item in called if isinstance(item, Function) and not item.file.startswith(_LOWERING)))


def _hint(found: str) -> str:
    no_number = _TAKES_NO.search(found)
    if no_number:
        return _HINTS_NO_NUMBER[no_number[1] or no_number[2]]
    if found == _ARRAY_AS_SCALAR or found.endswith(_STORED):
        return _HINT_ARRAY
    for pattern, hint in _HINTS_BY_PATTERN:
        if pattern.search(found):
            return hint
    for end, hint in _HINTS_BY_END.items():
        if found.endswith(end):
            return hint
    for start, hint in _HINTS_BY_START.items():
        if found.startswith(start):
            return hint
    if _WITHOUT in found:
        return _HINT_OF_VECTOR
    return _HINT_OWN_CODE if _OWN_CODE.search(found) else _HINT


def _in_plain_words(found: str) -> str:
    """``found`` in plain words, without Numba's names for types, where it is of those that are told so."""
    for pattern, words in _IN_PLAIN_WORDS:
        match = pattern.fullmatch(found)
        if match is not None:
            return words.format(**match.groupdict())
    match = _AS_SCALAR.fullmatch(found)
    if match is not None and match["type"] in _NO_NUMBERS:
        return match["found"] + _NO_NUMBERS[match["type"]]
    match = messages.NO_NUMBER.match(found)
    if match is not None:
        return _of_no_number(match["name"], _NO_NUMBERS[match["type"]], first=not match["before"])
    match = messages.WITHOUT_CODE.fullmatch(found)
    if match is not None:
        return f"`{_symbol(match['name'])}` does not take ({match['types']})"
    match = _OF_VECTOR.fullmatch(found)
    if match is None:
        return found
    kind = "vector" if match["kind"] == "vec" else "matrix"
    return f"a {kind} of {match['shape'].replace('x', ' x ')} {_WITHOUT} `{match['name']}`"


def _of_no_number(name: str, what: str, *, first: bool) -> str:
    """What to say of a call of ``name`` that gets a text, None and the like; ``first``: as its first argument."""
    if name in ("getitem", "setitem"):
        return f"{what} is indexed" if first else f"{what} {_STORED if name == 'setitem' else 'is an index'}"
    wanted = "an index is an integer" if name == "index" else f"`{_symbol(name)}` takes numbers"
    return f"{wanted}, not {what}"


def _symbol(name: str) -> str:
    """An operator as it is written, of its function in ``operator``; ``name`` of any other function."""
    function = getattr(operator, name, None) or getattr(operator, f"{name}_", None)
    return operation(function).symbol or name


def of_own_code(call: str, error: BaseException) -> str:
    """The text of an error in what Numba compiles for a call, to which ``kernel_errors`` gives one sentence."""
    return f"{_OWN.format(call)}\n{error}"


def sentence(error: BaseException) -> str:
    """The essential sentence of a Numba error."""
    text = messages.COLOUR.sub("", str(error.args[0]) if error.args else "")
    text = messages.LITERAL.sub(r"\1", messages.LITERAL_TEXT.sub("unicode_type", text))
    if any(words in text for words in messages.NEW_ARRAY):
        return "what is called here makes a new array, which CUDA kernels cannot: write a loop instead"
    own = _OWN_CODE.search(text)
    if own:
        return own[0]
    if any(words in text for words in messages.LACKING):
        return "Numba has no code for a part of this line with the types of its values"
    narrowed = messages.COMPLEX_STORED.search(text) or messages.COMPLEX_CONVERTED.search(text)
    if narrowed:
        return f"{_COMPLEX}{narrowed['type']}"
    index = messages.INDEX.search(text)
    if index:
        what = _NO_NUMBERS.get(index["type"])
        return f"{_INDEX}{index['type']}" if what is None else f"{what} is an index"
    inner = [each for each in messages.INNER.findall(text) if not each.startswith(messages.PARAMETERS)]
    match = messages.NO_MATCH.search(text)
    if inner:
        return str(inner[-1]).strip()
    if match:
        call = _call(match["type"], match["call"])
        stored = messages.ARRAY_STORED.fullmatch(call)
        return f"{stored['value']} {_STORED}" if stored else f"no implementation of {call} for these types"
    match = messages.INVALID.search(text)
    if match:
        return f"{_name(match['type'])} cannot be called with {match['args']}"
    lines = (line.strip() for line in text.splitlines())
    useful = [line for line in lines if line and not line.startswith(messages.NOISE)]
    return useful[0] if useful else f"Numba cannot compile this ({type(error).__name__})"


def _unknown_global(error: BaseException, functions: Sequence[Function]) -> str | None:
    """What to say of a function that Numba has not got: its own name, not the one that generated code has for it."""
    text = messages.COLOUR.sub("", str(error))
    match = messages.UNTYPED.search(text)
    if match is None or _OWN_CODE.search(text):
        return None
    for function in functions:
        value = function.names.get(match["name"])
        if value is not None:
            name = getattr(value, "__name__", type(value).__name__)
            module = getattr(value, "__module__", None)
            return f"{_LACKING} {f'{module}.{name}' if module else name}"
    return None


def _two_types(error: BaseException) -> str | None:
    """What to say of a name, or a function's result, that has one type on one path and another one on another."""
    text = messages.LITERAL.sub(r"\1", messages.COLOUR.sub("", str(error)))
    match = None if _OWN_CODE.search(text) else messages.TWO_TYPES.search(text)
    if match:
        one, other = sorted((match["one"], match["other"]))
        lengths = _tuple_length(one), _tuple_length(other)
        if lengths[0] != lengths[1] and None not in lengths:
            one, other = f"a tuple of {lengths[0]}", f"a tuple of {lengths[1]}"
        # What has no name of the user's has one of Numba's, which begins so.
        what = "a value" if match["name"].startswith("$") else f"`{match['name']}`"
        return f"{what} is {one} on one path and {other} on another"
    match = messages.TWO_RESULTS.search(text)
    return f"a function returns values of several types: {match['types']}" if match else None


def _tuple_length(type_text: str) -> int | None:
    """How many parts a tuple has; None for the type of anything else."""
    match = _UNIFORM.fullmatch(type_text)
    if match is not None:
        return int(match["length"])
    if not type_text.startswith("Tuple("):
        return None
    depth = commas = 0
    for each in type_text.removeprefix("Tuple(").removesuffix(")"):
        depth += (each == "(") - (each == ")")
        commas += each == "," and depth == 0
    return commas + 1


def _of_several_types(found: str) -> str:
    """``found``, or what to say of a tuple whose items have several types, so that it has no one type of item."""
    for pattern, where in ((_SEVERAL_TYPES, _TUPLE_OF_TYPES), (_TESTED, _TESTED_TUPLE)):
        match = pattern.search(found)
        if match:
            return f"a tuple of values of several types, {match['parts']}, {where}"
    return found


def _name(type_text: str) -> str:
    method = re.match(r"BoundFunction\(\w+\.(?P<name>\w+) for (?P<of>\w+)", type_text)
    if method:
        return f"the method `{method['name']}` of {_NO_NUMBERS.get(method['of'], 'a number')}"
    match = messages.TYPE_NAME.search(type_text)
    # Operators have the names of Python's functions, of which those that are keywords end with an underscore.
    return match["name"].rstrip("_") if match else type_text


def _call(type_text: str, call: str) -> str:
    name = _name(type_text)
    arguments = call[call.index("(") :] if "(" in call else ""
    return f"{name}{arguments.strip()}"


def _span(error: BaseException, functions: Sequence[Function], found: str = "") -> Span:
    """The innermost place in the user's source that Numba names, as a statement of the function it lies in.

    ``found``, what is said of it, may tell which one on that line it is.
    """
    for file, line in _places(error):
        # The first function is the outermost one, whose lines may be generated: the others know better.
        for function in (*functions[1:], functions[0]):
            tree = function.tree
            if _same_file(file, function.file) and tree.lineno <= line <= _last_line(tree):
                return _statement_span(tree, function.file, line, found)
        if not _NUMBA.search(file):
            return _line_span(os.path.abspath(file), line)
    tree = functions[0].tree
    return Span.of(tree.body[0] if tree.body else tree, functions[0].file)


def _last_line(tree: ast.FunctionDef) -> int:
    """The last line of a function. Generated ones have the position of a loop's header, and a body that goes on below it."""
    return max(node.end_lineno or node.lineno for node in nodes_of(tree) if isinstance(node, ast.stmt))


def _line_span(file: str, line: int) -> Span:
    """A whole line without its indentation."""
    text = linecache.getline(file, line).rstrip()
    return Span(file, line, len(text) - len(text.lstrip()), line, max(1, len(text.encode())))


def _places(error: BaseException) -> Iterator[tuple[str, int]]:
    for match in messages.PLACE.finditer(messages.FIRST_LINE.sub("", messages.COLOUR.sub("", str(error)))):
        file, line = (match["file"], match["line"]) if match["file"] else (match["at"], match["at_line"])
        yield file, int(line)
    place = getattr(error, "loc", None)
    if place is not None:
        yield place.filename, place.line


def _same_file(left: str, right: str) -> bool:
    # Numba shortens names to the working directory.
    return left == right or os.path.abspath(left) == os.path.abspath(right)


def _statement_span(tree: ast.FunctionDef, file: str, line: int, found: str) -> Span:
    """The innermost statement that starts on ``line``, else the smallest one that covers it.

    Of several on one line, `if c: x[i] = 1`, Numba does not say which: those that ``found`` fits, or all of them.
    """
    parts = _parts_of_line(tree, line)
    if len(parts) > 1:
        spans = [Span.of(each, file) for each in parts]
        fitting = [span for each, span in zip(parts, spans, strict=True) if _fits(found, each, span)]
        chosen = fitting or spans
        first, last = min(chosen, key=lambda each: each.column), max(chosen, key=lambda each: each.end_column)
        return Span(file, line, first.column, line, last.end_column)
    best: ast.stmt | None = None
    for node in nodes_of(tree):
        if not isinstance(node, ast.stmt) or node is tree:
            continue
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if best is None or _height(node) <= _height(best):
            best = node
    if best is None:
        return _line_span(file, line)
    if (best.lineno, best.end_col_offset) == (best.end_lineno, best.col_offset + 1):  # generated, for all of the line
        return _line_span(file, line)
    return Span.of(_header(best) or best, file)


def _parts_of_line(tree: ast.FunctionDef, line: int) -> list[ast.AST]:
    """The simple statements that are on ``line`` alone, and what compound ones that start there test or go over, by place."""
    parts: dict[tuple[int, int], ast.AST] = {}
    for node in nodes_of(tree):
        if not isinstance(node, ast.stmt) or node is tree or node.lineno != line:
            continue
        part = _header(node) or node
        # What is generated for a header has its first column.
        if part.lineno == part.end_lineno == line and (part.end_col_offset or 0) > part.col_offset + 1:
            parts.setdefault((part.col_offset, part.end_col_offset or 0), part)
    # What is generated has the place of a part of the user's statement.
    inside = {(a, b) for a, b in parts for c, d in parts if (a, b) != (c, d) and c <= a and b <= d}
    return [parts[place] for place in sorted(parts.keys() - inside)]


def _fits(found: str, part: ast.AST, span: Span) -> bool:
    """Whether ``found`` may be said of a statement or test: it assigns, or has the operator or function that is named."""
    if found.endswith(_STORED):
        targets = part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(part, ast.AugAssign) else []
        return any(isinstance(each, ast.Subscript) for each in targets)
    named = re.search(r"`(\S+)`", found)
    text = linecache.getline(span.file, span.line).encode()[span.column : span.end_column].decode(errors="replace")
    words = re.findall(r"\w+|[^\w\s()\[\],.]+", text)
    return named is not None and (named[1] in words or f"{named[1]}=" in words)


def _header(node: ast.stmt) -> ast.expr | None:
    """What a compound statement tests, or goes over."""
    found: ast.expr | None = getattr(node, "test", None) or getattr(node, "iter", None) or getattr(node, "subject", None)
    return found if isinstance(node, ast.If | ast.While | ast.For | ast.Match) else None


def _height(node: ast.AST) -> int:
    return (getattr(node, "end_lineno", 0) or 0) - int(getattr(node, "lineno", 0))
