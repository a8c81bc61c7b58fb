from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.journal.ground import Ground

from headwater.cluster import OwnedPartition
from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Unavailable
from headwater.journal.leader import GroupReplicatorLock, LocalReplicatorLock


def test_one_process_at_a_time_holds_the_lock_file(tmp_path: Path) -> None:
    first, second = (LocalReplicatorLock(tmp_path / "journals" / "replicator.lock") for _ in range(2))
    assert first.holder() is None
    assert first.take()
    assert first.take()
    assert not second.take()
    assert (first.lost, second.lost) == (False, True)
    holder = second.holder()
    assert holder is not None
    assert holder.pid == os.getpid()
    first.release()
    first.release()
    assert second.take()
    second.release()
    assert second.holder() is None


def test_the_group_gives_the_lock_to_one_member(ground: Ground) -> None:
    with LocalOwnership(ground.log, ground.data / "owners") as one, LocalOwnership(ground.log, ground.data / "owners") as two:
        first, second = GroupReplicatorLock(ground.log, one, "store"), GroupReplicatorLock(ground.log, two, "store")
        assert first.take()
        assert first.take()
        assert not second.take()
        assert (first.lost, second.lost) == (False, True)
        first.release()
        assert second.take()


def test_brokers_that_do_not_answer_are_an_error(ground: Ground) -> None:
    class Away(LocalOwnership):
        def own(self, *_: object, **__: object) -> OwnedPartition:  # type: ignore[override]
            raise Unavailable("Away.")

    with Away(ground.log, ground.data / "owners") as away, pytest.raises(Unavailable):
        GroupReplicatorLock(ground.log, away, "store").take()
