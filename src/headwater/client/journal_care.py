"""Performs the operations on the copies of journals in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from headwater.client.journal_topics import OpenTopics
from headwater.core.clock import Clock
from headwater.core.settings import Settings
from headwater.journal import care_requests as care
from headwater.journal.care_operations import DEAD_QUARANTINE, DEAD_RETRY, REBUILD
from headwater.journal.dead import DeadRecord, dead_records, quarantine, retry, show_dead
from headwater.journal.discovery import JournalTopic
from headwater.journal.expiry import expire_journals
from headwater.journal.rebuild import check_rebuild, request_rebuild
from headwater.journal.requests import JournalsRequest
from headwater.journal.store import JournalStore
from headwater.journal.store_address import store_address_of
from headwater.journal.verify import verify_topic
from headwater.log import Log
from headwater.log.json_form import show_record
from headwater.wire.operation import Operation
from headwater.wire.times import show_time

T = TypeVar("T")
_DECISIONS = (REBUILD, DEAD_QUARANTINE, DEAD_RETRY)  # records of the control topic, which name who has decided


class JournalCare:
    """One method for each operation of the same name. Its work runs in threads."""

    def __init__(self, topics: OpenTopics, *, clock: Clock, settings: Settings) -> None:
        self._topics, self._clock, self._settings = topics, clock, settings

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str) -> Any:
        """Perform one of them. `who`: the caller, whom the audit of decisions names."""
        call = getattr(self, operation.name)
        return await (call(request, who) if operation in _DECISIONS else call(request))

    async def _work(self, request: JournalsRequest, call: Callable[[Log, JournalStore, JournalTopic], T]) -> T:
        opened = await self._topics.find(request.topic)
        topic = JournalTopic(opened.topic.name, opened.topic.partitions, opened.topic.generation)
        return await asyncio.to_thread(lambda: call(opened.log, self._topics.store(opened.log), topic))

    async def verify(self, request: JournalsRequest) -> care.VerifiedCopy:
        cancel = threading.Event()

        def compare(log: Log, store: JournalStore, topic: JournalTopic) -> care.VerifiedCopy:
            address = store_address_of(self._settings, Path(log.address.path or self._settings.data))
            found = verify_topic(log, store, topic, address=address, cancel=cancel)
            found.check()
            return care.VerifiedCopy(
                topic=topic.name,
                engine=found.engine,
                partitions=len(found.partitions),
                records=sum(one.pointer + 1 for one in found.partitions),
                journals=sum(one.journals for one in found.partitions),
                events=sum(one.rows for one in found.partitions),
            )

        try:
            return await self._work(request, compare)
        except asyncio.CancelledError:
            cancel.set()  # the thread ends soon
            raise

    async def rebuild(self, request: care.RebuildCopy, who: str = "") -> care.RebuiltCopy:
        def decide(log: Log, store: JournalStore, topic: JournalTopic) -> care.RebuiltCopy:
            ends = check_rebuild(log, topic) if request.dry_run else request_rebuild(log, topic, why=request.why, who=who).ends
            return care.RebuiltCopy(topic=topic.name, partitions=len(ends), records=sum(ends.values()), dry_run=request.dry_run)

        return await self._work(request, decide)

    async def expire(self, request: care.ExpireJournals) -> care.ExpiredJournals:
        today = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date()

        def purge(log: Log, store: JournalStore, topic: JournalTopic) -> care.ExpiredJournals:
            found = expire_journals(log, store, topic, today=today, dry_run=request.dry_run)
            shown = [care.ShownExpired(id=one.id, expire_on=one.expire_on, seq_nr=one.seq_nr, purged=one.purged) for one in found]
            return care.ExpiredJournals(topic=topic.name, journals=shown, dry_run=request.dry_run)

        return await self._work(request, purge)

    async def dead(self, request: JournalsRequest) -> Sequence[care.ShownDead]:
        return await self._work(request, lambda log, store, topic: [_shown(one) for one in dead_records(log, store, topic)])

    async def dead_show(self, request: care.DeadPlace) -> care.DeadContent:
        def show(log: Log, store: JournalStore, topic: JournalTopic) -> care.DeadContent:
            found = show_dead(log, topic, request.partition, request.offset)
            record = show_record(found.record, "text")
            return care.DeadContent(topic=topic.name, partition=found.partition, offset=found.offset, error=found.error, record=record)

        return await self._work(request, show)

    async def dead_quarantine(self, request: care.QuarantineRecord, who: str = "") -> care.ShownDead:
        def leave_out(log: Log, store: JournalStore, topic: JournalTopic) -> care.ShownDead:
            left = quarantine(log, topic, request.partition, request.offset, why=request.why, who=who, dry_run=request.dry_run)
            return _shown(left)

        return await self._work(request, leave_out)

    async def dead_retry(self, request: care.RetryRecord, who: str = "") -> care.RetriedRecord:
        def count(log: Log, store: JournalStore, topic: JournalTopic) -> care.RetriedRecord:
            rebuilds = retry(log, topic, request.partition, request.offset, why=request.why, who=who, dry_run=request.dry_run)
            return care.RetriedRecord(
                topic=topic.name, partition=request.partition, offset=request.offset, rebuilds=rebuilds, dry_run=request.dry_run
            )

        return await self._work(request, count)


def _shown(dead: DeadRecord) -> care.ShownDead:
    return care.ShownDead(
        topic=dead.topic,
        partition=dead.partition,
        offset=dead.offset,
        error=dead.error,
        quarantined=dead.quarantined,
        why=dead.why,
        who=dead.who,
        at=show_time(dead.at) if dead.at else None,
    )
