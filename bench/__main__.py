"""The command line: python -m bench [NAME …] [--json FILE] [--quick] [--minutes M]"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from bench import machine
from bench.appends import append, append_arrow
from bench.callers import callers
from bench.case import Benchmark, Case, Skipped
from bench.checks import check
from bench.compactions import compaction
from bench.documents import documents
from bench.encoding import encoding
from bench.journal import journal
from bench.kafka import kafka
from bench.pipelines import pipelines
from bench.place import Place
from bench.processes import processes
from bench.queue import queue
from bench.remote import remote
from bench.reopening import reopen
from bench.report import as_json, line, table
from bench.rounds import Measured, measure
from bench.scans import scan
from bench.scattered import scattered
from bench.serving import serving
from bench.sizes import FULL, QUICK, Sizes
from bench.spark import spark
from bench.sql import sql_ways
from bench.waiting import waiting
from bench.wal import wal
from headwater.core.errors import HeadwaterError

RESULTS = Path(__file__).with_name("results")
BENCHMARKS: dict[str, Benchmark] = {
    "append": append,
    "append_arrow": append_arrow,
    "encoding": encoding,
    "callers": callers,
    "processes": processes,
    "remote": remote,
    "serving": serving,
    "scan": scan,
    "scattered": scattered,
    "check": check,
    "reopen": reopen,
    "compaction": compaction,
    "waiting": waiting,
    "wal": wal,
    "queue": queue,
    "journal": journal,
    "documents": documents,
    "kafka": kafka,
    "spark": spark,
    "sql": sql_ways,
    "pipelines": pipelines,
}


def main(words: Sequence[str] | None = None, *, sizes: Sizes | None = None, out: TextIO = sys.stdout, say: TextIO = sys.stderr) -> int:
    """Run what was asked for. Returns 0 whether marks are met or not: figures are for people to judge, on their own machine.

    A case that fails, such as one whose outcome is not right, makes it 1: what else was measured is told all the same.
    """
    options = parser().parse_args(words)
    sizes = sizes or (QUICK if options.quick else FULL)
    if options.minutes is not None:
        sizes = dataclasses.replace(sizes, minutes=options.minutes)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.dir) as folder:
        place = Place(Path(folder))
        start = machine.moment(place.folder, sizes.probes)
        results = run(options.names or list(BENCHMARKS), place, sizes, say)
        facts = {**machine.facts(), "start": start, "end": machine.moment(place.folder, sizes.probes)}
    if options.json == "-":
        json.dump(as_json(results, size=sizes.name, machine=facts), out, indent=1)
        out.write("\n")
    else:
        path = Path(options.json) if options.json else options.dir / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        path.write_text(json.dumps(as_json(results, size=sizes.name, machine=facts), indent=1) + "\n")
        print(f"every sample: {path}", file=say)
    console = Console(file=say if options.json == "-" else out, width=None if out.isatty() else 160)
    table(results, console)
    console.print(summary(facts), soft_wrap=True)
    return int(any(isinstance(result, Skipped) and result.failed for result in results))


def run(names: Sequence[str], place: Place, sizes: Sizes, say: TextIO) -> list[Measured | Skipped]:
    """Measure the named benchmarks, saying each figure as it is known."""
    results: list[Measured | Skipped] = []
    for name in names:
        for case in BENCHMARKS[name](place, sizes):
            result = case if isinstance(case, Skipped) else measured(case, sizes.rounds)
            results.append(result)
            print("  ".join(part for part in line(result) if part), file=say, flush=True)
    return results


def measured(case: Case, rounds: int) -> Measured | Skipped:
    try:
        return measure(case, rounds)
    except HeadwaterError as problem:
        return Skipped(case.name, str(problem), failed=True)


def summary(facts: dict[str, Any]) -> str:
    """What the machine was like, in a line."""
    start, end = facts["start"], facts["end"]
    return (
        f"{facts['usable_cores']} cores, Python {facts['python']}; 4 KiB write + sync p50 {start['sync_p50_us']} µs before, "
        f"{end['sync_p50_us']} µs after; load average {start['load_average'][0]:.1f} before, {end['load_average'][0]:.1f} after"
    )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m bench", description="Every figure beside a floor or a peer measured in the same run.")
    top.add_argument("names", nargs="*", metavar="NAME", choices=[[], *BENCHMARKS], help=f"{', '.join(BENCHMARKS)} (default: all)")
    top.add_argument("--quick", action="store_true", help="small counts: the order of magnitude in a minute or two")
    top.add_argument("--minutes", metavar="M", type=float, help="how long `serving` loads its server (default: 30; with --quick: 2)")
    top.add_argument("--json", metavar="FILE", help="where the JSON goes; - is standard output (default: a new file in bench/results)")
    top.add_argument("--dir", metavar="DIR", type=Path, default=RESULTS, help="a folder on the disk to measure (default: bench/results)")
    return top


if __name__ == "__main__":
    sys.exit(main())
