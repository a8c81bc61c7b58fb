from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from quick_spark import quick
from tests.unit.wal.conftest import TOPICS, OpenRegion

import headwater
from headwater.core.errors import BadBounds, BadInput, Conflict, OffsetGone, RegionNotFound, Unsupported
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import CLAIM, EPOCH, epoch_at, mark
from headwater.log.record import Record, TopicSettings
from headwater.spark.requests import read_options
from headwater.spark.tables import find_any_table, find_table
from headwater.wal.layout import EMPTY, RecordKind, encode_key, encode_payloads
from headwater.wal.region import Region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import PART
from headwater.wal.settings import RegionSettings
from headwater.wal.spark_tables import OPTIONS, LiveEntries, RegionRecords, region_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX = 2**64 - 1
LIVE = """\
root
 |-- table: decimal(20,0) (nullable = false)
 |-- sequence: long (nullable = false)
 |-- offset: long (nullable = false)
 |-- timestamp: timestamp (nullable = false)
 |-- payload: binary (nullable = false)
"""
LOG = """\
root
 |-- kind: string (nullable = false)
 |-- table: decimal(20,0) (nullable = true)
 |-- sequence: long (nullable = true)
 |-- offset: long (nullable = false)
 |-- timestamp: timestamp (nullable = false)
 |-- payload: binary (nullable = true)
 |-- epoch: decimal(20,0) (nullable = true)
"""


def live(log: EmbeddedLog, split: int = 500_000, **options: str) -> list[tuple[int, int, bytes]]:
    """What the table of the region gives, part by part: table, sequence and payload."""
    table = region_table("wal/7", options)
    assert isinstance(table, LiveEntries)
    return [row for part in table.plan(log, split) for row in part_rows(table, log, part)]


def part_rows(table: LiveEntries, log: EmbeddedLog, part: Any) -> list[tuple[int, int, bytes]]:
    found = []
    for columns in table.rows(log, part, table.schema.names):
        assert list(columns) == table.schema.names
        cells = (columns[name].to_pylist() for name in ("table", "sequence", "payload"))
        found += [(int(number), sequence, payload) for number, sequence, payload in zip(*cells, strict=True)]
    return found


def recorded(log: EmbeddedLog, **options: str) -> list[dict[str, Any]]:
    """The rows of the view `log`."""
    table = region_table("7", {"view": "log", **options})
    assert isinstance(table, RegionRecords)
    rows = []
    for batch in log.scan(table.topic, 0, 0):
        made = table.rows(0, batch, table.schema.names)
        rows += [dict(zip(made, cells, strict=True)) for cells in zip(*(made[name].to_pylist() for name in made), strict=True)]
    return rows


@pytest.fixture
async def region(opened: OpenRegion) -> Region:
    """Table 1: two of three payloads are flushed. Table 2^64-1: one payload. Table 5 is dropped."""
    region = await opened()
    await region.write(1, [b"a", b"b"])
    await region.write(1, [b"c"])
    await region.write(5, [b"gone"])
    await region.write(MAX, [b"far"])
    await region.mark_delete_up_to(1, 2)
    await region.drop_table(5)
    return region


@pytest.mark.anyio
class TestLive:
    async def test_what_is_not_flushed_in_the_order_of_the_log(self, log: EmbeddedLog, region: Region) -> None:
        assert live(log) == [(1, 3, b"c"), (MAX, 1, b"far")]
        assert live(log) == [(entry.table, entry.sequence, entry.payload) async for entry in region.scan()]

    async def test_options_choose_tables_and_sequences(self, log: EmbeddedLog, region: Region) -> None:
        await region.write(9, [b"%d" % number for number in range(1, 11)])
        assert live(log, table=str(MAX)) == [(MAX, 1, b"far")]
        assert live(log, table="1, 9", fromSequence="3", toSequence="4") == [(1, 3, b"c"), (9, 3, b"3"), (9, 4, b"4")]
        assert live(log, table="9", fromSequence="10") == [(9, 10, b"10")]
        assert live(log, table="77") == live(log, fromSequence="11", toSequence=str(MAX)) == []

    async def test_many_rows_are_for_several_tasks(self, log: EmbeddedLog, region: Region) -> None:
        await region.write(9, [b"%d" % number for number in range(1, 101)])
        table = region_table("7", {"table": "9"})
        assert isinstance(table, LiveEntries)
        parts = table.plan(log, 30)
        assert [len(part.places) for part in parts] == [30, 30, 30, 10]
        assert [sequence for part in parts for _, sequence, _ in part_rows(table, log, part)] == list(range(1, 101))

    async def test_payloads_are_moved_while_they_are_read(self, log: EmbeddedLog, region: Region) -> None:
        table = region_table("7", {})
        assert isinstance(table, LiveEntries)
        (part,) = table.plan(log, 100)
        await region.move(1)
        assert part_rows(table, log, part) == [(1, 3, b"c"), (MAX, 1, b"far")]
        assert live(log) == [(MAX, 1, b"far"), (1, 3, b"c")]

    async def test_payloads_that_are_cleaned_while_they_are_read_are_told(self, log: EmbeddedLog, region: Region) -> None:
        table = region_table("7", {})
        assert isinstance(table, LiveEntries)
        (part,) = table.plan(log, 100)
        await region.mark_delete_up_to(1, 3)
        await region.clean()
        with pytest.raises(OffsetGone, match="was cleaned while it was read"):
            part_rows(table, log, part)
        assert live(log) == [(MAX, 1, b"far")]

    async def test_beside_an_owner_that_never_rests_it_is_whole_or_told(self, log: EmbeddedLog, opened: OpenRegion) -> None:
        """Everything that was acknowledged before a read, and not marked by its end, is in it."""
        region, written, marked, going = await opened(), dict.fromkeys(range(3), 0), dict.fromkeys(range(3), 0), True

        async def owner() -> None:
            for turn in itertools.count():
                table = turn % 3
                last = await region.write(table, [b"%d %d" % (table, written[table] + 1 + place) for place in range(5)])
                written[table] = last
                if turn % 4 == 0:
                    marked[table] = last - 3
                    await region.mark_delete_up_to(table, last - 3)
                if turn % 7 == 0:
                    await region.move(table)
                    await region.clean()
                if not going:
                    return

        working, whole = asyncio.create_task(owner()), 0
        for _ in range(500):
            if whole == 10:
                break
            known = dict(written)
            try:
                rows = {(table, sequence): payload for table, sequence, payload in await asyncio.to_thread(live, log)}
            except OffsetGone:
                continue
            whole += 1
            assert all(payload == b"%d %d" % place for place, payload in rows.items())
            missing = [(t, n) for t in known for n in range(marked[t] + 1, known[t] + 1) if (t, n) not in rows]
            assert missing == []
        going = False
        await working
        assert whole == 10

    async def test_a_region_that_was_made_anew_is_told(self, log: EmbeddedLog, region: Region) -> None:
        table = region_table("7", {})
        assert isinstance(table, LiveEntries)
        (part,) = table.plan(log, 100)
        await region.close()
        for topic in (TOPICS.data, TOPICS.meta):
            log.delete_topic(topic, part=PART)
        create_region(log, TOPICS, TopicSettings(segment=4096))
        with pytest.raises(Conflict, match="deleted and created again"):
            part_rows(table, log, part)

    async def test_large_payloads_are_read_few_at_a_time(
        self, log: EmbeddedLog, opened: OpenRegion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headwater.wal.spark_tables._BYTES", 1000)
        region = await opened()
        for _ in range(40):
            await region.write(1, [bytes(99)])
        table = region_table("7", {})
        assert isinstance(table, LiveEntries)
        (part,) = table.plan(log, 100)
        sizes = [len(columns["payload"]) for columns in table.rows(log, part, ["payload"])]
        assert sum(sizes) == 40
        assert len(sizes) > 2
        assert max(sizes) <= 16

    def test_an_empty_region_has_no_tasks(self, log: EmbeddedLog) -> None:
        assert live(log) == []


@pytest.mark.anyio
class TestLog:
    async def test_every_record_with_its_kind(self, log: EmbeddedLog, region: Region) -> None:
        await region.move(1)
        rows = [(row["kind"], row["table"], row["sequence"], row["payload"]) for row in recorded(log)]
        assert rows == [
            ("entry", Decimal(1), 1, b"a"),
            ("entry", Decimal(1), 2, b"b"),
            ("entry", Decimal(1), 3, b"c"),
            ("entry", Decimal(5), 1, b"gone"),
            ("entry", Decimal(MAX), 1, b"far"),
            ("mark", Decimal(1), 2, None),
            ("drop", Decimal(5), 1, None),
            ("move", Decimal(1), 3, b"c"),
        ]
        assert [row["offset"] for row in recorded(log)][:3] == [0, 0, 1]

    async def test_options_choose_tables_and_sequences(self, log: EmbeddedLog, region: Region) -> None:
        assert [row["kind"] for row in recorded(log, table="1")] == ["entry", "entry", "entry", "mark"]
        assert [(row["kind"], row["sequence"]) for row in recorded(log, table="1", fromSequence="2")] == [
            ("entry", 2),
            ("entry", 3),
            ("mark", 2),
        ]

    async def test_what_no_owner_wrote_is_shown_as_such(self, log: EmbeddedLog) -> None:
        """As on Kafka, where claims are records, and where anybody may write."""
        epoch = mark(epoch_at(0, "a topic"))
        forged = encode_key(RecordKind.ENTRY, 7, 1, MAX)
        log.append(
            TOPICS.data,
            0,
            [
                Record(None, None, headers=((CLAIM, epoch),)),
                Record(encode_key(RecordKind.ENTRY, 7, 1, 1), encode_payloads([b"a"]), headers=((EPOCH, epoch),)),
                Record(forged, EMPTY),
                Record(encode_key(RecordKind.ENTRY, 8, 1, 1), EMPTY),
                Record(b"key", b"value"),
            ],
            part=PART,
        )
        rows = [(row["kind"], row["table"], row["epoch"]) for row in recorded(log)]
        number = Decimal(epoch_at(0, "a topic"))
        assert rows == [("claim", None, number), ("entry", Decimal(1), number), ("other", None, None)] + [("other", None, None)] * 2
        assert [row["kind"] for row in recorded(log, table="1")] == ["entry"]
        assert [row["kind"] for row in recorded(log, fromSequence="1")] == ["entry"]


class TestOptions:
    def test_a_view_is_one_of_two(self) -> None:
        assert isinstance(find_any_table("wal:7", {}), LiveEntries)
        assert isinstance(find_table("wal:manifest/7", {"VIEW": "log"}), RegionRecords)
        with pytest.raises(BadInput, match="no view 'all'"):
            region_table("7", {"view": "all"})

    @pytest.mark.parametrize("given", ["x", "", "1,", "-1", "1.5", str(2**64)])
    def test_what_is_no_table_is_refused(self, given: str) -> None:
        with pytest.raises(BadInput, match="table"):
            region_table("7", {"table": given})

    @pytest.mark.parametrize(
        "given",
        [{"fromSequence": "x"}, {"toSequence": "-1"}, {"fromSequence": "5", "toSequence": "4"}, {"toSequence": str(2**64)}],
    )
    def test_bounds_are_checked_whatever_the_table_holds(self, given: dict[str, str]) -> None:
        with pytest.raises(BadBounds):
            region_table("7", given)

    def test_offsets_do_not_choose_what_is_live(self) -> None:
        request = read_options({"path": "wal:7", "data": "d", "table": "1", "splitRecords": "5"}, OPTIONS)
        assert request.check_planned().split == 5
        with pytest.raises(BadInput, match="no offsets, partitions and times"):
            read_options({"path": "wal:7", "data": "d", "startOffset": "1"}, OPTIONS).check_planned()
        with pytest.raises(BadInput, match="no option 'fromsequense'") as raised:
            read_options({"path": "wal:7", "data": "d", "fromsequense": "1"}, OPTIONS)
        assert raised.value.hint == "Did you mean fromSequence?"

    def test_what_is_live_cannot_be_streamed(self, tmp_path: Path) -> None:
        from headwater.spark.source import Source

        live, records = (Source({"path": "wal:7", "data": str(tmp_path), "view": view}) for view in ("live", "log"))
        with pytest.raises(Unsupported, match="cannot be streamed: what is live now is not what was live before") as raised:
            live.streamReader(from_arrow_schema(LiveEntries.schema))
        assert '.option("view", "log")' in (raised.value.hint or "")
        records.streamReader(from_arrow_schema(RegionRecords.schema))

    def test_an_unknown_region_is_told(self, log: EmbeddedLog) -> None:
        for options in ({}, {"view": "log"}):
            with pytest.raises(RegionNotFound, match="no region wal/8"):
                region_table("8", options).check(log)  # type: ignore[attr-defined]

    def test_columns_and_options_are_documented(self) -> None:
        page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark.md").read_text("utf-8")
        section = page.split("### `wal:NAMESPACE/REGION`\n", 1)[1].split("\n## ", 1)[0]
        cells = re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE)
        columns = {field.name: field.dataType.simpleString() for field in from_arrow_schema(RegionRecords.schema)}
        assert dict(cells[: len(columns)]) == columns
        assert [name for name, _ in cells[len(columns) :]] == list(OPTIONS)
        assert set(LiveEntries.schema.names) == columns.keys() - {"kind", "epoch"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from headwater.spark import session

    started = session(quick(), archive="use")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Region wal/7: table 1 has 100 payloads, of which 40 are flushed; table 2^64-1 has one."""
    data = tmp_path_factory.mktemp("regions")
    with headwater.open_blocking(data) as hw:
        region = hw.wal("wal").open(7, create=RegionSettings(segment="4KiB"))
        for first in range(0, 100, 10):
            region.write(1, [b"%d" % number for number in range(first + 1, first + 11)])
        region.write(MAX, [b"far"])
        region.mark_delete_up_to(1, 40)
    return data


@pytest.mark.spark
class TestSpark:
    def frame(self, spark: SparkSession, data: Path, target: str = "wal:7", **options: str) -> DataFrame:
        return spark.read.format("headwater").option("data", str(data)).options(**options).load(target)

    def test_the_schemas_are_frozen(self, spark: SparkSession, data: Path) -> None:
        assert self.frame(spark, data)._jdf.schema().treeString() == LIVE
        assert self.frame(spark, data, view="log")._jdf.schema().treeString() == LOG

    def test_live_payloads_of_the_chosen_tables(self, spark: SparkSession, data: Path) -> None:
        frame = self.frame(spark, data, "wal:wal/7", splitRecords="25")
        rows = sorted((row["table"], row["sequence"], bytes(row["payload"])) for row in frame.collect())
        assert rows == [(Decimal(1), number, b"%d" % number) for number in range(41, 101)] + [(Decimal(MAX), 1, b"far")]
        assert frame.rdd.getNumPartitions() == 3
        assert frame.where(f"table = {MAX}").count() == 1
        assert self.frame(spark, data, table="1", fromSequence="90", toSequence="95").count() == 6

    def test_a_filter_leaves_no_trace_in_the_frame(self, spark: SparkSession, data: Path) -> None:
        frame = self.frame(spark, data)
        assert (frame.where("sequence = 41").count(), frame.where("sequence = 42").count(), frame.count()) == (1, 1, 61)

    def test_the_log_as_rows_and_as_a_stream(self, spark: SparkSession, data: Path, tmp_path: Path) -> None:
        kinds = {row["kind"]: row["count"] for row in self.frame(spark, data, view="log").groupBy("kind").count().collect()}
        assert kinds == {"entry": 101, "mark": 1}
        stream = spark.readStream.format("headwater").option("data", str(data)).option("view", "log").load("wal:7")
        copy = (
            stream.writeStream.format("parquet").option("path", str(tmp_path / "copy")).option("checkpointLocation", str(tmp_path / "at"))
        )
        copy.trigger(availableNow=True).start().awaitTermination()
        assert spark.read.parquet(str(tmp_path / "copy")).where("kind = 'entry'").count() == 101

    def test_a_queue_its_dead_list_and_its_history(self, spark: SparkSession, tmp_path: Path) -> None:
        with headwater.open_blocking(tmp_path, create=True) as hw:
            pages = hw.queue("pages", create=True).open()
            pages.put_many([("a", 1), ("b", 2), ("c", 3)])
            first, second = pages.claim(2, wait="0s")
            first.done()
            second.fail("no such page", give_up=True)
        found = {view: self.frame(spark, tmp_path, "queue:pages", view=view).collect() for view in ("rows", "dead", "history")}
        assert [(bytes(row["key"]), bytes(row["data"])) for row in found["rows"]] == [(b"c", b"3")]
        assert [(bytes(row["key"]), row["error"]) for row in found["dead"]] == [(b"b", "no such page")]
        assert [row["change"] for row in found["history"]] == ["insert"] * 3 + ["claim"] * 2 + ["done", "dead"]

    def test_a_misspelt_region_and_option_are_told_by_load(self, spark: SparkSession, data: Path) -> None:
        with pytest.raises(Exception, match="There is no region wal/77"):
            self.frame(spark, data, "wal:77")
        with pytest.raises(Exception, match="Did you mean fromSequence"):
            self.frame(spark, data, fromSequense="1")

    def test_a_clean_in_the_midst_of_it_is_never_fewer_rows(self, spark: SparkSession, tmp_path: Path) -> None:
        with headwater.open_blocking(tmp_path) as hw:
            region = hw.wal("wal").open(7, create=RegionSettings(segment="4KiB"))
            last = region.write(1, [bytes(100)] * 100)
            frame = self.frame(spark, tmp_path)
            assert frame.count() == 100  # and with this, where they lie is planned
            region.mark_delete_up_to(1, last)
            region.clean()
            with pytest.raises(Exception, match="was cleaned while it was read"):
                frame.count()
            assert self.frame(spark, tmp_path).count() == 0
