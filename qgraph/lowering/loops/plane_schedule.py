"""In which order the sweeps of a pass over planes go: each follows the one before it, some planes behind."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from qgraph.lowering.loops.stencils import Stage, Stencils
from qgraph.lowering.loops.tile_codegen import keys_of
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """What an array is before a pass (``step`` is -1), or what a step of it stores there: ``name`` and ``key`` are the code's.

    ``lag``: how many planes it is behind the first one that is loaded. ``planes``: how many of them a thread keeps. ``ring``:
    how many are in shared memory, 0 where no warp looks at another one's.
    """

    name: str
    key: str
    step: int
    lag: int = 0
    planes: int = 1
    ring: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Loop ``number`` in a sweep. ``before``: the versions that its names stand for; ``after``: those that it makes."""

    sweep: int
    number: int
    stage: Stage
    lag: int
    before: Mapping[str, Version]
    after: Mapping[str, Version]

    def reads(self) -> Iterator[tuple[Version, int, bool]]:
        """The versions that it looks at, in which plane from its own, and whether another warp may have these rows."""
        for access, (dz, dy, _) in zip(self.stage.accesses, from_anchor(self.stage), strict=True):
            if not access.writes:
                yield self.before[access.array], dz, dy != 0
        # Where it writes nothing there is what was.
        yield from ((self.before[name], 0, False) for name in self.after)


def schedule(stencils: Stencils, sweeps: int) -> tuple[tuple[Version, ...], tuple[Step, ...]]:
    """The versions that are loaded, and the steps of so many sweeps."""
    named, steps = _in_order(stencils, sweeps)
    # How far behind a step must be, since what it looks at of the planes before and after is there then: what another warp
    # stores is there behind the next barrier.
    lags: dict[str, int] = {versions[0].name: 0 for versions in named.values()}
    for step in steps:
        lag = max((lags[version.name] + dz + across for version, dz, across in step.reads()), default=0)
        lags |= {version.name: lag for version in step.after.values()}
    # What is loaded is loaded as late as possible.
    lag_of = {index: lags[version.name] for index, step in enumerate(steps) for version in step.after.values()}
    uses: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    for index, step in enumerate(steps):
        for version, dz, across in step.reads():
            uses[version.name].append((lag_of[index], dz, across))
    for versions in named.values():
        first = versions[0].name
        lags[first] = min((lag - dz - across for lag, dz, across in uses[first]), default=0)
    made: dict[str, Version] = {}
    for version in itertools.chain.from_iterable(named.values()):
        lag = lags[version.name]
        ages = [(used - dz - lag, across) for used, dz, across in uses[version.name]]
        planes = 1 + max((age for age, _ in ages), default=0)
        ring = 1 + max((age for age, across in ages if across), default=-1)
        made[version.name] = replace(version, lag=lag, planes=planes, ring=ring)
    final = (
        replace(
            step,
            lag=lag_of[index],
            before={name: made[version.name] for name, version in step.before.items()},
            after={name: made[version.name] for name, version in step.after.items()},
        )
        for index, step in enumerate(steps)
    )
    return tuple(made[versions[0].name] for versions in named.values()), tuple(final)


def _in_order(stencils: Stencils, sweeps: int) -> tuple[dict[str, list[Version]], list[Step]]:
    """The versions of each array, and the steps, without lags."""
    named = {key: [Version(f"{key.lstrip('_')}_0", key, -1)] for key in stencils.leaves}
    stands, steps = {key: key for key in stencils.leaves}, list[Step]()
    for sweep in range(sweeps):
        numbers = itertools.count()
        for each in stencils.steps:
            if not isinstance(each, Stage):
                stands = each.after(stands)
                continue
            before = {name: named[stands[name]][-1] for name in keys_of(each)}
            written = sorted({access.array for access in each.accesses if access.writes})
            for name in written:
                versions = named[stands[name]]
                versions.append(Version(f"{stands[name].lstrip('_')}_{len(versions)}", stands[name], len(steps)))
            after = {name: named[stands[name]][-1] for name in written}
            steps.append(Step(sweep, next(numbers), each, 0, before, after))
    return named, steps


def from_anchor(stage: Stage) -> list[tuple[int, ...]]:
    """How far each access is from what an iteration stores first, along each axis."""
    return [
        tuple(place.offset - by for place, by in zip(access.places, stage.anchor, strict=True)) for access in stage.accesses
    ]
