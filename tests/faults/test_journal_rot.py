"""Copies of journals in SQLite whose rows hold what was never written: readers get an error that names the file and the way out."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from headwater.core.errors import Damaged, HeadwaterError
from headwater.journal.sqlite import SqliteJournalStore
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.journal_cases_ground import CaseJournals


@pytest.mark.parametrize(
    "change",
    [
        "update journal set payload_type = 9",
        "update journal set payload_type = -9",
        "update journal set tags = '{'",
        "update journal set headers = x'ff'",
        "update metajournal set expire_on = 'x'",
        "update metajournal set record_id = x'0102'",
        "update metajournal set record_id = 'text'",
    ],
)
def test_a_row_that_cannot_be_read_is_damage(tmp_path: Path, change: str) -> None:
    with EmbeddedLog(tmp_path / "log") as log, SqliteJournalStore(tmp_path / "store") as store:
        journals = CaseJournals(log, store)
        for number in (1, 2, 3):
            journals.append("a", number)
        journals.replicate()
        connection = apsw.Connection(str(tmp_path / "store" / journals.topic.name / "0.db"))
        connection.execute(change)
        connection.close()
        with pytest.raises(Damaged, match=r"0\.db .*rebuild"):
            journals.rows("a")
        journals.copy().clear()  # as a rebuild does
        journals.replicate()
        assert [row.seq_nr for row in journals.rows("a")] == [1, 2, 3]
        journals.close()


@pytest.mark.parametrize("cut", [0, 100, 4096, 5000, 9000])
def test_a_file_that_was_cut_shows_everything_or_says_so(tmp_path: Path, cut: int) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        with SqliteJournalStore(tmp_path / "store") as store:
            journals = CaseJournals(log, store)
            for number in range(1, 30):
                journals.append("a", number)
            journals.replicate()
            journals.copy().checkpoint()
            journals.close()
        path = tmp_path / "store" / journals.topic.name / "0.db"
        path.write_bytes(path.read_bytes()[:cut])
        with SqliteJournalStore(tmp_path / "store") as store:
            journals.store = store
            try:
                found = [row.seq_nr for row in journals.rows("a")]
            except HeadwaterError:
                return
            assert found == list(range(1, 30))
