"""The bytes of records and batches, against vectors computed by hand."""

from __future__ import annotations

import struct

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, HeadwaterError, TooLarge
from headwater.log.embedded.columns import encode_columns
from headwater.log.encoding import encode
from headwater.log.layout import decode, decode_headers, encode_headers, seal
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
