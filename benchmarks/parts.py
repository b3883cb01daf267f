"""A question in parts, each with rows of peers: they can be asked one by one, and their answers meet in one file."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import timing
from benchmarks.peers import Device, require
from benchmarks.raw_c import Missing
from benchmarks.results import RESULTS, Answer, Target, commit, has_gpu, info_here, machine, write
from benchmarks.timing import Timing

# What measures a part: it adds rows to the answer.
Part = Callable[[Answer, bool, Device], None]


def attempt(answer: Answer, part: str, peer: str, make: Callable[[], Any]) -> Any:
    """What ``make`` returns; None, with the reason under ``missing``, where a peer cannot do it or does it wrong.

    qgraph itself may be missing for want of a device only: everything else that it raises is raised.
    """
    try:
        return make()
    except (Missing, ImportError) as error:
        reason = str(error)
    except AssertionError as error:
        if peer.startswith("qgraph"):
            raise
        reason = f"wrong answer: {error}"
    except Exception as error:
        # A peer fails in its own ways; the others are measured all the same.
        if peer.startswith("qgraph"):
            raise
        reason = f"{type(error).__name__}: {error}"
    reason = " ".join(reason.split())
    answer.missing[f"{part}: {peer}"] = reason if len(reason) <= 300 else f"{reason[:300]}..."
    say(f"  {peer}: missing: {answer.missing[f'{part}: {peer}']}")
    return None


def present(answer: Answer, libraries: Mapping[str, str], device: Device) -> list[str]:
    """Of peers and their libraries, those that can run here; why others cannot is noted once."""
    found = []
    for peer, library in libraries.items():
        if peer in answer.missing:
            continue
        try:
            if library != "qgraph":
                require(library, device)
        except Missing as error:
            answer.missing[peer] = str(error)
        else:
            found.append(peer)
    return found


def in_turns(measures: Mapping[str, Callable[[], Timing]], rounds: int) -> dict[str, Timing]:
    """The middle one of ``rounds`` measurements for each peer, who take turns: a clock that changes changes all of them."""
    samples: dict[str, list[Timing]] = {peer: [] for peer in measures}
    for _ in range(rounds):
        for peer, measure in measures.items():
            samples[peer].append(measure())
    return {peer: timing.middle(found) for peer, found in samples.items()}


def add_rows(answer: Answer, part: str, size: Any, times: Mapping[str, Timing], more: Mapping[str, Any]) -> None:
    """A row a peer: its time, the ratio to qgraph's, and of ``more`` what belongs to the peer."""
    own = times.get("qgraph")
    for peer, timed in times.items():
        ratio = round(timed.median / own.median, 4) if own else None
        row = {answer.columns[0]: part, "size": size, "peer": peer, "us": timed.as_json(), "ratio": ratio}
        answer.rows.append({**row, **{column: values[peer] for column, values in more.items() if peer in values}})
        words = "" if ratio is None or peer == "qgraph" else f", {ratio:.2f} x qgraph's"
        say(f"  {size}: {peer}: {timed.median:,.2f} us{words}")


def targets(rows: list[dict[str, Any]], key: str, least: Mapping[str, float] | None = None) -> list[Target]:
    """Ahead of each peer in every row, or of some by the ratio ``least``."""
    wanted = least or {}
    return [
        Target(
            f"{row[key]}, {row['size']}: time of {row['peer']} over qgraph's",
            row["ratio"],
            ">=",
            wanted.get(row["peer"], 1.0),
            "x",
        )
        for row in rows
        if row["ratio"] is not None and not row["peer"].startswith("qgraph")
    ]


def say(words: str) -> None:
    """Progress, at once."""
    print(words, flush=True)


def main(
    begin: Callable[[Device], Answer],
    parts: Mapping[str, Part],
    draw: Callable[[dict[str, Any], Path], None],
    judge: Callable[[list[dict[str, Any]], str], list[Target]] = targets,
) -> int:
    """The command line: measure the parts asked for, keep the others' rows if they are of this machine and commit.

    ``judge`` makes the targets of all rows, whose first column it is given.

    Returns 0 when measured, 1 when qgraph failed in some part, 3 when a GPU is needed and there is none.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result files go")
    parser.add_argument("--quick", action="store_true", help="smallest sizes and few repeats: to see that it works")
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts), metavar="PART", help=", ".join(parts))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to see that the answers agree")
    parser.add_argument("--without", nargs="+", default=[], metavar="PEER", help="leave these out, as the tables name them")
    options = parser.parse_args()
    if options.device == "cuda" and not has_gpu():
        print(f"not measured: no GPU here ({info_here().get('reason') or 'no CUDA device'})")
        return 3
    answer = begin(options.device)
    answer.missing = dict.fromkeys(options.without, "left out: --without")
    _keep(answer, set(parts) - set(options.only), options.out)
    failed = [part for part in options.only if not _measured(part, parts[part], answer, options)]
    answer.rows.sort(key=lambda row: list(parts).index(row[answer.columns[0]]))
    answer.targets = judge(answer.rows, answer.columns[0])
    write(answer, draw, options.out)
    return int(bool(failed))


def _measured(part: str, measure: Part, answer: Answer, options: argparse.Namespace) -> bool:
    """Measure a part, and put what there is into the file: a run that is cut short, or a part that fails, loses no other."""
    start = time.perf_counter()
    say(f"-- {part}")
    try:
        measure(answer, options.quick, options.device)
    except Exception as error:  # noqa: BLE001 - it is printed, and the exit status tells
        traceback.print_exc()
        answer.missing[f"{part}: qgraph"] = f"failed: {type(error).__name__}"
        return False
    finally:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{answer.question}.json").write_text(json.dumps(answer.as_json(), indent=1) + "\n")
    say(f"-- {part}: {time.perf_counter() - start:.0f} s")
    return True


def _keep(answer: Answer, others: set[str], out: Path) -> None:
    """Rows of parts that were measured before, here, at this commit."""
    file = out / f"{answer.question}.json"
    if not others or not file.exists():
        return
    record = json.loads(file.read_text())
    here = machine()
    if (record["commit"], record["machine"]["gpu"], record["machine"]["cpu"]) != (commit(), here["gpu"], here["cpu"]):
        print(f"rows of {file.name} are of another commit or machine: dropped", file=sys.stderr)
        return
    answer.rows += [row for row in record["rows"] if row[answer.columns[0]] in others]
    answer.missing |= {name: why for name, why in record["missing"].items() if name.partition(": ")[0] in others}
