"""The keys with which the writer of one partition encrypts, and its part in erasures.

An erasure has four steps, each durable before the next: the journal's keys are retired, the journal is purged, the erasure is written into
the control topic, the keys are destroyed. No new key is made for a journal that has retired keys before it is purged, and whoever finds
retired keys finishes their erasure first. So a key is destroyed only when everything that it sealed lies before a Purge. The Purge is
written under the partition's lock, also where nothing is seen to be purged: records that a crash has left come to light there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, TooLarge, Undecryptable, Unsupported
from headwater.journal.append_draft import AppendDraft, PlainDraft
from headwater.journal.cipher import USUAL
from headwater.journal.entity_keys import KEPT
from headwater.journal.envelope import OVERHEAD, EntityCipher
from headwater.journal.journal_log import JournalLog
from headwater.journal.sealed_record import sealed_ending, sealed_record
from headwater.journal.topic_cipher import LOOK, TopicCipher
from headwater.log.record import Header, Record

_MOST = 100_000  # keys that a writer keeps
_AGAIN = 10  # times that a key which is gone is looked for while others append
Last = Callable[[str], int]
"""The last number of a journal, as the writer knows it."""


class KeysMoved(Exception):
    """The key store is newer than what the writer knows of the log: another process has erased a journal. Catch up, and look again."""


class PartitionSealing:
    """Used by the thread of one partition's writer."""

    def __init__(
        self,
        cipher: TopicCipher,
        log: JournalLog,
        *,
        partition: int,
        mine: Callable[[str], bool],
        clock: Clock,
        by: tuple[str | None, str | None] = (None, None),
        max_record: int = 16 << 20,
    ) -> None:
        """`mine`: whether a journal is of this partition."""
        self._cipher, self._log, self._partition, self._mine, self._clock, self._by = cipher, log, partition, mine, clock, by
        self._ending, self._max_record = sealed_ending(*by), max_record
        self._keyed: dict[str, EntityCipher] = {}
        self._failed: dict[str, HeadwaterError] = {}
        self._since = self._cleared = 0.0
        self._ready = self._caught_up = False
        self._again = 0
        self._topic = cipher.topic.name

    def on(self) -> bool:
        """Whether the next batch is encrypted. Errors: those of `TopicCipher`; `Unsupported` for a topic that others write, too."""
        if self._cipher.name() is None:
            return False
        now = self._clock.monotonic()
        if self._ready and now - self._since <= LOOK:
            return True
        if not self._log.exact:
            raise Unsupported(
                f"Topic {self._topic} is encrypted, and others write it, too: they would append in clear.",
                hint="Append to a topic of headwater's own.",
            )
        self._cipher.keys()
        if now - self._cleared > KEPT or len(self._keyed) > _MOST:
            self.clear()
            self._cleared = now
        self._ready, self._since = True, now
        return True

    def clear(self) -> None:
        """Forget every key."""
        self._keyed.clear()

    def drop(self, id: str) -> None:
        """Forget the key of a journal, because it was purged: its next events may need another one."""
        self._keyed.pop(id, None)

    def prepare(self, ids: Iterable[str], last: Last, known: int) -> list[str]:
        """Find or make the keys of these journals, durable when this returns. Returns the journals whose erasure is to be finished first.

        At the first call these are all of this partition that a process has left half erased.
        """
        if self._failed:
            self._failed.clear()
        if self._caught_up and self._keyed.keys() >= (wanted := set(ids)):
            return []
        keys = self._cipher.keys()
        if not self._caught_up:
            self._cipher.catch_up()
            left = {key.id for key in keys.store.retired(self._topic) if self._mine(key.id)}
            self._caught_up = True
            if left:
                return sorted(left)
            wanted = set(ids)
        missing = [id for id in wanted if id not in self._keyed]
        stored_keys = keys.store.keys(self._topic, missing)
        unfinished: list[str] = []
        new: list[str] = []
        for id in missing:
            journal_keys = stored_keys.get(id, ())
            active = next((key for key in reversed(journal_keys) if key.state == "active"), None)
            try:
                if active is not None:
                    self._keyed[id] = keys.usable(self._topic, active)
                elif any(key.state == "retired" for key in journal_keys):
                    unfinished.append(id)
                else:
                    self._check_begin(id, last(id), known)
                    new.append(id)
            except HeadwaterError as error:
                self._failed[id] = error
        self._again = 0
        if new and not unfinished:
            self._keyed |= keys.create(self._topic, new, self._cipher.name() or USUAL)
        return unfinished

    def _check_begin(self, id: str, last: int, known: int) -> None:
        """Before a new key is made. Errors: `Undecryptable` where the journal's newest event was encrypted with a key that is gone."""
        if last and self._log.sealed_at(id, last, known):
            if self._again < _AGAIN and not self._log.alone and self._log.end() > known:
                self._again += 1
                raise KeysMoved
            raise Undecryptable(
                f"Journal {id!r:.60} in {self._topic} is encrypted, and its key is not in the key store. With another key, new events "
                "could not be read together with it.",
                hint="The key store is older than the log: bring back the newest backup of it. Or give the journal up: "
                "`headwater journal erase TOPIC ID --why TEXT`.",
            )

    def entity(self, id: str) -> EntityCipher:
        """The key of a journal that `prepare` has found. Errors: what `prepare` has met."""
        keyed = self._keyed.get(id)
        if keyed is None:
            raise self._failed[id]
        return keyed

    def record(self, draft: PlainDraft | AppendDraft, entity: EntityCipher, first: int, own: tuple[Header, ...]) -> Record:
        """The record of an Append. Errors: `TooLarge`, and those of `sealed_record`."""
        sealed = sealed_record(draft, entity, first, by=self._by, ending=self._ending, own=own)
        if draft.size + OVERHEAD * draft.count > self._max_record:  # sizes of drafts are estimates
            size = len(sealed.value or b"") + len(draft.key) + 200
            if size > self._max_record:
                raise TooLarge(f"An encrypted Append of {size} bytes is too large.", hint="Append less at once.")
        return sealed

    # -- erasures ---------------------------------------------------------------------------------------------

    def retire(self, id: str, *, there: bool, who: str, why: str) -> bool:
        """Step one. `there`: the journal has a last number. False: there is nothing to erase."""
        keys = self._cipher.keys()
        stored_keys = keys.store.keys(self._topic, [id]).get(id, [])
        if any(key.state == "active" for key in stored_keys):
            keys.store.retire(self._topic, id, who=who, why=why)
        elif there and not any(key.state == "retired" for key in stored_keys):
            keys.store.add(self._topic, [keys.placeholder(id, who=who, why=why)])
            keys.store.retire(self._topic, id, who=who, why=why)  # a key that another process has made meanwhile
        self.drop(id)
        return there or any(key.state != "destroyed" for key in stored_keys)

    def unfinished(self, id: str) -> bool:
        """Whether the journal that is there now is the one to be erased: it has retired keys, and no newer one."""
        states = {key.state for key in self._cipher.keys().store.keys(self._topic, [id]).get(id, ())}
        return "retired" in states and "active" not in states

    def finish(self, id: str, offset: int) -> int:
        """Steps three and four, once the journal is purged; how many keys are destroyed. `offset`: of the Purge, -1: none was needed."""
        keys = self._cipher.keys()
        retired = [key for key in keys.store.keys(self._topic, [id]).get(id, ()) if key.state == "retired"]
        self.drop(id)
        if retired:
            self._cipher.note_erasure(id, retired, partition=self._partition, offset=offset)
        return len(retired)
