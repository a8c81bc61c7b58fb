"""The store beside what the log says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.unit.documents.logged import TOPIC, LoggedDocuments

from headwater.core.errors import Cancelled, Damaged, Differs, LogGap
from headwater.documents import verify
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore, DocumentView
from headwater.documents.verify import verify_documents, verify_partition
from headwater.store.sqlite.database import Database


def test_a_store_that_is_right_is_equal(logged: LoggedDocuments) -> None:
    [found] = verify_documents(logged.log, logged.stores, logged.topic)
    found.check()
    assert (found.partition, found.applied, found.difference) == (0, logged.history.end, "")
    assert (found.documents, found.rows, found.index_rows) == (22, 38, 19)


def test_a_store_that_lags_is_compared_up_to_its_offset(logged: LoggedDocuments) -> None:
    applied = logged.history.end
    logged.history.put("c~", "99", p=1)
    logged.append(applies=False)
    assert verify_partition(logged.log, logged.store, logged.topic, 0).applied == applied


def test_a_difference_is_named(logged: LoggedDocuments, tmp_path: Path) -> None:
    with Database(tmp_path / "documents" / "0.db", synced=False) as database:
        database.run("delete from content where item = '05'")
    [found] = verify_documents(logged.log, logged.stores, logged.topic)
    assert found.difference == "Item c~/05: the store lacks it."
    with pytest.raises(Differs, match="partition 0 is not what the log says: Item c~/05: the store lacks it"):
        found.check()


class TornStore:
    """A store whose first views say less than they show, as those of Cassandra do while its owner writes."""

    lacks_copies = False

    def __init__(self, store: DocumentStore, torn: int) -> None:
        self._store, self.torn = store, torn

    @contextmanager
    def view(self) -> Iterator[Any]:
        with self._store.view() as view:
            self.torn -= 1
            yield view if self.torn < 0 else TornView(view)


class TornView:
    def __init__(self, view: DocumentView) -> None:
        self._view = view

    def applied(self) -> int:
        return self._view.applied() - 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


@pytest.mark.parametrize(("torn", "difference"), [(3, ""), (99, "Collection c~: revision")])
def test_what_is_written_during_the_comparison_is_no_difference(logged: LoggedDocuments, torn: int, difference: str) -> None:
    logged.history.put("c~", "99", p=1)
    logged.append()
    store = TornStore(logged.store, torn)
    found = verify_partition(logged.log, store, logged.topic, 0)  # type: ignore[arg-type]
    assert found.difference[: len(difference)] == difference
    assert bool(found.difference) == bool(difference)


def test_a_store_that_is_ahead_of_the_log_is_refused(logged: LoggedDocuments) -> None:
    logged.store.apply([], logged.history.end + 5)
    with pytest.raises(Differs, match="it is older"):
        verify_partition(logged.log, logged.store, logged.topic, 0)


def test_a_damaged_store_is_told_with_its_path(logged: LoggedDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(wanted: object, found: object, *, lacks_copies: bool) -> object:
        raise apsw.CorruptError("database disk image is malformed")

    monkeypatch.setattr(verify, "compare", torn)
    with pytest.raises(Damaged) as damaged:
        verify_partition(logged.log, logged.store, logged.topic, 0)
    assert str(tmp_path / "documents" / "0.db") in str(damaged.value)


def test_it_stops_when_it_is_told(logged: LoggedDocuments) -> None:
    with pytest.raises(Cancelled):
        verify_partition(logged.log, logged.store, logged.topic, 0, stopped=lambda: True)


def test_a_log_without_its_beginning_needs_a_base(logged: LoggedDocuments, tmp_path: Path) -> None:
    verify_partition(logged.log, logged.store, logged.topic, 0, folder=tmp_path / "base")
    logged.log.delete_before(TOPIC, 0, 9, part="documents")
    with pytest.raises(LogGap, match="no base copy"):
        verify_partition(logged.log, logged.store, logged.topic, 0)
    logged.history.put("c~", "zz", p=1)
    logged.append()
    with SqliteDocumentStores(tmp_path / "base") as bases:
        base = bases.partition(0, logged.topic.generation)
        found = verify_partition(logged.log, logged.store, logged.topic, 0, base=base)
        assert (found.difference, found.index_rows) == ("", 20)
        logged.store.clear()
        with pytest.raises(Differs, match="its base"):
            verify_partition(logged.log, logged.store, logged.topic, 0, base=base)
