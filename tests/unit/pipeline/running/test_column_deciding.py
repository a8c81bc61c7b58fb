"""Columns of tables over a whole run: decided by a sample, the same in every part and after every restart, wider where it is told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ground import gone, piped, prepared
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.core.errors import Rejected, Stopped
from headwater.core.ids import random_id
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline import Message, Pipeline, python
from headwater.pipeline import values as json
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.columns import NeedsColumns
from headwater.pipeline.offsets.column_decision import ColumnDecision, decided
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo, from_record, to_record
from headwater.pipeline.operating.manual_delivery import ManualDelivery
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running.column_deciding import ColumnDeciding
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Part


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


def appended(log: Log, *documents: bytes) -> None:
    """Append documents as the newest run, which may go on."""
    topic = log_topic("p")
    writer = log.writer(topic, 0, log.epoch(topic, 0), generation=log.topic(topic).generation, part=PART)
    writer.append([Record(b"t", one) for one in documents])


def tables(folder: Path) -> Pipeline:
    return piped(folder, {"parts": file(f"{folder}/parts/", format="parquet"), "db": sqlite(str(folder / "o.db"))})


def schemas(folder: Path) -> list[pa.Schema]:
    return [pq.read_schema(one) for one in sorted((folder / "parts").glob("part-*"))]


def cells(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "o.db")) as db:
        return db.execute(query).fetchall()


def status(log: Log, sink: str) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(PipelineOperations(log, "p").offset(sink))
    return shown


def test_a_column_has_one_type_in_all_parts_and_after_a_restart(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"eur":1.25}', b'{"_id":2,"eur":1.20}', b'{"_id":3,"eur":1}', b'{"_id":4,"eur":1000.5}'], {})
    pipeline = tables(tmp_path)
    for number, more in enumerate([b"7", b"9999999999.10", b"0.30000000000000004"]):
        gone(log, tmp_path, pipeline)
        appended(log, b'{"_id":%d,"eur":%s}' % (10 + number, more))
    gone(log, tmp_path, pipeline)
    kinds = schemas(tmp_path)
    assert len(kinds) == 4
    assert {str(one.field("eur").type) for one in kinds} == {"decimal128(38, 18)"}
    assert cells(tmp_path, "select distinct typeof(eur) from t order by 1") == [("integer",), ("real",)]
    assert cells(tmp_path, "select max(eur), count(*) filter (where eur > 1000) from t") == [(9999999999.1, 2)]
    assert cells(tmp_path, "select type from pragma_table_info('t')") == [("INTEGER",), ("NUMERIC",)]
    for sink in ("parts", "db"):
        assert compare(PipelineOperations(log, "p"), pipeline, sink).equal


def test_the_sample_is_more_than_the_first_batch(log: Log, tmp_path: Path) -> None:
    prepared(log, [*(b'{"_id":%d,"n":1}' % n for n in range(50)), b'{"_id":50,"n":1.50}'], {})
    pipeline = Pipeline("p")
    (tmp_path / "empty.jsonl").touch()
    pipeline.source("s", file(str(tmp_path / "empty.jsonl"))).save("db", sqlite(str(tmp_path / "o.db")), batch=10)
    gone(log, tmp_path, pipeline)
    assert cells(tmp_path, "select type from pragma_table_info('t')") == [("INTEGER",), ("NUMERIC",)]
    assert status(log, "db")["columns"] == []
    assert status(log, "db")["tables"] == {"t": {"_id": "int", "n": "decimal"}}


def test_all_parts_of_a_folder_of_csv_have_one_header_to_which_columns_are_added(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"a":1}', b'{"_id":2,"b":"x","a":null}'], {})
    pipeline = piped(tmp_path, {"out": file(f"{tmp_path}/out/", format="csv")})
    for more in (b'{"b":"y","_id":3}', b'{"new":1,"_id":4}'):
        gone(log, tmp_path, pipeline)
        appended(log, more)
    gone(log, tmp_path, pipeline)
    parts = [one.read_text() for one in sorted((tmp_path / "out").glob("part-*"))]
    assert parts == ["_id,a,b\n1,1,\n2,,x\n", "_id,a,b\n3,,y\n", "_id,a,b,new\n4,,,1\n"]
    assert compare(PipelineOperations(log, "p"), pipeline, "out").equal


def test_a_table_that_comes_later_has_a_sample_of_its_own(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1}'], {})
    pipeline = Pipeline("p")
    pipeline.source("s", file(str(tmp_path / "empty.jsonl"))).save("db", sqlite(str(tmp_path / "o.db")), batch=1)
    (tmp_path / "empty.jsonl").touch()
    gone(log, tmp_path, pipeline)
    topic = log_topic("p")
    writer = log.writer(topic, 0, log.epoch(topic, 0), generation=log.topic(topic).generation, part=PART)
    writer.append([Record(b"u", b'{"_id":%d,"n":%s}' % (n, b"1.50" if n == 9 else b"1")) for n in range(10)])
    gone(log, tmp_path, pipeline)
    assert cells(tmp_path, "select type from pragma_table_info('u')") == [("INTEGER",), ("NUMERIC",)]
    assert status(log, "db")["columns"] == []


def test_a_column_of_integers_becomes_one_of_decimals_and_that_is_told(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"n":1}'], {})
    pipeline = tables(tmp_path)
    gone(log, tmp_path, pipeline)
    appended(log, b'{"_id":2,"n":2}', b'{"_id":3,"n":2.5,"late":"x"}')
    gone(log, tmp_path, pipeline)
    assert [str(one.field("n").type) for one in schemas(tmp_path)] == ["int64", "decimal128(38, 18)"]
    summary = pq.read_schema(tmp_path / "parts" / "_common_metadata")
    assert summary == schemas(tmp_path)[-1]
    [wider, late] = status(log, "parts")["columns"]
    assert (wider["before"], wider["after"], wider["offset"]) == ("int64", "decimal128(38, 18)", 2)
    assert (late["column"], late["before"]) == ("late", "")
    assert cells(tmp_path, "select max(n), sum(n) from t") == [(2.5, 5.5)]
    for sink in ("parts", "db"):
        assert compare(PipelineOperations(log, "p"), pipeline, sink).equal


def test_what_does_not_fit_is_a_poison_record_that_an_operator_corrects(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"n":1}'], {})
    pipeline = tables(tmp_path)
    gone(log, tmp_path, pipeline)
    appended(log, b'{"_id":2,"n":2}', b'{"_id":3,"n":"three"}', b'{"_id":4,"n":4}')
    result = gone(log, tmp_path, pipeline)
    for one, kind in zip(result.sinks, ("int64", "INTEGER"), strict=True):
        assert (one.position, one.failure and one.failure.offset) == (1, 2)
        assert one.failure is not None
        assert f'is {kind}, and the message has "three" (text) there' in one.failure.message
        assert "column n" in one.failure.message
    operations = PipelineOperations(log, "p")
    operations.edit(2, data={"_id": 3, "n": 3}, why="a number")
    assert [one.position for one in gone(log, tmp_path, pipeline).sinks] == [3, 3]
    assert cells(tmp_path, "select n from t order by 1") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("other", [b"1.0", b"true", b'"1"', b'{"$oid":"507f1f77bcf86cd799439011"}'])
def test_ids_of_several_types_are_never_one_row(log: Log, tmp_path: Path, other: bytes) -> None:
    prepared(log, [b'{"_id":1,"v":"first"}', b'{"_id":%s,"v":"second"}' % other], {})
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))})
    [sink] = gone(log, tmp_path, pipeline).sinks
    assert sink.failure is not None
    assert (sink.failure.offset, "The column _id of t is INTEGER" in sink.failure.message) == (1, True)
    assert cells(tmp_path, "select _id, v from t") == [(1, "first")]


def test_an_object_id_and_its_text_are_never_one_row(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":{"$oid":"507f1f77bcf86cd799439011"}}', b'{"_id":"507f1f77bcf86cd799439011"}'], {})
    [sink] = gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))})).sinks
    assert sink.failure is not None
    assert sink.failure.offset == 1


def test_a_delete_of_another_types_id_deletes_no_row(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1}'], {})
    log.claim(log_topic("p"), 0, part=PART).append([Record(b"t", b'{"_id":"1"}', op=2)])
    [sink] = gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))})).sinks
    assert sink.failure is not None
    assert cells(tmp_path, "select _id from t") == [(1,)]


def test_verify_tells_text_in_a_column_of_numbers(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"n":12.00}'], {})
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))})
    gone(log, tmp_path, pipeline)
    assert compare(PipelineOperations(log, "p"), pipeline, "db").equal
    with closing(sqlite3.connect(tmp_path / "o.db")) as db, db:
        db.execute("create table other (_id integer primary key, n)")
        db.execute("insert into other values (1, '12.00')")
        db.execute("drop table t")
        db.execute("alter table other rename to t")
    assert not compare(PipelineOperations(log, "p"), pipeline, "db").equal


def test_a_table_that_is_there_keeps_its_types(log: Log, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "o.db")) as db:
        db.execute("create table t (_id primary key, n)")
    prepared(log, [b'{"_id":1,"n":"x","new":1}', b'{"_id":2,"n":2,"new":2}'], {})
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))})
    gone(log, tmp_path, pipeline)
    assert cells(tmp_path, "select * from t order by 1") == [(1, "x", 1), (2, 2, 2)]
    assert status(log, "db")["tables"] == {"t": {"new": "int"}}


def test_a_replay_and_a_step_use_the_decision_and_extend_it(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"n":1}'], {})
    pipeline = tables(tmp_path)
    gone(log, tmp_path, pipeline)
    appended(log, b'{"_id":2,"n":2.5}', b'{"_id":3,"n":"x"}')
    settings = Settings(data=tmp_path / "data")
    operations = PipelineOperations(log, "p")
    assert ManualDelivery(operations, pipeline, "parts", settings).deliver_next(1) == 1
    outcome = ManualDelivery(operations, pipeline, "db", settings).send_again(0, 1)
    assert outcome is not None
    assert outcome.written == 2
    assert [one["column"] for one in status(log, "db")["columns"]] == ["n"]
    with pytest.raises(Stopped, match="The column n is decimal"):
        ManualDelivery(operations, pipeline, "parts", settings).deliver_next(1)


def test_a_sink_that_was_deleted_decides_anew(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":1,"n":1}', b'{"_id":2,"n":"x"}'], {})
    pipeline = piped(tmp_path, {"parts": file(f"{tmp_path}/parts/", format="parquet")})
    gone(log, tmp_path, pipeline)
    operations = PipelineOperations(log, "p")
    operations.control.change(lambda state: [("run", RunInfo(epoch=1, id="r", began=1, state="done"))])  # one without the sink
    operations.delete("parts", why="anew")
    operations.edit(0, data={"_id": 1, "n": "one"}, why="text")
    [sink] = gone(log, tmp_path, pipeline).sinks
    assert (sink.position, sink.failure) == (1, None)
    assert [str(one.field("n").type) for one in schemas(tmp_path)] == ["string"]


def test_a_document_that_is_nested_very_deep_ends_no_sink(log: Log, tmp_path: Path) -> None:
    """JSON text holds it; a table with a column for each field refuses it as any other message."""
    deep = b"[" * 900 + b"]" * 900
    prepared(log, [b'{"_id":1,"a":[[1]]}', b'{"_id":2,"a":%s}' % deep, b'{"_id":3,"a":{"b":%s}}' % deep, b'{"_id":4}'], {})
    pipeline = tables(tmp_path)
    [parts, db] = gone(log, tmp_path, pipeline).sinks
    assert db.failure is None
    assert cells(tmp_path, "select _id, length(a) from t") == [(1, 5), (2, 1800), (3, 1806), (4, None)]
    assert parts.failure is not None
    assert (parts.position, parts.failure.offset) == (0, 1)
    assert "The column a is list<" in parts.failure.message


def test_messages_that_a_transform_refuses_are_no_part_of_the_sample(log: Log, tmp_path: Path) -> None:
    def checked(message: Any) -> Any:
        if message.data["n"] == 2:
            raise ValueError("two")
        return message

    control = prepared(log, [b'{"_id":%d,"n":%d}' % (n, n) for n in range(4)], {})
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, transforms=[python(checked)])
    sink = pipeline.complete().sinks["db"]
    deciding = ColumnDeciding(control, sink, log)
    assert deciding.missing
    work = deciding.work(SinkWork.of(control, sink, 1), 0, 4)
    assert not deciding.missing
    assert control.state.columns["db"].sampled == 3
    assert work.columns is not None
    assert ColumnDeciding(Control(log, "p", control.clock), sink, log).work(SinkWork.of(control, sink, 1), 0, 4).columns == work.columns


_VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([Decimal("1.20"), Decimal("1.5"), Decimal("1e-7"), 2**62, 2**70, Decimal("0.10000000000000000001"), 1.0, -0.5, 1e300]),
    st.sampled_from([True, "1", "x", None, {"a": 1}, {"a": Decimal("1.5")}, [1], [Decimal("2.5")]]),
)
_CHUNKS = st.lists(st.lists(st.fixed_dictionaries({"v": _VALUES}), min_size=1, max_size=4), min_size=1, max_size=4)


def delivered(adaptor: CanWrite, decision: ColumnDecision, messages: list[Message]) -> tuple[ColumnDecision, set[int]]:
    """Deliver messages as a run does: parts end where columns are needed and at what is refused, which is left out."""
    rules = adaptor.column_rules()
    assert rules is not None
    refused: set[int] = set()
    at, end = messages[0].offset, messages[-1].offset + 1
    while at < end:
        part = Part(pipeline="p", sink="s", start=at, end=end, epoch=1, attempt=random_id(), columns=decision.tables)
        some = [one for one in messages if one.offset >= at]
        writer = adaptor.writer(part)
        try:
            try:
                writer.write(Batch(start=at, end=end, messages=some))
            except NeedsColumns as lacking:
                wider = decision.extended(lacking.needs, rules, at=0)
                assert wider != decision
                decision = wider
                continue
            except Rejected as no:
                if not no.untouched or "column v" not in no.message:
                    raise
                refused.add(no.offset)
                messages = [one for one in messages if one.offset != no.offset]
                at = at if any(at <= one.offset for one in messages) else end
                continue
            if receipt := writer.finish():
                adaptor.publish(part, receipt)
            at = end
        finally:
            writer.close()
    return decision, refused


@settings(max_examples=examples(20), deadline=None)
@given(chunks=_CHUNKS)
def test_any_sequence_of_parts_has_one_schema_and_no_changed_value(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[list[dict[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("columns")
    parts, table = file(f"{folder}/parts/", format="parquet"), sqlite(str(folder / "o.db"))
    documents = [{"_id": number, **one} for number, one in enumerate(one for chunk in chunks for one in chunk)]
    refused: dict[str, set[int]] = {"file": set(), "sqlite": set()}
    for adaptor in (parts, table):
        adaptor.begin("p", "s", 1)
        rules, decision, at = adaptor.column_rules(), ColumnDecision(), 0
        assert rules is not None
        for number, chunk in enumerate(chunks):
            messages = [Message("t", json.decode(json.encode(json.extended(documents[at + i]))), offset=at + i) for i in range(len(chunk))]
            if not number:
                decision = decided([(adaptor.place("t"), one) for one in messages], rules)
            decision, left_out = delivered(adaptor, decision, messages)
            stored = to_record("columns/s", decision, now=0)
            assert from_record(stored) == ("columns/s", decision)  # a restart has the same
            refused[adaptor.kind] |= left_out
            at += len(chunk)
    kinds = [str(one.field("v").type) for one in schemas(folder) if "v" in one.names]
    assert all(
        one == other or (one, other[:7]) == ("int64", "decimal") or one.startswith(("struct", "list<")) for one, other in pairwise(kinds)
    )
    held = {
        row["_id"]: row.get("v") for part in sorted((folder / "parts").glob("part-*")) for row in pq.ParquetFile(part).read().to_pylist()
    }
    assert held.keys() == set(range(len(documents))) - refused["file"]
    for key, value in held.items():
        assert same(value, documents[key]["v"]), (value, documents[key])
    rows = {row[0]: row[1] if row[1:] else None for row in cells(folder, "select * from t")}
    assert rows.keys() == set(range(len(documents))) - refused["sqlite"]
    for key, found in rows.items():
        wanted = documents[key]["v"]
        if isinstance(wanted, int | float | Decimal) and not isinstance(wanted, bool):
            assert Decimal(str(found)) == Decimal(str(wanted))
    wanted_rows = [table.stored(one) for one in documents if one["_id"] in rows]
    assert sorted(map(str, table.rows("t"))) == sorted(map(str, wanted_rows))


def same(held: Any, wanted: Any) -> bool:
    """Whether a table's value is the document's, and of its kind."""
    if isinstance(wanted, bool) or isinstance(held, bool) or wanted is None:
        return held is wanted
    if isinstance(wanted, int | float | Decimal):
        return isinstance(held, int | float | Decimal) and Decimal(str(held)) == Decimal(str(wanted))
    if isinstance(wanted, dict):
        return isinstance(held, dict) and all(same(held.get(name), one) for name, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(held, list) and len(held) == len(wanted) and all(map(same, held, wanted))
    return type(held) is type(wanted) and bool(held == wanted)
