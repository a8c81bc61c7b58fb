from __future__ import annotations

from typing import Any

import pytest

import headwater
from headwater.adaptors.queue.connection import DOORS
from headwater.adaptors.queue.sink import QueueSink
from headwater.core.errors import Fenced, Rejected, Unsupported
from headwater.pipeline.adaptors import queue
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.queue.notes import NOTES

ME = ("shop#1", "work")


def part(start: int, end: int, **more: Any) -> Part:
    return Part(pipeline=ME[0], sink=ME[1], start=start, end=end, **{"epoch": 1, **more})


def message(offset: int, op: Op = Op.INSERT, **data: Any) -> Message:
    return Message("things", data, op, 1_700_000_000_000, offset=offset)


def write(adaptor: Any, *messages: Message, start: int | None = None, end: int | None = None, **more: Any) -> None:
    first = messages[0].offset if start is None else start
    last = messages[-1].offset + 1 if end is None else end
    writer = adaptor.writer(part(first, last, **more))
    try:
        writer.write(Batch(start=first, end=last, messages=messages))
    finally:
        writer.close()


def rows(pages: Any) -> dict[str, Any]:
    return {row.key: row.data for row in pages.rows() if not row.key.encode().startswith(NOTES)}


@pytest.fixture
def sink(data: str) -> Any:
    made = queue("pages", address=data)
    made.begin(*ME, 1)
    return made


def test_options_say_how_rows_are_put(data: str, pages: Any) -> None:
    made = queue("pages", address=data, key="p:{path}", lane="{tenant}", priority=3, delay="1h")
    made.begin(*ME, 1)
    write(made, message(0, path="/a", tenant="x"))
    row = pages.get("p:/a").shown()
    assert (row.priority, row.lane, pages.count().due) == (3, "x", 0)


def test_what_a_worker_has_done_is_not_put_again(sink: Any, pages: Any) -> None:
    given = [message(n, _id=n) for n in range(4)]
    write(sink, *given[:3])
    claims = pages.claim(10, wait="0s")
    assert [one.key for one in claims] == ["0", "1", "2"]
    pages.done(*(one.token for one in claims))
    write(sink, *given)  # in another batch: the run died before it knew
    assert [row.key for row in pages.rows(state="due")] == ["3"]
    assert sink.held(*ME) == [(0, 4)]


def test_a_delete_cancels_what_waits_and_leaves_what_is_processed(sink: Any, pages: Any) -> None:
    write(sink, message(0, _id="a"), message(1, _id="b"))
    (claimed,) = pages.claim(1, wait="0s")
    assert claimed.key == "a"
    write(sink, message(2, Op.DELETE, _id="a"), message(3, Op.DELETE, _id="b"), message(4, Op.DELETE, _id="c"))
    assert rows(pages) == {"a": {"_id": "a"}}
    assert sink.held(*ME) == [(0, 5)]


def test_an_envelope_puts_deletes_too(data: str, pages: Any) -> None:
    made = queue("pages", address=data, envelope=True)
    made.begin(*ME, 1)
    write(made, message(7, Op.DELETE, _id="a"))
    assert rows(pages) == {"a": {"op": "delete", "namespace": "things", "timestamp": 1_700_000_000_000, "offset": 7, "data": {"_id": "a"}}}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (message(1, _id=""), "is empty"),
        (message(1, _id="x" * 1025), "has 1025 bytes"),
        (message(1, _id="headwater:pipeline/x"), "begins with headwater:"),
        (message(1, _id=1, **{"$binary": "AA=="}), r"\$binary"),
        (message(1, Op.UPDATE), "names no document"),
        (message(1, Op.COMMAND, command="truncate"), "no commands"),
    ],
)
def test_a_message_that_no_row_can_be_is_refused_and_those_before_it_are_put(sink: Any, pages: Any, bad: Message, said: str) -> None:
    with pytest.raises(Rejected, match=said) as error:
        write(sink, message(0, _id=0), bad, message(2, _id=2))
    assert (error.value.offset, error.value.before_taken) == (1, True)
    assert list(rows(pages)) == ["0"]
    assert sink.held(*ME) == [(0, 1)]


def test_a_row_that_the_queue_refuses_is_found_alone(data: str) -> None:
    with headwater.open_blocking(data) as hw:
        declared = '<table name="d" model="queue"><column name="_id" type="int"/></table>'
        hw.queue("d", create=True, declaration=declared).open()
    made = queue("d", address=data)
    made.begin(*ME, 1)
    with pytest.raises(Rejected) as both:
        write(made, message(0, _id=1), message(1, _id=2, more=3))
    assert both.value.offset == -1
    write(made, message(0, _id=1))
    with pytest.raises(Rejected, match="more") as alone:
        write(made, message(1, _id=2, more=3))
    assert alone.value.offset == 1
    assert made.held(*ME) == [(0, 1)]
    DOORS.close_unused()


def test_a_replay_is_put_again_and_not_noted(sink: Any, pages: Any) -> None:
    write(sink, message(0, _id=0))
    pages.cancel("0")
    write(sink, message(0, _id=0), again=True)
    assert list(rows(pages)) == ["0"]
    assert sink.held(*ME) == [(0, 1)]


def test_a_message_without_an_id_has_a_key_of_its_own(sink: Any, pages: Any) -> None:
    write(sink, message(0, n=1), message(1, n=1))
    assert list(rows(pages)) == ["shop#1-0", "shop#1-1"]


def test_an_older_run_does_not_take_the_note_back(sink: Any, pages: Any) -> None:
    old = sink.writer(part(0, 1))
    sink.begin(*ME, 2)
    with pytest.raises(Fenced):
        old.write(Batch(start=0, end=1, messages=[message(0, _id=0)]))
    old.close()
    assert sink.held(*ME) == []


def test_many_rows_are_put_in_portions(sink: Any, pages: Any) -> None:
    write(sink, *(message(n, _id=n, text="x" * (300 << 10)) for n in range(5)))
    assert len(rows(pages)) == 5
    assert sink.held(*ME) == [(0, 5)]


def test_the_place_is_known_by_the_queue_whatever_address_it_has(data: str, sink: Any) -> None:
    (read,) = queue("pages", address=f"{data}/../data").locations(Namespaces())
    assert QueueSink(sink).overlaps([read]) == [Location("queues", "pages")]
    assert QueueSink(queue("others", address=data)).overlaps([read]) == []


def test_a_queue_cannot_be_read_back(sink: Any) -> None:
    with pytest.raises(Unsupported):
        sink.rows("things")
