"""What tests of encryption share: a topic that is encrypted, its keys, and processes that open it."""

from __future__ import annotations

from pathlib import Path

from headwater.journal.append_draft import draft
from headwater.journal.change import EventRow
from headwater.journal.cipher_control import CipherControl, Erasure
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.master_keys import MasterKeys
from headwater.journal.open_topic import OpenTopic
from headwater.journal.read import JournalRead
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_keys import SqliteKeyStore
from headwater.journal.topics import PART, JournalTopics
from headwater.journal.write import Appended, EraseDraft, Outcome
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock

TOPIC = "journal-bank"
MASTER = b"m" * 32


class CipherGround:
    """A data directory with an encrypted topic of one partition."""

    def __init__(self, folder: Path, *, on: bool = True) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.log: Log = EmbeddedLog(folder / "data", clock=self.clock)
        self.store = SqliteJournalStore(folder / "data" / "store", clock=self.clock)
        self.topic, _ = JournalTopics(self.log, JournalSettings()).create("bank", 1)
        self.masters = MasterKeys({"first": MASTER})
        self._opened: list[OpenTopic] = []
        self._keys: list[EntityKeys] = []
        if on:
            self.process().cipher.turn_on()

    @property
    def key_file(self) -> Path:
        return self.folder / "data" / "keys" / "journal.db"

    def keys(self) -> EntityKeys:
        """The keys as another process opens them."""
        keys = EntityKeys(SqliteKeyStore(self.key_file, clock=self.clock), self.masters, clock=self.clock)
        self._keys.append(keys)
        return keys

    def process(self, *, keys: EntityKeys | None = None, configured: bool = True, log: Log | None = None) -> OpenTopic:
        """The topic as another process opens it."""
        found = keys or self.keys()
        opened = OpenTopic(
            log or self.log,
            lambda: self.store,
            self.topic,
            writers="owner",
            settings=JournalSettings(),
            clock=self.clock,
            keys=lambda: found if configured else None,
        )
        self._opened.append(opened)
        return opened

    def control(self) -> CipherControl:
        found = CipherControl(self.log, TOPIC)
        found.look()
        return found

    def erasures(self) -> list[Erasure]:
        return [erasure for _, erasure in CipherControl(self.log, TOPIC).look()]

    async def aclose(self) -> None:
        for opened in self._opened:
            await opened.aclose()
        for keys in self._keys:
            keys.close()
        self.store.close()
        self.log.close()


async def append(opened: OpenTopic, id: str, *payloads: object) -> Appended:
    outcome = await opened.writer(id).write(draft(id, payloads))
    assert isinstance(outcome, Appended)
    return outcome


async def erase(opened: OpenTopic, id: str) -> Outcome:
    return await opened.writer(id).write(EraseDraft(id, "me", "asked"))


def rows(opened: OpenTopic, id: str, *, raw: bool = False) -> list[EventRow]:
    partition = opened.partition(id)
    return JournalRead(partition, id, end=partition.end(), opens=None if raw else opened.cipher.open_rows).page()


def values(opened: OpenTopic, id: str) -> list[object]:
    return [None if row.payload is None else row.payload.value() for row in rows(opened, id)]


__all__ = ["MASTER", "PART", "TOPIC", "CipherGround", "append", "erase", "rows", "values"]
