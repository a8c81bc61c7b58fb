"""Batches encoded one by one and by columns: the same bytes, the same errors, and one header as any number of them."""

from __future__ import annotations

from array import array

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.core.errors import BadInput, TooLarge
from headwater.log.embedded.columns import encode_columns
from headwater.log.encoding import encode, encode_by_columns, encode_one_by_one
from headwater.log.layout import EncodedBatch, decode
from headwater.log.record import Mode, Record


@pytest.mark.parametrize("others", [0, 1, 5, 40])
def test_a_record_with_one_header_by_hand(others: int) -> None:
    """Alone, the last of a batch and in its midst: each has a way of its own to be encoded quickly."""
    plain, one = Record(b"key", b"value"), Record(b"key", b"value", (("name", b"1234567"),))
    block = bytes.fromhex("00000013 0001 0004 6e616d65 00000007 31323334353637")
    middle = bytes.fromhex("0000000000000000 00000027 0000000000000007 40 00000003 6b6579 0000001c") + block + b"value"
    last = bytes.fromhex("0000000000000000 00000037 0000000000000007 c0 00000003 6b6579 0000002c") + block + b"value" + bytes(16)
    assert encode([*[plain] * others, one], now=7).buffer.endswith(last)
    if others:
        assert encode([one, *[plain] * others], now=7).buffer.startswith(middle)
    assert decode(middle, 0) == Record(b"key", b"value", (("name", b"1234567"),), 7, offset=0)


# Batches of one shape in most respects, as real ones are, so that each way through the columns is met.
shapes = st.fixed_dictionaries(
    {
        "key": st.sampled_from([st.just(b"same"), st.binary(min_size=4, max_size=4), st.none(), st.none() | st.binary(max_size=20)]),
        "value": st.sampled_from([st.just(b""), st.binary(min_size=9, max_size=9), st.none(), st.none() | st.binary(max_size=300)]),
        "headers": st.sampled_from(
            [
                st.just(()),
                st.tuples(st.tuples(st.just("näme"), st.binary(min_size=8, max_size=8))),
                st.tuples(st.tuples(st.just("name"), st.just(b""))),
                st.tuples(st.tuples(st.just(""), st.binary(max_size=9))),
                st.tuples(st.tuples(st.just("name"), st.none() | st.binary(max_size=9))),
                st.tuples(st.tuples(st.text(max_size=5), st.binary(min_size=2, max_size=2))),
                st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
            ]
        ),
        "timestamp": st.sampled_from([st.none(), st.just(5), st.none() | st.integers(0, 2**63 - 1)]),
        "mode": st.sampled_from([st.just(Mode.COPY), st.just(Mode.SYNC), st.integers(0, 3)]),
        "op": st.sampled_from([st.just(0), st.integers(0, 7)]),
    }
)


@settings(max_examples=examples(60))
@given(shapes.flatmap(lambda shape: st.lists(st.builds(Record, **shape), min_size=2, max_size=20)), st.integers(0, 2**40))
def test_columns_of_records_give_the_bytes_of_records_one_by_one(batch: list[Record], now: int) -> None:
    one, other = encode_one_by_one(batch, now, 1 << 20), encode_by_columns(batch, now, 1 << 20)
    assert other is not None
    assert one.buffer == other.buffer
    assert list(one.starts) == list(other.starts)
    assert one.records == other.records


WRONG = [
    Record(b"k", b"v", mode=4),
    Record(b"k", b"v", mode=-1),
    Record(b"k", b"v", op=8),
    Record(b"k", b"v", timestamp=-1),
    Record(b"k", b"v", timestamp=1 << 63),
    Record(b"k", b"v", timestamp=1 << 70),
    Record(b"k", b"v", timestamp=1.5),  # type: ignore[arg-type]
    Record(b"k", b"x" * 101),
    Record(b"x" * 101, b""),
    Record(b"k", b"v", (("a", b"x" * 90),)),
    Record(b"k", b"v", (("a" * 70_000, b"x"),)),
    Record(b"k", b"v", (("\ud800", b"x"),)),
    Record(b"k", b"v", (("a", b""),) * 70_000),
    Record("text", b"v"),  # type: ignore[arg-type]
    Record(b"k", 5),  # type: ignore[arg-type]
    Record(b"k", b"v", (("a", "text"),)),  # type: ignore[arg-type]
    Record(b"k", b"v", (("a", b"x", b"y"),)),  # type: ignore[arg-type]
    Record(b"k", b"x" * 90, (("a", b""),)),  # too large with its header
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda record: str(WRONG.index(record)))
@pytest.mark.parametrize("place", [0, 50, 199])
def test_columns_leave_every_error_to_records_one_by_one(wrong: Record, place: int) -> None:
    batch = [Record(b"k", b"v")] * 200
    batch[place] = wrong
    assert encode_by_columns(batch, 5, 100) is None
    errors = []
    for one in (lambda: encode(batch, now=5, limit=100), lambda: encode_one_by_one(batch, 5, 100)):
        with pytest.raises(Exception) as raised:
            one()
        errors.append((type(raised.value), str(raised.value)))
    assert errors[0] == errors[1]


def test_a_batch_above_64_mib_is_left_to_records_one_by_one() -> None:
    batch = [Record(b"k", bytes(1 << 20))] * 70
    assert encode_by_columns(batch, 5, 16 << 20) is None
    with pytest.raises(TooLarge, match="64 MiB"):
        encode(batch, now=5)


def test_bad_input() -> None:
    def empty() -> EncodedBatch:
        return encode([], now=0)

    with pytest.raises(BadInput, match="empty batch"):
        empty()
    with pytest.raises(TooLarge, match="topic's limit of 10"):
        encode([Record(b"12345", b"123456")], now=0, limit=10)
    with pytest.raises(TooLarge, match="64 MiB"):
        encode([Record(b"k", bytes(15 << 20))] * 5, now=0)
    with pytest.raises(BadInput, match="Mode 4"):
        encode([Record(b"k", b"v", mode=4)], now=0)
    with pytest.raises(BadInput, match="no timestamp"):
        encode([Record(b"k", b"v", timestamp=-1)], now=0)
    with pytest.raises(BadInput, match=r"cannot be appended|[Rr]ecord \d+"):
        encode_columns(pa.record_batch({"key": [b"k"], "velue": [b"v"]}), now=0, limit=10)


ARRAY = array("I", [1, 2, 3])  # its length is not its number of bytes: believed, nothing behind it could be read again
NOT_BYTES = {
    "value": Record(b"k", ARRAY),  # type: ignore[arg-type]
    "key": Record(ARRAY, b"v"),  # type: ignore[arg-type]
    "value beside a timestamp": Record(b"k", ARRAY, timestamp=1),  # type: ignore[arg-type]
    "header": Record(b"k", b"v", headers=(("h", ARRAY),)),  # type: ignore[arg-type]
    "text": Record(b"k", "text"),  # type: ignore[arg-type]
    "number": Record(b"k", 5),  # type: ignore[arg-type]
    "no record": "record",
}


@pytest.mark.parametrize("count", [1, 3, 200])
@pytest.mark.parametrize("what", NOT_BYTES)
def test_what_is_not_bytes_is_bad_input(what: str, count: int) -> None:
    batch = [Record(b"k", b"abc")] * (count - 1)
    for at in (0, count // 2, count - 1):
        with pytest.raises(BadInput, match=r"cannot be appended|[Rr]ecord \d+"):
            encode([*batch[:at], NOT_BYTES[what], *batch[at:]], now=7)  # type: ignore[list-item]
    with pytest.raises(BadInput, match=r"cannot be appended|[Rr]ecord \d+"):
        encode([NOT_BYTES[what]] * count, now=7)  # type: ignore[list-item]
