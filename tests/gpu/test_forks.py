"""A process that uses CUDA, and its children: these are told so, and the parent goes on."""

from __future__ import annotations

import pytest

from tests.processes import printed_by

pytestmark = pytest.mark.unsanitized(reason="runs in processes of their own")

PROGRAM = """
    import multiprocessing
    import os
    import numpy as np
    import qgraph

    @qgraph.kernel
    def add(x):
        for i in range(x.shape[0]):
            x[i] += 1

    def work(_number):
        told = []
        for use in (lambda: add(x), lambda: bound.launch(), lambda: x.numpy(), lambda: qgraph.zeros(4, backend="cuda")):
            try:
                use()
            except qgraph.BackendError as error:
                told.append("forked from one that uses CUDA" in str(error))
        host = np.zeros(100_000)
        add(host)
        return told == [True] * 4 and (host == 1).all()

    x = qgraph.zeros(1000, backend="cuda")
    bound = add.bind(x)
    for _ in range(5):
        add(x)
    add(np.zeros(100_000))
    bound.launch()
    child = os.fork()
    if child == 0:
        os._exit(not work(0))
    print(os.waitpid(child, 0)[1])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(all(pool.map(work, range(4))))
    add(x)
    bound.launch()
    print((x.numpy() == 8).all())
    """


def test_children_are_told(tmp_path):
    assert printed_by(PROGRAM, tmp_path, QGRAPH_BACKEND="") == "0\nTrue\nTrue\n"
