from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from headwater.core.errors import Closed, DiskFull, Fenced, OutcomeUnknown, TooLarge, Unavailable
from headwater.log.record import Record
from headwater.wal.layout import EMPTY, RecordKind, decode_key
from headwater.wal.region_appender import Numbers, RegionAppender
from headwater.wal.region_meta import RegionChanges

pytestmark = pytest.mark.anyio
ENTRY = RecordKind.ENTRY
LIMIT = 16 << 20


class SlowLog:
    """Appends when the test says so, and remembers what was appended and applied."""

    def __init__(self) -> None:
        self.batches: list[list[Record]] = []
        self.applied: list[tuple[RecordKind, int, int, int, int]] = []
        self.entered, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.error: Exception | None = None
        self.full = False
        self.freeing: list[bool] = []

    def append(self, records: Sequence[Record], frees: bool) -> Sequence[int]:
        self.freeing.append(frees)
        self.entered.release()
        assert self.go.acquire(timeout=60)
        if self.error is not None:
            raise self.error
        if self.full and not frees:
            raise DiskFull("full")
        first = sum(map(len, self.batches))
        self.batches.append(list(records))
        return range(first, first + len(records))

    def apply(self, changes: RegionChanges, offsets: Sequence[int]) -> None:
        self.applied += zip(*changes, offsets, strict=True)

    def appender(self, tables: dict[int, Numbers] | None = None) -> RegionAppender:
        return RegionAppender(self.append, self.apply, tables={} if tables is None else tables, region=7, limit=LIMIT, name="t")


async def test_calls_are_numbered_at_once_and_appended_together() -> None:
    log = SlowLog()
    appender = log.appender({2: Numbers(5, 3)})
    first = appender.write(1, EMPTY, 1)
    await asyncio.to_thread(log.entered.acquire)
    rest = [appender.write(1, EMPTY, 3), appender.write(2, EMPTY, 1), appender.add(RecordKind.MARK, 1, 3, EMPTY)]
    assert (appender.tables[1].next, appender.tables[2].next) == (5, 6)
    log.go.release(2)
    assert first is not None
    assert [await one for one in (first, *rest) if one is not None] == [1, 4, 5, 3]
    assert [len(batch) for batch in log.batches] == [1, 3]
    assert log.applied == [(ENTRY, 1, 1, 1, 0), (ENTRY, 1, 2, 3, 1), (ENTRY, 2, 5, 1, 2), (RecordKind.MARK, 1, 3, 1, 3)]
    assert [decode_key(one.key) for batch in log.batches for one in batch] == [
        (kind, 7, table, at) for kind, table, at, _, _ in log.applied
    ]
    await appender.aclose()


async def test_what_is_too_large_is_not_numbered() -> None:
    log = SlowLog()
    appender = log.appender()
    with pytest.raises(TooLarge, match="max_record"):
        appender.write(1, bytes(LIMIT + 1), 1)
    with pytest.raises(TooLarge, match="max_record"):
        appender.add(ENTRY, 1, 1, bytes(LIMIT + 1))
    assert appender.tables == {}
    await appender.aclose()
    assert log.batches == []


@pytest.mark.parametrize(
    ("error", "behind"),
    [(OutcomeUnknown("lost"), Unavailable), (DiskFull("full"), DiskFull), (Fenced("fenced"), Fenced), (ValueError("bug"), Unavailable)],
    ids=["unknown", "full", "fenced", "bug"],
)
async def test_a_failed_append_fails_everything_behind_it(error: Exception, behind: type[Exception]) -> None:
    log = SlowLog()
    appender = log.appender()
    log.error = error
    under_way = appender.write(1, EMPTY, 1)
    await asyncio.to_thread(log.entered.acquire)
    queued = [appender.write(table, EMPTY, 1) for table in (1, 2)]
    log.go.release(5)  # nothing is to be tried again, though it could
    assert under_way is not None
    with pytest.raises(type(error)):
        await under_way
    log.error = None
    outcomes = await asyncio.gather(*(one for one in queued if one is not None), return_exceptions=True)
    assert [type(one) for one in outcomes] == [behind] * 2
    assert behind is not Unavailable or all("Write again" in one.hint for one in outcomes if isinstance(one, Unavailable))
    assert appender.failure is error
    assert appender.write(1, EMPTY, 1) is None, "the region is claimed anew first"
    with pytest.raises(behind):
        appender.add(ENTRY, 1, 3, EMPTY)
    assert (log.batches, log.applied) == ([], [])
    await appender.aclose()


async def test_a_state_that_refuses_a_record_is_a_failure() -> None:
    log = SlowLog()

    def refuse(changes: object, offsets: object) -> None:
        raise ValueError("it does not fit")

    appender = RegionAppender(log.append, refuse, tables={}, region=7, limit=LIMIT, name="t")
    log.go.release(5)
    written = appender.write(1, EMPTY, 1)
    assert written is not None
    with pytest.raises(ValueError, match="does not fit"):
        await written
    assert appender.write(1, EMPTY, 1) is None
    await appender.aclose()


async def test_a_caller_that_gives_up_disturbs_nobody() -> None:
    log = SlowLog()
    appender = log.appender()
    given_up, kept = appender.write(1, EMPTY, 1), appender.write(1, EMPTY, 1)
    assert given_up is not None
    assert kept is not None
    given_up.cancel()
    log.go.release(2)
    assert await kept == 2
    await appender.aclose()


async def test_a_batch_takes_half_of_the_largest_at_most() -> None:
    log = SlowLog()
    appender = log.appender()
    large = bytes(12 << 20)
    first = appender.write(1, EMPTY, 1)
    await asyncio.to_thread(log.entered.acquire)
    waiting = [appender.write(1, large, 1) for _ in range(5)]
    log.go.release(5)
    await asyncio.gather(*(one for one in (first, *waiting) if one is not None))
    assert [len(batch) for batch in log.batches] == [1, 2, 2, 1]
    await appender.aclose()


async def test_closing_waits_and_takes_no_more() -> None:
    log = SlowLog()
    appender = log.appender()
    waiting = [appender.write(table, EMPTY, 1) for table in (1, 2)]
    log.go.release(2)
    await appender.aclose()
    assert await asyncio.gather(*(one for one in waiting if one is not None)) == [1, 1]
    assert appender.write(1, EMPTY, 1) is None
    with pytest.raises(Closed):
        appender.add(ENTRY, 1, 2, EMPTY)


async def test_it_tells_which_batches_free_space() -> None:
    """Those of marks and drops alone: they may take what is kept for a full disk."""
    log = SlowLog()
    log.go.release(9)
    appender = log.appender({1: Numbers(5, 1)})
    for kind in (RecordKind.ENTRY, RecordKind.MOVE, RecordKind.MARK, RecordKind.DROP):
        await appender.add(kind, 1, 5, EMPTY)
    assert log.freeing == [False, False, True, True]
    await appender.aclose()


async def test_on_a_full_disk_marks_and_drops_are_appended_without_the_payloads_beside_them() -> None:
    log = SlowLog()
    appender = log.appender({table: Numbers(5, 1) for table in range(1, 7)})
    under_way = appender.add(RecordKind.MARK, 6, 2, EMPTY)
    await asyncio.to_thread(log.entered.acquire)
    queued = [
        appender.add(RecordKind.MARK, 1, 3, EMPTY),
        appender.add(ENTRY, 2, 5, EMPTY),
        appender.add(RecordKind.MARK, 2, 5, EMPTY),  # of payloads that are durable
        appender.add(RecordKind.MARK, 2, 6, EMPTY),  # of the one beside it
        appender.add(RecordKind.DROP, 3, 5, EMPTY),
        appender.add(ENTRY, 3, 1, EMPTY),  # of a new table
        appender.add(RecordKind.MARK, 3, 2, EMPTY),
        appender.add(ENTRY, 4, 5, EMPTY),
        appender.add(RecordKind.DROP, 4, 6, EMPTY),
    ]
    log.go.release()
    await under_way
    log.full = True
    log.go.release(5)
    outcomes = await asyncio.gather(*queued, return_exceptions=True)
    kept = [place for place, one in enumerate(outcomes) if not isinstance(one, Exception)]
    assert kept == [0, 2, 4]
    assert {type(one) for place, one in enumerate(outcomes) if place not in kept} == {DiskFull}
    assert [row[:3] for row in log.applied[1:]] == [(RecordKind.MARK, 1, 3), (RecordKind.MARK, 2, 5), (RecordKind.DROP, 3, 5)]
    assert isinstance(appender.failure, DiskFull)
    await appender.aclose()


async def test_a_record_for_several_calls_is_committed_when_it_is_started() -> None:
    log = SlowLog()
    appender = log.appender()
    ends: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    appender.start()  # nothing is queued
    appender.append_for(1, EMPTY, 1, ends[0])
    appender.append_for(1, EMPTY, 2, ends[1])
    assert (log.entered.acquire(timeout=0.01), appender.tables[1].next) == (False, 3)
    with pytest.raises(Unavailable, match="3 is next"):
        appender.append_for(1, EMPTY, 4, ends[0])
    with pytest.raises(TooLarge):
        appender.append_for(2, bytes(LIMIT + 1), 1, ends[0])
    appender.start()
    log.go.release()
    await asyncio.gather(*ends)
    assert (log.applied, list(appender.tables)) == ([(ENTRY, 1, 1, 1, 0), (ENTRY, 1, 2, 1, 1)], [1])
    await appender.aclose()
    with pytest.raises(Closed):
        appender.append_for(1, EMPTY, 3, ends[0])
