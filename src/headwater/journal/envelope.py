"""Envelopes: encrypted payloads as bytes that say which key opens them. An envelope is a binary payload; other readers see bytes.

    mark 8 | version 1 | cipher 1 | key 16 | what the cipher sealed: kind of the payload 1, and its bytes

The associated data are the envelope's beginning and the place: what it is (an event, a snapshot), topic, journal, number. So an envelope
that is moved to another event, journal or topic is not opened, and neither is one whose beginning was changed.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Literal

import msgspec

from headwater.core.errors import Undecryptable
from headwater.journal.cipher import Cipher, KeyedCipher, NotAuthentic, cipher_with
from headwater.journal.event import Payload, PayloadKind

MARK = b"\x93hw-seal"
"""With these bytes every envelope begins. They are no UTF-8; users cannot append payloads that begin with them."""
KEY_ID = 16
_VERSION = 1
_BEGINNING = struct.Struct(f">8sBB{KEY_ID}s")
_KINDS = {int(kind): kind for kind in PayloadKind}
_KIND_BYTES = tuple(bytes([number]) for number in range(max(_KINDS) + 1))  # by number: it takes a fraction of a format's time
_BINARY = PayloadKind.BINARY
_PURPOSE = b"headwater idempo"  # of the keyed hash: 16 bytes at most
Purpose = Literal["event", "snapshot"]
OVERHEAD = _BEGINNING.size + 29
"""Bytes by which an envelope is longer than its payload."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """An envelope taken apart. `beginning`: its bytes before `sealed`."""

    cipher: int
    key_id: bytes
    beginning: bytes
    sealed: bytes


def is_sealed(payload: Payload | None) -> bool:
    """Whether a payload is an envelope."""
    return payload is not None and payload.kind is PayloadKind.BINARY and payload.data.startswith(MARK)


def read_envelope(data: bytes) -> Envelope:
    """Errors: `Undecryptable` for one that is cut off, or of a version or cipher that this headwater does not know."""
    if len(data) < _BEGINNING.size:
        raise Undecryptable(f"An encrypted payload of {len(data)} bytes is cut off.", hint=DAMAGED)
    _, version, cipher, key_id = _BEGINNING.unpack_from(data)
    if version != _VERSION or cipher_with(cipher) is None:
        raise Undecryptable(
            f"An encrypted payload has the version {version} and the cipher {cipher}, which this headwater does not know.",
            hint="A later headwater wrote it: install that one.",
        )
    return Envelope(cipher, key_id, data[: _BEGINNING.size], data[_BEGINNING.size :])


DAMAGED = "Somebody has changed or moved it: compare the log with a backup, `headwater journal trail TOPIC ID` shows where it lies."


class EntityCipher:
    """The cipher of one entity with one of its keys: seals and opens payloads of its events and snapshots. Safe for several threads."""

    __slots__ = ("_beginning", "_cipher", "_hash_key", "_places", "_seal", "key_id")

    def __init__(self, cipher: Cipher, key_id: bytes, key: bytes, *, topic: str, id: str) -> None:
        self.key_id = key_id
        self._cipher: KeyedCipher = cipher.with_key(key)
        self._seal = self._cipher.seal
        self._hash_key = blake2b(key, digest_size=32, person=_PURPOSE).digest()
        self._beginning = _BEGINNING.pack(MARK, _VERSION, cipher.code, key_id)
        topic_bytes, id_bytes = topic.encode(), id.encode()
        # Sizes in front: no topic and id are the same bytes as another topic and id.
        place = b"%b%d:%b%d:%b" % (self._beginning, len(topic_bytes), topic_bytes, len(id_bytes), id_bytes)
        self._places: dict[Purpose, bytes] = {"event": place + b"event", "snapshot": place + b"snapshot"}

    def seal(self, payload: Payload, seq_nr: int, purpose: Purpose = "event") -> Payload:
        """The payload of this number, as an envelope."""
        return Payload(_BINARY, self.sealed(payload.kind, payload.data, seq_nr, purpose))

    def sealed(self, kind: int, data: bytes, seq_nr: int, purpose: Purpose = "event") -> bytes:
        """`seal`, for bytes of a kind of payload."""
        return self._beginning + self._seal(_KIND_BYTES[kind] + data, self._places[purpose] + b"%d" % seq_nr)

    def open(self, envelope: Envelope, seq_nr: int, purpose: Purpose = "event") -> Payload:
        """The payload that an envelope of this number holds. Errors: `Undecryptable`."""
        try:
            if envelope.beginning != self._beginning:
                raise NotAuthentic
            opened = self._cipher.open(envelope.sealed, self._places[purpose] + b"%d" % seq_nr)
            return Payload(_KINDS[opened[0]], opened[1:])
        except (NotAuthentic, IndexError, KeyError):
            raise Undecryptable(f"The encrypted payload of {purpose} {seq_nr} is not what was written there.", hint=DAMAGED) from None

    def digest(self, digest: str) -> str:
        """A hash of what a caller asked for that says nothing without the key: a plain one would let payloads be guessed for ever."""
        return blake2b(digest.encode(), key=self._hash_key, digest_size=16, person=_PURPOSE).hexdigest()
