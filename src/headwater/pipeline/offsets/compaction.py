"""Compacting a pipeline's log: below what every sink has taken, the last message of each namespace is enough."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.errors import Unsupported
from headwater.log import Log
from headwater.pipeline.offsets.control import Control


class Freed(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did, or would do."""

    before: int  # the first offset that some sink has not taken, or that somebody still needs
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    truncates: bool = False


def limit(control: Control, sinks: Sequence[str]) -> int:
    """The first offset that must stay. A sink that never took anything keeps everything; so does a message that was put aside.

    And what says how far the source was read, as long as that is nowhere else.
    """
    state = control.refresh()
    names = set(sinks) | set(state.sinks)
    least = state.least(names) + 1
    waiting = [offset for _, offset in state.dead]
    unread = [state.reader.upto] if state.reader is not None else []
    return min([least, *waiting, *unread])


def has_holes(log: Log, topic: str, first: int, last: int) -> bool:
    """Whether messages were taken away from `first` on. Compaction begins at the log's beginning, so the first thousand tell.

    Kafka's offsets have holes by themselves, and there the beginning is cut off whole.
    """
    if log.engine != "embedded" or last < first:
        return False
    found = [one.offset for one in log.read(topic, 0, first, limit=min(1000, last - first + 1))]
    return found != list(range(first, first + max(1, len(found))))


def is_compacted(log: Log, topic: str) -> bool:
    """Whether messages were taken away at all."""
    bounds = log.bounds(topic, 0)
    return bounds.start > 0 or has_holes(log, topic, bounds.start, bounds.end - 1)


def compact(log: Log, control: Control, topic: str, sinks: Sequence[str], *, dry_run: bool = False) -> Freed:
    """Keep, below the limit and in closed segments, the last message of each namespace; then the offset log.

    Kafka does not compact on demand: there the log is cut below the limit and the last message of each namespace.
    """
    before = limit(control, sinks)
    bounds = log.bounds(topic, 0)
    before = max(bounds.start, min(before, bounds.end))
    if dry_run:
        return Freed(before=before, truncates=log.engine == "kafka")
    try:
        done = log.compact(topic, 0, before)
    except Unsupported:
        last = [offset for names in control.state.taken.values() for offset in names.values()]
        log.delete_before(topic, 0, min([before, *last]))
        control.compact()
        return Freed(before=before, truncates=True)
    control.compact()
    return Freed(
        before=before,
        records_before=done.records_before,
        records_after=done.records_after,
        bytes_before=done.bytes_before,
        bytes_after=done.bytes_after,
    )
