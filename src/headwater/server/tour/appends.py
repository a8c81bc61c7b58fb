"""Measures durable appends beside a bare loop of write and fdatasync on the same disk."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from pathlib import Path

from headwater.client.log import AsyncLog
from headwater.log.record import Record
from headwater.server.tour.report import TourReport, rate

TOPIC = "demo-appends"
CALLERS = 64
_ROUNDS, _OURS, _FLOOR = 3, 0.7, 0.3  # rounds, and seconds of each side: interleaved, so that both meet the same load
_VALUE = 100


async def appends(log: AsyncLog, disk: Path | None, report: TourReport) -> None:
    """64 callers append one record at a time; then this reads every acknowledged record back. `disk`: a folder on the log's disk."""
    report.part("appends")
    await log.create_topic(TOPIC)
    acknowledged: dict[int, bytes] = {}
    ours = floor = 0
    ours_seconds = floor_seconds = 0.0
    for turn in range(_ROUNDS):
        if disk is not None:
            count, seconds = await asyncio.to_thread(bare, disk / "demo-floor", _FLOOR)
            floor, floor_seconds = floor + count, floor_seconds + seconds
        began = time.perf_counter()
        answered = await asyncio.gather(*(_caller(log, f"{os.getpid()}-{turn}-{number}", began + _OURS) for number in range(CALLERS)))
        ours, ours_seconds = ours + sum(map(len, answered)), ours_seconds + time.perf_counter() - began
        for records in answered:
            acknowledged.update(records)
    report.fact(f"{CALLERS} callers, each waiting until its record is synced: {ours:,} records, {rate(ours, ours_seconds)}")
    if disk is not None:
        report.fact(f"a bare loop of write and fdatasync, in the same seconds: {rate(floor, floor_seconds)}")
    same = await _same(log, acknowledged)
    report.claim(f"read back, {same:,} of {ours:,} are as they were sent", same == ours == len(acknowledged))


async def _caller(log: AsyncLog, name: str, until: float) -> dict[int, bytes]:
    acknowledged: dict[int, bytes] = {}
    for turn in itertools.count():
        if time.perf_counter() >= until:
            return acknowledged
        value = f"{name}-{turn}".encode().ljust(_VALUE)
        (offset,) = await log.append(TOPIC, 0, [Record(name.encode(), value)])
        acknowledged[offset] = value
    raise AssertionError("counting never ends")


async def _same(log: AsyncLog, acknowledged: dict[int, bytes]) -> int:
    """The number of acknowledged records that the log returns with their values."""
    same, at, last = 0, min(acknowledged, default=0), max(acknowledged, default=-1)
    while at <= last:
        records = await log.read(TOPIC, 0, at, limit=10_000)
        for record in records:
            assert record.offset is not None
            same += acknowledged.get(record.offset) == record.value
            at = record.offset + 1
        if not records:
            break
    return same


def bare(path: Path, seconds: float) -> tuple[int, float]:
    """Write and sync the bytes of one such record repeatedly, without headwater."""
    record = bytes(_VALUE + 60)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            os.write(fd, record)
            os.fdatasync(fd)
            count += 1
        return count, time.perf_counter() - began
    finally:
        os.close(fd)
        path.unlink()
