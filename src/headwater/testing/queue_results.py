"""The contract of queues and done rows: their results, who waits for these, and keys that are ignored for a while."""

from __future__ import annotations

import asyncio

import pytest

from headwater.core.errors import Closed, Conflict, NotFound, TooLarge, UnknownQueue
from headwater.queue.queue import Queue
from headwater.queue.values import FailedClaim, RowResult
from headwater.testing.queue_ground import QueueGround, claim_one, row

HOUR = 3_600


async def finished(queue: Queue, key: str = "k", result: bytes = b"7") -> int:
    """A row that is done with a result; its id."""
    (put,) = await queue.put([row(key)])
    token = (await claim_one(queue)).token
    assert await queue.done([token], {token: RowResult(result)}) == []
    return put.id


async def begun(queue: Queue, id: int) -> asyncio.Future[RowResult | None]:
    """Somebody who waits for a result."""
    waiting = asyncio.ensure_future(queue.result(id, wait=60_000))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


@pytest.mark.anyio
class QueueResults:
    """Part of `QueueContract`."""

    async def test_a_result_outlives_its_row_and_a_restart_until_its_date(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        id, now = await finished(queue), ground.now
        result = await queue.result(id)
        assert result == RowResult(b"7", 0, now + 3_600_000)
        queue = await ground.restarted()
        assert await queue.result(id) == result
        ground.clock.advance(HOUR - 1)
        assert await queue.result(id) == result
        ground.clock.advance(1)
        with pytest.raises(NotFound, match="forgotten"):  # at its date, though no record has come since
            await queue.result(id)

    async def test_results_come_with_the_next_claim_in_any_size(self, ground: QueueGround) -> None:
        queue = await ground.queue(max_record="1MiB")
        await queue.put([row(f"{number}") for number in range(6)])
        claims = (await queue.claim(5)).claims
        sizes = [0, 1, 400_000, 900_000, 500_000]
        results = {claim.token: RowResult(b"x" * size, 1) for claim, size in zip(claims, sizes, strict=True)}
        claimed = await queue.claim(1, done=["stale", *results], results=results)
        assert (claimed.claims[0].row.key, claimed.stale) == (b"5", ["stale"])
        for claim, size in zip(claims, sizes, strict=True):
            result = await queue.result(claim.row.id)
            assert result is not None
            assert (len(result.data), result.form) == (size, 1)
        token = claimed.claims[0].token
        with pytest.raises(TooLarge, match="result"):
            await queue.done([token], {token: RowResult(bytes(1 << 20))})
        assert await queue.done([token]) == []  # nothing had changed

    async def test_who_waits_is_told_when_the_result_is_durable(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        puts = await queue.put([row("a"), row("b")])
        assert await queue.result(puts[0].id) is None
        a, b = await begun(queue, puts[0].id), await begun(queue, puts[1].id)
        tokens = [claim.token for claim in (await queue.claim(2)).claims]
        await queue.done(tokens[:1], {tokens[0]: RowResult(b"1")})
        result = await a
        assert result is not None
        assert result.data == b"1"
        assert not b.done()
        await queue.claim(0, done=tokens[1:])
        with pytest.raises(NotFound, match="left no result"):
            await b

    async def test_a_wait_ends_at_its_time(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (put,) = await queue.put([row()])
        waiting = await begun(queue, put.id)
        await ground.clock.run(60)
        assert await waiting is None
        assert (await queue.count()).due == 1

    async def test_a_row_that_dies_or_goes_is_told_at_once(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        puts = await queue.put([row("dead", priority=1), row("gone", priority=2), row("over", delay=9000, expiration_date=now + 1000)])
        dead, gone, over = [await begun(queue, put.id) for put in puts]
        claim = await claim_one(queue)
        await queue.fail([FailedClaim(claim.token, "no such page", give_up=True)])
        with pytest.raises(Conflict, match=r"dead \(given-up\): no such page"):
            await dead
        with pytest.raises(Conflict, match="dead"):
            await queue.result(puts[0].id, wait=1000)
        await queue.cancel(b"gone")
        with pytest.raises(NotFound, match="cancelled"):
            await gone
        await ground.clock.run(1)
        with pytest.raises(NotFound, match="expired"):
            await over
        for id in (0, -5, 2**70, puts[0].id + 1_000_000):
            with pytest.raises(NotFound, match="never"):
                await queue.result(id)

    async def test_a_follow_up_that_its_row_takes_up_has_its_result(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (first,) = await queue.put([row(data=b"1")])
        claim = await claim_one(queue)
        (second,) = await queue.put([row(data=b"2")])
        waiting = await begun(queue, second.id)
        await queue.fail([FailedClaim(claim.token)])
        late = await begun(queue, second.id)
        token = (await claim_one(queue)).token
        await queue.done([token], {token: RowResult(b"7")})
        for result in (await waiting, await late, await queue.result(first.id), await queue.result(second.id)):
            assert result is not None
            assert result.data == b"7"

    async def test_who_waits_learns_that_the_queue_is_closed_or_deleted(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (put,) = await queue.put([row()])
        waiting = await begun(queue, put.id)
        await ground.close()
        with pytest.raises(Closed):
            await waiting
        queues = ground.process().queues
        waiting = await begun(await queues.open("pages"), put.id)
        await queues.delete("pages")
        with pytest.raises(UnknownQueue):
            await waiting

    async def test_a_key_that_was_done_is_ignored_for_a_while(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (first,) = await queue.put([row(unique_for=60_000)])
        await queue.done([(await claim_one(queue)).token])
        (again,) = await queue.put([row(unique_for=60_000)])
        assert (again.outcome, again.id) == ("ignored", first.id)
        queue = await ground.restarted()
        ground.clock.advance(59)
        ignored, inserted = await queue.put([row(unique_for=60_000), row("other", unique_for=60_000)])
        assert (ignored.outcome, inserted.outcome) == ("ignored", "inserted")
        ground.clock.advance(1)
        assert (await queue.put([row(unique_for=60_000)]))[0].outcome == "inserted"

    async def test_the_setting_counts_for_every_put(self, ground: QueueGround) -> None:
        queue = await ground.queue(unique_for="60s")
        id = await finished(queue)
        (again,) = await queue.put([row()])
        assert (again.outcome, again.id) == ("ignored", id)
        assert (await queue.put([row(unique_for=0)]))[0].outcome == "inserted"
        assert (queue.statistics().ignored, queue.statistics().done_keys, queue.statistics().results) == (1, 1, 1)
