"""Appends the pieces of a source to the log, each whole with the position after it, and reads the positions back from the log.

Spark's tasks read the slices of a copy in parallel, or the run reads them itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.errors import Timeout, Unavailable, Unreachable
from headwater.core.files import FileLock, Files
from headwater.log import Log, Writer
from headwater.log.layout import decode_headers, encode_headers
from headwater.log.record import Header, Mode, Record
from headwater.pipeline import values
from headwater.pipeline.id_hash import id_hash
from headwater.pipeline.message import DEFAULT_ID, Op
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.ranges import Span, joined
from headwater.pipeline.piece_size import pieces_up_to
from headwater.pipeline.running.record_batch import counts, marked_rows
from headwater.pipeline.running.work import HASH, IDS, PROGRESS, UNREADABLE, Away, CopyProgress, Ids
from headwater.pipeline.source_adaptor import LONGEST, CanCopy, Piece, Slice
from headwater.pipeline.texts import Texts

FOLLOWING = -1  # the slice number of what is followed
_BEGINNING = 64 << 10
_REREADING = 4  # so many times as long as a source takes to come to a position, a task reads on behind it


class CopyWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a task needs to read slices."""

    pipeline: str
    topic: str
    adaptor: CanCopy
    slices: dict[int, Slice]  # by number
    copy: str
    epoch: int
    generation: str = ""  # of the topic that the run has claimed
    ids: Ids
    progress: dict[int, CopyProgress]  # of slices that are begun, as known when the round began, at `since`
    since: int
    most: int  # bytes that one round reads: sinks want their turn
    seconds: float = 10.0  # after which a task on Kafka ends its round: until then, sinks are given nothing of what it has read
    piece: int | None = None  # bytes of a piece; None: as the adaptor has them


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a round read of a slice."""

    slice: int
    position: Any
    finished: bool
    amount: int = 0  # of the slice, in all rounds so far
    records: int = 0
    bytes: int = 0
    offsets: tuple[Span, ...] = ()  # of the records, of tasks on Kafka
    away: Away | None = None  # why a task on Kafka reads no further


def copy_slices(
    log: Log, work: CopyWork, task: int, numbers: Sequence[int], *, monotonic: Callable[[], float] = time.monotonic
) -> list[Copied]:
    """Read on in these slices, one after the other, until the round's share is read.

    Spark may begin a second attempt of a task while the first one still writes. On the embedded engine the second attempt goes on where
    the records of the first one end: their positions are in the log. The lock of a task makes the second attempt wait until the first
    one is dead, so that it sees all of its records. On Kafka both attempts begin where the round began, and only the records count whose
    offsets come back to the run with the result of the attempt that Spark takes (`ReadingPosition.lent`).
    """
    if log.engine == "kafka":
        return _copy_lent(log, work, numbers, monotonic)
    folder = Path(log.address.path) / "pipelines" / work.pipeline
    folder.mkdir(parents=True, exist_ok=True)
    with closing(FileLock(Files(), folder / f"task-{task}.lock")) as lock:
        lock.exclusive()
        known = work.progress | progress_in(log, work.topic, work.since, work.copy)
        writer = log.writer(work.topic, 0, work.epoch, generation=work.generation, part=PART)
        done: list[Copied] = []
        left = work.most
        for number in numbers:
            at = known.get(number, CopyProgress(work.copy, number))
            done.append(copy_slice(work, at, writer, work.adaptor.read(work.slices[number], at.position), most=left))
            left -= done[-1].bytes
            if left <= 0:
                break
        return done


class _RoundTime:
    """When a task's round ends. A compressed file is read from its beginning again: a round lasts several times as long as that."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._end = monotonic, monotonic() + seconds

    def over(self) -> bool:
        return self._monotonic() >= self._end

    def reading(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The pieces. The later the first one comes, the later the round ends."""
        began, first = self._monotonic(), True
        for piece in pieces:
            if first:
                now, first = self._monotonic(), False
                self._end = max(self._end, now + _REREADING * (now - began))
            yield piece


def _copy_lent(log: Log, work: CopyWork, numbers: Sequence[int], monotonic: Callable[[], float]) -> list[Copied]:
    writer, ends = log.writer(work.topic, 0, work.epoch, generation=work.generation, part=PART), _RoundTime(work.seconds, monotonic)
    done: list[Copied] = []
    left = work.most
    for number in numbers:
        at = work.progress.get(number, CopyProgress(work.copy, number))
        pieces = ends.reading(work.adaptor.read(work.slices[number], at.position))
        done.append(copy_slice(work, at, writer, pieces, most=left, over=ends.over, lent=True))
        left -= done[-1].bytes
        if left <= 0 or done[-1].away is not None or ends.over():
            break
    return done


def copy_slice(
    work: CopyWork,
    at: CopyProgress,
    writer: Writer,
    pieces: Iterator[Piece],
    *,
    most: int,
    over: Callable[[], bool] = lambda: False,
    lent: bool = False,
) -> Copied:
    """Read a slice's pieces behind `at` until it ends or `most` bytes are read; every piece is one append with its position.

    `lent`: return what was read before `Unavailable`, and `over` ends the round. Raised, the error would cost the round of every task.
    """
    part = work.slices[at.slice]
    records = size = 0
    spans: list[Span] = []
    away: Away | None = None
    finished = False
    while size < most and not finished and away is None and not (records and over()):
        try:
            with pieces_up_to(work.piece):
                piece = next(pieces, None)
            finished = piece is None
            if piece is not None:
                amount = piece.amount if piece.amount is not None else at.amount + (len(piece.messages) or len(piece.values))
                if part.size is not None:
                    amount = min(amount, part.size)  # a line that begins in a slice may end after it
                behind = CopyProgress(at.copy, at.slice, piece.position, amount)
                offsets, length = _appended(writer, piece, part.namespace, behind, ids=work.ids)
                at, records, size = behind, records + len(offsets), size + length
                spans += _spans(offsets) if lent else ()
        except Unavailable as error:
            if not lent or not (records or isinstance(error, Unreachable | Timeout)):
                raise  # the next attempt may reach the brokers
            away = Away.of(error)
    amount = part.size if finished and part.size is not None else at.amount
    return Copied(
        slice=at.slice,
        position=at.position,
        finished=finished,
        amount=amount,
        records=records,
        bytes=size,
        offsets=tuple(joined(spans)),
        away=away,
    )


def _spans(offsets: Sequence[int]) -> Iterator[Span]:
    """Offsets in ascending order as ranges: records of other tasks may lie between them."""
    if offsets and offsets[-1] - offsets[0] + 1 == len(offsets):
        yield offsets[0], offsets[-1] + 1
        return
    start = 0
    for at in range(1, len(offsets) + 1):
        if at == len(offsets) or offsets[at] != offsets[at - 1] + 1:
            yield offsets[start], offsets[at - 1] + 1
            start = at


def append(
    writer: Writer, piece: Piece, namespace: str, progress: CopyProgress, *, ids: Ids, mode: Mode = Mode.COPY, longest: int = LONGEST
) -> tuple[int, int]:
    """Append a piece whole, its last record carrying the position; how many records and bytes of documents. None for an empty piece.

    `namespace`: of a piece that has documents and no messages. `ids`: what the plan says of them. `longest`: bytes of a document; of a
    longer one its beginning is kept, as a record that could not be read.
    """
    offsets, size = _appended(writer, piece, namespace, progress, ids=ids, mode=mode, longest=longest)
    return len(offsets), size


def _appended(
    writer: Writer, piece: Piece, namespace: str, progress: CopyProgress, *, ids: Ids, mode: Mode = Mode.COPY, longest: int = LONGEST
) -> tuple[Sequence[int], int]:
    """`append`, with the offsets of the records in place of their number."""
    if piece.messages:
        records = _records(piece, progress, mode, ids, longest)
        return writer.append(records), sum(len(record.value or b"") for record in records)
    if not piece.values:
        return (), 0
    texts = piece.values if isinstance(piece.values, Texts) else Texts(pa.array(piece.values, pa.binary()))
    bad, size = dict(piece.bad), texts.size
    if size > longest and texts.longest > longest:
        whole = list(texts)
        bad |= {index: _too_long(text, longest) for index, text in enumerate(whole) if len(text) > longest}
        texts = Texts(pa.array([text[:_BEGINNING] if len(text) > longest else text for text in whole], pa.binary()))
    return writer.append_arrow(_columns(texts, bad, namespace, progress)), size


def _too_long(text: bytes, longest: int) -> str:
    return f"The document has {len(text)} bytes, and a record of the log at most {longest}: only its beginning was kept."


def _columns(texts: Texts, bad: dict[int, str], namespace: str, progress: CopyProgress) -> pa.RecordBatch:
    """The records of a copy's documents, all of one namespace, as columns: no Python step for each."""
    count = len(texts)
    marks: dict[int, list[Header]] = {index: [(UNREADABLE, why.encode())] for index, why in bad.items()}
    marks.setdefault(count - 1, []).append((PROGRESS, msgspec.json.encode(progress)))
    blocks: list[bytes | None] = [None] * count
    for index, headers in marks.items():
        blocks[index] = encode_headers(headers)
    columns = [pa.repeat(pa.scalar(namespace.encode(), pa.binary()), count), texts.column, pa.array(blocks, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])


def _records(piece: Piece, progress: CopyProgress, mode: Mode, ids: Ids, longest: int) -> list[Record]:
    records, bad = [], dict(piece.bad)
    for index, message in enumerate(piece.messages):
        headers: list[Header] = [(HASH, id_hash(message.id).to_bytes(4, "big"))] if mode == Mode.SYNC else []
        if message.id_fields != tuple(ids.get(message.namespace, DEFAULT_ID)):  # a table that was made after the plan
            headers.append((IDS, msgspec.json.encode(message.id_fields)))
        text = values.store(message.data)
        if len(text) > longest:
            text, bad[index] = text[:_BEGINNING], _too_long(text, longest)
        record = Record(message.namespace.encode(), text, tuple(headers), message.timestamp or None, mode, int(message.op))
        records.append(record)
    for index, why in bad.items():
        records[index] = msgspec.structs.replace(records[index], headers=(*records[index].headers, (UNREADABLE, why.encode())))
    last = records[-1]
    records[-1] = msgspec.structs.replace(last, headers=(*last.headers, (PROGRESS, msgspec.json.encode(progress))))
    return records


def complete_records(namespaces: Sequence[str]) -> list[Record]:
    """The records that mark the copy of each namespace as complete."""
    return [Record(name.encode(), b"{}", mode=Mode.COMPLETE, op=int(Op.NOOP)) for name in namespaces]


def progress_in(
    log: Log, topic: str, start: int, copy: str, claims: Sequence[Span] = (), lent: Sequence[Span] | None = None
) -> dict[int, CopyProgress]:
    """How far each slice of a copy has come, by the records at `start` and behind it. `claims`, `lent`: as `counts` takes them."""
    return {progress.slice: progress for progress in positions_in(log, topic, start, claims, lent) if progress.copy == copy}


def positions_in(
    log: Log, topic: str, start: int, claims: Sequence[Span] = (), lent: Sequence[Span] | None = None
) -> Iterator[CopyProgress]:
    """The positions of every copy, in the order of the log."""
    bounds = log.bounds(topic, 0)
    if max(start, bounds.start) >= bounds.end:
        return
    for chunk in log.scan(topic, 0, max(start, bounds.start)):
        for offset, block in marked_rows(chunk):
            marked = dict(decode_headers(block))
            value = marked.get(PROGRESS)
            if value is not None and counts(marked, offset, claims, lent):
                yield msgspec.json.decode(value, type=CopyProgress)
