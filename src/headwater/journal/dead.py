"""Records that stop a partition because they cannot be decoded: found, shown, left out, and counted again.

A stopped partition keeps everything before the record, and nothing behind it. `quarantine` leaves the record out for good, by a decision
in the control topic that every fold follows. `retry` takes that back once the record can be read, as by a newer headwater: records behind
it are copied by then, so the partition's copy is made anew, from the beginning of the log.
"""

from __future__ import annotations

import msgspec

from headwater.core.errors import BadInput, NotFound, OffsetGone, UnknownPartition, UnreadableRecord
from headwater.journal.base import JournalBases
from headwater.journal.claims import has_claims
from headwater.journal.control import ControlLog, Quarantine, Replay
from headwater.journal.copies import fold_records, open_copy
from headwater.journal.discovery import JournalTopic
from headwater.journal.names import SNAPSHOTS
from headwater.journal.replication_task import gap
from headwater.journal.store import JournalStore
from headwater.log import Log
from headwater.log.record import Record

_CHUNK = 5000


class DeadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that cannot be decoded. `quarantined`: folds leave it out; otherwise its partition waits for a decision."""

    topic: str
    partition: int
    offset: int
    error: str
    quarantined: bool = False
    why: str = ""
    who: str = ""
    at: int = 0  # when it was quarantined, milliseconds

    @property
    def commands(self) -> tuple[str, ...]:
        """What to type next."""
        place, dead = f"{self.partition} {self.offset}", f"headwater journal dead {self.topic.removeprefix(SNAPSHOTS)}"
        if self.topic.startswith(SNAPSHOTS):
            place += " --snapshots"
        if self.quarantined:
            return (f"{dead} show {place}", f"{dead} retry {place}")
        return (f"{dead} show {place}", f"{dead} quarantine {place} --why TEXT")


class DeadDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A dead record with its bytes. `error`: empty where it can be decoded now."""

    topic: str
    partition: int
    offset: int
    error: str
    record: Record


def dead_records(log: Log, store: JournalStore, topic: JournalTopic) -> list[DeadRecord]:
    """The quarantined records of a topic, and for each stopped partition the one that stops it, by partition and offset.

    Without a replicator, what lies behind the pointers is read up to the first such record.
    """
    control = ControlLog(log, topic.journals)
    control.look()
    records = [
        DeadRecord(
            topic=topic.name,
            partition=decision.partition,
            offset=decision.offset,
            error=decision.error,
            quarantined=True,
            why=decision.why,
            who=decision.who,
            at=entry.timestamp,
        )
        for entry in control.audit()
        if isinstance(decision := entry.decision, Quarantine)
        and decision.generation == topic.generation
        and decision.offset in control.partition(topic.generation, decision.partition).quarantined
    ]
    unique = {(record.partition, record.offset): record for record in records}  # the newest decision about each
    for number in range(topic.partitions):
        stop = _stop(log, store, topic, number, control.partition(topic.generation, number).quarantined)
        if stop is not None:
            unique[number, stop.offset] = DeadRecord(topic=topic.name, partition=number, offset=stop.offset, error=stop.message)
    return [unique[place] for place in sorted(unique)]


def show_dead(log: Log, topic: JournalTopic, partition: int, offset: int) -> DeadDetail:
    """A record with the reason why it cannot be decoded. Errors: `NotFound` where there is none any more."""
    record = _record(log, topic, partition, offset)
    error = _unreadable(topic, partition, record)
    return DeadDetail(topic=topic.name, partition=partition, offset=offset, error=error.message if error else "", record=record)


def quarantine(log: Log, topic: JournalTopic, partition: int, offset: int, *, why: str, who: str = "", dry_run: bool = False) -> DeadRecord:
    """Leave an unreadable record out from now on. Done twice, it changes nothing.

    Errors: `BadInput` without a reason, and for a record that can be decoded; `NotFound` where there is no such record.
    """
    if not why.strip():
        raise BadInput("Leaving a record out needs a reason.", hint="Give it with --why TEXT; the audit keeps it.")
    record = _record(log, topic, partition, offset)
    error = _unreadable(topic, partition, record)
    if error is None:
        raise BadInput(
            f"The record at offset {offset} of {topic.name}/{partition} can be decoded; only unreadable records can be left out.",
            hint=f"List what stops the topic with `headwater journal dead {topic.name} list`.",
        )
    control = ControlLog(log, topic.journals)
    control.look()
    if not dry_run and offset not in control.partition(topic.generation, partition).quarantined:
        control.append(
            Quarantine(generation=topic.generation, partition=partition, offset=offset, error=error.message, why=why.strip(), who=who)
        )
    return DeadRecord(topic=topic.name, partition=partition, offset=offset, error=error.message, quarantined=True, why=why.strip(), who=who)


def retry(
    log: Log,
    topic: JournalTopic,
    partition: int,
    offset: int,
    *,
    why: str = "",
    who: str = "",
    dry_run: bool = False,
    bases: JournalBases | None = None,
) -> bool:
    """Count a record again; whether the partition's copy is made anew for it. False: it was never left out, and is read in its turn.

    Errors: `UnreadableRecord` where it still cannot be decoded; `LogGap` where the log no longer begins at 0, because the copy could not
    be made anew; `NotFound`. Then everything stays as it was.
    """
    error = _unreadable(topic, partition, _record(log, topic, partition, offset))
    if error is not None:
        raise error
    control = ControlLog(log, topic.journals)
    control.look()
    if offset not in control.partition(topic.generation, partition).quarantined:
        return False
    start = log.bounds(topic.name, partition).start
    if start > 0 and (bases is None or bases.usable(log, topic, partition).pointer >= offset):  # a base that has left it out, too
        raise gap(topic.name, partition, 0, start)
    if not dry_run:
        control.append(Replay(generation=topic.generation, partition=partition, offset=offset, why=why, who=who))
    return True


def _stop(log: Log, store: JournalStore, topic: JournalTopic, partition: int, skip: tuple[int, ...]) -> UnreadableRecord | None:
    """The first record behind the pointer that cannot be decoded."""
    copy = open_copy(store, topic, partition, create=False)
    pointer = copy.pointer() if copy is not None else None
    known = pointer is not None and pointer.generation in ("", topic.generation)
    bounds = log.bounds(topic.name, partition)
    at = max(pointer.offset + 1 if pointer is not None and known else 0, bounds.start)
    epoch = pointer.epoch if pointer is not None and known else 0
    claimed = topic.holds == "journals" and has_claims(log, topic.name)
    while at < bounds.end:
        try:
            records = log.read(topic.name, partition, at, limit=_CHUNK)
        except OffsetGone:  # deleted meanwhile, because it is copied
            at = log.bounds(topic.name, partition).start
            continue
        if not records:
            return None
        end = (records[-1].offset or 0) + 1
        folded = fold_records(topic, partition, at, end, records, epoch=epoch, skip=skip, claimed=claimed)
        if folded.poison is not None:
            return folded.poison
        at, epoch = end, folded.change.epoch
    return None


def _record(log: Log, topic: JournalTopic, partition: int, offset: int) -> Record:
    if not 0 <= partition < topic.partitions:
        raise UnknownPartition(f"{topic.name} has no partition {partition}.", hint=f"It has the partitions 0 to {topic.partitions - 1}.")
    bounds = log.bounds(topic.name, partition)
    record = log.read_at(topic.name, partition, [offset])[0] if bounds.start <= offset < bounds.end else None
    if record is None:
        raise NotFound(
            f"{topic.name}/{partition} has no record at offset {offset}.",
            hint=f"It holds the offsets {bounds.start} to {bounds.end - 1}: see `headwater journal dead {topic.name} list`.",
        )
    return record


def _unreadable(topic: JournalTopic, partition: int, record: Record) -> UnreadableRecord | None:
    at = record.offset or 0
    return fold_records(topic, partition, at, at + 1, [record]).poison
