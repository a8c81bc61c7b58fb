"""A queue by its log alone."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from tests.unit.queue.conftest import TABLE, OpenQueue

from headwater.core.errors import Damaged
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue import stored_queue
from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.listing import rows_of
from headwater.queue.row import NewRow
from headwater.queue.spark_tables import fill
from headwater.queue.stored_queue import stored_fold
from headwater.testing.clock import ManualClock
from headwater.wal import view
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio


def entry() -> QueueEntry:
    return QueueEntry(name="pages", region=1, table=TABLE)


async def test_rows_dead_rows_and_pauses_are_seen_without_owning_the_queue(opened: OpenQueue, tmp_path: Path, clock: ManualClock) -> None:
    queue = await opened(max_timeouts=0)
    await queue.put([NewRow(key=b"a"), NewRow(key=b"b")])
    await queue.claim(lease=1)
    clock.advance(1)
    await queue.count()
    await queue.pause()
    with EmbeddedLog(tmp_path, read_only=True) as log:
        fold, _ = stored_fold(log, entry(), now=clock.now_ms())
    assert (len(fold.deaths), fold.order.due, bool(fold.paused)) == (1, 1, True)


@pytest.mark.parametrize("payloads", [False, True])
async def test_a_long_log_is_read_in_parts_and_only_data_that_rows_need_are_kept(
    opened: OpenQueue, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, payloads: bool
) -> None:
    monkeypatch.setattr(view, "_AT_ONCE", 10)
    monkeypatch.setattr(stored_queue, "_SPARE", 500_000)
    queue = await opened()
    [kept] = await queue.put([NewRow(key=b"first", data=b"x" * 50_000, form=1, delay=1_000_000)])
    for number in range(200):
        await queue.put([NewRow(key=b"%d" % number, data=b"%d" % (number % 10) * 50_000, form=1)])
        await queue.done([(await queue.claim()).claims[0].token])
    with EmbeddedLog(tmp_path, read_only=True) as log:
        stored_fold(log, entry(), now=clock.now_ms(), payloads=payloads)  # what is loaded once does not count
        tracemalloc.start()
        try:
            fold, found = stored_fold(log, entry(), now=clock.now_ms(), payloads=payloads)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (len(fold), fold.sequence) == (1, queue._runtime.decisions.fold.sequence)
    assert peak < 4_000_000
    if payloads:
        [row] = rows_of(fold, None, b"", 0, 10, now=clock.now_ms())
        fill([row], found)
        assert (row.id, row.data) == (kept.id, b"x" * 50_000)
    else:
        assert found == {}


async def test_a_record_that_cannot_be_read_is_named(region: Region, tmp_path: Path) -> None:
    await region.write(TABLE, [b"no record"])
    with EmbeddedLog(tmp_path, read_only=True) as log, pytest.raises(Damaged, match="cannot be read as one of a queue") as damaged:
        stored_fold(log, entry(), now=0)
    assert "headwater log show" in (damaged.value.hint or "")
