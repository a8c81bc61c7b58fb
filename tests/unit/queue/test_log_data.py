from __future__ import annotations

from headwater.queue.body import ON_LOG, make_body
from headwater.queue.data_place import place_of
from headwater.queue.homes import Homes
from headwater.queue.log_data import LogData

PLACE = place_of(b"data", 3, 14)
BODY = make_body(1, 0, ON_LOG, 0, 0, 0, 0, 0, b"key", PLACE)


def test_a_record_is_needed_while_a_row_has_its_data_there() -> None:
    homes = Homes(3)
    data = LogData(homes)
    homes.note(0, 100)
    homes.note(0, 50)
    data.need(7, BODY, home=4)
    data.need(8, BODY, home=4)
    assert (homes.pass_unneeded(), data.bytes, data.homes) == (3, 8, {7: 3, 8: 3})
    data.leave(7, BODY)
    assert (homes.pass_unneeded(), data.bytes) == (3, 4)
    data.leave(8, BODY)
    assert (homes.pass_unneeded(), data.bytes, data.homes) == (5, 0, {})


def test_the_home_of_a_row_that_holds_its_data_is_not_needed_twice() -> None:
    homes = Homes(3)
    data = LogData(homes)
    data.need(7, BODY, home=3)
    homes.note(0, 100)
    assert (homes.pass_unneeded(), data.homes) == (4, {})


def test_a_record_before_the_first_of_the_log_is_not_counted() -> None:
    homes = Homes(10)
    data = LogData(homes)
    homes.note(1, 100)
    data.need(7, BODY, home=10)
    data.leave(7, BODY)
    assert (homes.pass_unneeded(), data.bytes) == (10, 0)


def test_kept_data_go_with_their_row() -> None:
    data = LogData(Homes(3))
    data.kept.limit = 100
    data.kept.add(PLACE, b"data")
    assert data.of(bytes(PLACE)) == b"data"
    data.need(7, BODY, home=3)
    data.leave(7, BODY)
    assert (data.of(bytes(PLACE)), data.kept.size) == (PLACE, 0)
