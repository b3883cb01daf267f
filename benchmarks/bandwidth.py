"""How much of the memory's bandwidth does a triad reach? ``a = b + s * c`` over 2**27 float32, against a device copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import plots, timing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Action, Timing

SIZE = 2**27
CALLS = 30


@qgraph.kernel(backend="cuda")
def triad(a, b, c, s):
    """The STREAM benchmark's third kernel."""
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


def measure(quick: bool) -> Answer:
    """Gigabytes a second, read and written, of the triad and of a device-to-device copy."""
    n = SIZE // 8 if quick else SIZE
    answer = Answer("bandwidth", f"Bandwidth: a triad over {n:,} float32", ("operation", "time", "bytes", "GB/s"))
    host = np.random.default_rng(0).random((2, n), np.float32)
    b, c = (qgraph.asarray(part, backend="cuda") for part in host)
    a = qgraph.empty(n, np.float32, backend="cuda")
    triad(a, b, c, 2.0)
    found, wanted = qgraph.to_numpy(a), host[0] + np.float32(2) * host[1]
    # A product and a sum may be one rounding on the device.
    np.testing.assert_allclose(found, wanted, rtol=3e-7)

    copy = device_copy(a, b, n * 4)
    copy()
    qgraph.synchronize()
    np.testing.assert_array_equal(qgraph.to_numpy(a)[::4097], host[0][::4097])
    actions: dict[str, tuple[Action, int]] = {
        "triad": (lambda: triad(a, b, c, 2.0), 3 * 4 * n),
        "device copy": (copy, 2 * 4 * n),
    }
    samples: dict[str, list[Timing]] = {name: [] for name in actions}
    for _ in range(1 if quick else 5):
        for name, (action, _size) in actions.items():
            samples[name].append(timing.total(action, qgraph.synchronize, calls=CALLS, repeats=3))
    rates = {}
    for name, (_, size) in actions.items():
        middle = timing.middle(samples[name])
        rates[name] = size / middle.median / 1e3
        answer.rows.append({"operation": name, "time": middle.as_json(), "bytes": size, "GB/s": round(rates[name], 1)})
    answer.targets.append(
        Target("triad against a device copy in the same run", rates["triad"] / rates["device copy"], ">=", 0.92, "x")
    )
    return answer


def device_copy(target: Any, source: Any, nbytes: int) -> Action:
    """Copies so many bytes from one of qgraph's arrays to another, on the default stream."""
    from cuda.bindings import driver
    from cuda.core import Device

    Device(0).set_current()
    to, of = (driver.CUdeviceptr(array.__cuda_array_interface__["data"][0]) for array in (target, source))
    default_stream = driver.CUstream(0)

    def copy() -> None:
        (status,) = driver.cuMemcpyDtoDAsync(to, of, nbytes, default_stream)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuMemcpyDtoDAsync: {status.name}")

    return copy


def draw(record: dict[str, Any], file: Path) -> None:
    """Two bars."""
    figure, axes = plots.figure(f"Bandwidth of a triad over {record['rows'][0]['bytes'] // 12:,} float32", record, height=2.6)
    for place, row in enumerate(record["rows"]):
        axes.barh(place, row["GB/s"], color=plots.COLOURS["qgraph" if row["operation"] == "triad" else "raw C"], height=0.6)
        axes.text(row["GB/s"], place, f" {row['GB/s']:,.0f}", va="center", fontsize=9, color=plots.INK)
    axes.set_yticks(range(len(record["rows"])), [row["operation"] for row in record["rows"]])
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("GB/s, read and written")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
