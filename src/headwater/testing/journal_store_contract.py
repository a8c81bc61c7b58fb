"""Everything that `headwater.journal.store.JournalStore` promises, as tests that any engine can be held to."""

from __future__ import annotations

import uuid
from datetime import date
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, Closed, Conflict, Differs
from headwater.journal.change import PartitionChange
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.head import record_id
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.store import JournalStore, PartitionStore
from headwater.testing.journal_grown_ring_contract import GrownRingContract
from headwater.testing.journal_ring_contract import RingContract
from headwater.testing.journal_store_actions import JournalStoreActions
from headwater.testing.journal_store_ground import (
    BEGAN,
    History,
    OpenJournalStore,
    digest_of,
    head_of,
    numbers,
    partition,
    renumbered,
    rows_of,
    state,
)
from headwater.testing.journal_store_splits import JournalStoreSplits
from headwater.testing.log_ground import together


class JournalStoreContract(JournalStoreActions, JournalStoreSplits, RingContract, GrownRingContract):
    """Subclass it, and give the fixture `open_store`: a function that opens a JournalStore of a segment size on the same place.

    Tests use topics of their own, so they may share the place.
    """

    # -- pointers ---------------------------------------------------------------------------------------------

    def test_a_copy_takes_over_what_another_one_holds(self, open_store: OpenJournalStore, topic: str, tmp_path: Path) -> None:
        """As from a base, whatever was there before."""
        history, older = History(topic), History(topic)
        for number in range(1, 8):
            older.append(f"old-{number}", 1, 2)
        history.append("a", 1, 2, 3, expire_after=86_400_000)
        history.append("b", 5, 6)
        history.delete("a", 2)
        history.append("a", 900)
        history.append("a", 900)
        history.append("c", 1)
        history.purge("c")
        with SqliteJournalStore(tmp_path / "base") as base, open_store(3) as store:
            source, copy = partition(base, topic), partition(store, topic)
            source.apply(history.change(epoch=3))
            copy.apply(older.change())
            for _ in range(2):
                with source.view() as view:
                    copy.restore(view)
                assert digest_of(copy) == digest_of(source)
                assert copy.pointer().offset == history.end - 1
            history.append("a", 901)
            history.append("old-1", 1)
            for target in (source, copy):
                assert target.apply(history.change(history.end - 2, epoch=3))
            assert digest_of(copy) == digest_of(source)

    def test_a_change_is_applied_once(self, copy: PartitionStore, history: History) -> None:
        assert copy.pointer().offset == -1
        history.append("a", 1, 2)
        assert copy.apply(history.change(epoch=3))
        pointer = copy.pointer()
        assert (pointer.offset, pointer.generation, pointer.epoch) == (0, "g1", 3)
        before = digest_of(copy)
        assert not copy.apply(history.change())
        assert digest_of(copy) == before
        assert numbers(copy, "a") == [1, 2]

    def test_a_change_that_leaves_a_gap_or_is_applied_in_part_is_refused(self, copy: PartitionStore, history: History) -> None:
        for number in range(1, 7):
            history.append("a", number)
        with pytest.raises(Conflict):
            copy.apply(history.change(1, 3))
        assert copy.apply(history.change(0, 3))
        before = digest_of(copy)
        for start, end in ((4, 6), (2, 5), (0, 4)):
            with pytest.raises(Conflict, match="do not follow"):
                copy.apply(history.change(start, end))
        assert not copy.apply(history.change(1, 2))
        assert digest_of(copy) == before
        assert copy.apply(history.change(3, 6))
        assert numbers(copy, "a") == [1, 2, 3, 4, 5, 6]

    def test_marks_and_strange_records_move_the_pointer_alone(self, copy: PartitionStore, history: History) -> None:
        history.mark("a")
        assert copy.apply(history.change())
        assert copy.apply(PartitionChange(history.topic, 0, "g1", 1, 10, epoch=4))
        assert (copy.pointer().offset, copy.pointer().epoch) == (9, 4)
        with copy.view() as view:
            assert view.ids() == []
            assert (view.pointer.offset, view.pointer.epoch) == (9, 4)

    def test_what_is_applied_is_there_for_whoever_opens_it_next(
        self, copy: PartitionStore, another: OpenJournalStore, history: History
    ) -> None:
        history.append("a", 1, 2)
        copy.apply(history.change(epoch=2))
        other = partition(another(), history.topic)
        assert digest_of(other) == digest_of(copy)
        assert copy.checkpoint().offset in (-1, 0)  # a store that syncs by itself says so later
        assert other.pointer().epoch == 2

    def test_topics_are_those_with_a_pointer(self, store: JournalStore, topic: str) -> None:
        assert topic not in store.topics()
        assert store.partition(topic, 0, "g1", create=False) is None
        copy = partition(store, topic, 1)
        assert copy.pointer().offset == -1
        assert topic not in store.topics()
        copy.apply(PartitionChange(topic, 1, "g1", 0, 5))
        assert topic in store.topics()
        assert store.topics() == sorted(store.topics())
        assert store.partition(topic, 1, "g1", create=False) is not None

    def test_partitions_do_not_meet(self, store: JournalStore, topic: str) -> None:
        copies = [partition(store, topic, number) for number in range(2)]
        histories = [History(topic, number) for number in range(2)]
        histories[0].append("a", 1)
        histories[1].append("b", 1, 2)
        histories[1].append("b", 3)
        for copy, history in zip(copies, histories, strict=True):
            assert copy.apply(history.change())
        assert [copy.pointer().offset for copy in copies] == [0, 1]
        with copies[0].view() as view:
            assert view.ids() == ["a"]
        with copies[1].view() as view:
            assert view.ids() == ["b"]

    def test_topics_that_differ_in_capital_letters_and_dots_do_not_meet(self, store: JournalStore, topic: str) -> None:
        for name in (topic, topic.upper(), f"{topic}.", f"{topic}.db", f".{topic}"):
            history = History(name)
            history.append(name, 1)
            copy = partition(store, name)
            assert copy.apply(history.change())
            with copy.view() as view:
                assert view.ids() == [name]
            assert name in store.topics()

    def test_what_is_no_topic_is_refused(self, store: JournalStore) -> None:
        for name in ("", ".", "..", "a/b", "a b", "ä"):
            with pytest.raises(BadInput):
                store.partition(name, 0, "g1")
        with pytest.raises(BadInput):
            store.partition("journal-a", -1, "g1")

    # -- generations ------------------------------------------------------------------------------------------

    def test_a_topic_made_anew_never_shows_rows_of_the_old_one(self, store: JournalStore, topic: str) -> None:
        old, new = History(topic), History(topic, generation="g2")
        old.append("a", 1, 2, 3)
        old.append("b", 1)
        new.append("a", 1)
        copy = partition(store, topic)
        copy.apply(old.change())
        renewed = partition(store, topic, generation="g2")
        assert renewed.pointer().generation == "g1"
        with pytest.raises(Differs, match="earlier"), renewed.view():
            pass
        for start in (0, 2):
            with pytest.raises(Differs):
                renewed.apply(renumbered(new.change(), start))
        renewed.clear()
        assert (renewed.pointer().offset, renewed.pointer().generation) == (-1, "g2")
        with renewed.view() as view:
            assert view.ids() == []
        with pytest.raises(Differs):
            copy.apply(old.change())  # a late task of the topic that is gone
        with pytest.raises(Differs), copy.view():
            pass
        assert renewed.apply(new.change())
        assert state(renewed, "a") == (1, None, [1])
        assert head_of(renewed, "b") is None

    def test_a_copy_that_is_cleared_is_made_anew(self, copy: PartitionStore, history: History) -> None:
        history.append("a", 1, 2, 3)
        history.delete("a", 1)
        history.append("b", 5)
        copy.apply(history.change())
        before = digest_of(copy)
        copy.clear()
        assert copy.pointer().offset == -1
        assert head_of(copy, "a") is None
        for change in history.split([1, 2]):
            assert copy.apply(change)
        assert digest_of(copy) == before
        copy.clear()
        copy.clear()
        assert copy.apply(history.change(0, 1))
        assert state(copy, "a") == (3, None, [1, 2, 3])

    def test_clearing_leaves_other_partitions_and_topics(self, store: JournalStore, topic: str) -> None:
        histories = [History(topic, 0), History(topic, 1), History(f"{topic}.other", 0)]
        copies = []
        for number, history in enumerate(histories):
            history.append(f"id-{number}", 1)
            copies.append(partition(store, history.topic, history.partition))
            copies[-1].apply(history.change())
        copies[0].clear()
        assert [head_of(copy, f"id-{number}") is None for number, copy in enumerate(copies)] == [True, False, False]
        assert numbers(copies[1], "id-1") == [1]

    # -- reading ----------------------------------------------------------------------------------------------

    def test_rows_come_in_batches_from_start_to_stop(self, sized: PartitionStore, history: History) -> None:
        for first in range(1, 20, 3):
            history.append("a", first, first + 1, first + 2)
        history.append("b", 1)
        sized.apply(history.change())
        with sized.view() as view:
            head = view.head("a")
            assert head is not None
            batches = [[row.seq_nr for row in rows] for rows in view.rows("a", head, 1, batch=4)]
            assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 1]
            assert [number for batch in batches for number in batch] == list(range(1, 22))
            assert list(view.rows("a", head, 22)) == []
            assert list(view.rows("a", head, 5, 4)) == []
        assert numbers(sized, "a", 5, 8) == [5, 6, 7, 8]
        assert numbers(sized, "a", 20) == [20, 21]
        assert numbers(sized, "a", MAX_SEQ_NR) == []
        assert numbers(sized, "nobody") == []

    def test_a_row_comes_back_as_it_was(self, copy: PartitionStore, history: History) -> None:
        history.append("a", 1, payload=b'{"eur":50}')
        history.append("a", 2)
        copy.apply(history.change())
        rows = rows_of(copy, "a")
        life = record_id("g1", 0, 0)
        for row, (sent,) in zip(rows, history.rows, strict=True):
            assert (row.seq_nr, row.timestamp, row.partition, row.offset) == (sent.seq_nr, sent.timestamp, 0, sent.offset)
            assert (row.origin, row.version, row.metadata, row.payload) == (sent.origin, sent.version, sent.metadata, sent.payload)
            assert (sorted(row.tags), row.headers, row.record_id) == (sorted(sent.tags), sent.headers, life)

    def test_ids_and_heads_come_in_pages_by_their_bytes(self, copy: PartitionStore, history: History) -> None:
        ids = ["", "Z", "a", "a\x00b", "a b", "z/z", "ä", "\uffee", "\U0001f4d6"]
        for id in reversed(ids):
            history.append(id, 1)
            history.append(id, 2)
        copy.apply(history.change())
        with copy.view() as view:
            assert view.ids() == sorted(ids, key=str.encode) == ids
            assert view.ids(limit=2) == ids[:2]
            assert view.ids("a", 3) == ids[3:6]
            assert view.ids("aa") == ids[5:]
            assert view.ids(ids[-1]) == []
            assert [id for id, _ in view.heads("z/z")] == ids[6:]
            assert all(view.head(id) == head for id, head in view.heads())
        assert all(numbers(copy, id) == [1, 2] for id in ids)

    def test_heads_hold_what_the_records_say(self, copy: PartitionStore, history: History) -> None:
        history.append("a", 1, expire_after=86_400_000)
        history.append("a", 2, expire_after=2 * 86_400_000)
        history.append("b", 4)
        copy.apply(history.change())
        head = head_of(copy, "a")
        assert head is not None
        assert (head.partition, head.offset, head.segment_size, head.seq_nr, head.delete_to) == (0, 1, 10_000, 2, None)
        assert (head.created, head.updated, head.origin, head.record_id) == (BEGAN, BEGAN + 1000, "host", record_id("g1", 0, 0))
        assert (head.expire_after, head.expire_on) == (2 * 86_400_000, date(2023, 11, 16))
        other = head_of(copy, "b")
        assert other is not None
        assert (other.expire_after, other.expire_on, other.delete_to) == (None, None, 3)
        history.append("a", 3)
        copy.apply(history.change(3))
        head = head_of(copy, "a")
        assert head is not None
        assert (head.expire_after, head.expire_on) == (None, None)  # the newest Append has removed it

    def test_expiry_at_the_end_of_time_is_kept(self, copy: PartitionStore, history: History) -> None:
        history.append("a", 1, expire_after=(1 << 53))
        copy.apply(history.change())
        head = head_of(copy, "a")
        assert head is not None
        assert (head.expire_after, head.expire_on) == (1 << 53, date.max)

    def test_a_view_is_of_one_moment(self, copy: PartitionStore, another: OpenJournalStore, history: History) -> None:
        history.append("a", 1)
        copy.apply(history.change())
        history.append("a", 2)
        history.append("b", 1)
        with copy.view() as view:
            assert partition(another(), history.topic).apply(history.change(1))
            head = view.head("a")
            assert view.pointer.offset == 0
            assert head is not None
            assert (head.seq_nr, head.offset) == (1, 0)
            assert [row.seq_nr for rows in view.rows("a", head, 1) for row in rows] == [1]
        assert state(copy, "a") == (2, None, [1, 2])

    # -- settings, and the end --------------------------------------------------------------------------------

    def test_settings_are_shared_and_return_what_was_there(self, store: JournalStore, another: OpenJournalStore) -> None:
        key, other = f"key-{uuid.uuid4().hex}", another()
        assert store.setting(key) is None
        assert store.set_setting(key, None) is None
        assert store.set_setting(key, "a") is None
        assert other.setting(key) == "a"
        assert other.set_setting(key, "ä\x00") == "a"
        assert store.setting(key) == "ä\x00"
        assert store.set_setting(key, None) == "ä\x00"
        assert other.setting(key) is None

    def test_several_threads_apply_and_read(self, store: JournalStore, topic: str) -> None:
        histories = [History(topic, number) for number in range(4)]
        for history in histories:
            for number in range(1, 21):
                history.append(f"id-{history.partition}", number)

        def work(history: History) -> None:
            copy = partition(store, topic, history.partition)
            for change in history.split(range(0, 20, 5)):
                assert copy.apply(change)
                assert len(numbers(copy, f"id-{history.partition}")) == change.end

        together(*(lambda history=history: work(history) for history in histories))

    def test_two_that_apply_the_same_range_apply_it_once(self, store: JournalStore, another: OpenJournalStore, history: History) -> None:
        for number in range(1, 11):
            history.append("a", number)
        copies = [partition(store, history.topic), partition(another(), history.topic)]
        together(*(lambda copy=copy: copy.apply(history.change()) for copy in copies))
        assert state(copies[0], "a") == (10, None, list(range(1, 11)))
        assert digest_of(copies[0]) == digest_of(copies[1])

    def test_nothing_can_be_done_after_close(self, store: JournalStore, copy: PartitionStore) -> None:
        store.close()
        store.close()
        with pytest.raises(Closed):
            copy.pointer()
        with pytest.raises(Closed):
            store.partition("journal-a", 0, "g1")
