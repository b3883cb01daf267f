"""Draw, run and shrink random programs until the time or the number is up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.properties.features import Features
from tests.properties.programs import Program, programs
from tests.properties.running import Check, script
from tests.properties.whole.programs import array_programs

# Programs that Hypothesis draws in one go; the clock is looked at in between.
BATCH = 25
# A found program is made smaller for that many seconds at most, unless the caller says otherwise.
SHRINK_SECONDS = 60.0


@dataclass(slots=True)
class Finding:
    """A program that failed, made as small as could be, and how."""

    error: str
    source: str
    seed: int

    @property
    def signature(self) -> str:
        """The same for programs that fail in the same way: the message without its names, numbers and places."""
        first = self.error.strip().split("\n")[0]
        return re.sub(r"`[^`]*`|\d+|\b[a-z]\b|array.*|is .*", "", first)


@dataclass(slots=True)
class Report:
    """What a hunt did: programs run (those tried while shrinking not counted), and what it found."""

    programs: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class _Enough(BaseException):
    """The time is up: Hypothesis lets it through, where it would go on drawing after an ordinary exception."""


@dataclass(slots=True)
class _Attempt:
    """One batch: counts until something fails, then only shrinks."""

    check: Check
    deadline: float
    patience: float
    least: int = 0
    count: int = 0
    failed: Exception | None = None
    smallest: Program | None = None
    shrink_until: float = 0.0
    known: dict[str, Exception] = field(default_factory=dict)

    def __call__(self, program: Program) -> None:
        key = f"{program.source}{program.arguments}{program.seed}"
        if key in self.known:
            raise self.known[key]
        # However slow the machine is, one program runs.
        if self.count >= self.least and time.monotonic() > (self.shrink_until or self.deadline):
            raise _Enough
        self.count += self.failed is None
        try:
            self.check(program)
        except Exception as error:  # noqa: BLE001 - whatever a backend raises is what is looked for
            self._note(program, error)
            self.known[key] = error.with_traceback(None)
            raise self.known[key] from None

    def _note(self, program: Program, error: Exception) -> None:
        if self.failed is None:
            self.shrink_until = time.monotonic() + self.patience
        if self.smallest is None or len(program.source) <= len(self.smallest.source):
            self.smallest, self.failed = program, error


def hunt(
    features: Features,
    check: Check,
    *,
    seconds: float,
    count: int = 10**9,
    seed: int = 0,
    most_findings: int = 1,
    shrink: float = SHRINK_SECONDS,
    tell: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Run random programs through ``check`` until ``seconds`` or ``count`` are up, or so many different findings are made."""
    start = time.monotonic()
    report = Report()
    known: set[str] = set()
    batch = 0
    while time.monotonic() - start < seconds and report.programs < count and len(report.findings) < most_findings:
        batch += 1
        number = seed * 1_000_003 + batch
        attempt = _Attempt(check, start + seconds, shrink, least=0 if report.programs else 1)
        _run_batch(features, attempt, min(BATCH, count - report.programs), number)
        report.programs += attempt.count
        if attempt.failed is not None and attempt.smallest is not None:
            error = f"{type(attempt.failed).__name__}: {attempt.failed}"
            finding = Finding(error, script(attempt.smallest), number)
            if finding.signature not in known:
                known.add(finding.signature)
                report.findings.append(finding)
                tell(finding)
    report.seconds = round(time.monotonic() - start, 1)
    return report


def _run_batch(features: Features, attempt: _Attempt, examples: int, number: int) -> None:
    strategy = array_programs if features.arrays else programs

    @seeded(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(strategy(features))
    def run(program: Program) -> None:
        attempt(program)

    try:
        run()
    except _Enough:
        return
    except Exception:
        # What failed is noted by the attempt.
        if attempt.failed is None:
            raise


def drawn(count: int, strategy: Any, seed: int = 0) -> list[Program]:
    """Some programs of one seed. They change with what else is imported: Hypothesis also draws constants of local modules."""
    found: list[Program] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(strategy)
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return found


def never_written(strategy: Any, patterns: Iterable[str], most: int = 2000) -> list[str]:
    """Which of these regular expressions no program of that many holds; fewer are drawn where all were seen before."""
    left, seed = list(patterns), 0
    while left and seed * 80 < most:
        sources = "".join(program.source for program in drawn(80, strategy, seed))
        left, seed = [pattern for pattern in left if not re.search(pattern, sources)], seed + 1
    return left
