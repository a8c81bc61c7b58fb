from __future__ import annotations

import pytest
from tests.unit.documents.logged import TOPIC, LoggedDocuments

from headwater.core.errors import Busy, Damaged
from headwater.documents.tail import LogTail
from headwater.log.record import Record


def test_records_are_read_once_and_by_range(logged: LoggedDocuments) -> None:
    tail, end = LogTail(logged.log, TOPIC, 0), logged.history.end
    assert [one.offset for one in tail.records(3, 7)] == [3, 4, 5, 6]
    assert tail.records(3, 7) == logged.history.records[3:7]
    assert [one.offset for one in tail.records(5, end)] == list(range(5, end))
    assert [one.offset for one in tail.records(1, 4)] == [1, 2, 3]  # a reader with an older view
    assert tail.records(end, end) == ()
    assert tail.last_time == logged.history.records[-1].time


def test_what_this_process_appends_is_there_without_reading(logged: LoggedDocuments) -> None:
    tail, end = LogTail(logged.log, TOPIC, 0), logged.history.end
    logged.history.put("new", n=1)
    added = logged.history.records[-1:]
    tail.add(added, since=end, epoch=1)  # not in the log at all
    assert tail.records(end, end + 1) == added
    tail.forget_before(end + 1)
    tail.reset()
    with pytest.raises(Exception, match="offset"):
        tail.records(end + 5, end + 6)


def test_a_store_far_behind_is_not_read_from_memory(logged: LoggedDocuments) -> None:
    with pytest.raises(Busy, match="behind"):
        LogTail(logged.log, TOPIC, 0).records(0, 10_000_000)


def test_what_is_no_record_of_documents_is_damage(logged: LoggedDocuments) -> None:
    logged.log.append(TOPIC, 0, [Record(b"a", b"{")], part="documents")
    with pytest.raises(Damaged, match=f"offset {logged.history.end}|at {logged.history.end}"):
        LogTail(logged.log, TOPIC, 0).records(logged.history.end, logged.history.end + 1)


def test_a_reader_that_begins_anew_leaves_no_hole_behind(logged: LoggedDocuments) -> None:
    tail, end = LogTail(logged.log, TOPIC, 0), logged.history.end
    for _ in range(3):
        logged.history.put("new", n=1)
        logged.append()
    added = logged.history.records[end:]
    tail.add(added[:1], since=end, epoch=1)
    assert len(tail.records(end - 5, end - 2)) == 3  # with an older view, and an older end
    tail.add(added[1:2], since=end + 1, epoch=1)
    assert [one.offset for one in tail.records(end, end + 2)] == [end, end + 1]
    assert len(tail.records(end, end + 3)) == 3  # a reader comes before the owner
    tail.add(added[2:], since=end + 2, epoch=1)
    assert [one.offset for one in tail.records(end, end + 3)] == [end, end + 1, end + 2]


def test_large_records_are_forgotten_once_they_are_applied(logged: LoggedDocuments) -> None:
    tail, end = LogTail(logged.log, TOPIC, 0), logged.history.end
    logged.history.put("new", n=1)
    tail.add(logged.history.records[-1:], since=end, epoch=1, size=33 << 20)
    tail.forget_before(end)
    assert len(tail.records(end, end + 1)) == 1
    assert tail.size == 33 << 20
    tail.forget_before(end + 1)
    assert tail.size == 0
