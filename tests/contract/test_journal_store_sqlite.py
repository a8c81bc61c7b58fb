"""SQLite keeps the contract of journal stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.journal.sqlite import SqliteJournalStore
from headwater.testing.journal_store_contract import JournalStoreContract
from headwater.testing.journal_store_ground import OpenJournalStore


class TestSqliteJournalStore(JournalStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenJournalStore:
        return lambda segment_size=10_000: SqliteJournalStore(tmp_path / "store", segment_size=segment_size)
