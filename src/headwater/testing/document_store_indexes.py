"""The contract of document stores: the rows of indexes are right in every state of the index."""

from __future__ import annotations

import pytest

from headwater.core.errors import Conflict
from headwater.documents.index.shard import add_shard, cut_shards, index_shard
from headwater.documents.store import DocumentStore
from headwater.testing.document_history import RecordedDocuments, definition
from headwater.testing.document_store_ground import DocumentStoreGround


class DocumentStoreIndexes(DocumentStoreGround):
    """What `DocumentStore` promises of indexes."""

    def test_changes_keep_an_index_in_every_state(self, store: DocumentStore, history: RecordedDocuments) -> None:
        for number, state in enumerate(("building", "ready", "failed"), 1):
            history.set_index("c~", definition(number, "p", state=state))
        for item, value in (("1", 5), ("2", 3), ("3", 9), ("1", 1), ("4", 7)):
            history.put("c~", item, p=value)
        history.delete("c~", "3")
        history.apply_to(store)
        with store.view() as view:
            for number in (1, 2, 3):
                assert view.index_rows("c~", number, limit=100) == history.index_rows("c~", number)
                assert [row.item for row in view.index_rows("c~", number, limit=100)] == ["1", "2", "4"]

    def test_rows_of_an_index_are_read_by_their_keys(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.set_index("c~", definition(1, "-p", state="ready"))
        for number in range(10):
            history.put("c~", str(number), p=number)
        history.apply_to(store)
        rows = history.index_rows("c~", 1)
        with store.view() as view:
            assert [row.item for row in rows] == list("9876543210")
            assert view.index_rows("c~", 1, limit=3) == rows[:3]
            assert view.index_rows("c~", 1, limit=3, reverse=True) == rows[:-4:-1]
            assert view.index_rows("c~", 1, low=rows[2].key, high=rows[5].key, limit=100) == rows[2:5]
            assert view.index_rows("c~", 1, low=rows[2].key, high=rows[5].key, limit=2, reverse=True) == rows[4:2:-1]
            assert view.index_rows("c~", 1, low=rows[2].key + b"\xff", limit=1) == rows[3:4]
            assert view.index_rows("c~", 2, limit=100) == []

    def test_an_index_is_built_beside_changes(self, store: DocumentStore, history: RecordedDocuments) -> None:
        """Rows that the builder read before a change, and adds after it, are passed over."""
        for number in range(5):
            history.put("c~", str(number), p=number)
        history.set_index("c~", definition(1, "p"))
        stale = history.index_rows("c~", 1)
        history.put("c~", "1", p=100)
        history.delete("c~", "2")
        history.put("c~", "9", p=50)
        history.apply_to(store)
        store.add_index_rows("c~", 1, stale[:3])
        store.add_index_rows("c~", 1, stale[2:], complete=True)
        store.add_index_rows("c~", 7, stale)
        store.add_index_rows("x~", 1, stale)
        with store.view() as view:
            assert view.index_rows("c~", 1, limit=100) == history.index_rows("c~", 1)
        history.set_index("c~", definition(1, "p", state="ready"))
        history.apply_to(store)
        with store.view() as view:
            history.check(view)

    def test_a_build_that_goes_on_in_a_store_folded_anew_is_refused(self, store: DocumentStore, history: RecordedDocuments) -> None:
        """Rows that a builder has added are in no record: whoever goes on behind them would leave them out."""
        for number in range(6):
            history.put("c~", str(number), p=-number)
        history.set_index("c~", definition(1, "p"))
        history.apply_to(store)
        rows = sorted(history.index_rows("c~", 1), key=lambda row: row.item)
        store.add_index_rows("c~", 1, rows[:2], last="1")
        store.add_index_rows("c~", 1, rows[1:3], after="0", last="2")
        store.add_index_rows("c~", 1, rows[3:4], after="2", last="3")
        store.clear()
        history.apply_to(store)
        with pytest.raises(Conflict, match="given those behind '3'"):
            store.add_index_rows("c~", 1, rows[4:], after="3", last="5", complete=True)
        with store.view() as view:
            assert view.index_rows("c~", 1, limit=10) == []
        store.add_index_rows("c~", 1, rows[:4], last="3")
        store.add_index_rows("c~", 1, rows[4:], after="3", last="5", complete=True)
        history.set_index("c~", definition(1, "p", state="ready"))
        history.apply_to(store)
        with store.view() as view:
            history.check(view)

    def test_a_collection_is_cut_by_its_ids(self, store: DocumentStore, history: RecordedDocuments) -> None:
        for number in range(20):
            history.put("c~", f"{number:02}", p=1)
        history.delete("c~", "03")
        history.put("d/e~", "1", p=1)
        history.apply_to(store)
        with store.view() as view:
            assert view.cuts("c~", every=5, limit=9) == ["05", "10", "15"]
            assert view.cuts("c~", every=5, limit=2) == ["05", "10"]
            assert view.cuts("c~", after="05", every=7, limit=9) == ["12", "19"]
            assert view.cuts("c~", after="00", every=1, limit=2) == ["01", "02"]
            assert view.cuts("c~", every=20, limit=1) == []
            assert view.cuts("x~", every=1, limit=1) == []

    def test_shards_of_an_index_are_made_beside_changes(self, store: DocumentStore, history: RecordedDocuments) -> None:
        """In any order, and added in that of the ids."""
        for number in range(40):
            history.put("c~", f"{number:02}", p=number % 7)
        history.set_index("c~", definition(1, "p", materialize=True))
        history.apply_to(store)
        shards = cut_shards(store, "c~", 1, after="", limit=9, each=6)
        assert [(shard.after, shard.upto) for shard in shards][::5] == [("", "05"), ("29", "35")]
        assert [shard.upto for shard in shards][-2:] == ["35", None]
        made = {}
        for change, place in enumerate((3, 0, 6, 1, 5, 2, 4)):
            made[place] = index_shard(store, shards[place])
            history.put("c~", f"{change * 5:02}", p=100 - change)
            history.delete("c~", f"{39 - change:02}")
            history.put("c~", f"new-{change}", p=change)
            history.apply_to(store)
        for place in range(7):
            built = add_shard(store, "c~", 1, made[place])
            assert built is not None
            assert (built.last, built.done) == (made[place].last, place == 6)
            history.put("c~", f"{place * 5 + 1:02}", p=-place)
            history.apply_to(store)
            assert add_shard(store, "c~", 1, made[place]) == built  # twice is once
        with store.view() as view:
            assert view.index_rows("c~", 1, limit=100) == history.index_rows("c~", 1)
        history.set_index("c~", definition(1, "p", state="ready", materialize=True))
        history.apply_to(store)
        assert add_shard(store, "c~", 1, made[0]) is None
        with pytest.raises(Conflict, match="no longer being built"):
            index_shard(store, shards[0])
        with store.view() as view:
            history.check(view)

    def test_shards_of_a_store_that_is_folded_anew_meanwhile_are_begun_anew(self, store: DocumentStore, history: RecordedDocuments) -> None:
        for number in range(10):
            history.put("c~", str(number), p=-number)
        history.set_index("c~", definition(1, "p"))
        history.apply_to(store)
        shards = cut_shards(store, "c~", 1, after="", limit=2, each=4)
        first, second = (index_shard(store, part) for part in shards)
        store.clear()
        history.apply_to(store)
        with pytest.raises(Conflict):
            add_shard(store, "c~", 1, second)
        if store.shared:  # its rows were added to a fold that does not count
            with pytest.raises(Conflict, match="folded anew"):
                add_shard(store, "c~", 1, first)
            with pytest.raises(Conflict, match="for its fold"):
                store.add_index_rows("c~", 1, [], fold=first.fold)
        for shard in (*shards, *cut_shards(store, "c~", 1, after="7", limit=2, each=4)):
            assert add_shard(store, "c~", 1, index_shard(store, shard)) is not None
        history.set_index("c~", definition(1, "p", state="ready"))
        history.apply_to(store)
        with store.view() as view:
            history.check(view)

    def test_an_index_that_is_ready_is_whole_in_a_store_folded_anew(self, store: DocumentStore, history: RecordedDocuments) -> None:
        for number in range(2500):
            history.put("c~", str(number), p=number % 7)
        for full in (False, True):
            history.set_index("c~", definition(1 + full, "p", materialize=full))
        history.put("c~", "5", p=100)
        for full in (False, True):
            history.set_index("c~", definition(1 + full, "p", state="ready", materialize=full))
        history.delete("c~", "6")
        history.apply_to(store)
        with store.view() as view:
            history.check(view)

    def test_a_materialized_index_holds_the_items(self, store: DocumentStore, history: RecordedDocuments) -> None:
        """In every way in which its rows are made: by changes, by a build beside them, by a fold from the beginning."""
        for number in range(30):
            history.put("c~", f"{number:02}", p=number % 3, q="before")
        history.set_index("c~", definition(1, "p", state="ready", materialize=True))
        history.set_index("c~", definition(2, "-p", materialize=True, filter_by="p > 0"))
        history.apply_to(store)
        stale = history.index_rows("c~", 2)
        history.put("c~", "04", p=1, q="after")  # keeps its key
        history.patch("c~", "05", p=7)
        history.delete("c~", "07")
        history.put("c~", "new", p=2)
        history.apply_to(store)
        store.add_index_rows("c~", 2, stale[:12])
        store.add_index_rows("c~", 2, stale[10:], complete=True)
        history.set_index("c~", definition(2, "-p", state="ready", materialize=True, filter_by="p > 0"))
        history.write("c~", [("put", "06", {"p": 1}), ("put", "06", {"p": 1, "q": "newest"}), ("delete", "08", None)])
        history.apply_to(store)
        with store.view() as view:
            history.check(view)
            rows = view.index_rows("c~", 1, limit=100)
            assert rows == history.index_rows("c~", 1)  # without the copies, where they are not asked for
            assert (
                view.index_rows("c~", 1, low=rows[3].key, high=rows[9].key, limit=4, reverse=True, copies=True)
                == (history.index_rows("c~", 1, copies=True)[8:4:-1])
            )
        before = store.digest()
        store.clear()
        history.apply_to(store)
        with store.view() as view:
            history.check(view)
        assert store.digest() == before
        history.delete("c~")
        history.set_index("c~", definition(3, "p", state="ready", materialize=True))
        history.put("c~", "00", p=9)
        history.apply_to(store)
        while store.purge(7):
            pass
        with store.view() as view:
            history.check(view)
            assert [row.body for row in view.index_rows("c~", 3, limit=9, copies=True)] == [b'{"p":9}']

    def test_rows_of_a_dropped_index_go_in_slices(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.set_index("c~", definition(1, "p", state="ready"))
        history.set_index("c~", definition(2, "p", state="ready"))
        for number in range(10):
            history.put("c~", str(number), p=number)
        history.set_index("c~", definition(1, "p", state="deleting"))
        history.put("c~", "x", p=3)
        history.apply_to(store)
        assert [store.remove_index_rows("c~", 1, 4) for _ in range(4)] == [4, 4, 2, 0]
        history.drop_index("c~", 1)
        history.apply_to(store)
        with store.view() as view:
            assert [index.number for index in view.indexes("c~")] == [2]
            assert view.index_rows("c~", 1, limit=10) == []
            history.check(view)

    def test_a_dropped_index_leaves_no_rows_in_a_store_folded_anew(self, store: DocumentStore, history: RecordedDocuments) -> None:
        history.set_index("c~", definition(1, "p", state="ready"))
        history.put("c~", "1", p=1)
        store.apply(history.records, history.end)
        history.drop_index("c~", 1)
        history.apply_to(store)
        with store.view() as view:
            assert view.index_rows("c~", 1, limit=10) == []
            assert view.indexes("c~") == []
