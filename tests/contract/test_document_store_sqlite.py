"""SQLite keeps the contract of document stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.documents.sqlite import SqliteDocumentStores
from headwater.testing.document_store_contract import DocumentStoreContract
from headwater.testing.document_store_ground import OpenDocumentStores


class TestSqliteDocumentStore(DocumentStoreContract):
    @pytest.fixture
    def open_stores(self, tmp_path: Path) -> OpenDocumentStores:
        return lambda: SqliteDocumentStores(tmp_path / "documents")
