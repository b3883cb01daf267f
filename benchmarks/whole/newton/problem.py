"""What is solved, and when an answer is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

TITLE = "Newton, contacts"
UNKNOWNS = 6
CONTACTS = 8
# A search ends where the slope has fallen to this share of its first value, or after so many trials.
SLOPE = 0.01
TRIALS = 10
# No step is longer than this, in units of Newton's.
FAR = 8.0


class Bodies(NamedTuple):
    """The environments, float32, one an index of the last axis.

    ``mass`` (6, 6, n), ``aim`` (6, n): without contacts, x = aim. ``jacobian`` (contacts, 6, n), ``gap`` (contacts, n): contact
    c is open where ``gap + jacobian @ x >= 0``, a spring of ``stiffness`` (contacts, n) where it is less, and slides with a
    constant force where it is below ``-slip`` (contacts, n).
    """

    mass: Any
    aim: Any
    jacobian: Any
    gap: Any
    stiffness: Any
    slip: Any


@dataclass(frozen=True)
class Problem:
    """``environments`` small convex problems, started at their aims, until each gradient is small or for ``limit`` iterations.

    Each iteration takes residuals of all contacts; then gradient, Hessian and Cholesky's solution of each environment that has
    not converged; then a step of the length at which the slope along it vanishes, found by Newton's method in one
    dimension, or by halving what is left where that would leave it.
    """

    environments: int
    tolerance: float = 2e-3
    limit: int = 60

    @property
    def size(self) -> str:
        """As in the table."""
        return f"{self.environments:,} x {UNKNOWNS} unknowns, {CONTACTS} contacts"

    @property
    def traffic(self) -> None:
        """None: it depends on how many iterations each environment takes."""
        return

    @property
    def operations(self) -> None:
        """None: they depend on how many iterations and trials each environment takes."""
        return

    @functools.cached_property
    def bodies(self) -> Bodies:
        """The environments."""
        rng = np.random.default_rng(5)
        n = self.environments
        root = rng.normal(size=(UNKNOWNS, UNKNOWNS, n))
        mass = np.einsum("abn,cbn->acn", root, root) / UNKNOWNS + 0.5 * np.eye(UNKNOWNS)[:, :, None]
        aim = rng.normal(size=(UNKNOWNS, n))
        jacobian = rng.normal(size=(CONTACTS, UNKNOWNS, n))
        gap = rng.normal(size=(CONTACTS, n)) - 1.0
        stiffness = 10.0 ** rng.uniform(0.0, 2.0, (CONTACTS, n))
        slip = 10.0 ** rng.uniform(-2.0, 0.0, (CONTACTS, n))
        return Bodies(*(part.astype(np.float32) for part in (mass, aim, jacobian, gap, stiffness, slip)))

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise if a solution or the number of iterations is wrong: against float64."""
        wanted, iterations = reference(self)
        error = np.abs(found["x"] - wanted).max(axis=0)
        # A gradient of the tolerance, and the least mass: how far from the solution an answer may be.
        if not error.max() <= 4.0 * self.tolerance / 0.5:
            raise AssertionError(f"{(error > 4.0 * self.tolerance / 0.5).sum()} environments are off, one by {error.max():.1e}")
        if not 0.5 * iterations <= found["iterations"] <= min(2 * iterations + 2, self.limit - 1):
            raise AssertionError(f"{found['iterations']} iterations; in float64 {iterations}")


@functools.lru_cache(maxsize=1)
def reference(problem: Problem) -> tuple[np.ndarray[Any, Any], int]:
    """The right solutions, and how many iterations the tolerance of ``problem`` takes."""
    bodies = Bodies(*(part.astype(float) for part in problem.bodies))
    return newton(bodies, 1e-9, 200)[0], newton(bodies, problem.tolerance, problem.limit)[1]


def contacts(bodies: Bodies, residual: Any) -> tuple[Any, Any]:
    """Force and its derivative, of each contact."""
    sliding, closed = residual < -bodies.slip, residual < 0.0
    force = bodies.stiffness * np.where(sliding, -bodies.slip, np.where(closed, residual, 0.0))
    return force, bodies.stiffness * (closed & ~sliding)


def newton(bodies: Bodies, tolerance: float, limit: int) -> tuple[np.ndarray[Any, Any], int]:
    """Solutions, and iterations of the slowest environment, in the precision of ``bodies``."""
    x = bodies.aim.copy()
    for iteration in range(limit):
        residual = bodies.gap + np.einsum("cun,un->cn", bodies.jacobian, x)
        force, stiff = contacts(bodies, residual)
        gradient = np.einsum("abn,bn->an", bodies.mass, x - bodies.aim) + np.einsum("cun,cn->un", bodies.jacobian, force)
        going = np.abs(gradient).max(axis=0) > tolerance
        if not going.any():
            return x, iteration
        hessian = bodies.mass + np.einsum("can,cbn,cn->abn", bodies.jacobian, bodies.jacobian, stiff)
        step = -np.linalg.solve(hessian.transpose(2, 0, 1), gradient.T[..., None])[..., 0].T
        x = x + step * np.where(going, _search(bodies, residual, gradient, step, force), 0.0)
    return x, limit


def _search(bodies: Bodies, residual: Any, gradient: Any, step: Any, force: Any) -> Any:
    """The length of each step."""
    along = np.einsum("cun,un->cn", bodies.jacobian, step)
    curve = np.einsum("an,abn,bn->n", step, bodies.mass, step)
    first = np.einsum("an,an->n", gradient, step)
    smooth = first - (along * force).sum(axis=0)
    t, low, high = np.ones_like(first), np.zeros_like(first), np.full_like(first, FAR)
    going = first < 0.0
    for _ in range(TRIALS):
        now, stiff = contacts(bodies, residual + t * along)
        slope = smooth + t * curve + (along * now).sum(axis=0)
        going &= np.abs(slope) > SLOPE * np.abs(first)
        low, high = np.where(slope < 0.0, t, low), np.where(slope < 0.0, high, t)
        curvature = curve + (along * along * stiff).sum(axis=0)
        tried = t - slope / np.where(going, curvature, 1.0)
        inside = (low < tried) & (tried < high)
        t = np.where(going, np.where(inside, tried, 0.5 * (low + high)), t)
    return t


def problems(quick: bool) -> tuple[Problem, ...]:
    """The sizes, small to large."""
    if quick:
        return (Problem(64),)
    return Problem(1024), Problem(4096), Problem(16384)
