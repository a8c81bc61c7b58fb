"""Idempotency keys of Appends: which were used in the last day, for what, and what was answered. Folded from the records' headers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.core.errors import BadInput, KeyReused, OffsetGone, UnreadableRecord
from headwater.journal.action import Append
from headwater.journal.claims import epoch_before, epochs_from
from headwater.journal.event import RESERVED
from headwater.journal.wire import read_action, read_id
from headwater.log import Log
from headwater.log.epochs import highest_before
from headwater.log.record import Header, Record

KEY = "headwater.idempotency-key"
HASH = "headwater.idempotency-hash"
KEPT = 24 * 3_600_000
"""Milliseconds for which a key is remembered."""
_LONGEST = 1024
_AGAIN = 5
_NEVER = 1 << 63


class FirstAnswer(msgspec.Struct, frozen=True, gc=False):
    """What was appended under a key."""

    digest: str
    first: int
    last: int
    offset: int
    timestamp: int
    epoch: int = 0
    """Of the partition at the record, as far as it was read; 0 where there are no claims."""
    partition: int = 0


class KeyIndex:
    """The keys of one partition's journals. Belongs to one thread. It reads the log at its first use, and then as far as it is told.

    `claimed`: records count by their claims, so that one of an owner who was replaced before it answers nothing. Where a key was used
    under a claim that is older than the keys that are remembered, `shown` is asked whether reads of a journal give the event of a number
    from an offset: then its record counts. Where it does not, the log is read back to that claim, once.
    """

    def __init__(
        self,
        log: Log,
        topic: str,
        partition: int,
        *,
        now: Callable[[], int],
        claimed: bool = False,
        shown: Callable[[str, int, int], bool] = lambda id, seq_nr, offset: False,
    ) -> None:
        self._log, self._topic, self._partition, self._now, self._claimed = log, topic, partition, now, claimed
        self._shown = shown
        self._answers: dict[tuple[str, str], FirstAnswer] = {}  # the oldest first
        self._begin = 0
        self._end: int | None = None
        self._known = (-1, 0)  # an offset, and the partition's epoch there
        self._epochs = epochs_from(0, claimed=claimed)
        self._sure = 0  # from this offset on, it is known which records count

    def answer(self, id: str, key: str, digest: str, end: int, owner: int = 0) -> FirstAnswer | None:
        """What was appended to a journal under a key, below the offset `end`; None: nothing. `owner`: the epoch of the partition's owner,
        who asks: all of its records count.

        Errors: `KeyReused` where something else was.
        """
        self._read_to(end)
        self._expire()
        answer = self._answers.get((id, key))
        if answer is not None and not self._counts(id, answer, owner):
            self._know_claims(end)
            answer = self._answers.get((id, key))
        if answer is not None and answer.digest != digest:
            raise key_reused(id, key)
        return answer

    def _counts(self, id: str, answer: FirstAnswer, owner: int) -> bool:
        """Whether it is certain that a record counts."""
        return answer.offset >= self._sure or 0 < owner == answer.epoch or self._shown(id, answer.first, answer.offset)

    def forget(self) -> None:
        """Read the log anew at the next use: what was read may have been cut off."""
        self._answers.clear()
        self._end = None

    def _know_claims(self, end: int) -> None:
        """Read anew, with the claims that lie before the remembered keys."""
        for attempt in range(_AGAIN):
            try:
                at, epoch = self._known if self._known[0] <= self._begin else (-1, 0)
                found_epoch = epoch_before(self._log, self._topic, self._partition, self._begin, at)
            except OffsetGone:
                if attempt == _AGAIN - 1:
                    raise
            else:
                self._known = (self._begin, max(found_epoch, epoch))
                break
        self._answers.clear()
        self._begin_at(self._begin)
        self._read_to(end)

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
            self._begin_at(min(end, max(start, self._log.offset_at(self._topic, self._partition, max(0, self._now() - KEPT)))))
        if (self._end or 0) < start:  # the log was deleted since the last look, and claims with it
            self._begin = self._end = start
            self._sure = _NEVER if self._claimed else 0
        if end <= (self._end or 0):
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        from headwater.log.layout import decode_headers

        for batch in self._log.scan(self._topic, self._partition, self._end or 0, end):
            blocks = batch.column("headers").cast(pa.binary())
            rows = range(len(batch)) if self._claimed else pc.indices_nonzero(pc.match_substring(blocks, KEY)).to_pylist()
            columns = [batch.column(name) for name in ("key", "timestamp", "offset")]
            values = batch.column("value")
            for row in rows:
                key, timestamp, offset = (column[row].as_py() for column in columns)
                block = blocks[row].as_py()
                headers = () if block is None else tuple(decode_headers(block))
                record = Record(key, b"" if values[row].is_valid else None, headers, timestamp, offset=offset)
                if self._epochs.admits(record):
                    self._add(record)
                if offset < self._sure and self._epochs.epoch > highest_before(self._begin):
                    self._sure = offset  # claimed behind the beginning: no claim before it is higher
        self._end = end

    def _begin_at(self, offset: int) -> None:
        """Begin with the records at `offset`, under the newest claim before it that is known."""
        at, epoch = self._known
        self._begin = self._end = offset
        epoch = epoch if 0 <= at <= offset else 0  # times may go back, and the beginning with them
        self._epochs = epochs_from(epoch, claimed=self._claimed)
        self._sure = _NEVER if self._claimed and at != offset else 0

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
            place = (record.offset or 0, record.timestamp or 0)
            answer = FirstAnswer(digest.decode(errors="replace"), action.first, action.last, *place, self._epochs.epoch, self._partition)
            self._answers.setdefault((id, key.decode(errors="replace")), answer)

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
