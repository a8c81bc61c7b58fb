"""What operators ask of the copies of journals: the requests, and their answers."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadInput
from headwater.journal.requests import JournalsRequest
from headwater.wire.operation import DryRun, Reason, described, placed

Count = Annotated[int, msgspec.Meta(ge=0)]


class ExpireJournals(JournalsRequest, frozen=True, kw_only=True):
    """A topic."""

    dry_run: DryRun = False


class RebuildCopy(JournalsRequest, frozen=True, kw_only=True):
    """A topic, and why."""

    why: Annotated[str, described("The reason, which the audit keeps.")] = ""
    dry_run: DryRun = False


class DeadPlace(JournalsRequest, frozen=True, kw_only=True):
    """A record by its place."""

    partition: Annotated[int, described("The partition.", least=0)]
    offset: Annotated[int, described("The offset of the record.", least=0)]
    snapshots: Annotated[bool, placed("query", "true: a record of the topic of snapshots.")] = False

    def check(self) -> None:
        super().check()
        for name in ("partition", "offset"):
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise BadInput(f"{number!r:.40} is no {name}.", hint="Give 0 or more.")


class QuarantineRecord(DeadPlace, frozen=True, kw_only=True):
    """A record, and why it is left out."""

    why: Reason
    dry_run: DryRun = False


class DropRecord(QuarantineRecord, frozen=True, kw_only=True):
    """As `QuarantineRecord`."""


class RetryRecord(DeadPlace, frozen=True, kw_only=True):
    """A record, and why it counts again."""

    why: Annotated[str, described("The reason, which the audit keeps.")] = ""
    dry_run: DryRun = False


class VerifiedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a topic is what its log says. `records`: how many were folded; 0: nothing is copied. `waiting`: those of the log
    that are not copied. `engine`: where they were folded, `here` or on `spark`."""

    topic: str
    engine: str
    partitions: Count
    records: Count
    journals: Count
    events: Count
    snapshots: Count = 0
    waiting: Count = 0


class RebuiltCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a topic is made anew by the replicator. `records`: how many it copies for that."""

    topic: str
    partitions: Count
    records: Count
    dry_run: bool = False


class ShownPartitionStats(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of journals, counted. `records`, `log_bytes`: what the log keeps of it; no bytes on Kafka.

    The rest is of its copy: `journals`, `events`, `payload_bytes`; `forks`, events of a number that an earlier event has; `gaps`, places at
    which numbers are left out; `deleted`, numbers that Deletes have removed; `expired`, journals whose day has come; `lag` and
    `lag_seconds`, the records that it lacks and the age of the oldest one.
    """

    partition: Count
    records: Count
    log_bytes: Count | None
    journals: Count
    events: Count
    payload_bytes: Count
    forks: Count
    gaps: Count
    deleted: Count
    expired: Count
    lag: Count
    lag_seconds: float


class TopicStats(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of journals, counted. `engine`: where the replicator's last round ran, `here` or on `spark`; null where none is known."""

    topic: str
    store: str
    engine: str | None
    partitions: list[ShownPartitionStats]


class ShownFork(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a journal that several events have. `offsets`: of their records; reads give the one that `journal.duplicates` says."""

    id: str
    seq_nr: Count
    partition: Count
    offsets: list[Count]


class ForkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The forks in a topic's copy, the first thousand by partition, id and number. `more`: there are others."""

    topic: str
    forks: list[ShownFork]
    more: bool = False


class WriteBase(JournalsRequest, frozen=True, kw_only=True):
    """A topic."""

    dry_run: DryRun = False


class ShownBase(msgspec.Struct, frozen=True, kw_only=True):
    """The base of a partition. `pointer`: the last record that it holds, -1 for a partition of which nothing is copied: it gets none.
    `bytes`: of its file, 0 in a dry run."""

    partition: Count
    pointer: int
    journals: Count
    events: Count
    snapshots: Count = 0
    bytes: Count


class WrittenBase(msgspec.Struct, frozen=True, kw_only=True):
    """The bases of a topic's partitions, each verified against the log."""

    topic: str
    partitions: list[ShownBase]
    dry_run: bool = False


class ShownExpired(msgspec.Struct, frozen=True, kw_only=True):
    """A journal whose day has come. `purged`: false in a dry run, and where it got a record meanwhile."""

    id: str
    expire_on: date
    seq_nr: Count
    purged: bool


class ExpiredJournals(msgspec.Struct, frozen=True, kw_only=True):
    """The journals of a topic that have expired."""

    topic: str
    journals: list[ShownExpired]
    dry_run: bool = False


class ShownDead(msgspec.Struct, frozen=True, kw_only=True):
    """A record that cannot be decoded. `quarantined`: it is left out; otherwise its partition waits for a decision about it."""

    topic: str
    partition: Count
    offset: Count
    error: str
    quarantined: bool = False
    why: str = ""
    who: str = ""
    at: str | int | None = None


class DeadContent(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its bytes. `error`: empty where it can be decoded."""

    topic: str
    partition: Count
    offset: Count
    error: str
    record: dict[str, Any]


class RetriedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record counts again. `rebuilds`: the copy of its partition is made anew for that; false: it was never left out."""

    topic: str
    partition: Count
    offset: Count
    rebuilds: bool
    dry_run: bool = False
