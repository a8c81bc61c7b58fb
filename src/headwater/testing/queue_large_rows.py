"""The contract of rows whose data are larger than what a queue keeps in memory: they are read from the log, byte for byte."""

from __future__ import annotations

import asyncio
from hashlib import shake_128

import pytest

from headwater.queue.row import BINARY, NewRow
from headwater.queue.schedule import Schedule
from headwater.queue.values import FailedClaim
from headwater.testing.queue_ground import QueueGround, claim_one, row


@pytest.mark.anyio
class QueueLargeRows:
    """Part of `QueueContract`."""

    async def test_large_data_come_back_in_every_answer(self, ground: QueueGround) -> None:
        queue = await ground.queue(memory="0B")
        await asyncio.gather(*(queue.put([_large(number)]) for number in range(8)))
        await queue.put([_large(number) for number in range(8, 12)])
        assert [stored_row.data for stored_row in await queue.rows()] == [_data(number) for number in range(12)]
        claims = (await queue.claim(3)).claims
        assert [claim.row.data for claim in claims] == [_data(number) for number in range(3)]
        assert (await claim_one(queue)).row.data == _data(3)
        assert (await queue.cancel(b"11")).data == _data(11)
        waiting = asyncio.ensure_future(queue.claim(20, wait=60_000, group="others"))
        assert [claim.row.data for claim in (await waiting).claims] == [_data(number) for number in range(4, 11)]

    async def test_large_data_outlive_a_restart_a_retry_and_a_follow_up(self, ground: QueueGround) -> None:
        queue = await ground.queue(memory="0B")
        await queue.put([_large(1), _large(2), _large(3)])
        released, dead, _ = (await queue.claim(3)).claims
        await queue.put([_large(1, 7)])  # a follow-up of the row that is released
        await queue.release([released.token])
        await queue.fail([FailedClaim(dead.token, "never", give_up=True)])
        queue = await ground.restarted()
        assert (await queue.get(b"1")).data == _data(7)
        assert [dead_row.row.data for dead_row in await queue.dead_list()] == [_data(2)]
        await queue.dead_retry()
        queue = await ground.restarted()
        assert {stored_row.key: stored_row.data for stored_row in await queue.rows()} == {b"1": _data(7), b"2": _data(2), b"3": _data(3)}
        assert {claim.row.data for claim in (await queue.claim(5)).claims} == {_data(7), _data(2)}

    async def test_a_put_of_the_same_large_data_keeps_the_failures(self, ground: QueueGround) -> None:
        queue = await ground.queue(memory="0B")
        await queue.put([_large(1)])
        await queue.fail([FailedClaim((await claim_one(queue)).token, "no")])
        await queue.put([_large(1)])
        assert ((await queue.get(b"1")).failures, (await queue.get(b"1")).error) == (1, "no")
        await queue.put([_large(1, 2)])
        stored_row = await queue.get(b"1")
        assert (stored_row.failures, stored_row.error, stored_row.data) == (0, "", _data(2))

    async def test_large_rows_that_come_again_have_their_data_in_each_run(self, ground: QueueGround) -> None:
        queue = await ground.queue(memory="0B")
        await queue.put([row("1", _data(1), form=BINARY, schedule=Schedule(every=1000))])
        for how in ("done", "given up", "done"):
            ground.clock.advance(2)
            claim = await claim_one(queue)
            assert claim.row.data == _data(1)
            if how == "done":
                await queue.done([claim.token])
            else:
                await queue.fail([FailedClaim(claim.token, give_up=True)])
                await queue.dead_drop()
                queue = await ground.restarted()


def _data(number: int) -> bytes:
    return shake_128(b"%d" % number).digest(40_000 + number)


def _large(key: int, data: int | None = None) -> NewRow:
    return row(f"{key}", _data(key if data is None else data), form=BINARY)
