"""Binary bodies, byte for byte."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.action import Events, PayloadMetadata
from headwater.journal.binary_body import binary_events, binary_expire_after, encode_binary_body
from headwater.journal.event import NumberedEvent, Payload, PayloadKind

NOTHING = PayloadMetadata()
ONE = bytes.fromhex("00000016 0000000000000007 00000005 00000001 61 01 00000000".replace(" ", ""))
"""Event 7 with the tag "a" and an empty binary payload."""


def body(version: int, count: int, *events: bytes, rest: bytes = b"") -> bytes:
    return struct.pack(">Bi", version, count) + b"".join(events) + rest


def event(
    seq_nr: int = 1, tags: bytes = b"", kind: int = 0, data: bytes = b"", *, size: int | None = None, length: int | None = None
) -> bytes:
    inner = struct.pack(">qi", seq_nr, len(tags)) + tags + struct.pack(">Bi", kind, len(data) if length is None else length) + data
    return struct.pack(">i", len(inner) if size is None else size) + inner


def test_a_body_has_these_bytes() -> None:
    events = (NumberedEvent(7, Payload(PayloadKind.BINARY, b""), ("a",)),)
    assert encode_binary_body(events, NOTHING) == body(1, 1, ONE, rest=b"{}")
    assert binary_events(body(1, 1, ONE, rest=b"{}")) == Events(events)


def test_every_kind_of_payload() -> None:
    written = body(
        0, 4, event(1), event(2, kind=1, data=b"\x00"), event(3, kind=2, data=b'{"a": 1.0}'), event(4, kind=3, data="ü".encode())
    )
    assert [one.payload for one in binary_events(written).events] == [
        None,
        Payload(PayloadKind.BINARY, b"\x00"),
        Payload(PayloadKind.JSON, b'{"a": 1.0}'),
        Payload(PayloadKind.TEXT, "ü".encode()),
    ]


@pytest.mark.parametrize("version", [0, 2, 77, 255])
def test_every_other_version_is_read_as_0_and_what_follows_is_ignored(version: int) -> None:
    assert binary_events(body(version, 1, ONE, rest=b"\xff{{")) == binary_events(body(1, 1, ONE, rest=b"{}"))


def test_bytes_behind_a_payload_inside_of_its_event_are_ignored() -> None:
    assert binary_events(body(0, 1, event(1, kind=1, data=b"abc", length=2))).events[0].payload == Payload(PayloadKind.BINARY, b"ab")


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\x01\x00\x00",
        body(1, 0, rest=b"{}"),
        body(1, -1, rest=b"{}"),
        body(1, 2, ONE, rest=b"{}"),
        body(1, 1, ONE),
        body(1, 1, ONE, rest=b"{"),
        body(1, 1, ONE, rest=b"\xff"),
        body(0, 1, ONE[:-1]),
        body(0, 1, event(0)),
        body(0, 1, event(-5)),
        body(0, 1, event(1, kind=4)),
        body(0, 1, event(1, size=-1)),
        body(0, 1, event(1, size=5)),
        body(0, 1, event(1, size=1 << 30)),
        body(0, 1, event(1, length=-1)),
        body(0, 1, event(1, kind=1, length=9)),
        body(0, 1, event(1, kind=2, data=b"{")),
        body(0, 1, event(1, kind=2, data=b"")),
        body(0, 1, event(1, kind=3, data=b"\xff")),
        body(0, 1, event(1, tags=b"\x00\x00")),
        body(0, 1, event(1, tags=struct.pack(">i", 1))),
        body(0, 1, event(1, tags=struct.pack(">i", -1))),
        body(0, 1, event(1, tags=struct.pack(">i", 1) + b"\xff")),
    ],
)
def test_damaged_bodies_are_unreadable(damaged: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        binary_events(damaged)


def test_a_count_that_is_a_lie_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        for damaged in (body(1, (1 << 31) - 1, ONE), body(0, 1, event(1, size=(1 << 31) - 1)), body(0, 1, event(1, length=(1 << 31) - 1))):
            with pytest.raises(UnreadableRecord):
                binary_events(damaged)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "wrong",
    [
        NumberedEvent(1, Payload(PayloadKind.JSON, b"{")),
        NumberedEvent(1, Payload(PayloadKind.TEXT, b"\xff")),
        NumberedEvent(1, None, ("\ud800",)),
    ],
)
def test_what_readers_could_not_read_is_not_written(wrong: NumberedEvent) -> None:
    with pytest.raises(BadInput):
        encode_binary_body([wrong], NOTHING)


def test_the_expiry_is_found_by_stepping_over_the_events() -> None:
    assert binary_expire_after(body(1, 1, ONE, rest=b"{}")) is None
    assert binary_expire_after(body(1, 1, ONE, rest=b"{ }")) is None
    assert binary_expire_after(body(0, 1, ONE, rest=b'{"expireAfter":"1 day"}')) is None
    assert binary_expire_after(body(1, 2, ONE, event(2, kind=9), rest=b'{"expireAfter":"1 day"}')) == 86_400_000
    with pytest.raises(UnreadableRecord):
        binary_expire_after(body(1, 2, ONE, event(2, size=1 << 20), rest=b'{"expireAfter":"1 day"}'))


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x00\x00\x00\x00\x01", b"\x01\x00\x00\x00\x02"]))
def test_bytes_are_a_body_or_unreadable(rest: bytes, beginning: bytes) -> None:
    for reader in (binary_events, binary_expire_after):
        with suppress(UnreadableRecord):
            reader(beginning + rest)
