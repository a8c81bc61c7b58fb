"""Readers beside a process that rolls, compacts and deletes: below the durable end no record is ever missing, and no reader dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from headwater.core.disposal import Disposal
from headwater.core.errors import OffsetGone
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

APPENDS = int(os.environ.get("SOAK_READER_APPENDS", "1000"))

WRITING = """
import sys
from random import Random
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

data, appends, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random, end = Random(seed), 0
with EmbeddedLog(data) as log:
    for _ in range(appends):
        count = random.choice([1, 1, 1, 2, 5])
        # A record's offset is its key, value and timestamp: compaction merges segments and removes nothing.
        log.append("t", 0, [Record(b"%d" % n, b"%d" % n, timestamp=n) for n in range(end, end + count)])
        end += count
        what = random.random()
        if what < 0.02:
            log.compact("t", 0)
        elif what < 0.04:
            log.delete_before("t", 0, max(log.bounds("t", 0).start, end - random.choice([3, 30, 300])))
"""


def offsets_are_right(records: list[Record], start: int) -> bool:
    return [(one.offset, one.value) for one in records] == [(n, b"%d" % n) for n in range(start, start + len(records))]


class Looking:
    """One look of each kind at a random place. `OffsetGone` is right only below the start."""

    def __init__(self, log: EmbeddedLog, random: Random) -> None:
        self.log, self.random = log, random

    def look(self) -> None:
        bounds = self.log.bounds("t", 0)
        start = self.random.randint(bounds.start, bounds.end) if self.random.random() < 0.5 else max(bounds.start, bounds.end - 2)
        for kind in (self.read, self.read_at, self.scan, self.by_time):
            try:
                kind(start, bounds.end)
            except OffsetGone:
                assert self.log.bounds("t", 0).start > start

    def read(self, start: int, end: int) -> None:
        records = self.log.read("t", 0, start, limit=self.random.choice([1, 3, 1000]))
        assert records or start == end, f"nothing at {start}, below {end}"
        assert offsets_are_right(records, start)

    def read_at(self, start: int, end: int) -> None:
        offsets = [self.random.randrange(end) for _ in range(self.random.choice([1, 5, 60])) if end]
        found = self.log.read_at("t", 0, offsets)
        begin = self.log.bounds("t", 0).start
        for offset, record in zip(offsets, found, strict=True):
            assert (record.offset, record.value) == (offset, b"%d" % offset) if record else offset < begin, f"{offset}: {record}"

    def scan(self, start: int, end: int) -> None:
        at = start
        for batch in self.log.scan("t", 0, start, end, batch=self.random.choice([1, 7, 1000])):
            assert batch.column("offset").to_pylist() == list(range(at, at + batch.num_rows))
            at += batch.num_rows
            if self.log.bounds("t", 0).start > at:
                return  # the rest may be gone by now
        assert at == end, f"a scan of {start} to {end} ended at {at}"

    def by_time(self, start: int, end: int) -> None:
        if start < end:
            found = self.log.offset_at("t", 0, start)
            assert found == start or found == self.log.bounds("t", 0).start > start or self.log.bounds("t", 0).start > start


@contextmanager
def writer(data: Path, seed: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", WRITING, str(data), str(APPENDS), str(seed)], stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("segment", "seed", "disposal"),
    [(1, 1, "delete"), (120, 2, "delete"), (2000, 3, "delete"), (120, 5, "truncate"), (2000, 6, "secure-reset")],
)
def test_a_reader_beside_rolls_compaction_and_deletes_misses_nothing(
    memory_path: Path, segment: int, seed: int, disposal: Disposal
) -> None:
    with EmbeddedLog(memory_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=segment, disposal=disposal))
    random, looks = Random(seed), 0
    with writer(memory_path, seed) as process, EmbeddedLog(memory_path, read_only=True) as kept:
        while process.poll() is None:
            with EmbeddedLog(memory_path, read_only=True) as fresh:
                for log in (kept, fresh, kept):
                    Looking(log, random).look()
            looks += 1
            if looks % 20 == 0:
                assert not check(kept.reader("t", 0)).damage
        assert process.returncode == 0, process.stderr.read().decode() if process.stderr else ""
        Looking(kept, random).look()
    assert looks > 5


def test_a_tail_beside_rolls_and_compaction_misses_nothing(memory_path: Path) -> None:
    with EmbeddedLog(memory_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=1))
    with writer(memory_path, 4) as process, EmbeddedLog(memory_path, read_only=True) as log:
        at = jumps = 0
        ended = False
        while not ended:
            ended = process.poll() is not None
            try:
                for records in log.tail("t", 0, at, stopped=lambda: process.poll() is not None):
                    assert offsets_are_right(records, at)
                    at += len(records)
            except OffsetGone:  # deleted before it was read
                start = log.bounds("t", 0).start
                assert start > at
                at, jumps = start, jumps + 1
        records = log.read("t", 0, at, limit=10_000)
        assert offsets_are_right(records, at)
        assert at + len(records) == log.bounds("t", 0).end
