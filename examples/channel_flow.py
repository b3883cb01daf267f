"""Channel flow: the last of Barba and Forsyth's "12 steps to Navier-Stokes", to a steady state that the device detects.

python -m examples.channel_flow
"""

from __future__ import annotations

import numpy as np

import qgraph


@qgraph.func
def divergence_source(b, u, v, rho, dt, dx, dy):
    """The right side of the equation for the pressure, inside the walls."""
    rows, columns = u.shape
    for i, j in qgraph.ndrange((1, rows - 1), columns):
        west, east = (j - 1) % columns, (j + 1) % columns
        du_dx = (u[i, east] - u[i, west]) / (2 * dx)
        dv_dx = (v[i, east] - v[i, west]) / (2 * dx)
        du_dy = (u[i + 1, j] - u[i - 1, j]) / (2 * dy)
        dv_dy = (v[i + 1, j] - v[i - 1, j]) / (2 * dy)
        b[i, j] = rho * ((du_dx + dv_dy) / dt - du_dx**2 - 2 * du_dy * dv_dx - dv_dy**2)


@qgraph.func
def relax_pressure(p, pn, b, dx, dy, sweeps):
    """Jacobi's iteration for the pressure, whose derivative across the walls is 0."""
    rows, columns = p.shape
    for _ in qgraph.serial(range(sweeps)):
        pn[:, :] = p
        for i, j in qgraph.ndrange((1, rows - 1), columns):
            west, east = (j - 1) % columns, (j + 1) % columns
            across = (pn[i, east] + pn[i, west]) * dy**2 + (pn[i + 1, j] + pn[i - 1, j]) * dx**2
            p[i, j] = (across - dx**2 * dy**2 * b[i, j]) / (2 * (dx**2 + dy**2))
        p[-1, :] = p[-2, :]
        p[0, :] = p[1, :]


@qgraph.kernel
def channel_flow(u, v, p, dx, dy, dt, rho, nu, force, sweeps, tolerance):
    """Push a fluid between two walls until its mean speed changes by less than a share ``tolerance`` in a step.

    Args:
        u: velocity along the channel, (rows across, columns along). The first and the last row are the walls, the columns
            are periodic; it holds the first velocities and gets the last, as do ``v`` and ``p``.
        v: velocity across it, of the same shape.
        p: pressure, of the same shape.
        dx: spacing of the columns.
        dy: spacing of the rows.
        dt: length of a step.
        rho: density.
        nu: kinematic viscosity.
        force: what pushes, along the channel.
        sweeps: iterations for the pressure in each step.
        tolerance: when to stop.

    Returns:
        the number of steps, and the last change.
    """
    rows, columns = u.shape
    un, vn, pn = qgraph.empty(u.shape, u.dtype), qgraph.empty(u.shape, u.dtype), qgraph.empty(u.shape, u.dtype)
    b = qgraph.zeros(u.shape, u.dtype)
    steps = 0
    udiff = 1.0
    while udiff > tolerance:
        un[:, :] = u
        vn[:, :] = v
        divergence_source(b, u, v, rho, dt, dx, dy)
        relax_pressure(p, pn, b, dx, dy, sweeps)
        for i, j in qgraph.ndrange((1, rows - 1), columns):
            west, east = (j - 1) % columns, (j + 1) % columns
            u[i, j] = (
                un[i, j]
                - un[i, j] * dt / dx * (un[i, j] - un[i, west])
                - vn[i, j] * dt / dy * (un[i, j] - un[i - 1, j])
                - dt / (2 * rho * dx) * (p[i, east] - p[i, west])
                + nu * dt / dx**2 * (un[i, east] - 2 * un[i, j] + un[i, west])
                + nu * dt / dy**2 * (un[i + 1, j] - 2 * un[i, j] + un[i - 1, j])
                + force * dt
            )
            v[i, j] = (
                vn[i, j]
                - un[i, j] * dt / dx * (vn[i, j] - vn[i, west])
                - vn[i, j] * dt / dy * (vn[i, j] - vn[i - 1, j])
                - dt / (2 * rho * dy) * (p[i + 1, j] - p[i - 1, j])
                + nu * dt / dx**2 * (vn[i, east] - 2 * vn[i, j] + vn[i, west])
                + nu * dt / dy**2 * (vn[i + 1, j] - 2 * vn[i, j] + vn[i - 1, j])
            )
        u[0, :] = 0.0
        u[-1, :] = 0.0
        v[0, :] = 0.0
        v[-1, :] = 0.0
        udiff = (np.sum(u) - np.sum(un)) / np.sum(u)
        steps += 1
    return steps, udiff


def main() -> None:
    """The problem of the course: 41 by 41 points on a square of side 2."""
    n = 41
    u, v, p = qgraph.zeros((n, n)), qgraph.zeros((n, n)), qgraph.full((n, n), 1.0)
    h = 2 / (n - 1)
    steps, _ = channel_flow(u, v, p, h, h, 0.01, 1.0, 0.1, 1.0, 50, 0.001)
    fastest = qgraph.to_numpy(u).max()
    print(f"channel flow: steady after {steps} steps, fastest {fastest:.3f}, path {channel_flow.last_launch.path}")


if __name__ == "__main__":
    main()
