"""Compacting a pipeline's log: below what every sink has taken, the last message of each namespace is enough."""

from __future__ import annotations

import msgspec

from headwater.core.errors import Unsupported
from headwater.core.ids import random_id
from headwater.log import Log, Writer
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Compacting, State

_LONGEST_MS = 3_600_000  # of a compaction
_FEW = 1000  # messages that mostly tell of a hole, and cost less than a batch of a scan


class Freed(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did, or would do."""

    before: int  # the first offset that some sink has not taken, or that somebody still needs
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    truncates: bool = False


def limit(state: State) -> int:
    """The first offset that must stay. A sink that never took anything keeps everything; so does a message that was put aside.

    And what says how far the source was read, as long as that is nowhere else.
    """
    least = min((sink.position for sink in state.sinks.values()), default=-1) + 1
    unread = [state.reader.upto] if state.reader is not None else []
    return min([least, *unread, *(offset for _, offset in state.dead)])


def has_holes(log: Log, topic: str, first: int, last: int) -> bool:
    """Whether messages were taken away between `first` and `last`.

    The last messages of many namespaces, such as the marks behind the copy of a folder, can stand side by side before a hole: that the
    first thousand are there tells nothing of the others.
    Kafka's offsets have holes by themselves, and there the beginning is cut off whole.
    """
    if log.engine != "embedded" or last < first:
        return False
    records = log.read(topic, 0, first, limit=min(_FEW, last - first + 1))
    behind = first + len(records)
    if not records or records[-1].offset != behind - 1:
        return True
    for rows in log.scan(topic, 0, behind, last + 1):
        behind += len(rows)
        if rows.column("offset")[-1].as_py() != behind - 1:
            return True
    return behind <= last


def is_compacted(log: Log, topic: str) -> bool:
    """Whether messages were taken away at all."""
    bounds = log.bounds(topic, 0)
    return bounds.start > 0 or has_holes(log, topic, bounds.start, bounds.end - 1)


def compact(control: Control, *, dry_run: bool = False) -> Freed:
    """Keep, below the limit and in closed segments, the last message of each namespace; then the offset log.

    Kafka does not compact on demand: there the log is cut below the limit and the last message of each namespace.
    """
    log, topic = control.log, control.messages
    generation = log.topic(topic).generation  # before the state, which says what every sink has taken of this topic
    control.refresh()
    control.check_topic()
    bounds = log.bounds(topic, 0)

    def before(state: State) -> int:
        return max(bounds.start, min(limit(state), bounds.end))

    if dry_run:
        return Freed(before=before(control.refresh()), truncates=log.engine == "kafka")
    # From here on nobody moves a sink back behind the limit, and no sink comes that would need what lies before it.
    key, now = f"compacting/{random_id()}", control.clock.now_ms()
    made = control.change(lambda state: [(key, Compacting(before=before(state), at=now))])
    state = control.state
    freed = Freed(before=next(value.before for _, value in made if isinstance(value, Compacting)))
    try:
        freed = Freed(before=freed.before, **msgspec.structs.asdict(_writer(control, generation).compact(freed.before)))
    except Unsupported:
        last = [offset for names in state.taken.values() for offset in names.values()]
        _writer(control, generation).delete_before(min([freed.before, *last]))
        freed = Freed(before=freed.before, truncates=True)
    control.change(lambda state: [(key, None), *_dead(state, now)])
    control.compact()
    return freed


def _dead(state: State, now: int) -> list[Change]:
    """Compactions that cannot be under way any more: whoever did them has died."""
    return [(f"compacting/{key}", None) for key, compaction in state.compactions.items() if compaction.at < now - _LONGEST_MS]


def _writer(control: Control, generation: str) -> Writer:
    """Works under the claim of the newest run, which may be under way in another process. Errors: `Fenced` where a newer one begins."""
    log, topic, run = control.log, control.messages, control.state.run
    newest = run.epoch if run is not None and log.engine == "kafka" else log.epoch(topic, 0)  # on Kafka that would read the log
    return log.writer(topic, 0, newest, generation=generation, part=PART)
