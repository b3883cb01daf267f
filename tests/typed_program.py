"""A user's typed program, which tests/test_typing.py has checked by mypy and pyright, and runs."""

from dataclasses import dataclass
from typing import Any, Literal, assert_type

import numpy as np

import qgraph


@qgraph.kernel
def scale(x: qgraph.Array[np.float32, Literal[2]], factor: float = 2.0) -> None:
    for i, j in qgraph.ndrange(*x.shape):
        x[i, j] *= factor


@qgraph.kernel(backend="cpu", fuse=True)
def total(x: qgraph.Array[np.float64], mode: qgraph.Static = "sum") -> tuple[int, float]:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return x.shape[0], s


@qgraph.func
def norm(x: qgraph.Array[np.floating[Any], Literal[1]]) -> float:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return float(s**0.5)


@qgraph.kernel
def doubled(x: qgraph.Array[np.float64, Literal[1]]) -> qgraph.Array[np.float64, Literal[1]]:
    y = np.empty_like(x)
    y[:] = x * 2 + norm(x)
    return y


@dataclass
class State:
    x: qgraph.Array[np.float64, Literal[1]]
    flag: qgraph.Array[np.int32, Literal[1]]

    @qgraph.func
    def at(self, i: int) -> float:
        return float(self.x[i])

    @qgraph.kernel
    def step(self, dt: float, other: qgraph.Array | None = None) -> int:
        turns = 0
        while qgraph.graph_do_while(self.flag, max_iter=3):
            for i in qgraph.parallel(range(self.x.shape[0])):
                self.x[i] += dt
            turns += 1
        return turns


def main() -> None:
    u = np.zeros((3, 3), np.float32)
    v = np.zeros(3)
    scale(u)
    scale(u, factor=3.0)
    scale(qgraph.asarray(u, backend="cpu"))
    assert_type(total(v), tuple[int, float])
    assert_type(total.reference(v, mode="sum"), tuple[int, float])
    assert_type(total.bind(v).launch(), tuple[int, float])
    assert_type(norm(v), float)
    assert_type(doubled(v)[0], Any)
    state = State(v, np.zeros(1, np.int32))
    assert_type(state.step(0.5), int)
    assert_type(state.step.reference(dt=0.5), int)
    assert_type(state.step.bind(0.5).launch(), int)
    assert_type(state.at(1), float)
    looked_at = scale.plan(u), total.explain(v), state.step.plan(0.5), total.check(v), scale.last_launch
    assert all(map(str, looked_at))
    assert total.stats.replays > 0


if __name__ == "__main__":
    main()
