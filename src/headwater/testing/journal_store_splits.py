"""The contract of journal stores: a history leaves the same store for every split into ranges, and the one that a model has."""

from __future__ import annotations

import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.journal.action import Append, Delete, Purge
from headwater.journal.key_actions import PartitionActions
from headwater.journal.store import JournalStore
from headwater.testing.journal_store_ground import History, JournalStoreGround, OpenJournalStore, digest_of, partition, state

IDS = ("a", "b", "c")
_ids = st.sampled_from(IDS)
_append = st.tuples(st.just("append"), _ids, st.integers(0, 3), st.integers(1, 3))
_step = st.one_of(
    _append,
    _append,
    _append,
    st.tuples(st.just("delete"), _ids, st.integers(1, 12), st.just(0)),
    st.tuples(st.just("purge"), _ids, st.just(0), st.just(0)),
    st.tuples(st.just("mark"), _ids, st.just(0), st.just(0)),
)
STEPS = st.lists(_step, min_size=1, max_size=14)
"""Actions by name, id and numbers. An Append leaves out some numbers before its first, or goes back by one: forks."""

Model = dict[str, tuple[int, int | None, list[int]]]


def history_of(steps: list[tuple[str, str, int, int]]) -> History:
    """The steps as records of a topic of their own."""
    history, last = History(f"journal-{uuid.uuid4().hex[:12]}"), dict.fromkeys(IDS, 0)
    for kind, id, skipped, count in steps:
        if kind == "append":
            first = max(1, last[id] + (skipped if skipped != 3 else 0) or 1)
            history.append(id, *range(first, first + count), expire_after=86_400_000 if skipped == 2 else None)
            last[id] = max(last[id], first + count - 1)
        elif kind == "delete":
            history.delete(id, skipped)
        elif kind == "purge":
            history.purge(id)
            last[id] = 0
        else:
            history.mark(id)
    return history


def model_of(history: History) -> Model:
    """What the store must hold: record by record, as the rules of actions say."""
    model: Model = {}
    for record, rows in zip(history.records, history.rows, strict=True):
        id, action, stored = record.id, record.action, model.get(record.id)
        if isinstance(action, Append):
            last, delete_to, kept = stored or (0, action.first - 1 or None, [])
            kept = sorted(kept + [row.seq_nr for row in rows if row.seq_nr > (delete_to or 0)])
            model[id] = (max(last, action.last), delete_to, kept)
        elif isinstance(action, Delete) and stored is not None:
            last, delete_to, kept = stored
            delete_to = max(delete_to or 0, min(action.to, last)) or None
            model[id] = (last, delete_to, [number for number in kept if number > (delete_to or 0)])
        elif isinstance(action, Purge):
            model.pop(id, None)
    return model


class JournalStoreSplits(JournalStoreGround):
    """`examples`: how many histories are tried, None: as many as the profile says."""

    examples: int | None = None

    def test_every_split_and_single_calls_leave_the_same_store(self, store: JournalStore, another: OpenJournalStore) -> None:
        small = another(2)

        @given(STEPS, st.lists(st.integers(1, 13), max_size=4))
        def check(steps: list[tuple[str, str, int, int]], cuts: list[int]) -> None:
            whole, model = history_of(steps), model_of(history_of(steps))
            copy = partition(store, whole.topic)
            copy.apply(whole.change())
            assert {id: journal_state for id in IDS if (journal_state := state(copy, id)) is not None} == model
            expected = digest_of(copy)
            topic, parts = whole.topic, f"{whole.topic}-parts"
            whole.topic = parts
            split = partition(small, parts)
            for change in whole.split(cuts):
                split.apply(change)
            assert digest_of(split) == expected
            whole.topic = f"{topic}-calls"
            calls = PartitionActions(partition(store, whole.topic))
            for record, rows, expire_after in zip(whole.records, whole.rows, whole.expiries, strict=True):
                before, key = state(calls.store, record.id), calls.key(record.id)
                match record.action:
                    case Append():
                        assert key.append(rows, offset=record.offset, timestamp=record.timestamp, expire_after=expire_after)
                    case Delete(to=to):
                        assert key.delete(to, offset=record.offset, timestamp=record.timestamp) == (before is not None)
                    case Purge():
                        assert key.purge(offset=record.offset, timestamp=record.timestamp) == (before is not None)
                    case _:
                        assert calls.offsets.set(record.offset)
            assert digest_of(calls.store) == expected

        (settings(max_examples=self.examples)(check) if self.examples else check)()
