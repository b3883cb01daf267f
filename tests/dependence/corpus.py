"""Loops with their verdicts, as data: what "When is a loop parallel?" says, row by row.

A key of ``REFUSED`` says for which values a call is refused, over shapes and scalars, among the calls in which all indices
are in bounds; for all others its loops are independent. ``UNDECIDED`` loops may be refused for some values as well. ``x is y``
at the end of a loop's text: both are one array.
"""

from __future__ import annotations

from tests.dependence.facts import function

FUNCTIONS = {
    "put": function("def put(r, k, e):\n  r[k] = e", 1000),
    "get": function("def get(r, k):\n  return r[k] + r[k + 1]", 2000),
    "add": function("def add(r, k, e):\n  r[k] += e", 3000),
    "left": function("def left(r, k):\n  if k > 0:\n    return r[k - 1]\n  return r[k]", 4000),
    "dot": function("def dot(r, q):\n  s = 0\n  for k in range(len(r)):\n    s += r[k] * q[k]\n  return s", 5000),
    "clear": function("def clear(r):\n  for k in range(len(r)):\n    r[k] = 0", 6000),
    "second": function("def second(r):\n  return r[1:]", 7000),
}

REFUSED: dict[str, list[str]] = {
    "n >= 3": [
        "for i in range(n):\n  if i > 0: x[i] = 0.5 * x[i - 1] + 1.0",
        "for i in range(n):\n  if i: x[i] = x[i - 1] + 1",
        "for i in range(n):\n  if i < 0 or 0 < i: x[i] = x[i - 1] + 1",
        "for i in range(n):\n  if i == 0: continue\n  x[i] = x[i - 1] + 1",
        "for i in range(n):\n  for k in range(i): x[i] -= a[i, k] * x[k]",
        "for i in range(1, n): x[i] = x[i - 1] + 1",
        "for i in range(n - 1, 0, -1): x[i] = x[i - 1] + 1",
        "for i, j in ndrange((1, n), (1, 4)): a[i, j] = a[i - 1, j] + 1",
        # Names for parts, and parts of one element.
        "for i in range(1, n):\n  w = x[i - 1:]\n  w[1] = 0.5 * w[0] + y[i]",
        "for i in range(1, n):\n  w = x[i - 1:i + 1]\n  w[1] = w[0] + 1",
        "for i in range(1, n):\n  k = i - 1\n  x[i] = x[k] + 1",
        # Guards, whatever they are written as.
        "for i in range(n + 1):\n  if 1 <= i < n: x[i] = x[i - 1] + 1",
        # Functions.
        "for i in range(1, n): put(x, i, x[i - 1])",
        "for i in range(1, n): add(x[i - 1:], 1, x[i - 1])",
        "for i in range(1, n): y[i] = x[i - 1] + 1  # y is x",
        # Casts that change nothing here.
        "for i in range(1, n): x[int64(i)] = x[int(i - 1)] + 1",
    ],
    "n >= 2": [
        "for i in range(n): x[i] = x[i + 1] + 1",
        "for i in range(n): s[0] = i",
        "for i in range(n): z[()] = i",
        "for i in range(n): s[-1] = i",
        "for i in range(n): s[0] *= 2",
        "for i in range(n): s[0] = s[0] + x[i]",
        "for i in range(n): x[i] = x[i] / x[0]",
        "for i in range(n): x[i] = x[i] / x[n - 1]",
        "for i in range(n): x[i], x[i + 1] = x[i + 1], x[i]",
        "for i in range(n): x[i - i] = i",
        "for i in range(n):\n  x[i] += 1\n  y[i] = x[i + 1]",
        "for i in range(n):\n  s[0] += x[i]\n  y[i] = s[0]",
        "for i in range(n):\n  s[0] += 1\n  s[0] = max(s[0], x[i])",
        "for i in range(n):\n  x[i] = x[i] + 1\n  x[i + 1] = x[i + 1] + 1",
        # // and % by numbers and by a size, min, max and abs.
        "for i in range(n): x[i // 2] = y[i]",
        "for i in range(n): x[i >> 1] = y[i]",
        "for i in range(n): x[(i + 1) % n] = 0.5 * x[i]",
        "for i in range(n): x[i] = x[max(i - 1, 0)] + 1",
        "for i in range(n): x[min(i, 0)] = i",
        "for i in range(n): x[i] = x[abs(i - 1)] + 1",
        "for i in range(n): x[i // n] = i",
        # Conditional expressions.
        "for i in range(n): x[i] = 0.5 * x[i - 1] + 1 if i > 0 else 0",
        "for i in range(n): x[i] = (x[i - 1] if i else 0) + 1",
        "for i in range(n): x[i] = x[i - 1 if i > 0 else 0] + i",
        "for i in range(n): x[i] = (i > 0 and x[i - 1]) + 1",
        # Triangular solves and recurrences by functions.
        "for i in range(n): x[i] = (y[i] - dot(a[i, :i], x[:i])) / a[i, i]",
        "for i in range(n):\n  e = y[i]\n  for k in range(i): e -= a[i, k] * x[k]\n  x[i] = e / a[i, i]",
        "for i in range(n): x[i] = left(x, i) + 1",
        "for i in range(n): x[i] = get(x, i)",
        "for i in range(n): put(x, 0, i)",
        "for i in range(n): put(x[i:], 0, x[i + 1])",
        "for i in range(n): second(x)[0] = i",
        "for i in range(n): y[i + 1] = x[i] + 1  # y is x",
        "for i in range(n):\n  x[i] = i\n  y[i + 1] = i + 1  # y is x",
        # Parts of arrays.
        "for i in range(n):\n  row = a[0]\n  row[0] = i",
        # Inner loops.
        "for i in range(n):\n  for j in range(2): x[i + j] = i",
        "for i in range(n):\n  for j in range(3): x[2 * i + j] = i",
        "for i in range(n):\n  p = i\n  for j in range(2):\n    x[p] = i\n    p += 1",
        "for i in range(n):\n  p = 2 * i\n  for j, k in ndrange(3, 2):\n    x[p] = i\n    p += 1",
        "for i in range(n):\n  p = 4 * i\n  for j in range(2):\n    for k in range(3):\n      x[p] = i\n      p += 1",
        "for i in range(n):\n  for j in range(i + 1): x[j] = i",
        "for i, j in ndrange(n, n): a[i, j] = a[j, i] + 1",
        "for i in range(n):\n  for j in range(n): a[i, j] = a[j, i] + 1",
        "for i in range(n):\n  for j in range(i, i + 2): x[j] = i",
        "for i in range(n):\n  for j in range(max(0, i - 1), min(n, i + 2)): x[j] = i",
        "for i, j in ndrange(n, 1): a[0, j] = i",
    ],
    "n >= 1": [
        "for i, j in ndrange(n, 2): x[i] = j",
        "for i, j in ndrange(n, (1, 3)): a[i, j] = a[i, j - 1] + 1",
        "for i, j in ndrange(n, 2): a[i, j] = a[i, 1 - j] + 1",
    ],
    "n >= 4": [
        "for i in range(n):\n  if 1 < i: x[i - 1] = x[i - 2] + 1",
        "for i in range(n):\n  if i != 0 and i != 1: x[i - 1] = x[i - 2] + 1",
        "for i in range(n):\n  if not i <= 1: x[i - 1] = x[i - 2] + 1",
        "for i in range(n):\n  if i < 2: continue\n  x[i - 1] = x[i - 2] + 1",
        "for i in range(n):\n  if i < 1:\n    y[i] = 0\n  elif i < 2:\n    y[i] = 1\n  else:\n    x[i - 1] = x[i - 2] + 1",
        "for i in range(n):\n  if i > 1: put(x, i - 1, x[i - 2])",
        "for i in range(1, n - 1): x[i] = 0.5 * (x[i - 1] + x[i + 1])",
        "for i in range(n - 2): x[i] = x[i + 1] + 1",
        "for i in range(n): x[i] = x[i + 3] + 1",
        "for i in range(n): x[i % 3] = i",
        "for i in range(n):\n  if i % 3 == 0: s[0] = i",
        "for i in range(2, n):\n  w = x[::2]\n  w[i] = x[2 * i - 2] + 1",
    ],
    "n >= 5": [
        "for i in range(0, n, 2): x[i] = x[i + 4] + 1",
        "for i in range(n): x[i & 3] = i",
        "for i in range(n): x[-1 - i % 4] = i",
        # Integers of NumPy's with fewer than 64 bits wrap.
        "for i in range(n): x[uint8(i) * uint8(64) // uint8(64)] = i",
        "for i in range(n): x[(uint8(i) << 6) >> 6] = i",
        "for i in range(n):\n  k = uint8(i)\n  k *= 64\n  x[k // 64] = i",
    ],
    "n >= 8": [
        "for i in range(n): x[i % 7] = y[i]",
        "for i in range(n): x[i] = x[i + 7] + 1",
        "for i in range(n): x[(i + 3) % 7] = i",
        "for i in range(n): x[int8(i) % 7] = i",
    ],
    "n >= 2 and x.shape[0] >= 3": [
        "for k in range(n): x[1:-1] = 0.5 * (x[:-2] + x[2:])",
        "for k in range(n): x[1:-1] = k",
    ],
    "n >= 2 and x.shape[0] >= 1": [
        "for i in range(n): x[0:1] = y[i]",
        "for k in range(n): x[:] = k",
        "for k in range(n):\n  for i in range(len(x)): x[i] = x[i] * 2",
        "for k in range(n):\n  for i in range(x.shape[0]): x[i] = k",
        "for k in range(n): x[-1] = k",
        "for k in range(n):\n  w = x\n  w[0] = k",
    ],
    "x.shape[0] >= 2": [
        "for i in range(x.shape[0]): x[i] = x[i] / x[-1]",
        "for i in range(len(x)): x[i] = x[0] + i",
        "for i in range(1, x.shape[0] + 1): x[-i] = x[0] + i",
        "for i in range(x.shape[0]): x[(i + 1) % x.shape[0]] = x[i] + 1",
        "for i in range(x.size): x[i] = x[x.shape[0] - 1 - i] + 1",
        "for i in range(x.shape[0]): x[i] = x[-1 - i] + 1",
        "for i in range(x.shape[0]): x[i] = x[i - 1] + 1",
        "for i in range(len(x)): x[i] = x[min(i + 1, len(x) - 1)] + 1",
    ],
    "x.shape[0] >= 3": [
        "for i in range(1, x.shape[0]): x[i] = x[i - 1] + 1",
        "for i in range(x.shape[0] - 1): x[i] = x[i + 1] + 1",
        "for i in range(x.shape[0] - 2, -1, -1): x[i] = x[i + 1] + 1",
    ],
    "a.shape[0] >= 1 and a.shape[1] >= 1 and a.shape[0] * a.shape[1] >= 2": [
        "for i, j in ndrange(a.shape[0], a.shape[1]): s[0] = i",
        "for i, j in ndrange(a.shape[0], a.shape[1]): a[i, j] = a[0, 0] + 1",
    ],
    "0 < m < n": [
        "for i in range(n): x[i] = x[i + m] + 1 if m > 0 else i",
    ],
    "0 <= m < n and n >= 2": [
        "for i in range(n): x[i] = x[m] + 1 if m >= 0 else 0",
    ],
    "f and n >= 2": [
        "for i in range(n):\n  if f: s[0] = i",
        "for i in range(n): x[0 if f else i] = i",
        "for i in range(n): x[i] = x[i + f] + 1",
        "for i in range(n): x[i] = x[i + 1] + 1 if f else 0",
        "for i in range(n):\n  if not f: continue\n  s[0] = i",
        "for i in range(n):\n  k = i\n  if f: k = 0\n  x[k] = i",
    ],
    "n - m >= 2": [
        "for i in range(m, n): s[0] = i",
        "for i in range(m, n): x[i - m] = x[i - m + 1] + 1",
        "for i in range(n, m, -1): s[0] = i",
    ],
    "len(range(0, n, q)) >= 2": [
        "for i in range(0, n, q): s[0] = i",
    ],
    "m >= 1 and n >= 2": [
        "for h in serial(range(m)):\n  for i in range(n): s[0] = i + h",
        "for i, j in ndrange(n, m): x[j] = i",
        "for i in range(n):\n  for j in range(m): x[j] = i",
    ],
    "n >= 3 and m >= 2": [
        "for h in serial(range(1, m)):\n  for i in range(1, n): x[i] = x[i - 1] + h",
    ],
    "m >= 2 and n >= 2": [
        # For one of the values of the serial variable: the least one.
        "for h in serial(range(1, m)):\n  for i in range(n): x[i] = x[i + h] + 1",
        "for i, j in ndrange(n, m): x[i + j] = j",
    ],
    "n >= 3 and x.shape[0] >= 2": [
        "for i in range(1, n): x[i:i + 1] = x[i - 1:i] + 1",
    ],
    "n >= 3 and a.shape[1] >= 2": [
        "for i in range(1, n): x[i] = dot(a[i, i - 1:i], x[i - 1:i])",
    ],
    "n >= 2 and a.shape[1] >= 1": [
        "for i in range(n): a[0, :1] = i",
        "for i in range(n): a[i, 0:2] = a[i + 1, 0:2] + 1",
    ],
    "n >= 2 and a.shape[0] >= 1": [
        "for i in range(n): a[:1, 0] = i",
    ],
    "m > 0 and 2 * m < n": [
        "for i in range(n):\n  if i >= m > 0: x[i] = x[i - m] + 1",
    ],
    # An index of two variables may be negative though each is not.
    "y.shape[0] >= 1 and (n >= 2 or (n >= 1 and y.shape[0] <= 3))": [
        "for i, j in ndrange(4, n): y[-i + 3 * j] = i",
    ],
    # No parameters: each call in bounds is refused.
    "True": [
        "for i in range(2): s[0] = i",
        "for i in range(0, 10, 3): x[i] = x[i + 6] + 1",
        "for i in range(5): x[i % 4] = i",
        "for i, j in ndrange(3, 3): a[i, j] = a[j, i] + 1",
        "for i, j in ndrange(2, 2): x[i + j] = i",
        "for i in range(8): x[i // 4] = i",
        "for i in range(10): x[i] = x[9 - i] + 1",
        "for i in range(3):\n  for j in range(i): x[j + 1] = x[j] + 1",
        "for i in range(4):\n  w = x[i:]\n  w[0] = w[1] + 1",
        "for i in range(4): put(x, i // 2, i)",
    ],
}

# Refused before there are arguments.
ALWAYS = [
    "for i in range(2): z[()] = i",
    "for i in range(5, 0, -2): z[()] *= 2",
    "for i, j in ndrange(1, 3): z[()] = z[()] / 2",
]

INDEPENDENT = [
    "for i in range(n): y[i] = x[i] + x[i - 1]",
    "for i in range(n): x[i] = x[i] * 2",
    "for i in range(n): x[i] *= 2",
    "for i in range(1, n - 1): y[i] = x[i - 1] + x[i + 1]",
    "for i, j in ndrange(n, m): a[i, j] = b[j, i]",
    "for i, j in ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)): b[i, j] = a[i - 1, j] + a[i, j + 1]",
    "for I in ndrange(a.shape[0], a.shape[1]): a[I] = b[I]",
    "for i in range(n - 1, -1, -1): x[i] = y[i]",
    "for i in range(n): x[n - 1 - i] = y[i]",
    "for i in range(m, n): x[i - m] = y[i]",
    "for i in range(n): x[i], y[i] = y[i], x[i]",
    "for i in range(n): x[i] = sqrt(x[i])",
    "for i in range(n):\n  k = i + 1\n  y[k] = x[k]",
    # Red-black, halves, interior and boundary.
    "for i in range(0, n, 2): x[i] = x[i + 1]",
    "for i in range(n): x[2 * i] = x[2 * i + 1]",
    "for i in range(n): x[i] = x[i + n]",
    "for i in range(n): x[i] = x[2 * n - i - 1]",
    "for i in range(8): x[i] = x[i + 8]",
    "for i in range(1, n): x[i] = x[i] - x[0]",
    "for i in range(3, n): x[i] = x[2] + x[1]",
    "for i in range(x.shape[0] - 1): x[i] = x[-1]",
    "for i in range(x.shape[0] // 2): x[i] = x[x.shape[0] - 1 - i]",
    "for i in range(x.shape[0] // 2): x[i], x[-1 - i] = x[-1 - i], x[i]",
    # One iteration, or none.
    "for i in range(1): s[0] = s[0] + 1",
    "for i in range(5, 5): x[0] = i",
    "for i, j in ndrange((m, n), (n, m)): s[0] = i",
    "for i in range(n):\n  if i == 3: s[0] = i",
    "for i in range(n):\n  if i == n - 1: s[0] = x[i]",
    "for i in range(n):\n  if i == m: x[0] = x[i] + 1",
    "for i in range(n):\n  if 2 <= i < 3: s[0] = i",
    "for i in range(n): x[i] = 0 if i < n else x[i - 1]",
    # // and %, min, max, abs, conditional expressions, casts.
    "for i in range(n): y[i] = x[i // 2] + x[i % 3]",
    "for i in range(n): x[(i + 1) % n] = i",
    "for i in range(x.shape[0]): x[(i + 1) % x.shape[0]] = y[i]",
    "for i in range(n): x[(2 * i) // 2] = x[i] + 1",
    "for i in range(n): x[(i + n) % n] = x[i] + 1",
    "for i in range(n): y[i] = x[min(i + 1, n - 1)] + x[max(i - 1, 0)]",
    "for i in range(n): x[max(i, 0)] = i",
    "for i in range(n): x[abs(-i)] = i",
    "for i in range(n): x[i if i >= 0 else 0] = i",
    "for i in range(n):\n  k = i\n  if i < 0: k = 0\n  x[k] = x[i] + 1",
    "for i in range(n): x[int(i)] = x[int64(i)] + 1",
    "for i in range(20): x[uint8(i)] = x[i] + 1",
    "for i in range(20): x[uint8(i) + 1] = x[i + 1] + 1",
    "for i in range(n): x[int8(1) * i] = x[i] + 1",
    "for i in range(n): x[2 * (i // 2) + i % 2] = x[i] + 1",
    "for i, j in ndrange(n, 4): x[4 * i + j] = i",
    "for i in range(n): a[i // 4, i % 4] = i",
    # Strides that are symbols.
    "for i, j in ndrange(n, a.shape[1]): x[i * a.shape[1] + j] = a[i, j]",
    "for i, j in ndrange(n, m): x[i * m + j] = a[i, j]",
    "for i, j in ndrange(n, m): x[i + j * n] = a[i, j]",
    "for i in range(n):\n  for j in range(m): x[i * m + j] = a[i, j]",
    "for i in range(n):\n  for j in range(m): x[j * n + i] = a[i, j]",
    "for i, j, k in ndrange(t.shape[0], t.shape[1], t.shape[2]): x[(i * t.shape[1] + j) * t.shape[2] + k] = t[i, j, k]",
    "for i in range(n): x[i * W] = x[i * W + 1]",
    "for i in range(a.shape[1]):\n  w = x[1:]\n  w[i * a.shape[1] + i - 1] -= 1",
    # Inner loops, triangular and clamped.
    "for i in range(n):\n  for j in range(4): x[4 * i + j] = y[i]",
    "for i in range(n):\n  for j in range(i): a[i, j], a[j, i] = a[j, i], a[i, j]",
    "for i in range(n):\n  for j in range(i + 1, n): a[i, j] = a[j, i]",
    "for i in range(n):\n  for j in range(1, n): a[i, j] = a[i, j - 1] + 1",
    "for i in range(n):\n  for j in range(max(0, i - 1), min(n, i + 2)): y[i] += x[j]",
    "for i in range(n):\n  for j in range(3 * i, 3 * i + 3): x[j] = i",
    "for i in range(n):\n  p = 2 * i\n  for j in range(2):\n    x[p] = i\n    p += 1",
    "for i in range(n):\n  p = 3 * i\n  for j in range(i, i + 3):\n    x[p] = x[p] + j\n    p += 1",
    "for i in range(n):\n  p = 6 * i\n  for j in range(2):\n    for k in range(3):\n      x[p] = i\n      p += 1",
    "for i in range(n):\n  p = 6 * i + 5\n  for j, k in ndrange(2, 3):\n    x[p] = i\n    p -= 1",
    "for i in range(n):\n  p = 6 * i\n  for j in range(2):\n    c = 2\n    x[p] = i\n    p += 1\n    x[p] = j\n    p = p + c",
    "for i in range(n):\n  p = 4 * i\n  for j in range(2):\n    for k, l in ndrange(1, 2):\n      x[p] = i\n      p += 1",
    "for i in range(n):\n  p = i * m\n  for j in range(m):\n    x[p] = i\n    p = p + 1",
    "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): y[i] += v[k] * x[c[k]]",
    # Parts of arrays, with names and without, and functions.
    "for i in range(n): a[i, :] = i",
    "for i in range(n): a[i, 1:-1] = a[i, :-2] + a[i, 2:]",
    "for j in range(n): a[:, j] = j",
    "for i in range(n): x[2 * i:2 * i + 2] = i",
    "for i in range(n): x[i:i + 1] = y[i:i + 1] + 1",
    "for i in range(n):\n  row = a[i]\n  for j in range(1, m): row[j] = row[j] + row[j - 1]",
    "for i in range(n):\n  w = x[i:]\n  w[0] = w[0] + 1",
    "for i in range(n):\n  w = x[1:]\n  w[i] = x[i + 1] + 1",
    "for i in range(n):\n  w = x[::2]\n  w[i] = x[2 * i + 1] + 1",
    "for i in range(n): put(x, i, y[i])",
    "for i in range(n): put(a[i], 3, y[i])",
    "for i in range(n): put(x[i:], 0, i)",
    "for i in range(n): clear(a[i])",
    "for i in range(n): clear(x[2 * i:2 * i + 2])",
    "for i in range(n): y[i] = dot(a[i, :i], x[:i])",
    "for i in range(n): second(x)[i] = x[i + 1] + 1",
    "for i in range(n): y[i] = left(x, i) + get(x, i)",
    "for i in range(n): mystery(a[i])",
    "for i in range(n): y[i] = mystery(x[i:i + 1])",
    "for i in range(n): y[i] = 2 * x[i]  # y is x",
    # Guards on data change nothing where each has its own.
    "for i in range(n):\n  if x[i] > 0: x[i] = 0",
    "for i in range(n):\n  while d[i] > 2:\n    x[i] = 1\n    break",
    # One value for all.
    "for i in range(n): s[0] = 1",
    "for i in range(n):\n  if y[i] > 0: s[0] = 1",
    "for i in range(n): x[idx[i]] = 1",
    "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): x[c[k]] = 1",
    "for i in range(n): x[idx[i]] = n",
    "for i in range(n): x[i // 2] = y[0]",
    # Updates, which are atomic where they collide.
    "for i in range(n): x[i] += y[i]",
    "for i in range(n): s[0] += x[i]",
    "for i in range(n): x[idx[i]] += 1",
    "for i in range(n): s[0] = max(s[0], x[i])",
    "for i in range(n): x[idx[i]] = min(x[idx[i]], y[i])",
    "for i in range(n): x[idx[i]] |= 1",
    "for i in range(n):\n  x[i] += 1\n  x[i + 1] -= 1",
    "for i in range(n): add(x, idx[i], 1)",
    "for h in range(n):\n  for i in range(m): x[i] += 1",
    "for i in range(n): atomic_add(x, idx[i], 1)",
    # Compaction: what a counter was is another number each time.
    "for i in range(n):\n  if d[i] > 0:\n    k = atomic_add(s, 0, 1)\n    y[k] = x[i]",
    "for i in range(n):\n  k = atomic_add(s, 0, 2)\n  y[k] = x[i]\n  y[k + 1] = x[i] + 1",
    # A serial variable is one number.
    "for h in serial(range(m)):\n  for i in range(n): x[i] = y[i + h] + h",
    "for h in serial(range(m)):\n  for i in range(n): a[h + 1, i] = a[h, i] + 1",
    "for h in serial(range(m)):\n  for i in range(h + 1, n): x[i] = x[i] - x[h]",
    "for k in serial(range(n)):\n  for i, j in ndrange((k + 1, n), (k + 1, n)): a[i, j] -= a[i, k] * a[k, j]",
]

UNDECIDED = [
    # Elements that only data tell.
    "for i in range(n): x[idx[i]] = y[i]",
    "for i in range(n): x[i] = x[idx[i]]",
    "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]): x[k] = i",
    "for i in range(n):\n  for k in range(ptr[i], ptr[i + 1]):\n    if x[c[k]] > x[i] + 1: x[c[k]] = x[i] + 1",
    "for i in range(n):\n  if x[i] == n:\n    for k in range(ptr[i], ptr[i + 1]):\n      if x[c[k]] < 0: x[c[k]] = n + 1",
    "for i in range(n):\n  if x[idx[i]] > y[i]: x[idx[i]] = y[i]",
    "for i in range(n): x[int(y[i])] = i",
    "for i in range(n):\n  k = i\n  if d[i] > 0: k = 0\n  x[k] = i",
    # Conditions on data, which never make it sure.
    "for i in range(n):\n  if y[i] > 0: s[0] = i",
    "for i in range(1, n):\n  if d[i] > 0: x[i] = x[i - 1]",
    "for i in range(n):\n  if y[i] > 0: continue\n  s[0] = i",
    "for i in range(n):\n  while y[i] > 0: s[0] = i",
    "for i in range(n):\n  for j in range(m):\n    if y[j] > 0: break\n    s[0] = i",
    "for i in range(n):\n  r = x if y[i] > 0 else s\n  r[0] = i",
    "for i in range(1, n): x[i] = x[i - 1] if y[i] > 0 else 0",
    # A digit of an integer, which is no comparison.
    "for i in range(2, n):\n  if (i > 2) & i: y[i] = 1\n  else: s[0] = i",
    "for i in range(2, n):\n  if (i > 2) & (i or f): y[i] = 1\n  else: s[0] = i",
    "for i in range(2, n):\n  if (i > 2) & (i | (i > 3)): y[i] = 1\n  else: s[0] = i",
    "for i in range(3, n): x[i - int((i - 2) or f)] = i",
    # Bodies that are not known, of what they get.
    "for i in range(n): mystery(x, i)",
    "for i in range(n): mystery(x[i:])",
    "for i in range(n): x[i] = mystery(x)",
    "for i in range(n): x.fill(i)",
    # Atomics that are read elsewhere.
    "for i in range(n):\n  atomic_add(x, i, 1)\n  y[i] = x[i + 1]",
    "for i in range(n):\n  k = atomic_add(s, idx[i], 1)\n  y[k] = i",
    "for i in range(n):\n  k = atomic_add(s, 0, 1)\n  y[k] = s[0]",
    # Atomics of two kinds, whose order tells.
    "for i in range(n):\n  atomic_add(x, 0, 1)\n  atomic_exch(x, 0, i)",
    "for i in range(n):\n  atomic_add(x, idx[i], 1)\n  atomic_exch(x, i, i)",
    # Products that are no strides.
    "for i, j in ndrange(n, m): x[i * j] = i",
    "for i in range(n): x[i * i + m] = i",
    "for i in range(n): x[(3 * i) % n] = i",
    # An index that may count from the end, by steps that are known in the call.
    "for i in range(0, n, q): x[i] = i",
    "for i in range(2, n, q): x[i] = x[0] + 1",
    # Counted by no variable.
    "for i in range(n):\n  p = 3 * i\n  for j in range(3):\n    x[p] = i\n    p += j",
    "for i in range(n):\n  p = i\n  j = 0\n  for j in range(4):\n    x[p] = i\n    p += j",
    "for i in range(n):\n  p = 3 * i\n  for j in range(3):\n    x[p] = i\n    if y[j] > 0: continue\n    p += 1",
    "for i in range(n):\n  p, c = 2 * i, 0\n  for j in range(2):\n    for k in range(m): c = 1\n    x[p] = i\n    p += c",
    "for i in range(n):\n  for j in range(1):\n    p = i\n    for k in (1, 2):\n      x[p] = i\n      p += 1",
]
