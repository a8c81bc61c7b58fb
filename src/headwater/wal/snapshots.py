"""Stores snapshots in a region's meta topic, and removes those that are not needed any more. The two newest whole ones stay."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headwater.core.errors import Damaged, Fenced, HeadwaterError
from headwater.core.interpreter_lock import release_for_a_moment
from headwater.log import Log, Writer
from headwater.log.record import Record
from headwater.wal.layout import MalformedRecord, encode_meta_key
from headwater.wal.recovery import StoredSnapshot
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.snapshot import columns, decode_chunk, encode_snapshot

_logger = logging.getLogger("headwater.wal")
KEPT = 2
_CHUNK = 512 << 10  # bytes of a record at the most: below what brokers take by default
_AT_ONCE = 32  # chunks of a batch: a log takes batches up to a size, and a large region has more


class SnapshotStore:
    """The snapshots of a region that this process owns. Blocking; one call at a time."""

    def __init__(self, log: Log, writer: Writer, topics: RegionTopics, stored: Sequence[StoredSnapshot], *, chunk: int = _CHUNK) -> None:
        self._log, self._writer, self._topics = log, writer, topics
        self.stored = list(stored)  # the oldest first
        self._chunk = min(chunk, log.topic(topics.meta).settings.max_record - 128)
        self._generation = log.topic(topics.data).generation

    @property
    def chunk(self) -> int:
        """The most bytes of a chunk."""
        return self._chunk

    def encoded(self, meta: RegionMeta) -> list[bytes]:
        """A state as the chunks that `store` takes, bound to the data topic."""
        return encode_snapshot(meta, self._chunk, self._generation, pause=release_for_a_moment)

    def store(self, values: Sequence[bytes], watermark: int) -> StoredSnapshot:
        """Append a snapshot, read it back, and delete all but the two newest, where that is possible.

        Errors: `Fenced`; `Damaged` where it reads otherwise.
        """
        key = encode_meta_key(self._topics.region)
        offsets: list[int] = []
        for begin in range(0, len(values), _AT_ONCE):
            offsets += self._writer.append([Record(key, value) for value in values[begin : begin + _AT_ONCE]])
        self._check(offsets, values)
        self.stored.append(StoredSnapshot(offsets[0], offsets[-1], watermark))
        if len(self.stored) >= KEPT:  # what lies before them may also be of no use, such as one that was ahead of the log
            self.stored = self.stored[-KEPT:]
            self._forget_older()
        return self.stored[-1]

    def _forget_older(self) -> None:
        try:
            self._writer.delete_before(self.stored[0].first)
        except Fenced:
            raise
        except HeadwaterError as error:  # the new one counts all the same; the next one removes them
            _logger.warning("Old snapshots of region %s were not removed: %s", self._topics, error)

    def _check(self, offsets: Sequence[int], values: Sequence[bytes]) -> None:
        """A snapshot counts only once it was read back: after a truncation of the log, nothing else could replace it."""
        records = self._log.read_at(self._topics.meta, 0, offsets)
        try:
            if [record.value if record is not None else None for record in records] != list(values):
                raise MalformedRecord("its bytes are other ones")
            columns([decode_chunk(value) for value in values], pause=release_for_a_moment)
        except MalformedRecord as error:
            raise Damaged(
                f"The snapshot at {offsets[0]} of {self._topics.meta} cannot be read back: {error}.",
                hint=f"Check the log with `headwater log check {self._topics.meta}`.",
            ) from error
