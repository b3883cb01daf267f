"""Loops and branches never run at the same time: drivers fail where several do. Each test has a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import printed_by

pytestmark = pytest.mark.unsanitized(reason="runs in processes of their own")

PREAMBLE = """
import threading
import numpy as np
import qgraph
from qgraph.runtime.driver.driver import call, device, driver

def loop(x, turns):
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + 1
        turns[()] -= 1

def after(n, turns):
    x = 5
    for _ in range(turns):
        x = x * 3 + 1
    return np.full(n, np.array(x % 2**64, np.uint64).astype(np.int64))

def arrays(n, turns):
    return qgraph.asarray(np.full(n, 5), backend="cuda"), qgraph.asarray(np.array(turns), backend="cuda")

def agrees(x, n, turns):
    np.testing.assert_array_equal(qgraph.to_numpy(x), after(n, turns))
"""


def run(script, tmp_path):
    assert printed_by(PREAMBLE + script, tmp_path) == "right\n"


SIDE_BY_SIDE = """
names = [f"x{k}, t{k}" for k in range(12)]
lines = [f"def many({', '.join(names)}):"]
for k in range(12):
    lines += [f"    while qgraph.graph_do_while(t{k}):", f"        for i in range(x{k}.shape[0]):"]
    lines += [f"            x{k}[i] = x{k}[i] * 3 + 1", f"        t{k}[()] -= 1"]
file = __file__.replace("script.py", "many.py")
open(file, "w").write("import qgraph\\n" + "\\n".join(lines) + "\\n")
names = {}
exec(compile(open(file).read(), file, "exec"), names)
kernel = qgraph.kernel(backend="cuda", conditional="device")(names["many"])
for launch in range(200):
    turns = [1 + (launch * 7 + k * 5) % 23 for k in range(12)]
    given = [arrays(10 + k, turns[k]) for k in range(12)]
    kernel(*(each for pair in given for each in pair))
    for k in range(12):
        agrees(given[k][0], 10 + k, turns[k])
assert kernel.last_launch.path == "cuda-graph"
print("right")
"""


def test_many_loops_of_one_kernel_that_need_not_wait_for_each_other(tmp_path):
    run(SIDE_BY_SIDE, tmp_path)


STREAMS = """
kernels = [qgraph.kernel(backend="cuda", conditional="device")(loop) for _ in range(8)]
with device().activate():
    streams = [call(driver.cuStreamCreate, 1) for _ in kernels]
wrong = []

def work(k, rounds):
    n, turns = 50 + k, 40 + k
    x, flag = arrays(n, turns)
    start, again = arrays(n, turns)
    copies = [(a.__cuda_array_interface__["data"][0], b.__cuda_array_interface__["data"][0], size)
              for a, b, size in ((x, start, 8 * n), (flag, again, 8))]
    last = 0
    with device().activate():
        for round in range(rounds):
            # The default stream in turn with others, and a call that comes back most of the time.
            stream = 0 if round % 5 == 4 else int(streams[(k + round // 50) % 8])
            if stream != last:
                call(driver.cuStreamSynchronize, last)
                last = stream
            for target, source, size in copies:
                call(driver.cuMemcpyDtoDAsync, target, source, size, stream)
            with qgraph.stream(stream):
                kernels[k](x, flag)
            if round % 7 == 0 or round == rounds - 1:
                call(driver.cuStreamSynchronize, stream)
                try:
                    agrees(x, n, turns)
                except AssertionError as error:
                    wrong.append(error)

for k in range(8):
    work(k, 60)
threads = [threading.Thread(target=work, args=(k, 400)) for k in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong[0]
qgraph.synchronize()
print("right")
"""


def test_loops_of_many_kernels_on_many_streams_and_threads(tmp_path):
    run(STREAMS, tmp_path)


@pytest.fixture(scope="module")
def while_nodes(tmp_path_factory):
    """The program beside this file, compiled."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=os.path.join(home, "bin"))
    if nvcc is None:
        pytest.skip("no nvcc")
    source = Path(__file__).with_name("while_nodes.cu")
    program = tmp_path_factory.mktemp("while_nodes") / "while_nodes"
    subprocess.run([nvcc, "-arch=native", "-rdc=true", "-O2", str(source), "-o", str(program), "-lcudadevrt"], check=True)
    return program


@pytest.mark.parametrize(
    ("streams", "loops", "launches"), [(1, 1, 1), (1, 12, 1), (8, 1, 1), (8, 12, 1), (1, 1, 24), (3, 2, 24)]
)
def test_the_driver_runs_loops_one_after_another(while_nodes, streams, loops, launches):
    """What qgraph relies on; without ``apart`` the program fails on driver 580.159 from three loops on.

    It may fail with ``apart`` where other processes use the GPU at the same time.
    """
    done = subprocess.run(
        [str(while_nodes), str(streams), str(loops), "2", "apart", str(launches)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "rounds were right" in done.stdout
