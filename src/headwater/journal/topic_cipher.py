"""The encryption of one topic, as this process sees it: whether it is on, and the keys that open what was encrypted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadConfig, Differs, Erased, Unsupported
from headwater.journal.change import EventRow
from headwater.journal.cipher import USUAL, cipher_named
from headwater.journal.cipher_control import CipherControl, CipherOn, Erasure
from headwater.journal.entity_keys import EntityKeys, erased
from headwater.journal.envelope import EntityCipher, is_sealed, read_envelope
from headwater.journal.event import PayloadKind
from headwater.journal.key_store import KeyNote, StoredKey
from headwater.log import Log
from headwater.log.record import Topic

LOOK = 1.0
"""Seconds after which the control topic is looked at again: so long others' decision to encrypt may go unseen."""
Keys = Callable[[], EntityKeys | None]
"""The keys of this process; None where no master key is configured. Blocking."""


class TopicCipher:
    """Blocking; safe for several threads.

    A topic is encrypted when its control topic says so, or the key store does: whichever was restored from an older backup, nothing is
    appended in clear by mistake.
    """

    def __init__(self, log: Log, topic: Topic, keys: Keys, *, clock: Clock, exact: bool = True) -> None:
        self.topic, self._keys, self._clock, self._exact = topic, keys, clock, exact
        self._control = CipherControl(log, topic.name)
        self._guard = threading.Lock()
        self._looked: float | None = None
        self._noted: KeyNote | None = None
        self._checked = False
        self._erased: set[bytes] = set()  # keys that the control topic calls destroyed, and this process has not seen destroyed

    # -- whether it is on -------------------------------------------------------------------------------------

    def name(self, *, fresh: bool = False) -> str | None:
        """The cipher's name; None: payloads are clear. `fresh`: look now. Errors: those of the log and the key store."""
        now = self._clock.monotonic()
        if fresh or self._looked is None or now - self._looked >= LOOK:
            with self._guard:
                self._look()
                self._looked = now
        on = self._control.on
        if on is not None:
            return on.cipher
        return None if self._noted is None else self._noted.cipher

    def _look(self) -> None:
        erasures = self._control.look()
        keys = self._keys()
        if keys is None:
            return
        if self._looked is None or (self._noted is None and self._control.on is not None):
            self._noted = keys.store.note(self.topic.name)
        applied = self._noted.applied if self._noted is not None and self._noted.control == self._control.generation else 0
        self._erased.update(key for offset, erasure in erasures if offset >= applied for key in erasure.key_ids())

    def keys(self) -> EntityKeys:
        """The keys, for an encrypted topic. Errors: `BadConfig` without a master key, `Differs` where its keys are in another store."""
        name, keys = self.name(), self._keys()
        if keys is None:
            raise BadConfig(
                f"Topic {self.topic.name} is encrypted{f' ({name})' if name else ''}, and no master key is configured.",
                hint="Set `journal.key_file` or `journal.key_variable`: `headwater config show journal.key_file`.",
            )
        on = self._control.on
        if not self._checked and on is not None:
            identity = keys.store.identity()
            if identity != on.store:
                raise Differs(
                    f"The keys of topic {self.topic.name} are in the key store {on.store}, and this is {identity or 'an empty one'}.",
                    hint="Bring the key store back from its backup (keys/journal.db, or the keyspace), or set `store.engine` as it was.",
                )
            self._checked = True
        return keys

    def turn_on(self, *, cipher: str = USUAL, who: str = "", why: str = "") -> bool:
        """Encrypt what is appended from now on; whether it was clear before. Events that are there stay as they are.

        Errors: `Unsupported` for a topic that others write, too; `BadConfig` without a master key; `BadInput` for an unknown cipher.
        """
        cipher_named(cipher)
        if not self._exact:
            raise Unsupported(
                f"Topic {self.topic.name} is written by others, too, who would append in clear.",
                hint="Create a topic of headwater's own: `headwater journal create NAME --cipher`.",
            )
        was = self.name(fresh=True)
        keys = self.keys()
        if was is not None and self._control.on is not None and self._noted is not None:
            return False
        store = keys.store.identity(create=True)
        if self._noted is None:
            self._noted = KeyNote(cipher)
            keys.store.set_note(self.topic.name, self._noted)
        if self._control.on is None:
            self._control.append(CipherOn(generation=self.topic.generation, cipher=cipher, store=store, who=who, why=why))
        self.name(fresh=True)
        return was is None

    # -- erasures ---------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Destroy the keys that the control topic calls destroyed, and that the key store, being restored, has again."""
        keys = self.keys()
        with self._guard:
            note = keys.store.note(self.topic.name) or KeyNote(self._control.on.cipher if self._control.on else USUAL)
            control = CipherControl(self._control.log, self.topic.name)
            control.generation, control.end = note.control, note.applied
            for _, erasure in control.look():
                self._destroy(keys, erasure)
            if (control.generation, control.end) != (note.control, note.applied):
                self._noted = msgspec.structs.replace(note, control=control.generation, applied=control.end)
                keys.store.set_note(self.topic.name, self._noted)
            self._erased.clear()

    def _destroy(self, keys: EntityKeys, erasure: Erasure) -> None:
        wanted = erasure.key_ids()
        stored_keys = {key.key_id: key for key in keys.store.keys(self.topic.name, [erasure.id]).get(erasure.id, [])}
        left = [stored_keys.get(key_id) or StoredKey(erasure.id, key_id, 0, who=erasure.who, why=erasure.why) for key_id in wanted]
        if any(key.state != "destroyed" for key in left):
            keys.store.destroy(self.topic.name, left)
            keys.forget(self.topic.name, erasure.id)

    def note_erasure(self, id: str, destroyed: Sequence[StoredKey], *, partition: int, offset: int) -> None:
        """Write an erasure into the control topic, then destroy its keys."""
        keys, first = self.keys(), destroyed[0]
        self._control.append(
            Erasure(
                generation=self.topic.generation, partition=partition, id=id, offset=offset,
                keys=tuple(key.key_id.hex() for key in destroyed), who=first.who, why=first.why,
            )
        )  # fmt: skip
        keys.store.destroy(self.topic.name, destroyed)
        keys.forget(self.topic.name, id)

    # -- opening ----------------------------------------------------------------------------------------------

    def opening(self, id: str, key_id: bytes) -> EntityCipher:
        """The key that opens an envelope of a journal. Errors: `Erased`; `Undecryptable`; those of `keys`."""
        keys = self.keys()
        if key_id in self._erased:
            raise erased(id)
        return keys.opening(self.topic.name, id, key_id)

    def open_rows(self, id: str, rows: list[EventRow]) -> list[EventRow]:
        """The events with their payloads in clear. Errors: as `opening`: nothing is returned in place of what cannot be opened."""
        for row in rows:  # a loop: a generator would cost a tenth of a short read
            payload = row.payload
            if payload is not None and payload.kind is PayloadKind.BINARY and is_sealed(payload):
                return [self.open_row(id, row) for row in rows]
        return rows

    def open_row(self, id: str, row: EventRow) -> EventRow:
        """One event with its payload in clear. Errors: as `open_rows`."""
        payload = row.payload
        if payload is None or not is_sealed(payload):
            return row
        envelope = read_envelope(payload.data)
        opened = self.opening(id, envelope.key_id).open(envelope, row.seq_nr)
        return EventRow(
            row.seq_nr, row.timestamp, row.partition, row.offset, row.origin, row.version, row.record_id, row.tags, row.metadata, opened,
            row.headers,
        )  # fmt: skip

    def open_kept(self, id: str, row: EventRow) -> EventRow | None:
        """As `open_row`; None for an event that was erased."""
        try:
            return self.open_row(id, row)
        except Erased:
            return None
