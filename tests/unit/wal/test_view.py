from __future__ import annotations

import asyncio
import threading

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.core.errors import Damaged, MetaLost, OffsetGone, RegionNotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.wal.region_topics import RegionTopics
from headwater.wal.verification import verify
from headwater.wal.view import RegionView, StateCounts, snapshot_states, statistics, table_states
from headwater.wal.why import pins_of, why

pytestmark = pytest.mark.anyio


async def test_a_look_sees_what_the_owner_has_written_and_cleaned(log: EmbeddedLog, opened: OpenRegion) -> None:
    region, view = await opened(), RegionView(log, TOPICS)
    assert view.recovered().meta.tables == {}
    await region.write(1, [b"a", b"b"])
    await region.write(2, [b"c"])
    await region.mark_delete_up_to(1, 1)
    assert view.recovered().meta == region.look(lambda meta: meta)
    await region.clean()
    await region.write(2, [b"d"])
    found = view.recovered()
    assert found.meta == region.look(lambda meta: meta)
    assert [(one.table, one.last, one.flushed, one.live, one.offset) for one in table_states(found.meta)] == [
        (1, 2, 1, 1, 0),
        (2, 2, 0, 2, 1),
    ]
    shown = statistics(view, StateCounts(found.meta), recovered=found, snapshots=snapshot_states(found.snapshots), owner="")
    assert (shown.start, shown.end, shown.tables, shown.live_entries, shown.pinned_entries, shown.open) == (0, 4, 2, 3, 1, False)
    assert shown.live_bytes > 0
    assert shown.bytes
    assert len(shown.snapshots) == 1


def test_nothing_is_made_by_looking(log: EmbeddedLog) -> None:
    before = [topic.name for topic in log.topics()]
    with pytest.raises(RegionNotFound, match="Did you mean wal/7"):
        RegionView(log, RegionTopics("wal", 70)).recovered()
    log.create_topic("mine_data_1", settings=TopicSettings())
    with pytest.raises(RegionNotFound):  # a topic of somebody else that is named so
        RegionView(log, RegionTopics("mine", 1)).recovered()
    assert [topic.name for topic in log.topics()] == ["mine_data_1", *before]


async def test_a_look_that_was_overtaken_is_taken_again(log: EmbeddedLog, opened: OpenRegion) -> None:
    region, view = await opened(), RegionView(log, TOPICS)
    seen = list[int]()

    def overtaken() -> int:
        seen.append(1)
        raise OffsetGone("It was cleaned.", hint="")

    with pytest.raises(OffsetGone):  # nobody has changed anything: it is so
        view.steady(overtaken)
    assert len(seen) == 1

    def changing() -> int:
        seen.append(1)
        if len(seen) < 4:
            region._snapshot()
            raise OffsetGone("It was cleaned.", hint="")
        return 1

    assert view.steady(changing) == 1
    assert len(seen) == 4


async def test_a_lost_beginning_is_told_and_may_be_accepted(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"a"])
    await region.write(1, [b"b"])
    region._owned.writer.roll()
    await region.write(1, [b"c"])
    region._owned.writer.delete_before(2)
    view = RegionView(log, TOPICS)
    with pytest.raises(MetaLost, match="--accept-loss"):
        view.recovered()
    assert issubclass(MetaLost, Damaged)
    assert [(one.table, one.last, one.live) for one in table_states(view.recovered(accept_loss=True).meta)] == [(1, 3, 1)]


async def test_looks_are_of_one_moment_while_an_owner_writes_and_cleans(log: EmbeddedLog, opened: OpenRegion) -> None:
    """Each look is a state that the region had: every table holds what lies between its marks and its end, and none goes back."""
    region, view, over, seen = await opened(), RegionView(log, TOPICS), threading.Event(), list[int]()

    def looks() -> None:
        last = dict[int, int]()
        while not over.is_set():
            state = view.recovered().meta
            assert verify(view).live >= 0
            why(log, TOPICS, pins_of(state))
            for number, table in state.tables.items():
                assert table.next >= last.get(number, 1)
                last[number] = table.next
                assert table.live == table.next - table.marked
            seen.append(state.watermark)

    looking = asyncio.create_task(asyncio.to_thread(looks))
    for turn in range(60):
        if looking.done():
            break
        for table in (1, 2, 3):
            await region.write(table, [b"x" * 100] * 3)
            if turn > 3:
                await region.mark_delete_up_to(table, 3 * turn - table)
        if turn % 3 == 0:
            await region.clean()
    over.set()
    await looking
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


async def test_a_table_is_read_without_owning_its_region(log: EmbeddedLog, opened: OpenRegion) -> None:
    view = RegionView(log, TOPICS)
    assert view.table(1) == (1, [])
    region = await opened()
    await region.write(1, [b"a", b"b"])
    await region.write(2, [b"other"])
    await region.write(1, [b"c"])
    await region.mark_delete_up_to(1, 1)
    following, entries = view.table(1)
    assert (following, [(entry.sequence, entry.payload) for entry in entries]) == (4, [(2, b"b"), (3, b"c")])
    await region.mark_delete_up_to(1, 3)
    assert view.table(1) == (4, [])
