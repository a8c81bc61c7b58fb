"""Everything that a work queue promises, as tests over any engine of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from headwater.cluster import Ownership
from headwater.core.errors import BadInput, Closed, Conflict, NotFound, Paused, UnknownQueue
from headwater.log import Log
from headwater.queue.row import BINARY
from headwater.queue.values import FailedClaim
from headwater.testing.log_ground import fresh
from headwater.testing.queue_after import QueueAfter
from headwater.testing.queue_ground import QueueGround, claim_one, claimed_keys, keys, row
from headwater.testing.queue_large_rows import QueueLargeRows
from headwater.testing.queue_owning import QueueOwning
from headwater.testing.queue_results import QueueResults


@pytest.mark.anyio
class QueueContract(QueueOwning, QueueLargeRows, QueueResults, QueueAfter):
    """Subclass it, and give the fixtures `log` and `join` (a function that makes one more Ownership over the log)."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def log(self) -> Log:
        raise NotImplementedError("Give a fixture `log`.")

    @pytest.fixture
    def join(self, log: Log) -> Callable[[], Ownership]:
        raise NotImplementedError("Give a fixture `join` that makes one more Ownership.")

    @pytest.fixture
    async def ground(self, log: Log, join: Callable[[], Ownership]) -> AsyncIterator[QueueGround]:
        made = QueueGround(log, join, fresh("queue").replace("_", "-"))
        yield made
        await made.close()

    # -- putting and merging --------------------------------------------------------------------------------------

    async def test_a_row_has_every_column(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        (put,) = await queue.put([row("a", b'{"x":1}', priority=10, delay=5000, expiration_date=now + 9000)])
        assert (put.outcome, put.process_date, put.raised) == ("inserted", now + 5000, False)
        stored_row = await queue.get(b"a")
        assert (stored_row.id, stored_row.key, stored_row.data, stored_row.priority, stored_row.status) == (
            put.id,
            b"a",
            b'{"x":1}',
            10,
            "W",
        )
        assert (stored_row.insertion_date, stored_row.process_date, stored_row.expiration_date) == (now, now + 5000, now + 9000)
        assert (stored_row.start_processing_date, stored_row.timeout_counter) == (0, 0)
        assert await queue.get(put.id) == stored_row

    async def test_a_put_on_a_waiting_key_merges_field_by_field(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        (first,) = await queue.put([row(data=b"1", priority=50, delay=5000, expiration_date=now + 9000)])
        ground.clock.advance(1)
        (second,) = await queue.put([row(data=b"2", priority=100, delay=1000, expiration_date=now + 20_000)])
        assert (second.id, second.outcome, second.process_date) == (first.id, "merged", now + 5000)
        stored_row = await queue.get(b"k")
        assert (stored_row.data, stored_row.priority, stored_row.insertion_date) == (b"2", 50, now)
        assert (stored_row.process_date, stored_row.expiration_date) == (now + 5000, now + 20_000)
        await queue.put([row(data=b"\x00", form=BINARY, priority=10, delay=60_000, expiration_date=0)])
        stored_row = await queue.get(b"k")
        assert (stored_row.data, stored_row.form, stored_row.priority, stored_row.expiration_date) == (b"\x00", BINARY, 10, 0)  # never wins
        assert stored_row.process_date == now + 61_000

    async def test_an_older_write_is_answered_and_ignored(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        await queue.put([row(data=b"new", insertion_date=now)])
        (put,) = await queue.put([row(data=b"old", insertion_date=now - 1)])
        assert put.outcome == "stale"
        assert (await queue.get(b"k")).data == b"new"

    async def test_dates_that_cannot_be_are_raised_or_refused(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        (put,) = await queue.put([row("a", process_date=now - 5, insertion_date=now)])
        assert (put.process_date, put.raised) == (now, True)
        await queue.put([row("b", insertion_date=now + 300_000)])
        for bad in (row("c", insertion_date=now + 300_001), row(""), row("c", priority=256), row("c", priority=-1), row("c", delay=-1)):
            with pytest.raises(BadInput):
                await queue.put([row("fine"), bad])
        assert await keys(queue) == ["a", "b"]  # all rows of a put, or none

    async def test_a_put_that_is_sent_twice_is_done_once(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        first = await queue.put([row("a"), row("b")], idempotency="one")
        await queue.done([(await claim_one(queue)).token])
        again = await queue.put([row("a"), row("b")], idempotency="one")
        assert [put.id for put in again] == [put.id for put in first]
        assert await keys(queue) == ["b"]

    async def test_a_row_is_not_delayed_for_ever(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(max_delay="30s"), ground.now
        for _ in range(5):
            await queue.put([row(data=str(ground.now).encode(), delay=20_000)])
            ground.clock.advance(10)
        assert (await queue.get(b"k")).process_date == now + 30_000

    # -- claiming -------------------------------------------------------------------------------------------------

    async def test_rows_come_by_priority_date_and_insertion(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        await queue.put([row("late", priority=10, process_date=now + 1000), row("c", priority=20, process_date=now + 500)])
        await queue.put(
            [row("b", priority=20), row("d", priority=20, process_date=now + 500), row("a", priority=10), row("now", priority=0)]
        )
        assert await claimed_keys(queue, 1) == ["now"]
        ground.clock.advance(0.5)
        assert await claimed_keys(queue) == ["a", "b", "c", "d"]
        assert await claimed_keys(queue) == []
        ground.clock.advance(0.5)
        assert await claimed_keys(queue) == ["late"]

    async def test_slow_rows_wait_for_the_fast_ones_of_their_group(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row("slow", priority=200), row("fast", priority=199), row("later", priority=0, delay=5000)])
        fast = await claim_one(queue)
        assert fast.row.key == b"fast"
        assert await claimed_keys(queue) == []  # while a fast one is processed
        await queue.done([fast.token])
        assert await claimed_keys(queue) == ["slow"]

    async def test_no_row_is_claimed_twice_at_once(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row(f"{number}") for number in range(100)])
        claims = await asyncio.gather(*(queue.claim(7) for _ in range(20)))
        row_keys = [claim.row.key for claimed in claims for claim in claimed.claims]
        assert len(row_keys) == len(set(row_keys)) == 100

    async def test_a_waiting_claim_gets_a_row_when_it_is_put_and_when_it_is_due(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        first = asyncio.ensure_future(queue.claim(wait=60_000))
        await asyncio.sleep(0)
        await queue.put([row("a"), row("b", delay=2000)])
        assert [claim.row.key for claim in (await first).claims] == [b"a"]
        second = asyncio.ensure_future(queue.claim(wait=60_000))
        await ground.clock.run(1.999)
        assert not second.done()
        await ground.clock.run(0.001)
        assert [claim.row.key for claim in (await second).claims] == [b"b"]
        third = asyncio.ensure_future(queue.claim(wait=1000))
        await ground.clock.run(1.0)
        assert (await third).claims == []

    async def test_what_became_of_rows_travels_with_the_next_claim(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row(key) for key in "abcde"])
        a, b, c, d = (await queue.claim(4)).claims
        ground.clock.advance(30)
        claimed = await queue.claim(
            9, done=[a.token, "stale"], fail=[FailedClaim(b.token, "no", 5000)], extend=[c.token], release=[d.token], lease=50_000
        )
        assert claimed.stale == ["stale"]  # which spoils nothing
        assert [claim.row.key for claim in claimed.claims] == [b"d", b"e"]
        assert (await queue.get(b"b")).process_date == ground.now + 5000
        assert (await queue.get(b"c")).lease_until == ground.now + 50_000
        assert await keys(queue) == ["b", "c", "d", "e"]

    # -- leases ---------------------------------------------------------------------------------------------------

    async def test_a_lease_lasts_to_its_end_and_then_the_token_is_stale(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row("a"), row("b")])
        a, b = (await queue.claim(2)).claims
        assert a.lease_until == ground.now + 60_000
        ground.clock.advance(60)
        assert await queue.done([a.token]) == []  # at exactly the limit it is still owned
        ground.clock.advance(0.001)
        for call in (queue.done([b.token]), queue.extend([b.token]), queue.release([b.token]), queue.fail([FailedClaim(b.token)])):
            assert await call == [b.token]
        again = await claim_one(queue)
        assert (again.row.key, again.row.timeout_counter, again.row.attempts) == (b"b", 1, 2)
        assert await queue.done([b.token]) == [b.token]
        assert await queue.done([again.token]) == []
        assert await queue.done([again.token]) == [again.token]

    async def test_an_extended_lease_begins_anew(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row()])
        claim = await claim_one(queue)
        for _ in range(5):
            ground.clock.advance(50)
            assert await queue.extend([claim.token]) == []
        assert (await queue.get(b"k")).timeout_counter == 0
        assert await queue.done([claim.token]) == []

    async def test_a_row_that_loses_its_lease_too_often_dies_once(self, ground: QueueGround) -> None:
        queue = await ground.queue(max_timeouts=2)
        (put,) = await queue.put([row()])
        for lost in range(3):
            assert (await claim_one(queue, worker=f"w{lost}")).row.timeout_counter == lost
            ground.clock.advance(61)
        assert (await queue.claim()).claims == []
        (dead,) = await queue.dead_list()
        assert (dead.row.id, dead.row.key, dead.reason, dead.worker) == (put.id, b"k", "timeouts", "w2")
        assert (await queue.count()).dead == 1
        (again,) = await queue.dead_retry([put.id])
        assert again.outcome == "inserted"
        assert await queue.dead_list() == []
        assert (await claim_one(queue)).row.timeout_counter == 0

    async def test_new_data_give_a_row_new_tries_and_the_same_data_do_not(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row(data=b"1")])
        await claim_one(queue)
        ground.clock.advance(61)
        await queue.put([row(data=b"1")])  # first it loses its lease, then the put is merged
        assert (await queue.get(b"k")).timeout_counter == 1
        await queue.put([row(data=b"2")])
        stored_row = await queue.get(b"k")
        assert (stored_row.timeout_counter, stored_row.attempts) == (0, 1)

    # -- failures -------------------------------------------------------------------------------------------------

    async def test_a_failed_row_comes_again_and_dies_after_its_attempts(self, ground: QueueGround) -> None:
        queue = await ground.queue(max_attempts=3)
        await queue.put([row()])
        for failed in range(3):
            claim = await claim_one(queue)
            assert (claim.row.failures, claim.row.error) == (failed, "" if not failed else f"error {failed}")
            await queue.fail([FailedClaim(claim.token, f"error {failed + 1}", 1000)])
            assert (await queue.claim()).claims == []
            ground.clock.advance(1)
        (dead,) = await queue.dead_list()
        assert (dead.reason, dead.error) == ("attempts", "error 3")
        assert await queue.dead_drop([dead.row.id]) == 1
        with pytest.raises(NotFound):
            await queue.dead_get(dead.row.id)

    async def test_a_row_is_given_up_released_or_cancelled(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row("a"), row("b"), row("c")])
        a, b = (await queue.claim(2)).claims
        await queue.fail([FailedClaim(a.token, "never", give_up=True)])
        assert [dead.reason for dead in await queue.dead_list()] == ["given-up"]
        with pytest.raises(Conflict):
            await queue.cancel(b"b")
        await queue.release([b.token])
        assert (await queue.get(b"b")).timeout_counter == 0
        assert (await queue.cancel(b"b")).key == b"b"
        with pytest.raises(NotFound):
            await queue.cancel(b"b")
        assert await keys(queue) == ["c"]

    # -- follow-ups -----------------------------------------------------------------------------------------------

    async def test_a_put_while_its_key_is_processed_follows(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row(data=b"1")])
        claim = await claim_one(queue)
        (second,), (third,) = await queue.put([row(data=b"2")]), await queue.put([row(data=b"3")])
        assert (second.outcome, third.id) == ("follow-up", second.id)
        assert (await queue.claim()).claims == []  # never two of a key at once
        assert claim.row.data == b"1"
        await queue.done([claim.token])
        following = await claim_one(queue)
        assert (following.row.data, following.row.id) == (b"3", second.id)

    @pytest.mark.parametrize("how", ["lost", "failed", "released"])
    async def test_a_row_that_comes_back_takes_its_follow_up(self, ground: QueueGround, how: str) -> None:
        queue = await ground.queue()
        (first,) = await queue.put([row(data=b"1", priority=50)])
        claim = await claim_one(queue)
        await queue.put([row(data=b"2", priority=10)])
        if how == "failed":
            await queue.fail([FailedClaim(claim.token)])
        elif how == "released":
            await queue.release([claim.token])
        else:
            ground.clock.advance(61)
        (again,) = (await queue.claim(9)).claims
        assert (again.row.id, again.row.data, again.row.priority) == (first.id, b"2", 10)

    # -- expiry ---------------------------------------------------------------------------------------------------

    async def test_an_expired_row_is_gone_and_counted(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        first, _ = await queue.put([row("a", expiration_date=now + 1000), row("b")])
        ground.clock.advance(1)
        with pytest.raises(NotFound):
            await queue.get(b"a")
        assert await keys(queue) == ["b"]
        assert await claimed_keys(queue) == ["b"]
        (again,) = await queue.put([row("a")])
        assert (again.outcome, again.id != first.id) == ("inserted", True)
        assert queue.statistics().expired == 1

    async def test_a_row_that_expires_while_it_is_processed_belongs_to_its_worker(self, ground: QueueGround) -> None:
        queue, now = await ground.queue(), ground.now
        await queue.put([row("a", expiration_date=now + 1000), row("b", expiration_date=now + 1000)])
        a, _ = (await queue.claim(2)).claims
        ground.clock.advance(30)
        assert await queue.done([a.token]) == []
        ground.clock.advance(31)
        assert (await queue.claim()).claims == []  # it is not tried again
        assert await keys(queue) == []

    # -- pausing and listening --------------------------------------------------------------------------------------

    async def test_a_paused_queue_gives_out_nothing_and_takes_everything(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        await queue.put([row("a")])
        claim = await claim_one(queue)
        await queue.pause()
        await queue.put([row("b")])
        with pytest.raises(Paused):
            await queue.claim(done=[claim.token])
        assert await keys(queue) == ["b"]
        queue = await ground.restarted()
        assert queue.paused
        waiting = asyncio.ensure_future(queue.claim(wait=60_000))
        await asyncio.sleep(0)
        await queue.resume()
        assert [claimed_row.row.key for claimed_row in (await waiting).claims] == [b"b"]

    async def test_listeners_are_told_of_dues_and_deaths(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        heard = queue.listen()
        events = (event async for event in heard if event.kind != "counts")
        await queue.put([row("a"), row("later", delay=2000)])
        assert (await anext(events)).kind == "due"
        claim = await claim_one(queue)
        await queue.fail([FailedClaim(claim.token, give_up=True)])
        dead = await anext(events)
        assert (dead.kind, dead.key, dead.reason) == ("dead", b"a", "given-up")
        await ground.clock.run(2)
        assert (await anext(events)).kind == "due"

    async def test_an_unknown_queue_is_told(self, ground: QueueGround) -> None:
        with pytest.raises(UnknownQueue):
            await ground.process().queues.open("pages")
        queue = await ground.queue()
        await ground.close()
        with pytest.raises(Closed):
            await queue.put([row()])
