"""The contract of queues and processes: what survives a restart and a take-over, who owns a queue, and what queues of a region share."""

from __future__ import annotations

import asyncio

import pytest

from headwater.core.errors import AlreadyExists, Fenced, HeadwaterError, NotOwner, OutcomeUnknown, UnknownQueue
from headwater.queue.values import FailedClaim
from headwater.testing.queue_ground import QueueGround, claim_one, claimed_keys, keys, row


@pytest.mark.anyio
class QueueOwning:
    """Part of `QueueContract`."""

    async def test_everything_that_was_answered_outlives_a_restart(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        await queue.put([row(key, key.encode(), priority=10) for key in ("done", "held", "failed", "dead", "extended")])
        claims = {claim.row.key.decode(): claim for claim in (await queue.claim(5, worker="w")).claims}
        await queue.put([row("merged", b"1", delay=9000), row("held", b"next"), row("cancelled")])
        await queue.put([row("merged", b"2", priority=5)])
        await queue.done([claims["done"].token])
        await queue.fail([FailedClaim(claims["failed"].token, "no", 5000), FailedClaim(claims["dead"].token, "never", give_up=True)])
        ground.clock.advance(1)
        await queue.extend([claims["extended"].token])
        await queue.cancel(b"cancelled")
        rows, dead, count = await queue.rows(), await queue.dead_list(), await queue.count()
        queue = await ground.restarted()
        assert (await queue.rows(), await queue.dead_list(), await queue.count()) == (rows, dead, count)
        assert {stored_row.key for stored_row in rows} == {b"held", b"failed", b"extended", b"merged"}
        assert (await queue.get(b"merged")).process_date == now + 9000
        assert await queue.done([claims["held"].token, claims["extended"].token]) == []  # tokens hold, too
        assert (await claim_one(queue)).row.data == b"next"

    async def test_leases_and_dates_go_on_after_a_restart(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row("a"), row("later", delay=90_000)])
        claim = await claim_one(queue)
        await ground.close()
        ground.clock.advance(61)
        queue = await ground.process().queues.open("pages")
        assert await queue.done([claim.token]) == [claim.token]
        again = await claim_one(queue)
        assert (again.row.key, again.row.timeout_counter) == (b"a", 1)
        ground.clock.advance(29)
        assert await claimed_keys(queue) == ["later"]

    async def test_ids_and_tokens_are_never_given_again(self, ground: QueueGround) -> None:
        queue, seen = await ground.queue(), set[int]()
        for _ in range(3):
            (put,) = await queue.put([row()])
            claim = await claim_one(queue)
            assert put.id not in seen
            seen.add(put.id)
            await queue.done([claim.token])
            queue = await ground.restarted()
            assert await queue.done([claim.token]) == [claim.token]

    async def test_while_the_owner_lives_another_process_learns_who_it_is(self, ground: QueueGround) -> None:
        queue, other = await ground.queue(), ground.process()
        with pytest.raises(NotOwner):
            await other.queues.open("pages")
        assert [entry.name for entry in await other.queues.list()] == ["pages"]  # looking needs no owner
        assert (await queue.put([row()]))[0].outcome == "inserted"

    async def test_a_take_over_leaves_the_old_owner_with_nothing(self, ground: QueueGround) -> None:
        first = ground.process()
        await first.queues.create("pages", {"lease": "60s"})
        old = await first.queues.open("pages")
        await old.put([row("a"), row("b")])
        claim = await claim_one(old)
        new = await ground.process().queues.open("pages", take_over=True)
        with pytest.raises((Fenced, OutcomeUnknown)):
            await old.done([claim.token])
        assert await keys(new) == ["a", "b"]
        assert await new.done([claim.token]) == []  # the worker goes to the new owner with it
        with pytest.raises(NotOwner):
            await first.queues.open("pages")
        assert await claimed_keys(new) == ["b"]

    async def test_calls_beside_a_take_over_are_done_or_told(self, ground: QueueGround) -> None:
        first = ground.process()
        await first.queues.create("pages")
        old = await first.queues.open("pages")
        puts = [asyncio.ensure_future(old.put([row(f"{number}")])) for number in range(200)]
        new = await ground.process().queues.open("pages", take_over=True)
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert all(isinstance(outcome, list | HeadwaterError) for outcome in outcomes)
        stored_keys = set(await keys(new))
        for number, answer in enumerate(outcomes):
            if isinstance(answer, list):
                assert f"{number}" in stored_keys
            elif not isinstance(answer, OutcomeUnknown):
                assert f"{number}" not in stored_keys

    async def test_queues_of_one_region_keep_apart(self, ground: QueueGround) -> None:
        queues = ground.process().queues
        for name in ("pages", "mail"):
            await queues.create(name, {"region": 7, "lease": "60s"})
        pages, mail = await queues.open("pages"), await queues.open("mail")
        await asyncio.gather(*(queue.put([row(f"{number}")]) for number in range(20) for queue in (pages, mail)))
        assert len(await claimed_keys(pages)) == 20
        assert (await mail.count()).due == 20
        with pytest.raises(AlreadyExists, match="queue/7"):
            await queues.create("more", {"region": 7, "segment": "2MiB"})
        assert await queues.delete("pages") == 20
        assert (await mail.count()).due == 20
        await ground.close()
        queues = ground.process().queues
        assert len(await keys(await queues.open("mail"))) == 20
        with pytest.raises(UnknownQueue):
            await queues.open("pages")

    async def test_a_deleted_queue_is_another_one_when_it_is_created_again(self, ground: QueueGround) -> None:
        queues = ground.process().queues
        await queues.create("pages")
        queue = await queues.open("pages")
        await queue.put([row()])
        claim = await claim_one(queue)
        assert await queues.delete("pages") == 1
        await queues.create("pages")
        queue = await queues.open("pages")
        await queue.put([row()])
        await claim_one(queue)
        assert await queue.done([claim.token]) == [claim.token]
