"""Encryption in the control topic: that a topic is encrypted, and which journals were erased. The audit of both.

cipher    payloads of the topic are encrypted from then on. `store`: the key store that holds its keys
erasure   a journal was purged, and these of its keys are destroyed. A key store that is restored from a backup destroys them again
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.core.errors import UnknownTopic
from headwater.journal.control import PART, ControlRead, make_control_topic
from headwater.journal.names import control_topic
from headwater.log import Log
from headwater.log.record import Record


class CipherOn(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cipher"):
    """Encrypt the payloads of a topic. `generation`: of the topic as it was; one that is created anew under the name is encrypted, too."""

    generation: str
    partition: int = 0
    cipher: str
    store: str
    who: str = ""
    why: str = ""


class Erasure(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="erasure"):
    """A journal was erased. `offset`: of its Purge; -1: there was none. `keys`: the ids of its destroyed keys, in hex."""

    generation: str
    partition: int
    id: str
    offset: int = -1
    keys: tuple[str, ...] = ()
    who: str = ""
    why: str = ""

    def key_ids(self) -> list[bytes]:
        """The keys. What is no id of a key is left out: others may have written it."""
        return [bytes.fromhex(key) for key in self.keys if len(key) == 32 and all(digit in "0123456789abcdef" for digit in key)]


_decision = msgspec.json.Decoder(CipherOn | Erasure)


class CipherControl:
    """What the control topic says about encryption, read on at every look. Not safe for several threads."""

    def __init__(self, log: Log, topic: str) -> None:
        self.log, self.topic, self.name = log, topic, control_topic(topic)
        self.generation = ""
        self.end = 0
        """How far it is read."""
        self.on: CipherOn | None = None
        """The newest decision to encrypt."""

    def look(self) -> list[tuple[int, Erasure]]:
        """Read on; the erasures that were not read before, with their offsets. A control topic that was created anew, or restored from a
        backup and so has become shorter, is read from its beginning."""
        try:
            generation = self.log.topic(self.name).generation
        except UnknownTopic:
            self.generation, self.end, self.on = "", 0, None
            return []
        if generation != self.generation:
            self.generation, self.end, self.on = generation, 0, None
        return [(offset, decision) for offset, decision in self._read() if isinstance(decision, Erasure)]

    def _read(self) -> Iterator[tuple[int, CipherOn | Erasure]]:
        bounds = self.log.bounds(self.name, 0)
        read = ControlRead(self.log, self.name, self.end if self.end <= bounds.end else 0, projections=False)
        for record in read:
            self.end = read.end
            try:
                decision = _decision.decode(record.value or b"")
            except msgspec.MsgspecError:
                continue  # of another kind
            if isinstance(decision, CipherOn):
                self.on = decision
            yield record.offset or 0, decision
        self.end = read.end

    def append(self, decision: CipherOn | Erasure) -> int:
        """Write a decision down; return its offset once it is durable. Makes the topic where it is missing."""
        record = Record(key=str(decision.partition).encode(), value=msgspec.json.encode(decision))
        try:
            return self.log.append(self.name, 0, [record], part=PART)[0]
        except UnknownTopic:
            make_control_topic(self.log, self.topic)
            return self.log.append(self.name, 0, [record], part=PART)[0]
