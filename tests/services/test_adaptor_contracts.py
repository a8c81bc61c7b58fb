"""Adaptors of document stores, held to what every adaptor promises."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pymongo import MongoClient

from headwater.pipeline.adaptor import CanWrite
from headwater.pipeline.adaptors import mongodb as mongodb_adaptor
from headwater.pipeline.adaptors import opensearch as opensearch_adaptor
from headwater.testing import SinkContract


@pytest.mark.service("mongodb")
class TestMongoDB(SinkContract):
    @pytest.fixture
    def sink(self, mongodb: str) -> Iterator[CanWrite]:
        name = f"c{uuid.uuid4().hex[:12]}"
        yield mongodb_adaptor(f"{mongodb}/{name}")
        with MongoClient[dict[str, object]](mongodb) as client:
            client.drop_database(name)


@pytest.mark.service("opensearch")
class TestOpenSearch(SinkContract):
    @pytest.fixture
    def sink(self, opensearch: str) -> CanWrite:
        return opensearch_adaptor(opensearch, index=f"c{uuid.uuid4().hex[:12]}")
