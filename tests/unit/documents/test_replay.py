"""Records of the log as a fold takes them."""

from __future__ import annotations

import pytest
from tests.unit.documents.logged import TOPIC, LoggedDocuments

from headwater.core.errors import Damaged, OffsetGone
from headwater.documents import replay as module
from headwater.documents.replay import replay
from headwater.log.record import Record


def test_all_records_come_in_slices(logged: LoggedDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 7)
    end = logged.history.end
    slices = list(replay(logged.log, TOPIC, 0, 0, end))
    assert [record for records, _ in slices for record in records] == logged.history.records
    assert [stop for _, stop in slices] == [*range(7, end, 7), end]
    assert [record.offset for records, _ in replay(logged.log, TOPIC, 0, 5, 9) for record in records] == [5, 6, 7, 8]
    assert list(replay(logged.log, TOPIC, 0, end, end)) == []


def test_what_is_no_record_of_documents_is_damage(logged: LoggedDocuments) -> None:
    logged.log.append(TOPIC, 0, [Record(b"a", b"no record")], part="documents")
    end = logged.history.end
    with pytest.raises(Damaged, match=f"hyper-storage/0 at offset {end}"):
        list(replay(logged.log, TOPIC, 0, 0, end + 1))


def test_a_log_that_begins_later_is_refused(logged: LoggedDocuments) -> None:
    logged.log.delete_before(TOPIC, 0, 5, part="documents")
    start = logged.log.bounds(TOPIC, 0).start
    assert start > 0
    with pytest.raises(OffsetGone):
        list(replay(logged.log, TOPIC, 0, 0, 9))
