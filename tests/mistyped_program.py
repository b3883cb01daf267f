"""Mistakes in types, each on a line of its own, which tests/test_typing.py wants to be reported. It is not run."""

import numpy as np

import qgraph
from tests.typed_program import State, doubled, norm, scale, total

u = np.zeros((3, 3), np.float32)
v = np.zeros(3)
state = State(v, np.zeros(1, np.int32))
scale(3, 4.0)  # mistake
scale(u, "much")  # mistake
scale(u, 2.0, 3.0)  # mistake
scale(u, factors=2.0)  # mistake
scale(v)  # mistake: of float64
scale.reference(u, "much")  # mistake
total.bind(v, v, v)  # mistake
total.bind(v).launch() + 1  # mistake
total.plan()  # mistake
norm(v) + "a"  # mistake
norm("a")  # mistake
qgraph.kernel(fused=True)  # mistake
qgraph.kernel(block_size="8")  # mistake
qgraph.kernel(3)  # mistake
state.step("a")  # mistake
state.step.reference()  # mistake
state.at("a")  # mistake
doubled(v).no_such_thing  # mistake
