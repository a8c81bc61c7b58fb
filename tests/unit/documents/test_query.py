"""Queries: the answer of an index is that of a scan, pages hold everything once, and limits say what would help."""

from __future__ import annotations

import json as plain_json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest
from tests.unit.documents.memory_view import MemoryView
from tests.unit.documents.query_ground import ask, ids, index, numbered, pages, random_collection
from tests.unit.documents.query_oracle import answer

from headwater.core.errors import BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.query_budget import QueryLimits
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import AppendedRecord, DocumentStore, DocumentView
from headwater.testing.document_history import RecordedDocuments
from headwater.testing.filter_samples import random_filter, random_order

# -- index = scan -----------------------------------------------------------------------------------------------


def random_indexes(generator: random.Random, query: str) -> list[IndexDefinition]:
    found = []
    for number in range(1, generator.randrange(4) + 1):
        order = random_order(generator)
        fields = dict.fromkeys(field.lstrip("+-") for field in order.split(",") if field)
        sort_by = tuple(SortField(field, generator.choice(("asc", "desc"))) for field in fields)
        choice = generator.random()
        filter_by = "" if choice < 0.5 else query if choice < 0.7 else f"({query}) or ({random_filter(generator, 1)})" if query else ""
        full = generator.random() < 0.4
        found.append(IndexDefinition(id=f"i{number}", number=number, sort_by=sort_by, filter_by=filter_by, state="ready", materialize=full))
    return found


def memory_view(bodies: Mapping[str, Mapping[str, Any]], indexes: list[IndexDefinition]) -> AbstractContextManager[DocumentView]:
    return nullcontext(MemoryView(bodies, indexes))


def check_case(generator: random.Random, open_view: Any) -> str:
    """One random collection with indexes and queries; the index that served the last."""
    bodies = random_collection(generator)
    query = random_filter(generator) if generator.random() < 0.85 else ""
    indexes = random_indexes(generator, query)
    served = ""
    with open_view(bodies, indexes) as view:
        for _ in range(3):
            sort = random_order(generator)
            expected = answer(bodies, query, sort)
            size = generator.choice((1, 2, 3, 7, 100))
            got: list[str] = []
            cursor = ""
            for _ in range(len(bodies) + 3):
                page = ask(view, size=size, filter=query, sort=sort, cursor=cursor, count=True)
                got += ids(page)
                assert all(plain_json.loads(row.body) == bodies[row.item] for row in page.rows)
                chosen = next((one for one in indexes if one.id == page.explanation.index), None)
                assert (page.explanation.bodies == "index") == (chosen is not None and chosen.materialize)
                assert page.total == len(expected)
                cursor = page.cursor
                if not cursor:
                    break
            case = (bodies, [(one.sort_by, one.filter_by) for one in indexes], query, sort, size, page.explanation)
            assert got == expected, case
            served = page.explanation.index or served
    return served


def test_an_index_answers_as_a_scan_does() -> None:
    generator = random.Random(11)
    served = sum(bool(check_case(generator, memory_view)) for _ in range(300))
    assert served > 50


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_an_index_answers_as_a_scan_does_for_long(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(5000):
        check_case(generator, memory_view)


class SqliteCollections:
    """Opens random collections as views of a store in SQLite; each in a partition of its own."""

    def __init__(self, path: Path) -> None:
        self._stores = SqliteDocumentStores(path)
        self._partition = -1

    def view(self, bodies: Mapping[str, Mapping[str, Any]], indexes: list[IndexDefinition]) -> AbstractContextManager[DocumentView]:
        history = RecordedDocuments()
        items = list(bodies.items())
        for item, body in items[::2]:
            history.put("c~", item, **body)
        for each in indexes:
            history.set_index("c~", each)
        for item, body in items[1::2]:
            history.put("c~", item, **body)
        for item, body in items[::2]:  # rows of items that were there before the indexes
            history.put("c~", item, **body)
        return self.store(history.records, history.end).view()

    def store(self, records: Sequence[AppendedRecord], applied: int) -> DocumentStore:
        """A new store that holds these records."""
        self._partition += 1
        store = self._stores.partition(self._partition, "g")
        store.apply(records, applied)
        return store

    def close(self) -> None:
        self._stores.close()


def test_sqlite_answers_as_a_scan_does(tmp_path: Path) -> None:
    collections = SqliteCollections(tmp_path)
    generator = random.Random(12)
    try:
        for _ in range(40):
            check_case(generator, collections.view)
    finally:
        collections.close()


@contextmanager
def records_over_a_store(
    collections: SqliteCollections, bodies: Mapping[str, Any], indexes: list[IndexDefinition]
) -> Iterator[DocumentView]:
    """A store that lacks the newest half of the records, with them laid over it."""
    history = RecordedDocuments()
    for each in indexes:
        history.set_index("c~", each)
    for number, (item, body) in enumerate(bodies.items()):
        history.put("c~", item if number % 2 else f"gone{number}", **{**body, "a": number % 3})
    cut = history.end
    for item in [item for item in history.rows.get("c~", {}) if item.startswith("gone")]:
        history.delete("c~", item)
    for item, body in bodies.items():
        history.put("c~", item, **body)
    with collections.store([record for record in history.records if record.offset < cut], cut).view() as view:
        overlaid = OverlaidView(view)
        for record in history.records[cut:]:
            overlaid.add(record)
        yield overlaid


def test_records_over_a_store_answer_as_a_scan_does(tmp_path: Path) -> None:
    collections = SqliteCollections(tmp_path)
    generator = random.Random(13)
    try:
        for _ in range(20):
            check_case(generator, lambda bodies, indexes: records_over_a_store(collections, bodies, indexes))
    finally:
        collections.close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_sqlite_answers_as_a_scan_does_for_long(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    for number in range(7):
        collections = SqliteCollections(tmp_path / str(number))
        try:
            for _ in range(100):
                check_case(generator, collections.view)
        finally:
            collections.close()


# -- pages and orders -------------------------------------------------------------------------------------------


def test_pages_hold_everything_once() -> None:
    view = MemoryView(numbered(25))
    assert [len(page) for page in pages(view, size=10)] == [10, 10, 5]
    assert list(chain(*pages(view, size=10))) == sorted(view.items)
    assert list(chain(*pages(view, size=7, sort="-id"))) == sorted(view.items, reverse=True)


def test_a_cursor_stays_good_where_its_row_is_deleted() -> None:
    view = MemoryView(numbered(20))
    first = ask(view, size=5)
    del view.items["00004"]
    assert ids(ask(view, size=2, cursor=first.cursor)) == ["00005", "00006"]


@pytest.mark.parametrize("other", [{"sort": "a"}, {"filter": "a = 1"}, {"cursor": "AAAA"}, {"cursor": "é"}, {"cursor": "x" * 5}])
def test_a_cursor_of_another_query_is_refused(other: dict[str, Any]) -> None:
    view = MemoryView(numbered(20))
    cursor = ask(view, size=5, sort="-id").cursor
    with pytest.raises(BadInput, match="cursor"):
        ask(view, **{"size": 5, "sort": "-id", "cursor": cursor, **other})


def test_every_byte_of_a_cursor_that_is_changed_is_refused_or_answers() -> None:
    view = MemoryView(numbered(20))
    cursor = ask(view, size=5, sort="-a").cursor
    for at in range(len(cursor)):
        for letter in "A_z":
            try:
                ask(view, size=5, sort="-a", cursor=cursor[:at] + letter + cursor[at + 1 :])
            except BadInput:
                continue


def test_ties_are_in_the_order_of_ids_whatever_the_direction() -> None:
    bodies = {name: {"id": name, "a": number // 2} for number, name in enumerate("abcdef")}
    for indexes in ([], [index(1, "a")], [index(1, "-a")]):
        view = MemoryView(bodies, indexes)
        assert "".join(ids(ask(view, sort="a"))) == "abcdef"
        assert "".join(ids(ask(view, sort="-a"))) == "efcdab"


def test_the_order_across_types() -> None:
    values = [None, -5, 0, 2.5, 10, "", "10", "a", False, True, [], {"x": 1}]
    bodies = {f"{number:02d}": {"id": f"{number:02d}", "a": value} for number, value in enumerate(values)}
    assert ids(ask(MemoryView(bodies), sort="a:asc")) == sorted(bodies)
    assert ids(ask(MemoryView(bodies), sort="a:desc")) == sorted(bodies, reverse=True)


def test_a_body_that_is_no_object_is_in_no_answer_of_a_filter() -> None:
    view = MemoryView({"a": {"id": "a"}, "b": [1], "c": {"id": "c"}})  # type: ignore[dict-item]
    page = ask(view, filter="id is not null")
    assert ids(page) == ["a", "c"]
    assert page.explanation.rows_failed == 1


def test_rows_for_which_the_filter_has_no_value_are_rejected_and_counted() -> None:
    bodies = {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": "x"}, "c": {"id": "c"}}
    page = ask(MemoryView(bodies), filter="n + 1 = 2")
    assert ids(page) == ["a"]
    assert page.explanation.rows_rejected == page.explanation.rows_failed == 2


# -- which source -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "sort", "definition", "words"),
    [
        ("", "a,b", index(1, "a"), "groups of equal a are sorted in memory"),
        ("", "-a,b", index(1, "a"), "groups of equal -a are sorted in memory, read backwards"),
        ("a > 10", "a", index(1, "a", filter_by="a > 5"), "as the rows are stored"),
        ('a > 10 and id > "abc"', "a", index(1, "a", filter_by="a > 5"), "as the rows are stored"),
        ("a = 3", "", index(1, "a"), "as the rows are stored"),
        ("a = 3", "b", index(1, "a", "b"), "as the rows are stored"),
        ("b > 10", "id", index(1, "b", filter_by="b > 10"), "all rows are sorted in memory by id"),
        ("a = 3 and b = 4", "id", index(1, "-b", "a"), "as the rows are stored"),
    ],
)
def test_an_index_that_covers_a_query_serves_it(query: str, sort: str, definition: IndexDefinition, words: str) -> None:
    bodies = numbered(400)
    page = ask(MemoryView(bodies, [definition]), filter=query, sort=sort, size=50)
    assert page.explanation.index == "i1"
    assert page.explanation.order == words
    assert ids(page) == answer(bodies, query, sort)[:50]


def test_an_index_that_lacks_rows_serves_nothing() -> None:
    indexes = [
        index(1, "a", filter_by="a > 5"),
        IndexDefinition(id="young", number=2, sort_by=(SortField("a"),)),
        IndexDefinition(id="broken", number=3, sort_by=(SortField("a"),), state="failed", error="No disk."),
    ]
    explanation = ask(MemoryView(numbered(30), indexes), filter="a > 3", sort="a").explanation
    assert explanation.index is None
    assert explanation.others == {
        "i1": "The query may accept items that its filter (a > 5) rejects.",
        "young": "It is building.",
        "broken": "It is failed: No disk.",
    }


def test_a_page_of_an_index_takes_few_reads() -> None:
    view = MemoryView(numbered(5000), [index(1, "b")])
    page = ask(view, QueryLimits(), size=50, sort="-b", skip_max=50)
    assert page.rows[0].item == "04999"
    assert page.explanation.reads <= 4
    assert page.explanation.rows_read <= 52


def test_ids_that_a_filter_names_take_one_read() -> None:
    bodies = numbered(5000)
    page = ask(MemoryView(bodies), filter="id = '00003' or id = '04000' or id = 'none'", skip_max=0, sort="-b")
    assert ids(page) == ["04000", "00003"]
    assert (page.explanation.reads, page.explanation.rows_read) == (1, 2)


def test_values_that_a_filter_names_are_read_alone() -> None:
    bodies = numbered(5000)
    page = ask(MemoryView(bodies, [index(1, "a")]), filter="a = 3 or a = 77", skip_max=0, sort="a", size=200)
    assert ids(page) == answer(bodies, "a = 3 or a = 77", "a")
    assert page.explanation.rows_rejected == 0


def test_a_filter_with_few_rows_in_an_index_is_served_by_it_in_the_order_of_ids() -> None:
    bodies = numbered(5000)
    view = MemoryView(bodies, [index(1, "b")])
    page = ask(view, filter="b > 4990", size=3)
    assert ids(page) == answer(bodies, "b > 4990", "")[:3]
    assert (page.explanation.index, page.explanation.rows_read) == ("i1", 9)
    many = ask(view, filter="b > 10", size=3)  # a page of the collection is full sooner than thousands of rows are sorted
    assert ids(many) == answer(bodies, "b > 10", "")[:3]
    assert many.explanation.index is None


def test_a_source_that_passes_over_too_many_rows_gives_way_to_another() -> None:
    bodies = numbered(3000)
    view = MemoryView(bodies, [index(1, "b", filter_by="b > 10")])
    page = ask(view, filter="b > 10", sort="id", size=50, skip_max=1000)  # 2 989 rows would be sorted
    assert page.explanation.index is None
    assert ids(page) == answer(bodies, "b > 10", "id")[:50]


@pytest.mark.parametrize("fields", [("t",), ("-t",), ("b", "t")])
def test_long_values_are_found_by_an_index(fields: tuple[str, ...]) -> None:
    texts = ["x" * 499, "x" * 500, "x" * 501, "x" * 600 + "a", "x" * 600 + "b", "x" * 600 + "c", "y" * 900, int("7" * 400), int("7" * 401)]
    bodies = {f"{number}": {"id": f"{number}", "t": text, "b": 1} for number, text in enumerate(texts)}
    scan, indexed = MemoryView(bodies), MemoryView(bodies, [index(1, *fields)])
    for operator, text in product(("=", "<", "<=", ">", ">=", "!="), texts):
        query = f"b = 1 and t {operator} {plain_json.dumps(text) if isinstance(text, str) else f'{text}'}"
        if len(query) > 8000 or isinstance(text, int):
            continue
        for sort in ("t", "-t", "id"):
            expected = list(chain(*pages(scan, filter=query, sort=sort, size=2)))
            assert list(chain(*pages(indexed, filter=query, sort=sort, size=2))) == expected, (operator, len(text), sort)
            assert sorted(expected) == sorted(answer(bodies, query, ""))
