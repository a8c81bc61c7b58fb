"""The cases of journals, over the embedded log and SQLite; over Kafka and Cassandra with real servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.journal.sqlite import SqliteJournalStore
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.journal_cases import JournalCases
from headwater.testing.journal_cases_ground import OpenJournalStore


class TestEmbeddedAndSqlite(JournalCases):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Callable[[], Log]:
        return lambda: EmbeddedLog(tmp_path / "log")

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenJournalStore:
        return lambda segment_size: SqliteJournalStore(tmp_path / "store", segment_size=segment_size)
