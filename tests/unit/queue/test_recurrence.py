"""Rows with a schedule in an open queue, by a clock that the test moves. The model has the rest, in `test_fold`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import NotFound
from headwater.queue.checks import MAX_DATE
from headwater.queue.columns import Extras
from headwater.queue.queue import Queue
from headwater.queue.recurrence import following_run
from headwater.queue.row import NewRow, Row
from headwater.queue.schedule import Schedule, read_schedule
from headwater.queue.values import FailedClaim, Put
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
HOUR = 3_600_000
HOURLY = Schedule(every=HOUR)


async def put(queue: Queue, schedule: Schedule | None = None, data: bytes = b"1", **given: Any) -> Put:
    [made] = await queue.put([NewRow(key=b"a", data=data, schedule=schedule, **given)])
    return made


async def run(queue: Queue) -> Row:
    """Claim the row that is due, and do it."""
    [claimed] = (await queue.claim()).claims
    assert await queue.done([claimed.token]) == []
    return claimed.row


async def runs(queue: Queue) -> list[tuple[bytes, str, int]]:
    return [(one.key, str(one.schedule), one.next_run) for one in await queue.schedules()]


async def test_a_row_comes_again_when_it_is_done_and_missed_runs_come_once(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    first = await put(queue, HOURLY)
    assert (first.process_date, (await run(queue)).id) == (now, first.id)
    assert await runs(queue) == [(b"a", "every 1h", now + HOUR)]
    assert (await queue.claim()).claims == []
    clock.advance(3.5 * 3600)
    done = await run(queue)
    assert (done.id, done.process_date, done.attempts, done.schedule) == (first.id, now + HOUR, 1, "every 1h")
    assert await runs(queue) == [(b"a", "every 1h", now + 4 * HOUR)], "three runs were missed, and came once"


async def test_a_waiting_claim_gets_the_next_run_at_its_date_and_done_with_claim_ends_a_run(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await put(queue, HOURLY)
    [claimed] = (await queue.claim()).claims
    answer = await queue.claim(1, done=[claimed.token])
    assert (answer.claims, answer.stale) == ([], [])
    clock.advance(3600)
    [again] = (await queue.claim(1)).claims
    assert again.row.id == claimed.row.id
    assert await queue.done([claimed.token]) == [claimed.token], "the token of the run before does not count"


async def test_cron_comes_by_the_clocks_of_its_zone(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    schedule = read_schedule(cron="0 6 * * *", zone="Europe/Berlin")
    assert schedule is not None
    made = await put(queue, schedule)
    assert made.process_date == schedule.next(clock.now_ms())
    clock.advance((made.process_date - clock.now_ms()) / 1000)
    await run(queue)
    assert await runs(queue) == [(b"a", "0 6 * * * (Europe/Berlin)", schedule.next(made.process_date))]


async def test_a_restart_and_a_carry_keep_the_schedule(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await put(queue, HOURLY)
    await run(queue)
    before = await runs(queue)
    queue = await opened()
    assert await runs(queue) == before != []
    [row] = await queue.rows()
    assert row.schedule == "every 1h"
    clock.advance(3600)
    await run(queue)
    assert await runs(await opened()) == [(b"a", "every 1h", before[0][2] + HOUR)]


async def test_a_row_that_is_given_up_is_dead_and_its_schedule_goes_on(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    first = await put(queue, HOURLY)
    [claimed] = (await queue.claim()).claims
    await queue.fail([FailedClaim(claimed.token, "why", give_up=True)])
    [dead] = await queue.dead_list()
    assert (dead.row.id, dead.error, dead.row.schedule) == (first.id, "why", "")
    assert await runs(queue) == [(b"a", "every 1h", now + HOUR)]
    [again] = await queue.dead_retry([first.id])
    assert (again.outcome, again.process_date) == ("merged", now + HOUR), "it may merge, and then runs with the next run"
    assert await runs(await opened()) == [(b"a", "every 1h", now + HOUR)]


async def test_a_retry_moves_one_run_alone(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    await put(queue, HOURLY)
    [claimed] = (await queue.claim()).claims
    await queue.fail([FailedClaim(claimed.token, "why", retry_after=600_000)])
    clock.advance(600)
    assert (await run(queue)).error == "why"
    assert await runs(queue) == [(b"a", "every 1h", now + HOUR)]
    assert (await queue.get(b"a")).error == ""


async def test_a_put_keeps_changes_or_ends_the_schedule(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    await put(queue, HOURLY)
    await run(queue)
    assert (await put(queue, data=b"2")).process_date == now + HOUR
    clock.advance(5400)
    assert (await put(queue, HOURLY)).process_date == now + HOUR, "the same schedule does not move a run that is overdue"
    assert (await put(queue, Schedule(every=2 * HOUR), data=b"3")).process_date == clock.now_ms(), "another one begins anew"
    await run(queue)
    assert await runs(queue) == [(b"a", "every 2h", clock.now_ms() + 2 * HOUR)]
    await put(queue, Schedule())
    assert await runs(queue) == []
    clock.advance(7200)
    await run(queue)
    with pytest.raises(NotFound):
        await queue.get(b"a")


async def test_what_is_put_meanwhile_has_the_schedule_then(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    await put(queue, HOURLY)
    [claimed] = (await queue.claim()).claims
    assert await runs(queue) == [(b"a", "every 1h", now + HOUR)]
    follow_up = await put(queue, data=b"2")
    assert follow_up.outcome == "follow-up"
    await queue.done([claimed.token])
    done = await run(queue)
    assert (done.id, done.data, done.schedule) == (follow_up.id, b"2", "every 1h")
    [claimed] = (await queue.claim(wait=0)).claims or [None]
    assert claimed is None
    assert await runs(queue) == [(b"a", "every 1h", now + HOUR)]


async def test_the_same_schedule_put_while_the_row_runs_makes_no_second_run(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    await put(queue, HOURLY)
    [claimed] = (await queue.claim()).claims
    assert (await put(queue, HOURLY)).process_date == now + HOUR
    await queue.done([claimed.token])
    assert (await queue.claim()).claims == []


async def test_cancel_and_expiry_end_the_schedule(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await put(queue, HOURLY)
    await queue.cancel(b"a")
    assert await queue.schedules() == []
    await put(queue, HOURLY, expiration_date=clock.now_ms() + HOUR)
    await run(queue)
    assert await queue.schedules() == []
    assert await queue.rows() == []


async def test_a_put_with_a_name_is_done_once_with_its_schedule(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    rows = [NewRow(key=b"a", schedule=HOURLY)]
    [first] = await queue.put(rows, idempotency="n")
    await run(queue)
    [again] = await queue.put(rows, idempotency="n")
    assert (again.id, again.replayed) == (first.id, True)
    assert await runs(queue) == [(b"a", "every 1h", first.process_date + HOUR)]


async def test_a_schedule_that_this_machine_cannot_read_waits_for_ever() -> None:
    assert following_run(Extras(schedule="0 6 * * * (Nowhere/Town)", run=5), 7) == MAX_DATE
