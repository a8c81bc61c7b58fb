"""The ranges of offsets that an SQL sink has taken, as rows (start, end, bucket, buckets) of its own table. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.pipeline.offsets.ranges import Span, joined


class TakenRange(msgspec.Struct, frozen=True, order=True):
    """Offsets [start, end) of which one bucket is committed."""

    start: int
    end: int
    bucket: int = 0
    buckets: int = 1


def whole(rows: Iterable[TakenRange]) -> list[Span]:
    """The offsets that every bucket of one split has taken."""
    by_split: dict[int, dict[int, list[Span]]] = {}
    for row in rows:
        by_split.setdefault(row.buckets, {}).setdefault(row.bucket, []).append((row.start, row.end))
    out: list[Span] = []
    for buckets, parts in by_split.items():
        if len(parts) < buckets:
            continue
        common = joined(parts[0])
        for bucket in range(1, buckets):
            common = _both(common, joined(parts[bucket]))
        out += common
    return joined(out)


def of_bucket(rows: Iterable[TakenRange], bucket: int, buckets: int) -> list[Span]:
    """The offsets that a bucket has taken: its own, and those that every bucket has."""
    ranges = list(rows)
    own = [(row.start, row.end) for row in ranges if (row.bucket, row.buckets) == (bucket, buckets)]
    return joined([*own, *whole(ranges)])


def compacted(rows: Iterable[TakenRange]) -> list[TakenRange]:
    """The same offsets in the fewest rows."""
    ranges = list(rows)
    done = whole(ranges)
    out = [TakenRange(start, end) for start, end in done]
    by_part: dict[tuple[int, int], list[Span]] = {}
    for row in ranges:
        by_part.setdefault((row.bucket, row.buckets), []).append((row.start, row.end))
    for (bucket, buckets), spans in by_part.items():
        if buckets > 1:
            out += [TakenRange(start, end, bucket, buckets) for start, end in joined(spans) if not _inside(start, end, done)]
    return sorted(out)


def contains(spans: Iterable[Span], offset: int) -> bool:
    return any(start <= offset < end for start, end in spans)


def _inside(start: int, end: int, spans: Iterable[Span]) -> bool:
    return any(low <= start and end <= high for low, high in spans)


def _both(left: list[Span], right: list[Span]) -> list[Span]:
    out = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return joined((start, end) for start, end in out if start < end)
