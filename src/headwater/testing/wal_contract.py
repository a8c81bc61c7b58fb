"""Everything that a write-ahead log region promises, as tests over any engine of the log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headwater.cluster import Ownership
from headwater.core.errors import BadBounds, BadInput, Closed, Fenced, NotOwner, OffsetGone, RegionNotFound, TooLarge, UnknownTable
from headwater.log import Log
from headwater.testing.log_ground import fresh
from headwater.testing.wal_ground import MAX, Open, numbered, payloads, rows
from headwater.testing.wal_surviving import RegionSurviving
from headwater.wal.bounds import Excluded, Included
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_outcomes import TableMark
from headwater.wal.region_topics import RegionTopics
from headwater.wal.spark_tables import LiveEntries, RegionPart, RegionRecords, region_table


def spark_rows(table: LiveEntries, log: Log, part: RegionPart) -> list[tuple[int, int, bytes]]:
    """Table, sequence and payload of what a task of Spark is given."""
    names = ["table", "sequence", "payload"]
    cells = [zip(*(columns[name].to_pylist() for name in names), strict=True) for columns in table.rows(log, part, names)]
    return [(int(number), sequence, payload) for batch in cells for number, sequence, payload in batch]


@pytest.mark.anyio
class RegionContract(RegionSurviving):
    """Subclass it, and give the fixtures `log` and `ownership` (a function that makes one more Ownership over the log)."""

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
    def owners(self, join: Callable[[], Ownership]) -> Iterator[Ownership]:
        with join() as ownership:
            yield ownership

    @pytest.fixture
    def topics(self, log: Log) -> RegionTopics:
        made = RegionTopics(fresh("wal").replace("_", "-"), random.randrange(1 << 64))
        create_region(log, made)
        return made

    @pytest.fixture
    async def opened(self, log: Log, owners: Ownership, topics: RegionTopics) -> AsyncIterator[Open]:
        """Opens the region; what is open at the end is closed."""
        regions: list[Region] = []

        async def open(of: Ownership = owners, **how: Any) -> Region:
            regions.append(await open_region(log, of, topics, **how))
            return regions[-1]

        yield open
        for region in regions:
            await region.close()

    # -- writing and reading --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("batch", [1, 2, 4, 10, 100])
    async def test_what_is_written_is_read(self, opened: Open, batch: int) -> None:
        region = await opened()
        assert region.sequence_num(7) == 0
        assert await region.write(7, numbered(1, 10)) == 10
        assert region.sequence_num(7) == 10
        reader = region.read(7, batch=batch)
        assert [len(await reader.next_batch()) for _ in range(-(-10 // batch))] == [min(batch, 10 - at) for at in range(0, 10, batch)]
        assert await reader.next_batch() == []
        assert await rows(region.read(7)) == [(7, number, b"payload %d" % number) for number in range(1, 11)]

    @pytest.mark.parametrize(
        ("start", "end", "first", "last"),
        [
            ("min", "max", 1, 10),
            (Included(1), Included(10), 1, 10),
            (Excluded(1), Excluded(10), 2, 9),
            (Included(3), Excluded(7), 3, 6),
            (Excluded(9), "max", 10, 10),
            (Included(4), Included(4), 4, 4),
            (Included(11), "max", 1, 0),
            ("min", Included(0), 1, 0),
        ],
    )
    async def test_bounds_say_what_is_read(self, opened: Open, start: Any, end: Any, first: int, last: int) -> None:
        region = await opened()
        await region.write(1, numbered(1, 4))
        await region.write(1, numbered(5, 10))
        assert await payloads(region.read(1, start, end)) == numbered(first, last)

    async def test_bounds_are_checked_whatever_the_table_holds(self, opened: Open) -> None:
        region = await opened()
        await region.write(1, [b"x"])
        await region.mark_delete_up_to(1, 1)
        await region.write(2, [b"x"])
        wrong: list[tuple[Any, Any]] = [(Excluded(MAX), "max"), ("min", Excluded(0)), (Included(3), Included(2)), (Included(-1), "max")]
        for table in (1, 2, 3):
            for start, end in wrong:
                with pytest.raises(BadBounds):
                    region.read(table, start, end)
            assert await rows(region.read(table, Included(5))) == []

    async def test_writers_of_many_tables_get_numbers_without_gaps(self, opened: Open) -> None:
        region = await opened()

        async def writer(name: int) -> list[tuple[int, int]]:
            return [(table, await region.write(table, [b"%d %d" % (name, table)])) for _ in range(4) for table in range(5)]

        writes = [pair for pairs in await asyncio.gather(*(writer(name) for name in range(10))) for pair in pairs]
        assert sorted(writes) == [(table, number) for table in range(5) for number in range(1, 41)]
        for table in range(5):
            assert [sequence for _, sequence, _ in await rows(region.read(table))] == list(range(1, 41))

    async def test_a_scan_gives_all_tables_in_the_order_of_the_log(self, opened: Open) -> None:
        region = await opened()
        for number in range(1, 4):
            for table in (5, 2):
                await region.write(table, [b"%d" % number])
        await region.mark_delete_up_to(2, 1)
        assert await rows(region.scan(batch=2)) == [(5, 1, b"1"), (5, 2, b"2"), (2, 2, b"2"), (5, 3, b"3"), (2, 3, b"3")]
        assert await rows(region.scan(wanted=lambda table: table == 2)) == [(2, 2, b"2"), (2, 3, b"3")]

    async def test_a_reader_sees_what_was_there_when_it_began(self, opened: Open) -> None:
        region = await opened()
        await region.write(1, [b"a", b"b"])
        reader, scan = region.read(1, batch=1), region.scan(batch=1)
        assert len(await reader.next_batch()) == 1
        await region.write(1, [b"c"])
        await region.mark_delete_up_to(1, 2)
        assert await payloads(reader) == [b"b"]
        assert await payloads(scan) == [b"a", b"b"]

    async def test_a_reader_that_a_clean_has_overtaken_says_so_each_time(self, opened: Open) -> None:
        region = await opened()
        for _ in range(4):
            await region.write(1, [b"x"])
        reader = region.read(1, batch=2)
        assert len(await reader.next_batch()) == 2
        await region.mark_delete_up_to(1, 4)
        await region.clean()
        for _ in range(2):
            with pytest.raises(OffsetGone):
                await reader.next_batch()

    # -- marks and drops ------------------------------------------------------------------------------------------

    async def test_marks_forget_and_numbers_go_on(self, opened: Open) -> None:
        region = await opened()
        await region.write(1, numbered(1, 10))
        await region.write(2, numbered(1, 10))
        assert await region.mark_delete_up_to(1, 5) == TableMark(5)
        assert await payloads(region.read(1)) == numbered(6, 10)
        assert await region.mark_delete_up_to(1, 3) == TableMark(5)  # below an earlier mark
        assert await region.mark_delete_up_to(1, 99) == TableMark(10, clamped=True)
        assert await region.mark_delete_up_to(1, MAX) == TableMark(10, clamped=True)
        assert await payloads(region.read(1)) == []
        assert region.sequence_num(1) == 10
        assert await payloads(region.read(2)) == numbered(1, 10)
        assert await region.write(1, [b"next"]) == 11

    async def test_what_is_not_there_cannot_be_marked_dropped_or_moved(self, opened: Open) -> None:
        region = await opened()
        for call in (lambda: region.mark_delete_up_to(9, 1), lambda: region.drop_table(9), lambda: region.move(9)):
            with pytest.raises(UnknownTable, match="no table 9"):
                await call()

    async def test_a_dropped_table_begins_anew_and_needs_nothing(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        region = await opened()
        await region.write(1, numbered(1, 3))
        await region.write(2, numbered(1, 3))
        await region.drop_table(1)
        assert region.sequence_num(1) == 0
        assert await rows(region.read(1)) == []
        with pytest.raises(UnknownTable):
            await region.mark_delete_up_to(1, 1)
        assert await region.write(1, [b"new"]) == 1
        await region.mark_delete_up_to(2, 3)
        await region.clean()
        assert await rows(region.scan()) == [(1, 1, b"new")]
        await region.close()
        assert (await opened()).sequence_num(1) == 1

    # -- opening again --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["close", "close_gracefully"])
    async def test_all_is_there_after_closing(self, opened: Open, how: str) -> None:
        region = await opened()
        await region.write(1, numbered(1, 10))
        await region.write(2, numbered(1, 2))
        await region.mark_delete_up_to(1, 4)
        await getattr(region, how)()
        with pytest.raises(Closed):
            await region.write(1, [b"x"])
        again = await opened()
        assert (again.recovered.records <= 1) == (how == "close_gracefully")  # on Kafka the claim
        assert (again.sequence_num(1), again.sequence_num(2)) == (10, 2)
        assert await payloads(again.read(1)) == numbered(5, 10)
        assert await again.write(1, [b"next"]) == 11

    async def test_numbers_go_on_when_everything_is_flushed_and_cleaned(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        region = await opened()
        await region.write(1, numbered(1, 4))
        await region.mark_delete_up_to(1, 4)
        cleaned = await region.clean()
        assert cleaned.start == log.bounds(topics.data, 0).start > 0
        await region.close()
        again = await opened()
        assert again.recovered.snapshots
        assert await again.write(1, [b"next"]) == 5

    async def test_only_what_lies_behind_the_snapshot_is_read(self, opened: Open) -> None:
        region = await opened()
        for _ in range(20):
            await region.write(1, [b"x"])
        await region.snapshot()
        await region.write(1, [b"y"])
        await region.close()
        again = await opened()
        assert again.recovered.records <= 3  # the last write, and on Kafka the claims
        assert again.sequence_num(1) == 21

    async def test_what_is_recovered_is_the_full_scan(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        some = random.Random(5)
        region = await opened()
        for step in range(120):
            table, dice = some.randrange(5), some.random()
            if dice < 0.7 or not region.sequence_num(table):
                await region.write(table, [b"%d" % step] * some.choice([1, 1, 3]))
            elif dice < 0.85:
                await region.mark_delete_up_to(table, some.randrange(1, region.sequence_num(table) + 1))
            elif dice < 0.9:
                await region.drop_table(table)
            elif dice < 0.95:
                await region.move(table)
            else:
                await region.snapshot()
        expected = await rows(region.scan())
        await region.close()
        assert recover(log, topics).meta == full_scan(log, topics).meta
        assert await rows((await opened()).scan()) == expected

    # -- cleaning ---------------------------------------------------------------------------------------------------

    async def test_a_clean_removes_what_no_table_needs_in_one_pass(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        region = await opened()
        for _ in range(5):
            await region.write(1, [b"x"])
            await region.write(2, [b"x"])
        needed = [entry.offset async for entry in region.read(2, Included(3))]
        await region.mark_delete_up_to(1, 5)
        await region.mark_delete_up_to(2, 2)
        cleaned = await region.clean()
        assert cleaned.start == needed[0] == log.bounds(topics.data, 0).start
        assert cleaned.removed > 0
        assert (await region.clean()).removed == 0
        stored = recover(log, topics).snapshots
        assert len(stored) == 2
        assert all(snapshot.watermark >= cleaned.start for snapshot in stored)

    async def test_a_moved_table_pins_nothing(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        region = await opened()
        await region.write(9, numbered(1, 3))
        for number in range(20):
            await region.write(1, [b"%d" % number])
        await region.write(9, numbered(4, 5))
        await region.mark_delete_up_to(1, 20)
        assert (await region.clean()).start <= 2
        assert await region.move(9) == 5
        assert await payloads(region.read(9)) == numbered(1, 5)
        assert await payloads(region.scan()) == numbered(1, 5)
        cleaned = await region.clean()
        assert cleaned.start > 20
        assert await payloads(region.read(9)) == numbered(1, 5)
        await region.write(9, numbered(6, 6))
        await region.close()
        again = await opened()
        assert await payloads(again.scan()) == numbered(1, 6)
        assert await again.move(9) == 6

    # -- owners -----------------------------------------------------------------------------------------------------

    async def test_a_region_that_is_not_there_is_told(self, log: Log, owners: Ownership, topics: RegionTopics) -> None:
        with pytest.raises(RegionNotFound, match="headwater wal create"):
            await open_region(log, owners, RegionTopics(topics.namespace + "x", 1))

    async def test_a_second_owner_is_refused_and_fences_nobody(self, opened: Open, join: Callable[[], Ownership]) -> None:
        region = await opened()
        await region.write(1, [b"a"])
        with join() as other:
            with pytest.raises(NotOwner):
                await opened(other)
            assert await region.write(1, [b"b"]) == 2
            taken = await opened(other, take_over=True)
            with pytest.raises(Fenced):
                await region.write(1, [b"c"])
            with pytest.raises(Fenced):
                await region.write(1, [b"c"])
            for call in (region.snapshot, region.clean):
                with pytest.raises(Fenced):
                    await call()
            assert await taken.write(1, [b"d"]) == 3
            assert await payloads(taken.scan()) == [b"a", b"b", b"d"]
            await taken.close()

    # -- bad input --------------------------------------------------------------------------------------------------

    async def test_bad_input_is_refused_and_takes_no_number(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        region = await opened()
        await region.write(1, [b"a"])
        largest = log.topic(topics.data).settings.max_record
        bad: list[tuple[Any, Any, type[Exception]]] = [
            (1, [], BadInput),
            (1, ["text"], BadInput),
            (-1, [b"x"], BadInput),
            (MAX + 1, [b"x"], BadInput),
            ("1", [b"x"], BadInput),
            (True, [b"x"], BadInput),
            (1, [bytes(largest)], TooLarge),
            (1, [bytes(largest // 2)] * 2, TooLarge),
        ]
        for table, batch, error in bad:
            with pytest.raises(error):
                await region.write(table, batch)
        assert await region.write(1, [b"b"]) == 2
        assert await region.write(MAX, [b""]) == 1
        assert await rows(region.scan()) == [(1, 1, b"a"), (1, 2, b"b"), (MAX, 1, b"")]

    # -- as tables of Spark ---------------------------------------------------------------------------------------

    async def test_spark_is_given_what_is_live_and_never_fewer_rows(self, log: Log, topics: RegionTopics, opened: Open) -> None:
        region = await opened()
        await region.write(1, numbered(1, 10))
        await region.write(MAX, numbered(1, 3))
        await region.mark_delete_up_to(1, 4)
        await region.move(MAX)
        table = region_table(str(topics), {})
        assert isinstance(table, LiveEntries)
        parts = await asyncio.to_thread(table.plan, log, 5)
        expected = sorted(await rows(region.scan()))
        assert len(parts) == 2
        assert await asyncio.to_thread(lambda: sorted(row for part in parts for row in spark_rows(table, log, part))) == expected
        await region.mark_delete_up_to(1, 10)
        await region.clean()
        with pytest.raises(OffsetGone):
            await asyncio.to_thread(lambda: [row for part in parts for row in spark_rows(table, log, part)])

    async def test_spark_is_given_every_record_with_its_kind(self, log: Log, topics: RegionTopics, opened: Open) -> None:
        region = await opened()
        await region.write(1, numbered(1, 2))
        await region.mark_delete_up_to(1, 1)
        await region.move(1)
        await region.drop_table(1)
        table = region_table(str(topics), {"view": "log", "table": "1"})
        assert isinstance(table, RegionRecords)
        kinds: list[str] = []
        for batch in await asyncio.to_thread(lambda: list(log.scan(topics.data, 0, 0))):
            kinds += table.rows(0, batch, ["kind"])["kind"].to_pylist()
        assert kinds == ["entry", "entry", "mark", "move", "drop"]
