"""Records over a view: that they read as applied ones is in the contract of stores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headwater.core.errors import Differs
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore
from headwater.testing.document_history import RecordedDocuments, definition


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with SqliteDocumentStores(tmp_path) as stores:
        yield stores.partition(0, "g")


@pytest.fixture
def history(store: DocumentStore) -> RecordedDocuments:
    """What the store has."""
    history = RecordedDocuments()
    history.set_index("c~", definition(1, "p", state="ready"))
    for number in range(20):
        history.put("c~", f"{number:02}", p=number, expires=1000 + number)
    history.put("a", p=1)
    history.apply_to(store)
    return history


def test_records_are_added_one_by_one(store: DocumentStore, history: RecordedDocuments) -> None:
    with store.view() as view:
        overlaid = OverlaidView(view)
        history.check(overlaid)
        for change in (
            partial(history.put, "c~", "07", p=-1),
            partial(history.delete, "c~", "03"),
            partial(history.patch, "c~", "19", q=1),
            partial(history.put, "new", p=1),
            partial(history.delete, "a"),
            partial(history.delete, "c~"),
            partial(history.put, "c~", "03", p=1),
        ):
            overlaid.add(change())
            history.check(overlaid)
        assert overlaid.applied() == history.end
        assert view.applied() == history.end - 7


def test_a_record_that_the_store_has_is_passed_over(store: DocumentStore, history: RecordedDocuments) -> None:
    with store.view() as view:
        history.check(OverlaidView(view, history.records))


def test_a_record_that_does_not_follow_is_refused(store: DocumentStore, history: RecordedDocuments) -> None:
    history.put("a", p=2)
    later = history.put("a", p=3)
    with store.view() as view, pytest.raises(Differs):
        OverlaidView(view, [later])


def test_an_index_that_becomes_ready_in_the_tail_is_building(store: DocumentStore, history: RecordedDocuments) -> None:
    tail = [history.set_index("c~", definition(2, "p")), history.set_index("c~", definition(2, "p", state="ready"))]
    with store.view() as view:
        overlaid = OverlaidView(view, tail)
        assert [(index.number, index.state) for index in overlaid.indexes("c~")] == [(1, "ready"), (2, "building")]


def test_expiring_rows_are_found_behind_many_that_are_hidden(store: DocumentStore, history: RecordedDocuments) -> None:
    history.put("d", expires=5000)
    history.apply_to(store)
    with store.view() as view:
        overlaid = OverlaidView(view, [history.delete("c~"), history.put("e", expires=4000)])
        assert overlaid.expiring(9000, 1) == [("e", "")]
        assert overlaid.expiring(9000, 5) == [("e", ""), ("d", "")]
