from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import AlreadyExists, BadInput, Closed, Fenced, NotFound, NotOwner, RegionNotFound, UnknownQueue
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.manager import QueueManager
from headwater.queue.row import NewRow
from headwater.queue.settings import QueueSettings
from headwater.testing.clock import ManualClock
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.region_list import region_list
from headwater.wal.settings import ROOM, WalSettings

pytestmark = pytest.mark.anyio
Make = Callable[..., QueueManager]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes the queues of one more process over the same directory."""
    made: list[tuple[QueueManager, RegionManager, LocalOwnership]] = []
    with EmbeddedLog(tmp_path) as log:

        def manager(*, address: str = "", clock: Clock | None = None, settings: Settings | None = None) -> QueueManager:
            owners, time = LocalOwnership(log, tmp_path / "owners", address=address), clock or ManualClock()
            regions = RegionManager(
                log, lambda: owners, "queue", settings=WalSettings(), clock=time, random=Random(1), metrics=WalMetrics()
            )
            queues = QueueManager(log, regions, clock=time, settings=settings, serves=bool(address))
            made.append((queues, regions, owners))
            return queues

        yield manager
        for queues, regions, owners in made:
            await queues.aclose()
            await regions.aclose()
            owners.close()


def row(key: str = "k", **how: Any) -> NewRow:
    return NewRow(key=key.encode(), **how)


async def seen(check: Callable[[], bool]) -> None:
    """Wait until something that other tasks and threads bring about is so."""
    async with asyncio.timeout(30):
        while not check():
            await asyncio.sleep(0.001)


# -- creating -----------------------------------------------------------------------------------------------------


async def test_a_queue_is_created_once_and_changed_later(make: Make) -> None:
    queues = make()
    entry, new = await queues.create("pages", {"lease": "60s"})
    assert (entry.settings.lease, entry.region, new) == (60_000, 1, True)
    again, new = await queues.create("pages", {"max_timeouts": 3})
    assert (again.settings.lease, again.settings.max_timeouts, again.version, new) == (60_000, 3, 2, False)
    assert await queues.create("pages", QueueSettings(max_timeouts=3)) == (again, False)
    assert (await queues.create("pages", QueueSettings(max_timeouts=5)))[0].settings.max_timeouts == 5  # the usual value, and given
    assert [one.name for one in await queues.list()] == ["pages"]
    assert (await queues.entry("pages")).version == 3
    with pytest.raises(AlreadyExists, match="period day"):
        await queues.create("pages", {"period": "hour"})
    for name, settings in (("a/b", {}), ("", {}), ("mail", {"colour": "red"}), ("mail", {"lease": "60"})):
        with pytest.raises(BadInput):
            await queues.create(name, settings)


async def test_a_dry_run_changes_nothing(make: Make) -> None:
    queues = make()
    entry, new = await queues.create("pages", {"lease": "60s"}, dry_run=True)
    assert (entry.settings.lease, new) == (60_000, True)
    assert await queues.list() == []
    assert region_list(queues._log) == []
    await queues.create("pages")
    entry, new = await queues.create("pages", {"lease": "60s"}, dry_run=True)
    assert (entry.settings.lease, entry.version, new) == (60_000, 2, False)
    assert (await queues.entry("pages")).version == 1
    with pytest.raises(BadInput):
        await queues.create("pages", {"lease": "soon"}, dry_run=True)


async def test_defaults_come_from_the_settings_at_creation_alone(make: Make) -> None:
    configured = Settings(sections={"queue": {"pages": EffectiveSettings(lease=Duration(5000))}})
    queues = make(settings=configured)
    assert (await queues.create("pages"))[0].settings.lease == 5000
    assert (await make().create("pages", {"max_timeouts": 1}))[0].settings.lease == 5000
    made, _ = await make(settings=Settings(sections={"queue": {"forms": EffectiveSettings(lease=Duration(5000))}})).create(
        "forms", QueueSettings(lease="1h")
    )
    assert made.settings.lease == 3_600_000
    assert (await queues.create("mail"))[0].settings.lease == 3_600_000


async def test_settings_of_the_region_are_those_of_its_topic(make: Make) -> None:
    queues = make()
    entry, _ = await queues.create("pages", {"period": "hour", "disposal": "secure-reset", "segment": "1MiB", "max_record": "2MiB"})
    settings = queues._log.topic(f"queue_data_{entry.region}").settings
    assert (settings.period, settings.disposal, settings.segment, settings.max_record) == (
        "hour",
        "secure-reset",
        1 << 20,
        (2 << 20) + ROOM,
    )


async def test_a_declaration_is_kept_and_read(make: Make) -> None:
    queues = make()
    text = '<table name="pages"><settings lease="5s"/><column name="url" type="text"/></table>'
    entry, _ = await queues.create("pages", declaration=text)
    assert (entry.settings.lease, entry.declared) == (5000, 1)
    await queues.open("pages")
    known = queues.known("pages")
    assert known is not None
    assert [column.name for column in known.declaration.columns] == ["url"]
    await queues.create("pages", declaration="")
    known = queues.known("pages")
    assert known is not None
    assert (known.declaration.columns, known.entry.declared) == ((), 2)
    with pytest.raises(BadInput, match="of a table 'pages'"):
        await queues.create("mail", declaration=text)


async def test_creators_at_the_same_time_make_one_queue(make: Make) -> None:
    first, second = make(clock=SystemClock()), make(clock=SystemClock())
    made = await asyncio.gather(*(one.create("pages") for one in (first, second, first, second)))
    assert [new for _, new in made].count(True) == 1
    assert {entry.table for entry, _ in made} == {1}


async def test_while_another_process_serves_creators_learn_its_address(make: Make) -> None:
    server, other = make(address="http://here:1"), make()
    await server.create("pages")
    assert (await other.create("pages"))[1] is False  # nothing changes: nobody is asked
    with pytest.raises(NotOwner) as refused:
        await other.create("mail")
    assert refused.value.address == "http://here:1"


# -- opening ------------------------------------------------------------------------------------------------------


async def test_a_queue_is_open_once(make: Make) -> None:
    queues = make()
    with pytest.raises(UnknownQueue, match="headwater queue create pages"):
        await queues.open("pages")
    await queues.create("pages")
    assert queues.opened("pages") is None
    opened = await asyncio.gather(*(queues.open("pages") for _ in range(5)))
    assert len(set(map(id, opened))) == 1
    assert queues.opened("pages") is opened[0]
    assert [known.entry.name for known in queues.queues()] == ["pages"]
    await opened[0].put([row()])
    await queues.aclose()
    for call in (queues.open("pages"), queues.list(), queues.create("mail"), queues.delete("pages")):
        with pytest.raises(Closed):
            await call
    with pytest.raises(Closed):
        await opened[0].put([row()])


async def test_rows_outlive_the_process(make: Make) -> None:
    first = make()
    await first.create("pages")
    queue = await first.open("pages")
    await queue.put([row("a"), row("b")])
    await first.aclose()
    await first._regions.aclose()
    found = await (await make().open("pages")).rows()
    assert [one.key for one in found] == [b"a", b"b"]


async def test_queues_of_one_region_are_open_together_and_keep_apart(make: Make) -> None:
    queues = make()
    for name in ("pages", "mail", "alone"):
        await queues.create(name, {} if name == "alone" else {"region": 7})
    pages = await queues.open("pages")
    assert sorted(known.entry.name for known in queues.queues()) == ["mail", "pages"]
    mail = queues.opened("mail")
    assert mail is not None
    await pages.put([row("a")])
    await mail.put([row("a"), row("b")])
    assert ((await pages.count()).waiting, (await mail.count()).waiting) == (1, 2)
    assert (await pages.claim()).claims[0].row.key == b"a"
    assert (await mail.count()).processing == 0


async def test_another_process_is_told_who_owns_a_queue(make: Make) -> None:
    first, second = make(address="http://here:1"), make()
    await first.create("pages")
    queue = await first.open("pages")
    with pytest.raises(NotOwner) as refused:
        await second.open("pages")
    assert refused.value.address == "http://here:1"
    await queue.put([row()])


async def test_a_queue_that_was_taken_over_is_fenced_once_and_then_elsewhere(make: Make) -> None:
    first, second = make(), make(address="http://there:2")
    await first.create("pages")
    old = await first.open("pages")
    await old.put([row("a")])
    new = await second.open("pages", take_over=True)
    await new.put([row("b")])
    with pytest.raises(Fenced):
        await old.put([row("c")])
    assert first.opened("pages") is None
    with pytest.raises(NotOwner) as refused:
        await first.open("pages")
    assert refused.value.address == "http://there:2"
    assert [one.key for one in await new.rows()] == [b"a", b"b"]
    await second.aclose()
    await second._regions.aclose()
    assert await (await first.open("pages")).put([row("d")])


async def test_a_region_that_is_closed_ends_its_queues_and_the_next_call_opens_them(make: Make) -> None:
    queues = make()
    await queues.create("pages")
    old = await queues.open("pages")
    waiting = asyncio.ensure_future(old.claim(wait=60_000))
    await asyncio.sleep(0)
    await queues._regions.close(1)
    with pytest.raises(Closed):
        await waiting
    assert queues.opened("pages") is None
    assert await (await queues.open("pages")).put([row()])


async def test_settings_that_another_process_changes_are_used(make: Make) -> None:
    owner, other = make(), make()
    await owner.create("pages")
    queue = await owner.open("pages")
    await other.create("pages", {"lease": "5s"})
    await seen(lambda: (known := owner.known("pages")) is not None and known.entry.version == 2)
    await queue.put([row()])
    (claim,) = (await queue.claim()).claims
    assert claim.lease_until - claim.row.start_processing_date == 5000


# -- deleting -----------------------------------------------------------------------------------------------------


async def test_a_deleted_queue_is_gone_with_its_region(make: Make) -> None:
    queues = make()
    await queues.create("pages")
    queue = await queues.open("pages")
    await queue.put([row("a"), row("b")])
    assert await queues.delete("pages") == 2
    assert await queues.list() == []
    assert [topics.region for topics, _ in region_list(queues._log)] == [0]
    with pytest.raises(UnknownQueue):
        await queues.delete("pages")
    with pytest.raises(UnknownQueue):
        await queue.put([row()])
    entry, new = await queues.create("pages")
    assert (entry.table, new) == (2, True)  # tokens of the old one fit nothing
    assert (await (await queues.open("pages")).count()).waiting == 0


async def test_a_queue_that_shares_its_region_leaves_the_others(make: Make) -> None:
    queues = make()
    for name in ("pages", "mail", "new"):
        await queues.create(name, {"region": 7})
    for name in ("pages", "mail"):
        await (await queues.open(name)).put([row()])
    assert await queues.delete("pages") == 1
    assert await queues.delete("new") == 0  # nothing was ever written into it
    mail = queues.opened("mail")
    assert mail is not None
    assert (await mail.count()).waiting == 1
    assert await queues.delete("mail") == 1
    assert [topics.region for topics, _ in region_list(queues._log)] == [0]


async def test_claims_that_wait_for_rows_of_a_queue_that_is_deleted_are_told_so(make: Make) -> None:
    queues = make()
    await queues.create("pages")
    queue = await queues.open("pages")
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await seen(lambda: queue.statistics().waiting_claims == 1)
    await queues.delete("pages")
    for call in (waiting, queue.put([row()])):
        with pytest.raises(UnknownQueue, match="The queue pages was deleted") as told:
            await call
        assert "queue create pages" in (told.value.hint or "")


async def test_a_queue_is_deleted_although_another_process_owns_it(make: Make) -> None:
    owner, other = make(), make()
    await owner.create("pages")
    queue = await owner.open("pages")
    await queue.put([row()])
    assert await other.delete("pages") == 1
    with pytest.raises((Fenced, Closed, NotFound)):
        await queue.put([row()])
    await seen(lambda: owner.opened("pages") is None)
    with pytest.raises(UnknownQueue):
        await owner.open("pages")


async def test_a_queue_that_was_deleted_halfway_can_be_deleted_again(make: Make) -> None:
    queues = make()
    await queues.create("pages")
    await queues._regions.delete(1)
    with pytest.raises(RegionNotFound):
        await queues.open("pages")
    assert await queues.delete("pages") == 0
    assert await queues.list() == []


# -- metrics ------------------------------------------------------------------------------------------------------


async def test_readings_are_made_on_the_loop_from_whatever_thread_they_are_asked(make: Make) -> None:
    queues = make()
    assert queues.readings() == []
    await queues.create("pages")
    await (await queues.open("pages")).put([row("a"), row("b")])
    for found in (queues.readings(), await asyncio.to_thread(queues.readings)):
        assert [(one.queue, one.statistics.counts.due, one.statistics.puts) for one in found] == [("pages", 2, 2)]
    await queues.aclose()
    assert queues.readings() == []
