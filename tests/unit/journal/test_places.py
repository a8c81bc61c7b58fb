from __future__ import annotations

from headwater.journal.places import moved_here, places_of
from headwater.log.partitioner import partition_for


def test_places_are_by_count_older_first_each_once_and_the_last_is_the_newest() -> None:
    for key in (b"a", b"b", b"c", b"journal ID", b"x" * 40):
        assert places_of(key, (4,)) == (partition_for(key, 4),)
        places = places_of(key, (2, 3, 8))
        assert places[-1] == partition_for(key, 8)
        assert len(set(places)) == len(places)
        assert set(places) == {partition_for(key, count) for count in (2, 3, 8)}


def test_a_journal_moves_where_an_older_count_put_it_elsewhere() -> None:
    moved = [key for key in (b"%d" % number for number in range(100)) if partition_for(key, 2) != partition_for(key, 4)]
    stays = [key for key in (b"%d" % number for number in range(100)) if partition_for(key, 2) == partition_for(key, 4)]
    assert moved
    assert stays
    assert all(moved_here(key, (2, 4), partition_for(key, 4)) for key in moved)
    assert not any(moved_here(key, (2, 4), partition_for(key, 2)) for key in moved)
    assert not any(moved_here(key, (2, 4), partition_for(key, 4)) for key in stays)
    assert not moved_here(moved[0], (4,), partition_for(moved[0], 4))
