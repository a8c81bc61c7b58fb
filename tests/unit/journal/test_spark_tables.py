from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.core.errors import BadBounds, BadInput, LogGap, UnknownJournal, UnreadableRecord
from headwater.core.settings import Settings
from headwater.journal.action import Append, Delete, Events, Mark, PayloadMetadata, Purge
from headwater.journal.control import ControlLog, Quarantine
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.partition import JournalPartition
from headwater.journal.places import places_of
from headwater.journal.range_fold import fold_batches
from headwater.journal.read import JournalRead
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import JournalSettings
from headwater.journal.spark_tables import OPTIONS, JournalActions, JournalEvents, JournalHeads, journal_table
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.wire import write_record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock

TOPIC = "journal-bank"
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
EVENTS = """\
root
 |-- id: string (nullable = false)
 |-- seq_nr: long (nullable = false)
 |-- payload: binary (nullable = true)
 |-- payload_type: string (nullable = true)
 |-- tags: array (nullable = false)
 |    |-- element: string (containsNull = true)
 |-- timestamp: timestamp (nullable = false)
 |-- partition: integer (nullable = false)
 |-- offset: long (nullable = false)
 |-- origin: string (nullable = true)
 |-- version: string (nullable = true)
 |-- metadata: string (nullable = true)
 |-- header_metadata: string (nullable = true)
 |-- headers: map (nullable = false)
 |    |-- key: string
 |    |-- value: string (valueContainsNull = true)
 |-- encrypted: boolean (nullable = false)
"""
HEADS = """\
root
 |-- id: string (nullable = false)
 |-- seq_nr: long (nullable = false)
 |-- delete_to: long (nullable = false)
 |-- partition: integer (nullable = false)
 |-- offset: long (nullable = false)
 |-- created: timestamp (nullable = false)
 |-- updated: timestamp (nullable = false)
 |-- expire_after: long (nullable = true)
 |-- expire_on: date (nullable = true)
 |-- record_id: string (nullable = true)
 |-- origin: string (nullable = true)
"""
ACTIONS = """\
root
 |-- id: string (nullable = true)
 |-- action: string (nullable = false)
 |-- first: long (nullable = true)
 |-- last: long (nullable = true)
 |-- to: long (nullable = true)
 |-- mark: string (nullable = true)
 |-- timestamp: timestamp (nullable = false)
 |-- partition: integer (nullable = false)
 |-- offset: long (nullable = false)
 |-- origin: string (nullable = true)
 |-- version: string (nullable = true)
 |-- header_metadata: string (nullable = true)
 |-- headers: map (nullable = false)
 |    |-- key: string
 |    |-- value: string (valueContainsNull = true)
 |-- problem: string (nullable = false)
"""


def append(id: str, first: int, *payloads: str, headers: tuple[tuple[str, str], ...] = (), about: PayloadMetadata | None = None) -> Record:
    events = [NumberedEvent(first + at, Payload(PayloadKind.JSON, text.encode()), ("a",)) for at, text in enumerate(payloads)]
    body = Events(tuple(events), about or PayloadMetadata())
    kind, value = encode_events(body.events, body.metadata)
    return write_record(id, Append(first, events[-1].seq_nr, kind, "here", "1"), value=value, headers=headers)


class Ground:
    """A topic of one partition, and the store beside its log."""

    def __init__(self, log: EmbeddedLog, folder: Path) -> None:
        self.log = log
        self.address = store_address_of(Settings(), folder)
        self.generation = log.create_topic(TOPIC, partitions=1, part="journal").generation

    def write(self, *records: Record) -> None:
        self.log.append(TOPIC, 0, records, part="journal")

    def copy(self, end: int) -> None:
        """Copy the records up to an offset, as the replicator does."""
        with open_store(self.address) as store:
            copy = store.partition(TOPIC, 0, self.generation)
            assert copy is not None
            start = copy.pointer().offset + 1
            batches = self.log.scan(TOPIC, 0, start, end)
            folded = fold_batches(topic=TOPIC, partition=0, generation=self.generation, start=start, end=end, batches=batches)
            copy.apply(folded.change)

    def read(self, **options: str) -> list[dict[str, Any]]:
        table = journal_table("bank", options)
        found: list[dict[str, Any]] = []
        if isinstance(table, JournalActions):
            for batch in self.log.scan(TOPIC, 0, 0, self.log.bounds(TOPIC, 0).end):
                found += _dicts(table.rows(0, batch, table.schema.names))
            return found
        assert isinstance(table, JournalEvents | JournalHeads)
        made = pickle.loads(pickle.dumps(table))  # as tasks get it
        for part in table.plan(self.log, 500_000):
            for columns in made.rows(self.log, pickle.loads(pickle.dumps(part)), table.schema.names):
                found += _dicts(columns)
        return found


def _dicts(columns: Any) -> list[dict[str, Any]]:
    cells = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells]


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.chdir(tmp_path)  # a headwater.toml of the developer's does not count
    with EmbeddedLog(tmp_path / "data", clock=ManualClock()) as log:
        yield Ground(log, tmp_path / "data")


def _history(ground: Ground) -> None:
    ground.write(
        append("alice", 1, '{"eur":1}', "2"),
        append("bob", 1, '"x"', headers=(("trace", "7"),), about=PayloadMetadata(86_400_000, b'{"by":"me"}')),
        write_record("alice", Mark("m")),
        append("alice", 3, "3"),
        write_record("alice", Delete(1)),
        append("carol", 1, "1"),
        write_record("carol", Purge()),
        append("dave", 5, "5"),
    )


@pytest.mark.parametrize("copied", range(9))
def test_events_are_the_same_whatever_is_copied(ground: Ground, copied: int) -> None:
    _history(ground)
    if copied:
        ground.copy(copied)
    rows = ground.read()
    found = sorted((row["id"], row["seq_nr"], row["payload"]) for row in rows)
    assert found == [("alice", 2, b"2"), ("alice", 3, b"3"), ("bob", 1, b'"x"'), ("dave", 5, b"5")]
    (bob,) = (row for row in rows if row["id"] == "bob")
    assert (bob["headers"], bob["metadata"], bob["tags"], bob["payload_type"]) == ([("trace", "7")], '{"by":"me"}', ["a"], "json")
    assert (bob["offset"], bob["timestamp"], bob["origin"], bob["version"]) == (1, NOW, "here", "1")
    heads = {row["id"]: row for row in ground.read(view="heads")}
    assert {id: (row["seq_nr"], row["delete_to"]) for id, row in heads.items()} == {"alice": (3, 1), "bob": (1, 0), "dave": (5, 4)}
    assert (heads["bob"]["expire_after"], heads["bob"]["expire_on"]) == (86_400_000, date(2023, 11, 15))
    assert heads["alice"]["created"] == NOW


@pytest.mark.parametrize("seed", range(40))
def test_the_table_has_what_reads_give(ground: Ground, seed: int) -> None:
    """Also where other writers give the events of an Append in any order, above the number that its head names."""
    random = Random(seed)
    records: list[Record] = []
    for _ in range(random.randrange(1, 14)):
        id, kind, first = random.choice("ab"), random.random(), random.randrange(1, 8)
        if kind < 0.7:
            body = [first] if kind < 0.3 else random.sample(range(1, 12), random.randrange(1, 4))
            events = [NumberedEvent(number, Payload(PayloadKind.JSON, b"%d" % len(records))) for number in body]
            payload_type, value = encode_events(events)
            records.append(write_record(id, Append(body[0], body[-1] if body[-1] >= body[0] else body[0], payload_type), value=value))
        else:
            records.append(write_record(id, random.choice([Delete(first), Delete(first), Purge(), Mark("m")])))
    ground.write(*records)
    copied = random.randrange(len(records) + 1)
    if copied:
        ground.copy(copied)
    with open_store(ground.address) as store:
        partition = JournalPartition(ground.log, lambda: store, ground.log.topic(TOPIC), 0, settings=JournalSettings())
        for id in "ab":
            wanted = [(row.seq_nr, row.offset) for row in JournalRead(partition, id, end=len(records)).page()]
            for options in ({}, {"id": id}):
                found = [(row["seq_nr"], row["offset"]) for row in ground.read(**options) if row["id"] == id]
                assert found == wanted, (options, records, copied)
            head = partition.full_head(id, len(records))
            for options in ({"view": "heads"}, {"view": "heads", "id": id}):
                assert [row["seq_nr"] for row in ground.read(**options) if row["id"] == id] == ([] if head is None else [head.last])


def test_options_choose_a_journal_and_events(ground: Ground) -> None:
    _history(ground)
    assert [row["seq_nr"] for row in ground.read(id="alice")] == [2, 3]
    assert [row["seq_nr"] for row in ground.read(id="alice", fromSeqNr="3")] == [3]
    assert [row["seq_nr"] for row in ground.read(id="alice", toseqnr="2")] == [2]
    assert ground.read(id="alice", toSeqNr="1") == []
    assert ground.read(id="nobody") == []
    assert [row["id"] for row in ground.read(id="bob", view="heads")] == ["bob"]
    assert [row["action"] for row in ground.read(id="carol", view="actions")] == ["append", "purge"]


def test_an_unreadable_record_fails_the_read_until_it_is_quarantined(ground: Ground) -> None:
    _history(ground)
    ground.write(Record(b"eve", b"", (("journal.action", b"{"),)), append("frank", 1, "1"))
    with pytest.raises(UnreadableRecord):
        ground.read()
    ControlLog(ground.log, TOPIC).append(Quarantine(generation=ground.generation, partition=0, offset=8, error="x", why="y"))
    assert [row["id"] for row in ground.read(id="frank")] == ["frank"]


def test_a_record_of_another_journal_keeps_nobody_from_reading_one(ground: Ground) -> None:
    _history(ground)
    ground.write(Record(b"eve", b"", (("journal.action", b"{"),)))
    assert [row["seq_nr"] for row in ground.read(id="alice")] == [2, 3]
    assert [row["seq_nr"] for row in ground.read(id="alice", view="heads")] == [3]
    with pytest.raises(UnreadableRecord):
        ground.read(id="eve")


@pytest.mark.parametrize("copied", [False, True])
def test_a_journal_of_a_topic_that_grew_is_read_in_each_of_its_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    counts = (2, 4)
    moved = [name for name in map(str, range(300)) if len(places_of(name.encode(), counts)) == 2]
    id, only, before = [name for name in moved if places_of(name.encode(), counts) == places_of(moved[0].encode(), counts)][:3]
    old, new = places_of(id.encode(), counts)
    with EmbeddedLog(tmp_path / "data", clock=ManualClock()) as log:
        generation = log.create_topic(TOPIC, partitions=4, part="journal").generation
        log.append(TOPIC, old, [append(id, 1, "1", "2"), append(id, 3, "3")], part="journal")
        log.append(TOPIC, new, [append(id, 4, "4"), write_record(id, Delete(1))], part="journal")
        address = store_address_of(Settings(), tmp_path / "data")
        if copied:
            with open_store(address) as store:
                for place in (old, new):
                    task = PartitionTask(topic=TOPIC, partition=place, generation=generation, end=2, counts=counts)
                    assert copy_partition(log, store, task).problem is None

        def read(**options: str) -> list[Any]:
            table = journal_table("bank", {"id": id, **options})
            assert isinstance(table, JournalEvents | JournalHeads)
            parts = [msgspec.structs.replace(part, counts=counts) for part in table.plan(log, 500_000)]
            assert [part.partition for part in parts] == [new]
            return [row["seq_nr"] for part in parts for columns in table.rows(log, part, table.schema.names) for row in _dicts(columns)]

        assert read() == [2, 3, 4]
        assert read(fromSeqNr="3", toSeqNr="3") == [3]
        assert read(view="heads") == [4]
        log.append(TOPIC, new, [append(only, 7, "7"), append("other", 1, "1")], part="journal")
        log.append(TOPIC, old, [append(before, 8, "8")], part="journal")

        def read_all(**options: str) -> list[tuple[str, int]]:
            table = journal_table("bank", options)
            assert isinstance(table, JournalEvents | JournalHeads)
            parts = [msgspec.structs.replace(part, counts=counts) for part in table.plan(log, 500_000)]
            return sorted(
                (row["id"], row["seq_nr"])
                for part in parts
                for columns in table.rows(log, part, table.schema.names)
                for row in _dicts(columns)
            )

        more = sorted([("other", 1), (before, 8), (only, 7)])
        assert read_all() == sorted([*more, (id, 2), (id, 3), (id, 4)])
        assert read_all(view="heads") == sorted([*more, (id, 4)])
        log.append(TOPIC, new, [write_record(id, Purge())], part="journal")
        assert read_all() == read_all(view="heads") == more


def test_a_log_that_begins_behind_the_copy_is_told(ground: Ground) -> None:
    _history(ground)
    ground.write(append("alice", 4, "4"))
    ground.log.delete_before(TOPIC, 0, 8, part="journal")
    with pytest.raises(LogGap, match="begins at offset 8"):
        ground.read()


def test_options_that_do_not_fit_are_refused(ground: Ground) -> None:
    with pytest.raises(BadInput, match="no view 'rows'"):
        journal_table("bank", {"view": "rows"})
    with pytest.raises(BadBounds, match="wrong way round"):
        journal_table("bank", {"fromSeqNr": "5", "toSeqNr": "2"})
    with pytest.raises(BadBounds, match="does not fit the option fromSeqNr"):
        journal_table("bank", {"fromSeqNr": "x"})
    with pytest.raises(BadInput, match="0 is no number"):
        journal_table("bank", {"fromSeqNr": "0"})
    with pytest.raises(BadInput, match="no events to choose"):
        journal_table("bank", {"view": "heads", "toSeqNr": "2"})
    with pytest.raises(BadInput):
        journal_table("bank", {"id": ""})
    for view in ("events", "actions"):
        table = journal_table("bnak", {"view": view})
        assert isinstance(table, JournalEvents | JournalActions)
        with pytest.raises(UnknownJournal, match="journal-bnak"):
            table.check(ground.log)


def test_the_schemas_are_frozen() -> None:
    assert from_arrow_schema(JournalEvents.schema).treeString() == EVENTS
    assert from_arrow_schema(JournalHeads.schema).treeString() == HEADS
    assert from_arrow_schema(JournalActions.schema).treeString() == ACTIONS


def test_columns_and_options_are_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark.md").read_text("utf-8")
    section = page.split("### `journal:TOPIC`\n", 1)[1].split("\n### ", 1)[0]
    tables = [
        re.findall(r"^\| `(\w+)` \| (.+?) \|", part, re.MULTILINE) for part in re.split(r"^\| .*\|\n\|---", section, flags=re.MULTILINE)
    ]
    for cells, kind in ((tables[1], JournalEvents), (tables[3], JournalHeads), (tables[4], JournalActions)):
        assert dict(cells) == {field.name: field.dataType.simpleString() for field in from_arrow_schema(kind.schema)}
    assert [name for name, _ in tables[2]] == list(OPTIONS)
