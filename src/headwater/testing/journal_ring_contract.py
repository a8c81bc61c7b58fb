"""Everything that `headwater.journal.store.RingStore` promises, as tests that any engine can be held to."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import Conflict, Differs
from headwater.journal.digest import ring_digest
from headwater.journal.discovery import snapshot_generation
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import record_id
from headwater.journal.names import snapshot_topic
from headwater.journal.snapshot import SLOTS, Snapshot, SnapshotAction, SnapshotCriteria, SnapshotDeletion
from headwater.journal.snapshot_fold import SnapshotsChange, SnapshotsChanged
from headwater.journal.store import JournalStore, PartitionStore, RingStore
from headwater.testing.journal_store_ground import BEGAN, History, JournalStoreGround, OpenJournalStore, partition, state

_IDS = ("a", "b")
_step = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(_IDS), st.integers(0, 0)),
    st.tuples(st.just("save"), st.sampled_from(_IDS), st.integers(1, 13)),
    st.tuples(st.just("save"), st.sampled_from(_IDS), st.integers(1, 13)),
    st.tuples(st.just("save"), st.sampled_from(_IDS), st.integers(1, 13)),
    st.tuples(st.just("late"), st.sampled_from(_IDS), st.integers(1, 13)),
    st.tuples(st.just("delete"), st.sampled_from(_IDS), st.integers(1, 13)),
    st.tuples(st.just("purge"), st.sampled_from(_IDS), st.integers(0, 0)),
)
Step = tuple[str, str, int]


class SnapshotHistory:
    """The records of a partition of snapshots, beside a history of journals. `life` is what a save would look up now."""

    def __init__(self, journals: History) -> None:
        self.journals, self.actions = journals, list[tuple[str, SnapshotAction]]()
        self.topic, self.generation = snapshot_topic(journals.topic), snapshot_generation("s1", journals.generation)
        self._born: dict[str, int] = {}

    def append(self, id: str, number: int) -> None:
        """An Append of one event, which may begin a life."""
        offset = self.journals.append(id, number)
        self._born.setdefault(id, offset)

    def purge(self, id: str) -> None:
        self.journals.purge(id)
        self._born.pop(id, None)

    def life(self, id: str) -> tuple[uuid.UUID, int] | None:
        """The `record_id` and the place of a look-up at the end of the journals."""
        if id not in self._born:
            return None
        return record_id(self.journals.generation, self.journals.partition, self._born[id]), self.journals.end

    def save(self, id: str, seq_nr: int, life: tuple[uuid.UUID, int] | None = None, *, kind: PayloadKind = PayloadKind.JSON) -> None:
        """A snapshot, of the life now or of another one."""
        chosen_life, offset = life or self.life(id), len(self.actions)
        assert chosen_life is not None
        payload = Payload(kind, b'{"at":%d}' % offset)
        snapshot = Snapshot(seq_nr, BEGAN + 1000 * offset, offset, chosen_life[1], kind, chosen_life[0], "host", "1.0", payload)
        self.actions.append((id, snapshot))

    def delete(self, id: str, criteria: SnapshotCriteria) -> None:
        life = self.life(id)
        assert life is not None
        self.actions.append((id, SnapshotDeletion(criteria, len(self.actions), life[1], life[0])))

    def change(self, start: int = 0, end: int | None = None) -> SnapshotsChange:
        """What the records [start, end) change."""
        end = len(self.actions) if end is None else end
        by_id: dict[str, list[SnapshotAction]] = {}
        for id, action in self.actions[start:end]:
            by_id.setdefault(id, []).append(action)
        journals = tuple(SnapshotsChanged(id, tuple(actions)) for id, actions in by_id.items())
        return SnapshotsChange(self.topic, self.journals.partition, self.generation, start, end, journals)


def rings(store: JournalStore, history: SnapshotHistory, generation: str = "") -> RingStore:
    """The copy of a history's snapshots, made where there is none."""
    copy = store.snapshots(history.topic, history.journals.partition, generation or history.generation)
    assert copy is not None
    return copy


def slots(copy: RingStore, id: str) -> dict[int, int]:
    """The numbers of the snapshots of a journal, by slot."""
    with copy.view() as view:
        return {slot: snapshot.seq_nr for slot, snapshot in sorted(view.ring(id).slots.items())}


def history_of(steps: Sequence[Step]) -> SnapshotHistory:
    """Steps as records of two topics. A late save is of the life before the last purge."""
    history = SnapshotHistory(History(f"journal-{uuid.uuid4().hex[:12]}"))
    before: dict[str, tuple[uuid.UUID, int]] = {}
    for number, (kind, id, seq_nr) in enumerate(steps, 1):
        life = history.life(id)
        if kind == "append":
            history.append(id, number)
        elif kind == "purge":
            if life is not None:
                before[id] = life
            history.purge(id)
        elif kind == "late":
            if id in before:
                history.save(id, seq_nr, before[id])
        elif life is not None:
            if kind == "save":
                history.save(id, seq_nr)
            else:
                history.delete(id, SnapshotCriteria(max_seq_nr=seq_nr))
    return history


class RingContract(JournalStoreGround):
    """Subclass it, and give the fixture `open_store`, as for `JournalStoreContract`. `ring_examples`: how many histories are tried."""

    ring_examples: int | None = None

    @pytest.fixture
    def snapshots(self, history: History) -> SnapshotHistory:
        return SnapshotHistory(history)

    def test_a_ring_keeps_ten_snapshots_and_gives_up_the_oldest(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        for number in range(1, SLOTS + 3):
            snapshots.save("a", number)
        copy = rings(store, snapshots)
        assert copy.apply(snapshots.change())
        assert slots(copy, "a") == {0: 11, 1: 12, **{slot: slot + 1 for slot in range(2, SLOTS)}}

    def test_a_snapshot_of_the_same_number_takes_its_slot(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        for number in (1, 2, 3, 2):
            snapshots.save("a", number, kind=PayloadKind.BINARY if number == 2 else PayloadKind.TEXT)
        snapshots.save("a", 2)
        copy = rings(store, snapshots)
        copy.apply(snapshots.change(0, 4))
        copy.apply(snapshots.change(4))
        assert slots(copy, "a") == {0: 1, 1: 2, 2: 3}
        with copy.view() as view:
            snapshot = view.ring("a").slots[1]
            assert (snapshot.offset, view.payload("a", 1, snapshot)) == (4, Payload(PayloadKind.JSON, b'{"at":4}'))

    def test_a_deletion_frees_slots(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        for number in (1, 2, 3):
            snapshots.save("a", number)
        snapshots.delete("a", SnapshotCriteria(max_seq_nr=2))
        copy = rings(store, snapshots)
        copy.apply(snapshots.change())
        assert slots(copy, "a") == {2: 3}
        snapshots.save("a", 9)
        copy.apply(snapshots.change(4))
        assert slots(copy, "a") == {0: 9, 2: 3}

    def test_a_purge_empties_the_ring_whichever_topic_is_copied_first(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        snapshots.save("a", 1)
        old = snapshots.life("a")
        snapshots.purge("a")
        snapshots.append("a", 1)
        journals, copy = partition(store, snapshots.journals.topic), rings(store, snapshots)
        copy.apply(snapshots.change())
        assert slots(copy, "a") == {0: 1}
        journals.apply(snapshots.journals.change())
        assert slots(copy, "a") == {}
        snapshots.save("a", 5)
        snapshots.save("a", 6, old)
        copy.apply(snapshots.change(1))
        assert slots(copy, "a") == {0: 5}

    def test_changes_are_applied_once_and_in_order(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        for number in (1, 2, 3):
            snapshots.save("a", number)
        copy = rings(store, snapshots)
        with pytest.raises(Conflict, match="do not follow"):
            copy.apply(snapshots.change(1, 2))
        assert copy.apply(snapshots.change(0, 2))
        assert not copy.apply(snapshots.change(0, 2))
        with pytest.raises(Conflict, match="do not follow"):
            copy.apply(snapshots.change(0, 3))
        assert copy.apply(snapshots.change(2))
        assert copy.checkpoint().offset in (-1, 2)
        assert copy.apply(SnapshotsChange(snapshots.topic, 0, snapshots.generation, 3, 9))
        assert copy.pointer().offset == 8

    def test_rings_of_earlier_journals_are_refused_until_they_are_cleared(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        snapshots.save("a", 1)
        copy = rings(store, snapshots)
        copy.apply(snapshots.change())
        later = rings(store, snapshots, snapshot_generation("s1", "g2"))
        with pytest.raises(Differs), later.view():
            pass
        later.clear(0)
        assert later.pointer().offset == 0
        assert slots(later, "a") == {}
        with pytest.raises(Differs):
            copy.apply(snapshots.change())

    def test_what_is_cleared_can_be_made_anew(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        snapshots.append("a", 1)
        for number in (1, 2):
            snapshots.save("a", number)
        copy = rings(store, snapshots)
        copy.apply(snapshots.change())
        with copy.view() as view:
            before = ring_digest(view)
        copy.clear()
        assert copy.pointer().offset == -1
        assert slots(copy, "a") == {}
        assert copy.apply(snapshots.change())
        with copy.view() as view:
            assert ring_digest(view) == before
            assert view.ids() == ["a"]
            assert view.ids("a") == []

    def test_rings_are_taken_over_from_another_copy(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        for id in ("a", "b", "c"):
            snapshots.append(id, 1)
            for number in (1, 2, 2):
                snapshots.save(id, number)
        base = rings(store, snapshots)
        base.apply(snapshots.change())
        with base.view() as view:
            before = ring_digest(view)
        snapshots.journals.topic += "-other"
        snapshots.topic = snapshot_topic(snapshots.journals.topic)
        journals, copy = partition(store, snapshots.journals.topic), rings(store, snapshots)
        snapshots.save("z", 1, snapshots.life("a"))
        copy.apply(SnapshotsChange(snapshots.topic, 0, snapshots.generation, 0, 10, (SnapshotsChanged("z", (snapshots.actions[9][1],)),)))
        for _ in range(2):
            with base.view() as view:
                copy.restore(view)
            with copy.view() as view:
                assert ring_digest(view) == before
        snapshots.save("a", 7)
        assert copy.apply(snapshots.change(9))
        assert slots(copy, "a") == {0: 1, 1: 2, 2: 7}
        snapshots.purge("b")
        snapshots.purge("c")
        snapshots.append("c", 1)
        journals.apply(snapshots.journals.change())
        assert slots(copy, "b") == slots(copy, "c") == {}
        with base.view() as view:
            copy.restore(view)
        assert (slots(copy, "a"), slots(copy, "b"), slots(copy, "c")) == ({0: 1, 1: 2}, {}, {})
        assert copy.apply(snapshots.change(9))
        assert slots(copy, "a") == {0: 1, 1: 2, 2: 7}

    @pytest.mark.parametrize(
        ("last", "delete_to", "segment_size", "saved", "rows"),
        [
            (3, None, 5, (), [1, 2, 3]),
            (5, None, 3, (), [1, 2, 3, 4, 5]),
            (5, 2, 3, (), [3, 4, 5]),
            (5, None, 3, (5,), [1, 2, 3, 4, 5]),
            (5, 5, 3, (), []),
            (5, 5, 3, (5,), []),
            (5, 5, 3, (2, 5), []),
        ],
    )
    def test_journals_and_snapshots_as_they_can_be_stored(
        self,
        another: OpenJournalStore,
        snapshots: SnapshotHistory,
        last: int,
        delete_to: int | None,
        segment_size: int,
        saved: tuple[int, ...],
        rows: list[int],
    ) -> None:
        """The seven rows of the table of stored records: heads, events and snapshots."""
        store, history = another(segment_size), snapshots.journals
        for number in range(1, last + 1):
            snapshots.append("A", number)
            if number in saved:
                snapshots.save("A", number)
        if delete_to is not None:
            history.delete("A", delete_to)
        copy, journals = rings(store, snapshots), partition(store, history.topic)
        assert journals.apply(history.change())
        if saved:
            assert copy.apply(snapshots.change())
        assert state(journals, "A") == (last, delete_to, rows)
        assert slots(copy, "A") == dict(enumerate(saved))

    def test_actions_change_snapshots_as_expected(self, store: JournalStore, snapshots: SnapshotHistory) -> None:
        """A Mark, an Append and a Delete leave snapshots as they are, a Purge takes them, and one of an unknown journal does nothing."""
        history = snapshots.journals
        copy, journals = rings(store, snapshots), partition(store, history.topic)
        snapshots.append("A", 1)
        snapshots.save("A", 1)
        assert copy.apply(snapshots.change())
        for step in (history.mark, lambda id: snapshots.append(id, 2), lambda id: history.delete(id, 2)):
            step("A")
            history.purge("unknown")
            history.delete("unknown", 1)
            assert journals.apply(history.change(journals.pointer().offset + 1))
            assert slots(copy, "A") == {0: 1}
        snapshots.purge("A")
        assert journals.apply(history.change(journals.pointer().offset + 1))
        assert slots(copy, "A") == {}
        assert state(journals, "A") is None
        snapshots.append("A", 1)
        assert journals.apply(history.change(journals.pointer().offset + 1))
        assert state(journals, "A") == (1, None, [1])
        assert slots(copy, "A") == {}

    def test_nothing_is_made_for_those_who_only_read(self, store: JournalStore, topic: str) -> None:
        assert store.snapshots(snapshot_topic(topic), 0, "s1:g1", create=False) is None
        assert topic not in store.topics()

    def test_rings_are_the_same_for_every_split_and_order_of_both_topics(self, store: JournalStore, another: OpenJournalStore) -> None:
        @given(st.lists(_step, min_size=1, max_size=30), st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=8))
        def check(steps: list[Step], turns: list[tuple[bool, int]]) -> None:
            history = history_of(steps)
            copy = _whole(store, history)
            with copy.view() as view:
                expected, held = ring_digest(view), {id: slots(copy, id) for id in _IDS}
            history.journals.topic += "-parts"
            history.topic = snapshot_topic(history.journals.topic)
            other, parts = partition(store, history.journals.topic), rings(store, history)
            _by_turns(other, parts, history, turns)
            assert {id: slots(parts, id) for id in _IDS} == held
            with parts.view() as view:
                assert ring_digest(view) == expected

        (settings(max_examples=self.ring_examples)(check) if self.ring_examples else check)()


def _whole(store: JournalStore, history: SnapshotHistory) -> RingStore:
    journals, copy = partition(store, history.journals.topic), rings(store, history)
    if history.journals.end:
        journals.apply(history.journals.change())
    if history.actions:
        copy.apply(history.change())
    return copy


def _by_turns(journals: PartitionStore, copy: RingStore, history: SnapshotHistory, turns: list[tuple[bool, int]]) -> None:
    """Apply both histories in ranges, as the turns say, and then what is left."""
    at, done = 0, 0
    for of_snapshots, count in (*turns, (True, 1 << 30), (False, 1 << 30)):
        if of_snapshots:
            end = min(len(history.actions), done + count)
            if end > done:
                assert copy.apply(history.change(done, end))
                done = end
        else:
            end = min(history.journals.end, at + count)
            if end > at:
                assert journals.apply(history.journals.change(at, end))
                at = end
