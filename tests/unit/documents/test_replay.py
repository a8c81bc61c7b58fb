"""Records of the log as a fold takes them."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.documents.logged import TOPIC, LoggedDocuments

from headwater.core.errors import Damaged, OffsetGone
from headwater.documents import replay as module
from headwater.documents.change import ChangeRecord, encode_record
from headwater.documents.replay import replay
from headwater.log import Log
from headwater.log.epochs import CLAIM, EPOCH, epoch_at, mark
from headwater.log.record import Record


def test_all_records_come_in_slices(logged: LoggedDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 7)
    end = logged.history.end
    slices = list(replay(logged.log, TOPIC, 0, 0, end))
    assert [record for records, _ in slices for record in records] == logged.history.records
    assert [stop for _, stop in slices] == [*range(7, end, 7), end]
    assert [record.offset for records, _ in replay(logged.log, TOPIC, 0, 5, 9) for record in records] == [5, 6, 7, 8]
    assert list(replay(logged.log, TOPIC, 0, end, end)) == []


class ClaimedLog:
    """A partition of Kafka with two owners, and a record of the first that came too late."""

    engine = "kafka"

    def __init__(self) -> None:
        value = encode_record(ChangeRecord(uri="a"))
        self.first, self.second = epoch_at(0, "g"), epoch_at(2, "g")
        records = [(None, None, CLAIM, self.first), (b"a", value, EPOCH, self.first), (None, None, CLAIM, self.second)]
        records += [(b"a", value, EPOCH, self.first)] * 2 + [(b"a", value, EPOCH, self.second)]
        self.records = [
            Record(key, value, ((name, mark(epoch)),), 0, offset=offset) for offset, (key, value, name, epoch) in enumerate(records)
        ]

    def read(self, topic: str, partition: int, start: int, *, limit: int = 1000, max_bytes: int = 0) -> list[Record]:
        return self.records[start : start + limit]


def test_a_fold_that_begins_behind_a_late_record_is_told_the_epoch() -> None:
    log = ClaimedLog()

    def offsets(start: int, **rest: int) -> list[int]:
        return [one.offset for slice, _ in replay(cast(Log, log), "t", 0, start, 6, **rest) for one in slice]

    assert offsets(0) == [1, 5]
    assert offsets(4, epoch=log.second) == [5]
    assert offsets(4) == [4, 5]


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
