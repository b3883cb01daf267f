"""The table of what loop bodies may say: each row is accepted by every backend, or refused by every one with the same sentence.

A body is of iteration ``i`` (0 to 4). Rows ``i`` of ``a`` and ``b`` (5 by 4) are its own; ``c`` (5 by 4) and ``x`` (4) are only
read; all are of the dtype at hand. ``k`` are five integers below 3; ``h`` (3) takes colliding updates; ``out`` has a row for
each body.
"""

from __future__ import annotations

from dataclasses import dataclass

# The dtypes of the table, by what a row calls them.
DTYPES = {
    "float64": "f",
    "float32": "f",
    "int8": "s",
    "uint64": "i",
    "bool": "b",
    "complex64": "c",
}
ALL = "fisbc"


@dataclass(frozen=True)
class Form:
    """A body; ``kinds`` of dtypes that accept it. ``refusal``: what else is said, or what all say where ``kinds`` is empty."""

    text: str
    kinds: str = ALL
    refusal: str = ""


def expressions(*texts: str, kinds: str = ALL, refusal: str = "") -> list[Form]:
    """Bodies that store the value of an expression."""
    return [Form(f"out[ROW, i] = {text}", kinds, refusal) for text in texts]


def statements(*texts: str, kinds: str = ALL, refusal: str = "") -> list[Form]:
    """Bodies that change row ``i`` of ``a``, which is summed up afterwards, and made anew for the next one."""
    return [Form(text, kinds, refusal) for text in texts]


REDUCTIONS = expressions(
    "np.dot(c[i], x)",
    "np.vdot(c[i], x)",
    "c[i] @ x",
    "c[i].dot(x)",
    "np.sum(c[i])",
    "c[i].sum()",
    "np.sum(c)",
    "np.sum(c.T[0])",
    "np.sum(c[i, :3])",
    "np.sum(c[i, -3:] * x[:-1])",
    "np.sum(c[i, ::2] * x[::2])",
    "np.dot(c[i, ::-1], x)",
    "np.sum(c[i] * x[0])",
    "np.sum(c[:, k[i]] * c[:, 0])",
    "np.prod(c[i])",
    "np.any(c[i])",
    "np.all(c[i] == x)",
    "np.count_nonzero(c[i])",
    "np.mean(c[i])",
    "c[i].mean()",
    "np.linalg.norm(c[i])",
    "np.sum(np.where(c[i] == x, c[i], x))",
    "np.sum(np.abs(c[i]))",
    "len(c[i]) + c[i].size",
    "np.sum(c[i]) if np.any(c[i] == x) else np.sum(x)",
    "np.std(c[i])",
)
REDUCTIONS += expressions("np.min(c[i])", "np.max(c[i] * x)", "c[i].max()", "np.sum(c[i] * 2)", "np.sum(c[i] + x * i)")
REDUCTIONS += expressions(
    "np.argmin(c[i])",
    "np.argmax(c[i] * x)",
    "np.sum(c[i] > x)",
    kinds="fisb",
    refusal="complex numbers have no order: compare their parts, or",
)
REDUCTIONS += expressions(
    "np.nansum(c[i])", kinds="fc", refusal="`np.nansum(c[i])` is a function of arrays that loops do not have"
)

STORES = statements(
    "a[i, :] = 0",
    "a[i] = x",
    "a[i] = c[i]",
    "a[i, 1:] = x[:-1]",
    "a[i, ::-1] = c[i]",
    "a[i, 1:] = a[i, :-1]",
    "a[i, :-1] = a[i, 1:]",
    "a[i, 2:] = a[i, :-2] * a[i, 1:-1]",
    "a[i] = np.where(c[i] == x, x, b[i])",
    "w = a[i]; w[1:] = w[:-1]",
    "w = a[i, 1:]; v = w[1:]; v[:] = x[:2]",
    "a[i] = x[0]",
    "a[i, ...] = c[i]",
    "if i > 2: a[i] = c[i] * x",
    "for j in range(4): a[i, j:] = x[j:]",
    "a[i] = (x[0], x[1], x[2], x[3])",
    "a[i].fill(1)",
    "for n, v in enumerate(c[i]): a[i, n] = v",
)
STORES += statements("a[i] -= 1", kinds="fisc", refusal="`a[i] -= 1` computes int64, and `a[i]` is of type bool")
STORES += statements("a[i, 1:] += x[:-1]", kinds="fisc", refusal="bool + bool is a number in Python and not in NumPy")
STORES += statements(
    "a[i] = np.conjugate(c[i]) * x", kinds="fisc", refusal="a number of type bool has no attribute `conjugate`"
)
STORES += statements("a[i] = x / 2", "a[i] *= x", "a[i] = x * 2 - c[i]")
STORES += statements("a[i] *= 1.5", kinds="fc", refusal="`a[i] *= 1.5` computes float64, and `a[i]` is of type")

UPDATES = statements("h[k[i]] += c[i, 0]", "h[k[i]] -= c[i, 1]", kinds="fic", refusal="has no atomic")

REFUSED = [
    *expressions("np.sum(c[i][c[i] == x])", kinds="", refusal="the index `c[i] == x` is no integer and no slice"),
    *expressions("np.median(c[i])", kinds="", refusal="`np.median(c[i])` is none of the functions of arrays that kernels have"),
    *expressions("np.cumsum(c[i])[0]", kinds="", refusal="`np.cumsum(c[i])` is a new array"),
    *expressions("np.sort(c[i])[0]", kinds="", refusal="`np.sort(c[i])` is a new array"),
    *expressions("np.linalg.det(c[:4])", kinds="", refusal="`np.linalg.det(c[:4])` is computed by a library, of whole arrays"),
    *expressions("np.sum(c, axis=0)", kinds="", refusal="`np.sum(c, axis=0)` is a new array"),
    *expressions("np.outer(c[i], x)[0, 0]", kinds="", refusal="`np.outer(c[i], x)` is a new array"),
    *expressions("np.dot(c, x)[0]", kinds="", refusal="`np.dot(c, x)` is a new array"),
    *statements("a[i, c[i] == x] = 0", kinds="", refusal="the index `c[i] == x` is no integer and no slice"),
    *statements("a[i][c[i] == x] = x[0]", kinds="", refusal="the index `c[i] == x` is no integer and no slice"),
    *statements("t = c[i, 1:] * x[1:]; a[i, 0] = t[0]", kinds="", refusal="`c[i, 1:] * x[1:]` is a new array"),
    *statements("a[i], b[i] = b[i], a[i]", kinds="", refusal="`a[i]` is assigned together with others"),
    *statements(
        "a[i, 1:-1] = a[i, 2:] * a[i, :-2]", kinds="", refusal="which is assigned, may be parts of one array that overlap"
    ),
    *statements("a[i] = a[i, ::-1]", kinds="", refusal="which is assigned, may be parts of one array that overlap"),
    *statements("a[i] = x[:, None]", kinds="", refusal="has 2 dimensions, and the part that is assigned 1"),
    *expressions("np.any(x[0] == x[1])", kinds="", refusal="`np.any(x[0] == x[1])` is of a number"),
    *statements("q = c[i], x; a[i, 0] = np.sum(q[0])", kinds="", refusal="`np.sum(q[0])` is of what may be no array"),
    *statements("q = (i, 0); a[i, 0] = np.max(c[q])", kinds="", refusal="`np.max(c[q])` is of what may be no array"),
    *statements("np.multiply(a[i], x, a[i])", kinds="", refusal="`np.multiply(a[i], x, a[i])` is a new array"),
]

# Every operator, and every function of numbers that has a record or is one of NumPy's, of numbers of the dtype.
NUMBERS = expressions(
    *(f"x[i % 4] {sign} c[i, 0]" for sign in "*/"),
    *(f"{name}(c[i, 0], x[i % 4])" for name in ("np.multiply", "np.minimum", "np.maximum", "np.logical_xor", "np.not_equal")),
    *(f"{name}(c[i, 0])" for name in ("np.square", "np.abs", "abs", "np.isfinite")),
    "c[i, 0] ** 2",
    "c[i, 0] == x[0] or c[i, 0] != x[1]",
    "x[0] if c[i, 0] == x[0] else x[1]",
    "not c[i, 0]",
)
NUMBERS += expressions("np.real(x[1])", "x[1].imag + x[0].real", kinds="fisc", refusal="of type bool")
NUMBERS += expressions(
    "x[i % 4] + c[i, 0]", "np.add(c[i, 0], x[1])", kinds="fisc", refusal="bool + bool is a number in Python and not in NumPy"
)
NUMBERS += expressions("np.conjugate(c[i, 0])", kinds="fisc", refusal="a number of type bool has no attribute `conjugate`")
NUMBERS += expressions(
    "np.negative(c[i, 0])", kinds="fisc", refusal="numpy.negative of bool: kernels have it of numbers that are"
)
NUMBERS += expressions("-x[0]", "x[i % 4] - c[i, 0]", kinds="fisc")
NUMBERS += expressions(
    *(f"{name}(c[i, 0], x[1])" for name in ("max", "min")),
    "c[i, 0] < x[0]",
    kinds="fisb",
    refusal="complex numbers have no order: compare their parts, or their absolute values",
)
_OF_FLOATS = "sqrt exp exp2 expm1 log1p sin cos tan arctan sinh tanh cbrt rint degrees".split()
NUMBERS += [form for name in _OF_FLOATS for form in expressions(f"np.{name}(np.float64(i) + 0.5 + x[0].real)", kinds="f")]
NUMBERS += expressions(
    *(f"math.{name}(x[0].real * 0.1 + 0.2)" for name in ("sqrt", "exp", "log", "erf", "gamma", "floor")),
    "math.hypot(i, x[0]) + math.atan2(i, x[1])",
    "np.signbit(x[0] - i)",
    "np.sign(x[0]) + np.reciprocal(x[0] + 1.5)",
    kinds="f",
)
NUMBERS += expressions(
    "qgraph.random.integers(3, i, low=-5, high=5)",
    "np.floor(8 * qgraph.random.uniform(3, i, k[i])) + qgraph.random.integers(3, k[i], high=k[i], size=2)[1]",
    kinds="f",
)
NUMBERS += expressions(
    "qgraph.vec(x[0], i, 2.0) @ qgraph.vec(c[i, 0], 1, 0)",
    "qgraph.vec(c[i]).norm()",
    "(qgraph.mat((1, i), (0, 2)).inv() @ qgraph.vec(x[0], x[1])).y",
    kinds="fisb",
)
NUMBERS += expressions("qgraph.vec(1, 2) + qgraph.vec(1, 2, 3)", kinds="", refusal="`+` of a vector of 2 and a vector of 3")
NUMBERS += expressions("qgraph.random.uniform(3, x[0])", kinds="", refusal="qgraph.random.uniform(): i must be an integer, not")
NUMBERS += expressions(
    "np.gcd(c[i, 0], x[1]) + np.lcm(c[i, 0], x[2])", "x[0] | c[i, 0]", "c[i, 0] << 1", "x[0] % 3", kinds="is"
)
NUMBERS += [
    *expressions("np.gcd(x[0], x[1])", kinds="", refusal="numpy.gcd of float64: kernels have it of integers only"),
    *expressions("np.nextafter(x[0], x[1])", kinds="", refusal="`np.nextafter()` is a function that not every backend has"),
    *expressions("np.exp2(x[0] + 1j)", kinds="", refusal="numpy.exp2 of complex128: kernels have it of real numbers only"),
    *expressions("np.sign(x[0] * 1j)", kinds="", refusal="numpy.sign of complex128: kernels have it of real numbers only"),
    *expressions("math.modf(x[0])[0]", kinds="", refusal="`math.modf()` is a function that not every backend has"),
]

MADE = statements(
    "t = np.zeros(3); t[1] = 2; a[i, 0] = t[0]; a[i, 1] = t[1]",
    "t = np.zeros(4, dtype=a.dtype); t[:] = c[i]; t[1:] = t[:-1]; a[i] = t",
    "t = np.array([c[i, 0], x[1]]); a[i, 0] = t[1]; a[i, 1:3] = t",
    "t = np.ones((2, 2), dtype=a.dtype); t[0] = x[:2]; a[i, 1:3] = t.T[1]",
    "t = np.empty((2, 3)); t[1, 2] = i; a[i, 3] = t[1, 2]",
    "a[i, 0] = [1, 2][0]",
    "t = c[i].copy(); t[1:] = t[:-1]; a[i] = t",
    "t = c[i] == x; a[i, 0] = t[1]; a[i, 1] = np.sum(t)",
    "t = np.where(c[i] == x, x, c[i]); a[i] = t; t = np.copy(x); a[i, 1] = t[2]",
)
MADE += statements(
    "t = c[i] + x; a[i, 0] = t[0]; t = t * x - c[i]; a[i, 1:] = t[1:]",
    "t = c[i] * 2 + x[1]; a[i] = t; a[i, 1] = np.max(t)",
    "t = np.maximum(c[i], x) // 3; a[i] = t % 4",
    kinds="iuf",
)
MADE += [
    *statements("t = np.zeros(c.shape[1]); a[i, 0] = t[0]", kinds="", refusal="of a loop whose shape is no constant"),
    *statements("t = np.zeros(100000); a[i, 0] = t[0]", kinds="", refusal="takes more than 16384 bytes"),
    *statements("t = np.array(c[i]); a[i, 0] = t[0]", kinds="", refusal="in an iteration of a loop of what is not written out"),
    *statements("t = np.arange(3); a[i, 0] = t[0]", kinds="", refusal="`np.arange(3)` is a new array"),
    *statements("t = [1, 2]; a[i, 0] = t[0]", kinds="", refusal="a list cannot be used in a kernel"),
]

FORMS = (*REDUCTIONS, *STORES, *UPDATES, *NUMBERS, *MADE, *REFUSED)
