from __future__ import annotations

from headwater.queue.data_place import place_of
from headwater.queue.kept_data import KeptData


def test_the_first_data_that_come_are_kept_until_their_row_goes() -> None:
    kept, places = KeptData(10), [place_of(b"x" * 4, sequence, 0) for sequence in range(4)]
    for place in places:
        kept.add(place, b"x" * 4)
    assert [kept.get(place) for place in places] == [b"xxxx", b"xxxx", *places[2:]]
    kept.remove(places[0])
    kept.remove(places[3])
    assert (kept.get(places[0]), kept.size) == (places[0], 4)
    kept.add(places[2], b"x" * 4)
    assert (kept.get(places[2]), kept.size) == (b"xxxx", 8)


def test_nothing_is_kept_without_a_limit() -> None:
    kept, place = KeptData(), place_of(b"x", 1, 0)
    kept.add(place, b"x")
    assert (kept.get(place), kept.size) == (place, 0)
