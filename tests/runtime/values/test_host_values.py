"""Values of the host: a call whose values are all as they should be looks at no single one of them."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.errors import ArgumentError
from qgraph.runtime.values import host_values


def lengths(x, y):
    x[:] = x * y


def shapes(x):
    return x.max()


def products(x, y):
    return x @ y


def sizes(x, n):
    y = np.zeros(n)
    for i in range(n):
        y[i] = 1.0
    return x * y


def swapped(x, y):
    for _ in qgraph.serial(range(3)):
        for i in range(len(x)):
            y[i] = x[i] + 1
        x, y = y, x


@pytest.mark.parametrize(
    ("function", "arguments", "bad"),
    [
        (lengths, (np.ones(4), np.ones(4)), (np.ones(4), np.ones(3))),
        (shapes, (np.ones(4),), (np.ones(0),)),
        (products, (np.ones((4, 4)), np.ones((4, 4))), (np.ones((4, 4)), np.ones((3, 4)))),
        (sizes, (np.ones(4), 4), (np.ones(4), -1)),
        (swapped, (np.ones(4), np.ones(4)), (np.ones(4), np.ones(5))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_look_for_all_values(function, arguments, bad, monkeypatch):
    looked = []
    slow = host_values.HostValues._look

    def look(self, results, values):
        looked.append(results)
        return slow(self, results, values)

    monkeypatch.setattr(host_values.HostValues, "_look", look)
    kernel = qgraph.kernel(function)
    kernel(*arguments)
    assert not looked
    # And where one is not as it should be, each is looked at.
    with pytest.raises((ArgumentError, ValueError)):
        kernel(*bad)
    assert looked
