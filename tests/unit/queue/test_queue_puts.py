from __future__ import annotations

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import BadInput, TooLarge
from headwater.queue.row import NewRow
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def test_rows_of_one_put_are_taken_together_or_not_at_all(opened: OpenQueue) -> None:
    queue = await opened()
    with pytest.raises(BadInput):
        await queue.put([NewRow(key=b"a"), NewRow(key=b"")])
    with pytest.raises(TooLarge, match="65537 rows"):
        await queue.put([NewRow(key=b"a")] * 65_537)
    assert sum(await queue.count()) == 0
    puts = await queue.put([NewRow(key=b"a"), NewRow(key=b"a"), NewRow(key=b"b")])
    assert [put.outcome for put in puts] == ["inserted", "merged", "inserted"]
    assert puts[0].id == puts[1].id


async def test_a_put_with_a_name_is_made_once(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    first = await queue.put([NewRow(key=b"a")], idempotency="x")
    queue = await opened()
    again = await queue.put([NewRow(key=b"a")], idempotency="x")
    assert [(put.id, put.outcome, put.replayed) for put in again] == [(first[0].id, "inserted", True)]
    with pytest.raises(BadInput, match="Other rows"):
        await queue.put([NewRow(key=b"b")], idempotency="x")
    clock.advance(86_400)
    assert [put.outcome for put in await queue.put([NewRow(key=b"a")], idempotency="x")] == ["merged"]
