"""Journals whose log or store is another than the one they belong together with: an error says so, and nothing is acknowledged in vain."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.core.errors import Differs, LogGap
from headwater.journal.append_draft import draft
from headwater.journal.event import Event
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.topics import PART
from headwater.journal.write import MarkDraft
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Topic
from headwater.testing.journal_cases_ground import CaseJournals, label_of, raw_append


def _opened(data: Path, topic: Topic | None = None) -> CaseJournals:
    journals = CaseJournals(EmbeddedLog(data / "log"), SqliteJournalStore(data / "store"))
    if topic is not None:
        journals.topic = topic
        journals.reopen()
    return journals


def _close(journals: CaseJournals) -> None:
    journals.close()
    journals.store.close()
    journals.log.close()


@pytest.fixture
def older_log(tmp_path: Path) -> tuple[Path, Topic]:
    """A store with six records, of which the log has three."""
    journals = _opened(tmp_path)
    for number in (1, 2, 3):
        journals.append("a", number)
    _close(journals)
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    journals = _opened(tmp_path, journals.topic)
    for number in (4, 5, 6):
        journals.append("a", number)
    journals.replicate()
    _close(journals)
    shutil.rmtree(tmp_path / "log")
    shutil.copytree(tmp_path / "backup", tmp_path / "log")
    return tmp_path, journals.topic


def test_a_log_older_than_its_store_takes_no_record_that_nobody_would_read(older_log: tuple[Path, Topic]) -> None:
    journals = _opened(*older_log)
    numbered, given = draft("a", ["x"]), draft("a", [Event("x", 7)])
    for asked in (numbered, given, given, given, draft("b", ["x"]), MarkDraft("a", "m"), MarkDraft("a", "m")):
        with pytest.raises(Differs, match=r"up to offset 5, and the log ends at 3"):
            journals.write(asked)
    with pytest.raises(Differs, match="it is older"):
        journals.rows("a")
    assert journals.end() == 3
    _close(journals)


def test_a_reader_of_a_store_that_runs_ahead_of_its_read_is_told_nothing(tmp_path: Path) -> None:
    """The replicator may copy records that came after a read began."""
    journals = _opened(tmp_path)
    journals.append("a", 1)
    reader = journals.partition()
    end = reader.end()
    journals.append("a", 2)
    journals.replicate()
    head = reader.joined("a", end).head
    assert head is not None
    assert head.seq_nr >= 1
    _close(journals)


def test_a_lost_store_of_a_log_that_was_deleted_is_a_gap(tmp_path: Path) -> None:
    journals = _opened(tmp_path)
    for number in range(1, 6):
        journals.append("a", number)
    journals.replicate()
    journals.log.delete_before(journals.topic.name, 0, 3, part=PART)
    _close(journals)
    shutil.rmtree(tmp_path / "store")
    journals = _opened(tmp_path, journals.topic)
    for call in (lambda: journals.rows("a"), lambda: journals.append("a", 6), lambda: journals.append("b", 1)):
        with pytest.raises(LogGap):
            call()
    problem = journals.replicate().problem
    assert problem is not None
    assert problem.code == "log-gap"
    _close(journals)


def test_the_copy_of_another_topic_of_this_name_is_never_shown(tmp_path: Path) -> None:
    journals = _opened(tmp_path / "one")
    journals.append("a", 1, 2, label="one")
    journals.replicate()
    other = _opened(tmp_path / "two")
    name = journals.topic.name
    other.topic = other.log.create_topic(name, partitions=1, part=PART)
    other.raw(raw_append("a", 1, label="two"))
    _close(journals)
    _close(other)
    shutil.copytree(tmp_path / "one" / "store", tmp_path / "two" / "store")
    other = _opened(tmp_path / "two", other.topic)
    assert [label_of(row) for row in other.rows("a")] == ["two"]  # the log holds everything of this one
    other.append("a", 2)
    other.log.delete_before(name, 0, 1, part=PART)
    with pytest.raises(Differs, match="earlier"):
        other.rows("a")
    _close(other)
