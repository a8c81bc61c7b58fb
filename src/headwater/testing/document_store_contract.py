"""Everything that `headwater.documents.store.DocumentStore` promises, as tests that any engine can be held to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headwater.core.errors import Closed, Conflict, Differs
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentHead, DocumentRow, DocumentStore, DocumentStores
from headwater.testing.document_history import BEGAN, RecordedDocuments, definition
from headwater.testing.document_store_ground import OpenDocumentStores
from headwater.testing.document_store_indexes import DocumentStoreIndexes
from headwater.testing.document_store_splits import DocumentStoreSplits
from headwater.testing.log_ground import together


class DocumentStoreContract(DocumentStoreIndexes, DocumentStoreSplits):
    """Subclass it, and give the fixture `open_stores`: a function that opens DocumentStores on the same place."""

    # -- heads and rows ---------------------------------------------------------------------------------------

    def test_an_empty_store_has_nothing(self, store: DocumentStore) -> None:
        with store.view() as view:
            assert view.applied() == 0
            assert view.head("a") is None
            assert view.row("a") is None
            assert view.row("a~", "1") is None
            assert view.rows("a~", limit=10) == []
            assert view.rows_of("a~", ["1", "2"]) == [None, None]
            assert view.indexes("a~") == []
            assert view.index_rows("a~", 1, limit=10) == []
            assert view.changes("a", limit=10) == []
            assert view.heads(limit=10) == []
            assert view.expiring(1 << 60, 10) == []
        assert store.checkpoint() == 0
        assert store.purge(10) == 0
        assert store.remove_index_rows("a~", 1, 10) == 0

    def test_a_document_is_put_patched_deleted_and_put_again(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.put("a/b", p=1)
        history.patch("a/b", q=2)
        history.apply_to(store)
        with store.view() as view:
            assert view.row("a/b") == DocumentRow("", b'{"p":1,"q":2}', 2, BEGAN, BEGAN + 10)
            assert view.head("a/b") == DocumentHead(uri="a/b", revision=2, created=BEGAN, modified=BEGAN + 10)
            assert view.applied() == 2
        history.delete("a/b")
        history.apply_to(store)
        with store.view() as view:
            assert view.row("a/b") is None
            head = view.head("a/b")
            assert head is not None
            assert (head.revision, head.deleted) == (3, True)
        history.put("a/b", p=5)
        history.apply_to(store)
        with store.view() as view:
            assert view.row("a/b") == DocumentRow("", b'{"p":5}', 4, BEGAN + 30, BEGAN + 30)
            history.check(view)

    def test_a_point_is_what_a_view_shows(self, store: DocumentStore, history: RecordedDocuments) -> None:
        assert store.point("a") == (0, 0, None)
        history.put("a", p=1)
        history.put("b~", "x", id="x")
        history.put("b~", "y", id="y")
        history.put("gone", p=1)
        history.delete("gone")
        history.apply_to(store)
        for uri, item in [("a", ""), ("b~", "x"), ("b~", "absent"), ("gone", ""), ("absent", ""), ("b~", "")]:
            with store.view() as view:
                head, row = view.head(uri), view.row(uri, item)
                assert store.point(uri, item) == (view.applied(), 0 if head is None else head.revision, row)

    def test_bodies_come_back_byte_for_byte(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.put("a", text="\u20ac\U0001f600\0", number=12345678901234567890)
        history.put("b~", "x", id="x", list=[1, None, {"y": []}], long="z" * 100_000)
        history.apply_to(store)
        with store.view() as view:
            history.check(view)

    def test_items_are_read_by_the_bytes_of_their_ids(self, store: DocumentStore, history: RecordedDocuments) -> None:
        items = ["!", "-", "1", "10", "2", "A", "Z", "_", "a", "z", "~"]
        for item in reversed(items):
            history.put("c~", item, id=item)
        history.put("c", p=1)
        history.put("c~~", "1", p=1)
        history.apply_to(store)
        with store.view() as view:

            def item_ids(**narrowed: object) -> list[str]:
                return [row.item for row in view.rows("c~", **narrowed)]  # type: ignore[arg-type]

            assert item_ids(limit=100) == items
            assert item_ids(limit=100, reverse=True) == items[::-1]
            assert item_ids(limit=2) == items[:2]
            assert item_ids(limit=2, reverse=True) == items[:-3:-1]
            assert item_ids(low="10", high="Z", limit=100) == ["10", "2", "A"]
            assert item_ids(low="10", high="Z", limit=2, reverse=True) == ["A", "2"]
            assert item_ids(low="11", limit=2) == ["2", "A"]
            assert item_ids(low="Z", high="A", limit=2) == []
            assert item_ids(low="_", limit=9, reverse=True) == ["~", "z", "a", "_"]
            rows = view.rows_of("c~", ["z", "0", "!", "z"])
            assert [row and row.item for row in rows] == ["z", None, "!", "z"]
            assert view.rows_of("c~", []) == []
            assert view.rows("c", limit=10) == []

    def test_heads_are_listed_by_uri_below_a_prefix(self, store: DocumentStore, history: RecordedDocuments) -> None:
        uris = ["a", "a/b", "a/b~", "a/c", "ab", "b~", "~"]
        for uri in reversed(uris):
            history.put(uri, "1" if uri.endswith("~") else "", p=1)
        history.delete("a/c")
        history.apply_to(store)
        with store.view() as view:
            assert [head.uri for head in view.heads(limit=100)] == uris
            assert [head.uri for head in view.heads(prefix="a/", limit=100)] == ["a/b", "a/b~", "a/c"]
            assert [head.uri for head in view.heads(prefix="a/", after="a/b", limit=1)] == ["a/b~"]
            assert [head.uri for head in view.heads(after="a/c", limit=2)] == ["ab", "b~"]
            assert view.heads(prefix="x", limit=2) == []
            assert [head.deleted for head in view.heads(prefix="a/c", limit=1)] == [True]

    def test_changes_have_their_places(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.skip()
        for number in range(5):
            history.put("c~", str(number), p=number)
            history.put("a", p=number)
        history.write("c~", [("put", "x", {}), ("put", "y", {}), ("delete", "x", None)])
        history.apply_to(store)
        places = history.places["c~"]
        assert [place.revision for place in places] == list(range(1, 9))
        with store.view() as view:
            assert view.changes("c~", limit=100) == places
            assert view.changes("c~", after=3, limit=2) == places[3:5]
            assert view.changes("c~", limit=3, reverse=True) == places[:-4:-1]
            assert view.changes("c~", after=3, limit=100, reverse=True) == places[1::-1]
            assert view.changes("c~", after=8, limit=100) == []

    def test_rows_expire_by_their_time(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.put("c~", "late", expires=300)
        history.put("c~", "early", expires=100)
        history.put("a", expires=200)
        history.put("c~", "never")
        history.put("c~", "saved", expires=50)
        history.put("c~", "saved")
        history.put("d~", "gone", expires=60)
        history.delete("d~")
        history.apply_to(store)
        with store.view() as view:
            assert view.expiring(1000, 100) == [("c~", "early"), ("a", ""), ("c~", "late")]
            assert view.expiring(300, 100) == [("c~", "early"), ("a", "")]
            assert view.expiring(1000, 1) == [("c~", "early")]

    def test_settings_and_the_last_id_outlive_the_collection(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.set_settings("c~", view="x")
        history.apply_to(store)
        with store.view() as view:
            assert view.head("c~") == DocumentHead(uri="c~", revision=0, deleted=True, settings=b'{"view":"x"}')
        history.put("c~", "5", last_id="5")
        history.delete("c~")
        history.apply_to(store)
        with store.view() as view:
            head = view.head("c~")
            assert head is not None
            assert (head.revision, head.deleted, head.last_id, head.settings) == (2, True, "5", b'{"view":"x"}')

    # -- lives of collections ---------------------------------------------------------------------------------

    def test_items_of_a_deleted_collection_never_return(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.set_index("c~", definition(1, "p", state="ready"))
        for number in range(10):
            history.put("c~", str(number), p=number)
        history.apply_to(store)
        history.delete("c~")
        history.apply_to(store)
        with store.view() as view:
            assert view.rows("c~", limit=100) == []
            assert view.row("c~", "1") is None
            assert view.rows_of("c~", ["1"]) == [None]
            assert view.index_rows("c~", 1, limit=100) == []
        history.put("c~", "5", p=1)
        history.apply_to(store)
        with store.view() as view:
            assert [row.item for row in view.rows("c~", limit=100)] == ["5"]
            assert len(view.index_rows("c~", 1, limit=100)) == 1
            history.check(view)
        before = store.digest()
        removed = [store.purge(6) for _ in range(6)]
        assert sum(removed) == 20
        assert max(removed) <= 6
        assert store.purge(100) == 0
        assert store.digest() == before

    def test_one_record_may_end_a_life_and_begin_the_next(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.put("c~", "old", p=1)
        history.write("c~", [("put", "a", {}), ("delete", "", None), ("put", "b", {}), ("delete", "", None), ("put", "c", {})])
        history.apply_to(store)
        with store.view() as view:
            assert [row.item for row in view.rows("c~", limit=100)] == ["c"]
            history.check(view)

    # -- applying ---------------------------------------------------------------------------------------------

    def test_applying_again_changes_nothing(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.set_index("c~", definition(1, "p", state="ready"))
        history.put("c~", "1", p=1)
        history.delete("c~", "1")
        history.put("c~", "2", p=2)
        history.apply_to(store)
        before = store.digest()
        store.apply(history.records, history.end)
        store.apply(history.records[:2], 2)
        store.apply([], 1)
        assert store.digest() == before
        with store.view() as view:
            assert view.applied() == history.end
            history.check(view)

    def test_an_offset_without_a_record_moves_the_applied_offset_alone(self, store: DocumentStore) -> None:
        before = store.digest()
        store.apply([], 7)
        with store.view() as view:
            assert view.applied() == 7
        assert store.digest() == before
        assert store.checkpoint() == 7

    def test_a_revision_that_does_not_follow_is_refused(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.put("a", p=1)
        history.put("b", p=1)
        history.put("a", p=2)
        history.put("b", p=2)
        store.apply(history.records[:2], 2)
        before = store.digest()
        with pytest.raises(Differs, match="revision"):
            store.apply([history.records[3], history.records[2]._replace(offset=9), history.records[3]._replace(offset=11)], 12)
        assert store.digest() == before
        with store.view() as view:
            assert view.applied() == 2

    def test_what_is_applied_is_there_for_whoever_opens_it_next(
        self, store: DocumentStore, another: OpenDocumentStores, history: RecordedDocuments, generation: str
    ) -> None:
        history.put("c~", "1", p=1)
        history.apply_to(store)
        other = another().partition(1000, generation)
        assert other.digest() == store.digest()
        history.put("c~", "2", p=1)
        history.apply_to(other)
        assert other.digest() == store.digest()

    def test_partitions_do_not_meet(self, fresh: Callable[[], DocumentStore], history: RecordedDocuments) -> None:
        store, other = fresh(), fresh()
        history.put("a", p=1)
        history.apply_to(store)
        with other.view() as view:
            assert view.applied() == 0
            assert view.heads(limit=1) == []
        other.clear()
        with store.view() as view:
            history.check(view)

    def test_a_store_of_another_topic_is_refused_until_it_is_cleared(
        self, store: DocumentStore, stores: DocumentStores, history: RecordedDocuments
    ) -> None:
        history.put("a", p=1)
        history.apply_to(store)
        newer = stores.partition(1000, "another-topic")
        with pytest.raises(Differs), newer.view():
            pass
        with pytest.raises(Differs):
            newer.apply(history.records, history.end)
        newer.clear()
        with newer.view() as view:
            assert view.applied() == 0
            assert view.heads(limit=1) == []
        with pytest.raises(Differs), store.view():
            pass

    def test_a_store_takes_over_what_another_one_holds(self, store: DocumentStore, history: RecordedDocuments, tmp_path: Path) -> None:
        """As from a base copy, whatever was there before; and goes on."""
        older = RecordedDocuments()
        for number in range(5):
            older.put("old~", str(number), p=1)
            older.put(f"a/{number}", p=1)
        older.apply_to(store)
        history.set_index("c~", definition(1, "p", state="ready"))
        for number in range(1100):
            history.put("c~", f"{number:04}", p=number, expires=number)
        history.set_settings("c~", x=1)
        history.delete("c~", "0007")
        history.put("a", p=1)
        with SqliteDocumentStores(tmp_path / "base") as bases:
            base = bases.partition(0, "g")
            history.apply_to(base)
            for _ in range(2):
                with base.view() as view:
                    store.restore(view)
                with store.view() as view:
                    assert view.applied() == history.end
                assert store.digest() == base.digest()
            history.put("c~", "0008", p=-1)
            history.patch("c~", "0009", q=1)
            history.put("old~", "1", p=1)
            history.delete("a")
            for both in (base, store):
                both.apply(history.records, history.end, since=history.end - 4)
            assert store.digest() == base.digest()

    def test_records_behind_a_gap_are_refused(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.put("a", p=1)
        history.put("b", p=1)
        with pytest.raises(Conflict, match="from 1 on"):
            store.apply(history.records[1:], 2, since=1)
        store.apply(history.records[:1], 1, since=0)
        store.apply(history.records, 2, since=0)
        with store.view() as view:
            history.check(view)

    def test_several_threads_apply_and_read(self, fresh: Callable[[], DocumentStore]) -> None:
        stores = [fresh() for _ in range(3)]
        histories = [RecordedDocuments() for _ in stores]
        for history in histories:
            for number in range(40):
                history.put("c~", str(number % 7), p=number)

        def work(number: int) -> None:
            for record in histories[number].records:
                stores[number].apply([record], record.offset + 1)
                with stores[number].view() as view:
                    assert view.applied() == record.offset + 1

        together(*(partial(work, number) for number in range(3)))
        for store, history in zip(stores, histories, strict=True):
            with store.view() as view:
                history.check(view)

    def test_nothing_can_be_done_after_close(self, store: DocumentStore, stores: DocumentStores) -> None:
        stores.close()
        stores.close()
        with pytest.raises(Closed), store.view():
            pass
        with pytest.raises(Closed):
            store.apply([], 1)
        with pytest.raises(Closed):
            stores.partition(1, "g")
