"""Delivering a part of the log to a sink: read, filter, correct, transform, write. The same function inside Spark's tasks and, one message
at a time, in the run itself."""

from __future__ import annotations

import re
import traceback
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import BadInput, Fenced, HeadwaterError, Rejected, Unavailable
from headwater.log import Log
from headwater.log.epochs import marks
from headwater.log.layout import decode_headers
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, SinkWriter
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.state import Failure
from headwater.pipeline.transform import Apply, chain
from headwater.pipeline.work import HASH, UNREADABLE, Delivery, Outcome

_OPS = list(Op)
_MODES = list(Mode)


def deliver(log: Log, work: Delivery, part: Part, *, batch: int) -> Outcome:
    """Write the messages of a part; say how far that came. What is wrong with a message is part of the result, never an exception.

    Errors: `Unavailable` (and kinds of it) when the sink or the log cannot be used at all; `Fenced` when a newer run has begun.
    """
    writer = work.sink.adaptor.writer(part)
    try:
        return _Delivering(log, work, part, writer, batch).run()
    finally:
        writer.close()


class _Delivering:
    """One call of `deliver`."""

    def __init__(self, log: Log, work: Delivery, part: Part, writer: SinkWriter, batch: int) -> None:
        self._log, self._work, self._part, self._writer, self._batch = log, work, part, writer, batch
        self._apply: Apply | None = chain(work.sink.transforms) if work.sink.transforms else None
        self._written = 0
        self._last: dict[str, int] = {}
        self._taken = part.start  # everything below is written
        self._writing = False

    def run(self) -> Outcome:
        failure: Failure | None = None
        for start in range(self._part.start, self._part.end, self._batch):
            end = min(self._part.end, start + self._batch)
            try:
                self._one(start, end)
            except Rejected as no:
                failure = self._failed(no, start, end)
                break
            self._taken = end
        receipt = self._writer.finish()
        part = self._part
        return Outcome(
            start=part.start,
            end=part.end,
            acked=self._taken,
            bucket=part.bucket,
            buckets=part.buckets,
            attempt=part.attempt,
            written=self._written,
            last={name: offset for name, offset in self._last.items() if offset < self._taken},
            failure=failure,
            receipt=receipt,
        )

    def _one(self, start: int, end: int) -> None:
        """One batch, all of it or `Rejected`."""
        self._check_epoch()
        found = Found(self._log, self._work, start, end, self._part)
        if self._apply is None and type(self._writer).takes_text and (text := found.text()) is not None:
            self._write(Batch(start=start, end=end, values=text), found.last())
            return
        self._write(Batch(start=start, end=end, messages=self._transformed(found.messages())), found.last())

    def _transformed(self, messages: Sequence[Message]) -> list[Message]:
        if self._apply is None:
            return list(messages)
        return [message for message in self._apply(messages) if message is not None and message.op not in (Op.NOOP, Op.SKIP)]

    def _write(self, batch: Batch, last: dict[str, int]) -> None:
        self._writing = True
        try:
            self._writer.write(batch)
        except (Rejected, Unavailable, Fenced):
            raise
        except HeadwaterError as error:  # an adaptor's own word on data, without an offset: the batch is to blame, one by one tells more
            raise Rejected(error.message, offset=-1, hint=error.hint) from error
        except Exception as error:  # an adaptor's bug, or a client's error that it does not know: better seen at its record than lost
            raise Rejected(f"{type(error).__name__}: {error}", offset=-1, trace=traceback.format_exc(limit=-8)) from error
        self._writing = False
        self._written += len(batch)
        self._last.update(last)

    def _failed(self, no: Rejected, start: int, end: int) -> Failure:
        """Take what lies before a refused message in its batch, where that can be known; say what was refused."""
        offset = start if no.offset < 0 and end - start == 1 else no.offset
        if self._writing:
            if no.before_taken and offset > start:
                self._taken = offset
                self._last.update(Found(self._log, self._work, start, offset, self._part).last())
        elif offset > start:  # a transform's failure, or one of reading: nothing of this batch is written yet
            with suppress(Rejected):
                self._one(start, offset)
                self._taken = offset
        exact = offset == self._taken
        return Failure(
            offset=offset if offset >= 0 else start,
            error=_kind(no),
            message=no.message,
            trace=no.trace,
            start=-1 if exact else self._taken,
            end=-1 if exact else end,
        )

    def _check_epoch(self) -> None:
        now = self._log.epoch(self._work.topic, 0)
        if now > self._work.epoch:
            raise Fenced(f"A newer run of {self._work.pipeline} has begun.", hint="See `headwater pipeline status`.")


class Found:
    """The records of [start, end) that belong to a part, before anything is decoded."""

    def __init__(self, log: Log, work: Delivery, start: int, end: int, part: Part) -> None:
        self._work, self._start, self._end = work, start, end
        self._chunks = list(_scan(log, work.topic, start, end))
        self._part = part
        self._names: dict[bytes, bool] = {}

    def text(self) -> list[bytes] | None:
        """The documents as they are stored, where all are plain inserts and none is to be corrected or left out one by one; else None."""
        work = self._work
        if self._part.buckets > 1 or any(self._start <= offset < self._end for offset in work.edits):
            return None
        out: list[bytes] = []
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
        work, part = self._work, self._part
        out: list[Message] = []
        for chunk in self._chunks:
            plain = None if leave_out or part.buckets > 1 else self._plain(chunk)
            if plain is not None:
                out += plain
                continue
            headers = chunk.column("headers").to_pylist() if chunk.column("headers").null_count < len(chunk) else None
            rows = zip(
                chunk.column("offset").to_pylist(),
                chunk.column("timestamp").to_pylist(),
                chunk.column("key").to_pylist(),
                chunk.column("value").to_pylist(),
                headers or [None] * len(chunk),
                chunk.column("mode").to_pylist(),
                chunk.column("op").to_pylist(),
                strict=True,
            )
            for offset, timestamp, key, value, block, mode, op in rows:
                if mode == Mode.COMPLETE or op >= Op.NOOP or key is None or not self._chosen(key) or offset in leave_out:
                    continue
                marked = dict(decode_headers(block)) if block else {}
                if marked and not counts(marked, offset, work.claims):
                    continue
                namespace = key.decode()
                ids = work.ids.get(namespace, ("_id",))
                edit = work.edits.get(offset)
                if part.buckets > 1 and bucket_of(marked, value, ids, part.buckets) != part.bucket:
                    continue
                if edit is not None:
                    data = msgspec.to_builtins(edit, builtin_types=(Decimal,))  # a function may change what it is given
                elif UNREADABLE in marked:
                    raise Rejected((marked[UNREADABLE] or b"").decode(), offset=offset, hint="Correct it with `headwater pipeline edit`.")
                else:
                    try:
                        data = values.decode(value or b"")
                    except BadInput as error:
                        raise Rejected(error.message, offset=offset, hint="Correct it with `headwater pipeline edit`.") from error
                out.append(Message(namespace, data, _OPS[op], timestamp, _MODES[mode], offset, ids))
        return out

    def _plain(self, chunk: pa.RecordBatch) -> list[Message] | None:
        """The messages of a chunk in which nothing has to be looked at one by one; else None."""
        offsets = chunk.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        names = _distinct(chunk.column("key"))
        ordinary = len(names) == 1 and names[0] is not None and not pc.max(chunk.column("op")).as_py()
        if not ordinary or self._poisoned(chunk) or any(first <= offset <= last for offset in self._work.edits):
            return None
        modes = pc.min_max(chunk.column("mode")).as_py()
        if modes["min"] != modes["max"] or not self._chosen(names[0]):
            return None if modes["min"] != modes["max"] else []
        namespace = (names[0] or b"").decode()
        ids, mode, op, decode = self._work.ids.get(namespace, ("_id",)), _MODES[modes["min"]], Op.INSERT, values.decode
        rows = zip(chunk.column("value").to_pylist(), chunk.column("timestamp").to_pylist(), offsets.to_pylist(), strict=True)
        out: list[Message] = []
        try:
            for value, timestamp, offset in rows:
                out.append(Message(namespace, decode(value), op, timestamp, mode, offset, ids))
        except BadInput as error:
            raise Rejected(error.message, offset=offset, hint="Correct it with `headwater pipeline edit`.") from error
        return out

    def last(self) -> dict[str, int]:
        """By namespace, the last offset."""
        out: dict[str, int] = {}
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
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = key.decode() in self._work.sink.namespaces
        return found

    def _poisoned(self, chunk: pa.RecordBatch) -> bool:
        headers = chunk.column("headers")
        if headers.null_count == len(chunk):
            return False
        for offset, block in zip(chunk.column("offset").to_pylist(), headers.to_pylist(), strict=True):
            if block:
                marked = dict(decode_headers(block))
                if UNREADABLE in marked or not counts(marked, offset, self._work.claims):
                    return True
        return False


def _scan(log: Log, topic: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    if end - start > 8:
        yield from (chunk for chunk in log.scan(topic, 0, start, end, batch=end - start) if len(chunk))
        return
    from headwater.log.arrow import SCHEMA
    from headwater.log.layout import encode_headers

    records = [one for one in log.read(topic, 0, start, limit=end - start) if one.offset is not None and one.offset < end]
    if records:
        rows = [
            {
                "offset": one.offset,
                "timestamp": one.timestamp or 0,
                "key": one.key,
                "value": one.value,
                "headers": encode_headers(one.headers) if one.headers else None,
                "mode": one.mode,
                "op": one.op,
            }
            for one in records
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _distinct(keys: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = pc.unique(keys.cast(pa.binary())).to_pylist()
    return found


def bucket_of(headers: dict[str, bytes | None], value: bytes | None, ids: tuple[str, ...], buckets: int) -> int:
    """Which of `buckets` tasks writes a change: by the hash stored with it, or of the id in its data."""
    stored = headers.get(HASH)
    if stored:
        return int.from_bytes(stored, "big") % buckets
    try:
        data = values.decode(value or b"")
    except BadInput:
        return 0
    return id_hash(Message("", data, id_fields=ids).id) % buckets


def id_hash(value: object) -> int:
    """The same for equal ids in every process and version."""
    return crc32(values.canonical(value))


def counts(headers: dict[str, bytes | None], offset: int, claims: Sequence[tuple[int, int]]) -> bool:
    """Whether a record of Kafka's counts: not one that a run wrote after a newer run had claimed the log."""
    claim, epoch = marks(headers.items())
    if claim is not None:
        return False
    return epoch is None or not any(other > epoch and end <= offset for other, end in claims)


def _kind(no: Rejected) -> str:
    found = re.match(r"(?:Transform .+? raised )?([A-Z]\w*(?:Error|Exception)):", no.message)
    return found[1] if found else type(no).__name__


def encode_outcome(outcome: Outcome) -> bytes:
    return msgspec.json.encode(outcome)


def decode_outcome(data: bytes) -> Outcome:
    return msgspec.json.decode(data, type=Outcome)
