"""The first difference of two views, named so that a person finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.documents.cassandra import CassandraDocumentStore
from headwater.documents.compare import Compared, compare
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.store.sqlite.database import Database
from headwater.testing.document_history import RecordedDocuments, definition


def history() -> RecordedDocuments:
    found = RecordedDocuments()
    found.put("a", p=1)
    found.put("b", p=1)
    found.set_index("c~", definition(1, "p", state="ready"))
    for number in range(4):
        found.put("c~", str(number), p=number)
    found.set_index("d~", definition(1, "p", state="ready", materialize=True))
    found.put("d~", "1", p=1)
    return found


def compared(folder: Path, statement: str, *, lacks_copies: bool = False) -> Compared:
    """A store that is right beside one in which somebody ran a statement."""
    for name in ("wanted", "found"):
        with SqliteDocumentStores(folder / name) as stores:
            history().apply_to(stores.partition(0, "g"))
    if statement:
        with Database(folder / "found" / "0.db", synced=False) as database:
            database.run(statement)
    with SqliteDocumentStores(folder / "wanted") as wanted, SqliteDocumentStores(folder / "found") as found:
        with wanted.partition(0, "g").view() as left, found.partition(0, "g").view() as right:
            return compare(left, right, lacks_copies=lacks_copies)


def test_equal_views_have_no_difference(tmp_path: Path) -> None:
    assert compared(tmp_path, "") == Compared(4, 7, 5)


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("delete from document where uri = 'a'", "Document a: the store lacks it."),
        ("update document set uri = 'aa' where uri = 'a'", "Document a: the store lacks it."),
        ("update document set uri = 'c' where uri = 'c~'", "Document c: the log does not say it."),
        ("update document set revision = 7 where uri = 'b'", "Document b: revision is 7, not 1."),
        ("update content set body = cast('{}' as blob) where item = ''", """Document a: body is b'{}', not b'{"p":1}'."""),
        ("delete from content where item = '2'", "Item c~/2: the store lacks it."),
        ("update content set item = '20' where item = '2'", "Item c~/2: the store lacks it."),
        ("update content set item = '00' where item = '1'", "Item c~/00: the log does not say it."),
        ("delete from change where revision = 3", "Collection c~, revision 3: the store lacks it."),
        (
            "update change set offset = 9 where revision = 2",
            "Collection c~, revision 2: lies at offset 9 of time 1700000000040, not at 4 of",
        ),
        (
            "update index_content set body = cast('{}' as blob) where body is not null",
            """Index 'index-1' of d~: the copy of item 1 is b'{}', not b'{"p":1}'.""",
        ),
        ("delete from index_def", "Index 'index-1' of c~: the store lacks it."),
        (
            "update index_def set definition = replace(definition, 'ready', 'failed')",
            "Index 'index-1' of c~: state is 'failed', not 'ready'.",
        ),
        ("delete from index_content where item = '1'", "Index 'index-1' of c~, the row of item 1: the store lacks it."),
        ("update index_content set item = '7' where item = '1'", "Index 'index-1' of c~: the row of item 1 names 7."),
    ],
)
def test_the_first_difference_is_named(tmp_path: Path, statement: str, difference: str) -> None:
    assert compared(tmp_path, statement).difference.startswith(difference)


def test_a_row_without_its_copy_is_a_difference_unless_such_rows_are_served(tmp_path: Path) -> None:
    statement = "update index_content set body = cast('' as blob) where body is not null"
    assert "the copy of item 1 is b''" in compared(tmp_path / "one", statement).difference
    assert compared(tmp_path / "two", statement, lacks_copies=CassandraDocumentStore.lacks_copies) == Compared(4, 7, 5)
    other = statement.replace("''", "'{}'")
    assert "the copy of item 1 is b'{}'" in compared(tmp_path / "three", other, lacks_copies=True).difference
