"""Python processes of their own: for the simulator, for what ruins a context, and for what a process does first or last."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_python(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """How ``python *arguments`` ended, which finds this project, and what it printed."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
        timeout=200,
    )


def run_program(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As ``run_python``, of a text. It is written to ``folder``: kernels need their source."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(program))
    return run_python(file, **environment)


def printed_by(program: str, folder: Path, **environment: str) -> str:
    """What a program prints, which must end well."""
    done = run_program(program, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def agrees_on_the_simulator(module: str, *parts: str) -> None:
    """Run a module of these tests as a program on the simulator: it compares what it runs with plain Python, and says so."""
    done = run_python("-W", "ignore", "-m", module, *parts, QGRAPH_BACKEND="sim")
    assert done.stdout == "as plain Python\n", done.stderr
