"""Idempotency keys of Appends: which were used in the last day, for what, and what was answered. Folded from the records' headers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.core.errors import BadInput, KeyReused, OffsetGone, UnreadableRecord
from headwater.journal.action import Append
from headwater.journal.event import RESERVED
from headwater.journal.wire import read_action, read_id
from headwater.log import Log
from headwater.log.record import Header, Record

KEY = "headwater.idempotency-key"
HASH = "headwater.idempotency-hash"
KEPT = 24 * 3_600_000
"""Milliseconds for which a key is remembered."""
_LONGEST = 1024
_AGAIN = 5


class FirstAnswer(msgspec.Struct, frozen=True, gc=False):
    """What was appended under a key."""

    digest: str
    first: int
    last: int
    offset: int
    timestamp: int


class KeyIndex:
    """The keys of one partition's journals. Belongs to one thread. It reads the log at its first use, and then as far as it is told."""

    def __init__(self, log: Log, topic: str, partition: int, *, now: Callable[[], int]) -> None:
        self._log, self._topic, self._partition, self._now = log, topic, partition, now
        self._answers: dict[tuple[str, str], FirstAnswer] = {}  # the oldest first
        self._end: int | None = None

    def answer(self, id: str, key: str, digest: str, end: int) -> FirstAnswer | None:
        """What was appended to a journal under a key, below the offset `end`; None: nothing.

        Errors: `KeyReused` where something else was.
        """
        self._read_to(end)
        self._expire()
        found = self._answers.get((id, key))
        if found is not None and found.digest != digest:
            raise key_reused(id, key)
        return found

    def forget(self) -> None:
        """Read the log anew at the next use: what was read may have been cut off."""
        self._answers.clear()
        self._end = None

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
        self._end = max(self._end, start)  # the log may have been deleted since the last look
        if end <= self._end:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        from headwater.log.layout import decode_headers

        for batch in self._log.scan(self._topic, self._partition, self._end, end):
            blocks = batch.column("headers").cast(pa.binary())
            for row in pc.indices_nonzero(pc.match_substring(blocks, KEY)).to_pylist():
                key, timestamp = batch.column("key")[row].as_py(), batch.column("timestamp")[row].as_py()
                self._add(
                    Record(key, None, tuple(decode_headers(blocks[row].as_py())), timestamp, offset=batch.column("offset")[row].as_py())
                )
        self._end = end

    def _add(self, record: Record) -> None:
        headers = dict(record.headers)
        key, digest = headers.get(KEY), headers.get(HASH)
        if key is None or digest is None or record.key is None:
            return
        try:
            action, id = read_action(headers.get(RESERVED) or b"{}"), read_id(record.key)
        except UnreadableRecord:  # of another writer, with our header: it answers nothing, and must not stop those who ask
            return
        if isinstance(action, Append):
            found = FirstAnswer(digest.decode(errors="replace"), action.first, action.last, record.offset or 0, record.timestamp or 0)
            self._answers.setdefault((id, key.decode(errors="replace")), found)

    def _expire(self) -> None:
        oldest = self._now() - KEPT
        while self._answers and (key := next(iter(self._answers))) and self._answers[key].timestamp < oldest:
            del self._answers[key]


def key_headers(key: str, digest: str) -> tuple[Header, ...]:
    """The headers of a record that was appended under a key. As text: other readers of the topic take all headers for texts."""
    return ((KEY, key.encode()), (HASH, digest.encode()))


def check_key(key: object) -> str:
    """A key that users give. Errors: `BadInput`."""
    if not isinstance(key, str) or not key or len(key) > _LONGEST or not key.isprintable():
        raise BadInput(f"{key!r:.60} is no idempotency key.", hint=f"Give text of 1 to {_LONGEST} characters, another one for each Append.")
    return key


def key_reused(id: str, key: str) -> KeyReused:
    """The error for a key under which something else was appended."""
    return KeyReused(
        f"Other events were appended to {id!r:.60} under the idempotency key {key!r:.60}.", hint="Use another key for each Append."
    )
