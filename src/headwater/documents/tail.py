"""The end of a partition's log: durable records that its store may not have applied yet."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from headwater.core.errors import Busy, OffsetGone
from headwater.documents.change import decode_record
from headwater.documents.store import AppendedRecord
from headwater.log import Log
from headwater.log.epochs import Epochs
from headwater.log.record import Record

_KEPT = 4096  # records, and bytes, that stay although the store has applied them: a reader may hold a view from before
_KEPT_BYTES = 32 << 20
_MOST_BEHIND = 200_000
_offset = attrgetter("offset")


class LogTail:
    """The records of a partition from about the store's applied offset on, each read from the log once. Safe for several threads.

    It counts by the rule of claims (`headwater.log.epochs`). The record before an applied offset is one that counts, so that its mark says
    which epoch the partition has there.
    """

    def __init__(self, log: Log, topic: str, partition: int) -> None:
        self._log, self._topic, self._partition = log, topic, partition
        self._records: list[AppendedRecord] = []
        self._size = 0  # of the records, about
        self._begin = self._end = -1  # the offsets that were read
        self._epochs = Epochs()
        self._guard = threading.Lock()
        self.last_time = 0
        """The time of the newest record that was read, in ms."""

    def records(self, applied: int, end: int) -> Sequence[AppendedRecord]:
        """The records of [applied, end) that count. Blocking where they are not in memory.

        Errors: those of `Log.read`; `Damaged` for what is no record of documents; `Busy` where the store is far behind.
        """
        with self._guard:
            if applied == end:
                return ()
            if not self._begin <= applied <= self._end:
                self._restart(applied)
            if self._end < end:
                if end - applied > _MOST_BEHIND:
                    raise Busy(
                        f"The store of {self._topic}/{self._partition} is {end - applied} records behind the log.",
                        hint="Ask again when it has been brought up to date: `headwater doc status` shows how far it is.",
                    )
                self._read_to(end)
            return self._records[bisect_left(self._records, applied, key=_offset) : bisect_left(self._records, end, key=_offset)]

    def add(self, appended: Sequence[AppendedRecord], *, since: int, epoch: int, size: int = 0) -> None:
        """Records that this process has appended as the owner. `since`: the end before them. `epoch`: of its claim. `size`: their bytes.

        A reader may have read some of them by now, or have begun anew further back: then the rest is read from the log.
        """
        with self._guard:
            if self._end < 0:
                self._begin = self._end = since
            if self._end < since:
                return
            self._records += [record for record in appended if record.offset >= self._end]
            self._end = max(self._end, appended[-1].offset + 1)
            self._size += size
            self._epochs.epoch = max(self._epochs.epoch, epoch)
            self.last_time = max(self.last_time, appended[-1].time)

    def forget_before(self, applied: int) -> None:
        """The store has applied everything below an offset."""
        with self._guard:
            if len(self._records) > _KEPT or self._size > _KEPT_BYTES:
                before, count = len(self._records), bisect_left(self._records, applied, key=_offset)
                del self._records[:count]
                self._size -= self._size * count // max(1, before)
                self._begin = max(self._begin, min(applied, self._end))

    @property
    def size(self) -> int:
        """About how many bytes its records have in memory."""
        return self._size

    def reset(self) -> None:
        """Read the log anew: what was read may not count."""
        with self._guard:
            self._records, self._begin, self._end, self._size = [], -1, -1, 0

    def _restart(self, applied: int) -> None:
        self._records, self._begin, self._end, self._epochs, self._size = [], applied, applied, Epochs(), 0
        if self._log.engine == "kafka" and applied > 0:
            try:
                for record in self._log.read(self._topic, self._partition, applied - 1, limit=1):
                    self._epochs.admits(record)
            except OffsetGone:
                return

    def _read_to(self, end: int) -> None:
        while self._end < end:
            records = self._log.read(self._topic, self._partition, self._end, limit=10_000)
            for record in records:
                if (record.offset or 0) >= end:
                    break
                if self._log.engine != "kafka" or self._epochs.admits(record):
                    self._records.append(read_appended(record, self._topic, self._partition))
                self.last_time = max(self.last_time, record.timestamp or 0)
                self._size += len(record.value or b"")
            self._end = min(end, (records[-1].offset or 0) + 1) if records else end


def read_appended(record: Record, topic: str, partition: int) -> AppendedRecord:
    """A record as the log has it. Errors: `Damaged`."""
    offset = record.offset or 0
    return AppendedRecord(offset, record.timestamp or 0, decode_record(record.value, f"{topic}/{partition} at {offset}"))
