"""Random programs from the command line: for a time or a number, in several processes, with a report as JSON.

    python -m tests.properties.fuzz --backend cpu --seconds 600
    python -m tests.properties.fuzz --backend cuda --count 3000 --jobs 8 --out report.json
    python -m tests.properties.fuzz --check --count 5000
    python -m tests.properties.fuzz --arrays --ptx --backend cpu --seconds 600

A process that dies or hangs is a finding too: the program that it ran is in its folder, and is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from qgraph.errors import CudaError
from tests.properties.hunting import SHRINK_SECONDS, Finding, hunt

# The exit status of a process whose CUDA context was lost.
LOST = 3


def main() -> int:
    """Run, print, and say by the exit status whether anything was found."""
    # No program comes twice: the disk would only fill.
    os.environ.setdefault("QGRAPH_CACHE", "0")
    options = _options()
    if options.check:
        # Most of the time goes into compilation, and what LLVM optimises is not what is looked for.
        os.environ.setdefault("NUMBA_OPT", "0")
    if options.worker:
        _work(options)
        return 0
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="qgraph-fuzz-"))
    jobs = [_Job(options, number, folder) for number in range(options.jobs)]
    # Whoever ends it early is told what there is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while sum(job.running() for job in jobs):
            time.sleep(0.5)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for job in jobs:
            job.stop()
    findings = [finding for job in jobs for finding in job.findings()]
    report = {
        "backend": options.backend,
        "seed": options.seed,
        "jobs": options.jobs,
        "programs": sum(job.programs() for job in jobs),
        "seconds": round(time.monotonic() - start, 1),
        "findings": findings,
    }
    for finding in findings:
        print(f"{'=' * 100}\n{finding['error']}\n\n{finding['source']}")
    print(f"{report['programs']} programs on {options.backend} in {report['seconds']} s, {len(findings)} findings")
    refused = sum((job.refused() for job in jobs), Counter())
    for message, count in refused.most_common():
        print(f"refused {count} calls: {message}")
    if options.out:
        Path(options.out).write_text(json.dumps(report, indent=1))
    return 1 if findings else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run random programs against plain Python")
    parser.add_argument("--backend", choices=("cpu", "cuda", "sim"), default="cpu")
    parser.add_argument("--count", type=int, default=10**9, help="programs in all")
    parser.add_argument("--seconds", type=float, default=10**9)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--real", action="store_true", help="real floats, within a tolerance")
    parser.add_argument("--fuse", action="store_true", help="programs with neighbouring loops, each with and without fuse")
    parser.add_argument("--arrays", action="store_true", help="programs of whole arrays")
    parser.add_argument("--ptx", action="store_true", help="with --arrays: compile for CUDA too what ran")
    parser.add_argument("--check", action="store_true", help="by `kernel.check` on the CPU, which must find nothing")
    parser.add_argument("--findings", type=int, default=10, help="a process stops after so many")
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, help="seconds to make a found program smaller")
    parser.add_argument("--patience", type=float, default=240.0, help="a program that takes more seconds hangs")
    parser.add_argument("--without", default="", help="features to leave out, with commas between")
    parser.add_argument("--out", default="", help="a file for the report as JSON")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count == 10**9 and options.seconds == 10**9:
        options.seconds = 600.0
    return options


class _Job:
    """A process that hunts, watched by the programs that it says it runs."""

    def __init__(self, options: argparse.Namespace, number: int, folder: Path) -> None:
        self.options = options
        self.path = folder / str(number)
        self.path.mkdir()
        self.number = number
        self.losses: list[dict[str, Any]] = []
        self.done = 0
        self.start = time.monotonic()
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        options = self.options
        left = options.count // options.jobs + (self.number < options.count % options.jobs) - self.done
        seconds = max(1.0, options.seconds - (time.monotonic() - self.start))
        words = [sys.executable, "-m", "tests.properties.fuzz", "--worker", str(self.path), "--backend", options.backend]
        words += ["--count", str(left), "--seconds", str(seconds), "--findings", str(options.findings)]
        words += ["--shrink", str(options.shrink)]
        words += ["--seed", str(options.seed * 64 + self.number + 7919 * len(self.losses)), "--without", options.without]
        words += ["--real"] if options.real else []
        words += ["--fuse"] if options.fuse else []
        words += ["--check"] if options.check else []
        words += ["--arrays"] if options.arrays else []
        words += ["--ptx"] if options.ptx else []
        environment = {**os.environ, "QGRAPH_BACKEND": "sim"} if options.backend == "sim" else dict(os.environ)
        if options.jobs > 1:
            environment.setdefault("NUMBA_NUM_THREADS", "2")
        return subprocess.Popen(words, env=environment)

    def running(self) -> bool:
        """Whether it still works; a process that died or hangs is noted, and another takes its place."""
        now = self.path / "now.py"
        status = self.process.poll()
        hangs = status is None and now.exists() and time.time() - now.stat().st_mtime > self.options.patience
        if status == 0 or (status is None and not hangs):
            return status is None
        if hangs:
            self.process.kill()
            self.process.wait()
        what = "hangs" if hangs else f"the process ended with {status}"
        self._lose(what)
        now.unlink(missing_ok=True)
        self.done = self.programs()
        if len(self.losses) > self.options.findings or not self._time_left():
            return False
        self.process = self._started()
        return True

    def _lose(self, what: str) -> None:
        now = self.path / "now.py"
        source = now.read_text() if now.exists() else ""
        self.losses.append({"error": what, "source": source, "seed": self.options.seed})

    def stop(self) -> None:
        """End it, whatever it does; the program that it runs is noted as one that was not finished."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self._lose("stopped")

    def _time_left(self) -> bool:
        return time.monotonic() - self.start < self.options.seconds and self.done < self.options.count // self.options.jobs

    def programs(self) -> int:
        """How many programs ran."""
        return sum(int(path.read_text() or 0) for path in self.path.glob("count-*"))

    def refused(self) -> Counter[str]:
        """How often calls were refused, by message."""
        return sum((Counter(json.loads(path.read_text())) for path in self.path.glob("refused-*")), Counter())

    def findings(self) -> list[dict[str, Any]]:
        """What was found."""
        return self.losses + [json.loads(path.read_text()) for path in sorted(self.path.glob("finding-*"))]


def _work(options: argparse.Namespace) -> None:
    """Hunt in this process, and leave what it does in files."""
    from tests.check.false_alarms import run_checked
    from tests.properties.features import features_for
    from tests.properties.programs import Program
    from tests.properties.running import Runner, script
    from tests.properties.whole.running import ArrayRunner

    folder = Path(options.worker)
    mine = f"{os.getpid()}"
    settings = (False, True) if options.fuse else (False,)
    if options.arrays:
        runner: Runner = ArrayRunner(options.backend, ptx=options.ptx)
    else:
        runner = Runner("cpu", settings, run_checked) if options.check else Runner(options.backend, settings)
    ran = 0

    def check(program: Program) -> None:
        nonlocal ran
        (folder / "now.py").write_text(script(program))
        ran += 1
        (folder / f"count-{mine}").write_text(str(ran))
        try:
            runner(program)
        except CudaError as error:
            # The context is gone, and every program after this one would fail too.
            (folder / "now.py").write_text(f"# {error}\n{script(program)}")
            os._exit(LOST)

    def tell(finding: Finding) -> None:
        number = len(list(folder.glob("finding-*")))
        record = {"error": finding.error, "source": finding.source, "seed": finding.seed}
        (folder / f"finding-{number:03d}-{mine}").write_text(json.dumps(record))

    features = features_for(options.backend, real=options.real, neighbours=options.fuse, arrays=options.arrays)
    features = features.without(*(name for name in options.without.split(",") if name))
    report = hunt(
        features,
        check,
        seconds=options.seconds,
        count=options.count,
        seed=options.seed,
        most_findings=options.findings,
        shrink=options.shrink,
        tell=tell,
    )
    (folder / f"count-{mine}").write_text(str(report.programs))
    (folder / "now.py").unlink(missing_ok=True)
    if isinstance(runner, ArrayRunner):
        (folder / f"refused-{mine}").write_text(json.dumps(runner.refused))
    runner.close()


if __name__ == "__main__":
    raise SystemExit(main())
