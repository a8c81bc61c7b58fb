"""The order and the times of writes, with requests that are only recorded; that they leave the right store is tested with a real node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headwater.documents.cassandra_view import BUCKETS, STATEMENTS, DocumentTables, bucket
from headwater.documents.cassandra_writes import remove_fold, write_documents
from headwater.documents.fold import DocumentFold, FoldedHead, StoredIndex
from headwater.documents.store import DocumentHead
from headwater.store import Row
from headwater.testing.document_history import RecordedDocuments, definition

NAMES = {statement: name for name, statement in STATEMENTS.items()}
Written = tuple[str, tuple[object, ...]]


class RecordingRequests:
    """`answers`: rows by the name of a statement."""

    def __init__(self, **answers: list[Row]) -> None:
        self.written: list[list[Written]] = []
        self._answers = answers

    def bound(self, statement: str, values: Sequence[object]) -> Written:
        return NAMES[statement], tuple(values)

    def write(self, requests: Iterable[Written]) -> None:
        if step := list(requests):
            self.written.append(step)

    def all(self, requests: Iterable[Written]) -> Iterator[list[Row]]:
        return iter([self._answers.get(name, []) for name, _ in requests])

    def pages(self, statement: str, values: Sequence[object]) -> Iterator[list[Row]]:
        return iter([self._answers.get(NAMES[statement], [])])

    def names(self) -> list[list[str]]:
        return [[name for name, _ in step] for step in self.written]


def tables(requests: RecordingRequests) -> DocumentTables:
    given: Any = requests
    return DocumentTables(given, "f")


def test_a_new_document_is_named_first_and_its_head_comes_last() -> None:
    requests, history = RecordingRequests(), RecordedDocuments()
    document = DocumentFold("a", None, {})
    document.add(history.put("a", expires=9))
    write_documents(tables(requests), [document], 1000)
    assert requests.names() == [["put_uri"], ["put_row", "put_expiry", "put_change"], ["put_head"]]


def test_rows_have_the_times_of_their_records() -> None:
    requests, history = RecordingRequests(), RecordedDocuments()
    stored = {1: StoredIndex(definition(1, "p", state="ready"), 0, True, 0)}
    document = DocumentFold("c~", FoldedHead(DocumentHead(uri="c~", revision=0)), stored)
    history.set_index("c~", definition(1, "p", state="ready"))
    document.add(history.put("c~", "1", p=1))
    document.add(history.put("c~", "2", p=2))
    document.add(history.put("c~", "1", p=3))
    write_documents(tables(requests), [document], 1000)
    rows, heads = requests.written
    times = [values[-1] for name, values in rows if name in ("put_row", "put_index_row")]
    assert sorted(times) == [1002, 1002, 1003, 1003]  # type: ignore[type-var]
    [removed] = [values for name, values in rows if name == "delete_index_row"]
    assert removed[0] == 1003
    assert heads[0][1][-1] == 1003


def test_an_index_that_is_ready_is_filled_before_it_is_defined() -> None:
    requests, history = RecordingRequests(all_items=[("1", 1, b'{"p":1}'), ("2", 5, b'{"p":1}')]), RecordedDocuments()
    document = DocumentFold("c~", FoldedHead(DocumentHead(uri="c~", revision=3)), {})
    document.add(history.set_index("c~", definition(1, "p", state="ready")))
    write_documents(tables(requests), [document], 1000)
    assert requests.names() == [["put_index_row"], ["put_index", "complete_index"], ["put_head"]]
    assert requests.written[0][0][1][5] == "1"


def test_removing_a_fold_leaves_the_names_until_the_rows_are_gone() -> None:
    requests = RecordingRequests(uris=[("a",), ("c~",)], indexes=[(7, "{}", 0, 0, True)])
    remove_fold(tables(requests), 5)
    each = [["delete_index_rows"], ["delete_content"] * 2, ["delete_indexes"] * 2, ["delete_changes"] * 2, ["delete_head"] * 2]
    assert requests.names() == [*(each * BUCKETS), ["delete_expiries", "delete_ended_lives"]]
    assert all(values[:2] == (5, "f") for step in requests.written for _, values in step)
    assert bucket("a") < BUCKETS
