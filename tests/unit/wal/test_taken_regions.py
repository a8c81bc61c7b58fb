from __future__ import annotations

import pytest

from headwater.core.errors import Fenced
from headwater.wal.region_topics import RegionTopics
from headwater.wal.taken_regions import TakenRegions


def test_one_change_is_told_after_each_loss() -> None:
    taken, topics = TakenRegions(), RegionTopics("wal", 7)
    for _ in range(2):
        taken.tell(topics)
        taken.add(7)
        taken.tell(RegionTopics("wal", 8))
        with pytest.raises(Fenced, match="Region wal/7 was taken over"):
            taken.tell(topics)
    taken.tell(topics)


def test_who_knows_is_not_told() -> None:
    taken = TakenRegions()
    taken.add(7)
    taken.forget(7)
    taken.forget(8)
    taken.tell(RegionTopics("wal", 7))
