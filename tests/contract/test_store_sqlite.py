"""SQLite keeps the store's contract, synced and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.store.sqlite.database import Database
from headwater.testing import StoreContract
from headwater.testing.store_ground import Dialect, OpenStore


class TestSqliteStore(StoreContract):
    dialect = Dialect(widen="alter table shelf add column colour text")

    @pytest.fixture(params=[True, False], ids=["synced", "not synced"])
    def open_store(self, request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
        return lambda: Database(tmp_path / "store" / "library.db", synced=request.param)
