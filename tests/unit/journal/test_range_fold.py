"""The fold of a range: equal to the model and to `HeadFold.then`, for every split, from records and from Arrow batches."""

from __future__ import annotations

import pickle
from collections.abc import Container, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.histories import Step, action_record, histories, log_record, modelled, timestamp_of

from headwater.core.errors import Differs
from headwater.journal.action import ActionRecord, Append, Delete, Mark, PayloadMetadata, Purge
from headwater.journal.change import EventRow, PartitionChange
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.head import EMPTY, Head, HeadFold, applied, fold_of
from headwater.journal.range_fold import FoldedRange, fold_batches, fold_range
from headwater.journal.wire import write_action, write_record
from headwater.log.arrow import SCHEMA
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import CLAIM, EPOCH, epoch_at, mark
from headwater.log.layout import encode_headers
from headwater.log.record import Record


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """The records as a scan gives them."""
    blocks = [encode_headers(record.headers) if record.headers else None for record in records]
    columns = [
        [record.offset for record in records],
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
        blocks,
        [record.mode for record in records],
        [record.op for record in records],
    ]
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def fold(records: Sequence[Record], *, start: int = 0, end: int | None = None, epoch: int = 0, skip: Container[int] = ()) -> FoldedRange:
    """Both folds of the records, which must agree."""
    until = start + len(records) if end is None else end
    found = fold_range(topic="journal-bank", partition=1, generation="g", start=start, end=until, records=records, epoch=epoch, skip=skip)
    middle = len(records) // 2
    batches = [batch_of(records[:middle]), batch_of(records[middle:])]
    also = fold_batches(topic="journal-bank", partition=1, generation="g", start=start, end=until, batches=batches, epoch=epoch, skip=skip)
    assert also.change == found.change
    assert str(also.poison) == str(found.poison)
    return found


def log_of(*steps: Step) -> list[Record]:
    return [log_record(step, offset) for offset, step in enumerate(steps)]


class MemoryStore:
    """Heads and rows of one partition, as a store keeps them."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}
        self.rows: dict[str, list[EventRow]] = {}

    def apply(self, change: PartitionChange) -> None:
        for journal in change.journals:
            head = applied(journal.fold, self.heads.get(journal.id), partition=1, generation="g", segment_size=10)
            before = [] if journal.fold.purged >= 0 else self.rows.pop(journal.id, [])
            self.heads.pop(journal.id, None)
            if head is not None:
                self.heads[journal.id] = head
                self.rows[journal.id] = [row for row in (*before, *journal.rows) if row.seq_nr > head.deleted]
            else:
                self.rows.pop(journal.id, None)


@given(histories, st.data())
def test_every_split_gives_the_model_s_heads_and_events(history: list[Step], data: st.DataObject) -> None:
    records = log_of(*history)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    split, whole = MemoryStore(), MemoryStore()
    whole.apply(fold(records).change)
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        split.apply(fold(records[start:end], start=start).change)
    assert split.heads == whole.heads
    assert split.rows == whole.rows
    model = modelled(history).journals
    assert set(whole.heads) == set(model)
    for id, journal in model.items():
        assert (whole.heads[id].seq_nr, whole.heads[id].deleted) == (journal.seq_nr, journal.delete_to)
        kept = [(row.seq_nr, row.offset) for row in whole.rows[id]]
        assert kept == [(number, offset) for number, offset in journal.events if number > journal.delete_to]
        assert sorted(dict(reversed(kept)).items()) == journal.visible("first")
        assert sorted(dict(kept).items()) == journal.visible("last")
        assert all(row.payload == Payload(PayloadKind.JSON, b'"%d:%d"' % (row.offset, row.seq_nr)) for row in whole.rows[id])
        if len(dict(kept)) < len(kept):
            with pytest.raises(Differs):
                journal.visible("fail")
        else:
            assert journal.visible("fail") == sorted(kept)


@given(histories, st.integers(0, 100))
def test_heads_are_those_that_joining_gives(history: list[Step], start: int) -> None:
    records = [log_record(step, start + place) for place, step in enumerate(history)]
    found = {journal.id: journal.fold for journal in fold(records, start=start).change.journals}
    for id in ("alice", "bob"):
        parts = [
            fold_of(action_record(step, start + place), step.expire_after if isinstance(step.action, Append) else None)
            for place, step in enumerate(history)
            if step.id == id
        ]
        joined = reduce(HeadFold.then, parts, EMPTY)
        assert found.get(id, EMPTY) == joined


def test_a_row_holds_what_its_record_says() -> None:
    events = [NumberedEvent(4, Payload(PayloadKind.BINARY, b"\x00"), ("a", "b")), NumberedEvent(5)]
    payload_type, body = encode_events(events, PayloadMetadata(86_400_000, b'{"x": 1.0}'))
    action = Append(4, 5, payload_type, "host", "0.1", b"7")
    record = msgspec.structs.replace(write_record("älice", action, value=body, headers=[("k", "v")], timestamp=99), offset=12)
    change = fold([record], start=12).change
    (journal,) = change.journals
    column = '{"header":{"data":7},"payload":{"expireAfter":"1 day","data":{"x": 1.0}}}'
    assert journal.id == "älice"
    assert journal.rows == (
        EventRow(4, 99, 1, 12, "host", "0.1", None, ("a", "b"), column, events[0].payload, (("k", "v"),)),
        EventRow(5, 99, 1, 12, "host", "0.1", None, (), column, None, (("k", "v"),)),
    )
    assert journal.fold == fold_of(ActionRecord("älice", action, 12, 99), 86_400_000)
    assert (change.start, change.end, change.timestamp, change.topic, change.generation) == (12, 13, 99, "journal-bank", "g")


def test_a_purge_drops_the_rows_before_it_and_a_delete_those_up_to_its_cap() -> None:
    steps = (Append(1, 5), Purge(), Append(1, 3), Delete(2), Append(4, 4), Mark("m"))
    (journal,) = fold(log_of(*[Step("alice", action) for action in steps])).change.journals
    assert [(row.seq_nr, row.offset) for row in journal.rows] == [(3, 2), (4, 4)]
    assert (journal.fold.purged, journal.fold.capped, journal.fold.offset) == (1, 2, 4)


def test_a_delete_that_the_store_has_to_cap_drops_no_rows() -> None:
    (journal,) = fold(log_of(Step("alice", Delete(9)), Step("alice", Append(3, 3)))).change.journals
    assert [row.seq_nr for row in journal.rows] == [3]
    assert (journal.fold.delete_to, journal.fold.capped) == (9, 0)


def test_marks_and_foreign_records_change_nothing_but_the_end() -> None:
    foreign = Record(b"alice", b"x", (), 5, offset=1)
    ignored = Record(b"alice", None, (("journal.action", write_action(Append(1, 1))),), 8, offset=2)
    unknown = Record(b"alice", None, (("journal.action", b'{"new":{}}'),), 9, offset=3)
    keyless = Record(None, b"x", (("journal.action", write_action(Append(1, 1))),), 10, offset=4)
    change = fold([log_record(Step("alice", Mark("m")), 0), foreign, ignored, unknown, keyless]).change
    assert (change.journals, change.end, change.timestamp) == ((), 5, 10)


def test_an_empty_range_changes_nothing() -> None:
    change = fold([], start=3, end=9, epoch=7).change
    assert (change.start, change.end, change.journals, change.epoch, change.timestamp) == (3, 9, (), 7, 0)


APPEND = (("journal.action", write_action(Append(1, 1))),)
BINARY = (("journal.action", write_action(Append(1, 1, "binary"))),)
ACTIONS = [write_action(action) for action in (Append(1, 1), Append(1, 2, "binary"), Delete(3), Purge(), Mark("m"))]
BROKEN = {
    "header": Record(b"bob", b"{}", (("journal.action", b"{"),), 5, offset=2),
    "null header": Record(b"bob", b"{}", (("journal.action", None),), 5, offset=2),
    "header beside others": Record(b"bob", b"{}", (("a", b"x"), ("journal.action", b"{")), 5, offset=2),
    "json body": Record(b"bob", b"{", APPEND, 5, offset=2),
    "empty body": Record(b"bob", b"", APPEND, 5, offset=2),
    "second event": Record(b"bob", b'{"events":[{"seqNr":1},{"seqNr":1,"payloadType":"x","payload":1}]}', APPEND, 5, offset=2),
    "binary body": Record(b"bob", b"\x01\x7f\xff\xff\xff", BINARY, 5, offset=2),
    "key": Record(b"\xff", b"{}", (("journal.action", write_action(Purge())),), 5, offset=2),
    "key of a mark": Record(b"\xff", None, (("journal.action", write_action(Mark("m"))),), 5, offset=2),
    "duration": Record(b"bob", b'{"events":[{"seqNr":1}],"metadata":{"expireAfter":"x"}}', APPEND, 5, offset=2),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_the_first_record_that_cannot_be_decoded_ends_the_range(broken: Record) -> None:
    before = log_of(Step("alice", Append(1, 1)), Step("bob", Append(1, 1)))
    after = log_record(Step("alice", Append(2, 2)), 3)
    found = fold([*before, broken, after])
    assert found.poison is not None
    assert found.poison.offset == found.change.end == 2
    assert found.change == fold(before).change
    left_out = fold([*before, broken, after], skip={2})
    assert left_out.poison is None
    assert left_out.change.end == 4
    assert left_out.change.journals == fold([*before, after], end=4).change.journals


def test_records_that_do_not_count_are_left_out_and_the_epoch_goes_on() -> None:
    older, newer = epoch_at(0, "g"), epoch_at(3, "g")

    def marked(step: Step, offset: int, epoch: int) -> Record:
        record = log_record(step, offset)
        return msgspec.structs.replace(record, headers=(*record.headers, (EPOCH, mark(epoch))))

    records = [
        Record(None, None, ((CLAIM, mark(older)),), 1, offset=0),
        marked(Step("alice", Append(1, 1)), 1, older),
        log_record(Step("alice", Append(2, 2)), 2),  # of no owner
        Record(None, None, ((CLAIM, mark(newer)),), 1, offset=3),
        marked(Step("alice", Append(2, 2)), 4, older),  # of an owner that was replaced
        msgspec.structs.replace(BROKEN["header"], offset=5),  # of no owner, so that it stops nobody
        marked(Step("alice", Append(2, 2)), 6, newer),
    ]
    found = fold(records)
    assert found.poison is None
    (journal,) = found.change.journals
    assert [(row.seq_nr, row.offset, row.headers) for row in journal.rows] == [(1, 1, ()), (2, 6, ())]
    assert found.change.epoch == newer
    behind = fold(records[4:], start=4, epoch=newer)
    assert [row.offset for journal in behind.change.journals for row in journal.rows] == [6]


def test_offsets_may_have_gaps() -> None:
    records = [log_record(Step("alice", Append(1, 1)), 3), log_record(Step("alice", Append(2, 2)), 9)]
    change = fold(records, start=2, end=20).change
    assert (change.start, change.end, change.timestamp) == (2, 20, timestamp_of(9))


def test_batches_larger_than_a_slice_give_the_same() -> None:
    records = log_of(*[Step(f"id-{place % 7}", Append(place + 1, place + 1)) for place in range(5000)])
    change = fold(records).change
    assert sum(len(journal.rows) for journal in change.journals) == 5000


@given(st.lists(st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=30), st.sampled_from([None, b"{}", *ACTIONS])), max_size=5))
def test_a_range_of_any_bytes_ends_at_its_first_poison(parts: list[tuple[bytes, bytes | None, bytes | None]]) -> None:
    records = [Record(key, value, (("journal.action", header),), 5, offset=offset) for offset, (key, value, header) in enumerate(parts)]
    found = fold(records)
    assert found.change.end == (len(records) if found.poison is None else found.poison.offset)


@pytest.mark.parametrize("most", [0, 1])
def test_headers_beyond_those_that_a_fold_remembers_give_the_same(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    records = [
        write_record(id, Append(number, number, "json"), value=encode_events([NumberedEvent(number)], PayloadMetadata())[1], timestamp=1)
        for number in range(1, 4)
        for id in ("a", "b")
    ]
    placed = [msgspec.structs.replace(record, offset=offset) for offset, record in enumerate(records)]
    wanted = fold(placed)
    monkeypatch.setattr("headwater.journal.range_fold._MOST_APPENDS", most)
    assert fold(placed).change == wanted.change
    assert [journal.fold.seq_nr for journal in wanted.change.journals] == [3, 3]


def test_a_folded_range_travels_between_processes() -> None:
    found = fold([*log_of(Step("alice", Append(1, 1)), Step("alice", Append(2, 2))), BROKEN["header"]])
    back = pickle.loads(pickle.dumps(found))
    assert back.change == found.change
    assert back.poison.offset == 2


def test_heads_alone_keep_no_events(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, [msgspec.structs.replace(log_record(Step("alice", Append(1, 1)), 0), offset=None)])
        place: dict[str, Any] = {"topic": "t", "partition": 0, "generation": "g", "start": 0, "end": 1, "claimed": False}
        whole, heads = (fold_batches(**place, batches=log.scan("t", 0, 0), bodies=bodies).change.journals[0] for bodies in (True, False))
    assert whole.fold == heads.fold
    assert (len(whole.rows), heads.rows) == (1, ())
