"""The bytes of records and batches, against vectors computed by hand."""

from __future__ import annotations

import struct
from array import array

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import BadInput, HeadwaterError, TooLarge
from headwater.log.embedded.columns import encode_columns
from headwater.log.layout import EncodedBatch, decode, decode_headers, encode, encode_by_columns, encode_headers, encode_one_by_one, seal
from headwater.log.record import Header, Mode, Record

# offset 0 | message length 16 = 8 + 3 + 5 | timestamp 1 491 252 302 000 ms | mode 0 | key length 3 | "key" | data length 5 | "value"
PLAIN = bytes.fromhex("0000000000000000 00000010 0000015b359050b0 00 00000003 6b6579 00000005 76616c7565")

# The same as a batch of one: message length 32 = 8 + 3 + 21, mode bit 7, data length 21 = 5 + 16,
# then durable end 0, batch length 53, and the crc32c of the 49 bytes before it.
SEALED = bytes.fromhex(
    "0000000000000000 00000020 0000015b359050b0 80 00000003 6b6579 00000015 76616c7565 0000000000000000 00000035 c67ed93a"
)


def crc32c_by_hand(data: bytes) -> int:
    """Castagnoli's polynomial, bit by bit: slow, and sharing nothing with the library that the product uses."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(*records: Record, offset: int = 0, durable: int = 0) -> bytes:
    batch = encode(records, now=7)
    seal(batch, offset, durable)
    return bytes(batch.buffer)


def test_a_plain_record_is_37_bytes_and_a_batch_of_one_is_53() -> None:
    record = Record(b"key", b"value", timestamp=1_491_252_302_000)
    assert len(PLAIN) == 37
    assert len(SEALED) == 53
    assert sealed(record) == SEALED
    assert decode(PLAIN, 0) == decode(SEALED, 0) == Record(b"key", b"value", timestamp=1_491_252_302_000, offset=0)


def test_the_checksum_of_the_vector_is_right_by_another_implementation() -> None:
    assert struct.unpack(">I", SEALED[-4:])[0] == crc32c_by_hand(SEALED[:-4]) == google_crc32c.value(SEALED[:-4])


def test_only_the_last_record_of_a_batch_carries_the_trailer() -> None:
    records = [Record(b"key", b"value", timestamp=1_491_252_302_000)] * 2
    batch = sealed(*records)
    assert batch[:37] == PLAIN
    assert len(batch) == 37 + 53
    assert batch[37:45] == struct.pack(">Q", 1)
    assert batch[-16:-4] == struct.pack(">QI", 0, 90)


def test_the_header_block_by_hand() -> None:
    block = bytes.fromhex("00000012 0002 0001 61 00000001 62 0002 c3a4 ffffffff")
    assert encode_headers((("a", b"b"), ("ä", None))) == block
    assert decode_headers(block) == (("a", b"b"), ("ä", None))


def test_mode_byte() -> None:
    assert sealed(Record(b"k", b"v", mode=Mode.SYNC, op=2))[20] == 0x80 | 2 << 2 | 1
    assert sealed(Record(None, None))[20] == 0x80 | 0x20
    assert sealed(Record(b"k", b"v", headers=(("a", b""),)))[20] == 0x80 | 0x40
    assert sealed(Record(None, b"v"))[21:25] == b"\xff\xff\xff\xff"


records = st.builds(
    Record,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=300),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
    timestamp=st.none() | st.integers(0, 2**63 - 1),
    mode=st.integers(0, 3),
    op=st.integers(0, 7),
)


@given(st.lists(records, min_size=1, max_size=60), st.integers(0, 2**40))
def test_what_goes_in_comes_out(batch: list[Record], offset: int) -> None:
    encoded = encode(batch, now=7)
    seal(encoded, offset, offset)
    for i, (record, start) in enumerate(zip(batch, encoded.starts, strict=True)):
        back = decode(bytes(encoded.buffer), int(start))
        timestamp = 7 if record.timestamp is None else record.timestamp
        assert back == Record(record.key, record.value, record.headers, timestamp, record.mode, record.op, offset + i)


plain = st.builds(
    Record, key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=300), mode=st.integers(0, 3), op=st.integers(0, 7)
)


@given(st.lists(plain, min_size=1, max_size=60))
def test_columns_give_the_same_bytes_as_records(batch: list[Record]) -> None:
    columns = pa.record_batch(
        {
            "key": pa.array([one.key for one in batch], pa.binary()),
            "value": pa.array([one.value for one in batch], pa.binary()),
            "mode": pa.array([one.mode for one in batch], pa.uint8()),
            "op": pa.array([one.op for one in batch], pa.uint8()),
        }
    )
    one, other = encode(batch, now=7), encode_columns(columns, now=7, limit=1 << 20)
    seal(one, 5, 3)
    seal(other, 5, 3)
    assert one.buffer == other.buffer
    assert list(one.starts) == list(other.starts)


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


@settings(max_examples=300)
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
    batch = [Record(b"k", bytes(1 << 20))] * 200
    assert encode_by_columns(batch, 5, 16 << 20) is None
    with pytest.raises(TooLarge, match="64 MiB"):
        encode(batch, now=5)


@pytest.mark.parametrize(
    ("headers", "kind", "said"),
    [
        ((("a", b""),) * 65_536, TooLarge, "65536 headers"),
        ((("a" * 65_536, b""),), TooLarge, "65536 bytes"),
        ((("\ud800", b""),), BadInput, "no text"),
    ],
)
def test_headers_that_the_block_does_not_hold(headers: tuple[Header, ...], kind: type[HeadwaterError], said: str) -> None:
    with pytest.raises(kind, match=said):
        encode_headers(headers)


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
