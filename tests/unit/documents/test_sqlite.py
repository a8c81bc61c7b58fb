"""Documents in SQLite, beside the contract: files, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadInput, Closed, Damaged, Differs, Timeout
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.store.sqlite.database import Database
from headwater.store.sqlite.library import connect
from headwater.testing.document_history import RecordedDocuments, definition


def test_each_partition_has_a_file(tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path / "documents") as stores:
        stores.partition(0, "g")
        stores.partition(11, "g")
    assert {path.name for path in (tmp_path / "documents").glob("*.db")} == {"0.db", "11.db"}


def test_a_negative_partition_is_refused(tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path) as stores, pytest.raises(BadInput):
        stores.partition(-1, "g")


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path) as stores:
        stores.partition(0, "g").apply([], 5)
        stores.partition(0, "g").checkpoint()
    (tmp_path / "0.db").rename(tmp_path / "1.db")
    with SqliteDocumentStores(tmp_path) as stores:
        store = stores.partition(1, "g")
        with pytest.raises(Differs, match="holds partition 0"):
            store.checkpoint()
        with pytest.raises(Differs):
            store.clear()


def test_the_file_of_a_topic_that_was_deleted_is_refused(tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path) as stores:
        stores.partition(0, "g1").apply([], 5)
        with pytest.raises(Differs, match="generation g1, this one g2"):
            stores.partition(0, "g2").digest()


def test_records_wait_for_another_program_as_long_as_their_owner_says(tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path, timeout=120) as stores:
        store = stores.partition(0, "g")
        store.apply([], 1)
        other = connect(tmp_path / "0.db", timeout=0)
        other.execute("begin immediate")
        with pytest.raises(Timeout, match=r"more than 0\.01 s"):
            store.apply([], 2, patience=0.01)
        other.close()
        store.apply([], 2, patience=0.01)
        with store.view() as view:
            assert view.applied() == 2


def test_a_closed_partition_answers_nothing(tmp_path: Path) -> None:
    with SqliteDocumentStores(tmp_path) as stores:
        store = stores.partition(0, "g")
        store.close()
        with pytest.raises(Closed):
            store.purge(1)


def test_a_file_that_is_none_of_sqlite_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "0.db").write_bytes(b"no database" * 1000)
    with SqliteDocumentStores(tmp_path) as stores, pytest.raises(Damaged):
        stores.partition(0, "g")


def test_a_definition_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    history = RecordedDocuments()
    history.set_index("c~", definition(1, "p"))
    with SqliteDocumentStores(tmp_path) as stores:
        history.apply_to(stores.partition(0, "g"))
    with Database(tmp_path / "0.db", synced=False) as database:
        database.run("update index_def set definition = '{'")
    with SqliteDocumentStores(tmp_path) as stores, stores.partition(0, "g").view() as view, pytest.raises(Damaged, match="definition"):
        view.indexes("c~")


def test_rows_of_an_ended_life_leave_the_file(tmp_path: Path) -> None:
    history = RecordedDocuments()
    history.set_index("c~", definition(1, "p", state="ready"))
    for number in range(20):
        history.put("c~", str(number), p=number)
    with SqliteDocumentStores(tmp_path) as stores:
        store = stores.partition(0, "g")
        history.apply_to(store)
        history.delete("c~")
        history.apply_to(store)
        assert store.purge(1000) == 40
    with Database(tmp_path / "0.db", synced=False) as database:
        for table in ("content", "index_content", "ended_life"):
            assert database.run(f"select count(*) from {table}") == [(0,)]
        assert database.run("select count(*) from change") == [(21,)]


def test_a_file_of_before_gets_the_copies_of_materialized_indexes(tmp_path: Path) -> None:
    history = RecordedDocuments()
    for number in range(5):
        history.put("c~", str(number), p=number % 2)
        history.put("d~", str(number), p=number)
    for uri, number, full in (("c~", 1, True), ("c~", 2, False), ("d~", 1, False)):
        history.set_index(uri, definition(number, "p", state="ready", materialize=full))
    with SqliteDocumentStores(tmp_path) as stores:
        store = stores.partition(0, "g")
        history.apply_to(store)
        whole = store.digest()
    with Database(tmp_path / "0.db", synced=False) as database:
        database.run("alter table index_content drop column body")
        database.run("delete from headwater_migration where number = 2")
    with SqliteDocumentStores(tmp_path) as stores:
        store = stores.partition(0, "g")
        with store.view() as view:
            history.check(view)
        assert store.digest() == whole
