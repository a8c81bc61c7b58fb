"""Envelopes: a payload is opened as what it was, where it was."""

from __future__ import annotations

import pytest

from headwater.core.errors import Undecryptable
from headwater.journal.cipher import AesGcm
from headwater.journal.envelope import MARK, OVERHEAD, EntityCipher, is_sealed, read_envelope
from headwater.journal.event import Payload, PayloadKind

KEY, OTHER = b"k" * 32, b"o" * 32


def entity(topic: str = "journal-bank", id: str = "alice", key: bytes = KEY, key_id: bytes = b"i" * 16) -> EntityCipher:
    return EntityCipher(AesGcm(), key_id, key, topic=topic, id=id)


PAYLOADS = [Payload(PayloadKind.JSON, b'{"a":1}'), Payload(PayloadKind.TEXT, "ä".encode()), Payload(PayloadKind.BINARY, b"")]


@pytest.mark.parametrize("payload", PAYLOADS, ids=["json", "text", "binary"])
def test_a_payload_comes_back_as_it_was(payload: Payload) -> None:
    sealed = entity().seal(payload, 7)
    assert sealed.kind is PayloadKind.BINARY
    assert is_sealed(sealed)
    assert len(sealed.data) == len(payload.data) + OVERHEAD
    assert not is_sealed(payload)
    assert not is_sealed(None)
    envelope = read_envelope(sealed.data)
    assert envelope.key_id == b"i" * 16
    assert entity().open(envelope, 7) == payload


def test_it_is_opened_in_its_place_alone() -> None:
    envelope = read_envelope(entity().seal(PAYLOADS[0], 7).data)
    for cipher, number, purpose in (
        (entity(), 8, "event"),
        (entity(), 7, "snapshot"),
        (entity(id="bob"), 7, "event"),
        (entity(topic="journal-other"), 7, "event"),
        (entity(topic="journal-ban", id="kalice"), 7, "event"),
        (entity(key=OTHER), 7, "event"),
        (entity(key_id=b"j" * 16), 7, "event"),
    ):
        with pytest.raises(Undecryptable):
            cipher.open(envelope, number, purpose)  # type: ignore[arg-type]


def test_snapshots_are_sealed_by_the_same_call() -> None:
    sealed = entity().seal(PAYLOADS[0], 7, "snapshot")
    assert entity().open(read_envelope(sealed.data), 7, "snapshot") == PAYLOADS[0]


def test_no_changed_byte_passes() -> None:
    sealed = entity().seal(PAYLOADS[0], 7).data
    for at in range(len(MARK), len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(Undecryptable):
            entity().open(read_envelope(changed), 7)
    for cut in range(len(MARK), len(sealed)):
        with pytest.raises(Undecryptable):
            entity().open(read_envelope(sealed[:cut]), 7)


def test_a_later_version_is_named() -> None:
    sealed = entity().seal(PAYLOADS[0], 7).data
    with pytest.raises(Undecryptable, match="later headwater"):
        read_envelope(sealed[: len(MARK)] + b"\x02" + sealed[len(MARK) + 1 :])


def test_a_hash_of_what_was_asked_needs_the_key() -> None:
    assert entity().digest("abc") == entity(id="bob").digest("abc") != entity(key=OTHER).digest("abc")
    assert entity().digest("abc") != entity().digest("abd")
