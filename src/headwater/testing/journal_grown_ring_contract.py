"""What `headwater.journal.store.RingStore` promises of journals that moved, because their topic grew, as tests for any engine."""

from __future__ import annotations

import uuid

import msgspec

from headwater.journal.names import snapshot_topic
from headwater.journal.places import places_of
from headwater.journal.store import JournalStore
from headwater.testing.journal_ring_contract import SnapshotHistory, rings, slots
from headwater.testing.journal_store_ground import History, JournalStoreGround, partition


class GrownRingContract(JournalStoreGround):
    """Subclass it, and give the fixture `open_store`, as for `JournalStoreContract`."""

    def test_a_journal_of_a_topic_that_grew_has_a_ring_in_each_of_its_places(self, store: JournalStore, topic: str) -> None:
        """The life began in the older partition: only a Purge in the newer one ends it there, whichever topic is copied first."""
        counts = (1, 2)
        older, newer = (SnapshotHistory(History(topic, number)) for number in range(2))
        id = next(name for name in map(str, range(100)) if places_of(name.encode(), counts) == (0, 1))
        older.append(id, 1)
        older.save(id, 1)
        life = older.life(id)
        assert life is not None
        for number, seq_nr in ((0, 1), (1, 2), (2, 3)):  # the first one before the journal has a record in its newer place
            newer.save(id, seq_nr, (life[0], number))
            newer.append(id, seq_nr + 1)
        copies = [rings(store, source) for source in (older, newer)]
        for copy, history in zip(copies, (older, newer), strict=True):
            journals = partition(store, topic, history.journals.partition)
            for end in range(1, history.journals.end + 1):
                assert journals.apply(msgspec.structs.replace(history.journals.change(end - 1, end), counts=counts))
                assert copy.apply(msgspec.structs.replace(history.change(end - 1, end), counts=counts))
        assert [slots(copy, id) for copy in copies] == [{0: 1}, {0: 1, 1: 2, 2: 3}]
        with copies[1].view() as view:
            assert view.ids() == [id]
            before = [(snapshot.seq_nr, view.payload(id, slot, snapshot)) for slot, snapshot in view.ring(id).slots.items()]
        copies[1].clear()
        assert [slots(copy, id) for copy in copies] == [{0: 1}, {}]
        assert copies[1].apply(msgspec.structs.replace(newer.change(), counts=counts))
        with copies[1].view() as view:
            assert [(snapshot.seq_nr, view.payload(id, slot, snapshot)) for slot, snapshot in view.ring(id).slots.items()] == before
        newer.purge(id)
        journals = partition(store, topic, 1)
        assert journals.apply(msgspec.structs.replace(newer.journals.change(3), counts=counts))
        assert [slots(copy, id) for copy in copies] == [{0: 1}, {}]
        newer.save(id, 9, (life[0], 3))  # of the life that has ended
        newer.append(id, 1)
        newer.save(id, 1)
        assert copies[1].apply(msgspec.structs.replace(newer.change(3), counts=counts))
        assert slots(copies[1], id) == {0: 1}

    def test_rings_of_a_topic_that_grew_are_taken_over_from_another_copy(self, store: JournalStore, topic: str) -> None:
        counts = (1, 2)
        history = SnapshotHistory(History(topic, 1))
        id = next(name for name in map(str, range(100)) if places_of(name.encode(), counts) == (0, 1))
        for number in (1, 2):
            history.save(id, number, (uuid.UUID(int=7), 0))
        base = rings(store, history)
        assert base.apply(msgspec.structs.replace(history.change(), counts=counts))
        history.journals.topic += "-other"
        history.topic = snapshot_topic(history.journals.topic)
        copy = rings(store, history)
        with base.view() as view:
            copy.restore(view, counts)
        assert slots(copy, id) == slots(base, id) == {0: 1, 1: 2}
