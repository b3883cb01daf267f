"""In JAX: ``jax.jit``, which joins loops where it likes; with ``barriers`` it is asked not to."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.peers import Device, Run
from benchmarks.rungs import SETS, Loop, zeros


def _steps(x: Any, loops: int, *, barriers: bool) -> Any:
    for _ in range(loops):
        x = x + 1.0
        if barriers:
            x = lax.optimization_barrier(x)
    return x


def chain(loops: int, device: Device, *, barriers: bool = False) -> Run:
    """Loops in a row, each call on the result of the last."""
    step = jax.jit(functools.partial(_steps, loops=loops, barriers=barriers), donate_argnums=0)
    state = [jnp.asarray(zeros())]
    # Compiled on another array.
    step(jnp.asarray(zeros())).block_until_ready()

    def action() -> None:
        state[0] = step(state[0])

    return Run(action, lambda: jax.block_until_ready(state), lambda: {"x": np.asarray(state[0])})


def loop(loops: int, device: Device, *, barriers: bool = False) -> Loop:
    """``lax.while_loop``, with the flags that XLA has by default."""

    @functools.partial(jax.jit, donate_argnums=0)
    def repeat(x: Any, counter: Any) -> Any:
        def body(carry: Any) -> Any:
            return _steps(carry[0], loops, barriers=barriers), carry[1] - 1

        return lax.while_loop(lambda carry: carry[1] > 0, body, (x, counter))[0]

    state: dict[str, Any] = {"x": jnp.asarray(zeros())}

    def prepare(count: int) -> None:
        state["counter"] = jnp.int32(count)
        jax.block_until_ready(state["counter"])

    def run(_: int) -> None:
        state["x"] = repeat(state["x"], state["counter"])
        state["x"].block_until_ready()

    return Loop(prepare, run, lambda: np.asarray(state["x"]))


def changed(loops: int, device: Device, *, barriers: bool = False) -> Run:
    """Another array each call, and a new one out of it."""
    step = jax.jit(functools.partial(_steps, loops=loops, barriers=barriers), donate_argnums=0)
    arrays = [jnp.asarray(zeros()) for _ in range(SETS)]
    step(jnp.asarray(zeros())).block_until_ready()
    following = itertools.cycle(range(SETS)).__next__

    def action() -> None:
        k = following()
        arrays[k] = step(arrays[k])

    return Run(action, lambda: jax.block_until_ready(arrays), lambda: {"x": np.stack([np.asarray(x) for x in arrays])})


def branches(count: int, device: Device, *, barriers: bool = False) -> Run:
    """A list of arrays; XLA may join what is independent if it likes."""
    step = jax.jit(lambda arrays: [x + 1.0 for x in arrays], donate_argnums=0)
    state = [[jnp.asarray(zeros()) for _ in range(count)]]
    jax.block_until_ready(step([jnp.asarray(zeros()) for _ in range(count)]))

    def action() -> None:
        state[0] = step(state[0])

    return Run(action, lambda: jax.block_until_ready(state), lambda: {"x": np.stack([np.asarray(x) for x in state[0]])})
