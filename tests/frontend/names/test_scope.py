"""Which functions draw random numbers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from qgraph.frontend.names.scope import is_random


class Own(random.Random):
    """A generator of somebody's."""


@pytest.mark.parametrize(
    "function",
    [random.random, random.randint, Own(1).random, np.random.normal, np.random.default_rng, np.random.RandomState(1).rand],
    ids=lambda function: function.__name__,
)
def test_what_draws_is_found(function):
    assert is_random(function)


@pytest.mark.parametrize("function", [math.sqrt, np.sqrt, abs, len, np.arange(3).sum, "text".upper, test_what_draws_is_found])
def test_what_does_not_draw_is_none(function):
    assert not is_random(function)
