"""The two workers of a task that evaluates `sql(...)`. Spark's part between them is played by hand: no session is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline, sql
from headwater.pipeline.adaptors import file
from headwater.pipeline.message import Op
from headwater.pipeline.running.sql_job import SqlJob, SqlPartDelivery
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part
from headwater.pipeline.transforms.sql import Sql
from headwater.pipeline.transforms.sql_plan import SqlPlan

COUNT = 25
Rows = Iterator[pa.RecordBatch]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"in", b'{"_id":%d,"price":%d}' % (n, n)) for n in range(COUNT)])
        yield log


def job(log: Log, folder: Path, *, batch: int = 10, where: str | None = None, out: str = "out.jsonl") -> SqlJob:
    """`SELECT *, price * 2 AS twice`, as the driver plans it."""
    transform = sql("*, price * 2 AS twice", where=where)
    assert isinstance(transform, Sql)
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).transform(transform).save("out", file(f"{folder}/{out}"))
    plan = SqlPlan(
        transform=transform,
        fixed=None,
        columns=pa.schema([("price", pa.int64())]),
        needed=frozenset({"price"}),
        made=("twice",),
        was=(),
        stays=None,
        gone=frozenset(),
    )
    return SqlJob(
        address=log.address,
        work=SinkWork(pipeline="p", topic="t", sink=pipeline.sinks["out"], epoch=0),
        parts=(Part(pipeline="p", sink="out", start=0, end=COUNT, attempt="a"),),
        batch=batch,
        namespace="in",
        plan=plan,
        before=(),
        behind=(),
    )


def evaluated(given: Rows) -> Rows:
    """What Spark makes of the rows that the first worker gives."""
    for rows in given:
        made = [rows.column(0), rows.column(1), rows.column(2), pc.multiply(rows.column("price"), 2)]
        yield pa.RecordBatch.from_arrays(made, names=["number", "mark", "message", "twice"])


def run(log: Log, made: SqlJob, change: Callable[[Rows], Rows] = lambda rows: rows) -> tuple[Outcome, list[dict[str, int]]]:
    numbers = [pa.RecordBatch.from_pydict({"number": [0]})]
    part, adaptor = made.parts[0], made.work.sink.adaptor
    adaptor.begin("p", "out", 0)
    writer = adaptor.writer(part)
    try:
        outcome = SqlPartDelivery(made, log, part, writer, rows=change(evaluated(made.given(numbers)))).run()
        if outcome.receipt:
            adaptor.publish(part, outcome.receipt)
    finally:
        writer.close()
    path = Path(str(adaptor.uri))  # type: ignore[attr-defined]
    return outcome, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wanted(end: int) -> list[dict[str, int]]:
    return [{"_id": n, "price": n, "twice": 2 * n} for n in range(end)]


def test_what_spark_makes_is_put_into_the_documents(log: Log, tmp_path: Path) -> None:
    outcome, written = run(log, job(log, tmp_path))
    assert (outcome.acked, outcome.stop, outcome.failure, outcome.written) == (COUNT, None, None, COUNT)
    assert written == wanted(COUNT)


def test_batches_are_found_again_however_spark_cuts_them(log: Log, tmp_path: Path) -> None:
    def cut(rows: Rows) -> Rows:
        whole = pa.Table.from_batches(list(rows)).combine_chunks().to_batches()[0]
        for at in range(0, len(whole), 7):
            yield whole.slice(at, 7)

    assert run(log, job(log, tmp_path), cut)[1] == wanted(COUNT)


def test_rows_that_a_condition_leaves_out_count_as_taken(log: Log, tmp_path: Path) -> None:
    def even(rows: Rows) -> Rows:
        for batch in rows:
            marks = pc.is_valid(batch.column(1))
            yield batch.filter(pc.or_(marks, pc.equal(pc.bit_wise_and(batch.column(0), 1), 0)))

    outcome, written = run(log, job(log, tmp_path, where="price is not null"), even)
    assert outcome.acked == COUNT
    assert [one["_id"] for one in written] == [n for first in (0, 10, 20) for n in range(first, min(first + 10, COUNT), 2)]


@pytest.mark.parametrize("how", ["broken off", "rows missing", "out of order"])
def test_what_is_not_whole_is_left_to_the_driver(log: Log, tmp_path: Path, how: str) -> None:
    def spoiled(rows: Rows) -> Rows:
        yield next(rows)
        second = next(rows)
        match how:
            case "broken off":
                yield second.slice(0, 5)
            case "rows missing":
                yield second.slice(3)
            case "out of order":
                yield second.take(pa.array([1, 0, *range(2, len(second))]))

    outcome, written = run(log, job(log, tmp_path), spoiled)
    assert outcome.stop is not None
    assert (outcome.acked, outcome.failure) == (10, None)
    assert written == wanted(10)


def test_documents_of_other_types_end_the_part_and_tell_their_types(log: Log, tmp_path: Path) -> None:
    log.append("t", 0, [Record(b"in", b'{"_id":%d,"price":1.5}' % COUNT)])
    made = job(log, tmp_path)
    part = Part(pipeline="p", sink="out", start=0, end=COUNT + 1, attempt="a")
    outcome, written = run(log, SqlJob(**{**vars(made), "parts": (part,)}))
    assert outcome.stop is not None
    assert pa.ipc.read_schema(pa.py_buffer(outcome.stop.columns)).field("price").type == pa.decimal128(12, 2)
    assert outcome.acked == 20  # the batch in which it stands goes another way
    assert written == wanted(20)


def test_a_command_is_nothing_for_a_table(log: Log, tmp_path: Path) -> None:
    log.append("t", 0, [Record(b"in", b"{}", op=Op.COMMAND)])
    part = Part(pipeline="p", sink="out", start=0, end=COUNT + 1, attempt="a")
    outcome, _ = run(log, SqlJob(**{**vars(job(log, tmp_path)), "parts": (part,)}))
    assert outcome.stop is not None
    assert "commands" in outcome.stop.reason


def test_floats_that_spark_makes_are_floats_of_a_table_and_plain_numbers_of_text(log: Log, tmp_path: Path) -> None:
    def halves(rows: Rows) -> Rows:
        for batch in rows:
            yield batch.set_column(3, "twice", pc.divide(batch.column(3).cast(pa.float64()), 2.0))

    run(log, job(log, tmp_path), halves)
    assert (tmp_path / "out.jsonl").read_text().startswith('{"_id":0,"price":0,"twice":0.0}\n{"_id":1,"price":1,"twice":1.0}\n')
    table = job(log, tmp_path, out="out.parquet")
    numbers = [pa.RecordBatch.from_pydict({"number": [0]})]
    adaptor, part = table.work.sink.adaptor, table.parts[0]
    adaptor.begin("p", "out", 0)
    writer = adaptor.writer(part)
    outcome = SqlPartDelivery(table, log, part, writer, rows=halves(evaluated(table.given(numbers)))).run()
    [path] = outcome.receipt["files"]
    assert pq.read_schema(path).field("twice").type == pa.float64()
    assert pq.read_table(path).column("twice").to_pylist() == [float(n) for n in range(COUNT)]
    writer.close()
