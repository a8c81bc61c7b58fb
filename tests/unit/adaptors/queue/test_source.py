from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from headwater.adaptors.queue.source import QueueSource, message_of
from headwater.core.errors import NotFound, TooLarge, UnknownQueue, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptors import queue
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import LONGEST, Piece
from headwater.queue.row import BINARY, JSON, Row


def followed(data: str, cursor: Any = None, stopped: Callable[[], bool] = lambda: False, **options: Any) -> Iterator[Piece]:
    return QueueSource(queue("pages", address=data, **options)).follow(cursor, Namespaces(), stopped)


def ids(piece: Piece) -> list[Any]:
    return [one.data["_id"] for one in piece.messages]


def stored(piece: Piece) -> Any:
    """A position as it comes back from the log."""
    return values.decode_any(values.encode(piece.position))


def test_rows_come_in_the_queue_s_order_and_are_done_when_more_is_asked_for(data: str, pages: Any) -> None:
    pages.put_many([{"key": "b", "data": {"n": 1}, "priority": 5}, {"key": "a", "data": {"n": 2}, "priority": 1}])
    pages.put("later", {"n": 3}, delay="1h")
    pieces = followed(data)
    first = next(pieces)
    assert ids(first) == ["a", "b"]
    assert pages.count().processing == 2
    assert not next(pieces).messages
    assert (pages.count().processing, pages.count().future) == (0, 1)


def test_rows_that_are_in_the_log_and_not_done_are_finished_by_the_next_run(data: str, pages: Any) -> None:
    pages.put_many([("a", 1), ("b", 2)])
    dying = followed(data)
    piece = next(dying)
    dying.close()  # the piece is durable, and the run dies before it says done
    pages.put("c", 3)
    after = followed(data, stored(piece))
    assert ids(next(after)) == ["c"]
    assert not next(after).messages
    assert pages.count().due == pages.count().processing == 0


def test_rows_that_are_in_the_log_are_not_read_again_when_their_lease_has_ended(data: str, pages: Any) -> None:
    pages.put_many([("a", 1), ("b", 2), ("c", 3)])
    dying = followed(data)
    piece = next(dying)
    dying.close()
    pages.exchange(0, release=[one[0] for one in piece.position])  # as a lease that ends
    pages.put("b", "newer")
    after = followed(data, stored(piece))
    found = next(after)
    assert [one.data for one in found.messages] == [{"_id": "b", "data": "newer"}]
    assert not next(after).messages
    assert pages.count().due == pages.count().processing == 0


def test_none_of_many_rows_is_read_again_however_few_are_claimed_at_once(data: str, pages: Any) -> None:
    pages.put_many([(f"k{n}", n) for n in range(9)])
    dying = followed(data)
    piece = next(dying)
    dying.close()
    pages.exchange(0, release=[one[0] for one in piece.position])
    pages.put("last", 9, priority=200)
    after = followed(data, stored(piece), batch=2)
    assert ids(next(after)) == ["last"]
    assert not next(after).messages
    assert pages.count().due == pages.count().processing == 0


def test_rows_of_a_run_that_died_before_its_log_had_them_come_again(data: str, pages: Any) -> None:
    pages.put("a", 1)
    dying = followed(data)
    lost = next(dying)
    dying.close()
    pages.exchange(0, release=[one[0] for one in lost.position])
    assert ids(next(followed(data, None))) == ["a"]


def test_a_run_that_stops_finishes_what_is_durable(data: str, pages: Any) -> None:
    stops: list[bool] = []
    pages.put("a", 1)
    pieces = followed(data, stopped=lambda: bool(stops))
    next(pieces)
    stops.append(True)
    assert next(pieces, None) is None
    assert pages.count().due == pages.count().processing == 0


def test_a_schedule_gives_a_message_at_each_of_its_runs(data: str, pages: Any) -> None:
    pages.put("a", 1, every="1h")
    pieces = followed(data)
    first = next(pieces)
    next(pieces)
    assert pages.count().future == 1
    again = followed(data, stored(first))  # the same token is stale: the row waits for its next run, and is no repeat then
    assert not next(again).messages


def test_rows_of_a_lane_come_one_after_the_other(data: str, pages: Any) -> None:
    pages.put_many([{"key": f"k{n}", "data": n, "lane": "one"} for n in range(3)])
    pieces = followed(data)
    assert [ids(next(pieces)) for _ in range(3)] == [["k0"], ["k1"], ["k2"]]
    assert not next(pieces).messages


def test_large_rows_come_in_several_pieces(data: str, pages: Any) -> None:
    pages.put_many([(f"k{n}", "x" * (3 << 20)) for n in range(3)])
    pieces = followed(data)
    assert [len(next(pieces).messages) for _ in range(2)] == [2, 1]
    assert not next(pieces).messages
    assert pages.count().due == pages.count().processing == 0


def test_a_row_that_no_record_can_hold_stays(data: str, pages: Any) -> None:
    pages.put("a", b"\x00" * (LONGEST - 100))
    with pytest.raises(TooLarge, match="stays in the queue"):
        next(followed(data))
    assert pages.count().due == 1


def test_a_paused_queue_is_waited_for(data: str, pages: Any) -> None:
    pages.pause()
    with pytest.raises(Unreachable, match="paused"):
        next(followed(data))


def test_what_is_not_there_is_told(data: str) -> None:
    with pytest.raises(UnknownQueue):
        QueueSource(queue("ages", address=data)).check(Namespaces())
    with pytest.raises(NotFound, match="no data directory"):
        QueueSource(queue("pages", address=f"{data}/none")).check(Namespaces())
    with pytest.raises(NotFound, match="does not match"):
        QueueSource(queue("pages", address=data)).check(Namespaces("^others$"))


@pytest.mark.parametrize(
    ("data", "form", "wanted"),
    [
        (b'{"a":1.10}', JSON, {"_id": "k", "a": values.decode(b'{"a":1.10}')["a"]}),
        (b'{"_id":5}', JSON, {"_id": 5}),
        (b"null", JSON, {"_id": "k"}),
        (b"[1,2]", JSON, {"_id": "k", "data": [1, 2]}),
        (b'"text"', JSON, {"_id": "k", "data": "text"}),
        (b"\xff", BINARY, {"_id": "k", "data": values.extended(b"\xff")}),
    ],
)
def test_data_become_a_document(data: bytes, form: int, wanted: dict[str, Any]) -> None:
    row = Row(1, b"k", data, form, 100, 5, 6, 0, "P")
    made, _ = message_of(row, "pages", "decimal")
    assert (made.data, made.namespace, made.timestamp) == (wanted, "pages", 5)
    binary, _ = message_of(msgspec.structs.replace(row, key=b"\xff"), "pages", "decimal")
    assert binary.data["_id"] == (values.extended(b"\xff") if wanted["_id"] == "k" else 5)


@pytest.mark.parametrize(
    ("data", "wanted", "wrong"),
    [
        (b"1.5", "1.5", ""),
        (b"[1.5]", "[1.5]", ""),
        (b'{"data":1.5}', "1.5", ""),
        (b"[1.5,1e999]", "[Decimal('1.5'), Decimal('1E+999')]", "The number 1e999 is beyond the largest float."),
    ],
)
def test_every_number_is_a_float_or_the_row_is_refused(data: bytes, wanted: str, wrong: str) -> None:
    message, why = message_of(Row(1, b"k", data, JSON, 100, 5, 6, 0, "P"), "pages", "float")
    assert (repr(message.data["data"]), why) == (wanted, wrong)
