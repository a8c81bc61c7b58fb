"""A queue by its log alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.queue.conftest import TABLE, OpenQueue

from headwater.core.errors import Damaged
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.row import NewRow
from headwater.queue.stored_queue import stored_fold
from headwater.testing.clock import ManualClock
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


async def test_a_record_that_cannot_be_read_is_named(region: Region, tmp_path: Path) -> None:
    await region.write(TABLE, [b"no record"])
    with EmbeddedLog(tmp_path, read_only=True) as log, pytest.raises(Damaged, match="cannot be read as one of a queue") as damaged:
        stored_fold(log, entry(), now=0)
    assert "headwater log show" in (damaged.value.hint or "")
