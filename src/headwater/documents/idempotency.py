"""Idempotency keys of writes: which were used in the last day, and where the record of each lies."""

from __future__ import annotations

from collections.abc import Callable

from headwater.core.errors import KeyReused, OffsetGone
from headwater.documents.change import Idempotency
from headwater.documents.store import AppendedRecord
from headwater.documents.tail import read_appended
from headwater.log import Log
from headwater.log.epochs import Epochs, Kind
from headwater.log.record import Header

KEY = "headwater.idempotency-key"
KEPT = 24 * 3_600_000
"""Milliseconds for which a key is remembered."""
_AGAIN = 5


class WriteKeys:
    """The keys of one partition. Belongs to one thread. It reads the log at its first use, and then as far as it is told."""

    def __init__(self, log: Log, topic: str, partition: int, *, now: Callable[[], int]) -> None:
        self._log, self._topic, self._partition, self._now = log, topic, partition, now
        self._places: dict[tuple[str, str], tuple[int, int]] = {}  # uri and key: offset and time, the oldest first
        self._end: int | None = None
        self._epochs = Epochs()

    def answered(self, uri: str, key: str, digest: str, end: int) -> AppendedRecord | None:
        """The record that was written to a document or collection under a key, below the offset `end`; None: there is none.

        Errors: `KeyReused` where it was another request; those of the log.
        """
        self._read_to(end)
        oldest = self._now() - KEPT
        while self._places and (first := next(iter(self._places))) and self._places[first][1] < oldest:
            del self._places[first]
        place = self._places.get((uri, key))
        if place is None:
            return None
        record = self._log.read_at(self._topic, self._partition, [place[0]])[0]
        if record is None:
            return None
        appended = read_appended(record, self._topic, self._partition)
        check_digest(appended.record.idempotency, uri, key, digest)
        return appended

    def forget(self) -> None:
        """Read the log anew at the next use."""
        self._places.clear()
        self._end, self._epochs = None, Epochs()

    def _read_to(self, end: int) -> None:
        for attempt in range(_AGAIN):
            try:
                self._scan_to(end)
            except OffsetGone:  # the log was deleted meanwhile, and keys go with their records
                if attempt == _AGAIN - 1:
                    raise
            else:
                return

    def _scan_to(self, end: int) -> None:
        start = self._log.bounds(self._topic, self._partition).start
        if self._end is None:
            self._end = min(end, self._log.offset_at(self._topic, self._partition, max(0, self._now() - KEPT)))
        self._end = max(self._end, start)
        if end <= self._end:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        from headwater.log.layout import decode_headers

        kafka = self._log.engine == "kafka"
        for batch in self._log.scan(self._topic, self._partition, self._end, end):
            blocks = batch.column("headers").cast(pa.binary())
            keyed = set(pc.indices_nonzero(pc.match_substring(blocks, KEY)).to_pylist())
            for row in range(batch.num_rows) if kafka else sorted(keyed):
                block, offset = blocks[row].as_py(), batch.column("offset")[row].as_py()
                headers = tuple(decode_headers(block)) if block else ()
                key = batch.column("key")[row].as_py()
                if kafka and self._epochs.kind(key is None, headers, offset) is not Kind.COUNTED:
                    continue
                if row in keyed and key is not None:
                    self._add(key, headers, offset, batch.column("timestamp")[row].as_py())
        self._end = end

    def _add(self, uri: bytes, headers: tuple[Header, ...], offset: int, time: int) -> None:
        for name, value in headers:
            if name == KEY and value is not None:
                place = (uri.decode(errors="replace"), value.decode(errors="replace"))
                if place in self._places and self._places[place][1] >= self._now() - KEPT:
                    continue
                self._places.pop(place, None)  # so that the oldest comes first
                self._places[place] = (offset, time)


def check_digest(first: Idempotency | None, uri: str, key: str, digest: str) -> None:
    """Errors: `KeyReused` where the first request under the key was another one."""
    if first is None or first.digest != digest:
        raise KeyReused(f"Another write to {uri} was made under the idempotency key {key!r:.60}.", hint="Use another key for each write.")
