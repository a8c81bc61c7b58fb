"""Topics of a headwater log as source and sink."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from headwater_ground import ALL, changes, run, write

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor, headwater
from headwater.core.errors import BadConfig, Differs, OffsetGone
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.pipeline import values
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.ownership import PART as OWNER
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.source_progress import CopySize, SourceProgress

# -- json -----------------------------------------------------------------------------------------------------


def test_a_value_is_a_document_and_the_key_its_id_where_it_has_none(topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(
        Record(None, b'{"_id":1,"n":12345678901234567890,"d":1.10}', timestamp=5_000),
        Record(b"ann", b'{"n":1}'),
        Record(b"7", b'{"n":2}', op=5),  # what somebody else means by a number there is not an op of ours
        Record(b"x", b'{"_id":null}'),
        Record(None, b"{}"),
    )
    found, bad, _ = changes(adaptor)
    assert [one.data for one in found] == [
        values.decode(b'{"_id":1,"n":12345678901234567890,"d":1.10}'),
        {"n": 1, "_id": "ann"},
        {"n": 2, "_id": 7},
        {"_id": None},
        {},
    ]
    assert bad == {}
    assert {one.op for one in found} == {Op.INSERT}
    assert (found[0].namespace, found[0].timestamp) == ("orders", 5_000)


def test_a_key_changes_no_field_that_the_value_has(topic: Callable[..., HeadwaterAdaptor]) -> None:
    found, _, _ = changes(topic(Record(b'{"region":"north","shelf":3}', b'{"region":"south","n":1}')))
    assert [one.data for one in found] == [{"region": "south", "n": 1, "shelf": 3}]


def test_a_null_value_is_a_delete_of_what_the_key_names(topic: Callable[..., HeadwaterAdaptor]) -> None:
    plain, _, _ = changes(topic(Record(b"a-7", None), Record(b"7", None), Record(b'{"region":1,"id":2}', None)))
    assert [(one.op, one.data) for one in plain] == [
        (Op.DELETE, {"_id": "a-7"}),
        (Op.DELETE, {"_id": 7}),
        (Op.DELETE, {"region": 1, "id": 2}),
    ]


def test_an_id_of_several_fields_is_a_list_in_the_key(topic: Callable[..., HeadwaterAdaptor]) -> None:
    found, bad, _ = changes(topic(Record(b'[1,"b"]', None), Record(b'[1,"b"]', b'{"n":1}'), Record(b"x", None), id=("region", "name")))
    assert [one.data for one in found] == [{"region": 1, "name": "b"}, {"n": 1, "region": 1, "name": "b"}, {}]
    assert sorted(bad) == [2]


def test_what_does_not_decode_is_marked_with_its_place(topic: Callable[..., HeadwaterAdaptor]) -> None:
    found, bad, _ = changes(topic(Record(b"1", b'{"n":1}'), Record(b"2", b"no json \xff"), Record(b"3", b"[1]"), Record(None, None)))
    assert sorted(bad) == [1, 2, 3]
    assert bad[1].startswith("Offset 1 of orders, partition 0: This is no JSON object")
    assert found[1].data == {"value": "no json \\xff"}
    assert "neither a value nor a key" in bad[3]


# -- following and copying ------------------------------------------------------------------------------------


def test_following_goes_on_behind_the_cursor_in_every_partition(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(partitions=3)
    for number in range(3):
        log.append("orders", number, [Record(None, b'{"p":%d,"n":%d}' % (number, n)) for n in range(3)])
    first, _, cursor = changes(adaptor)
    assert [[one.data["n"] for one in first if one.data["p"] == number] for number in range(3)] == [[0, 1, 2]] * 3
    assert {one.mode for one in first} == {Mode.SYNC}
    log.append("orders", 1, [Record(None, b'{"p":1,"n":3}')])
    later, _, cursor = changes(adaptor, cursor)
    assert [one.data for one in later] == [{"p": 1, "n": 3}]
    assert changes(adaptor, cursor)[0] == []


def test_following_ends_when_told_and_gives_what_comes(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic()
    seen: list[int] = []
    for piece in adaptor.follow(adaptor.plan(ALL, 1).cursor, ALL, lambda: len(seen) >= 2):
        if not piece.messages and not seen:
            log.append("orders", 0, [Record(None, b'{"n":1}'), Record(None, b'{"n":2}')])
        seen.extend(one.data["n"] for one in piece.messages)
    assert seen == [1, 2]


def test_only_a_copy_is_cut_and_what_comes_later_is_left_to_following(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(*[Record(None, b'{"n":%d}' % n) for n in range(10)], partitions=2, copy=True)
    plan = adaptor.plan(ALL, 3)
    assert not plan.repeats  # slices of a partition are read side by side
    assert adaptor.plan(ALL, 1).repeats
    assert [(one.spec["partition"], one.spec["begin"], one.spec["end"]) for one in plan.slices] == [(0, 0, 4), (0, 4, 8), (0, 8, 10)]
    log.append("orders", 1, [Record(None, b'{"n":10}')])
    copied = [message.data["n"] for one in plan.slices for piece in adaptor.read(one, None) for message in piece.messages]
    assert copied == list(range(10))
    assert [one.data for one in changes(adaptor, plan.cursor)[0]] == [{"n": 10}]
    assert msgspec.structs.replace(adaptor, copy=False).plan(ALL, 3).slices == ()  # in order, all as changes


def test_large_records_come_in_pieces(topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(*[Record(None, b'{"n":%d,"text":"%b"}' % (n, b"x" * 1_000_000)) for n in range(12)], tail=False)
    (one,) = adaptor.plan(ALL, 1).slices
    pieces = list(adaptor.read(one, None))
    assert len(pieces) > 2
    assert all(len(piece.messages) <= 8 for piece in pieces)
    rest = [message.data["n"] for piece in adaptor.read(one, pieces[0].position) for message in piece.messages]
    assert rest == list(range(len(pieces[0].messages), 12))


def test_a_topic_that_was_made_anew_is_another(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(Record(None, b"{}"), Record(None, b"{}"), copy=True)
    plan = adaptor.plan(ALL, 1)
    assert adaptor.same(plan, ALL)
    log.delete_topic("orders")
    assert not adaptor.same(plan, ALL)
    topic(Record(None, b"{}"))
    assert not adaptor.same(plan, ALL)
    with pytest.raises(Differs, match="made anew"):
        changes(adaptor, plan.cursor)
    with pytest.raises(Differs, match="made anew"):
        list(adaptor.read(plan.slices[0], None))


def test_a_topic_that_was_restored_from_an_older_copy_and_has_grown_since_is_told(tmp_path: Path) -> None:
    data, older = tmp_path / "of-the-topic", tmp_path / "older"
    adaptor = headwater(str(data), topic="orders")

    def grown(*times: int) -> None:
        with EmbeddedLog(data) as log:
            log.append("orders", 0, [Record(None, b'{"at":%d}' % at, timestamp=at) for at in times])

    with EmbeddedLog(data) as log:
        log.create_topic("orders")
    grown(1)
    shutil.copytree(data, older)
    grown(2, 3)
    found, _, cursor = changes(adaptor)
    assert [one.data["at"] for one in found] == [1, 2, 3]
    shutil.rmtree(data)
    shutil.copytree(older, data)
    with pytest.raises(Differs, match="has read more than that"):
        changes(adaptor, cursor)
    grown(4, 5)
    with pytest.raises(Differs, match="Record 2 of orders 0 is not the one that the pipeline has read"):
        changes(adaptor, cursor)
    grown(6)
    with pytest.raises(Differs, match="restored from an older copy"):
        changes(adaptor, cursor)


def test_what_was_deleted_before_it_was_read_is_an_error(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    small = TopicSettings(segment=1)
    adaptor = topic(settings=small, copy=True)
    for n in range(4):
        log.append("orders", 0, [Record(None, b'{"n":%d}' % n)])
    plan = adaptor.plan(ALL, 1)
    log.delete_before("orders", 0, 2)
    with pytest.raises(Differs, match="The copy needs them"):
        list(adaptor.read(plan.slices[0], None))
    with pytest.raises(OffsetGone):
        changes(adaptor, {"generation": plan.identity["generation"], "at": {"0": [0, 0]}})
    assert [one.data for one in changes(adaptor, {"generation": plan.identity["generation"], "at": {"0": [2, 0]}})[0]] == [
        {"n": 2},
        {"n": 3},
    ]


def test_a_topic_that_was_compacted_has_the_last_of_each_key(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(settings=TopicSettings(segment=1), tail=False)
    for n in range(6):
        log.append("orders", 0, [Record(b"k", b'{"n":%d}' % n)])
    log.compact("orders", 0)
    found = [message.data["n"] for one in adaptor.plan(ALL, 3).slices for piece in adaptor.read(one, None) for message in piece.messages]
    assert found == [4, 5]  # the last of the closed segments, and the open one
    assert [one.data["n"] for one in changes(msgspec.structs.replace(adaptor, tail=True))[0]] == [4, 5]


# -- bytes ----------------------------------------------------------------------------------------------------


def test_bytes_are_copied_to_another_topic_as_they_are(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor], tmp_path: Path) -> None:
    given = [
        Record(b"\x00\xff", b"\xfe{", (("h", b"\x01"), ("n", None), ("h", b"2")), 1_700_000_000_123, mode=2, op=6),
        Record(None, b"text", timestamp=9),
        Record(b"gone", None, timestamp=0),
    ]
    source = topic(*given, partitions=2, format="bytes")
    log.append("orders", 1, [Record(b"k", b"v", timestamp=1)])
    found, bad, _ = changes(source)
    assert bad == {}
    assert values.native(found[0].data["key"]) == b"\x00\xff"
    assert values.native(found[0].data["timestamp"]).timestamp() == 1_700_000_000.123
    assert (found[0].data["partition"], found[3].data["partition"], found[2].data["offset"]) == (0, 1, 2)
    sink = headwater(str(tmp_path / "other"), topic="copy", format="bytes", partitions=2)
    for at, one in enumerate(found):
        one.offset = at
        one.data = values.decode(values.encode(one.data))
    write(sink, *found)
    with EmbeddedLog(tmp_path / "other", read_only=True) as other:
        for number in range(2):
            assert other.read("copy", number, 0) == log.read("orders", number, 0)


# -- the log of another pipeline ------------------------------------------------------------------------------


def shop(folder: Path) -> Pipeline:
    (folder / "orders.jsonl").write_text('{"no":1,"n":1}\nno json\n{"no":2,"n":2}\n')
    pipeline = Pipeline("shop")
    pipeline.source("in", file(str(folder / "orders.jsonl"), id="no")).save("out", file(f"{folder}/out/"))
    return pipeline


def test_a_pipeline_reads_the_log_of_another(log: EmbeddedLog, tmp_path: Path) -> None:
    run(shop(tmp_path), log)
    assert log.bounds("pipeline-shop", 0).end == 4  # two documents, one that is none, and the word that the copy is complete
    chained = headwater(str(tmp_path / "data"), topic="pipeline-shop", format="message")
    found, bad, _ = changes(chained)
    assert [(one.namespace, one.op, one.id) for one in found if one.id] == [("orders", Op.INSERT, 1), ("orders", Op.INSERT, 2)]
    assert list(bad) == [1]
    assert "Offset 1 of pipeline-shop" in bad[1]
    assert chained.plan(ALL, 1).ids == {"orders": ("no",)}  # as the other pipeline's source has said
    assert changes(chained, chosen=Namespaces("^other$"))[0] == []
    below = Pipeline("below")
    below.source("log", chained).save("table", sqlite(str(tmp_path / "t.db"), table="t"))
    assert run(below, log).state == "stopped"  # at the poison record, which is seen here as well
    assert "Offset 1 of pipeline-shop" in str(PipelineOperations(log, "below").sink("table").failure)
    PipelineOperations(log, "below", who="ann").edit(1, {"no": 9, "n": 9}, why="it was no document")
    assert run(below, log).state == "done"
    with closing(sqlite3.connect(tmp_path / "t.db")) as db, db:
        assert db.execute("select no, n from t order by no").fetchall() == [(1, 1), (2, 2), (9, 9)]


def test_ops_and_timestamps_of_messages_are_kept(log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("pipeline-p", part=OWNER)
    log.append(
        "pipeline-p",
        0,
        [
            Record(b"a", b'{"_id":1}', timestamp=5, mode=Mode.SYNC, op=Op.UPDATE),
            Record(b"b", b'{"_id":2}', timestamp=6, mode=Mode.SYNC, op=Op.DELETE),
            Record(b"b", b"{}", mode=Mode.COMPLETE, op=Op.NOOP),
            Record(b"b", b'{"drop":"t"}', timestamp=7, mode=Mode.SYNC, op=Op.COMMAND),
        ],
        part=OWNER,
    )
    for options in ({}, {"tail": False}):
        adaptor = headwater(str(tmp_path / "data"), topic="pipeline-p", format="message", **options)
        plan = adaptor.plan(ALL, 2)
        found = [one for two in plan.slices for piece in adaptor.read(two, None) for one in piece.messages] or changes(adaptor)[0]
        assert [(one.namespace, one.op, one.timestamp) for one in found] == [("a", 1, 5), ("b", 2, 6), ("b", 3, 7)]


def test_messages_that_compaction_took_before_they_were_read_are_missed(log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("pipeline-p", settings=TopicSettings(segment=1), part=OWNER)
    for n in range(6):
        log.append("pipeline-p", 0, [Record(b"a", b'{"_id":%d}' % n)], part=OWNER)
    adaptor = headwater(str(tmp_path / "data"), topic="pipeline-p", format="message")
    plan = adaptor.plan(ALL, 1)
    log.compact("pipeline-p", 0, part=OWNER)
    with pytest.raises(OffsetGone, match="messages 0 to 3") as gone:
        changes(adaptor, plan.cursor)
    assert "compacted=True" in gone.value.hint
    with pytest.raises(Differs, match="messages 0 to 3"):
        copy = msgspec.structs.replace(adaptor, tail=False)
        list(copy.read(copy.plan(ALL, 1).slices[0], None))
    assert [one.data["_id"] for one in changes(msgspec.structs.replace(adaptor, compacted=True), plan.cursor)[0]] == [4, 5]


# -- formats of others ----------------------------------------------------------------------------------------

PART = """
import pyarrow as pa
from headwater.core.errors import BadInput
from headwater.spark.tables import SparkTable

class Ledger(SparkTable):
    schema = pa.schema([("seq", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    def __init__(self, name, options):
        self.topic = "ledger-" + name
    def rows(self, partition, batch, wanted):
        texts = batch.column("value").to_pylist()
        if b"rotten" in texts:
            raise BadInput("A rotten event.")
        numbers = [int(one) for one in texts for _ in range(2)]
        return {"seq": pa.array(numbers, pa.int64()), "at": pa.array(numbers, pa.timestamp("ms", "UTC"))}
"""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package, as it would be installed, that registers a table under the scheme `ledger`."""
    (tmp_path / "its_ledger.py").write_text(PART)
    info = tmp_path / "its_ledger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: its-ledger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headwater.spark.tables]\nledger = its_ledger:Ledger\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("ledger")
def test_a_table_that_a_part_registers_is_a_format(log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("ledger-bank")
    log.append("ledger-bank", 0, [Record(None, b"1"), Record(None, b"rotten", (("h", b""),)), Record(None, b"2")])
    adaptor = headwater(str(tmp_path / "data"), topic="bank", format="ledger", id="seq")
    found, bad, _ = changes(adaptor)
    assert [one.data.get("seq") for one in found] == [1, 1, None, 2, 2]
    assert found[0].data["at"] == {"$date": "1970-01-01T00:00:00.001Z"}
    assert (found[0].namespace, found[0].id) == ("bank", 1)
    assert bad == {2: "Offset 1 of ledger-bank, partition 0: A rotten event."}
    with pytest.raises(BadConfig, match="can only be read"):
        adaptor.check("sink", ALL)


# -- how much there is to read --------------------------------------------------------------------------------


def test_a_topic_is_measured_by_its_offsets_from_its_beginning_on(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(*(Record(None, b'{"_id":%d}' % n) for n in range(10)), partitions=2, tail=False)
    log.append("orders", 1, [Record(None, b"{}")])
    log.delete_before("orders", 0, 4)
    plan = adaptor.plan(ALL, 2)
    assert plan.size == CopySize(total=7, unit="offsets")
    assert [one.size for one in plan.slices] == [4, 2, 1]
    assert [[piece.amount for piece in adaptor.read(part, None)][-1] for part in plan.slices] == [4, 2, 1]
    [again] = adaptor.read(plan.slices[0], [6, 0])
    assert again.amount == 4


def test_what_compaction_took_is_read(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(settings=TopicSettings(segment=4096), tail=False)
    for n in range(6):
        log.append("orders", 0, [Record(b"k", b'{"_id":%d,"x":"%s"}' % (n, b"x" * 4096))])
    log.compact("orders", 0, 6)
    plan = adaptor.plan(ALL, 1)
    assert plan.size == CopySize(total=6, unit="offsets")
    [part] = plan.slices
    pieces = list(adaptor.read(part, None))
    assert sum(len(one.messages) for one in pieces) < 6
    assert pieces[-1].amount == 6


def test_changes_are_measured_by_those_that_were_there_at_the_beginning(
    log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor], tmp_path: Path
) -> None:
    adaptor = topic(*(Record(None, b'{"_id":%d}' % n) for n in range(10)))
    log.delete_before("orders", 0, 4)
    pipeline = Pipeline("p")
    pipeline.source("s", adaptor).save("out", file(str(tmp_path / "o.jsonl")))
    size = CopySize(total=6, unit="offsets")
    assert adaptor.plan(ALL, 1).size == size
    for _ in range(2):
        run(pipeline, log)
        assert PipelineOperations(log, "p").status().progress == SourceProgress.of(size, 6)
        log.append("orders", 0, [Record(None, b"{}")])  # not of the size that was told


def test_changes_behind_a_copy_are_not_measured(topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(Record(None, b"{}"), copy=True)
    cursor = adaptor.plan(ALL, 1).cursor
    assert next(iter(adaptor.follow(cursor, ALL, lambda: False))).amount is None
