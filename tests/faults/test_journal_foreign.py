"""Records of others in a topic of journals, with forged headers of ours: they take nothing from anybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import UnreadableRecord
from headwater.journal.append_draft import draft
from headwater.journal.ids import journal_ids
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.write import Appended, Condition
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import epoch_at, mark
from headwater.log.record import Record
from headwater.testing.journal_cases_ground import CaseJournals, raw_append


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[CaseJournals]:
    with EmbeddedLog(tmp_path / "log") as log, SqliteJournalStore(tmp_path / "store") as store:
        made = CaseJournals(log, store)
        yield made
        made.close()


def test_a_forged_claim_hides_no_later_record(journals: CaseJournals) -> None:
    journals.append("a", 1)
    journals.raw(Record(None, None, (("headwater.claim", mark(epoch_at(1, "x"))),)))
    journals.append("a", 2)
    journals.append("b", 1)
    journals.shows("a", [1, 2], 2)
    journals.shows("b", [1], 1)


def test_a_forged_epoch_hides_no_later_record(journals: CaseJournals) -> None:
    journals.append("a", 1)
    record = raw_append("a", 2)
    journals.raw(msgspec.structs.replace(record, headers=(*record.headers, ("headwater.epoch", mark(1 << 16 | 5)))))
    journals.append("a", 3)
    journals.append("b", 1)
    journals.shows("a", [1, 2, 3], 3)
    journals.shows("b", [1], 1)


def test_a_forged_idempotency_key_of_an_unreadable_record_stops_no_append(journals: CaseJournals) -> None:
    forged = (("headwater.idempotency-key", b"k"), ("headwater.idempotency-hash", b"h"))
    journals.raw(Record(b"a", b"x", (("journal.action", b"{no json"), *forged)))
    journals.raw(Record(b"\xff", b"x", (("journal.action", b'{"purge":{}}'), *forged)))
    made = draft("b", ["x"])
    first = journals.write(made, Condition(None, "k", made.digest(None)))
    again = journals.write(made, Condition(None, "k", made.digest(None)))
    assert isinstance(first, Appended)
    assert isinstance(again, Appended)
    assert (again.offset, again.replayed) == (first.offset, True)


def test_an_idempotency_key_is_found_although_the_log_was_deleted_meanwhile(journals: CaseJournals) -> None:
    for number in (1, 2, 3):
        made = draft("a", [f"x {number}"])
        journals.write(made, Condition(None, f"k{number}", made.digest(None)))
    journals.append("b", 1)
    journals.append("b", 2)
    journals.replicate()
    journals.log.delete_before(journals.topic.name, 0, 5, part="journal")
    made = draft("a", ["x 4"])
    outcome = journals.write(made, Condition(None, "k4", made.digest(None)))
    assert isinstance(outcome, Appended)
    assert outcome.first == 4


def test_a_journal_that_cannot_be_read_is_listed_with_the_others(journals: CaseJournals) -> None:
    journals.append("a", 1)
    journals.append("b", 1)
    journals.raw(Record(b"b", None, (("journal.action", b"{no json"),)))
    journals.append("c", 1)
    with pytest.raises(UnreadableRecord):
        journals.rows("b")
    assert journal_ids(journals.partition(), None, 10) == ["a", "b", "c"]
