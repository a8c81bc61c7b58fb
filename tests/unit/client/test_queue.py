"""The door's queues, over a directory and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.queue_ground import queue_backend
from tests.until import until

import headwater
from headwater.client.backend import Backend
from headwater.client.queue import OneQueue, Queues
from headwater.core.errors import BadInput, Conflict, KeyReused, NotFound, NotOwner, Paused, StaleClaim, UnknownQueue
from headwater.queue.answers import RowCounts
from headwater.queue.handling import GiveUp, Retry
from headwater.queue.json_form import show_date
from headwater.queue.operations import PUT
from headwater.queue.settings import QueueSettings
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
START = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START / 1000)


@pytest.fixture(params=["directory", "http"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Backend]:
    async with queue_backend(tmp_path / "data", request.param, clock) as made:
        yield made


@pytest.fixture
def queues(backend: Backend) -> Queues:
    return Queues(backend)


@pytest.fixture
async def pages(queues: Queues) -> OneQueue:
    return await queues("pages", create=QueueSettings(lease="60s", max_timeouts=1))


async def test_nothing_is_created_by_a_typo_and_the_error_names_the_command(queues: Queues) -> None:
    with pytest.raises(UnknownQueue, match="queue create pages"):
        await queues("pages")
    with pytest.raises(UnknownQueue):
        await queues("pages").put("k", 1)
    with pytest.raises(UnknownQueue):
        await queues("pages").claim(wait="0s")
    assert await queues.list() == []
    with pytest.raises(BadInput):
        queues("a/b")


async def test_a_queue_is_created_changed_shown_and_deleted(queues: Queues) -> None:
    planned = await queues.create("pages", QueueSettings(max_attempts=3), dry_run=True)
    assert (planned.created, planned.dry_run) == (True, True)
    assert await queues.list() == []
    made = await queues.create("pages", QueueSettings(max_attempts=3))
    assert (made.created, made.settings["max_attempts"], made.settings["lease"]) == (True, 3, "1h")
    changed = await queues.create_from("pages", {"lease": "90s"})
    assert (changed.created, changed.settings["max_attempts"], changed.settings["lease"]) == (False, 3, "90s")
    assert [one.queue for one in await queues.list()] == ["pages"]
    assert (await queues("pages").show()).settings["lease"] == "90s"
    declared = await queues.create("pages", declaration='<table><column name="url" type="text"/></table>')
    assert declared == await queues("pages").show()
    assert (declared.declaration, declared.declared, declared.version) == ('<table><column name="url" type="text"/></table>', 1, 3)
    await queues.create("pages", declaration="")
    assert [(one.declaration, one.declared) for one in await queues.list()] == [("", 2)]
    with pytest.raises(BadInput, match="lease"):
        await queues.create_from("pages", {"leese": "90s"})
    await queues("pages").put("k")
    assert (await queues.delete("pages", dry_run=True)).rows == 1
    assert (await queues.delete("pages")).rows == 1
    with pytest.raises(UnknownQueue):
        await queues.delete("pages")


async def test_a_row_from_its_put_to_its_end(pages: OneQueue, clock: ManualClock) -> None:
    put = await pages.put("page:/about", {"why": "edited"}, priority=10)
    assert (put.outcome, put.process_date) == ("inserted", START)
    again = await pages.put("page:/about", {"why": "edited again"})
    assert (again.outcome, again.id) == ("merged", put.id)
    row = await pages.get("page:/about")
    assert (row.key, row.data, row.priority, row.status, row.insertion_date) == ("page:/about", {"why": "edited again"}, 10, "W", START)
    assert (await pages.get_id(put.id)).key == "page:/about"
    [claim] = await pages.claim(wait="0s", worker="w1")
    assert (claim.data, claim.status, claim.attempts, claim.lease_until) == ({"why": "edited again"}, "P", 1, START + 60_000)
    assert (await pages.get("page:/about")).worker == "w1"
    assert (await pages.put("page:/about", 2)).outcome == "follow-up"
    with pytest.raises(Conflict):
        await pages.cancel("page:/about")
    clock.advance(30)
    await claim.extend()
    assert (await pages.get("page:/about")).start_processing_date == START + 30_000
    await claim.done()
    with pytest.raises(StaleClaim):
        await claim.done()
    assert (await pages.cancel("page:/about")).data == 2
    with pytest.raises(NotFound):
        await pages.get("page:/about")
    changes = [change.change for change in await pages.history("page:/about")]
    assert changes[-3:] == ["extend", "done", "cancel"], "the log still holds the last ones"
    assert await pages.count() == RowCounts(due=0, future=0, held=0, processing=0, dead=0)


async def test_bytes_dates_and_many_rows(pages: OneQueue, clock: ManualClock) -> None:
    later = datetime.fromtimestamp(START / 1000 + 60, UTC)
    outcomes = await pages.put_many(
        [
            ("a", b"\x00\xff"),
            {"key": b"\xfe", "data": None, "process_date": later},
            {"key": "c", "data": [1, 1.50], "delay": "10s", "lane": "x"},
            {"key": "d", "expiration_date": "2027-01-15T08:00:30.000Z"},
        ]
    )
    assert [one.outcome for one in outcomes] == ["inserted"] * 4
    rows = {row.key: row async for row in pages.rows()}
    assert (rows["a"].data, rows[b"\xfe"].data, rows["c"].data) == (b"\x00\xff", None, [1, 1.5])
    assert rows[b"\xfe"].process_date == START + 60_000
    assert rows["c"].process_date == START + 10_000
    assert rows["d"].expiration_date == START + 30_000
    assert [row.key async for row in pages.rows(state="future")] == [b"\xfe", "c"]
    assert [row.key async for row in pages.rows(prefix="c")] == ["c"]
    assert [row.key async for row in pages.rows(limit=2)] == ["a", b"\xfe"]
    assert (await pages.get(b"\xfe")).key == b"\xfe"
    clock.advance(31)
    with pytest.raises(NotFound):
        await pages.get("d")
    assert (await pages.count()).due == 2


WRONG: list[dict[str, Any]] = [
    {"key": ""},
    {"key": 7},
    {"key": "k", "priority": 256},
    {"key": "k", "priority": "high"},
    {"key": "k", "delay": "10"},
    {"key": "k", "delay": 10},
    {"key": "k", "process_date": "tomorrow"},
    {"key": "k", "process_date": datetime(2026, 1, 1)},
    {"key": "k", "process_date": -1},
    {"key": "k", "insertion_date": START + 3_600_000},
    {"key": "k", "data": object()},
    {"key": "k", "data": {"$binary": "AA=="}},
    {"key": "k", "data": float("nan")},
    {"key": "k", "data": {"n": [1, float("-inf")]}},
    {"key": "k", "data": {"n": Decimal("NaN")}},
    {"key": "k", "data": [Decimal("Infinity")]},
    {"key": "k", "lane": 5},
    {"key": "k", "delay": "1s", "process_date": START},
    {"key": "k", "after": "7"},
    {"key": "k", "after": [1.5]},
    {"key": "k", "after": [True]},
    {"key": "k", "after": -1},
    {"key": "k", "after": [None]},
    {"key": "k", "after": 1 << 40},
    {"key": "k", "after": [1 << 70]},
    {"key": "k", "after": 5, "after_dead": "wait"},
    {"key": "k", "after": 5, "after_dead": 5},
]


@pytest.mark.parametrize("row", WRONG, ids=lambda row: ", ".join(row))
async def test_a_row_that_cannot_be_is_bad_input_and_nothing_is_put(pages: OneQueue, row: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        await pages.put(**row)
    with pytest.raises(BadInput):
        await pages.put_many([("good", 1), row])
    assert (await pages.count()).due == 0


async def test_an_idempotency_key_puts_once(pages: OneQueue) -> None:
    first = await pages.put("k", 1, idempotency_key="order-7")
    again = await pages.put("k", 1, idempotency_key="order-7")
    assert (again.id, again.outcome, again.replayed) == (first.id, "inserted", True)
    with pytest.raises(KeyReused):
        await pages.put("k", 2, idempotency_key="order-7")


async def test_a_claim_waits_and_is_served_by_a_put_and_by_a_date(pages: OneQueue, clock: ManualClock) -> None:
    waiting = asyncio.create_task(pages.claim(wait="20s"))
    await until(lambda: _waits(pages))
    await pages.put("k", 1)
    [claim] = await waiting
    await claim.done()
    await pages.put("later", 1, delay="10s")
    waiting = asyncio.create_task(pages.claim(wait="20s"))
    await until(lambda: _waits(pages))
    clock.advance(9)
    assert not waiting.done()
    clock.advance(1)
    [claim] = await waiting
    assert claim.key == "later"
    await claim.done()
    waiting = asyncio.create_task(pages.claim(wait="5s"))
    await until(lambda: _waits(pages))
    clock.advance(5)
    assert await waiting == []


async def test_who_leaves_waits_no_longer_and_takes_no_row(pages: OneQueue) -> None:
    waiting = asyncio.create_task(pages.claim(wait="20s", worker="w1"))
    other = asyncio.create_task(pages.claim(wait="20s", worker="w2"))
    await until(lambda: _waits(pages, 2))
    await pages.leave("w1")
    assert await waiting == []
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    await until(lambda: _waits(pages, 0))
    await pages.put("k", 1)
    [claim] = await pages.claim(wait="0s")
    assert claim.attempts == 1


async def test_one_call_brings_back_and_claims_and_a_stale_token_spoils_nothing(pages: OneQueue) -> None:
    await pages.put_many([(key, 1) for key in "abcdef"])
    a, b, c, d = await pages.claim(4, wait="0s")
    from headwater.queue.requests import FailedRow

    answer = await pages.exchange(
        2, done=[a.token, "0-1-1"], fail=[FailedRow(token=b.token, error="no", retry_after="10s")], extend=[c.token], release=[d.token]
    )
    assert answer.stale == ["0-1-1"]
    assert [claim.key for claim in answer.claims] == ["d", "e"]
    assert (await pages.get("b")).error == "no"
    assert await pages.done(c.token, a.token) == [a.token]


async def test_a_block_is_done_or_fails(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put_many([(key, 1) for key in ("done", "raises", "retries", "gives up", "cancelled", "told")])
    done, raises, retries, gives_up, cancelled, told = await pages.claim(6, wait="0s")
    async with done:
        pass
    with pytest.raises(ValueError, match="broken"):
        async with raises:
            raise ValueError("broken")
    async with retries:
        raise Retry(after="30s")
    async with gives_up:
        raise GiveUp("no such page")
    with pytest.raises(asyncio.CancelledError):
        async with cancelled:
            raise asyncio.CancelledError
    async with told:
        await told.release()
    assert {row.key async for row in pages.rows(state="due")} == {"cancelled", "told"}
    assert (await pages.get("raises")).error == "ValueError: broken"
    assert 500 <= (await pages.get("raises")).process_date - START <= 1000
    assert (await pages.get("retries")).process_date == START + 30_000
    [dead] = await pages.dead()
    assert (dead.key, dead.reason, dead.error) == ("gives up", "given-up", "no such page")


async def test_dead_rows_are_shown_put_again_and_dropped(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put_many([("a", 1), ("b", 1), ("c", 1)])
    claims = await pages.claim(3, wait="0s")
    for claim in claims:
        await claim.fail("no", give_up=True)
    dead = await pages.dead()
    assert [row.key for row in dead] == ["a", "b", "c"]
    assert (await pages.dead_show(dead[0].id)).error == "no"
    assert [row.key for row in await pages.dead(prefix="b")] == ["b"]
    assert await pages.dead(reason="timeouts") == []
    assert await pages.dead_retry(dead[0].id, dry_run=True) == 1
    assert await pages.dead_retry(dead[0].id) == 1
    with pytest.raises(NotFound):
        await pages.dead_retry(dead[0].id)
    assert await pages.dead_drop_all(prefix="b", dry_run=True) == 1
    assert await pages.dead_drop_all(prefix="b") == 1
    assert await pages.dead_drop(dead[2].id, dry_run=True) == 1
    assert await pages.dead_retry_all(reason="given-up") == 1
    assert {row.key async for row in pages.rows(state="due")} == {"a", "c"}
    assert (await pages.statistics()).rows.dead == 0


async def test_a_lost_lease_comes_back_and_then_the_row_dies(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put("k", 1)
    [first] = await pages.claim(wait="0s")
    clock.advance(60.001)
    [second] = await pages.claim(wait="0s")
    assert (second.id, second.timeout_counter) == (first.id, 1)
    with pytest.raises(StaleClaim):
        await first.done()
    clock.advance(60.001)
    assert await pages.claim(wait="0s") == []
    [dead] = await pages.dead()
    assert dead.reason == "timeouts"


async def test_a_paused_queue_takes_rows_and_gives_none(pages: OneQueue) -> None:
    await pages.pause()
    await pages.put("k", 1)
    with pytest.raises(Paused, match="queue resume pages"):
        await pages.claim(wait="0s")
    waiting = asyncio.create_task(pages.claim(wait="20s"))
    await until(lambda: _waits(pages))
    assert (await pages.statistics()).paused
    await pages.resume()
    [claim] = await waiting
    assert claim.key == "k"


async def test_listeners_are_told_of_dues_and_deaths(pages: OneQueue, clock: ManualClock) -> None:
    events: list[Any] = []

    async def listen() -> None:
        async for event in pages.listen():
            events.append(event)

    listening = asyncio.create_task(listen())

    async def told() -> bool:
        """Whether the listener is there: it hears of a row that is given up."""
        await pages.put("k", 1)
        [claim] = await pages.claim(wait="0s")
        await claim.fail("no", give_up=True)
        return any(event.kind == "dead" for event in events)

    await until(told)
    await pages.put("later", 1, delay="10s")
    clock.advance(10)
    await until(lambda: any(event.kind == "due" and event.date == "2027-01-15T08:00:10.000Z" for event in events))
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    dead = next(event for event in events if event.kind == "dead")
    assert (dead.key, dead.reason) == ("k", "given-up")
    again = [await anext(aiter(pages.listen(after=after))) for after in (dead.position - 1, 10**9)]  # who was away since
    assert [(event.kind, event.key, event.position >= dead.position) for event in again] == [("dead", "k", True), ("reset", "", True)]
    assert again[1].counts.rows.dead >= 1


async def test_puts_made_at_once_travel_together_and_a_bad_one_spoils_none(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queue_backend(tmp_path / "far", "http", clock) as backend:
        pages = await Queues(backend)("pages", create=True)
        asked: list[int] = []
        ask = backend.ask

        async def counted(operation: Any, request: Any) -> Any:
            if operation is PUT:
                asked.append(len(request.rows))
            return await ask(operation, request)

        monkeypatch.setattr(backend, "ask", counted)
        outcomes = await asyncio.gather(*(pages.put(f"k{number}", number) for number in range(50)))
        assert [one.outcome for one in outcomes] == ["inserted"] * 50
        assert len(asked) <= 3
        assert sum(asked) == 50
        mixed = await asyncio.gather(*(pages.put(f"m{number}", 1, priority=number) for number in (1, 300, 2)), return_exceptions=True)
        assert [isinstance(one, BadInput) for one in mixed] == [False, True, False]
        assert (await pages.count()).due == 52


def test_the_blocking_door_has_them_too(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        pages = hw.queue("pages", create=QueueSettings(max_attempts=3)).open()
        pages.put("k", {"n": 1})
        [claim] = pages.claim(wait="0s")
        with claim:
            assert claim.data == {"n": 1}
        assert [row.key for row in pages.rows()] == []
        pages.put("k", 2)
        seen: list[Any] = []
        with pages.worker(lambda row: seen.append(row.data), drain=True) as worker:
            assert worker.run().done == 1
        assert seen == [2]
        assert [one.queue for one in hw.queue.list()] == ["pages"]
        assert pages.dead() == []


async def test_a_call_waits_a_little_for_an_owner_that_serves_nobody(pages: OneQueue, tmp_path: Path, clock: ManualClock) -> None:
    await pages.put("k")
    async with queue_backend(tmp_path / "data", "directory", clock) as other:
        waits = asyncio.create_task(OneQueue(other, "pages").count())
        begun = clock.monotonic()
        await until(lambda: _time_passes(clock, waits))
        with pytest.raises(NotOwner, match="headwater serve"):
            await waits
        assert clock.monotonic() - begun >= 1.5


async def test_a_call_goes_on_when_the_owner_has_ended(tmp_path: Path) -> None:
    class Sleeping(ManualClock):
        slept = False

        async def sleep(self, seconds: float) -> None:
            self.slept = True
            await super().sleep(seconds)

    clock = Sleeping()
    async with queue_backend(tmp_path, "directory", ManualClock()) as first, queue_backend(tmp_path, "directory", clock) as second:
        pages = await OneQueue(first, "pages", create=True)
        await pages.put("k")
        waits = asyncio.create_task(OneQueue(second, "pages").put("k"))
        await until(lambda: clock.slept)
        await first.aclose()
        await until(lambda: _time_passes(clock, waits))
        assert (await waits).outcome == "merged"


def _time_passes(clock: ManualClock, task: asyncio.Task[Any]) -> bool:
    """Whether a task has ended; if not, some more time passes."""
    clock.advance(0.05)
    return task.done()


async def _waits(pages: OneQueue, count: int = 1) -> bool:
    return (await pages.statistics()).waiting_claims == count


async def test_a_row_with_a_schedule_comes_again(pages: OneQueue, clock: ManualClock) -> None:
    now = clock.now_ms()
    await pages.put("tidy", {"deep": True}, every="1h")
    await pages.put("report", cron="0 6 * * 1-5", zone="Europe/Berlin")
    [claim] = await pages.claim(wait="0s")
    assert (claim.key, claim.schedule) == ("tidy", "every 1h")
    await pages.done(claim.token)
    report, tidy = await pages.schedules()
    assert (report.key, report.schedule, report.zone) == ("report", "0 6 * * 1-5", "Europe/Berlin")
    assert (tidy.key, tidy.schedule, tidy.zone, tidy.next_run) == ("tidy", "every 1h", None, show_date(now + 3_600_000))
    await pages.put("tidy", every="never")
    await pages.cancel("report")
    assert list(await pages.schedules()) == []


@pytest.mark.parametrize(
    "given",
    [
        *({"every": "soon"}, {"every": 5}, {"cron": "* *"}, {"zone": "UTC"}),
        *({"cron": "0 6 * * *", "zone": "Nowhere"}, {"every": "1h", "cron": "0 6 * * *"}),
    ],
)
async def test_a_bad_schedule_is_refused(pages: OneQueue, given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        await pages.put("k", **given)
    with pytest.raises(BadInput):
        await pages.put_many([{"key": "k", **given}])
    assert await pages.count() == RowCounts(due=0, future=0, held=0, processing=0, dead=0)


async def test_a_row_waits_for_others_by_their_ids_or_their_puts(pages: OneQueue) -> None:
    first = await pages.put("first")
    second = await pages.put("second", after=first)
    [third] = await pages.put_many([{"key": "third", "after": [first, second.id], "after_dead": "cancel"}])
    await pages.put("fourth", after=(one for one in [third]))
    assert await pages.count() == RowCounts(due=1, future=0, held=3, processing=0, dead=0)
    assert [(row.key, row.after, row.after_dead) async for row in pages.rows(state="held")] == [
        ("second", (first.id,), "hold"),
        ("third", (first.id, second.id), "cancel"),
        ("fourth", (third.id,), "hold"),
    ]
    with pytest.raises(BadInput, match="'first' waits for 'second', 'second' for 'first'"):
        await pages.put("first", after=second)
    done = list[str | bytes]()
    while claims := await pages.claim(9, wait="0s"):
        assert [claim.after for claim in claims] == [()]
        done += [claim.key for claim in claims]
        if claims[0].key == "second":
            await claims[0].fail("no", give_up=True)
        else:
            await claims[0].done()
    assert done == ["first", "second", "fourth"]
    assert [row.key async for row in pages.rows()] == []
