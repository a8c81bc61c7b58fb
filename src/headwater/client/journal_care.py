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
from headwater.journal.forks import topic_forks
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.open_topic import OpenTopic
from headwater.journal.rebuild import RebuildProgress, RebuildRequest, check_rebuild, rebuild_progress, request_rebuild
from headwater.journal.replication_task import PartitionProblem
from headwater.journal.replicator import lock_path, status_file
from headwater.journal.requests import JournalsRequest
from headwater.journal.stats import PartitionStatistics, topic_statistics
from headwater.journal.status import ReplicatorStatus
from headwater.journal.store import JournalStore
from headwater.journal.store_address import store_address_of
from headwater.journal.verify import LARGE, TopicVerification, verify_topic, write_bases
from headwater.journal.write import ActionPlaced, ExpireDraft
from headwater.log import Log
from headwater.log.json_form import show_record
from headwater.wire.operation import Operation
from headwater.wire.problems import error_named
from headwater.wire.progress import report
from headwater.wire.times import show_time

T = TypeVar("T")
_FORKS = 1000
_LOOK = 0.2  # seconds between two looks at what the replicator does
_SETTLED = 5.0  # seconds without progress after which what stops a partition is an answer
_STALLED = 60.0  # the same where a replicator of another machine may have to start first
_DECISIONS = (REBUILD, DEAD_QUARANTINE, DEAD_DROP, DEAD_RETRY)  # records of the control topic, which name who has decided


class JournalCare:
    """One method for each operation of the same name. Its work runs in threads."""

    def __init__(self, topics: OpenTopics, *, clock: Clock, settings: Settings) -> None:
        self._topics, self._clock, self._settings = topics, clock, settings
        self.large = LARGE
        """Records of a topic from which on Spark compares it."""
        self.expired: Callable[[str, int], None] = lambda topic, count: None
        """Is told how many journals of a topic expired."""

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
            status = self.replicator(log)
            partitions = [_counted(statistics) for statistics in topic_statistics(log, store, topic, today=today, now=now)]
            engine = status.engine if status is not None and topic.name in status.topics else None
            return care.TopicStats(topic=topic.name, store=self._topics.store_engine, engine=engine, partitions=partitions)

        return await self._work(request, count)

    async def forks(self, request: JournalsRequest) -> care.ForkReport:
        def find(log: Log, store: JournalStore, topic: JournalTopic) -> care.ForkReport:
            forks = topic_forks(log, store, topic, limit=_FORKS + 1)
            shown = [
                care.ShownFork(id=fork.id, seq_nr=fork.seq_nr, partition=number, offsets=list(fork.offsets))
                for number, fork in forks[:_FORKS]
            ]
            return care.ForkReport(topic=topic.name, forks=shown, more=len(forks) > _FORKS)

        return await self._work(request, find)

    def replicator(self, log: Log) -> ReplicatorStatus | None:
        """What the replicator of the data directory says about itself; None: none has said anything."""
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
            outcome = await self._work(request, compare)
        except asyncio.CancelledError:
            cancel.set()  # the thread ends soon
            raise
        if isinstance(outcome, JournalTopic):
            from headwater.client.journal_verify import verify_elsewhere
            from headwater.journal.verify_process import VerifyOrder

            opened = await self._topics.find(request.topic)
            data = self._data(opened.log).absolute()
            settings = msgspec.structs.replace(self._settings, data=data)
            outcome = await verify_elsewhere(VerifyOrder(settings=settings, data=data, topic=outcome.name, large=self.large))
        outcome.check()
        return care.VerifiedCopy(
            topic=outcome.topic,
            engine=outcome.engine,
            partitions=len(outcome.partitions),
            records=sum(partition.pointer + 1 for partition in outcome.partitions),
            journals=sum(partition.journals for partition in outcome.partitions),
            events=sum(partition.rows for partition in outcome.partitions),
            snapshots=sum(partition.snapshots for partition in outcome.partitions),
            waiting=sum(partition.waiting for partition in outcome.partitions),
        )

    async def base(self, request: care.WriteBase) -> care.WrittenBase:
        cancel = threading.Event()

        def write(log: Log, store: JournalStore, topic: JournalTopic) -> care.WrittenBase:
            address = store_address_of(self._settings, self._data(log))
            bases = self._bases(log)
            pairs = write_bases(log, store, topic, address=address, bases=bases, stopped=cancel.is_set, dry_run=request.dry_run)
            shown = [
                care.ShownBase(
                    partition=base.partition,
                    pointer=base.pointer,
                    journals=base.journals,
                    events=base.rows,
                    snapshots=base.snapshots,
                    bytes=0 if note is None else note.size,
                )
                for base, note in pairs
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
        def check(log: Log, store: JournalStore, topic: JournalTopic) -> care.RebuiltCopy:
            records = sum(sum(ends.values()) for _, ends in check_rebuild(log, topic, bases=self._bases(log)))
            return care.RebuiltCopy(topic=topic.name, partitions=topic.partitions, records=records, dry_run=True)

        def decide(log: Log, store: JournalStore, topic: JournalTopic) -> RebuildRequest:
            return request_rebuild(log, topic, why=request.why, who=who, bases=self._bases(log))

        if request.dry_run:
            return await self._work(request, check)
        rebuild_request = await self._work(request, decide)
        finished = await self._rebuilt(request, rebuild_request)
        return care.RebuiltCopy(
            topic=rebuild_request.topic.name,
            partitions=rebuild_request.topic.partitions,
            records=rebuild_request.records,
            finished=finished,
        )

    async def _rebuilt(self, request: care.RebuildCopy, rebuild_request: RebuildRequest) -> bool:
        """Report how far the replicator is until it is done; False where none runs. Errors: what stops a partition of the topic."""
        since, last = self._clock.monotonic(), None

        def look(log: Log, store: JournalStore, topic: JournalTopic) -> tuple[RebuildProgress, bool, PartitionProblem | None]:
            data = self._data(log)
            has_holder = LocalReplicatorLock(lock_path(data)).holder() is not None
            status = status_file(data).read() if has_holder else None
            problems = [partition.problem for partition in status.partitions if partition.topic == topic.name] if status is not None else []
            return (
                rebuild_progress(store, rebuild_request),
                has_holder,
                next((failure for failure in problems if failure is not None), None),
            )

        while True:
            progress, is_local, problem = await self._work(request, look)
            report(progress.done, progress.total)
            if progress.finished:
                return True
            now = self._clock.monotonic()
            if progress != last:
                since, last = now, progress
            elsewhere = self._topics.store_engine == "cassandra"  # whose replicator may be another machine's
            if not is_local and (not elsewhere or now - since > _STALLED):
                return False
            if problem is not None and now - since > _SETTLED:
                raise error_named(problem.code)(problem.message, hint=problem.hint)
            await self._clock.sleep(_LOOK)

    async def expire(self, request: care.ExpireJournals, done: set[int] | None = None) -> care.ExpiredJournals:
        """`done`: as of `expire_journals`."""
        today = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date()

        opened, loop = await self._topics.find(request.topic), asyncio.get_running_loop()

        def purge_owned(partition: int, since: int, ids: Sequence[str]) -> Sequence[str]:
            return asyncio.run_coroutine_threadsafe(_expired(opened, ids, today), loop).result()

        def purge(log: Log, store: JournalStore, topic: JournalTopic) -> care.ExpiredJournals:
            owned = purge_owned if has_claims(log, topic.name) else None
            journals = expire_journals(log, store, topic, today=today, dry_run=request.dry_run, purge=owned, done=done)
            self.expired(topic.name, sum(journal.purged for journal in journals))
            shown = [
                care.ShownExpired(id=journal.id, expire_on=journal.expire_on, seq_nr=journal.seq_nr, purged=journal.purged)
                for journal in journals
            ]
            return care.ExpiredJournals(topic=topic.name, journals=shown, dry_run=request.dry_run)

        return await self._work(request, purge)

    async def dead(self, request: JournalsRequest) -> Sequence[care.ShownDead]:
        def find(log: Log, store: JournalStore, topic: JournalTopic) -> Sequence[care.ShownDead]:
            return [_shown(dead) for journal_topic in with_snapshots(log, topic) for dead in dead_records(log, store, journal_topic)]

        return await self._work(request, find)

    async def dead_show(self, request: care.DeadPlace) -> care.DeadContent:
        def show(log: Log, store: JournalStore, topic: JournalTopic) -> care.DeadContent:
            topic = _meant(log, topic, request)
            dead = show_dead(log, topic, request.partition, request.offset)
            record = show_record(dead.record, "text")
            return care.DeadContent(topic=topic.name, partition=dead.partition, offset=dead.offset, error=dead.error, record=record)

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


def _counted(statistics: PartitionStatistics) -> care.ShownPartitionStats:
    lag, totals = statistics.lag, statistics.totals
    return care.ShownPartitionStats(
        partition=lag.partition,
        records=lag.end - lag.start,
        log_bytes=statistics.log_bytes,
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
    snapshots = snapshots_of(log, topic)
    if snapshots is None:
        raise NotFound(f"{topic.name} has no snapshots.", hint="Save one with `headwater journal snapshot save`.")
    return snapshots


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
