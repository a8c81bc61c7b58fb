"""A view of documents in SQLite is of one moment."""

from __future__ import annotations

from pathlib import Path

from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.sqlite_view import columns_of_head, head_of_columns
from headwater.documents.store import DocumentHead
from headwater.testing.document_history import RecordedDocuments


def test_what_is_applied_meanwhile_is_not_seen(tmp_path: Path) -> None:
    history = RecordedDocuments()
    history.put("c~", "1", p=1)
    with SqliteDocumentStores(tmp_path) as stores:
        store = stores.partition(0, "g")
        history.apply_to(store)
        with store.view() as view:
            history.put("c~", "2", p=2)
            history.delete("c~")
            history.apply_to(store)
            assert view.applied() == 1
            assert [row.item for row in view.rows("c~", limit=10)] == ["1"]
            assert len(view.changes("c~", limit=10)) == 1
        with store.view() as view:
            assert (view.applied(), view.rows("c~", limit=10)) == (3, [])


def test_a_head_goes_through_its_columns() -> None:
    head = DocumentHead(uri="a", revision=3, generation=2, deleted=True, created=4, modified=5, last_id="x", settings=b"{}")
    assert head_of_columns("a", columns_of_head(head)) == head
    bare = DocumentHead(uri="a", revision=0)
    assert head_of_columns("a", columns_of_head(bare)) == bare
