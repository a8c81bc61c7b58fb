"""Documents in a real Cassandra: processes that die at any write, and owners that were paused and come late."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.core.clock import SystemClock
from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.documents.cassandra import CassandraDocumentStores
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.query import CollectionQuery, run_query
from headwater.documents.query_budget import QueryLimits
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.requests import Requests
from headwater.testing.document_history import RecordedDocuments, definition

pytestmark = pytest.mark.service("cassandra")
FIRST, SECOND = 9, 18


@pytest.fixture(scope="module")
def keyspace(cassandra: tuple[str, int]) -> Iterator[Keyspace]:
    host, port = cassandra
    name = f"documents_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    with Keyspace(settings) as keyspace:
        yield keyspace
        keyspace.run(f"drop keyspace {name}")


@pytest.fixture(scope="module")
def stores(keyspace: Keyspace) -> CassandraDocumentStores:
    return CassandraDocumentStores(keyspace)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    """Partitions that no other test uses."""
    return itertools.count(1)


class DeadError(Exception):
    """The process ends here."""


class DyingRequests(Requests):
    """Writes so many requests, and then no more."""

    def __init__(self, keyspace: Keyspace, writes: int) -> None:
        super().__init__(keyspace)
        self.left = writes

    def write(self, requests: Iterable[Any]) -> None:
        for request in requests:
            if self.left == 0:
                raise DeadError
            self.left -= 1
            super().write([request])


class PausedRequests(Requests):
    """Writes so many requests; then its process is paused, while something else happens, and goes on."""

    def __init__(self, keyspace: Keyspace, writes: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(keyspace)
        self.left, self._meanwhile = writes, meanwhile

    def write(self, requests: Iterable[Any]) -> None:
        for request in requests:
            if self.left == 0:
                self._meanwhile()
            self.left -= 1
            super().write([request])


def history() -> RecordedDocuments:
    """Two calls, [0, 9) and [9, 18), and some records behind them. In the second one an index comes after an item has changed twice."""
    found = RecordedDocuments()
    found.put("a", p=1)
    found.put("b", p=1)
    found.set_index("c~", definition(1, "p", state="ready"))
    for number in range(4):
        found.put("c~", str(number), p=number)
    found.put("d~", "1", p=1)
    found.put("d~", "2", p=2, expires=5)
    # the call in which a process dies
    found.patch("a", q=1)
    found.delete("b")
    found.put("d~", "1", p=7)
    found.put("d~", "1", p=8)
    found.set_index("d~", definition(1, "p", materialize=True))
    found.set_index("d~", definition(1, "p", state="ready", materialize=True))
    found.put("d~", "1", p=9)
    found.delete("c~")
    found.put("c~", "2", p=5)
    # what is appended meanwhile
    found.put("b", p=2)
    found.put("c~", "3", p=1)
    found.delete("d~", "1")
    return found


def part(found: RecordedDocuments, start: int, end: int) -> list[Any]:
    return [record for record in found.records if start <= record.offset < end]


def fold_of(keyspace: Keyspace, partition: int) -> str:
    """The fold that counts."""
    return str(keyspace.run("select fold from checkpoint where partition = ?", (partition,))[0][0])


def check(store: DocumentStore, found: RecordedDocuments, folder: Path) -> None:
    """Assert that a store is what SQLite makes of all records."""
    with SqliteDocumentStores(folder) as stores:
        other = stores.partition(0, "g")
        found.apply_to(other)
        assert store.digest() == other.digest()
    with store.view() as view:
        found.check(view)


def test_a_purge_beside_an_apply_leaves_the_notes_of_what_expires(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int]
) -> None:
    """An apply writes a row and its note before the head: a purge that looks in between takes the note for one that no longer holds."""
    for writes in itertools.count():
        number, found, purged = next(numbers), RecordedDocuments(), list[int]()
        found.put("a", p=1)
        found.put("e~", "1", p=1, expires=5)
        store = stores.partition(number, "g")
        store.apply(part(found, 0, 1), 1)
        requests = PausedRequests(keyspace, writes, lambda store=store, purged=purged: purged.append(store.purge(100)))  # type: ignore[misc]
        CassandraDocumentStores(keyspace, requests=requests).partition(number, "g").apply(part(found, 1, 2), 2)
        with store.view() as view:
            assert view.expiring(6, 10) == [("e~", "1")], f"purged before write {writes}"
        if not purged:
            break
    assert writes > 3


@pytest.mark.parametrize("longer", [False, True], ids=["the same call", "a longer call"])
def test_whenever_a_process_dies_the_next_one_leaves_the_same_store(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int], tmp_path: Path, longer: bool
) -> None:
    writes, finished = 0, False
    while not finished:
        number, found = next(numbers), history()
        store = stores.partition(number, "g")
        store.apply(part(found, 0, FIRST), FIRST)
        dying = CassandraDocumentStores(keyspace, requests=DyingRequests(keyspace, writes)).partition(number, "g")
        try:
            dying.apply(part(found, FIRST, SECOND), SECOND)
            finished = True
        except DeadError:
            with store.view() as view:
                assert view.applied() == FIRST
                found.check(OverlaidView(view, part(found, FIRST, found.end)))
        if longer:
            store.apply(found.records, found.end)
        else:
            store.apply(part(found, FIRST, SECOND), SECOND)
            store.apply(found.records, found.end)
        check(store, found, tmp_path / f"{writes}")
        writes += 1
    assert writes > 20


def test_an_owner_that_was_paused_changes_nothing(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int], tmp_path: Path
) -> None:
    writes, left = 0, 0
    while left <= 0:
        number, found = next(numbers), history()
        store = stores.partition(number, "g")
        store.apply(part(found, 0, FIRST), FIRST)
        paused = PausedRequests(keyspace, writes, partial(store.apply, found.records, found.end))
        CassandraDocumentStores(keyspace, requests=paused).partition(number, "g").apply(part(found, FIRST, SECOND), SECOND)
        store.apply(found.records, found.end)
        check(store, found, tmp_path / f"{writes}")
        with store.view() as view:
            assert view.applied() == found.end
        left, writes = paused.left, writes + 3
    assert writes > 20


def test_an_owner_that_was_paused_while_the_store_was_cleared_changes_nothing(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int], tmp_path: Path
) -> None:
    for writes in (0, 3, 12, 20):
        number, found, renewed = next(numbers), history(), RecordedDocuments()
        renewed.put("c~", "7", p=1)
        renewed.put("b", p=1)
        stores.partition(number, "g").apply([], 0)
        store = stores.partition(number, "g2")

        def meanwhile(store: DocumentStore = store, renewed: RecordedDocuments = renewed) -> None:
            store.clear()
            renewed.apply_to(store)

        paused = PausedRequests(keyspace, writes, meanwhile)
        CassandraDocumentStores(keyspace, requests=paused).partition(number, "g").apply(found.records, found.end)
        assert paused.left < 0
        check(store, renewed, tmp_path / f"{writes}")


def test_a_clear_whose_process_died_has_been_or_has_not_and_leaves_no_rows(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int], tmp_path: Path
) -> None:
    writes, finished = 0, False
    while not finished:
        number, found, renewed = next(numbers), history(), RecordedDocuments()
        store = stores.partition(number, "g")
        store.apply(part(found, 0, FIRST), FIRST)
        dying = CassandraDocumentStores(keyspace, requests=DyingRequests(keyspace, writes)).partition(number, "g")
        try:
            dying.clear()
            finished = True
        except DeadError:
            with store.view() as view:
                assert view.applied() in (0, FIRST)
                if view.applied():
                    found.apply_to(store)
                    check(store, found, tmp_path / f"{writes}-before")
                    store.clear()
        renewed.put("c~", "7", p=1)
        renewed.apply_to(store)
        store.purge(1)
        check(store, renewed, tmp_path / f"{writes}")
        assert keyspace.run("select fold from dropped_fold where partition = ?", (number,)) == []
        writes += 1
    assert writes > 5


def test_notes_of_expiry_that_no_longer_hold_are_purged(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int]
) -> None:
    number, found = next(numbers), RecordedDocuments()
    for item in range(5):
        found.put("c~", str(item), expires=100 + item)
    found.delete("c~", "0")
    found.put("c~", "1")
    found.put("c~", "2", expires=500)
    store = stores.partition(number, "g")
    store.apply(part(found, 0, 5), 5)
    found.apply_to(store)
    assert store.purge(100) == 3
    rows = keyspace.run("select expires, item from expiry where fold = ?", (fold_of(keyspace, number),))
    assert rows == [(103, "3"), (104, "4"), (500, "2")]


def test_a_cleared_store_leaves_no_rows(stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int]) -> None:
    number, found = next(numbers), history()
    store = stores.partition(number, "g")
    found.apply_to(store)
    before = fold_of(keyspace, number)
    store.clear()
    assert fold_of(keyspace, number) != before
    for table in ("document", "content", "index_def", "index_content", "change", "expiry", "ended_life"):
        assert keyspace.run(f"select * from {table} where fold = ? allow filtering", (before,)) == [], table


def test_rows_of_before_copies_were_kept_are_served_from_the_collection(
    stores: CassandraDocumentStores, keyspace: Keyspace, numbers: Iterator[int]
) -> None:
    found = RecordedDocuments()
    found.set_index("c~", definition(1, "p", state="ready", materialize=True))
    for number in range(4):
        found.put("c~", str(number), id=str(number), p=-number)
    store = stores.partition(next(numbers), "g")
    found.apply_to(store)
    query, limits = CollectionQuery(sort="p"), QueryLimits()
    with store.view() as view:
        page = run_query(view, "c~", query, clock=SystemClock(), limits=limits)
    assert page.explanation.bodies == "index"
    for fold, uri, number, life, key in keyspace.run("select fold, uri, number, life, key from index_content"):
        if fold == fold_of(keyspace, store.partition) and uri == "c~":
            place = (fold, uri, number, life, key)
            keyspace.run("delete body from index_content where fold = ? and uri = ? and number = ? and life = ? and key = ?", place)
    with store.view() as view:
        older = run_query(view, "c~", query, clock=SystemClock(), limits=limits)
    assert older.explanation.bodies == "collection"
    assert [(row.item, row.body) for row in older.rows] == [(row.item, row.body) for row in page.rows]
