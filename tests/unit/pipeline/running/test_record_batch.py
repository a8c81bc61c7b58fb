"""The records of a range before and after they become messages, whichever way they take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Rejected
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import CLAIM, EPOCH, LENT, mark
from headwater.log.record import Mode
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.id_hash import id_hash
from headwater.pipeline.message import Op
from headwater.pipeline.running.record_batch import RecordBatch, bucket_of, counts
from headwater.pipeline.running.work import HASH, SinkWork
from headwater.pipeline.sink_adaptor import Part

FEW, MANY = 5, 40  # read as records, and as columns


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        yield log


def work(namespace: str = ".*", **more: Any) -> SinkWork:
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("s", file("out.jsonl"), namespace=namespace)
    return SinkWork(pipeline="p", topic="t", sink=pipeline.sinks["s"], epoch=0, **more)


def fill(log: Log, count: int, **fields: Any) -> None:
    log.append("t", 0, [Record(b"a" if n % 2 else b"b", b'{"_id":%d}' % n, timestamp=n, **fields) for n in range(count)])


def ids(batch: RecordBatch, **more: Any) -> list[Any]:
    return [one.data["_id"] for one in batch.messages(**more)]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_messages_are_of_the_sink_s_namespaces_and_carry_their_place(log: Log, count: int) -> None:
    fill(log, count, mode=Mode.SYNC, op=Op.UPDATE)
    batch = RecordBatch(log, work("^a$", ids={"a": ("_id", "x")}), 0, count)
    messages = batch.messages()
    assert [one.offset for one in messages] == list(range(1, count, 2))
    assert {(one.namespace, one.op, one.mode, one.id_fields) for one in messages} == {("a", Op.UPDATE, Mode.SYNC, ("_id", "x"))}
    assert messages[0].timestamp == 1
    assert batch.last() == {"a": count - 1 if count % 2 == 0 else count - 2, "b": count - 1 if count % 2 else count - 2}
    assert ids(batch, leave_out={1}) == list(range(3, count, 2))


@pytest.mark.parametrize("count", [FEW, MANY])
def test_text_is_given_where_nothing_has_to_be_looked_at(log: Log, count: int) -> None:
    fill(log, count)
    log.append("t", 0, [Record(b"a", b"{}", mode=Mode.COMPLETE, op=Op.NOOP)])  # a mark counts, and is not given
    assert RecordBatch(log, work(), 0, count + 1).text() == [b'{"_id":%d}' % n for n in range(count)]
    assert RecordBatch(log, work(edits={2: {"_id": "new"}}), 0, count).text() is None
    assert RecordBatch(log, work(edits={count: {}}), 0, count).text() is not None  # of another batch
    log.append("t", 0, [Record(b"a", b'{"_id":0}', op=Op.DELETE)] * count)
    assert RecordBatch(log, work(), count + 1, 2 * count + 1).text() is None


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_corrected_copy_is_given_in_place_of_the_original_and_is_its_own(log: Log, count: int) -> None:
    fill(log, count)
    edit = {"_id": "new", "list": [1]}
    batch = RecordBatch(log, work(edits={2: edit}), 0, count)
    given = batch.messages()[2]
    assert given.data == edit
    given.data["list"].append(2)  # what a function does with it
    assert batch.messages()[2].data == edit


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("bad", [Record(b"a", b"[1]"), Record(b"a", b"{}", headers=(("unreadable", b"line 3 is cut"),))])
def test_one_that_is_no_document_is_told_by_its_offset(log: Log, count: int, bad: Record) -> None:
    fill(log, count)
    log.append("t", 0, [bad])
    batch = RecordBatch(log, work(), 0, count + 1)
    with pytest.raises(Rejected) as told:
        batch.messages()
    assert told.value.offset == count
    assert "headwater pipeline edit" in told.value.hint
    assert ids(batch, leave_out={count}) == list(range(count))


@pytest.mark.parametrize("count", [FEW, MANY])
def test_every_document_is_in_one_bucket_and_all_its_changes_with_it(log: Log, count: int) -> None:
    log.append("t", 0, [Record(b"a", b'{"_id":%d,"n":%d}' % (n % 4, n), mode=Mode.SYNC) for n in range(count)])
    found = [
        ids(RecordBatch(log, work(), 0, count, part=Part(pipeline="p", sink="s", start=0, end=count, bucket=bucket, buckets=3)))
        for bucket in range(3)
    ]
    assert sum(map(len, found)) == count
    assert all(not set(one) & set(other) for one in found for other in found if one is not other)


@pytest.mark.parametrize("stored", [True, False])
def test_a_key_that_changes_into_an_equal_one_stays_in_its_bucket(log: Log, stored: bool) -> None:
    """As by UPDATE t SET id = UPPER(id) where case makes no difference: in changes, and in a copy whose ids are shared without a hash."""
    keys = ["kéy 1", "KÉY 1", "key 1  ", "KEY 01"]
    headers = [((HASH, id_hash(key).to_bytes(4, "big")),) if stored else () for key in keys]
    log.append("t", 0, [Record(b"a", json.dumps({"_id": key}).encode(), own) for key, own in zip(keys, headers, strict=True)])
    parts = [Part(pipeline="p", sink="s", start=0, end=len(keys), bucket=bucket, buckets=7) for bucket in range(7)]
    found = [ids(RecordBatch(log, work(), 0, len(keys), part=part)) for part in parts]
    assert [some for some in found if some] == [keys]


def test_a_batch_ends_where_it_would_hold_too_much_and_always_at_the_same_place(log: Log) -> None:
    fill(log, MANY)
    size = len(b'{"_id":0}')
    for end in (MANY, FEW + 3):
        batch = RecordBatch(log, work(), 0, end, most=3 * size)
        assert batch.end == 3
        assert ids(batch) == [0, 1, 2]
        assert RecordBatch(log, work(), 0, end, most=1).end == 1  # one at least


def test_records_that_a_shut_out_run_wrote_do_not_count() -> None:
    assert counts({}, 5, ((2, 3),))
    old: dict[str, bytes | None] = {EPOCH: mark(1)}
    assert counts(old, 2, ((2, 3),))  # before the newer claim
    assert not counts(old, 3, ((2, 3),))
    assert counts({EPOCH: mark(2)}, 3, ((2, 3),))
    assert not counts({CLAIM: mark(2)}, 3, ())  # a claim is no message


def test_records_of_tasks_count_where_the_run_has_taken_their_work() -> None:
    lent: dict[str, bytes | None] = {LENT: mark(2)}
    assert [counts(lent, offset, ((2, 0),), ((3, 5), (8, 9))) for offset in (2, 3, 4, 5, 8)] == [False, True, True, False, True]
    assert counts({EPOCH: mark(2)}, 2, ((2, 0),), ())  # the run's own
    assert counts(lent, 2, ((2, 0),))  # whoever has not asked the run takes all of them
    assert not counts(lent, 3, ((4, 3),), ((3, 5),))  # a newer run has claimed the log


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_batch_holds_the_records_of_tasks_whose_work_was_taken(log: Log, count: int) -> None:
    fill(log, count, headers=((LENT, mark(1)),))
    whole = RecordBatch(log, work(lent=((0, count),), claims=((1, 0),)), 0, count)
    assert ids(whole) == list(range(count))
    assert whole.text() == [b'{"_id":%d}' % n for n in range(count)]
    part = RecordBatch(log, work(lent=((0, 2), (3, count)), claims=((1, 0),)), 0, count)
    assert ids(part) == [n for n in range(count) if n != 2]
    assert part.text() is None
    assert ids(RecordBatch(log, work(lent=((0, 1), (1, count)), claims=((1, 0),)), 0, count)) == list(range(count))
    assert ids(RecordBatch(log, work(lent=((0, count),), claims=((1, 0), (2, 3))), 0, count)) == [0, 1, 2]


def test_the_bucket_is_that_of_the_stored_hash_or_of_the_id() -> None:
    data = json.dumps({"_id": 7}).encode()
    assert bucket_of({}, data, ("_id",), 5) == id_hash(7) % 5
    assert bucket_of({"hash": (13).to_bytes(4, "big")}, data, ("_id",), 5) == 13 % 5
    assert bucket_of({}, b"{", ("_id",), 5) == 0
    assert id_hash({"a": 1, "b": 2}) == id_hash({"b": 2, "a": 1})
