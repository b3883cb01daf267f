"""A whole conjugate-gradient solve is one launch: shown by what CUPTI, the interface of profilers, saw being called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.driver_calls import load_cupti

pytestmark = pytest.mark.unsanitized(reason="records launches, which the tool does, too")

ROOT = Path(__file__).parent.parent.parent


def launches(record):
    return [name for name in record["calls"] if "GraphLaunch" in name]


@pytest.fixture(scope="module")
def seen():
    try:
        load_cupti()
    except Exception as error:
        if type(error).__name__ != "DynamicLibNotFoundError":
            raise
        pytest.skip("there is no CUPTI here")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run(
        [sys.executable, "-m", "tests.gpu.driver_calls"], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    for who, record in found.items():
        print(
            f"{who}: {record['iterations']} iterations, {record['path']}, {len(record['names'])} calls, {record['calls'][:8]}"
        )
    return found


def test_the_recorder_sees_launches(seen):
    # With the host in charge a few iterations at a time have a launch and a copy. Who counts none sees nothing at all.
    host = seen["host"]
    assert host["path"] == "cuda-host-loop"
    assert host["iterations"] > 20
    assert len(launches(host)) >= host["iterations"] // 8
    assert sum("Memcpy" in name for name in host["calls"]) >= host["iterations"] // 8


def test_the_whole_solve_is_one_graph_launch(seen):
    device = seen["device"]
    assert device["path"] == "cuda-graph"
    assert device["iterations"] > 20
    assert abs(device["iterations"] - seen["host"]["iterations"]) <= 1
    assert len(launches(device)) == 1
    assert not [name for name in device["calls"] if name.startswith(("cuLaunch", "cudaLaunch"))]


def test_the_host_hears_of_it_once_at_the_end(seen):
    # The launch; the returned numbers; the wait for them. Nothing goes to and fro in between.
    calls = seen["device"]["calls"]
    assert "GraphLaunch" in calls[0], calls
    assert [name.split("_")[0] for name in calls[1:]] == ["cuMemcpyDtoHAsync", "cuStreamSynchronize"], calls
