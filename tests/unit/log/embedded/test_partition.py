"""One partition, written: write, sync, publish, in this order, whoever else is there."""

from __future__ import annotations

import errno
import threading
from typing import Any

import pytest

from headwater.core.errors import Closed, DiskFull, Fenced, OutcomeUnknown
from headwater.log.encoding import encode
from headwater.log.record import Record
from headwater.testing.faults import FailingFiles, crash


def batch(value: bytes) -> Any:
    return encode([Record(b"k", value)], now=1)


def test_what_is_written_is_not_seen_before_it_is_published(ground: Any) -> None:
    log = ground.fill(2, segment=1 << 20)
    partition, other = ground.partition(log), ground.open(read_only=True)
    ticket = partition.write(batch(b"third"))
    assert partition.page.tail.offset == 3
    assert other.bounds("t", 0).end == 2
    partition.finish(ticket)
    assert other.bounds("t", 0).end == 3
    assert ground.values(other)[-1] == b"third"


def test_another_writer_s_sync_covers_what_was_written_before(ground: Any) -> None:
    log = ground.fill(2, segment=1 << 20)
    partition = ground.partition(log)
    first = partition.write(batch(b"first"))
    done = threading.Thread(target=partition.append, args=(batch(b"second"),))
    done.start()
    done.join()
    assert partition.page.durable_offset == 4  # the later one's sync was of the same file
    partition.finish(first)
    assert partition.page.durable_offset == 4


def test_a_full_disk_leaves_the_partition_as_it_was(ground: Any) -> None:
    ground.fill(2, segment=1 << 20).close()
    files = FailingFiles(only=("pwritev",), number=errno.ENOSPC)
    log = ground.open(files=files)
    partition = ground.partition(log)
    log.append("t", 0, [Record(b"k", b"third")])
    files.fail_at = files.calls + 1
    with pytest.raises(DiskFull):
        log.append("t", 0, [Record(b"k", b"lost")])
    assert not partition.page.dirty
    assert log.append("t", 0, [Record(b"k", b"fourth")])[0] == 3
    assert ground.values(log)[2:] == [b"third", b"fourth"]


def test_a_writer_that_slept_through_a_repair_is_told(ground: Any) -> None:
    log = ground.fill(2, segment=1 << 20)
    partition = ground.partition(log)
    ticket = partition.write(batch(b"asleep"))
    partition.page.failures += 2  # another process's sync failed, and was repaired
    with pytest.raises(OutcomeUnknown, match="failed meanwhile"):
        partition.finish(ticket)
    crash(log)


def test_a_claim_shuts_out_the_one_before(ground: Any) -> None:
    log = ground.fill(1)
    partition = ground.partition(log)
    first = partition.claim()
    partition.append(batch(b"first"), first)
    second = partition.claim()
    assert second > first
    with pytest.raises(Fenced):
        partition.append(batch(b"late"), first)
    partition.append(batch(b"second"), second)
    assert ground.values(log)[1:] == [b"first", b"second"]


def test_closing_waits_for_an_append_under_way(ground: Any) -> None:
    log = ground.fill(1)
    partition = ground.partition(log)
    written, go = threading.Event(), threading.Event()

    def append() -> None:
        ticket = partition.write(batch(b"late"))
        written.set()
        go.wait()
        partition.finish(ticket)

    appender, closer = threading.Thread(target=append), threading.Thread(target=partition.close)
    appender.start()
    written.wait()
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    go.set()
    for thread in (appender, closer):
        thread.join()
    with pytest.raises(Closed):
        partition.append(batch(b"too late"))
    assert ground.values(ground.open())[-1] == b"late"
