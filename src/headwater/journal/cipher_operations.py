"""The operations on the keys of encrypted journals: erase a journal, and wrap keys anew; with their requests and answers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headwater.core.errors import (
    BadConfig,
    Damaged,
    Differs,
    DiskFull,
    Fenced,
    LogGap,
    NotOwner,
    OutcomeUnknown,
    Unavailable,
    Undecryptable,
    UnknownJournal,
    UnreadableRecord,
    Unsupported,
)
from headwater.journal.requests import JournalRequest, JournalsRequest
from headwater.wire.operation import DryRun, Operation, Reason, Role, described
from headwater.wire.request import check_reason

Count = Annotated[int, msgspec.Meta(ge=0)]


class EraseJournal(JournalRequest, frozen=True, kw_only=True):
    """A journal, and why it is erased."""

    why: Reason
    dry_run: DryRun = False

    def check(self) -> None:
        super().check()
        check_reason(self.why)


class RotateKeys(JournalsRequest, frozen=True, kw_only=True):
    """A topic, and why."""

    why: Annotated[str, described("The reason, which the audit keeps.")] = ""
    dry_run: DryRun = False


class ErasedJournal(msgspec.Struct, frozen=True, kw_only=True):
    """A journal is erased. `done`: false where nothing was there. `events`: those that it held. `keys`: how many were destroyed.

    `clear`: how many of the events were never encrypted: the log keeps these until it is deleted. `offset`: of the Purge.
    """

    id: str
    done: bool
    events: Count = 0
    clear: Count = 0
    keys: Count = 0
    partition: Count | None = None
    offset: int | None = None
    dry_run: bool = False


class RotatedKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a topic are wrapped by the master key `master`. `rewrapped`: how many were wrapped by another one before."""

    topic: str
    master: str
    keys: Count
    rewrapped: Count
    dry_run: bool = False


_ERRORS = (UnknownJournal, Damaged, Undecryptable, Unavailable, BadConfig, Differs, Unsupported)
ERASE = Operation(
    part="journal",
    name="erase",
    method="POST",
    path="/journals/{topic}/{id}/erase",
    request=EraseJournal,
    answer=ErasedJournal,
    role=Role.OPERATOR,
    changes=True,
    says="Remove a journal and destroy its keys: nobody can read its encrypted events any more, in the log, the store or Kafka.",
    errors=(*_ERRORS, LogGap, UnreadableRecord, NotOwner, Fenced, DiskFull, OutcomeUnknown),
)
ROTATE = Operation(
    part="journal",
    name="rotate",
    method="POST",
    path="/replication/{topic}/rotate",
    request=RotateKeys,
    answer=RotatedKeys,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Wrap the keys of a topic's journals with the newest master key. No event is written anew.",
    errors=(*_ERRORS, DiskFull),
)
CIPHER = (ERASE, ROTATE)
