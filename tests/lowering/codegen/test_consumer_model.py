"""The protocol of reductions that the next kernel finishes, and that the model of it notices what could be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.consumer_model import FAULTS, agrees, bodies


def test_protocol():
    for body in bodies():
        assert agrees(body), body


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault):
    assert not all(agrees(replace(body, fault=fault)) for body in bodies())
