"""What a region keeps over moves, owners and restarts, and the bytes that it keeps it in: tests over any engine of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headwater.cluster import Ownership
from headwater.core.errors import Conflict, Damaged, MetaLost, NotOwner
from headwater.log import Log, Record
from headwater.log.epochs import Epochs
from headwater.testing.wal_ground import MAX, Open, numbered, payloads, rows
from headwater.wal.layout import encode_meta_key
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import PART, RegionTopics
from headwater.wal.snapshot import decode_chunk


def counted(log: Log, topic: str) -> list[Record]:
    """The records of a topic that count."""
    epochs = Epochs()
    return [record for record in log.read(topic, 0, log.bounds(topic, 0).start, limit=10_000) if epochs.admits(record)]


async def opened_soon(opened: Open, owners: Ownership) -> Region:
    """Open a region that another owner has just closed: a group takes a moment to notice."""
    while True:
        try:
            return await opened(owners)
        except NotOwner:
            await asyncio.sleep(0.02)


@pytest.mark.anyio
class RegionSurviving:
    """Part of `RegionContract`."""

    async def test_numbers_go_on_over_marks_cleans_owners_and_restarts(self, opened: Open, join: Callable[[], Ownership], log: Log) -> None:
        """As where a region goes from one node to another and back."""
        with join() as node, join() as other:
            for turn, owners in enumerate((node, other, node, other), 1):
                region = await opened_soon(opened, owners)
                assert region.sequence_num(1) == 10 * (turn - 1)
                assert await region.write(1, numbered(1, 5)) == 10 * turn - 5
                assert await region.write(1, numbered(6, 10)) == 10 * turn
                assert await region.write(2, [b"x"]) == turn
                await region.mark_delete_up_to(1, 10 * turn - (turn % 2) * 5)
                if turn > 2:
                    await region.clean()
                assert region.sequence_num(1) == 10 * turn
                await region.close()
            assert await payloads((await opened_soon(opened, node)).read(1)) == []

    async def test_regions_keep_apart(self, log: Log, owners: Ownership, topics: RegionTopics) -> None:
        several = [RegionTopics(topics.namespace, number) for number in (0, 1, 2, 3, MAX)]
        for region_topics in several:
            create_region(log, region_topics)
            region = await open_region(log, owners, region_topics)
            assert await region.write(1, [b"of %d" % region_topics.region]) == 1
            await region.close()
        for region_topics in several:
            region = await open_region(log, owners, region_topics)
            assert await rows(region.scan()) == [(1, 1, b"of %d" % region_topics.region)]
            await region.close()

    async def test_what_is_in_the_topics_has_the_bytes_of_the_format(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        region = await opened()
        await region.write(8910, [b"abc"])
        await region.write(8910, [b"de", b""])
        await region.mark_delete_up_to(8910, 1)
        await region.move(8910)
        await region.snapshot()
        await region.write(MAX, [b""])
        await region.drop_table(MAX)
        await region.snapshot()
        number = topics.region.to_bytes(8, "big").hex()
        expected = [
            (f"01 {number} 00000000000022ce 0000000000000001 00", "00 616263"),
            (f"01 {number} 00000000000022ce 0000000000000002 00", "01 00000002 00000002 00000000 6465"),
            (f"02 {number} 00000000000022ce 0000000000000002 00", "00"),
            (f"04 {number} 00000000000022ce 0000000000000002 00", "01 00000002 00000002 00000000 6465"),
            (f"01 {number} ffffffffffffffff 0000000000000001 00", "00"),
            (f"03 {number} ffffffffffffffff 0000000000000002 00", "00"),
        ]
        hex_records = [((record.key or b"").hex(), (record.value or b"").hex()) for record in counted(log, topics.data)]
        assert hex_records == [(key.replace(" ", ""), value.replace(" ", "")) for key, value in expected]
        stored = counted(log, topics.meta)
        assert [record.key for record in stored] == [encode_meta_key(topics.region)] * 2
        chunk = decode_chunk(stored[0].value)
        offset = counted(log, topics.data)[3].offset or 0
        assert chunk.tables == ((8910, 4, 2, offset + 1, offset),)
        assert chunk.watermark == offset + 1

    async def test_the_picture_of_the_seed(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        """A snapshot at 64, then 5@72 6@81 7@90 in a log whose last record is 100."""
        region = await opened()

        async def fill(until: int) -> None:
            """Others write up to this offset."""
            while (missing := until - log.bounds(topics.data, 0).end) > 0:
                await asyncio.gather(*(region.write(99, [b"x"]) for _ in range(missing)))

        for offset, several in ((3, [b"1"]), (16, [b"2", b"3"]), (31, [b"4"])):
            await fill(offset)
            await region.write(7, several)
        await region.mark_delete_up_to(7, 1)
        await fill(64)
        stored = await region.snapshot()
        before = recover(log, topics).meta.tables[7]
        assert (stored.watermark, before.next, before.marked, before.watermark, before.offsets(0, 9)) == (64, 5, 2, 32, [16, 16, 31])
        for offset in (72, 81, 90):
            await fill(offset)
            await region.write(7, [b"later"])
        await fill(101)
        await region.close()
        recovered = recover(log, topics)
        table = recovered.meta.tables[7]
        assert (table.next, table.marked, table.watermark, table.offsets(0, 9)) == (8, 2, 91, [16, 16, 31, 72, 81, 90])
        assert (recovered.meta.watermark, recovered.records) == (101, 37)
        assert full_scan(log, topics).meta == recovered.meta
        assert full_scan(log, topics).records == 101

    async def test_the_largest_payload_is_written_read_and_moved(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        largest = bytes(log.topic(topics.data).settings.max_record - 1024)
        region = await opened()
        assert await region.write(MAX, [largest]) == 1
        assert await region.write(1, [b"x"]) == 1
        assert await region.move(MAX) == 1
        await region.mark_delete_up_to(1, 1)
        await region.clean()
        assert await payloads(region.read(MAX)) == [largest]

    async def test_sequences_ascend_whatever_is_moved_marked_and_cleaned_meanwhile(self, opened: Open) -> None:
        region = await opened()
        await region.write(1, numbered(1, 700))
        stop = asyncio.Event()
        seen = 0

        async def look() -> None:
            nonlocal seen
            while not stop.is_set():
                before = region.sequence_num(1)
                sequences = [sequence for table, sequence, _ in await rows(region.scan(wanted=lambda table: table == 1))]
                assert sequences == list(range(sequences[0], sequences[-1] + 1))
                assert sequences[-1] >= before
                assert [sequence for _, sequence, _ in await rows(region.read(1))][-1] >= sequences[-1]
                seen += 1

        looking = asyncio.create_task(look())
        for turn in range(3):
            await asyncio.gather(region.move(1), *(region.write(1, [b"y"]) for _ in range(20)), region.mark_delete_up_to(1, 10 * turn))
            await region.snapshot()
        stop.set()
        await looking
        assert seen
        assert [sequence for _, sequence, _ in await rows(region.scan())] == list(range(21, 761))

    async def test_snapshots_that_are_gone_are_told_and_the_loss_is_accepted_once(
        self, opened: Open, log: Log, topics: RegionTopics
    ) -> None:
        region = await opened()
        for _ in range(5):
            await region.write(1, [b"x"])
            await region.write(2, [b"y"])
        await region.mark_delete_up_to(1, 5)
        await region.mark_delete_up_to(2, 3)
        assert (await region.clean()).removed
        await region.close()
        log.claim(topics.meta, 0, part=PART).delete_before(log.bounds(topics.meta, 0).end)
        with pytest.raises(MetaLost, match="table 2 from 4 on"):
            await opened()
        region = await opened(accept_loss=True)
        assert await rows(region.read(2)) == [(2, 4, b"y"), (2, 5, b"y")]
        assert (await region.write(1, [b"z"]), await region.write(2, [b"z"])) == (6, 6)
        await region.close()
        region = await opened()
        assert (region.sequence_num(1), region.sequence_num(2), region.recovered.problems) == (6, 6, [])

    async def test_a_log_that_is_older_than_its_snapshots_is_told(self, opened: Open, log: Log, topics: RegionTopics) -> None:
        """As where the data topic was restored from a backup, or made anew, and the meta topic was not."""
        region = await opened()
        for _ in range(5):
            await region.write(1, [b"x"])
        await region.close_gracefully()
        log.delete_topic(topics.data, part=PART)
        with pytest.raises(Conflict, match="its log is lost"):
            create_region(log, topics)
        log.create_topic(topics.data, part=PART)
        with pytest.raises(Damaged, match="it is newer"):
            await opened()
