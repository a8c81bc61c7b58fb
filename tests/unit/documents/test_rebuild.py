"""A store folded anew from the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.logged import TOPIC, LoggedDocuments

from headwater.core.errors import Cancelled, Conflict, Differs, LogGap
from headwater.documents.rebuild import check_beginning, fold_log, rebuild_partition
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.store.sqlite.database import Database


def test_a_store_that_somebody_changed_is_right_again(logged: LoggedDocuments, tmp_path: Path) -> None:
    before = logged.store.digest()
    with Database(tmp_path / "documents" / "0.db", synced=False) as database:
        database.run("delete from content")
        database.run("update document set revision = 9")
    assert logged.store.digest() != before
    assert rebuild_partition(logged.log, logged.store, logged.topic, 0) == logged.history.end
    assert logged.store.digest() == before
    with logged.store.view() as view:
        logged.history.check(view)


def test_the_store_of_another_topic_is_replaced(logged: LoggedDocuments) -> None:
    before = logged.store.digest()
    other = logged.stores.partition(0, "another")
    other.clear()
    with pytest.raises(Differs):
        logged.store.digest()
    rebuild_partition(logged.log, logged.store, logged.topic, 0)
    assert logged.store.digest() == before


def test_one_that_was_stopped_goes_on_from_its_offset(logged: LoggedDocuments) -> None:
    before = logged.store.digest()
    with pytest.raises(Cancelled):
        rebuild_partition(logged.log, logged.store, logged.topic, 0, stopped=lambda: True)
    list(fold_log(logged.log, logged.store, logged.topic, 0, logged.history.end))
    assert logged.store.digest() == before


def test_a_log_without_its_beginning_leaves_the_store_as_it_is(logged: LoggedDocuments) -> None:
    before = logged.store.digest()
    logged.log.delete_before(TOPIC, 0, 9, part="documents")
    with pytest.raises(LogGap, match="no base copy"):
        rebuild_partition(logged.log, logged.store, logged.topic, 0)
    assert logged.store.digest() == before


def test_it_begins_with_a_base_where_the_log_has_lost_its_beginning(logged: LoggedDocuments, tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path / "base") as bases:
        base = bases.partition(0, logged.topic.generation)
        with logged.store.view() as view:
            base.restore(view)
        assert base.digest() == logged.store.digest()
        logged.history.put("c~", "zz", p=1)
        logged.history.delete("c~", "04")
        logged.append()
        before = logged.store.digest()
        logged.log.delete_before(TOPIC, 0, logged.history.end - 2, part="documents")
        assert check_beginning(logged.log, logged.topic, 0, base) == logged.history.end - 2
        logged.store.clear()
        rebuild_partition(logged.log, logged.store, logged.topic, 0, base=base)
        assert logged.store.digest() == before
        base.clear()
        with pytest.raises(LogGap, match="are in neither"):
            rebuild_partition(logged.log, logged.store, logged.topic, 0, base=base)
        base.apply([], logged.history.end + 1)
        with pytest.raises(Differs, match="older than the copy"):
            rebuild_partition(logged.log, logged.store, logged.topic, 0, base=base)
        assert logged.store.digest() == before


def test_records_behind_a_gap_are_refused(logged: LoggedDocuments) -> None:
    logged.store.clear()
    with pytest.raises(Conflict, match="from 5 on"):
        logged.store.apply([], 9, since=5)
    with logged.store.view() as view:
        assert view.applied() == 0
