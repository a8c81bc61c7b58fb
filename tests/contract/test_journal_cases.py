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
from headwater.testing.journal_walk import walk


class TestEmbeddedAndSqlite(JournalCases):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Callable[[], Log]:
        return lambda: EmbeddedLog(tmp_path / "log")

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenJournalStore:
        return lambda segment_size: SqliteJournalStore(tmp_path / "store", segment_size=segment_size)


def _walked(tmp_path: Path, seed: int, steps: int) -> None:
    counts = walk(
        lambda: EmbeddedLog(tmp_path / "log"),
        lambda segment_size: SqliteJournalStore(tmp_path / "store", segment_size=segment_size),
        seed,
        steps=steps,
    )
    assert counts["read"] > steps // 6


@pytest.mark.parametrize("seed", range(3))
def test_a_random_walk_equals_the_model(tmp_path: Path, seed: int) -> None:
    _walked(tmp_path, seed, 300)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_long_random_walk_equals_the_model(tmp_path: Path, seed: int) -> None:
    _walked(tmp_path, seed, 10_000)
