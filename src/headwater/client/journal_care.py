"""Performs the operations on the copies of journals in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headwater.client.journal_topics import OpenTopics
from headwater.core.clock import Clock
from headwater.core.errors import NotFound
from headwater.core.settings import Settings
from headwater.journal import care_requests as care
from headwater.journal.base import FOLDER as BASES
from headwater.journal.base import JournalBases
from headwater.journal.care_operations import DEAD_DROP, DEAD_QUARANTINE, DEAD_RETRY, REBUILD
from headwater.journal.claims import has_claims
from headwater.journal.dead import DeadRecord, dead_records, quarantine, retry, show_dead
from headwater.journal.discovery import JournalTopic, snapshots_of, with_snapshots
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.expiry import expire_journals
from headwater.journal.open_topic import OpenTopic
from headwater.journal.rebuild import check_rebuild, request_rebuild
from headwater.journal.requests import JournalsRequest
from headwater.journal.stats import PartitionStatistics, topic_forks, topic_statistics
from headwater.journal.status import ReplicatorStatus
from headwater.journal.store import JournalStore
from headwater.journal.store_address import store_address_of
from headwater.journal.verify import LARGE, TopicVerification, verify_topic, write_bases
from headwater.journal.write import ActionPlaced, ExpireDraft
from headwater.log import Log
from headwater.log.json_form import show_record
from headwater.wire.operation import Operation
from headwater.wire.times import show_time

T = TypeVar("T")
_FORKS = 1000
_DECISIONS = (REBUILD, DEAD_QUARANTINE, DEAD_DROP, DEAD_RETRY)  # records of the control topic, which name who has decided


class JournalCare:
    """One method for each operation of the same name. Its work runs in threads."""

    def __init__(self, topics: OpenTopics, *, clock: Clock, settings: Settings) -> None:
        self._topics, self._clock, self._settings = topics, clock, settings
        self.large = LARGE
        """Records of a topic from which on Spark compares it."""

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str) -> Any:
        """Perform one of them. `who`: the caller, whom the audit of decisions names."""
        call = getattr(self, operation.name)
        return await (call(request, who) if operation in _DECISIONS else call(request))

    async def _work(self, request: JournalsRequest, call: Callable[[Log, JournalStore, JournalTopic], T]) -> T:
        opened = await self._topics.find(request.topic)
        topic = JournalTopic(opened.topic.name, opened.topic.partitions, opened.topic.generation)
        return await asyncio.to_thread(lambda: call(opened.log, self._topics.store(opened.log), topic))

    async def stats(self, request: JournalsRequest) -> care.TopicStats:
        now = self._clock.now_ms()
        today = datetime.fromtimestamp(now / 1000, UTC).date()

        def count(log: Log, store: JournalStore, topic: JournalTopic) -> care.TopicStats:
            said = self.replicator(log)
            partitions = [_counted(one) for one in topic_statistics(log, store, topic, today=today, now=now)]
            engine = said.engine if said is not None and topic.name in said.topics else None
            return care.TopicStats(topic=topic.name, store=self._topics.store_engine, engine=engine, partitions=partitions)

        return await self._work(request, count)

    async def forks(self, request: JournalsRequest) -> care.ForkReport:
        def find(log: Log, store: JournalStore, topic: JournalTopic) -> care.ForkReport:
            found = topic_forks(store, topic, limit=_FORKS + 1)
            shown = [
                care.ShownFork(id=fork.id, seq_nr=fork.seq_nr, partition=number, offsets=list(fork.offsets))
                for number, fork in found[:_FORKS]
            ]
            return care.ForkReport(topic=topic.name, forks=shown, more=len(found) > _FORKS)

        return await self._work(request, find)

    def replicator(self, log: Log) -> ReplicatorStatus | None:
        """What the replicator of the data directory says about itself; None: none has said anything."""
        from headwater.journal.replicator import status_file

        return status_file(self._data(log)).read()

    def _data(self, log: Log) -> Path:
        return Path(log.address.path or self._settings.data)

    async def verify(self, request: JournalsRequest) -> care.VerifiedCopy:
        cancel = threading.Event()

        def compare(log: Log, store: JournalStore, topic: JournalTopic) -> TopicVerification | JournalTopic:
            total = sum(log.bounds(topic.name, number).end for number in range(topic.partitions))
            if total >= self.large and self._settings.spark.start != "never":
                return topic
            address = store_address_of(self._settings, self._data(log))
            return verify_topic(log, store, topic, address=address, cancel=cancel, bases=self._bases(log))

        try:
            found = await self._work(request, compare)
        except asyncio.CancelledError:
            cancel.set()  # the thread ends soon
            raise
        if isinstance(found, JournalTopic):
            from headwater.client.journal_verify import verify_elsewhere
            from headwater.journal.verify_process import VerifyOrder

            opened = await self._topics.find(request.topic)
            data = self._data(opened.log).absolute()
            settings = msgspec.structs.replace(self._settings, data=data)
            found = await verify_elsewhere(VerifyOrder(settings=settings, data=data, topic=found.name, large=self.large))
        found.check()
        return care.VerifiedCopy(
            topic=found.topic,
            engine=found.engine,
            partitions=len(found.partitions),
            records=sum(one.pointer + 1 for one in found.partitions),
            journals=sum(one.journals for one in found.partitions),
            events=sum(one.rows for one in found.partitions),
            snapshots=sum(one.snapshots for one in found.partitions),
            waiting=sum(one.waiting for one in found.partitions),
        )

    async def base(self, request: care.WriteBase) -> care.WrittenBase:
        cancel = threading.Event()

        def write(log: Log, store: JournalStore, topic: JournalTopic) -> care.WrittenBase:
            address = store_address_of(self._settings, self._data(log))
            bases = self._bases(log)
            found = write_bases(log, store, topic, address=address, bases=bases, stopped=cancel.is_set, dry_run=request.dry_run)
            shown = [
                care.ShownBase(
                    partition=one.partition,
                    pointer=one.pointer,
                    journals=one.journals,
                    events=one.rows,
                    snapshots=one.snapshots,
                    bytes=0 if note is None else note.size,
                )
                for one, note in found
            ]
            return care.WrittenBase(topic=topic.name, partitions=shown, dry_run=request.dry_run)

        try:
            return await self._work(request, write)
        except asyncio.CancelledError:
            cancel.set()  # the thread ends soon
            raise

    def _bases(self, log: Log) -> JournalBases:
        return JournalBases(self._data(log) / BASES, clock=self._clock)

    async def rebuild(self, request: care.RebuildCopy, who: str = "") -> care.RebuiltCopy:
        def decide(log: Log, store: JournalStore, topic: JournalTopic) -> care.RebuiltCopy:
            bases = self._bases(log)
            if request.dry_run:
                records = sum(sum(ends.values()) for _, ends in check_rebuild(log, topic, bases=bases))
            else:
                records = request_rebuild(log, topic, why=request.why, who=who, bases=bases).records
            return care.RebuiltCopy(topic=topic.name, partitions=topic.partitions, records=records, dry_run=request.dry_run)

        return await self._work(request, decide)

    async def expire(self, request: care.ExpireJournals, done: set[int] | None = None) -> care.ExpiredJournals:
        """`done`: as of `expire_journals`."""
        today = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date()

        opened, loop = await self._topics.find(request.topic), asyncio.get_running_loop()

        def purge_owned(partition: int, since: int, ids: Sequence[str]) -> Sequence[str]:
            return asyncio.run_coroutine_threadsafe(_expired(opened, ids, today), loop).result()

        def purge(log: Log, store: JournalStore, topic: JournalTopic) -> care.ExpiredJournals:
            owned = purge_owned if has_claims(log, topic.name) else None
            found = expire_journals(log, store, topic, today=today, dry_run=request.dry_run, purge=owned, done=done)
            shown = [care.ShownExpired(id=one.id, expire_on=one.expire_on, seq_nr=one.seq_nr, purged=one.purged) for one in found]
            return care.ExpiredJournals(topic=topic.name, journals=shown, dry_run=request.dry_run)

        return await self._work(request, purge)

    async def dead(self, request: JournalsRequest) -> Sequence[care.ShownDead]:
        def find(log: Log, store: JournalStore, topic: JournalTopic) -> Sequence[care.ShownDead]:
            return [_shown(dead) for one in with_snapshots(log, topic) for dead in dead_records(log, store, one)]

        return await self._work(request, find)

    async def dead_show(self, request: care.DeadPlace) -> care.DeadContent:
        def show(log: Log, store: JournalStore, topic: JournalTopic) -> care.DeadContent:
            topic = _meant(log, topic, request)
            found = show_dead(log, topic, request.partition, request.offset)
            record = show_record(found.record, "text")
            return care.DeadContent(topic=topic.name, partition=found.partition, offset=found.offset, error=found.error, record=record)

        return await self._work(request, show)

    async def dead_quarantine(self, request: care.QuarantineRecord, who: str = "") -> care.ShownDead:
        def leave_out(log: Log, store: JournalStore, topic: JournalTopic) -> care.ShownDead:
            topic = _meant(log, topic, request)
            left = quarantine(log, topic, request.partition, request.offset, why=request.why, who=who, dry_run=request.dry_run)
            return _shown(left)

        return await self._work(request, leave_out)

    async def dead_drop(self, request: care.DropRecord, who: str = "") -> care.ShownDead:
        return await self.dead_quarantine(request, who)

    async def dead_retry(self, request: care.RetryRecord, who: str = "") -> care.RetriedRecord:
        def count(log: Log, store: JournalStore, topic: JournalTopic) -> care.RetriedRecord:
            topic = _meant(log, topic, request)
            rebuilds = retry(
                log, topic, request.partition, request.offset, why=request.why, who=who, dry_run=request.dry_run, bases=self._bases(log)
            )
            return care.RetriedRecord(
                topic=topic.name, partition=request.partition, offset=request.offset, rebuilds=rebuilds, dry_run=request.dry_run
            )

        return await self._work(request, count)


def _counted(one: PartitionStatistics) -> care.ShownPartitionStats:
    lag, totals = one.lag, one.totals
    return care.ShownPartitionStats(
        partition=lag.partition,
        records=lag.end - lag.start,
        log_bytes=one.log_bytes,
        journals=totals.journals,
        events=totals.events,
        payload_bytes=totals.payload_bytes,
        forks=totals.forks,
        gaps=totals.gaps,
        deleted=min(totals.deleted, MAX_SEQ_NR),  # a journal may be deleted up to the highest number that there is
        expired=totals.expired,
        lag=lag.records,
        lag_seconds=lag.seconds,
    )


def _meant(log: Log, topic: JournalTopic, request: care.DeadPlace) -> JournalTopic:
    """The topic of journals, or that of its snapshots. Errors: `NotFound` where it has none."""
    if not request.snapshots:
        return topic
    found = snapshots_of(log, topic)
    if found is None:
        raise NotFound(f"{topic.name} has no snapshots.", hint="Save one with `headwater journal snapshot save`.")
    return found


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


async def _expired(opened: OpenTopic, ids: Sequence[str], today: date) -> list[str]:
    """Let the owner of a topic purge those of these journals that have expired; return them. Errors: `NotOwner`; those of the log."""
    outcomes = await asyncio.gather(*(opened.writer(id).write(ExpireDraft(id, today)) for id in ids), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [id for id, outcome in zip(ids, outcomes, strict=True) if isinstance(outcome, ActionPlaced)]
