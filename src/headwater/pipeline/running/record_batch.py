"""The records of a range, before and after they become messages: filtered, corrected, decoded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import repeat

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import BadInput, Damaged, Rejected
from headwater.log import Log
from headwater.log.arrow import lengths
from headwater.log.epochs import LENT, marks
from headwater.log.layout import decode_headers
from headwater.log.record import Header, Record
from headwater.pipeline import values
from headwater.pipeline.id_hash import id_hash
from headwater.pipeline.message import DEFAULT_ID, Message, Mode, Op
from headwater.pipeline.offsets.claims import overtaken
from headwater.pipeline.running.work import HASH, IDS, UNREADABLE, SinkWork
from headwater.pipeline.sink_adaptor import Part

_OPS = list(Op)
_MODES = list(Mode)
_MARKERS = (Op.NOOP, Op.SKIP)
_ids = msgspec.json.Decoder(tuple[str, ...])
_FEW = 8  # records: so few are read twenty times faster as records than as columns
MOST = 32 << 20  # bytes that are taken into memory at once
_CORRECT = "Correct it with `headwater pipeline edit`."
Row = tuple[int, int, bytes | None, bytes | None, Sequence[Header], int, int]  # offset, timestamp, key, value, headers, mode, op


class RecordBatch:
    """The records of [start, end) that belong to a part, before anything is decoded."""

    def __init__(self, log: Log, work: SinkWork, start: int, end: int, *, part: Part | None = None, most: int = MOST) -> None:
        """Records of about `most` bytes at most. Their `end` depends on the log alone, so that a repeated batch is the same.

        `part`: its bucket of the documents is taken; left out, all documents.
        """
        self._work, self.start, self.end = work, start, end
        self._bucket, self._buckets = (part.bucket, part.buckets) if part is not None else (0, 1)
        self._few: list[Record] = []
        self._chunks: list[pa.RecordBatch] = []
        if end - start <= _FEW:
            self._read_few(log, most)
        else:
            self._read_columns(log, most)
        if part is not None and not part.again and log.engine == "embedded":
            self._check_whole()
        self._names: dict[bytes, bool] = {}

    def _read_few(self, log: Log, most: int) -> None:
        at, size = self.start, 0
        while at < self.end:
            records = log.read(self._work.topic, 0, at, limit=self.end - at)
            if not records:
                return
            for record in records:
                at = (record.offset or 0) + 1
                if at > self.end:
                    return
                size += len(record.value or b"")
                if self._few and size > most:
                    self.end = at - 1
                    return
                self._few.append(record)

    def _read_columns(self, log: Log, most: int) -> None:
        size = 0
        for chunk in log.scan(self._work.topic, 0, self.start, self.end, batch=self.end - self.start):
            if not len(chunk):
                continue
            sizes = np.cumsum(lengths(chunk.column("value")))
            if size + sizes[-1] > most:
                room = max(int(np.searchsorted(sizes, most - size, side="right")), 0 if self._chunks else 1)
                if room < len(chunk):
                    self.end = chunk.column("offset")[room].as_py()
                    chunk = chunk.slice(0, room)
            size += int(sizes[-1])
            if len(chunk):
                self._chunks.append(chunk)
            if size > most:
                return

    def _check_whole(self) -> None:
        """Errors: `Damaged` where messages that the sink has not taken are gone. Kafka's offsets have holes by themselves."""
        count = len(self._few) + sum(map(len, self._chunks))
        if count == self.end - self.start:
            return
        offsets = [record.offset or 0 for record in self._few] + [n for chunk in self._chunks for n in chunk.column("offset").to_pylist()]
        present = set(offsets)
        first = next(offset for offset in range(self.start, self.end) if offset not in present)
        if first > self.start:  # what lies before the hole is delivered first
            self._end_at(first)
            return
        after = min((offset for offset in offsets if offset > first), default=self.end)
        gone = f"Message {first} is" if after == first + 1 else f"Messages {first} to {after - 1} are"
        name, sink = self._work.pipeline, self._work.sink.name
        raise Damaged(
            f"{gone} gone from the log of {name}, and sink {sink} has not taken {'it' if after == first + 1 else 'them'}.",
            hint=f"Go on without: `headwater pipeline offset {name} mark {sink} {after - 1} --why ...`. "
            "Then `headwater pipeline run FILE --again` brings what the source still has.",
        )

    def _end_at(self, end: int) -> None:
        self.end = end
        self._few = [record for record in self._few if (record.offset or 0) < end]
        counts = [int(np.searchsorted(chunk.column("offset").to_numpy(zero_copy_only=False), end)) for chunk in self._chunks]
        self._chunks = [chunk.slice(0, count) for chunk, count in zip(self._chunks, counts, strict=True) if count]

    def text(self) -> list[bytes] | None:
        """The documents as they are stored, where all are plain inserts and none is corrected or left out; else None."""
        work = self._work
        if self._buckets > 1 or work.corrects(self.start, self.end):
            return None
        out: list[bytes] = []
        for record in self._few:
            if record.op in _MARKERS or record.mode == Mode.COMPLETE or not self._chosen(record.key):
                continue
            marked = dict(record.headers)
            if record.op or record.value is None or UNREADABLE in marked or not counts(marked, record.offset or 0, work.claims, work.lent):
                return None
            out.append(record.value)
        for chunk in self._chunks:
            if self._poisoned(chunk):
                return None
            markers: list[bool] | None = None
            if pc.max(chunk.column("op")).as_py():
                ops = chunk.column("op").to_pylist()
                markers = [op >= Op.NOOP for op in ops]  # these only count as taken
                if any(op and not marker for op, marker in zip(ops, markers, strict=True)):
                    return None
            names = _distinct(chunk.column("key"))
            chosen = [self._chosen(name) for name in names]
            if all(chosen):
                texts = chunk.column("value").to_pylist()
                out += texts if markers is None else [text for text, marker in zip(texts, markers, strict=True) if not marker]
            elif any(chosen):
                return None
        return out

    def messages(self, leave_out: Container[int] = ()) -> list[Message]:
        """The part's messages, decoded; corrected ones in place of the originals. Errors: `Rejected` for one that is no document."""
        out: list[Message] = []
        for chunk in self._chunks:
            plain = None if leave_out or self._buckets > 1 else self._plain(chunk)
            if plain is not None:
                out += plain
                continue
            out += self._one_by_one(_rows(chunk), leave_out)
        return out + self._one_by_one(map(_row, self._few), leave_out)

    def _one_by_one(self, rows: Iterable[Row], leave_out: Container[int]) -> list[Message]:
        work = self._work
        out: list[Message] = []
        for offset, timestamp, key, value, headers, mode, op in rows:
            if mode == Mode.COMPLETE or op >= Op.NOOP or key is None or not self._chosen(key) or offset in leave_out:
                continue
            marked = dict(headers)
            if marked and not counts(marked, offset, work.claims, work.lent):
                continue
            namespace = key.decode()
            ids = _ids.decode(marked[IDS] or b"[]") if IDS in marked else work.ids.get(namespace, DEFAULT_ID)
            edit = work.edits.get(offset)
            if self._buckets > 1 and bucket_of(marked, value, ids, self._buckets) != self._bucket:
                continue
            if edit is not None:
                data = values.revived(values.tagged(edit))  # a copy: a function may change what it is given
            elif UNREADABLE in marked:
                raise Rejected((marked[UNREADABLE] or b"").decode(), offset=offset, hint=_CORRECT)
            else:
                try:
                    data = values.decode(value or b"")
                except BadInput as error:
                    raise Rejected(error.message, offset=offset, hint=_CORRECT) from error
            out.append(Message(namespace, data, _OPS[op], timestamp, _MODES[mode], offset, ids))
        return out

    def _plain(self, chunk: pa.RecordBatch) -> list[Message] | None:
        """The messages of a chunk whose records are all ordinary; else None."""
        offsets = chunk.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        names = _distinct(chunk.column("key"))
        ordinary = len(names) == 1 and names[0] is not None and not pc.max(chunk.column("op")).as_py()
        if not ordinary or self._poisoned(chunk) or self._work.corrects(first, last + 1):
            return None
        modes = pc.min_max(chunk.column("mode")).as_py()
        if modes["min"] != modes["max"] or not self._chosen(names[0]):
            return None if modes["min"] != modes["max"] else []
        namespace = (names[0] or b"").decode()
        ids, mode, op = self._work.ids.get(namespace, DEFAULT_ID), _MODES[modes["min"]], Op.INSERT
        texts, times = chunk.column("value").to_pylist(), chunk.column("timestamp").to_pylist()
        numbers = range(first, last + 1) if last - first + 1 == len(chunk) else offsets.to_pylist()
        same = repeat(namespace), repeat(op), repeat(mode), repeat(ids)
        try:
            return list(map(Message, same[0], map(values.decoder_of(texts), texts), same[1], times, same[2], numbers, same[3]))
        except values.UNREADABLE:
            return None  # `_one_by_one` finds the unreadable one

    def last(self) -> dict[str, int]:
        """By namespace, the last offset."""
        out = {record.key.decode(): record.offset for record in self._few if record.key is not None and record.offset is not None}
        for chunk in self._chunks:
            keys, offsets = chunk.column("key"), chunk.column("offset")
            names = _distinct(keys)
            if len(names) == 1 and names[0] is not None:
                out[names[0].decode()] = offsets[-1].as_py()
                continue
            for key, offset in zip(keys.to_pylist(), offsets.to_pylist(), strict=True):
                if key is not None:
                    out[key.decode()] = offset
        return out

    def _chosen(self, key: bytes | None) -> bool:
        if key is None:
            return False
        chosen = self._names.get(key)
        if chosen is None:
            chosen = self._names[key] = key.decode() in self._work.sink.namespaces
        return chosen

    def _poisoned(self, chunk: pa.RecordBatch) -> bool:
        headers, work = chunk.column("headers"), self._work
        if headers.null_count == len(chunk):
            return False
        first, last = chunk.column("offset")[0].as_py(), chunk.column("offset")[-1].as_py()
        taken = any(start <= first and last < end for start, end in work.lent)
        # On Kafka every record has a mark, most of them the same one: each distinct block of headers is looked at once.
        for block in _distinct(headers):
            marked = dict(decode_headers(block)) if block is not None else {}
            if UNREADABLE in marked or IDS in marked:
                return True
            if (LENT in marked and not taken) or not counts(marked, last, work.claims):
                rows = ((offset, dict(decode_headers(encoded))) for offset, encoded in marked_rows(chunk))
                return not all(counts(row, offset, work.claims, work.lent) for offset, row in rows)
        return False


def marked_rows(chunk: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """The offsets and blocks of the records that have headers: few in a copy."""
    headers = chunk.column("headers")
    if headers.null_count == len(chunk):
        return iter(())
    offsets = chunk.column("offset").filter(headers.is_valid())
    return zip(offsets.to_pylist(), headers.cast(pa.binary()).drop_null().to_pylist(), strict=True)


def _rows(chunk: pa.RecordBatch) -> Iterator[Row]:
    blocks = chunk.column("headers")
    none: list[tuple[Header, ...]] = [()] * len(chunk)
    headers = none if blocks.null_count == len(chunk) else [decode_headers(block) if block else () for block in blocks.to_pylist()]
    columns = [chunk.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value")]
    return zip(*columns, headers, chunk.column("mode").to_pylist(), chunk.column("op").to_pylist(), strict=True)


def _row(record: Record) -> Row:
    return record.offset or 0, record.timestamp or 0, record.key, record.value, record.headers, record.mode, record.op


def _distinct(keys: pa.Array) -> list[bytes | None]:
    distinct: list[bytes | None] = pc.unique(keys.cast(pa.binary())).to_pylist()
    return distinct


def bucket_of(headers: dict[str, bytes | None], value: bytes | None, ids: tuple[str, ...], buckets: int) -> int:
    """The task, of `buckets`, that writes a change: by the hash stored with it, or of the id in its data."""
    stored = headers.get(HASH)
    if stored:
        return int.from_bytes(stored, "big") % buckets
    try:
        data = values.decode(value or b"")
    except BadInput:
        return 0
    return id_hash(Message("", data, id_fields=ids).id) % buckets


def counts(
    headers: dict[str, bytes | None], offset: int, claims: Sequence[tuple[int, int]], lent: Sequence[tuple[int, int]] | None = None
) -> bool:
    """Whether a record counts. On Kafka one does not that a run wrote after a newer run had claimed the log, or that a task wrote whose
    work the run has not taken: `lent` holds the offsets of the others. None: all of them count."""
    claim, epoch = marks(headers.items())
    if claim is not None or (lent is not None and LENT in headers and not any(start <= offset < end for start, end in lent)):
        return False
    return epoch is None or not overtaken(epoch, offset, claims)
