"""Long lists are made some rows at a time, and others have their turn between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.queue import listing
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.scan import AT_ONCE
from headwater.queue.values import FailedClaim

pytestmark = pytest.mark.anyio
ROWS = 3 * AT_ONCE


class Turns:
    """Counts how often another task of the loop has its turn."""

    def __init__(self) -> None:
        self.count = 0

    async def take(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    @contextmanager
    def taken(self) -> Iterator[None]:
        self.count = 0
        task = asyncio.create_task(self.take())
        try:
            yield
        finally:
            task.cancel()


@pytest.fixture
async def queue(opened: OpenQueue) -> Queue:
    queue = await opened(max_attempts=1)
    await queue.put([NewRow(key=b"%06d" % place) for place in range(ROWS)])
    return queue


async def test_others_have_their_turn_while_a_filter_looks_for_rows(queue: Queue) -> None:
    turns = Turns()
    with turns.taken():
        assert await queue.rows(prefix=b"none") == []
    assert turns.count >= 3
    with turns.taken():
        assert [row.key for row in await queue.rows(prefix=b"%06d" % (ROWS - 1))] == [b"%06d" % (ROWS - 1)]
    assert turns.count >= 2
    assert [len(await queue.rows(limit=limit, state="due")) for limit in (1, AT_ONCE + 1, 2 * ROWS)] == [1, AT_ONCE + 1, ROWS]


async def test_a_row_that_stays_is_listed_once_whatever_happens_to_others(queue: Queue) -> None:
    async def change() -> None:
        for place in range(0, ROWS, 2):
            await queue.cancel(b"%06d" % place)
            await queue.put([NewRow(key=b"%06d" % place), NewRow(key=b"new %d" % place)])

    changing = asyncio.create_task(change())
    found = [row.key for row in await queue.rows(limit=4 * ROWS)]
    changing.cancel()
    odd = [key for key in found if key in {b"%06d" % place for place in range(1, ROWS, 2)}]
    assert odd == [b"%06d" % place for place in range(1, ROWS, 2)]
    assert len({row.id for row in await queue.rows(limit=4 * ROWS)}) == len(await queue.rows(limit=4 * ROWS))


async def test_dead_rows_are_listed_retried_and_dropped_some_at_a_time(queue: Queue) -> None:
    while claims := (await queue.claim(1000)).claims:
        await queue.fail([FailedClaim(one.token, "why") for one in claims])
    turns = Turns()
    with turns.taken():
        assert await queue.dead_list(prefix=b"none") == []
    assert turns.count >= 3
    assert len(await queue.dead_list(limit=2 * ROWS)) == ROWS
    with turns.taken():
        assert len(await queue.dead_retry(prefix=b"00000")) == 10
        assert await queue.dead_drop(reason="timeouts") == 0
    assert turns.count >= 6
    assert (await queue.dead_drop(), (await queue.count()).dead) == (ROWS - 10, 0)


async def test_what_the_log_says_of_a_key_is_read_beside_the_loop(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, decode = set[threading.Thread](), listing.decode_record

    def decode_record(payload: bytes) -> tuple[int, list[listing.Change]]:
        threads.add(threading.current_thread())
        return decode(payload)

    monkeypatch.setattr(listing, "decode_record", decode_record)
    assert [one.change for one in await queue.history(b"000007")] == ["insert"]
    assert threads
    assert threading.current_thread() not in threads
