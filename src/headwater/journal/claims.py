"""Whether the rule of claims (`headwater.log.epochs`) holds for a topic of journals.

It holds for topics of headwater's own on Kafka. The embedded log refuses a stale append itself. Topics that others write, too, have no
claims: a header that looks like one is then just another's header, and must not make everybody's later records count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.log import Log
from headwater.log.epochs import Epochs, Kind, highest_before
from headwater.log.record import Header, Record, Topic

_PART = "journal"
_FIRST_LOOK = 1000  # records; each further look reads twice as many


def has_claims(log: Log, topic: Topic | str) -> bool:
    """Whether records of a topic count by their claims. Errors: `UnknownTopic`; those of the log."""
    if log.engine == "embedded":
        return False
    return (log.topic(topic) if isinstance(topic, str) else topic).settings.owner == _PART


def epochs_from(epoch: int, *, claimed: bool) -> Epochs:
    """The rule for a partition whose epoch is `epoch`; one that lets every record count where there are no claims."""
    return Epochs(epoch) if claimed else _EveryRecord()


def epoch_before(log: Log, topic: str, partition: int, end: int, known: int = -1) -> int:
    """The epoch of a claimed partition at the offset `end`: its highest mark before it, searched from there back to the claim, or to the
    log's start. `known`: an offset whose epoch the caller knows, and before which nothing is searched. Errors: `OffsetGone`."""
    from headwater.log.layout import decode_headers

    epoch, size, start = 0, _FIRST_LOOK, max(known, log.bounds(topic, partition).start)
    while end > start and epoch < highest_before(end):
        begin = max(start, end - size)
        for batch in log.scan(topic, partition, begin, end):
            keys, values, blocks = (batch.column(name) for name in ("key", "value", "headers"))
            for row, offset in enumerate(batch.column("offset").to_pylist()):
                if (block := blocks[row].as_py()) is not None:
                    epochs = Epochs()
                    epochs.kind(not keys[row].is_valid and not values[row].is_valid, decode_headers(block), offset)
                    epoch = max(epoch, epochs.epoch)
        end, size = begin, size * 2
    return epoch


class _EveryRecord(Epochs):
    """Lets every record count."""

    __slots__ = ()

    def admits(self, record: Record) -> bool:
        return True

    def kind(self, empty: bool, headers: Sequence[Header], offset: int) -> Kind:
        return Kind.COUNTED
