"""SQLite keeps the contract of key stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.journal.sqlite_keys import SqliteKeyStore
from headwater.testing.key_store_contract import KeyStoreContract, OpenKeyStore


class TestSqliteKeyStore(KeyStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenKeyStore:
        return lambda: SqliteKeyStore(tmp_path / "keys" / "journal.db")
