"""`headwater log check` on Kafka: which records of a partition count, and which ones folds leave out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headwater.cli.output import Column, count, print_json, print_table
from headwater.log import Log

_SHOWN = 5  # runs of offsets in a cell; `--json` has more


def show_claims(log: Log, places: Iterable[tuple[str, int]], *, json: bool) -> None:
    """Check these partitions and print the results."""
    from headwater.log.kafka.check import check

    results = [(topic, check(log, topic, partition)) for topic, partition in places]
    if json:
        print_json([{"topic": topic, **msgspec.to_builtins(checked)} for topic, checked in results])
        return
    numbers = ("partition", "records", "counted", "claims", "stale", "foreign", "epoch")
    columns = [Column("topic"), *(Column(name, True) for name in numbers), Column("left out at")]
    rows = []
    for topic, checked in results:
        cells = (checked.records, checked.counted, checked.claims, checked.stale, checked.foreign, checked.epoch)
        left_out = [
            f"{name} {_offsets(ranges)}"
            for name, ranges in (("stale", checked.stale_offsets), ("foreign", checked.foreign_offsets))
            if ranges
        ]
        rows.append((topic, str(checked.partition), *map(count, cells), "; ".join(left_out) or "-"))
    print_table(columns, rows)


def _offsets(ranges: Sequence[tuple[int, int]]) -> str:
    shown = ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in ranges[:_SHOWN])
    return shown + (", …" if len(ranges) > _SHOWN else "")
