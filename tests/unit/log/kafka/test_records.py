from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, TooLarge
from headwater.log.arrow import SCHEMA
from headwater.log.epochs import CLAIM, EPOCH, mark
from headwater.log.kafka.records import MODE, columns, columns_outgoing, incoming, outgoing
from headwater.log.record import Record
from headwater.testing.log_reading import rows

BYTES = st.none() | st.binary(max_size=20)
NAMES = st.text(max_size=8).filter(lambda name: name not in (MODE, EPOCH, CLAIM))
RECORDS = st.builds(
    Record,
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=3).map(tuple),
    timestamp=st.integers(0, (1 << 63) - 1),
    mode=st.integers(0, 3),
    op=st.integers(0, 7),
)


def delivered(records: list[Record]) -> list[Message]:
    """What a consumer gets of what a producer was given."""
    sent, _ = outgoing(records, now=7, limit=10_000)
    return [
        Message(topic="t", partition=0, offset=offset, key=key, value=value, headers=headers or None, timestamp=(1, timestamp))
        for offset, (key, value, headers, timestamp) in enumerate(sent)
    ]


def numbered(records: list[Record]) -> list[Record]:
    return [Record(r.key, r.value, r.headers, r.timestamp, r.mode, r.op, offset) for offset, r in enumerate(records)]


@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_a_record_comes_back_as_it_was(records: list[Record]) -> None:
    messages = delivered(records)
    assert [incoming(message) for message in messages] == numbered(records)
    batch = columns(messages)
    assert batch.schema.equals(SCHEMA)
    assert rows(batch) == numbered(records)


def test_mode_and_op_are_one_byte_that_is_left_out_when_zero() -> None:
    sent, _ = outgoing([Record(b"k", b"v"), Record(b"k", b"v", mode=2, op=5), Record(b"k", b"v", (("a", b"1"),), op=1)], now=7, limit=100)
    assert [headers for _, _, headers, _ in sent] == [[], [(MODE, b"\x16")], [("a", b"1"), (MODE, b"\x04")]]


def test_the_time_is_now_unless_given_and_zero_is_kafkas_none() -> None:
    sent, _ = outgoing([Record(b"k", b"v"), Record(b"k", b"v", timestamp=5), Record(b"k", b"v", timestamp=0)], now=7, limit=100)
    assert [timestamp for _, _, _, timestamp in sent] == [7, 5, -1]


def test_every_record_gets_the_writers_mark() -> None:
    own = (EPOCH, mark(3))
    sent, _ = outgoing([Record(b"k", b"v"), Record(b"k", b"v", (("a", None),), mode=1)], now=7, limit=100, mark=own)
    assert [headers for _, _, headers, _ in sent] == [[own], [("a", None), own, (MODE, b"\x01")]]


@pytest.mark.parametrize("name", [MODE, EPOCH, CLAIM])
def test_the_logs_own_headers_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        outgoing([Record(b"k", b"v", ((name, b"\x01"),))], now=7, limit=100)


def test_a_header_of_another_clients_that_only_looks_like_ours_is_kept() -> None:
    message = Message(topic="t", partition=0, offset=1, headers=[(MODE, b"long"), (MODE, None), (MODE, b"\xff")], timestamp=(1, 5))
    assert incoming(message) == Record(None, None, ((MODE, b"long"), (MODE, None), (MODE, b"\xff")), 5, 0, 0, 1)


def test_key_value_and_headers_count_together() -> None:
    fits = Record(b"k" * 10, b"v" * 20, (("name", b"x" * 10),))  # the header block: 4 + 2 + 2 + 4 + 4 + 10
    assert outgoing([fits, fits], now=7, limit=56)[1] == 112
    with pytest.raises(TooLarge, match="56"):
        outgoing([fits], now=7, limit=55)


@pytest.mark.parametrize(
    "record",
    [Record(b"k", b"v", mode=4), Record(b"k", b"v", op=8), Record(b"k", b"v", timestamp=-1), Record(b"k", b"v", timestamp=1 << 63)],
)
def test_what_does_not_fit_is_refused(record: Record) -> None:
    with pytest.raises(BadInput):
        outgoing([Record(b"k", b"v"), record], now=7, limit=100)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(BadInput):
        outgoing([], now=7, limit=100)


def test_columns_become_records() -> None:
    batch = pa.record_batch({"key": pa.array([b"a", None]), "value": pa.array([None, b"2"]), "timestamp": pa.array([None, 4], pa.int64())})
    assert columns_outgoing(batch) == [Record(b"a", None), Record(None, b"2", timestamp=4)]


def test_columns_of_another_type_are_refused() -> None:
    with pytest.raises(BadInput):
        columns_outgoing(pa.record_batch({"key": pa.array([[1]]), "value": pa.array([b"v"])}))
