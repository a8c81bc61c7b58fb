"""Appends the pieces of a source to the log, each whole with the position after it, and reads the positions back from the log.

Spark's tasks read the slices of a copy in parallel, or the run reads them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.files import FileLock, Files
from headwater.log import Log, Writer
from headwater.log.layout import decode_headers, encode_headers
from headwater.log.record import Header, Mode, Record
from headwater.pipeline import values
from headwater.pipeline.adaptor import LONGEST, CanCopy, Piece, Slice
from headwater.pipeline.message import DEFAULT_ID, Op
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.running.record_batch import counts, id_hash, marked_rows
from headwater.pipeline.running.work import HASH, IDS, PROGRESS, UNREADABLE, CopyProgress, Ids
from headwater.pipeline.texts import Texts

FOLLOWING = -1  # the slice number of what is followed
_BEGINNING = 64 << 10


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


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a round read of a slice."""

    slice: int
    position: Any
    finished: bool
    amount: int = 0  # of the slice, in all rounds so far
    records: int = 0
    bytes: int = 0


def copy_slices(log: Log, work: CopyWork, task: int, numbers: Sequence[int]) -> list[Copied]:
    """Read on in these slices, one after the other, until the round's share is read.

    A second attempt of a task goes on where the records of the first one end: their positions are in the log. The lock of a task makes
    the second attempt wait until the first one is dead, so that it sees all of its records.
    """
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


def copy_slice(work: CopyWork, at: CopyProgress, writer: Writer, pieces: Iterator[Piece], *, most: int) -> Copied:
    """Read a slice's pieces behind `at` until it ends or `most` bytes are read; every piece is one append with its position."""
    part = work.slices[at.slice]
    records = size = 0
    finished = False
    while size < most and not finished:
        piece = next(pieces, None)
        finished = piece is None
        if piece is not None:
            amount = piece.amount if piece.amount is not None else at.amount + (len(piece.messages) or len(piece.values))
            if part.size is not None:
                amount = min(amount, part.size)  # a line that begins in a slice may end after it
            at = CopyProgress(at.copy, at.slice, piece.position, amount)
            count, length = append(writer, piece, part.namespace, at, ids=work.ids)
            records, size = records + count, size + length
    amount = part.size if finished and part.size is not None else at.amount
    return Copied(slice=at.slice, position=at.position, finished=finished, amount=amount, records=records, bytes=size)


def append(
    writer: Writer, piece: Piece, namespace: str, progress: CopyProgress, *, ids: Ids, mode: Mode = Mode.COPY, longest: int = LONGEST
) -> tuple[int, int]:
    """Append a piece whole, its last record carrying the position; how many records and bytes of documents. None for an empty piece.

    `namespace`: of a piece that has documents and no messages. `ids`: what the plan says of them. `longest`: bytes of a document; of a
    longer one its beginning is kept, as a record that could not be read.
    """
    if piece.messages:
        records = _records(piece, progress, mode, ids, longest)
        writer.append(records)
        return len(records), sum(len(one.value or b"") for one in records)
    if not piece.values:
        return 0, 0
    texts = piece.values if isinstance(piece.values, Texts) else Texts(pa.array(piece.values, pa.binary()))
    bad, size = dict(piece.bad), texts.size
    if size > longest and texts.longest > longest:
        whole = list(texts)
        bad |= {index: _too_long(text, longest) for index, text in enumerate(whole) if len(text) > longest}
        texts = Texts(pa.array([text[:_BEGINNING] if len(text) > longest else text for text in whole], pa.binary()))
    writer.append_arrow(_columns(texts, bad, namespace, progress))
    return len(texts), size


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
        text = values.encode(message.data)
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


def progress_in(log: Log, topic: str, start: int, copy: str, claims: Sequence[tuple[int, int]] = ()) -> dict[int, CopyProgress]:
    """How far each slice of a copy has come, by the records at `start` and behind it."""
    found: dict[int, CopyProgress] = {}
    if start >= log.bounds(topic, 0).end:
        return found
    for chunk in log.scan(topic, 0, start):
        for offset, block in marked_rows(chunk):
            marked = dict(decode_headers(block))
            value = marked.get(PROGRESS)
            if value is not None and counts(marked, offset, claims):
                progress = msgspec.json.decode(value, type=CopyProgress)
                if progress.copy == copy:
                    found[progress.slice] = progress
    return found
