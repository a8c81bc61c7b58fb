"""A queue by its log alone, whoever owns it: for readers that want no claim, such as Spark and `headwater doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import Damaged
from headwater.log import Log
from headwater.queue.body import FLAGS, ON_LOG, place_in
from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.fold import QueueFold
from headwater.queue.quick_replay import done_ids
from headwater.queue.records import Malformed, has_data
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.replay import replay
from headwater.wal.entries import LogEntry
from headwater.wal.region_topics import RegionTopics, region_topics
from headwater.wal.view import RegionView

_SPARE = 64 << 20  # bytes of payloads beyond those that are needed, before the others are looked for


def stored_fold(log: Log, entry: QueueEntry, *, now: int, payloads: bool = True) -> tuple[QueueFold, dict[int, bytes]]:
    """A queue as its log has it, whoever owns it; and the payloads that hold data of its rows, by sequence.

    `payloads`: whether they are wanted; without them the log may be of any size. Blocking. Errors: `RegionNotFound`, `Damaged`.
    """
    reader = _Reader(region_topics(NAMESPACE, entry.region), entry.table, payloads)
    fold = RegionView(log, reader.topics).fold_table(entry.table, reader.read)
    fold.finish(now)
    return fold, reader.payloads


class _Reader:
    def __init__(self, topics: RegionTopics, table: int, keeps: bool) -> None:
        self.topics, self._table, self._keeps = topics, table, keeps
        self.payloads: dict[int, bytes] = {}

    def read(self, following: int, parts: Iterator[list[LogEntry]]) -> QueueFold:
        fold: QueueFold | None = None
        self.payloads, size, most = {}, 0, _SPARE
        for entries in parts:
            if fold is None:
                fold = QueueFold(entries[0].sequence, table=self._table)
            done = done_ids(record.payload for record in entries)
            for entry in entries:
                self._replay(fold, entry, done)
                if self._keeps and has_data(entry.payload):
                    self.payloads[entry.sequence] = entry.payload
                    size += len(entry.payload)
                if size > most:
                    size = self._forget(fold)
                    most = 2 * size + _SPARE
        if fold is None:
            fold = QueueFold(following, table=self._table)
        fold.skip_to(following)
        return fold

    def _replay(self, fold: QueueFold, entry: LogEntry, done: frozenset[int]) -> None:
        try:
            replay(fold, entry.sequence, entry.payload, done)
        except Malformed as error:
            raise Damaged(
                f"Record {entry.offset} of {self.topics.data} cannot be read as one of a queue: {error}.",
                hint=f"See it with `headwater log show {self.topics.data} {entry.offset}`.",
            ) from error

    def _forget(self, fold: QueueFold) -> int:
        """Forget payloads that no row needs; return the bytes of the others."""
        needed = {place_in(body).sequence for body in fold.columns.bodies if body and body[FLAGS] & ON_LOG}
        self.payloads = {sequence: payload for sequence, payload in self.payloads.items() if sequence in needed}
        return sum(map(len, self.payloads.values()))
