from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.wal.layout import (
    MalformedRecord,
    RecordKey,
    RecordKind,
    decode_key,
    decode_meta_key,
    decode_payloads,
    encode_key,
    encode_meta_key,
    encode_payloads,
    payload_count,
)

NUMBERS = st.integers(0, 2**64 - 1)


def test_a_key_has_the_bytes_of_the_wal_on_kafka() -> None:
    key = encode_key(RecordKind.ENTRY, 1234, 8910, 1000)
    assert key == bytes.fromhex("01 00000000000004d2 00000000000022ce 00000000000003e8 00")
    assert decode_key(key) == RecordKey(RecordKind.ENTRY, 1234, 8910, 1000)


def test_a_meta_key_has_the_bytes_of_the_wal_on_kafka() -> None:
    assert encode_meta_key(42) == bytes.fromhex("00 00 000000000000002a")
    assert decode_meta_key(encode_meta_key(42)) == 42


def test_one_payload_is_what_the_wal_on_kafka_writes_and_several_share_a_value() -> None:
    assert encode_payloads([b"abc"]) == b"\0abc"
    assert encode_payloads([b"a", b"", b"bcd"]) == bytes.fromhex("01 00000003 00000001 00000000 00000003") + b"abcd"


@given(st.sampled_from(RecordKind), NUMBERS, NUMBERS, NUMBERS)
def test_every_key_comes_back(kind: RecordKind, region: int, table: int, sequence: int) -> None:
    key = encode_key(kind, region, table, sequence)
    assert len(key) == 26
    assert decode_key(key) == (kind, region, table, sequence)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_every_list_of_payloads_comes_back(payloads: list[bytes]) -> None:
    value = encode_payloads(payloads)
    assert decode_payloads(value) == payloads
    assert payload_count(value) == len(payloads)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (None, "0 bytes"),
        (b"", "0 bytes"),
        (encode_key(RecordKind.ENTRY, 1, 2, 3)[:-1], "25 bytes"),
        (encode_key(RecordKind.ENTRY, 1, 2, 3) + b"\0", "27 bytes"),
        (b"\5" + encode_key(RecordKind.ENTRY, 1, 2, 3)[1:], "kind 5"),
        (b"\0" + encode_key(RecordKind.ENTRY, 1, 2, 3)[1:], "kind 0"),
        (encode_key(RecordKind.ENTRY, 1, 2, 3)[:-1] + b"\1", "version 1"),
    ],
)
def test_what_is_no_key_is_told(key: bytes | None, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        decode_key(key)


@pytest.mark.parametrize(
    ("key", "why"), [(None, "0 bytes"), (b"\0" * 9, "9 bytes"), (b"\1" + b"\0" * 9, "kind 1"), (b"\0\1" + b"\0" * 8, "version 1")]
)
def test_what_is_no_meta_key_is_told(key: bytes | None, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        decode_meta_key(key)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "no value"),
        (b"", "no value"),
        (b"\2abc", "version 2"),
        (b"\1\0\0", "ends after 3 bytes"),
        (b"\1\0\0\0\0", "0 payloads"),
        (b"\1\xff\xff\xff\xff", "4294967295 payloads"),
        (bytes.fromhex("01 00000001 00000005") + b"abc", "end at byte 14"),
        (bytes.fromhex("01 00000001 00000002") + b"abc", "end at byte 11"),
    ],
)
def test_what_is_no_value_is_told(value: bytes | None, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        decode_payloads(value)


@pytest.mark.parametrize(
    ("payloads", "why"), [([], "without payloads"), (["text"], "Payload 0 is of type str"), ([b"a", 7], "Payload 1 is of type int")]
)
def test_what_cannot_be_written_is_told(payloads: list[bytes], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        encode_payloads(payloads)


@pytest.mark.parametrize(
    "payloads",
    [
        [array("i", [1, 2]), b"x"],  # two items, and eight bytes
        [memoryview(array("H", [1, 2])), b"x"],
        [memoryview(b"abcdef")[::2], b"x"],  # not in one piece
        [memoryview(b"abcdef")[::2]],
        [np.arange(3), b"x"],
        (one for one in (b"a", b"b")),
        {b"a": 1, b"b": 2},
        {b"a", b"b"},
        b"abc",
        b"a",
        "ab",
        None,
        7,
        [b"a", None],
    ],
)
def test_what_is_no_sequence_of_bytes_is_refused(payloads: Any) -> None:
    with pytest.raises(BadInput):
        encode_payloads(payloads)


def test_bytes_of_every_kind_are_taken() -> None:
    assert encode_payloads([bytearray(b"a"), memoryview(b"bc")]) == encode_payloads((b"a", b"bc"))


@pytest.mark.parametrize("at", range(5, 13))
def test_a_value_whose_lengths_do_not_fit_is_refused_before_it_is_taken_apart(at: int) -> None:
    """The fold counts payloads without taking them apart: a count that is wrong would give later entries the wrong numbers."""
    value = bytearray(encode_payloads([b"abc", b"de"]))
    value[at] ^= 1
    with pytest.raises(MalformedRecord):
        payload_count(bytes(value))
