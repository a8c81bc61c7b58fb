"""The digest of a partition: it changes with everything that a reader sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.documents.digest import PAGE, all_changes, all_heads, all_index_rows, all_rows
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore
from headwater.testing.document_history import RecordedDocuments, definition


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with SqliteDocumentStores(tmp_path) as stores:
        yield stores.partition(0, "g")


def test_each_kind_of_record_changes_it(store: DocumentStore) -> None:
    history, seen = RecordedDocuments(), {store.digest()}
    history.put("a", p=1)
    history.put("c~", "1", p=1)
    history.patch("c~", "1", p=2)
    history.put("c~", "1", expires=7)
    history.set_index("c~", definition(1, "p"))
    history.set_index("c~", definition(1, "p", state="ready"))
    history.set_settings("c~", x=1)
    history.delete("c~", "1")
    history.drop_index("c~", 1)
    history.delete("c~")
    history.delete("a")
    for record in history.records:
        store.apply([record], record.offset + 1)
        seen.add(store.digest())
    assert len(seen) == len(history.records) + 1


def test_rows_of_an_index_that_is_building_do_not_count(store: DocumentStore) -> None:
    history = RecordedDocuments()
    history.put("c~", "1", p=1)
    history.set_index("c~", definition(1, "p"))
    history.apply_to(store)
    before = store.digest()
    store.add_index_rows("c~", 1, history.index_rows("c~", 1))
    assert store.digest() == before


def test_pages_come_one_after_another(store: DocumentStore) -> None:
    history, count = RecordedDocuments(), PAGE * 2 + 1
    history.set_index("c~", definition(1, "p", state="ready"))
    for number in range(count):
        history.put("c~", f"{number:05}", p=number)
        history.put(f"d/{number:05}")
    history.apply_to(store)
    with store.view() as view:
        assert [row.item for row in all_rows(view, "c~")] == [f"{number:05}" for number in range(count)]
        assert [place.revision for place in all_changes(view, "c~")] == list(range(1, count + 1))
        assert [row.item for row in all_index_rows(view, "c~", 1)] == [f"{number:05}" for number in range(count)]
        assert [head.uri for head in all_heads(view, "d/")] == [f"d/{number:05}" for number in range(count)]
        assert [row.revision for row in all_rows(view, "d/00007")] == [1]
        assert list(all_rows(view, "d")) == []
