from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, draft, put

from headwater.documents import comparison
from headwater.documents.comparison import compare_changes
from headwater.documents.replay import replay
from headwater.documents.settings import DocumentSettings
from headwater.documents.write import BatchDraft
from headwater.log import Log
from headwater.store.sqlite.database import Database

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("select 1", 0),
        ("delete from content where item = '2'", 1),
        ("update content set body = x'7b7d' where item = '2'", 1),
        ("delete from change where revision = 3", 1),
        ("update document set revision = 1 where uri = 'd'", 1),
        ("delete from content", 2),
    ],
)
async def test_every_lack_is_found(tmp_path: Path, statement: str, missing: int) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        await put(documents, "c~/1", {})
        await documents.write_batch(BatchDraft(uri="c~", drafts=(draft("put", "c~/2", {}), draft("delete", "c~/1"))))
        await put(documents, "e", 1)
        await put(documents, "d", 1)
        await documents.write(draft("delete", "d"))
        store = documents.reads(0).store
        assert compare_changes(documents, 0, 0, 9).lacking == 0
        database: Database = store._database  # type: ignore[attr-defined]
        with database.transaction() as transaction:
            transaction.rows(statement)
        assert compare_changes(documents, 0, 0, 9).lacking == missing
        assert compare_changes(documents, 0, 9, 9) == (0, 0)


async def test_what_was_written_too_late_by_an_owner_of_before_is_not_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record before the first one that is compared may be such a one, too: it does not say which epoch the partition has there."""
    asked: list[int | None] = []

    def told(log: Log, topic: str, partition: int, start: int, end: int, *, epoch: int | None = None) -> object:
        asked.append(epoch)
        return replay(log, topic, partition, start, end, epoch=epoch)

    monkeypatch.setattr(comparison, "replay", told)
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        for number in range(3):
            await put(documents, "a", number)
        monkeypatch.setattr(comparison, "epoch_before", lambda log, topic, partition, offset: 7 * offset)
        assert compare_changes(documents, 0, 1, 9).lacking == 0
    assert asked == [7]
