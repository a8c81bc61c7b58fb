"""The state of a partition, as one process sees it."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.core.errors import Closed, HeadwaterError
from headwater.documents.partition import DocumentPartition
from headwater.documents.partition_reads import PartitionReads

PartitionState = Literal["Unknown", "Passive", "Activating", "Active", "Deactivating"]
"""Passive: this process owns nothing of it. Activating: it has claimed the partition, reads the tail, and stashes writes. Deactivating: it
finishes the writes that were begun. Unknown: of another process, which cannot be asked."""


class PartitionStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One partition."""

    partition: int
    state: PartitionState
    end: int = 0
    """Of the log."""
    applied: int = 0
    """How far the store is."""
    queued: int = 0
    stashed: int = 0
    accepted: int = 0
    commits: int = 0
    unapplied_commits: int = 0
    """Commits whose records the store did not take at once."""
    error: str = ""
    """Why nothing of it is read or written, or why the store lacks what is durable."""


def status_of(state: PartitionState, reads: PartitionReads, partition: DocumentPartition | None, stashed: int) -> PartitionStanding:
    """The status of a partition. Blocking. Errors: those of the log; `Closed`."""
    end = reads.end()
    if partition is None:
        applied, error = 0, ""
        try:
            applied = reads.applied()
            reads.check()
        except Closed:
            raise
        except HeadwaterError as unfit:  # of this partition's store: the others are shown all the same
            error = unfit.message
        return PartitionStanding(partition=reads.number, state=state, end=end, applied=applied, stashed=stashed, error=error)
    return PartitionStanding(
        partition=reads.number,
        state=state,
        end=end,
        applied=partition.applied,
        queued=partition.queued,
        stashed=stashed,
        accepted=partition.accepted,
        commits=partition.commits,
        unapplied_commits=partition.unapplied_commits,
        error=partition.unapplied_error,
    )
