"""The encryption of snapshots of one partition: with the keys of their journals, so that an erasure takes them, too.

A snapshot is saved beside the partition's writer, not by it. So whoever makes the first key of a journal here looks again afterwards: an
erasure that has begun meanwhile has either seen this key and retires it, or is seen, and then the key is destroyed before it has sealed
anything.
"""

from __future__ import annotations

import threading

import msgspec

from headwater.core.errors import Conflict, Undecryptable
from headwater.journal.cipher import USUAL
from headwater.journal.entity_keys import EntityKeys, erased
from headwater.journal.envelope import EntityCipher, is_sealed, read_envelope
from headwater.journal.event import Payload
from headwater.journal.head import Head
from headwater.journal.snapshot import Snapshot
from headwater.journal.topic_cipher import TopicCipher
from headwater.journal.whole import WholeJournals


class SnapshotSealing:
    """Blocking; safe for several threads. Errors of every call: those of `TopicCipher.keys`."""

    def __init__(self, cipher: TopicCipher, journals: WholeJournals) -> None:
        self._cipher, self._journals, self._topic = cipher, journals, cipher.topic.name
        self._guard = threading.Lock()
        self._caught_up = False

    def sealed(self, id: str, seq_nr: int, payload: Payload, head: Head) -> Payload:
        """The payload as it is saved: an envelope where the topic is encrypted, whose key is durable. `head`: the journal's.

        Errors: `Undecryptable` where the journal's key is not in the key store; `Conflict` where it is being erased; `Erased` where it was.
        """
        if self._cipher.name(fresh=True) is None:
            return payload
        with self._guard:
            return self._entity(id, head).seal(payload, seq_nr, "snapshot")

    def opened(self, id: str, snapshot: Snapshot) -> Snapshot:
        """A snapshot with its payload in clear. Errors: `Erased`; `Undecryptable`."""
        payload = snapshot.payload
        if payload is None or not is_sealed(payload):
            return snapshot
        envelope = read_envelope(payload.data)
        opened = self._cipher.opening(id, envelope.key_id).open(envelope, snapshot.seq_nr, "snapshot")
        return msgspec.structs.replace(snapshot, payload=opened, kind=opened.kind)

    def _entity(self, id: str, head: Head) -> EntityCipher:
        keys = self._cipher.keys()
        if not self._caught_up:
            self._cipher.catch_up()
            self._caught_up = True
        stored_keys = keys.store.keys(self._topic, [id]).get(id, [])
        active = next((key for key in reversed(stored_keys) if key.state == "active"), None)
        if active is not None:
            return keys.usable(self._topic, active)
        if any(key.state == "retired" for key in stored_keys):
            raise _erasing(id)
        newest = self._newest(id, head.last)
        if newest is not None and is_sealed(newest):
            used = read_envelope(newest.data).key_id
            if any(key.key_id == used for key in stored_keys):
                raise erased(id)
            raise Undecryptable(
                f"Journal {id!r:.60} in {self._topic} is encrypted, and its key is not in the key store.",
                hint="The key store is older than the log: bring back the newest backup of it.",
            )
        return self._made(keys, id, head, {key.key_id for key in stored_keys})

    def _newest(self, id: str, last: int) -> Payload | None:
        row = self._journals.event(id, last)
        return None if row is None else row.payload

    def _made(self, keys: EntityKeys, id: str, head: Head, before: set[bytes]) -> EntityCipher:
        """A new key, which no erasure under way has overlooked."""
        new_key = keys.create(self._topic, [id], self._cipher.name() or USUAL)[id]
        now = keys.store.keys(self._topic, [id]).get(id, [])
        current_head, _ = self._journals.head(id)
        if (
            current_head is None
            or current_head.record_id != head.record_id
            or any(key.state != "active" and key.key_id not in before for key in now)
        ):
            # One that is retired by now is the erasure's: it needs it, where it is the only one, to be finished after a crash.
            keys.store.destroy(self._topic, [key for key in now if key.key_id == new_key.key_id and key.state == "active"])
            raise _erasing(id)
        return new_key


def _erasing(id: str) -> Conflict:
    return Conflict(
        f"Journal {id!r:.60} is being erased: no snapshot of it is saved.",
        hint="Wait for the erasure, or finish it: `headwater journal erase TOPIC ID --why TEXT`.",
    )
