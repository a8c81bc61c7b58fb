"""Actions on one journal, call by call. What they leave is held by the contract suite of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadInput
from headwater.journal.key_actions import PartitionActions
from headwater.journal.sqlite import SqliteJournalStore
from headwater.testing.journal_store_ground import BEGAN, History, head_of, partition


def test_calls_keep_the_epoch_and_move_the_pointer(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1, 2)
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        copy.apply(history.change(epoch=4))
        actions = PartitionActions(copy)
        assert actions.key("a").delete(1, offset=7, timestamp=BEGAN)
        pointer = copy.pointer()
        assert (pointer.offset, pointer.epoch, actions.offsets.get()) == (7, 4, 7)


def test_expiry_is_given_with_the_append(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1)
    with SqliteJournalStore(tmp_path) as store:
        actions = PartitionActions(partition(store, "journal-a"))
        assert actions.key("a").append(history.rows[0], offset=0, timestamp=BEGAN, expire_after=1000)
        head = head_of(actions.store, "a")
        assert head is not None
        assert (head.expire_after, head.origin) == (1000, "host")


def test_an_append_without_events_is_refused(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path) as store:
        actions = PartitionActions(partition(store, "journal-a"))
        with pytest.raises(BadInput, match="without events"):
            actions.key("a").append([], offset=0, timestamp=BEGAN)
        assert actions.offsets.get() is None
