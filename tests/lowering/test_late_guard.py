"""Guards that are looked at when a kernel stores: where they may be, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.late_guard import with_late_guard

pytest.importorskip("cuda.bindings")


def smoothed(x, y, k, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(1, x.shape[0] - 1):
            y[i] = x[i - 1] + x[i + 1] if i > 3 else x[i]
        for i in range(1, x.shape[0] - 1):
            x[i] = y[i] * 0.5


@qgraph.func
def stored(x, y, i, j):
    y[i, j] = x[i - 1, j] + x[i + 1, j]


def of_a_func(x, y, k, steps):
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange((1, x.shape[0] - 1), x.shape[1]):
            stored(x, y, i, j)
        x, y = y, x


def indirect(x, y, k, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            y[i] = x[k[i]]
        for i in range(x.shape[0]):
            k[i] = y.shape[0] - 1 - k[i]


def under_a_condition(x, y, k, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            if k[i] > 0:
                y[i] = x[i + k.shape[0]]
        for i in range(x.shape[0]):
            k[i] += 1


def by_step(x, y, k, steps):
    for t in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            y[i] = x[(i + t) % x.shape[0]]
        for i in range(x.shape[0]):
            k[i] = k[i] + 1


def with_a_walk(x, y, k, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(x.shape[0] - 4):
            total = 0.0
            for j in range(4):
                total += x[i + j] * y[i + j]
            k[i] = k[i] + int(total)


def colliding(x, y, k, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            y[k[i]] += x[i]
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5


def copies_of(function):
    """The PTX of the kernels of copies of its loop."""
    shape = (40, 30) if function is of_a_func else (40,)
    x, y = np.ones(shape, np.float32), np.ones(shape, np.float32)
    found = qgraph.kernel(backend="cuda")(function).ptx(x, y, np.ones(40, np.int64), 3)
    return {name: text for name, text in found.items() if "// language.peek" in text}


@pytest.mark.parametrize("function", [smoothed, of_a_func, with_a_walk])
def test_stores_are_guarded_where_places_are_known(function):
    from qgraph.lowering.link import link

    found = copies_of(function)
    if function is of_a_func:
        # The kernel of the plain graph looks for its arrays.
        found = {name: text for name, text in found.items() if name.endswith("_copied")}
    assert found
    for text in found.values():
        assert text.count("$L_guard_late:") == 1
        body = text[text.index("$L_guard_late:") :]
        stores = [line.strip() for line in body.split("\n") if "st.global" in line]
        assert stores
        assert all(line.startswith("@!%p") for line in stores)
        assert link([text], (9, 0))


@pytest.mark.parametrize("function", [indirect, under_a_condition, by_step, colliding])
def test_what_was_loaded_says_where_or_whether(function):
    first, *others = ("$L_guard_late:" in text for text in copies_of(function).values())
    assert not first
    # The other loop of each has nothing to do with what it loads.
    assert any(others)


KERNEL = """\
 { mov.u32 %r9, -1; @%few ld.relaxed.gpu.global.u32 %r9, [%place]; } // language.peek
 setp.gt.s32  %p1, %r9, -1;
 { griddepcontrol.wait; }
 @%p1 bra  $L__BB0_2;
 shl.b64  %rd5, %rd4, 3;
 ld.global.u32  %r9, [%rd5];
$L__BB0_2:
 setp.le.s32  %p2, %r9, %r5;
 @%p2 bra  $L__BB0_9;
{body}
$L__BB0_9:
 ret;

}"""


@pytest.mark.parametrize(
    "body",
    [
        " ld.global.f32  %f1, [%rd7];\n add.f32  %f2, %f1, %f1;\n st.global.f32  [%rd8], %f2;",
        " @%p3 bra  $L__BB0_9;\n ld.global.nc.v2.f32  {%f1, %f2}, [%rd7+8];\n st.global.v2.f32  [%rd8], {%f2, %f1};",
        # A place to store at may come from what was loaded.
        " ld.global.u64  %rd1, [%rd7];\n add.s64  %rd2, %rd1, %rd8;\n st.global.u64  [%rd2], %rd1;",
        # A number that changes in a loop, not by what was loaded.
        "$L1:\n add.s64  %rd7, %rd7, 4;\n ld.global.f32  %f1, [%rd7];\n st.global.f32  [%rd7], %f1;\n @%p3 bra  $L1;",
    ],
)
def test_kernels_that_are_understood(body):
    text = KERNEL.replace("{body}", body)
    late = with_late_guard(text)
    assert late != text
    assert late.count("@!%p2 st.global") == body.count("st.global")
    assert late.count("setp.le.s32  %p2, %r9, %r5;") == 2


@pytest.mark.parametrize(
    "body",
    [
        " ld.global.u64  %rd1, [%rd7];\n ld.global.f32  %f1, [%rd1];\n st.global.f32  [%rd8], %f1;",
        " ld.global.u32  %r1, [%rd7];\n setp.eq.s32  %p3, %r1, 0;\n @%p3 bra  $L__BB0_9;\n st.global.f32  [%rd8], %f1;",
        # By way of a choice, and of a loop.
        " ld.global.u32  %r1, [%rd7];\n setp.eq.s32  %p3, %r1, 0;\n selp.b64  %rd1, %rd7, %rd8, %p3;\n"
        " ld.global.f32  %f1, [%rd1];\n st.global.f32  [%rd8], %f1;",
        "$L1:\n ld.global.f32  %f1, [%rd9];\n ld.global.u64  %rd9, [%rd7];\n @%p3 bra  $L1;\n st.global.f32  [%rd8], %f1;",
        # What a guard leaves as it was.
        " ld.global.u64  %rd1, [%rd7];\n @%p3 mov.u64  %rd1, %rd7;\n ld.global.f32  %f1, [%rd1];",
        " red.global.add.f32  [%rd8], %f1;",
        " @%p3 st.global.f32  [%rd8], %f1;",
        " bar.sync  0;\n st.global.f32  [%rd8], %f1;",
        " ld.volatile.global.u32  %r1, [%rd7];\n st.global.u32  [%rd8], %r1;",
        " ld.local.f32  %f1, [%rd7];\n st.global.f32  [%rd8], %f1;",
        " { .reg .b32 %x; }\n st.global.f32  [%rd8], %f1;",
        " setp.le.s32  %p2, %r9, %r5;\n st.global.f32  [%rd8], %f1;",
    ],
)
def test_kernels_that_stay_as_they_are(body):
    text = KERNEL.replace("{body}", body)
    assert with_late_guard(text) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// language.peek", ""),
        ("setp.gt.s32  %p1, %r9, -1;", "setp.gt.s32  %p1, %r8, -1;"),
        ("ld.global.u32  %r9, [%rd5];", "ld.global.u32  %r8, [%rd5];"),
        ("shl.b64  %rd5, %rd4, 3;", "st.global.u32  [%rd5], %r8;"),
        ("setp.le.s32  %p2, %r9, %r5;", "setp.lt.s32  %p2, %r9, %r5;"),
        ("@%p2 bra  $L__BB0_9;", "@%p3 bra  $L__BB0_9;"),
        (" ret;", " st.global.f32  [%rd8], %f1;\n ret;"),
    ],
)
def test_another_guard_stays_as_it_is(old, new):
    text = KERNEL.replace("{body}", " st.global.f32  [%rd8], %f1;")
    assert with_late_guard(text) != text
    assert old in text
    text = text.replace(old, new)
    assert with_late_guard(text) == text
