"""The replicator's work by the clock: deleting what the log need not keep, every hour, and purging journals that expire, once a day."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.units import Duration
from headwater.journal.claims import has_claims
from headwater.journal.discovery import Discovery, JournalTopic
from headwater.journal.expiry import expire_journals
from headwater.journal.idempotency import KEPT
from headwater.journal.keep import delete_copied
from headwater.journal.store import JournalStore
from headwater.log import Log

EVERY = 3600.0
"""Seconds between two turns. The first is taken a minute after the start, so that a restart in a row of many costs little."""
_FIRST = 60.0


class Chores:
    """Runs in a thread of its own, so that scanning heads keeps no record waiting. `active`: whether this process replicates."""

    def __init__(
        self,
        log: Log,
        store: JournalStore,
        discovery: Discovery,
        *,
        keep: Duration,
        clock: Clock,
        active: Callable[[], bool] = lambda: True,
        expired: Callable[[str, int, float], None] = lambda topic, count, seconds: None,
    ) -> None:
        """`expired`: is told of each look for expired journals the topic, how many it purged, and the time that it took."""
        self._log, self._store, self._discovery = log, store, discovery
        self._keep, self._clock, self._active, self._expired = keep, clock, active, expired

    @contextmanager
    def running(self, stopping: threading.Event) -> Iterator[None]:
        """Take turns until the block ends, or `stopping` is set. The end of the block sets it."""
        thread = threading.Thread(target=self._run, args=(stopping,), name="journal chores", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()

    def turn(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Do what is due. A topic that fails is named in the log messages, and tried again with the next turn."""
        now = self._clock.now_ms()
        today = datetime.fromtimestamp(now / 1000, UTC).date()
        self._discovery.look()
        for topic in list(self._discovery.topics.values()):
            if stopped() or not self._active():
                return
            try:
                if self._keep:
                    # A day of journals stays: a writer finds the idempotency keys of Appends in their records.
                    keep = max(int(self._keep), KEPT if topic.holds == "journals" else 0)
                    delete_copied(self._log, self._store, topic, keep=keep, now=now)
                if topic.holds == "journals":
                    self._expire(topic, today)
            except HeadwaterError as error:
                logging.getLogger("headwater.journal").warning("%s: %s %s", topic.name, error.message, error.hint)

    def _expire(self, topic: JournalTopic, today: date) -> None:
        key = expired_setting(topic.name)
        done = f"{topic.generation}/{today.isoformat()}"
        if has_claims(self._log, topic.name):
            return  # its owners alone may purge: servers do so, each once a day
        if self._store.setting(key) != done:
            began = self._clock.monotonic()
            expired = expire_journals(self._log, self._store, topic, today=today)
            self._expired(topic.name, sum(journal.purged for journal in expired), self._clock.monotonic() - began)
            self._store.set_setting(key, done)  # a death before this looks once more: what is purged is gone by then

    def _run(self, stopping: threading.Event) -> None:
        pause = _FIRST
        while not self._clock.wait(stopping, pause):
            pause = _FIRST
            if self._active():
                pause = EVERY
                try:
                    self.turn(stopping.is_set)
                except HeadwaterError as error:
                    logging.getLogger("headwater.journal").warning("%s %s", error.message, error.hint)


def expired_setting(topic: str) -> str:
    """The setting of a store that names the day on which a topic's journals were last looked through."""
    return f"headwater/expired/{topic}"
