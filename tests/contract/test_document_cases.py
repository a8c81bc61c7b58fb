"""The cases of documents over HTTP, on the embedded log and SQLite."""

from __future__ import annotations

import pytest

from headwater.core.settings import Settings
from headwater.testing.document_cases import DocumentCases


class TestEmbeddedAndSqlite(DocumentCases):
    @pytest.fixture(scope="class")
    @classmethod
    def given(cls, tmp_path_factory: pytest.TempPathFactory) -> Settings:
        return Settings(data=tmp_path_factory.mktemp("data"))
