"""The epoch of a partition at an offset, for folds that begin in the middle of the log."""

from __future__ import annotations

from headwater.log import Log
from headwater.log.epochs import Epochs, earliest_offset

_CHUNK = 1000  # records that are read at once


def epoch_before(log: Log, topic: str, partition: int, offset: int) -> int:
    """The highest epoch that was marked before `offset`, as far as the log keeps records.

    Reads backwards until no higher mark can lie before: a claim of an epoch never lies before `earliest_offset`, and no epoch is higher
    than the partition's newest. The embedded engine marks nothing.
    """
    if log.engine == "embedded":
        return 0
    newest, start, highest = log.epoch(topic, partition), log.bounds(topic, partition).start, 0
    while newest and offset > start:
        low = max(start, offset - _CHUNK)
        epochs = Epochs()
        for record in log.read(topic, partition, low, limit=_CHUNK):
            if (record.offset or 0) >= offset:
                break
            epochs.admits(record)
        highest, offset = max(highest, epochs.epoch), low
        if highest == newest or (highest and earliest_offset(highest) >= low):
            break
    return highest


def epoch_at_end(log: Log, topic: str, partition: int) -> tuple[Epochs, int]:
    """The fold of epochs at the partition's end, and that end: records from there on are admitted or refused rightly.

    Claims that come while the newest epoch is asked for lie between the two ends, and are read.
    """
    end = log.bounds(topic, partition).end
    if log.engine == "embedded":
        return Epochs(), end
    epochs = Epochs(log.epoch(topic, partition))
    start, end = end, log.bounds(topic, partition).end
    while start < end:
        records = log.read(topic, partition, start, limit=_CHUNK)
        for record in records:
            if (record.offset or 0) < end:
                epochs.admits(record)
        start = (records[-1].offset or 0) + 1 if records else end
    return epochs, end
